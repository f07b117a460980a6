"""Operators with side effects, and moves between devices."""

from __future__ import annotations

from typing import Any, cast

import numpy as np

from loomir.ir.module import VDevice
from loomir.ir.visit import Step, trampoline
from loomir.relax.info.describe import format_info
from loomir.relax.info.relations import is_same_device
from loomir.relax.node import StructInfo
from loomir.relax.operator.context import OpContext
from loomir.relax.operator.definition import Mistake, define_op
from loomir.relax.operator.params import device, expr, several, text
from loomir.relax.struct_info import (
    OBJECT,
    UNIT,
    ObjectStructInfo,
    PrimStructInfo,
    TensorStructInfo,
    TupleStructInfo,
)

__all__ = ["assert_op", "hint_on_device", "print", "render_object", "to_vdevice"]


def _infer_nothing(c: OpContext) -> StructInfo:
    return UNIT


def _infer_assert(c: OpContext) -> StructInfo:
    """Check that the condition is a bool, as for a branch."""
    info = c.args[0]
    if isinstance(info, TensorStructInfo) and info.ndim <= 0:
        fits = info.dtype.is_bool or info.dtype.is_void
    elif isinstance(info, PrimStructInfo):
        fits = info.dtype.is_bool
    else:
        fits = isinstance(info, ObjectStructInfo)
    if not fits:
        c.refuse(
            "RLX0205",
            f"the condition is {format_info(info)}, not a bool",
            help='give R.Tensor((), "bool"), or a bool scalar',
            arg=0,
        )
    return UNIT


def _infer_moved(c: OpContext) -> StructInfo:
    return trampoline(_move(c, c.args[0]))


def _move(c: OpContext, info: StructInfo) -> Step[StructInfo]:
    """Put a tensor, or those of a tuple, on the device."""
    if isinstance(info, TensorStructInfo):
        target: VDevice = c["dst_vdevice"]
        return TensorStructInfo(info.shape, info.dtype, target, info.ndim)
    if isinstance(info, TupleStructInfo):
        fields: list[StructInfo] = []
        for field in info.fields:
            fields.append((yield _move(c, field)))
        return TupleStructInfo(tuple(fields))
    if not isinstance(info, ObjectStructInfo):
        c.refuse(
            "OPS0004",
            f"argument 1 holds {format_info(info)}, which lies on no device",
            help="move tensors, and tuples of them",
            arg=0,
        )
    return info


def _infer_hint(c: OpContext) -> StructInfo:
    """Return what is known of the tensor; one that is elsewhere is moved, so so it is not there."""
    info = c.tensor(0)
    if info.vdevice is None or is_same_device(info.vdevice, c["dst_vdevice"]):
        return info
    return TensorStructInfo(info.shape, info.dtype, None, info.ndim)


print = define_op(  # noqa: A001
    "print",
    several("values"),
    text("format", ""),
    infer=_infer_nothing,
    doc="Print values by a Python format, such as ``'{} of {}'``, or separated by spaces.",
    family="base",
    pure=False,
    mistakes=(Mistake((), {"format": 3}, "OPS0002"),),
)


def _render(value: Any) -> str:
    shown: Any = value
    if isinstance(value, np.generic):
        shown = cast("Any", value).item()
    return str(shown)


render_object = define_op(
    "render_object",
    expr("value"),
    infer=lambda c: OBJECT,
    doc="Return the string that ``print`` writes for a value.",
    family="base",
    reference=_render,
    mistakes=(Mistake((), {}, "OPS0001"),),
)

assert_op = define_op(
    "assert_op",
    expr("condition"),
    several("format_args"),
    text("format", ""),
    infer=_infer_assert,
    doc="Stop with an error unless a condition holds.\n\nThe condition is a bool tensor of rank 0 "
    "or a bool scalar; ``format`` makes the message of ``format_args``. Errors: RLX0205.",
    family="base",
    pure=False,
    mistakes=(Mistake((), {}, "OPS0001"),),
)

to_vdevice = define_op(
    "to_vdevice",
    expr("data"),
    device("dst_vdevice"),
    infer=_infer_moved,
    doc="Copy a tensor, or those of a tuple, to a device.",
    family="base",
    mistakes=(Mistake((), {}, "OPS0001"),),
)

hint_on_device = define_op(
    "hint_on_device",
    expr("data"),
    device("dst_vdevice"),
    text("memory_scope", "global"),
    infer=_infer_hint,
    doc="Hint that a tensor should be on a device; passes turn this into a move if needed.",
    family="base",
    mistakes=(Mistake((), {}, "OPS0001"),),
)
