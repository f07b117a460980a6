"""Random operators of a graph, which stay in PyTorch: their results become inputs of the graph.

PyTorch draws the numbers from its generators, in the order of the graph, so that seeds have the
same effect as without a compiler.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from loomir.frontend.torch.package import torch_package

__all__ = ["Draw", "take_out_draws"]

_OF_SIZES: Final = {
    "aten.rand.default", "aten.randn.default", "aten.randint.default", "aten.randint.low",
    "aten.randperm.default", "aten.normal.float_float",
}  # fmt: skip
_LIKE: Final[Mapping[str, Callable[[Any, Sequence[Any]], Any]]] = {
    "aten.rand_like.default": lambda empty, _: empty.uniform_(),
    "aten.randn_like.default": lambda empty, _: empty.normal_(),
    "aten.randint_like.default": lambda empty, a: empty.random_(0, a[0]),
    "aten.randint_like.low_dtype": lambda empty, a: empty.random_(a[0], a[1]),
    "aten.bernoulli.p": lambda empty, a: empty.bernoulli_(a[0]),
    "aten.uniform.default": lambda empty, a: empty.uniform_(*a),
    "aten.exponential.default": lambda empty, a: empty.exponential_(*a),
    "aten.normal_functional.default": lambda empty, a: empty.normal_(*a),
}


class Draw:
    """One draw of random numbers; ``make`` gets a function that evaluates torch's sizes."""

    def __init__(self, node: Any, make: Callable[[Callable[[Any], Any]], Any]) -> None:
        self.node = node
        """The placeholder for the random tensor."""
        self.make = make


def take_out_draws(module: Any) -> list[Draw]:
    """Replace the random nodes of a ``GraphModule`` by placeholders, in place."""
    found: list[Draw] = []
    for node in list(module.graph.nodes):
        name = str(node.target)
        if node.op != "call_function":
            continue
        if name in _OF_SIZES:
            found.append(_draw_by_sizes(module.graph, node))
        elif name in _LIKE:
            found.append(_draw_like(module.graph, node, _LIKE[name]))
        elif name == "aten.native_dropout.default" and node.args[1] != 0 and node.args[2]:
            found.append(_draw_dropout(module.graph, node))
    if found:
        module.graph.eliminate_dead_code()
        module.recompile()
    return found


def _placeholder(graph: Any, value: Any) -> Any:
    last = [n for n in graph.nodes if n.op == "placeholder"]
    anchor = last[-1].next if last else next(iter(graph.nodes))
    with graph.inserting_before(anchor):
        made = graph.placeholder("drawn")
    made.target = made.name  # the name of a parameter, which two may not share
    made.meta["val"] = value
    return made


def _draw_by_sizes(graph: Any, node: Any) -> Draw:
    target, args, kwargs = node.target, _values(node.args), dict(node.kwargs)
    made = _placeholder(graph, node.meta["val"])
    node.replace_all_uses_with(made)
    return Draw(made, lambda number: target(*_numbers(args, number), **kwargs))


def _values(value: Any) -> Any:
    """Replace nodes that are sizes by the sizes."""
    if isinstance(value, (list, tuple)):
        items: Sequence[Any] = [*value]
        return [_values(v) for v in items]
    meta = getattr(value, "meta", None)
    return value if meta is None else meta["val"]


def _numbers(value: Any, number: Callable[[Any], Any]) -> Any:
    if isinstance(value, list):
        items: Sequence[Any] = [*value]
        return [_numbers(v, number) for v in items]
    return number(value) if hasattr(value, "node") else value


def _empty(value: Any, dtype: Any, number: Callable[[Any], Any]) -> Any:
    return torch_package().empty([number(d) for d in value.shape], dtype=dtype)


def _draw_like(graph: Any, node: Any, draw: Callable[[Any, Sequence[Any]], Any]) -> Draw:
    value, rest = node.meta["val"], list(node.args[1:])
    made = _placeholder(graph, value)
    node.replace_all_uses_with(made)
    return Draw(made, lambda number: draw(_empty(value, value.dtype, number), rest))


def _draw_dropout(graph: Any, node: Any) -> Draw:
    """Draw the mask of a dropout as PyTorch does, and multiply by it in the graph."""
    torch = torch_package()
    x, rate = node.args[0], node.args[1]
    value, kept = node.meta["val"]
    mask = _placeholder(graph, kept)
    multiply = torch.ops.aten.mul.Tensor
    with graph.inserting_before(node):
        masked = graph.call_function(multiply, (x, mask))
        factor = 0.0 if rate == 1 else 1.0 / (1.0 - rate)
        scaled = graph.call_function(multiply, (masked, factor))
    for made in (masked, scaled):
        made.meta["val"] = value
        made.meta["stack_trace"] = node.meta.get("stack_trace")
    for user in list(node.users):
        if user.target is operator.getitem:
            user.replace_all_uses_with(scaled if user.args[1] == 0 else mask)

    def make(number: Callable[[Any], Any]) -> Any:
        ones = torch.ones([number(d) for d in kept.shape], dtype=value.dtype)
        return torch.ops.aten.native_dropout.default(ones, rate, True)[1]

    return Draw(mask, make)
