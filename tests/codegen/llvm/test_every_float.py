"""Float32 kernels over the whole of float32, against the float64 ones, in compiled code.

``STEP`` 1 would take every float32 there is, a minute for each function; a prime takes as many of
each exponent.
"""

from typing import Any

import numpy as np
import pytest

import loomir
from loomir.codegen.llvm.math.mathlib import MATH
from loomir.script import from_source
from loomir.tir.builtins.accuracy import ACCURACY

STEP = 1009
WIDTH = 4096

PROGRAM = """
from loomir.script import tir as T

@T.prim_func
def main(rounds: T.int64, step: T.int64, E: T.Buffer(({width},), "float64"), W: T.Buffer(({width},), "uint32")):
    for r in range(rounds):
        for i in range({width}):
            bits = T.uint32((r * {width} + T.int64(i)) * step)
            x = T.reinterpret("float32", bits)
            got = T.float64(T.{name}(x))
            true = T.{name}(T.float64(x))
            high = T.reinterpret("uint64", true) & T.uint64(0x7FF0000000000000)
            unit = T.max(T.reinterpret("float64", high) * 2.0**-23, 2.0**-149)
            off = T.abs(got - true) / unit
            range_ = T.abs(true) < 2.0**128 - 2.0**104
            lost = T.Select(T.isnan(got) == T.isnan(true), 0.0, 1e9)
            error = T.Select(range_, T.Select(T.isnan(off), 1e9, off), lost)
            worse = error > E[i]
            W[i] = T.Select(worse, bits, W[i])
            E[i] = T.Select(worse, error, E[i])
"""


def worst(name: str, step: int) -> tuple[float, np.float32]:
    """Return the largest error in units in the last place, and where it is."""
    run = loomir.compile(from_source(PROGRAM.format(name=name, width=WIDTH)), cache=False)["main"]
    errors, where = np.zeros(WIDTH), np.zeros(WIDTH, np.uint32)
    run(2**32 // (step * WIDTH) + 1, step, errors, where)
    at = int(np.argmax(errors))
    return float(errors[at]), where[at : at + 1].view(np.float32)[0]


@pytest.mark.parametrize("name", sorted(n for n in ACCURACY if MATH[n].arity == 1))
def test_the_bound_holds_for_floats_of_every_size(name: Any):
    error, where = worst(name, STEP)
    # The float64 result is off by a few units of its own, of which 2**29 are one here.
    assert error <= ACCURACY[name].float32 + 2.0**-20, where
