"""Replace ``take`` at a constant index by a slice, which kernels read in place."""

from __future__ import annotations

from loomir.ir.module import IRModule
from loomir.ir.passes import register
from loomir.relax.expr import Call, Constant, Function
from loomir.relax.node import RelaxExpr
from loomir.relax.normal.rewriter import Rewriter
from loomir.transform.relax.graph_reading import (
    extent_of,
    make_call,
    operator_of,
    operators_in,
    tensor_info,
)

__all__ = ["slice_constant_take"]


@register("relax.SliceConstantTake", requires={"relax_normal_form"})
def slice_constant_take(mod: IRModule) -> IRModule:
    """Replace ``take`` of one constant index that is in range by a slice.

    This applies if all extents are known. A slice needs no check, so that its kernel can be fused:
    models take keys and values out of a cache in one tensor.
    """
    found = any(
        "take" in operators_in(f) for f in mod.functions.values() if isinstance(f, Function)
    )
    return _Slice(mod).rewrite_module() if found else mod


class _Slice(Rewriter):
    def rewrite_call(self, call: Call) -> RelaxExpr:
        """Replace a call that takes one constant index."""
        if operator_of(call) != "take" or len(call.args) != 2:
            return call
        source, place = call.args
        axis, info = call.attrs.get("axis"), tensor_info(source)
        if not isinstance(place, Constant) or place.data.shape or info is None or axis is None:
            return call
        if not place.data.dtype.is_int and not place.data.dtype.is_uint:
            return call
        index, axis = int(place.data.data), int(axis) % info.ndim
        extent = extent_of(info, axis)
        if info.dims is None or extent is None or not 0 <= index < extent:
            return call
        part = self.builder.emit(make_call("strided_slice", source, [axis], [index], [index + 1]))
        left = [d for k, d in enumerate(info.dims) if k != axis]
        made = make_call("reshape", part, left)
        return Call(made.op, made.args, made.sinfo_args, made.attrs, span=call.span)
