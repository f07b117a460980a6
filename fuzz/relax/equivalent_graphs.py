"""Meaning-preserving transformations of graphs: renaming, dead code, inlining."""

from __future__ import annotations

import json
from typing import Any

from loomir.ir.module import GlobalVar, IRModule
from loomir.ir.serialize import from_json, to_json
from loomir.relax import (
    Call,
    Function,
    If,
    Tuple,
    Var,
    VarBinding,
)
from loomir.relax.node import RelaxExpr
from loomir.relax.normal.rewriter import Rewriter, copy_with_fresh_vars

__all__ = ["inlined", "renamed", "with_dead_code"]


def renamed(module: IRModule) -> IRModule:
    """Return every variable one of two names: names are hints, and objects differ.

    It goes through JSON, where every node is written once and made anew.
    """
    data: dict[str, Any] = json.loads(to_json(module))
    for number, row in enumerate(data["nodes"]):
        if row[""] in ("tir.Var", "relax.Var", "relax.DataflowVar") and "name_hint" in row:
            row["name_hint"] = "xy"[number % 2]
    made = from_json(json.dumps(data))
    assert isinstance(made, IRModule)
    return made


_WRITES = {"relax.call_tir_inplace", "relax.call_inplace_packed"}
"""What cannot be computed twice."""


class _DeadCode(Rewriter):
    """Computes values again that nobody needs."""

    count = 0

    def rewrite_var_binding(self, binding: VarBinding, value: RelaxExpr) -> None:
        """Emit a binding, and before it sometimes its value under a name of its own."""
        self.count += 1
        pure = isinstance(value, Call) and getattr(value.op, "name", "") not in _WRITES
        pure = pure and not isinstance(value.op, Var)  # type: ignore[union-attr]
        if pure and self.count % 3 == 0:
            self.builder.emit(value, "unused")
        elif self.count % 3 == 1 and not isinstance(value, (If, Function)):
            self.builder.emit(Tuple(()), "nothing")
        super().rewrite_var_binding(binding, value)


def with_dead_code(module: IRModule) -> IRModule:
    """Put bindings that nobody needs between others."""
    return _DeadCode(module).rewrite_module()


class _Inline(Rewriter):
    """Puts closures in the place of private functions that are called."""

    def rewrite_call(self, call: Call) -> RelaxExpr:
        """Bind a copy of the function that is called, and call that."""
        if not isinstance(call.op, GlobalVar) or self.builder.in_dataflow:
            return call
        func = self.mod[call.op.name_hint]
        if not isinstance(func, Function) or "global_symbol" in func.attrs:
            return call
        copied = copy_with_fresh_vars(func)
        return Call(self.builder.emit(copied, "local"), call.args, call.sinfo_args)


def inlined(module: IRModule) -> IRModule:
    """Put functions where they are called."""
    return _Inline(module).rewrite_module()
