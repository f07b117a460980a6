"""Schedules: transformations of loop-level programs that preserve their meaning."""

from loomir.schedule.refusal import Refusal
from loomir.schedule.schedule import Schedule
from loomir.schedule.state import Ref, State
from loomir.schedule.table import PRIMITIVES, Primitive
from loomir.schedule.tensor_intrin import TensorIntrin
from loomir.schedule.trace import Instruction, Trace
from loomir.schedule.variables import BlockRV, ExprRV, LoopRV

__all__ = [
    "PRIMITIVES",
    "BlockRV",
    "ExprRV",
    "Instruction",
    "LoopRV",
    "Primitive",
    "Ref",
    "Refusal",
    "Schedule",
    "State",
    "TensorIntrin",
    "Trace",
]
