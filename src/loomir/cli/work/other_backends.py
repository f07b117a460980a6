"""Compare the results of an ONNX model with those of another ONNX backend.

A backend is any module that implements ``onnx.backend.base``, under the name that the user gives,
or as ``backend`` in the package of that name.
"""

from __future__ import annotations

import importlib
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from loomir.cli.compare import choose_tolerance
from loomir.frontend.onnx.backend import as_onnx_value
from loomir.frontend.onnx.model import NodeType
from loomir.frontend.onnx.proto import onnx_package
from loomir.support.diagnostics import CompileError, Diagnostic
from loomir.support.dtype import dtype_of_numpy

__all__ = ["Difference", "OtherBackend", "differences", "measure_in_turns", "refuse_other"]

Array: TypeAlias = npt.NDArray[Any]

_SECONDS: Final = 1.0
_LEAST_ROUNDS: Final = 3
_IN_A_ROW: Final = 5
_LONG: Final = 0.1
"""Seconds of calls before the other backend has its turn."""


class OtherBackend:
    """A model prepared by another backend."""

    def __init__(self, name: str, path: Path) -> None:
        """Find the backend and let it load the model. Errors: CLI0015."""
        self.name = name
        backend = _find(name)
        model = onnx_package().load(path)
        self._count = len(model.graph.output)
        try:
            self._prepared: Any = backend.prepare(model, device="CPU")
        except Exception as error:  # whatever another library raises is its answer
            raise self._refused("read", error) from error

    def run(self, inputs: Sequence[Any]) -> list[Any]:
        """Run the model on ONNX values. Errors: CLI0015."""
        try:
            made: list[Any] = list(self._prepared.run(list(inputs)))
            if len(made) != self._count:
                raise ValueError(f"it returns {len(made)} outputs of {self._count}")
        except Exception as error:  # whatever another library raises is its answer
            raise self._refused("run", error) from error
        return made

    def _refused(self, what: str, error: Exception) -> CompileError:
        said = (str(error).strip() or type(error).__name__).splitlines()[0]
        return _refusal(
            f"{self.name} cannot {what} the model: {said}",
            "compare with another backend, or give other inputs: --input, --dim",
        )


def _find(name: str) -> Any:
    package = name.partition(".")[0]
    for module in (f"{name}.backend", name):
        try:
            found: Any = importlib.import_module(module)
        except ModuleNotFoundError as error:
            if error.name is None or not f"{module}.".startswith(f"{error.name}."):
                raise _broken(name, error) from error  # a module that it imports is missing
            if error.name == package:
                raise _refusal(
                    f"--compare {name}: there is no module of that name",
                    f"install the package that has it, as in pip install {package}",
                ) from error
            continue
        except Exception as error:  # a module may raise anything
            raise _broken(name, error) from error
        if callable(getattr(found, "prepare", None)):
            return found
    raise _refusal(
        f"--compare {name}: neither {name} nor {name}.backend has a function prepare(model)",
        "name a module that implements onnx.backend.base, such as onnxruntime",
    )


def _broken(name: str, error: Exception) -> CompileError:
    said = (str(error).strip() or type(error).__name__).splitlines()[0]
    return _refusal(
        f"--compare {name}: importing it fails: {said}", "repair its installation, or leave it out"
    )


def refuse_other(name: str, why: str) -> CompileError:
    """Return the error for a program that other backends cannot run."""
    return _refusal(f"--compare {name}: {why}", "leave it out, or give a model, a file FILE.onnx")


def _refusal(message: str, remedy: str) -> CompileError:
    return CompileError(Diagnostic("CLI0015", message, help=remedy))


class Difference(NamedTuple):
    """The difference of two arrays, and whether it is within the tolerance."""

    agrees: bool
    absolute: float
    relative: float
    """The absolute difference as a fraction of the largest finite element."""
    mismatch: str = ""
    """A difference that cannot be measured, such as of shapes."""

    def __str__(self) -> str:
        if self.mismatch:
            return self.mismatch
        if not self.absolute:
            return "equal" if self.agrees else "NaNs or infinities differ"
        return f"differs by at most {self.absolute:.3g}, {self.relative:.2g} of the largest element"


def differences(
    got: Any, wanted: Any, kind: NodeType, name: str, tolerance: float | None
) -> Iterator[tuple[str, Difference]]:
    """Compare an output by name; tensors of a sequence are compared one by one.

    Without a tolerance, integers must be equal, and floats may differ by the order of sums. A
    tolerance is a fraction of the largest element.
    """
    ours = as_onnx_value(got, kind)
    pending: list[tuple[str, Any, Any]] = [(name, ours, wanted)]
    while pending:
        shown, a, b = pending.pop()
        if _is_sequence(a) and _is_sequence(b):
            parts, others = list(a), list(b)
            if len(parts) != len(others):
                text = f"has {len(parts)} elements, and {len(others)} there"
                yield shown, Difference(False, 0.0, 0.0, text)
            else:
                pairs = [(f"{shown}[{i}]", x, y) for i, (x, y) in enumerate(zip(parts, others))]
                pending.extend(reversed(pairs))
        elif a is None or b is None:
            same = a is b
            yield shown, Difference(same, 0.0, 0.0, "" if same else "is absent in one of them")
        else:
            yield shown, _difference(np.asarray(a), np.asarray(b), tolerance)


def _is_sequence(value: Any) -> bool:
    return isinstance(value, (list, tuple))


def _difference(got: Array, wanted: Array, tolerance: float | None) -> Difference:
    if got.shape != wanted.shape:
        return Difference(False, 0.0, 0.0, f"has shape {got.shape}, and {wanted.shape} there")
    if got.dtype != wanted.dtype:
        return Difference(False, 0.0, 0.0, f"is {got.dtype}, and {wanted.dtype} there")
    dtype = dtype_of_numpy(got.dtype)
    share = tolerance
    if share is None:
        share = 0.0 if dtype is None else choose_tolerance(dtype)
    x, y = got.astype(np.float64), wanted.astype(np.float64)
    both = np.isfinite(x) & np.isfinite(y)
    other = ~both & (x != y) & ~(np.isnan(x) & np.isnan(y))
    gap = float(np.abs(x - y, where=both, out=np.zeros_like(y)).max(initial=0.0))
    largest = float(np.abs(y, where=both, out=np.zeros_like(y)).max(initial=0.0))
    agrees = not bool(other.any()) and gap <= share * largest
    relative = gap / largest if largest else float(gap > 0) * float("inf")
    return Difference(agrees or (gap == 0.0 and not other.any()), gap, relative)


def measure_in_turns(calls: Sequence[Callable[[], object]]) -> list[float]:
    """Return the median time of each call; they take turns, so that load affects all equally."""
    taken: list[list[float]] = [[] for _ in calls]
    until = time.perf_counter() + _SECONDS * len(calls)
    rounds = 0
    while rounds < _LEAST_ROUNDS or time.perf_counter() < until:
        rounds += 1
        for times, call in zip(taken, calls):
            time.sleep(0.05)  # lets the threads of the previous one go to sleep
            call()
            started = time.perf_counter()
            for _ in range(_IN_A_ROW):
                start = time.perf_counter()
                call()
                times.append(time.perf_counter() - start)
                if time.perf_counter() - started > _LONG:
                    break
    return [statistics.median(times) for times in taken]
