"""Conversions against exact arithmetic, on every kind of value, lane count and CPU."""

import functools
import math
from typing import Any

import numpy as np
import pytest

from loomir.codegen.llvm.assembler.builder import Builder
from loomir.codegen.llvm.assembler.text import Module
from loomir.codegen.llvm.assembler.types import I32
from loomir.codegen.llvm.assembler.values import const
from loomir.codegen.llvm.jit.engine import Passes, TargetMachine, compile_ir, load
from loomir.codegen.llvm.jit.symbols import symbols_of
from loomir.codegen.llvm.math.floats import cast, narrow, register_type, widen
from loomir.support.diagnostics import InternalError
from loomir.support.dtype import DataType, numpy_of
from tests.codegen.llvm.kernels import add_kernel, caller, kernel

NAMES = [
    "bool",
    *(f"{s}int{b}" for s in ("", "u") for b in (8, 16, 32, 64)),
    "float16",
    "bfloat16",
    "float32",
    "float64",
]
# Bits of the significand and the exponent of the smallest normal number.
FORMATS = {
    "float16": (11, -14),
    "bfloat16": (8, -126),
    "float32": (24, -126),
    "float64": (53, -1022),
}


def exact(value: float | int, name: str) -> float:
    """Round to the format once, ties to even."""
    if isinstance(value, float) and not math.isfinite(value):
        return value
    precision, low = FORMATS[name]
    size, below = abs(value).as_integer_ratio()
    octave = size.bit_length() - below.bit_length()  # or the one below
    if size and size << max(0, -octave) < below << max(0, octave):
        octave -= 1
    exponent = max(octave, low) - precision + 1
    units, rest = divmod(size << max(0, -exponent), below << max(0, exponent))
    twice = 2 * rest - (below << max(0, exponent))
    units += twice > 0 or (twice == 0 and units % 2)
    rounded = math.ldexp(units, exponent)
    top = (2 - 2.0 ** (1 - precision)) * 2.0 ** (1 - low)
    return math.copysign(math.inf if rounded > top else rounded, value)


def expected(value: Any, source: str, target: str):
    if target == "bool":
        return value != 0
    if target in FORMATS:
        return exact(float(value) if source in FORMATS else int(value), target)
    dtype = DataType(target)
    if source in FORMATS:
        v = float(value)
        if math.isnan(v):
            return 0
        if math.isinf(v):
            return dtype.max_value if v > 0 else dtype.min_value
        return min(max(math.trunc(v), dtype.min_value), dtype.max_value)
    v = int(value) & ((1 << dtype.bits) - 1)
    return v - (1 << dtype.bits) if dtype.is_int and v >> (dtype.bits - 1) else v


