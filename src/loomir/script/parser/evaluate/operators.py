"""Operators: on expressions they build nodes; on plain values they compute, within limits."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, Final, cast

from loomir.script.builder.arguments import as_expr, as_operand, describe
from loomir.script.builder.expressions import logical
from loomir.script.builder.mistakes import mistake, wrong_argument
from loomir.script.parser.evaluate.captured_names import ForeignValue
from loomir.support.diagnostics import CompileError
from loomir.support.dtype import DataType
from loomir.tir.buffer import Buffer, BufferRegion
from loomir.tir.builtins.table import call_builtin
from loomir.tir.expr import (
    GE,
    GT,
    LE,
    LT,
    NE,
    Add,
    And,
    Div,
    Eq,
    FloatImm,
    FloorDiv,
    FloorMod,
    IntImm,
    Mul,
    Not,
    Or,
    PrimExpr,
    Sub,
    match_dtypes,
)

__all__ = [
    "binary",
    "combine_conditions",
    "format_value",
    "holds_expr",
    "is_expr",
    "is_static",
    "kind",
    "refuse_too_large",
    "unary",
]

MAX_BITS: Final = 1024
MAX_ITEMS: Final = 65536
_STATIC: Final = frozenset((bool, int, float, str, tuple, list, dict, range, type(None), DataType))


def is_expr(value: object) -> bool:
    """Whether a value is known only at run time."""
    return isinstance(value, (PrimExpr, BufferRegion))


def is_static(value: object) -> bool:
    """Whether a value is known while the program is read."""
    return type(value) in _STATIC


def refuse_too_large(value: object) -> object:
    """Refuse a plain value that is too large to compute with while a program is read.

    Errors: SCR0020.
    """
    if isinstance(value, int) and value.bit_length() > MAX_BITS:
        raise mistake("SCR0020", "the number is too large", help=f"stay below {MAX_BITS} bits")
    if isinstance(value, (str, list, tuple, range)):
        if len(cast("Sequence[object]", value)) > MAX_ITEMS:
            raise mistake("SCR0020", "the value is too long", help=f"stay below {MAX_ITEMS} items")
        return cast("object", value)
    return value


def _node(make: Callable[[PrimExpr, PrimExpr], PrimExpr]) -> Callable[[Any, Any], PrimExpr]:
    return lambda a, b: make(*match_dtypes(a, b))


def _bits(name: str) -> Callable[[Any, Any], PrimExpr]:
    return lambda a, b: call_builtin(name, *match_dtypes(a, b))


_NODES: Final[dict[str, Callable[[Any, Any], PrimExpr]]] = {
    "+": _node(Add),
    "-": _node(Sub),
    "*": _node(Mul),
    "/": _node(Div),
    "//": _node(FloorDiv),
    "%": _node(FloorMod),
    "==": _node(Eq),
    "!=": _node(NE),
    "<": _node(LT),
    "<=": _node(LE),
    ">": _node(GT),
    ">=": _node(GE),
    "**": _bits("pow"),
    "&": _bits("bitwise_and"),
    "|": _bits("bitwise_or"),
    "^": _bits("bitwise_xor"),
    "<<": _bits("shift_left"),
    ">>": _bits("shift_right"),
}

_PYTHON: Final[dict[str, Callable[[Any, Any], object]]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": lambda a, b: a / b,
    "//": lambda a, b: a // b,
    "%": lambda a, b: a % b,
    "**": lambda a, b: a**b,
    "<<": lambda a, b: a << b,
    ">>": lambda a, b: a >> b,
    "&": lambda a, b: a & b,
    "|": lambda a, b: a | b,
    "^": lambda a, b: a ^ b,
    "==": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
    "is": lambda a, b: a is b,
    "is not": lambda a, b: a is not b,
    "in": lambda a, b: a in b,
    "not in": lambda a, b: a not in b,
}


_COMPARISONS: Final = frozenset(("==", "!=", "<", "<=", ">", ">=", "in", "not in", "is", "is not"))


def holds_expr(value: object) -> bool:
    """Whether a tuple, list or dict holds what is known only at run time."""
    stack = [value]
    while stack:
        item = stack.pop()
        if isinstance(item, (tuple, list)):
            stack.extend(cast("Sequence[object]", item))
        elif isinstance(item, dict):
            stack.extend(cast("dict[object, object]", item).values())
        elif not is_static(item):
            return True
    return False


def binary(op: str, a: object, b: object) -> object:
    """Apply an operator.

    Errors: SCR0009 where it has no meaning for the operands, SCR0020 for arithmetic that fails;
    TIR01xx.
    """
    if is_static(a) and is_static(b):
        return _static(op, a, b)
    if op in _NODES and _is_operand(a) and _is_operand(b):
        return _NODES[op](as_operand(a), as_operand(b))
    raise _no_meaning(op, a, b)


def combine_conditions(op: str, a: object, b: object) -> PrimExpr:
    """Apply ``and`` or ``or`` to conditions that are known only at run time.

    Errors: SCR0009, TIR0101, TIR0102.
    """
    for value in (a, b):
        if not (isinstance(value, bool) or is_expr(value)):
            message = f"`{op}` has no meaning for {kind(value)}"
            help_ = "use conditions, such as comparisons"
            raise wrong_argument(value, message, code="SCR0009", help=help_)
        if is_expr(value) and not as_expr(value).dtype.is_bool:
            raise wrong_argument(
                value,
                f"`{op}` needs conditions, not {as_expr(value).dtype}",
                code="TIR0102",
                help="compare with zero, as in x != 0",
            )
    return _JOINS[op](as_operand(a), as_operand(b))


_JOINS: Final = {"and": logical(And), "or": logical(Or)}


def _is_operand(value: object) -> bool:
    return is_expr(value) or isinstance(value, (bool, int, float))


def _no_meaning(op: str, a: object, b: object) -> CompileError:
    culprit = b if _is_operand(a) and op in _NODES else a
    if op in ("in", "not in", "is", "is not"):
        help_ = "compare with == and join with `or`"
        return mistake("SCR0009", f"`{op}` has no meaning for {kind(a)} and {kind(b)}", help=help_)
    help_ = (
        "write the loops of a matrix product"
        if op == "@"
        else "use numbers and expressions of them"
    )
    if isinstance(culprit, Buffer):
        axes = ", ".join("ijklmn"[axis % 6] for axis in range(len(culprit.shape)))
        help_ = f"read an element, as in {culprit.name or 'A'}[{axes}]"
    message = f"`{op}` has no meaning for {kind(a)} and {kind(b)}"
    return wrong_argument(culprit, message, code="SCR0009", help=help_)


def kind(value: object) -> str:
    """Name a value's kind."""
    return value.kind if isinstance(value, ForeignValue) else describe(value)


