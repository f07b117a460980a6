"""Models in ``loomir run``: read or draw inputs, describe outputs, time calls."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple, cast

import numpy as np

import loomir
from loomir.cli.files.source import is_onnx, load_model
from loomir.cli.graphs import graph_inputs, graph_sizes
from loomir.cli.report import Report
from loomir.cli.work.other_backends import OtherBackend, differences, measure_in_turns, refuse_other
from loomir.frontend.onnx.backend import as_onnx_value
from loomir.frontend.onnx.importer import read
from loomir.frontend.onnx.model import GraphDef
from loomir.ir.module import IRModule
from loomir.relax.expr import Function
from loomir.relax.struct_info import TupleStructInfo
from loomir.support.diagnostics import CompileError, Diagnostic, nearest
from loomir.transform.pipelines import CHECK_NAN

__all__ = ["ModelRun", "run_model"]

_CALLS: Final = 5
_SECONDS: Final = 1.0


class ModelRun(NamedTuple):
    """How to compile and run a model."""

    timed: bool = False
    profiled: bool = False
    interpret: bool = False
    check_bounds: bool = False
    checked: bool = False
    nan: bool = False
    show: str | None = None
    """``script``, ``llvm`` or ``asm``."""
    dump: Path | None = None
    optimize_graph: bool = True
    others: tuple[str, ...] = ()
    """Names of ONNX backends to compare with."""
    tolerance: float | None = None

    @property
    def compiles(self) -> bool:
        """Whether native code is needed."""
        native = self.timed or self.profiled or self.show in ("llvm", "asm")
        return native or self.dump is not None or not self.interpret


def run_model(
    report: Report,
    path: Path,
    inputs: Sequence[str],
    dims: Mapping[str, int],
    seed: int,
    options: ModelRun,
) -> bool:
    """Compile a model, run it once, natively or by the interpreter, and describe its outputs.

    With ``timed``, print the time of a call; with ``profiled``, the time of each kernel. Returns
    whether the outputs agree with those of the other backends.

    Errors: CLI0013 for a missing input, CLI0015 for a backend, and those of models.
    """
    start = time.perf_counter()
    module = load_model(path, dims)
    took = time.perf_counter() - start
    if options.others and not is_onnx(path):
        raise refuse_other(options.others[0], "it takes models of ONNX")
    others = [OtherBackend(name, path) for name in options.others]
    start = time.perf_counter() - took
    if options.nan:
        module = CHECK_NAN.run(module)
    program: Any = None
    if options.compiles:
        program = loomir.compile(
            module,
            check_bounds=options.check_bounds,
            checked=options.checked,
            dump=options.dump,
            optimize_graph=options.optimize_graph,
        )
        report.fact("compile_seconds", time.perf_counter() - start)
    _show(report, module, program, options.show)
    func = module["main"]
    assert isinstance(func, Function)
    given = _read_pairs(inputs, [p.name_hint for p in func.params])
    arguments = graph_inputs(func, _sizes(func, dims, path), given, seed)
    for param, value in zip(func.params, arguments, strict=True):
        drawn = "" if param.name_hint in given else ", drawn at random"
        report.line(f"input {param.name_hint}: {_describe(value)}{drawn}")
    made: Any = (
        loomir.interpret(module, "main", *arguments)
        if options.interpret
        else program["main"](*arguments)
    )
    graph = read(path).graph if is_onnx(path) else None
    names = _output_names(func) if graph is None else list(graph.outputs)
    outputs = (made,) if len(names) == 1 else made
    for name, value in zip(names, outputs, strict=True):
        report.fact(name, _describe(value))
        shown = name if graph is None else f"output {name}"
        report.line(f"{shown}: {_describe(value)}", "bold")
    if options.timed:
        _time(report, lambda: program["main"](*arguments))
    if options.profiled:
        for _ in range(2):  # the first calls create threads and allocate memory
            program.profile(*arguments)
        found = program.profile(*arguments)
        report.fact("profile", [kernel._asdict() for kernel in found.kernels])
        report.line(f"\n{found}")
    if graph is None:
        return True
    passed = [as_onnx_value(v, graph.inputs[n]) for n, v in zip(_parameters(graph), arguments)]
    call = None if program is None else lambda: program["main"](*arguments)
    agrees = [_compare(report, other, graph, passed, outputs, call, options) for other in others]
    return all(agrees)


def _sizes(func: Function, dims: Mapping[str, int], path: Path) -> dict[str, int]:
    """Return a size for each open extent: the given one, else the least, or 1.

    Errors: CLI0013 for an extent that the model does not have.
    """
    ranges: Any = func.attrs.get("torch_ranges", {})
    least = {name: max(1, int(bounds[0])) for name, bounds in dict(ranges).items()}
    unknown = graph_sizes(func, {})
    if not is_onnx(path):  # importing an ONNX model has checked and used the names
        for name in dims:
            if name not in unknown:
                guess = nearest(name, unknown)
                listing = ", ".join(unknown) or "none"
                raise _refusal(
                    f"--dim {name}={dims[name]}: the model has no extent of that name",
                    f"did you mean {guess!r}?" if guess else f"its open extents: {listing}",
                )
    return {name: dims.get(name, least.get(name, 1)) for name in unknown}


def _output_names(func: Function) -> list[str]:
    info = func.ret_struct_info
    count = len(info.fields) if isinstance(info, TupleStructInfo) else 1
    return ["output"] if count == 1 else [f"output[{i}]" for i in range(count)]


def _parameters(graph: GraphDef) -> list[str]:
    """List the inputs that are parameters of the function, in order."""
    return [name for name in graph.inputs if name not in graph.constants]


def _compare(
    report: Report,
    other: OtherBackend,
    graph: GraphDef,
    inputs: Sequence[Any],
    outputs: Sequence[Any],
    call: Callable[[], object] | None,
    options: ModelRun,
) -> bool:
    """Print how far each output is from another backend's, and how long both take.

    Errors: CLI0015.
    """
    facts: dict[str, Any] = {}
    report.fact(other.name, facts)
    right = True
    for (name, kind), ours, theirs in zip(graph.outputs.items(), outputs, other.run(inputs)):
        for shown, found in differences(ours, theirs, kind, name, options.tolerance):
            right &= found.agrees
            facts[shown] = found._asdict()
            verdict = "agrees with" if found.agrees else "DIFFERS from"
            line = f"output {shown} {verdict} {other.name}: {found}"
            report.line(line, "green" if found.agrees else "bold red")
    if call is not None:
        ours, theirs = measure_in_turns([call, lambda: other.run(inputs)])
        facts["seconds"], facts["loomir_seconds"] = theirs, ours
        report.line(
            f"{ours * 1e3:.3g} ms a call, {other.name} {theirs * 1e3:.3g} ms: "
            f"{theirs / ours:.2f} times its speed"
        )
    return right


def _show(report: Report, module: IRModule, program: Any, what: str | None) -> None:
    if what is None:
        return
    if what == "script":
        text = module.script()
    else:
        text = program.llvm_ir() if what == "llvm" else program.assembly()
    report.fact(what, text)
    report.line(text.rstrip())


def _read_pairs(pairs: Sequence[str], names: Sequence[str]) -> dict[str, object]:
    made: dict[str, object] = {}
    for pair in pairs:
        name, equals, source = pair.partition("=")
        if not equals or name not in names:
            guess = nearest(name, names)
            raise _refusal(
                f"--input {pair}: the model has no input of that name",
                f"did you mean {guess!r}?" if guess else f"its inputs: {', '.join(names)}",
            )
        if source == "random":
            continue
        try:
            made[name] = np.load(source, allow_pickle=False)
        except (OSError, ValueError, EOFError) as error:
            raise _refusal(
                f"--input {pair}: {str(error).splitlines()[0]}",
                "give a file that numpy.save wrote, or the word random",
            ) from error
    return made


def _refusal(message: str, remedy: str) -> CompileError:
    return CompileError(Diagnostic("CLI0013", message, help=remedy))


def _describe(value: Any) -> str:
    if isinstance(value, tuple):
        return f"{len(cast('tuple[Any, ...]', value))} values"
    if value is None or isinstance(value, str) or issubclass(type(value), np.generic):
        return str(value)
    array: Any = np.asarray(value)
    text = f"{array.dtype} {tuple(array.shape)}"
    if not array.ndim:
        return f"{text}, {array}"
    if not array.size or array.dtype.kind not in "iufV":
        return text
    wide: Any = array.astype("float64")
    return f"{text}, from {wide.min():.4g} to {wide.max():.4g}, mean {wide.mean():.4g}"


def _time(report: Report, call: Any) -> None:
    """Call for a second, and print the median time."""
    taken: list[float] = []
    until = time.perf_counter() + _SECONDS
    while len(taken) < _CALLS or time.perf_counter() < until:
        start = time.perf_counter()
        call()
        taken.append(time.perf_counter() - start)
    median = statistics.median(taken)
    report.fact("seconds", median)
    report.line(f"{median * 1e3:.3g} ms a call, the median of {len(taken)}")
