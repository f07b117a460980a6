"""Functions of which some arguments never change: what is computed of them beforehand."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import loomir
from loomir import te
from loomir.autoschedule.driver import schedule_function
from loomir.autoschedule.prepack_constants import prepare_constants, schedule_with_constants
from loomir.script import from_source
from loomir.support.dtype import numpy_of
from loomir.target import Target
from loomir.te import topi
from loomir.tir.buffer import Buffer
from loomir.tir.expr import IntImm
from loomir.tir.function import PrimFunc
from loomir.tir.prepared_function import PreparedBuffer, PreparedFunction
from tests.autoschedule.agreement import read_function

Array = Any


def product(
    m: Any, k: int, n: int, *, across: bool = False, dtype: str = "float32", out: str = "float32"
) -> PrimFunc:
    x = te.placeholder((m, k), dtype, name="x")
    w = te.placeholder((n, k) if across else (k, n), dtype, name="w")
    b = te.placeholder((n,), out, name="b")
    y = topi.matmul(x, w, transpose_b=across, out_dtype=out)
    return te.create_prim_func([x, w, b, topi.relu(topi.add(y, b))])


def numbers(shape: tuple[int, ...], dtype: str) -> Array:
    """Return whole numbers, whose sums are exact in any order."""
    made = np.random.default_rng(sum(shape)).integers(-8, 8, shape)
    return made.astype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)


def _shape(buffer: Buffer) -> list[int]:
    return [e.value for e in buffer.shape if isinstance(e, IntImm)]


def prepared(func: PrimFunc, constants: set[int], target: str = "native") -> PreparedFunction:
    made = prepare_constants(func, constants, Target(target), least=0)
    assert made is not None
    for part in (made.func, *[p.func for p in made.preparations]):
        assert not loomir.verify(part)
    return made


def run(made: PreparedFunction, args: list[Array], how: str) -> None:
    """Prepare what can be, then call the function."""

    def call(func: PrimFunc, *given: Array) -> None:
        if how == "interpreted":
            loomir.interpret(func, func.name, *given)
        else:
            loomir.compile(func, how, cache=False, opt_level=1)(*given)

    outputs: list[list[Array]] = []
    for part in made.preparations:
        inputs = [args[place] for place in part.arguments]
        buffers = list(part.func.buffer_map.values())[len(inputs) :]
        arrays = [np.empty(_shape(b), numpy_of(b.dtype)) for b in buffers]
        call(part.func, *inputs, *arrays)
        outputs.append(arrays)
    call(
        made.func,
        *[
            outputs[a.preparation][a.buffer] if isinstance(a, PreparedBuffer) else args[a]
            for a in made.arguments
        ],
    )


@pytest.mark.parametrize(
    ("m", "k", "n", "across", "dtype", "out"),
    [
        (8, 16, 48, False, "float32", "float32"),
        (5, 21, 37, True, "float32", "float32"),
        (3, 9, 20, False, "float64", "float64"),
        (9, 18, 21, False, "int8", "int32"),
        (8, 24, 16, True, "int8", "int32"),
        (6, 20, 40, False, "float16", "float16"),
        (9, 35, 18, True, "float16", "float16"),
    ],
)
def test_a_product_with_packed_weights_is_the_product(
    m: int, k: int, n: int, across: bool, dtype: str, out: str
) -> None:
    func = product(m, k, n, across=across, dtype=dtype, out=out)
    w = numbers((n, k) if across else (k, n), dtype)
    args = [numbers((m, k), dtype), w, numbers((n,), out), np.zeros((m, n), out)]
    wanted = args[-1].copy()
    loomir.interpret(func, func.name, *args[:-1], wanted)
    assert wanted.any()
    # Bytes are packed in groups for CPUs that add groups up; any CPU can run such a program.
    machine = "cascadelake" if dtype == "int8" else ""
    for how in ("interpreted", "native", "haswell"):
        made = prepared(func, {1, 2}, machine or ("native" if how == "interpreted" else how))
        args[-1][...] = -1
        run(made, args, how)
        np.testing.assert_array_equal(args[-1], wanted)


def test_bits_are_those_of_the_schedule_that_packs_in_each_call() -> None:
    """Where the schedule packs anyway, only the time at which it does so changes."""
    func = product(100, 300, 200)
    target = Target("native")
    made = prepared(func, {1})
    args = [
        np.random.default_rng(1).standard_normal(_shape(b)).astype("float32")
        for b in func.buffer_map.values()
    ]
    wanted = args[-1].copy()
    loomir.compile(schedule_function(func, target).func, cache=False)(*args[:-1], wanted)
    run(made, args, "native")
    np.testing.assert_array_equal(args[-1], wanted)


def test_rows_may_be_of_any_number() -> None:
    n = te.var("n", "int64")
    made = prepared(product(n, 64, 80), {1})
    x, w, b = numbers((5, 64), "float32"), numbers((64, 80), "float32"), numbers((80,), "float32")
    out = np.zeros((5, 80), "float32")
    run(made, [x, w, b, out], "native")
    np.testing.assert_array_equal(out, np.maximum(x @ w + b, 0))


def test_weights_for_few_rows_are_asked_for_ahead() -> None:
    func = product(9, 61, 150)
    made = prepared(func, {1}, "haswell")
    # For each line of 8 steps of a tile, whatever of it is beyond all panels.
    assert made.func.script().count("T.prefetch") == 8 * 16 * 4 // 64
    args = [numbers(s, "float32") for s in ((9, 61), (61, 150), (150,), (9, 150))]
    wanted = np.maximum(args[0] @ args[1] + args[2], 0)
    for how in ("interpreted", "haswell"):
        args[-1][...] = -1
        run(made, args, how)
        np.testing.assert_array_equal(args[-1], wanted)
    assert "T.prefetch" not in prepared(product(9, 16, 48), {1}, "haswell").func.script()


def test_a_constant_that_is_read_otherwise_too_stays() -> None:
    x, w = te.placeholder((16, 64), name="x"), te.placeholder((64, 64), name="w")
    both = [topi.matmul(x, w), topi.exp(w)]
    func = te.create_prim_func([x, w, *both])
    made = prepared(func, {1})
    assert made.arguments == (0, PreparedBuffer(0, 0), 1, 2, 3)
    a, b = numbers((16, 64), "float32"), numbers((64, 64), "float32")
    outs = [np.zeros((16, 64), "float32"), np.zeros((64, 64), "float32")]
    run(made, [a, b, *outs], "native")
    np.testing.assert_array_equal(outs[0], a @ b)
    np.testing.assert_allclose(outs[1], np.exp(b), rtol=1e-6)


def test_kernels_of_convolutions_are_packed() -> None:
    x, w = te.placeholder((1, 4, 5, 5), name="x"), te.placeholder((6, 4, 3, 3), name="w")
    func = te.create_prim_func([x, w, topi.conv(x, w, stride=2, padding=1)])
    made = prepared(func, {1}, "skylake-avx512")  # vectors of 8 floats would not pay
    args = [numbers(s, "float32") for s in ((1, 4, 5, 5), (6, 4, 3, 3), (1, 6, 3, 3))]
    wanted = args[-1].copy()
    loomir.interpret(func, func.name, *args[:-1], wanted)
    run(made, args, "native")
    np.testing.assert_array_equal(args[-1], wanted)


def test_what_gains_nothing_stays_as_it_is() -> None:
    target = Target("native")
    assert prepare_constants(product(8, 64, 96), {2}, target) is None  # what is added
    assert prepare_constants(product(8, 8, 8), {1}, target) is None  # it is small
    k = te.var("k", "int64")
    x, w = te.placeholder((8, k), name="x"), te.placeholder((k, 64), name="w")
    open_ = te.create_prim_func([x, w, topi.matmul(x, w)])
    assert prepare_constants(open_, {1}, target) is None  # its size is not known
    scheduled = schedule_function(product(8, 64, 96), target).func
    assert prepare_constants(scheduled, {1}, target) is None


def test_the_choice_is_explained() -> None:
    scheduled, made = schedule_with_constants(product(32, 64, 96), {1}, Target("native"))
    assert made is not None
    (plan,) = scheduled.plans
    assert any("right factor constant, packed before all calls" in c for c in plan.choices)


def _look_up(kind: str) -> tuple[PrimFunc, dict[str, Array], Array]:
    """Return a product or convolution whose weights are looked up, its arrays, and its result."""
    rng = np.random.default_rng(1)
    if kind == "convolution":
        x, w = numbers((1, 8, 12, 12), "float32"), numbers((50, 8, 3, 3), "float32")
        i = rng.integers(0, 50, 32).astype("int32")
        text = """
