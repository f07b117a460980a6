"""Decisions of class A, which change results, safety or acceptance.

Each has three tests: the example that made the decision necessary, a property, and a negative: what
is refused, or what another reading of the text would have given.
"""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loomir.support.diagnostics import RunError
from loomir.tir import Broadcast, IntImm, Shuffle, Var, convert
from tests.conformance.compare_engines import (
    both,
    both_ways,
    dt,
    each,
    f32,
    fails,
    i8,
    i32,
    numpy_named,
    refused,
    run_both,
    zeros,
)
from tests.tir.refusal import refused as refuses

INF, NAN = math.inf, math.nan
FEW = settings(max_examples=15)
int32s = st.integers(-(2**31), 2**31 - 1)


# -- T1: init runs where all reduced axes are at their start, which must come first -----------------
def summing(head: str, value: str) -> str:
    """Write a program that sums rows of A into B, with a reduced axis bound to ``value``."""
    return f"""
        @T.prim_func
        def main(A: T.Buffer((4, 8), "int32"), B: T.Buffer((4,), "int32")):
            for {head}:
                with T.sblock("b"):
                    vi = T.axis.spatial(4, i)
                    vk = T.axis.reduce(8, {value})
                    with T.init():
                        B[vi] = 0
                    B[vi] = B[vi] + A[vi, vk]
    """


def matrix() -> np.ndarray:
    return np.arange(32, dtype=np.int32).reshape(4, 8)


def test_T1_example_split_and_reordered_loops():
    """With the reduced loop split or outermost, each point is initialised once."""
    wanted = matrix().sum(1).tolist()
    for head, value in [
        ("i, ko, ki in T.grid(4, 2, 4)", "ko * 4 + ki"),
        ("k, i in T.grid(8, 4)", "k"),
    ]:
        assert both(summing(head, value), matrix(), i32(9, 9, 9, 9)).tolist() == wanted


@pytest.mark.parametrize("order", list(itertools.permutations(["i", "ko", "ki"])))
def test_T1_property_any_order_of_loops(order: tuple[str, ...]):
    """Any order of loops that reaches the start of the reduction first gives the sums."""
    extents = {"i": 4, "ko": 2, "ki": 4}
    head = f"{', '.join(order)} in T.grid({', '.join(str(extents[n]) for n in order)})"
    out = both(summing(head, "ko * 4 + ki"), matrix(), i32(9, 9, 9, 9))
    assert out.tolist() == matrix().sum(1).tolist()


@pytest.mark.parametrize("value", ["7 - k", "(k + 1) % 8", "3"])
def test_T1_negative_init_too_late(value: str):
    """Where the start is not provably reached first, the program is refused, not silently wrong."""
    refused("TIR0413", summing("i, k in T.grid(4, 8)", value))


# -- T2: a false predicate skips the whole block -------------------------------------------------
SPLIT = """
    @T.prim_func
    def main(n: T.int32, A: T.Buffer((12,), "int32")):
        for i, j in T.grid(3, 4):
            with T.sblock("b"):
                v = T.axis.spatial(12, i * 4 + j)
                T.where(i * 4 + j < n)
                A[v] = v
"""


def test_T2_example_split_that_does_not_divide():
    """Of 12 instances 10 run where the predicate says so; the last elements stay."""
    assert both(SPLIT, 10, i32(*[-7] * 12)).tolist() == [*range(10), -7, -7]


@pytest.mark.parametrize("n", [-1, 0, 1, 5, 11, 12, 13])
def test_T2_property_as_an_if(n: int):
    """A predicate does what an if around the block does."""
    guarded = """
        @T.prim_func
        def main(n: T.int32, A: T.Buffer((12,), "int32")):
            for i, j in T.grid(3, 4):
                if i * 4 + j < n:
                    A[i * 4 + j] = i * 4 + j
    """
    data = i32(*[-7] * 12)
    assert both(SPLIT, n, data).tolist() == both(guarded, n, data).tolist()


