"""The Doc AST: Python's syntax tree, reduced to the constructs of TVMScript, with positions.

Nodes have Python's names; a construct without a class here is not in the language (SCR0002).
Operators are their symbols, and contexts (load, store) are omitted.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, Final, TypeAlias, cast

from loomir.support.span import Span

__all__ = [
    "AST",
    "NODES",
    "AnnAssign",
    "Assert",
    "Assign",
    "Attribute",
    "AugAssign",
    "BinOp",
    "BoolOp",
    "Break",
    "Call",
    "ClassDef",
    "Compare",
    "Constant",
    "Continue",
    "Dict",
    "Expr",
    "ExprNode",
    "For",
    "FormattedValue",
    "FunctionDef",
    "If",
    "IfExp",
    "Import",
    "ImportFrom",
    "JoinedStr",
    "List",
    "Module",
    "Name",
    "NodeVisitor",
    "Pass",
    "Return",
    "Slice",
    "Starred",
    "StmtNode",
    "Subscript",
    "Tuple",
    "UnaryOp",
    "While",
    "With",
    "alias",
    "arg",
    "arguments",
    "keyword",
    "withitem",
]


@dataclass(slots=True, eq=False)
class AST:
    """The root of nodes; ``span`` is where the node stands in the file."""

    span: Span


# -- expressions -------------------------------------------------------------------------------
@dataclass(slots=True, eq=False)
class Name(AST):
    """A name."""

    id: str


@dataclass(slots=True, eq=False)
class Constant(AST):
    """A number, a string, True, False or None."""

    value: int | float | str | bool | None


@dataclass(slots=True, eq=False)
class Attribute(AST):
    """``value.attr``."""

    value: ExprNode
    attr: str


@dataclass(slots=True, eq=False)
class Slice(AST):
    """``lower:upper:step`` in a subscript."""

    lower: ExprNode | None
    upper: ExprNode | None
    step: ExprNode | None


@dataclass(slots=True, eq=False)
class Subscript(AST):
    """``value[slice]``."""

    value: ExprNode
    slice: ExprNode


@dataclass(slots=True, eq=False)
class Tuple(AST):
    """``a, b``."""

    elts: list[ExprNode]


@dataclass(slots=True, eq=False)
class List(AST):
    """``[a, b]``."""

    elts: list[ExprNode]


@dataclass(slots=True, eq=False)
class Dict(AST):
    """``{key: value}``; a key of None is ``**value``."""

    keys: list[ExprNode | None]
    values: list[ExprNode]


@dataclass(slots=True, eq=False)
class keyword(AST):  # noqa: N801, the name of Python's class
    """``arg=value``; no name is ``**value``."""

    arg: str | None
    value: ExprNode


@dataclass(slots=True, eq=False)
class Call(AST):
    """``func(*args, **keywords)``."""

    func: ExprNode
    args: list[ExprNode]
    keywords: list[keyword]


@dataclass(slots=True, eq=False)
class UnaryOp(AST):
    """``op operand``; op is one of ``+ - ~ not``."""

    op: str
    operand: ExprNode


@dataclass(slots=True, eq=False)
class BinOp(AST):
    """``left op right``."""

    left: ExprNode
    op: str
    right: ExprNode


@dataclass(slots=True, eq=False)
class BoolOp(AST):
    """``a op b op c``; op is ``and`` or ``or``."""

    op: str
    values: list[ExprNode]


@dataclass(slots=True, eq=False)
class Compare(AST):
    """``left op a op b``."""

    left: ExprNode
    ops: list[str]
    comparators: list[ExprNode]


@dataclass(slots=True, eq=False)
class IfExp(AST):
    """``body if test else orelse``."""

    test: ExprNode
    body: ExprNode
    orelse: ExprNode


@dataclass(slots=True, eq=False)
class Starred(AST):
    """``*value`` among arguments or elements."""

    value: ExprNode


@dataclass(slots=True, eq=False)
class FormattedValue(AST):
    """``{value:format_spec}`` in an f-string; ``conversion`` is a letter's code, or -1."""

    value: ExprNode
    conversion: int
    format_spec: JoinedStr | None


@dataclass(slots=True, eq=False)
class JoinedStr(AST):
    """An f-string: constants and formatted values."""

    values: list[Constant | FormattedValue]


# -- statements --------------------------------------------------------------------------------
@dataclass(slots=True, eq=False)
class Expr(AST):
    """An expression as a statement."""

    value: ExprNode


@dataclass(slots=True, eq=False)
class Assign(AST):
    """``a = b = value``."""

    targets: list[ExprNode]
    value: ExprNode


@dataclass(slots=True, eq=False)
class AugAssign(AST):
    """``target op= value``."""

    target: ExprNode
    op: str
    value: ExprNode


@dataclass(slots=True, eq=False)
class AnnAssign(AST):
    """``target: annotation = value``."""

    target: ExprNode
    annotation: ExprNode
    value: ExprNode | None


@dataclass(slots=True, eq=False)
class For(AST):
    """``for target in iter: body``."""

    target: ExprNode
    iter: ExprNode
    body: list[StmtNode]
    orelse: list[StmtNode]


