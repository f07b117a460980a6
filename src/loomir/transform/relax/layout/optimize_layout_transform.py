"""Remove pairs of layout changes that cancel."""

from __future__ import annotations

from loomir.ir.passes import register
from loomir.ir.substitution import substitute
from loomir.ir.visit import rewrite
from loomir.relax.expr import (
    Binding,
    BindingBlock,
    Call,
    DataflowBlock,
    DataflowVar,
    Function,
    SeqExpr,
    Var,
    VarBinding,
)
from loomir.relax.info.proof import analyzer_for
from loomir.relax.node import RelaxExpr
from loomir.relax.operator.index_text import index_map_of
from loomir.relax.shape import INT64, ShapeExpr, as_dim
from loomir.support.diagnostics import CompileError
from loomir.tir.buffer import Range
from loomir.tir.expr import IntImm
from loomir.tir.expr import Var as Index
from loomir.transform.relax.bindings.eliminate_common_subexpr import find_escaping
from loomir.transform.relax.graph_reading import operator_of, tensor_info

__all__ = ["optimize_layout_transform"]


@register("relax.OptimizeLayoutTransform", requires={"relax_normal_form"})
def optimize_layout_transform(func: Function) -> Function:
    """Use the original tensor if one ``layout_transform`` undoes another.

    This applies in dataflow blocks, if the first adds no padding, and nothing keeps or writes the
    tensors. Unused conversions are left to ``DeadCodeElimination``.
    """
    return rewrite(func, {SeqExpr: _sequence})


def _sequence(seq: SeqExpr) -> SeqExpr:
    same: dict[Var, RelaxExpr] = {}
    blocks: list[BindingBlock] = []
    for block in seq.blocks:
        blocks.append(_block(block, same) if isinstance(block, DataflowBlock) else block)
    if not same:
        return seq
    return substitute(SeqExpr(tuple(blocks), seq.body, span=seq.span), same)


def _block(block: DataflowBlock, same: dict[Var, RelaxExpr]) -> DataflowBlock:
    escaping: set[int] | None = None
    first: dict[RelaxExpr, Call] = {}
    """The layout conversion that made each tensor."""
    kept: list[Binding] = []
    for binding in block.bindings:
        kept.append(binding)
        if not isinstance(binding, VarBinding):
            continue
        if operator_of(binding.value) != "layout_transform":
            continue
        call = binding.value
        assert isinstance(call, Call)
        data = call.args[0]
        if isinstance(data, Var):
            data = same.get(data, data)
        before = first.get(data)
        first[binding.var] = Call(call.op, (data,), attrs=call.attrs)
        if before is None or not isinstance(binding.var, DataflowVar):
            continue
        escaping = find_escaping(block) if escaping is None else escaping
        source = before.args[0]
        free = isinstance(source, Var) and not escaping & {id(source), id(binding.var)}
        if isinstance(source, Var) and free and _undoes(source, before, call):
            same[binding.var] = source
            kept.pop()
    if len(kept) == len(block.bindings):
        return block
    return DataflowBlock(tuple(kept), span=block.span)


def _undoes(source: Var, before: Call, after: Call) -> bool:
    """Prove that two layout conversions leave each element in place."""
    info = tensor_info(source)
    if info is None or info.dims is None:
        return False
    analyzer = analyzer_for(ShapeExpr(info.dims))
    one, other = (index_map_of(call.attrs["index_map"]) for call in (before, after))
    try:
        _, outside = one.non_surjective_inverse(info.dims, analyzer=analyzer)
        dims = other.map_shape(one.map_shape(info.dims, analyzer=analyzer), analyzer=analyzer)
    except CompileError:
        return False
    if not isinstance(outside, IntImm) or outside.value or len(dims) != info.ndim:
        return False
    places = [Index(f"i{axis}", INT64) for axis in range(info.ndim)]
    for place, extent in zip(places, info.dims):
        analyzer.bind(place, Range(as_dim(0), extent))
    moved = other.map_indices(one.map_indices(places))
    pairs = [*zip(moved, places), *zip(dims, info.dims)]
    return all(analyzer.can_prove_equal(analyzer.simplify(a), b) for a, b in pairs)
