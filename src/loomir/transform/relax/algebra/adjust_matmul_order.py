"""Reassociate a product of three matrices to the order with fewer multiplications."""

from __future__ import annotations

from collections.abc import Sequence

from loomir.arith.analyzer import Analyzer
from loomir.ir.passes import register
from loomir.ir.visit import pre_order
from loomir.relax.expr import Call, Function, Var
from loomir.relax.node import RelaxExpr
from loomir.relax.shape import as_dim
from loomir.tir.expr import Add, Mul, PrimExpr, Sub
from loomir.tir.expr import Var as ShapeVar
from loomir.transform.relax.algebra.joint_rewriter import JointRewriter
from loomir.transform.relax.graph_reading import make_call, operator_of, tensor_info

__all__ = ["adjust_matmul_order"]


@register("relax.AdjustMatmulOrder", requires={"relax_normal_form"})
def adjust_matmul_order(func: Function) -> Function:
    """Write ``(x @ a) @ b`` as ``x @ (a @ b)``, or vice versa, if that is certainly cheaper.

    This applies in dataflow blocks, if nothing else uses the inner product, ``a`` and ``b`` are
    matrices, and ``x`` has at least two axes. The order must be cheaper for all values of symbolic
    extents. Results differ by the rounding of sums of products.
    """
    return _Adjust(func).run()


class _Adjust(JointRewriter):
    def match(self, call: Call, result: Var) -> Sequence[RelaxExpr] | None:
        """Return the operands of a product whose order should change."""
        if operator_of(call) != "matmul" or call.attrs["out_dtype"] is not None:
            return None
        for at in (0, 1):
            operands = self._operands(call, at)
            if operands is not None and self._is_cheaper(operands, at == 0):
                return (call.args[at],)
        return None

    def _operands(self, call: Call, at: int) -> tuple[RelaxExpr, ...] | None:
        """Return the three matrices, if the operand ``at`` is a product of two."""
        inner = self.find_maker("matmul", call.args[at])
        if inner is None or inner.attrs["out_dtype"] is not None:
            return None
        return (*inner.args, call.args[1]) if at == 0 else (call.args[0], *inner.args)

    def _is_cheaper(self, operands: Sequence[RelaxExpr], from_left: bool) -> bool:
        """Tell whether the other order takes fewer multiplications than that of ``from_left``."""
        dims: list[tuple[PrimExpr, ...]] = []
        for operand in operands:
            info = tensor_info(operand)
            if info is None or info.dims is None:
                return False
            dims.append(info.dims)
        x, a, b = dims
        if len(x) < 2 or len(a) != 2 or len(b) != 2:
            return False
        analyzer = Analyzer()
        for var in {p: None for d in (*x, *a, *b) for p in pre_order(d) if isinstance(p, ShapeVar)}:
            analyzer.assume_size(var)
        rows: PrimExpr = as_dim(1)
        for extent in x[:-1]:
            rows = Mul(rows, extent)
        left = Add(Mul(rows, Mul(x[-1], a[1])), Mul(rows, Mul(a[1], b[1])))
        right = Add(Mul(a[0], Mul(a[1], b[1])), Mul(rows, Mul(x[-1], b[1])))
        saved = Sub(left, right) if from_left else Sub(right, left)
        at_least = analyzer.can_prove_greater_equal(saved, 0)
        return at_least and not analyzer.can_prove_equal(saved, as_dim(0))

    def write(self, call: Call, result: Var) -> Call:
        """Multiply in the other order."""
        at = 0 if call.args[0] in self.dropped else 1
        operands = self._operands(call, at)
        assert operands is not None
        x, a, b = operands
        if at == 0:
            return make_call("matmul", x, self.builder.emit(make_call("matmul", a, b)))
        return make_call("matmul", self.builder.emit(make_call("matmul", x, a)), b)
