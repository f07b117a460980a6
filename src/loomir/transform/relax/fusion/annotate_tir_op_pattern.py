"""Annotate each kernel with its pattern, which decides what it can be fused with."""

from __future__ import annotations

from loomir.ir.passes import register
from loomir.tir.function import PrimFunc
from loomir.transform.relax.fusion.op_pattern import op_pattern

__all__ = ["annotate_tir_op_pattern"]


@register("relax.AnnotateTIROpPattern")
def annotate_tir_op_pattern(func: PrimFunc) -> PrimFunc:
    """Set the attribute ``op_pattern`` of a kernel, unless it has one.

    The values are 0 element-wise, 1 broadcast, 2 injective, 3 reduction, 4 output-fusable, 8
    opaque.
    """
    if "op_pattern" in func.attrs:
        return func
    attrs = {**func.attrs, "op_pattern": int(op_pattern(func))}
    return PrimFunc(func.params, func.body, func.ret_type, func.buffer_map, attrs, span=func.span)
