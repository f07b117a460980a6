"""Convert what programs write to Relax values: constants, tuples, shapes, scalars, strings."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any, Final, cast

import numpy as np

from loomir.ir.module import GlobalVar
from loomir.ir.node import Node
from loomir.ir.op import Op
from loomir.relax.constants import InvalidConstant, make_beside_tensor, make_constant
from loomir.relax.expr import (
    Call,
    Constant,
    DataTypeImm,
    ExternFunc,
    PrimValue,
    StringImm,
    Tuple,
    TupleGetItem,
    Var,
)
from loomir.relax.node import Expr, RelaxExpr, StructInfo
from loomir.relax.operator.definition import op_def
from loomir.relax.operator.params import REQUIRED, Kind
from loomir.relax.shape import ShapeExpr
from loomir.relax.struct_info import (
    FuncStructInfo,
    ObjectStructInfo,
    PrimStructInfo,
    ShapeStructInfo,
    TensorStructInfo,
    TupleStructInfo,
)
from loomir.script.builder.arguments import (
    add_describer,
    as_dtype,
    as_expr,
    as_int,
    as_text,
    describe,
)
from loomir.script.builder.dtypes import DTypeFunction, DTypeLike
from loomir.script.builder.frame import IRBuilder
from loomir.script.builder.mistakes import wrong_argument
from loomir.script.builder.relax.info import Extent, as_extent, as_extents, as_vdevice
from loomir.support.array import Array
from loomir.support.dtype import VOID, DataType
from loomir.tir.expr import PrimExpr

__all__ = [
    "Operator",
    "as_value",
    "as_values",
    "const",
    "dtype",
    "extern_func",
    "is_array",
    "is_value",
    "number_like",
    "prim_value",
    "shape",
    "string",
    "tuple_get_item",
    "tuple_of",
]


_KINDS: Final[tuple[tuple[type[StructInfo], str], ...]] = (
    (TensorStructInfo, "the tensor"),
    (TupleStructInfo, "the tuple"),
    (ShapeStructInfo, "the shape"),
    (PrimStructInfo, "the scalar"),
    (FuncStructInfo, "the function"),
    (ObjectStructInfo, "the object"),
)
_WORDS: Final[tuple[tuple[type[Node], str], ...]] = (
    (Call, "the result of a call"),
    (Constant, "a constant"),
    (Tuple, "a tuple"),
    (ShapeExpr, "a shape"),
    (PrimValue, "a scalar"),
    (StructInfo, "a description of values"),
)


def _describe(value: object) -> str | None:
    if isinstance(value, Operator):
        return f"the operator {value!r}"
    if isinstance(value, Var):
        info = value.struct_info_annotation
        words = (word for cls, word in _KINDS if isinstance(info, cls))
        return f"{next(words, 'the variable')} {value.name_hint!r}"
    if isinstance(value, GlobalVar):
        return f"the function {value.name_hint!r}"
    return next((word for cls, word in _WORDS if isinstance(value, cls)), None)


add_describer(_describe)


def is_array(value: object) -> bool:
    """Whether a value is an array of NumPy, and nothing derived from one."""
    return type(value) is np.ndarray or isinstance(value, (Array, np.generic))


def is_value(value: object) -> bool:
    """Whether a value is one that Relax computes with."""
    return isinstance(value, (Expr, GlobalVar))


def as_value(value: object) -> RelaxExpr:
    """Make an expression of a value; Python's tuples, numbers and strings become the program's.

    Errors: SCR0025 for what is not a value.
    """
    if isinstance(value, (Expr, GlobalVar)):
        return value
    if isinstance(value, (tuple, list)):
        return Tuple(tuple(map(as_value, cast("Sequence[object]", value))))
    if isinstance(value, (bool, int, float, PrimExpr)):
        return PrimValue(cast("Any", value))
    if isinstance(value, str):
        return StringImm(value)
    if isinstance(value, (DataType, DTypeFunction)):
        return DataTypeImm(as_dtype(value))
    if is_array(value):
        return Constant(cast("Any", value))
    raise wrong_argument(
        value,
        f"{describe(value)} is not a value of Relax",
        code="SCR0025",
        help="name each value, or return a tuple of them: (a, b)"
        if isinstance(value, dict)
        else "use a variable, a call, or R.const(…) for numbers",
    )


def as_values(values: object) -> tuple[RelaxExpr, ...]:
    """Make expressions of several values; a single one stands for a list of one."""
    items: Sequence[object] = (
        cast("Sequence[object]", values) if isinstance(values, (tuple, list)) else (values,)
    )
    return tuple(map(as_value, items))


# -- constants -----------------------------------------------------------------------------------
def const(value: Any, dtype: DTypeLike | None = None) -> Constant:
    """Make a tensor of numbers: a number, lists of them, or an array.

    Python's integers become int32, its floats float32, unless ``dtype`` says otherwise; an array
    keeps its own.

    Errors: SCR0005 for what holds no numbers, or numbers that the dtype lacks.
    """
    wanted = None if dtype is None else as_dtype(dtype)
    if isinstance(value, PrimExpr):
        value = getattr(value, "value", value)
    try:
        return make_constant(value, wanted)
    except InvalidConstant as error:
        raise wrong_argument(value, error.message, help=error.help) from error


def number_like(value: float, tensor: TensorStructInfo | None) -> Constant:
    """Make a constant of a number that stands beside a tensor: of the tensor's dtype if known.

    Errors: SCR0009 for a number that the dtype lacks.
    """
    try:
        return make_beside_tensor(value, tensor)
    except InvalidConstant as error:
        raise wrong_argument(value, error.message, code="SCR0009", help=error.help) from error


# -- others --------------------------------------------------------------------------------------
def tuple_get_item(tuple_value: object, index: int) -> TupleGetItem:
    """Take a field of a tuple."""
    return TupleGetItem(as_value(tuple_value), as_int(index, "the index of a field"))


def tuple_of(*fields: object) -> Tuple:
    """Make a tuple of values."""
    return Tuple(tuple(map(as_value, fields)))


def shape(values: Sequence[Extent]) -> ShapeExpr:
    """Make a shape of extents."""
    return ShapeExpr(cast("Any", tuple(as_extents(values))))


def prim_value(value: Extent | float) -> PrimValue:
    """Make a scalar: a number, or an expression of shape variables."""
    if isinstance(value, (bool, int, float)):
        return PrimValue(cast("Any", value))
    return PrimValue(as_expr(as_extent(value)))


def string(value: str) -> StringImm:
    """Make a string."""
    return StringImm(as_text(value, "the string"))


def dtype(value: DTypeLike) -> DataTypeImm:
    """Make a dtype as a value; the empty text is void."""
    return DataTypeImm(VOID if value == "" else as_dtype(value))


def extern_func(name: str, struct_info: object = None, *, ty: object = None) -> ExternFunc:
    """Name a packed function by what it is registered under.

    In a program ``struct_info`` says what the function takes and gives, and calls give its result.
    """
    return ExternFunc(as_text(name, "the name of the function"))


# -- operators -----------------------------------------------------------------------------------
class Operator:
    """An operator as a function: calling it makes a call of the program."""

    checks_arguments: Final = True
    """Calls name arguments that are missing, unknown or too many by OPS0001."""

    def __init__(self, op: Op, doc: str) -> None:
        self.op = op
        self.__doc__ = doc

    def __call__(self, *args: object, **keywords: object) -> Call:
        """Make a call. Errors: OPS0001 to OPS0003."""
        found = op_def(self.op)
        kinds = {param.name: param.kind for param in found.params}
        order = [*kinds.values(), *[Kind.EXPR] * len(args)]
        absent = {param.name: param.default for param in found.params}
        names = [*kinds, *[""] * len(args)]
        given = [
            _convert_argument(v, kind, absent.get(n)) for v, kind, n in zip(args, order, names)
        ]
        named = {
            n: _convert_argument(v, kinds.get(n, Kind.EXPR), absent.get(n))
            for n, v in keywords.items()
        }
        return found.call(*given, **named)

    @property
    def __signature__(self) -> inspect.Signature:
        return op_def(self.op).signature

    def __repr__(self) -> str:
        return "R." + self.op.name.removeprefix("relax.")


_MAYBE_NULL: Final = frozenset((Kind.SHAPE, Kind.DTYPE, Kind.INTEGER))


def _convert_argument(value: object, kind: Kind, default: object) -> object:
    """Return an argument as operators take it; ``R.null_value()`` or ``R.tuple()`` omits it."""
    if kind in _MAYBE_NULL:
        builder = IRBuilder.active()
        is_null = builder is not None and isinstance(value, Var) and id(value) in builder.nulls
        is_empty = isinstance(value, Tuple) and not value.fields and default is not REQUIRED
        if is_null or is_empty:
            return default
    return _adapt_argument(value, kind)


def _adapt_argument(value: object, kind: Kind) -> object:
    """Return an argument as operators take it: dtypes as such, known scalars in shapes."""
    if isinstance(value, DTypeFunction):
        return value.dtype
    if kind is Kind.DEVICE and isinstance(value, str):
        return as_vdevice(value)
    if kind is Kind.DTYPE and isinstance(value, DataTypeImm) and value.value.is_void:
        return None
    if kind is Kind.DTYPE and isinstance(value, str) and not value:
        return None
    is_shape = kind is Kind.SHAPE and type(value) in (tuple, list)
    return shape(cast("Any", value)) if is_shape else value
