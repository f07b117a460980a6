"""Calls of operators: by their samples, and by solving for shapes and options."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from fuzz.relax.grow import DTYPES, LARGEST, Entry, Grower, near, op
from fuzz.relax.program import EXACT
from loomir.relax import PrimValue, TupleGetItem
from loomir.relax.operator.definition import OpDef, TensorSample, find_op, op_names
from loomir.relax.operator.params import Kind
from loomir.support.dtype import DataType
from loomir.tir import const

__all__ = ["OPERATOR_STEPS", "by_sample", "sampled"]


@functools.lru_cache(maxsize=1)
def sampled() -> tuple[OpDef, ...]:
    """List the operators that have samples."""
    found = [find_op(name) for name in sorted(op_names())]
    return tuple(d for d in found if d is not None and d.samples)


@functools.lru_cache(maxsize=2)
def _elementwise(count: int) -> tuple[OpDef, ...]:
    def tensors(definition: OpDef) -> bool:
        inputs = definition.inputs
        return len(inputs) == count and all(p.kind is Kind.TENSOR for p in inputs)

    return tuple(d for d in sampled() if d.elementwise and tensors(d))


# -- by samples --------------------------------------------------------------------------------
def by_sample(g: Grower, definition: OpDef | None = None) -> Entry | None:
    """Call an operator as one of its samples does, on tensors that are made to fit it."""
    definition = definition or g.choices.pick(sampled())
    sample = g.choices.pick(definition.samples)

    def convert(arg: Any) -> Any:
        if isinstance(arg, TensorSample):
            return g.fitted(arg)
        if isinstance(arg, (tuple, list)):
            return type(arg)([convert(a) for a in arg])
        return arg

    name = definition.name.removeprefix("relax.")
    args = [convert(a) for a in sample.args]
    options = {k: convert(v) for k, v in sample.attrs.items()}
    return ready(g, name, args, options)


def ready(g: Grower, name: str, args: list[Any], options: dict[str, Any]) -> Entry | None:
    """Call an operator; what engines may round differently is mostly rounded at once."""
    made = g.call(name, *args, **options)
    if made is not None and not made.exact and g.choices.chance(0.8):
        return g.snapped(made) or made
    return made


# -- solving -----------------------------------------------------------------------------------
def _bounded(g: Grower, definition: OpDef, place: int, entry: Entry | None) -> Entry | None:
    """Keep to the range in which an operator is as exact as it says."""
    if entry is None or near(definition) == EXACT or not entry.dtype.is_float:
        return entry
    if not np.all(np.isfinite(entry.value)):
        return None
    for sample in definition.samples:
        if place < len(sample.args) and isinstance(sample.args[place], TensorSample):
            wanted = sample.args[place]
            return entry if g.within(entry, wanted) else g.clipped(entry, wanted.low, wanted.high)
    return entry


def unary(g: Grower) -> Entry | None:
    """Apply an elementwise operator to any tensor."""
    definition = g.choices.pick(_elementwise(1))
    entry = _bounded(g, definition, 0, g.tensor())
    if entry is None:
        return None
    return ready(g, definition.name.removeprefix("relax."), [entry], {})


def partner(g: Grower, entry: Entry, dtype: str) -> Entry:
    """Find or make a tensor that broadcasts with another."""
    shape = entry.value.shape

    def broadcasts(other: Entry) -> bool:
        pairs = zip(reversed(shape), reversed(other.value.shape))
        return str(other.dtype) == dtype and all(a == b or 1 in (a, b) for a, b in pairs)

    found = g.tensor(broadcasts)
    if found is not None and g.choices.chance(0.7):
        return found
    rank = g.choices.integer(0, len(shape))
    part = [1 if g.choices.chance(0.2) else n for n in shape[len(shape) - rank :]]
    while int(np.prod(part, dtype=np.int64)) > LARGEST:
        part = part[1:]
    # Zeros among integers stay rare: dividing by one is an error.
    low = 1 if DataType(dtype).is_integer and g.choices.chance(0.8) else -3
    return g.constant(part, dtype, low, 3)


def binary(g: Grower) -> Entry | None:
    """Apply an elementwise operator to two tensors, or a tensor and a number."""
    definition = g.choices.pick(_elementwise(2))
    first = _bounded(g, definition, 0, g.tensor())
    if first is None:
        return None
    name = definition.name.removeprefix("relax.")
    exact = near(definition) == EXACT
    if exact and not first.dtype.is_bool and g.choices.chance(0.12):
        number: Any = g.choices.integer(1, 3)
        scalar = PrimValue(const(float(number) if first.dtype.is_float else number, first.dtype))
        return ready(g, name, [first, scalar], {})
    second = _bounded(g, definition, 1, partner(g, first, str(first.dtype)))
    if second is None:
        return None
    args = [first, second] if g.choices.chance(0.5) or not exact else [second, first]
    return ready(g, name, args, {})


def _axis(g: Grower, rank: int) -> int:
    return g.choices.integer(-rank, rank - 1)


def _some_axes(g: Grower, rank: int) -> Any:
    form = g.choices.integer(0, 3)
    if form == 0 or rank == 0:
        return None
    if form == 1:
        return _axis(g, rank)
    chosen = [a for a in range(rank) if g.choices.chance(0.5)]
    return [a - rank if g.choices.chance(0.3) else a for a in chosen]


_REDUCE = ["sum", "prod", "max", "min", "mean", "variance", "std"]


def reduce(g: Grower) -> Entry | None:
    """Reduce a tensor over some axes."""
    name = g.choices.pick(_REDUCE)
    definition = op(name)
    entry = _bounded(g, definition, 0, g.tensor())
    if entry is None:
        return None
    options: dict[str, Any] = {"keepdims": g.choices.chance(0.4)}
    axes = _some_axes(g, entry.value.ndim)
    if axes is not None:
        options["axis"] = axes
    if not _reduces_something(entry.value.shape, axes):
        return None
    return ready(g, name, [entry], options)


def _reduces_something(shape: tuple[int, ...], axes: Any) -> bool:
    """Whether no reduction is over nothing, which is an error for some."""
    listed = range(len(shape)) if axes is None else [axes] if isinstance(axes, int) else axes
    return all(shape[a] for a in listed)


def arg_reduce(g: Grower) -> Entry | None:
    """Find where the largest or smallest element is; ties are for the first."""
    entry = g.tensor(lambda e: e.value.size > 0)
    if entry is None:
        return None
    options: dict[str, Any] = {"keepdims": g.choices.chance(0.4)}
    if entry.value.ndim and g.choices.chance(0.7):
        options["axis"] = _axis(g, entry.value.ndim)
    return ready(g, g.choices.pick(["argmax", "argmin"]), [entry], options)


def _factors(g: Grower, count: int) -> list[int]:
    """Draw extents with a product."""
    shape: list[int] = []
    while count > 1 and len(shape) < 3 and g.choices.chance(0.7):
        part = g.choices.pick([d for d in range(1, count + 1) if count % d == 0])
        shape.append(part)
        count //= part
    shape.append(count)
    return shape


def reshape(g: Grower) -> Entry | None:
    """Return other extents, one of them perhaps left to be found."""
    entry = g.tensor()
    if entry is None:
        return None
    if entry.value.size == 0:
        return g.call("flatten", entry)
    shape: list[Any] = _factors(g, entry.value.size)
    if g.choices.chance(0.3):
        shape[g.choices.integer(0, len(shape) - 1)] = -1
    elif not entry.known:
        return g.call("flatten", entry)
    return g.call("reshape", entry, tuple(shape))


def rearrange(g: Grower) -> Entry | None:
    """Move elements about."""
    choices = g.choices
    entry = g.tensor()
    if entry is None:
        return None
    rank, shape = entry.value.ndim, entry.value.shape
    form = choices.integer(0, 8)
    if form == 0:
        order = list(range(rank))
        for i in range(rank - 1, 0, -1):
            j = choices.integer(0, i)
            order[i], order[j] = order[j], order[i]
        if rank == 0 or choices.chance(0.2):
            return g.call("permute_dims", entry)
        return g.call("permute_dims", entry, order)
    if form == 1:
        places = sorted({choices.integer(0, rank) for _ in range(choices.integer(1, 2))})
        return g.call("expand_dims", entry, places) if rank + len(places) <= 4 else None
    if form == 2:
        ones = [a for a, n in enumerate(shape) if n == 1]
        if choices.chance(0.3) and entry.known:
            return g.call("squeeze", entry)
        return g.call("squeeze", entry, [choices.pick(ones)]) if ones else None
    if rank == 0:
        return None
    axis = _axis(g, rank)
    if form == 3:
        return g.call("flip", entry, axis)
    if form == 4:
        options = {"axis": axis} if choices.chance(0.7) else {}
        return g.call("repeat", entry, choices.integer(1, 3), **options)
    if form == 5:
        return g.call("tile", entry, [choices.integer(1, 2) for _ in range(rank)])
    if form == 6:
        lead = [choices.integer(1, 3)] if rank < 4 and choices.chance(0.5) else []
        dims = list(getattr(entry.info, "dims", None) or shape)
        return g.call("broadcast_to", entry, (*lead, *dims))
    if form == 7 and shape[axis]:
        parts = choices.pick([d for d in range(1, shape[axis] + 1) if shape[axis] % d == 0])
        where: Any = parts
        if choices.chance(0.5):
            where = sorted({choices.integer(0, shape[axis]) for _ in range(2)})
        made = g.call("split", entry, where, axis)
        return field_of(g, made) if made is not None else None
    return _sliced(g, entry, axis)


def _sliced(g: Grower, entry: Entry, axis: int) -> Entry | None:
    n = entry.value.shape[axis]
    begin, end = g.choices.integer(-n - 1, n + 1), g.choices.integer(-n - 1, n + 1)
    stride = g.choices.weighted([(3.0, 1), (1.0, 2), (0.5, 3), (0.7, -1), (0.4, -2)])
    options = {} if stride == 1 and g.choices.chance(0.5) else {"strides": [stride]}
    return g.call("strided_slice", entry, [axis], [begin], [end], **options)


def field_of(g: Grower, entry: Entry) -> Entry | None:
    """Take a field of a tuple."""
    if not isinstance(entry.value, tuple) or not entry.value:
        return None
    index = g.choices.integer(0, len(entry.value) - 1)
    tolerance = entry.tolerance
    if isinstance(tolerance, list):
        tolerance = tolerance[index]
    return g.bind(TupleGetItem(entry.leaf, index), tolerance, "TupleGetItem")


def join(g: Grower) -> Entry | None:
    """Join tensors along an axis."""
    first = g.tensor()
    if first is None:
        return None
    shape, rank = first.value.shape, first.value.ndim
    if g.choices.chance(0.4) or rank == 0:
        same = g.tensors(lambda e: e.value.shape == shape and e.dtype is first.dtype)
        parts = [first, *(g.choices.pick(same) for _ in range(g.choices.integer(0, 2)))]
        return g.call("stack", parts, _axis(g, rank + 1)) if rank < 4 else None
    axis = g.choices.integer(0, rank - 1)

    def fits(other: Entry) -> bool:
        rest = [a == b for i, (a, b) in enumerate(zip(shape, other.value.shape)) if i != axis]
        return other.value.ndim == rank and other.dtype is first.dtype and all(rest)

    same = g.tensors(fits)
    parts = [first, *(g.choices.pick(same) for _ in range(g.choices.integer(0, 2)))]
    return g.call("concat", parts, axis - rank if g.choices.chance(0.3) else axis)


def matmul(g: Grower) -> Entry | None:
    """Multiply matrices, with batches that broadcast."""
    definition = op("matmul")
    first = _bounded(g, definition, 0, g.tensor(lambda e: e.value.ndim > 0 and not e.dtype.is_bool))
    if first is None:
        return None
    k, batch = first.value.shape[-1], list(first.value.shape[:-2])
    shape = [k] if g.choices.chance(0.2) else [k, g.choices.integer(1, 4)]
    if len(shape) == 2 and batch and g.choices.chance(0.5):
        shape = [*(1 if g.choices.chance(0.4) else n for n in batch), *shape]
    if int(np.prod(shape)) > LARGEST:
        return None
    second = g.constant(shape, str(first.dtype), -2, 2)
    return ready(g, "matmul", [first, second], {})


def convert(g: Grower) -> Entry | None:
    """Change the dtype."""
    entry = g.tensor()
    if entry is None:
        return None
    return g.call("astype", entry, g.choices.weighted(DTYPES))


def choose(g: Grower) -> Entry | None:
    """Choose elements of two tensors by a third."""
    first = g.tensor()
    if first is None:
        return None
    second = partner(g, first, str(first.dtype))
    return g.call("where", partner(g, first, "bool"), first, second)


def take(g: Grower) -> Entry | None:
    """Take slices at indices, perhaps out of bounds."""
    entry = g.tensor(lambda e: e.value.ndim > 0 and e.value.size > 0)
    if entry is None:
        return None
    axis = _axis(g, entry.value.ndim)
    n = entry.value.shape[axis]
    out = g.choices.chance(0.05)
    shape = [g.choices.integer(0, 3) for _ in range(g.choices.integer(0, 2))]
    dtype = g.choices.pick(["int32", "int64", "int8", "uint8"])
    indices = g.constant(shape, dtype, -n if out else 0, n + 1 if out else n - 1)
    options: dict[str, Any] = {"axis": axis}
    if g.choices.chance(0.4):
        options["mode"] = g.choices.pick(["wrap", "clip", "nan"])
    return g.call("take", entry, indices, **options)


def order(g: Grower) -> Entry | None:
    """Sort, or accumulate, along an axis."""
    entry = g.tensor(lambda e: e.value.ndim > 0)
    if entry is None:
        return None
    name = g.choices.pick(["sort", "argsort", "cumsum", "cumprod", "flip", "topk"])
    options: dict[str, Any] = {"axis": _axis(g, entry.value.ndim)}
    if name in ("sort", "argsort"):
        options["descending"] = g.choices.chance(0.5)
    elif name in ("cumsum", "cumprod"):
        options["exclusive"] = g.choices.chance(0.3)
    elif name == "topk":
        if not entry.value.shape[options["axis"]]:
            return None
        options["k"] = g.choices.integer(1, entry.value.shape[options["axis"]])
    made = ready(g, name, [entry], options)
    return field_of(g, made) if made is not None and isinstance(made.value, tuple) else made


def create(g: Grower) -> Entry | None:
    """Make a tensor of nothing, or like another."""
    choices = g.choices
    like = g.tensor()
    dtype = choices.weighted(DTYPES)
    number = choices.integer(0, 3)
    if like is not None and choices.chance(0.5):
        form = choices.integer(0, 4)
        if form == 0:
            return g.call("full_like", like, number)
        if form < 3:
            return g.call(["zeros_like", "ones_like"][form - 1], like)
        if like.value.ndim < 2:
            return None
        return g.call(["tril", "triu"][form - 3], like, choices.integer(-2, 2))
    shape = tuple(choices.integer(0, 4) for _ in range(choices.integer(0, 3)))
    form = choices.integer(0, 3)
    if form == 0:
        return g.call("full", shape, g.constant((), dtype, 0, 3))
    if form == 1:
        return g.call(choices.pick(["zeros", "ones"]), shape, dtype)
    if form == 2:
        return g.call("eye", number, choices.integer(0, 3), choices.integer(-1, 1), dtype=dtype)
    return g.call("arange", choices.integer(-2, 2), choices.integer(2, 7), choices.integer(1, 2))


OPERATOR_STEPS = [
    (9.0, by_sample),
    (3.0, unary),
    (3.0, binary),
    (1.2, reduce),
    (0.6, arg_reduce),
    (1.0, reshape),
    (2.0, rearrange),
    (1.0, join),
    (1.0, matmul),
    (0.6, convert),
    (0.6, choose),
    (0.6, take),
    (0.8, order),
    (0.8, create),
]
"""Ways to go on with an operator, by weight."""
