"""Options of ``compile`` that are none are refused by name, whatever was given."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import loomir
from loomir import te
from loomir.support.diagnostics import CompileError, Diagnostic

X = te.placeholder((4,), name="x")
PROGRAM = te.create_prim_func([X, te.compute((4,), lambda i: X[i] * 2.0)], name="double")
DEEP: list[Any] = []
for _ in range(10_000):
    DEEP = [DEEP]
ODD: list[Any] = [None, 3, -1, 10**5000, 2.5, "bogus", b"x", [], DEEP, {}, {3: 4}, object()]
ODD += [np.zeros(2), ["a"]]
OPTIONS = (
    "checked",
    "check_bounds",
    "allow_alias",
    "opt_level",
    "schedule",
    "cache",
    "check_nan",
    "winograd",
    "eager",
    "constants",
)
FITTING: dict[str, tuple[Any, ...]] = {
    "constants": (None, {}),
    "opt_level": (3,),
    "check_bounds": (None,),
    "winograd": (None,),
}


def refused(call: Any) -> Diagnostic:
    with pytest.raises((CompileError, KeyError)) as caught:
        call()
    found: Any = caught.value
    return found.diagnostics[0] if isinstance(found, CompileError) else found.diagnostic


@pytest.mark.parametrize("name", OPTIONS)
def test_options_have_kinds(name: str):
    for value in ODD:
        fits = FITTING.get(name, ())
        if any(value is fit or (type(value) is type(fit) and value == fit) for fit in fits):
            continue
        wrong: dict[str, Any] = {name: value}
        found = refused(lambda wrong=wrong: loomir.compile(PROGRAM, **wrong))
        if name == "constants" and isinstance(value, dict):
            assert found.code == "RLX0330"
        else:
            assert found.code == "RUN0012"
            assert found.message.startswith(f"{name} is ")


def test_targets_have_names():
    for value in ODD:
        found = refused(lambda value=value: loomir.compile(PROGRAM, value))
        assert found.code == "TGT0001"
        assert "there is no target" in found.message


def test_functions_have_names():
    exe = loomir.compile(PROGRAM, opt_level=0)
    for value in ODD:
        assert refused(lambda value=value: exe[value]).code == "RUN0121"
