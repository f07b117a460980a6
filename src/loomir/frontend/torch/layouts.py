"""The layouts of a captured graph's outputs: views of inputs, and strides as PyTorch has them.

``torch.compile`` makes the views that a model returns from the sizes, strides and offsets of the
graph's outputs, so that these must be right even where their elements are never read.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from loomir.frontend.torch.package import torch_package

__all__ = ["InputView", "OutputLayout", "find_input_views", "lay_out", "read_layout"]


class OutputLayout(NamedTuple):
    """Sizes, strides and the offset of a tensor, in numbers or ``SymInt``."""

    sizes: tuple[Any, ...]
    strides: tuple[Any, ...]
    offset: Any


class InputView(NamedTuple):
    """An output that is a view of an input; the offset counts from where the input starts."""

    place: int
    layout: OutputLayout


def find_input_views(graph: Any) -> dict[int, InputView]:
    """Return the outputs of a graph that share the memory of an input, by their indices."""
    nodes = [*graph.graph.nodes]
    inputs: dict[int, tuple[int, Any]] = {}
    for place, node in enumerate(n for n in nodes if n.op == "placeholder"):
        memory = _memory_of(node)
        if memory is not None:
            inputs.setdefault(memory, (place, node.meta["val"]))
    if any("copy_" in str(n.target) for n in nodes if n.op == "call_function"):
        return {}  # inputs change in the graph, and a view may be of what they were
    found: dict[int, InputView] = {}
    for i, node in enumerate(_outputs_of(nodes)):
        memory = None if getattr(node, "op", "placeholder") == "placeholder" else _memory_of(node)
        if memory in inputs:
            place, base = inputs[memory]
            value = node.meta["val"]
            if value.dtype == base.dtype and not (value.is_conj() or value.is_neg()):
                sizes, strides, offset = _layout_of(value)
                layout = OutputLayout(sizes, strides, offset - base.storage_offset())
                found[i] = InputView(place, layout)
    return found


def _outputs_of(nodes: Iterable[Any]) -> Sequence[Any]:
    return next(n for n in nodes if n.op == "output").args[0]


def _memory_of(node: Any) -> int | None:
    """Return the number of the memory that a node's tensor lies in; None if it has none."""
    torch = torch_package()
    value: Any = getattr(node, "meta", {}).get("val")
    if not isinstance(value, torch.Tensor) or value.layout != torch.strided:
        return None
    return int(value.untyped_storage()._cdata)


def _layout_of(value: Any) -> OutputLayout:
    return OutputLayout(tuple(value.shape), tuple(value.stride()), value.storage_offset())


def read_layout(node: Any) -> OutputLayout | None:
    """Return the layout that an output must have; None if it is row-major from the start."""
    if _memory_of(node) is None:
        return None
    layout = _layout_of(node.meta["val"])
    row_major: list[Any] = []
    step: Any = 1
    for extent in reversed(layout.sizes):
        row_major.append(step)
        step = step * extent
    pairs = zip((*row_major[::-1], 0), (*layout.strides, layout.offset), strict=True)
    if all(str(a) == str(b) for a, b in pairs):
        return None
    return layout


def lay_out(tensor: Any, sizes: Sequence[int], strides: Sequence[int], offset: int) -> Any:
    """Return a tensor of the same elements with these strides and this offset."""
    torch = torch_package()
    if tuple(tensor.stride()) == tuple(strides) and tensor.storage_offset() == offset:
        return tensor
    steps = [(n - 1) * s for n, s in zip(sizes, strides, strict=True)]
    length = offset + sum(steps) + 1 if tensor.numel() else offset
    memory = tensor.new_empty(length)
    made = memory.as_strided(sizes, strides, offset)
    if all(s > 0 or n < 2 for n, s in zip(sizes, strides, strict=True)):
        ordered = sorted(zip(strides, sizes, strict=True))
        if all(a * n <= b for (a, n), (b, _) in pairwise(ordered)):
            made.copy_(tensor)
            return made
    # Elements that share memory are equal: each is written, in whatever order.
    places = torch.arange(length).as_strided(sizes, strides, offset)
    memory[places.reshape(-1)] = tensor.reshape(-1)
    return made
