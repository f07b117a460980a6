"""Check values against structural information, as ``MatchCast`` does, and calls on entry and exit.

- Extents, fields of shapes and scalars are compared in order, from left to right.
- A variable that is an extent by itself and has no value yet is bound, if the place may bind.
- On entry, all such variables are bound first, over all parameters; then everything is compared.
- A Python number becomes a scalar of the required dtype; nothing else is converted.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple, cast

from loomir.interp.relax.sizes import Sizes, variables_of
from loomir.interp.relax.values import (
    Environment,
    Value,
    dtype_number,
    is_function,
    is_packed,
    is_tensor,
    is_tuple,
    kind_number,
    literal,
    scalar_dtype,
    scalar_of,
)
from loomir.interp.values import Scalar, rounder
from loomir.ir.module import VDevice
from loomir.ir.visit import Step, trampoline
from loomir.relax import faults
from loomir.relax.expr import Var
from loomir.relax.faults import field_of
from loomir.relax.info.describe import format_extent, format_info
from loomir.relax.info.proof import Match
from loomir.relax.info.relations import is_subtype, substitute_shape_vars
from loomir.relax.node import StructInfo
from loomir.relax.shape import ShapeExpr
from loomir.relax.struct_info import (
    FuncStructInfo,
    ObjectStructInfo,
    PrimStructInfo,
    ShapeStructInfo,
    TensorStructInfo,
    TupleStructInfo,
)
from loomir.runtime.errors import RunOverflowError
from loomir.runtime.fault import Fault
from loomir.runtime.shape import Shape
from loomir.support.diagnostics import Diagnostic, RunError
from loomir.support.dtype import DataType, dtype_of_numpy
from loomir.support.span import Span
from loomir.tir.expr import IntImm, PrimExpr
from loomir.tir.expr import Var as SizeVar
from loomir.tir.signature import Parameter

__all__ = [
    "Matcher",
    "ValueLabel",
    "bind_sizes",
    "concrete",
    "is_cpu",
    "raise_all",
    "read_truth",
    "require_parameter",
]


class ValueLabel(NamedTuple):
    """The name of a value in messages, and where it is declared."""

    where: str
    span: Span | None = None


class Matcher:
    """Checks values against structural information, and collects all mistakes in ``errors``.

    ``bind``: extents that are single variables may be bound here; ``bound`` lists those that were.
    ``lenient``: an expression with an unbound variable is not checked, since the variable is
    unbound because of a mistake that is reported separately. Without ``compare``, variables are
    bound, but no expression is evaluated. ``claim`` names the function whose call claims the
    information.
    """

    def __init__(
        self,
        sizes: Sizes,
        frame: Environment,
        *,
        bind: bool = False,
        lenient: bool = False,
        compare: bool = True,
        claim: str | None = None,
    ) -> None:
        self._sizes = sizes
        self._frame = frame
        self._bind = bind
        self._lenient = lenient
        self._compare = compare
        self._claim = claim
        self.errors: list[RunError] = []
        self.bound: list[SizeVar] = []

    def match(self, value: Value, info: StructInfo, place: ValueLabel) -> Value:
        """Check a value, and return it, with Python numbers converted to scalars if required."""
        return trampoline(self._match(value, info, place))

    def _match(self, value: Value, info: StructInfo, place: ValueLabel) -> Step[Value]:
        if not isinstance(info, TupleStructInfo):
            return _RULES[type(info)](self, value, info, place)
        if not is_tuple(value):
            return self._note_other_kind(value, place, "a tuple")
        fields = value
        if len(fields) != len(info.fields):
            self._add(faults.wrong_length(place.span, place.where, len(info.fields)), len(fields))
            return fields
        made: list[Value] = []
        for index, (field, wanted) in enumerate(zip(fields, info.fields, strict=True)):
            inner = ValueLabel(field_of(place.where, index), place.span)
            made.append((yield self._match(field, wanted, inner)))
        same = all(a is b for a, b in zip(made, fields, strict=True))
        return fields if same else tuple(made)

    # -- kinds -------------------------------------------------------------------------------
    def object(self, value: Value, info: ObjectStructInfo, place: ValueLabel) -> Value:
        """Accept anything."""
        return value

    def tensor(self, value: Value, info: TensorStructInfo, place: ValueLabel) -> Value:
        """Compare a tensor: dtype, rank, device, then each extent."""
        if not is_tensor(value):
            return self._note_other_kind(value, place, "a tensor")
        dtype, shape = dtype_of_numpy(value.dtype), cast("tuple[int, ...]", value.shape)
        assert dtype is not None
        if not info.dtype.is_void and dtype is not info.dtype:
            self._add(faults.wrong_dtype(place.span, place.where, info.dtype), dtype_number(dtype))
        if info.vdevice is not None and not is_cpu(info.vdevice):
            self._add(faults.no_such_device(place.span, str(info.vdevice.target)))
        wanted: Sequence[PrimExpr | int] | None = None
        if isinstance(info.shape, ShapeExpr):
            wanted = info.shape.values
        elif isinstance(info.shape, Var):
            known = self._frame.values.get(info.shape)
            wanted = known if isinstance(known, Shape) else None
        rank = info.ndim if wanted is None else len(wanted)
        if rank not in (-1, len(shape)):
            self._add(faults.wrong_rank(place.span, place.where, rank), len(shape))
        elif wanted is not None:
            self._extents(wanted, shape, place, getattr(info.shape, "name_hint", ""))
        return value

    def shape(self, value: Value, info: ShapeStructInfo, place: ValueLabel) -> Value:
        """Compare a shape: rank, then each extent."""
        if not isinstance(value, Shape):
            return self._note_other_kind(value, place, "a shape")
        if info.ndim not in (-1, len(value)):
            fault = faults.wrong_rank(place.span, place.where, info.ndim, shape=True)
            self._add(fault, len(value))
        elif info.values is not None:
            self._extents(info.values, value, place)
        return value

    def scalar(self, value: Value, info: PrimStructInfo, place: ValueLabel) -> Value:
        """Compare a scalar: dtype, then its value."""
        given = scalar_dtype(value)
        if given is None:
            return self._note_other_kind(value, place, "a scalar")
        made = self._convert_scalar(value, given, info.dtype, place)
        if made is not None and info.value is not None:
            self._number(info.value, made, place)
        return value if made is None else made

    def function(self, value: Value, info: FuncStructInfo, place: ValueLabel) -> Value:
        """Compare a function: its kind, and the signature of a function of the program."""
        if info.params is None:
            return (
                value
                if is_packed(value)
                else self._note_other_kind(value, place, "a packed function")
            )
        if not is_function(value):
            return self._note_other_kind(value, place, "a function")
        wanted = concrete(info, self._frame)
        if self._compare and is_subtype(value.info, wanted) is Match.NO:
            fault = faults.wrong_function(
                place.span, place.where, format_info(wanted), format_info(value.info)
            )
            self._add(fault)
        return value

    # -- numbers -----------------------------------------------------------------------------
    def _extents(
        self,
        wanted: Sequence[PrimExpr | int],
        given: Sequence[int],
        place: ValueLabel,
        shape_name: str = "",
    ) -> None:
        for axis, (expr, extent) in enumerate(zip(wanted, given, strict=True)):
            where = f"{place.where}, axis {axis}"
            if isinstance(expr, int):
                if expr != extent:  # the message names the shape, like that of native code
                    fault = faults.wrong_extent(place.span, place.where, axis, shape_name)
                    self._add(fault, expr, extent)
                continue
            value = self._expect(expr, extent, where, place.span)
            if value is not None and value != extent:
                fault = faults.wrong_extent(
                    place.span,
                    place.where,
                    axis,
                    format_extent(expr),
                    literal=isinstance(expr, IntImm),
                    notes=self._origins(expr),
                )
                self._add(fault, int(value), extent)

    def _number(self, expr: PrimExpr, given: Any, place: ValueLabel) -> None:
        number: Scalar = (
            given.item() if expr.dtype.is_integer or expr.dtype.is_bool else float(given)
        )
        value = self._expect(expr, number, place.where, place.span)
        if value is None or value == number or (value != value and number != number):
            return
        if expr.dtype.is_float:
            self._add(faults.wrong_float(place.span, place.where, format_extent(expr)))
        else:
            lone = isinstance(expr, IntImm)
            fault = faults.wrong_number(place.span, place.where, format_extent(expr), literal=lone)
            self._add(fault, int(value), int(number))

    def _expect(
        self, expr: PrimExpr, found: Scalar, where: str, span: Span | None
    ) -> Scalar | None:
        """Return the required value of an expression; None if it was bound, or is unknown."""
        sizes = self._frame.sizes
        if isinstance(expr, SizeVar) and expr not in sizes and self._bind:
            sizes[expr] = found
            self._frame.origins[expr] = where
            self.bound.append(expr)
            return None
        if not self._compare:
            return None
        if self._lenient and not self._sizes.knows(expr, sizes):
            return None
        return self._sizes.value(expr, sizes, span)

    def _origins(self, expr: PrimExpr) -> tuple[str, ...]:
        origins = self._frame.origins
        return tuple(
            f"{v.name_hint} is {self._frame.sizes[v]}: {origins[v]}"
            for v in variables_of(expr)
            if v in origins
        )

    def _convert_scalar(
        self, value: Value, given: DataType, wanted: DataType, place: ValueLabel
    ) -> Value | None:
        """Return a scalar in the required dtype; None if it has another one."""
        if type(value) not in (bool, int, float):
            if given is wanted:
                return value
        elif wanted.is_float and not given.is_bool:
            return scalar_of(rounder(wanted)(_float(value)), wanted)
        elif given.is_bool and wanted.is_bool:
            return scalar_of(value, wanted)
        elif given.is_integer and wanted.is_integer:
            if wanted.min_value <= value <= wanted.max_value:
                return scalar_of(value, wanted)
            self.errors.append(_too_large(value, wanted, place))
            return None
        fault = faults.wrong_dtype(place.span, place.where, wanted, scalar=True)
        self._add(fault, dtype_number(given))
        return None

    # -- mistakes ----------------------------------------------------------------------------
    def _note_other_kind(self, value: Value, place: ValueLabel, wanted: str) -> Value:
        self._add(faults.wrong_kind(place.span, place.where, wanted), kind_number(value))
        return value

    def _add(self, fault: Fault, *numbers: int) -> None:
        if self._claim is not None:
            fault = faults.not_a_claim(fault, fault.span, self._claim)
        self.errors.append(fault.error(numbers))


def _float(value: float) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def _too_large(value: int, dtype: DataType, place: ValueLabel) -> RunError:
    return RunOverflowError(
        Diagnostic(
            "RUN0009",
            f"{place.where} is {value}, which does not fit {dtype}",
            place.span,
            help=f"pass a number from {dtype.min_value} to {dtype.max_value}",
        )
    )


_RULES: Final[dict[type[StructInfo], Callable[[Matcher, Value, Any, ValueLabel], Value]]] = {
    ObjectStructInfo: Matcher.object,
    TensorStructInfo: Matcher.tensor,
    ShapeStructInfo: Matcher.shape,
    PrimStructInfo: Matcher.scalar,
    FuncStructInfo: Matcher.function,
}


def raise_all(errors: Sequence[RunError]) -> None:
    """Raise one error with all mistakes, if there are any; its class is that of the first."""
    if errors:
        raise type(errors[0])(*(d for error in errors for d in error.diagnostics))


def bind_sizes(
    sizes: Sizes,
    frame: Environment,
    values: Sequence[Value],
    infos: Sequence[StructInfo],
    names: Sequence[str],
) -> None:
    """Bind each variable that is itself an extent of some parameter.

    Nothing is checked: values that do not fit are skipped.
    """
    first = Matcher(sizes, frame, bind=True, compare=False)
    for value, info, name in zip(values, infos, names, strict=True):
        first.match(value, info, ValueLabel(faults.argument(name)))


def require_parameter(value: Value, p: Parameter, span: Span | None) -> None:
    """Check the argument of a graph for a kernel's parameter. Errors: RUN0401, RUN0402.

    Python numbers are extents, which the kernel takes in any dtype that can represent them.
    """
    where = faults.argument(p.name)
    if p.buffer is not None:
        if not is_tensor(value):
            raise faults.wrong_kind(span, where, "a tensor").error((kind_number(value),))
    elif not p.dtype.is_handle and type(value) not in (bool, int, float):
        given = scalar_dtype(value)
        if given is None:
            raise faults.wrong_kind(span, where, "a scalar").error((kind_number(value),))
        if given is not p.dtype:
            fault = faults.wrong_dtype(span, where, p.dtype, scalar=True)
            raise fault.error((dtype_number(given),))


def read_truth(value: Value, span: Span | None) -> bool:
    """Return the truth value of a condition. Errors: RUN0408."""
    if is_tensor(value):
        dtype = dtype_of_numpy(value.dtype)
        assert dtype is not None
        if dtype.is_bool and value.ndim == 0:
            return bool(value)
        raise faults.bad_condition_tensor(span).error((dtype_number(dtype), value.ndim))
    dtype = scalar_dtype(value)
    if dtype is None:
        raise faults.bad_condition(span).error((kind_number(value),))
    if not dtype.is_bool:
        raise faults.bad_condition_tensor(span, scalar=True).error((dtype_number(dtype), 0))
    return bool(value)


def is_cpu(device: VDevice) -> bool:
    """Tell whether a device is the CPU, the only one that programs run on."""
    target = device.target
    kind = target if isinstance(target, str) else str(target.get("kind", ""))
    return kind.split(" ")[0].split(":")[0] in ("", "llvm", "cpu", "c", "native")


def concrete(info: StructInfo, frame: Environment) -> Any:
    """Replace variables of structural information that have a value by numbers."""
    known = {v: literal(n, v.dtype) for v, n in frame.sizes.items()}
    return substitute_shape_vars(info, known)