def test_T2_negative_nothing_of_the_block_happens():
    """Where it is false there is no allocation and no init either; the axes are not its to use."""
    source = """
        @T.prim_func
        def main(x: T.int32, A: T.Buffer((1,), "int32")):
            for i in range(1):
                with T.sblock("b"):
                    v = T.axis.reduce(1, i)
                    T.where(x > 0)
                    B = T.alloc_buffer((8 // x,), "int32")
                    with T.init():
                        A[v] = 5
                    B[0] = 1
    """
    assert both(source, 0, i32(-7)).tolist() == [-7]
    assert both(source, 1, i32(-7)).tolist() == [5]
    refused("TIR0401", source.replace("T.where(x > 0)", "T.where(v < x)"))


# -- T3: a loop covers start up to start + extent ------------------------------------------------
KINDS = ["serial", "parallel", "vectorized", "unroll"]


def counting(kind: str) -> str:
    return f"""
        @T.prim_func
        def main(m: T.int32, n: T.int32, A: T.Buffer((8,), "int32")):
            for i in T.{kind}(m, n):
                A[i] = A[i] + i + 1
    """


@pytest.mark.parametrize("kind", KINDS)
def test_T3_example_two_to_five(kind: str):
    """The loop from 2 to 5 runs for 2, 3, 4."""
    assert both(counting(kind), 2, 5, zeros(8)).tolist() == [0, 0, 3, 4, 5, 0, 0, 0]
    assert both(counting(kind).replace("(m, n)", "(2, 5)"), 0, 0, zeros(8)).tolist()[2:5] == [
        3,
        4,
        5,
    ]


@pytest.mark.parametrize("kind", KINDS)
def test_T3_property_as_pythons_range(kind: str):
    """Every kind of loop runs for what Python's range gives, in all small ranges."""
    interpreted, native = both_ways(counting(kind))
    for m, n in itertools.product(range(9), repeat=2):
        wanted = [i + 1 if m <= i < n else 0 for i in range(8)]
        for run in (interpreted, native):
            out = zeros(8)
            run(m, min(n, 8), out)
            assert out.tolist() == wanted


@pytest.mark.parametrize("kind", KINDS)
def test_T3_negative_no_iterations(kind: str):
    """An extent of 0 or less runs nothing; the extent is no end."""
    for m, n in [(5, 5), (5, 0), (7, -5), (2**31 - 1, -(2**31))]:
        if n - m < -(2**31):
            continue
        assert both(counting(kind), m, n, zeros(8)).tolist() == [0] * 8


# -- T4: bounds are evaluated once ---------------------------------------------------------------
def test_T4_example_extent_in_a_buffer():
    """A loop over an extent that the body overwrites runs as often as it said at first."""
    source = """
        @T.prim_func
        def main(A: T.Buffer((2,), "int32")):
            for i in range(A[0]):
                A[0] = 1
                A[1] = A[1] + 1
    """
    assert both(source, i32(5, 0)).tolist() == [1, 5]


@FEW
@given(st.integers(0, 6), st.integers(-3, 9))
def test_T4_property_changes_do_not_count(n: int, step: int):
    """Whatever the body adds to the extent, the number of iterations stays."""
    source = """
        @T.prim_func
        def main(step: T.int32, A: T.Buffer((2,), "int32")):
            for i in range(A[0]):
                A[0] = A[0] + step
                A[1] = A[1] + 1
    """
    assert both(source, step, i32(n, 0)).tolist() == [n + n * step, n]


def test_T4_negative_order_of_bounds():
    """The start is evaluated first, and the extent not again: only one division is told."""
    source = """
        @T.prim_func
        def main(x: T.int32, A: T.Buffer((2,), "int32")):
            for i in range(1 // x, 1 // x + 8 % x):  # <--
                A[0] = 1
    """
    assert "FloorDiv" in fails("RUN0201", source, 0, zeros(2)).message


