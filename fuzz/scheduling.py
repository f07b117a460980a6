"""What the default schedule makes of a program, small as it may be."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from unittest import mock

from loomir.autoschedule import sharing
from loomir.autoschedule.schedule import schedule_function, schedule_module
from loomir.ir.module import IRModule
from loomir.target import Target
from loomir.tir import PrimFunc

__all__ = ["rules_of", "scheduled"]


@contextmanager
def _worth_it() -> Iterator[None]:
    """Schedule as if there were much to do, so that small programs get tasks as well."""
    with mock.patch.multiple(sharing, WORTH=0.0, TASK=4.0):
        yield


def scheduled(target: str) -> Callable[[IRModule], IRModule]:
    """Give what schedules a module for a target."""

    def change(module: IRModule) -> IRModule:
        with _worth_it():
            return schedule_module(module, Target(target))

    return change


def rules_of(module: IRModule) -> list[str]:
    """List the rules that take parts of a module, each once."""
    found: set[str] = set()
    with _worth_it():
        for func in module.functions.values():
            if isinstance(func, PrimFunc):
                made = schedule_function(func, Target("native"))
                found |= {plan.kind for plan in made.plans}
    return sorted(found)
