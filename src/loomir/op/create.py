"""Operators that create tensors, and triangular parts of matrices."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np

from loomir.arith.analyzer import Analyzer
from loomir.ir.visit import by_class
from loomir.op.rules.arguments import dims_of, need_rank
from loomir.relax.node import StructInfo
from loomir.relax.operator.context import OpContext
from loomir.relax.operator.definition import Mistake, Sample, TensorSample, define_op
from loomir.relax.operator.params import flag, kind_dtype, number, prim, scalar, shape, tensor
from loomir.relax.operator.reference import NPArray, convert_array
from loomir.relax.operator.rules import operand, shape_argument, tensor_info
from loomir.relax.shape import as_dim
from loomir.relax.struct_info import TensorStructInfo
from loomir.support.dtype import DataType, numpy_of
from loomir.te import topi
from loomir.te.scalar import select
from loomir.te.tensor import Tensor
from loomir.te.topi.shape import Size, make
from loomir.tir.builtins.table import call_builtin
from loomir.tir.expr import FloatImm, IntImm, Max, PrimExpr, Var, const
from loomir.tir.expr import cast as cast_to

__all__ = [
    "arange",
    "eye",
    "eye_like",
    "full",
    "full_like",
    "hamming_window",
    "ones",
    "ones_like",
    "tril",
    "triu",
    "zeros",
    "zeros_like",
]

_INT64 = DataType("int64")
_FLOAT32 = DataType("float32")
_FLOAT64 = DataType("float64")


def _element(c: OpContext, dtype: DataType) -> DataType:
    """Check that elements can have a dtype. Errors: OPS0010."""
    if (dtype.is_handle and not dtype.is_void) or dtype.lanes != 1:
        c.refuse(
            "OPS0010",
            f"elements cannot be {dtype}",
            help="give an integer dtype, a float one or bool, with one lane",
        )
    return dtype


# -- one value -------------------------------------------------------------------------------
def _infer_fill_dtype(c: OpContext, index: int) -> DataType:
    """Return the dtype of the value to fill with, a scalar or a tensor without axes."""
    info = operand(c, index)
    if isinstance(info, TensorStructInfo):
        need_rank(c, index, 0)
    return info.dtype


def _infer_full(c: OpContext) -> StructInfo:
    given = _infer_fill_dtype(c, 1)
    info = operand(c, 1)
    device = info.vdevice if isinstance(info, TensorStructInfo) else None
    return tensor_info(shape_argument(c, 0), _element(c, c["dtype"] or given), device)


def _infer_full_like(c: OpContext) -> StructInfo:
    _infer_fill_dtype(c, 1)
    return _infer_like(c)


def _infer_like(c: OpContext) -> StructInfo:
    info = c.tensor(0)
    return TensorStructInfo(
        info.shape, _element(c, c["dtype"] or info.dtype), info.vdevice, info.ndim
    )


def _infer_filled(c: OpContext) -> StructInfo:
    return tensor_info(shape_argument(c, 0), _element(c, c["dtype"]), None)


def _fill(extents: Sequence[Size], value: Tensor | PrimExpr, dtype: DataType) -> Tensor:
    def element(*_: PrimExpr) -> PrimExpr:
        return cast_to(value() if isinstance(value, Tensor) else value, dtype)

    return cast("Tensor", make("full", list(extents), element))


def _lower_full(
    extents: Sequence[Size], value: Tensor | PrimExpr, dtype: DataType | None
) -> Tensor:
    return _fill(extents, value, value.dtype if dtype is None else dtype)


def _lower_full_like(x: Tensor, value: Tensor | PrimExpr, dtype: DataType | None) -> Tensor:
    return _fill(x.shape, value, x.dtype if dtype is None else dtype)


def _full(extents: tuple[int, ...], value: Any, dtype: DataType | None) -> NPArray:
    given = np.asarray(value)
    one = given if dtype is None else convert_array(given, dtype)
    return np.full(extents, one)


def _full_like(x: NPArray, value: Any, dtype: DataType | None) -> NPArray:
    kind = x.dtype if dtype is None else numpy_of(dtype)
    return np.full(x.shape, convert_array(np.asarray(value), str(kind)))


_ONE = TensorSample((), values=1.5)
_X = TensorSample((2, 3))
_OTHER_DTYPE = Mistake((_X,), {"dtype": "handle"}, "OPS0010")

full = define_op(
    "full",
    shape("shape"),
    scalar("fill_value"),
    kind_dtype("dtype", None),
    infer=_infer_full,
    doc="Fill a tensor with one value, which is a number, or a tensor without axes."
    "\n\nWithout ``dtype``, elements have the dtype of the value: a plain integer is int64, a plain"
    " float is float32.",
    family="create",
    lower=_lower_full,
    reference=_full,
    samples=(
        Sample(((2, 3), 1.5)),
        Sample(((2,), 7)),
        Sample(((), 0.1, "float64")),
        Sample(((0, 2), 1, "bool")),
        Sample(((3,), _ONE)),
        Sample(((3,), TensorSample((), "float32", values=3.7), "int8")),
    ),
    mistakes=(
        Mistake(((2,), TensorSample((1,))), {}, "OPS0030"),
        Mistake((_X, 1.0), {}, "OPS0004"),
        Mistake(((2,), 1.0, "handle"), {}, "OPS0010"),
        Mistake(((2,),), {}, "OPS0001"),
    ),
)
full_like = define_op(
    "full_like",
    tensor("x"),
    scalar("fill_value"),
    kind_dtype("dtype", None),
    infer=_infer_full_like,
    doc="Fill a tensor of the same shape, and by default the same dtype, with one value.",
    family="create",
    lower=_lower_full_like,
    reference=_full_like,
    samples=(
        Sample((_X, 2.0)),
        Sample((TensorSample((0,), "int8"), 3, "float16")),
        Sample((TensorSample((), "int32"), _ONE)),
    ),
    mistakes=(
        Mistake((_X, TensorSample((1,))), {}, "OPS0030"),
        Mistake((1, 1.0), {}, "OPS0004"),
        Mistake((_X, 1.0, "handle"), {}, "OPS0010"),
    ),
)


def _define_filled(name: str, value: int) -> Callable[..., Any]:
    def lower(extents: Sequence[Size], dtype: DataType) -> Tensor:
        return _fill(extents, const(value, dtype), dtype)

    def reference(extents: tuple[int, ...], dtype: DataType) -> NPArray:
        return np.full(extents, value, numpy_of(dtype))

    return define_op(
        name,
        shape("shape"),
        kind_dtype("dtype"),
        infer=_infer_filled,
        doc=f"Fill a tensor with {name}.",
        family="create",
        lower=lower,
        reference=reference,
        samples=(
            Sample(((2, 3), "float32")),
            Sample(((), "bfloat16")),
            Sample(((0,), "int8")),
            Sample(((3,), "bool")),
        ),
        mistakes=(
            Mistake((_X, "int8"), {}, "OPS0004"),
            Mistake(((2,), "handle"), {}, "OPS0010"),
            Mistake(((2,),), {}, "OPS0001"),
        ),
    )


def _define_filled_like(name: str, value: int) -> Callable[..., Any]:
    def lower(x: Tensor, dtype: DataType | None) -> Tensor:
        wanted = x.dtype if dtype is None else dtype
        return _fill(x.shape, const(value, wanted), wanted)

    def reference(x: NPArray, dtype: DataType | None) -> NPArray:
        return np.full(x.shape, value, x.dtype if dtype is None else numpy_of(dtype))

    return define_op(
        name,
        tensor("x"),
        kind_dtype("dtype", None),
        infer=_infer_like,
        doc=f"Fill a tensor of the same shape, and by default the same dtype, with "
        f"{name.removesuffix('_like')}.",
        family="create",
        lower=lower,
        reference=reference,
        samples=(
            Sample((_X,)),
            Sample((TensorSample((), "int8"), "bool")),
            Sample((TensorSample((0, 2), "float16"),)),
        ),
        mistakes=(_OTHER_DTYPE, Mistake((1,), {}, "OPS0004")),
    )


ones = _define_filled("ones", 1)
zeros = _define_filled("zeros", 0)
ones_like = _define_filled_like("ones_like", 1)
zeros_like = _define_filled_like("zeros_like", 0)


# -- matrices --------------------------------------------------------------------------------
def _integer(c: OpContext, index: int) -> PrimExpr | None:
    """Return the value of an argument that is an integer, None if it is unknown.

    Errors: OPS0004, OPS0007.
    """
    info = c.prim(index)
    if info is None:
        return None
    if not info.dtype.is_integer:
        c.refuse(
            "OPS0007",
            f"argument {index + 1} is a scalar of {info.dtype}, not an integer",
            help="give an integer",
            arg=index,
        )
    return info.value


def _infer_eye(c: OpContext) -> StructInfo:
    extents = [_integer(c, i) for i in range(3)][:2]
    dtype = _element(c, c["dtype"])
    known = [e for e in extents if e is not None]
    for i, extent in enumerate(extents):
        if isinstance(extent, IntImm):
            _not_negative(c, extent.value, i)
    return c.make(c.simplify(known) if len(known) == 2 else None, dtype, ndim=2)


def _not_negative(c: OpContext, extent: int, index: int) -> None:
    if extent < 0:
        c.refuse(
            "OPS0011",
            f"argument {index + 1} is the extent {extent}",
            help="give an extent of 0 or more",
            arg=index,
        )


def _adapt_eye(given: dict[str, Any]) -> dict[str, Any]:
    """Make a square where no number of columns is given."""
    if given.get("m") is None and "n" in given:
        return {**given, "m": given["n"]}
    return given


def _lower_eye(rows: PrimExpr, columns: PrimExpr, k: PrimExpr, dtype: DataType) -> Tensor:
    return topi.eye(as_dim(rows), as_dim(columns), as_dim(k), dtype)


def _eye(rows: Any, columns: Any, k: Any, dtype: DataType) -> NPArray:
    i, j = np.arange(int(rows))[:, None], np.arange(int(columns))
    return (j - i == int(k)).astype(numpy_of(dtype))


eye = define_op(
    "eye",
    prim("n"),
    prim("m", None),
    prim("k", 0),
    kind_dtype("dtype", _FLOAT32),
    infer=_infer_eye,
    doc="Build a matrix with ones on a diagonal, ``k`` above the main one, and zeros elsewhere."
    "\n\nThere are ``n`` rows, and ``m`` columns, ``n`` where that is left out.",
    family="create",
    lower=_lower_eye,
    reference=_eye,
    samples=(
        Sample((3,)),
        Sample((2, 4, 1, "int8")),
        Sample((4, 2, -1, "bool")),
        Sample((0, 3)),
        Sample((2, 3, 9, "float16")),
    ),
    mistakes=(
        Mistake((1.5,), {}, "OPS0007"),
        Mistake((2, -1), {}, "OPS0011"),
        Mistake((_X,), {}, "OPS0004"),
        Mistake((2, 2, 0, "handle"), {}, "OPS0010"),
    ),
    adapt=_adapt_eye,
)


def _infer_eye_like(c: OpContext) -> StructInfo:
    need_rank(c, 0, 2)
    _integer(c, 1)
    return _infer_like(c)


def _lower_eye_like(x: Tensor, k: PrimExpr, dtype: DataType | None) -> Tensor:
    return topi.eye(x.shape[0], x.shape[1], as_dim(k), x.dtype if dtype is None else dtype)


def _eye_like(x: NPArray, k: Any, dtype: DataType | None) -> NPArray:
    made = _eye(x.shape[0], x.shape[1], k, _INT64)
    return made.astype(x.dtype if dtype is None else numpy_of(dtype))


eye_like = define_op(
    "eye_like",
    tensor("x"),
    prim("k", 0),
    kind_dtype("dtype", None),
    infer=_infer_eye_like,
    doc="Build a matrix of another's shape with ones on a diagonal, and zeros elsewhere."
    "\n\nThe diagonal is ``k`` above the main one; the dtype is that of ``x`` unless one is"
    " given.",
    family="create",
    lower=_lower_eye_like,
    reference=_eye_like,
    samples=(
        Sample((_X,)),
        Sample((TensorSample((4, 2), "int8"), -1, "float64")),
        Sample((TensorSample((0, 2), "bool"), 1)),
    ),
    mistakes=(
        Mistake((TensorSample((2,)),), {}, "OPS0030"),
        Mistake((_X, 0.5), {}, "OPS0007"),
        _OTHER_DTYPE,
    ),
)


def _infer_triangle(c: OpContext) -> StructInfo:
    _integer(c, 1)
    return need_rank(c, 0, least=2)


def _define_triangle(
    name: str, doc: str, lower: Callable[..., Tensor], reference: Callable[..., Any]
) -> Callable[..., Any]:
    def lower_triangle(x: Tensor, k: PrimExpr) -> Tensor:
        return lower(x, as_dim(k))

    def compute(x: NPArray, k: Any) -> NPArray:
        return np.asarray(reference(x, int(k)), dtype=x.dtype)

    return define_op(
        name,
        tensor("x"),
        prim("k", 0),
        infer=_infer_triangle,
        doc=f"{doc}\n\nThis applies to the matrices of the last two axes; the part ends at the "
        "diagonal ``k`` above the main one.",
        family="create",
        lower=lower_triangle,
        reference=compute,
        samples=(
            Sample((TensorSample((3, 4)),)),
            Sample((TensorSample((2, 3, 3), "int8"), 1)),
            Sample((TensorSample((2, 3), "bool"), -1)),
            Sample((TensorSample((0, 3), "float16"), 5)),
            Sample((TensorSample((2, 2), values=[[np.nan, np.inf], [-0.0, 1]]),)),
        ),
        mistakes=(
            Mistake((TensorSample((2,)),), {}, "OPS0030"),
            Mistake((_X, 0.5), {}, "OPS0007"),
            Mistake((_X, _X), {}, "OPS0004"),
        ),
    )


tril = _define_triangle("tril", "Keep the lower triangle, and set zeros above.", topi.tril, np.tril)
triu = _define_triangle("triu", "Keep the upper triangle, and set zeros below.", topi.triu, np.triu)


# -- rows --------------------------------------------------------------------------------------
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
    dtype = _INT64 if given is None else _element(c, given)
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
    return _at_least_none((span + (abs(size) - 1)) // abs(size))


def _count(start: float, end: float, step: float) -> int:
    if all(isinstance(v, int) for v in (start, end, step)):
        return max(0, int(-((start - end) // step)))
    return max(0, math.ceil((end - start) / step))


def _at_least_none(count: PrimExpr) -> PrimExpr:
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
    size = _integer(c, 0)
    dtype: DataType = c["dtype"]
    if not dtype.is_float:
        c.refuse("OPS0010", f"a window of {dtype} loses all", help="give a float dtype")
    if isinstance(size, IntImm):
        _not_negative(c, size.value, 0)
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
