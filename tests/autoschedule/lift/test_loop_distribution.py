"""Loops around several statements are distributed where no iteration notices."""

from __future__ import annotations

import numpy as np
import pytest

import loomir
from loomir.autoschedule.driver import schedule_function
from loomir.autoschedule.lift.loop_distribution import distribute
from loomir.script import tir as T
from loomir.target import Target
from loomir.tir.function import PrimFunc
from loomir.tir.stmt import DeclBuffer
from tests.autoschedule.agreement import draw, interpret_kinds, read_function

RANDOM = np.random.default_rng(5)


@T.prim_func
def scalar(
    A: T.Buffer((19, 37), "float32"),
    B: T.Buffer((37, 23), "float32"),
    C: T.Buffer((19, 23), "float32"),
):
    total = T.alloc_buffer((1,), "float32")
    for i, j in T.grid(19, 23):
        total[0] = T.float32(0)
        for k in range(37):
            total[0] += A[i, k] * B[k, j]
        C[i, j] = total[0]


@T.prim_func
def updated(
    A: T.Buffer((19, 37), "float32"),
    B: T.Buffer((37, 23), "float32"),
    C: T.Buffer((19, 23), "float32"),
):
    for i, j in T.grid(19, 23):
        C[i, j] = T.float32(0)
        for k in range(37):
            C[i, j] += A[i, k] * B[k, j]
        C[i, j] = C[i, j] * T.float32(0.5)
        C[i, j] = T.max(C[i, j], T.float32(0))


@T.prim_func
def softmax(A: T.Buffer((17, 40), "float32"), C: T.Buffer((17, 40), "float32")):
    most = T.alloc_buffer((1,), "float32")
    total = T.alloc_buffer((1,), "float32")
    for i in range(17):
        most[0] = T.min_value("float32")
        for k in range(40):
            most[0] = T.max(most[0], A[i, k])
        total[0] = T.float32(0)
        for k in range(40):
            C[i, k] = T.exp(A[i, k] - most[0])
            total[0] += C[i, k]
        for k in range(40):
            C[i, k] = C[i, k] / total[0]


@T.prim_func
def row(A: T.Buffer((9, 30), "float32"), C: T.Buffer((9, 30), "float32")):
    temp = T.alloc_buffer((30,), "float32")
    for i in range(9):
        for k in range(30):
            temp[k] = T.exp(A[i, k])
        for k in range(30):
            C[i, k] = temp[k] + temp[29 - k]


@T.prim_func
def offset(A: T.Buffer((20,), "int32"), C: T.Buffer((20,), "int32")):
    temp = T.alloc_buffer((1,), "int32")
    for i in range(3, 18):
        temp[0] = A[i] * 3
        C[i] = temp[0] * temp[0]


@T.prim_func
def symbolic(a: T.handle, c: T.handle):
    n = T.int64()
    A = T.match_buffer(a, (n, 8), "float32")
    C = T.match_buffer(c, (n,), "float32")
    temp = T.alloc_buffer((1,), "float32")
    for i in range(n):
        temp[0] = T.float32(1)
        for k in range(8):
            temp[0] = temp[0] * A[i, k]
        C[i] = temp[0] - T.float32(1)


@T.prim_func
def maybe_nothing(a: T.handle, C: T.Buffer((1,), "int32")):
    n = T.int64()
    A = T.match_buffer(a, (n,), "int32")
    C[0] = 1
    for i in range(n):
        with T.sblock("product"):
            v = T.axis.reduce(n, i)
            with T.init():
                C[0] = 1
            C[0] = C[0] * A[v]
    C[0] = T.max(C[0], C[0] + 1)


SPLIT = {
    "scalar": (scalar, [(19, 37), (37, 23), (19, 23)]),
    "updated": (updated, [(19, 37), (37, 23), (19, 23)]),
    "softmax": (softmax, [(17, 40), (17, 40)]),
    "row": (row, [(9, 30), (9, 30)]),
    "offset": (offset, [(20,), (20,)]),
    "symbolic": (symbolic, [(13, 8), (13,)]),
}


