"""Run-time faults of graphs, in the same words from the interpreter and from native code.

Each function describes one mistake as a ``Fault``, complete except for a few numbers. Its docstring
lists these in order, and ``fault.error(numbers)`` builds the exception. Kinds of values and dtypes
are passed as indices into ``KINDS`` and ``DTYPES``.

``where`` names what is wrong as users do: ``argument x``, ``the result of main``; ``field_of``
names the field of a tuple.
"""

from __future__ import annotations

import re
from typing import Final

from loomir.runtime.errors import RunIndexError, RunValueError, RunZeroDivisionError
from loomir.runtime.fault import Fault, FaultKind, Value
from loomir.support.diagnostics import Diagnostic, RunError, with_count
from loomir.support.dtype import DataType
from loomir.support.span import Span

__all__ = [
    "DTYPES",
    "KINDS",
    "REFUSALS",
    "argument",
    "bad_condition",
    "bad_condition_tensor",
    "division_by_zero",
    "failed_assertion",
    "field_of",
    "index_out_of_range",
    "misaligned_offset",
    "negative_extent",
    "no_memory",
    "no_such_device",
    "no_such_field",
    "not_a_claim",
    "outside_storage",
    "overflow",
    "overlapping",
    "recursion",
    "refused_by_reference",
    "result_of",
    "size_too_large",
    "write_to_constant",
    "write_to_input",
    "wrong_count",
    "wrong_dtype",
    "wrong_extent",
    "wrong_float",
    "wrong_function",
    "wrong_kind",
    "wrong_length",
    "wrong_number",
    "wrong_order",
    "wrong_rank",
]

KINDS: Final = (
    "a tensor",
    "a tuple",
    "a shape",
    "a scalar",
    "a function",
    "a packed function",
    "a string",
    "a dtype",
    "null",
    "an object",
)
"""Kinds of values; a fault refers to one by its index here."""
DTYPES: Final = (
    "bool",
    *(f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64)),
    *("float16", "bfloat16", "float32", "float64"),
)
"""Dtypes of elements; a fault refers to one by its index here."""


# -- names of places -----------------------------------------------------------------------------
def argument(name: str) -> str:
    """Name a parameter's value."""
    return f"argument {name}"


def result_of(name: str) -> str:
    """Name what a function returns."""
    return f"the result of {name}"


def field_of(where: str, index: int) -> str:
    """Name a field of a tuple."""
    return f"{where}[{index}]"


_EXAMPLES: Final = {
    "a tensor": "give a NumPy array, a PyTorch tensor, or anything that has __dlpack__",
    "a shape": "give a shape, as in loomir.Shape([2, 3])",
    "a scalar": "give a number",
    "a packed function": "give a Python function, or one registered with loomir.register_func",
}


# -- values that do not match what is known of them ----------------------------------------------
def wrong_kind(span: Span | None, where: str, wanted: str) -> Fault:
    """Describe a value of another kind. Numbers: its kind."""
    return Fault(
        FaultKind.WRONG_TYPE,
        (f"{where} must be {wanted}, not ", Value(0, names=KINDS)),
        span,
        help=_EXAMPLES.get(wanted, f"give {wanted}"),
    )


def wrong_dtype(
    span: Span | None, where: str, wanted: DataType | str, *, scalar: bool = False
) -> Fault:
    """Describe a tensor or a scalar of another dtype. Numbers: its dtype."""
    remedy = (
        f"give a number of NumPy, such as numpy.{wanted}(...)"
        if scalar
        else f"convert it: .astype({str(wanted)!r}) in NumPy, .to(torch.{wanted}) in PyTorch, "
        "R.astype in a program"
    )
    return Fault(
        FaultKind.WRONG_TYPE,
        (f"{where} must {'be' if scalar else 'hold'} {wanted}, not ", Value(0, names=DTYPES)),
        span,
        help=remedy,
        code="RUN0402",
    )


def wrong_rank(span: Span | None, where: str, wanted: int, *, shape: bool = False) -> Fault:
    """Describe a tensor, or a shape, of another rank. Numbers: its rank."""
    count = with_count(wanted, "extent") if shape else with_count(wanted, "axis", "axes")
    return Fault(
        FaultKind.WRONG_VALUE,
        (f"{where} must have {count}, not ", 0),
        span,
        help=f"give a shape of {count}" if shape else "reshape it",
        code="RUN0403",
    )


def wrong_extent(
    span: Span | None,
    where: str,
    axis: int,
    wanted: str,
    *,
    literal: bool = False,
    notes: tuple[str, ...] = (),
) -> Fault:
    """Describe an extent that differs from the expression ``wanted``.

    Numbers: the expression's value, the extent. ``literal``: the expression is a number.
    """
    given = () if literal else (f" ({wanted})",)
    return Fault(
        FaultKind.WRONG_VALUE,
        (f"{where}, axis {axis}: the extent must be ", 0, *given, ", not ", 1),
        span,
        notes=notes,
        help="give one of that extent"
        if literal
        else "give one of that extent, or change what the variables are bound by",
    )


