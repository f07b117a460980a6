"""Turn IR into documents: dispatch to handlers, frames of statements, and names.

A handler is a generator that requests the documents of parts by ``yield``, so programs of any depth
print. It is looked up by the token on top of the stack (the dialect) and the node's class: first
for the token, then for ``default``, then for the dialect of the node. A node without a handler is
printed from its fields.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar

from loomir.ir.node import Node
from loomir.ir.visit import Step, trampoline
from loomir.script.printer.doc import AssignDoc, ExprDoc, IdDoc, StmtDoc
from loomir.script.printer.names import Names
from loomir.tir.stmt import For

__all__ = ["DocFrame", "Docsifier", "FunctionName", "expr_handler", "leaf_handler", "stmt_handler"]

ExprHandler: TypeAlias = Callable[["Docsifier", Any], Step[ExprDoc]]
StmtHandler: TypeAlias = Callable[["Docsifier", Any, bool], Step[None]]

_EXPRS: Final[dict[tuple[str, type], ExprHandler]] = {}
_STMTS: Final[dict[tuple[str, type], StmtHandler]] = {}
_H = TypeVar("_H", bound=Callable[..., Any])


def _find(table: Mapping[tuple[str, type], _H], token: str, node: Node) -> _H | None:
    """Find a handler for the token, else for all, else for the dialect that the node is of."""
    cls = type(node)
    return (
        table.get((token, cls))
        or table.get(("default", cls))
        or table.get((node.node_kind.partition(".")[0], cls))
    )


def expr_handler(token: str, *classes: type) -> Callable[[_H], _H]:
    """Register a handler that gives an expression document."""

    def register(handler: _H) -> _H:
        _EXPRS.update({(token, cls): handler for cls in classes})
        return handler

    return register


def leaf_handler(token: str, *classes: type) -> Callable[[_H], _H]:
    """Register a plain function that gives the expression document of a node without parts."""

    def register(handler: _H) -> _H:
        def step(d: Docsifier, node: Any) -> Step[ExprDoc]:
            return handler(d, node)
            yield  # makes this a step

        return expr_handler(token, *classes)(step) and handler

    return register


def stmt_handler(token: str, *classes: type) -> Callable[[_H], _H]:
    """Register a handler that emits statements; its last argument: whether no statement follows."""

    def register(handler: _H) -> _H:
        _STMTS.update({(token, cls): handler for cls in classes})
        return handler

    return register


class DocFrame:
    """A list of statements that is being written, and what goes out of scope at its end.

    Open in a ``with`` statement.
    """

    __slots__ = ("_owner", "defined", "kind", "statements")

    def __init__(self, owner: Docsifier, kind: str) -> None:
        self._owner = owner
        self.kind = kind
        self.statements: list[StmtDoc] = []
        self.defined: list[tuple[Node, str]] = []

    def __enter__(self) -> DocFrame:
        self._owner.frames.append(self)
        return self

    def __exit__(self, *raised: object) -> None:
        self._owner.frames.pop()
        self._owner.forget(self.defined)


class _Dialect(NamedTuple):
    """The time in which a token is on top of the stack."""

    tokens: list[str]
    token: str

    def __enter__(self) -> None:
        self.tokens.append(self.token)

    def __exit__(self, *raised: object) -> None:
        self.tokens.pop()


class FunctionName(NamedTuple):
    """How calls write a function of the module."""

    doc: ExprDoc
    func: Node


class Docsifier:
    """The state of one printing."""

    def __init__(self) -> None:
        self.tokens: list[str] = ["default"]
        self.constants = "named"
        """Where the contents of large constants go: see ``loomir.support.printing.to_text``."""
        self.shape_vars: list[StmtDoc] | None = None
        """Declarations of shape variables of the function being printed, None outside of one."""
        self.frames: list[DocFrame] = [DocFrame(self, "top")]
        self.names = Names()
        self.functions: Mapping[str, FunctionName] = {}
        """How calls write the functions of the module."""
        self.loops: dict[int, For] = {}
        """The loops around the current point, by the id of their variable."""
        self.usual_calls: dict[tuple[object, ...], bool] = {}
        """Whether the table of operators makes calls, by operator and dtypes."""
        self.docs: dict[int, tuple[Node, ExprDoc]] = {}
        """What each definition is called, with the definition to keep its id from being reused."""

    # -- dispatch ------------------------------------------------------------------------------
    def expr(self, node: Node) -> Step[ExprDoc]:
        """Ask for the document of an expression, a type, a region or another part."""
        return (_find(_EXPRS, self.tokens[-1], node) or _EXPRS[("default", Node)])(self, node)

    def stmt(self, node: Node, tail: bool) -> Step[None]:
        """Ask for statements; ``tail``: nothing follows them in their list."""
        handler = _find(_STMTS, self.tokens[-1], node) or _STMTS[("default", Node)]
        return handler(self, node, tail)

    def fallback_stmt(self, node: Node) -> Step[None]:
        """Ask for the statements of a node that has no form of its own."""
        return _STMTS[("default", Node)](self, node, False)

    def is_statement(self, node: Node) -> bool:
        """Whether a node prints as statements."""
        return _find(_STMTS, self.tokens[-1], node) is not None

    def body(self, node: Node, kind: str) -> Step[list[StmtDoc]]:
        """Ask for the statements of a body, in a frame of their own."""
        with self.frame(kind) as frame:
            yield self.stmt(node, True)
        return frame.statements

    def run(self, step: Step[Any]) -> Any:
        """Carry out a step and all that it asks for."""
        return trampoline(step)

    # -- frames --------------------------------------------------------------------------------
    @property
    def top(self) -> DocFrame:
        """The innermost frame."""
        return self.frames[-1]

    def emit(self, doc: StmtDoc) -> None:
        """Add a statement to the innermost frame."""
        self.top.statements.append(doc)

    def emit_declaration(self, name: ExprDoc, value: ExprDoc) -> None:
        """Add ``name = value`` before the statement that is being made."""
        self.emit(AssignDoc(name, value))

    def frame(self, kind: str) -> DocFrame:
        """Make a frame; what it defines goes out of scope at its end."""
        return DocFrame(self, kind)

    def forget(self, defined: list[tuple[Node, str]]) -> None:
        """Take definitions out of scope."""
        for definition, name in defined:
            self.docs.pop(id(definition), None)
            self.names.release(name)

    def token(self, token: str) -> _Dialect:
        """Print in a dialect while a ``with`` statement lasts."""
        return _Dialect(self.tokens, token)

    # -- names ---------------------------------------------------------------------------------
    def define(self, definition: Node, hint: str) -> IdDoc:
        """Name a definition that lives to the end of the innermost frame."""
        name = self.names.take(hint)
        self.top.defined.append((definition, name))
        return self.bind(definition, IdDoc(name))

    def declare(self, definition: Node, hint: str) -> IdDoc:
        """Name a definition by a name that nothing else in the function has.

        For what is assigned with ``=``: two assignments to a name are read as a mutable local.
        """
        return self.bind(definition, IdDoc(self.names.take(hint, fresh=True)))

    _B = TypeVar("_B", bound=ExprDoc)

    def bind(self, definition: Node, doc: _B) -> _B:
        """Make ``doc`` what a definition is written as."""
        self.docs[id(definition)] = (definition, doc)
        return doc

    def find_known(self, definition: Node) -> ExprDoc | None:
        """Return what a definition is written as, or None if it is not in scope."""
        found = self.docs.get(id(definition))
        return None if found is None else found[1]

    def name_of(self, definition: Node, hint: str) -> ExprDoc:
        """Return what a definition is written as; one that is not in scope gets a name ."""
        return self.find_known(definition) or self.declare(definition, hint)
