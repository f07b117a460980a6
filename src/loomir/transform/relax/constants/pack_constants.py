"""Prepack constant weights: store them once in the order in which kernels read them."""

from __future__ import annotations

from collections.abc import Callable, Set
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, TypeAlias

from loomir.ir.equality import structural_equal
from loomir.ir.hashing import structural_hash
from loomir.ir.module import BaseFunc, GlobalVar, IRModule
from loomir.ir.passes import register
from loomir.ir.visit import by_class
from loomir.relax.expr import Call, Constant, Function, Tuple
from loomir.relax.node import RelaxExpr
from loomir.relax.normal.rewriter import Rewriter
from loomir.support.array import Array, empty_on_line
from loomir.support.dtype import numpy_of
from loomir.tir.expr import IntImm
from loomir.tir.function import PrimFunc
from loomir.tir.prepared_function import Preparation, PreparedBuffer, PreparedFunction
from loomir.transform.relax.graph_reading import operator_of

__all__ = ["PackConstantsOptions", "pack_constants"]

_CALLS: Final = ("call_tir", "call_tir_inplace")

PrepareFunction: TypeAlias = Callable[[PrimFunc, Set[int]], "PreparedFunction | None"]
BuildFunctions: TypeAlias = Callable[[IRModule], Callable[[str], Callable[..., Any]]]


@dataclass(frozen=True, slots=True)
class PackConstantsOptions:
    """``prepare`` returns the part of a kernel that can be computed from its constant arguments.

    ``build`` compiles a module of such parts, and returns the functions by name. Without these
    callbacks the pass does nothing: packed layouts depend on schedules, and so on the machine.
    """

    prepare: PrepareFunction | None = None
    build: BuildFunctions | None = None


@register("relax.PackConstants", requires={"relax_normal_form"}, breaks={"functions_used"})
def pack_constants(
    mod: IRModule, options: PackConstantsOptions = PackConstantsOptions()
) -> IRModule:
    """Call scheduled kernels that take prepacked weights, which are constants of the module.

    A weight that several calls share is packed and stored once. The original stays if something
    else uses it.
    """
    if options.prepare is None or options.build is None:
        return mod
    pack = _Pack(mod, options.prepare)
    for func in mod.functions.values():
        if isinstance(func, Function):
            for call in by_class(func).get(Call, ()):
                pack.see(call)
    if not pack.tasks:
        return mod
    pack.compute(options.build)
    return pack.rewrite_module()


class _Kernel(NamedTuple):
    prepared: PreparedFunction
    numbers: tuple[int, ...]
    """For each preparation, the number of the packing function; equal ones share a function."""


_Key: TypeAlias = "tuple[str, frozenset[int]]"
_Task: TypeAlias = "tuple[int, tuple[int, ...]]"
"""The number of a packing function, and the identities of its constant arguments."""


