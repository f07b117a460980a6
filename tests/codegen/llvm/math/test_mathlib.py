"""Math kernels against extended precision: random, special and hard arguments."""

import functools
import math
from typing import Any

import mpmath
import numpy as np
import pytest

from loomir.codegen.llvm.assembler.builder import Builder
from loomir.codegen.llvm.assembler.text import Module
from loomir.codegen.llvm.assembler.types import FLOAT, I32, VOID
from loomir.codegen.llvm.assembler.values import const
from loomir.codegen.llvm.jit.engine import Passes, TargetMachine, compile_ir, load
from loomir.codegen.llvm.jit.symbols import symbols_of
from loomir.codegen.llvm.math import power
from loomir.codegen.llvm.math.floats import register_type
from loomir.codegen.llvm.math.mathlib import MATH, emit_math
from loomir.support.diagnostics import InternalError
from loomir.support.dtype import DataType, numpy_of
from loomir.tir.builtins.accuracy import ACCURACY, SHORT_POWERS
from tests.codegen.llvm.kernels import add_kernel, caller, kernel

Long = np.longdouble
WIDE = np.finfo(Long).nmant >= 63  # x87; elsewhere long double may be double

if not WIDE:
    pytest.skip("no extended precision to compare with", allow_module_level=True)


def erf(x: Any):
    return np.array([Long(mpmath.nstr(mpmath.erf(float(v)), 25)) for v in x], Long)


def sigmoid(x: Any):
    small = np.exp(-np.abs(x))
    return np.where(x < 0, small, Long(1)) / (1 + small)


REFERENCES = {
    "exp": np.exp,
    "exp2": np.exp2,
    "exp10": lambda x: np.power(Long(10), x),
    "tanh": np.tanh,
    "sigmoid": sigmoid,
    "log": np.log,
    "log2": np.log2,
    "log10": np.log10,
    "log1p": np.log1p,
    "sin": np.sin,
    "cos": np.cos,
    "tan": np.tan,
    "sinh": np.sinh,
    "cosh": np.cosh,
    "asinh": np.arcsinh,
    "acosh": np.arccosh,
    "atanh": np.arctanh,
    "asin": np.arcsin,
    "acos": np.arccos,
    "atan": np.arctan,
    "erf": erf,
    "pow": np.power,
    "atan2": np.arctan2,
    "hypot": np.hypot,
    "fmod": np.fmod,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "sqrt": np.sqrt,
    "floor": np.floor,
    "ceil": np.ceil,
    "trunc": np.trunc,
    "round": np.rint,
    "nearbyint": np.rint,
}
# Where most of the function happens, beside the random bit patterns that cover everything.
RANGES = {
    "exp": (-104, 89, -746, 710),
    "exp2": (-151, 129, -1076, 1025),
    "exp10": (-46, 39, -325, 309),
    "tanh": (-10, 10, -20, 20),
    "sigmoid": (-104, 20, -746, 40),
    "sinh": (-90, 90, -711, 711),
    "cosh": (-90, 90, -711, 711),
    "erf": (-4.5, 4.5, -6.5, 6.5),
    "sin": (-100, 100, -1000, 1000),
    "cos": (-100, 100, -1000, 1000),
    "tan": (-100, 100, -1000, 1000),
    "asin": (-1, 1, -1, 1),
    "acos": (-1, 1, -1, 1),
    "atanh": (-1, 1, -1, 1),
    "acosh": (1, 10, 1, 10),
    "log1p": (-1, 1, -1, 1),
}
SPECIAL = [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.0, -2.0, 3.0, -3.0, 10.0, 1000.0, 2.0**20, 2.0**25]
SPECIAL += [
    math.inf,
    -math.inf,
    math.nan,
    1e-30,
    -1e-30,
    709.5,
    -745.2,
    88.72,
    -87.4,
    -103.9,
    127.5,
]