def wrong_number(span: Span | None, where: str, wanted: str, *, literal: bool = False) -> Fault:
    """Describe an integer that differs from the expression ``wanted``.

    Numbers: the expression's value, the integer.
    """
    given = () if literal else (f" ({wanted})",)
    return Fault(
        FaultKind.WRONG_VALUE,
        (f"{where} must be ", 0, *given, ", not ", 1),
        span,
        help="give the number that the program asks for",
        code="RUN0405",
    )


def wrong_float(span: Span | None, where: str, wanted: str) -> Fault:
    """Describe a float that differs from the expression ``wanted``."""
    return Fault(
        FaultKind.WRONG_VALUE,
        (f"{where} must be {wanted}, and is another number",),
        span,
        help="give the number that the program asks for",
        code="RUN0405",
    )


def wrong_length(span: Span | None, where: str, wanted: int) -> Fault:
    """Describe a tuple of another length. Numbers: its length."""
    return Fault(
        FaultKind.WRONG_VALUE,
        (f"{where} must be a tuple of {with_count(wanted, 'field')}, not ", 0),
        span,
        help="give as many fields as the program asks for",
        code="RUN0406",
    )


def wrong_function(span: Span | None, where: str, wanted: str, given: str) -> Fault:
    """Describe a function of another signature."""
    return Fault(
        FaultKind.WRONG_TYPE,
        (f"{where} must be {wanted}, and the function is {given}",),
        span,
        help="give a function of that signature: it may take more, and return less",
        code="RUN0407",
    )


def not_a_claim(fault: Fault, span: Span | None, name: str) -> Fault:
    """Add to a fault in a packed function's result that it differs from what the call declares."""
    return Fault(
        fault.kind,
        fault.message,
        span,
        "the call says what it returns",
        fault.notes,
        f"let {name!r} return what sinfo_args describe, or describe what it returns",
        fault.code,
    )


# -- conditions, fields, indices -----------------------------------------------------------------
_CONDITION: Final = "the condition must be a tensor of bool without axes, or a bool scalar, not "


def bad_condition(span: Span | None) -> Fault:
    """Describe a condition that is not a tensor. Numbers: its kind."""
    return Fault(
        FaultKind.WRONG_TYPE,
        (_CONDITION, Value(0, names=KINDS)),
        span,
        help="compare, as in R.not_equal(x, R.const(0)), which gives bool",
        code="RUN0408",
    )


def bad_condition_tensor(span: Span | None, *, scalar: bool = False) -> Fault:
    """Describe a condition of another dtype or rank. Numbers: its dtype, its rank."""
    what = ("a scalar of ", Value(0, names=DTYPES))
    if not scalar:
        what = ("a tensor of ", Value(0, names=DTYPES), " whose rank is ", Value(1))
    return Fault(
        FaultKind.WRONG_TYPE,
        (_CONDITION, *what),
        span,
        help="compare, as in R.not_equal(x, R.const(0)), which gives bool",
        code="RUN0408",
    )


def no_such_field(span: Span | None, index: int) -> Fault:
    """Describe a field that a tuple lacks. Numbers: the tuple's length."""
    return Fault(
        FaultKind.OUT_OF_BOUNDS,
        (f"field {index} is asked of a tuple whose length is ", 0),
        span,
        help="fields are counted from 0",
        code="RUN0412",
    )


def index_out_of_range(span: Span | None, what: str) -> Fault:
    """Describe an index that is out of range. Numbers: the index, the extent."""
    return Fault(
        FaultKind.OUT_OF_BOUNDS,
        (f"{what}: index ", 0, " is outside of an axis whose extent is ", 1),
        span,
        help="keep the index below the extent",
        code="RUN0412",
    )


def wrong_order(span: Span | None, message: str, help: str) -> Fault:
    """Describe two numbers of which the first is too large. Numbers: both."""
    parts = re.split(r"\{([01])\}", message)
    shown = tuple(int(part) if i % 2 else part for i, part in enumerate(parts))
    return Fault(FaultKind.WRONG_VALUE, shown, span, help=help, code="RUN0212")


# -- sizes ---------------------------------------------------------------------------------------
def negative_extent(span: Span | None, what: str, extent: str) -> Fault:
    """Describe an extent below 0, of a tensor or a shape. Numbers: its value."""
    return Fault(
        FaultKind.BAD_SIZE,
        (f"{what}: the extent {extent} is ", 0, ", and extents are 0 or more"),
        span,
        help="check the sizes that the extent is computed from",
        code="RUN0409",
    )


def overflow(span: Span | None, expr: str) -> Fault:
    """Describe an expression of a shape whose value, or that of a part, does not fit int64."""
    return Fault(
        FaultKind.BAD_SIZE,
        (f"{expr} overflows: extents and sizes are int64",),
        span,
        help="use sizes whose products are below 2**63",
        code="RUN0410",
    )


