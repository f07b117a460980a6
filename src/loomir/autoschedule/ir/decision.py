"""Decisions of a schedule: what could be chosen at each place, and what is chosen there.

A rule calls ``decide`` with its candidates, the one of least predicted time first. That one is
chosen unless ``Decisions`` are in force that say otherwise: a search tries candidates by them, and
a record of a search replays them. Where none are in force, which is the rule, ``decide`` costs next
to nothing, and no other candidate is made.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping, Set
from contextlib import contextmanager
from contextvars import ContextVar
from typing import (
    TYPE_CHECKING,
    Any,
    NamedTuple,
    Protocol,
    TypeAlias,
    TypeVar,
    cast,
    runtime_checkable,
)

if TYPE_CHECKING:  # a program of the cache is found without the compiler
    from loomir.target import Target
    from loomir.tir.expr import Var
    from loomir.tir.function import PrimFunc

__all__ = [
    "Choice",
    "Decision",
    "DecisionSource",
    "Decisions",
    "apply_decisions",
    "attempt",
    "choice_from_plain",
    "choice_to_plain",
    "current_source",
    "decide",
    "decides",
    "decisions_from",
    "nest_place",
    "suspend_decisions",
]

Choice: TypeAlias = bool | int | str | tuple[int, ...]
"""A candidate, in a form that JSON can hold (a tuple as a list)."""

_Choice = TypeVar("_Choice", bound=Choice)
_T = TypeVar("_T")


def choice_to_plain(choice: Choice) -> Any:
    """Return a candidate as JSON holds it."""
    return list(choice) if isinstance(choice, tuple) else choice


def choice_from_plain(plain: Any) -> Any:
    """Return the candidate that a value of JSON stands for; lists become tuples."""
    return tuple(cast("list[Any]", plain)) if isinstance(plain, list) else plain


class Decision(NamedTuple):
    """The candidates at one place, the one of least predicted time first, and the chosen one."""

    candidates: tuple[Choice, ...]
    chosen: Choice


class Decisions:
    """What to choose at places by key, and what was chosen while a function was scheduled.

    Keys name the place of a group of stages and what is decided: ``0/tile``. A choice that is no
    candidate is not made: the first candidate is chosen, and ``ignored`` lists the key.
    """

    def __init__(
        self,
        given: Mapping[str, Choice] | None = None,
        *,
        explores: bool = False,
        on_scheduled: Callable[[PrimFunc], None] = lambda func: None,
    ) -> None:
        self.given = dict(given or {})
        self.explores = explores
        """Whether candidates are listed that cost time to find, such as rules that fit too."""
        self.on_scheduled = on_scheduled
        """Sees the function with its new loops."""
        self.made: dict[str, Decision] = {}

    @property
    def ignored(self) -> tuple[str, ...]:
        """List the given keys that had no effect."""
        return tuple(
            key
            for key, choice in self.given.items()
            if key not in self.made or self.made[key].chosen != choice
        )

    def choose(self, key: str, first: _Choice, others: Callable[[], Iterable[_Choice]]) -> _Choice:
        """Choose a candidate, and note all of them.

        A rule may ask for the same several times, as for variants of a loop: where the candidates
        differ, it is another decision, whose key gets a number.
        """
        candidates = tuple(dict.fromkeys((first, *others())))
        name, number = key, 1
        while name in self.made and self.made[name].candidates != candidates:
            number += 1
            name = f"{key}#{number}"
        wanted = self.given.get(name, first)
        chosen = next((c for c in candidates if c == wanted and type(c) is type(wanted)), first)
        self.made[name] = Decision(candidates, chosen)
        return chosen


class _Scope(NamedTuple):
    decisions: Decisions
    path: str = ""


_scope: ContextVar[_Scope | None] = ContextVar("decisions of the schedule", default=None)


@runtime_checkable
class DecisionSource(Protocol):
    """Knows decisions for functions, from records of a search."""

    def find_decisions(
        self, func: PrimFunc, constants: Set[Var], target: Target
    ) -> Decisions | None:
        """Return what to decide for a function, None for nothing."""
        ...


_source: ContextVar[DecisionSource | None] = ContextVar("source of decisions", default=None)


def decide(name: str, first: _Choice, others: Callable[[], Iterable[_Choice]]) -> _Choice:
    """Choose between candidates: ``first`` by default, ``others`` are made where one may win."""
    scope = _scope.get()
    if scope is None:
        return first
    return scope.decisions.choose(scope.path + name, first, others)


def decides(name: str) -> bool:
    """Whether candidates are asked for that cost time to find: while exploring, or by this name."""
    scope = _scope.get()
    if scope is None:
        return False
    return scope.decisions.explores or scope.path + name in scope.decisions.given


def attempt(plan: Callable[[], _T | None], optional: str = "") -> _T | None:
    """Plan, and forget what was decided where that comes to nothing.

    ``optional`` names a decision whether a plan that was made is used: it is, by default.
    """
    scope = _scope.get()
    if scope is None:
        return plan()
    before = dict(scope.decisions.made)
    made = plan()
    if made is not None and (not optional or decide(optional, True, lambda: (False,))):
        return made
    after = scope.decisions.made
    scope.decisions.made = before
    if made is not None:  # that it is not used is still decided
        key = scope.path + optional
        scope.decisions.made.update(
            {k: d for k, d in after.items() if k not in before and k.partition("#")[0] == key}
        )
    return None


def current_source() -> DecisionSource | None:
    """Return where decisions for functions come from."""
    return _source.get()


@contextmanager
def decisions_from(source: DecisionSource | None) -> Generator[None]:
    """Take the decisions for functions that are scheduled from a source."""
    token = _source.set(source)
    try:
        yield
    finally:
        _source.reset(token)


@contextmanager
def apply_decisions(decisions: Decisions | None) -> Generator[None]:
    """Schedule by decisions, or by none."""
    token = _scope.set(None if decisions is None else _Scope(decisions))
    try:
        yield
    finally:
        _scope.reset(token)


@contextmanager
def nest_place(place: object) -> Generator[None]:
    """Decide for a part of a function: its place comes before the names."""
    scope = _scope.get()
    if scope is None:
        yield
        return
    token: Any = _scope.set(scope._replace(path=f"{scope.path}{place}/"))
    try:
        yield
    finally:
        _scope.reset(token)


@contextmanager
def suspend_decisions() -> Generator[None]:
    """Decide by prediction only, and note nothing."""
    with apply_decisions(None):
        yield
