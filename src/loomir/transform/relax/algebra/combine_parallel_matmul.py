"""Combine products that share their left operand into one product."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from loomir.arith.analyzer import Analyzer
from loomir.ir.module import IRModule
from loomir.ir.passes import register
from loomir.relax.expr import (
    Call,
    DataflowBlock,
    Function,
    MatchCast,
    TupleGetItem,
    Var,
    VarBinding,
)
from loomir.relax.node import RelaxExpr
from loomir.relax.normal.rewriter import Rewriter
from loomir.relax.struct_info import TensorStructInfo
from loomir.transform.relax.graph_reading import (
    dataflow_blocks,
    extent_of,
    make_call,
    operator_of,
    tensor_info,
)

__all__ = ["CombineParallelMatmulOptions", "combine_parallel_matmul"]


@dataclass(frozen=True, slots=True)
class CombineParallelMatmulOptions:
    """Which products to combine: those for which ``check(left, rights)`` holds, or all."""

    check: Callable[[RelaxExpr, Sequence[RelaxExpr]], bool] | None = None


@register("relax.CombineParallelMatmul", requires={"relax_normal_form"})
def combine_parallel_matmul(
    mod: IRModule, options: CombineParallelMatmulOptions = CombineParallelMatmulOptions()
) -> IRModule:
    """Combine several ``matmul`` with the same left operand into one ``matmul`` and a ``split``.

    This applies in a dataflow block, if the right operands are bound before the first product and
    differ only in their last extents, which are numbers. They are concatenated, which costs a copy
    unless they are constant. Each element remains the sum of the same products.
    """
    combiner = _Combine(mod, options)
    for func in mod.functions.values():
        for block in dataflow_blocks(func) if isinstance(func, Function) else ():
            combiner.plan(block)
    return combiner.rewrite_module() if combiner.groups else mod


@dataclass(slots=True)
class _Group:
    """Products to be combined: their variables, right operands, and the widths of those."""

    first: int
    """The index of the first product, where the combined one will be."""
    analyzer: Analyzer
    variables: list[Var] = field(default_factory=list[Var])
    rights: list[RelaxExpr] = field(default_factory=list[RelaxExpr])
    widths: list[int] = field(default_factory=list[int])
    parts: RelaxExpr | None = None
    """The parts of the combined product, once it exists."""

    def takes(self, info: TensorStructInfo) -> bool:
        """Tell whether a right operand can be concatenated with the others."""
        own = tensor_info(self.rights[0])
        assert own is not None
        assert own.dims is not None
        assert info.dims is not None
        if own.ndim != info.ndim or own.dtype is not info.dtype or own.vdevice != info.vdevice:
            return False
        pairs = zip(own.dims[:-1], info.dims[:-1])
        return all(a is b or self.analyzer.can_prove_equal(a, b) for a, b in pairs)


class _Combine(Rewriter):
    def __init__(self, mod: IRModule, options: CombineParallelMatmulOptions) -> None:
        super().__init__(mod)
        self.check = options.check
        self.groups: dict[Var, tuple[_Group, int]] = {}
        """For each product that is combined with others, its group and its index there."""

    # -- selection -------------------------------------------------------------------------------
    def plan(self, block: DataflowBlock) -> None:
        """Find what to combine in a block."""
        place: dict[RelaxExpr | None, int] = {
            b.var: at
            for at, b in enumerate(block.bindings)
            if isinstance(b, (VarBinding, MatchCast))
        }
        begun: dict[tuple[Var, str, int], list[_Group]] = {}
        for at, binding in enumerate(block.bindings):
            if not isinstance(binding, VarBinding) or operator_of(binding.value) != "matmul":
                continue
            call = binding.value
            assert isinstance(call, Call)
            left, right = call.args
            info, result = tensor_info(right), tensor_info(binding.var)
            if info is None or result is None or info.ndim < 2 or not isinstance(left, Var):
                continue
            width = extent_of(info, -1)
            if width is None:
                continue
            groups = begun.setdefault((left, str(call.attrs["out_dtype"]), info.ndim), [])
            # All operands must be bound before the group's product. Only the last group is tried,
            # for linear time.
            group = groups[-1] if groups else None
            if group is None or place.get(right, -1) >= group.first or not group.takes(info):
                group = _Group(at, Analyzer())
                groups.append(group)
            group.variables.append(binding.var)
            group.rights.append(right)
            group.widths.append(width)
        for (left, _, _), groups in begun.items():
            for group in groups:
                if len(group.rights) < 2:
                    continue
                if self.check is None or self.check(left, tuple(group.rights)):
                    self.groups |= {v: (group, k) for k, v in enumerate(group.variables)}

    # -- rewriting -------------------------------------------------------------------------------
    def rewrite_var_binding(self, binding: VarBinding, value: RelaxExpr) -> None:
        """Replace a product by its part of the combined one, which the first of them creates."""
        found = self.groups.get(binding.var)
        if found is None:
            return self.emit_binding(binding, value)
        group, number = found
        if group.parts is None:
            assert isinstance(value, Call)
            group.parts = self._combine_group(group, value)
        return self.emit_binding(binding, TupleGetItem(group.parts, number))

    def _combine_group(self, group: _Group, call: Call) -> RelaxExpr:
        own = tensor_info(group.rights[0])
        assert own is not None
        right = self.builder.emit(make_call("concat", group.rights, own.ndim - 1))
        args = (call.args[0], right)
        whole = self.builder.emit(Call(call.op, args, attrs=call.attrs, span=call.span))
        info = tensor_info(whole)
        assert info is not None
        places: list[int] = []
        for width in group.widths[:-1]:
            places.append(width + (places[-1] if places else 0))
        return self.builder.emit(make_call("split", whole, places, info.ndim - 1))
