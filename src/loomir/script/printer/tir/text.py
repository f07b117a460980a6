"""Print simple TIR expressions directly as text, without documents.

Most expressions of a program are arithmetic on names, numbers and buffer elements that need no
declaration. They are written here exactly as the handlers of ``expr`` would; all others, and very
deep ones, are left to those handlers.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final, TypeAlias

from loomir.ir.op import Op
from loomir.script.printer.doc import ExprDoc, IdDoc, LineDoc, TextDoc
from loomir.script.printer.docsifier import Docsifier
from loomir.script.printer.python_printer import ATOM, BINARY, COMPARE, NOT, UNARY, quote
from loomir.script.printer.tir.buffer import is_default
from loomir.script.printer.tir.expr import FUNCTIONS, OPERATORS, SYMBOLS, is_regular
from loomir.support.dtype import DataType
from loomir.tir.buffer import Buffer, BufferLoad
from loomir.tir.builtins.calls import OUTSIDE
from loomir.tir.builtins.llvm_intrinsics import LLVM
from loomir.tir.builtins.row import read_first_dtype
from loomir.tir.builtins.table import BUILTINS
from loomir.tir.expr import Call, Cast, FloatImm, IntImm, Not, Ramp, Select, StringImm, Var
from loomir.tir.stmt import BufferStore

__all__ = ["buffer_text", "call_text", "plain_text", "store_text"]

_DEEPEST: Final = 60
"""Levels of an expression that are written by calls."""
_INT32: Final = DataType("int32")

Writer: TypeAlias = Callable[[Docsifier, Any, int, int], str]
"""Writes a node so that it binds at least so strongly, so many levels deep at most."""


class _NotPlain(Exception):
    """Raised inside of this module where an expression is not written here."""


def plain_text(d: Docsifier, node: Any) -> ExprDoc | None:
    """Write an expression at once; None if it takes more."""
    if d.tokens[-1] != "tir":
        return None
    try:
        return TextDoc(_WRITERS[node.__class__](d, node, 0, _DEEPEST))
    except _NotPlain:
        return None


def store_text(d: Docsifier, node: BufferStore) -> LineDoc | None:
    """Write a store at once; None if it takes more."""
    if d.tokens[-1] != "tir":
        return None
    value = node.value
    try:
        text = _WRITERS[value.__class__](d, value, 0, _DEEPEST)
        return LineDoc(f"{_element(d, node, ATOM, _DEEPEST)} = {text}")
    except _NotPlain:
        return None


def buffer_text(d: Docsifier, buffer: Buffer) -> TextDoc | None:
    """Write ``T.Buffer`` for a buffer at once; None if it takes more."""
    if not is_default(buffer) or not all(map(_is_plain, buffer.shape)):
        return None
    shape = ", ".join([str(extent.value) for extent in buffer.shape])  # type: ignore[attr-defined]
    comma = "," * (len(buffer.shape) == 1)
    return TextDoc(f'T.Buffer(({shape}{comma}), "{buffer.dtype}")')


def call_text(name: str, args: list[ExprDoc]) -> TextDoc | None:
    """Write a call of what is written already; None if something is not."""
    texts = [arg.text for arg in args if isinstance(arg, TextDoc)]
    return TextDoc(f"{name}({', '.join(texts)})") if len(texts) == len(args) else None


def _name(d: Docsifier, definition: Any, need: int, levels: int) -> str:
    known = d.docs.get(id(definition))
    if known is None or known[1].__class__ is not IdDoc:
        raise _NotPlain
    return known[1].name  # type: ignore[attr-defined]


def _int(d: Docsifier, node: IntImm, need: int, levels: int) -> str:
    value, dtype = node.value, node.dtype
    if dtype is not _INT32:
        return f"T.{dtype}({bool(value) if dtype.is_bool else value})"
    return f"({value})" if value < 0 and need > UNARY else str(value)


def _float(d: Docsifier, node: FloatImm, need: int, levels: int) -> str:
    if not math.isfinite(node.value):
        raise _NotPlain
    return f"T.{node.dtype}({node.value!r})"


def _string(d: Docsifier, node: StringImm, need: int, levels: int) -> str:
    return quote(node.value)


def _is_plain(node: Any) -> bool:
    return node.__class__ is IntImm and node.dtype is _INT32


def _binary(d: Docsifier, node: Any, need: int, levels: int) -> str:
    if not levels:
        raise _NotPlain
    symbol, strength, left = _ROWS[node.__class__]
    a, b = node.a, node.b
    if _is_plain(a) and _is_plain(b):
        first = f"T.int32({a.value})"
    else:
        first = _WRITERS[a.__class__](d, a, left, levels - 1)
    second = _WRITERS[b.__class__](d, b, strength + 1, levels - 1)
    return f"({first}{symbol}{second})" if strength < need else f"{first}{symbol}{second}"


def _function(d: Docsifier, node: Any, need: int, levels: int) -> str:
    return f"T.{FUNCTIONS[node.__class__]}({_anchor(d, (node.a, node.b), levels)})"


def _anchor(d: Docsifier, args: tuple[Any, ...], levels: int) -> str:
    """Write arguments, with a dtype on the first where all are plain numbers."""
    if not args or not all(map(_is_plain, args)):
        return _comma(d, args, levels)
    rest = "".join(f", {arg.value}" for arg in args[1:])
    return f"T.int32({args[0].value}){rest}"


def _comma(d: Docsifier, args: tuple[Any, ...], levels: int) -> str:
    if not levels:
        raise _NotPlain
    return ", ".join([_WRITERS[arg.__class__](d, arg, 0, levels - 1) for arg in args])


def _not(d: Docsifier, node: Not, need: int, levels: int) -> str:
    if not levels:
        raise _NotPlain
    text = f"not {_WRITERS[node.a.__class__](d, node.a, NOT, levels - 1)}"
    return f"({text})" if need > NOT else text


def _cast(d: Docsifier, node: Cast, need: int, levels: int) -> str:
    return f'T.Cast("{node.dtype}", {_comma(d, (node.value,), levels)})'


def _select(d: Docsifier, node: Select, need: int, levels: int) -> str:
    return f"T.Select({_comma(d, (node.condition, node.true_value, node.false_value), levels)})"


def _element(d: Docsifier, node: Any, need: int, levels: int) -> str:
    name, indices = _name(d, node.buffer, ATOM, levels), node.indices
    if not indices:
        return f"{name}[()]"
    if indices[-1].__class__ is Ramp:
        raise _NotPlain  # may be a slice
    if not levels:
        raise _NotPlain
    docs = d.docs
    parts: list[str] = []
    for index in indices:  # most are names and numbers
        kind = index.__class__
        if kind is IntImm and index.dtype is _INT32:
            parts.append(str(index.value))
        elif kind is Var and (known := docs.get(id(index))) and known[1].__class__ is IdDoc:
            parts.append(known[1].name)  # type: ignore[attr-defined]
        else:
            parts.append(_WRITERS[kind](d, index, 0, levels - 1))
    return f"{name}[{', '.join(parts)}]"


def _call(d: Docsifier, node: Call, need: int, levels: int) -> str:
    op = node.op
    if not isinstance(op, Op) or op in LLVM or op in OUTSIDE:
        raise _NotPlain
    name = op.name.removeprefix("tir.")
    if name in OPERATORS or not _is_usual(d, name, node):
        raise _NotPlain
    return f"T.{name}({_anchor(d, node.args, levels)})"


def _is_usual(d: Docsifier, name: str, node: Call) -> bool:
    """Tell whether the table of builtins makes this call, whose form the dtypes decide."""
    row = BUILTINS.get(name)
    if (
        row is None
        or row.result_dtype is not read_first_dtype
        or row.takes_dtype
        or row.check is not None
    ):
        return False
    if any(param.kind is not None for param in row.params):
        return False
    key = (node.op, node.dtype, *[arg.dtype for arg in node.args])
    known = d.usual_calls.get(key)
    if known is None:
        known = d.usual_calls[key] = is_regular(name, node)
    return known


class _Writers(dict[type, Writer]):
    def __missing__(self, kind: type) -> Writer:
        raise _NotPlain


_ROWS: Final = {
    cls: (f" {symbol} ", strength, strength + (strength == COMPARE))
    for cls, symbol in SYMBOLS.items()
    for strength in (BINARY[symbol],)
}
_WRITERS: Final[dict[type, Writer]] = _Writers(
    {
        **dict.fromkeys(SYMBOLS, _binary),
        **dict.fromkeys(FUNCTIONS, _function),
        Var: _name,
        IntImm: _int,
        FloatImm: _float,
        StringImm: _string,
        Not: _not,
        Cast: _cast,
        Select: _select,
        BufferLoad: _element,
        Call: _call,
    }
)
