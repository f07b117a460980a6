"""Transposed convolutions: phases as convolutions of their own, put together at the end."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import loomir
from loomir import te
from loomir.arith.fold import imm64
from loomir.autoschedule.builders.loops import INDEX
from loomir.autoschedule.driver import schedule_function
from loomir.autoschedule.ir.stage import Axis
from loomir.autoschedule.prepack_constants import prepare_constants
from loomir.autoschedule.rules.transposed_convolution.recognise import Line, Phases, phases_of
from loomir.script import from_source
from loomir.target import Target
from loomir.te import topi
from loomir.tir.buffer import Buffer
from loomir.tir.expr import IntImm, Var
from loomir.tir.function import PrimFunc
from tests.autoschedule.agreement import interpret_both

Array = np.ndarray[Any, Any]
RNG = np.random.default_rng(5)


def values(shape: tuple[int, ...], dtype: str) -> Array:
    if "int" in dtype:
        return RNG.integers(-9, 9, shape).astype(dtype)
    return RNG.standard_normal(shape).astype(dtype)


def shape_of(buffer: Buffer) -> tuple[int, ...]:
    return tuple(n.value for n in buffer.shape if isinstance(n, IntImm))


def written(func: PrimFunc, *arrays: Array) -> None:
    """Run the loops as they are written."""
    loomir.compile(func, schedule=False, opt_level=0, cache=False)(*arrays)


def kernel_of(
    size: tuple[int, ...], kernel: tuple[int, ...], dtype: str, after: bool, options: Any
) -> PrimFunc:
    x, w = te.placeholder(size, dtype), te.placeholder(kernel, dtype)
    out = topi.conv_transpose(x, w, **options)
    if not after:
        return te.create_prim_func([x, w, out])
    more = te.placeholder(out.shape, dtype)
    last = te.compute(out.shape, lambda *i: out[i] * more[i] + 1.0)
    return te.create_prim_func([x, w, more, last])


CASES = {
    "overlap": ((1, 5, 9, 11), (5, 3, 4, 4), {"stride": 2, "padding": 1}),
    "uneven": ((2, 3, 7, 6), (3, 4, 3, 3), {"stride": 2, "padding": 1, "output_padding": 1}),
    "strided": ((2, 3, 7, 6), (3, 4, 2, 2), {"stride": 2}),
    "gaps": ((1, 3, 5, 6), (3, 2, 2, 1), {"stride": 3, "output_padding": 2}),
    "one axis": ((1, 3, 5, 6), (3, 2, 5, 4), {"stride": (3, 1), "padding": (2, 0)}),
    "no stride": ((1, 3, 8, 9), (3, 5, 3, 3), {"padding": 1}),
    "groups": ((2, 4, 19), (4, 3, 5), {"padding": 1, "groups": 2}),
    "groups, stride": ((2, 4, 9), (4, 3, 5), {"stride": 2, "padding": 1, "groups": 2}),
    "depthwise": ((1, 6, 5, 5), (6, 1, 4, 4), {"stride": 2, "padding": 1, "groups": 6}),
    "depthwise, dilation": (
        (2, 3, 7, 4),
        (3, 2, 3, 4),
        {"stride": (3, 2), "dilation": (2, 3), "groups": 3},
    ),
    "many phases": ((1, 3, 5, 5), (3, 1, 16, 16), {"stride": 8, "padding": 4, "groups": 3}),
    "dilation 2": ((1, 3, 5, 5), (3, 4, 3, 3), {"stride": 2, "dilation": 2, "padding": 1}),
    "dilation 3": ((1, 3, 15), (3, 4, 3), {"stride": 2, "dilation": 3, "padding": 1}),
    "three axes": ((1, 3, 4, 5, 3), (3, 4, 2, 2, 3), {"stride": (2, 2, 1)}),
    "channels last": (
        (1, 7, 6, 5),
        (4, 3, 3, 5),
        {"stride": 2, "padding": 1, "layout": "NHWC", "kernel_layout": "HWOI"},
    ),
    "channels last, groups": (
        (1, 3, 6, 4),
        (3, 2, 4, 2),
        {"stride": 2, "layout": "NHWC", "kernel_layout": "HWIO", "groups": 2},
    ),
    "from one": ((2, 3, 1, 1), (3, 4, 4, 3), {}),
    "a column": ((2, 3, 5, 1), (3, 4, 4, 1), {"stride": (2, 1), "padding": (1, 0)}),
}


PAIRS = [("native", "haswell")[i % 2] for i in range(len(CASES))]


@pytest.mark.parametrize(("name", "target"), [*zip(CASES, PAIRS), ("uneven", "native")])
def test_phases_are_convolutions(name: str, target: str) -> None:
    size, kernel, options = CASES[name]
    func = kernel_of(size, kernel, "float32", target == "haswell", options)
    made = schedule_function(func, Target(target))
    assert [plan.kind for plan in made.plans] == ["transposed convolution"]
    assert not loomir.verify(made.func)
    run = loomir.compile(made.func, target, opt_level=1, cache=False)
    *shapes, to = [shape_of(b) for b in func.buffer_map.values()]
    arrays = [values(shape, "float32") for shape in shapes]
    special = [arrays[0], arrays[1].copy(), *arrays[2:]]
    special[1].flat[[0, -1]] = np.inf, np.nan  # is multiplied by elements only, by no border
    for given in (arrays, special):
        wanted, result = np.full(to, 7, "float32"), np.full(to, 8, "float32")
        written(func, *given, wanted)
        run(*given, result)
        np.testing.assert_allclose(result, wanted, 1e-4, 1e-4)


@pytest.mark.parametrize("dtype", ["float64", "float16", "int8", "int32"])
@pytest.mark.parametrize("name", ["uneven", "channels last"])
def test_phases_of_other_dtypes(name: str, dtype: str) -> None:
    size, kernel, options = CASES[name]
    func = kernel_of(size, kernel, dtype, False, options)
    made = schedule_function(func, Target("native"))
    assert [plan.kind for plan in made.plans] == ["transposed convolution"]
    to = shape_of(list(func.buffer_map.values())[-1])
    arrays = [values(size, dtype), values(kernel, dtype)]
    wanted, result = np.full(to, 7, dtype), np.full(to, 8, dtype)
    written(func, *arrays, wanted)
    loomir.compile(made.func, opt_level=1, cache=False)(*arrays, result)
    if "int" in dtype:
        np.testing.assert_array_equal(result, wanted)
    np.testing.assert_allclose(result, wanted, 1e-3, 1e-2)


def test_the_interpreter_agrees_bit_for_bit() -> None:
    size, kernel, options = CASES["uneven"]
    func = kernel_of(size, kernel, "float32", True, options)
    made = schedule_function(func, Target("native")).func
    *shapes, to = [shape_of(b) for b in func.buffer_map.values()]
    arrays = [values(shape, "float32") for shape in shapes]
    one, other = np.full(to, 7, "float32"), np.full(to, 8, "float32")
    loomir.compile(made, opt_level=1, cache=False)(*arrays, one)
    loomir.interpret(made, made.name, *arrays, other)
    np.testing.assert_array_equal(one, other)


def test_constant_kernels_are_packed_before_calls() -> None:
    size, kernel = (1, 16, 9, 9), (16, 24, 4, 4)
    func = kernel_of(size, kernel, "float32", False, {"stride": 2, "padding": 1})
    prepared = prepare_constants(func, {1}, Target("native"))
    assert prepared is not None
    assert func.params[1] in prepared.func.params  # the loops for what is not finite
    x, w = values(size, "float32"), values(kernel, "float32")
    run = loomir.compile(func, constants={func.buffer_map[func.params[1]].name: w}, cache=False)
    to = shape_of(list(func.buffer_map.values())[-1])
    wanted, result = np.zeros(to, "float32"), np.zeros(to, "float32")
    written(func, x, w, wanted)
    run(x, result)
    np.testing.assert_allclose(result, wanted, 1e-4, 1e-4)


@pytest.mark.parametrize("which", [0, 1])
def test_a_constant_with_an_axis_of_one_is_packed(which: int) -> None:
    size, kernel = (1, 48, 100, 1), (48, 52, 2, 1)
    options = {"stride": (1, 2), "padding": (1, 0), "output_padding": (0, 1)}
    func = kernel_of(size, kernel, "int64", False, options)
    arrays = values(size, "int64"), values(kernel, "int64")
    to = shape_of(list(func.buffer_map.values())[-1])
    wanted, result = np.zeros(to, "int64"), np.zeros(to, "int64")
    written(func, *arrays, wanted)
    name = func.buffer_map[func.params[which]].name
    run = loomir.compile(func, constants={name: arrays[which]}, opt_level=1, cache=False)
    run(arrays[1 - which], result)
    np.testing.assert_array_equal(result, wanted)


def test_a_batch_of_any_size() -> None:
    n = te.var("n", "int64")
    x, w = te.placeholder((n, 3, 6, 6)), te.placeholder((3, 4, 4, 4))
    func = te.create_prim_func([x, w, topi.conv_transpose(x, w, 2, 1)])
    made = schedule_function(func, Target("native"))
    assert [plan.kind for plan in made.plans] == ["transposed convolution"]
    run = loomir.compile(made.func, opt_level=1, cache=False)
    for size in (0, 1, 3):
        arrays = values((size, 3, 6, 6), "float32"), values((3, 4, 4, 4), "float32")
        wanted, result = (np.full((size, 4, 12, 12), v, "float32") for v in (7, 8))
        written(func, *arrays, wanted)
        run(*arrays, result)
        np.testing.assert_allclose(result, wanted, 1e-4, 1e-4)


def line(size: int, kernel: int, stride: int, shift: int, gap: int) -> Line:
    axis, step = Axis(Var("i", INDEX), imm64(size)), Axis(Var("k", INDEX), imm64(kernel))
    return Line(axis, step, stride, shift, gap, 0, size)


@pytest.mark.parametrize(("together", "moving"), [(True, False), (False, False), (False, True)])
def test_phases_take_each_product_once(together: bool, moving: bool) -> None:
    for kernel in range(1, 7):
        for stride in range(1, 5):
            for gap in range(1, 4):
                for shift in (-3, 0, 2):
                    one = line(11, kernel, stride, shift, gap)
                    phases = phases_of(one, together=together, moving=moving)
                    assert products(one, phases) == {
                        (i, k, (i + shift - gap * k) // stride)
                        for i in range(11)
                        for k in range(kernel)
                        if (i + shift - gap * k) % stride == 0
                    }


def test_phases_of_as_many_steps_are_one_sum_that_moves() -> None:
    # Each channel on its own: neither matrices nor parts of the kernel side by side are needed.
    options = {"stride": 2, "padding": 1, "groups": 3}
    func = kernel_of((1, 3, 4, 3, 5), (3, 1, 4, 4, 4), "float32", True, options)
    made = schedule_function(func, Target("native"))
    assert made.plans[0].choices[0] == "2 x 2 x 2 phases, as 1 convolution"
    *shapes, to = [shape_of(b) for b in func.buffer_map.values()]
    arrays = [values(shape, "float32") for shape in shapes]
    wanted, native, interpreted = (np.full(to, v, "float32") for v in (7, 8, 9))
    written(func, *arrays, wanted)
    loomir.compile(made.func, opt_level=1, cache=False)(*arrays, native)
    loomir.interpret(made.func, made.func.name, *arrays, interpreted)
    np.testing.assert_array_equal(native, interpreted)
    np.testing.assert_allclose(native, wanted, 1e-4, 1e-4)


def products(one: Line, phases: list[Phases]) -> set[tuple[int, int, int]]:
    """List what phases multiply: places of the result, of the kernel and of the image."""
    found = [
        (
            one.stride * turn + p.first + r - one.lead,
            p.kernel + p.skip * r + p.step * t,
            turn + p.start + p.moves * r - p.back * t,
        )
        for p in phases
        for r in range(p.many)
        for turn in range(one.turns)
        for t in range(p.taps)
    ]
    inside = [product for product in found if 0 <= product[0] < 11]
    assert len(set(inside)) == len(inside)
    return set(inside)


SMALL = {
    "a kernel as long as the stride": (
        ((1, 3, 3, 4), (3, 1, 2, 2), {"stride": 2, "groups": 3}),
        "transposed convolution",  # no phase reads beyond the image
    ),
    "a kernel of one column": (
        ((1, 3, 5, 6), (3, 1, 4, 1), {"stride": 2, "groups": 3}),
        "transposed convolution",
    ),
    "windows": (((1, 3, 5, 6), (3, 1, 3, 3), {"padding": 1, "groups": 3}), "windows"),
    "sixteen phases": (((1, 2, 2, 2), (2, 2, 4, 4), {"stride": 4, "dilation": 3}), "rows"),
    "no images": (((0, 2, 5), (2, 3, 4), {"stride": 2}), "loops"),
}


@pytest.mark.parametrize("name", SMALL)
def test_phases_of_small_convolutions(name: str) -> None:
    (size, kernel, options), kind = SMALL[name]
    func = kernel_of(size, kernel, "float32", False, options)
    arrays = [values(shape_of(b), "float32") for b in func.buffer_map.values()]
    assert [plan.kind for plan in interpret_both(func, arrays, rtol=1e-4)] == [kind]


def test_what_does_not_read_the_result_comes_after_it() -> None:
    x, w, z = (te.placeholder(shape) for shape in ((1, 2, 5), (2, 3, 4), (7,)))
    out, other = topi.conv_transpose(x, w, stride=2), te.compute((7,), lambda i: te.exp(z[i]))
    func = te.create_prim_func([x, w, z, out, other])
    arrays = [values(shape_of(b), "float32") for b in func.buffer_map.values()]
    kinds = [plan.kind for plan in interpret_both(func, arrays, rtol=1e-4)]
    assert kinds == ["transposed convolution", "element-wise"]


def scattered(condition: str, element: str, kernel: str, size: str, width: str) -> PrimFunc:
    """Write out a transposed convolution of which parts may be otherwise."""
    read = from_source(
        f"""