@functools.cache
def samples(name: str, bits: int) -> np.ndarray:
    rng = np.random.default_rng(11)
    kind, words = (np.float32, np.uint32) if bits == 32 else (np.float64, np.uint64)
    count = 4000 if name == "erf" else 60_000
    drawn = rng.integers(0, np.iinfo(words).max, count, words, endpoint=True).view(kind)
    low, high = RANGES.get(name, (-4, 4, -4, 4))[0 if bits == 32 else 2 :][:2]
    even = rng.uniform(low, high, count)
    by_size = rng.choice([-1, 1], count) * np.exp2(rng.uniform(-30, 30, count))
    near_one = 1 + rng.choice([-1, 1], count) * np.exp2(rng.uniform(-50, -1, count))
    quarters = np.arange(1, 3000) * (math.pi / 2)
    tiny = np.finfo(kind).smallest_subnormal * rng.integers(1, 2**20, 1000).astype(kind)
    edges = np.array([np.finfo(kind).max, np.finfo(kind).tiny, np.finfo(kind).smallest_subnormal])
    with np.errstate(all="ignore"):
        parts = [drawn, even, by_size, near_one, quarters, -quarters, tiny, edges, -edges, SPECIAL]
        return np.concatenate([np.asarray(p).astype(kind) for p in parts])


@functools.cache
def arguments(name: str, bits: int) -> tuple[np.ndarray, ...]:
    x = samples(name, bits)
    if MATH[name].arity == 1:
        return (x,)
    rng = np.random.default_rng(5)
    y = rng.permutation(x)
    special = np.array([*SPECIAL, 0.25, 4.0, 5.0, -5.0, 1.5], x.dtype)
    a, b = np.meshgrid(special, special)
    small = rng.uniform(0, 30, 50_000).astype(x.dtype), rng.uniform(-20, 20, 50_000).astype(x.dtype)
    near = (1 + rng.uniform(-1e-3, 1e-3, 50_000)).astype(x.dtype)
    far = rng.uniform(-80_000, 80_000, 50_000).astype(x.dtype)
    return (
        np.concatenate([x, a.ravel(), small[0], near]),
        np.concatenate([y, b.ravel(), small[1], far]),
    )


def units(got: np.ndarray, true: np.ndarray) -> np.ndarray:
    """Return the error in units in the last place of the true value; NaN against NaN is none."""
    kind = got.dtype
    with np.errstate(all="ignore"):
        rounded = true.astype(kind)
        spacing = np.spacing(np.minimum(np.abs(rounded), np.finfo(kind).max)).astype(Long)
        error = np.abs(got.astype(Long) - true) / spacing
    exact = (got == rounded) & (np.signbit(got) == np.signbit(rounded) | np.isnan(got))
    both_nan = np.isnan(got) & np.isnan(true)
    settled = np.isinf(rounded) | np.isinf(got)
    error = np.where(settled & exact, 0, error)
    return np.where(both_nan, 0, np.where(np.isnan(error), np.inf, error))


def bound(name: str, bits: int) -> float:
    """Return what the table promises; a function without a row is exact."""
    row = ACCURACY.get(name)
    return 0.0 if row is None else row.float32 if bits == 32 else row.float64


def measure(name: str, bits: int, lanes: int) -> tuple[float, object]:
    dtype = DataType(f"float{bits}").with_lanes(lanes)
    args = arguments(name, bits)
    run = kernel(lambda b, v: emit_math(b, name, v, dtype), [dtype] * len(args), dtype)
    got = run(*args)
    with np.errstate(all="ignore"):
        true = REFERENCES[name](*[a.astype(Long) for a in args])
    error = units(got, true)
    worst = int(np.argmax(error))
    return float(error[worst]), ([a[worst] for a in args], got[worst], true[worst])


def test_every_function_has_a_reference():
    assert set(REFERENCES) == set(MATH)


def test_what_has_no_bound_is_exact():
    exact = {"fmod", "floor", "ceil", "trunc", "round", "nearbyint"}
    assert set(MATH) - set(ACCURACY) == exact
    assert set(ACCURACY) <= set(MATH)


@pytest.mark.parametrize("name", sorted(MATH))
@pytest.mark.parametrize(("bits", "lanes"), [(32, 8), (64, 4)])
def test_errors_are_within_the_bounds(name: Any, bits: int, lanes: int):
    error, where = measure(name, bits, lanes)
    assert error <= bound(name, bits), where


