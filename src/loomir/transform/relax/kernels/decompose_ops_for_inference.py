"""Replace training operators by the operators that they compute in inference."""

from __future__ import annotations

from loomir.ir.module import IRModule
from loomir.ir.op import Op
from loomir.ir.passes import register
from loomir.relax.expr import Call, Constant, Tuple
from loomir.relax.node import RelaxExpr
from loomir.relax.normal.rewriter import Rewriter
from loomir.relax.operator.definition import find_op
from loomir.relax.struct_info import TensorStructInfo
from loomir.support.array import Array
from loomir.support.diagnostics import InternalError
from loomir.support.dtype import numpy_of

__all__ = ["decompose_ops_for_inference"]


@register("relax.DecomposeOpsForInference", requires={"relax_normal_form"})
def decompose_ops_for_inference(mod: IRModule) -> IRModule:
    """Replace ``nn.batch_norm`` by arithmetic with its moving statistics; remove ``nn.dropout``.

    A normalisation for training is also computed as for inference, from its moving statistics,
    which stay unchanged.
    """
    return _Decompose(mod).rewrite_module()


class _Decompose(Rewriter):
    def rewrite_call(self, call: Call) -> RelaxExpr:
        """Return the replacement of a call."""
        name = call.op.name if isinstance(call.op, Op) else ""
        if name == "relax.nn.batch_norm":
            return self._batch_norm(call)
        if name == "relax.nn.dropout":
            ones = _make_call("ones_like", call.args[0])
            return Tuple((call.args[0], self.builder.emit(ones)))
        return call

    def _batch_norm(self, call: Call) -> RelaxExpr:
        data, gamma, beta, mean, variance = call.args
        info = self.builder.struct_info_of(data)
        if not isinstance(info, TensorStructInfo) or info.ndim < 0 or info.dtype.is_void:
            return call
        axis = int(call.attrs["axis"]) % info.ndim
        others = [k for k in range(info.ndim) if k != axis]
        emit = self.builder.emit

        def expand(value: RelaxExpr) -> RelaxExpr:
            return emit(_make_call("expand_dims", value, others)) if others else value

        epsilon = numpy_of(info.dtype).type(call.attrs["epsilon"])
        made: RelaxExpr = emit(_make_call("subtract", data, expand(mean)))
        wide = emit(_make_call("add", expand(variance), Constant(Array(epsilon))))
        made = emit(_make_call("divide", made, emit(_make_call("sqrt", wide))))
        if call.attrs["scale"]:
            made = emit(_make_call("multiply", made, expand(gamma)))
        if call.attrs["center"]:
            made = emit(_make_call("add", made, expand(beta)))
        return Tuple((made, mean, variance))


def _make_call(name: str, *args: object) -> Call:
    found = find_op(f"relax.{name}")
    if found is None:
        raise InternalError(f"there is no operator {name}")
    return found.call(*args)
