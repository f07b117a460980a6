"""Estimate the cost of a function: operations, memory traffic, and allocated memory."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Final, NamedTuple

from loomir.ir.module import GlobalVar
from loomir.ir.node import Node
from loomir.ir.op import Effect
from loomir.ir.visit import children, pre_order
from loomir.support.diagnostics import CompileError, Diagnostic, nearest
from loomir.tir.analysis.value_range import ValueRange, loop_variable_range, value_range_of
from loomir.tir.buffer import Buffer, BufferLoad, IterVarType
from loomir.tir.expr import (
    Add,
    Call,
    CmpOp,
    Div,
    FloorDiv,
    FloorMod,
    Let,
    Max,
    Min,
    Mod,
    Mul,
    PrimExpr,
    Sub,
    Var,
)
from loomir.tir.function import PrimFunc
from loomir.tir.stmt import (
    Allocate,
    BlockRealize,
    BufferRealize,
    BufferStore,
    DeclBuffer,
    For,
    IfThenElse,
    LetStmt,
    Stmt,
    While,
)

__all__ = ["Cost", "estimate_cost"]


@dataclass(frozen=True, slots=True)
class Cost:
    """Upper bounds on the cost of one call of a function with known sizes.

    A branch that the sizes don't decide counts as taken, on both sides; a ``while`` loop counts as
    run once. ``exact`` says that neither was needed, and that no loop's length was estimated.
    """

    flops: int
    """Arithmetic on floats: ``+ - * /``, min, max, comparisons; ``T.fma`` is two."""
    math_calls: int
    """Calls of math functions on floats, such as ``T.exp``."""
    int_ops: int
    """Arithmetic on integers, without that of indices."""
    bytes_read: int
    """Bytes of all loads, without regard to caches."""
    bytes_written: int
    bytes_touched: int
    """Different bytes that are accessed, at most: what must move between memory and a cache that
    holds all, at least."""
    bytes_allocated: int
    """The most bytes that the function has allocated at one time, without its arguments."""
    exact: bool

    @property
    def intensity(self) -> float:
        """Float operations per byte touched: the arithmetic intensity of the roofline model."""
        work = self.flops + self.math_calls
        return work / self.bytes_touched if self.bytes_touched else math.inf if work else 0.0


_OPERATIONS: Final = (Add, Sub, Mul, Div, Mod, FloorDiv, FloorMod, Min, Max, CmpOp)
_NO_WORK: Final = frozenset(
    {"likely", "reinterpret", "if_then_else", "ret", "break_loop", "continue_loop", "assume"}
)


class _Work(NamedTuple):
    """A statement to be counted ``times``, or, with ``frees``, memory that is freed."""

    stmt: Stmt
    times: Fraction
    frees: int = 0


def estimate_cost(func: PrimFunc, sizes: Mapping[str, int] | None = None) -> Cost:
    """Estimate what a call of ``func`` costs; ``sizes`` gives its symbolic sizes by name.

    Called functions are not counted. Errors: TIR0601 for a size that is missing.
    """
    return _Count(func, sizes or {}).run()


class _Count:
    def __init__(self, func: PrimFunc, sizes: Mapping[str, int]) -> None:
        self.func = func
        self.known: dict[Var, ValueRange] = {}
        self.totals = dict.fromkeys(("flops", "math", "ints", "read", "written"), Fraction(0))
        self.live = self.peak = 0
        self.exact = True
        # For each memory, the first buffer on it, and the box that is accessed.
        self.boxes: dict[Buffer, list[tuple[int, int]]] = {}
        self.outer: set[Var] = set()
        self._sizes(sizes)

    def _sizes(self, sizes: Mapping[str, int]) -> None:
        names: dict[str, Var] = {}
        for buffer in self.func.buffer_map.values():
            self.outer.add(buffer.data)
            for part in (*buffer.shape, *buffer.strides):
                names.update((v.name_hint, v) for v in pre_order(part) if isinstance(v, Var))
        for param in self.func.params:
            if param not in self.func.buffer_map and param.dtype.is_integer:
                names[param.name_hint] = param
        unknown = [name for name in sizes if name not in names]
        missing = [name for name in names if name not in sizes]
        if unknown or missing:
            self._refuse(unknown, missing, names)
        for name, var in names.items():
            value = int(sizes[name])
            self.known[var] = ValueRange(value, value, Fraction(value))

    def _refuse(self, unknown: list[str], missing: list[str], names: Mapping[str, Var]) -> None:
        name = (unknown or missing)[0]
        guess = nearest(name, names) if unknown else None
        raise CompileError(
            Diagnostic(
                "TIR0601",
                f"{self.func.name!r} has no size {name!r}"
                if unknown
                else f"the size {name!r} of {self.func.name!r} is not given",
                self.func.span,
                help=f"did you mean {guess!r}?"
                if guess
                else f"give a number for each of {', '.join(names) or 'none'}",
            )
        )

    def run(self) -> Cost:
        stack = [_Work(self.func.body, Fraction(1))]
        while stack:
            work = stack.pop()
            if work.frees:
                self.live -= work.frees
                continue
            inner = self._statement(work.stmt, work.times)
            inner.reverse()
            stack += inner
        totals = {name: round(value) for name, value in self.totals.items()}
        return Cost(
            totals["flops"],
            totals["math"],
            totals["ints"],
            totals["read"],
            totals["written"],
            sum(self._count_touched(buffer, box) for buffer, box in self.boxes.items()),
            self.peak,
            self.exact,
        )

    def _count_touched(self, buffer: Buffer, box: list[tuple[int, int]]) -> int:
        elements = math.prod(max(0, high - low + 1) for low, high in box)
        return elements * buffer.dtype.itemsize

    # -- statements ------------------------------------------------------------------------------
    def _statement(self, s: Stmt, times: Fraction) -> list[_Work]:
        if not times:
            return []
        if isinstance(s, For):
            return self._loop(s, times)
        if isinstance(s, IfThenElse):
            self._expressions(s.condition, times)
            return self._branches(s, times)
        if isinstance(s, BlockRealize):
            return self._block(s, times)
        if isinstance(s, While):
            self.exact = False
        if isinstance(s, LetStmt):
            self._expressions(s.value, times)
            value = value_range_of(s.value, self.known)
            if value is not None:
                self.known[s.var] = value
            return [_Work(s.body, times)]
        if isinstance(s, Allocate):
            return self._hold(
                s, math.prod(map(self._find_most, s.extents)) * s.dtype.itemsize, times
            )
        if isinstance(s, BufferRealize):
            elements = math.prod(self._find_most(extent) for extent in s.buffer.shape)
            return self._hold(s, elements * s.buffer.dtype.itemsize, times)
        if isinstance(s, BufferStore):
            self._access(s.buffer, s.indices)
            self.totals["written"] += times * s.value.dtype.itemsize
            self._expressions(s.value, times)
            for index in s.indices:
                self._loads_in(index, times)
            return []
        inner: list[_Work] = []
        for part in [] if isinstance(s, DeclBuffer) else children(s):
            if isinstance(part, Stmt):
                inner.append(_Work(part, times))
            else:
                self._expressions(part, times)
        return inner or ([_Work(s.body, times)] if isinstance(s, DeclBuffer) else [])

    def _find_most(self, expr: PrimExpr) -> int:
        value = value_range_of(expr, self.known)
        if value is None:
            self.exact = False
            return 0
        return max(0, value.high)

    def _hold(self, s: Allocate | BufferRealize, count: int, times: Fraction) -> list[_Work]:
        self.live += count
        self.peak = max(self.peak, self.live)
        return [_Work(s.body, times), _Work(s.body, times, frees=count)]

    def _loop(self, s: For, times: Fraction) -> list[_Work]:
        for bound in (s.min, s.extent):
            self._loads_in(bound, times)
        least, count = value_range_of(s.min, self.known), value_range_of(s.extent, self.known)
        if least is None or count is None:
            self.exact = False
            return [_Work(s.body, times)]
        self.exact = self.exact and count.exact and (count.low >= 0 or count.is_constant)
        self.known[s.loop_var] = loop_variable_range(least, count)
        return [_Work(s.body, times * max(Fraction(0), count.mean))]

    def _branches(self, s: IfThenElse, times: Fraction) -> list[_Work]:
        taken = value_range_of(s.condition, self.known)
        if taken is not None and taken.is_constant:
            case = s.then_case if taken.low else s.else_case
            return [] if case is None else [_Work(case, times)]
        self.exact = False
        cases = (s.then_case, s.else_case)
        return [_Work(case, times) for case in cases if case is not None]

    def _block(self, s: BlockRealize, times: Fraction) -> list[_Work]:
        holds = value_range_of(s.predicate, self.known)
        if holds is None or not holds.is_constant:
            self.exact = False
        elif not holds.low:
            return []
        first = times
        for it, value in zip(s.block.iter_vars, s.values, strict=True):
            found = value_range_of(value, self.known)
            if found is not None:
                self.known[it.var] = found
            extent = None if it.dom is None else it.dom.extent
            domain = None if extent is None else value_range_of(extent, self.known)
            if it.iter_type is IterVarType.COMM_REDUCE and domain is not None and domain.mean > 0:
                first /= domain.mean
        work = [] if s.block.init is None else [_Work(s.block.init, first)]
        work.append(_Work(s.block.body, times))
        count = 0
        for buffer in s.block.alloc_buffers:
            count += math.prod(map(self._find_most, buffer.shape)) * buffer.dtype.itemsize
        if count:
            self.live += count
            self.peak = max(self.peak, self.live)
            work.append(_Work(s.block.body, times, frees=count))
        return work

    # -- expressions -----------------------------------------------------------------------------
    def _expressions(self, root: Node, times: Fraction) -> None:
        """Count an expression, and in its indices only the loads."""
        stack: list[Node] = [root]
        totals = self.totals
        while stack:
            node = stack.pop()
            if isinstance(node, BufferLoad):
                self._load(node, times)
                for index in node.indices:
                    self._loads_in(index, times)
                continue
            if isinstance(node, Let):
                value = value_range_of(node.value, self.known)
                if value is not None:
                    self.known[node.var] = value
            elif isinstance(node, _OPERATIONS):
                of = node.a.dtype
                totals["flops" if of.is_float else "ints"] += times * of.lanes
            elif isinstance(node, Call):
                self._call(node, times)
            stack += children(node)

    def _call(self, call: Call, times: Fraction) -> None:
        if isinstance(call.op, GlobalVar) or call.op.effect is Effect.OPAQUE:
            self.exact = False
            return
        name = call.op.name.rpartition(".")[2]
        lanes = times * call.dtype.lanes
        if name in _NO_WORK or not call.args:
            return
        if not call.args[0].dtype.is_float:
            self.totals["ints"] += lanes
        elif name == "fma":
            self.totals["flops"] += 2 * lanes
        else:
            self.totals["math"] += lanes

    def _loads_in(self, index: Node, times: Fraction) -> None:
        for part in pre_order(index):
            if isinstance(part, BufferLoad):
                self._load(part, times)

    def _load(self, load: BufferLoad, times: Fraction) -> None:
        self.totals["read"] += times * load.dtype.itemsize
        self._access(load.buffer, load.indices)

    def _access(self, buffer: Buffer, indices: tuple[PrimExpr, ...]) -> None:
        if buffer.data not in self.outer:
            return
        box: list[tuple[int, int]] = []
        for axis, index in enumerate(indices):
            size = value_range_of(buffer.shape[axis], self.known)
            last = (size.high if size is not None else 1) - 1
            found = value_range_of(index, self.known)
            box.append((0, last) if found is None else (max(0, found.low), min(last, found.high)))
        before = self.boxes.get(buffer)
        if before is not None:
            box = [(min(a, c), max(b, d)) for (a, b), (c, d) in zip(before, box, strict=True)]
        self.boxes[buffer] = box
