"""Choices by hand: list what the default schedule decides in a program, and decide otherwise."""

from __future__ import annotations

from collections.abc import Mapping, Set
from typing import Any

from loomir.autoschedule.ir.decision import Choice, Decision, Decisions, choice_from_plain
from loomir.support.argument_errors import explain_arguments
from loomir.support.compiling import to_executable
from loomir.support.diagnostics import CompileError, Diagnostic, nearest
from loomir.support.runtime_types import read_declared
from loomir.target import Target
from loomir.tir.expr import Var
from loomir.tir.function import PrimFunc
from loomir.tuning.record import label_of

__all__ = ["ChoiceSource", "check_choices", "list_choices"]


class ChoiceSource:
    """Takes decisions for named kernels from a table; other kernels get the default schedule."""

    def __init__(
        self, choices: Mapping[str, Mapping[str, Choice]], *, explores: bool = False
    ) -> None:
        self._choices = choices
        self._explores = explores
        self.made: dict[str, Decisions] = {}

    def find_decisions(
        self, func: PrimFunc, constants: Set[Var], target: Target
    ) -> Decisions | None:
        """Return the decisions for a kernel."""
        label = label_of(func)
        given = {k: choice_from_plain(c) for k, c in self._choices.get(label, {}).items()}
        self.made[label] = Decisions(given, explores=self._explores)
        return self.made[label]

    def list_mistakes(self) -> list[Diagnostic]:
        """List the names and choices of the table that fit nothing (TUN0006)."""
        mistakes: list[Diagnostic] = []
        for label in self._choices:
            decisions = self.made.get(label)
            if decisions is None:
                mistakes.append(_refuse(f"there is no kernel named {label!r}", label, self.made))
                continue
            for key in decisions.ignored:
                decision = decisions.made.get(key)
                if decision is None:
                    why = f"nothing is decided at {key!r} in {label}"
                    mistakes.append(_refuse(why, key, decisions.made))
                    continue
                listed = ", ".join(map(str, decision.candidates))
                why = f"{decisions.given[key]} is not a candidate for {key!r} in {label}"
                mistakes.append(Diagnostic("TUN0006", why, help=f"choose one of {listed}"))
        return mistakes


def _refuse(why: str, name: str, known: Mapping[str, object]) -> Diagnostic:
    guess = nearest(name, list(known))
    listed = ", ".join(known) or "nothing: no loops are scheduled"
    advice = f"did you mean {guess!r}?" if guess else f"there is {listed}"
    return Diagnostic("TUN0006", why, help=advice)


@explain_arguments
def list_choices(
    program: Any, target: str | Target = "native", *, constants: Mapping[str, Any] | None = None
) -> dict[str, dict[str, Decision]]:
    """List the decisions of the default schedule, for each kernel by name, each by its key.

    A decision has ``candidates``, with the one of least predicted time first, and the ``chosen``
    one. ``loomir.compile(program, choices={kernel: {key: candidate}})`` changes decisions; later
    ones may then be different.

    Errors: those of ``loomir.compile``.
    """
    source = ChoiceSource({}, explores=True)
    to_executable(program, target=target, constants=constants, database=source)
    return {label: dict(decisions.made) for label, decisions in source.made.items()}


def check_choices(choices: Any) -> None:
    """Check the form of a table of choices. Errors: RUN0012."""
    kind = read_declared(Mapping[str, Mapping[str, Any]])
    if not kind.accepts(choices):
        raise CompileError(
            Diagnostic(
                "RUN0012",
                "choices must be a dictionary of kernels, each a dictionary of candidates by key",
                help='write choices={"matmul": {"0/tile": (8, 3)}}',
            )
        )
