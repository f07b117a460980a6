"""Take columns of a product instead of columns of its operand."""

from __future__ import annotations

from collections.abc import Sequence

from loomir.ir.passes import register
from loomir.relax.expr import Call, Function, Var
from loomir.relax.node import RelaxExpr
from loomir.transform.relax.algebra.joint_rewriter import JointRewriter
from loomir.transform.relax.graph_reading import operator_of, tensor_info

__all__ = ["reorder_take_after_matmul"]


@register("relax.ReorderTakeAfterMatmul", requires={"relax_normal_form"})
def reorder_take_after_matmul(func: Function) -> Function:
    """Write ``matmul(x, take(w, places, axis=1))`` as ``take(matmul(x, w), places, axis=-1)``.

    This applies in dataflow blocks, if nothing else uses the taken columns, ``w`` is a matrix and
    ``places`` a vector. ``CombineParallelMatmul`` may then combine the product with others. Results
    are bit-identical.
    """
    return _Reorder(func).run()


class _Reorder(JointRewriter):
    def match(self, call: Call, result: Var) -> Sequence[RelaxExpr] | None:
        """Return the operands of a product with columns of a matrix."""
        taken = self.find_maker("take", call.args[1]) if operator_of(call) == "matmul" else None
        if taken is None or tensor_info(result) is None:
            return None
        matrix, places = map(tensor_info, taken.args)
        if matrix is None or places is None or matrix.ndim != 2 or places.ndim != 1:
            return None
        # A sum of no products would be 0, but a column out of range is NaN.
        if taken.attrs["axis"] not in (1, -1) or taken.attrs["mode"] == "nan":
            return None
        return (call.args[1],)

    def write(self, call: Call, result: Var) -> Call:
        """Multiply by the whole matrix, then take columns of the product."""
        taken = self.single[call.args[1]]
        args = (call.args[0], taken.args[0])
        whole = self.builder.emit(Call(call.op, args, attrs=call.attrs, span=call.span))
        info = tensor_info(whole)
        assert info is not None
        attrs = {**taken.attrs, "axis": info.ndim - 1}
        return Call(taken.op, (whole, taken.args[1]), attrs=attrs)
