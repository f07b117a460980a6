"""Facts of graphs: properties on which passes rely, each with its checker.

The checker of normal form is in ``relax/normal/normalize.py``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple, TypeGuard

from loomir.check.relax.verify import derivation_mistakes
from loomir.check.relax.well_formed import well_formed
from loomir.ir.module import GlobalVar, IRModule
from loomir.ir.op import Op
from loomir.ir.passes import Subject, fact, function_fact
from loomir.ir.visit import by_class
from loomir.relax.expr import (
    Call,
    DataflowBlock,
    DataflowVar,
    Function,
    PrimValue,
    SeqExpr,
    Var,
    VarBinding,
)
from loomir.relax.operator.definition import op_def
from loomir.relax.shape import ShapeExpr
from loomir.relax.struct_info import TensorStructInfo
from loomir.support.diagnostics import Diagnostic
from loomir.tir.expr import Call as PrimCall
from loomir.tir.expr import IntImm
from loomir.tir.function import PrimFunc
from loomir.transform.relax.fusion.kernel_groups import groups_of
from loomir.transform.relax.graph_reading import extent_of
from loomir.transform.relax.memory.aliases import find_aliases
from loomir.transform.relax.memory.memory_plan import ALIGNMENT, ARENA

__all__ = ["GENERATED", "LOWERED_GRAPH"]

GENERATED: Final = frozenset({"relax.builtin.alloc_tensor", "relax.size"})
"""Operators that code generation takes, although lowering could replace them."""

LOWERED_GRAPH: Final = frozenset(
    {
        "arenas_planned",
        "functions_used",
        "no_kernel_groups",
        "operators_lowered",
        "relax_derived",
        "relax_normal_form",
        "relax_well_formed",
    }
)
"""The facts that code generation relies on, which lowering of graphs establishes."""


@fact("relax_well_formed")
def relax_well_formed(mod: IRModule) -> Iterator[Diagnostic]:
    """Variables are bound once and used in scope; called functions are in the module.

    Devices are an exception: derived information may name one that is not listed in the module.
    """
    found = well_formed(mod)
    return (one for one in found if one.severity == "error" and one.code != "RLX0124")


@function_fact("relax_derived", Function)
def relax_derived(subject: Subject) -> list[Diagnostic]:
    """Operators, kernels and functions accept the arguments of their calls.

    Annotations agree with derived information, and calls are pure where they must be.
    """
    return derivation_mistakes(subject.func, subject.mod)


@function_fact("operators_lowered", Function)
def operators_lowered(subject: Subject) -> Iterator[Diagnostic]:
    """Only operators remain that code generation supports and that no kernel could compute."""
    for call in subject.parts.get(Call, ()):
        if isinstance(call.op, Op) and call.op.name not in GENERATED:
            known = op_def(call.op)
            if known.lower or known.legalize or known.reference:
                yield _wrong(subject, f"calls {call.op.name}, which has a kernel", call)


@fact("no_kernel_groups")
def no_kernel_groups(mod: IRModule) -> Iterator[Diagnostic]:
    """No group of annotated kernels remains that can be fused into one kernel.

    A function that only calls such a group becomes a group itself, of one kernel without
    annotation.
    """
    for name, group in groups_of(mod).items():
        if all("op_pattern" in member.kernel.attrs for member in group.members):
            yield _about(mod[name], f"function {name!r} is a group of kernels")


@function_fact("no_dataflow", Function)
def no_dataflow(subject: Subject) -> Iterator[Diagnostic]:
    """There are no dataflow blocks and variables, so that calls may have effects."""
    for kind in (DataflowBlock, DataflowVar):
        for part in subject.parts.get(kind, ())[:1]:
            yield _wrong(subject, f"has a {kind.__name__}", part)


@fact("functions_used")
def functions_used(mod: IRModule) -> Iterator[Diagnostic]:
    """Every function is public, or used by a function that is used."""
    functions = {var.name_hint: func for var, func in mod.functions.items()}
    todo = [name for name, func in functions.items() if "global_symbol" in func.attrs]
    used = set(todo)
    if not used:
        return
    while todo:
        parts = by_class(functions[todo.pop()])
        named = {var.name_hint for var in parts.get(GlobalVar, ())}
        calls = parts.get(PrimCall, ())
        named.update(call.op.name_hint for call in calls if isinstance(call.op, GlobalVar))
        fresh = named & functions.keys() - used
        used |= fresh
        todo += fresh
    for name in functions.keys() - used:
        yield _about(functions[name], f"nothing uses the function {name!r}")


def _wrong(subject: Subject, what: str, place: object) -> Diagnostic:
    return _about(place, f"function {subject.func.name!r} {what}")


def _about(place: object, message: str) -> Diagnostic:
    return Diagnostic("FACT", message, getattr(place, "span", None))


# -- memory ----------------------------------------------------------------------------------------
class _StorageRange(NamedTuple):
    """A tensor in storage: its range of bytes, and its live range in bindings."""

    name: str
    start: int
    end: int
    first: int
    last: int


@function_fact("arenas_planned", Function)
def arenas_planned(subject: Subject) -> Iterator[Diagnostic]:
    """Tensors in an arena lie within it, on cache lines, and no two live ones overlap.

    An arena is recognised by its name and by being bound first, since programs may overlap tensors
    in their own storage. Sizes that are not numbers are not compared.
    """
    body = subject.func.body
    if not isinstance(body, SeqExpr) or Call not in subject.parts:
        return
    bindings = [binding for block in body.blocks for binding in block.bindings]
    arena = bindings[0] if bindings else None
    if not _is_arena(arena):
        return
    total = _storage_size(arena.value)
    tensors = {
        number: (binding.var, binding.value)
        for number, binding in enumerate(bindings)
        if isinstance(binding, VarBinding)
        and _is_call(binding.value, "relax.memory.alloc_tensor")
        and binding.value.args[0] is arena.var
    }
    functions = subject.mod.functions.items()
    kernels = frozenset(var.name_hint for var, func in functions if isinstance(func, PrimFunc))
    aliases = find_aliases(bindings, body.body, frozenset(tensors), kernels)
    laid: list[_StorageRange] = []
    for number, (var, call) in tensors.items():
        start, size = _integer(call.args[1]), _tensor_size(var)
        if start is None or size is None:
            continue
        name = var.name_hint
        if start % ALIGNMENT:
            yield _wrong(subject, f"lays {name!r} at byte {start}, not a multiple of 64", call)
        if total is not None and start + size > total:
            yield _wrong(subject, f"lays {name!r} beyond the end of its storage", call)
        last = len(bindings) if number in aliases.escapes else aliases.last_use[number]
        laid.append(_StorageRange(name, start, start + size, number, last))
    for one, other in _list_overlapping(laid):
        yield _wrong(subject, f"lays {other.name!r} over {one.name!r}, which is in use", body)


def _is_call(value: object, name: str) -> TypeGuard[Call]:
    return isinstance(value, Call) and isinstance(value.op, Op) and value.op.name == name


def _is_arena(binding: object) -> TypeGuard[VarBinding]:
    return (
        isinstance(binding, VarBinding)
        and binding.var.name_hint == ARENA
        and binding.span is None
        and _is_call(binding.value, "relax.memory.alloc_storage")
    )


def _integer(value: object) -> int | None:
    number = value.value if isinstance(value, PrimValue) else value
    return number.value if isinstance(number, IntImm) else None


def _storage_size(call: object) -> int | None:
    size = call.args[0] if isinstance(call, Call) else None
    return _integer(size.values[0]) if isinstance(size, ShapeExpr) and size.values else None


def _tensor_size(var: Var) -> int | None:
    info = var.struct_info_annotation
    if not isinstance(info, TensorStructInfo) or info.dims is None:
        return None
    size = info.dtype.itemsize
    for axis in range(info.ndim):
        extent = extent_of(info, axis)
        if extent is None:
            return None
        size *= extent
    return size


def _list_overlapping(listed: list[_StorageRange]) -> Iterator[tuple[_StorageRange, _StorageRange]]:
    """List pairs that overlap in bytes and live ranges; ``listed`` is in program order."""
    alive: list[_StorageRange] = []
    for one in listed:
        alive = [other for other in alive if other.last >= one.first]
        for other in alive:
            if other.start < one.end and one.start < other.end:
                yield other, one
        alive.append(one)
