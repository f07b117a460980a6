"""Loomir as a backend of ``torch.compile``."""

from __future__ import annotations

import copy
import warnings
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from loomir.frontend.torch.checks import drop_checks
from loomir.frontend.torch.converters import load_converters
from loomir.frontend.torch.decompositions import aot_decompositions
from loomir.frontend.torch.draws import Draw, take_out_draws
from loomir.frontend.torch.dtypes import tensor_of, view_pairs, view_parts
from loomir.frontend.torch.layouts import (
    InputView,
    find_input_views,
    find_size_sources,
    is_computable,
    lay_out,
    lay_out_inputs,
    layout_numbers,
    number_of,
    read_layout,
)
from loomir.frontend.torch.mistakes import refuse_program
from loomir.frontend.torch.node import is_complex_value
from loomir.frontend.torch.package import torch_package
from loomir.frontend.torch.program import Translation, translate
from loomir.runtime.compile_options import CompileOptions
from loomir.runtime.shape import Shape
from loomir.support.argument_errors import explain_arguments, refuse_options, with_remedy
from loomir.support.caller_span import read_call, user_span
from loomir.support.compile_warning import CompileWarning, users_depth
from loomir.support.compiling import to_executable
from loomir.support.diagnostics import CompileError
from loomir.support.runtime_types import show_value

__all__ = ["backend", "compile"]

_OPTIONS: Final = (
    *CompileOptions._fields,
    "choices",
    "database",
    "dump",
    "dynamic",
    "freeze",
    "target",
)
"""The options of ``loomir.compile``, and those of ``compile``."""
_reported: Final[set[str]] = set()
"""The warnings issued about graphs that PyTorch runs itself."""
_MOST_WRITTEN: Final = 3
"""How often a parameter may be written before it becomes an argument instead of a constant."""


def _call_it(args: Sequence[Any], kwargs: Mapping[str, Any]) -> str | None:
    """Write a call of what ``compile`` returns, for inputs that ``compile`` was given."""
    if len(args) < 2:
        return None
    called = read_call(user_span())
    model, *inputs = ("model", "x") if called is None else called.arguments.split(", ", 1)
    return f"it takes inputs when it is called: loomir.torch.compile({model})({', '.join(inputs)})"


@explain_arguments
@with_remedy(_call_it)
def compile(  # noqa: A001
    model: Any, *, dynamic: bool | None = None, freeze: bool = False, **options: Any
) -> Any:
    """Return a PyTorch module or function that runs through Loomir.

    It is ``torch.compile(model, backend="loomir")``: graphs are compiled when they are first
    called, with their gradients if needed. A graph with operators that have no converter is left to
    PyTorch, with a warning that names them. ``dynamic``: whether sizes are symbolic from the start;
    by default, once they change. ``freeze``: whether parameters and buffers are constants if no
    gradient is needed, with weights packed for the machine. Writes to them are detected by
    PyTorch's version counters, which miss writes through ``parameter.data``. ``options`` are those
    of ``loomir.compile``.

    Errors: PTC0001, PTC0002 for what is no model, RUN0012 for an option that is none.
    """
    torch = torch_package()
    if isinstance(model, torch.Tensor) or not callable(model):
        raise refuse_program(
            "PTC0002",
            f"{show_value(model)} is not a model",
            help="give a torch.nn.Module or a function: loomir.torch.compile(model)(x)",
        )
    refuse_options(options, _OPTIONS, "loomir.torch.compile")
    given = {**options, "freeze": freeze}

    def call_backend(module: Any, inputs: Sequence[Any]) -> Any:
        return backend(module, inputs, options=given)

    return torch.compile(model, backend=call_backend, dynamic=dynamic)


def backend(
    module: Any, inputs: Sequence[Any], *, options: Mapping[str, Any] | None = None, **_: Any
) -> Any:
    """Compile a graph that dynamo captured; the backend ``"loomir"`` of ``torch.compile``.

    ``options`` are those of ``loomir.compile``, and ``freeze`` of ``loomir.torch.compile``.
    """
    load_converters()
    common = torch_package("_dynamo.backends.common")
    partition = torch_package("_functorch.partitioners").min_cut_rematerialization_partition
    given = dict(options or {})
    refuse_options(given, _OPTIONS, "loomir.torch.compile")
    freezes = bool(given.pop("freeze", False))

    def compiler(graph: Any, _inputs: Sequence[Any]) -> Any:
        return _compile_graph(graph, given, (), _count_model_outputs())

    def backward_compiler(graph: Any, _inputs: Sequence[Any]) -> Any:
        return _compile_graph(graph, given, (), 0, by_pytorch=lay_out_inputs)

    def inference_compiler(graph: Any, _inputs: Sequence[Any]) -> Any:
        static = _static_inputs() if freezes else ()
        return _compile_graph(graph, given, static, _count_model_outputs())

    made = common.aot_autograd(
        fw_compiler=compiler,
        bw_compiler=backward_compiler,
        inference_compiler=inference_compiler,
        decompositions=aot_decompositions(),
        partition_fn=partition,
    )
    return made(module, inputs)


