"""IR to TVMScript text that reads back as the same program.

Handlers (``tir_*``, ``ir_module``) turn nodes into documents, ``python_printer`` writes those as
Python. Importing this package makes ``str(node)`` and ``node.script()`` work.
"""

from __future__ import annotations

from loomir.ir.module import BaseFunc, IRModule
from loomir.ir.node import Node
from loomir.script.printer import fallback, ir_module, tir_stmt
from loomir.script.printer.doc import Doc, StmtBlockDoc
from loomir.script.printer.docsifier import Docsifier
from loomir.script.printer.python_printer import to_python
from loomir.script.printer.tir_buffer import standalone_buffer
from loomir.support.highlight import show_text
from loomir.support.printing import set_printer
from loomir.tir.buffer import Buffer
from loomir.tir.stmt import Stmt

__all__ = ["docsify", "script", "show"]

# Imported for the handlers that they register.
_HANDLERS = (fallback, ir_module, tir_stmt)

_IMPORT_I = "from loomir.script import ir as I\n"
_IMPORT_T = "from loomir.script import tir as T\n"


def docsify(node: Node) -> Doc:
    """Turn a node into its document: statements, or an expression."""
    d = Docsifier()
    if d.is_statement(node) or isinstance(node, (Stmt, BaseFunc)):
        d.run(d.stmt(node, True))
        return StmtBlockDoc(d.top.statements)
    made: Doc = d.run(standalone_buffer(d, node) if isinstance(node, Buffer) else d.expr(node))
    return made


def script(node: object) -> str:
    """Write a node as TVMScript; modules and functions with the imports that they need.

    Order: time is in proportion to the text, whatever the depth.
    """
    if not isinstance(node, Node):
        return str(node)
    body = to_python(docsify(node))
    if isinstance(node, IRModule):
        return f"{_IMPORT_I}{_IMPORT_T}\n\n{body}"
    if isinstance(node, BaseFunc):
        needs_i = "I.GlobalVar(" in body
        return f"{_IMPORT_I if needs_i else ''}{_IMPORT_T}\n\n{body}"
    return body.removesuffix("\n")


def show(node: Node, style: str | None = None) -> None:
    """Display a node as TVMScript, in colour on a terminal and in a notebook."""
    show_text(script(node), style)


set_printer(script)
