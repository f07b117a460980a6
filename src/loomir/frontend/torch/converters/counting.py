"""Count elements by their values: bins, runs of equal elements, and the most frequent ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from loomir import op
from loomir.frontend.torch.converters.searching import bind_extent, search_rows, take_chosen
from loomir.frontend.torch.node import Node
from loomir.frontend.torch.registry import register
from loomir.relax.node import RelaxExpr
from loomir.support.dtype import DataType
from loomir.te import Tensor, all_of, any_of, compute, select, topi
from loomir.te.operation import extern
from loomir.te.topi.loops import count_loop, nest, wide, with_buffers
from loomir.te.topi.shape import compute_dtype
from loomir.tir.buffer import Buffer, BufferLoad, decl_buffer
from loomir.tir.builtins.table import call_builtin
from loomir.tir.expr import GE, LT, NE, IntImm, Let, Min, Not, PrimExpr, StringImm, Var, const
from loomir.tir.stmt import BufferStore, IfThenElse, Stmt, seq

_ZERO = (const(0, "int64"),)


@register("aten.bincount.default")
def _bincount(node: Node) -> RelaxExpr:
    x = node.cast(node.tensor(0), "int64")
    least: int = node["minlength"]

    def find_greatest(data: Tensor) -> Tensor:
        return topi.max(topi.concatenate((data, topi.full((1,), least - 1, "int64")), 0), [0])

    size = node.emit(op.add(node.compute(find_greatest, x), node.constant(1, "int64")))
    extent = bind_extent(node, 0, size)
    weights = None if node["weights"] is None else node.tensor("weights", node.dtype)

    def count(data: Tensor, extent: Any, *weights: Tensor) -> Tensor:
        def body(ins: Sequence[Buffer], outs: Sequence[Buffer]) -> Stmt:
            def step(i: PrimExpr) -> Stmt:
                given = BufferLoad(ins[0], (i,))
                name = StringImm("bincount")
                at = call_builtin("checked_index", given, wide(extent), name, const(0, "int32"))
                more = BufferLoad(ins[1], (i,)) if weights else const(1, "int64")
                return BufferStore(outs[0], BufferLoad(outs[0], (at,)) + more, (at,))

            none = const(0, node.dtype)
            cleared = count_loop("k", wide(extent), lambda k: BufferStore(outs[0], none, (k,)))
            return seq([cleared, count_loop("i", data.shape[0], step)])

        made: Tensor = extern([(extent,)], [data, *weights], body, name="bincount",
                              dtype=node.dtype)  # fmt: skip
        return made

    return node.compute(count, x, extent, *([] if weights is None else [weights]))


# -- histograms ----------------------------------------------------------------------------------
def _edges(node: Node, low: RelaxExpr, high: RelaxExpr, bins: int, margin: float) -> RelaxExpr:
    """Return the bounds of equal bins, which are ``margin`` wider both ways if they are none."""

    def kernel(low: Tensor, high: Tensor) -> Tensor:
        dtype = low.dtype

        def element(i: PrimExpr) -> PrimExpr:
            more = select(low().equal(high()), const(margin, dtype), const(0.0, dtype))
            start, end = low() - more, high() + more
            step = (end - start) / const(bins, dtype)
            back = end - step * (const(bins, "int64") - wide(i)).astype(dtype)
            return select(wide(i) < (bins + 1) // 2, start + step * i.astype(dtype), back)

        return compute((bins + 1,), element, name="edges")

    return node.compute(kernel, low, high)


def _bins_of(x: Tensor, edges: Tensor, bins: int, search: bool) -> Tensor:
    """Return the number of the bin of each element, -1 where it is in none.

    ``search``: compare with the edges nearby, since the division rounds.
    """

    def element(i: PrimExpr) -> PrimExpr:
        value = x(i)
        low, high = edges(IntImm(0, i.dtype)), edges(IntImm(bins, i.dtype))
        inside = all_of(value >= low, value <= high)
        gap = (value - low) * const(bins, x.dtype) / (high - low)
        name = Var("bin", gap.dtype)
        made = select(inside, name, const(0.0, x.dtype)).astype("int64")
        if search:
            near = Var("near", "int64")
            back = all_of(near > 0, LT(value, edges(Min(near, const(bins, "int64")))))
            on = all_of(near < bins, GE(value, edges(Min(near + 1, const(bins, "int64")))))
            made = Let(near, made, select(back, near - 1, select(on, near + 1, near)))
        last = Min(made, const(bins - 1, "int64"))
        return Let(name, gap, select(inside, last, const(-1, "int64")))

    return compute(x.shape, element, name="bins")


def _bins_between(x: Tensor, edges: Tensor, bins: int) -> Tensor:
    """Return the number of the bin of each element between any edges, -1 where it is in none."""
    after = search_rows(edges, x, None, True, "int64")

    def element(i: PrimExpr) -> PrimExpr:
        value = x(i)
        inside = all_of(value >= edges(IntImm(0, i.dtype)), value <= edges(IntImm(bins, i.dtype)))
        return select(inside, Min(after(i) - 1, const(bins - 1, "int64")), const(-1, "int64"))

    return compute(x.shape, element, name="bins")


def _count(node: Node, at: RelaxExpr, weights: RelaxExpr | None, bins: int) -> RelaxExpr:
    def kernel(at: Tensor, *weights: Tensor) -> Tensor:
        inner = compute_dtype(DataType(node.dtype))

        def body(ins: Sequence[Buffer], outs: Sequence[Buffer]) -> Stmt:
            def step(i: PrimExpr) -> Stmt:
                place = BufferLoad(ins[0], (i,))
                more = BufferLoad(ins[1], (i,)) if weights else const(1, inner)
                total = BufferLoad(outs[0], (place,)) + more
                return IfThenElse(place >= 0, BufferStore(outs[0], total, (place,)))

            none = const(0, inner)
            cleared = count_loop("k", bins, lambda k: BufferStore(outs[0], none, (k,)))
            return seq([cleared, count_loop("i", at.shape[0], step)])

        made: Tensor = extern([(bins,)], [at, *weights], body, name="histogram", dtype=inner)
        return made

    made = node.compute(kernel, at, *([] if weights is None else [weights]))
    return node.cast(made, node.dtype)


def _bounds(node: Node, x: RelaxExpr, given: Any) -> list[RelaxExpr]:
    """Return the least and the greatest of what is counted."""
    if given is not None:
        return [node.constant(v) for v in given]
    (count,) = node.dims_of(x)
    if isinstance(count, int) and count == 0:
        return [node.constant(0), node.constant(0)]
    return [node.emit(op.min(x)), node.emit(op.max(x))]


@register("aten.histc.default")
def _histc(node: Node) -> RelaxExpr:
    bins, low, high = int(node["bins"]), node["min"], node["max"]
    x = node.emit(op.reshape(node.tensor(0), (-1,)))
    ends = _bounds(node, x, None if low == high else (low, high))
    edges = _edges(node, ends[0], ends[1], bins, 1.0)
    at = node.compute(_bins_of, x, edges, bins, False)
    return _count(node, at, None, bins)


@register("aten.histogram.bin_ct", "aten.histogram.bins_tensor")
def _histogram(node: Node) -> list[Any]:
    x = node.emit(op.reshape(node.tensor(0), (-1,)))
    if node.is_tensor("bins"):
        edges = node.tensor("bins")
        (extent,) = node.dims_of(edges)
        if not isinstance(extent, int):
            raise node.refuse("the number of its bins is unknown")
        bins = extent - 1
        at = node.compute(_bins_between, x, edges, bins)
    else:
        bins = int(node["bins"])
        ends = _bounds(node, x, node["range"])
        edges = _edges(node, ends[0], ends[1], bins, 0.5)
        at = node.compute(_bins_of, x, edges, bins, True)
    weights = node["weight"]
    if weights is not None:
        weights = node.emit(op.reshape(node.tensor("weight", node.dtype), (-1,)))
    made = _count(node, at, weights, bins)
    if node["density"]:
        ahead = node.emit(op.strided_slice(edges, [0], [1], [bins + 1]))
        widths = node.emit(op.subtract(ahead, node.emit(op.strided_slice(edges, [0], [0], [bins]))))
        made = node.emit(op.divide(made, node.emit(op.sum(made))))
        made = node.emit(op.divide(made, widths))
    return [made, edges]


# -- runs -----------------------------------------------------------------------------------------
@register("aten.unique_consecutive.default")
def _unique_consecutive(node: Node) -> list[Any]:
    x, axis = node.tensor(0), node["dim"]
    if axis is None or node.rank(0) == 0:
        rows, at = node.emit(op.reshape(x, (-1,))), 0
    else:
        at = node.axis("dim", node.rank(0))
        rows = x

    def starts(data: Tensor) -> Tensor:
        others = [a for a in range(data.ndim) if a != at]

        def element(*i: PrimExpr) -> PrimExpr:
            before = [*i]
            before[at] = i[at] - 1
            first = i[at].equal(IntImm(0, i[at].dtype))
            return any_of(first, NE(data(*_guard(before, at)), data(*i)))

        made = compute(data.shape, element, name="starts")
        return topi.any(made, others) if others else made

    first = node.compute(starts, rows)
    values = take_chosen(node, rows, first, at)
    number = node.emit(op.cumsum(node.cast(first, "int64"), 0))
    inverse = node.emit(op.subtract(number, node.constant(1, "int64")))
    if axis is None:
        inverse = node.emit(op.reshape(inverse, tuple(node.dims(0))))
    made: list[Any] = [values, inverse, None]
    if node["return_counts"]:
        count = node.dims_of(values)[at]
        zeros = node.emit(op.full((count,), node.constant(0, "int64")))
        ones = node.emit(op.ones_like(number))
        flat = node.emit(op.reshape(inverse, (-1,)))
        made[2] = node.emit(op.index_put(zeros, (flat,), ones, True))
    for i, asked in ((1, node["return_inverse"]), (2, node["return_counts"])):
        if not asked:  # it is empty, whatever PyTorch records of its shape
            made[i] = node.emit(op.zeros((0,), "int64")) if node.wants(i) else None
    return made


def _guard(at: list[PrimExpr], axis: int) -> list[PrimExpr]:
    """Keep an index that is not used within the bounds."""
    index = at[axis]
    return [*at[:axis], select(index < 0, IntImm(0, index.dtype), index), *at[axis + 1 :]]


# -- frequencies ---------------------------------------------------------------------------------
@register("aten.mode.default")
def _mode(node: Node) -> list[Any]:
    own = node.dtype_of(node.tensor(0))
    x = node.cast(node.tensor(0), "uint8") if own == "bool" else node.tensor(0)
    rank = node.rank(0)
    if rank == 0:
        return [node.tensor(0), node.emit(op.full((), node.constant(0, "int64")))]
    axis = node.axis("dim", rank)

    def find(data: Tensor) -> Tensor:
        return _find_most_frequent(data, topi.argsort(data, axis, False, dtype="int64",
                                                 nan="greatest"), axis)  # fmt: skip

    where = node.compute(find, x)
    values = node.cast(node.emit(op.gather_elements(x, where, axis)), own)
    if node["keepdim"]:
        return [values, where]
    return [node.emit(op.squeeze(v, [axis])) for v in (values, where)]


def _find_most_frequent(x: Tensor, order: Tensor, axis: int) -> Tensor:
    """Return the place of the last of the most frequent elements of each row, the least of them."""
    shape = [*x.shape]
    shape[axis] = IntImm(1, shape[axis].dtype)

    def body(ins: Sequence[Buffer], outs: Sequence[Buffer]) -> Stmt:
        data, places = ins

        def row(i: Sequence[PrimExpr]) -> Stmt:
            cells = [decl_buffer((1,), "int64", name=n, scope="local") for n in ("run", "most")]
            run, most = (BufferLoad(c, _ZERO) for c in cells)

            def read_place(k: PrimExpr) -> PrimExpr:
                return BufferLoad(places, (*i[:axis], k, *i[axis + 1 :]))

            def value(k: PrimExpr) -> PrimExpr:
                return BufferLoad(data, (*i[:axis], read_place(k), *i[axis + 1 :]))

            def step(k: PrimExpr) -> Stmt:
                same = all_of(k > 0, Not(NE(value(k), value(_step_back(k)))))
                better = seq(
                    [
                        BufferStore(cells[1], run, _ZERO),
                        BufferStore(outs[0], read_place(k), tuple(i)),
                    ]
                )
                return seq(
                    [
                        BufferStore(cells[0], select(same, run + 1, const(1, "int64")), _ZERO),
                        IfThenElse(run > most, better),
                    ]
                )

            cleared: list[Stmt] = [BufferStore(c, const(0, "int64"), _ZERO) for c in cells]
            return with_buffers(cells, [*cleared, count_loop("k", wide(x.shape[axis]), step)])

        return nest(shape, row)

    made: Tensor = extern([tuple(shape)], [x, order], body, name="mode", dtype="int64")
    return made


def _step_back(k: PrimExpr) -> PrimExpr:
    return select(k > 0, k - 1, const(0, "int64"))