@pytest.mark.parametrize("bits", [32, 64])
def test_what_a_lane_gives_does_not_depend_on_the_lanes(bits: int):
    names = sorted(MATH)
    words = f"u{bits // 8}"
    found: dict[int, list[np.ndarray]] = {}
    # One register of 512 bits, and two.
    counts = (1, 2, 4, 8, 16) if bits == 64 else (1, 2, 4, 8, 16, 32)
    for lanes in counts:
        dtype = DataType(f"float{bits}").with_lanes(lanes)
        module = Module(features=TargetMachine.host().abilities)
        for name in names:
            sources = [dtype] * MATH[name].arity
            emit = lambda b, v: emit_math(b, name, v, dtype)  # noqa: B023, E731
            add_kernel(module, f"k.{name}", emit, sources, dtype)
        library = load(compile_ir(module.render(), level=1, passes=Passes.FEW))
        found[lanes] = []
        for name in names:
            args = [a[::37] for a in arguments(name, bits)]
            got = caller(library, f"k.{name}", dtype)(*args)
            found[lanes].append(np.where(np.isnan(got), 0, got.view(words)))
    for lanes in counts[1:]:
        for name, one, many in zip(names, found[1], found[lanes], strict=True):
            assert (one == many).all(), (name, lanes)


@pytest.mark.parametrize("name", ["exp", "tanh", "sin", "log", "pow", "erf", "sqrt", "round"])
@pytest.mark.parametrize("kind", ["float16", "bfloat16"])
def test_narrow_floats_are_the_rounded_floats(name: str, kind: str):
    dtype = DataType(kind).with_lanes(8)
    every = np.arange(1 << 16, dtype=np.uint16).view(numpy_of(dtype))
    args = [every] if MATH[name].arity == 1 else [every, np.roll(every, 777)]
    got = kernel(lambda b, v: emit_math(b, name, v, dtype), [dtype] * len(args), dtype)(*args)
    wide = DataType("float32x8")
    run = kernel(lambda b, v: emit_math(b, name, v, wide), [wide] * len(args), wide)
    with np.errstate(all="ignore"):
        want = run(*[a.astype(np.float32) for a in args]).astype(numpy_of(dtype))
    same = got.view(np.uint16) == want.view(np.uint16)
    assert (same | (np.isnan(got.astype(np.float32)) & np.isnan(want.astype(np.float32)))).all()


KINDS = ["float16", "bfloat16", "float32", "float64"]


def every_kind(kind: str) -> np.ndarray:
    if kind in ("float16", "bfloat16"):
        return np.arange(1 << 16, dtype=np.uint16).view(numpy_of(DataType(kind)))
    return samples("log", int(kind[5:]))[::5]


def same(got: np.ndarray, want: np.ndarray) -> bool:
    words = f"u{got.dtype.itemsize}"
    with np.errstate(invalid="ignore"):  # signalling NaNs are among them
        nan = np.isnan(got.astype(np.float64)) & np.isnan(want.astype(np.float64))
    return bool(((got.view(words) == want.view(words)) | nan).all())


