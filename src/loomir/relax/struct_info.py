"""Structural information: what is known of a value before a program runs.

- Object describes every value; each other class describes one kind.
- A rank of -1 and the dtype ``void`` are unknown; so is a shape, a value or a device that is None.
- Shapes are expressions of shape variables (TIR variables of int64). A variable is bound where it
  first occurs as an extent by itself, in a parameter's annotation or in a ``MatchCast``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final, cast

from loomir.ir.module import VDevice
from loomir.ir.node import attr, child, meta, node, reset
from loomir.relax.node import Expr, StructInfo
from loomir.relax.shape import ShapeExpr, as_dims
from loomir.support.caller_span import user_span
from loomir.support.dtype import VOID, DataType, to_dtype
from loomir.support.runtime_types import show_value
from loomir.support.span import Span
from loomir.tir.expr import PrimExpr
from loomir.tir.rules import refuse

__all__ = [
    "DEFAULT_DERIVE",
    "EMPTY_DERIVE",
    "OBJECT",
    "UNIT",
    "FuncStructInfo",
    "ObjectStructInfo",
    "PrimStructInfo",
    "ShapeStructInfo",
    "TensorStructInfo",
    "TupleStructInfo",
]


@node
class ObjectStructInfo(StructInfo):
    """Any value."""

    span: Span | None = meta(default=None, kw_only=True)


@node
class PrimStructInfo(StructInfo):
    """An immutable scalar of a dtype, and an expression of its value, if that is known.

    Errors: RLX0119 for a dtype that is no scalar number (rule 19), RLX0122 for a value of another
    dtype (rule 22).
    """

    dtype: DataType = attr(converter=to_dtype)
    value: PrimExpr | None = child(default=None)
    span: Span | None = meta(default=None, kw_only=True)

    def __post_init__(self) -> None:
        given = cast("DataType | str", self.dtype)
        dtype = DataType(given) if isinstance(given, str) else given
        reset(self, "dtype", dtype)
        if dtype.is_handle or dtype.is_void or dtype.lanes != 1:
            refuse(
                "RLX0119",
                f"a scalar cannot be {dtype} (rule 19)",
                help="use an integer, a float or bool, with one lane",
                span=self.span,
            )
        if self.value is not None and self.value.dtype is not dtype:
            refuse(
                "RLX0122",
                f"the value of a {dtype} scalar is {self.value.dtype} (rule 22)",
                help=f"cast it with T.cast(…, {str(dtype)!r}), or give its own dtype",
                span=getattr(self.value, "span", None) or self.span,
            )


def _to_values(values: Iterable[Any] | None) -> tuple[PrimExpr, ...] | None:
    return None if values is None else as_dims(values)


@node
class ShapeStructInfo(StructInfo):
    """A shape: its rank, and its extents if they are known.

    Errors: RLX0115 where rank and extents disagree (rule 15), RLX0002.
    """

    values: tuple[PrimExpr, ...] | None = child(default=None, converter=_to_values)
    ndim: int = attr(default=None)
    span: Span | None = meta(default=None, kw_only=True)

    def __post_init__(self) -> None:
        rank = cast("int | None", self.ndim)
        if self.values is not None:
            made = as_dims(self.values, self.span)
            reset(self, "values", made)
            if rank is not None and rank != len(made):
                refuse(
                    "RLX0115",
                    f"ndim is {rank}, but {len(made)} extents are given (rule 15)",
                    help="leave ndim out: it follows from the extents",
                    span=self.span,
                )
            reset(self, "ndim", len(made))
        else:
            reset(self, "ndim", _rank(rank, "RLX0115", self.span))


def _rank(rank: int | None, code: str, span: Span | None) -> int:
    if rank is None:
        return -1
    if rank < -1:
        refuse(code, f"a rank is not {rank}", help="-1 stands for an unknown rank", span=span)
    return int(rank)


def _to_shape(shape: Expr | Iterable[Any] | None) -> Expr | None:
    return shape if shape is None or isinstance(shape, Expr) else ShapeExpr(shape)


@node
class TensorStructInfo(StructInfo):
    """A tensor: its shape (a ``ShapeExpr``, or a variable that holds one), dtype, device, rank.

    The shape may be given as a sequence of extents.
    Errors: RLX0114 where rank and shape disagree, or the shape is another expression (rule 14),
    RLX0120 for a dtype with lanes (rule 20).
    """

    shape: Expr | None = child(default=None, converter=_to_shape)
    dtype: DataType = attr(default=VOID, converter=to_dtype)
    vdevice: VDevice | None = attr(default=None)
    ndim: int = attr(default=None)
    span: Span | None = meta(default=None, kw_only=True)

    if TYPE_CHECKING:

        def __init__(
            self,
            shape: Expr | Iterable[Any] | None = None,
            dtype: DataType | str | None = None,
            vdevice: VDevice | None = None,
            ndim: int | None = None,
            *,
            span: Span | None = None,
        ) -> None: ...

    def __post_init__(self) -> None:
        rank = cast("int | None", self.ndim)
        given = cast("DataType | str | None", self.dtype)
        shape = cast("Any", self.shape)
        if isinstance(shape, (str, int)):
            _refuse_shape(shape)
        dtype = to_dtype(given)
        reset(self, "dtype", dtype)
        if dtype.lanes != 1 or (dtype.is_handle and not dtype.is_void):
            refuse(
                "RLX0120",
                f"the elements of a tensor cannot be {dtype} (rule 20)",
                help="use a dtype of one lane; tensors have axes in place of vectors",
                span=self.span,
            )
        if shape is not None and not isinstance(shape, Expr):
            shape = ShapeExpr(tuple(cast("Iterable[Any]", shape)), span=self.span)
            reset(self, "shape", shape)
        known = _rank_of_shape(shape)
        if shape is not None and known is None:
            refuse(
                "RLX0114",
                "the shape of a tensor is neither a shape nor a variable that holds one (rule 14)",
                help="bind the expression to a variable first, or write the extents",
                span=self.span,
            )
        if rank is not None and known is not None and rank != known:
            refuse(
                "RLX0114",
                f"ndim is {rank}, but the shape has {known} extents (rule 14)"
                if known >= 0
                else f"ndim is {rank}, but the rank of the shape is unknown (rule 14)",
                help="leave ndim out: it follows from the shape",
                span=self.span,
            )
        reset(self, "ndim", _rank(rank, "RLX0114", self.span) if known is None else known)

    @property
    def dims(self) -> tuple[PrimExpr, ...] | None:
        """The extents, or None if they are unknown or those of a variable of unknown shape."""
        if isinstance(self.shape, ShapeExpr):
            return self.shape.values
        info = getattr(self.shape, "struct_info_annotation", None)
        return info.values if isinstance(info, ShapeStructInfo) else None


def _refuse_shape(shape: str | int) -> None:
    extents, dtype = (f"({shape},)", "float32") if isinstance(shape, int) else ("(4,)", shape)
    refuse(
        "RLX0002",
        f"a shape is a tuple of extents, not {show_value(shape)}",
        help=f'write relax.TensorStructInfo({extents}, "{dtype}")',
        span=user_span(),
    )


def _rank_of_shape(shape: Expr | None) -> int | None:
    """Return the rank of an expression that may be a tensor's shape, None for any other."""
    if isinstance(shape, ShapeExpr):
        return len(shape.values)
    if shape is not None and shape.is_definition:
        info = getattr(shape, "struct_info_annotation", None)
        return info.ndim if isinstance(info, ShapeStructInfo) else None
    return None


