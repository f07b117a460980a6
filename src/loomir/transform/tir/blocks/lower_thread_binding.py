"""Lower loops that are bound to GPU threads to CPU loops."""

from __future__ import annotations

from loomir.ir.passes import register
from loomir.ir.visit import by_class, rewrite
from loomir.support.diagnostics import CompileError, Diagnostic
from loomir.tir.buffer import IterVar
from loomir.tir.expr import IntImm, Var, cast
from loomir.tir.function import PrimFunc
from loomir.tir.stmt import AttrStmt, For, ForKind, Stmt

__all__ = ["lower_thread_binding"]


@register(
    "tir.LowerThreadBinding",
    requires={"no_blocks"},
    establishes={"no_thread_loops", "no_attributes"},
)
def lower_thread_binding(func: PrimFunc) -> PrimFunc:
    """Make loops over blocks of threads parallel, and loops over threads serial.

    Iterations may run in any order, so that both are correct; the threads of one block do too
    little work for tasks of their own. ``thread_extent`` and ``virtual_thread`` become loops from
    0. Other attribute statements have no meaning and are removed, except ``volatile_scope``, which
    code generation reads.
    Errors: TIR0503 for an attribute of threads whose node is not a variable.
    """

    def loop(s: For) -> For:
        if s.kind is not ForKind.THREAD_BINDING:
            return s
        tag = s.thread_binding.thread_tag if s.thread_binding is not None else ""
        kind = _kind(tag)
        return For(s.loop_var, s.min, s.extent, kind, s.body, None, s.annotations, span=s.span)

    def attribute(s: AttrStmt) -> Stmt:
        if s.attr_key == "volatile_scope":
            return s
        if not s.is_binding:
            return s.body
        tag = s.node.thread_tag if isinstance(s.node, IterVar) else ""
        var = s.node.var if isinstance(s.node, IterVar) else s.node
        if not isinstance(var, Var):
            raise CompileError(
                Diagnostic(
                    "TIR0503",
                    f"the node of {s.attr_key} is not a variable",
                    s.span,
                    help="use the variable that runs over the threads",
                )
            )
        start = IntImm(0, var.dtype)
        return For(var, start, cast(s.value, var.dtype), _kind(tag), s.body, span=s.span)

    found = by_class(func.body)
    if AttrStmt not in found and all(
        s.kind is not ForKind.THREAD_BINDING for s in found.get(For, ())
    ):
        return func
    return rewrite(func, {For: loop, AttrStmt: attribute})


def _kind(tag: str) -> ForKind:
    return ForKind.PARALLEL if tag.startswith("blockIdx") else ForKind.SERIAL
