"""Compiled math functions and the interpreter's agree within the table of accuracy."""

from typing import Any

import numpy as np
import pytest

import loomir
from loomir.codegen.llvm.math.mathlib import MATH
from loomir.script import from_source
from loomir.support.dtype import DataType, numpy_of
from loomir.tir.builtins.accuracy import ulp_tolerance

SIZE = 256
LOOPS = {
    "serial": "for i in range({size}):\n        B[i] = T.{name}({args})",
    "vector": "for j in range({size} // 8):\n        for k in T.vectorized(8):\n            B[j * 8 + k] = T.{name}({args})",
}
PROGRAM = """
from loomir.script import tir as T

@T.prim_func
def main(A: T.Buffer(({size},), "{dtype}"), C: T.Buffer(({size},), "{dtype}"), B: T.Buffer(({size},), "{dtype}")):
    {loop}
"""


def program(name: str, dtype: str, kind: str) -> str:
    args = ", ".join(["A[i]", "C[i]"][: MATH[name].arity])
    if kind == "vector":
        args = args.replace("[i]", "[j * 8 + k]")
    loop = LOOPS[kind].format(size=SIZE, name=name, args=args)
    return PROGRAM.format(size=SIZE, dtype=dtype, loop=loop)


def arguments(dtype: str) -> tuple[np.ndarray, np.ndarray]:
    """Return special values against each other, random bits, and numbers of everyday size."""
    kind = numpy_of(DataType(dtype))
    words = f"u{kind.itemsize}"
    rng = np.random.default_rng(4)
    special = np.array([0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 0.5, -2.0, 3.0]).astype(kind)
    x, y = (g.ravel() for g in np.meshgrid(special, special))
    bits = rng.integers(0, 2 ** (8 * kind.itemsize), (2, 70), np.uint64).astype(words)
    drawn = bits.view(kind).reshape(2, -1)
    usual = rng.uniform(-4, 4, (2, SIZE - 170)).astype(kind)
    return np.concatenate([x, drawn[0], usual[0]]), np.concatenate([y, drawn[1], usual[1]])


def order(x: np.ndarray) -> list[int]:
    """Return integers in the order of the numbers, neighbours differ by one; both zeros are 0."""
    bits = x.view(f"i{x.dtype.itemsize}").astype(object)
    low = -(1 << (8 * x.dtype.itemsize - 1))
    return [int(v) if v >= 0 else low - int(v) for v in bits]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize("name", sorted(MATH))
def test_native_and_interpreter_differ_in_the_last_places_only(name: Any, dtype: str):
    a, c = arguments(dtype)
    wanted = np.zeros_like(a)
    loomir.interpret(from_source(program(name, dtype, "serial")), "main", a, c, wanted)
    for kind in LOOPS:
        got = np.zeros_like(a)
        loomir.compile(from_source(program(name, dtype, kind)), cache=False)["main"](a, c, got)
        with np.errstate(invalid="ignore"):  # signalling NaNs
            nan, expected = (np.isnan(v.astype(np.float64)) for v in (got, wanted))
        assert (nan == expected).all(), (kind, a[nan != expected], c[nan != expected])
        for x, y, g, w, n in zip(a, c, order(got), order(wanted), nan, strict=True):
            assert n or abs(g - w) <= ulp_tolerance(name), (kind, x, y)
        assert (np.signbit(got) == np.signbit(wanted))[~nan].all(), kind
