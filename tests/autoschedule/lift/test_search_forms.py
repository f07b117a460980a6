"""All ways to write a search for an element and its index are read as one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import loomir
from loomir.autoschedule.driver import schedule_function
from loomir.autoschedule.lift.search_forms import as_branch, read_index_search
from loomir.ir.visit import by_class
from loomir.script import from_source
from loomir.target import Target
from loomir.tir.buffer import BufferLoad
from loomir.tir.function import PrimFunc
from loomir.tir.stmt import For, SeqStmt

WAYS = {
    "branch": """
best = x[i, 0]
at = T.int64(0)
for k in range({m}):
    if x[i, k] {op} best:
        best = x[i, k]
        at = T.int64(k)
y[i] = at
""",
    "selects by a name": """
best = x[i, 0]
at = T.int64(0)
for k in range({m}):
    g = x[i, k] {op} best
    best = T.Select(g, x[i, k], best)
    at = T.Select(g, T.int64(k), at)
y[i] = at
""",
    "selects, the index first": """
best = x[i, 0]
at = T.int64(0)
for k in range({m}):
    at = T.if_then_else(x[i, k] {op} best, T.int64(k), at)
    best = T.if_then_else(x[i, k] {op} best, x[i, k], best)
y[i] = at
""",
    "in memory": """
best = T.alloc_buffer((1,), "{dtype}")
best[0] = x[i, 0]
y[i] = T.int64(0)
for k in range({m}):
    if x[i, k] {op} best[0]:
        best[0] = x[i, k]
        y[i] = T.int64(k)
""",
    "an index only": """
y[i] = T.int64(0)
for k in range({m}):
    if x[i, k] {op} x[i, y[i]]:
        y[i] = T.int64(k)
""",
    "an index only, by a select": """
at = T.int64(0)
for k in range({m}):
    at = T.if_then_else(x[i, k] {op} x[i, at], T.int64(k), at)
y[i] = at
""",
    "an index only, mirrored": """
y[i] = T.int64(0)
for k in range({m}):
    if x[i, y[i]] {mirrored} x[i, k]:
        y[i] = T.int64(k)
""",
}
MIRRORED = {">": "<", "<": ">", ">=": "<=", "<=": ">="}


def written(way: str, n: int, m: int, dtype: str, op: str) -> PrimFunc:
    body = WAYS[way].format(m=m, dtype=dtype, op=op, mirrored=MIRRORED[op])
    lines = [f"for i in range({n}):", *(f"    {line}" for line in body.strip().split("\n"))]
    head = f'@T.prim_func\ndef f(x: T.Buffer(({n}, {m}), "{dtype}"), y: T.Buffer(({n},), "int64")):'
    func = from_source("\n    ".join([head, *lines]) + "\n")
    assert isinstance(func, PrimFunc)
    return func


def drawn(shape: tuple[int, int], dtype: str) -> Any:
    rng = np.random.default_rng(5)
    x = rng.integers(0, 5, shape).astype(dtype)
    if dtype == "float32":
        x[rng.random(shape) < 0.05] = np.nan
        x[rng.random(shape) < 0.1] = -0.0
    return x


def agree(func: PrimFunc, x: Any, size: int) -> list[str]:
    """Compare with the loops as written; return the kinds of groups."""
    found, wanted = np.full((2, size), -9)
    loomir.compile(func, cache=False)(x, found)
    loomir.compile(func, schedule=False, opt_level=0, cache=False)(x, wanted)
    np.testing.assert_array_equal(found, wanted)
    return [plan.kind for plan in schedule_function(func, Target("haswell")).plans]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("op", MIRRORED)
@pytest.mark.parametrize("dtype", ["float32", "int16"])
@pytest.mark.parametrize("n", [1, 6])
def test_ways_to_write_a_search(way: str, op: str, dtype: str, n: int):
    func = written(way, n, 75, dtype, op)
    assert "rows" in agree(func, drawn((n, 75), dtype), n)


@pytest.mark.parametrize("op", [">", "<=", ">=", "<"])
@pytest.mark.parametrize("first", ["x[k, i]", "best[i]"])
def test_a_maximum_beside_the_index(op: str, first: str):
    kept = "best[i]" if first == "x[k, i]" else "x[k, i]"
    greater = (op[0] == ">") is (first == "x[k, i]")
    func = from_source(f"""
@T.prim_func
def f(x: T.Buffer((40, 33), "int32"), y: T.Buffer((33,), "int64")):
    best = T.alloc_buffer((33,), "int32")
    for i in range(33):
        best[i] = x[0, i]
        y[i] = T.int64(0)
    for k, i in T.grid(40, 33):
        y[i] = T.Select({first} {op} {kept}, T.int64(k), y[i])
        best[i] = T.{"max" if greater else "min"}(best[i], x[k, i])
