"""Gather and scatter operators."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from loomir import op
from loomir.frontend.torch.node import Node
from loomir.frontend.torch.registry import Converter, register
from loomir.relax.expr import PrimValue
from loomir.relax.node import RelaxExpr
from loomir.support.dtype import DataType
from loomir.te import Tensor, all_of, compute, if_then_else, reduce_axis
from loomir.te import sum as te_sum
from loomir.tir.expr import PrimExpr, cast, const


@register("aten.embedding.default")
def _embedding(node: Node) -> RelaxExpr:
    return op.take(node.tensor(0), node.tensor(1), 0)


@register("aten.embedding_dense_backward.default")
def _embedding_backward(node: Node) -> RelaxExpr:
    grad, places = node.tensor(0), node.tensor(1)
    rows, padding = node["num_weights"], node["padding_idx"]
    width = node.dims(0)[-1]
    if padding is not None and padding >= 0:
        own = node.emit(op.equal(places, node.constant(padding, node.dtype_of(places))))
        mask = node.emit(op.expand_dims(own, [-1]))
        grad = node.emit(op.where(mask, node.constant(0), grad))
    zeros = node.emit(op.full((rows, width), node.constant(0)))
    return op.index_put(zeros, (places,), grad, True)


@register("aten._embedding_bag.default", "aten._embedding_bag_forward_only.default")
def _embedding_bag(node: Node) -> list[Any]:
    mode, padding = int(node["mode"]), int(node["padding_idx"])
    places, offsets = node.tensor("indices"), node.tensor("offsets")
    (count,), (bags,) = node.dims_of(places), node.dims_of(offsets)
    if node["include_last_offset"]:
        bags = node.simplify(bags - 1)
        offsets = node.emit(op.strided_slice(offsets, [0], [0], [_wrap_bound(bags)]))
    offsets = node.cast(offsets, "int64")
    order = node.emit(op.arange(0, _wrap_bound(count), 1, "int64"))
    own = node.emit(op.bucketize(order, offsets, False, True))
    bag = node.emit(op.subtract(node.cast(own, "int64"), node.constant(1, "int64")))
    rows = node.emit(op.take(node.tensor("weight"), places, 0))
    if node["per_sample_weights"] is not None:
        weights = node.emit(op.expand_dims(node.tensor("per_sample_weights"), [1]))
        rows = node.emit(op.multiply(rows, weights))
    width = node.dims_of(rows)[1]
    low = node.constant(float("-inf") if mode == 2 else 0)
    padded: RelaxExpr | None = None
    if padding >= 0:
        padded = node.emit(op.equal(places, node.constant(padding, node.dtype_of(places))))
        rows = node.emit(op.where(node.emit(op.expand_dims(padded, [1])), low, rows))
    start = node.emit(op.full((bags, width), low))
    if mode == 2:
        at = node.emit(op.broadcast_to(node.emit(op.expand_dims(bag, [1])), (count, width)))
        made = node.emit(op.scatter_elements(start, at, rows, 0, "max"))
    else:
        made = node.emit(op.index_put(start, (bag,), rows, True))
    if mode:
        used = node.emit(op.full((count,), node.constant(1, "int64")))
        if padded is not None:
            used = node.cast(node.emit(op.logical_not(padded)), "int64")
        none = node.emit(op.full((bags,), node.constant(0, "int64")))
        sizes = node.emit(op.index_put(none, (bag,), used, True))
        sizes = node.emit(op.expand_dims(sizes, [1]))
        least = node.emit(op.maximum(sizes, node.constant(1, "int64")))
        if mode == 1:
            made = node.emit(op.divide(made, node.cast(least, node.dtype)))
        else:
            empty = node.emit(op.equal(sizes, node.constant(0, "int64")))
            made = node.emit(op.where(empty, node.constant(0), made))
    return [made, bag if node.wants(1) else None, None, None]


@register("aten.embedding_renorm.default")
def _embedding_renorm(node: Node) -> RelaxExpr:
    """Shorten the rows that are named, where they are longer than a norm."""
    x, most, power = node.tensor(0), float(node["max_norm"]), float(node["norm_type"])
    rows = node.dims(0)[0]
    places = node.emit(op.reshape(node.tensor("indices"), (-1,)))
    named = node.emit(op.full((rows,), node.constant(False, "bool")))
    named = node.emit(op.index_put(named, (places,), node.constant([True], "bool"), False))
    wide = node.cast(x, "float64")
    size = node.emit(op.abs(wide))
    if power == float("inf"):
        size = node.emit(op.max(size, [1], True))
    else:
        raised = node.emit(op.power(size, node.constant(power, "float64")))
        total = node.emit(op.sum(raised, [1], True))
        size = node.emit(op.power(total, node.constant(1 / power, "float64")))
    longer = node.emit(op.greater(size, node.constant(most, "float64")))
    chosen = node.emit(op.logical_and(longer, node.emit(op.expand_dims(named, [1]))))
    more = node.emit(op.add(size, node.constant(1e-7, "float64")))
    factor = node.emit(op.divide(node.constant(most, "float64"), more))
    shorter = node.cast(node.emit(op.multiply(wide, factor)), node.dtype)
    return op.where(chosen, shorter, x)


def _wrap_bound(value: Any) -> Any:
    return PrimValue(value) if isinstance(value, PrimExpr) else value


@register("aten.index_select.default")
def _index_select(node: Node) -> RelaxExpr:
    rank = node.rank(0)
    places = node.tensor(2)
    if rank == 0:
        return node.tensor(0)
    if not node.dims_of(places):
        places = node.emit(op.reshape(places, (1,)))
    return op.take(node.tensor(0), places, node.axis("dim", rank))


@register("aten.take.default")
def _take(node: Node) -> RelaxExpr:
    return op.take(node.tensor(0), node.tensor(1))


@register("aten.gather.default")
def _gather(node: Node) -> RelaxExpr:
    rank = node.rank(0)
    x, places = node.tensor(0), node.tensor("index")
    if rank == 0:
        flat = node.emit(op.reshape(x, (1,)))
        made = node.emit(op.take(flat, node.emit(op.reshape(places, (-1,))), 0))
        return op.reshape(made, tuple(node.shape))
    if any(isinstance(d, int) and d == 0 for d in node.shape):
        return op.full(tuple(node.shape), node.constant(0))
    return op.gather_elements(_fit(node, x, places), places, node.axis("dim", rank))


def _fit(node: Node, x: RelaxExpr, places: RelaxExpr) -> RelaxExpr:
    if not node.dims_of(places):
        return node.emit(op.reshape(x, ()))
    return x


_SCATTERS: Final = {
    "sum": "add", "add": "add", "prod": "mul", "multiply": "mul", "amax": "max", "amin": "min",
    "mean": "mean",
}  # fmt: skip


def _scatter(reduction: str | None) -> Converter:
    def convert(node: Node) -> RelaxExpr:
        how = reduction or _SCATTERS.get(str(node["reduce"]))
        if how is None:
            raise node.refuse(f"reduce={node['reduce']!r} is not supported")
        x, places = node.tensor(0, node.dtype), node.tensor("index")
        rank = node.rank(0)
        dims = node.dims_of(places)
        if any(isinstance(d, int) and d == 0 for d in dims):
            return x
        name = "src" if "src" in node.arguments else "value"
        if node.is_tensor(name):
            updates = node.tensor(name, node.dtype)
            updates = _take_leading_part(node, updates, dims)
        else:
            updates = node.emit(op.full(tuple(dims), node.tensor(name, node.dtype)))
        if not node.arguments.get("include_self", True):
            return _reduce_updates(node, x, places, updates, how)
        if rank == 0:
            x, places, updates = [node.emit(op.reshape(v, (1,))) for v in (x, places, updates)]
            return op.reshape(node.emit(op.scatter_elements(x, places, updates, 0, how)), ())
        return op.scatter_elements(x, places, updates, node.axis("dim", rank), how)

    return convert


@register("aten.index_reduce.default")
def _index_reduce(node: Node) -> RelaxExpr:
    x, places = node.tensor(0), node.tensor("index")
    source = node.tensor("source", node.dtype)
    how, rank = _SCATTERS[str(node["reduce"])], node.rank(0)
    if rank == 0:
        raise node.refuse("a tensor of rank 0 is not supported")
    axis, dims = node.axis("dim", rank), node.dims_of(source)
    if any(isinstance(d, int) and d == 0 for d in dims):
        return x
    lined = [-1 if i == axis else 1 for i in range(rank)]
    places = node.emit(op.broadcast_to(node.emit(op.reshape(places, tuple(lined))), tuple(dims)))
    if not node["include_self"]:
        return _reduce_updates(node, x, places, source, how)
    return op.scatter_elements(x, places, source, axis, how)


def _reduce_updates(
    node: Node, x: RelaxExpr, places: RelaxExpr, updates: RelaxExpr, how: str
) -> RelaxExpr:
    """Reduce only updates, where there are some; what was there stays elsewhere."""
    shape = node.dims_of(x)
    if not shape:
        raise node.refuse("a tensor of rank 0 is not supported")
    axis, dtype = node.axis("dim", len(shape)), node.dtype
    ones = node.emit(op.full(tuple(node.dims_of(places)), node.constant(1, "int32")))
    none = node.emit(op.full(tuple(shape), node.constant(0, "int32")))
    count = node.emit(op.scatter_elements(none, places, ones, axis, "add"))
    start = node.emit(op.full(tuple(shape), node.constant(_identity(dtype, how))))
    step = "add" if how == "mean" else how
    made = node.emit(op.scatter_elements(start, places, updates, axis, step))
    if how == "mean":
        divisor = node.cast(node.emit(op.maximum(count, node.constant(1, "int32"))), dtype)
        divide = op.divide if DataType(dtype).is_float else op.floor_divide
        made = node.emit(divide(made, divisor))
    reached = node.emit(op.greater(count, node.constant(0, "int32")))
    return op.where(reached, made, x)


def _identity(dtype: str, how: str) -> float | int:
    """Return what a reduction of nothing is."""
    kind = DataType(dtype)
    if how in ("max", "min"):
        if kind.is_float:
            return float("-inf" if how == "max" else "inf")
        return kind.min_value if how == "max" else kind.max_value
    return 1 if how == "mul" else 0


def _take_leading_part(node: Node, x: RelaxExpr, dims: list[Any]) -> RelaxExpr:
    own = node.dims_of(x)
    axes = [i for i, (a, b) in enumerate(zip(own, dims)) if not node.is_equal(a, b)]
    if not axes:
        return x
    ends = [_wrap_bound(dims[a]) for a in axes]
    return node.emit(op.strided_slice(x, axes, [0] * len(axes), ends))


register("aten.scatter.src", "aten.scatter.value")(_scatter("update"))
register("aten.scatter_add.default")(_scatter("add"))
register("aten.scatter_reduce.two", "aten.scatter.reduce", "aten.scatter.value_reduce")(
    _scatter(None)
)


# -- index and index_put -------------------------------------------------------------------------
def _replace_masks(node: Node, given: list[Any]) -> list[Any]:
    """Replace each mask by the places where it holds, one tensor for each of its axes."""
    made: list[Any] = []
    for places in given:
        if places is None or node.dtype_of(places) not in ("bool", "uint8"):
            made.append(places)
            continue
        rank = len(node.dims_of(places))
        if rank == 0:
            raise node.refuse("indexing by a mask of rank 0 is not supported")
        found = node.emit(op.nonzero(node.cast(places, "bool")))
        count = node.dims_of(found)[1]
        for axis in range(rank):
            row = node.emit(op.strided_slice(found, [0], [axis], [axis + 1]))
            made.append(node.emit(op.reshape(row, (count,))))
    return made


@register("aten.index.Tensor", "aten._unsafe_index.Tensor")
def _index(node: Node) -> RelaxExpr:
    given = _replace_masks(node, list(node["indices"]))
    x = node.tensor(0)
    rank = node.rank(0)
    given += [None] * (rank - len(given))
    axes = [i for i, v in enumerate(given) if v is not None]
    if not axes:
        return x
    places = [given[a] for a in axes]
    if len(axes) == 1:
        return op.take(x, places[0], axes[0])
    if axes != list(range(len(axes))):
        order = [*axes, *[i for i in range(rank) if i not in axes]]
        x = node.emit(op.permute_dims(x, order))
    made = node.emit(op.index_tensor(x, tuple(places)))
    count = len(node.dims_of(made)) - (rank - len(axes))
    adjacent = axes == list(range(axes[0], axes[-1] + 1))
    if adjacent and axes[0] > 0:
        # What was indexed stands where its first axis stood.
        back = [*range(count, count + axes[0]), *range(count)]
        back += range(count + axes[0], len(node.dims_of(made)))
        return op.permute_dims(made, back)
    return made


@register("aten.index_put.default", "aten._unsafe_index_put.default", "aten.index_put_.default")
def _index_put(node: Node) -> RelaxExpr:
    given: list[Any] = list(node["indices"])
    x, values = node.tensor(0), node.tensor("values", node.dtype)
    rank = node.rank(0)
    only = [v for v in given if v is not None]
    if len(only) == 1 and node.dtype_of(only[0]) == "bool" and not node["accumulate"]:
        mask = only[0]
        axes = len(node.dims_of(mask))
        start = given.index(mask)
        if all(isinstance(d, int) and d == 1 for d in node.dims_of(values)):
            own = [*[1] * start, *node.dims_of(mask), *[1] * (rank - start - axes)]
            mask = node.emit(op.reshape(mask, tuple(own)))
            return op.where(mask, node.emit(op.reshape(values, ())), x)
    given = _replace_masks(node, given)
    given += [None] * (rank - len(given))
    axes_ = [i for i, v in enumerate(given) if v is not None]
    if not axes_:
        values = node.emit(op.broadcast_to(values, tuple(node.shape)))
        return op.add(x, values) if node["accumulate"] else values
    places = tuple([given[a] for a in axes_])
    accumulate = bool(node["accumulate"])
    if axes_ == list(range(len(axes_))):
        return op.index_put(x, places, _broadcast_values(node, x, places, values), accumulate)
    rest = [i for i in range(rank) if i not in axes_]
    order = [*axes_, *rest]
    x = node.emit(op.permute_dims(x, order))
    adjacent = axes_ == list(range(axes_[0], axes_[-1] + 1))
    if adjacent:
        values = _to_front(node, values, places, axes_[0], rank - len(axes_))
    made = node.emit(
        op.index_put(x, places, _broadcast_values(node, x, places, values), accumulate)
    )
    return op.permute_dims(made, [order.index(i) for i in range(rank)])


def _to_front(
    node: Node, values: RelaxExpr, places: tuple[Any, ...], before: int, rest: int
) -> RelaxExpr:
    """Bring the axes of places to the front of values, which have them where they stood."""
    count = max(len(node.dims_of(p)) for p in places)
    own = node.dims_of(values)
    full = [*[1] * (count + rest - len(own)), *own]
    values = node.emit(op.reshape(values, tuple(full)))
    order = [*range(before, before + count), *range(before), *range(before + count, len(full))]
    return node.emit(op.permute_dims(values, order))


def _broadcast_values(
    node: Node, x: RelaxExpr, places: tuple[Any, ...], values: RelaxExpr
) -> RelaxExpr:
    """Broadcast values to the shape of what is written."""
    shapes = [node.dims_of(p) for p in places]
    rank = max(len(s) for s in shapes)
    front: list[Any] = [1] * rank
    for shape in shapes:
        for i, d in enumerate(shape, rank - len(shape)):
            front[i] = d if node.is_equal(front[i], 1) else front[i]
    whole = [*front, *node.dims_of(x)[len(places) :]]
    own = node.dims_of(values)
    if len(own) == len(whole) and all(node.is_equal(a, b) for a, b in zip(own, whole)):
        return values
    return node.emit(op.broadcast_to(values, tuple(whole)))


@register("aten.index_add.default")
def _index_add(node: Node) -> RelaxExpr:
    rank = node.rank(0)
    axis = node.axis("dim", rank)
    source = node.tensor("source", node.dtype)
    if node["alpha"] != 1:
        source = node.emit(op.multiply(source, node.as_tensor(node["alpha"])))
    return _put_along(node, axis, source, True)


@register("aten.index_copy.default")
def _index_copy(node: Node) -> RelaxExpr:
    return _put_along(
        node, node.axis("dim", node.rank(0)), node.tensor("source", node.dtype), False
    )


def _put_along(node: Node, axis: int, source: RelaxExpr, accumulate: bool) -> RelaxExpr:
    x, places = node.tensor(0), node.tensor("index")
    rank = node.rank(0)
    if rank == 0:
        x, source = [node.emit(op.reshape(v, (1,))) for v in (x, source)]
        made = node.emit(op.index_put(x, (places,), source, accumulate))
        return op.reshape(made, ())
    order = [axis, *[i for i in range(rank) if i != axis]]
    back = [order.index(i) for i in range(rank)]
    moved = node.emit(op.permute_dims(x, order))
    rows = node.emit(op.permute_dims(source, order))
    made = node.emit(op.index_put(moved, (places,), rows, accumulate))
    return op.permute_dims(made, back)


@register("aten.put.default")
def _put(node: Node) -> RelaxExpr:
    x, places, source = [
        node.emit(op.reshape(node.tensor(name), (-1,))) for name in ("self", "index", "source")
    ]
    made = node.emit(op.index_put(x, (places,), source, bool(node["accumulate"])))
    return op.reshape(made, tuple(node.shape))


@register("aten.diagonal_scatter.default")
def _diagonal_scatter(node: Node) -> RelaxExpr:
    rank, offset = node.rank(0), node["offset"]
    first, second = node.axis("dim1", rank), node.axis("dim2", rank)

    def kernel(x: Tensor, source: Tensor) -> Tensor:
        def element(*i: PrimExpr) -> PrimExpr:
            rest = [v for a, v in enumerate(i) if a not in (first, second)]
            row, column = cast(i[first], "int64"), cast(i[second], "int64")
            on = (column - row).equal(const(offset, "int64"))
            place = row if offset >= 0 else column
            return if_then_else(on, source(*rest, place), x(*i))

        return compute(x.shape, element, name="diagonal_scatter")

    if any(isinstance(d, int) and d == 0 for d in node.dims("src")):
        return node.tensor(0)
    return node.compute(kernel, node.tensor(0), node.tensor("src", node.dtype))


@register("aten.nonzero_static.default")
def _nonzero_static(node: Node) -> RelaxExpr:
    fill = node["fill_value"]
    found = node.emit(op.nonzero(node.tensor(0)))

    def kernel(found: Tensor, shape: list[Any]) -> Tensor:
        def element(i: PrimExpr, axis: PrimExpr) -> PrimExpr:
            there = cast(i, "int64") < cast(found.shape[1], "int64")
            return if_then_else(there, found(axis, i), const(fill, "int64"))

        return compute(tuple(shape), element, name="nonzero_static")

    return node.compute(kernel, found, node.shape)


@register("aten.masked_fill.Scalar", "aten.masked_fill.Tensor")
def _masked_fill(node: Node) -> RelaxExpr:
    x = node.tensor(0, node.dtype)
    return op.where(node.tensor(1, "bool"), node.tensor("value", node.dtype), x)


@register("aten.masked_scatter.default")
def _masked_scatter(node: Node) -> RelaxExpr:
    x, mask = node.tensor(0), node.tensor(1, "bool")
    source = node.tensor("source", node.dtype)
    shape = tuple(node.shape)
    mask = node.emit(op.broadcast_to(mask, shape))
    flat = node.emit(op.reshape(node.emit(op.astype(mask, "int64")), (-1,)))
    count = node.emit(op.cumsum(flat, 0))
    place = node.emit(op.maximum(node.emit(op.subtract(count, node.constant(1, "int64"))),
                                 node.constant(0, "int64")))  # fmt: skip
    taken = node.emit(op.take(node.emit(op.reshape(source, (-1,))), place, 0, "clip"))
    return op.where(mask, node.emit(op.reshape(taken, shape)), x)


@register("aten.nonzero.default")
def _nonzero(node: Node) -> RelaxExpr:
    return op.permute_dims(node.emit(op.nonzero(node.tensor(0))))


# -- windows as columns --------------------------------------------------------------------------
@register("aten.col2im.default")
def _col2im(node: Node) -> RelaxExpr:
    size: list[Any] = [*node["output_size"]]
    kernel, dilation, padding, stride = [
        node.ints(name, 2) for name in ("kernel_size", "dilation", "padding", "stride")
    ]
    blocks = [
        (size[i] + 2 * padding[i] - dilation[i] * (kernel[i] - 1) - 1) // stride[i] + 1
        for i in (0, 1)
    ]
    x = node.tensor(0)
    dims = node.dims(0)
    batched = len(dims) == 3
    batch = dims[0] if batched else 1
    channels = dims[-2] // (kernel[0] * kernel[1])
    x = node.emit(op.reshape(x, (batch, channels, *kernel, *blocks)))
    made = node.compute(_make_folding(kernel, dilation, padding, stride), x, size, blocks)
    return made if batched else op.reshape(made, tuple(node.shape))


def _make_folding(
    kernel: list[int], dilation: list[int], padding: list[int], stride: list[int]
) -> Callable[[Tensor, list[Any], list[Any]], Tensor]:
    def fold(x: Tensor, size: list[Any], blocks: list[Any]) -> Tensor:
        taps = [reduce_axis((0, k), name=f"k{i}") for i, k in enumerate(kernel)]

        def element(n: PrimExpr, c: PrimExpr, *at: PrimExpr) -> PrimExpr:
            inside: list[PrimExpr] = []
            places: list[PrimExpr] = []
            for i in (0, 1):
                moved = at[i] + padding[i] - taps[i] * dilation[i]
                place = moved // stride[i]
                inside += [(moved % stride[i]).equal(0), place >= 0, place < blocks[i]]
                places.append(place)
            value = if_then_else(all_of(*inside), x(n, c, *taps, *places), const(0, x.dtype))
            return te_sum(value, axis=taps)

        return compute((x.shape[0], x.shape[1], *size), element, name="fold")

    return fold
