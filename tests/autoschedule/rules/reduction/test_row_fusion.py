"""Rows go through softmax, normalisations and reductions while they are in cache."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import loomir
from loomir import te
from loomir.ir.visit import by_class
from loomir.script import from_source
from loomir.script import tir as T
from loomir.te import topi
from loomir.tir.function import PrimFunc
from loomir.tir.stmt import For
from tests.autoschedule.agreement import agrees, draw, interpret_kinds, read_function, scheduled

RANDOM = np.random.default_rng(5)


def drawn(*shape: int, dtype: str = "float32") -> npt.NDArray[np.generic]:
    return np.array(RANDOM.standard_normal(shape) * 3, dtype)


def made(
    op: Callable[..., te.Tensor], *shapes: tuple[int, ...], dtype: str = "float32"
) -> PrimFunc:
    given = [te.placeholder(shape, dtype, name=f"x{k}") for k, shape in enumerate(shapes)]
    return te.create_prim_func([*given, op(*given)])


@pytest.mark.parametrize("length", [1, 5, 16, 31, 37, 64, 200])
def test_softmax(length: int):
    x = (18, length)
    kinds = ["rows"] if length > 1 else None
    # Drawn here: what a module draws depends on the order of its tests, and so do the last bits.
    own = np.array(np.random.default_rng(length).standard_normal(x) * 3, "float32")
    agrees(made(topi.softmax, x), [own, own.copy()], ulps=4, kinds=kinds)


def test_log_softmax_and_other_targets():
    x = (5, 77)
    func = made(topi.log_softmax, x)
    agrees(func, [drawn(*x), drawn(*x)], ulps=8, rtol=1e-5, targets=("native", "haswell"))


@pytest.mark.parametrize("length", [7, 48, 131])
def test_normalisations(length: int):
    x, row = (17, length), (length,)
    both = ("native", "haswell")
    arrays = [drawn(*x), drawn(length), drawn(length), drawn(*x)]
    agrees(made(topi.layer_norm, x, row, row), arrays, kinds=["rows"], targets=both)
    agrees(made(topi.rms_norm, x, row), [*arrays[:2], arrays[3]], kinds=["rows"])


def test_what_is_computed_twice_is_computed_once():
    plan = scheduled(made(topi.layer_norm, (6, 64), (64,), (64,))).plans[0]
    assert "rows over v_i0: 5 passes over each of them" in plan.choices


@pytest.mark.parametrize(
    ("op", "length", "dtype", "where"),
    [
        (topi.softmax, 1000, "float32", 2),
        (topi.rms_norm, 768, "float16", 0),  # it waits for memory as it is
        (topi.softmax, 64, "float32", 0),  # much of it is there before it is asked for
        (topi.softmax, 1 << 20, "float32", 0),  # two rows are more than the caches hold
        (lambda x: topi.sum(x, axis=1), 1000, "float32", 0),  # memory is read once, in order
    ],
)
def test_the_next_row_is_fetched_while_a_row_is_gone_over_again(
    op: Any, length: Any, dtype: str, where: int
):
    shapes = [(18, length), (length,)][: 2 if op is topi.rms_norm else 1]
    found = scheduled(made(op, *shapes, dtype=dtype), target="haswell")
    text = "the next row is fetched into the caches in pass "
    assert [c for c in found.plans[0].choices if text in c] == [f"{text}{where}"] * bool(where)
    ahead = [s.annotations["prefetch_distance"] for s in by_class(found.func)[For] if s.annotations]
    assert {int(a.value) for a in ahead} == ({length} if where else set())


def test_a_power_and_its_sum_take_one_pass():
    plan = scheduled(made(topi.softmax, (6, 64))).plans[0]
    assert "rows over v_i0: 4 passes over each of them" in plan.choices
    assert any(choice.startswith("power, total: ") for choice in plan.choices)
    assert any("never written to memory" in choice for choice in plan.choices)


PARTS = """
from loomir.script import tir as T

