"""Products of bytes less zero points: the same results, by the instructions for bytes."""

from __future__ import annotations

import numpy as np
import pytest

from loomir import te
from loomir.autoschedule.driver import schedule_function
from loomir.autoschedule.prepack_constants import prepare_constants
from loomir.interp import interpret
from loomir.script import from_source
from loomir.target import Target
from loomir.tir.function import PrimFunc
from tests.autoschedule.agreement import interpret_both
from tests.autoschedule.test_prepack_constants import run

BYTES = "icelake-server"
EXTREMES = np.array([-128, -127, -1, 0, 1, 126, 127], "int8")


def read(params: str, lines: str) -> PrimFunc:
    func = from_source(
        f"from loomir.script import tir as T\n@T.prim_func\ndef main({params}):\n{lines}"
    )
    assert isinstance(func, PrimFunc)
    return func


def product(x: str, y: str, *, first: str = "C[i, j] = 0", steps: int = 37) -> PrimFunc:
    return read(
        f'A: T.Buffer((9, {steps}), "int8"), B: T.Buffer(({steps}, 21), "int8"), '
        'za: T.Buffer((9,), "int8"), zb: T.Buffer((21,), "int8"), zk: T.Buffer((37,), "int32"), '
        'C: T.Buffer((9, 21), "int32")',
        f"""
    for i, j in T.grid(9, 21):
        {first}
        for k in range({steps}):
            C[i, j] += {x} * {y}
""",
    )


def text_of(func: PrimFunc, target: str = BYTES) -> str:
    return schedule_function(func, Target(target)).func.script()


A, B = "T.int32(A[i, k])", "T.int32(B[k, j])"


@pytest.mark.parametrize(
    ("x", "y", "left", "right"),
    [
        (f"({A} - 3)", f"({B} - 5)", 3, 5),
        (f"({A} - 2147483647)", f"({B} + -2147483648)", 2**31 - 1, 2**31),
        (f"({A} - T.int32(za[i]))", B, "za", 0),
        (A, f"({B} - T.int32(zb[j]))", 0, "zb"),
        ("T.int32(T.int16(A[i, k]) - T.int16(za[i]))", f"({B} - T.int32(zb[j]))", "za", "zb"),
    ],
)
def test_sums_are_exact_and_wrap(x: str, y: str, left: int | str, right: int | str) -> None:
    func = product(x, y)
    made = schedule_function(func, Target(BYTES))
    assert "dp4a" in made.func.script()
    numbers = np.random.default_rng(1)
    a, b = numbers.choice(EXTREMES, (9, 37)), numbers.choice(EXTREMES, (37, 21))
    zeros = {"za": numbers.choice(EXTREMES, 9), "zb": numbers.choice(EXTREMES, 21)}
    out = np.zeros((9, 21), "int32")
    interpret(made.func, a, b, zeros["za"], zeros["zb"], np.zeros(37, "int32"), out)
    one = a.astype("int64") - (zeros[left][:, None].astype("int64") if left == "za" else left)
    other = b.astype("int64") - (zeros[right].astype("int64") if right == "zb" else right)
    np.testing.assert_array_equal(out, (one @ other).astype("int32"))


def test_a_product_that_is_added_to_what_is_there() -> None:
    func = read(
        'A: T.Buffer((9, 32), "uint8"), B: T.Buffer((32, 21), "int8"), C: T.Buffer((9, 21), "int32")',
        """
    for i, j, k in T.grid(9, 21, 32):
        C[i, j] += (T.int32(A[i, k]) - 128) * T.int32(B[k, j])
""",
    )
    made = schedule_function(func, Target(BYTES))
    assert "dp4a" in made.func.script()
    numbers = np.random.default_rng(2)
    a = numbers.integers(0, 256, (9, 32)).astype("uint8")
    b = numbers.integers(-128, 128, (32, 21)).astype("int8")
    start = numbers.integers(-99, 99, (9, 21)).astype("int32")
    out = start.copy()
    interpret(made.func, a, b, out)
    np.testing.assert_array_equal(out, start + (a.astype("int32") - 128) @ b.astype("int32"))


def test_other_forms_stay_products_of_int32() -> None:
    assert "dp4a" not in text_of(product(f"({A} - zk[k])", B))  # one for each step
    assert "dp4a" not in text_of(product(f"({A} - T.int32(zb[j]))", B))  # of the other factor
    assert "dp4a" not in text_of(product(f"({A} - 3)", B, steps=8))  # not worth the sums
    wrapping = "T.int32(A[i, k] - za[i])"
    assert "dp4a" not in text_of(product(wrapping, f"({B} - 3)"), "haswell")


