"""Accesses that are proved to leave their buffer are refused; no others are."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import loomir
from loomir.check.tir.out_of_range import check_ranges
from loomir.interp import interpret
from loomir.runtime.errors import RunError
from loomir.script import from_source
from loomir.support.diagnostics import CompileError
from tests.growth import assert_grows

HEAD = """
from loomir.script import tir as T

@T.prim_func
def f({params}):
{body}
"""
FIXED = (
    'x: T.Buffer((16,), "float32"), y: T.Buffer((16,), "float32"), '
    'z: T.Buffer((16, 16), "float32"), k: T.int32'
)
SYMBOLIC = 'x: T.Buffer(("n",), "float32"), y: T.Buffer(("m",), "float32"), k: T.int32'


def read(body: str, params: str = FIXED) -> Any:
    return from_source(HEAD.format(params=params, body=textwrap.indent(body, "    ")))


# The body, the index, and the ranges that are named.
WRONG = [
    ("for i in range(16):\n    y[i] = x[i + 1]", "16", "goes from 1 to 16, the axis from 0 to 15"),
    ("for i in range(16):\n    y[i] = x[i - 1]", "-1", "goes from -1 to 14, the axis"),
    ("for i in range(16):\n    y[i * 100000000] = 1.0", "1500000000", "from 0 to 1500000000"),
    ("for i in range(k):\n    y[i] = x[i - 1]", "-1", "is -1"),
    ("for i in range(16):\n    if i < 15:\n        y[i] = x[i + 2]", "16", "from 2 to 16"),
    (
        "for i in range(16):\n    y[i] = T.if_then_else(i > 0, x[i - 2], T.float32(0))",
        "-1",
        "goes from -1 to 13",
    ),
    ("for i in range(16):\n    for j in range(i):\n        y[i] = x[j + 2]", "16", "2 to 16"),
    ("for i, j in T.grid(4, 4):\n    z[i * 5 + j, 0] = 1.0", "18", "goes from 0 to 18"),
    ("for i in range(65):\n    z[i // 4, i % 4] = 1.0", "16", "goes from 0 to 16"),
    ("for i in T.vectorized(16):\n    y[i] = x[i + 1]", "16", "goes from 1 to 16"),
    ("for i in T.parallel(17):\n    y[i] = 1.0", "16", "goes from 0 to 16"),
    ("for i in T.thread_binding(17, 'threadIdx.x'):\n    y[i] = 1.0", "16", "from 0 to 16"),
    ("for i in range(4):\n    y[i * 4 : i * 4 + 4] = x[i * 4 + 1 : i * 4 + 5]", "16", "to 16"),
    ("for i in range(16):\n    a = i + 1\n    y[a] = x[i]", "16", "goes from 1 to 16"),
    (
        (
            'for i in range(16):\n    with T.sblock("b"):\n        vi = T.axis.spatial(16, i)\n'
            "        y[vi] = x[vi + 1]"
        ),
        "16",
        "goes from 1 to 16",
    ),
    (
        (
            'for i in range(16):\n    with T.sblock("b"):\n        vi = T.axis.spatial(16, i)\n'
            "        T.where(i < 15)\n        y[vi] = x[vi + 2]"
        ),
        "16",
        "goes from 2 to 16",
    ),
    ("a = T.alloc_buffer((8,))\nfor i in range(9):\n    a[i] = x[i]", "8", "the axis from 0 to 7"),
    ("for i in range(0, 16, 4):\n    for j in range(5):\n        y[i + j] = 1.0", "16", "to 16"),
]


@pytest.mark.parametrize(("body", "index", "ranges"), WRONG)
def test_proved_faults_are_refused_with_both_ranges(body: str, index: str, ranges: str):
    func = read(body)
    found = loomir.verify(func)
    assert [d.code for d in found] == ["TIR0421"]
    assert found[0].message.startswith(f"index {index} is outside of axis 0 of buffer")
    assert ranges in (found[0].label or "")
    with pytest.raises(CompileError, match="TIR0421"):
        loomir.compile(func)


@pytest.mark.parametrize(
    ("body", "index"),
    [
        ("for i in range(n):\n    y[0] = x[i + 1]", "n"),
        ("for i in range(2 * n):\n    y[0] = x[i]", "2 * n - 1"),
        ("for i in range(m):\n    y[i + m] = 1.0", "2 * m - 1"),
        ("for i in range(n + 1):\n    y[0] = x[n - i]", "n"),
    ],
)
def test_sizes_without_a_value_stand_for_all_values(body: str, index: str):
    (found,) = loomir.verify(read(body, SYMBOLIC))
    assert found.code == "TIR0421"
    assert found.message.startswith(f"index {index} is outside")


@pytest.mark.parametrize(
    ("body", "is_wrong"),
    [
        ("for i in range(k):\n    e[i] = 1.0", False),
        ("for i in range(k - 1):\n    for j in range(4):\n        e[j] = 1.0", False),
        ("for i in range(3):\n    e[i] = 1.0", True),
    ],
)
def test_loops_over_an_empty_axis_may_not_run(body: str, is_wrong: bool):
    func = read(body, 'e: T.Buffer((0,), "float32"), k: T.int32')
    assert [found.code for found in loomir.verify(func)] == ["TIR0421"] * is_wrong
    if not is_wrong:
        loomir.compile(func)(np.zeros(0, "float32"), 0)


RIGHT = [
    "for i in range(16):\n    if i < 15:\n        y[i] = x[i + 1]",
    "for i in range(16):\n    y[i] = T.if_then_else(i < 15, x[i + 1], T.float32(0))",
    "for i in range(16):\n    y[i] = T.Select(i < 15, x[i + 1], T.float32(0))",
    "for i in range(16):\n    if i < 15 and x[i + 1] > 0.0:\n        y[i] = 1.0",
    "for i in range(16):\n    if i >= 15 or x[i + 1] > 0.0:\n        y[i] = 1.0",
    "for i in range(k):\n    y[i] = x[i]",
    "for i in range(16):\n    for j in range(i):\n        y[i] = x[j + 1]",
    "for i, j in T.grid(4, 4):\n    z[i * 4 + j, (i * 4 + j) // 5] = 1.0",
    "for i in range(16):\n    if i == 15:\n        break\n    y[i] = x[i + 1]",
    "for i in range(16):\n    if i == 15:\n        continue\n    y[i] = x[i + 1]",
    "for i in range(16):\n    if i == 15:\n        return 0\n    y[i] = x[i + 1]\nreturn 1",
    'for i in range(16):\n    assert i < 15, "end"\n    y[i] = x[i + 1]',
    "for i in range(16):\n    if x[i] > 0.0:\n        y[i + 1] = 1.0",
    "for i in range(17):\n    if k > 3:\n        y[i] = 1.0",
    "for i in range(17):\n    if i != 16:\n        y[i] = 1.0",
    "for i in range(17):\n    if not (i == 16):\n        y[i] = 1.0",
    "if k < 16:\n    y[k] = 1.0",
    "i: T.int32 = 0\nwhile i < 17:\n    y[i % 16] = 1.0\n    i = i + 1",
    "for i in range(0):\n    y[i + 20] = 1.0",
    "for i in range(k):\n    for j in range(0):\n        y[i - 1] = 1.0",
    "for i in range(16):\n    for j in range(i - 15):\n        y[i + 1] = 1.0",
    "for i in range(T.min(k, 1) // 4):\n    y[i - 1] = 1.0",
    "for i in range(T.min(T.max(k, -9), 0)):\n    y[i - 1] = 1.0",
    "for i in range(4):\n    T.assume(x[i * 1000] == 1.0)\n    y[i] = 1.0",
    "p: T.handle = T.address_of(x[16 + k])\nT.evaluate(0)",
    (
        'for i in range(16):\n    with T.sblock("b"):\n        vi = T.axis.spatial(16, i)\n'
        "        T.where(i < 15)\n        y[vi] = x[vi + 1]"
    ),
    (
        'for i, j in T.grid(16, 4):\n    with T.sblock("b"):\n'
        '        vi, vj = T.axis.remap("SR", [i, j])\n'
        "        with T.init():\n            y[vi + vj] = 0.0\n        y[vi] += x[vj]"
    ),
]


@pytest.mark.parametrize("body", RIGHT)
def test_what_may_be_right_is_accepted(body: str):
    assert loomir.verify(read(body)) == ()


@pytest.mark.parametrize(
    "body",
    [
        "for i in range(n):\n    y[i] = x[i]",
        "for i in range(n - 1):\n    y[0] = x[i + 1]",
        (
            "for o in range((n + 3) // 4):\n    for i in range(4):\n"
            "        if o * 4 + i < n:\n            y[0] = x[o * 4 + i]"
        ),
        "for i in range(m):\n    if i < n:\n        y[i] = x[i]",
    ],
)
def test_sizes_that_may_fit_are_accepted(body: str):
    assert loomir.verify(read(body, SYMBOLIC)) == ()


_TERMS = st.tuples(st.integers(-2, 2), st.integers(-2, 2), st.integers(-4, 4))
_BOUND = st.sampled_from(["{}", "if i + j < {}:", "if i - j >= {}:", "if j == {}:", "if i != {}:"])


@settings(max_examples=60, deadline=None)
@given(
    st.tuples(st.integers(1, 5), st.integers(1, 5)),
    st.integers(1, 8),
    _TERMS,
    _BOUND,
    st.integers(-2, 6),
    st.sampled_from(["{}", "({}) // 2", "({}) % 5"]),
    st.booleans(),
)
def test_every_refused_program_faults_when_it_runs(
    extents: tuple[int, int],
    size: int,
    terms: tuple[int, int, int],
    bound: str,
    value: int,
    form: str,
    triangular: bool,
):
    a, b, c = terms
    index = form.format(f"i * {a} + j * {b} + {c}")
    inner = f"i + {extents[1]}" if triangular else f"{extents[1]}"
    lines = [f"for i in range({extents[0]}):", f"    for j in range({inner}):"]
    guarded = bound != "{}"
    if guarded:
        lines.append("        " + bound.format(value))
    lines.append("        " + ("    " if guarded else "") + f"y[{index}] = 1.0")
    func = read("\n".join(lines), f'y: T.Buffer(({size},), "float32")')
    refused = bool(loomir.verify(func))
    try:
        interpret(func, np.zeros(size, "float32"))
    except RunError as error:
        assert error.diagnostic.code.startswith("RUN")
        faults = True
    else:
        faults = False
    assert faults or not refused
    # Without a condition, ends of loops show every fault of sums.
    if not guarded and form == "{}":
        assert faults == refused


def test_proofs_replace_only_names_that_they_read():
    # What is not affine is read anew at each point of the loops.
    def make(count: int) -> Callable[[], object]:
        func = read(
            "".join(f"for i{k} in range(4):\n    y[i{k} * i{k}] = x[0]\n" for k in range(count))
        )
        return lambda: check_ranges(func)

    assert not make(4)()
    assert_grows(7, make, 60, 240)