def _read_metadata(name: str) -> Any:
    context: Any = torch_package("_guards").TracingContext.try_get()
    return getattr(getattr(context, "fw_metadata", None), name, None)


def _static_inputs() -> Sequence[int]:
    """Return the indices of inputs that are parameters or buffers of a module."""
    return tuple(_read_metadata("static_input_indices") or ())


def _count_model_outputs() -> int:
    """Return how many outputs of a graph are the model's; those after are for its gradients."""
    return int(_read_metadata("num_forward_returns") or 0)


def _forward_of(graph: Any) -> Callable[..., Any]:
    return graph.forward


def _compile_graph(
    graph: Any,
    options: Mapping[str, Any],
    static: Sequence[int],
    laid_out: int,
    *,
    by_pytorch: Callable[[Any], Callable[..., Any]] = _forward_of,
) -> Any:
    """Return a function that runs a graph of core operators on a list of inputs.

    The first ``laid_out`` outputs have the strides and offsets that they have in PyTorch.
    ``by_pytorch`` returns what runs a graph that Loomir cannot compile.
    """
    boxed = torch_package("_functorch.aot_autograd").make_boxed_func
    if not _tensors_returned(graph, find_input_views(graph)):
        return boxed(by_pytorch(graph))
    if static:
        return boxed(_FrozenGraph(graph, options, static, laid_out))
    return boxed(_runner(graph, options, {}, laid_out) or by_pytorch(graph))


def _runner(
    graph: Any, options: Mapping[str, Any], constants: Mapping[int, Any], laid_out: int
) -> Any:
    """Compile a graph with some inputs as ``constants``; report a failure, and return None."""
    outside = torch_package("_subclasses.fake_tensor").unset_fake_temporarily
    with outside():  # the tensors that the graph holds are not fake
        own = torch_package("fx").GraphModule(graph, copy.deepcopy(graph.graph))
        nodes = [n for n in own.graph.nodes if n.op == "placeholder"]
        drop_checks(own)
        draws = take_out_draws(own)
        views = find_input_views(own)
        try:
            made = translate(
                own,
                constants={nodes[place]: tensor for place, tensor in constants.items()},
                outputs=_tensors_returned(own, views),
                takes_complex=True,
            )
            function = to_executable(made.module, **options)["main"]
        except CompileError as error:
            _report(error)
            return None
    return _Runner(own, made, function, draws, views, laid_out)


class _WatchedTensor:
    """A module's tensor that is a constant of the compiled program, and its version."""

    def __init__(self, tensor: Any) -> None:
        self._own = weakref.ref(tensor)
        self._version = tensor._version
        self._memory = tensor.data_ptr()

    def is_of(self, tensor: Any) -> bool:
        """Tell whether it is the same tensor, in the same memory."""
        return self._own() is tensor and self._memory == tensor.data_ptr()

    def holds(self, tensor: Any) -> bool:
        """Tell whether the tensor was not written since, by PyTorch's version counter."""
        return self.is_of(tensor) and self._version == tensor._version


class _FrozenGraph:
    """Runs a graph for inference with its module's tensors as packed constants.

    Their version counters are compared before each call. The first few times that a parameter was
    written, the graph is compiled again. A parameter that is written more often, a written buffer,
    or a tensor that is replaced (modules of a class may share code) becomes an argument.
    """

    def __init__(
        self, graph: Any, options: Mapping[str, Any], static: Sequence[int], laid_out: int
    ) -> None:
        self._graph = graph
        self._options = options
        self._laid_out = laid_out
        self._static = dict.fromkeys(static, 0)
        """The indices of tensors that can be constants, and how often each was written."""
        self._compiled: tuple[dict[int, _WatchedTensor], Any] | None = None

    def __call__(self, *inputs: Any) -> Any:
        found = self._compiled
        if found is None or not all(w.holds(inputs[i]) for i, w in found[0].items()):
            found = self._compiled = self._compile(inputs, {} if found is None else found[0])
        return found[1](*inputs)

    def _compile(
        self, inputs: Sequence[Any], before: Mapping[int, _WatchedTensor]
    ) -> tuple[dict[int, _WatchedTensor], Any]:
        for place, watched in before.items():
            if not watched.holds(inputs[place]):
                written = watched.is_of(inputs[place]) and _is_parameter(inputs[place])
                self._static[place] += 1 if written else _MOST_WRITTEN
        constants = {
            place: inputs[place]
            for place, times in self._static.items()
            if times < _MOST_WRITTEN and _can_be_watched(inputs[place])
        }
        watched = {place: _WatchedTensor(tensor) for place, tensor in constants.items()}
        runner = _runner(self._graph, self._options, constants, self._laid_out)
        return ({}, self._graph.forward) if runner is None else (watched, runner)


