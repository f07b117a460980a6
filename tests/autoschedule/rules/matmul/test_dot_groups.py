"""Products of bytes by the instructions that each kind of CPU has for them."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

import numpy as np
import pytest

import loomir
from loomir.driver import as_module
from loomir.script import from_source
from loomir.target import Target
from loomir.transform import ScheduleOptions, schedule

ROWS, COLUMNS, DEPTH = 17, 21, 35
SIGNS = [(one, other) for one in ("int8", "uint8") for other in ("int8", "uint8")]


def product(left: str, right: str) -> Any:
    return from_source(f"""
@T.prim_func
def f(
    a: T.Buffer(({ROWS}, {DEPTH}), "{left}"),
    b: T.Buffer(({DEPTH}, {COLUMNS}), "{right}"),
    c: T.Buffer(({ROWS}, {COLUMNS}), "int32"),
):
    for i, j, l in T.grid({ROWS}, {COLUMNS}, {DEPTH}):
        with T.sblock("c"):
            vi, vj, vl = T.axis.remap("SSR", [i, j, l])
            with T.init():
                c[vi, vj] = 0
            c[vi, vj] += T.Cast("int32", a[vi, vl]) * T.Cast("int32", b[vl, vj])
""")


INSTRUCTIONS = {
    "znver4": {one: {"vpdpbusd"} for one in SIGNS},
    "alderlake": {one: {"vpdpbusd"} for one in SIGNS},
    # Without i8mm, bytes of unlike signedness are packed as those of the right operand.
    "neoverse-n1": {(one, other): {"sdot" if other == "int8" else "udot"} for one, other in SIGNS},
    "neoverse-n2": {
        ("int8", "int8"): {"sdot"},
        ("uint8", "uint8"): {"udot"},
        ("int8", "uint8"): {"usdot"},
        ("uint8", "int8"): {"usdot"},
    },
    "aarch64": {one: set[str]() for one in SIGNS},
    "haswell": {one: set[str]() for one in SIGNS},
}


@pytest.mark.parametrize("target", INSTRUCTIONS)
@pytest.mark.parametrize("signs", SIGNS)
def test_instructions(target: str, signs: tuple[str, str]):
    text = loomir.compile(product(*signs), target, cache=False).assembly()
    found = Counter(re.findall(r"\b(vpdpbusd|sdot|udot|usdot)\b", text))
    assert set(found) == INSTRUCTIONS[target][signs]


@pytest.mark.parametrize("target", INSTRUCTIONS)
@pytest.mark.parametrize("signs", SIGNS)
def test_the_largest_bytes(target: str, signs: tuple[str, str]):
    made = schedule(as_module(product(*signs)), ScheduleOptions(Target(target)))
    for pick in (min, max):
        a, b = (
            np.full(shape, pick(np.iinfo(kind).min, np.iinfo(kind).max, key=abs), kind)
            for shape, kind in zip(((ROWS, DEPTH), (DEPTH, COLUMNS)), signs, strict=True)
        )
        a[3:7], b[:, 5:9] = np.iinfo(signs[0]).min, np.iinfo(signs[1]).max
        c = np.zeros((ROWS, COLUMNS), "int32")
        loomir.interpret(made, "f", a, b, c)
        np.testing.assert_array_equal(c, a.astype("int32") @ b.astype("int32"))
