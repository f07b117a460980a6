"""Collapse adjacent axes of symbolic extent into one axis, if all arrays are contiguous along them.

Axes of constant extent stay: rules compute their indices from a flat index by division, which LLVM
simplifies for constants. With symbolic extents, each row of an image was a loop of its own: adding
a number for each channel took 2.4 times as long (on a Xeon, Emerald Rapids).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import replace
from functools import partial
from typing import Final, NamedTuple

from loomir.arith.fold import fold_expr, int64, product
from loomir.autoschedule.builders.loops import INDEX, declare_views, with_shape
from loomir.autoschedule.ir.stage import Axis, LiftedFunction, Stage
from loomir.autoschedule.rewrite.def_use import reads_of
from loomir.autoschedule.rewrite.drop_unit_axes import Declare
from loomir.ir.equality import structural_equal
from loomir.ir.visit import by_class, rewrite
from loomir.tir.buffer import Buffer, BufferLoad
from loomir.tir.expr import IntImm, PrimExpr, Var

__all__ = ["collapse_axes"]

_ROUNDS: Final = 16
"""Most rounds of the search: a dimension that drops out may force others to drop out."""

_Dims = dict[Buffer, set[int]]
"""The dimensions of arrays that are collapsed with the next one."""
_Pair = tuple[Var, Var]


class _Access(NamedTuple):
    """A load or the store; ``outside`` are the variables of each index, nested loads aside."""

    buffer: Buffer
    indices: tuple[PrimExpr, ...]
    outside: tuple[frozenset[Var], ...]


class _Summary(NamedTuple):
    """What a stage accesses, by which axes, and the axes that it uses elsewhere."""

    stage: Stage
    accesses: tuple[_Access, ...]
    elsewhere: frozenset[Var]
    order: Mapping[Var, tuple[int, int]]
    """The place of an axis: among those of the result, or among those that are reduced."""
    extents: Mapping[Var, PrimExpr]


def collapse_axes(kernel: LiftedFunction) -> tuple[LiftedFunction, Declare]:
    """Return the function with fewer axes, and how to declare new shapes of its arguments."""
    stages = [part for part in kernel.parts if isinstance(part, Stage)]
    if not any(axis.size is None for s in stages for axis in (*s.axes, *s.reduced)):
        return kernel, lambda stmt: stmt
    others = (reads_of(part) for part in kernel.parts if not isinstance(part, Stage))
    seen = {stage: _summarize(stage) for stage in stages}
    dims = _collapsible_dims(list(seen.values()), set[int]().union(*others))
    if not any(dims.values()):
        return kernel, lambda stmt: stmt
    shapes = {buffer: _collapse_shape(buffer, merged) for buffer, merged in dims.items() if merged}
    parts = tuple(
        _rewrite_stage(seen[part], dims, shapes) if isinstance(part, Stage) else part
        for part in kernel.parts
    )
    between = tuple(shapes.get(b, b) for b in kernel.between)
    views = [new for old, new in shapes.items() if old not in set(kernel.between)]
    return LiftedFunction(kernel.func, parts, between), partial(declare_views, views)


# -- what fits ---------------------------------------------------------------------------------
def _summarize(stage: Stage) -> _Summary:
    values = [stage.value] if stage.init is None else [stage.value, stage.init]
    loads: list[BufferLoad] = [load for v in values for load in by_class(v).get(BufferLoad, ())]
    places = [(stage.buffer, stage.indices), *((load.buffer, load.indices) for load in loads)]
    accesses = [_Access(b, i, tuple(map(_direct_vars, i))) for b, i in places]
    order = {axis.var: (0, k) for k, axis in enumerate(stage.axes)}
    order.update({axis.var: (1, k) for k, axis in enumerate(stage.reduced)})
    extents = {axis.var: axis.extent for axis in (*stage.axes, *stage.reduced)}
    elsewhere = frozenset[Var]().union(*map(_direct_vars, values))
    return _Summary(stage, tuple(accesses), elsewhere, order, extents)


def _direct_vars(expr: PrimExpr) -> frozenset[Var]:
    """Return the variables of an expression, except those within its loads."""
    if BufferLoad in by_class(expr):
        expr = rewrite(expr, {BufferLoad: lambda load: Var("element", load.dtype)})
    return frozenset(by_class(expr).get(Var, ()))


def _collapsible_dims(seen: Sequence[_Summary], fixed: Set[int]) -> _Dims:
    """Find the dimensions that all stages traverse together with the next one, as one run."""
    dims: _Dims = {}
    for one in seen:
        for access in one.accesses:
            buffer = access.buffer
            plain = not buffer.strides and not buffer.axis_separators
            if buffer not in dims:
                usable = plain and id(buffer.data) not in fixed
                dims[buffer] = set(range(len(buffer.shape) - 1)) if usable else set()
    for _ in range(_ROUNDS):
        if not [one for one in seen if _drop(one, dims)]:
            return _keep_useful(seen, dims)
    return {}


def _pairs(one: _Summary, access: _Access, dims: _Dims) -> Iterator[tuple[int, _Pair]]:
    """List the collapsed dimensions of an access, with the axes there."""
    for k in dims[access.buffer]:
        a, b = access.indices[k], access.indices[k + 1]
        assert isinstance(a, Var)  # others are dropped before
        assert isinstance(b, Var)
        yield k, (a, b)


def _drop(one: _Summary, dims: _Dims) -> bool:
    """Drop dimensions that a stage cannot collapse; return whether there were any."""
    dropped = False
    for access in one.accesses:
        for k in list(dims[access.buffer]):
            if not _spans_dims(one, access, k):
                dims[access.buffer].discard(k)
                dropped = True
    wrong = {pair for a in one.accesses for _, pair in _pairs(one, a, dims)}
    wrong = {pair for pair in wrong if not _is_always_paired(one, pair, dims)}
    for access in one.accesses:
        for k, pair in list(_pairs(one, access, dims)):
            if pair in wrong:
                dims[access.buffer].discard(k)
                dropped = True
    return dropped


def _spans_dims(one: _Summary, access: _Access, k: int) -> bool:
    """Whether two axes index a dimension and the whole of the next one."""
    a, b = access.indices[k], access.indices[k + 1]
    if not isinstance(a, Var) or not isinstance(b, Var):
        return False
    if a is b or a not in one.extents or b not in one.extents:
        return False
    extent = int64(access.buffer.shape[k + 1])
    return structural_equal(*(fold_expr(e) for e in (one.extents[b], extent)))


def _is_always_paired(one: _Summary, pair: _Pair, dims: _Dims) -> bool:
    """Whether a stage uses two axes only together, one right inside of the other."""
    a, b = pair
    (kind, outer), (other, inner) = one.order[a], one.order[b]
    if kind != other or (kind == 1 and inner != outer + 1) or one.elsewhere & {a, b}:
        return False
    for access in one.accesses:
        places = [k for k, names in enumerate(access.outside) if names & {a, b}]
        if not places:
            continue
        k = places[0]
        if len(places) != 2 or k not in dims[access.buffer]:
            return False
        if access.indices[k] is not a or access.indices[k + 1] is not b:
            return False
    return True


def _keep_useful(seen: Sequence[_Summary], dims: _Dims) -> _Dims:
    """Leave out dimensions of constant extents: LLVM simplifies the division there."""
    kept: _Dims = {buffer: set() for buffer in dims}
    for _ in range(_ROUNDS):
        grown = False
        for one in seen:
            chosen = {p for a in one.accesses for _, p in _pairs(one, a, kept)}
            for access in one.accesses:
                for k, pair in _pairs(one, access, dims):
                    unknown = any(not isinstance(one.extents[v], IntImm) for v in pair)
                    near = any(set(pair) & set(other) for other in chosen)
                    if (unknown or near) and k not in kept[access.buffer]:
                        kept[access.buffer].add(k)
                        grown = True
        if not grown:
            return kept
    return {}


# -- the new stages ----------------------------------------------------------------------------
def _collapse_shape(buffer: Buffer, merged: Set[int]) -> Buffer:
    shape: list[PrimExpr] = []
    for k, extent in enumerate(buffer.shape):
        if k - 1 in merged:
            shape[-1] = product((shape[-1], int64(extent)))
        else:
            shape.append(int64(extent))
    return with_shape(buffer, shape)


def _rewrite_stage(one: _Summary, dims: _Dims, shapes: Mapping[Buffer, Buffer]) -> Stage:
    """Write a stage by the new axes."""
    stage = one.stage
    pairs = {pair for access in one.accesses for _, pair in _pairs(one, access, dims)}
    if not pairs:
        return stage
    follows = dict(pairs)
    heads = follows.keys() - set(follows.values())
    named: dict[Var, Axis] = {}
    inside: set[Var] = set()
    for head in heads:
        chain = [head]
        while chain[-1] in follows:
            chain.append(follows[chain[-1]])
        extent = product(one.extents[var] for var in chain)
        named[head] = Axis(Var("_".join(var.name_hint for var in chain), INDEX), extent)
        inside.update(chain[1:])

    def axes(old: Sequence[Axis]) -> tuple[Axis, ...]:
        return tuple(named.get(axis.var, axis) for axis in old if axis.var not in inside)

    def indices(buffer: Buffer, old: Sequence[PrimExpr]) -> tuple[PrimExpr, ...]:
        made: list[PrimExpr] = []
        for k, index in enumerate(old):
            if k - 1 in dims[buffer]:
                continue
            merged = k in dims[buffer] and isinstance(index, Var)
            made.append(named[index].var if merged and isinstance(index, Var) else index)
        return tuple(made)

    def load(old: BufferLoad) -> PrimExpr:
        new = shapes.get(old.buffer)
        return old if new is None else BufferLoad(new, indices(old.buffer, old.indices))

    rules = {BufferLoad: load}
    return replace(
        stage,
        axes=axes(stage.axes),
        reduced=axes(stage.reduced),
        buffer=shapes.get(stage.buffer, stage.buffer),
        indices=indices(stage.buffer, stage.indices),
        value=rewrite(stage.value, rules),
        init=None if stage.init is None else rewrite(stage.init, rules),
    )
