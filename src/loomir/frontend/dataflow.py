"""Wrap straight-line code of imported functions into dataflow blocks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from loomir.ir.module import GlobalVar, IRModule
from loomir.ir.substitution import substitute
from loomir.ir.visit import pre_order, rewrite
from loomir.relax.expr import (
    Binding,
    BindingBlock,
    Call,
    DataflowBlock,
    DataflowVar,
    Function,
    If,
    MatchCast,
    SeqExpr,
    Var,
    VarBinding,
)

__all__ = ["with_dataflow_blocks"]


def with_dataflow_blocks(module: IRModule) -> IRModule:
    """Move bindings other than branches and calls of functions into dataflow blocks.

    Passes fuse and reorder bindings only in such blocks. The module must be in normal form, and all
    of its functions must be pure.
    """
    return module.with_functions(
        {
            gv: _Function(func, module).run() if isinstance(func, Function) else func
            for gv, func in module.functions.items()
        }
    )


class _Function:
    def __init__(self, func: Function, module: IRModule) -> None:
        self.func = func
        self.module = module
        self.uses = Counter(node for node in pre_order(func) if isinstance(node, Var))
        self.renamed: dict[Var, Var] = {}

    def run(self) -> Function:
        made = rewrite(self.func, {SeqExpr: self._sequence})
        return substitute(made, self.renamed) if self.renamed else made

    def _sequence(self, seq: SeqExpr) -> SeqExpr:
        blocks: list[BindingBlock] = []
        for block in seq.blocks:
            if isinstance(block, DataflowBlock):
                blocks.append(block)
            else:
                blocks += self._split(block.bindings)
        return SeqExpr(tuple(blocks), seq.body, span=seq.span)

    def _split(self, bindings: Sequence[Binding]) -> list[BindingBlock]:
        made: list[BindingBlock] = []
        kept: list[Binding] = []
        kind = False
        for binding in bindings:
            own = self._may_be_inside(binding)
            if own != kind and kept:
                made.append(self._block(kept, kind))
                kept = []
            kind = own
            kept.append(binding)
        if kept:
            made.append(self._block(kept, kind))
        return made

    def _block(self, bindings: list[Binding], inside: bool) -> BindingBlock:
        if not inside:
            return BindingBlock(tuple(bindings))
        own = Counter(n for b in bindings for n in pre_order(b) if isinstance(n, Var))
        for binding in bindings:
            var = binding.var if isinstance(binding, (VarBinding, MatchCast)) else None
            if var is not None and own[var] == self.uses[var]:
                info = var.struct_info_annotation
                self.renamed[var] = DataflowVar(var.name_hint, info, span=var.span)
        return DataflowBlock(tuple(bindings))

    def _may_be_inside(self, binding: Binding) -> bool:
        value = getattr(binding, "value", None)
        if isinstance(value, (If, Function)):
            return False
        if isinstance(value, Call):
            op = value.op
            graph = isinstance(op, GlobalVar) and isinstance(self.module[op.name_hint], Function)
            return not graph and not isinstance(op, Var)
        return True
