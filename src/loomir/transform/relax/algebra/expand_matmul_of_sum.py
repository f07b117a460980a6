"""Distribute a matrix product over a sum: multiply with each term."""

from __future__ import annotations

from collections.abc import Sequence

from loomir.arith.analyzer import Analyzer
from loomir.ir.passes import register
from loomir.relax.expr import Call, Function, Var
from loomir.relax.node import RelaxExpr
from loomir.transform.relax.algebra.joint_rewriter import JointRewriter
from loomir.transform.relax.graph_reading import make_call, operator_of, tensor_info

__all__ = ["expand_matmul_of_sum"]


@register("relax.ExpandMatmulOfSum", requires={"relax_normal_form"})
def expand_matmul_of_sum(func: Function) -> Function:
    """Write ``matmul(x, a + b)`` as ``matmul(x, a) + matmul(x, b)``.

    This applies in dataflow blocks, if nothing else uses the sum and both operands have its shape.
    ``AdjustMatmulOrder`` may then find a product of small matrices in one part. Products are
    rounded before they are added, so results differ by the rounding of sums of products.
    """
    return _Expand(func).run()


class _Expand(JointRewriter):
    def match(self, call: Call, result: Var) -> Sequence[RelaxExpr] | None:
        """Return the operands of a product whose right operand is a sum."""
        total = self.find_maker("add", call.args[1]) if operator_of(call) == "matmul" else None
        whole = tensor_info(call.args[1]) if total is not None else None
        if total is None or whole is None or whole.dims is None:
            return None
        analyzer = Analyzer()
        for part in total.args:
            info = tensor_info(part)
            if info is None or info.dims is None or info.ndim != whole.ndim:
                return None
            if not all(map(analyzer.can_prove_equal, info.dims, whole.dims)):
                return None
        return (call.args[1],)

    def write(self, call: Call, result: Var) -> Call:
        """Add two products."""
        total = self.single[call.args[1]]
        parts = [
            self.builder.emit(Call(call.op, (call.args[0], part), attrs=call.attrs, span=call.span))
            for part in total.args
        ]
        return make_call("add", *parts)