def _static(op: str, a: Any, b: Any) -> object:
    if op not in _PYTHON or (op == "%" and isinstance(a, str)):
        raise _no_meaning(op, a, b)
    if op in _COMPARISONS and (holds_expr(a) or holds_expr(b)):
        raise _no_meaning(op, a, b)
    if isinstance(a, int) and isinstance(b, int):
        grown = {"**": a.bit_length() * max(b, 0), "<<": a.bit_length() + max(b, 0)}.get(op, 0)
        if grown > MAX_BITS:
            raise mistake("SCR0020", "the number is too large", help=f"stay below {MAX_BITS} bits")
    if op == "*" and _find_repeated_length(a, b) > MAX_ITEMS:
        raise mistake("SCR0020", "the value is too long", help=f"stay below {MAX_ITEMS} items")
    try:
        made = _PYTHON[op](a, b)
    except ZeroDivisionError as error:
        raise mistake("SCR0020", "division by zero", help="use a divisor other than 0") from error
    except (ArithmeticError, ValueError) as error:
        raise mistake("SCR0020", f"`{op}` fails: {error}", help="use other operands") from error
    except (TypeError, RecursionError) as error:
        raise _no_meaning(op, a, b) from error
    if type(made) not in _STATIC:
        raise mistake("SCR0020", f"`{op}` gives no real number", help="use other operands")
    return refuse_too_large(made)


_FORMAT: Final = r"[<>^=]?[+ ]?#?0?\d{0,2},?(\.\d{1,2})?[a-zA-Z%]?"
_CONVERSIONS: Final[dict[int, Callable[[Any], object]]] = {
    -1: lambda value: value,
    ord("s"): str,
    ord("r"): repr,
    ord("a"): ascii,
}


def format_value(value: object, conversion: int, spec: str) -> str:
    """Write a plain value in an f-string.

    Errors: SCR0005.
    """
    if isinstance(value, (IntImm, FloatImm)):
        value = value.value
    if not isinstance(value, (bool, int, float, str, DataType)):
        raise mistake(
            "SCR0005",
            f"an f-string is made of plain values, not {kind(value)}",
            help="use numbers and strings that are known while the program is read",
        )
    if re.fullmatch(_FORMAT, spec) is None:
        raise mistake(
            "SCR0005",
            f"the format {spec!r} is not read",
            help="use a width below 100, as in {x:04d}",
        )
    plain_value = str(value) if isinstance(value, DataType) else value
    try:
        return format(_CONVERSIONS[conversion](plain_value), spec)
    except ValueError as error:
        message = f"the format fails: {error}"
        raise mistake("SCR0005", message, help="use a format of this kind of value") from error


def _find_repeated_length(a: object, b: object) -> int:
    """Return the length of a sequence repeated, 0 for other products."""
    for items, times in ((a, b), (b, a)):
        if isinstance(items, (str, tuple, list)) and isinstance(times, int):
            return len(cast("Sequence[object]", items)) * times
    return 0


def unary(op: str, a: object) -> object:
    """Apply an operator on one operand.

    Errors: SCR0009, TIR01xx.
    """
    if isinstance(a, (bool, int, float)):
        if op == "not":
            return not a
        if op != "~" or type(a) is int:
            return -a if op == "-" else +a if op == "+" else ~cast("int", a)
    elif op == "not" and is_static(a):
        return not a
    elif is_expr(a):
        expr = as_expr(a)
        if op == "+":
            return expr
        if op == "-":
            return -expr
        return Not(expr) if op == "not" else call_builtin("bitwise_not", expr)
    message = f"`{op}` has no meaning for {kind(a)}"
    raise wrong_argument(a, message, code="SCR0009", help="use a number or an expression")
