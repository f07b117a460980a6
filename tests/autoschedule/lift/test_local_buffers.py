"""What each iteration allocates for itself keeps nothing from being split or shared."""

from __future__ import annotations

import numpy as np
import pytest

import loomir
from loomir.autoschedule.driver import schedule_function
from loomir.ir.visit import pre_order
from loomir.loops.dependence import explain_dependence
from loomir.script import from_source
from loomir.script import tir as T
from loomir.target import Target
from loomir.tir.function import PrimFunc
from loomir.tir.stmt import For
from tests.autoschedule.agreement import agrees, scheduled

RANDOM = np.random.default_rng(6)


@T.prim_func
def softmax(A: T.Buffer((17, 40), "float32"), C: T.Buffer((17, 40), "float32")):
    for i in range(17):
        most = T.alloc_buffer((1,), "float32")
        total = T.float32(0)
        most[0] = T.min_value("float32")
        for k in range(40):
            most[0] = T.max(most[0], A[i, k])
        for k in range(40):
            C[i, k] = T.exp(A[i, k] - most[0])
            total += C[i, k]
        for k in range(40):
            C[i, k] = C[i, k] / total


@T.prim_func
def row(A: T.Buffer((9, 30), "float32"), C: T.Buffer((9, 30), "float32")):
    for i in range(9):
        temp = T.alloc_buffer((30,), "float32")
        for k in range(30):
            temp[k] = T.exp(A[i, k])
        for k in range(30):
            C[i, k] = temp[k] + temp[29 - k]


@T.prim_func
def inner(A: T.Buffer((9, 30), "float32"), C: T.Buffer((9, 30), "float32")):
    for i in range(9):
        for k in range(30):
            temp = T.alloc_buffer((2,), "float32")
            temp[0] = A[i, k]
            temp[1] = A[i, 29 - k]
            C[i, k] = temp[0] * temp[1]


@T.prim_func
def product(
    A: T.Buffer((19, 37), "float32"),
    B: T.Buffer((37, 23), "float32"),
    C: T.Buffer((19, 23), "float32"),
):
    for i, j in T.grid(19, 23):
        total = T.float32(0)
        for k in range(37):
            total += A[i, k] * B[k, j]
        C[i, j] = total


@T.prim_func
def symbolic(a: T.handle, c: T.handle):
    n = T.int64()
    A = T.match_buffer(a, (n, 8), "float32")
    C = T.match_buffer(c, (n,), "float32")
    for i in range(n):
        temp = T.float32(1)
        for k in range(8):
            temp = temp * A[i, k]
        C[i] = temp - T.float32(1)


SPLIT = {
    "softmax": (softmax, [(17, 40), (17, 40)], "rows"),
    "row": (row, [(9, 30), (9, 30)], "element-wise"),
    "product": (product, [(19, 37), (37, 23), (19, 23)], "matrix product"),
    "symbolic": (symbolic, [(13, 8), (13,)], "reduction"),
    "empty": (symbolic, [(0, 8), (0,)], "reduction"),
}


def drawn(shapes: list[tuple[int, ...]]) -> list[np.ndarray]:
    return [np.array(RANDOM.standard_normal(shape), "float32") for shape in shapes]


@pytest.mark.parametrize("name", SPLIT)
def test_loops_are_split_around_their_own_memory(name: str):
    func, shapes, kind = SPLIT[name]
    made = schedule_function(func, Target("native"))
    assert kind in {plan.kind for plan in made.plans}
    assert "loops as written" not in {plan.kind for plan in made.plans}
    agrees(func, drawn(shapes), rtol=0, ulps=4, always=False)  # exp has two implementations


@T.prim_func
def counted(A: T.Buffer((24, 24), "float32"), C: T.Buffer((24, 24), "int32")):
    for i, j in T.grid(24, 24):
        x = A[i, j]
        n = T.int32(0)
        while n < 30 and T.abs(x) < T.float32(4):
            x = x * x - T.float32(0.75)
            n = n + 1
        C[i, j] = n


@T.prim_func
def half(A: T.Buffer((24, 24), "float32"), C: T.Buffer((24, 24), "float32")):
    for i in range(24):
        temp = T.alloc_buffer((2,), "float32")
        temp[0] = A[i, 0]
        for k in range(24):
            temp[1] = temp[0] * A[i, k]
            temp[0] = temp[1] + A[i, k]
            C[i, k] = temp[0]