@node
class TupleStructInfo(StructInfo):
    """A tuple, field by field."""

    fields: tuple[StructInfo, ...] = child(default=())
    span: Span | None = meta(default=None, kw_only=True)

    def __post_init__(self) -> None:
        if type(self.fields) is not tuple:
            reset(self, "fields", tuple(cast("Sequence[StructInfo]", self.fields)))


DEFAULT_DERIVE: Final = "default_derive"
"""A packed function returns what the call's ``sinfo_args`` declare."""
EMPTY_DERIVE: Final = "empty_derive"
"""A packed function returns some object."""


@node
class FuncStructInfo(StructInfo):
    """A function: parameters, result and purity; or a packed one, whose calls are derived by name.

    ``derive_func`` names a way to derive the result of a call from nothing but the call; then there
    are no ``params``.
    Errors: RLX0117 where both or neither are given (rule 17).
    """

    params: tuple[StructInfo, ...] | None = child(default=None)
    ret: StructInfo = child(default_factory=ObjectStructInfo)
    purity: bool = attr(default=True)
    derive_func: str | Callable[..., Any] | None = attr(default=None)
    span: Span | None = meta(default=None, kw_only=True)

    defines_in = ("params",)

    def __post_init__(self) -> None:
        if self.params is not None and type(self.params) is not tuple:
            reset(self, "params", tuple(cast("Sequence[StructInfo]", self.params)))
        if (self.params is None) == (self.derive_func is None):
            both = self.params is not None
            refuse(
                "RLX0117",
                "the structural information of a function has "
                + ("both parameters and derive_func" if both else "no parameters, no derive_func")
                + " (rule 17)",
                help="give the parameters, or for a packed function derive_func",
                span=self.span,
            )


OBJECT: Final = ObjectStructInfo()
UNIT: Final = TupleStructInfo(())
"""The empty tuple: the result of a function that returns nothing."""
