"""Statement semantics, third part: loops."""

from __future__ import annotations

import pytest

from loomir.interp import interpret
from loomir.runtime.errors import RunValueError
from loomir.tir import For, ForKind, IntImm, IterVar, IterVarType, Var, convert, decl_buffer
from tests.conformance.compare_engines import both, dt, fails, i32, mistakes, read, refused, zeros
from tests.tir.programs import func, loop, store

KINDS = ["serial", "parallel", "vectorized", "unroll", 'thread_binding(thread="threadIdx.x")']


def loop_of(kind: str, start: object, stop: object) -> str:
    """Write the head of a loop of a kind."""
    name, _, rest = kind.partition("(")
    return f"T.{name}({start}, {stop}{', ' + rest if rest else ')'}"


def counting(kind: str, start: object, stop: object, dtype: str = "int32") -> str:
    """Write a program that stores each loop variable, plus 100, where it points."""
    return f"""
        @T.prim_func
        def main(m: T.{dtype}, n: T.{dtype}, A: T.Buffer((8,), "int32")):
            for i in {loop_of(kind, start, stop)}:
                A[i] = T.cast(i, "int32") + 100
    """


# -- serial loops --------------------------------------------------------------------------------
def test_TIR_STMT_12_start_first():
    """A loop evaluates its start, in the width of its variable, before its extent (T4)."""
    x, i, buffer = Var("x", "int32"), Var("i", "int32"), decl_buffer((8,), "int32", "A")
    one, two = convert(1) // x, convert(1) % x
    for start, extent, word in [(one, two, "FloorDiv"), (two, one, "FloorMod")]:
        made = func(For(i, start, extent, ForKind.SERIAL, store(buffer, 1, i)), x, buffer)
        assert word in fails("RUN0201", made, 0, zeros(8)).message
    wide = Var("w", "int64")
    made = func(
        For(
            wide,
            IntImm(2, dt("int8")),
            IntImm(3, dt("int16")),
            ForKind.SERIAL,
            store(buffer, 1, wide),
        ),
        buffer,
    )
    assert both(made, zeros(8)).tolist() == [0, 0, 1, 1, 1, 0, 0, 0]


def test_TIR_STMT_12a_first_value():
    """The variable starts at the start, negative ones too."""
    source = """
        @T.prim_func
        def main(m: T.int32, A: T.Buffer((8,), "int32")):
            for i in T.serial(m, m + 3):
                A[i + 4] = i
    """
    assert both(source, -3, zeros(8)).tolist() == [0, -3, -2, -1, 0, 0, 0, 0]


@pytest.mark.parametrize("kind", KINDS)
def test_TIR_STMT_12b_extent_once(kind: str):
    """The extent is evaluated once, before the first iteration: the body cannot change it (T4)."""
    source = f"""
        @T.prim_func
        def main(N: T.Buffer((2,), "int32"), A: T.Buffer((8,), "int32")):
            for i in {loop_of(kind, "N[0]", "N[1]")}:
                A[i] = 1
                {"N[1] = 3" if kind in ("serial", "unroll") else "A[i] = 2"}
    """
    wanted = 1 if kind in ("serial", "unroll") else 2
    assert both(source, i32(1, 6), zeros(8)).tolist() == [0, *[wanted] * 5, 0, 0]


def test_TIR_STMT_12c_end():
    """A loop ends before start + extent; one whose extent is 0 or less runs nothing (T3, T52)."""
    source = counting("serial", "m", "n")
    assert both(source, 2, 5, zeros(8)).tolist() == [0, 0, 102, 103, 104, 0, 0, 0]
    for m, n in [(3, 3), (5, 2), (0, -(2**31)), (2**31 - 1, 2**31 - 1)]:
        assert both(source, m, n, zeros(8)).tolist() == [0] * 8


def test_TIR_STMT_12c_ends_of_dtypes():
    """A loop may end at the largest value of its variable; further is an error (T52)."""
    buffer, i, n = decl_buffer((1,), "int32", "A"), Var("i", "int8"), Var("n", "int8")
    made = func(
        For(i, IntImm(125, dt("int8")), n, ForKind.SERIAL, store(buffer, buffer[0] + 1, 0)),
        n,
        buffer,
    )
    assert both(made, 3, zeros(1)).tolist() == [3]
    for count in (4, 127):
        fails("RUN0208", made, count, zeros(1))
    u = Var("u", "uint64")
    low, count = (IntImm(v, dt("uint64")) for v in (2**64 - 2, 2))
    far = func(For(u, low, count, ForKind.SERIAL, store(buffer, buffer[0] + 1, 0)), buffer)
    assert both(far, zeros(1)).tolist() == [2]


def test_TIR_STMT_12d_next_value():
    """After the body the variable is one more, by one each time, and iterations follow one another."""
    source = """
        @T.prim_func
        def main(A: T.Buffer((8,), "int32")):
            for i in range(1, 8):
                A[i] = A[i - 1] * 2 + i
    """
    wanted = [1]
    for i in range(1, 8):
        wanted.append(wanted[-1] * 2 + i)
    assert both(source, i32(1, *[0] * 7)).tolist() == wanted


