"""Operators that create rows of numbers: ranges and windows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, cast

import numpy as np

from loomir.arith.analyzer import Analyzer
from loomir.ir.visit import by_class
from loomir.op.create import check_element, read_integer, require_nonnegative
from loomir.op.rules.arguments import dims_of
from loomir.relax.node import StructInfo
from loomir.relax.operator.context import OpContext
from loomir.relax.operator.definition import Mistake, Sample, TensorSample, define_op
from loomir.relax.operator.params import flag, kind_dtype, number, prim
from loomir.relax.operator.reference import NPArray, convert_array
from loomir.relax.shape import as_dim
from loomir.relax.struct_info import TensorStructInfo
from loomir.support.dtype import DataType, numpy_of
from loomir.te.scalar import select
from loomir.te.tensor import Tensor
from loomir.te.topi.shape import Size, make
from loomir.tir.builtins.table import call_builtin
from loomir.tir.expr import FloatImm, IntImm, Max, PrimExpr, Var, const
from loomir.tir.expr import cast as cast_to

__all__ = ["arange", "hamming_window"]

_INT64 = DataType("int64")
_FLOAT32 = DataType("float32")
_FLOAT64 = DataType("float64")
_X = TensorSample((2, 3))


def _adapt_arange(given: dict[str, Any]) -> dict[str, Any]:
    """Count from 0 where one bound is given; floats keep their digits."""
    made = dict(given)
    if made.get("end") is None and "start" in made:
        made["start"], made["end"] = 0, made["start"]
    for name in ("start", "end", "step"):
        if isinstance(made.get(name), float):
            made[name] = const(made[name], _FLOAT64)
    return made


def _infer_arange(c: OpContext) -> StructInfo:
    infos = [c.prim(i) for i in range(3)]
    given: DataType | None = c["dtype"]
    known = [info.dtype for info in infos if info is not None]
    if given is not None and given.is_bool:
        c.refuse("OPS0010", "it makes numbers, not bool", help="give a dtype of numbers")
    for i, info in enumerate(infos):
        if info is not None and info.dtype.is_bool:
            c.refuse(
                "OPS0007",
                f"argument {i + 1} is a truth, not a number",
                help="give an integer or a float",
                arg=i,
            )
    dtype = _INT64 if given is None else check_element(c, given)
    if given is None and (len(known) < 3 or any(d.is_float for d in known)):
        dtype = _FLOAT32 if len(known) == 3 else DataType("void")
    values = [info.value for info in infos if info is not None and info.value is not None]
    count = _steps(c, values) if len(values) == 3 else None
    return c.make(None if count is None else [count], dtype, ndim=1)


def _steps(c: OpContext, values: Sequence[PrimExpr]) -> PrimExpr | None:
    """Return the number of steps, None if that depends on values that are unknown."""
    start, end, step = values
    if not isinstance(step, (IntImm, FloatImm)):
        return None
    if step.value == 0 or not math.isfinite(step.value):
        c.refuse(
            "OPS0012",
            f"the step is {step.value}",
            help="give a finite number other than 0",
            arg=2,
        )
    if isinstance(start, (IntImm, FloatImm)) and isinstance(end, (IntImm, FloatImm)):
        for i, bound in enumerate((start, end)):
            if not math.isfinite(bound.value):
                c.refuse(
                    "OPS0012",
                    f"argument {i + 1} is {bound.value}",
                    help="give finite bounds",
                    arg=i,
                )
        return as_dim(_count(start.value, end.value, step.value))
    if not (start.dtype.is_integer and end.dtype.is_integer and isinstance(step, IntImm)):
        return None
    size = step.value
    span = as_dim(end) - as_dim(start) if size > 0 else as_dim(start) - as_dim(end)
    return _clamp_to_zero((span + (abs(size) - 1)) // abs(size))


def _count(start: float, end: float, step: float) -> int:
    if all(isinstance(v, int) for v in (start, end, step)):
        return max(0, int(-((start - end) // step)))
    return max(0, math.ceil((end - start) / step))


def _clamp_to_zero(count: PrimExpr) -> PrimExpr:
    """Return a number of steps that is no less than 0; shape variables are not either."""
    analyzer = Analyzer()
    for var in by_class(count).get(Var, ()):
        analyzer.assume_size(var)
    return analyzer.simplify(Max(count, as_dim(0)))


def _lower_arange(
    start: PrimExpr, end: PrimExpr, step: PrimExpr, dtype: DataType | None, out: TensorStructInfo
) -> Tensor:
    floats = any(v.dtype.is_float for v in (start, end, step))
    inner = _FLOAT64 if floats else _INT64
    first, size = cast_to(start, inner), cast_to(step, inner)

    def element(i: PrimExpr) -> PrimExpr:
        return cast_to(cast_to(i, inner) * size + first, out.dtype)

    return cast("Tensor", make("arange", dims_of(out), element))


def _arange(start: Any, end: Any, step: Any, dtype: DataType | None) -> NPArray:
    values = [v.item() for v in (start, end, step)]
    floats = any(isinstance(v, float) for v in values)
    if not values[2]:
        raise ZeroDivisionError("the step of arange is 0")
    count = np.arange(_count(*values), dtype="float64" if floats else "int64")
    with np.errstate(all="ignore"):
        made = count * values[2] + values[0]
    return convert_array(made, dtype or (_FLOAT32 if floats else _INT64))


arange = define_op(
    "arange",
    prim("start"),
    prim("end", None),
    prim("step", 1),
    kind_dtype("dtype", None),
    infer=_infer_arange,
    doc="Count from ``start`` up to ``end``, exclusive, by steps; from 0 if one bound is given."
    "\n\nElements are ``start + i * step``, for floats computed in float64 and rounded once."
    " Without ``dtype`` they are int64, or float32 if one of the numbers is a float.",
    family="create",
    lower=_lower_arange,
    reference=_arange,
    samples=(
        Sample((5,)),
        Sample((2, 9, 3)),
        Sample((9, 2, -2), {"dtype": "int8"}),
        Sample((3, 1)),
        Sample((0.0, 1.0, 0.1)),
        Sample((0, 1, 0.3), {"dtype": "float64"}),
        Sample((3,), {"dtype": "bfloat16"}),
        Sample((0.5, 4, 1), {"dtype": "int32"}),
        Sample((4,), {"step": 2}),
    ),
    mistakes=(
        Mistake((0, 5, 0), {}, "OPS0012"),
        Mistake((0, math.inf), {}, "OPS0012"),
        Mistake((_X,), {}, "OPS0004"),
        Mistake((True,), {}, "OPS0007"),
        Mistake((3,), {"dtype": "bool"}, "OPS0010"),
        Mistake((), {}, "OPS0001"),
    ),
    adapt=_adapt_arange,
)


def _infer_window(c: OpContext) -> StructInfo:
    size = read_integer(c, 0)
    dtype: DataType = c["dtype"]
    if not dtype.is_float:
        c.refuse("OPS0010", f"a window of {dtype} loses all", help="give a float dtype")
    if isinstance(size, IntImm):
        require_nonnegative(c, size.value, 0)
    return c.make(None if size is None else [size], dtype, ndim=1)


def _lower_window(
    size: PrimExpr, periodic: bool, alpha: float, beta: float, dtype: DataType
) -> Tensor:
    count = as_dim(size)
    last = count if periodic else count - 1

    def element(i: PrimExpr) -> PrimExpr:
        turn = cast_to(i, _FLOAT64) * (2 * math.pi) / cast_to(last, _FLOAT64)
        made = const(alpha, _FLOAT64) - call_builtin("cos", turn) * const(beta, _FLOAT64)
        return cast_to(select(count > 1, made, const(1.0, _FLOAT64)), dtype)

    return cast("Tensor", make("hamming_window", [_size(count)], element))


def _size(extent: PrimExpr) -> Size:
    return extent.value if isinstance(extent, IntImm) else extent


def _window(size: Any, periodic: bool, alpha: float, beta: float, dtype: DataType) -> NPArray:
    count = int(size)
    last = count if periodic else count - 1
    if count <= 1:
        return np.ones(count, numpy_of(dtype))
    return (alpha - beta * np.cos(2 * math.pi * np.arange(count) / last)).astype(numpy_of(dtype))


hamming_window = define_op(
    "hamming_window",
    prim("window_size"),
    flag("periodic", True),
    number("alpha", 0.54),
    number("beta", 0.46),
    kind_dtype("dtype", _FLOAT32),
    infer=_infer_window,
    doc="Return the weights ``alpha - beta * cos(2 * pi * i / n)`` of a window."
    "\n\n``n`` is the size of the window where it is periodic, one less where it is symmetric. A"
    " window of one element is 1.",
    family="create",
    lower=_lower_window,
    reference=_window,
    samples=(
        Sample((6,), ulps=1, absolute=1e-7),
        Sample((5, False, 0.5, 0.5), ulps=1, absolute=1e-7),
        Sample((1,)),
        Sample((0,)),
        Sample((4, 1, 0.54, 0.46, "float64"), absolute=1e-15),
        Sample((3, True), {"dtype": "float16"}, ulps=1),
    ),
    mistakes=(
        Mistake((2.5,), {}, "OPS0007"),
        Mistake((-1,), {}, "OPS0011"),
        Mistake((4,), {"dtype": "int32"}, "OPS0010"),
        Mistake((4, 2), {}, "OPS0002"),
    ),
)
