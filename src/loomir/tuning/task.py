"""The tasks of a program: each different kernel once, with how often it is called."""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass
from typing import Any

from loomir.autoschedule.ir.decision import Decisions
from loomir.ir.serialize import to_json
from loomir.ir.visit import rebuild
from loomir.support.compiling import to_executable
from loomir.target import Target
from loomir.tir.expr import Var
from loomir.tir.function import PrimFunc
from loomir.tuning.record import key_of_program, label_of
from loomir.tuning.request import Request

__all__ = ["Task", "list_tasks"]


@dataclass(slots=True)
class Task:
    """A kernel to tune: ``request`` measures its default schedule."""

    name: str
    request: Request
    calls: int = 1
    """How many times the program calls this kernel."""


class _Collector:
    """Records the functions that a compile schedules, and decides nothing."""

    def __init__(self) -> None:
        self.found: list[tuple[PrimFunc, tuple[int, ...], str]] = []

    def find_decisions(
        self, func: PrimFunc, constants: Set[Var], target: Target
    ) -> Decisions | None:
        """Record a function."""
        places = tuple(
            place
            for place, param in enumerate(func.params)
            if param in func.buffer_map and func.buffer_map[param].data in constants
        )
        self.found.append((func, places, key_of_program(func, constants)))
        return None


def list_tasks(
    program: Any, target: Target, sizes: Mapping[str, int], options: Mapping[str, Any]
) -> list[Task]:
    """Compile a program and list the kernels to tune. Errors: those of ``loomir.compile``."""
    collector = _Collector()
    to_executable(program, target=target, database=collector, **options)
    made: dict[str, Task] = {}
    plain = {key_of_program(func) for func, places, _ in collector.found if not places}
    for func, places, key in collector.found:
        if places and key_of_program(func) in plain:
            continue  # nothing was packed, so it was scheduled again without constants
        known = made.get(key)
        if known is not None:
            known.calls += 1
            continue
        text = to_json(rebuild(func, {"attrs": {"global_symbol": func.name}}))
        made[key] = Task(label_of(func), Request(key, text, places, sizes, target.name, {}))
    return list(made.values())