def test_a_difference_that_wraps_in_a_byte_is_a_factor_as_it_is() -> None:
    func = product("T.int32(A[i, k] - za[i])", f"({B} - 3)")
    made = schedule_function(func, Target(BYTES)).func
    numbers = np.random.default_rng(3)
    a, b = numbers.choice(EXTREMES, (9, 37)), numbers.choice(EXTREMES, (37, 21))
    za, out = numbers.choice(EXTREMES, 9), np.zeros((9, 21), "int32")
    interpret(made, a, b, za, np.zeros(21, "int8"), np.zeros(37, "int32"), out)
    left = (a - za[:, None]).astype("int32")
    np.testing.assert_array_equal(out, left @ (b.astype("int32") - 3))


def decomposed(func: PrimFunc) -> bool:
    """Compare results exactly; say whether zero points are subtracted from a product of bytes."""
    numbers = np.random.default_rng(4)
    arrays = [
        numbers.integers(-128, 128, [n.value for n in buffer.shape]).astype(str(buffer.dtype))  # type: ignore[attr-defined]
        for buffer in func.buffer_map.values()
    ]
    plans = interpret_both(func, arrays, target=BYTES, rtol=0)
    return any("zero points times" in text for plan in plans for text in plan.choices)


@pytest.mark.parametrize("choice", ["Select", "if_then_else"])
@pytest.mark.parametrize(
    ("dtype", "zero", "narrow"),
    [
        ("int8", "3", True),
        ("int8", "300", False),  # no byte is as great
        ("int8", "T.int32(T.int16(za[i]))", True),
        ("int8", "T.int32(T.uint8(za[i]))", False),  # that of -1 is 255
        ("uint8", "T.int32(T.uint8(za[i]))", True),
        ("uint8", "T.int32(T.int8(T.uint8(za[i])))", False),  # that of 255 is -1
    ],
)
def test_what_is_padded_with_a_zero_point(choice: str, dtype: str, zero: str, narrow: bool) -> None:
    """Bytes beside a condition become the zero point, which has to be such a byte."""
    func = read(
        f'A: T.Buffer((9, 37), "{dtype}"), B: T.Buffer((37, 21), "int8"), '
        'za: T.Buffer((9,), "int8"), C: T.Buffer((9, 21), "int32")',
        f"""
    for i, j in T.grid(9, 21):
        C[i, j] = 0
        for k in range(37):
            C[i, j] += T.{choice}(k > 3, T.int32(A[i, k]) - {zero}, 0) * {B}
""",
    )
    assert decomposed(func) == narrow


def test_factors_of_int32_are_no_bytes() -> None:
    assert not decomposed(product("(zk[k] + 3)", f"({B} - 3)"))


@pytest.mark.parametrize("each", [False, True])
def test_an_image_is_padded_with_bytes_if_it_has_one_zero_point(each: bool) -> None:
    x = te.placeholder((8, 5, 5), "int8", "x")
    z = te.placeholder((8 if each else 1,), "int8", "z")
    w = te.placeholder((16, 8, 3, 3), "int8", "w")
    pad = te.compute(
        (8, 7, 7),
        lambda c, i, j: te.if_then_else(
            te.all_of(i > 0, i < 6, j > 0, j < 6),
            x[c, i - 1, j - 1].astype("int32") - z[c if each else 0].astype("int32"),
            0,
        ),
    )
    c, u, v = (te.reduce_axis((0, n)) for n in (8, 3, 3))
    y = te.compute(
        (16, 5, 5),
        lambda o, i, j: te.sum(pad[c, i + u, j + v] * w[o, c, u, v].astype("int32"), [c, u, v]),
    )
    assert decomposed(te.create_prim_func([x, z, w, y])) == (not each)


@pytest.mark.parametrize(
    ("x", "y", "constant"),
    [
        (f"({A} - z)", f"({B} - 3)", 0),
        (f"T.Select(k < z, {A} - 3, 0)", f"({B} - 4)", 0),
        (f"({A} - 4)", f"T.Select(k < z, {B} - 3, 0)", 1),
        (f"({A} - 4)", f"({B} - z)", 1),
    ],
)
def test_sums_that_depend_on_the_call_are_not_computed_before_it(
    x: str, y: str, constant: int
) -> None:
    func = read(
        'A: T.Buffer((9, 37), "int8"), B: T.Buffer((37, 21), "int8"), z: T.int32, '
        'C: T.Buffer((9, 21), "int32")',
        f"""
    for i, j in T.grid(9, 21):
        C[i, j] = 0
        for k in range(37):
            C[i, j] += {x} * {y}
""",
    )
    made = prepare_constants(func, {constant}, Target(BYTES), least=0)
    numbers = np.random.default_rng(5)
    a, b = numbers.choice(EXTREMES, (9, 37)), numbers.choice(EXTREMES, (37, 21))
    for z in (7, 20):
        wanted, result = np.zeros((9, 21), "int32"), np.ones((9, 21), "int32")
        interpret(func, a, b, z, wanted)
        if made is None:
            interpret(schedule_function(func, Target(BYTES)).func, a, b, z, result)
        else:
            run(made, [a, b, z, result], "interpreted")
        np.testing.assert_array_equal(result, wanted)
