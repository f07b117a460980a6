"""Update in place: let kernels write over operands that are not used afterwards."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, cast

from loomir.ir.module import BaseFunc, GlobalVar, IRModule
from loomir.ir.node import Node
from loomir.ir.op import Op
from loomir.ir.passes import register
from loomir.ir.substitution import substitute
from loomir.ir.visit import by_class, pre_order, rewrite
from loomir.relax.expr import (
    Binding,
    BindingBlock,
    Call,
    DataflowBlock,
    Function,
    SeqExpr,
    Tuple,
    Var,
    VarBinding,
)
from loomir.relax.info.relations import Match, is_subtype
from loomir.relax.operator.definition import find_op
from loomir.relax.struct_info import TensorStructInfo
from loomir.support.diagnostics import InternalError
from loomir.tir.analysis.copy_statement import definitions_in, fresh_buffer, fresh_var
from loomir.tir.buffer import Buffer, BufferLoad
from loomir.tir.expr import IntImm, PrimExpr
from loomir.tir.expr import Var as PrimVar
from loomir.tir.function import PrimFunc
from loomir.tir.stmt import BufferStore
from loomir.transform.relax.fusion.loop_nests import elements_of, parts_of, size_analyzer
from loomir.transform.relax.fusion.op_pattern import OpPattern, op_pattern
from loomir.transform.relax.memory.aliases import Aliases, find_aliases

__all__ = ["dataflow_use_inplace_calls"]

_CALL_TIR: Final = "relax.call_tir"


@register(
    "relax.DataflowUseInplaceCalls", requires={"relax_normal_form"}, breaks={"functions_used"}
)
def dataflow_use_inplace_calls(mod: IRModule) -> IRModule:
    """Replace ``call_tir`` in dataflow blocks by ``call_tir_inplace`` over a dead operand.

    A kernel of the same sequence must have made the operand, with the dtype and, provably, the
    shape of the result. The call must be its last use under any name: the operand is not returned,
    captured, kept in a live tuple, or passed to the call twice. The last loops of the kernel must
    compute each element of the result from the operand's element at the same index, as in additions
    and softmax. Run LegalizeOps first, which turns operators into kernels.
    """
    run = _InPlaceKernels(mod)
    functions: dict[GlobalVar, BaseFunc] = {
        var: rewrite(func, {SeqExpr: run.sequence}) if isinstance(func, Function) else func
        for var, func in mod.functions.items()
    }
    if all(functions[var] is func for var, func in mod.functions.items()):
        return mod
    return mod.with_functions({**functions, **run.made})


class _InPlaceKernels:
    """The kernels of a module, and their in-place variants, made on demand."""

    def __init__(self, mod: IRModule) -> None:
        self.functions = {var.name_hint: func for var, func in mod.functions.items()}
        self.made: dict[GlobalVar, BaseFunc] = {}
        self._names = set(self.functions)
        self._places: dict[str, tuple[int, ...]] = {}
        self._kernels: dict[tuple[str, int], GlobalVar] = {}

    def sequence(self, seq: SeqExpr) -> SeqExpr:
        """Rewrite the dataflow blocks of a sequence."""
        if not any(isinstance(block, DataflowBlock) for block in seq.blocks):
            return seq
        bindings = [b for block in seq.blocks for b in block.bindings]
        made = frozenset(i for i, b in enumerate(bindings) if _kernel_call(b) is not None)
        if len(made) < 2:
            return seq
        aliases = find_aliases(bindings, seq.body, made)
        blocks: list[BindingBlock] = []
        number = 0
        for block in seq.blocks:
            flow = isinstance(block, DataflowBlock)
            new = [
                self._rewrite_binding(b, number + k, aliases) if flow else b
                for k, b in enumerate(block.bindings)
            ]
            number += len(new)
            same = all(a is b for a, b in zip(new, block.bindings))
            blocks.append(block if same else DataflowBlock(tuple(new), span=block.span))
        if all(a is b for a, b in zip(blocks, seq.blocks)):
            return seq
        return SeqExpr(tuple(blocks), seq.body, span=seq.span)

    def _rewrite_binding(self, binding: Binding, number: int, aliases: Aliases) -> Binding:
        call = _kernel_call(binding)
        if call is None or not isinstance(binding, VarBinding):
            return binding
        kernel, given = call.args[0], call.args[1]
        single = len(call.sinfo_args) == 1 and isinstance(call.sinfo_args[0], TensorStructInfo)
        if not single or not isinstance(kernel, GlobalVar) or not isinstance(given, Tuple):
            return binding
        for place in self._writable(kernel.name_hint):
            if place < len(given.fields) and _is_dead(given, place, number, aliases, call):
                in_place = find_op("relax.call_tir_inplace")
                assert in_place is not None
                args = (self._kernel(kernel.name_hint, place), *call.args[1:])
                attrs = {**call.attrs, "inplace_indices": (place,)}
                made = Call(in_place.op, args, call.sinfo_args, attrs, span=call.span)
                return VarBinding(binding.var, made, span=binding.span)
        return binding

    def _writable(self, name: str) -> tuple[int, ...]:
        found = self._places.get(name)
        if found is None:
            func = self.functions.get(name)
            found = _writable_places(func) if isinstance(func, PrimFunc) else ()
            self._places[name] = found
        return found

    def _kernel(self, name: str, place: int) -> GlobalVar:
        found = self._kernels.get((name, place))
        if found is None:
            func = self.functions[name]
            if not isinstance(func, PrimFunc):
                raise InternalError(f"{name} is not a kernel")
            stem = hint = f"{name}_inplace"
            count = 0
            while hint in self._names:
                count += 1
                hint = f"{stem}_{count}"
            self._names.add(hint)
            found = self._kernels[name, place] = GlobalVar(hint)
            self.made[found] = _write_over(func, place)
        return found


def _kernel_call(binding: Binding) -> Call | None:
    value = binding.value if isinstance(binding, VarBinding) else None
    if isinstance(value, Call) and isinstance(value.op, Op) and value.op.name == _CALL_TIR:
        return value
    return None


def _is_dead(given: Tuple, place: int, number: int, aliases: Aliases, call: Call) -> bool:
    """Tell whether an operand is a tensor that has its last use here and can hold the result."""
    operand, wanted = given.fields[place], call.sinfo_args[0]
    if not isinstance(operand, Var):
        return False
    tensors = aliases.of.get(id(operand), frozenset())
    if id(operand) in aliases.others:
        return False
    if len(tensors) != 1 or not isinstance(operand.struct_info, TensorStructInfo):
        return False
    (tensor,) = tensors
    if tensor in aliases.escapes or aliases.last_use[tensor] != number:
        return False
    others = [f for k, f in enumerate(given.fields) if k != place]
    for part in (p for other in others for p in pre_order(other)):
        if isinstance(part, Var) and tensor in aliases.of.get(id(part), frozenset()):
            return False
    return is_subtype(operand.struct_info, wanted) is Match.YES


# -- kernels -----------------------------------------------------------------------------------
def _writable_places(func: PrimFunc) -> tuple[int, ...]:
    """List the arguments that the result can overwrite.

    Only the last loops of the kernel store to the result, each element once, and read the
    argument's element at the same index. Earlier loops still see the unchanged argument.
    """
    if func.attrs.get("op_pattern") == OpPattern.OPAQUE or op_pattern(func) is OpPattern.OPAQUE:
        return ()
    allocated, parts = parts_of(func)
    output = func.buffer_map[func.params[-1]]
    analyzer = size_analyzer(iter((*func.buffer_map.values(), *allocated)))
    last = elements_of(parts[-1], analyzer, with_names=True)
    stores: list[BufferStore] = by_class(func.body).get(BufferStore, [])
    if last is None or last.buffer is not output:
        return ()
    own: list[BufferStore] = by_class(parts[-1]).get(BufferStore, [])
    if sum(s.buffer is output for s in stores) != 1 or len(own) != 1:
        return ()
    loads: list[BufferLoad] = by_class(parts[-1]).get(BufferLoad, [])
    if any(load.buffer is output for load in loads):
        return ()

    def fits(buffer: Buffer) -> bool:
        if buffer.dtype is not output.dtype or len(buffer.shape) != len(output.shape):
            return False
        pairs = zip(buffer.shape, output.shape)
        if not all(analyzer.can_prove_equal(a, b) for a, b in pairs):
            return False
        mine = [load for load in loads if load.buffer is buffer]
        return all(_is_same_place(load.indices, own[0].indices) for load in mine)

    buffers = [func.buffer_map.get(param) for param in func.params[:-1]]
    return tuple([k for k, b in enumerate(buffers) if b is not None and fits(b)])


def _is_same_place(a: tuple[PrimExpr, ...], b: tuple[PrimExpr, ...]) -> bool:
    return all(
        x is y or (isinstance(x, IntImm) and isinstance(y, IntImm) and x.value == y.value)
        for x, y in zip(a, b)
    )


def _write_over(func: PrimFunc, place: int) -> PrimFunc:
    """Make the variant of a kernel that writes its result to an argument, with fresh variables."""
    taken = func.buffer_map[func.params[place]]
    output = func.buffer_map[func.params[-1]]
    inner = definitions_in(func.body)
    buffers = [*func.buffer_map.values(), *(d for d in inner if isinstance(d, Buffer))]
    bound: list[Node] = [*func.params, *(d for d in inner if not isinstance(d, Buffer))]
    bound += [b.data for b in buffers]
    bound += [p for b in func.buffer_map.values() for e in b.shape for p in pre_order(e)]
    table: dict[Node, Node] = {v: fresh_var(v) for v in bound if isinstance(v, PrimVar)}
    variables: Mapping[Node, Node] = dict(table)
    for old in buffers:
        made = substitute(old, variables)
        table[old] = fresh_buffer(made) if made is old else made
    table[output] = table[taken]
    table[output.data] = table[taken.data]
    kept = func.params[:-1]
    params = cast("tuple[PrimVar, ...]", tuple([table[var] for var in kept]))
    known = zip(kept, params)
    arrays = {
        new: cast("Buffer", table[func.buffer_map[v]]) for v, new in known if v in func.buffer_map
    }
    attrs = {key: value for key, value in func.attrs.items() if key != "global_symbol"}
    body = substitute(func.body, table)
    return PrimFunc(params, body, func.ret_type, arrays, attrs, span=func.span)
