"""Place the temporary tensors of a function in one arena."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from functools import reduce
from math import prod
from typing import NamedTuple, cast

from loomir.arith.analyzer import Analyzer
from loomir.ir.equality import structural_equal
from loomir.ir.module import GlobalVar
from loomir.ir.node import Node
from loomir.ir.op import Op
from loomir.ir.passes import register
from loomir.ir.substitution import substitute
from loomir.ir.visit import pre_order
from loomir.relax.expr import (
    Binding,
    BindingBlock,
    Call,
    DataflowBlock,
    Function,
    PrimValue,
    SeqExpr,
    Tuple,
    Var,
    VarBinding,
)
from loomir.relax.operator.definition import find_op
from loomir.relax.shape import INT64, ShapeExpr
from loomir.relax.struct_info import (
    OBJECT,
    UNIT,
    ShapeStructInfo,
    TensorStructInfo,
    TupleStructInfo,
)
from loomir.support.diagnostics import InternalError
from loomir.tir.expr import IntImm, PrimExpr
from loomir.tir.expr import Var as PrimVar
from loomir.transform.relax.bindings.to_non_dataflow import ordinary_variables
from loomir.transform.relax.graph_reading import integers_of
from loomir.transform.relax.memory.aliases import Aliases, find_aliases
from loomir.transform.relax.memory.memory_plan import ARENA, MemoryRequest, plan_arena

__all__ = ["static_plan_block_memory"]


class _Output(NamedTuple):
    """A tensor that a kernel writes."""

    binding: int
    info: TensorStructInfo
    size: PrimExpr


@register(
    "relax.StaticPlanBlockMemory", requires={"relax_normal_form"}, establishes={"arenas_planned"}
)
def static_plan_block_memory(func: Function) -> Function:
    """Allocate the tensors of ``call_tir`` that do not leave the function from one arena.

    Memory is reused after the last use of a tensor. Extents may depend on shape variables that the
    parameters bind. The result of ``call_tir_inplace`` over such a tensor is that tensor. The
    function then calls its kernels directly, and gets ``relax.force_pure`` if it is pure; its
    dataflow blocks become ordinary ones.
    """
    if not isinstance(func.body, SeqExpr):
        return func
    bindings = [b for block in func.body.blocks for b in block.bindings]
    known = _list_bound_by_parameters(func)
    analyzer = Analyzer()
    for var in known:
        analyzer.assume_size(var)
    wanted = [made for i, b in enumerate(bindings) for made in _outputs(i, b, known, analyzer)]
    aliases = find_aliases(bindings, func.body.body, frozenset(output.binding for output in wanted))
    kept = [o for o in wanted if o.binding not in aliases.escapes]
    if not kept:
        return func
    plan = plan_arena(
        [MemoryRequest(o.size, o.binding, aliases.last_use[o.binding]) for o in kept], analyzer
    )
    storage = Var(ARENA, OBJECT)
    arena = _call("memory.alloc_storage", ShapeExpr((plan.size,)), 0, "global", "uint8")
    made: list[Binding] = [VarBinding(storage, arena)]
    places: dict[int, list[tuple[_Output, PrimExpr]]] = {}
    for output, offset in zip(kept, plan.offsets):
        places.setdefault(output.binding, []).append((output, offset))
    names: dict[Node, Node] = {}
    for i, binding in enumerate(bindings):
        taken = _find_written_over(binding, aliases, places)
        if i in places:
            made += _place(cast("VarBinding", binding), places[i], storage)
        elif taken is not None and isinstance(binding, VarBinding):
            names[binding.var] = names.get(taken, taken)
            made.append(_direct(binding))
        else:
            made.append(binding)
    seq = SeqExpr((BindingBlock(tuple(made)),), func.body.body)
    body = _drop_dataflow(substitute(seq, names) if names else seq)
    attrs = {**func.attrs, "relax.force_pure": True} if func.is_pure else func.attrs
    return Function(func.params, body, func.ret_struct_info, func.is_pure, attrs, span=func.span)


def _list_bound_by_parameters(func: Function) -> dict[PrimVar, None]:
    """List the shape variables that the parameters bind, in order, for products in normal form."""
    found: dict[PrimVar, None] = {}
    for param in func.params:
        if param.struct_info_annotation is not None:
            for part in pre_order(param.struct_info_annotation):
                if isinstance(part, TensorStructInfo):
                    found |= {d: None for d in part.dims or () if isinstance(d, PrimVar)}
                elif isinstance(part, ShapeStructInfo):
                    found |= {d: None for d in part.values or () if isinstance(d, PrimVar)}
    return found


def _outputs(
    number: int, binding: Binding, known: Container[PrimVar], analyzer: Analyzer
) -> list[_Output]:
    """List the tensors that a binding's kernel writes; none if a size is unknown at entry."""
    if not isinstance(binding, VarBinding) or not isinstance(binding.value, Call):
        return []
    call = binding.value
    if not isinstance(call.op, Op) or call.op.name != "relax.call_tir" or integers_of(call) is None:
        return []
    made: list[_Output] = []
    for info in call.sinfo_args:
        if not isinstance(info, TensorStructInfo) or info.dims is None:
            return []
        for extent in info.dims:
            if any(isinstance(p, PrimVar) and p not in known for p in pre_order(extent)):
                return []
        made.append(_Output(number, info, _bytes(info.dims, info.dtype.itemsize, analyzer)))
    return made


