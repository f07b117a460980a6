"""Fold a scale and shift of a convolution's channels into its kernel and one addition."""

from __future__ import annotations

from collections import Counter
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np

from loomir.ir.node import Node
from loomir.ir.passes import register
from loomir.op.nn.layouts import pack_array, unpack_array
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
from loomir.relax.struct_info import TensorStructInfo
from loomir.support.array import Array
from loomir.support.dtype import numpy_of
from loomir.transform.relax.algebra.fold_batchnorm_to_conv2d import (
    channel_axis,
    normalization_factors,
)
from loomir.transform.relax.graph_reading import (
    constant_in,
    count_uses,
    dataflow_blocks,
    extent_of,
    make_call,
    operator_of,
    tensor_info,
    values_in,
)

__all__ = ["fold_affine_to_conv"]

_KERNELS: Final = {
    f"nn.conv{len(space)}d{transposed}": f"{pair}{space}"
    for space in ("W", "HW", "DHW")
    for transposed, pair in (("", "OI"), ("_transpose", "IO"))
}
"""The axes of each operator's kernel."""
_TYPES: Final = ("float32", "float64")
"""Narrower types lose weights that a scale makes small."""
_Affine: TypeAlias = "tuple[NPArray, NPArray]"
"""The factors of the channels, and the terms that are added afterwards."""


@register("relax.FoldAffineToConv", requires={"relax_normal_form"})
def fold_affine_to_conv(func: Function) -> Function:
    """Fold ``nn.batch_norm``, products and sums with a constant per channel into convolutions.

    This applies in a dataflow block, if the kernel is constant, nothing else uses it or an
    intermediate result, and all values are finite float32 or float64. The convolution may be
    transposed and have any number of axes. Folded are ``nn.batch_norm`` for inference, ``add``,
    ``subtract``, ``multiply`` and ``divide``. Products are rounded differently than before: results
    differ by the rounding of the sum of their absolute products, times the scale.
    """
    folder = _Fold()
    folder.plan(func)
    return folder.rewrite_function(func) if folder.folds else func


class _Match(NamedTuple):
    conv: Var
    """The variable of the convolution."""
    kernel: NPArray
    """Its kernel, scaled."""
    shift: NPArray | None
    """The terms to add, with the axes of the result, or None."""


class _Fold(Rewriter):
    def __init__(self) -> None:
        super().__init__()
        self.folds: dict[RelaxExpr, _Match] = {}
        """What to fold, by the variable of the last result."""
        self.dropped: set[RelaxExpr] = set()
        self.convs: dict[RelaxExpr, Call] = {}

    def plan(self, func: Function) -> None:
        """Find what to fold in a function."""
        uses = count_uses(func)
        for block in dataflow_blocks(func):
            reader = _Reader(block, uses)
            for binding in block.bindings:
                if isinstance(binding, VarBinding) and operator_of(binding.value) in _KERNELS:
                    self._plan_one(reader, binding)

    def _plan_one(self, reader: _Reader, binding: VarBinding) -> None:
        chain = reader.chain(binding)
        match = None if chain is None else reader.match(binding, chain)
        if chain is not None and match is not None:
            self.folds[chain.end] = match
            self.dropped |= {binding.var, *chain.between}

    def rewrite_var_binding(self, binding: VarBinding, value: RelaxExpr) -> None:
        """Bind the folded convolution in place of the last result."""
        if binding.var in self.dropped:
            if isinstance(value, Call):
                self.convs[binding.var] = value
            return
        match = self.folds.get(binding.var)
        if match is None:
            self.emit_binding(binding, value)
            return
        conv = self.convs[match.conv]
        args = (conv.args[0], Constant(Array(match.kernel)))
        conv = Call(conv.op, args, attrs=conv.attrs, span=conv.span)
        if match.shift is None:
            self.emit_binding(binding, conv)
            return
        product = self.builder.emit(conv, match.conv.name_hint)
        self.emit_binding(binding, make_call("add", product, Constant(Array(match.shift))))


class _Chain(NamedTuple):
    """The affine operations after a convolution, up to the variable ``end``, composed to one."""

    end: Var
    between: tuple[Var, ...]
    affine: _Affine
    worth: bool
    """Whether folding pays: there is more than an addition."""