@functools.cache
def samples(name: str) -> np.ndarray:
    """Random, special, and hard: beside ties of the narrower formats, and at limits."""
    dtype = DataType(name)
    rng = np.random.default_rng(7)
    if dtype.is_bool:
        return np.array([False, True])
    if not dtype.is_float:
        low, high = dtype.min_value, dtype.max_value
        values = {0, 1, 2, 3, low, low + 1, high, high - 1}
        for k in range(1, dtype.bits):
            for d in (-3, -1, 0, 1, 3):
                values |= {2**k + d, -(2**k) + d, 2**k + 2 ** (k // 2) + d}
                values |= {2**k + 2 ** max(0, k - 8) + d, 2**k + 3 * 2 ** max(0, k - 9) + d}
                values |= {2**k + 2 ** max(0, k - 11) + d, 2**k + 3 * 2 ** max(0, k - 12) + d}
                values |= {-(2**k) - 2 ** max(0, k - 8) + d, 2**k + 2 ** max(0, k - 53) + d}
        kept = sorted(v for v in values if low <= v <= high)
        drawn = rng.integers(low, high, 300, dtype=numpy_of(dtype), endpoint=True)
        return np.concatenate([np.array(kept, numpy_of(dtype)), drawn])
    if dtype.bits == 16:
        return np.arange(1 << 16, dtype=np.uint16).view(numpy_of(dtype))[::7]
    values = [0.0, -0.0, math.inf, -math.inf, math.nan, 5e-324, 1e-320, 1e-45, 1.4e-45, 1e-40]
    values += [65504.0, 65519.99, 65520.0, 65536.0, 3.39e38, 3.4e38, 3.4028235677973366e38, 1e300]
    for k in range(-1074, 1023, 13):
        values.append(math.ldexp(1.0, k))
    for k in [*range(-152, -120), *range(-30, 66), 127, 128]:
        for p in (7, 8, 9, 10, 11, 12, 23, 24):
            tie = math.ldexp(1.0, k) + math.ldexp(1.0, k - p)
            values += [tie, math.nextafter(tie, 0), math.nextafter(tie, math.inf)]
            tie = math.ldexp(1.0, k) + math.ldexp(3.0, k - p)
            values += [-tie, -math.nextafter(tie, 0), -math.nextafter(tie, math.inf)]
            values.append(tie * (1 + 2.0**-30))
    for bits in (8, 16, 32, 64):
        for edge in (2.0**bits, 2.0 ** (bits - 1)):
            values += [
                edge,
                edge - 1,
                edge - 0.5,
                edge + 1,
                -edge,
                -edge - 1,
                -edge - 0.5,
                1 - edge,
            ]
    with np.errstate(over="ignore", under="ignore"):
        made = np.array(values, np.float64).astype(numpy_of(dtype))
    bits = rng.integers(0, 1 << 63, 500, dtype=np.uint64) * 2
    drawn = bits.view(np.float64) if dtype.bits == 64 else (bits >> 32).astype(np.uint32).view("f4")
    return np.concatenate([made, drawn])


@functools.cache
def wanted(source: str, target: str) -> list[float | int]:
    inputs = samples(source)
    with np.errstate(all="ignore"):
        wide = inputs.astype(np.float64) if source in FORMATS else inputs
    return [expected(v, source, target) for v in wide.tolist()]


def agree(got: np.ndarray, source: str, target: str) -> None:
    want = wanted(source, target)
    with np.errstate(all="ignore"):
        if target in FORMATS:
            g = got.astype(np.float64)
            w = np.array(want, np.float64)
            same = (g == w) & (np.signbit(g) == np.signbit(w)) | (np.isnan(g) & np.isnan(w))
        else:
            same = np.array([int(g) == int(w) for g, w in zip(got.tolist(), want, strict=True)])
    bad = np.flatnonzero(~same)[:5]
    assert same.all(), [(samples(source)[i], got[i], want[i]) for i in bad]


PAIRS = [(s, t) for s in NAMES for t in NAMES]


@pytest.mark.parametrize("source", NAMES)
@pytest.mark.parametrize(("lanes", "portable"), [(1, True), (8, True), (8, False)])
def test_every_conversion_is_exact(source: Any, lanes: int, portable: bool):
    s = DataType(source).with_lanes(lanes)
    module = Module(features=[] if portable else TargetMachine.host().abilities)
    for name in NAMES:
        t = DataType(name).with_lanes(lanes)
        add_kernel(module, name, lambda b, v: cast(b, v[0], s, t), [s], t)  # noqa: B023
    library = load(compile_ir(module.render(), level=1, passes=Passes.FEW))
    for name in NAMES:
        run = caller(library, name, DataType(name).with_lanes(lanes))
        agree(run(samples(source)), source, name)


@pytest.mark.parametrize("name", ["float16", "bfloat16"])
@pytest.mark.parametrize("portable", [False, True])
def test_all_16_bit_values_survive_widening(name: str, portable: bool):
    dtype = DataType(name).with_lanes(16)
    inputs = np.arange(1 << 16, dtype=np.uint16).view(numpy_of(dtype))
    features = [] if portable else None
    run = kernel(
        lambda b, v: narrow(b, widen(b, v[0], dtype), dtype), [dtype], dtype, features=features
    )
    nan = np.isnan(inputs.astype(np.float32))
    got = run(inputs)
    assert (got.view(np.uint16)[~nan] == inputs.view(np.uint16)[~nan]).all()
    assert np.isnan(got.astype(np.float32)[nan]).all()


def test_nan_with_any_payload_stays_nan():
    payloads = np.arange(1, 1 << 23, 4099, dtype=np.uint32) | np.uint32(0x7F800000)
    inputs = np.concatenate([payloads, payloads | np.uint32(0x80000000)]).view(np.float32)
    for name in ("float16", "bfloat16"):
        s, t = DataType("float32x8"), DataType(name).with_lanes(8)
        for features in ([], None):
            run = kernel(lambda b, v: cast(b, v[0], s, t), [s], t, features=features)  # noqa: B023
            assert np.isnan(run(inputs).astype(np.float32)).all()


def test_wider_floats_stay_as_they_are():
    module = Module()
    f = module.define("f", I32, [("x", register_type(DataType("float64")))])
    b = Builder(f)
    x = f.params[0]
    assert widen(b, x, DataType("float64")) is x
    assert narrow(b, x, DataType("float64")) is x
    b.ret(const(I32, 0))


def test_operands_of_another_type_are_refused():
    module = Module()
    b = Builder(module.define("f", I32, [("x", I32)]))
    x = b.function.params[0]
    for source, target in (("float32", "int32"), ("int32", "int32x4")):
        with pytest.raises(InternalError):
            cast(b, x, DataType(source), DataType(target))


X86 = "x86_64-unknown-linux-gnu"
CPUS = [
    ("x86-64", X86),
    ("x86-64-v2", X86),
    ("haswell", X86),
    ("znver3", X86),
    ("sapphirerapids", X86),
    ("generic", "aarch64-unknown-linux-gnu"),
    ("neoverse-v2", "aarch64-unknown-linux-gnu"),
]


@pytest.mark.parametrize(("cpu", "triple"), CPUS)
@pytest.mark.parametrize("portable", [False, True])
def test_no_conversion_calls_a_library(cpu: str, triple: Any, portable: bool):
    target = TargetMachine.of(cpu, triple=triple)
    module = Module(features=[] if portable else target.abilities)
    for lanes in (1, 8):
        for i, (source, to) in enumerate(PAIRS):
            s, t = DataType(source).with_lanes(lanes), DataType(to).with_lanes(lanes)
            add_kernel(module, f"k{i}x{lanes}", lambda b, v: cast(b, v[0], s, t), [s], t)  # noqa: B023
    # Helpers are called by what selects instructions, which is the same without LLVM's passes.
    assert symbols_of(compile_ir(module.render(), target, 0)).undefined == ()
