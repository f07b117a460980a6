"""Operators that create tensors, from constants or ranges."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from loomir import op
from loomir.frontend.torch.dtypes import array_of
from loomir.frontend.torch.node import Node
from loomir.frontend.torch.package import torch_package
from loomir.frontend.torch.registry import register
from loomir.relax.expr import Constant, PrimValue
from loomir.relax.node import RelaxExpr
from loomir.support.dtype import DataType
from loomir.te import Tensor, compute, select
from loomir.te.topi.loops import wide
from loomir.tir.builtins.table import call_builtin
from loomir.tir.expr import PrimExpr, const


def _fill_value(node: Node, value: Any) -> RelaxExpr:
    return op.full(tuple(node.shape), node.as_tensor(value, node.dtype))


@register("aten.full.default")
def _full(node: Node) -> RelaxExpr:
    return _fill_value(node, node["fill_value"])


@register("aten.full_like.default", "aten.new_full.default")
def _full_like(node: Node) -> RelaxExpr:
    return _fill_value(node, node["fill_value"])


@register("aten.fill.Scalar", "aten.fill.Tensor")
def _fill(node: Node) -> RelaxExpr:
    return _fill_value(node, node["value"])


@register("aten.zeros.default", "aten.zeros_like.default", "aten.new_zeros.default",
          "aten.empty.memory_format", "aten.empty_like.default", "aten.empty_strided.default",
          "aten.new_empty.default", "aten.new_empty_strided.default",
          "aten.empty_permuted.default")  # fmt: skip
def _zeros(node: Node) -> RelaxExpr:
    return _fill_value(node, 0)


@register("aten.ones.default", "aten.ones_like.default", "aten.new_ones.default")
def _ones(node: Node) -> RelaxExpr:
    return _fill_value(node, 1)


@register("aten.scalar_tensor.default")
def _scalar_tensor(node: Node) -> RelaxExpr:
    return node.tensor(0, node.dtype)


@register("aten.arange.start_step", "aten.arange.default", "aten.arange.start")
def _arange(node: Node) -> RelaxExpr:
    start = node.arguments.get("start", 0)
    step = node.arguments.get("step", 1)
    return _count_up(node, start, step)


@register("prims.iota.default")
def _iota(node: Node) -> RelaxExpr:
    return _count_up(node, node["start"], node["step"])


def _count_up(node: Node, start: Any, step: Any) -> RelaxExpr:
    """Make ``start + i * step``, in integers where both are, else in floats of 64 bits."""
    (count,) = node.shape
    whole = not any(isinstance(v, float) or _is_float(v) for v in (start, step))
    kind = "int64" if whole else "float64"

    return _emit_arange(node, start, step, count, kind)


def _emit_arange(node: Node, start: Any, step: Any, count: Any, kind: str) -> RelaxExpr:
    bound = PrimValue(count) if isinstance(count, PrimExpr) else count
    made: RelaxExpr = node.emit(op.arange(0, bound, 1, "int64"))
    made = node.cast(made, kind)
    if not isinstance(step, int) or step != 1:
        made = node.emit(op.multiply(made, node.as_tensor(step, kind)))
    if not isinstance(start, int) or start != 0:
        made = node.emit(op.add(made, node.as_tensor(start, kind)))
    return node.cast(made, node.dtype)


def _is_float(value: Any) -> bool:
    return isinstance(value, PrimExpr) and value.dtype.is_float


@register("aten.eye.default", "aten.eye.m")
def _eye(node: Node) -> RelaxExpr:
    rows, columns = node.shape
    if not isinstance(rows, PrimExpr) and not isinstance(columns, PrimExpr):
        return op.eye(rows, columns, 0, node.dtype)
    dtype = node.dtype

    def kernel(rows: Any, columns: Any) -> Tensor:
        def element(i: PrimExpr, j: PrimExpr) -> PrimExpr:
            return select(i.equal(j), const(1, dtype), const(0, dtype))

        return compute((rows, columns), element, name="eye")

    return node.compute(kernel, rows, columns)


@register("aten.tril_indices.default", "aten.triu_indices.default")
def _triangle_indices(node: Node) -> RelaxExpr:
    offset, below = node["offset"], "tril" in node.operator

    def kernel(rows: Any, columns: Any) -> Tensor:
        def element(i: PrimExpr, j: PrimExpr) -> PrimExpr:
            gap = wide(j) - wide(i)
            return gap <= offset if below else gap >= offset

        return compute((rows, columns), element, name="triangle")

    inside = node.compute(kernel, node["row"], node["col"])
    return node.cast(node.emit(op.nonzero(inside)), node.dtype)


@register("aten._local_scalar_dense.default", note="floats that sizes or numbers are computed from")
def _item(node: Node) -> Any:
    found, x = node.result, node.tensor(0)
    is_float = DataType(node.dtype_of(x)).is_float
    is_truth = isinstance(found, torch_package().SymBool)
    if is_float or (not is_truth and _is_only_operand(node.definition)):
        # It stays a tensor, of the kind of a number: operators take it like one.
        return node.emit(op.reshape(node.cast(x, "float64" if is_float else "int64"), ()))
    if not hasattr(found, "node"):
        raise node.refuse("it converts a tensor to a number that is not known")
    return node.graph.bind_size(found, x)


def _is_only_operand(definition: Any) -> bool:
    """Tell whether a number is only an operand of operators on tensors, or checked."""
    return all(
        isinstance(user.meta.get("val"), torch_package().SymBool) or _takes_number(user, definition)
        for user in definition.users
    )


def _takes_number(user: Any, definition: Any) -> bool:
    schema = getattr(user.target, "_schema", None)
    if schema is None:
        return str(user.target).startswith("aten._assert")
    given: dict[str, Any] = {a.name: v for a, v in zip(schema.arguments, user.args)}
    given.update(user.kwargs)
    kinds = {a.name: str(a.type) for a in schema.arguments}
    return all(
        kinds[name] in ("number", "Tensor", "Optional[number]")
        for name, value in given.items()
        if value is definition or isinstance(value, (list, tuple))
    )


_WINDOWS = ("hann", "hamming", "blackman", "bartlett", "kaiser")


@register(*[f"aten.{n}_window.{o}" for n in _WINDOWS for o in ("default", "periodic")],
          "aten.hamming_window.periodic_alpha", "aten.hamming_window.periodic_alpha_beta",
          "aten.kaiser_window.beta", note="windows whose length is not known")  # fmt: skip
def _window(node: Node) -> RelaxExpr:
    """Import a window as the constant that PyTorch computes."""
    if not all(isinstance(d, int) for d in node.shape):
        raise node.refuse("the length of the window is unknown")
    names = ("window_length", "periodic", "alpha", "beta")
    given = [node[name] for name in names if name in node.arguments]
    made = node.definition.target(*given, dtype=node.result.dtype)
    return Constant(array_of(made))


@register("aten.fft_fftfreq.default", "aten.fft_rfftfreq.default",
          note="transforms whose length is not known")  # fmt: skip
def _frequencies(node: Node) -> RelaxExpr:
    """Import the frequencies of a transform as the constant that PyTorch computes."""
    if not isinstance(node["n"], int):
        raise node.refuse("the length of the transform is unknown")
    made = node.definition.target(node["n"], float(node["d"]), dtype=node.result.dtype)
    return Constant(array_of(made))


# -- other views of the same bits ----------------------------------------------------------------
@register("aten.view.dtype")
def _view_as(node: Node) -> RelaxExpr:
    x, wanted = node.tensor(0), DataType(node.dtype)
    own = DataType(node.dtype_of(x))
    if wanted.is_bool and not own.is_bool:
        raise node.refuse("a view as bool is not supported", help="compare instead: x != 0")
    if own.is_bool:
        x, own = node.cast(x, "uint8"), DataType("uint8")
    if wanted.is_bool or wanted == own:
        return node.cast(x, str(wanted))
    return node.compute(_make_view(own, wanted), x, node.shape)


def _make_view(own: DataType, wanted: DataType) -> Callable[[Tensor, list[Any]], Tensor]:
    """Make the kernel that reads the bytes of elements, the least first, as another dtype."""
    many, few = max(own.bits, wanted.bits), min(own.bits, wanted.bits)
    parts, wide_bits = many // few, f"uint{many}"

    def bits_of(value: PrimExpr) -> PrimExpr:
        return read(value, f"uint{own.bits}").astype(wide_bits)

    def read(value: PrimExpr, dtype: str) -> PrimExpr:
        return (
            value
            if str(value.dtype) == dtype
            else call_builtin("reinterpret", value, dtype=DataType(dtype))
        )

    def kernel(x: Tensor, shape: list[Any]) -> Tensor:
        def element(*i: PrimExpr) -> PrimExpr:
            if parts == 1:
                return read(x(*i), str(wanted))
            *front, last = i
            if own.bits > wanted.bits:
                shift = (last % parts).astype(wide_bits) * const(few, wide_bits)
                made = call_builtin("shift_right", bits_of(x(*front, last // parts)), shift)
                low = call_builtin("bitwise_and", made, const(2**few - 1, wide_bits))
                return read(low.astype(f"uint{few}"), str(wanted))
            made = bits_of(x(*front, last * parts))
            for k in range(1, parts):
                more = bits_of(x(*front, last * parts + k))
                more = call_builtin("shift_left", more, const(few * k, wide_bits))
                made = call_builtin("bitwise_or", made, more)
            return read(made, str(wanted))

        return compute(tuple(shape), element, name="view")

    return kernel
