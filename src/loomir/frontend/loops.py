"""Loops with a trip count that is known only at run time, as recursive functions.

Such a function runs up to ``2 ** level`` steps. At ``level`` 0 it runs the body once; otherwise it
calls itself for ``level - 1``, and if the loop continues, once more. So calls nest at most as deep
as the highest level, 62, however many steps a loop runs, and a loop that ends leaves all of them at
once.

    def steps(level, ...states):
        if level == 0:
            return body(...states)
        goes_on, ...states = first = steps(level - 1, ...states)
        return steps(level - 1, ...states) if goes_on else first

Rows that steps produce are concatenated on return, so that each is copied once for each level.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

import numpy as np

from loomir import op
from loomir.ir.equality import structural_equal
from loomir.ir.module import IRModule
from loomir.ir.visit import pre_order
from loomir.relax.constants import const
from loomir.relax.expr import (
    Call,
    Function,
    If,
    PrimValue,
    SeqExpr,
    Tuple,
    TupleGetItem,
    Var,
    VarBinding,
)
from loomir.relax.node import RelaxExpr
from loomir.relax.normal.block_builder import BlockBuilder
from loomir.relax.shape import INT64, ShapeExpr
from loomir.relax.struct_info import FuncStructInfo, TensorStructInfo, TupleStructInfo
from loomir.support.dtype import DataType
from loomir.tir.expr import PrimExpr
from loomir.tir.expr import Var as ShapeVar
from loomir.tir.expr import const as number
from loomir.transform.relax.functions.lambda_lift import lambda_lift

__all__ = ["LoopMistake", "ScanInputs", "Step", "emit_loop", "emit_scan", "lift_loops"]

_LEVELS: Final = 62
"""The most doublings of the steps of a loop: more than an int64 counts."""
_FLAG: Final = TensorStructInfo(ShapeExpr(()), DataType("bool"))
_COUNT: Final = TensorStructInfo(ShapeExpr(()), DataType("int64"))


class LoopMistake(Exception):
    """A loop cannot be written as a function; the text is the reason."""


@dataclass(slots=True)
class Step:
    """The results of one step of a loop."""

    condition: RelaxExpr
    """Whether the loop goes on: a boolean tensor without axes."""
    states: list[RelaxExpr]
    """The states for the next step."""
    rows: list[RelaxExpr] = field(default_factory=list[RelaxExpr])
    """The values that are collected along a new first axis."""


class Importer(Protocol):
    """Walks a program and emits bindings outside of dataflow blocks."""

    builder: BlockBuilder

    def emit(self, expr: RelaxExpr) -> Var:
        """Bind an expression to a variable whose extents are known."""
        ...


def emit_loop(
    importer: Importer,
    condition: RelaxExpr,
    states: Sequence[RelaxExpr],
    step: Callable[[list[RelaxExpr]], Step],
) -> tuple[list[RelaxExpr], list[RelaxExpr]]:
    """Emit a loop, and return the last states and the collected rows.

    ``condition``: whether there is a first step. ``step`` emits one step on given states; it is
    called again if states turn out to change their extents.

    Raises LoopMistake where states change their dtypes or ranks.
    """
    return _Loop(importer, step).emit(condition, states)


class _Loop:
    def __init__(self, importer: Importer, step: Callable[[list[RelaxExpr]], Step]) -> None:
        self.importer = importer
        self.builder = importer.builder
        self.step = step
        self.outer: set[ShapeVar] = set(self.builder.normalizer.known.shape_vars)
        self.changing: set[PrimExpr] = set()
        """Extents that a step changes, and that are unknown outside the loop."""

    def emit(
        self, condition: RelaxExpr, states: Sequence[RelaxExpr]
    ) -> tuple[list[RelaxExpr], list[RelaxExpr]]:
        infos = [self._info(s) for s in states]
        depth = len(self.builder.normalizer.scopes)
        try:
            made = self._function(infos)
            while isinstance(made, list):
                infos = made
                made = self._function(infos)
        finally:
            self.builder.normalizer.leave_to(depth)
        func, rows = made
        builder = self.builder
        builder.begin_scope()
        level = const(np.array(_LEVELS, "int64"))
        called = builder.emit(Call(func, (level, *states)))
        loop = builder.end_scope(called)
        builder.begin_scope()
        empty = [self._empty(row) for row in rows]
        stays = builder.end_scope(Tuple((condition, *states, *empty)))
        result = builder.emit(If(condition, loop, stays))
        return self._fields(result, infos, rows)

    # -- the function ------------------------------------------------------------------------
    def _function(
        self, infos: list[TensorStructInfo]
    ) -> tuple[Var, list[TensorStructInfo]] | list[TensorStructInfo]:
        """Bind the function of a loop and return it; other states where these change."""
        builder = self.builder
        depth = len(builder.normalizer.scopes)  # an abandoned attempt returns to this depth
        level = Var("level", _COUNT)
        params = [Var(f"state{i}", self._rename_extents(info)) for i, info in enumerate(infos)]
        builder.begin_scope([level, *params])
        builder.begin_scope()
        made = self.step([*params])
        found = [self._info(s) for s in made.states]
        wider = [self._common(old, new) for old, new in zip(infos, found, strict=True)]
        if any(w is not old for w, old in zip(wider, infos)):
            builder.normalizer.leave_to(depth)
            return wider
        rows = [self._rename_extents(self._info(row)) for row in made.rows]
        chunks = [builder.emit(op.expand_dims(row, 0)) for row in made.rows]
        one = builder.end_scope(Tuple((made.condition, *made.states, *chunks)))
        result = TupleStructInfo(
            (
                _FLAG,
                *[self._forget_extents(i) for i in infos],
                *[_describe_gathered(r) for r in rows],
            )
        )
        declared = FuncStructInfo((_COUNT, *[p.struct_info for p in params]), result)
        func = Var("steps", declared)
        builder.begin_scope()
        rest = builder.emit(op.subtract(level, const(np.array(1, "int64"))))
        first = builder.emit(Call(func, (rest, *params)))
        goes_on = builder.emit(TupleGetItem(first, 0))
        more = self._second(func, rest, first, (infos, rows))
        builder.begin_scope()
        ended = builder.end_scope(first)
        several = builder.end_scope(builder.emit(If(goes_on, more, ended)))
        is_one = builder.emit(op.equal(level, const(np.array(0, "int64"))))
        body = builder.end_scope(builder.emit(If(is_one, one, several)))
        builder.emit_normalized(
            VarBinding(func, Function((level, *params), body, result, is_pure=True))
        )
        return func, rows

    def _second(
        self,
        func: Var,
        rest: Var,
        first: Var,
        kinds: tuple[list[TensorStructInfo], list[TensorStructInfo]],
    ) -> SeqExpr:
        """Emit the second half of the steps, and concatenate the rows of both halves."""
        builder = self.builder
        builder.begin_scope()
        states, before = self._fields(first, *kinds)
        second = builder.emit(Call(func, (rest, *states)))
        goes_on = builder.emit(TupleGetItem(second, 0))
        states, after = self._fields(second, *kinds)
        gathered = [builder.emit(op.concat([a, b], 0)) for a, b in zip(before, after)]
        return builder.end_scope(Tuple((goes_on, *states, *gathered)))

    def _fields(
        self, result: Var, infos: Sequence[TensorStructInfo], rows: Sequence[TensorStructInfo]
    ) -> tuple[list[RelaxExpr], list[RelaxExpr]]:
        """Return the states and collected rows of a call's result, with named extents."""
        builder = self.builder
        fields = [builder.emit(TupleGetItem(result, i + 1)) for i in range(len(infos) + len(rows))]
        states: list[RelaxExpr] = [
            self._cast(f, self._rename_extents(i)) for f, i in zip(fields, infos)
        ]
        gathered: list[RelaxExpr] = []
        for tensor, row in zip(fields[len(infos) :], rows):
            dims = (ShapeVar("rows", INT64), *_dims(self._rename_extents(row)))
            gathered.append(self._cast(tensor, TensorStructInfo(ShapeExpr(dims), row.dtype)))
        return states, gathered

    def _cast(self, tensor: Var, info: TensorStructInfo) -> Var:
        if structural_equal(tensor.struct_info, info):
            return tensor
        return self.builder.match_cast(tensor, info)

    def _empty(self, row: TensorStructInfo) -> RelaxExpr:
        dims = [d if self._is_outer(d) else 0 for d in _dims(row)]
        return self.builder.emit(op.zeros((0, *dims), row.dtype))

    # -- extents -----------------------------------------------------------------------------
    def _info(self, expr: RelaxExpr) -> TensorStructInfo:
        found = self.builder.struct_info_of(expr)
        if not isinstance(found, TensorStructInfo) or found.dims is None:
            raise LoopMistake("it carries something other than a tensor of known rank")
        return TensorStructInfo(ShapeExpr(found.dims), found.dtype)

    def _is_outer(self, extent: PrimExpr) -> bool:
        """Tell whether an extent is known before the loop runs."""
        return all(v in self.outer for v in pre_order(extent) if isinstance(v, ShapeVar))

    def _rename_extents(self, info: TensorStructInfo) -> TensorStructInfo:
        """Return an info with new names for extents that change from step to step."""
        dims = [d if self._is_outer(d) else ShapeVar("d", INT64) for d in _dims(info)]
        return TensorStructInfo(ShapeExpr(tuple(dims)), info.dtype)

    def _forget_extents(self, info: TensorStructInfo) -> TensorStructInfo:
        """Return an info without extents where some change from step to step."""
        if all(self._is_outer(d) for d in _dims(info)):
            return info
        return TensorStructInfo(None, info.dtype, ndim=info.ndim)

    def _common(self, old: TensorStructInfo, new: TensorStructInfo) -> TensorStructInfo:
        """Return information that covers a state before and after a step; if possible, ``old``."""
        if old.dtype != new.dtype:
            raise LoopMistake(
                f"a value that it carries is {old.dtype} at first and {new.dtype} then"
            )
        if old.ndim != new.ndim:
            raise LoopMistake(
                f"a value that it carries has {old.ndim} axes at first and {new.ndim} then"
            )
        dims: list[PrimExpr] = []
        for a, b in zip(_dims(old), _dims(new)):
            if a not in self.changing and not structural_equal(a, b):
                a = ShapeVar("changing", INT64)  # noqa: PLW2901
                self.changing.add(a)
            dims.append(a)
        if all(a is b for a, b in zip(dims, _dims(old))):
            return old
        return TensorStructInfo(ShapeExpr(tuple(dims)), old.dtype)


