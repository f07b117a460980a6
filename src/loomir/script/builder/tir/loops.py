"""Loops, and jumps out of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias, TypeVar, cast

from loomir.ir.module import GlobalVar
from loomir.ir.op import Op
from loomir.ir.visit import children
from loomir.script.builder.arguments import (
    as_annotations,
    as_dtype,
    as_expr,
    as_items,
    as_operand,
    as_stored,
    as_text,
    describe,
    difference,
)
from loomir.script.builder.dtypes import DTypeLike
from loomir.script.builder.expressions import is_constant_true, truth
from loomir.script.builder.frame import IRBuilder, StmtFrame
from loomir.script.builder.function import PrimFuncFrame
from loomir.script.builder.mistakes import mistake, wrong_argument
from loomir.tir.buffer import IterVar, IterVarType, Range
from loomir.tir.builtins.table import BREAK_LOOP, RET, call_builtin
from loomir.tir.expr import (
    Call,
    ExprLike,
    IntImm,
    PrimExpr,
    StringImm,
    Var,
    const,
    match_dtypes,
)
from loomir.tir.expr import cast as cast_to
from loomir.tir.stmt import For, ForKind, Stmt, While
from loomir.tir.types import PrimType, TupleType

__all__ = [
    "ForFrame",
    "WhileFrame",
    "break_loop",
    "call",
    "continue_loop",
    "grid",
    "parallel",
    "range_of",
    "range_of_loop",
    "ret",
    "serial",
    "step_loop",
    "thread_binding",
    "unroll",
    "vectorized",
]

_V = TypeVar("_V")
_Bound: TypeAlias = ExprLike | None
_DEFAULT_NAMES: Final = "ijklmnpqrstuvwxyz"


class Loop(NamedTuple):
    """A loop to be made."""

    min: PrimExpr
    extent: PrimExpr
    kind: ForKind
    thread: str | None
    annotations: Mapping[str, Any]


class ForFrame(StmtFrame[_V]):
    """A nest of loops, outermost first; binds their variables.

    ``step`` and ``start`` say what the program's own variable is in terms of the loop's.
    """

    what = "a loop"

    def __init__(self, loops: Sequence[Loop], single: bool) -> None:
        super().__init__()
        self.loops, self.single = tuple(loops), single
        self.names: Sequence[str] = ()
        self.vars: list[Var] = []
        self.start: PrimExpr | None = None
        self.step = 1

    @property
    def is_ordered(self) -> bool:
        """Whether iterations run one after the other, so that one may stop the loop."""
        return all(x.kind in (ForKind.SERIAL, ForKind.UNROLLED) for x in self.loops)

    @property
    def values(self) -> list[PrimExpr]:
        """What each of the program's loop variables stands for."""
        if self.start is None:
            return list(self.vars)
        scaled = self.vars[0] * self.step
        return [self.start + scaled]

    if TYPE_CHECKING:
        # Programs write `for i in T.parallel(n)`, which is read and never run.
        def __iter__(self) -> Iterator[_V]: ...

    def enter(self) -> _V:
        """Make the loop variables."""
        for index, loop in enumerate(self.loops):
            default = _DEFAULT_NAMES[index % len(_DEFAULT_NAMES)]
            name = self.names[index] if index < len(self.names) else default
            self.vars.append(Var(name, loop.extent.dtype, span=self.span))
        return cast("_V", self.values[0] if self.single else tuple(self.values))

    def finish(self, builder: IRBuilder) -> None:
        """Make the nest."""
        made = self.body()
        for var, loop in reversed(list(zip(self.vars, self.loops, strict=True))):
            made = _make_for(var, loop, made, self)
        builder.emit(made)


def _make_for(var: Var, loop: Loop, body: Stmt, frame: ForFrame[Any]) -> For:
    thread = None
    if loop.thread is not None:
        index = Var(loop.thread, var.dtype)
        thread = IterVar(None, index, IterVarType.THREAD_INDEX, loop.thread)
    return For(
        var, loop.min, loop.extent, loop.kind, body, thread, loop.annotations, span=frame.span
    )


def range_of_loop(builder: IRBuilder, var: object) -> Range | None:
    """Return what a loop variable of the program that is being built ranges over, or None."""
    for frame in reversed(builder.frames):
        if isinstance(frame, ForFrame):
            for mine, loop in zip(frame.vars, frame.loops, strict=False):
                if mine is var:
                    return Range(loop.min, loop.extent)
    return None