@dataclass(slots=True, eq=False)
class While(AST):
    """``while test: body``."""

    test: ExprNode
    body: list[StmtNode]
    orelse: list[StmtNode]


@dataclass(slots=True, eq=False)
class If(AST):
    """``if test: body else: orelse``."""

    test: ExprNode
    body: list[StmtNode]
    orelse: list[StmtNode]


@dataclass(slots=True, eq=False)
class withitem(AST):  # noqa: N801, the name of Python's class
    """``context_expr as optional_vars``."""

    context_expr: ExprNode
    optional_vars: ExprNode | None


@dataclass(slots=True, eq=False)
class With(AST):
    """``with items: body``."""

    items: list[withitem]
    body: list[StmtNode]


@dataclass(slots=True, eq=False)
class Assert(AST):
    """``assert test, msg``."""

    test: ExprNode
    msg: ExprNode | None


@dataclass(slots=True, eq=False)
class Return(AST):
    """``return value``."""

    value: ExprNode | None


@dataclass(slots=True, eq=False)
class Pass(AST):
    """``pass``."""


@dataclass(slots=True, eq=False)
class Break(AST):
    """``break``."""


@dataclass(slots=True, eq=False)
class Continue(AST):
    """``continue``."""


@dataclass(slots=True, eq=False)
class alias(AST):  # noqa: N801, the name of Python's class
    """``name as asname``."""

    name: str
    asname: str | None


@dataclass(slots=True, eq=False)
class Import(AST):
    """``import names``; at the head of a text only."""

    names: list[alias]


@dataclass(slots=True, eq=False)
class ImportFrom(AST):
    """``from module import names``; at the head of a text only."""

    module: str | None
    names: list[alias]
    level: int


@dataclass(slots=True, eq=False)
class arg(AST):  # noqa: N801, the name of Python's class
    """A parameter."""

    arg: str
    annotation: ExprNode | None


@dataclass(slots=True, eq=False)
class arguments(AST):  # noqa: N801, the name of Python's class
    """Parameters."""

    posonlyargs: list[arg]
    args: list[arg]
    vararg: arg | None
    kwonlyargs: list[arg]
    kw_defaults: list[ExprNode | None]
    kwarg: arg | None
    defaults: list[ExprNode]


@dataclass(slots=True, eq=False)
class FunctionDef(AST):
    """A function; ``name_span`` is where its name stands."""

    name: str
    args: arguments
    body: list[StmtNode]
    decorator_list: list[ExprNode]
    returns: ExprNode | None


@dataclass(slots=True, eq=False)
class ClassDef(AST):
    """A class."""

    name: str
    bases: list[ExprNode]
    keywords: list[keyword]
    body: list[StmtNode]
    decorator_list: list[ExprNode]


@dataclass(slots=True, eq=False)
class Module(AST):
    """A text."""

    body: list[StmtNode]


ExprNode: TypeAlias = (
    Name
    | Constant
    | Attribute
    | Slice
    | Subscript
    | Tuple
    | List
    | Dict
    | Call
    | UnaryOp
    | BinOp
    | BoolOp
    | Compare
    | IfExp
    | Starred
    | JoinedStr
    | FormattedValue
)
StmtNode: TypeAlias = (
    Expr
    | Assign
    | AugAssign
    | AnnAssign
    | For
    | While
    | If
    | With
    | Assert
    | Return
    | Pass
    | Break
    | Continue
    | Import
    | ImportFrom
    | FunctionDef
    | ClassDef
)

NODES: Final[dict[str, type[Any]]] = {
    cls.__name__: cls
    for cls in (
        Name,
        Constant,
        Attribute,
        Slice,
        Subscript,
        Tuple,
        List,
        Dict,
        keyword,
        Call,
        UnaryOp,
        BinOp,
        BoolOp,
        Compare,
        IfExp,
        Starred,
        JoinedStr,
        FormattedValue,
        Expr,
        Assign,
        AugAssign,
        AnnAssign,
        For,
        While,
        If,
        withitem,
        With,
        Assert,
        Return,
        Pass,
        Break,
        Continue,
        alias,
        Import,
        ImportFrom,
        arg,
        arguments,
        FunctionDef,
        ClassDef,
        Module,
    )
}
"""The white list: every class by the name that it shares with Python's."""

FIELDS: Final[dict[str, tuple[str, ...]]] = {
    name: tuple(f.name for f in fields(cls) if f.name != "span") for name, cls in NODES.items()
}
"""The fields of each class, the span aside."""


class NodeVisitor:
    """Calls ``visit_<Class>`` for a node, or ``generic_visit`` where there is none."""

    def visit(self, node: AST) -> None:
        """Visit one node."""
        getattr(self, f"visit_{type(node).__name__}", self.generic_visit)(node)

    def generic_visit(self, node: AST) -> None:
        """Visit the parts of a node."""
        for name in FIELDS[type(node).__name__]:
            value = getattr(node, name)
            parts = cast("list[Any]", value) if isinstance(value, list) else [value]
            for part in parts:
                if isinstance(part, AST):
                    self.visit(part)
