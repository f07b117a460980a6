"""Permute the axes of a concatenation once, instead of those of each part."""

from __future__ import annotations

from collections.abc import Sequence

from loomir.ir.passes import register
from loomir.relax.expr import Call, Function, Tuple, Var
from loomir.relax.node import RelaxExpr
from loomir.transform.relax.algebra.joint_rewriter import JointRewriter
from loomir.transform.relax.graph_reading import make_call, operator_of, tensor_info

__all__ = ["reorder_permute_dims_after_concat"]


@register("relax.ReorderPermuteDimsAfterConcat", requires={"relax_normal_form"})
def reorder_permute_dims_after_concat(func: Function) -> Function:
    """Move equal ``permute_dims`` of the operands of a ``concat`` behind it, as a single one.

    This applies in dataflow blocks, if nothing else uses the permuted tensors.
    ``FuseTransposeMatmul`` may then fuse the permutation with a product. Results are bit-identical.
    """
    return _Reorder(func).run()


class _Reorder(JointRewriter):
    def match(self, call: Call, result: Var) -> Sequence[RelaxExpr] | None:
        """Return the operands of a ``concat`` that are all permuted in the same way."""
        if operator_of(call) != "concat" or not isinstance(call.args[0], Tuple):
            return None
        fields = call.args[0].fields
        orders = {self._order(field) for field in fields}
        return fields if len(fields) > 1 and len(orders) == 1 and None not in orders else None

    def _order(self, leaf: RelaxExpr) -> tuple[int, ...] | None:
        call = self.find_maker("permute_dims", leaf)
        info = tensor_info(leaf)
        if call is None or info is None:
            return None
        axes = call.attrs["axes"]
        given = range(info.ndim)[::-1] if axes is None else axes
        return tuple([axis % info.ndim for axis in given])

    def write(self, call: Call, result: Var) -> Call:
        """Concatenate the original tensors, then permute the axes."""
        assert isinstance(call.args[0], Tuple)
        fields = call.args[0].fields
        order = self._order(fields[0])
        assert order is not None
        parts = [self.single[field].args[0] for field in fields]
        whole = self.builder.emit(
            make_call("concat", parts, order[call.attrs["axis"] % len(order)])
        )
        return make_call("permute_dims", whole, list(order))