def _loop(
    kind: ForKind,
    start: _Bound,
    stop: _Bound,
    extent: _Bound,
    annotations: Mapping[str, Any] | None,
    thread: str | None = None,
    step: _Bound = None,
    dtype: DTypeLike | None = None,
) -> ForFrame[Var]:
    notes = {} if annotations is None else as_annotations(annotations, "annotations")
    if extent is not None and stop is not None:
        raise wrong_argument(
            extent, "a loop has both a stop and an extent", help="give one of them"
        )
    low, high = (
        _convert_bound(_read_bound(b), dtype)
        for b in ((0, start) if stop is None else (start, stop))
    )
    if extent is not None:
        low, size = match_dtypes(
            _convert_bound(_read_bound(start), dtype), _convert_bound(_read_bound(extent), dtype)
        )
        high = low + size
    elif stop is None:
        size = as_expr(high)
        low = IntImm(0, size.dtype)
    else:
        low, high = match_dtypes(low, high)
        size = difference(high, low)
    by = 1 if step is None else _step(step, "a loop")
    if by != 1:
        return _make_stepped(low, as_expr(high), by, kind, notes)
    return ForFrame([Loop(low, size, kind, thread, notes)], single=True)


def _convert_bound(value: ExprLike, dtype: DTypeLike | None) -> ExprLike:
    """Return a bound in the dtype that the loop variable is to have."""
    if dtype is None:
        return value
    wanted = as_dtype(dtype)
    if not wanted.is_integer or wanted.lanes != 1:
        raise wrong_argument(
            dtype, f"a loop variable is an integer, not {wanted}", help='write "int32" or "int64"'
        )
    return const(value, wanted) if isinstance(value, int) else cast_to(as_expr(value), wanted)


def _read_bound(value: object) -> ExprLike:
    made = as_operand(value)
    if isinstance(made, (bool, float)) or (
        isinstance(made, PrimExpr) and not (made.dtype.is_integer and made.dtype.lanes == 1)
    ):
        raise wrong_argument(
            value,
            f"a loop's bound must be an integer, not {describe(value)}",
            help="use a scalar integer; T.cast converts",
        )
    return made


def serial(
    start: ExprLike,
    stop: _Bound = None,
    *,
    extent: _Bound = None,
    annotations: Mapping[str, Any] | None = None,
    step: _Bound = None,
    dtype: DTypeLike | None = None,
    unroll: bool | int | None = None,
) -> ForFrame[Var]:
    """Loop from ``start`` to below ``stop``, or below the only argument, one after the other."""
    notes = (
        annotations if unroll is None else {**(annotations or {}), **_annotate_unrolling(unroll)}
    )
    return _loop(ForKind.SERIAL, start, stop, extent, notes, None, step, dtype)


def _annotate_unrolling(unroll: object) -> dict[str, Any]:
    """Return the annotation that asks a code generator to write iterations out, or not to."""
    if unroll is False:
        return {"disable_unroll": True}
    if unroll is True or (isinstance(unroll, int) and unroll > 0):
        return {"pragma_unroll": unroll}
    raise wrong_argument(
        unroll, f"unroll is {describe(unroll)}", help="write True, False, or a count above 0"
    )


def parallel(
    start: ExprLike,
    stop: _Bound = None,
    *,
    extent: _Bound = None,
    annotations: Mapping[str, Any] | None = None,
    step: _Bound = None,
    dtype: DTypeLike | None = None,
) -> ForFrame[Var]:
    """Loop in any order, on several threads."""
    return _loop(ForKind.PARALLEL, start, stop, extent, annotations, None, step, dtype)


def vectorized(
    start: ExprLike,
    stop: _Bound = None,
    *,
    extent: _Bound = None,
    annotations: Mapping[str, Any] | None = None,
    step: _Bound = None,
    dtype: DTypeLike | None = None,
) -> ForFrame[Var]:
    """Loop with iterations as lanes of vectors."""
    return _loop(ForKind.VECTORIZED, start, stop, extent, annotations, None, step, dtype)


def unroll(
    start: ExprLike,
    stop: _Bound = None,
    *,
    extent: _Bound = None,
    annotations: Mapping[str, Any] | None = None,
    step: _Bound = None,
    dtype: DTypeLike | None = None,
) -> ForFrame[Var]:
    """Loop with the iterations written out."""
    return _loop(ForKind.UNROLLED, start, stop, extent, annotations, None, step, dtype)