class _Reader:
    """Reads a dataflow block."""

    def __init__(self, block: DataflowBlock, uses: Counter[Node]) -> None:
        self.uses = uses
        self.values = values_in(block)
        self.takers: dict[RelaxExpr, VarBinding] = {}
        """The last binding that uses each variable; the only one, if it is used once."""
        for binding in block.bindings:
            if isinstance(binding, VarBinding):
                value = binding.value
                if isinstance(value, Call):
                    self.takers.update({a: binding for a in value.args if isinstance(a, Var)})
                elif isinstance(value, TupleGetItem):
                    self.takers[value.tuple_value] = binding

    def chain(self, conv: VarBinding) -> _Chain | None:
        """Compose the operations after a convolution that scale and shift its channels."""
        info = tensor_info(conv.var)
        if info is None or str(info.dtype) not in _TYPES:
            return None
        assert isinstance(conv.value, Call)
        axis = channel_axis(conv.value.attrs["out_layout"])
        channels = None if axis is None else extent_of(info, axis)
        if axis is None or channels is None:
            return None
        scale, shift = xp.ones(channels), xp.zeros(channels)
        end, between, steps, worth = conv.var, list[Var](), 0, False
        while True:
            step = self._step(end, info, axis, channels)
            if step is None:
                break
            binding, (by, plus), through = step
            with np.errstate(all="ignore"):
                scale, shift = scale * by, shift * by + plus
            worth = worth or bool((by != 1).any()) or through is not None or steps > 0
            between += [v for v in (end, through) if v is not None and v is not conv.var]
            end, steps = binding.var, steps + 1
        return _Chain(end, tuple(between), (scale, shift), worth) if worth else None

    def _step(
        self, end: Var, info: TensorStructInfo, axis: int, channels: int
    ) -> tuple[VarBinding, _Affine, Var | None] | None:
        """Return the affine operation on a result, and the variable of its tuple if it has one."""
        taker = self.takers.get(end)
        if not isinstance(end, DataflowVar) or self.uses[end] != 1 or taker is None:
            return None
        call = taker.value
        name = operator_of(call)
        if not isinstance(call, Call):
            return None
        if name == "nn.batch_norm":
            return self._normalization(taker, call, end, axis, info.ndim)
        if name not in ("add", "subtract", "multiply", "divide"):
            return None
        first = call.args[0] is end
        array = constant_in(self.values, call.args[1 if first else 0])
        other = None if array is None else _read_per_channel(array, info, axis, channels)
        if other is None or (name == "divide" and not first):
            return None
        one, none = xp.ones(channels), xp.zeros(channels)
        with np.errstate(all="ignore"):
            if name == "multiply":
                return taker, (other, none), None
            if name == "divide":
                return taker, (1 / other, none), None
            if name == "add":
                return taker, (one, other), None
            return taker, ((one, -other) if first else (-one, other)), None

    def _normalization(
        self, taker: VarBinding, call: Call, end: Var, axis: int, ndim: int
    ) -> tuple[VarBinding, _Affine, Var | None] | None:
        """Read a normalisation of which only the first result is used."""
        field = self.takers.get(taker.var)
        statistics = [constant_in(self.values, arg) for arg in call.args[1:]]
        if call.attrs["training"] or call.attrs["axis"] % ndim != axis or call.args[0] is not end:
            return None
        if field is None or self.uses[taker.var] != 1 or any(s is None for s in statistics):
            return None
        if not isinstance(field.value, TupleGetItem) or field.value.index:
            return None
        return field, normalization_factors(call, statistics), taker.var

    def match(self, binding: VarBinding, chain: _Chain) -> _Match | None:
        """Scale the kernel of a convolution; None if it must stay."""
        conv, info = binding.value, tensor_info(binding.var)
        assert isinstance(conv, Call)
        assert info is not None
        weight = conv.args[1]
        kernel = constant_in(self.values, weight)
        if kernel is None or self.uses[weight] > 1 or kernel.dtype != numpy_of(info.dtype):
            return None
        axes, layout = _KERNELS[operator_of(conv)], conv.attrs["kernel_layout"]
        scale, shift = chain.affine
        plain = unpack_array(kernel, layout, axes).astype("float64")
        with np.errstate(all="ignore"):
            scaled = _scale(plain, scale, axes, conv.attrs["groups"]).astype(kernel.dtype)
            shift = shift.astype(kernel.dtype)
        if not (np.isfinite(scale).all() and np.isfinite(scaled).all()):
            return None
        if not np.isfinite(shift).all():
            return None
        axis = channel_axis(conv.attrs["out_layout"])
        dims = [-1 if k == axis else 1 for k in range(info.ndim)]
        added = xp.reshape(shift, dims) if shift.any() else None
        return _Match(binding.var, pack_array(scaled, axes, layout), added)


def _read_per_channel(
    array: NPArray, info: TensorStructInfo, axis: int, channels: int
) -> NPArray | None:
    """Return a constant as one number for each channel; None if it varies along other axes."""
    if array.ndim > info.ndim or array.dtype != numpy_of(info.dtype):
        return None
    dims = [1] * (info.ndim - array.ndim) + list(array.shape)
    if any(dim != 1 for k, dim in enumerate(dims) if k != axis) or dims[axis] not in (1, channels):
        return None
    return xp.broadcast_to(xp.reshape(array, -1).astype("float64"), (channels,))


def _scale(kernel: NPArray, scale: NPArray, axes: str, groups: Any) -> NPArray:
    """Multiply a kernel, in its own layout, by a number for each output channel."""
    spatial = [1] * (kernel.ndim - 2)
    if axes.startswith("OI"):
        return kernel * xp.reshape(scale, (-1, 1, *spatial))
    # (I, O / groups): the inputs of each group have their own output channels.
    rows, columns, *window = kernel.shape
    whole = xp.reshape(kernel, (groups, rows // groups, columns, *window))
    return xp.reshape(whole * xp.reshape(scale, (groups, 1, columns, *spatial)), kernel.shape)