def size_too_large(span: Span | None, what: str, dtype: DataType | str) -> Fault:
    """Describe a tensor of more bytes than there are addresses."""
    return Fault(
        FaultKind.BAD_SIZE,
        (f"{what}: the bytes of a tensor of {dtype} of this shape are 2**63 or more",),
        span,
        help="check the sizes that the shape is computed from",
        code="RUN0411",
    )


def no_memory(span: Span | None, what: str) -> Fault:
    """Describe an allocation that failed. Numbers: the bytes."""
    return Fault(
        FaultKind.ALLOCATION,
        ("there is no memory for the ", 0, f" bytes of {what}"),
        span,
        help="allocate less, or free memory",
    )


def division_by_zero(span: Span | None, operator: str) -> Fault:
    """Describe a division by zero in an expression of a shape."""
    return Fault(
        FaultKind.ZERO_DIVISION,
        (f"{operator} divides by zero",),
        span,
        "the divisor is 0 here",
        help="an extent that is computed must be so for all sizes the program takes",
    )


def outside_storage(span: Span | None, what: str) -> Fault:
    """Describe a tensor larger than its memory. Numbers: its bytes, its offset, the memory."""
    return Fault(
        FaultKind.WRONG_VALUE,
        (f"{what}: ", 0, " bytes from byte ", 1, " on do not fit into ", 2),
        span,
        help="let the memory be as large as the tensors in it",
        code="RUN0450",
    )


def misaligned_offset(span: Span | None, what: str, dtype: DataType | None) -> Fault:
    """Describe an offset that lies between two elements. Numbers: the offset.

    The dtype is None if it is known only at run time.
    """
    element = "an element" if dtype is None else f"an element of {dtype}"
    size = "the bytes of an element" if dtype is None else str(dtype.itemsize)
    return Fault(
        FaultKind.WRONG_VALUE,
        (f"{what}: byte ", 0, f" is not where {element} can begin"),
        span,
        help=f"use an offset that is a multiple of {size}",
        code="RUN0451",
    )


# -- effects, calls, devices ---------------------------------------------------------------------
def write_to_constant(span: Span | None, function: str, argument: str) -> Fault:
    """Describe a function that writes to a tensor which is a constant of the program."""
    return Fault(
        FaultKind.WRONG_VALUE,
        (f"{function} writes to {argument}, which is a constant of the program",),
        span,
        help="pass a tensor that is computed, or call R.call_tir_inplace, which copies constants",
        code="RUN0413",
    )


def write_to_input(span: Span | None, function: str, argument: str) -> Fault:
    """Describe a function that writes to an argument that it may only read."""
    return Fault(
        FaultKind.WRONG_VALUE,
        (f"{function} writes to {argument}, and the call gives it that only to read",),
        span,
        help="call it with R.call_tir_inplace, or let it write to an output",
        code="RUN0415",
    )


def overlapping(span: Span | None, function: str, first: str, second: str) -> Fault:
    """Describe two arguments that share memory, one of which is written."""
    return Fault(
        FaultKind.WRONG_VALUE,
        (f"{first} and {second} of {function} overlap in memory, and one of them is written",),
        span,
        help="pass a copy for one of them",
        code="RUN0008",
    )


def failed_assertion(span: Span | None, text: str) -> Fault:
    """Describe a condition of ``R.assert_op`` that does not hold."""
    return Fault(FaultKind.ASSERTION, (text,), span, "this does not hold")


def recursion(span: Span | None, function: str, limit: int) -> Fault:
    """Describe functions that call one another too deeply."""
    return Fault(
        FaultKind.RECURSION,
        (f"{function} is called more than {limit} calls deep",),
        span,
        help="end the recursion earlier, or write a loop",
    )


def wrong_count(span: Span | None, function: str, wanted: int) -> Fault:
    """Describe a call of a closure with too few or too many arguments. Numbers: how many."""
    return Fault(
        FaultKind.WRONG_TYPE,
        (f"{function} takes {with_count(wanted, 'argument')}, not ", 0),
        span,
        help="give one argument for each parameter",
        code="RUN0101",
    )


def no_such_device(span: Span | None, device: str) -> Fault:
    """Describe a device that programs do not run on here."""
    return Fault(
        FaultKind.WRONG_VALUE,
        (f"there is no device {device} here: programs run on the CPU",),
        span,
        help='place the tensor on a device of target "llvm"',
        code="RUN0414",
    )


# -- what definitions by NumPy raise ---------------------------------------------------------------
_REFUSED: Final[dict[type[Exception], tuple[type[RunError], str]]] = {
    IndexError: (RunIndexError, "RUN0203"),
    ZeroDivisionError: (RunZeroDivisionError, "RUN0201"),
    ValueError: (RunValueError, "RUN0212"),
}
REFUSALS: Final = tuple(_REFUSED)
"""The exceptions that the reference of an operator raises for values that it does not take."""


def refused_by_reference(name: str, error: Exception, span: Span | None = None) -> RunError:
    """Return the error of the run for what the reference of an operator raised."""
    kind, code = next(row for raised, row in _REFUSED.items() if isinstance(error, raised))
    shown = "R." + name.removeprefix("relax.")
    return kind(Diagnostic(code, f"{shown}: {error}", span))
