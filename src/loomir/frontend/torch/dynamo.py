"""Loomir as a backend of ``torch.compile``."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from loomir.frontend.torch.converters import load_converters
from loomir.frontend.torch.decompositions import aot_decompositions
from loomir.frontend.torch.draws import Draw, take_out_draws
from loomir.frontend.torch.dtypes import tensor_of
from loomir.frontend.torch.package import torch_package
from loomir.frontend.torch.program import Translation, translate
from loomir.frontend.torch.sizes import evaluate
from loomir.runtime.shape import Shape
from loomir.support.compile_warning import CompileWarning, users_depth
from loomir.support.compiling import to_executable
from loomir.support.diagnostics import CompileError

__all__ = ["backend", "compile"]

_reported: Final[set[str]] = set()
"""What was said of graphs that PyTorch runs itself."""


def compile(  # noqa: A001
    model: Any, *, dynamic: bool | None = None, **options: Any
) -> Any:
    """Return a module, or function, of PyTorch that runs through Loomir.

    It is ``torch.compile(model, backend="loomir")``: graphs are compiled when they are first
    called, with their gradients where some are needed, and a graph with operators that have no
    converter is left to PyTorch, with a warning that names them. ``dynamic``: whether sizes are
    symbolic from the start; where it is left out, once they change. ``options`` are those of
    ``loomir.compile``.

    Errors: PTC0001.
    """
    torch = torch_package()

    def own(module: Any, inputs: Sequence[Any]) -> Any:
        return backend(module, inputs, options=options)

    return torch.compile(model, backend=own, dynamic=dynamic)


def backend(
    module: Any, inputs: Sequence[Any], *, options: Mapping[str, Any] | None = None, **_: Any
) -> Any:
    """Compile a graph that dynamo captured; the backend ``"loomir"`` of ``torch.compile``.

    ``options`` are those of ``loomir.compile``.
    """
    load_converters()
    common = torch_package("_dynamo.backends.common")
    partition = torch_package("_functorch.partitioners").min_cut_rematerialization_partition
    given = dict(options or {})

    def compiler(graph: Any, _inputs: Sequence[Any]) -> Any:
        return _compiled(graph, given)

    made = common.aot_autograd(
        fw_compiler=compiler,
        bw_compiler=compiler,
        inference_compiler=compiler,
        decompositions=aot_decompositions(),
        partition_fn=partition,
    )
    return made(module, inputs)


def _compiled(graph: Any, options: Mapping[str, Any]) -> Any:
    """Return a function that runs a graph of core operators, given its inputs in a list."""
    boxed = torch_package("_functorch.aot_autograd").make_boxed_func
    own = copy.deepcopy(graph)
    draws = take_out_draws(own)
    tensors = _tensors_returned(own)
    if not tensors:
        return boxed(graph.forward)
    try:
        made = translate(own, constants={}, outputs=tensors)
        function = to_executable(made.module, **options)["main"]
    except CompileError as error:
        _report(error)
        return boxed(graph.forward)
    return boxed(_Runner(own, made, function, draws))


def _tensors_returned(graph: Any) -> list[int]:
    """Return the places of outputs that are computed tensors."""
    torch = torch_package()
    output = next(n for n in graph.graph.nodes if n.op == "output")
    given: list[Any] = [*output.args[0]]
    return [
        i
        for i, node in enumerate(given)
        if hasattr(node, "meta")
        and node.op != "placeholder"
        and isinstance(node.meta.get("val"), torch.Tensor)
    ]


def _report(error: CompileError) -> None:
    text = str(error)
    if text in _reported:
        return
    _reported.add(text)
    warnings.warn(
        f"PyTorch runs a graph itself, which Loomir cannot compile:\n{text}",
        CompileWarning,
        stacklevel=users_depth(),
    )


class _Runner:
    """Calls a compiled function with a graph's inputs, and gives what the graph returns."""

    def __init__(
        self,
        graph: Any,
        made: Translation,
        function: Callable[..., Any],
        draws: Sequence[Draw],
    ) -> None:
        self._function = function
        nodes = [n for n in graph.graph.nodes if n.op == "placeholder"]
        places = {node: i for i, node in enumerate(nodes)}
        self._draws = list(draws)
        torch = torch_package()
        self._tensor = torch.Tensor
        self._passed = [places[node] for node in made.inputs]
        self._sources = _size_sources(nodes)
        self._outputs = [self._way(node, made, i, places) for i, node in enumerate(made.returned)]
        self._single = len(made.outputs) == 1

    def _way(self, node: Any, made: Translation, place: int, places: Mapping[Any, int]) -> Any:
        """Tell where an output comes from: the function, an input, sizes, or the graph itself."""
        if place in made.outputs:
            return "made", made.outputs.index(place)
        if node in places:
            return "input", places[node]
        value = node.meta.get("val") if hasattr(node, "meta") else node
        return ("size", value) if hasattr(value, "node") else ("plain", value)

    def __call__(self, *inputs: Any) -> Any:
        given = list(inputs)
        for draw in self._draws:
            given.append(draw.make(lambda size: self._number(size, given)))
        passed = [self._argument(given[i]) for i in self._passed]
        results = self._function(*passed)
        made = [tensor_of(r) for r in ((results,) if self._single else results)]
        return [self._output(how, what, made, given) for how, what in self._outputs]

    def _argument(self, value: Any) -> Any:
        if isinstance(value, self._tensor):
            plain: Any = value
            if plain.requires_grad:
                plain = plain.detach()
            return plain if plain.is_contiguous() else plain.contiguous()
        return Shape((int(value),))

    def _number(self, size: Any, given: Sequence[Any]) -> Any:
        node = getattr(size, "node", None)
        if node is None:
            return size

        def symbol(name: Any) -> int:
            place, axis = self._sources[str(name)]
            found = given[place]
            return int(found if axis is None else found.shape[axis])

        return evaluate(node.expr, symbol)

    def _output(self, how: str, what: Any, made: Sequence[Any], given: Sequence[Any]) -> Any:
        if how == "made":
            return made[what]
        if how == "input":
            return given[what]
        return self._number(what, given)


def _size_sources(nodes: Sequence[Any]) -> dict[str, tuple[int, int | None]]:
    """Return, for each symbol, the input that has it and the axis; no axis for a number."""
    found: dict[str, tuple[int, int | None]] = {}
    for i, node in enumerate(nodes):
        value = node.meta.get("val")
        sized = getattr(value, "node", None)
        if sized is not None and sized.expr.is_Symbol:
            found.setdefault(str(sized.expr), (i, None))
        for axis, extent in enumerate(getattr(value, "shape", ())):
            inner = getattr(extent, "node", None)
            if inner is not None and inner.expr.is_Symbol:
                found.setdefault(str(inner.expr), (i, axis))
    return found
