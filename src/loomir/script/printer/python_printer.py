"""Write documents as Python text: indentation, parentheses by precedence, escaped strings.

It works on a stack of pieces instead of recursing, and writes each piece once, so that time is
linear in the size of the text for programs of any depth.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final, TypeAlias, cast

from loomir.script.printer.doc import (
    AssertDoc,
    AssignDoc,
    AttrAccessDoc,
    CallDoc,
    ClassDoc,
    CommentDoc,
    DictDoc,
    Doc,
    ExprDoc,
    ExprStmtDoc,
    ForDoc,
    FunctionDoc,
    IdDoc,
    IfDoc,
    IndexDoc,
    LineDoc,
    ListDoc,
    LiteralDoc,
    OperationDoc,
    ReturnDoc,
    ScopeDoc,
    SliceDoc,
    StmtBlockDoc,
    StmtDoc,
    TextDoc,
    TupleDoc,
    WhileDoc,
)

__all__ = ["ATOM", "BINARY", "COMPARE", "NOT", "UNARY", "quote", "to_python"]

WIDTH: Final = 100
_STEP: Final = "    "

# Binding strength of operators, as in Python's grammar; what binds less gets parentheses.
TERNARY, OR, AND, NOT, COMPARE, UNARY, ATOM = 0, 1, 2, 3, 4, 11, 14
BINARY: Final = {
    "or": OR,
    "and": AND,
    **dict.fromkeys(("<", "<=", ">", ">=", "==", "!="), COMPARE),
    "|": 5,
    "^": 6,
    "&": 7,
    **dict.fromkeys(("<<", ">>"), 8),
    **dict.fromkeys(("+", "-"), 9),
    **dict.fromkeys(("*", "/", "//", "%"), 10),
}
_PREFIX: Final = {"not": NOT, "-": UNARY, "~": UNARY}


class _Operand:
    """An expression that must bind at least as strongly as ``strength``."""

    __slots__ = ("doc", "strength")

    def __init__(self, doc: ExprDoc, strength: int) -> None:
        self.doc = doc
        self.strength = strength


class _IndentedStatement:
    """A statement at a level of indentation."""

    __slots__ = ("doc", "level")

    def __init__(self, doc: StmtDoc, level: int) -> None:
        self.doc = doc
        self.level = level


Piece: TypeAlias = str | ExprDoc | _Operand | _IndentedStatement


def to_python(doc: Doc) -> str:
    """Write a document as Python; statements end in a newline."""
    first: Piece = _IndentedStatement(doc, 0) if isinstance(doc, StmtDoc) else _as_expr(doc)
    return _write([first])


def _as_expr(doc: Doc) -> ExprDoc:
    assert isinstance(doc, ExprDoc)
    return doc


def _write(stack: list[Piece]) -> str:
    """Write pieces, the last of ``stack`` first."""
    out: list[str] = []
    while stack:
        piece = stack.pop()
        if isinstance(piece, str):
            out.append(piece)
            continue
        if isinstance(piece, _IndentedStatement):
            parts = _STMTS[piece.doc.__class__](piece.doc, piece.level)
        elif isinstance(piece, _Operand):
            parts = _EXPRS[piece.doc.__class__](piece.doc)
            if _strength(piece.doc) < piece.strength:
                parts = ["(", *parts, ")"]
        else:
            parts = _EXPRS[piece.__class__](piece)
        parts.reverse()
        stack += parts
    return "".join(out)


# -- expressions -------------------------------------------------------------------------------


def _strength(doc: ExprDoc) -> int:
    kind = doc.__class__
    if kind is OperationDoc:
        operation = cast("OperationDoc", doc)
        return (BINARY if len(operation.operands) == 2 else _PREFIX)[operation.symbol]
    if kind is LiteralDoc:
        literal = cast("LiteralDoc", doc)
        if literal.is_number and _is_signed(literal.value):
            return UNARY
    return ATOM


def _is_signed(value: object) -> bool:
    return value < 0 if isinstance(value, int) else str(value).startswith("-")


def _comma(items: tuple[ExprDoc, ...]) -> list[Piece]:
    if len(items) < 2:
        return list(items)
    parts: list[Piece] = []
    for item in items:
        parts += (", ", item)
    return parts[1:]


def quote(text: str) -> str:
    """Write a string as a Python literal on one line; what is printable stays as it is."""
    return '"' + _UNSAFE.sub(_escape, text) + '"'


# What may not stand in a literal, or would not come back from a file: quotes, controls, every line
# separator of Unicode, lone surrogates, marks that reorder text on screen, the byte order mark.
_UNSAFE: Final = re.compile(
    '["\\\\\x00-\x1f\x7f-\x9f\u2028\u2029\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufeff]'
)
_SHORT: Final = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\t": "\\t", "\r": "\\r"}


def _escape(found: re.Match[str]) -> str:
    char = found.group()
    code = ord(char)
    return _SHORT.get(char) or (f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}")


def _literal(doc: LiteralDoc) -> list[Piece]:
    value = doc.value
    if isinstance(value, str):
        return [quote(value)]
    if isinstance(value, int) and value.bit_length() > _DECIMAL_BITS:
        return [hex(value)]  # Python writes so many digits only in a power of two
    return [repr(value)]


_DECIMAL_BITS: Final = 10_000


def _text(doc: TextDoc) -> list[Piece]:
    return [doc.text]


def _id(doc: IdDoc) -> list[Piece]:
    return [doc.name]


def _attr(doc: AttrAccessDoc) -> list[Piece]:
    return [_Operand(doc.value, ATOM), ".", doc.name]


def _slice(doc: SliceDoc) -> list[Piece]:
    return [doc.start, ":", doc.stop]


def _index(doc: IndexDoc) -> list[Piece]:
    return [_Operand(doc.value, ATOM), "[", *(_comma(doc.items) or ["()"]), "]"]


def _call(doc: CallDoc) -> list[Piece]:
    parts: list[Piece] = []
    for arg in doc.args:
        parts += (", ", arg)
    for key, value in doc.keywords:
        parts += (", ", f"{key}=", value)
    return [_Operand(doc.callee, ATOM), "(", *parts[1:], ")"]


def _operation(doc: OperationDoc) -> list[Piece]:
    if len(doc.operands) == 1:
        strength = _PREFIX[doc.symbol]
        space = " " if doc.symbol == "not" else ""
        return [doc.symbol, space, _Operand(doc.operands[0], strength)]
    a, b = doc.operands
    strength = BINARY[doc.symbol]
    # Operators group to the left; comparisons would chain, so neither side may be one.
    left = strength + 1 if strength == COMPARE else strength
    return [_Operand(a, left), f" {doc.symbol} ", _Operand(b, strength + 1)]


def _tuple(doc: TupleDoc) -> list[Piece]:
    if doc.bare and len(doc.items) > 1:
        return _comma(doc.items)
    return ["(", *_comma(doc.items), "," if len(doc.items) == 1 else "", ")"]


def _list(doc: ListDoc) -> list[Piece]:
    return ["[", *_comma(doc.items), "]"]


def _dict(doc: DictDoc) -> list[Piece]:
    parts: list[Piece] = []
    for key, value in doc.items:
        parts += (", ", key, ": ", value)
    return ["{", *parts[1:], "}"]


# -- statements --------------------------------------------------------------------------------


def _body(statements: list[StmtDoc], level: int) -> list[Piece]:
    """Write an indented body; Python needs a statement in it, which a comment is not."""
    parts: list[Piece] = []
    empty = True
    for statement in statements:
        if isinstance(statement, LineDoc):  # most lines of a program
            parts.append(f"{_STEP * level}{statement.text}\n")
            empty = False
        else:
            parts.append(_IndentedStatement(statement, level))
            empty = empty and isinstance(statement, CommentDoc)
    if empty:
        parts.append(f"{_STEP * level}pass\n")
    return parts


def _block(doc: StmtBlockDoc, level: int) -> list[Piece]:
    return _body(doc.statements, level)


def _expr_stmt(doc: ExprStmtDoc, level: int) -> list[Piece]:
    return [_STEP * level, doc.value, "\n"]


def _line(doc: LineDoc, level: int) -> list[Piece]:
    return [f"{_STEP * level}{doc.text}\n"]


def _assign(doc: AssignDoc, level: int) -> list[Piece]:
    return [_STEP * level, *_print_binding(doc), "\n"]


def _print_binding(doc: AssignDoc) -> list[Piece]:
    parts: list[Piece] = [doc.target]
    if doc.annotation is not None:
        parts += (": ", doc.annotation)
    if doc.value is not None:
        parts += (" = ", doc.value)
    return parts


def _for(doc: ForDoc, level: int) -> list[Piece]:
    body = _body(doc.body, level + 1)
    targets = ", ".join([target.name for target in doc.targets])
    if isinstance(doc.iterable, TextDoc):
        return [f"{_STEP * level}for {targets} in {doc.iterable.text}:\n", *body]
    return [f"{_STEP * level}for {targets} in ", doc.iterable, ":\n", *body]


def _while(doc: WhileDoc, level: int) -> list[Piece]:
    return [f"{_STEP * level}while ", doc.condition, ":\n", *_body(doc.body, level + 1)]


def _if(doc: IfDoc, level: int) -> list[Piece]:
    parts: list[Piece] = []
    for number, (condition, body) in enumerate(doc.branches):
        word = "elif" if number else "if"
        parts += (f"{_STEP * level}{word} ", condition, ":\n", *_body(body, level + 1))
    if doc.otherwise is not None:
        parts += (f"{_STEP * level}else:\n", *_body(doc.otherwise, level + 1))
    return parts


def _scope(doc: ScopeDoc, level: int) -> list[Piece]:
    target: list[Piece] = [] if doc.target is None else [" as ", doc.target]
    head = [f"{_STEP * level}with ", doc.context, *target, ":\n"]
    return [*head, *_body(doc.body, level + 1)]


def _return(doc: ReturnDoc, level: int) -> list[Piece]:
    return [f"{_STEP * level}return ", doc.value, "\n"]


def _assert(doc: AssertDoc, level: int) -> list[Piece]:
    return [f"{_STEP * level}assert ", doc.condition, ", ", doc.message, "\n"]


def _comment(doc: CommentDoc, level: int) -> list[Piece]:
    return [f"{_STEP * level}# {line}".rstrip() + "\n" for line in doc.text.splitlines() or [""]]


def _decorators(decorators: tuple[ExprDoc, ...], level: int) -> list[Piece]:
    parts: list[Piece] = []
    for decorator in decorators:
        parts += (f"{_STEP * level}@", decorator, "\n")
    return parts


def _function(doc: FunctionDoc, level: int) -> list[Piece]:
    """Write a function; its parameters stand in a line each where one line would be too long."""
    start = f"{_STEP * level}def {doc.name}("
    parameters = [_parameter(p) for p in doc.parameters]
    end = "):" if doc.returns is None else f") -> {to_python(doc.returns)}:"
    head = start + ", ".join(parameters) + end
    if len(head) > WIDTH:
        lines = "".join(f"{_STEP * (level + 1)}{p},\n" for p in parameters)
        head = f"{start}\n{lines}{_STEP * level}{end}"
    return [*_decorators(doc.decorators, level), head, "\n", *_body(doc.body, level + 1)]


def _parameter(doc: AssignDoc) -> str:
    if isinstance(doc.target, IdDoc) and isinstance(doc.annotation, TextDoc) and not doc.value:
        return f"{doc.target.name}: {doc.annotation.text}"
    return _write(list(reversed(_print_binding(doc))))


def _class(doc: ClassDoc, level: int) -> list[Piece]:
    parts = [*_decorators(doc.decorators, level), f"{_STEP * level}class {doc.name}:\n"]
    for number, statement in enumerate(doc.body):
        if number:
            parts.append("\n")
        parts.append(_IndentedStatement(statement, level + 1))
    return parts if doc.body else [*parts, f"{_STEP * (level + 1)}pass\n"]


_EXPRS: Final[dict[type, Callable[[Any], list[Piece]]]] = {
    LiteralDoc: _literal,
    TextDoc: _text,
    IdDoc: _id,
    AttrAccessDoc: _attr,
    SliceDoc: _slice,
    IndexDoc: _index,
    CallDoc: _call,
    OperationDoc: _operation,
    TupleDoc: _tuple,
    ListDoc: _list,
    DictDoc: _dict,
}
_STMTS: Final[dict[type, Callable[[Any, int], list[Piece]]]] = {
    StmtBlockDoc: _block,
    ExprStmtDoc: _expr_stmt,
    LineDoc: _line,
    AssignDoc: _assign,
    ForDoc: _for,
    WhileDoc: _while,
    IfDoc: _if,
    ScopeDoc: _scope,
    ReturnDoc: _return,
    AssertDoc: _assert,
    CommentDoc: _comment,
    FunctionDoc: _function,
    ClassDoc: _class,
}
