"""Random quantised graphs, judged stage by stage against their exact definition.

Run ``python -m fuzz.quantised --count N --start SEED``; a graph is a function of its seed. A stage
takes bytes, computes on the floats that they represent, and rounds to bytes again, which are a
result of the graph. So the judge takes the program's own result of the previous stage, computes
sums exactly in integers, and the rest in float64. A byte is right if it is the rounded value, or if
the value is too close to a tie for float32. Stages that only move bytes must match exactly.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections.abc import Callable
from typing import Any, Final, NamedTuple

import numpy as np

import loomir
from loomir import op, relax
from loomir.ir import IRModule
from loomir.transform.pipelines import optimize_relax
from loomir.validate import validate_schedule

__all__ = ["Graph", "Stage", "check", "graph_of_seed", "main"]

_ULPS: Final = 8 * 2.0**-24
"""What conversions, two scales, a bias and a division round by, as a share of what they round."""
_TARGETS: Final = ("haswell", "cascadelake", "alderlake", "neoverse-n1")
"""Machines with and without instructions for bytes."""

NPArray = Any


class Kind(NamedTuple):
    """How bytes stand for floats."""

    dtype: str
    scale: np.float32
    zero: int

    @property
    def ends(self) -> tuple[int, int]:
        """The range of the bytes."""
        info = np.iinfo(self.dtype)
        return int(info.min), int(info.max)


class Tensor(NamedTuple):
    """Bytes of the graph: their variable, their shape, and how they stand for floats."""

    var: Any
    shape: tuple[int, ...]
    kind: Kind
    number: int
    """Which of the results has them; the input is -1."""


class Stage(NamedTuple):
    """What is made of earlier bytes: the exact value, and the sum of what it is rounded from."""

    name: str
    sources: tuple[int, ...]
    exact: Callable[..., tuple[NPArray, NPArray]]
    kind: Kind


class Graph(NamedTuple):
    """A program, the bytes that it is given, and what each of its results is."""

    module: IRModule
    given: NPArray
    first: Kind
    stages: list[Stage]


class _Maker:
    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.arrays = np.random.default_rng(seed)
        self.builder = relax.BlockBuilder()
        self.stages: list[Stage] = []
        self.results: list[Any] = []

    # -- parts -----------------------------------------------------------------------------------
    def kind(self) -> Kind:
        dtype = self.rng.choice(("int8", "uint8"))
        low, high = (-128, 127) if dtype == "int8" else (0, 255)
        zero = self.rng.choice((0, low, high, self.rng.randint(low, high)))
        return Kind(dtype, np.float32(self.rng.choice((0.5, self.rng.uniform(1e-3, 0.2)))), zero)

    def codes(self, dtype: str, *shape: int) -> NPArray:
        info = np.iinfo(dtype)
        if self.rng.random() < 0.2:  # the largest sums there are
            return np.full(shape, self.rng.choice((info.min, info.max)), dtype)
        return self.arrays.integers(info.min, info.max + 1, shape).astype(dtype)

    def emit(self, value: Any) -> Any:
        return self.builder.emit(value)

    def dequantised(self, codes: Any, scale: NPArray, zero: NPArray, axis: int = -1) -> Any:
        """Write floats in one of the ways in which importers do."""
        constant = relax.const
        form = self.rng.randrange(3)
        if form == 0:
            flat = [constant(v.reshape(-1) if v.size > 1 else v.reshape(())) for v in (scale, zero)]
            return self.emit(op.dequantize(codes, *flat, axis))
        wide = "int32" if form == 1 else "float32"
        x = self.emit(op.astype(codes, wide))
        if zero.any() or self.rng.random() < 0.5:
            x = self.emit(op.subtract(x, constant(zero.astype(wide))))
        x = x if form == 2 else self.emit(op.astype(x, "float32"))
        pair = (x, constant(scale)) if self.rng.random() < 0.8 else (constant(scale), x)
        return self.emit(op.multiply(*pair))

    def floats(self, x: Tensor) -> Any:
        zero = np.asarray(x.kind.zero, x.kind.dtype)
        return self.dequantised(x.var, np.asarray(x.kind.scale), zero)

    def quantised(self, value: Any, kind: Kind) -> Any:
        low, high = kind.ends
        if self.rng.random() < 0.3:
            zero = relax.const(np.asarray(kind.zero, kind.dtype))
            return op.quantize(value, relax.const(np.asarray(kind.scale)), zero, 0, kind.dtype)
        x = self.emit(op.round(self.emit(op.divide(value, relax.const(np.asarray(kind.scale))))))
        x = self.emit(op.add(x, relax.const(np.float32(kind.zero))))
        return op.astype(self.emit(op.clip(x, low, high)), kind.dtype)

    def finish(
        self,
        name: str,
        sources: tuple[Tensor, ...],
        value: Any,
        kind: Kind,
        exact: Callable[..., tuple[NPArray, NPArray]],
    ) -> Tensor:
        """End a stage: its bytes are a result of the graph."""
        var: Any = self.builder.emit_output(self.quantised(self.emit(value), kind))
        self.results.append(var)
        self.stages.append(Stage(name, tuple([s.number for s in sources]), exact, kind))
        shape = tuple([d.value for d in var.struct_info.shape.values])
        return Tensor(var, shape, kind, len(self.results) - 1)

    # -- stages ----------------------------------------------------------------------------------
    def weights(self, axis: int, *shape: int) -> tuple[Any, NPArray, NPArray]:
        """Return constant floats made of bytes, the bytes less their zero points, and scales."""
        dtype = self.rng.choice(("int8", "int8", "uint8"))
        codes = self.codes(dtype, *shape)
        along = [shape[a] if a == axis else 1 for a in range(len(shape))]
        whole = along if self.rng.random() < 0.5 else [1] * len(shape)
        scale = self.arrays.uniform(1e-3, 0.05, whole).astype("float32")
        zero = np.zeros(whole, dtype)
        if self.rng.random() < 0.4:
            zero = self.codes(dtype, *whole)
        if len(set(whole)) == 1:
            scale, zero = (
                scale.reshape(()) if scale.size == 1 else scale,
                zero.reshape(() if zero.size == 1 else zero.shape),
            )
        made = self.dequantised(relax.const(codes), scale, zero, axis)
        return made, codes.astype("int64") - zero.astype("int64"), scale.astype("float64")

    def product(self, x: Tensor) -> Tensor:
        steps, columns = x.shape[-1], self.rng.choice((1, 7, 16, 33))
        relu, linear = self.rng.random() < 0.5, self.rng.random() < 0.5
        shape = (columns, steps) if linear else (steps, columns)
        w, whole, scale = self.weights(0 if linear else 1, *shape)
        if linear:
            whole, scale = whole.T, scale.T
        bias = self.arrays.standard_normal(columns).astype("float32")
        if linear:
            y = op.linear(self.floats(x), w, relax.const(bias))
        else:
            y = op.add(self.emit(op.matmul(self.floats(x), w)), relax.const(bias))
        y = op.nn.relu(self.emit(y)) if relu else y

        def exact(codes: NPArray) -> tuple[NPArray, NPArray]:
            total = (codes.astype("int64") - x.kind.zero) @ whole
            made = total * (float(x.kind.scale) * scale)
            return _end(made, bias, relu)

        return self.finish("product", (x,), y, self.kind(), exact)

    def convolution(self, x: Tensor) -> Tensor:
        channels = x.shape[1]
        groups = self.rng.choice([g for g in (1, 1, 2, channels) if channels % g == 0])
        out = groups * self.rng.choice((1, 2, 5))
        size, stride, pad = self.rng.choice((1, 2, 3)), self.rng.choice((1, 2)), 0
        pad = self.rng.randrange(size)
        w, whole, scale = self.weights(0, out, channels // groups, size, size)
        bias = self.arrays.standard_normal((1, out, 1, 1)).astype("float32")
        relu = self.rng.random() < 0.5
        y = op.nn.conv2d(self.floats(x), w, strides=stride, padding=pad, groups=groups)
        y = op.add(self.emit(y), relax.const(bias))
        y = op.nn.relu(self.emit(y)) if relu else y

        def exact(codes: NPArray) -> tuple[NPArray, NPArray]:
            total = _convolve(codes.astype("int64") - x.kind.zero, whole, stride, pad, groups)
            factor = float(x.kind.scale) * scale.reshape((1, -1, 1, 1) if scale.ndim else ())
            return _end(total * factor, bias, relu)

        return self.finish("convolution", (x,), y, self.kind(), exact)

    def residual(self, x: Tensor, other: Tensor) -> Tensor:
        y = op.add(self.floats(x), self.floats(other))

        def exact(a: NPArray, b: NPArray) -> tuple[NPArray, NPArray]:
            left, right = _floats(a, x.kind), _floats(b, other.kind)
            return left + right, np.abs(left) + np.abs(right)

        return self.finish("residual", (x, other), y, self.kind(), exact)

    def moved(self, x: Tensor) -> Tensor:
        """Move bytes, or take maxima, and round by the same scale again, mostly."""
        moves: list[tuple[Callable[[Any], Any], Callable[[NPArray], NPArray]]] = [
            (lambda v: op.concat([v, v], 1), lambda c: np.concatenate([c, c], 1)),
        ]
        if len(x.shape) == 4:
            moves.append((lambda v: op.nn.max_pool2d(v, 2, strides=1), _greatest))
        else:
            moves.append((op.permute_dims, np.transpose))
            flat = (x.shape[1], x.shape[0])
            moves.append((lambda v: op.reshape(v, flat), lambda c: c.reshape(flat)))
        write, mean = self.rng.choice(moves)
        kind = x.kind if self.rng.random() < 0.7 else self.kind()

        def exact(codes: NPArray) -> tuple[NPArray, NPArray]:
            made = _floats(mean(codes), x.kind)
            return made, 0 * made if kind == x.kind else np.abs(made)

        return self.finish("moved", (x,), write(self.floats(x)), kind, exact)

    def make(self) -> Graph:
        kind = self.kind()
        image = self.rng.random() < 0.5
        shape = (
            (self.rng.choice((1, 2)), self.rng.choice((2, 4)), *(self.rng.randint(4, 7),) * 2)
            if image
            else (self.rng.choice((1, 3, 16)), self.rng.choice((5, 16, 64, 131)))
        )
        param = relax.Var("x", relax.TensorStructInfo(shape, kind.dtype))
        with self.builder.function("main", [param]):
            with self.builder.dataflow():
                x = Tensor(param, shape, kind, -1)
                for _ in range(self.rng.randint(1, 3)):
                    before = x
                    choice = self.rng.random()
                    if choice < 0.6:
                        x = self.convolution(x) if image and min(x.shape[2:]) > 2 else self.other(x)
                    elif choice < 0.8 and min(x.shape[2:], default=3) > 1:
                        x = self.moved(x)
                    if x.shape == before.shape and self.rng.random() < 0.7:
                        x = self.residual(x, before)
                if not self.results:
                    self.other(x)
            self.builder.emit_func_output(self.results)
        return Graph(self.builder.get(), self.codes(kind.dtype, *shape), kind, self.stages)

    def other(self, x: Tensor) -> Tensor:
        """Multiply by a matrix, from any number of axes."""
        return self.product(x)


def _end(made: NPArray, bias: NPArray, relu: bool) -> tuple[NPArray, NPArray]:
    total = made + bias
    return (np.maximum(total, 0) if relu else total), np.abs(made) + np.abs(bias)


def _floats(codes: NPArray, kind: Kind) -> NPArray:
    return (codes.astype("int64") - kind.zero) * float(kind.scale)


def _greatest(codes: NPArray) -> NPArray:
    windows = np.lib.stride_tricks.sliding_window_view(codes, (2, 2), (2, 3))
    return windows.max((-2, -1))


def _convolve(x: NPArray, w: NPArray, stride: int, pad: int, groups: int) -> NPArray:
    padded = np.pad(x, ((0, 0), (0, 0), (pad, pad), (pad, pad)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, w.shape[2:], (2, 3))
    windows = windows[:, :, ::stride, ::stride]
    taken, made = x.shape[1] // groups, w.shape[0] // groups
    parts = [
        np.einsum(
            "nchwyx,ocyx->nohw",
            windows[:, g * taken : (g + 1) * taken],
            w[g * made : (g + 1) * made],
        )
        for g in range(groups)
    ]
    return np.concatenate(parts, 1)


def graph_of_seed(seed: int) -> Graph:
    """Make a graph of a seed."""
    return _Maker(seed).make()


def check(graph: Graph, results: Any) -> str:
    """Return what is wrong with the results of a graph; nothing where all is right."""
    made: list[NPArray] = [np.asarray(r) for r in results]
    values = [*made, graph.given]
    for number, stage in enumerate(graph.stages):
        exact, rounded = stage.exact(*[values[s] for s in stage.sources])
        scale, (low, high) = float(stage.kind.scale), stage.kind.ends
        at, slack = exact / scale, _ULPS * (rounded / scale)
        least = np.clip(np.round(at - slack) + stage.kind.zero, low, high)
        most = np.clip(np.round(at + slack) + stage.kind.zero, low, high)
        wrong = (made[number] < least) | (made[number] > most)
        if made[number].shape != exact.shape or str(made[number].dtype) != stage.kind.dtype:
            return f"result {number} ({stage.name}) has another shape or dtype"
        if wrong.any():
            place = tuple(int(p[0]) for p in np.nonzero(wrong))
            return (
                f"result {number} ({stage.name}) is {made[number][place]} at {place}, "
                f"and {at[place] + stage.kind.zero} rounded is another"
            )
    return ""


def run_seed(seed: int, *, schedules: bool) -> str:
    """Compile and run a graph; with ``schedules``, judge its kernels for other machines too."""
    graph = graph_of_seed(seed)
    found = check(graph, loomir.compile(graph.module, cache=False)(graph.given))
    if found or not schedules:
        return found
    target = _TARGETS[seed % len(_TARGETS)]
    faster = optimize_relax(graph.module)
    report = validate_schedule(faster, target, seeds=[seed])
    return f"for {target}: {report.mistakes()}" if report.mistakes() else ""


def main() -> int:
    """Judge graphs of the seeds that the command names."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--start", type=int, default=0)
    parser.add_argument("--schedules", action="store_true", help="judge other machines' too")
    options = parser.parse_args()
    began, wrong = time.perf_counter(), 0
    for seed in range(options.start, options.start + options.count):
        found = run_seed(seed, schedules=options.schedules)
        if found:
            wrong += 1
            sys.stdout.write(f"seed {seed}: {found}\n")
    took = time.perf_counter() - began
    sys.stdout.write(f"{options.count} graphs in {took:.0f} s, {wrong} wrong\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