@T.prim_func
def main(a: T.handle, K: T.Buffer((2, 3, 4), "float32"), b: T.handle):
    n = T.int64()
    m = T.int64()
    X = T.match_buffer(a, (2, {size}), "float32")
    Y = T.match_buffer(b, (3, {width}), "float32")
    for i, j, l, h in T.grid(T.int64(3), T.int64({width}), T.int64(2), T.int64(4)):
        with T.sblock("sum"):
            o, x, c, k = T.axis.remap("SSRR", [i, j, l, h])
            with T.init():
                Y[o, x] = T.float32(0)
            Y[o, x] += T.if_then_else({condition}, X[c, {element}] * {kernel}, T.float32(0))
"""
    )
    assert isinstance(read, PrimFunc)
    return read


ELEMENT = "(x + 1 - k) // 2"
MEETS = "(x + 1 - k) % 2 == 0"
INSIDE = f"{ELEMENT} >= 0 and {ELEMENT} < 9"
SCATTERED = {
    "usual": (f"{MEETS} and {INSIDE}", ELEMENT, "K[c, o, k]", "9", "20"),
    "between": (f"(x + 1 - k) % 2 == 1 and {INSIDE}", ELEMENT, "K[c, o, k]", "9", "20"),
    "some elements": (f"{MEETS} and {INSIDE} and {ELEMENT} < n", ELEMENT, "K[c, o, k]", "n", "20"),
    "any width": (f"{MEETS} and {INSIDE}", ELEMENT, "K[c, o, k]", "9", "m"),
    "no bounds": ("(x + 6 - k) % 2 == 0", "(x + 6 - k) // 2", "K[c, o, k]", "14", "20"),
    "some taps": (f"{MEETS} and {INSIDE} and k < 3", ELEMENT, "K[c, o, k]", "9", "20"),
    "mirrored": (f"{MEETS} and {INSIDE}", ELEMENT, "K[c, o, 3 - k]", "9", "20"),
    "one tap for all": (f"{MEETS} and {INSIDE}", ELEMENT, "K[c, o, 0]", "9", "20"),
}


@pytest.mark.parametrize("name", SCATTERED)
def test_other_sums_of_some_taps_have_no_phases(name: str) -> None:
    func = scattered(*SCATTERED[name])
    size = {"some elements": 8, "no bounds": 14}.get(name, 9)
    arrays = [values(shape, "float32") for shape in ((2, size), (2, 3, 4), (3, 20))]
    kinds = [plan.kind for plan in interpret_both(func, arrays, rtol=1e-4)]
    assert (kinds == ["transposed convolution"]) == (name == "usual")


def test_taps_along_a_diagonal_have_no_phases() -> None:
    func = from_source("""
@T.prim_func
def main(X: T.Buffer((5, 6), "float32"), K: T.Buffer((3,), "float32"), Y: T.Buffer((11, 13), "float32")):
    for i, j, h in T.grid(T.int64(11), T.int64(13), T.int64(3)):
        with T.sblock("sum"):
            y, x, k = T.axis.remap("SSR", [i, j, h])
            with T.init():
                Y[y, x] = T.float32(0)
            Y[y, x] += T.if_then_else(
                (y - k) % 2 == 0 and (x - k) % 2 == 0
                and (y - k) // 2 >= 0 and (y - k) // 2 < 5
                and (x - k) // 2 >= 0 and (x - k) // 2 < 6,
                X[(y - k) // 2, (x - k) // 2] * K[k],
                T.float32(0),
            )
""")
    assert isinstance(func, PrimFunc)
    arrays = [values(shape_of(b), "float32") for b in func.buffer_map.values()]
    kinds = [plan.kind for plan in interpret_both(func, arrays, rtol=1e-4)]
    assert "transposed convolution" not in kinds
