"""Products of complex matrices, each as one real product of matrices with twice the columns."""

from __future__ import annotations

from loomir import op
from loomir.frontend.torch.converters.complex_numbers.parts import make_complex
from loomir.frontend.torch.node import Node
from loomir.frontend.torch.registry import register
from loomir.relax.node import RelaxExpr
from loomir.te import Tensor, compute, select
from loomir.tir.expr import PrimExpr


def _widen(x: Tensor) -> Tensor:
    """Return each number as the matrix of 2 by 2 that multiplies a pair by it."""
    *outer, rows, columns, _ = x.shape

    def element(*place: PrimExpr) -> PrimExpr:
        *front, i, j = place
        from_imag, to_imag = i % 2, j % 2
        value = x(*front, i // 2, j // 2, select(from_imag == to_imag, 0, 1))
        return select(from_imag > to_imag, -value, value)

    return compute((*outer, rows * 2, columns * 2), element, name="wide")


def _multiply(node: Node, a: RelaxExpr, b: RelaxExpr) -> RelaxExpr:
    """Multiply matrices, or tensors of matrices, of complex numbers."""
    *front, rows, inner, _ = node.dims_of(a)
    columns = node.dims_of(b)[-2]
    flat = node.emit(op.reshape(a, (*front, rows, node.simplify(inner * 2))))
    made = node.emit(op.matmul(flat, node.compute(_widen, b)))
    outer = node.dims_of(made)[:-2]
    return node.emit(op.reshape(made, (*outer, rows, columns, 2)))


def _pairs(node: Node, place: int | str) -> RelaxExpr:
    return make_complex(node, node.tensor(place), node.is_complex(place))


@register("aten.mm.default", "aten.bmm.default", "aten.matmul.default", "aten.mv.default",
          "aten.dot.default", complex=True)  # fmt: skip
def _product(node: Node) -> RelaxExpr:
    a, b = _pairs(node, 0), _pairs(node, 1)
    dims = node.dims_of(a)
    if len(dims) == 2:
        a = node.emit(op.reshape(a, (1, *dims)))
    dims = node.dims_of(b)
    if len(dims) == 2:
        b = node.emit(op.reshape(b, (dims[0], 1, 2)))
    return op.reshape(_multiply(node, a, b), (*node.shape, 2))


@register("aten.addmm.default", "aten.baddbmm.default",
          note="alpha and beta other than 1, for complex numbers", complex=True)  # fmt: skip
def _add_product(node: Node) -> RelaxExpr:
    made = _multiply(node, _pairs(node, 1), _pairs(node, 2))
    if node["alpha"] != 1 or node["beta"] != 1:
        raise node.refuse("alpha and beta other than 1 are not supported for complex numbers")
    return op.add(_pairs(node, 0), made)


@register("aten.linear.default", complex=True)
def _linear(node: Node) -> RelaxExpr:
    weight = node.emit(op.permute_dims(_pairs(node, 1), [1, 0, 2]))
    made = _multiply(node, _pairs(node, 0), weight)
    return made if node[2] is None else op.add(made, _pairs(node, 2))
