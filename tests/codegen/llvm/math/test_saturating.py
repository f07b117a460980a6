"""Floats as integers: the same in vectors as one by one, at every edge of the range."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import loomir
from loomir.script import from_source
from loomir.target import Target

TARGETS = ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"]
TEXT = """
from loomir.script import tir as T

@T.prim_func
def f(X: T.Buffer(({n},), "{source}"), {params}):
    for i in range({n}):
{stores}
"""


def edges(dtype: type[np.floating]) -> np.ndarray:
    """Return every limit of an integer and its neighbours, halves, and what is not a number."""
    found = [0.0, -0.0, 0.5, -0.5, 0.99, -0.99, 1.5, math.nan, -math.nan, math.inf, -math.inf, 1e30]
    for bits in (7, 8, 15, 16, 31, 32, 63, 64):
        for value in (2.0**bits, -(2.0**bits)):
            found += [value, value - 1, value + 1, value - 0.5, value + 0.5]
    with np.errstate(over="ignore"):
        made = np.array([*found, *np.random.default_rng(4).standard_normal(40) * 300], dtype)
        near = [np.nextafter(made, dtype(s * math.inf), dtype=dtype) for s in (1, -1)]
    return np.concatenate([made, *near])


@pytest.mark.parametrize("source", ["float16", "float32", "float64"])
@pytest.mark.parametrize("cpu", ["native", "haswell", "x86-64"])
def test_conversions_saturate_at_the_range(source: str, cpu: str):
    data = edges(np.dtype(source).type)
    params = ", ".join(f'{t}: T.Buffer(({len(data)},), "{t}")' for t in TARGETS)
    stores = "\n".join(f'        {t}[i] = T.Cast("{t}", X[i])' for t in TARGETS)
    func = from_source(TEXT.format(n=len(data), source=source, params=params, stores=stores))
    wanted = [np.zeros(len(data), t) for t in TARGETS]
    for target, out in zip(TARGETS, wanted):
        info = np.iinfo(target)
        for k, x in enumerate(data.tolist()):
            cut = (
                0
                if math.isnan(x)
                else info.max
                if x > info.max
                else info.min
                if x < info.min
                else 0
            )
            out[k] = cut or (int(x) if info.min <= x <= info.max else 0)
    for schedule in (True, False):
        made = [np.ones(len(data), t) for t in TARGETS]
        loomir.compile(func, Target(cpu), schedule=schedule, cache=False)(data, *made)
        for target, a, b in zip(TARGETS, wanted, made):
            np.testing.assert_array_equal(b, a, err_msg=target)


CLIPS = {
    "max": "T.max(X[i], T.{t}({low}))",
    "max of edge": "T.max(T.{t}({low}), X[i])",
    "less": "T.Select(X[i] < T.{t}({low}), T.{t}({low}), X[i])",
    "not above": "T.Select(X[i] <= T.{t}({low}), T.{t}({low}), X[i])",
    "above": "T.Select(X[i] > T.{t}({low}), X[i], T.{t}({low}))",
    "at least": "T.Select(X[i] >= T.{t}({low}), X[i], T.{t}({low}))",
}


@pytest.mark.parametrize("source", ["float32", "float64"])
@pytest.mark.parametrize("how", CLIPS)
def test_what_a_program_clips_itself_stays_0_for_nan(source: str, how: str):
    """LLVM left one of two clips out where one gives NaN for NaN, and the other the edge."""
    data = edges(np.dtype(source).type)
    for target in TARGETS[:6]:
        info = np.iinfo(target)
        value = CLIPS[how].format(t=source, low=f"{info.min}.0")
        params = f'Y: T.Buffer(({len(data)},), "{target}")'
        store = f'        Y[i] = T.Cast("{target}", {value})'
        func = from_source(TEXT.format(n=len(data), source=source, params=params, stores=store))
        edge = info.min if how in ("above", "at least") else 0
        clipped = np.where(np.isnan(data), edge, np.clip(data, float(info.min), float(info.max)))
        wanted = np.trunc(clipped.astype("float64")).clip(info.min, info.max).astype(target)
        ways: list[dict[str, Any]] = [{}, {"schedule": False}, {"opt_level": 1}]
        for options in ways:
            made = np.ones(len(data), target)
            loomir.compile(func, cache=False, **options)(data, made)
            np.testing.assert_array_equal(made, wanted, err_msg=f"{target} {options}")


def test_vectors_are_not_split():
    func = from_source(
        TEXT.format(
            n=4096,
            source="float32",
            params='Y: T.Buffer((4096,), "int32")',
            stores='        Y[i] = T.Cast("int32", X[i])',
        )
    )
    assembly = loomir.compile(func, Target("haswell")).assembly()
    assert "vcvttps2dq" in assembly
    assert "vcvttss2si" not in assembly.split("f.checked")[0]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("source", ["float32", "float64"])
def test_clips_to_the_range_or_beyond_are_left_out(source: str, target: str):
    info = np.iinfo(target)
    data = edges(np.dtype(source).type)
    for low, high in ((info.min, info.max), (info.min - 3, info.max), (info.min + 1, info.max - 1)):
        value = f"T.min(T.{source}({high}.0), T.max(X[i], T.{source}({low}.0)))"
        params = f'Y: T.Buffer(({len(data)},), "{target}")'
        store = f'        Y[i] = T.Cast("{target}", {value})'
        func = from_source(TEXT.format(n=len(data), source=source, params=params, stores=store))
        made, wanted = np.ones(len(data), target), np.ones(len(data), target)
        loomir.interpret(func, data, wanted)
        loomir.compile(func, cache=False)(data, made)
        np.testing.assert_array_equal(made, wanted, err_msg=f"{low}, {high}")


def test_a_clip_that_the_conversion_does_as_well_costs_nothing():
    texts = []
    for value in ("X[i]", "T.max(T.min(X[i], T.float32(127)), T.float32(-128))"):
        func = from_source(
            TEXT.format(
                n=4096,
                source="float32",
                params='Y: T.Buffer((4096,), "int8")',
                stores=f'        Y[i] = T.Cast("int8", {value})',
            )
        )
        texts.append(loomir.compile(func, Target("haswell")).assembly().split("f.checked")[0])
    assert texts[0] == texts[1]