@T.prim_func
def f(x: T.Buffer((1, 8, 12, 12), "float32"), w: T.Buffer((50, 8, 3, 3), "float32"),
      i: T.Buffer((32,), "int32"), y: T.Buffer((1, 32, 10, 10), "float32")):
    for n, f, a, b, c, p, q in T.grid(1, 32, 10, 10, 8, 3, 3):
        with T.sblock("y"):
            vn, vf, va, vb, vc, vp, vq = T.axis.remap("SSSSRRR", [n, f, a, b, c, p, q])
            with T.init():
                y[vn, vf, va, vb] = T.float32(0)
            y[vn, vf, va, vb] += x[vn, vc, va + vp, vb + vq] * w[i[vf], vc, vp, vq]
"""
        windows = np.lib.stride_tricks.sliding_window_view(x, (3, 3), axis=(2, 3))
        wanted = np.einsum("ncabpq,fcpq->nfab", windows, w[i])
    else:
        dtype = "int8" if kind == "bytes" else "float32"
        out = "int32" if kind == "bytes" else "float32"
        x, w = numbers((40, 96), dtype), numbers((200, 96), dtype)
        i = rng.integers(1, 199, 64).astype("int32")
        moved = kind == "computed"
        text = f"""
@T.prim_func
def f(x: T.Buffer((40, 96), "{dtype}"), w: T.Buffer((200, 96), "{dtype}"),
      i: T.Buffer((64,), "int32"), y: T.Buffer((40, 64), "{out}")):
    j = T.alloc_buffer((64,), "int32")
    for a in range(64):
        j[a] = i[a] {"- 1" if moved else ""}
    for a, b, k in T.grid(40, 64, 96):
        with T.sblock("y"):
            va, vb, vk = T.axis.remap("SSR", [a, b, k])
            with T.init():
                y[va, vb] = T.{out}(0)
            y[va, vb] += T.Cast("{out}", x[va, vk]) * T.Cast("{out}", w[{"j" if moved else "i"}[vb], vk])
