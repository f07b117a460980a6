"""Plain loops keep the order of their sums, whatever these start from, and are fast all the same."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pytest

import loomir
from loomir.script import tir as T
from loomir.tir.expr import IntImm
from loomir.tir.function import PrimFunc
from tests.autoschedule.equivalence import kinds, schedule_for

RANDOM = np.random.default_rng(5)
SPECIAL = (0.0, -0.0, np.inf, -np.inf, np.nan, 1e-42)
ARRAY = npt.NDArray[np.generic]


def exactly(
    func: PrimFunc, *arrays: ARRAY, targets: Sequence[str] = ("native", "haswell")
) -> list[str]:
    """Compare scheduled with unscheduled code, bit for bit; return the rules."""
    wanted = [array.copy() for array in arrays]
    loomir.compile(func, schedule=False, opt_level=0)(*wanted)
    for tasks, target in enumerate(targets):
        made = schedule_for(func, target, tasks=bool(tasks))
        assert not loomir.verify(made.func)
        native = [array.copy() for array in arrays]
        level = 0 if tasks else 2
        run = loomir.compile(made.func, target, schedule=False, cache=False, opt_level=level)
        run(*native)
        for a, b in zip(wanted, native, strict=True):
            np.testing.assert_array_equal(b, a)  # NaN is NaN, of whatever bits
            np.testing.assert_array_equal(np.signbit(b[b == b]), np.signbit(a[a == a]))
    return kinds(schedule_for(func, targets[0], tasks=False))


def interpreted(func: PrimFunc, *arrays: ARRAY) -> None:
    """Interpret the scheduled and the unscheduled function, and compare bit for bit."""
    wanted = [array.copy() for array in arrays]
    loomir.interpret(func, func.name, *wanted)
    got = [array.copy() for array in arrays]
    loomir.interpret(schedule_for(func, "native", tasks=False).func, func.name, *got)
    for a, b in zip(wanted, got, strict=True):
        np.testing.assert_array_equal(b, a)


def drawn(*shape: int, dtype: str = "float32", special: bool = False) -> ARRAY:
    made = np.array(RANDOM.standard_normal(shape) * 4, dtype)
    if special and made.dtype.kind == "f":
        places = RANDOM.integers(0, made.size, len(SPECIAL))
        made.reshape(-1)[places] = SPECIAL
    return made


def arrays_for(func: PrimFunc, *, special: bool = False) -> list[ARRAY]:
    made: list[ARRAY] = []
    for buffer in func.buffer_map.values():
        shape = [e.value for e in buffer.shape if isinstance(e, IntImm)]
        made.append(drawn(*shape, dtype=str(buffer.dtype), special=special))
    return made


def nothing_in(arrays: Sequence[ARRAY]) -> list[ARRAY]:
    """Return arrays of zeros, above and below, of which sums are other zeros."""
    made: list[ARRAY] = []
    for array in arrays:
        zeros = np.zeros_like(array)
        if array.dtype.kind == "f":
            zeros[RANDOM.random(array.shape) < 0.7] = -0.0
        made.append(array if array.dtype.kind != "f" else zeros)
    return made


# -- products that start from something --------------------------------------------------------
def product(m: int, n: int, k: int, start: str, dtype: str = "float32") -> PrimFunc:
    """Return loops of a product that starts as told."""

    @T.prim_func
    def by_column(
        a: T.Buffer((m, k), dtype),
        b: T.Buffer((k, n), dtype),
        d: T.Buffer((n,), dtype),
        c: T.Buffer((m, n), dtype),
    ):
        for i, j in T.grid(m, n):
            c[i, j] = d[j]
            for x in range(k):
                c[i, j] += a[i, x] * b[x, j]

    @T.prim_func
    def by_row(
        a: T.Buffer((m, k), dtype),
        b: T.Buffer((n, k), dtype),
        d: T.Buffer((m,), dtype),
        c: T.Buffer((m, n), dtype),
    ):
        for i, j in T.grid(m, n):
            acc = d[i] * T.Cast(dtype, 2)
            for x in range(k):
                acc += a[i, x] * b[j, x]
            c[i, j] = T.max(acc, T.Cast(dtype, 0))

    @T.prim_func
    def accumulated(
        a: T.Buffer((m, k), dtype), b: T.Buffer((k, n), dtype), c: T.Buffer((m, n), dtype)
    ):
        for i, j, x in T.grid(m, n, k):
            c[i, j] = c[i, j] + a[i, x] * b[x, j]

    @T.prim_func
    def scaled(a: T.Buffer((m, k), dtype), b: T.Buffer((k, n), dtype), c: T.Buffer((m, n), dtype)):
        for i, j in T.grid(m, n):
            c[i, j] = c[i, j] * T.Cast(dtype, 0.5)
            for x in range(k):
                c[i, j] += T.Cast(dtype, 1.5) * a[i, x] * b[x, j]

    @T.prim_func
    def transposed(
        a: T.Buffer((k, m), dtype), b: T.Buffer((k, n), dtype), c: T.Buffer((n, m), dtype)
    ):
        for j, i in T.grid(n, m):
            c[j, i] = T.Cast(dtype, -0.0)
            for x in range(k):
                c[j, i] += a[x, i] * b[x, j]

    kinds = {
        "column": by_column,
        "row": by_row,
        "accumulated": accumulated,
        "scaled": scaled,
        "transposed": transposed,
    }
    return kinds[start]


@pytest.mark.parametrize(
    ("start", "m", "n", "k", "dtype"),
    [
        ("column", 7, 33, 13, "float32"),
        ("column", 40, 32, 1300, "float32"),
        ("row", 5, 30, 9, "float64"),
        ("accumulated", 33, 2, 31, "float32"),
        ("scaled", 6, 33, 700, "float32"),
        ("transposed", 9, 17, 9, "float32"),
    ],
)
def test_products_start_from_anything(start: str, m: int, n: int, k: int, dtype: str) -> None:
    func = product(m, n, k, start, dtype)
    assert exactly(func, *arrays_for(func, special=k < 100))[-1] == "matrix product"


def test_a_product_of_zeros_below_zero_stays_so() -> None:
    func = product(6, 32, 5, "transposed")
    a, b, c = -np.zeros((5, 6), "f"), np.zeros((5, 32), "f"), np.ones((32, 6), "f")
    exactly(func, a, b, c)
    interpreted(func, a, b, c)
    loomir.compile(func)(a, b, c)
    assert np.signbit(c).all()


@T.prim_func
def convolution(
    x: T.Buffer((2, 3, 17, 14), "float32"),
    w: T.Buffer((9, 3, 3, 3), "float32"),
    b: T.Buffer((9,), "float32"),
    y: T.Buffer((2, 9, 15, 12), "float32"),
):
    for n, o, h, v in T.grid(2, 9, 15, 12):
        acc = b[o]
        for c, i, j in T.grid(3, 3, 3):
            acc += x[n, c, h + i, v + j] * w[o, c, i, j]
        y[n, o, h, v] = T.max(acc, T.float32(0))


@T.prim_func
def in_another_order(
    x: T.Buffer((2, 3, 17, 14), "float32"),
    w: T.Buffer((9, 3, 3, 3), "float32"),
    b: T.Buffer((9,), "float32"),
    y: T.Buffer((2, 9, 15, 12), "float32"),
):
    for n, o, h, v in T.grid(2, 9, 15, 12):
        y[n, o, h, v] = b[o] + T.Cast("float32", v)
        for j, i, c in T.grid(3, 3, 3):
            y[n, o, h, v] += x[n, c, h + i, v + j] * w[o, c, i, j]


@T.prim_func
def deep(
    x: T.Buffer((40, 9, 9), "float32"),
    w: T.Buffer((5, 40, 5, 5), "float32"),
    y: T.Buffer((5, 5, 5), "float32"),
):
    for o, h, v in T.grid(5, 5, 5):
        y[o, h, v] = T.float32(0)
        for c, i, j in T.grid(40, 5, 5):
            y[o, h, v] += x[c, h + i, v + j] * w[o, c, i, j]


@T.prim_func
def channels_last(
    x: T.Buffer((17, 14, 8), "float32"),
    w: T.Buffer((3, 3, 8, 20), "float32"),
    b: T.Buffer((20,), "float32"),
    y: T.Buffer((15, 12, 20), "float32"),
):
    for h, v, o in T.grid(15, 12, 20):
        y[h, v, o] = b[o]
        for i, j, c in T.grid(3, 3, 8):
            y[h, v, o] += x[h + i, v + j, c] * w[i, j, c, o]


@pytest.mark.parametrize(
    ("func", "kind"),
    [
        (convolution, "convolution"),
        (in_another_order, "matrix product"),
        (deep, "convolution"),
        (channels_last, "matrix product"),
    ],
)
def test_convolutions_keep_their_order(func: PrimFunc, kind: str) -> None:
    arrays = arrays_for(func)
    assert exactly(func, *arrays) == [kind]


@T.prim_func
def of_any_size(a_: T.handle, b_: T.handle, d_: T.handle, c_: T.handle):
    m, n, k = T.int64(), T.int64(), T.int64()
    a = T.match_buffer(a_, (m, k))
    b = T.match_buffer(b_, (k, n))
    d = T.match_buffer(d_, (n,))
    c = T.match_buffer(c_, (m, n))
    for i, j in T.grid(m, n):
        c[i, j] = d[j]
        for x in range(k):
            c[i, j] += a[i, x] * b[x, j]


@T.prim_func
def added_of_any_size(a_: T.handle, b_: T.handle, c_: T.handle):
    m, n, k = T.int64(), T.int64(), T.int64()
    a = T.match_buffer(a_, (m, k))
    b = T.match_buffer(b_, (k, n))
    c = T.match_buffer(c_, (m, n))
    for i, j, x in T.grid(m, n, k):
        c[i, j] += a[i, x] * b[x, j]


def test_sizes_are_known_at_run_time() -> None:
    for func in (of_any_size, added_of_any_size):
        run = loomir.compile(func)
        written = loomir.compile(func, schedule=False, opt_level=0)
        for m, n, k in ((0, 3, 3), (3, 0, 3), (3, 5, 0), (1, 1, 1), (3, 70, 600), (40, 33, 17)):
            arrays = [drawn(m, k), drawn(k, n), drawn(n), drawn(m, n)]
            if func is added_of_any_size:
                del arrays[2]
            wanted = [array.copy() for array in arrays]
            run(*arrays)
            written(*wanted)
            np.testing.assert_array_equal(arrays[-1], wanted[-1])


# -- what is not a product, though it looks like one ----------------------------------------------
@T.prim_func
def reads_its_result(a: T.Buffer((20, 20), "float32"), c: T.Buffer((20, 20), "float32")):
    for i, j in T.grid(20, 20):
        c[i, j] = a[j, i]
        for x in range(20):
            c[i, j] += a[i, x] * c[x, j]


@T.prim_func
def starts_from_another_element(
    a: T.Buffer((20, 20), "float32"),
    b: T.Buffer((20, 20), "float32"),
    c: T.Buffer((21, 20), "float32"),
):
    for i, j in T.grid(20, 20):
        c[i + 1, j] = c[i, j]
        for x in range(20):
            c[i + 1, j] += a[i, x] * b[x, j]


@T.prim_func
def starts_from_what_follows(
    a: T.Buffer((20, 20), "float32"),
    b: T.Buffer((20, 20), "float32"),
    d: T.Buffer((20,), "float32"),
    c: T.Buffer((20, 20), "float32"),
):
    acc = T.alloc_buffer((1,), "float32")
    for i, j in T.grid(20, 20):
        acc[0] = d[j]
        for x in range(20):
            acc[0] += a[i, x] * b[x, j]
        c[i, j] = acc[0]
        d[j] = acc[0] * T.float32(0.01)


@T.prim_func
def starts_from_its_loop(
    a: T.Buffer((20, 20), "float32"),
    b: T.Buffer((20, 20), "float32"),
    d: T.Buffer((20, 20), "float32"),
    c: T.Buffer((20, 20), "float32"),
):
    for i, j in T.grid(20, 20):
        for x in range(20):
            c[i, j] = d[j, x]
            c[i, j] += a[i, x] * b[x, j]


@T.prim_func
def starts_again(
    a: T.Buffer((20, 20), "float32"),
    b: T.Buffer((20, 20), "float32"),
    c: T.Buffer((20, 20), "float32"),
):
    for i in range(20):
        for j in range(20):
            c[i, j] = T.float32(1)
        for x in range(20):
            for j in range(20):
                c[i, j] += a[i, x] * b[x, j]
            for j in range(20):
                c[i, j] = c[i, j] * T.float32(0.5)


@T.prim_func
def one_memory(a: T.Buffer((20, 20), "float32"), m: T.Buffer((40, 20), "float32")):
    for i, j in T.grid(20, 20):
        m[i + 20, j] = m[i, j]
        for x in range(20):
            m[i + 20, j] += a[i, x] * m[x, j]


@pytest.mark.parametrize(
    "func",
    [
        reads_its_result,
        starts_from_another_element,
        starts_from_what_follows,
        starts_from_its_loop,
        starts_again,
        one_memory,
    ],
)
def test_what_only_looks_like_a_product_is_as_written(func: PrimFunc) -> None:
    arrays = arrays_for(func)
    exactly(func, *arrays)
    assert "matrix product" not in kinds(schedule_for(func, "native", tasks=False))


# -- starts and sums that are not side by side -------------------------------------------------
@T.prim_func
def two_sums(
    x: T.Buffer((40, 40), "float32"),
    s: T.Buffer((40,), "float32"),
    q: T.Buffer((40,), "float32"),
):
    for i in range(40):
        s[i] = x[0, i]
        q[i] = T.float32(1)
        for j in range(40):
            s[i] += x[i, j]
            q[i] += x[i, j] * x[i, j]


@T.prim_func
def changed_between(
    x: T.Buffer((40, 40), "float32"), b: T.Buffer((40,), "float32"), s: T.Buffer((40,), "float32")
):
    for i in range(40):
        s[i] = b[i]
    for i in range(40):
        b[i] = b[i] * T.float32(2)
    for i, j in T.grid(40, 40):
        s[i] += x[i, j]


@T.prim_func
def read_between(
    x: T.Buffer((40, 40), "float32"), b: T.Buffer((40,), "float32"), s: T.Buffer((40,), "float32")
):
    for i in range(40):
        s[i] = T.float32(3)
    for i in range(40):
        b[i] = s[39 - i] * T.float32(2)
    for i, j in T.grid(40, 40):
        s[i] += x[i, j]


@T.prim_func
def partly_written_between(
    x: T.Buffer((40, 40), "float32"), b: T.Buffer((20,), "float32"), s: T.Buffer((40,), "float32")
):
    for i in range(40):
        s[i] = T.float32(3)
    for i in range(20):
        s[i * 2] = b[i]
    for i, j in T.grid(40, 40):
        s[i] += x[i, j]


def test_sums_begin_before_others() -> None:
    assert exactly(two_sums, *arrays_for(two_sums)) == ["reduction", "reduction"]
    for func in (changed_between, read_between, partly_written_between):
        exactly(func, *arrays_for(func))


# -- terms that are taken away, and terms under conditions -------------------------------------
@T.prim_func
def taken_away(
    a: T.Buffer((9, 21), "float32"),
    b: T.Buffer((21, 33), "float32"),
    c: T.Buffer((9, 33), "float32"),
):
    for i, j, k in T.grid(9, 33, 21):
        c[i, j] = c[i, j] - a[i, k] * b[k, j]


@T.prim_func
def residual(
    a: T.Buffer((19, 40), "float32"), b: T.Buffer((40,), "float32"), c: T.Buffer((19,), "float32")
):
    for i in range(19):
        for k in range(40):
            c[i] -= b[k] - a[i, k]


@T.prim_func
def counted_down(a: T.Buffer((19, 40), "int8"), c: T.Buffer((19,), "int8")):
    for i in range(19):
        for k in range(40):
            c[i] = c[i] - a[i, k]


@T.prim_func
def taken_from(a: T.Buffer((19, 40), "float32"), c: T.Buffer((19,), "float32")):
    for i in range(19):
        for k in range(40):
            c[i] = a[i, k] - c[i]


@pytest.mark.parametrize(
    ("func", "kind"),
    [
        (taken_away, "matrix product"),
        (residual, "reduction"),
        (counted_down, "rows"),
        (taken_from, ""),
    ],
)
def test_terms_are_taken_away(func: PrimFunc, kind: str) -> None:
    arrays = arrays_for(func, special=func is not counted_down)
    assert "".join(exactly(func, *arrays)) == kind
    exactly(func, *nothing_in(arrays))


@T.prim_func
def padded(
    x: T.Buffer((3, 8, 20), "float32"),
    w: T.Buffer((5, 3, 3, 3), "float32"),
    b: T.Buffer((5,), "float32"),
    y: T.Buffer((5, 8, 20), "float32"),
):
    for o, h, v in T.grid(5, 8, 20):
        acc = b[o]
        for c, i, j in T.grid(3, 3, 3):
            if h + i >= 1 and h + i < 9 and v + j >= 1 and v + j < 21:
                acc += x[c, h + i - 1, v + j - 1] * w[o, c, i, j]
        y[o, h, v] = acc


@T.prim_func
def some_terms(
    x: T.Buffer((20, 40), "float32"), n: T.Buffer((40,), "int32"), s: T.Buffer((20,), "float32")
):
    for i, j in T.grid(20, 40):
        if n[j] > i:
            s[i] = s[i] * x[i, j]


@T.prim_func
def most_of_some(
    x: T.Buffer((20, 40), "float32"), n: T.Buffer((40,), "int32"), s: T.Buffer((20,), "float32")
):
    for i, j in T.grid(20, 40):
        if n[j] > i:
            s[i] = T.max(s[i], x[i, j])


@T.prim_func
def until_enough(
    x: T.Buffer((20, 40), "float32"), n: T.Buffer((40,), "int32"), s: T.Buffer((20,), "float32")
):
    for i, j in T.grid(20, 40):
        if s[i] < T.Cast("float32", n[j]):
            s[i] += T.abs(x[i, j])


@T.prim_func
def inside_only(
    x: T.Buffer((20, 40), "float32"), n: T.Buffer((40,), "int32"), s: T.Buffer((20,), "float32")
):
    for i in range(20):
        s[i] = T.float32(0)
        for j in range(40):
            if n[j] < 20 and n[j] >= 0:
                s[i] += x[n[j], j] * x[i, 39 - n[j]]


@pytest.mark.parametrize("func", [padded, some_terms, most_of_some, until_enough, inside_only])
def test_terms_under_conditions_join_where_these_hold(func: PrimFunc) -> None:
    arrays = arrays_for(func, special=True)
    if func is not padded:
        arrays[1] = RANDOM.integers(-5, 25, 40).astype("int32")
    exactly(func, *arrays)
    exactly(func, *nothing_in(arrays))


@T.prim_func
def the_last_of_equals(
    x: T.Buffer((20, 40), "float32"), s: T.Buffer((20,), "float32"), t: T.Buffer((20,), "float32")
):
    for i in range(20):
        s[i] = T.float32(0)
        for j in range(40):
            s[i] = T.max(x[i, j], s[i])
    for i, j in T.grid(20, 40):
        t[i] = T.min(x[i, j], t[i])


def test_of_zeros_of_both_signs_the_first_or_the_last_is_kept_as_written() -> None:
    x = RANDOM.choice(np.array([0.0, -0.0], "float32"), (20, 40))
    exactly(the_last_of_equals, x, np.ones(20, "float32"), np.ones(20, "float32"))


@T.prim_func
def distances(xs: T.handle, zs: T.handle, ys: T.handle) -> None:
    n, m, k = T.int64(), T.int64(), T.int64()
    x = T.match_buffer(xs, (n, k), "float32")
    z = T.match_buffer(zs, (m, k), "float32")
    y = T.match_buffer(ys, (n, m), "float32")
    for i, j in T.grid(n, m):
        y[i, j] = T.float32(0)
        for e in range(k):
            y[i, j] = y[i, j] + (x[i, e] - z[j, e]) * (x[i, e] - z[j, e])


def points(n: int, m: int, k: int) -> PrimFunc:
    @T.prim_func
    def func(
        x: T.Buffer((n, k), "float64"),
        z: T.Buffer((m, k), "float64"),
        y: T.Buffer((n, m), "float64"),
    ) -> None:
        for i, j in T.grid(n, m):
            y[i, j] = T.float64(1)
            for e in range(k):
                y[i, j] = y[i, j] + T.abs(x[i, e] - z[j, e])

    return func


def some(*shape: int, dtype: str) -> npt.NDArray[np.generic]:
    made = RANDOM.standard_normal(shape).astype(dtype)
    made.flat[:: max(1, made.size // 6)] = SPECIAL[3]
    return made


@pytest.mark.parametrize(
    "shape", [(9, 37, 16), (3, 19, 5), (0, 3, 4), (4, 0, 3), (5, 4, 0), (1, 1, 1)]
)
def test_distances_of_sizes_known_when_it_runs(shape: tuple[int, int, int]) -> None:
    n, m, k = shape
    x, z = some(n, k, dtype="float32"), some(m, k, dtype="float32")
    exactly(distances, x, z, np.full((n, m), 5, "float32"))


@pytest.mark.parametrize("shape", [(11, 40, 3), (2, 40, 3), (9, 33, 21), (9, 5, 3)])
def test_distances(shape: tuple[int, int, int]) -> None:
    n, m, k = shape
    func = points(*shape)
    exactly(func, some(n, k, dtype="float64"), some(m, k, dtype="float64"), np.zeros((n, m)))
    (plan,) = schedule_for(func, "znver5", tasks=False).plans
    pretransposed = "what is read across it is transposed once, before" in plan.choices
    assert pretransposed is (n >= 8 and m >= 8)