def check_distributed(func: PrimFunc, shapes: list[tuple[int, ...]]) -> None:
    """Compare the scheduled function with the function as it is written, bit for bit."""
    (first, *_) = func.buffer_map.values()
    drawn = [np.array(RANDOM.standard_normal(s) * 4).astype(str(first.dtype)) for s in shapes]
    wanted = [a.copy() for a in drawn]
    loomir.compile(func, schedule=False, opt_level=0, cache=False)(*wanted)
    loomir.compile(func, cache=False)(*drawn)
    for a, b in zip(drawn, wanted):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("name", SPLIT)
def test_loops_are_split(name: str):
    func, shapes = SPLIT[name]
    made = schedule_function(func, Target("native"))
    assert {plan.kind for plan in made.plans} & {
        "matrix product",
        "rows",
        "element-wise",
        "reduction",
    }
    assert "loops as written" not in {plan.kind for plan in made.plans}
    assert not loomir.verify(made.func)
    check_distributed(func, shapes)


def test_a_product_of_scalars_has_what_follows_as_its_end():
    for func in (scalar, updated):
        (plan,) = schedule_function(func, Target("native")).plans
        assert plan.kind == "matrix product"


@T.prim_func
def carried(A: T.Buffer((20,), "int32"), C: T.Buffer((20,), "int32")):
    last = T.alloc_buffer((1,), "int32")
    last[0] = 7
    for i in range(20):
        C[i] = last[0]
        last[0] = A[i]


@T.prim_func
def shifted(A: T.Buffer((20,), "int32"), C: T.Buffer((21,), "int32")):
    for i in range(20):
        C[i] = A[i]
        C[i + 1] = A[i] * 2


@T.prim_func
def used_after(A: T.Buffer((20,), "int32"), C: T.Buffer((21,), "int32")):
    last = T.alloc_buffer((1,), "int32")
    for i in range(20):
        last[0] = A[i]
        C[i] = last[0] * 2
    C[20] = last[0]


@T.prim_func
def used_beside(
    A: T.Buffer((1, 20), "int32"), C: T.Buffer((20,), "int32"), D: T.Buffer((1,), "int32")
):
    last = T.alloc_buffer((1,), "int32")
    for i in range(1):
        last[0] = 3
        for k in range(20):
            last[0] = A[i, k]
            C[k] = last[0] * 2
        D[i] = last[0]


@T.prim_func
def partly(A: T.Buffer((20,), "int32"), C: T.Buffer((20,), "int32")):
    last = T.alloc_buffer((2,), "int32")
    last[1] = 5
    for i in range(20):
        last[0] = A[i]
        C[i] = last[0] + last[1]
        last[1] = C[i]


KEPT = {
    "carried": (carried, [(20,), (20,)]),
    "shifted": (shifted, [(20,), (21,)]),
    "used after": (used_after, [(20,), (21,)]),
    "used beside": (used_beside, [(1, 20), (20,), (1,)]),
    "partly": (partly, [(20,), (20,)]),
}


@pytest.mark.parametrize("name", KEPT)
def test_what_iterations_hand_on_is_kept(name: str):
    func, shapes = KEPT[name]
    check_distributed(func, shapes)


@pytest.mark.parametrize("size", [0, 1, 5])
def test_what_may_not_have_been_stored_is_updated_in_place(size: int):
    check_distributed(maybe_nothing, [(size,), (1,)])


def test_no_more_memory_is_taken_than_there_is_anyway():
    @T.prim_func
    def many(A: T.Buffer((1 << 16,), "float32"), C: T.Buffer((1,), "float32")):
        temp = T.alloc_buffer((1,), "float32")
        C[0] = T.float32(0)
        for i, j in T.grid(1 << 16, 1 << 16):
            temp[0] = T.exp(A[i]) * A[j]
            C[0] = C[0] + temp[0] * temp[0]

    for plan in schedule_function(many, Target("native")).plans:
        assert "temp" not in [stage.buffer.name for stage in plan.stages]


