"""Fuse a transposition into the product that reads it, which then indexes the original."""

from __future__ import annotations

from loomir.arith.analyzer import Analyzer
from loomir.ir.module import IRModule
from loomir.ir.passes import register
from loomir.relax.expr import (
    Call,
    DataflowBlock,
    DataflowVar,
    Function,
    VarBinding,
)
from loomir.relax.node import RelaxExpr
from loomir.relax.normal.rewriter import Rewriter
from loomir.relax.shape import as_dim
from loomir.support.dtype import DataType
from loomir.te import topi
from loomir.te.tensor import Tensor
from loomir.transform.relax.graph_reading import (
    count_uses,
    dataflow_blocks,
    operator_of,
    tensor_info,
)

__all__ = ["fuse_transpose_matmul"]


@register("relax.FuseTransposeMatmul", requires={"relax_normal_form"})
def fuse_transpose_matmul(mod: IRModule) -> IRModule:
    """Write ``matmul`` of matrices transposed by ``permute_dims`` as kernels on the originals.

    This applies in a dataflow block, if the last two axes are swapped, only products use the
    result, and all extents are known. The kernels are ``NT_matmul`` if the right operand was
    transposed, ``TN_matmul`` and ``TT_matmul``. Each element is the sum of the same products in the
    same order.
    """
    fuser = _Fuse(mod)
    for func in mod.functions.values():
        if isinstance(func, Function):
            fuser.plan(func)
    return fuser.rewrite_module() if fuser.sources else mod


class _Fuse(Rewriter):
    def __init__(self, mod: IRModule) -> None:
        super().__init__(mod)
        self.sources: dict[RelaxExpr, RelaxExpr] = {}
        """The original of each transposed matrix that only products use."""

    # -- selection -------------------------------------------------------------------------------
    def plan(self, func: Function) -> None:
        """Find the transposed matrices of a function that need not be computed."""
        uses = count_uses(func)
        for block in dataflow_blocks(func):
            sources = _find_transposed(block)
            if not sources:
                continue
            taken = dict.fromkeys(sources, 0)
            for binding in block.bindings:
                if isinstance(binding, VarBinding) and _is_known(binding.value):
                    call = binding.value
                    assert isinstance(call, Call)
                    for operand in call.args:
                        if operand in taken:
                            taken[operand] += 1
            self.sources |= {
                var: source
                for var, source in sources.items()
                if taken[var] and taken[var] == uses[var]
            }

    # -- rewriting -------------------------------------------------------------------------------
    def rewrite_var_binding(self, binding: VarBinding, value: RelaxExpr) -> None:
        """Drop transposed matrices, and multiply by their originals."""
        if binding.var in self.sources:
            return
        if operator_of(binding.value) == "matmul":
            assert isinstance(binding.value, Call)
            assert isinstance(value, Call)
            flags = [operand in self.sources for operand in binding.value.args]
            if any(flags):
                operands = [self.sources.get(a, a) for a in binding.value.args]
                value = self._product(operands, flags, value)
        self.emit_binding(binding, value)

    def _product(self, operands: list[RelaxExpr], flags: list[bool], call: Call) -> RelaxExpr:
        left, right = flags
        name = f"{'NT'[left]}{'NT'[right]}_matmul"
        out: DataType | None = call.attrs["out_dtype"]

        def product(x1: Tensor, x2: Tensor) -> Tensor:
            return topi.matmul(x1, x2, None if out is None else str(out), left, right)

        given = self.builder.call_te(
            product, *operands, primfunc_name_hint=name, primfunc_attrs={"op": "relax.matmul"}
        )
        return Call(given.op, given.args, given.sinfo_args, given.attrs, span=call.span)


def _find_transposed(block: DataflowBlock) -> dict[RelaxExpr, RelaxExpr]:
    """Return the original of each matrix that ``permute_dims`` transposes in a block."""
    found: dict[RelaxExpr, RelaxExpr] = {}
    for binding in block.bindings:
        if not isinstance(binding, VarBinding) or operator_of(binding.value) != "permute_dims":
            continue
        call = binding.value
        assert isinstance(call, Call)
        (source,) = call.args
        info = tensor_info(source)
        if info is None or info.dims is None or info.ndim < 2:
            continue
        axes = call.attrs["axes"]
        order = range(info.ndim)[::-1] if axes is None else [a % info.ndim for a in axes]
        swapped = [*range(info.ndim - 2), info.ndim - 1, info.ndim - 2]
        if isinstance(binding.var, DataflowVar) and list(order) == swapped:
            found[binding.var] = source
    return found


def _is_known(value: RelaxExpr) -> bool:
    """Tell whether a product's extents certainly fit, so that no check at run time is needed."""
    if operator_of(value) != "matmul":
        return False
    assert isinstance(value, Call)
    infos = [tensor_info(operand) for operand in value.args]
    dims = [None if info is None else info.dims for info in infos]
    left, right = dims
    if left is None or right is None:
        return False
    analyzer = Analyzer()
    inner = right[0] if len(right) == 1 else right[-2]
    if not analyzer.can_prove_equal(left[-1], inner):
        return False
    pairs = zip(left[-3::-1], right[-3::-1])
    one = as_dim(1)
    return all(any(map(analyzer.can_prove_equal, (a, a, b), (b, one, one))) for a, b in pairs)
