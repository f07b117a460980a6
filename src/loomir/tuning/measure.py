"""Build a candidate, hold its results to those of the default schedule, and measure both in turns.

This runs in a process of its own (``guard``), which may crash, hang or be killed.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence, Set
from typing import Any, Final, NamedTuple, cast

import numpy as np

from loomir.autoschedule.ir.decision import Decisions
from loomir.ir.hashing import structural_digest
from loomir.ir.module import IRModule
from loomir.ir.serialize import from_json
from loomir.support.compiling import to_executable
from loomir.support.diagnostics import InternalError, LoomirError
from loomir.target import Target
from loomir.tir.analysis.written_buffers import written_buffers
from loomir.tir.expr import Var
from loomir.tir.function import PrimFunc
from loomir.tuning.record import key_of_program, key_of_target
from loomir.tuning.request import Outcome, Request
from loomir.validate.arguments import LEVELS, Drawer, NotDrawnError, fresh

__all__ = ["measure"]

_KEPT: Final = 4
"""How many programs are cached with their default schedule, arguments and results."""
_TURNS: Final = 3
"""Turns after which a clearly slower candidate is abandoned."""
_SLOWER: Final = 1.25
"""The time relative to the default schedule from which a candidate is clearly slower."""
_MOST_TURNS: Final = 40
"""The most turns in which a candidate and the default schedule are timed."""
_SHORTEST: Final = 5e-5
"""The least seconds of a sample; shorter calls are repeated."""
_EASE: Final = 1024
"""Units in the last place of the largest result by which sums in another order may differ."""


class _SeenError(Exception):
    """The loops of a candidate are those of an earlier one."""


class _TrialDecisions:
    """Takes given decisions, only for the function that is tuned."""

    def __init__(self, request: Request, seen: Mapping[bytes, Outcome]) -> None:
        self.program = request.program
        self.seen = seen
        # Finding out which rules apply takes time; it is only needed if another rule is tried.
        explores = not request.choices or any(key.endswith("rule") for key in request.choices)
        self.decisions = Decisions(request.choices, explores=explores, on_scheduled=self._see)
        self.digest = b""

    def find_decisions(
        self, func: PrimFunc, constants: Set[Var], target: Target
    ) -> Decisions | None:
        """Return the decisions that are tried."""
        return self.decisions if key_of_program(func, constants) == self.program else None

    def _see(self, func: PrimFunc) -> None:
        self.digest = structural_digest(func)
        if self.digest in self.seen:
            raise _SeenError


class _PreparedProgram(NamedTuple):
    """A program with its default schedule, arguments and results."""

    func: PrimFunc
    constants: Mapping[str, Any]
    arguments: tuple[Any, ...]
    written: tuple[int, ...]
    """Indices of the arguments that a call writes."""
    default: Callable[..., object]
    expected: tuple[Any, ...]
    seen: dict[bytes, Outcome]


_prepared: OrderedDict[tuple[object, ...], _PreparedProgram] = OrderedDict()


def measure(request: Request) -> Outcome:
    """Measure one candidate; errors in it become its outcome."""
    try:
        prepared = _prepare(request)
    except (LoomirError, NotDrawnError) as error:
        return Outcome("failed", why=f"the program cannot be measured: {error}")
    forced = _TrialDecisions(request, prepared.seen)
    try:
        exe = to_executable(
            prepared.func,
            target=request.target,
            constants=dict(prepared.constants) or None,
            cache=False,
            database=forced,
        )
        if not forced.digest:
            return Outcome("failed", why="compiled with constants, it is another function")
        outcome = _try_call(request, prepared, _entry(exe, prepared.func))
    except _SeenError:
        known = prepared.seen[forced.digest]
        return known._replace(space=forced.decisions.made, is_repeated=True)
    except InternalError as error:
        outcome = Outcome("failed", why=f"a bug of Loomir: {error}")
    except LoomirError as error:
        outcome = Outcome("failed", why=str(error))
    outcome = outcome._replace(machine=key_of_target(Target(request.target)))
    prepared.seen[forced.digest] = outcome
    return outcome._replace(space=forced.decisions.made)


def _prepare(request: Request) -> _PreparedProgram:
    """Compile the default schedule and call it. Errors: LoomirError, NotDrawnError."""
    key = (request.program, request.seed, tuple(sorted(request.sizes.items())), request.target)
    if key in _prepared:
        _prepared.move_to_end(key)
        return _prepared[key]
    func = cast("PrimFunc", from_json(request.text))
    given = _draw_arguments(func, request)
    buffers = [func.buffer_map.get(param) for param in func.params]
    constants = {
        buffer.name: given[place]
        for place, buffer in enumerate(buffers)
        if buffer is not None and place in request.constants
    }
    places = [place for place in range(len(buffers)) if place not in request.constants]
    changed = {id(buffer.data) for buffer in written_buffers(func)}
    written = tuple(
        number
        for number, place in enumerate(places)
        if (buffer := buffers[place]) is not None and id(buffer.data) in changed
    )
    exe = to_executable(func, target=request.target, constants=constants or None)
    default = _entry(exe, func)
    arguments = tuple(given[place] for place in places)
    own = tuple(map(fresh, arguments))
    default(*own)
    expected = tuple(own[number] for number in written)
    made = _PreparedProgram(func, constants, arguments, written, default, expected, {})
    _prepared[key] = made
    while len(_prepared) > _KEPT:
        _prepared.popitem(last=False)
    return made


def _draw_arguments(func: PrimFunc, request: Request) -> Sequence[Any]:
    """Draw arguments with which the unscheduled function can be called."""
    drawer = Drawer(func, IRModule({}))
    sizes = drawer.sizes(request.seed, 0, 64, request.sizes)
    if not drawer.limits and not drawer.steering:
        return drawer.draw(sizes, request.seed, 0).arguments
    checked = _entry(to_executable(func, check_bounds=True, opt_level=1), func)
    for level in range(LEVELS + 1):  # integers may be indices: take the most varied valid ones
        drawn = drawer.draw(sizes, request.seed, level).arguments
        try:
            checked(*map(fresh, drawn))
        except LoomirError:
            continue
        return drawn
    raise NotDrawnError("each call that was made up raises an error")


def _entry(exe: Any, func: PrimFunc) -> Callable[..., object]:
    names = list(exe.functions)
    return cast("Callable[..., object]", exe[func.name if func.name in names else names[0]])


# -- results and times -----------------------------------------------------------------------------
def _try_call(request: Request, prepared: _PreparedProgram, call: Callable[..., object]) -> Outcome:
    """Compare and measure. Errors: RunError."""
    own = tuple(map(fresh, prepared.arguments))
    call(*own)
    for number, expected in zip(prepared.written, prepared.expected, strict=True):
        if not _is_near(own[number], expected):
            return Outcome("wrong", why="its results are not those of the default schedule")
    ours, theirs = _time_in_turns(prepared, call, own, request.seconds)
    return Outcome("ok", ours, theirs)


def _is_near(given: Any, expected: Any) -> bool:
    """Tell whether results are equal; floats may differ by rounding of reordered sums."""
    if np.array_equal(given, expected, equal_nan=expected.dtype.kind in "fc"):
        return True
    if expected.dtype.kind in "biu":
        return False
    one, other = (np.asarray(each, "float64") for each in (given, expected))
    finite = np.isfinite(other)
    if not np.array_equal(finite, np.isfinite(one)) or not finite.any():
        return False
    same = np.array_equal(one[~finite], other[~finite], equal_nan=True)
    eps = _EPSILON.get(str(expected.dtype), 2.0**-23)
    allowed = _EASE * eps * max(float(np.abs(other[finite]).max()), 1e-30)
    return same and float(np.abs(one[finite] - other[finite]).max()) <= allowed


_EPSILON: Final = {
    "float64": 2.0**-52,
    "float32": 2.0**-23,
    "float16": 2.0**-10,
    "bfloat16": 2.0**-7,
}


def _time_in_turns(
    prepared: _PreparedProgram, call: Callable[..., object], own: Sequence[Any], seconds: float
) -> tuple[float, float]:
    """Return the least seconds of a call of the candidate, and of the default schedule."""
    changed = [(own[n], prepared.arguments[n]) for n in prepared.written]

    def restore() -> None:
        for array, start in changed:
            np.copyto(array, start)

    restore()
    first = _sample(call, own, 1)
    repeats = max(1, int(_SHORTEST / max(first, 1e-9)))
    ours = theirs = float("inf")
    end = time.perf_counter() + seconds
    for turn in range(_MOST_TURNS):
        restore()
        ours = min(ours, _sample(call, own, repeats))
        restore()
        theirs = min(theirs, _sample(prepared.default, own, repeats))
        if turn + 1 >= _TURNS and (ours > _SLOWER * theirs or time.perf_counter() > end):
            break
    return ours, theirs


def _sample(call: Callable[..., object], arguments: Sequence[Any], repeats: int) -> float:
    start = time.perf_counter()
    for _ in range(repeats):
        call(*arguments)
    return (time.perf_counter() - start) / repeats
