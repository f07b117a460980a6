"""Run the standard's own tests: ``python -m tools.onnx_node_tests``.

Each test of ``onnx.backend.test`` is imported, compiled and run in another process, so that a test
that ends its process, or does not end, counts as such. ``--kind`` selects the operator tests
(``node``) or the models in the package (``simple``, ``pytorch-operator``, ``pytorch-converted``,
and ``light``: whole networks with made-up weights). Results may differ from the expected ones by
the tolerance of the package's own runner.
"""

from __future__ import annotations

import argparse
import importlib
import multiprocessing
import multiprocessing.connection
import os
import re
import sys
import time
import warnings
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from loomir.support.diagnostics import CompileError, LoomirError

DEFAULT_SECONDS = 120
# What the package's runner allows for bfloat16: two units in the last place.
BFLOAT16_RTOL = 2**-6
IMPORT = re.compile(r"ONX00\d\d")


@dataclass(frozen=True)
class Outcome:
    """What became of a test: passed, failed or unsupported, and why."""

    name: str
    state: str
    reason: str = ""
    seconds: float = 0.0
    bound: tuple[str, ...] = ()


def cases(only: str = "", kind: str = "node") -> list[Any]:
    """List the tests whose names match a regular expression."""
    warnings.filterwarnings("ignore")
    loader: Any = importlib.import_module("onnx.backend.test.loader")
    found = loader.load_model_tests(kind="real" if kind == "light" else kind)
    return [c for c in found if re.search(only, c.name)]


def model_of(case: Any) -> Any:
    """Return the model of a test: the node's, or the file that the package holds."""
    if case.model is not None:
        return case.model
    onnx: Any = importlib.import_module("onnx")
    if case.model_dir is not None:
        return onnx.load(Path(case.model_dir, "model.onnx"))
    return onnx.load(_light_model(case))


def _light_model(case: Any) -> Path:
    package: Any = importlib.import_module("onnx")
    return Path(package.__file__).parent.parent / case.url


def data_sets_of(case: Any, model: Any) -> list[tuple[list[Any], list[Any]]]:
    """Return the inputs and the expected outputs of a test.

    The networks of ``light`` come without inputs: theirs are the runner's, evenly spaced numbers.
    """
    if case.data_sets is not None:
        return [([value_of(v) for v in i], [value_of(v) for v in o]) for i, o in case.data_sets]
    if case.model_dir is not None:
        folders = sorted(Path(case.model_dir).glob("test_data_set_*"))
        kinds = [v.type for v in model.graph.input], [v.type for v in model.graph.output]
        return [(_read(f, "input", kinds[0]), _read(f, "output", kinds[1])) for f in folders]
    constant = {i.name for i in model.graph.initializer}
    inputs: list[Any] = []
    for value in model.graph.input:
        if value.name not in constant:
            shape: list[int] = [int(d.dim_value or 1) for d in value.type.tensor_type.shape.dim]
            count = int(np.prod(shape))
            even: Any = np.arange(count) / count
            inputs.append(even.reshape(shape).astype(np.float32))
    path = _light_model(case)
    types = [v.type for v in model.graph.output]
    return [(inputs, _read(path.parent, f"{path.stem}_output", types))]


def _read(folder: Path, prefix: str, types: Sequence[Any]) -> list[Any]:
    """Read the values ``PREFIX_0.pb``, … of a folder, of the types that a model declares."""
    onnx: Any = importlib.import_module("onnx")
    holders = {
        "tensor_type": onnx.TensorProto,
        "sequence_type": onnx.SequenceProto,
        "optional_type": onnx.OptionalProto,
    }
    count = len(list(folder.glob(f"{prefix}_*.pb")))
    values: list[Any] = []
    for i in range(count):
        message = holders[types[i].WhichOneof("value")]()
        message.ParseFromString((folder / f"{prefix}_{i}.pb").read_bytes())
        values.append(value_of(message))
    return values


def run_case(case: Any) -> Outcome:
    """Import, compile and run a test, and compare with what the standard expects."""
    backend: Any = importlib.import_module("loomir.frontend.onnx.backend")
    start = time.monotonic()
    bound: tuple[str, ...] = ()

    def outcome(state: str, reason: str = "") -> Outcome:
        return Outcome(case.name, state, reason, time.monotonic() - start, bound)

    try:
        model = model_of(case)
        prepared = backend.prepare(model)
        for inputs, outputs in data_sets_of(case, model):
            made = prepared.run(inputs)
            bound = tuple(prepared.bound)
            wrong = difference(outputs, made, case.rtol, case.atol)
            if wrong:
                return outcome("failed", wrong)
    except CompileError as error:
        codes = [d.code for d in error.diagnostics]
        lines = "; ".join(d.message for d in error.diagnostics)
        ours = all(IMPORT.fullmatch(c) and c != "ONX0013" for c in codes)
        return outcome("unsupported" if ours else "failed", f"{codes[0]} {lines}")
    except LoomirError as error:
        return outcome("failed", " ".join(str(error).split())[:300])
    except Exception as error:  # noqa: BLE001 - whatever it is, it is what became of the test
        return outcome("failed", f"{type(error).__name__}: {error}"[:300])
    return outcome("passed")


def value_of(given: Any) -> Any:
    """Return the value of a test, some of which are written as in files."""
    helper: Any = importlib.import_module("onnx.numpy_helper")
    readers = {
        "TensorProto": helper.to_array,
        "SequenceProto": helper.to_list,
        "OptionalProto": helper.to_optional,
    }
    reader = readers.get(type(given).__name__)
    return given if reader is None else reader(given)


