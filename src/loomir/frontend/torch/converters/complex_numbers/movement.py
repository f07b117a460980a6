"""Operators that move complex numbers, and sums of them.

What only changes shapes keeps the pairs. The other operators are those of real numbers, applied to
the real and to the imaginary parts.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from loomir import op
from loomir.frontend.torch.converters.complex_numbers.parts import (
    join_parts,
    make_complex,
    take_part,
)
from loomir.frontend.torch.node import Node, is_complex_value
from loomir.frontend.torch.registry import Converter, find_row, register
from loomir.relax.expr import PrimValue
from loomir.relax.node import RelaxExpr
from loomir.tir.expr import PrimExpr


def _pairs(node: Node) -> RelaxExpr:
    return make_complex(node, node.tensor(0), node.is_complex(0))


def _rank(node: Node) -> int:
    return node.rank(0) - 1


# -- shapes and orders ---------------------------------------------------------------------------
@register("aten.view.default", "aten.reshape.default", "aten._unsafe_view.default",
          "aten._reshape_alias.default", "aten.flatten.using_ints", "aten.view_copy.default",
          "aten.unflatten.int", "aten.unsqueeze.default", "aten.squeeze.dim", "aten.squeeze.dims",
          "aten.squeeze.default", complex=True)  # fmt: skip
def _view(node: Node) -> RelaxExpr:
    return op.reshape(_pairs(node), (*node.shape, 2))


@register("aten.expand.default", "aten.broadcast_to.default", "aten.expand_copy.default",
          complex=True)  # fmt: skip
def _expand(node: Node) -> RelaxExpr:
    return op.broadcast_to(_pairs(node), (*node.shape, 2))


def _order(x: RelaxExpr, order: Sequence[int]) -> RelaxExpr:
    rank = len(order)
    return x if [*order] == list(range(rank)) else op.permute_dims(x, [*order, rank])


@register("aten.permute.default", "aten.permute_copy.default", complex=True)
def _permute(node: Node) -> RelaxExpr:
    return _order(node.tensor(0), [node.count_axis(a, _rank(node)) for a in node["dims"]])


@register("aten.t.default", "aten.numpy_T.default", complex=True)
def _t(node: Node) -> RelaxExpr:
    return _order(node.tensor(0), list(reversed(range(_rank(node)))))


@register("aten.transpose.int", complex=True)
def _transpose(node: Node) -> RelaxExpr:
    rank = _rank(node)
    order = list(range(rank))
    if rank:
        a, b = node.count_axis(node[1], rank), node.count_axis(node[2], rank)
        order[a], order[b] = b, a
    return _order(node.tensor(0), order)


def _parts_of_list(node: Node) -> list[RelaxExpr]:
    names = dict(zip(node.arguments, node.definition.args)) | dict(node.definition.kwargs)
    sources: list[Any] = list(names["tensors"])
    return [
        make_complex(node, x, is_complex_value(source))
        for x, source in zip(node["tensors"], sources, strict=True)
    ]


@register("aten.cat.default", complex=True)
def _cat(node: Node) -> RelaxExpr:
    given = _parts_of_list(node)
    # Empty tensors of one axis go with any others.
    parts = [x for x in given if node.dims_of(x) != [0, 2]] or given[:1]
    if len(parts) == 1:
        return parts[0]
    return op.concat(tuple(parts), node.axis("dim", len(node.shape)))


@register("aten.stack.default", complex=True)
def _stack(node: Node) -> RelaxExpr:
    return op.stack(tuple(_parts_of_list(node)), node.axis("dim", len(node.shape)))


@register("aten.select.int", "aten.select_copy.int", complex=True)
def _select(node: Node) -> RelaxExpr:
    axis, place = node.axis("dim", _rank(node)), node["index"]
    if isinstance(place, int) and place < 0:
        place = node.simplify(node.dims(0)[axis] + place)
    bounds = [
        PrimValue(v) if isinstance(v, PrimExpr) else v for v in (place, node.simplify(place + 1))
    ]
    cut = node.emit(op.strided_slice(node.tensor(0), [axis], bounds[:1], bounds[1:]))
    return op.reshape(cut, (*node.shape, 2))


# -- part by part --------------------------------------------------------------------------------
def _apply_to_parts(operator: str, *values: str) -> Converter:
    """Apply a converter of real numbers to both parts.

    ``values`` are the arguments whose elements go into the result; in imaginary parts, those that
    are real are zero.
    """

    def convert(node: Node) -> Any:
        row = find_row(operator)
        if row is None or not _makes_complex(node):
            raise node.refuse("its converter takes no complex numbers")
        made: list[list[RelaxExpr | None]] = []
        for part in range(2):
            arguments = {name: _take(node, name, part, name in values) for name in node.arguments}
            found = row.convert(Node(node.definition, arguments, node.graph))
            made.append([*found] if isinstance(found, (list, tuple)) else [found])
        tensors = [
            None if a is None or b is None else join_parts(node, _bind(node, a), _bind(node, b))
            for a, b in zip(*made, strict=True)
        ]
        return tensors if isinstance(node.definition.meta["val"], (list, tuple)) else tensors[0]

    return convert


def _makes_complex(node: Node) -> bool:
    made = node.definition.meta["val"]
    results: list[Any] = [*made] if isinstance(made, (list, tuple)) else [made]
    return all(map(is_complex_value, results))


def _bind(node: Node, made: RelaxExpr) -> RelaxExpr:
    return node.cast(node.emit(made), node.dtype)


def _take(node: Node, name: str, part: int, is_value: bool) -> Any:
    value = node[name]
    if isinstance(value, complex):
        return value.imag if part else value.real
    if node.is_complex(name):
        return take_part(node, value, part)
    if part == 0 or not is_value or value is None:
        return value
    if not isinstance(value, RelaxExpr):
        return 0
    return node.emit(op.full(tuple(node.dims_of(value)), node.constant(0)))


_PART_BY_PART: Final[dict[str, tuple[str, ...]]] = {
    "constant_pad_nd.default": ("value",),
    "cumsum.default": (),
    "diagonal.default": (),
    "diagonal_copy.default": (),
    "flip.default": (),
    "gather.default": (),
    "index.Tensor": (),
    "index_add.default": ("self", "source"),
    "index_put.default": ("self", "values"),
    "_unsafe_index.Tensor": (),
    "_unsafe_index_put.default": ("self", "values"),
    "index_select.default": (),
    "masked_fill.Scalar": ("self", "value"),
    "masked_fill.Tensor": ("self", "value"),
    "mean.default": (),
    "mean.dim": (),
    "narrow.default": (),
    "repeat.default": (),
    "roll.default": (),
    "select_scatter.default": ("self", "src"),
    "slice.Tensor": (),
    "slice_scatter.default": ("self", "src"),
    "split.Tensor": (),
    "split_with_sizes.default": (),
    "split_with_sizes_copy.default": (),
    "sum.default": (),
    "sum.dim_IntList": (),
    "tril.default": (),
    "triu.default": (),
    "unbind.int": (),
    "unfold.default": (),
}
for _name, _values in _PART_BY_PART.items():
    register(f"aten.{_name}", complex=True)(_apply_to_parts(f"aten.{_name}", *_values))
