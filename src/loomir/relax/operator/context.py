"""The context of an operator's structural-information rule: its queries, and its refusals."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, NoReturn

from loomir.arith.analyzer import Analyzer
from loomir.ir.module import BaseFunc, GlobalVar
from loomir.relax.expr import Call, DataTypeImm, StringImm
from loomir.relax.info.describe import ErrorSpans, error_spans_of
from loomir.relax.node import RelaxExpr, StructInfo
from loomir.relax.shape import Dim, ShapeExpr, as_dim
from loomir.relax.struct_info import (
    ObjectStructInfo,
    PrimStructInfo,
    ShapeStructInfo,
    TensorStructInfo,
    TupleStructInfo,
)
from loomir.support.diagnostics import CompileError, Diagnostic
from loomir.support.dtype import DataType
from loomir.tir.expr import IntImm, PrimExpr

__all__ = ["OpContext", "RuntimeCondition"]


class RuntimeCondition(NamedTuple):
    """A condition ``low <= high`` that is unknown until the program runs; no kernel checks it.

    ``message`` says what is wrong where ``low`` is above ``high``; ``{0}`` and ``{1}`` stand for
    their values.
    """

    low: PrimExpr
    high: PrimExpr
    message: str
    help: str


class OpContext:
    """A call in normal form, with what is known of its arguments.

    ``args`` is the structural information of each argument. Of a value that may be anything
    (``ObjectStructInfo``) a rule learns nothing and demands nothing: it is checked at run time.
    """

    __slots__ = (
        "analyzer",
        "args",
        "assume",
        "call",
        "definition",
        "lookup",
        "memory",
        "required",
        "running",
        "shown",
        "warn",
    )

    def __init__(
        self,
        call: Call,
        args: Sequence[StructInfo],
        analyzer: Analyzer,
        *,
        lookup: Callable[[RelaxExpr], StructInfo],
        warn: Callable[[Diagnostic], None],
        definition: Callable[[GlobalVar], BaseFunc | None] | None = None,
        memory: dict[Any, Any] | None = None,
        assume: bool = False,
        running: bool = False,
    ) -> None:
        self.call = call
        self.args = tuple(args)
        self.analyzer = analyzer
        self.lookup = lookup
        """Returns the structural information of a leaf expression or a function of the module."""
        self.warn = warn
        self.definition = definition or _find_none
        """Returns a function of the module, None if it is not defined (yet)."""
        self.memory: dict[Any, Any] = {} if memory is None else memory
        """A cache of the rules, for all calls of one program."""
        self.assume = assume
        """Whether what is open, but certain if the call is right, is taken to be so: a kernel
        checks it."""
        self.required: list[RuntimeCondition] = []
        """Conditions that rules could not decide, for the caller to check at run time."""
        self.running = running
        """Whether this is at run time, when everything is known of the arguments."""
        self.shown = "R." + str(getattr(call.op, "name", "")).removeprefix("relax.")

    @property
    def attrs(self) -> Mapping[str, Any]:
        """The options of the call."""
        return self.call.attrs

    def __getitem__(self, name: str) -> Any:
        """Return an option."""
        return self.call.attrs[name]

    # -- refusing --------------------------------------------------------------------------------
    def refuse(
        self,
        code: str,
        message: str,
        *,
        help: str,  # named after the diagnostic's field
        arg: int | None = None,
        notes: tuple[str, ...] = (),
        place: ErrorSpans | None = None,
    ) -> NoReturn:
        """Refuse the call: at a place, at the argument that is wrong, or as a whole."""
        blamed = self.call.args[arg] if arg is not None and arg < len(self.call.args) else None
        place = place or error_spans_of(blamed, self.call)
        text = f"{self.shown}: {message}"
        raise CompileError(Diagnostic(code, text, place.span, "", place.secondary, notes, help))

    def require_order(
        self, code: str, low: Dim, high: Dim, message: str, *, help: str, arg: int | None = None
    ) -> None:
        """Refuse the call if ``low`` is certainly above ``high``; if unknown, note the condition.

        ``message`` is described at ``RuntimeCondition``.
        """
        least, most = self.simplify((low, high))
        bound = self.analyzer.const_int_bound(self.analyzer.simplify(most - least))
        if bound.max_value < 0:
            shown = message.format(*map(_format_dim, (least, most)))
            self.refuse(code, shown, help=help, arg=arg)
        if bound.min_value < 0:
            self.required.append(RuntimeCondition(least, most, f"{self.shown}: {message}", help))

    # -- arguments -------------------------------------------------------------------------------
    def tensor(self, index: int) -> TensorStructInfo:
        """Return what is known of an argument that must be a tensor; of an object, nothing is.

        Errors: OPS0004 for another kind of value.
        """
        info = self.args[index]
        if isinstance(info, TensorStructInfo):
            return info
        if self._may_be_any(index):
            return TensorStructInfo()
        return self.refuse(
            "OPS0004",
            f"argument {index + 1} is {kind_of_info(info)}, not a tensor",
            help="give a tensor; R.const makes one of numbers",
            arg=index,
        )

    def tensors(self, index: int) -> tuple[TensorStructInfo, ...] | None:
        """Return what is known of a tuple of tensors, None if their number is unknown.

        Errors: OPS0004 for another kind of value.
        """
        info = self.args[index]
        if self._may_be_any(index):
            return None
        if isinstance(info, TupleStructInfo):
            found = [
                TensorStructInfo() if isinstance(f, ObjectStructInfo) and not self.running else f
                for f in info.fields
            ]
            if all(isinstance(f, TensorStructInfo) for f in found):
                return tuple(f for f in found if isinstance(f, TensorStructInfo))
        return self.refuse(
            "OPS0004",
            f"argument {index + 1} is {kind_of_info(info)}, not a tuple of tensors",
            help="give a tuple, as in (x, y)",
            arg=index,
        )

    def shape(self, index: int) -> ShapeStructInfo:
        """Return what is known of an argument that must be a shape.

        Errors: OPS0004 for another kind of value.
        """
        info = self.args[index]
        if isinstance(info, ShapeStructInfo):
            return info
        if self._may_be_any(index):
            return ShapeStructInfo()
        return self.refuse(
            "OPS0004",
            f"argument {index + 1} is {kind_of_info(info)}, not a shape",
            help="give a shape, as in R.shape([2, n])",
            arg=index,
        )

    def prim(self, index: int) -> PrimStructInfo | None:
        """Return what is known of an argument that must be a scalar, None if nothing is.

        Errors: OPS0004 for another kind of value.
        """
        info = self.args[index]
        if isinstance(info, PrimStructInfo):
            return info
        if self._may_be_any(index):
            return None
        return self.refuse(
            "OPS0004",
            f"argument {index + 1} is {kind_of_info(info)}, not a scalar",
            help="give a number, or R.prim_value(…)",
            arg=index,
        )

    def _may_be_any(self, index: int) -> bool:
        """Tell whether nothing is known of an argument; at run time, everything is."""
        is_text = isinstance(self.call.args[index], (DataTypeImm, StringImm))
        is_object = isinstance(self.args[index], ObjectStructInfo)
        return is_object and not self.running and not is_text

    def has(self, index: int) -> bool:
        """Whether the call has an argument that may be left out."""
        return index < len(self.call.args)

    # -- proofs ----------------------------------------------------------------------------------
    def equal(self, a: Dim, b: Dim) -> bool | None:
        """Tell whether two extents are equal; None if that is unknown."""
        x, y = as_dim(a), as_dim(b)
        if self.analyzer.can_prove_equal(x, y):
            return True
        return False if self.is_never_equal(x, y) else None

    def is_never_equal(self, a: PrimExpr, b: PrimExpr) -> bool:
        """Tell whether two extents are certain to differ."""
        bound = self.analyzer.const_int_bound(self.analyzer.simplify(a - b))
        return bound.min_value > 0 or bound.max_value < 0

    def differ_by_broadcasting(self, a: PrimExpr, b: PrimExpr) -> bool:
        """Tell whether two extents are certain to differ, and neither to be 1."""
        one = as_dim(1)
        return (
            self.is_never_equal(a, b)
            and self.is_never_equal(a, one)
            and self.is_never_equal(b, one)
        )

    def simplify(self, dims: Sequence[Dim]) -> tuple[PrimExpr, ...]:
        """Return extents in their simplest form."""
        return tuple([self.analyzer.simplify(as_dim(d)) for d in dims])

    def axis(self, axis: int, rank: int, *, arg: int = 0, extra: int = 0) -> int:
        """Return an axis counted from 0. It may be one of ``extra`` new ones.

        Errors: OPS0005 for one that the tensor lacks.
        """
        count = rank + extra
        if not -count <= axis < count:
            self.refuse(
                "OPS0005",
                f"axis {axis} is not one of a tensor of rank {rank}",
                help=f"give an axis from {-count} to {count - 1}" if count else "it has no axes",
                arg=arg,
            )
        return axis % count if count else 0

    # -- results ---------------------------------------------------------------------------------
    @staticmethod
    def make(
        dims: Sequence[Dim] | None,
        dtype: DataType | str,
        like: TensorStructInfo | None = None,
        *,
        ndim: int = -1,
    ) -> TensorStructInfo:
        """Describe a tensor with known extents, or with a rank only; on the device of ``like``."""
        device = None if like is None else like.vdevice
        if dims is None:
            return TensorStructInfo(None, DataType(str(dtype)), device, ndim)
        return TensorStructInfo(ShapeExpr(tuple(map(as_dim, dims))), DataType(str(dtype)), device)


def _format_dim(dim: PrimExpr) -> str:
    return str(dim.value if isinstance(dim, IntImm) else dim)


def _find_none(name: GlobalVar) -> BaseFunc | None:
    return None


def kind_of_info(info: StructInfo) -> str:
    """Name a kind of value in a message."""
    for kind, name in _NAMES:
        if isinstance(info, kind):
            return name
    return "a function"


_NAMES: tuple[tuple[type[StructInfo], str], ...] = (
    (TensorStructInfo, "a tensor"),
    (ShapeStructInfo, "a shape"),
    (PrimStructInfo, "a scalar"),
    (TupleStructInfo, "a tuple"),
    (ObjectStructInfo, "an object"),
)
