"""Lower tensor allocations to storage, and tensors in it."""

from __future__ import annotations

from loomir.ir.module import IRModule
from loomir.ir.op import Op
from loomir.ir.passes import register
from loomir.relax.expr import Call
from loomir.relax.node import RelaxExpr
from loomir.relax.normal.rewriter import Rewriter
from loomir.relax.operator.definition import op_def

__all__ = ["lower_alloc_tensor"]


@register("relax.LowerAllocTensor", requires={"relax_normal_form"})
def lower_alloc_tensor(mod: IRModule) -> IRModule:
    """Replace ``builtin.alloc_tensor`` by ``memory.alloc_storage`` and ``memory.alloc_tensor``.

    Each tensor gets its own storage. An allocation whose shape is a variable stays unchanged.
    """
    return _Lower(mod).rewrite_module()


class _Lower(Rewriter):
    def rewrite_call(self, call: Call) -> RelaxExpr:
        """Replace an allocation."""
        if not isinstance(call.op, Op) or call.op.name != "relax.builtin.alloc_tensor":
            return call
        legalize = op_def(call.op).legalize
        return call if legalize is None else legalize(self.builder, call)