# -- T5: shuffles --------------------------------------------------------------------------------
def shuffled(picks: list[int]) -> list[int]:
    source = f"""
        @T.prim_func
        def main(x: T.int32, A: T.Buffer((16,), "int32")):
            A[0:{len(picks)}] = T.Shuffle([T.Ramp(x, 1, 4), x * 9, T.Ramp(x, 10, 3)], {picks})
    """
    if len(picks) == 1:
        source = source.replace("A[0:1]", "A[0]")
    return both(source, 3, zeros(16)).tolist()[: len(picks)]


def test_T5_example_concatenated_lanes():
    """Lane i of a shuffle is the lane indices[i] of all vectors end to end."""
    assert shuffled([7, 4, 0, 5]) == [23, 27, 3, 3]


@pytest.mark.parametrize("count", [1, 2, 3, 4, 8])
def test_T5_property_any_number_of_indices(count: int):
    """There may be as many indices as lanes are allowed; they may repeat."""
    lanes = [3, 4, 5, 6, 27, 3, 13, 23]
    picks = [(5 * k + 2) % 8 for k in range(count)]
    assert shuffled(picks) == [lanes[k] for k in picks]


def test_T5_negative_wrong_indices():
    """An index outside of the lanes, or one that is not constant, is refused."""
    vector = Broadcast(convert(1), 4)
    for bad in (convert(4), convert(-1), Var("x", "int32"), convert(0.5)):
        with refuses("TIR0110"):
            Shuffle((vector,), (bad,))
    assert Shuffle((vector,), (IntImm(3, dt("uint8")),)).dtype == "int32"


# -- T6: axes that a view leaves out are leading ones --------------------------------------------
def viewing(region: str, shape: str, index: str) -> str:
    return f"""
        @T.prim_func
        def main(A: T.Buffer((4, 8), "int32")):
            with T.sblock("b"):
                V = T.match_buffer(A[{region}], {shape}, "int32")
                V[{index}] = 500
    """


def test_T6_example_a_row():
    """A part of one row is a view of one axis, and is the same memory."""
    assert np.argwhere(both(viewing("1:2, 2:6", "(4,)", "3"), zeros(4, 8))).tolist() == [[1, 5]]


@pytest.mark.parametrize("row", range(4))
def test_T6_property_every_row_and_column(row: int):
    """The left-out axis adds its start, the others theirs and the index."""
    for start, index in itertools.product(range(0, 6, 2), range(2)):
        out = both(viewing(f"{row}, {start}:{start + 2}", "(2,)", str(index)), zeros(4, 8))
        assert np.argwhere(out).tolist() == [[row, start + index]]


def test_T6_negative_axes_that_matter():
    """An axis of another extent is not left out, nor is one at the end, nor are axes added."""
    refused("TIR0412", viewing("1:3, 2:6", "(4,)", "0"))
    refused("TIR0412", viewing("1:3, 2:3", "(2,)", "0"))
    refused("TIR0304", viewing("1:3, 2:6", "(1, 2, 4)", "0, 0, 0"))


# -- T11: integer division -----------------------------------------------------------------------
DIVISIONS = {
    "T.div(a, b)": lambda a, b: abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1),
    "T.truncmod(a, b)": math.fmod,
    "a // b": lambda a, b: a // b,
    "a % b": lambda a, b: a % b,
}


@pytest.mark.parametrize("dtype", ["int8", "int16", "int32", "int64"])
def test_T11_example_smallest_by_minus_one(dtype: str):
    """INT_MIN / -1 is INT_MIN and leaves no remainder, in both pairs."""
    low = dt(dtype).min_value
    a, b = np.array([low], numpy_named(dtype)), np.array([-1], numpy_named(dtype))
    found = [each(expression, a=a, b=b)[0] for expression in DIVISIONS]
    assert found == [low, 0, low, 0]


@pytest.mark.parametrize("expression", DIVISIONS)
def test_T11_property_all_small_operands(expression: str):
    """On a grid of int8 operands, each form is what arithmetic says."""
    rows = [(a, b) for a in range(-128, 128, 5) for b in range(-127, 128, 6)]
    rows = [(a, b) for a, b in rows if (a, b) != (-128, -1)]  # which wraps
    a, b = i8(*(x for x, _ in rows)), i8(*(y for _, y in rows))
    assert each(expression, a=a, b=b).tolist() == [DIVISIONS[expression](x, y) for x, y in rows]