@T.prim_func
def handed_on(A: T.Buffer((24, 24), "float32"), C: T.Buffer((24, 24), "float32")):
    temp = T.alloc_buffer((1,), "float32")
    temp[0] = T.float32(0)
    for i in range(24):
        for k in range(24):
            last = T.float32(0)
            last = temp[0] + A[i, k]
            C[i, k] = last
            temp[0] = last


@T.prim_func
def repeated(A: T.Buffer((24,), "float32"), C: T.Buffer((24,), "int32")):
    for i in range(24):
        C[0] = i
        while C[0] < 40:
            C[0] = C[0] + i + T.Cast("int32", A[i] > T.float32(0)) + 1


@pytest.mark.parametrize(
    ("func", "shared"), [(counted, "i"), (half, "i"), (handed_on, ""), (repeated, "")]
)
def test_loops_are_shared_around_their_own_memory(func: PrimFunc, shared: str):
    made = scheduled(func, tasks=True)
    said = [c for plan in made.plans for c in plan.choices if plan.kind == "loops as written"]
    assert said == ([f"threads share the iterations of {shared}"] if shared else [])
    if shared:
        arrays = [
            np.array(RANDOM.standard_normal((24, 24)), str(b.dtype))
            for b in func.buffer_map.values()
        ]
        agrees(func, arrays, rtol=0, always=False)


@pytest.mark.parametrize("size", [1, 3])
def test_memory_that_is_not_filled_first_stays(size: int):
    @T.prim_func
    def partly(A: T.Buffer((20,), "int32"), C: T.Buffer((20,), "int32")):
        for i in range(20):
            temp = T.alloc_buffer((size + 1,), "int32")
            if A[i] > 0:
                temp[0] = A[i]
            if A[i] > 0:
                C[i] = temp[0]

    made = schedule_function(partly, Target("native"))
    assert "temp" not in [stage.buffer.name for plan in made.plans for stage in plan.stages]
    agrees(partly, [np.arange(-10, 10, dtype="int32"), np.zeros(20, "int32")], rtol=0, always=False)


@pytest.mark.parametrize(
    "body",
    [
        "n = T.int32(0)\n        n = J[i]\n        A[i + n % 8] = i",
        "with T.LetStmt(J[i]) as n:\n            A[i + n % 8] = i",
        "with T.LetStmt(J[i] % 8) as n:\n            B[i, n + 1] = B[0, n] + i",
        "n = T.int32(0)\n        n = J[i]\n        B[i, n % 8 + 1] = B[0, n % 8] + i",
    ],
)
def test_indices_that_iterations_find_for_themselves_distinguish_nothing(body: str):
    text = f"""
from loomir.script import tir as T
@T.prim_func
def found(J: T.Buffer((40,), "int32"), A: T.Buffer((48,), "int32"), B: T.Buffer((40, 9), "int32")):
    for i in range(40):
        {body}
"""
    func = from_source(text)
    loop = next(part for part in pre_order(func.body) if isinstance(part, For))
    assert "share elements" in explain_dependence(loop, {})
    assert not scheduled(func, tasks=True).plans


LANES = """
@T.prim_func
def f(A: T.Buffer(({n},), "int16"), C: T.Buffer((1,), "int32")):
    lanes = T.alloc_buffer((32,), "int32")
    for i in range(32):
        lanes[i] = C[0] + 5
    for j, i in T.grid({steps}, 32):
        lanes[i] = T.max(lanes[i], T.int32(A[j * 32 + i]))
    for i in range({rest}):
        lanes[0] = T.max(lanes[0], T.int32(A[{steps} * 32 + i]))
    for i in range(32):
        C[0] = C[0] + lanes[i]
"""


@pytest.mark.parametrize("steps", [0, 1, 3])
@pytest.mark.parametrize("rest", [1, 8])
def test_what_was_written_before_is_no_memory_of_those_who_read_it(steps: int, rest: int):
    func = from_source(LANES.format(n=steps * 32 + rest, steps=steps, rest=rest))
    x = RANDOM.integers(-300, 300, steps * 32 + rest).astype("int16")
    lanes = np.concatenate([np.full((1, 32), 82), x[: steps * 32].reshape(steps, 32)]).max(axis=0)
    lanes[0] = max(lanes[0], x[steps * 32 :].max())
    total = np.array([77], "int32")
    loomir.compile(func, cache=False)(x, total)
    assert total[0] == 77 + lanes.sum()