def thread_binding(
    start: ExprLike,
    stop: _Bound = None,
    thread: str | None = None,
    *,
    extent: _Bound = None,
    annotations: Mapping[str, Any] | None = None,
) -> ForFrame[Var]:
    """Loop over a thread's index, such as ``threadIdx.x``."""
    if thread is None and isinstance(stop, (str, StringImm)):  # (extent, thread)
        stop, thread = None, as_text(stop, "the thread")
    if thread is None:
        raise mistake(
            "SCR0005",
            "T.thread_binding names no thread",
            help='write T.thread_binding(0, n, thread="threadIdx.x")',
        )
    tag = as_text(thread, "the thread")
    return _loop(ForKind.THREAD_BINDING, start, stop, extent, annotations, tag)


def grid(
    *extents: ExprLike | tuple[ExprLike, ExprLike], dtype: DTypeLike | None = None
) -> ForFrame[tuple[Var, ...]]:
    """Loop over all points of a grid, the last extent innermost; (begin, end) is an extent too."""
    if not extents:
        raise mistake("SCR0005", "T.grid has no extents", help="write T.grid(8, 16)")
    loops: list[Loop] = []
    for extent in extents:
        ends = as_items(extent, "an extent") if isinstance(extent, (tuple, list)) else [0, extent]
        if len(ends) != 2:
            raise wrong_argument(
                extent, f"an extent of {len(ends)} parts", help="write an extent, or (begin, end)"
            )
        low, high = match_dtypes(*[_convert_bound(_read_bound(end), dtype) for end in ends])
        size = difference(high, low)
        loops.append(Loop(low, size, ForKind.SERIAL, None, {}))
    return ForFrame(loops, single=False)


def range_of(*bounds: ExprLike) -> ForFrame[Var]:
    """Loop as Python's ``range``: a stop, a start and a stop, or both and a constant step."""
    if not 1 <= len(bounds) <= 3:
        raise mistake(
            "SCR0005",
            f"range takes 1 to 3 arguments, not {len(bounds)}",
            help="write range(stop), range(start, stop) or range(start, stop, step)",
        )
    if len(bounds) < 3:
        return serial(*bounds)
    return step_loop(bounds[0], bounds[1], _step(bounds[2], "range"))


def _step(given: object, what: str) -> int:
    """Read the step of a loop. Errors: SCR0012."""
    step = given.value if isinstance(given, IntImm) else given
    if not isinstance(step, int) or isinstance(step, bool):
        raise wrong_argument(
            given,
            f"the step of {what} must be a constant integer, not {describe(given)}",
            code="SCR0012",
            help="use a constant, or a while loop",
        )
    if step == 0:
        raise wrong_argument(
            given, f"the step of {what} is zero", code="SCR0012", help="use a step other than 0"
        )
    return step


def step_loop(start: ExprLike, stop: ExprLike, step: int) -> ForFrame[Var]:
    """Loop with a step; the loop itself counts from 0 by 1."""
    if step == 1:
        return serial(start, stop)
    low, high = match_dtypes(_read_bound(start), _read_bound(stop))
    return _make_stepped(low, high, step, ForKind.SERIAL, {})


def _make_stepped(
    low: PrimExpr, high: PrimExpr, step: int, kind: ForKind, notes: Mapping[str, Any]
) -> ForFrame[Var]:
    first, last = (low, high) if step > 0 else (high, low)
    by = abs(step)
    if isinstance(low, IntImm) and isinstance(high, IntImm):
        count = IntImm(max(0, len(range(low.value, high.value, step))), low.dtype)
        loop = Loop(IntImm(0, low.dtype), count, kind, None, notes)
    else:
        trips = (difference(last, first) + (by - 1)) // by
        loop = Loop(IntImm(0, trips.dtype), trips, kind, None, notes)
    frame: ForFrame[Var] = ForFrame([loop], single=True)
    frame.start, frame.step = low, step
    return frame


