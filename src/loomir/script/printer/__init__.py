"""Print IR as TVMScript text that parses back to the same program.

Handlers (``tir_*``, ``ir_module``) turn nodes into documents, ``python_printer`` writes those as
Python. Importing this package makes ``str(node)`` and ``node.script()`` work.
"""

from __future__ import annotations

from loomir.ir.module import BaseFunc, IRModule
from loomir.ir.node import Node
from loomir.relax.expr import Expr as RelaxExpr
from loomir.relax.expr import Function
from loomir.relax.node import StructInfo
from loomir.script.builder.mistakes import wrong_argument
from loomir.script.printer import fallback, ir_module
from loomir.script.printer.doc import Doc, ExprDoc, ExprStmtDoc, StmtBlockDoc
from loomir.script.printer.docsifier import Docsifier
from loomir.script.printer.python_printer import to_python
from loomir.script.printer.relax import constant, expr, func
from loomir.script.printer.tir import stmt
from loomir.script.printer.tir.buffer import standalone_buffer
from loomir.support.highlight import show_text
from loomir.support.printing import set_printer
from loomir.tir.buffer import Buffer
from loomir.tir.function import PrimFunc
from loomir.tir.stmt import Stmt

__all__ = ["docsify", "script", "show"]

# Imported for the handlers that they register.
_HANDLERS = (fallback, ir_module, constant, expr, func, stmt)

_IMPORT_I = "from loomir.script import ir as I\n"
_IMPORT_T = "from loomir.script import tir as T\n"
_IMPORT_R = "from loomir.script import relax as R\n"
_CONSTANTS = ("named", "stored", "inline")


def docsify(node: Node, constants: str = "named") -> Doc:
    """Turn a node into its document: statements, or an expression."""
    d = Docsifier()
    d.constants = constants
    if d.is_statement(node) or isinstance(node, (Stmt, BaseFunc)):
        d.run(d.stmt(node, True))
        return StmtBlockDoc(d.top.statements)
    if isinstance(node, (RelaxExpr, StructInfo)):
        with d.token("relax"):
            value: ExprDoc = d.run(d.expr(node))
        # What is written as statements stands before the value.
        statements = d.top.statements
        return StmtBlockDoc([*statements, ExprStmtDoc(value)]) if statements else value
    made: Doc = d.run(standalone_buffer(d, node) if isinstance(node, Buffer) else d.expr(node))
    return made


def script(node: object, *, constants: str = "stored") -> str:
    """Write a node as TVMScript; modules and functions with the imports that they need.

    ``constants`` says where large ones go: see ``loomir.support.printing.to_text``.

    Order: time is in proportion to the text, whatever the depth.
    Errors: SCR0005 for another choice of ``constants``.
    """
    if constants not in _CONSTANTS:
        raise wrong_argument(
            constants,
            f"constants cannot be {constants!r}",
            help="choose one of " + ", ".join(map(repr, _CONSTANTS)),
        )
    if not isinstance(node, Node):
        return str(node)
    body = to_python(docsify(node, constants))
    if not isinstance(node, (IRModule, BaseFunc)):
        return body.removesuffix("\n")
    functions = node.functions.values() if isinstance(node, IRModule) else (node,)
    has_relax = any(isinstance(func, Function) for func in functions)
    needs_i = isinstance(node, IRModule) or ("I.GlobalVar(" in body or "I.vdevice(" in body)
    needs_t = isinstance(node, (IRModule, PrimFunc)) or "T." in body
    return "".join(
        (
            _IMPORT_I if needs_i else "",
            _IMPORT_R if has_relax else "",
            _IMPORT_T if needs_t else "",
            "\n\n",
            body,
        )
    )


def show(node: Node, style: str | None = None) -> None:
    """Display a node as TVMScript, in colour on a terminal and in a notebook."""
    show_text(script(node), style)


set_printer(script)
