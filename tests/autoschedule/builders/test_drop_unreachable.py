"""What would access elements outside of an array never runs, and is not in schedules."""

from __future__ import annotations

import numpy as np
import pytest

import loomir
from loomir.autoschedule.builders.drop_unreachable import drop_unreachable
from loomir.autoschedule.driver import schedule_function
from loomir.interp import interpret
from loomir.ir.visit import by_class
from loomir.script import from_source
from loomir.target import Target
from loomir.tir.buffer import BufferLoad
from loomir.tir.builtins.table import IF_THEN_ELSE
from loomir.tir.expr import Add, Call, FloorDiv, IntImm, PrimExpr, Var
from loomir.tir.function import PrimFunc
from loomir.tir.stmt import BufferStore, For, ForKind, IfThenElse, SeqStmt, Stmt
from tests.autoschedule.agreement import read_function

PHASES = """
from loomir.script import tir as T

@T.prim_func
def main(
    X: T.Buffer((3, 4, 2, 2), "float32"),
    W: T.Buffer((4, 1, 2, 48), "float32"),
    Y: T.Buffer((3, 48, 5, 4), "float32"),
):
    for n, o, y, x in T.grid(3, 48, 5, 4):
        total = T.alloc_buffer((1,), "float32", scope="local")
        total[0] = T.float32(0.0)
        for c, r, s in T.grid(4, 1, 2):
            total[0] = total[0] + T.if_then_else(
                (y - r) % 2 == 0 and (y - r) // 2 >= 0 and (y - r) // 2 < 2
                and (x + 1 - s * 2) % 2 == 0
                and (x + 1 - s * 2) // 2 >= 0 and (x + 1 - s * 2) // 2 < 2,
                X[n, c, (y - r) // 2, (x + 1 - s * 2) // 2] * W[c, r, s, o],
                T.float32(0.0),
            )
        Y[n, o, y, x] = total[0]
"""


@pytest.mark.parametrize("name", ["haswell", "x86-64-v4", "neoverse-n1"])
def test_a_printed_schedule_compiles(name: str) -> None:
    func = from_source(PHASES)
    assert isinstance(func, PrimFunc)
    scheduled = schedule_function(func, Target(name)).func
    again = from_source(scheduled.script())  # a constant index of -1 is a mistake in a program
    random = np.random.default_rng(0)
    x = random.integers(-8, 9, (3, 4, 2, 2)).astype("float32")
    w = random.integers(-8, 9, (4, 1, 2, 48)).astype("float32")
    expected, got = np.zeros((2, 3, 48, 5, 4), "float32")
    loomir.compile(func, schedule=False, opt_level=0)(x, w, expected)
    interpret(again, x, w, got)
    np.testing.assert_array_equal(got, expected)


WITHIN = """
from loomir.script import tir as T

@T.prim_func
def main(a: T.handle, b: T.handle):
    n = T.int64()
    X = T.match_buffer(a, (6, n), "int16")
    Y = T.match_buffer(b, (6, n), "int16")
    C = T.alloc_buffer((6, 12), "int16")
    for i, j in T.grid(6, n):
        C[i, j + T.int64(2)] = X[i, j] + T.int16(1)
        Y[i, j] = C[i, j + T.int64(2)] >> T.int16(1)
"""


@pytest.mark.parametrize("name", ["haswell", "x86-64-v4", "neoverse-n1", "native"])
def test_a_schedule_has_no_tiles_that_no_size_in_range_fills(name: str) -> None:
    """``n`` is at most 10, so tiles of 16 elements are refused when the schedule is read again."""
    func = from_source(WITHIN)
    assert isinstance(func, PrimFunc)
    scheduled = schedule_function(func, Target(name)).func
    again = loomir.compile(from_source(scheduled.script()), schedule=False, opt_level=0)
    compiled = loomir.compile(func, cache=False)
    for n in (0, 1, 7, 8, 10):
        x = np.arange(6 * n, dtype="int16").reshape(6, n)
        for exe in (again, compiled):
            got = np.zeros_like(x)
            exe(x, got)
            np.testing.assert_array_equal(got, (x + 1) >> 1)


@pytest.mark.parametrize("n", [16, 20, 32])
def test_bounds_are_checked_where_tiles_are_dropped(n: int) -> None:
    func = from_source("""
@T.prim_func
def main(a: T.handle, y: T.Buffer((12,), "float32")):
    n = T.int64()
    x = T.match_buffer(a, (n,))
    for i in range(n):
        y[i] = x[i] * 2.0
""")
    exe = loomir.compile(func, check_bounds=True, cache=False)
    with pytest.raises(loomir.LoomirError, match="index 12 is outside"):
        exe(np.ones(n, "float32"), np.zeros(12, "float32"))


# -- the pieces -----------------------------------------------------------------------------------
FUNC = read_function(
    'X: T.Buffer((4,), "float32"), Y: T.Buffer((4,), "float32"), n: T.int64', "Y[0] = X[0]"
)
X, Y = FUNC.buffer_map.values()
N = FUNC.params[2]


def load(index: int) -> BufferLoad:
    return BufferLoad(X, (IntImm(index, N.dtype),))


def store(index: int, value: PrimExpr) -> BufferStore:
    return BufferStore(Y, value, (IntImm(index, N.dtype),))


def choose(condition: PrimExpr, yes: PrimExpr, no: PrimExpr) -> PrimExpr:
    return Call(yes.dtype, IF_THEN_ELSE, (condition, yes, no))


def around(body: Stmt) -> For:
    return For(Var("i", N.dtype), IntImm(0, N.dtype), N, ForKind.SERIAL, body)


def test_the_value_that_is_inside_is_chosen() -> None:
    for value in (choose(N < 3, load(-1), load(2)), choose(N < 3, load(2), load(4))):
        (left,) = by_class(drop_unreachable(store(0, Add(value, load(1)))))[Add]
        assert isinstance(left.a, BufferLoad)
        (index,) = left.a.indices
        assert isinstance(index, IntImm)
        assert index.value == 2


def test_a_condition_that_may_fail_is_evaluated() -> None:
    condition = FloorDiv(IntImm(8, N.dtype), N) < 3
    stmt = store(0, choose(condition, load(-1), load(2)))
    assert drop_unreachable(stmt) is stmt


def test_loops_and_branches_are_dropped_and_what_is_beside_them_stays() -> None:
    wrong, right = store(4, load(0)), store(1, load(0))
    made = drop_unreachable(SeqStmt((around(SeqStmt((right, wrong))), right)))
    assert by_class(made)[BufferStore] == [right]
    for branch in (IfThenElse(N < 3, wrong, right), IfThenElse(N < 3, right, around(wrong))):
        made = drop_unreachable(branch)
        assert by_class(made)[BufferStore] == [right]
        assert isinstance(made, IfThenElse)


def test_what_may_not_run_decides_nothing() -> None:
    guarded = choose(N < 3, choose(N < 2, load(1), load(3)), load(2))
    for stmt in (store(0, guarded), IfThenElse(N < 3, around(store(0, load(3))))):
        assert drop_unreachable(stmt) is stmt