def _is_parameter(tensor: Any) -> bool:
    return isinstance(tensor, torch_package().nn.Parameter)


def _can_be_watched(tensor: Any) -> bool:
    """Tell whether PyTorch counts the writes to a tensor."""
    return isinstance(tensor, torch_package().Tensor) and not tensor.is_inference()


def _tensors_returned(graph: Any, views: Mapping[int, InputView]) -> list[int]:
    """Return the indices of outputs that are computed tensors, and no views of inputs."""
    torch = torch_package()
    output = next(n for n in graph.graph.nodes if n.op == "output")
    given: list[Any] = [*output.args[0]]
    return [
        i
        for i, node in enumerate(given)
        if hasattr(node, "meta")
        and node.op != "placeholder"
        and i not in views
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
    """Calls a compiled function with a graph's inputs, and returns the graph's outputs."""

    def __init__(
        self,
        graph: Any,
        made: Translation,
        function: Callable[..., Any],
        draws: Sequence[Draw],
        views: Mapping[int, InputView],
        laid_out: int,
    ) -> None:
        self._function = function
        nodes = [n for n in graph.graph.nodes if n.op == "placeholder"]
        places = {node: i for i, node in enumerate(nodes)}
        self._draws = list(draws)
        torch = torch_package()
        self._tensor = torch.Tensor
        self._passed = [places[node] for node in made.inputs]
        self._sources = find_size_sources(nodes)
        self._views = views
        self._outputs = [self._way(node, made, i, places) for i, node in enumerate(made.returned)]
        self._layouts = {
            i: layout
            for i, node in enumerate(made.returned[:laid_out])
            if i in made.outputs
            and (layout := read_layout(node)) is not None
            and is_computable(layout, self._sources)
        }
        self._complex = [is_complex_value(made.returned[i]) for i in made.outputs]
        self._single = len(made.outputs) == 1

    def _way(self, node: Any, made: Translation, place: int, places: Mapping[Any, int]) -> Any:
        """Return the source of an output: the function, an input, sizes, or the graph itself."""
        if place in made.outputs:
            return "made", made.outputs.index(place)
        if place in self._views:
            return "view", self._views[place]
        if node in places:
            return "input", places[node]
        value = node.meta.get("val") if hasattr(node, "meta") else node
        return ("size", value) if hasattr(value, "node") else ("plain", value)

    def __call__(self, *inputs: Any) -> Any:
        given = list(inputs)
        for draw in self._draws:
            given.append(draw.make(lambda size: number_of(size, self._sources, given)))
        passed = [self._argument(given[i]) for i in self._passed]
        results = self._function(*passed)
        made = [tensor_of(r) for r in ((results,) if self._single else results)]
        made = [view_pairs(m) if c else m for m, c in zip(made, self._complex, strict=True)]
        found = [self._output(how, what, made, given) for how, what in self._outputs]
        for i, layout in self._layouts.items():
            found[i] = lay_out(found[i], *layout_numbers(layout, self._sources, given))
        return found

    def _argument(self, value: Any) -> Any:
        if isinstance(value, self._tensor):
            plain: Any = value
            if plain.requires_grad:
                plain = plain.detach()
            if plain.is_complex():
                plain = view_parts(plain)
            return plain if plain.is_contiguous() else plain.contiguous()
        return Shape((int(value),))

    def _output(self, how: str, what: Any, made: Sequence[Any], given: Sequence[Any]) -> Any:
        if how == "made":
            return made[what]
        if how == "view":
            base = given[what.place]
            sizes, strides, offset = layout_numbers(what.layout, self._sources, given)
            return base.as_strided(sizes, strides, base.storage_offset() + offset)
        if how == "input":
            return given[what]
        return number_of(what, self._sources, given)