@T.prim_func
def main(A: T.Buffer((5, 90), "float32"), B: T.Buffer((5, 90), "float32")):
    power = T.alloc_buffer((5, 90), "float32")
    total = T.alloc_buffer((5,), "float32")
    for i, j in T.grid(5, 90):
        with T.sblock("power"):
            x, y = T.axis.remap("SS", [i, j])
            power[x, y] = T.exp(A[x, y])
    for i, j in T.grid(5, 90):
        with T.sblock("total"):
            x, y = T.axis.remap("SR", [i, j])
            with T.init():
                total[x] = T.float32(0)
            total[x] = total[x] + power[x, y]
    for i, j in T.grid(5, 90):
        with T.sblock("part"):
            x, y = T.axis.remap("SS", [i, j])
            B[x, y] = power[x, y] / total[x] + {more}[x, y]
"""


@pytest.mark.parametrize("more", ["A", "B"])
def test_a_row_waits_where_the_result_will_be_unless_that_is_read(more: str):
    func = from_source(PARTS.format(more=more))
    assert isinstance(func, PrimFunc)
    agrees(func, [drawn(5, 90), drawn(5, 90)], ulps=4, kinds=["rows"])
    choices = scheduled(func).plans[0].choices
    assert ("power: in the place of B until that is known" in choices) is (more == "A")


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "int64", "float16", "float64"])
@pytest.mark.parametrize("name", ["sum", "max", "min", "prod"])
def test_reductions_of_all_dtypes(name: str, dtype: str):
    def op(x: te.Tensor) -> te.Tensor:
        return getattr(topi, name)(x, 1)

    source = np.abs(drawn(3, 150, dtype="float32")) / 3 + 0.5 if name == "prod" else drawn(3, 150)
    with np.errstate(invalid="ignore", over="ignore"):
        x = source.astype(dtype)
    out = te.create_prim_func([p := te.placeholder((3, 150), dtype, name="x"), op(p)])
    result = np.zeros(3, str(list(out.buffer_map.values())[-1].dtype))
    agrees(out, [x, result], rtol=2e-2 if dtype == "float16" else 1e-5)


@pytest.mark.parametrize("name", ["all", "any"])
def test_truth_of_rows(name: str):
    x = RANDOM.random((4, 100)) < (0.99 if name == "all" else 0.01)
    func = made(lambda p: getattr(topi, name)(p, 1), (4, 100), dtype="bool")
    agrees(func, [x, np.zeros(4, bool)], kinds=["rows"])


def test_the_largest_keeps_nan_and_infinities():
    x = drawn(6, 83)
    x[1, 3], x[2, 82], x[3, :], x[4, 0] = np.nan, np.nan, -np.inf, np.inf
    func = made(lambda p: topi.max(p, 1), (6, 83))
    agrees(func, [x, drawn(6)], kinds=["rows"])


def test_rows_that_are_not_contiguous_in_memory():
    x = (3, 4, 5, 18)
    func = made(lambda p: topi.mean(p, (0, 2, 3)), x)
    agrees(func, [drawn(*x), drawn(4)], kinds=["rows"])


@T.prim_func
def any_size(a: T.handle, b: T.handle):
    m, n = T.int64(), T.int64()
    A = T.match_buffer(a, (m, n), "float32")
    B = T.match_buffer(b, (m, n), "float32")
    most = T.alloc_buffer((m,), "float32")
    power = T.alloc_buffer((m, n), "float32")
    for i, j in T.grid(m, n):
        with T.sblock("most"):
            x, y = T.axis.remap("SR", [i, j])
            with T.init():
                most[x] = T.float32("-inf")
            most[x] = T.max(most[x], A[x, y])
    for i, j in T.grid(m, n):
        with T.sblock("power"):
            x, y = T.axis.remap("SS", [i, j])
            power[x, y] = T.sqrt(most[x] - A[x, y]) / most[x]
    for i, j in T.grid(m, n):
        with T.sblock("out"):
            x, y = T.axis.remap("SS", [i, j])
            B[x, y] = power[x, y] + power[x, n - 1 - y]


@pytest.mark.parametrize("shape", [(0, 0), (0, 3), (3, 0), (1, 1), (5, 70), (33, 4)])
def test_sizes_that_are_known_at_the_call_only(shape: tuple[int, int]):
    agrees(any_size, [drawn(*shape), np.zeros(shape, "float32")], kinds=["rows"])


@T.prim_func
def in_place(A: T.Buffer((6, 40), "float32"), B: T.Buffer((6,), "float32")):
    total = T.alloc_buffer((6,), "float32")
    for i, j in T.grid(6, 40):
        with T.sblock("total"):
            x, y = T.axis.remap("SR", [i, j])
            with T.init():
                total[x] = T.float32(0)
            total[x] = total[x] + A[x, y]
    for i, j in T.grid(6, 40):
        with T.sblock("scaled"):
            x, y = T.axis.remap("SS", [i, j])
            A[x, y] = A[x, y] / total[x]
    for i, j in T.grid(6, 40):
        with T.sblock("again"):
            x, y = T.axis.remap("SR", [i, j])
            with T.init():
                B[x] = T.float32(0)
            B[x] = B[x] + A[x, y]


def test_what_is_written_in_place():
    agrees(in_place, [np.abs(drawn(6, 40)), drawn(6)], kinds=["rows"])


@T.prim_func
def across(A: T.Buffer((24, 24), "float32"), B: T.Buffer((24, 24), "float32")):
    total = T.alloc_buffer((24,), "float32")
    for i, j in T.grid(24, 24):
        with T.sblock("total"):
            x, y = T.axis.remap("SR", [i, j])
            with T.init():
                total[x] = T.float32(0)
            total[x] = total[x] + A[x, y]
    for i, j in T.grid(24, 24):
        with T.sblock("other"):
            x, y = T.axis.remap("SS", [i, j])
            B[x, y] = A[x, y] / total[23 - x]
    for i, j in T.grid(24, 24):
        with T.sblock("transposed"):
            x, y = T.axis.remap("SS", [i, j])
            A[y, x] = B[x, y] + total[y]


def test_what_needs_other_rows_is_no_part_of_the_group():
    agrees(across, [np.abs(drawn(24, 24)), drawn(24, 24)])
    assert [p.kind for p in scheduled(across).plans] == ["rows", "element-wise", "transpose"]


@T.prim_func
def in_order(A: T.Buffer((7, 50), "float32"), B: T.Buffer((7, 50), "float32")):
    total = T.alloc_buffer((7,), "float32")
    for i in range(7):
        total[i] = T.float32(0)
        for j in range(50):
            total[i] = total[i] + A[i, j]
    for i in range(7):
        for j in range(50):
            B[i, j] = A[i, j] - total[i]


def test_sums_of_loops_keep_their_order():
    agrees(in_order, [drawn(7, 50), drawn(7, 50)], rtol=0)
    assert any("each in order" in choice for choice in scheduled(in_order).plans[0].choices)


@T.prim_func
def biased(
    A: T.Buffer((6, 9, 40), "float32"),
    W: T.Buffer((6, 3), "float32"),
    B: T.Buffer((6,), "float32"),
    C: T.Buffer((9, 38), "float32"),
):
    for i, j in T.grid(9, 38):
        total = B[0]
        for c, k in T.grid(6, 3):
            total += A[c, i, j + k] * W[c, k]
        C[i, j] = T.max(total, T.float32(0))


def test_sums_in_order_without_vectors_in_a_row_are_of_neighbouring_rows():
    made = scheduled(biased)
    assert "rows" not in {plan.kind for plan in made.plans}
    assert "T.vectorized" in made.func.script()
    shapes = [(6, 9, 40), (6, 3), (6,), (9, 38)]
    agrees(biased, [np.array(RANDOM.standard_normal(s), "float32") for s in shapes], rtol=0)


@pytest.mark.parametrize("shape", [(3, 5), (3, 700), (1, 40000)])
def test_a_sum_of_zeros_below_zero_is_one(shape: tuple[int, int]):
    x = te.placeholder(shape, "float32", name="x")
    k = te.reduce_axis((0, shape[1]), "k")
    total = te.comm_reducer(lambda a, b: a + b, lambda dtype: te.const(-0.0, dtype))
    func = te.create_prim_func([x, te.compute(shape[:1], lambda i: total(x[i, k], axis=k))])
    agrees(func, [np.full(shape, -0.0, "float32"), np.ones(shape[:1], "float32")], rtol=0)
    out = np.ones(shape[:1], "float32")
    loomir.compile(func)(np.full(shape, -0.0, "float32"), out)
    assert np.signbit(out).all()


SUMS = """
for i in range(6):
    s[i] = 0
    for k in range(80):
        s[i] += a[i, k]