class _Pack(Rewriter):
    def __init__(self, mod: IRModule, prepare: PrepareFunction) -> None:
        super().__init__(mod)
        self.prepare = prepare
        self.kernels: dict[_Key, _Kernel | None] = {}
        self.names: dict[_Key, GlobalVar] = {}
        self.functions: list[Preparation] = []
        self.by_hash: dict[int, list[int]] = {}
        self.tasks: dict[_Task, tuple[Array, ...]] = {}
        self.made: dict[_Task, tuple[Constant, ...]] = {}

    # -- planning ----------------------------------------------------------------------------------
    def see(self, call: Call) -> None:
        """Record what has to be packed for a call."""
        found = self._kernel(call)
        if found is None:
            return
        fields = _fields(call)
        for task, (_, places) in zip(_tasks(found, fields), found.prepared.preparations):
            self.tasks[task] = tuple([_constant(fields[place]).data for place in places])

    def _kernel(self, call: Call) -> _Kernel | None:
        key = self._key(call)
        if key is None:
            return None
        if key not in self.kernels:
            func = self.mod[key[0]]
            prepared = self.prepare(func, key[1]) if isinstance(func, PrimFunc) else None
            self.kernels[key] = None
            if prepared is not None:
                numbers = tuple([self._number(part) for part in prepared.preparations])
                self.kernels[key] = _Kernel(prepared, numbers)
        return self.kernels[key]

    def _key(self, call: Call) -> _Key | None:
        kernel = call.op if isinstance(call.op, GlobalVar) else None
        if operator_of(call) in _CALLS:
            kernel = call.args[0]
        if not isinstance(kernel, GlobalVar):
            return None
        fields = _fields(call)
        places = frozenset(i for i, field in enumerate(fields) if isinstance(field, Constant))
        return (kernel.name_hint, places) if places else None

    def _number(self, part: Preparation) -> int:
        same = self.by_hash.setdefault(structural_hash(part.func), [])
        for number in same:
            if structural_equal(self.functions[number].func, part.func):
                return number
        same.append(len(self.functions))
        self.functions.append(part)
        return same[-1]

    # -- packing -----------------------------------------------------------------------------------
    def compute(self, build: BuildFunctions) -> None:
        """Pack all constants."""
        module: dict[GlobalVar, BaseFunc] = {}
        for number, part in enumerate(self.functions):
            func, name = part.func, f"pack{number}"
            attrs = {**func.attrs, "global_symbol": name}
            module[GlobalVar(name)] = PrimFunc(
                func.params, func.body, func.ret_type, func.buffer_map, attrs, span=func.span
            )
        run = build(IRModule(module))
        for task, inputs in self.tasks.items():
            func = self.functions[task[0]].func
            outputs = [func.buffer_map[p] for p in func.params[len(inputs) :]]
            arrays = [
                empty_on_line(
                    [e.value for e in b.shape if isinstance(e, IntImm)], numpy_of(b.dtype)
                )
                for b in outputs
            ]
            run(f"pack{task[0]}")(*[x.read_once() for x in inputs], *arrays)
            self.made[task] = tuple([Constant(Array.wrap_own(array)) for array in arrays])

    def rewrite_call(self, call: Call) -> RelaxExpr:
        """Call the kernel that takes packed constants."""
        found, key = self._kernel(call), self._key(call)
        if found is None or key is None:
            return call
        fields = _fields(call)
        made = [self.made[task] for task in _tasks(found, fields)]
        arguments = found.prepared.arguments
        given: list[RelaxExpr] = []
        for argument in arguments:
            if isinstance(argument, PreparedBuffer):
                given.append(made[argument.preparation][argument.buffer])
            elif argument < len(fields):
                given.append(fields[argument])
        if key not in self.names:
            func = found.prepared.func
            attrs = {k: v for k, v in func.attrs.items() if k != "global_symbol"}
            private = PrimFunc(
                func.params, func.body, func.ret_type, func.buffer_map, attrs, span=func.span
            )
            self.names[key] = self.builder.add_func(private, f"{key[0]}_packed")
        name = self.names[key]
        if isinstance(call.op, GlobalVar):
            return Call(name, tuple(given), span=call.span)
        attrs = dict(call.attrs)
        written = attrs.get("inplace_indices")
        if written is not None:
            attrs["inplace_indices"] = tuple(
                [place if place < 0 else arguments.index(place) for place in written]
            )
        args = (name, Tuple(tuple(given)), *call.args[2:])
        return Call(call.op, args, call.sinfo_args, attrs, span=call.span)


def _fields(call: Call) -> tuple[RelaxExpr, ...]:
    """List the arguments of a direct call, or the inputs of a ``call_tir``."""
    if isinstance(call.op, GlobalVar):
        return call.args
    given = call.args[1]
    return given.fields if isinstance(given, Tuple) else ()


def _constant(field: RelaxExpr) -> Constant:
    assert isinstance(field, Constant)
    return field


def _tasks(kernel: _Kernel, fields: tuple[RelaxExpr, ...]) -> list[_Task]:
    return [
        (number, tuple([id(_constant(fields[place]).data) for place in part.arguments]))
        for number, part in zip(kernel.numbers, kernel.prepared.preparations, strict=True)
    ]