def test_TIR_STMT_12e_loop_variables_stay():
    """The body cannot change the variable; continue and break do not change it (T4)."""
    refused(
        "SCR0016",
        """
        @T.prim_func
        def main(A: T.Buffer((8,), "int32")):
            for i in range(8):
                i = i + 1  # <--
        """,
    )
    source = """
        @T.prim_func
        def main(A: T.Buffer((8,), "int32")):
            for i in range(8):
                if i % 2 == 1:
                    continue
                if i == 6:
                    break
                A[i] = i + 1
    """
    assert both(source, zeros(8)).tolist() == [1, 0, 3, 0, 5, 0, 0, 0]


# -- parallel loops ------------------------------------------------------------------------------
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("m", "n"), [(0, 8), (2, 5), (4, 4), (6, 1), (7, 8)])
def test_TIR_STMT_13_all_kinds_cover_the_range(kind: str, m: int, n: int):
    """Every kind of loop runs from its start to below its stop, both evaluated once (T3)."""
    wanted = [i + 100 if m <= i < n else 0 for i in range(8)]
    assert both(counting(kind, "m", "n"), m, n, zeros(8)).tolist() == wanted
    assert both(counting(kind, m, n), 0, 0, zeros(8)).tolist() == wanted


def test_TIR_STMT_13_large_parallel_loops():
    """A parallel loop of many iterations runs each of them once."""
    source = """
        @T.prim_func
        def main(n: T.int32, A: T.Buffer((1000,), "int32")):
            for i in T.parallel(n, 1000):
                for j in range(i % 7):
                    A[i] = A[i] + j
    """
    wanted = [0] * 3 + [sum(range(i % 7)) for i in range(3, 1000)]
    assert both(source, 3, zeros(1000)).tolist() == wanted


def test_TIR_STMT_13a_any_order():
    """Iterations may run in any order, on any number of threads: the results are the same (T44, T45)."""
    source = """
        @T.prim_func
        def main(A: T.Buffer((16, 16), "int32")):
            for i in T.parallel(16):
                for j in T.parallel(16):
                    A[i, j] = i * 100 + j
    """
    wanted = [[i * 100 + j for j in range(16)] for i in range(16)]
    for _ in range(5):
        assert both(source, zeros(16, 16)).tolist() == wanted


@pytest.mark.parametrize("kind", KINDS)
def test_TIR_STMT_13b_errors(kind: str):
    """An error in an iteration ends the program no later than the loop: nothing after it runs (T44)."""
    source = f"""
        @T.prim_func
        def main(A: T.Buffer((64,), "int32"), B: T.Buffer((1,), "int32")):
            for i in {loop_of(kind, 0, 64)}:
                assert A[i] != 3, "three"  # <--
            B[0] = 1
    """
    data, after = zeros(64), zeros(1)
    assert both(source, data, after).tolist() == [1]
    data[41] = 3
    assert fails("RUN0202", source, data, after).message == "three"


@pytest.mark.parametrize("kind", ["parallel", "vectorized", 'thread_binding(thread="threadIdx.x")'])
def test_TIR_STMT_13c_dependences(kind: str):
    """Where an iteration uses what another writes nothing is promised; watched, it is found (T45)."""
    for body in ("A[i] = A[i + 1]", "A[0] = i", "A[i + 1] = A[i]"):
        source = f"""
            @T.prim_func
            def main(A: T.Buffer((8,), "int32")):
                for i in {loop_of(kind, 0, 7)}:
                    {body}
        """
        with pytest.raises(RunValueError) as caught:
            interpret(read(source), zeros(8), track=True)
        assert caught.value.diagnostic.code == "RUN0210"
    independent = f"""
        @T.prim_func
        def main(A: T.Buffer((8,), "int32")):
            for i in {loop_of(kind, 0, 8)}:
                A[i] = A[i] + i
    """
    interpret(read(independent), zeros(8), track=True)
    assert both(independent, zeros(8)).tolist() == list(range(8))


@pytest.mark.parametrize("kind", KINDS)
def test_TIR_STMT_13d_scope(kind: str):
    """The variable of any loop lives in the body, and cannot be assigned to."""
    refused(
        "SCR0003",
        f"""
        @T.prim_func
        def main(A: T.Buffer((8,), "int32")):
            for i in {loop_of(kind, 0, 8)}:
                A[i] = 1
            A[0] = i  # <--
        """,
    )
    refused(
        "SCR0016",
        f"""
        @T.prim_func
        def main(A: T.Buffer((8,), "int32")):
            for i in {loop_of(kind, 0, 8)}:
                i = 1  # <--
        """,
    )


