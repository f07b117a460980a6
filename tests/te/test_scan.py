"""Recurrences along the first axis."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from loomir import te
from tests.te.running import run_both
from tests.tir.refusal import refused


def cumulative(steps: Any, width: Any, first: int = 1):
    """Return the input and a running sum of it."""
    x = te.placeholder((steps, width), name="X")
    s = te.placeholder((steps, width), name="S")
    init = te.compute((first, width), lambda t, i: x[t, i], name="init")
    update = te.compute((steps, width), lambda t, i: s[t - 1, i] + x[t, i], name="update")
    return x, te.scan(init, update, s, [x])


@pytest.mark.parametrize("shape", [(6, 5), (1, 5), (4, 0), (1, 1)])
def test_a_running_sum(shape: tuple[int, int]):
    a = np.random.default_rng(0).random(shape).astype("float32")
    run_both(cumulative(*shape), [a], [np.cumsum(a, axis=0, dtype="float32")])


@pytest.mark.parametrize("shape", [(6, 5), (1, 3)])
def test_a_running_sum_of_symbolic_size(shape: tuple[int, int]):
    n, m = te.size_var("n"), te.size_var("m", "int64")
    a = np.random.default_rng(0).random(shape).astype("float32")
    run_both(cumulative(n, m), [a], [np.cumsum(a, axis=0, dtype="float32")])


def test_several_first_steps():
    steps = 7
    s = te.placeholder((steps,), "int32", "S")
    init = te.compute((2,), lambda t: 1, name="init")
    update = te.compute((steps,), lambda t: s[t - 1] + s[t - 2], name="update")
    fibonacci = te.scan(init, update, s)
    run_both([fibonacci], [], [np.array([1, 1, 2, 3, 5, 8, 13], "int32")])


def test_several_states_and_stages_between():
    steps, width = 5, 3
    x = te.placeholder((steps, width), name="X")
    w = te.compute((width,), lambda i: (i + 1).astype("float32"), name="W")
    s, r = (te.placeholder((steps, width), name=n) for n in "SR")
    zero = te.compute((1, width), lambda t, i: te.const(0, "float32"), name="zero")
    one = te.compute((1, width), lambda t, i: te.const(1, "float32"), name="one")
    k = te.reduce_axis((0, width))
    total = te.compute((steps,), lambda t: te.sum(s[t - 1, k], axis=k), name="total")
    first = te.compute((steps, width), lambda t, i: total[t] + x[t, i] * w[i], name="first")
    second = te.compute((steps, width), lambda t, i: r[t - 1, i] * 0.5 + total[t], name="second")
    a, b = te.scan([zero, one], [first, second], [s, r], [x])
    v = np.random.default_rng(0).random((steps, width)).astype("float32")
    p, q = np.zeros((steps, width), "float32"), np.ones((steps, width), "float32")
    for t in range(1, steps):
        p[t] = p[t - 1].sum() + v[t] * np.arange(1, width + 1)
        q[t] = q[t - 1] * 0.5 + p[t - 1].sum()
    run_both([x, a, b], [v], [p, q])


def test_what_follows_a_scan():
    x, total = cumulative(4, 2)
    after = te.compute((4, 2), lambda t, i: total[t, i] * 2.0, name="after")
    a = np.ones((4, 2), "float32")
    run_both([x, after], [a], [np.cumsum(a, axis=0) * 2])


def test_mistakes_in_scans():
    x = te.placeholder((4, 2), name="X")
    s = te.placeholder((4, 2), name="S")
    init = te.compute((1, 2), lambda t, i: x[0, i], name="init")
    update = te.compute((4, 2), lambda t, i: s[t - 1, i], name="update")
    with refused("TE0009", "1 init, 1 update and 2 states"):
        te.scan(init, update, [s, s])
    with refused("TE0009", "its init float32 of 1"):
        te.scan(te.compute((2,), lambda i: x[0, i]), update, s)
    with refused("TE0009", "extents"):
        te.scan(init, te.compute((4, 3), lambda t, i: s[t - 1, 0]), s)
    with refused("TE0009", "extents"):
        te.scan(te.compute((5, 2), lambda t, i: x[0, i]), update, s)
    with refused("TE0009", "its update"):
        te.scan(init, x, s)
    whole = te.extern((4, 2), [s], lambda i, o: te.const(0), name="whole")
    after = te.compute((4, 2), lambda t, i: whole[t, i], name="after")
    with refused("TE0009", "'whole' depends on a state"):
        te.create_prim_func([te.scan(init, after, s)])