def _bytes(dims: Sequence[PrimExpr], itemsize: int, analyzer: Analyzer) -> PrimExpr:
    known = [extent.value for extent in dims if isinstance(extent, IntImm)]
    if len(known) == len(dims):
        return IntImm(prod(known) * itemsize, INT64)
    size: PrimExpr = IntImm(itemsize, INT64)
    return analyzer.simplify(reduce(lambda a, b: a * b, dims, size))


def _find_written_over(
    binding: Binding, aliases: Aliases, places: Mapping[int, object]
) -> Var | None:
    """Return the tensor of the arena that a kernel overwrites with its single result."""
    call = binding.value if isinstance(binding, VarBinding) else None
    if (
        not isinstance(call, Call)
        or not isinstance(call.op, Op)
        or not isinstance(binding, VarBinding)
    ):
        return None
    if call.op.name != "relax.call_tir_inplace" or not isinstance(call.args[1], Tuple):
        return None
    indices = call.attrs["inplace_indices"]
    indices = (indices,) if isinstance(indices, int) else tuple(indices)
    if len(indices) != 1 or indices[0] < 0 or not isinstance(call.args[0], GlobalVar):
        return None
    if integers_of(call) is None:
        return None
    operand = call.args[1].fields[indices[0]]
    if not isinstance(operand, Var) or not aliases.of.get(id(operand), frozenset()) & places.keys():
        return None
    same = structural_equal(operand.struct_info, binding.var.struct_info)
    return operand if same and isinstance(operand.struct_info, TensorStructInfo) else None


def _direct(binding: VarBinding) -> VarBinding:
    """Write a ``call_tir_inplace`` as a direct call of the kernel."""
    call = cast("Call", binding.value)
    kernel, given = call.args[0], call.args[1]
    assert isinstance(kernel, GlobalVar)
    assert isinstance(given, Tuple)
    direct = Call(kernel, (*given.fields, *_integers(call)), span=call.span)
    return VarBinding(Var("_", UNIT), direct, span=binding.span)


def _integers(call: Call) -> list[PrimValue]:
    """List the integers that a kernel takes."""
    found = integers_of(call)
    if found is None:
        raise InternalError("the numbers of a kernel have no names")
    return found


def _place(
    binding: VarBinding, outputs: Sequence[tuple[_Output, PrimExpr]], storage: Var
) -> list[Binding]:
    """Write a ``call_tir`` as allocations in the arena and a direct call of the kernel."""
    call = cast("Call", binding.value)
    kernel, given = call.args[0], call.args[1]
    if not isinstance(kernel, GlobalVar) or not isinstance(given, Tuple):
        raise InternalError("call_tir is not in normal form")
    made: list[Binding] = []
    tensors: list[Var] = []
    single = not isinstance(binding.var.struct_info_annotation, TupleStructInfo)
    for index, (output, offset) in enumerate(outputs):
        shape = ShapeExpr(output.info.dims or ())
        tensor = binding.var if single else Var(f"{binding.var.name_hint}_{index}", output.info)
        value = _call("memory.alloc_tensor", storage, PrimValue(offset), shape, output.info.dtype)
        made.append(VarBinding(tensor, value, span=binding.span))
        tensors.append(tensor)
    direct = Call(kernel, (*given.fields, *_integers(call), *tensors), span=call.span)
    made.append(VarBinding(Var("_", UNIT), direct, span=binding.span))
    if not single:
        made.append(VarBinding(binding.var, Tuple(tuple(tensors)), span=binding.span))
    return made


def _call(name: str, *args: object) -> Call:
    found = find_op(f"relax.{name}")
    if found is None:
        raise InternalError(f"there is no operator {name}")
    return found.call(*args)


def _drop_dataflow(seq: SeqExpr) -> SeqExpr:
    """Replace dataflow blocks and variables by ordinary ones."""
    blocks = tuple(
        BindingBlock(b.bindings, span=b.span) if isinstance(b, DataflowBlock) else b
        for b in seq.blocks
    )
    return substitute(SeqExpr(blocks, seq.body, span=seq.span), ordinary_variables(seq))