# -- other kinds ---------------------------------------------------------------------------------
@pytest.mark.parametrize("extent", [1, 2, 3, 5, 8, 64, 100])
def test_TIR_STMT_14_vectorized(extent: int):
    """A vectorized loop does what its iterations do one after another, whatever their number (T3)."""
    source = f"""
        @T.prim_func
        def main(x: T.int32, A: T.Buffer(({extent},), "int32"), B: T.Buffer(({extent},), "int32")):
            for i in T.vectorized({extent}):
                if i % 3 == 0:
                    B[i] = A[{extent} - 1 - i] // x
                else:
                    B[i] = T.min(A[i] * i, 50) + T.if_then_else(i > 4, A[0], -i)
    """
    data = i32(*range(7, 7 + extent))
    last = extent - 1
    wanted = [
        data[last - i] // -3 if i % 3 == 0 else min(data[i] * i, 50) + (7 if i > 4 else -i)
        for i in range(extent)
    ]
    assert both(source, -3, data, zeros(extent)).tolist() == wanted


def test_TIR_STMT_14_nested():
    """Loops inside of a vectorized one, with bounds of their own, keep their meaning."""
    source = """
        @T.prim_func
        def main(A: T.Buffer((8,), "int32")):
            for i in T.vectorized(8):
                for j in range(i):
                    A[i] = A[i] + j
    """
    assert both(source, zeros(8)).tolist() == [sum(range(i)) for i in range(8)]


def test_TIR_STMT_14a_order_of_effects():
    """Errors and writes of a vectorized loop come in the order of its iterations (T3)."""
    source = """
        @T.prim_func
        def main(A: T.Buffer((8,), "int32"), B: T.Buffer((8,), "int32")):
            for i in T.vectorized(8):
                assert A[i] != 5, "five"
                B[i] = 100 // A[i]
    """
    assert both(source, i32(1, 2, 3, 4, 6, 7, 8, 9), zeros(8)).tolist() == [
        100,
        50,
        33,
        25,
        16,
        14,
        12,
        11,
    ]
    five, zero = i32(1, 1, 1, 5, 1, 0, 1, 1), i32(1, 1, 0, 1, 1, 5, 1, 1)
    fails("RUN0202", source, five, zeros(8))
    fails("RUN0201", source, zero, zeros(8))


@pytest.mark.parametrize("extent", [0, 1, 4, 40])
def test_TIR_STMT_15_unrolled(extent: int):
    """An unrolled loop is a serial one: order, break and continue included."""
    source = f"""
        @T.prim_func
        def main(n: T.int32, A: T.Buffer((42,), "int32")):
            for i in T.unroll({extent}):
                if i == n:
                    break
                if i % 5 == 3:
                    continue
                A[i + 1] = A[i] + 1
    """
    unrolled = both(source, 17, zeros(42)).tolist()
    assert unrolled == both(source.replace("unroll", "serial"), 17, zeros(42)).tolist()
    wanted = [0] * 42
    for i in range(min(extent, 17)):
        if i % 5 != 3:
            wanted[i + 1] = wanted[i] + 1
    assert unrolled == wanted


@pytest.mark.parametrize("tag", ["threadIdx.x", "blockIdx.y", "vthread"])
def test_TIR_STMT_16_threads(tag: str):
    """A loop bound to threads runs as a parallel one; its thread tells nothing but where."""
    source = counting(f'thread_binding(thread="{tag}")', "m", "n")
    assert both(source, 1, 4, zeros(8)).tolist() == [0, 101, 102, 103, 0, 0, 0, 0]
    i, thread = Var("i", "int32"), IterVar(None, Var("t", "int32"), IterVarType.THREAD_INDEX, tag)
    buffer = decl_buffer((8,), "int32", "A")
    body = store(buffer, i + 1, thread.var)
    made = loop(i, 4, body, ForKind.THREAD_BINDING, thread_binding=thread)
    assert mistakes(func(made, buffer)) == []


def test_TIR_STMT_17_while():
    """A while loop tests before each run of its body; any number but 0 holds (T28)."""
    source = """
        @T.prim_func
        def main(A: T.Buffer((3,), "int32")):
            while {}:
                A[0] = A[0] - 1
                A[1] = A[1] + 2
    """
    for condition in ("A[0] > 0", "A[0]", "A[0] > 0 and 100 // A[0] > 0"):
        made = source.format(condition)
        assert both(made, i32(5, 0, 0)).tolist() == [0, 10, 0]
        assert both(made, i32(0, 0, 0)).tolist() == [0, 0, 0]
    assert both(source.format("T.cast(A[0], 'uint8')"), i32(258, 0, 0)).tolist() == [256, 4, 0]


def test_TIR_STMT_17_jumps():
    """Break and continue act on the innermost while, whose condition is tested again."""
    source = """
        @T.prim_func
        def main(A: T.Buffer((4,), "int32")):
            while A[0] < 5:
                A[0] = A[0] + 1
                if A[0] == 2:
                    continue
                while True:
                    A[1] = A[1] + 1
                    if A[1] % 3 == 0:
                        break
                A[2] = A[2] + 1
    """
    assert both(source, zeros(4)).tolist() == [5, 12, 4, 0]