""")
    assert isinstance(func, PrimFunc)
    kinds = agree(func, drawn((40, 33), "int32"), 33)
    assert len(kinds) > 2


def test_columns_whose_elements_are_in_memory():
    func = from_source("""
@T.prim_func
def f(x: T.Buffer((40, 33), "float32"), y: T.Buffer((33,), "int64")):
    best = T.alloc_buffer((33,), "float32")
    for i in range(33):
        best[i] = x[0, i]
        y[i] = T.int64(0)
    for k in range(1, 40):
        for i in range(33):
            if x[k, i] > best[i]:
                best[i] = x[k, i]
                y[i] = T.int64(k)
""")
    assert isinstance(func, PrimFunc)
    assert len(agree(func, drawn((40, 33), "float32"), 33)) > 2


def test_rows_of_unknown_length_and_of_none():
    func = from_source("""
@T.prim_func
def f(x: T.Buffer(("n", "m"), "float32"), y: T.Buffer(("n",), "int64")):
    for i in range(x.shape[0]):
        y[i] = T.int64(0)
        for k in range(x.shape[1]):
            if x[i, k] > x[i, y[i]]:
                y[i] = T.int64(k)
""")
    assert isinstance(func, PrimFunc)
    for shape in ((0, 3), (4, 0), (4, 1), (5, 77)):
        agree(func, drawn(shape, "float32"), shape[0])


LEFT = {
    "an index of another row": "if x[i, k] > x[i - 1, y[i]]:\n    y[i] = T.int64(k)",
    "another array": "if x[i, k] > z[i, y[i]]:\n    y[i] = T.int64(k)",
    "a narrow index": "if x[i, k] > x[i, q[i]]:\n    q[i] = T.int8(k)",
    "another index": "if x[i, k] > x[i, y[i]]:\n    y[i] = T.int64(k + 1)",
    "an index of its own row": "if x[k, k] > x[k, y[i]]:\n    y[i] = T.int64(k)",
}


@pytest.mark.parametrize("name", LEFT)
def test_searches_by_other_indices_are_left(name: str):
    body = "\n            ".join(LEFT[name].split("\n"))
    func = from_source(f"""
@T.prim_func
def f(x: T.Buffer((200, 200), "float32"), z: T.Buffer((200, 200), "float32"), y: T.Buffer((200,), "int64"), q: T.Buffer((200,), "int8")):
    for i in range(1, 100):
        for k in range(1, 150):
            {body}
""")
    assert isinstance(func, PrimFunc)
    assert isinstance(func.body, For)
    inner = func.body.body
    assert isinstance(inner, For)
    assert read_index_search(inner) is None


def test_names_that_are_read_again_stay():
    func = from_source("""
@T.prim_func
def f(x: T.Buffer((50,), "float32"), g: T.Buffer((1,), "bool"), b: T.Buffer((1,), "float32"), y: T.Buffer((1,), "int64")):
    for k in range(50):
        g[0] = x[k] > b[0]
        b[0] = T.Select(g[0], x[k], b[0])
        y[0] = T.Select(g[0], T.int64(k), y[0])
""")
    assert isinstance(func, PrimFunc)
    assert isinstance(func.body, For)
    body = func.body.body
    assert isinstance(body, SeqStmt)
    loads: list[BufferLoad] = by_class(func.body)[BufferLoad]
    data = next(load.buffer.data for load in loads if load.buffer.name == "g")
    assert as_branch(body, {id(data)}, loads) is not None
    assert as_branch(body, set(), loads) is None
    more = [*loads, next(load for load in loads if load.buffer.name == "g")]
    assert as_branch(body, {id(data)}, more) is None


@pytest.mark.parametrize("condition", ["i > 3", "T.bool(False) < T.bool(True)", "x[i] > x[i - 1]"])
def test_conditions_without_a_kept_element_are_no_search(condition: str):
    func = from_source(f"""
@T.prim_func
def f(x: T.Buffer((50,), "float32"), y: T.Buffer((50,), "int64"), z: T.Buffer((50,), "float32")):
    for i in range(1, 50):
        y[i] = T.Select({condition}, T.int64(i), y[i])
        z[i] = T.Select({condition}, x[i], z[i])
""")
    assert isinstance(func, PrimFunc)
    x = drawn((1, 50), "float32")[0]
    found: list[tuple[Any, Any]] = []
    for scheduled in (True, False):
        y, z = np.zeros(50, "int64"), np.ones(50, "float32")
        loomir.compile(func, schedule=scheduled, cache=False)(x, y, z)
        found.append((y, z))
    for one, other in zip(*found, strict=True):
        np.testing.assert_array_equal(one, other)