@pytest.mark.parametrize("kind", KINDS)
def test_functions_of_the_bits_are_exact(kind: str):
    dtype = DataType(kind).with_lanes(4)
    numbers = numpy_of(dtype)
    x = every_kind(kind)
    rng = np.random.default_rng(2)
    y = np.concatenate([rng.permutation(x)[: len(x) // 2], x[len(x) // 2 :]])
    with np.errstate(all="ignore"):
        following = ml_dtypes_nextafter(x, y) if kind == "bfloat16" else np.nextafter(x, y)
        cases = {"nextafter": following, "copysign": np.copysign(x, y), "abs": np.abs(x)}
        tests = {"isnan": np.isnan(x), "isinf": np.isinf(x), "isfinite": np.isfinite(x)}
    for name, want in cases.items():
        args = [x] if name == "abs" else [x, y]
        run = kernel(lambda b, v: emit_math(b, name, v, dtype), [dtype] * len(args), dtype)  # noqa: B023
        assert same(run(*args), want.astype(numbers)), name
    truth = DataType("bool").with_lanes(4)
    for name, want in tests.items():
        run = kernel(lambda b, v: emit_math(b, name, v, dtype), [dtype], truth)  # noqa: B023
        assert (run(x) == want).all(), name


def ml_dtypes_nextafter(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Step in the order of the numbers; the library's own function is not in every version."""
    bits, target = x.view(np.int16).astype(np.int32), y.view(np.int16).astype(np.int32)

    def order(v: np.ndarray) -> np.ndarray:
        return np.where(v < 0, -(v & 0x7FFF), v)

    a, b = order(bits), order(target)
    step = a + np.sign(b - a)
    moved = np.where((step < 0) | ((step == 0) & (a < 0)), -step | 0x8000, step)
    out = np.where(a == b, target, moved).astype(np.uint16).view(x.dtype)
    out = np.where(np.isnan(y.astype(np.float32)), y, out)
    return np.where(np.isnan(x.astype(np.float32)), x, out)


@pytest.mark.parametrize("kind", KINDS)
def test_ldexp_rounds_once(kind: str):
    dtype, powers = DataType(kind).with_lanes(4), DataType("int32x4")
    x = every_kind(kind)
    rng = np.random.default_rng(8)
    e = rng.integers(-2300, 2300, len(x), dtype=np.int32)
    e[::2] = rng.integers(-60, 60, len(e[::2]))
    e[::7] = rng.choice([2**31 - 1, -(2**31), 0, 1, -1074, 1023, -1022, -149, 127], len(e[::7]))
    run = kernel(lambda b, v: emit_math(b, "ldexp", v, dtype), [dtype, powers], dtype)
    with np.errstate(all="ignore"):
        if kind == "float64":
            want = np.ldexp(x, e)
        else:
            # A double holds every product that matters, so that the one rounding is the last.
            want = np.ldexp(x.astype(np.float64), np.clip(e, -900, 900)).astype(numpy_of(dtype))
    assert same(run(x, e), want)


def test_misuse_is_refused():
    module = Module()
    b = Builder(module.define("f", VOID, [("x", FLOAT), ("n", I32)]))
    x, n = b.function.params
    single = DataType("float32")
    for name, args, dtype in (
        ("exp", [n], DataType("int32")),
        ("exp", [x], DataType("float64")),
        ("exp", [x, x], single),
        ("pow", [x], single),
        ("copysign", [x], single),
        ("ldexp", [x, x], single),
        ("no_such_function", [x], single),
    ):
        with pytest.raises(InternalError):
            emit_math(b, name, args, dtype)


X86 = "x86_64-unknown-linux-gnu"
CPUS = [
    ("x86-64", X86),
    ("haswell", X86),
    ("znver3", X86),
    ("sapphirerapids", X86),
    ("generic", "aarch64-unknown-linux-gnu"),
]
# For the CPUs that lack the instruction; all of them are in every C library.
ROUNDINGS = {n + s for n in ("floor", "ceil", "trunc", "nearbyint", "rint") for s in ("", "f")} | {
    "fma"
}


@pytest.mark.parametrize(("cpu", "triple"), CPUS)
def test_the_c_library_is_not_called(cpu: str, triple: Any):
    target = TargetMachine.of(cpu, triple=triple)
    modern = target.has("fma") and target.has("sse4.1")
    for bits in (16, 32, 64):
        dtype = DataType(f"float{bits}x4")
        for name, row in MATH.items():
            module = Module(features=target.abilities)
            emit = lambda b, v: emit_math(b, name, v, dtype)  # noqa: B023, E731
            add_kernel(module, "k", emit, [dtype] * row.arity, dtype)
            needed = set(symbols_of(compile_ir(module.render(), target, 0)).undefined)
            assert needed <= (set() if modern else ROUNDINGS), (name, bits)


@pytest.mark.parametrize("kind", ["float16", "float32", "float64"])
@pytest.mark.parametrize("by", sorted(SHORT_POWERS))
def test_powers_by_constants_are_short_and_as_accurate(kind: str, by: Any):
    dtype = DataType(kind).with_lanes(4)
    emit = lambda b, v: emit_math(b, "pow", [*v, const(register_type(dtype), by)], dtype)  # noqa: E731
    edges = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, -1.0], numpy_of(dtype))
    x = np.concatenate([every_kind(kind), edges])
    x = np.concatenate([x, x[: -len(x) % 4]])
    module = Module(features=TargetMachine.host().abilities)
    add_kernel(module, "k", emit, [dtype], dtype)
    assert power.FIXED_POWERS.keys() == SHORT_POWERS
    assert module.render().count("\n") < 80  # any power takes several hundred lines
    got = kernel(emit, [dtype], dtype)(x)
    with np.errstate(all="ignore"):
        want = np.power(x.astype(Long), Long(by))
        rounded = want.astype(x.dtype)
        special = ~np.isfinite(rounded) | (rounded == 0)
        unit = np.spacing(np.abs(np.where(special, 1, rounded))).astype(Long)
        off = np.abs(np.where(special, 0, (got.astype(Long) - want) / unit))
        same = (got == rounded) & (np.signbit(got) == np.signbit(rounded))
    assert (same | (np.isnan(got) & np.isnan(rounded)))[special].all()
    info = np.finfo(rounded.dtype)
    assert off[np.abs(rounded) >= info.tiny / info.eps].max() <= 0.51
    assert off.max() <= 1.0  # what corrects tiny results is below all numbers
