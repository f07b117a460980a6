"""Compute on quantised bytes where a graph dequantises, computes and quantises again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from loomir.ir.module import IRModule
from loomir.ir.passes import register
from loomir.op.nn.layouts import read_layout
from loomir.relax.expr import Call, Function, Tuple
from loomir.relax.node import RelaxExpr
from loomir.relax.normal.rewriter import Rewriter
from loomir.support.dtype import DataType
from loomir.transform.relax.bindings.dead_code_elimination import dead_code_elimination
from loomir.transform.relax.graph_reading import (
    extent_of,
    make_call,
    operator_of,
    operators_in,
    tensor_info,
)
from loomir.transform.relax.quantization.dequantized_values import (
    DequantizedValue,
    dequantize_codes,
    find_axis,
    range_of,
    read_dequantized,
    read_quantized,
)
from loomir.transform.relax.quantization.fuse_zero_points import (
    CONVOLUTIONS,
    fits_for_certain,
    integer_product,
    product_with_bytes,
)
from loomir.transform.relax.quantization.graph_values import (
    GraphValues,
    as_constant,
    is_uniform,
)

__all__ = ["fake_quantization_to_integer"]

_PRODUCTS: Final = ("matmul", "linear", *CONVOLUTIONS)
_POOLS: Final = ("nn.max_pool1d", "nn.max_pool2d", "nn.max_pool3d")
_MOVES: Final = (
    "expand_dims",
    "flatten",
    "flip",
    "nn.batch_flatten",
    "nn.pixel_shuffle",
    "reshape",
    "squeeze",
    "strided_slice",
)
"""Operators that only move the elements of their first argument."""
_FLOAT_PRODUCTS: Final = ("matmul", "linear")
"""Operators that are bound by reading weights from memory, so that bytes pay."""
_MOST: Final = 2**31 - 1


@register(
    "relax.FakeQuantizationToInteger", requires={"relax_normal_form"}, breaks={"functions_used"}
)
def fake_quantization_to_integer(mod: IRModule) -> IRModule:
    """Compute on the bytes that dequantised floats represent.

    This applies in dataflow blocks to floats that ``dequantize``, or the operators that it consists
    of, make of int8 or uint8.

    - ``matmul``, ``linear`` and convolutions of such floats sum all products in int32, which is
      exact, and multiply the sums by the scales. Sums that could exceed int32 stay floats. Results
      are rounded only a few times at the end.
    - Reshapes, transpositions, slices, concatenations and max pooling work on bytes. A quantisation
      with the same scale and zero point is removed. These are bit-identical.
    - A constant matrix of bytes that floats are multiplied by stays bytes, and its scale multiplies
      the sums. These overflow only if floats of 1e30 and more are multiplied.
    """
    graphs = [func for func in mod.functions.values() if isinstance(func, Function)]
    if not any(operators_in(func) & {"multiply", "dequantize"} for func in graphs):
        return mod
    made = _Rewrite(mod).rewrite_module()
    return mod if made is mod else dead_code_elimination(made)


class _Rewrite(Rewriter):
    def __init__(self, mod: IRModule) -> None:
        super().__init__(mod)
        self.values = GraphValues(self.lookup)

    def rewrite_call(self, call: Call) -> RelaxExpr:
        """Replace a call on floats by one on the bytes that they represent."""
        name = operator_of(call)
        made: RelaxExpr | None = None
        if name in _PRODUCTS:
            made = self._product(call)
        elif name in _MOVES or name in _POOLS:
            made = self._move(call)
        elif name == "permute_dims":
            made = self._transpose(call)
        elif name == "concat":
            made = self._concat(call)
        elif name in ("astype", "quantize"):
            made = self._cancel(call)
        return call if made is None else made

    def _read(self, leaf: RelaxExpr) -> DequantizedValue | None:
        return read_dequantized(self.values, leaf)

    # -- products --------------------------------------------------------------------------------
    def _product(self, call: Call) -> RelaxExpr | None:
        if call.attrs["out_dtype"] not in (None, DataType("float32")):
            return None
        operands = [self._read(arg) for arg in call.args[:2]]
        left, right = operands
        places = _output_axes(call)
        if right is None or places is None or not fits_for_certain(call):
            return None
        if left is None:
            return self._weight_only(call, right, places[1])
        scales: list[tuple[DequantizedValue, int]] = []
        for operand, (own, out) in zip((left, right), places, strict=True):
            info = tensor_info(operand.factor.codes)
            assert info is not None
            along = [find_axis(p, info.ndim) for p in (operand.factor.zero, operand.scale)]
            if any(axis not in (-1, own) for axis in along):
                return None
            scales.append((operand, -1 if along[1] == -1 else out))
        if not self._is_within_range(call, left, right):
            return None
        scale = self._scale(scales, _result_rank(call))
        if scale is None:
            return None
        emit = self.builder.emit
        pair = Call(call.op, call.args[:2], call.sinfo_args, call.attrs, span=call.span)
        total = emit(integer_product(self, pair, left.factor, right.factor))
        made = make_call("multiply", emit(make_call("astype", total, "float32")), scale)
        return made if len(call.args) == 2 else make_call("add", emit(made), call.args[2])

    def _weight_only(
        self, call: Call, right: DequantizedValue, place: tuple[int, int]
    ) -> RelaxExpr | None:
        """Multiply floats by constant bytes, then the sums by the scale of each column."""
        codes = right.factor.codes
        info = tensor_info(codes)
        if operator_of(call) not in _FLOAT_PRODUCTS or info is None or info.ndim != 2:
            return None
        axes = [find_axis(p, info.ndim) for p in (right.factor.zero, right.scale)]
        if self.values.constant(codes) is None or any(a not in (-1, place[0]) for a in axes):
            return None
        values: Any = right.values
        if values is None:
            return None
        shape = [-1 if a == place[1] else 1 for a in range(_result_rank(call))]
        scale = values.reshape(shape) if axes[1] != -1 else values.reshape(-1)[:1].reshape(())
        emit = self.builder.emit
        pair = Call(call.op, call.args[:2], call.sinfo_args, call.attrs, span=call.span)
        total = emit(product_with_bytes(self, pair, right.factor))
        made = make_call("multiply", total, as_constant(scale))
        return made if len(call.args) == 2 else make_call("add", emit(made), call.args[2])

    def _scale(self, scales: Sequence[tuple[DequantizedValue, int]], ndim: int) -> RelaxExpr | None:
        """Return the product of two scales along their axes; None if it is not a normal float."""
        parts = [self._place_axis(operand, axis, ndim) for operand, axis in scales]
        arrays: list[Any] = [self.values.constant(part) for part in parts]
        if any(array is None for array in arrays):
            return self.builder.emit(make_call("multiply", *parts))
        exact: Any = arrays[0].astype("float64") * arrays[1].astype("float64")
        normal = (np.abs(exact) > 1e-37) & (np.abs(exact) < 1e37)
        return as_constant(exact.astype("float32")) if normal.all() else None

    def _place_axis(self, operand: DequantizedValue, axis: int, ndim: int) -> RelaxExpr:
        """Return a scale with its axis at the position in the result."""
        known: Any = operand.values
        if known is not None:
            flat = known.reshape(-1)
            shape = [-1 if a == axis else 1 for a in range(ndim)]
            return as_constant(flat.reshape(shape) if axis >= 0 else flat[:1].reshape(()))
        info = tensor_info(operand.scale)
        assert info is not None
        assert info.dims is not None
        if axis < 0:
            return (
                self.builder.emit(make_call("reshape", operand.scale, ()))
                if info.ndim
                else operand.scale
            )
        (extent,) = [info.dims[a] for a in range(info.ndim) if extent_of(info, a) != 1]
        placed = tuple([extent if a == axis else 1 for a in range(ndim)])
        return self.builder.emit(make_call("reshape", operand.scale, placed))

    def _is_within_range(self, call: Call, left: DequantizedValue, right: DequantizedValue) -> bool:
        """Tell whether no sum can exceed int32, for any values of bytes that are not constant."""
        infos = [tensor_info(arg) for arg in call.args[:2]]
        steps = _steps(call, *infos)
        if steps is None:
            return False
        most = range_of(left.factor, self.values)
        if steps * most * range_of(right.factor, self.values) <= _MOST:
            return True
        return _largest_sum(call, right, self.values) * most <= _MOST

    # -- moving elements -------------------------------------------------------------------------
    def _move(self, call: Call) -> RelaxExpr | None:
        found = self._read(call.args[0])
        if found is None or found.uniform is None or not _is_uniform(found, self.values):
            return None
        if operator_of(call) in _POOLS and not _has_elements(call):
            return None
        args = (found.factor.codes, *call.args[1:])
        codes = self.builder.emit(Call(call.op, args, call.sinfo_args, call.attrs, span=call.span))
        return self._dequantize(codes, found)

    def _dequantize(self, codes: RelaxExpr, found: DequantizedValue) -> RelaxExpr:
        zero, scale = self._single(found.factor.zero), self._single(found.scale)
        assert scale is not None
        return dequantize_codes(self.builder, codes, zero, scale)

    def _single(self, leaf: RelaxExpr | None) -> RelaxExpr | None:
        """Return a constant with equal elements as one without axes."""
        if leaf is None:
            return None
        known: Any = self.values.constant(leaf)
        return as_constant(known.reshape(-1)[:1].reshape(()))

    def _transpose(self, call: Call) -> RelaxExpr | None:
        found = self._read(call.args[0])
        if found is None or found.values is None:
            return None
        info = tensor_info(call.args[0])
        assert info is not None
        given = call.attrs["axes"]
        order = list(range(info.ndim))[::-1] if given is None else [a % info.ndim for a in given]
        parts: list[RelaxExpr | None] = []
        for leaf in (found.factor.zero, found.scale):
            known: Any = None if leaf is None else self.values.constant(leaf)
            if leaf is not None and known is None:
                return None
            if known is not None and known.ndim and not is_uniform(known):
                whole = known.reshape([1] * (info.ndim - known.ndim) + list(known.shape))
                parts.append(as_constant(whole.transpose(order)))
            else:
                parts.append(self._single(leaf))
        zero, scale = parts
        assert scale is not None
        args = (found.factor.codes, *call.args[1:])
        codes = self.builder.emit(Call(call.op, args, call.sinfo_args, call.attrs, span=call.span))
        return dequantize_codes(self.builder, codes, zero, scale)

    def _concat(self, call: Call) -> RelaxExpr | None:
        given = call.args[0]
        given = self.lookup(given)
        if not isinstance(given, Tuple) or not given.fields:
            return None
        found = [self._read(field) for field in given.fields]
        first = found[0]
        if first is None or first.uniform is None:
            return None
        kinds = {self._kind(one) for one in found}
        if len(kinds) > 1 or None in kinds:
            return None
        codes = Tuple(tuple([one.factor.codes for one in found if one is not None]))
        made = self.builder.emit(
            Call(call.op, (codes, *call.args[1:]), call.sinfo_args, call.attrs, span=call.span)
        )
        return self._dequantize(made, first)

    def _kind(self, found: DequantizedValue | None) -> tuple[float, int, DataType] | None:
        """Return scale, zero point and dtype of a tensor with one of each, else None."""
        if found is None or found.uniform is None or not _is_uniform(found, self.values):
            return None
        info = tensor_info(found.factor.codes)
        assert info is not None
        zero: Any = None if found.factor.zero is None else self.values.constant(found.factor.zero)
        return found.uniform, 0 if zero is None else int(zero.reshape(-1)[0]), info.dtype

    def _cancel(self, call: Call) -> RelaxExpr | None:
        """Return the bytes that are quantised again by their own parameters, else None."""
        wanted = read_quantized(self.values, call)
        found = None if wanted is None else self._kind(self._read(wanted.source))
        if wanted is None or found != (np.float32(wanted.scale), wanted.zero, wanted.dtype):
            return None
        source = self._read(wanted.source)
        assert source is not None
        return source.factor.codes


def _is_uniform(found: DequantizedValue, values: GraphValues) -> bool:
    """Tell whether all elements have the same, constant zero point."""
    zero = found.factor.zero
    known = None if zero is None else values.constant(zero)
    return zero is None or (known is not None and is_uniform(known))


def _has_elements(call: Call) -> bool:
    """Tell whether each window of a pooling has an element that is not padding."""
    attrs = call.attrs
    sizes, count = attrs["pool_size"], len(attrs["pool_size"])
    pads = attrs["padding"]
    inside = all(max(pads[a], pads[a + count]) < sizes[a] for a in range(count))
    return inside and not attrs["ceil_mode"] and set(attrs["dilation"]) == {1}


def _output_axes(call: Call) -> list[tuple[int, int]] | None:
    """Return the axis of each operand along which scales may vary, and its position in results.

    -2 means that there is none.
    """
    infos = [tensor_info(arg) for arg in call.args[:2]]
    left, right = infos
    if left is None or right is None:
        return None
    name, attrs = operator_of(call), call.attrs
    if name == "matmul":
        if left.ndim < 2 or right.ndim < 2:
            return None
        out = max(left.ndim, right.ndim)
        return [(left.ndim - 2, out - 2), (right.ndim - 1, out - 1)]
    if name == "linear":
        return [(-2, -2), (0, left.ndim - 1)]
    layouts = [read_layout(attrs[n]) for n in ("kernel_layout", "out_layout")]
    if any(layout is None or layout.blocks for layout in layouts):
        return None
    return [(-2, -2), (attrs["kernel_layout"].index("O"), attrs["out_layout"].index("C"))]


def _result_rank(call: Call) -> int:
    """Return the rank of a product."""
    ranks = [info.ndim for info in map(tensor_info, call.args[:2]) if info is not None]
    return max(ranks) if operator_of(call) == "matmul" else ranks[0]


def _steps(call: Call, left: Any, right: Any) -> int | None:
    """Return how many products are summed for an element; None if that is unknown."""
    if left is None or right is None:
        return None
    name = operator_of(call)
    if name == "matmul":
        return extent_of(left, left.ndim - 1)
    if name == "linear":
        return extent_of(right, 1)
    sizes = [extent_of(right, a) for a in range(right.ndim)]
    made = 1
    for axis, size in enumerate(sizes):
        if size is None:
            return None
        made *= 1 if call.attrs["kernel_layout"][axis] == "O" else size
    return made


def _largest_sum(call: Call, right: DequantizedValue, values: GraphValues) -> int:
    """Return the largest sum of absolute weights for an element of the result."""
    codes: Any = values.constant(right.factor.codes)
    if codes is None:
        return _MOST
    zero: Any = 0 if right.factor.zero is None else values.constant(right.factor.zero)
    if zero is None:
        return _MOST
    name = operator_of(call)
    whole = np.abs(codes.astype("int32") - zero)
    if name == "matmul":
        return int(whole.sum(-2, dtype="int64").max(initial=0))
    kept = 0 if name == "linear" else call.attrs["kernel_layout"].index("O")
    others = tuple([a for a in range(whole.ndim) if a != kept])
    return int(whole.sum(others, dtype="int64").max(initial=0))