"""
TWO = """
u = T.alloc_buffer((6, {size}), "int32")
v = T.alloc_buffer((6, {size}), "int32")
"""
PRODUCT = "for i, k in T.grid(6, 40):\n    y[i, k] = a[i, k] * u[i, 0] + v[i, 0]\n"
PASSES = {
    "a sum that goes on": SUMS + "for i, k in T.grid(6, 80):\n    s[i] += b[i, k]",
    "neighbours that are overwritten": SUMS
    + """
for i, k in T.grid(6, 80):
    y[i, k] = a[i, k] + s[i]
for i, k in T.grid(6, 80):
    y[i, k + 1] = b[i, k] - s[i]
""",
    "rows of two dimensions": SUMS
    + """
for i, k in T.grid(6, 80):
    z[0, i, k] = a[i, k] + s[i]
for i, k in T.grid(6, 80):
    z[i, 0, k] = a[i, k] - s[i]
""",
    "a result of shorter rows": """
u = T.alloc_buffer((6, 80), "int32")
for i, k in T.grid(6, 80):
    u[i, k] = a[i, k] * a[i, k]
for i in range(6):
    s[i] = 0
    for k in range(80):
        s[i] += u[i, k]
for i, k in T.grid(6, 70):
    b[i, k] = u[i, k] * u[i, k] * u[i, k] + s[i]