"""
        wanted = x.astype(out) @ w.astype(out)[i - moved].T
    func = from_source(text)
    assert isinstance(func, PrimFunc)
    return func, {"x": x, "w": w, "i": i, "y": np.zeros(wanted.shape, wanted.dtype)}, wanted


@pytest.mark.parametrize("constants", [("w",), ("x", "w"), ("w", "i"), ("i",)])
@pytest.mark.parametrize("kind", ["product", "computed", "bytes", "convolution"])
def test_weights_that_are_looked_up(kind: str, constants: tuple[str, ...]):
    """Packed weights are constant only if the numbers of their rows are."""
    func, arrays, wanted = _look_up(kind)
    given = [array for name, array in arrays.items() if name not in constants]
    exe = loomir.compile(func, constants={name: arrays[name] for name in constants})
    for _ in range(2):
        arrays["y"][:] = 0
        exe(*given)
        np.testing.assert_array_equal(arrays["y"], wanted)
    places = {list(arrays).index(name) for name in constants}
    for target in ("haswell", "icelake-server", "sapphirerapids", "neoverse-n1"):
        made = prepare_constants(func, places, Target(target), least=0)
        for part in () if made is None else (made.func, *[p.func for p in made.preparations]):
            assert not loomir.verify(part)


def test_parameters_of_other_kinds_are_passed_on() -> None:
    func = read_function(
        'times: T.int32, x: T.Buffer((8, 16), "int32"), w: T.Buffer((16, 48), "int32"), '
        'y: T.Buffer((8, 48), "int32"), v_: T.handle',
        """
v = T.match_buffer(v_, (48,), "int32", strides=(1,))
for i, j in T.grid(8, 48):
    y[i, j] = 0
    for k in range(16):
        y[i, j] += x[i, k] * w[k, j]
for i, j in T.grid(8, 48):
    y[i, j] = y[i, j] * times + v[j]
""",
    )
    x, w, y, v = (numbers(shape, "int32") for shape in ((8, 16), (16, 48), (8, 48), (48,)))
    made = prepared(func, {0, 2, 4}, "haswell")
    assert [a for a in made.arguments if not isinstance(a, PreparedBuffer)] == [0, 1, 3, 4]
    run(made, [3, x, w, y, v], "interpreted")
    np.testing.assert_array_equal(y, x @ w * 3 + v)