@pytest.mark.parametrize("expression", DIVISIONS)
def test_T11_negative_zero(expression: str):
    """By zero raises a ZeroDivisionError; a division that is not reached does no harm."""
    source = f"""
        @T.prim_func
        def main(a: T.int32, b: T.int32) -> T.int32:
            if a > 100:
                return {expression.replace("b", "0")}
            return {expression}  # <--
    """
    fails("RUN0201", source, 5, 0)
    with pytest.raises(ZeroDivisionError):
        both_ways(source)[1](5, 0)
    assert both(source, 6, 3) in (2, 0)
    guarded = f"T.if_then_else(b == 0, 77, {expression})"
    assert each(guarded, a=i32(5, 5), b=i32(0, 5)).tolist()[0] == 77


# -- T12: integers wrap --------------------------------------------------------------------------
ENDS = {"int8": 127, "int32": 2**31 - 1, "int64": 2**63 - 1, "uint8": 255, "uint64": 2**64 - 1}


@pytest.mark.parametrize("dtype", ENDS)
def test_T12_example_next_of_the_largest(dtype: str):
    """X + 1 > x is false for the largest x, and x * 2 // 2 is not x."""
    x = np.array([ENDS[dtype]], numpy_named(dtype))
    assert each(f"a + T.cast(1, '{dtype}') > a", "bool", a=x).tolist() == [False]
    doubled = each(f"a * T.cast(2, '{dtype}') // T.cast(2, '{dtype}')", a=x)[0]
    assert doubled == (-1 if dtype.startswith("int") else ENDS[dtype] // 2)


@FEW
@given(st.lists(st.tuples(int32s, int32s), min_size=8, max_size=8))
def test_T12_property_modulo_a_power_of_two(rows: list[tuple[int, int]]):
    """Sums and products are those of the integers, modulo 2 to the power of the width."""
    source = """
        @T.prim_func
        def main(A: T.Buffer((8,), "int32"), B: T.Buffer((8,), "int32")):
            for i in range(8):
                B[i] = A[i] * B[i] - (A[i] + B[i]) * 3
    """
    out = both(source, i32(*(x for x, _ in rows)), i32(*(y for _, y in rows)))
    assert [int(o) % 2**32 for o in out] == [(x * y - (x + y) * 3) % 2**32 for x, y in rows]


def test_T12_negative_no_laws_of_unbounded_integers():
    """What the simplifier knows of unbounded integers is not used where a sum may wrap."""
    source = """
        @T.prim_func
        def main(n: T.int32, A: T.Buffer((4,), "int32")):
            if n + 10 > n:
                A[0] = 1
            if n * 4 == n * 4 // 2 * 2:
                A[1] = 1
            if (n + 1) // 2 * 2 >= n:
                A[2] = 1
            for i in range(n - 1, n + 1):
                A[3] = A[3] + 1
    """
    assert both(source, 5, zeros(4)).tolist() == [1, 1, 1, 2]
    top = 2**31 - 1
    low = source.partition("            for i")[0]
    assert both(low, top, zeros(4)).tolist() == [0, 1, 0, 0]


# -- T13: floats are IEEE 754 --------------------------------------------------------------------
@pytest.mark.parametrize(
    ("expression", "value", "wanted"),
    [
        ("a - a", INF, NAN),
        ("a * T.float32(0)", NAN, NAN),
        ("a * T.float32(0)", -1.0, -0.0),
        ("(a + T.float32(1)) - a", 1e30, 0.0),
        ("a / a", 0.0, NAN),
    ],
)
def test_T13_example_not_the_reals(expression: str, value: float, wanted: float):
    """X - x, x * 0 and their kin are computed, not simplified."""
    (found,) = each(expression, a=f32(value))
    assert found == wanted or (math.isnan(found) and math.isnan(wanted))
    assert math.copysign(1, found) == math.copysign(1, wanted) or math.isnan(wanted)


floats32 = st.floats(width=32, allow_subnormal=True)


@FEW
@given(st.lists(st.tuples(floats32, floats32, floats32), min_size=8, max_size=8))
def test_T13_property_as_numpy(rows: list[tuple[float, float, float]]):
    """Each operation is rounded by itself, as NumPy's is."""
    source = """
        @T.prim_func
        def main(
            A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32"), C: T.Buffer((8,), "float32")
        ):
            for i in range(8):
                C[i] = (A[i] + B[i]) * C[i] - A[i] / B[i]
    """
    a, b, c = (f32(*column) for column in zip(*rows, strict=True))
    with np.errstate(all="ignore"):
        wanted = (a + b) * c - a / b
    np.testing.assert_array_equal(both(source, a, b, c), wanted)


def test_T13_negative_comparisons_of_nan():
    """X == x is false for NaN, and not(a < b) is not b <= a."""
    nan = f32(NAN)
    assert each("a == a", "bool", a=nan).tolist() == [False]
    assert each("not (a < T.float32(1))", "bool", a=nan).tolist() == [True]
    assert each("T.float32(1) <= a", "bool", a=nan).tolist() == [False]
    source = """
        @T.prim_func
        def main(x: T.float32) -> T.int32:
            if x < T.float32(1):
                return 1
            if x >= T.float32(1):
                return 2
            return 3
    """
    assert [both(source, x) for x in (0.0, 1.0, NAN)] == [1, 2, 3]


# -- T15: and, or stop early ---------------------------------------------------------------------
def test_T15_example_guarded_division():
    """B != 0 and a / b > 0 is false for b = 0, and no error."""
    source = """
        @T.prim_func
        def main(a: T.int32, b: T.int32) -> T.int32:
            if b != 0 and a // b > 0:
                return 1
            return 0
    """
    assert [both(source, 6, b) for b in (3, -3, 0)] == [1, 0, 0]


@pytest.mark.parametrize("flags", list(itertools.product([0, 1], repeat=3)))
def test_T15_property_what_is_reached(flags: tuple[int, int, int]):
    """What fails on the right is evaluated exactly where the left side does not decide."""
    source = """
        @T.prim_func
        def main(a: T.int32, b: T.int32, c: T.int32, d: T.int32) -> T.bool:
            return (a == 1 and b == 1) or (c == 1 and 1 // d == 1)
    """
    a, b, c = flags
    reached = not (a and b) and c
    if reached:
        fails("RUN0201", source, *flags, 0)
    else:
        assert both(source, *flags, 0) == bool(a and b)
    assert both(source, *flags, 1) == bool((a and b) or c)


@pytest.mark.parametrize(("op", "decided"), [("and", 0), ("or", 1)])
def test_T15_negative_the_left_side_always_runs(op: str, decided: int):
    """The left side is evaluated always: what fails there fails."""
    source = f"""
        @T.prim_func
        def main(x: T.int32, y: T.int32) -> T.bool:
            return 1 // x > 0 {op} y == 1  # <--
    """
    fails("RUN0201", source, 0, decided)


# -- T32: the address is data + byte offset ------------------------------------------------------
TAKES = """
    @T.prim_func
    def main(a: T.handle, B: T.Buffer((3,), "int32")):
        A = T.match_buffer(a, (3,), "int32"{})
        for i in range(3):
            B[i] = A[i]
"""


def test_T32_example_a_view_from_the_fourth_element():
    """An array that starts 12 bytes into its memory is read from there, offset named or not."""
    memory = np.arange(6, dtype=np.int32)
    for offset in ("", ", elem_offset=o"):
        assert both(TAKES.format(offset), memory[3:], zeros(3)).tolist() == [3, 4, 5]


@pytest.mark.parametrize("start", range(6))
def test_T32_property_any_start(start: int):
    """Wherever it starts, an array reads and writes its own elements, and no others."""
    source = """
        @T.prim_func
        def main(A: T.Buffer((3,), "int32")):
            for i in range(3):
                A[i] = A[i] + 100
    """
    memory = np.arange(9, dtype=np.int32)
    for run in both_ways(source):
        mine = memory.copy()
        run(mine[start : start + 3])
        wanted = [x + 100 if start <= x < start + 3 else x for x in range(9)]
        assert mine.tolist() == wanted


def test_T32_negative_between_elements():
    """Memory between two elements is refused; one that is not aligned is fine."""
    record = np.zeros(4, [("a", "u1"), ("b", "i4")])["b"][:3]
    fails("RUN0109", TAKES.format(""), record, zeros(3))
    fails("RUN0011", TAKES.format(", elem_offset=3"), zeros(6)[3:], zeros(3))
    odd = np.arange(13, dtype=np.uint8)[1:].view(np.int32)
    assert both(TAKES.format(""), odd, zeros(3)).tolist() == odd.tolist()


# -- T33: compact strides are no strides ---------------------------------------------------------
ROWS = """
    @T.prim_func
    def main(A: T.Buffer((2, 3), "float32")) -> T.float32:
        return A[1, 2]
"""


def test_T33_example_ordinary_arrays():
    """An ordinary array, which always has strides, fits a buffer without; PyTorch's does too."""
    data = np.arange(6, dtype=np.float32).reshape(2, 3)
    assert both(ROWS, data) == 5
    assert both(ROWS, np.arange(12, dtype=np.float32).reshape(4, 3)[2:]) == 11


@pytest.mark.parametrize("shape", [(1, 3), (2, 1), (1, 1), (0, 3), (2, 0)])
def test_T33_property_strides_that_do_not_matter(shape: tuple[int, int]):
    """Axes of one element, and arrays without any, may have whatever strides."""
    source = f"""
        @T.prim_func
        def main(A: T.Buffer({shape}, "float32")):
            for i, j in T.grid({shape[0]}, {shape[1]}):
                A[i, j] = A[i, j] + T.float32(1)
    """
    base = np.zeros(256, np.float32)
    strides = tuple(4 * (40 if extent < 2 else 1) for extent in shape)
    if shape[0] > 1 and shape[1] == 1:
        strides = (4, 400)
    given_ = np.lib.stride_tricks.as_strided(base, shape, strides)
    assert both(source, given_).tolist() == np.ones(shape).tolist()


def test_T33_negative_gaps():
    """Arrays with gaps, or in another order, are refused, with the strides that were expected."""
    for wrong in (
        np.zeros((3, 2), np.float32).T,
        np.zeros((2, 6), np.float32)[:, ::2],
        np.zeros((2, 4), np.float32)[:, :3],
    ):
        found = fails("RUN0006", ROWS, wrong)
        assert "(3, 1)" in found.message
        assert str(tuple(s // 4 for s in wrong.strides)) in found.message


# -- T40: numbers must fit -----------------------------------------------------------------------
def echo(dtype: str) -> str:
    return f"""
        @T.prim_func
        def main(x: T.{dtype}) -> T.{dtype}:
            return x
    """


def test_T40_example_too_large():
    """2 to the power 40 is no int32: an OverflowError, and never 0."""
    for run in both_ways(echo("int32")):
        with pytest.raises(OverflowError):
            run(2**40)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint32", "int64", "uint64"])
def test_T40_property_the_ends(dtype: str):
    """The ends of a dtype pass, what is beyond them does not."""
    low, high = dt(dtype).min_value, dt(dtype).max_value
    for value in (low, high, 0, 1):
        assert both(echo(dtype), value) == value
    for value in (low - 1, high + 1, 2**70, -(2**70)):
        for run in both_ways(echo(dtype)):
            with pytest.raises(OverflowError):
                run(value)


@pytest.mark.parametrize("value", [1.7, 1.0, NAN, "1", None, [1]])
def test_T40_negative_no_integers(value: object):
    """A float is not taken for an integer, even a whole one; nor is anything else."""
    for run in both_ways(echo("int32")):
        with pytest.raises((RunError, TypeError)):
            run(value)
    assert both(echo("int32"), True) == 1
    assert both(echo("float32"), 3) == 3.0


# -- T43: calls ----------------------------------------------------------------------------------
def test_T43_example_recursion_and_helpers():
    """A helper with numbers, one with an array, and recursion all work."""
    source = """
        @I.ir_module
        class Module:
            @T.prim_func(private=True)
            def fact(n: T.int64) -> T.int64:
                if n <= 1:
                    return T.int64(1)
                return n * cls.fact(n - 1)

            @T.prim_func(private=True)
            def fill(a: T.handle):
                A = T.match_buffer(a, (n,), "int64")
                for i in range(n):
                    A[i] = cls.fact(i)

            @T.prim_func
            def main(A: T.Buffer((8,), "int64")):
                cls.fill(A)
    """
    out = both(source, zeros(8, dtype="int64"))
    assert out.tolist() == [math.factorial(i) for i in range(8)]


@FEW
@given(st.integers(0, 30), st.integers(0, 30))
def test_T43_property_euclid(a: int, b: int):
    """A recursive function agrees with mathematics."""
    source = """
        @I.ir_module
        class Module:
            @T.prim_func
            def main(a: T.int32, b: T.int32) -> T.int32:
                if b == 0:
                    return a
                return cls.main(b, a % b)
    """
    assert both(source, a, b) == math.gcd(a, b)


def test_T43_negative_too_deep():
    """Recursion beyond 1000 calls is a RecursionError, not the end of the process."""
    source = """
        @I.ir_module
        class Module:
            @T.prim_func
            def main(n: T.int32) -> T.int32:
                if n == 0:
                    return 0
                return cls.main(n - 1) + 1  # <--
    """
    assert both(source, 990) == 990
    fails("RUN0204", source, 5000)
    with pytest.raises(RecursionError):
        both_ways(source)[1](10**9)
    refused(
        "SCR0023",
        """
        @I.ir_module
        class Module:
            @T.prim_func(private=True)
            def f(x: T.int32):
                T.evaluate(x)

            @T.prim_func
            def main(x: T.int64):
                cls.f(x)  # <--
        """,
    )


# -- T44: errors in parallel loops ---------------------------------------------------------------
PARALLEL = """
    @T.prim_func
    def main(A: T.Buffer((64,), "int32"), B: T.Buffer((1,), "int32")):
        for i in T.parallel(64):
            assert A[i] < 3, "small"  # <--
        B[0] = 1
"""


def test_T44_example_an_error_is_not_swallowed():
    """An assertion that fails in a parallel loop is raised."""
    assert fails("RUN0202", PARALLEL, i32(*range(64)), zeros(1)).message == "small"


@pytest.mark.parametrize("place", [0, 1, 31, 62, 63])
def test_T44_property_wherever_it_is(place: int):
    """Whichever iteration fails, nothing after the loop runs; without a failure it does."""
    data = zeros(64)
    assert both(PARALLEL, data, zeros(1)).tolist() == [1]
    data[place] = 5
    for run in both_ways(PARALLEL):
        after = zeros(1)
        with pytest.raises(AssertionError, match="small"):
            run(data, after)
        assert after.tolist() == [0]


def test_T44_negative_after_an_error_all_works():
    """A failed call leaves nothing behind: the next ones run, other loops inside included."""
    source = """
        @T.prim_func
        def main(n: T.int32, A: T.Buffer((16, 16), "int32")):
            for i in T.parallel(16):
                for j in T.parallel(16):
                    A[i, j] = 100 // (i * 16 + j - n)
    """
    wanted = [[100 // (i * 16 + j + 1) for j in range(16)] for i in range(16)]
    _, native = both_ways(source)
    for _ in range(3):
        with pytest.raises(ZeroDivisionError):
            native(77, zeros(16, 16))
        out = zeros(16, 16)
        native(-1, out)
        assert out.tolist() == wanted
    assert run_both(source, -1, zeros(16, 16)).arrays[0].tolist() == wanted
