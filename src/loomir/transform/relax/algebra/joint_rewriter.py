"""A mutator that rewrites a call together with the producers of its arguments.

Producers count only if nothing else uses their results.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from loomir.relax.expr import Call, DataflowVar, Function, Var, VarBinding
from loomir.relax.node import RelaxExpr
from loomir.relax.normal.rewriter import Rewriter
from loomir.transform.relax.graph_reading import count_uses, dataflow_blocks, operator_of, values_in

__all__ = ["JointRewriter"]


class JointRewriter(Rewriter, ABC):
    """Base of passes that rewrite several calls together, by ``match`` and ``write``.

    A call is only combined with calls in dataflow blocks whose results have no other use.
    """

    def __init__(self, func: Function) -> None:
        super().__init__()
        self.func = func
        self.single: dict[RelaxExpr, Call] = {}
        """The calls whose results have exactly one use, by their variables."""
        self.roots: set[RelaxExpr] = set()
        self.dropped: set[RelaxExpr] = set()

    # -- hooks -----------------------------------------------------------------------------------
    @abstractmethod
    def match(self, call: Call, result: Var) -> Sequence[RelaxExpr] | None:
        """List the variables of ``single`` to combine with a call; None if it must stay."""

    @abstractmethod
    def write(self, call: Call, result: Var) -> Call:
        """Return the replacement of a call that ``match`` accepted; it may emit other calls."""

    # -- for use by hooks ------------------------------------------------------------------------
    def find_maker(self, name: str, leaf: RelaxExpr) -> Call | None:
        """Return the call of an operator that computes a value with one use, or None."""
        found = self.single.get(leaf)
        return found if found is not None and operator_of(found) == name else None

    # -- the walk --------------------------------------------------------------------------------
    def run(self) -> Function:
        """Rewrite the function; return the same one if nothing matched."""
        uses = count_uses(self.func)
        blocks = dataflow_blocks(self.func)
        for block in blocks:
            for var, value in values_in(block).items():
                if isinstance(value, Call) and isinstance(var, DataflowVar) and uses[var] == 1:
                    self.single[var] = value
        for block in blocks:
            # The last calls first, which the others are combined with.
            for binding in reversed(block.bindings):
                if not isinstance(binding, VarBinding) or binding.var in self.dropped:
                    continue
                if isinstance(binding.value, Call):
                    found = self.match(binding.value, binding.var)
                    if found is not None:
                        self.roots.add(binding.var)
                        self.dropped.update(found)
        return self.rewrite_function(self.func) if self.roots else self.func

    def rewrite_var_binding(self, binding: VarBinding, value: RelaxExpr) -> None:
        """Bind the replacement of several calls in place of the last one."""
        if binding.var in self.dropped:
            return
        if binding.var in self.roots:
            assert isinstance(binding.value, Call)
            made = self.write(binding.value, binding.var)
            span = binding.value.span
            value = Call(made.op, made.args, made.sinfo_args, made.attrs, span=span)
        self.emit_binding(binding, value)
