"""The document tree: the part of Python's syntax in which TVMScript is written.

Printing has two steps: handlers turn IR into documents (``docsifier``), and ``python_printer``
turns documents into text. A document knows nothing of IR, and handlers build no text.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

__all__ = [
    "AssertDoc",
    "AssignDoc",
    "AttrAccessDoc",
    "CallDoc",
    "ClassDoc",
    "CommentDoc",
    "DictDoc",
    "Doc",
    "ExprDoc",
    "ExprStmtDoc",
    "ForDoc",
    "FunctionDoc",
    "IdDoc",
    "IfDoc",
    "IndexDoc",
    "LineDoc",
    "ListDoc",
    "LiteralDoc",
    "OperationDoc",
    "ReturnDoc",
    "ScopeDoc",
    "SliceDoc",
    "StmtBlockDoc",
    "StmtDoc",
    "TextDoc",
    "TupleDoc",
    "WhileDoc",
]


class Doc:
    """The root of documents."""

    __slots__ = ()


class ExprDoc(Doc):
    """The root of documents for expressions."""

    __slots__ = ()

    def attr(self, name: str) -> AttrAccessDoc:
        """Return ``self.name``."""
        return AttrAccessDoc(self, name)

    def call(self, *args: ExprDoc, **keywords: ExprDoc) -> CallDoc:
        """Return ``self(args, keywords)``."""
        return CallDoc(self, args, tuple(keywords.items()))

    def index(self, items: tuple[ExprDoc, ...]) -> IndexDoc:
        """Return ``self[items]``."""
        return IndexDoc(self, items)


class StmtDoc(Doc):
    """The root of documents for statements."""

    __slots__ = ()


# -- expressions -------------------------------------------------------------------------------


@dataclass(slots=True, eq=False)
class LiteralDoc(ExprDoc):
    """A constant that Python writes itself; floats are finite."""

    value: int | float | bool | str | None

    @property
    def is_number(self) -> bool:
        """Whether this reads as a plain number, which arithmetic would fold."""
        return isinstance(self.value, (int, float))


@dataclass(slots=True, eq=False)
class TextDoc(ExprDoc):
    """An expression that is written already; stands where none binds more strongly."""

    text: str


@dataclass(slots=True, eq=False)
class IdDoc(ExprDoc):
    """A name."""

    name: str


@dataclass(slots=True, eq=False)
class AttrAccessDoc(ExprDoc):
    """``value.name``."""

    value: ExprDoc
    name: str


@dataclass(slots=True, eq=False)
class SliceDoc(ExprDoc):
    """``start:stop``; stands in an index only."""

    start: ExprDoc
    stop: ExprDoc


@dataclass(slots=True, eq=False)
class IndexDoc(ExprDoc):
    """``value[items]``; no items are written ``[()]``."""

    value: ExprDoc
    items: tuple[ExprDoc, ...]


@dataclass(slots=True, eq=False)
class CallDoc(ExprDoc):
    """``callee(args, key=value)``."""

    callee: ExprDoc
    args: tuple[ExprDoc, ...]
    keywords: tuple[tuple[str, ExprDoc], ...] = ()


@dataclass(slots=True, eq=False)
class OperationDoc(ExprDoc):
    """A Python operator on one or two operands; parentheses come from precedence."""

    symbol: str
    operands: tuple[ExprDoc, ...]


@dataclass(slots=True, eq=False)
class TupleDoc(ExprDoc):
    """``(items)``; ``bare`` leaves the parentheses out, for targets of assignments."""

    items: tuple[ExprDoc, ...]
    bare: bool = False


@dataclass(slots=True, eq=False)
class ListDoc(ExprDoc):
    """``[items]``."""

    items: tuple[ExprDoc, ...]


@dataclass(slots=True, eq=False)
class DictDoc(ExprDoc):
    """``{key: value}``."""

    items: tuple[tuple[ExprDoc, ExprDoc], ...]


# -- statements --------------------------------------------------------------------------------

Body: TypeAlias = "list[StmtDoc]"


@dataclass(slots=True, eq=False)
class StmtBlockDoc(StmtDoc):
    """Statements one below the other, at the same indentation; none are written ``pass``."""

    statements: Body


@dataclass(slots=True, eq=False)
class ExprStmtDoc(StmtDoc):
    """An expression as a statement."""

    value: ExprDoc


@dataclass(slots=True, eq=False)
class LineDoc(StmtDoc):
    """A statement on one line that is written already."""

    text: str


@dataclass(slots=True, eq=False)
class AssignDoc(StmtDoc):
    """``target: annotation = value``; either of the last two may be missing."""

    target: ExprDoc
    value: ExprDoc | None
    annotation: ExprDoc | None = None


@dataclass(slots=True, eq=False)
class ForDoc(StmtDoc):
    """``for targets in iterable:``."""

    targets: tuple[IdDoc, ...]
    iterable: ExprDoc
    body: Body


@dataclass(slots=True, eq=False)
class WhileDoc(StmtDoc):
    """``while condition:``."""

    condition: ExprDoc
    body: Body


@dataclass(slots=True, eq=False)
class IfDoc(StmtDoc):
    """``if`` and ``elif`` with their bodies, and the body of ``else`` where there is one."""

    branches: list[tuple[ExprDoc, Body]]
    otherwise: Body | None = None


@dataclass(slots=True, eq=False)
class ScopeDoc(StmtDoc):
    """``with context as target:``."""

    context: ExprDoc
    body: Body
    target: ExprDoc | None = None


@dataclass(slots=True, eq=False)
class ReturnDoc(StmtDoc):
    """``return value``."""

    value: ExprDoc


@dataclass(slots=True, eq=False)
class AssertDoc(StmtDoc):
    """``assert condition, message``."""

    condition: ExprDoc
    message: ExprDoc


@dataclass(slots=True, eq=False)
class CommentDoc(StmtDoc):
    """``# text``, a line of the text each."""

    text: str


@dataclass(slots=True, eq=False)
class FunctionDoc(StmtDoc):
    """A decorated function; parameters are names with annotations."""

    name: str
    parameters: list[AssignDoc]
    body: Body
    decorators: tuple[ExprDoc, ...] = ()
    returns: ExprDoc | None = None


@dataclass(slots=True, eq=False)
class ClassDoc(StmtDoc):
    """A decorated class."""

    name: str
    body: Body = field(default_factory=list["StmtDoc"])
    decorators: tuple[ExprDoc, ...] = ()
