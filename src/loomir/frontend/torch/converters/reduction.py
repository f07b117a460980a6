"""Reductions, reductions to an index, and scans."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from loomir import op
from loomir.frontend.torch.node import Node
from loomir.frontend.torch.registry import Converter, register
from loomir.relax.expr import TupleGetItem
from loomir.relax.node import RelaxExpr
from loomir.support.dtype import DataType
from loomir.te import Tensor, all_of, any_of, isnan, select, topi
from loomir.te.operation import extern
from loomir.te.topi.loops import nest
from loomir.te.topi.shape import compute_dtype
from loomir.tir.buffer import Buffer, BufferLoad
from loomir.tir.builtins.table import call_builtin
from loomir.tir.expr import GE, LE, IntImm, Max, Min, Not, PrimExpr, cast
from loomir.tir.stmt import BufferStore, IfThenElse, Stmt, seq

_Operator = Callable[..., Any]


def _axes(node: Node, name: str = "dim") -> list[int] | None:
    if name not in node.arguments:
        return None
    return node.axes(name, node.rank(0)) or None


def _keeps(node: Node) -> bool:
    return bool(node.arguments.get("keepdim", False))


def _reduce(node: Node, operator: _Operator, x: RelaxExpr) -> RelaxExpr:
    """Reduce over the axes that a node names; without axes there is one element already."""
    if not node.dims_of(x):
        made = node.emit(operator(node.emit(op.reshape(x, (1,))), [0], False))
        return op.reshape(made, ())
    return operator(x, _axes(node), _keeps(node))


def _reduction(operator: _Operator) -> Converter:
    def convert(node: Node) -> RelaxExpr:
        return _reduce(node, operator, node.tensor(0, node.dtype))

    return convert


register("aten.sum.default", "aten.sum.dim_IntList")(_reduction(op.sum))
register("aten.mean.default", "aten.mean.dim")(_reduction(op.mean))
register("aten.prod.default", "aten.prod.dim_int")(_reduction(op.prod))


def _greatest(operator: _Operator) -> Converter:
    def convert(node: Node) -> RelaxExpr:
        x = node.tensor(0)
        if node.dtype == "bool":
            return op.astype(node.emit(_reduce(node, operator, node.cast(x, "uint8"))), "bool")
        return _reduce(node, operator, x)

    return convert


register("aten.amax.default", "aten.max.default")(_greatest(op.max))
register("aten.amin.default", "aten.min.default")(_greatest(op.min))


def _logical(operator: _Operator) -> Converter:
    def convert(node: Node) -> RelaxExpr:
        x = node.cast(node.tensor(0, "bool"), "uint8")
        if any(isinstance(d, int) and d == 0 for d in node.dims(0)):
            return op.full(tuple(node.shape), node.constant(operator is op.min, node.dtype))
        made = node.emit(_reduce(node, operator, x))
        return op.astype(made, node.dtype)

    return convert


register("aten.any.default", "aten.any.dim", "aten.any.dims")(_logical(op.max))
register("aten.all.default", "aten.all.dim", "aten.all.dims")(_logical(op.min))


def _place(operator: _Operator) -> Converter:
    def convert(node: Node) -> RelaxExpr:
        x = node.tensor(0)
        dtype = node.dtype_of(x)
        if dtype == "bool":
            x = node.cast(x, "uint8")
        if not node.dims_of(x):
            made = node.emit(operator(node.emit(op.reshape(x, (1,))), 0))
            return op.reshape(made, ())
        if node["dim"] is None:
            made = node.emit(operator(x, None))
            return op.reshape(made, tuple(node.shape))
        return operator(x, node.axis("dim", node.rank(0)), _keeps(node))

    return convert


register("aten.argmax.default")(_place(op.argmax))
register("aten.argmin.default")(_place(op.argmin))


def _with_place(value: _Operator, place: _Operator) -> Converter:
    def convert(node: Node) -> list[Any]:
        x = node.tensor(0)
        own = node.dtype_of(x)
        if own == "bool":
            x = node.cast(x, "uint8")
        rank = node.rank(0)
        axis = node.axis("dim", rank)
        if rank == 0:
            zero = node.emit(op.full((), node.constant(0, "int64")))
            return [node.cast(x, own), zero]
        found = node.emit(value(x, [axis], _keeps(node)))
        where = node.emit(place(x, axis, _keeps(node))) if node.wants(1) else None
        return [node.cast(found, own), where]

    return convert


register("aten.max.dim")(_with_place(op.max, op.argmax))
register("aten.min.dim")(_with_place(op.min, op.argmin))


def _variance(operator: _Operator) -> Converter:
    def convert(node: Node) -> RelaxExpr:
        correction = node.arguments.get("correction", 1)
        if correction is None:
            correction = 1
        if "unbiased" in node.arguments:
            correction = 1 if node["unbiased"] else 0
        axes, keeps = _axes(node), _keeps(node)
        x = node.tensor(0)
        if not node.dims_of(x):
            x, axes, keeps = node.emit(op.reshape(x, (1,))), [0], False
        return node.emit(
            node.graph.builder.call_te(operator, x, axis=axes, keepdims=keeps,
                                       correction=correction)
        )  # fmt: skip

    return convert


register("aten.var.correction", "aten.var.dim")(_variance(topi.variance))
register("aten.std.correction", "aten.std.dim")(_variance(topi.std))


def _mean_and(operator: _Operator) -> Converter:
    """Import a variance or a deviation with the mean."""

    def convert(node: Node) -> list[Any]:
        mean = _reduce(node, op.mean, node.tensor(0)) if node.wants(1) else None
        return [_variance(operator)(node), mean]

    return convert


register("aten.var_mean.correction", "aten.var_mean.dim", "aten.var_mean.default")(
    _mean_and(topi.variance)
)
register("aten.std_mean.correction", "aten.std_mean.dim", "aten.std_mean.default")(
    _mean_and(topi.std)
)


@register("aten.logsumexp.default")
def _log_sum_exp(node: Node) -> RelaxExpr:
    axes, keeps = _axes(node), _keeps(node)
    x = node.tensor(0, node.dtype)
    if not node.dims_of(x):
        return x
    greatest = node.emit(op.max(x, axes, True))
    finite = node.emit(op.where(node.emit(op.isfinite(greatest)), greatest, node.constant(0)))
    total = node.emit(op.sum(node.emit(op.exp(node.emit(op.subtract(x, finite)))), axes, keeps))
    if not keeps:
        finite = node.emit(op.reshape(finite, tuple(node.dims_of(total))))
    return op.add(node.emit(op.log(total)), finite)


def _import_running(operator: _Operator) -> Converter:
    def convert(node: Node) -> RelaxExpr:
        rank = node.rank(0)
        axis = node.axis("dim", rank)
        x = node.tensor(0, node.dtype)
        if rank == 0:
            return x
        narrow = DataType(node.dtype).is_float and DataType(node.dtype).bits == 16
        if narrow:  # sums are kept in 32 bits
            x = node.cast(x, "float32")
        return operator(x, axis)

    return convert


register("aten.cumsum.default")(_import_running(op.cumsum))
register("aten.cumprod.default")(_import_running(op.cumprod))


# -- scans ---------------------------------------------------------------------------------------
def _scan(
    data: Tensor,
    axis: int,
    dtypes: list[Any],
    first: Callable[[PrimExpr, PrimExpr], list[PrimExpr]],
    advance: Callable[[list[PrimExpr], PrimExpr, PrimExpr], list[PrimExpr]],
) -> tuple[Tensor, ...]:
    """Compute each element along an axis from the one before, and from the data and its index."""

    def body(ins: Sequence[Buffer], outs: Sequence[Buffer]) -> Stmt:
        def step(i: Sequence[PrimExpr]) -> Stmt:
            here, at = tuple(i), i[axis]
            value = BufferLoad(ins[0], here)
            before = [BufferLoad(out, (*i[:axis], at - 1, *i[axis + 1 :])) for out in outs]

            def store(values: list[PrimExpr]) -> Stmt:
                return seq([BufferStore(o, v, here) for o, v in zip(outs, values, strict=True)])

            start = store(first(value, cast(at, "int64")))
            rest = store(advance([*before], value, cast(at, "int64")))
            return IfThenElse(at.equal(IntImm(0, at.dtype)), start, rest)

        return nest(data.shape, step)

    shapes = [data.shape] * len(dtypes)
    made: Any = extern(shapes, [data], body, name="scan", dtype=dtypes)
    return made if len(dtypes) > 1 else (made,)


def _running_extreme(compare: _Operator) -> Converter:
    """Import a running maximum or minimum, with the place of the last of equal elements."""

    def convert(node: Node) -> list[Any]:
        own, rank = node.dtype_of(node.tensor(0)), node.rank(0)
        x = node.cast(node.tensor(0), "uint8") if own == "bool" else node.tensor(0)
        if rank == 0:
            return [node.tensor(0), node.emit(op.full((), node.constant(0, "int64")))]
        axis = node.axis("dim", rank)

        def advance(before: list[PrimExpr], value: PrimExpr, at: PrimExpr) -> list[PrimExpr]:
            better = compare(value, before[0])
            if value.dtype.is_float:  # a NaN is beyond all others, the last of several
                better = any_of(isnan(value), all_of(Not(isnan(before[0])), better))
            return [select(better, value, before[0]), select(better, at, before[1])]

        def kernel(data: Tensor) -> tuple[Tensor, ...]:
            return _scan(data, axis, [data.dtype, "int64"], lambda v, at: [v, at], advance)

        made = node.compute(kernel, x)
        values, places = [node.emit(TupleGetItem(made, i)) for i in (0, 1)]
        return [node.cast(values, own), places]

    return convert


register("aten.cummax.default")(_running_extreme(GE))
register("aten.cummin.default")(_running_extreme(LE))


@register("aten.logcumsumexp.default")
def _log_cumulative_sum(node: Node) -> RelaxExpr:
    x, rank = node.tensor(0), node.rank(0)
    if rank == 0:
        return x
    axis = node.axis("dim", rank)
    x = node.cast(x, str(compute_dtype(node.info_of(x).dtype)))

    def advance(before: list[PrimExpr], value: PrimExpr, _: PrimExpr) -> list[PrimExpr]:
        low, high = Min(before[0], value), Max(before[0], value)
        total = high + call_builtin("log1p", call_builtin("exp", low - high))
        same = all_of(low.equal(high), call_builtin("isinf", low))  # a gap of infinities is NaN
        lost = any_of(isnan(before[0]), isnan(value))
        return [select(lost, before[0] + value, select(same, low, total))]

    def kernel(data: Tensor) -> Tensor:
        return _scan(data, axis, [data.dtype], lambda v, _: [v], advance)[0]

    return node.cast(node.compute(kernel, x), node.dtype)