# -- while and jumps ---------------------------------------------------------------------------
class WhileFrame(StmtFrame[None]):
    """Repeats its body as long as a condition holds.

    Errors: SCR0022 where nothing can end the loop (T28).
    """

    what = "a loop"

    def __init__(self, condition: ExprLike) -> None:
        super().__init__()
        self.condition = truth(condition)
        self.is_incomplete = False

    def enter(self) -> None:
        """Bind nothing."""

    def finish(self, builder: IRBuilder) -> None:
        """Make the ``While``."""
        made = self.body()
        if is_constant_true(self.condition) and not self.is_incomplete and not can_leave(made):
            raise mistake(
                "SCR0022",
                "nothing ends this loop",
                label="always true, and the body has no break or return",
                help="write a condition that can become false, or a break",
            )
        builder.emit(While(self.condition, made, span=self.span))


def can_leave(body: Stmt) -> bool:
    """Whether a loop's body has a break of that loop, or a return."""
    stack: list[tuple[Any, bool]] = [(body, True)]
    while stack:
        node, mine = stack.pop()
        if isinstance(node, Call) and (node.op is RET or (mine and node.op is BREAK_LOOP)):
            return True
        inside = mine and not isinstance(node, (For, While))
        stack.extend((part, inside) for part in children(node))
    return False


def _refuse_unordered(frame: ForFrame[Any], what: str) -> None:
    if not frame.is_ordered:
        kinds = (ForKind.SERIAL, ForKind.UNROLLED)
        kind = next(x.kind for x in frame.loops if x.kind not in kinds)
        raise mistake(
            "SCR0021",
            f"{what} in a loop whose iterations run in any order",
            label=f"a {kind.name.lower().replace('_', ' ')} loop is around it",
            help="use T.serial, or guard the rest of the body with an if",
        )


def _innermost_loop(builder: IRBuilder) -> StmtFrame[Any] | None:
    for frame in reversed(builder.frames):
        if isinstance(frame, (ForFrame, WhileFrame)):
            return cast("StmtFrame[Any]", frame)
    return None


def _jump(name: str, word: str) -> PrimExpr:
    builder = IRBuilder.active()
    if builder is not None and builder.frames:
        loop = _innermost_loop(builder)
        if loop is None:
            raise mistake(
                "SCR0021", f"{word} outside of a loop", help="write it in the body of a loop"
            )
        if isinstance(loop, ForFrame):
            _refuse_unordered(loop, word)
    return call_builtin(name)


def break_loop() -> PrimExpr:
    """Leave the innermost loop."""
    return _jump("break_loop", "break")


def continue_loop() -> PrimExpr:
    """Start the next iteration of the innermost loop."""
    return _jump("continue_loop", "continue")


def ret(value: ExprLike) -> PrimExpr:
    """Leave the function with a value.

    Errors: SCR0021 in a parallel or vectorized loop (T42), TIR0305 for a value of another dtype
    than the function declares (T41).
    """
    builder = IRBuilder.active()
    func = None if builder is None else builder.find(PrimFuncFrame)
    if builder is None or func is None:
        return call_builtin("ret", as_expr(value, "what is returned"))
    for frame in reversed(builder.frames):
        if isinstance(frame, ForFrame):
            _refuse_unordered(frame, "return")
    func.may_return = True
    declared = func.ret_type
    if isinstance(declared, TupleType):
        raise mistake(
            "TIR0305",
            "a value is returned by a function that is declared to return nothing",
            help="write the return type after the parameters, as in `-> T.int32`",
        )
    wanted = declared.dtype if isinstance(declared, PrimType) else None
    made = as_expr(value, "what is returned") if wanted is None else as_stored(value, wanted)
    if wanted is not None and made.dtype is not wanted:
        raise mistake(
            "TIR0305",
            f"the function returns {wanted}, this is {made.dtype}",
            help=f"cast the value with T.cast(…, {str(wanted)!r})",
        )
    return call_builtin("ret", made)


def call(dtype: DTypeLike, op: GlobalVar | str, args: Sequence[ExprLike]) -> Call:
    """Call an operator by its qualified name, or a function of the module."""
    if isinstance(op, GlobalVar):
        found: Op | GlobalVar | None = op
    else:
        found = Op.get(as_text(op, "the operator"))
    if found is None:
        raise wrong_argument(op, f"there is no operator {op!r}", help='name one, as in "tir.exp"')
    builder = IRBuilder.active()
    func = None if builder is None else builder.find(PrimFuncFrame)
    if found is RET and func is not None:
        func.may_return = True
    items = as_items(args, "the arguments of T.Call")
    return Call(as_dtype(dtype), found, tuple(as_expr(a, "an argument") for a in items))
