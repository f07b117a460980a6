"""Schedule a program by default, even if it is small."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from unittest import mock

from loomir.autoschedule.builders import thread_partition
from loomir.autoschedule.driver import schedule_function
from loomir.ir.module import IRModule
from loomir.ir.node import Node
from loomir.ir.visit import pre_order, rebuild
from loomir.target import Target
from loomir.tir import Add, Block, BufferStore, IterVarType, Mul, PrimFunc
from loomir.transform import ScheduleOptions, schedule

__all__ = ["rules_of", "scheduled"]


@contextmanager
def _worth_it() -> Generator[None]:
    """Schedule as if there were much to do, so that small programs get tasks as well."""
    with mock.patch.multiple(thread_partition, WORTH=0.0, TASK=4.0):
        yield


def scheduled(target: str) -> Callable[[IRModule], IRModule]:
    """Return what schedules a module for a target, but for functions that it may round."""

    def change(module: IRModule) -> IRModule:
        with _worth_it():
            made = schedule(module, ScheduleOptions(Target(target)))
        kept = {g: f for g, f in module.functions.items() if may_regroup(f)}
        return rebuild(made, {"functions": {**made.functions, **kept}}) if kept else made

    return change


def may_regroup(func: Node) -> bool:
    """Tell whether a function declares a reduction of floats whose order is free."""
    for block in pre_order(func):
        if isinstance(block, Block) and block.init is not None:
            kinds = {it.iter_type for it in block.iter_vars}
            stores = [s for s in pre_order(block.body) if isinstance(s, BufferStore)]
            if IterVarType.COMM_REDUCE in kinds and any(
                isinstance(s.value, (Add, Mul)) and s.buffer.dtype.is_float for s in stores
            ):
                return True
    return False


def rules_of(module: IRModule) -> list[str]:
    """List the rules that take parts of a module, each once."""
    found: set[str] = set()
    with _worth_it():
        for func in module.functions.values():
            if isinstance(func, PrimFunc):
                made = schedule_function(func, Target("native"))
                found |= {plan.kind for plan in made.plans}
    return sorted(found)
