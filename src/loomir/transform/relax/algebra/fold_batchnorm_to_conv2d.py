"""Fold batch normalisation into the convolution before it: scale kernels, add a bias."""

from __future__ import annotations

from collections import Counter
from typing import Any, Final, NamedTuple

import numpy as np

from loomir.ir.node import Node
from loomir.ir.passes import register
from loomir.op.nn.layouts import pack_array, read_layout, unpack_array
from loomir.relax.expr import (
    Call,
    Constant,
    DataflowBlock,
    DataflowVar,
    Function,
    TupleGetItem,
    Var,
    VarBinding,
)
from loomir.relax.node import RelaxExpr
from loomir.relax.normal.rewriter import Rewriter
from loomir.relax.operator.reference import NPArray, xp
from loomir.support.array import Array
from loomir.support.dtype import numpy_of
from loomir.transform.relax.graph_reading import (
    constant_in,
    count_uses,
    dataflow_blocks,
    make_call,
    operator_of,
    tensor_info,
    values_in,
)

__all__ = ["channel_axis", "fold_batchnorm_to_conv2d", "normalization_factors"]

_KERNELS: Final = {"nn.conv1d": "OIW", "nn.conv2d": "OIHW", "nn.conv3d": "OIDHW"}
"""The axes of each operator's kernel."""


@register("relax.FoldBatchnormToConv2D", requires={"relax_normal_form"})
def fold_batchnorm_to_conv2d(func: Function) -> Function:
    """Fold ``nn.batch_norm`` for inference into the convolution of which it normalises the result.

    The kernel is multiplied by ``gamma / sqrt(moving_var + epsilon)``, and ``beta - moving_mean *
    gamma / sqrt(moving_var + epsilon)`` is added. This applies in a dataflow block, also to
    ``conv1d`` and ``conv3d``, if kernel and parameters are constants, and nothing else uses the
    convolution's result or the kernel. Products are rounded differently than before: their sums
    differ by the tolerance of a convolution, times that factor.
    """
    folder = _Fold()
    folder.plan(func)
    return folder.rewrite_function(func) if folder.folds else func


class _Match(NamedTuple):
    """A convolution and the normalisation of its result."""

    conv: VarBinding
    kernel: NPArray
    shift: NPArray
    """The terms to add, in the layout of the convolution's result."""
    moving: tuple[RelaxExpr, RelaxExpr]


class _Fold(Rewriter):
    def __init__(self) -> None:
        super().__init__()
        self.folds: dict[RelaxExpr, _Match] = {}
        """What to fold, by the variable of the normalisation."""
        self.dropped: set[RelaxExpr] = set()
        self.convs: dict[Var, Call] = {}
        self.results: dict[RelaxExpr, RelaxExpr] = {}

    def plan(self, func: Function) -> None:
        """Find the normalisations of a function that can be folded."""
        uses = count_uses(func)
        for block in dataflow_blocks(func):
            reader = _Reader(block, uses)
            for binding in block.bindings:
                if isinstance(binding, VarBinding):
                    match = reader.match(binding)
                    if match is not None:
                        self.folds[binding.var] = match
                        self.dropped |= {binding.var, match.conv.var}

    def rewrite_var_binding(self, binding: VarBinding, value: RelaxExpr) -> None:
        """Bind the folded convolution where the normalisation's result is taken out."""
        if binding.var in self.dropped:
            if binding.var not in self.folds:
                assert isinstance(value, Call)
                self.convs[binding.var] = value
            return None
        field = binding.value
        match = self.folds.get(field.tuple_value) if isinstance(field, TupleGetItem) else None
        if match is None:
            return self.emit_binding(binding, value)
        assert isinstance(field, TupleGetItem)
        if field.index:
            return self.emit_binding(binding, match.moving[field.index - 1])
        made_before = self.results.get(field.tuple_value)
        if made_before is not None:
            return self.emit_binding(binding, made_before)
        conv = self.convs[match.conv.var]
        args = (conv.args[0], Constant(Array(match.kernel)))
        scaled = Call(conv.op, args, attrs=conv.attrs, span=conv.span)
        lone = self.builder.emit(scaled, match.conv.var.name_hint)
        self.emit_binding(binding, make_call("add", lone, Constant(Array(match.shift))))
        self.results[field.tuple_value] = self.builder.normalize(binding.var)


class _Reader:
    """Reads a dataflow block."""

    def __init__(self, block: DataflowBlock, uses: Counter[Node]) -> None:
        self.uses = uses
        self.values = values_in(block)
        self.bindings: dict[RelaxExpr, VarBinding] = {
            b.var: b for b in block.bindings if isinstance(b, VarBinding)
        }
        self.taken: Counter[RelaxExpr] = Counter(
            value.tuple_value for value in self.values.values() if isinstance(value, TupleGetItem)
        )
        """How often fields of each tuple are taken out in this block."""

    def match(self, binding: VarBinding) -> _Match | None:
        """Return how to fold a normalisation, None if it must stay."""
        call = binding.value
        if operator_of(call) != "nn.batch_norm":
            return None
        assert isinstance(call, Call)
        taken = self.taken[binding.var]
        if call.attrs["training"] or not taken or taken != self.uses[binding.var]:
            return None
        conv = self.bindings.get(call.args[0])
        statistics = [constant_in(self.values, arg) for arg in call.args[1:]]
        if conv is None or any(array is None for array in statistics):
            return None
        if not isinstance(conv.var, DataflowVar) or self.uses[conv.var] > 1:
            return None
        assert isinstance(conv.value, Call)
        kernel_axes = _KERNELS.get(operator_of(conv.value))
        if kernel_axes is None:
            return None
        weight = conv.value.args[1]
        kernel, info = constant_in(self.values, weight), tensor_info(conv.var)
        channels = channel_axis(conv.value.attrs["out_layout"])
        if kernel is None or info is None or self.uses[weight] > 1 or channels is None:
            return None
        if call.attrs["axis"] % info.ndim != channels or kernel.dtype != numpy_of(info.dtype):
            return None
        scale, shift = normalization_factors(call, statistics)
        if not np.isfinite(scale).all() or not np.isfinite(shift).all():
            return None
        layout = conv.value.attrs["kernel_layout"]
        plain = unpack_array(kernel, layout, kernel_axes).astype("float64")
        scaled = pack_array(
            plain * xp.reshape(scale, (-1, *[1] * (plain.ndim - 1))), kernel_axes, layout
        )
        expanded = xp.reshape(shift, [-1 if axis == channels else 1 for axis in range(info.ndim)])
        moving = (call.args[3], call.args[4])
        return _Match(conv, scaled.astype(kernel.dtype), expanded.astype(kernel.dtype), moving)


def channel_axis(layout: str) -> int | None:
    """Return the axis of channels, None if it is split into blocks."""
    read = read_layout(layout)
    if read is None or read.blocks:
        return None
    return [letter for letter, _ in read.parts].index("C")


def normalization_factors(call: Call, statistics: list[Any]) -> tuple[NPArray, NPArray]:
    """Return the factor of each channel, and the term that is added afterwards."""
    gamma, beta, mean, variance = (array.astype("float64") for array in statistics)
    with np.errstate(all="ignore"):
        scale = 1 / np.sqrt(variance + call.attrs["epsilon"])
        if call.attrs["scale"]:
            scale = scale * gamma
        shift = -mean * scale
        if call.attrs["center"]:
            shift = shift + beta
    return scale, shift