""",
    "a result of more axes": 'u = T.alloc_buffer((6, 80, 2), "int32")'
    + SUMS
    + """
for i, k in T.grid(6, 80):
    u[i, k, 0] = a[i, k] * s[i]
for i, k, m in T.grid(6, 80, 2):
    w[i, k, m] = u[i, k, 0] * u[i, k, 0] * u[i, k, 0] + u[i, k, 0]
""",
    "sums of other lengths": TWO.format(size=1)
    + """
for i in range(6):
    u[i, 0] = 0
    for k in range(80):
        u[i, 0] += a[i, k]
for i in range(6):
    v[i, 0] = 0
    for k in range(70):
        v[i, 0] += a[i, k]
"""
    + PRODUCT,
    "sums over other axes": TWO.format(size=1)
    + SUMS
    + """
for i in range(6):
    u[i, 0] = s[i]
    for k in range(80):
        u[i, 0] += k
for i in range(6):
    v[i, 0] = s[i]
    for k, j in T.grid(80, 2):
        v[i, 0] += k
"""
    + PRODUCT,
    "neighbours in other buffers": TWO.format(size=82)
    + SUMS
    + """
for i, k in T.grid(6, 80):
    u[i, k] = T.max(a[i, k] * s[i], 3)
for i, k in T.grid(6, 80):
    v[i, k + 1] = T.max(a[i, k] * s[i], 3)
for i, k in T.grid(6, 77):
    y[i, k] = u[i, k] * u[i, k + 1] * u[i, k + 2] * v[i, k + 1] + v[i, k + 2] * v[i, k + 3]
""",
    "values that are kept": TWO.format(size=80)
    + SUMS
    + """
for i, k in T.grid(6, 80):
    u[i, k] = T.if_then_else(a[i, k] > 100, u[i, k], T.max(a[i, k] * s[i], 3))
for i, k in T.grid(6, 80):
    v[i, k] = T.if_then_else(a[i, k] > 100, v[i, k], T.max(a[i, k] * s[i], 3))
for i, k in T.grid(6, 77):
    y[i, k] = u[i, k] * u[i, k + 1] * u[i, k + 2] * u[i, k + 3] * v[i, k + 1] + v[i, k + 2]
""",
}


@pytest.mark.parametrize("name", PASSES)
def test_passes_that_differ(name: str):
    func = read_function(
        'a: T.Buffer((6, 80), "int32"), b: T.Buffer((6, 80), "int32"), s: T.Buffer((6,), "int32"), '
        'w: T.Buffer((6, 80, 2), "int32"), y: T.Buffer((6, 81), "int32"), '
        'z: T.Buffer((6, 6, 80), "int32")',
        PASSES[name],
    )
    kinds = interpret_kinds(func, draw(func))
    assert kinds[0] == "rows"
    assert len(kinds) == (2 if name == "rows of two dimensions" else 1)
