"""Time the kernels of the cookbook beside NumPy: ``python -m benchmarks.cookbook``.

The kernels and their NumPy versions are read from ``docs/cookbook.md``. Each takes turns with
NumPy, both on one thread; the call that took the least CPU time counts, so that what else runs on
the machine matters little.
"""

from __future__ import annotations

import argparse
import linecache
import os
import re
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import loomir

ONE_THREAD = dict.fromkeys(("LOOMIR_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
PAGE = Path(__file__).parents[1] / "docs" / "cookbook.md"
RNG = np.random.default_rng(0)
_PARTS = re.compile(
    r"^### (?P<title>[^\n]+)$|^```python\n(?P<code>.*?)^```$", re.MULTILINE | re.DOTALL
)


class Recipe(NamedTuple):
    """A kernel of the page, its title, and the same in NumPy."""

    title: str
    kernel: Any
    reference: Callable[..., Any]


def floats(*shape: int) -> Any:
    return RNG.standard_normal(shape, dtype="float32")


INPUTS: dict[str, Callable[[], tuple[Any, ...]]] = {
    "axpy": lambda: (2.0, floats(4_000_000), floats(4_000_000)),
    "gelu": lambda: (floats(4_000_000),),
    "blend": lambda: (floats(1080, 1920, 3), floats(1080, 1920, 3), RNG.random((1080, 1920)) < 0.5),
    "transpose": lambda: (floats(2048, 2048),),
    "row_sums": lambda: (floats(4096, 1024),),
    "argmax": lambda: (floats(4096, 1024),),
    "softmax": lambda: (floats(4096, 1024),),
    "layer_norm": lambda: (floats(4096, 1024), floats(1024), floats(1024)),
    "rms_norm": lambda: (floats(4096, 1024), floats(1024)),
    "running_sums": lambda: (floats(4096, 1024),),
    "matmul": lambda: (floats(1024, 1024), floats(1024, 1024)),
    "linear_relu": lambda: (floats(512, 1024), floats(1024, 1024), floats(1024)),
    "batched_matmul": lambda: (floats(32, 128, 128), floats(32, 128, 128)),
    "int8_matmul": lambda: (
        RNG.integers(0, 255, (512, 512), "uint8"),
        RNG.integers(-128, 127, (512, 512), "int8"),
    ),
    "distances": lambda: (floats(1024, 128), floats(1024, 128)),
    "attention": lambda: (floats(1024, 64), floats(1024, 64), floats(1024, 64)),
    "conv2d": lambda: (floats(1, 64, 58, 58), floats(64, 64, 3, 3)),
    "heat": lambda: (floats(2048, 2048),),
    "embedding": lambda: (floats(50_000, 256), RNG.integers(0, 50_000, 8192)),
    "histogram": lambda: (RNG.integers(0, 256, 4_000_000).astype("uint8"),),
}
"""The inputs of each kernel, as large as in practice."""


def recipes() -> list[Recipe]:
    """Run the blocks of the page, and note what they compare instead of comparing it."""
    found: list[Recipe] = []
    text = PAGE.read_text(encoding="utf-8")
    names: dict[str, Any] = {"__name__": "cookbook"}
    for number, part in enumerate(_PARTS.finditer(text)):
        if part["title"]:
            title = part["title"]
            names["agrees"] = lambda kernel, reference, *_, title=title: found.append(
                Recipe(title, kernel, reference)
            )
            continue
        source, filename = part["code"], f"cookbook-{number}.py"
        # The decorators read the source by its file's name; this block has none on disk.
        linecache.cache[filename] = (len(source), None, source.splitlines(True), filename)
        exec(compile(source, filename, "exec"), names)  # noqa: S102 - a page of ours
    return found


def measure(recipe: Recipe, seconds: float) -> tuple[float, float]:
    """Return the least seconds of the processor for the kernel and for NumPy, called in turns."""
    inputs = INPUTS[recipe.kernel.name]()
    wanted = np.asarray(recipe.reference(*inputs))
    out = np.empty(wanted.shape, wanted.dtype)
    call = loomir.compile(recipe.kernel)
    call(*inputs, out)
    np.testing.assert_allclose(out, wanted, rtol=1e-3, atol=1e-2)
    ours: list[float] = []
    theirs: list[float] = []
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(ours) < 10:
        for taken, function in ((ours, lambda: call(*inputs, out)), (theirs, recipe.reference)):
            arguments = inputs if function is recipe.reference else ()
            function(*arguments)
            start = time.thread_time()
            function(*arguments)
            taken.append(time.thread_time() - start)
    return min(ours), min(theirs)


def shapes_of(inputs: tuple[Any, ...]) -> str:
    return ", ".join("x".join(map(str, a.shape)) for a in inputs if hasattr(a, "shape"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=2.0, help="for each kernel")
    seconds = parser.parse_args().seconds
    if any(os.environ.get(name) != value for name, value in ONE_THREAD.items()):
        # Libraries read these when they are loaded.
        command = [sys.executable, "-m", "benchmarks.cookbook", *sys.argv[1:]]
        os.execve(sys.executable, command, {**os.environ, **ONE_THREAD})
    target = loomir.Target("native")
    print(f"{target.cpu}, vectors of {target.vector_bits} bits, 1 thread\n")
    print("| kernel | inputs | Loomir | NumPy | times NumPy's speed |")
    print("| --- | --- | --- | --- | --- |")
    for recipe in recipes():
        ours, theirs = measure(recipe, seconds)
        shapes = shapes_of(INPUTS[recipe.kernel.name]())
        print(
            f"| {recipe.title} | {shapes} | {ours * 1e3:.2f} ms | {theirs * 1e3:.2f} ms "
            f"| {theirs / ours:.1f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
