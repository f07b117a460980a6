"""Matrix products: recognised in every guise, scheduled, and equal to what they were."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
import pytest

import loomir
from fuzz.native import quick_codegen
from loomir import te
from loomir.autoschedule.builders.loops import allocate
from loomir.autoschedule.driver import schedule_function
from loomir.autoschedule.ir.plan import Plan
from loomir.autoschedule.ir.stage import LiftedFunction, Stage
from loomir.autoschedule.lift.lift_function import lift_function
from loomir.autoschedule.rules.product import plan_contraction
from loomir.interp import interpret
from loomir.runtime.executable import Executable
from loomir.script import from_source
from loomir.script import tir as T
from loomir.target import Target
from loomir.te import topi
from loomir.te.topi.nn.conv import conv
from loomir.tir.expr import IntImm, Max, const
from loomir.tir.function import PrimFunc
from loomir.tir.stmt import BlockRealize, SeqStmt

RANDOM = np.random.default_rng(7)


def planned(func: PrimFunc, target: str = "native") -> Plan | None:
    kernel = lift_function(func)
    stages = [part for part in kernel.parts if isinstance(part, Stage)]
    assert len(stages) == len(kernel.parts)
    return plan_contraction(stages, Target(target), inner=frozenset(kernel.between))


def scheduled(func: PrimFunc, target: str = "native") -> PrimFunc:
    plan = planned(func, target)
    assert plan is not None
    made = PrimFunc(func.params, plan.stmt, func.ret_type, func.buffer_map, func.attrs)
    assert not loomir.verify(made)
    return made


def arrays_for(func: PrimFunc, sizes: dict[str, int]) -> list[np.ndarray]:
    made: list[np.ndarray] = []
    for buffer in func.buffer_map.values():
        shape = [getattr(e, "value", None) or sizes.get(str(e), 0) for e in buffer.shape]
        dtype = str(buffer.dtype)
        if buffer.dtype.is_float:
            data = RANDOM.uniform(-1, 1, shape).astype("float32")
            made.append(data.astype(dtype))
        else:
            made.append(RANDOM.integers(-100, 100, shape).astype(dtype))
    return made


@lru_cache(maxsize=8)
def built(func: PrimFunc, target: str, *, quick: bool) -> Executable:
    """Compile the scheduled function, once for all sizes."""
    made = scheduled(func, target)
    return loomir.compile(made, target, opt_level=int(not quick), cache=not quick)


def check(
    func: PrimFunc,
    expected: Callable[..., np.ndarray],
    *,
    targets: tuple[str, ...] = ("native", "haswell"),
    interpreted: bool = False,
    tolerance: float = 1e-5,
    **sizes: int,
) -> None:
    """Run the scheduled function, and compare with NumPy in float64 (exactly for integers).

    LLVM's passes and slow selection of instructions are for the first target.
    """
    arrays = arrays_for(func, sizes)
    *inputs, out = arrays
    wide = [a.astype("float64") if a.dtype.kind == "f" else a.astype("int64") for a in inputs]
    wanted = expected(*wide)
    for target in targets:
        result = np.zeros_like(out)
        with quick_codegen():  # code is made when it is called first
            built(func, target, quick=target != targets[0])(*inputs, result)
        if out.dtype.kind == "f":
            scale = max(1.0, float(np.abs(wanted).max(initial=0)))
            np.testing.assert_allclose(
                result.astype("float64") / scale, wanted / scale, rtol=0, atol=tolerance
            )
        else:
            np.testing.assert_array_equal(result, wanted.astype(out.dtype))
        if interpreted:
            again = np.zeros_like(out)
            interpret(scheduled(func, target), *inputs, again)
            np.testing.assert_array_equal(result, again)


def product(
    m: Any,
    n: Any,
    k: Any,
    *,
    left: str = "mk",
    right: str = "kn",
    dtype: str = "float32",
    out: str | None = None,
    after: Callable[[te.Tensor], list[te.Tensor]] | None = None,
) -> PrimFunc:
    sizes = {"m": m, "n": n, "k": k}
    a = te.placeholder([sizes[x] for x in left], dtype, name="A")
    b = te.placeholder([sizes[x] for x in right], dtype, name="B")
    step = te.reduce_axis((0, k), name="k")
    total = out or dtype

    def term(i: Any, j: Any) -> Any:
        place = {"m": i, "n": j, "k": step}
        x, y = a(*[place[c] for c in left]), b(*[place[c] for c in right])
        return te.sum(x.astype(total) * y.astype(total), axis=step)

    c = te.compute((m, n), term, name="C")
    more = [c] if after is None else after(c)
    return te.create_prim_func([a, b, *more])


@pytest.mark.parametrize(
    ("m", "n", "k"),
    [(1, 1, 1), (2, 3, 9), (7, 17, 13), (31, 64, 3), (5, 129, 20), (66, 70, 33), (1, 40, 9)],
)
def test_odd_shapes(m: int, n: int, k: int) -> None:
    small = m * n * k < 500
    check(product(m, n, k), lambda a, b: a @ b, interpreted=small)


@pytest.mark.parametrize("left", ["mk", "km"])
@pytest.mark.parametrize("right", ["kn", "nk"])
def test_transposed_operands(left: str, right: str) -> None:
    func = product(19, 37, 23, left=left, right=right)
    check(
        func,
        lambda a, b: (a if left == "mk" else a.T) @ (b if right == "kn" else b.T),
        targets=("native",),
    )


@pytest.mark.parametrize(("m", "n", "k"), [(70, 40, 50), (66, 16, 600), (80, 8, 7)])
def test_rows_along_the_sum_are_transposed_while_packed(m: int, n: int, k: int) -> None:
    check(product(m, n, k, right="nk"), lambda a, b: a @ b.T, interpreted=n == 8)


@pytest.mark.parametrize("dtype", ["uint8", "int16"])
def test_many_short_numbers_are_transposed_in_small_blocks(dtype: str) -> None:
    k = te.var("k", "int64")
    func = product(70, 130, k, left="km", right="nk", dtype=dtype)
    check(func, lambda a, b: a.T @ b.T, k=37)


@T.prim_func
def symbolic(p: T.handle, q: T.handle, r: T.handle) -> None:
    m, n, k = T.int64(), T.int64(), T.int64()
    a = T.match_buffer(p, (m, k), "float32")
    b = T.match_buffer(q, (k, n), "float32")
    c = T.match_buffer(r, (m, n), "float32")
    for i, j, s in T.grid(m, n, k):
        with T.block("C"):
            vi, vj, vs = T.axis.remap("SSR", [i, j, s])
            with T.init():
                c[vi, vj] = T.float32(0)
            c[vi, vj] = c[vi, vj] + a[vi, vs] * b[vs, vj]


def test_symbolic_sizes() -> None:
    # Without a step nothing is written, not even the start; arrays here hold zeros before.
    for size in ((1, 1, 1), (13, 70, 600), (40, 64, 0), (0, 5, 3)):
        sizes = dict(zip("mnk", size))
        check(symbolic, lambda a, b: a @ b, targets=("native",), **sizes)
    made = built(symbolic, "native", quick=False)
    outs = np.full((2, 3), 7, "float32")
    made(np.ones((2, 0), "float32"), np.ones((0, 3), "float32"), outs)
    assert (outs == 7).all()


def test_few_rows_have_kernels_of_their_own_where_sizes_are_symbolic() -> None:
    plan = planned(symbolic)
    assert plan is not None
    assert plan.choices[0].startswith("where rows are at most 1 and columns at least")
    assert plan.choices[2].startswith("where rows are at most 64")
    runs = [built(symbolic, t, quick=t != "native") for t in ("native", "haswell")]
    for m, n, k in [(1, 300, 40), (3, 129, 33), (5, 1301, 9), (64, 131, 70), (0, 200, 3)]:
        a, b, out = arrays_for(symbolic, {"m": m, "n": n, "k": k})
        for run in runs:
            out[:] = 7
            with quick_codegen():
                run(a, b, out)
            np.testing.assert_allclose(out, a.astype("float64") @ b, atol=1e-4)
    outs = [np.full((3, 140), 7, "float32") for _ in range(2)]
    a, b, _ = arrays_for(symbolic, {"m": 3, "n": 140, "k": 5})
    runs[0](a, b, outs[0])
    interpret(scheduled(symbolic), a, b, outs[1])
    np.testing.assert_array_equal(outs[0], outs[1])


def test_rows_of_symbolic_number_with_an_epilogue_and_batches() -> None:
    count, m = te.var("count"), te.var("m")
    a = te.placeholder((count, m, 37), name="A")
    b = te.placeholder((count, 37, 4099), name="B")
    k = te.reduce_axis((0, 37), name="k")
    c = te.compute(
        (count, m, 4099), lambda p, i, j: te.sum(a[p, i, k] * b[p, k, j], axis=k), name="C"
    )
    out = te.compute(c.shape, lambda p, i, j: Max(c[p, i, j], const(0.0, "float32")), name="out")
    func = te.create_prim_func([a, b, out])
    plan = planned(func)
    assert plan is not None
    assert plan.choices[0].startswith("where rows are at most 1: tile of 1 x ")
    for rows in (1, 2, 11, 70):
        check(func, lambda a, b: np.maximum(a @ b, 0), targets=("native",), count=2, m=rows)


@pytest.mark.parametrize("target", ["native", "haswell"])
def test_a_last_tile_is_packed_in_vectors(target: str) -> None:
    func = product(33, 31, 13)
    check(func, lambda a, b: a @ b, targets=(target,), interpreted=target == "haswell")
    check(product(te.var("m"), te.var("n"), 29), lambda a, b: a @ b, targets=(target,), m=70, n=93)


def test_rows_of_symbolic_number_by_columns_along_the_sum() -> None:
    func = product(te.var("m"), 521, 69, right="nk")
    plan = planned(func)
    assert plan is not None
    assert plan.choices[0].startswith("where rows are at most 1: dot products")
    assert plan.choices[1].startswith("where rows are at most 12: dot products")
    assert plan.choices[2].startswith("where rows are at most 128")
    assert "right factor packed block by block" in plan.choices[2]
    runs = [built(func, t, quick=t != "native") for t in ("native", "haswell")]
    for rows in (0, 1, 2, 7, 8, 9, 12, 13, 33, 129):
        a, b, out = arrays_for(func, {"m": rows})
        for run in runs:
            out[:] = 7
            with quick_codegen():
                run(a, b, out)
            np.testing.assert_allclose(out, a.astype("float64") @ b.T, atol=1e-4)
    small = product(te.var("m"), 5, 67, right="nk")
    a, b, _ = arrays_for(small, {"m": 3})
    outs = [np.zeros((3, 5), "float32") for _ in range(2)]
    loomir.compile(scheduled(small), opt_level=1)(a, b, outs[0])
    interpret(scheduled(small), a, b, outs[1])
    np.testing.assert_array_equal(outs[0], outs[1])


@pytest.mark.parametrize("target", ["native", "haswell"])
@pytest.mark.parametrize("right", ["kn", "nk"])
def test_a_last_tile_of_columns_begins_early(target: str, right: str) -> None:
    # Each thread has 512 columns and more: what two tiles have in common is stored by one.
    for m, n, k in [(3, 1601, 300), (17, 1100, 301), (64, 515, 530)]:
        func = product(m, n, k, right=right)
        check(func, lambda a, b: a @ (b if right == "kn" else b.T), targets=(target,))


def test_what_is_added_to_is_added_to_once() -> None:
    def added(m: int, n: int, k: int) -> PrimFunc:
        @T.prim_func
        def func(
            a: T.Buffer((m, k), "float32"),
            b: T.Buffer((k, n), "float32"),
            c: T.Buffer((m, n), "float32"),
        ) -> None:
            for i, j, s in T.grid(m, n, k):
                with T.block("C"):
                    vi, vj, vs = T.axis.remap("SSR", [i, j, s])
                    c[vi, vj] = c[vi, vj] + a[vi, vs] * b[vs, vj]

        return func

    for m, n, k in [(3, 1101, 130), (7, 333, 9)]:
        func = added(m, n, k)
        a, b, c = arrays_for(func, {})
        wanted = c + a.astype("float64") @ b
        loomir.compile(scheduled(func), opt_level=1)(a, b, c)
        np.testing.assert_allclose(c, wanted, atol=1e-4)


@pytest.mark.parametrize("dtype", ["float64", "int32", "uint8"])
def test_dtypes(dtype: str) -> None:
    check(product(11, 35, 21, dtype=dtype), lambda a, b: a @ b, targets=("native",))


@pytest.mark.parametrize(("dtype", "out"), [("int8", "int32"), ("uint8", "int32")])
def test_integers_are_exact(dtype: str, out: str) -> None:
    check(product(9, 33, 70, dtype=dtype, out=out), lambda a, b: a @ b, interpreted=True)


def short(
    m: int, n: int, k: int, dtypes: tuple[str, str], right: str = "kn", left: str = "mk"
) -> PrimFunc:
    """Multiply factors of two dtypes, summed in 32 bits."""
    total = "float32" if dtypes[0] == "bfloat16" else "int32"
    sizes = {"m": m, "n": n, "k": k}
    a = te.placeholder([sizes[x] for x in left], dtypes[0], name="A")
    b = te.placeholder([sizes[x] for x in right], dtypes[1], name="B")
    step = te.reduce_axis((0, k), name="k")

    def term(i: Any, j: Any) -> Any:
        place = {"m": i, "n": j, "k": step}
        x, y = a(*[place[c] for c in left]), b(*[place[c] for c in right])
        return te.sum(x.astype(total) * y.astype(total), axis=step)

    return te.create_prim_func([a, b, te.compute((m, n), term, name="C")])


def bytes_of(func: PrimFunc) -> list[np.ndarray]:
    """Return arrays that hold every byte, the least and the greatest often."""
    made: list[np.ndarray] = []
    for buffer in list(func.buffer_map.values())[:-1]:
        shape = [e.value for e in buffer.shape if isinstance(e, IntImm)]
        drawn = RANDOM.choice([0, 127, 128, 255, *range(256)], shape).astype("uint8")
        made.append(drawn.view(str(buffer.dtype)))
    return made


SIGNS = [("int8", "int8"), ("uint8", "int8"), ("int8", "uint8"), ("uint8", "uint8")]


@pytest.mark.parametrize("dtypes", SIGNS)
@pytest.mark.parametrize(
    ("m", "n", "k", "left", "right"),
    [(9, 19, 7, "mk", "kn"), (17, 70, 33, "km", "nk"), (13, 37, 2603, "mk", "nk")],
)
def test_bytes_are_summed_exactly(
    dtypes: tuple[str, str], m: int, n: int, k: int, left: str, right: str
) -> None:
    func = short(m, n, k, dtypes, right, left)
    a, b = bytes_of(func)
    wide = (a if left == "mk" else a.T).astype("int64"), (b if right == "kn" else b.T)
    wanted = (wide[0] @ wide[1].astype("int64")).astype("int32")
    results: list[np.ndarray] = []
    for plans, runs in (("native", "native"), ("haswell", "haswell"), ("znver5", "haswell")):
        results.append(np.full((m, n), 7, "int32"))
        made = scheduled(func, plans)
        assert ("dp4a" in made.script()) == Target(plans).has("avx512_vnni")
        with quick_codegen():
            quick = plans != "native"
            run = loomir.compile(made, runs, opt_level=int(not quick), cache=not quick)
            run(a, b, results[-1])
    if k == 7:
        results.append(np.zeros((m, n), "int32"))
        interpret(scheduled(func, "znver5"), a, b, results[-1])
    for result in results:
        np.testing.assert_array_equal(result, wanted)


def test_sums_of_bytes_wrap_and_do_not_stop_at_the_end() -> None:
    func = short(8, 16, 1 << 18, ("uint8", "int8"))
    a, b = np.full((8, 1 << 18), 255, "uint8"), np.full((1 << 18, 16), -128, "int8")
    out = np.zeros((8, 16), "int32")
    loomir.compile(scheduled(func), opt_level=1)(a, b, out)
    assert (out == np.int64(255 * -128 * (1 << 18)).astype("int32")).all()


@pytest.mark.parametrize(
    ("m", "n", "k", "right"), [(9, 19, 7, "kn"), (17, 70, 33, "nk"), (9, 37, 1301, "kn")]
)
def test_pairs_of_bfloat16_are_summed_in_single(m: int, n: int, k: int, right: str) -> None:
    func = short(m, n, k, ("bfloat16", "bfloat16"), right)
    a, b, out = arrays_for(func, {})
    wide = a.astype("float64"), b.astype("float64") if right == "kn" else b.T.astype("float64")
    made = scheduled(func, "znver5")
    assert "dp2a" in made.script()
    assert "dp2a" not in scheduled(func, "haswell").script()
    assert "dp2a" not in scheduled(func, "sapphirerapids").script()
    results = [np.zeros_like(out) for _ in range(2)]
    loomir.compile(made, opt_level=1)(a, b, results[0])
    if k == 7:
        interpret(made, a, b, results[1])
    else:  # plain vector code, with the same bits
        loomir.compile(made, "haswell", opt_level=1)(a, b, results[1])
    np.testing.assert_array_equal(results[0].view("int32"), results[1].view("int32"))
    # Each of k roundings is at most half a unit in the last place of the sum so far.
    bound = k * 2.0**-24 * (abs(wide[0]) @ abs(wide[1])) + k * 2.0**-126
    assert (abs(results[0] - wide[0] @ wide[1]) <= bound).all()


@pytest.mark.parametrize(
    ("target", "dtype", "step"),
    [
        ("icelake-server", "int8", "vpdpbusd"),
        ("alderlake", "int8", "vpdpbusd"),
        ("znver5", "bfloat16", "vdpbf16ps"),
    ],
)
def test_sums_of_short_numbers_stay_in_registers(target: str, dtype: str, step: str) -> None:
    program = scheduled(short(96, 256, 1200, (dtype, dtype)), target)
    loop = innermost(loomir.compile(program, target).assembly(), step)
    assert len([line for line in loop if step in line]) >= 12
    assert not [line for line in loop if "rsp" in line and "mm" in line]


def test_half_precision_sums_in_single() -> None:
    check(product(9, 33, 70, dtype="float16"), lambda a, b: a @ b, tolerance=1e-3)


@T.prim_func
def by_hand(
    a: T.Buffer((19, 1301), "float32"),
    b: T.Buffer((1301, 37), "float32"),
    c: T.Buffer((19, 37), "float32"),
) -> None:
    for i, j in T.grid(19, 37):
        c[i, j] = T.float32(0)
        for k in range(1301):
            c[i, j] = c[i, j] + a[i, k] * b[k, j]


def test_sums_of_loops_without_blocks_keep_their_order() -> None:
    plan = planned(by_hand)
    assert plan is not None
    assert "order of the program" in plan.choices[0]
    a, b, out = arrays_for(by_hand, {})
    wanted = np.zeros_like(out)  # NumPy's sum along the first axis of products, one by one
    for k in range(1301):
        wanted = wanted + a[:, k : k + 1] * b[k]
    for target in ("native", "haswell"):
        loomir.compile(scheduled(by_hand, target), target, opt_level=1)(a, b, out)
        np.testing.assert_array_equal(out.view("int32"), wanted.view("int32"))


def test_batches_and_einsum() -> None:
    a = te.placeholder((3, 5, 2, 7), name="A")
    b = te.placeholder((3, 2, 7, 4, 6), name="B")
    x, y = te.reduce_axis((0, 2)), te.reduce_axis((0, 7))
    c = te.compute(
        (4, 3, 5, 6),
        lambda q, p, i, j: te.sum(a[p, i, x, y] * b[p, x, y, q, j], axis=[x, y]),
        name="C",
    )
    check(
        te.create_prim_func([a, b, c]),
        lambda u, v: np.einsum("pixy,pxyqj->qpij", u, v),
        interpreted=True,
    )


def test_long_sums_go_through_panels() -> None:
    check(product(7, 33, 1500), lambda a, b: a @ b, tolerance=1e-4)
    check(product(3, 5, 1400, right="nk"), lambda a, b: a @ b.T, tolerance=1e-4)


def with_epilogue(k: int, *, keep: bool) -> PrimFunc:
    """Bias, activation and residual after a product; ``keep`` also returns the activation."""
    bias = te.placeholder((37,), name="bias")
    rest = te.placeholder((11, 37), name="rest")

    def after(c: te.Tensor) -> list[te.Tensor]:
        act = te.compute(
            (11, 37), lambda i, j: Max(c[i, j] + bias[j], const(0.0, "float32")), name="act"
        )
        out = te.compute((11, 37), lambda i, j: act[i, j] * 2.0 + rest[i, j], name="out")
        return [bias, rest, act, out] if keep else [bias, rest, out]

    return product(11, 37, k, after=after)


@pytest.mark.parametrize("k", [9, 1100])
def test_epilogue_rides_in_the_kernel(k: int) -> None:
    func = with_epilogue(k, keep=False)

    def expected(a: np.ndarray, b: np.ndarray, bias: np.ndarray, rest: np.ndarray) -> np.ndarray:
        return np.maximum(a @ b + bias, 0) * 2 + rest

    check(func, expected, interpreted=k == 9, tolerance=1e-4)
    made = scheduled(func).script()
    assert "act = T.alloc_buffer" not in made
    assert "C = T.alloc_buffer" not in made


def convolution(layout: str, groups: int = 1, **options: Any) -> PrimFunc:
    first = layout == "NCHW"
    data = te.placeholder((2, 6, 9, 10) if first else (2, 9, 10, 6), name="data")
    shape = (8, 6 // groups, 3, 3) if first else (3, 3, 6 // groups, 8)
    weight = te.placeholder(shape, name="weight")
    kernel = "OIHW" if first else "HWIO"
    out = conv(data, weight, groups=groups, layout=layout, kernel_layout=kernel, **options)
    return te.create_prim_func([data, weight, out])


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"stride": 2, "padding": 1, "interpreted": True},
        {"dilation": (2, 1), "padding": (1, 2, 0, 1)},
        {"groups": 2, "padding": 1},
    ],
)
def test_convolutions(layout: str, options: dict[str, Any]) -> None:
    options = dict(options)
    interpreted = options.pop("interpreted", False)
    func = convolution(layout, **options)
    kernel = lift_function(func)
    arrays = arrays_for(func, {})
    data, weight, out = arrays
    plain, made = np.zeros_like(out), np.zeros_like(out)
    loomir.compile(func, opt_level=1)(data, weight, plain)
    loomir.compile(with_product(kernel), opt_level=1)(data, weight, made)
    np.testing.assert_allclose(made, plain, atol=1e-4)
    if interpreted:
        again = np.zeros_like(out)
        interpret(with_product(kernel), data, weight, again)
        np.testing.assert_array_equal(made, again)


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_pixels_of_pointwise_convolutions_are_one_axis(layout: str) -> None:
    first = layout == "NCHW"
    data = te.placeholder((1, 6, 5, 4) if first else (1, 5, 4, 6), name="data")
    weight = te.placeholder((8, 6, 1, 1) if first else (1, 1, 6, 8), name="weight")
    bias = te.placeholder((8,), name="bias")
    product = conv(data, weight, layout=layout, kernel_layout="OIHW" if first else "HWIO")

    def bent(n: Any, x: Any, y: Any, z: Any) -> Any:
        return Max(product[n, x, y, z] + bias[x if first else z], const(0.0, "float32"))

    out = te.compute(product.shape, bent, name="out")
    func = te.create_prim_func([data, weight, bias, out])

    def expected(d: np.ndarray, w: np.ndarray, b: np.ndarray) -> np.ndarray:
        if first:
            made = np.einsum("nchw,oc->nohw", d, w[:, :, 0, 0]) + b[:, None, None]
        else:
            made = np.einsum("nhwc,co->nhwo", d, w[0, 0]) + b
        return np.maximum(made, 0)

    check(func, expected, interpreted=True)
    assert " % " not in scheduled(func).script().split("sums = ")[1]


def with_product(kernel: LiftedFunction) -> PrimFunc:
    """Schedule the product of a kernel; what comes before it (padding) stays as it was."""
    func, (*before, last) = kernel.func, kernel.parts
    assert isinstance(last, Stage)
    plan = plan_contraction([last], Target("native"))
    assert plan is not None
    written = func.body
    assert isinstance(written, BlockRealize)
    if not before:
        return PrimFunc(func.params, plan.stmt, func.ret_type, func.buffer_map, func.attrs)
    nests = written.block.body
    assert isinstance(nests, SeqStmt)
    body = allocate(kernel.between, *nests.seq[:-1], plan.stmt)
    return PrimFunc(func.params, body, func.ret_type, func.buffer_map, func.attrs)


@pytest.mark.parametrize(("m", "n", "k"), [(1, 9, 70), (3, 7, 131), (12, 5, 1100)])
def test_few_rows_are_dot_products(m: int, n: int, k: int) -> None:
    func = product(m, n, k, right="nk")
    plan = planned(func)
    assert plan is not None
    assert plan.kind == "matrix product of few rows"
    check(func, lambda a, b: a @ b.T, interpreted=m == 1, tolerance=1e-4)


def test_a_matrix_times_a_vector_is_dot_products() -> None:
    a, x = te.placeholder((300, 70), name="A"), te.placeholder((70,), name="x")
    k = te.reduce_axis((0, 70), name="k")
    product = te.compute((300,), lambda i: te.sum(a[i, k] * x[k], axis=k))
    func = te.create_prim_func([a, x, te.compute((300,), lambda i: product[i] * 2.0)])
    plan = planned(func)
    assert plan is not None
    assert plan.kind == "matrix product of few rows"
    check(func, lambda a, x: a @ x * 2, interpreted=True)
    short = te.compute((30,), lambda i: te.sum(a[i, k] * x[k], axis=k))
    assert planned(te.create_prim_func([a, x, short])) is None


def test_rows_too_long_for_the_first_cache_are_cut() -> None:
    func = product(8, 7, 1700, right="nk")
    plan = planned(func, "znver5")
    assert plan is not None
    assert plan.choices[-1] == "512 steps of all rows at a time"
    check(func, lambda a, b: a @ b.T, tolerance=1e-4)


def test_columns_for_some_rows_are_packed_where_they_are_used() -> None:
    func = product(20, 515, 1300, right="nk")
    plan = planned(func, "znver5")
    assert plan is not None
    assert plan.kind == "matrix product"
    assert "right factor packed block by block" in " ".join(plan.choices)
    check(func, lambda a, b: a @ b.T, tolerance=1e-4)


def test_large_right_factors_of_few_rows_are_read_once() -> None:
    func = product(2, 4096, 160)
    plan = planned(func, "haswell")
    assert plan is not None
    assert "right factor read where it is" in plan.choices[1]
    check(func, lambda a, b: a @ b, targets=("haswell",))


def test_sums_stay_in_registers_on_every_machine() -> None:
    for target, step in (("x86-64-v4", "vfmadd"), ("haswell", "vfmadd"), ("neoverse-n1", "fmla")):
        program = scheduled(product(300, 256, 300), target)
        loop = innermost(loomir.compile(program, target).assembly(), step)
        assert len([line for line in loop if step in line]) >= 12
        vectors = [line for line in loop if re.search(r"[xyz]mm|\bq\d", line)]
        stack = [line for line in vectors if "rsp" in line or "[sp" in line]
        assert not stack, f"{target}: {stack}"


def innermost(assembly: str, step: str) -> list[str]:
    """Return instructions between a label and the jump back to it, where most sums are added."""
    best: list[str] = []
    block: list[str] = []
    for line in assembly.splitlines():
        if line.startswith(".L") and line.rstrip().endswith(":"):
            block = [line]
        else:
            block.append(line)
            jumps_back = block[0].rstrip(":") in line.split()
            if jumps_back and sum(step in x for x in block) > sum(step in x for x in best):
                best = list(block)
    return best


def test_what_is_no_product_is_left() -> None:
    a = te.placeholder((8, 9), name="A")
    k = te.reduce_axis((0, 9))
    assert planned(te.create_prim_func([a, te.compute((8,), lambda i: te.sum(a[i, k], k))])) is None
    b = te.placeholder((8, 9), name="B")
    both = te.compute((8,), lambda i: te.sum(a[i, k] * b[i, k], k))
    assert planned(te.create_prim_func([a, b, both])) is None


@pytest.mark.parametrize("rows", [0, 3])
@pytest.mark.parametrize("columns", [0, 2])
@pytest.mark.parametrize("steps", [0, 5])
def test_results_without_elements_and_any_number_of_steps(rows: int, columns: int, steps: int):
    k = te.var("k", "int64")
    a, b = te.placeholder((rows, k), "int32"), te.placeholder((k, columns), "int32")
    made = schedule_function(te.create_prim_func([a, b, topi.matmul(a, b)]), Target("native"))
    x, y = np.ones((rows, steps), "int32"), np.ones((steps, columns), "int32")
    out = np.full((rows, columns), 7, "int32")
    loomir.interpret(made.func, made.func.name, x, y, out)  # which looks at every index
    np.testing.assert_array_equal(out, x @ y)


@pytest.mark.parametrize("columns", [10, 13, 23, 28])
def test_columns_left_over_are_stored_by_narrower_vectors(columns: int) -> None:
    """Rows that start alike, from a bias, are started once; 10 columns are 8 and then 2."""
    func = from_source(f"""