def test_loops_of_no_iterations_get_no_buffers():
    @T.prim_func
    def none(a: T.Buffer((4,), "int32")):
        for i in range(-3):
            t = T.alloc_buffer((2, 8), "int32")
            for j, k in T.grid(2, 8):
                t[j, k] = k
            a[i] = t[i, 1]

    out = np.ones(4, "int32")
    loomir.compile(none, cache=False)(out)
    assert (out == 1).all()


@T.prim_func
def inner_columns(m: T.int64, A: T.Buffer((7, 9), "float32"), C: T.Buffer((7, 9), "float32")):
    for i, j in T.grid(7, m - 5):
        total = T.float32(0)
        for k in range(9):
            total = total + A[i, k]
        C[i, j] = total * A[i, j]


@pytest.mark.parametrize("m", [2, 5, 11])
def test_a_scalar_of_loops_that_end_before_they_begin_needs_no_memory(m: int):
    assert len(schedule_function(inner_columns, Target("native")).plans) >= 1
    a = np.arange(63, dtype="float32").reshape(7, 9)
    c = np.ones((7, 9), "float32")
    loomir.compile(inner_columns)(m, a, c)
    wanted = np.ones((7, 9), "float32")
    count = max(m - 5, 0)
    wanted[:, :count] = a.sum(axis=1, keepdims=True) * a[:, :count]
    np.testing.assert_array_equal(c, wanted)


ROWS = 'A: T.Buffer((6, 8), "float32"), C: T.Buffer((6, 8), "float32")'
LEFT = {
    "more statements than are split": (
        'A: T.Buffer((8,), "float32"), C: T.Buffer((70, 8), "float32")',
        "for i in range(8):\n"
        + "\n".join(f"    C[{k}, i] = A[i] * T.float32({k})" for k in range(70)),
    ),
    "a value that the first iteration sets": (
        'A: T.Buffer((8,), "float32"), C: T.Buffer((8,), "float32")',
        """
last = T.alloc_buffer((1,), "float32")
for i in range(8):
    last[0] = T.if_then_else(i == 0, T.float32(1), last[0] * T.float32(0.5)) + A[i]
    C[i] = last[0] + T.float32(1)
""",
    ),
    "a row that is filled in two steps": (
        ROWS,
        """
row = T.alloc_buffer((8,), "float32")
for i in range(6):
    for k in range(1, 8):
        row[k] = A[i, k]
    row[0] = T.float32(5)
    for k in range(8):
        C[i, k] = row[k] + row[7 - k]
""",
    ),
    "memory that gets a buffer later": (
        'A: T.Buffer((8,), "float32"), C: T.Buffer((8,), "float32")',
        """
for i in range(8):
    memory = T.allocate([4], "float32", "global")
    if i > 3:
        row = T.decl_buffer((4,), "float32", data=memory)
        row[i % 4] = A[i] * T.float32(2)
        C[i] = row[i % 4]
""",
    ),
}


@pytest.mark.parametrize("name", LEFT)
def test_loops_that_are_not_split(name: str):
    func = read_function(*LEFT[name])
    assert interpret_kinds(func, draw(func)) == []


def test_two_buffers_of_one_memory_share_its_elements():
    func = read_function(
        'A: T.Buffer((4, 6), "float32"), C: T.Buffer((4, 4), "float32")',
        """
rows = T.decl_buffer((6, 4), "float32", data=A.data)
for i, j in T.grid(4, 4):
    rows[i, j] = C[i, j] + T.float32(1)
    C[i, j] = A[i, j]
""",
    )
    assert isinstance(func.body, DeclBuffer)
    assert distribute(func.body.body, {}, lambda extent: extent) is None
    assert interpret_kinds(func, draw(func)) == []
