"""Computed tensors, and their elements in expressions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Final, NoReturn, cast

from typing_extensions import override

from loomir.ir.node import Node, attr, meta, node, uses
from loomir.support.caller_span import located, user_span
from loomir.support.diagnostics import CompileError, Diagnostic, with_count
from loomir.support.dtype import DataType
from loomir.support.span import Span
from loomir.tir.expr import ExprLike, IntImm, PrimExpr, convert
from loomir.tir.numpy_operands import build_by_ufunc
from loomir.tir.rules import refuse

__all__ = ["Operation", "Tensor", "TensorLoad"]


@dataclass(eq=False, kw_only=True, repr=False)
class Operation:
    """The root of operations; ``outputs`` are the tensors that one gives."""

    name: str
    attrs: Mapping[str, Any] = field(default_factory=dict[str, Any])
    span: Span | None = None
    outputs: tuple[Tensor, ...] = field(default=())

    def inputs(self) -> tuple[Tensor, ...]:
        """List the tensors that it reads, in order of first use."""
        return ()

    def output(self, index: int) -> Tensor:
        """Return one of the outputs."""
        return self.outputs[index]

    @override
    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"


@node
class Tensor(Node):
    """A result of an operation: ``A[i, j]`` or ``A(i, j)`` is an element of it."""

    in_words: ClassVar[str] = "a tensor"
    lowered_by: ClassVar[str] = "te.create_prim_func"
    is_definition: ClassVar[bool] = True

    name: str = meta()
    dtype: DataType = attr()
    shape: tuple[PrimExpr, ...]
    op: Operation = meta()
    value_index: int = attr(default=0)
    span: Span | None = meta(default=None, kw_only=True)

    def __array_ufunc__(self, ufunc: Any, method: str, *operands: Any, **options: Any) -> Any:
        """Refuse functions of NumPy. Errors: TIR0115."""
        with located():
            return build_by_ufunc(ufunc, method, operands, lambda name: f"topi.{name}(...)")

    def __iter__(self) -> NoReturn:
        """Refuse: it would read elements at 0, 1, 2 and so on, without an end. Errors: TIR0115."""
        _refuse_use(self, "has no elements to go through", f"{_element(self)} is one, in a formula")

    def __len__(self) -> int:
        """Refuse a length. Errors: TIR0115."""
        return _refuse_use(self, "has no len()", f"write {self.name}.shape[0]")

    def __float__(self) -> NoReturn:
        """Refuse a number. Errors: TIR0115."""
        _refuse_use(self, "is no number", f"{_element(self)} is one, in a formula")

    if not TYPE_CHECKING:  # checkers know the names that there are

        def __getattr__(self, name: str) -> NoReturn:
            if name.startswith("_") or name in type(self).__slots__:  # one that is not set yet
                raise AttributeError(f"a tensor has no attribute {name!r}")
            if name == "axis":
                help_ = f"write {self.name}.op.axis"
            elif name in _OF_ARRAYS:
                help_ = f"write topi.{_OF_ARRAYS[name]}({self.name}, ...), of loomir.te"
            else:
                help_ = "it has name, shape, dtype, ndim and op"
            message = f"the tensor {self.name!r} has no attribute {name!r}"
            raise TensorAttributeError(Diagnostic("TIR0115", message, user_span(), help=help_))

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.shape)

    def __add__(self, other: object) -> NoReturn:
        """Refuse arithmetic on whole tensors. Errors: TIR0115."""
        _refuse_operator(self, "+", "add")

    def __sub__(self, other: object) -> NoReturn:
        """Refuse arithmetic on whole tensors. Errors: TIR0115."""
        _refuse_operator(self, "-", "subtract")

    def __mul__(self, other: object) -> NoReturn:
        """Refuse arithmetic on whole tensors. Errors: TIR0115."""
        _refuse_operator(self, "*", "multiply")

    def __truediv__(self, other: object) -> NoReturn:
        """Refuse arithmetic on whole tensors. Errors: TIR0115."""
        _refuse_operator(self, "/", "divide")

    def __matmul__(self, other: object) -> NoReturn:
        """Refuse arithmetic on whole tensors. Errors: TIR0115."""
        _refuse_operator(self, "@", "matmul")

    def __getitem__(self, indices: ExprLike | tuple[ExprLike, ...]) -> TensorLoad:
        items = indices if isinstance(indices, tuple) else (indices,)
        if any(isinstance(i, slice) for i in cast("tuple[object, ...]", items)):
            refuse(
                "TIR0115",
                f"the tensor {self.name!r} is read by element, and has no slices",
                help="make a tensor of the part: te.compute((n,), lambda i: "
                f"{self.name}[i + start]), or topi.strided_slice",
                span=user_span(),
            )
        return TensorLoad(self, tuple(convert(i) for i in items), span=user_span())

    def __call__(self, *indices: ExprLike) -> TensorLoad:
        """Return an element, as ``A[indices]`` does."""
        return TensorLoad(self, tuple(convert(i) for i in indices), span=user_span())


class TensorTypeError(CompileError, TypeError):
    """A whole tensor is used where only its elements have a meaning."""


class TensorAttributeError(CompileError, AttributeError):
    """A tensor has no such attribute."""


_OF_ARRAYS: Final = {
    **{name: name for name in ("argmax", "argmin", "matmul", "max", "mean", "min")},
    **{name: name for name in ("prod", "reshape", "squeeze", "sum", "take", "transpose")},
    "T": "transpose",
    "astype": "cast",
    "dot": "matmul",
    "permute": "transpose",
    "view": "reshape",
}
"""Attributes of arrays elsewhere, and the function of ``topi`` that has their value."""


def _element(tensor: Tensor) -> str:
    return f"{tensor.name}[{', '.join('ijklmn'[: tensor.ndim])}]"


def _refuse_use(tensor: Tensor, why: str, help_: str) -> NoReturn:
    message = f"the tensor {tensor.name!r} {why}"
    raise TensorTypeError(Diagnostic("TIR0115", message, user_span(), help=help_))


def _refuse_operator(tensor: Tensor, symbol: str, name: str) -> NoReturn:
    refuse(
        "TIR0115",
        f"`{symbol}` has no meaning for the tensor {tensor.name!r} as a whole",
        help=f"write topi.{name}(...), or a formula of elements such as {_element(tensor)}",
        span=user_span(),
    )


@node
class TensorLoad(PrimExpr):
    """An element of a tensor; a constant index must lie within the axis.

    Errors: TE0001 for another number of indices than axes, TE0002 for an index that is not an
    integer or lies outside.
    """

    lowered_by: ClassVar[str] = "te.create_prim_func"

    tensor: Tensor = uses()
    indices: tuple[PrimExpr, ...]
    span: Span | None = meta(default=None, kw_only=True)

    def __post_init__(self) -> None:
        tensor = self.tensor
        if len(self.indices) != tensor.ndim:
            refuse(
                "TE0001",
                f"tensor {tensor.name!r} has {with_count(tensor.ndim, 'axis', 'axes')} but is "
                f"accessed with {with_count(len(self.indices), 'index', 'indices')}",
                help=f"give {with_count(tensor.ndim, 'index', 'indices')}",
                span=self.span,
            )
        for axis, (index, extent) in enumerate(zip(self.indices, tensor.shape, strict=True)):
            if not index.dtype.is_integer or index.dtype.lanes != 1:
                refuse(
                    "TE0002",
                    f"index {axis} of tensor {tensor.name!r} is {index.dtype}",
                    help="index with integers; .astype converts",
                    span=self.span,
                )
            if (
                isinstance(index, IntImm)
                and isinstance(extent, IntImm)
                and not 0 <= index.value < extent.value
            ):
                refuse(
                    "TE0002",
                    f"index {axis} of tensor {tensor.name!r} is {index.value}, outside of "
                    f"its extent {extent.value}",
                    help="indices count from 0, and negative ones do not count from the end",
                    span=self.span,
                )
        self.dtype = tensor.dtype