from loomir.script import tir as T

@T.prim_func
def layer(
    x: T.Buffer((33, 20), "float32"),
    w: T.Buffer(({columns}, 20), "float32"),
    b: T.Buffer(({columns},), "float32"),
    out: T.Buffer((33, {columns}), "float32"),
):
    for i in range(33):
        for o in range({columns}):
            s = b[o]
            for k in range(20):
                s += x[i, k] * w[o, k]
            out[i, o] = T.max(s, T.float32(0))
""")
    assert isinstance(func, PrimFunc)
    rng = np.random.default_rng(columns)
    x, w, b = (
        rng.integers(-4, 5, shape).astype("float32")
        for shape in ((33, 20), (columns, 20), (columns,))
    )
    for name in ("native", "skylake-avx512", "haswell", "neoverse-n1"):
        made = schedule_function(func, Target(name))
        assert [plan.kind for plan in made.plans] == ["matrix product"]
        assert not loomir.verify(made.func)
        out = np.full((33, columns), np.nan, "float32")
        interpret(made.func, func.name, x, w, b, out)
        np.testing.assert_array_equal(out, np.maximum(x @ w.T + b, 0))
    text = schedule_function(func, Target("skylake-avx512")).func.script()
    assert ("start = T.alloc_buffer((1, " in text) is (columns % 16 != 0)
    assert ("T.vectorized(T.int64(8))" in text) is bool(columns % 16 & 8)


@pytest.mark.parametrize(
    ("m", "n", "k", "kind"),
    [
        (50, 3, 3, "reduction"),
        (50, 3, 8, "reduction"),
        (50, 3, 9, "matrix product"),
        (50, 4, 3, "matrix product"),
        (1, 3, 3, "reduction"),
        (2, 3, 5, "reduction"),
    ],
)
def test_few_elements_of_three_columns_are_written_out(m: int, n: int, k: int, kind: str) -> None:
    func = product(m, n, k, after=lambda c: [te.compute((m, n), lambda i, j: c[i, j] + 1.0)])
    plans = schedule_function(func, Target("haswell")).plans
    assert [plan.kind for plan in plans] == [kind]
    draw = np.random.default_rng(0).integers
    a, b = draw(-9, 9, (m, k)).astype("float32"), draw(-9, 9, (k, n)).astype("float32")
    out = np.zeros((m, n), "float32")
    loomir.compile(func, cache=False)(a, b, out)
    np.testing.assert_array_equal(out, a @ b + 1)