def _dims(info: TensorStructInfo) -> tuple[PrimExpr, ...]:
    assert info.dims is not None
    return tuple(info.dims)


def _describe_gathered(row: TensorStructInfo) -> TensorStructInfo:
    return TensorStructInfo(None, row.dtype, ndim=row.ndim + 1)


@dataclass(frozen=True, slots=True)
class ScanInputs:
    """The scanned tensors with their axes, and whether each is scanned backwards."""

    length: Any
    inputs: Sequence[tuple[RelaxExpr, int, Any]]


def emit_scan(
    importer: Importer,
    scan: ScanInputs,
    states: Sequence[RelaxExpr],
    body: Callable[[list[RelaxExpr], list[RelaxExpr]], tuple[list[RelaxExpr], int]],
) -> tuple[list[RelaxExpr], list[RelaxExpr]]:
    """Emit steps along an axis, and return the last states and the steps' values as rows.

    ``body`` gets states and the slices of a step, and returns new states followed by values to
    collect, and the number of states among them.

    Raises LoopMistake where states change their dtypes or ranks.
    """
    emit = importer.emit
    length = _as_tensor(importer, scan.length)
    start, one = const(np.array(0, "int64")), const(np.array(1, "int64"))
    last = emit(op.subtract(length, one))

    def step(now: list[RelaxExpr]) -> Step:
        at, *kept = now
        back = emit(op.subtract(last, at)) if any(d for *_, d in scan.inputs) else at
        parts: list[RelaxExpr] = [
            emit(op.take(x, back if direction else at, axis)) for x, axis, direction in scan.inputs
        ]
        made, count = body(kept, parts)
        after = emit(op.add(at, one))
        return Step(emit(op.less(after, length)), [after, *made[:count]], made[count:])

    ends, rows = emit_loop(importer, emit(op.less(start, length)), [start, *states], step)
    return ends[1:], [_declare_length(importer, r, scan.length) for r in rows]


def _as_tensor(importer: Importer, extent: Any) -> RelaxExpr:
    if isinstance(extent, PrimExpr):
        return importer.emit(op.full((), PrimValue(extent), "int64"))
    return const(np.array(extent, "int64"))


def _declare_length(importer: Importer, rows: RelaxExpr, length: Any) -> RelaxExpr:
    known = importer.builder.struct_info_of(rows)
    assert isinstance(known, TensorStructInfo)
    extent = length if isinstance(length, PrimExpr) else number(int(length), INT64)
    info = TensorStructInfo(ShapeExpr((extent, *_dims(known)[1:])), known.dtype)
    return importer.builder.match_cast(rows, info)


def lift_loops(module: IRModule) -> IRModule:
    """Move the local functions of loops to the module."""
    return lambda_lift(module)
