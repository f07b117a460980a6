"""The layouts of a captured graph's outputs: views of inputs, and strides as PyTorch has them.

``torch.compile`` makes the views that a model returns from the sizes, strides and offsets of the
graph's outputs, so that these must be right even where their elements are never read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from loomir.frontend.torch.mistakes import CannotImport
from loomir.frontend.torch.package import torch_package
from loomir.frontend.torch.sizes import evaluate
from loomir.relax.shape import INT64
from loomir.tir.expr import Var

__all__ = [
    "InputView",
    "OutputLayout",
    "find_input_views",
    "find_size_sources",
    "is_computable",
    "lay_out",
    "lay_out_inputs",
    "layout_numbers",
    "number_of",
    "read_layout",
]


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
    sources = find_size_sources([n for n in nodes if n.op == "placeholder"])
    found: dict[int, InputView] = {}
    for i, node in enumerate(_outputs_of(nodes)):
        memory = None if getattr(node, "op", "placeholder") == "placeholder" else _memory_of(node)
        if memory in inputs:
            place, base = inputs[memory]
            value = node.meta["val"]
            if value.dtype == base.dtype and not (value.is_conj() or value.is_neg()):
                sizes, strides, offset = _layout_of(value)
                layout = OutputLayout(sizes, strides, offset - base.storage_offset())
                if is_computable(layout, sources):
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


def is_computable(layout: OutputLayout, sources: Mapping[str, Any]) -> bool:
    """Tell whether a layout follows from the inputs; that of ``nonzero`` does not."""
    for value in (*layout.sizes, *layout.strides, layout.offset):
        expr = getattr(getattr(value, "node", None), "expr", None)
        if expr is None:
            continue
        if any(str(s) not in sources for s in expr.free_symbols):
            return False
        try:
            evaluate(expr, lambda symbol: Var(str(symbol), INT64))
        except CannotImport:
            return False
    return True


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


def layout_numbers(
    layout: OutputLayout, sources: Mapping[str, tuple[int, Callable[[Any], Any]]], given: Any
) -> tuple[list[int], list[int], int]:
    """Return sizes, strides and offset of a layout for the inputs of a call."""
    sizes = [number_of(n, sources, given) for n in layout.sizes]
    strides = [number_of(n, sources, given) for n in layout.strides]
    return sizes, strides, number_of(layout.offset, sources, given)


def number_of(
    size: Any, sources: Mapping[str, tuple[int, Callable[[Any], Any]]], given: Any
) -> Any:
    """Return the value that a size has for the inputs of a call."""
    node = getattr(size, "node", None)
    if node is None:
        return size

    def symbol(name: Any) -> int:
        place, read = sources[str(name)]
        return int(read(given[place]))

    return evaluate(node.expr, symbol)


def lay_out_inputs(graph: Any) -> Callable[..., Any]:
    """Return a function that runs a graph on inputs with the strides that it was captured with.

    What a compiled graph kept for its gradients lies row by row, and a graph that PyTorch runs may
    take views that need the captured strides.
    """
    nodes = [n for n in graph.graph.nodes if n.op == "placeholder"]
    sources = find_size_sources(nodes)
    layouts = {
        i: layout
        for i, node in enumerate(nodes)
        if (layout := read_layout(node)) is not None and is_computable(layout, sources)
    }

    def run(*inputs: Any) -> Any:
        given = list(inputs)
        for i, layout in layouts.items():
            given[i] = lay_out(given[i], *layout_numbers(layout, sources, inputs))
        return graph.forward(*given)

    return run


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


def find_size_sources(nodes: Sequence[Any]) -> dict[str, tuple[int, Callable[[Any], Any]]]:
    """Return, for each symbol, the input that has it, and how to read it from the input."""
    found: dict[str, tuple[int, Callable[[Any], Any]]] = {}

    def note(place: int, value: Any, read: Callable[[Any], Any]) -> None:
        node = getattr(value, "node", None)
        if node is not None and node.expr.is_Symbol:
            found.setdefault(str(node.expr), (place, read))

    values = [node.meta.get("val") for node in nodes]
    for i, value in enumerate(values):
        note(i, value, lambda given: given)
        for axis, extent in enumerate(getattr(value, "shape", ())):
            note(i, extent, lambda given, axis=axis: given.shape[axis])
    for i, value in enumerate(values):
        if isinstance(value, torch_package().Tensor):
            for axis, stride in enumerate(value.stride()):
                note(i, stride, lambda given, axis=axis: given.stride(axis))
            note(i, value.storage_offset(), lambda given: given.storage_offset())
    return found
