"""Replace kernels that only reshape by ``R.reshape``, which makes a view."""

from __future__ import annotations

from collections.abc import Sequence

from loomir.arith.bounds.expression_bounds import Bounds
from loomir.arith.bounds.interval import Interval
from loomir.arith.bounds.widen import Widener
from loomir.ir.module import GlobalVar, IRModule
from loomir.ir.passes import register
from loomir.ir.substitution import substitute
from loomir.relax.expr import Call, Tuple
from loomir.relax.node import RelaxExpr
from loomir.relax.normal.rewriter import Rewriter
from loomir.relax.shape import INT64, ShapeExpr, as_dim
from loomir.relax.struct_info import TensorStructInfo
from loomir.tir.buffer import Buffer, BufferLoad, Range
from loomir.tir.expr import Add, IntImm, Mul, PrimExpr, Sub, Var, cast, const
from loomir.tir.function import PrimFunc
from loomir.transform.relax.fusion.loop_nests import elements_of, parts_of, size_analyzer
from loomir.transform.relax.graph_reading import make_call, operator_of

__all__ = ["rewrite_dataflow_reshape"]


@register(
    "relax.RewriteDataflowReshape",
    requires={"relax_normal_form"},
    breaks={"functions_used", "operators_lowered"},
)
def rewrite_dataflow_reshape(mod: IRModule) -> IRModule:
    """Replace ``call_tir`` of a kernel that only copies elements in order by ``reshape``.

    This applies in dataflow blocks. The proof uses only the kernel's indices, not the operator that
    it was made for. The kernel is left to ``DeadCodeElimination``.
    """
    return _Rewrite(mod).rewrite_module()


class _Rewrite(Rewriter):
    def __init__(self, mod: IRModule) -> None:
        super().__init__(mod)
        self.known: dict[str, bool] = {}
        """Whether each kernel, by name, only reshapes."""

    def rewrite_call(self, call: Call) -> RelaxExpr:
        """Replace a call of a kernel that only reshapes."""
        if operator_of(call) != "call_tir" or not self.builder.in_dataflow:
            return call
        var, args, *_ = call.args
        (info, *others) = call.sinfo_args
        if not isinstance(var, GlobalVar) or not isinstance(args, Tuple) or others:
            return call
        if not isinstance(info, TensorStructInfo) or not isinstance(info.shape, ShapeExpr):
            return call
        if len(args.fields) != 1 or not self._reshapes(var):
            return call
        source = self.builder.struct_info_of(args.fields[0])
        if not isinstance(source, TensorStructInfo) or source.vdevice != info.vdevice:
            return call
        reshaped = make_call("reshape", args.fields[0], info.shape)
        return Call(reshaped.op, reshaped.args, attrs=reshaped.attrs, span=call.span)

    def _reshapes(self, var: GlobalVar) -> bool:
        found = self.known.get(var.name_hint)
        if found is None:
            func = self.mod[var]
            found = isinstance(func, PrimFunc) and _is_reshape(func)
            self.known[var.name_hint] = found
        return found


def _is_reshape(func: PrimFunc) -> bool:
    """Prove that a kernel stores each element at the same position in row-major order."""
    allocated, parts = parts_of(func)
    if allocated or len(parts) != 1:
        return False
    buffers = list(func.buffer_map.values())
    analyzer = size_analyzer(iter(buffers))
    elements = elements_of(parts[0], analyzer)
    if elements is None or len(buffers) != 2 or buffers[1] is not elements.buffer:
        return False
    load, target = elements.value, elements.buffer
    if not isinstance(load, BufferLoad) or load.buffer is not buffers[0]:
        return False
    bounds = Bounds()
    widener = Widener(bounds)
    table: dict[Var, PrimExpr] = {}
    here: list[PrimExpr] = []
    for it, extent in zip(elements.iters, target.shape):
        if it is None or (isinstance(extent, IntImm) and extent.value == 1):
            here.append(as_dim(0))
            if it is not None:
                table[it] = const(0, it.dtype)
            continue
        axis = Var(it.name_hint, INT64)
        here.append(axis)
        table[it] = cast(axis, it.dtype)
        analyzer.bind(axis, Range(as_dim(0), cast(extent, INT64)))
        bounds.set(axis, Interval(0, max(0, bounds.of(extent).high - 1)))
    there = [widener.widen(substitute(index, table)) for index in load.indices]
    difference = analyzer.simplify(Sub(_number(here, target), _number(there, load.buffer)))
    return isinstance(difference, IntImm) and difference.value == 0


def _number(indices: Sequence[PrimExpr], buffer: Buffer) -> PrimExpr:
    """Count the elements before an index, in row-major order."""
    made_of: PrimExpr = as_dim(0)
    for index, extent in zip(indices, buffer.shape):
        made_of = Add(Mul(made_of, cast(extent, INT64)), index)
    return made_of