def difference(expected: Any, made: Any, rtol: float, atol: float) -> str:
    """Tell how outputs differ from what is expected; an empty string where they do not."""
    if len(expected) != len(made):
        return f"{len(made)} outputs, not {len(expected)}"
    for want, got in zip(expected, made):
        if isinstance(want, (list, tuple)):
            wrong = difference([*want], [*got], rtol, atol)
        elif want is None or got is None:
            wrong = "" if want is got else "one is None"
        else:
            wrong = _array_difference(np.asarray(want), np.asarray(got), rtol, atol)
        if wrong:
            return wrong
    return ""


def _array_difference(want: Any, got: Any, rtol: float, atol: float) -> str:
    if want.dtype != got.dtype:
        return f"elements are {got.dtype}, not {want.dtype}"
    if want.shape != got.shape:
        return f"the shape is {got.shape}, not {want.shape}"
    if want.dtype.name == "bfloat16":
        rtol = max(rtol, BFLOAT16_RTOL)
    if want.dtype.kind not in "biufc":  # small floats and integers
        want, got = want.astype("float32"), got.astype("float32")
    try:
        np.testing.assert_allclose(got, want, rtol=rtol, atol=atol)
    except AssertionError as error:
        lines = [line for line in str(error).splitlines() if "difference" in line or "Mism" in line]
        return "elements differ: " + "; ".join(line.strip() for line in lines[:3])
    return ""


# -- workers -------------------------------------------------------------------------------------
def _work(channel: Any, found: Sequence[Any]) -> None:
    sys.stdout = sys.stderr = open(os.devnull, "w")  # noqa: SIM115 - as long as the process
    while True:
        index = channel.recv()
        if index is None:
            return
        channel.send(run_case(found[index]))


class Worker:
    """A process that runs tests, and what it is at."""

    def __init__(self, found: Sequence[Any]) -> None:
        context = multiprocessing.get_context("fork")
        self.channel, inner = context.Pipe()
        self.process = context.Process(target=_work, args=(inner, found), daemon=True)
        self.process.start()
        inner.close()
        self.index: int | None = None
        self.since = 0.0

    def give(self, index: int | None) -> None:
        """Have it run a test."""
        self.index, self.since = index, time.monotonic()
        self.channel.send(index)


def run_all(found: Sequence[Any], jobs: int, seconds: float, verbose: bool) -> list[Outcome]:
    """Run tests in processes; gives their outcomes in order."""
    todo = list(range(len(found)))[::-1]
    made: dict[int, Outcome] = {}
    workers = [Worker(found) for _ in range(min(jobs, len(found)))]
    for worker in workers:
        worker.give(todo.pop())
    while any(w.index is not None for w in workers):
        busy = [w for w in workers if w.index is not None]
        ready = multiprocessing.connection.wait([w.channel for w in busy], timeout=1)
        for i, worker in enumerate(workers):
            index = worker.index
            if index is None:
                continue
            outcome = _outcome(worker, found[index].name, worker.channel in ready, seconds)
            if outcome is None:
                continue
            made[index] = outcome
            if verbose:
                print(f"{outcome.state:12} {outcome.name} {outcome.seconds:.1f}s {outcome.reason}")
            if outcome.state == "failed" and not worker.process.is_alive():
                workers[i] = Worker(found)
            workers[i].index = None
            if todo:
                workers[i].give(todo.pop())
    for worker in workers:
        worker.give(None)
    return [made[i] for i in range(len(found))]


def _outcome(worker: Worker, name: str, ready: bool, seconds: float) -> Outcome | None:
    taken = time.monotonic() - worker.since
    if ready:
        try:
            return worker.channel.recv()
        except EOFError:
            worker.process.join()
            return Outcome(name, "failed", f"died with {worker.process.exitcode}", taken)
    if taken > seconds:
        worker.process.kill()
        worker.process.join()
        return Outcome(name, "failed", f"took more than {seconds:g} s", taken)
    return None


# -- what is shown -------------------------------------------------------------------------------
def summary(outcomes: Sequence[Outcome]) -> str:
    """Write how many passed, and all that did not, with the reason."""
    states = Counter(o.state for o in outcomes)
    bound = sum(o.state == "passed" and bool(o.bound) for o in outcomes)
    lines = [f"{o.state:12} {o.name}: {o.reason}" for o in outcomes if o.state != "passed"]
    share = 100 * states["passed"] / max(len(outcomes), 1)
    lines.append(
        f"{len(outcomes)} tests: {states['passed']} passed ({share:.1f} %; {bound} of them with "
        f"inputs bound when first run), {states['failed']} failed, "
        f"{states['unsupported']} unsupported"
    )
    return "\n".join(lines)


def main() -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", default="", help="a regular expression for names")
    parser.add_argument("--kind", default="node", help="node, simple, light, …")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--seconds", type=float, default=DEFAULT_SECONDS, help="for one test")
    parser.add_argument("--verbose", action="store_true", help="print each test as it ends")
    parser.add_argument("--list", type=Path, help="run the tests that a file names, one a line")
    options = parser.parse_args()
    found = cases(options.only, options.kind)
    if options.list is not None:
        names = set(options.list.read_text(encoding="utf-8").split())
        found = [c for c in found if c.name in names]
    outcomes = run_all(found, options.jobs, options.seconds, options.verbose)
    print(summary(outcomes))
    return int(any(o.state == "failed" for o in outcomes))


if __name__ == "__main__":
    sys.exit(main())
