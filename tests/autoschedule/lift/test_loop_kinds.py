"""A loop of another kind is a request about that loop; the rest is scheduled all the same."""

from __future__ import annotations

import numpy as np
import pytest

import loomir
from loomir.autoschedule.driver import ScheduledFunction, schedule_function
from loomir.autoschedule.lift.loop_kinds import Request
from loomir.ir.visit import by_class
from loomir.schedule import Schedule
from loomir.script import from_source
from loomir.script import tir as T
from loomir.target import Target
from loomir.tir.function import PrimFunc
from loomir.tir.stmt import For, ForKind

RANDOM = np.random.default_rng(5)


def read(body: str) -> PrimFunc:
    lines = "\n".join("    " + line for line in body.strip("\n").split("\n"))
    arrays = ", ".join(f'{name}: T.Buffer((24, 24), "float32")' for name in "pqo")
    func = from_source(
        f"from loomir.script import tir as T\n@T.prim_func\ndef f({arrays}):\n{lines}\n"
    )
    assert isinstance(func, PrimFunc)
    return func


def scheduled(func: PrimFunc) -> ScheduledFunction:
    """Schedule a function, and hold what it means to what was written."""
    made = schedule_function(func, Target("native"))
    assert not loomir.verify(made.func)
    wanted = [np.array(RANDOM.standard_normal((24, 24)), "float32") for _ in range(3)]
    found = [array.copy() for array in wanted]
    loomir.interpret(func, func.name, *wanted)
    loomir.interpret(made.func, func.name, *found)
    for a, b in zip(wanted, found, strict=True):
        np.testing.assert_array_equal(a, b)
    return made


PRODUCT = """
for i in {}(24):
    for j in {}(24):
        acc = T.float32(0)
        for l in {}(24):
            acc += p[i, l] * q[l, j]
        o[i, j] = acc
"""


@pytest.mark.parametrize(
    "kinds",
    [
        ("T.parallel", "range", "range"),
        ("range", "T.vectorized", "range"),
        ("range", "range", "T.unroll"),
        ("T.parallel", "T.vectorized", "T.unroll"),
    ],
)
def test_products_stay_products(kinds: tuple[str, str, str]):
    made = scheduled(read(PRODUCT.format(*kinds)))
    assert [plan.kind for plan in made.plans] == ["matrix product"]
    asked = [(n, k) for n, k in zip("ijl", kinds, strict=True) if k != "range"]
    assert made.requests == tuple(Request(name, kind, False) for name, kind in asked)


def test_blocks_may_stand_in_loops_of_any_kind():
    body = """
for i in T.parallel(24):
    for j, l in T.grid(24, 24):
        with T.block("o"):
            vi, vj, vl = T.axis.remap("SSR", [i, j, l])
            with T.init():
                o[vi, vj] = T.float32(0)
            o[vi, vj] = T.max(o[vi, vj], p[vi, vl] * q[vl, vj])
"""
    assert "loops as written" not in [plan.kind for plan in scheduled(read(body)).plans]


def test_loops_that_cannot_be_read_keep_their_kinds():
    body = """
for i in T.parallel(24):
    n = T.float32(0)
    while n < p[i, 0]:
        n = n + T.float32(1)
    o[i, 0] = n
    for j in range(23):
        q[i, j] = q[i, j] * T.float32(2)
for i, j in T.grid(24, 24):
    p[i, j] = p[i, j] + T.float32(1)
"""
    made = scheduled(read(body))
    assert [plan.kind for plan in made.plans] == ["loops as written", "element-wise"]
    assert made.requests == (Request("i", "T.parallel", True),)
    loops: list[For] = by_class(made.func.body)[For]
    assert ForKind.VECTORIZED in {loop.kind for loop in loops}


def test_what_carries_a_dependence_is_written_in_order():
    body = """
for i in T.unroll(24):
    for j in range(23):
        o[i, j + 1] = o[i, j] * T.float32(0.5) + p[i, j]
"""
    scheduled(read(body))


@T.prim_func
def doubled(x: T.Buffer((64, 64), "float32"), y: T.Buffer((64, 64), "float32")):
    for i, j in T.grid(64, 64):
        with T.sblock("y"):
            vi, vj = T.axis.remap("SS", [i, j])
            y[vi, vj] = x[vi, vj] * T.float32(2)


ARRANGED = {
    "tiles by hand": """
for a in T.parallel(3):
    for b in T.vectorized(8):
        for j in range(24):
            o[a * 8 + b, j] = p[a * 8 + b, j]
""",
    "tiles in a block": """
for a in T.parallel(3):
    for b, j in T.grid(8, 24):
        with T.block("o"):
            vi = T.axis.spatial(24, a * 8 + b)
            vj = T.axis.spatial(24, j)
            o[vi, vj] = p[vi, vj]
""",
    "an annotation": """
for i in T.serial(24, annotations={"pragma": 1}):
    for j in range(24):
        o[i, j] = p[i, j]
""",
    "vectors": """
for i in T.parallel(24):
    o[i, 0:8] = p[i, 0:8]
""",
}


@pytest.mark.parametrize("name", ARRANGED)
def test_arranged_loops_run_as_they_are_written(name: str):
    func = read(ARRANGED[name])
    made = schedule_function(func, Target("native"))
    assert made.func is func
    assert not made.plans


def test_tiles_of_primitives_run_as_they_are_written():
    sch = Schedule(doubled)
    i, j = sch.get_loops(sch.get_block("y"))
    _, inner = sch.split(j, [None, 16])
    sch.vectorize(inner)
    sch.parallel(i)
    func = sch.mod["doubled"] if hasattr(sch.mod, "functions") else sch.mod
    assert isinstance(func, PrimFunc)
    assert not schedule_function(func, Target("native")).plans
