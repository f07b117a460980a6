"""Fuse zero points, and the widening of bytes, into integer products that use them."""

from __future__ import annotations

from typing import Final

from loomir.arith.analyzer import Analyzer
from loomir.ir.module import IRModule
from loomir.ir.op import Op
from loomir.ir.passes import register
from loomir.relax.expr import Call, Function
from loomir.relax.node import RelaxExpr
from loomir.relax.normal.rewriter import Rewriter
from loomir.relax.operator.definition import op_def
from loomir.relax.shape import as_dim
from loomir.te import topi
from loomir.te.tensor import Tensor
from loomir.tir.expr import IntImm, PrimExpr
from loomir.transform.relax.bindings.dead_code_elimination import dead_code_elimination
from loomir.transform.relax.graph_reading import operator_of, operators_in, tensor_info
from loomir.transform.relax.quantization.graph_values import INT32, GraphValues, dtype_of
from loomir.transform.relax.quantization.integer_factors import (
    IntegerFactor,
    read_factor,
    widen_factor,
)

__all__ = [
    "CONVOLUTIONS",
    "fits_for_certain",
    "fuse_zero_points",
    "integer_product",
    "product_with_bytes",
]

CONVOLUTIONS: Final = ("nn.conv1d", "nn.conv2d", "nn.conv3d")
_PRODUCTS: Final = ("matmul", *CONVOLUTIONS)


@register("relax.FuseZeroPoints", requires={"relax_normal_form"}, breaks={"functions_used"})
def fuse_zero_points(mod: IRModule) -> IRModule:
    """Replace products of bytes minus zero points by kernels that read bytes.

    This applies in dataflow blocks to ``matmul`` and ``nn.conv1d`` to ``nn.conv3d`` of int32, if
    both operands are int8 or uint8 converted by ``astype``, maybe followed by ``subtract``.
    Constants stay bytes, and kernels use instructions for bytes. Integers wrap, so that results are
    identical.
    """
    graphs = [func for func in mod.functions.values() if isinstance(func, Function)]
    if not any(operators_in(func).intersection(_PRODUCTS) for func in graphs):
        return mod
    made = _Fuse(mod).rewrite_module()
    # Unused operands are removed now, since folding would widen constants among them.
    return mod if made is mod else dead_code_elimination(made)


class _Fuse(Rewriter):
    def __init__(self, mod: IRModule) -> None:
        super().__init__(mod)
        self.values = GraphValues(self.lookup)

    def rewrite_call(self, call: Call) -> RelaxExpr:
        """Replace a product of bytes by a call of a kernel."""
        if operator_of(call) not in _PRODUCTS or len(call.args) != 2:
            return call
        if call.attrs["out_dtype"] not in (None, INT32):
            return call
        if any(dtype_of(arg) is not INT32 for arg in call.args):
            return call
        left, right = (read_factor(self.values, arg) for arg in call.args)
        if left is None or right is None or not fits_for_certain(call):
            return call
        return integer_product(self, call, left, right)


def integer_product(
    rewriter: Rewriter, call: Call, left: IntegerFactor, right: IntegerFactor
) -> Call:
    """Call a kernel that multiplies two factors like an operator, and accumulates in int32."""
    assert isinstance(call.op, Op)
    definition = op_def(call.op)
    lower = definition.lower
    assert lower is not None
    attrs = {**call.attrs, "out_dtype": INT32}

    def product(a: Tensor, b: Tensor, az: Tensor | None, bz: Tensor | None) -> Tensor:
        return lower(widen_factor(a, az), widen_factor(b, bz), **attrs)

    made = rewriter.builder.call_te(
        product,
        left.codes,
        right.codes,
        left.zero,
        right.zero,
        primfunc_name_hint=f"integer_{call.op.name.rpartition('.')[2]}",
        primfunc_attrs={"op": call.op.name},
    )
    return Call(made.op, made.args, made.sinfo_args, made.attrs, span=call.span)


def product_with_bytes(rewriter: Rewriter, call: Call, right: IntegerFactor) -> Call:
    """Call a kernel that multiplies floats by bytes minus a zero point, like an operator."""
    assert isinstance(call.op, Op)
    lower = op_def(call.op).lower
    assert lower is not None

    def product(a: Tensor, b: Tensor, zero: Tensor | None) -> Tensor:
        return lower(a, topi.cast(widen_factor(b, zero), "float32"), **call.attrs)

    made = rewriter.builder.call_te(
        product,
        call.args[0],
        right.codes,
        right.zero,
        primfunc_name_hint=f"{call.op.name.rpartition('.')[2]}_with_bytes",
        primfunc_attrs={"op": call.op.name},
    )
    return Call(made.op, made.args, made.sinfo_args, made.attrs, span=call.span)


def fits_for_certain(call: Call) -> bool:
    """Tell whether a product's extents certainly fit, so that no check at run time is needed."""
    infos = [tensor_info(arg) for arg in call.args[:2]]
    left, right = [None if info is None else info.dims for info in infos]
    if left is None or right is None or not left or not right:
        return False
    if operator_of(call) != "matmul":
        return all(isinstance(d, IntImm) for d in (*left[1:], *right))
    analyzer = Analyzer()
    inner = right[0] if len(right) == 1 else right[-2]
    return analyzer.can_prove_equal(left[-1], inner) and all(
        _broadcasts(analyzer, a, b) for a, b in zip(left[-3::-1], right[-3::-1])
    )


def _broadcasts(analyzer: Analyzer, a: PrimExpr, b: PrimExpr) -> bool:
    one = as_dim(1)
    return any(map(analyzer.can_prove_equal, (a, a, b), (b, one, one)))
