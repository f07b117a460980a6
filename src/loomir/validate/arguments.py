"""Draw small arguments for a function: sizes, and arrays whose elements are valid indices."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple, cast

import numpy as np

from loomir.interp.tir.scalar import value_of
from loomir.ir.module import IRModule
from loomir.ir.node import Node
from loomir.ir.visit import by_class, pre_order
from loomir.support.diagnostics import LoomirError
from loomir.support.dtype import DataType, numpy_of
from loomir.tir.buffer import Buffer, BufferLoad
from loomir.tir.expr import IntImm, PrimExpr, Var
from loomir.tir.function import PrimFunc
from loomir.tir.signature import Parameter, Signature, signature_of
from loomir.tir.stmt import BufferStore, For, LetStmt, While

__all__ = ["LEVELS", "Drawer", "DrawnArguments", "NotDrawnError", "fresh"]

_SIZES: Final = (1, 2, 3, 4, 5, 7, 8, 9, 12, 16, 17, 20, 24, 31, 32, 33, 48, 64, 65)
_AMPLE: Final = 3
"""The factor by which sizes that must be large enough exceed the others."""
_STEERED: Final = 6
"""Integers that control how often code runs are below this."""
LEVELS: Final = 3
"""The number of levels of caution for integers: ascending, 0 and 1, or all 0."""


class NotDrawnError(Exception):
    """No arguments can be drawn for a function; the text says why."""


class DrawnArguments(NamedTuple):
    """Arguments of a call, and the sizes in it by name."""

    sizes: Mapping[str, int]
    arguments: tuple[Any, ...]


def fresh(argument: Any) -> Any:
    """Copy an argument, in the same layout."""
    if not isinstance(argument, np.ndarray):
        return argument
    array = cast("Any", argument)
    made = _with_strides(array.shape, array.strides, array.dtype)
    made[...] = array
    return made


def _with_strides(shape: Sequence[int], strides: Sequence[int], dtype: Any) -> Any:
    """Make an array with given strides in bytes, in its own memory."""
    low = high = 0
    for extent, stride in zip(shape, strides, strict=True):
        reach = max(0, extent - 1) * stride
        low, high = low + min(0, reach), high + max(0, reach)
    memory = np.zeros(high - low + dtype.itemsize, np.uint8)
    return np.ndarray(tuple(shape), dtype, memory, -low, tuple(strides))


class Drawer:
    """Draws arguments of one function."""

    def __init__(self, func: PrimFunc, module: IRModule) -> None:
        self.func = func
        self.signature: Signature = signature_of(func, module)
        self.limits, self.steering = _roles(func)
        loops: list[For] = by_class(func.body).get(For, [])
        self.counted = {v for f in loops for e in (f.min, f.extent) for v in _names_in(e)}
        strange = [p.name for p in self.signature.parameters if p.buffer is None and _is_opaque(p)]
        if strange:
            raise NotDrawnError(f"no value can be made up for the handle {', '.join(strange)}")

    def sizes(self, seed: int, turn: int, most: int, given: Mapping[str, int]) -> dict[Var, int]:
        """Draw the sizes that have names, none above ``most``; ``given`` are known.

        In the second turn, all are equal. From then on, those that bound no loop are large.
        """
        chosen = random.Random(f"sizes {self.func.name} {seed} {turn}")
        pool = [size for size in _SIZES if size <= most] or [1]
        if turn == 1:
            pool = [chosen.choice(pool)]
        made: dict[Var, int] = {}
        for binding in self.signature.bindings:
            if binding.source.what == "shape":
                size = chosen.choice(pool)
                if turn and binding.var not in self.counted:
                    size = _AMPLE * pool[-1] + _AMPLE
                made[binding.var] = given.get(binding.var.name_hint, size)
        for p in self.signature.parameters:
            if p.buffer is None and p.dtype.is_integer:
                most_of = min(pool[-1], p.dtype.max_value) if not p.dtype.is_bool else 1
                size = min(chosen.choice(pool), most_of)
                made[p.var] = given.get(p.name, size)
        return made

    def draw(self, sizes: Mapping[Var, int], seed: int, level: int) -> DrawnArguments:
        """Make arguments of these sizes. Errors: NotDrawnError."""
        known: dict[Var, Any] = dict(sizes)
        numbers = np.random.default_rng([seed, len(self.signature.parameters)])
        shapes = {
            p.position: _shape(p.buffer, known)
            for p in self.signature.parameters
            if p.buffer is not None
        }
        made: list[Any] = []
        for p in self.signature.parameters:
            if p.buffer is None:
                made.append(self._scalar(p, known, numbers, seed))
            else:
                shape = shapes[p.position]
                made.append(self._array(p.buffer, shape, known, numbers, seed, level))
        return DrawnArguments({var.name_hint: size for var, size in sizes.items()}, tuple(made))

    def _scalar(self, p: Parameter, known: Mapping[Var, Any], numbers: Any, seed: int) -> Any:
        if p.dtype.is_float:
            return float(_floats((), numbers, seed))
        return bool(known[p.var]) if p.dtype.is_bool else known[p.var]

    def _array(
        self,
        buffer: Buffer,
        shape: Sequence[int],
        known: dict[Var, Any],
        numbers: Any,
        seed: int,
        level: int,
    ) -> Any:
        dtype = numpy_of(buffer.dtype)
        lanes = buffer.dtype.lanes
        made = _with_strides(*_layout(buffer, shape, known, lanes), dtype)
        whole = made.shape
        if buffer.dtype.is_float:
            made[...] = _floats(whole, numbers, seed)
            return made
        if buffer.dtype.is_bool:
            made[...] = numbers.integers(0, 2, whole)
            return made
        bound = self._find_bound(buffer, known)
        made[...] = _integers(whole, buffer.dtype, numbers, seed, bound, level)
        return made

    def _find_bound(self, buffer: Buffer, known: Mapping[Var, Any]) -> int | None:
        """Return an upper bound for the elements of an array, None if none is needed."""
        bounds = [_STEERED] if id(buffer.data) in self.steering else []
        for extent in self.limits.get(id(buffer.data), ()):
            size = _value(extent, known)
            if size is not None:
                bounds.append(size)
        return max(1, min(bounds)) if bounds else None


def _is_opaque(p: Parameter) -> bool:
    return p.dtype.is_handle or p.dtype.lanes != 1


def _names_in(expr: PrimExpr) -> list[Var]:
    return [part for part in pre_order(expr) if isinstance(part, Var)]


def _value(expr: PrimExpr, known: Mapping[Var, Any]) -> int | None:
    """Evaluate a size; None if it needs more than is known."""
    if isinstance(expr, IntImm):
        return expr.value
    names = set(_names_in(expr))
    if not names <= known.keys() or by_class(expr).get(BufferLoad):
        return None
    try:
        return int(value_of(expr, {name: known[name] for name in names}))
    except LoomirError:
        return None


def _shape(buffer: Buffer, known: Mapping[Var, Any]) -> tuple[int, ...]:
    made: list[int] = []
    for extent in buffer.shape:
        size = _value(extent, known)
        if size is None or size < 0:
            raise NotDrawnError(f"no size can be made up for {buffer.name}")
        made.append(size)
    return tuple(made)


def _layout(
    buffer: Buffer, shape: Sequence[int], known: dict[Var, Any], lanes: int
) -> tuple[Sequence[int], Sequence[int]]:
    """Return shape and strides in bytes; strides that are variables become row-major."""
    item = numpy_of(buffer.dtype).itemsize
    steps: list[int] = []
    step = 1
    for extent in reversed(shape):
        steps.insert(0, step)
        step *= max(1, extent)
    for at, stride in enumerate(buffer.strides):
        size = _value(stride, known)
        if size is None and isinstance(stride, Var):
            known[stride] = size = steps[at]
        if size is None:
            raise NotDrawnError(f"no strides can be made up for {buffer.name}")
        steps[at] = size
    if lanes > 1:
        return (*shape, lanes), (*(s * item * lanes for s in steps), item)
    return shape, [s * item for s in steps]


# -- elements ------------------------------------------------------------------------------------
def _floats(shape: Sequence[int], numbers: Any, seed: int) -> Any:
    """Draw floats: distinct positive ones, fractions of both signs, or a few repeated ones."""
    if seed % 3 == 0:
        return numbers.integers(1, 100, shape)
    if seed % 3 == 1:
        made = numbers.integers(1, 33, shape) * numbers.choice([-1, 1], shape)
        return made / 8
    return numbers.integers(-9, 10, shape)


def _integers(
    shape: Sequence[int], dtype: DataType, numbers: Any, seed: int, bound: int | None, level: int
) -> Any:
    if level == LEVELS:
        return np.zeros(shape, int)
    if level == 2:
        return numbers.integers(0, min(2, bound or 2), shape)
    low, high = dtype.min_value, dtype.max_value
    if bound is not None or level:
        most = min(bound or _STEERED, high + 1)
        made: Any = numbers.integers(0, most, shape)
        ordered: Any = np.sort(made, axis=None)
        return ordered.reshape(shape) if level else made
    if seed % 3 == 2:
        return numbers.integers(max(low, -9), min(high, 9), shape, endpoint=True)
    kind = np.uint64 if dtype.is_uint else np.int64
    return numbers.integers(low, high, shape, dtype=kind, endpoint=True)


# -- uses of integers ------------------------------------------------------------------------------
def _roles(func: PrimFunc) -> tuple[Mapping[int, Sequence[PrimExpr]], set[int]]:
    """Find for which axes elements of arrays are indices, and which control loops and branches.

    Arrays are identified by their data variables; the flow through bindings and local arrays is
    followed.
    """
    flows: defaultdict[int, set[int]] = defaultdict(set)
    limits: defaultdict[int, list[PrimExpr]] = defaultdict(list)
    steering: set[int] = set()
    for node in pre_order(func.body):
        if isinstance(node, (BufferLoad, BufferStore)):
            for index, extent in zip(node.indices, node.buffer.shape):
                for source in _sources(index):
                    limits[source].append(extent)
        if isinstance(node, BufferStore) and not node.buffer.dtype.is_float:
            flows[id(node.buffer.data)] |= _sources(node.value)
        elif isinstance(node, LetStmt):
            flows[id(node.var)] |= _sources(node.value)
        elif isinstance(node, For):
            steering |= _sources(node.extent) | _sources(node.min)
        elif isinstance(node, While):
            steering |= _sources(node.condition)
    changed = True
    while changed:
        changed = False
        for to, sources in flows.items():
            for source in sources:
                more = [e for e in limits.get(to, ()) if all(e is not k for k in limits[source])]
                if more:
                    limits[source] += more
                    changed = True
                if to in steering and source not in steering:
                    steering.add(source)
                    changed = True
    return limits, steering


def _sources(expr: Node) -> set[int]:
    """Return the arrays and variables that an expression uses."""
    found = by_class(expr)
    loads = {id(load.buffer.data) for load in found.get(BufferLoad, ())}
    return loads | {id(var) for var in found.get(Var, ())}
