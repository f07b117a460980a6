"""Modules for tests of passes: read from text, and compared before and after a pass."""

from __future__ import annotations

from typing import Any

import numpy as np

import loomir
from loomir.ir.module import IRModule
from loomir.ir.passes import PASSES, apply
from loomir.script import from_source
from tests.transform.relax.test_lowering import flat

HEADER = """from loomir.script import ir as I, relax as R, tir as T
@I.ir_module
class Module:
"""


def module(text: str) -> IRModule:
    """Read the functions of a module."""
    made = from_source(HEADER + text)
    assert isinstance(made, IRModule)
    return made


def applied(name: str, mod: IRModule, *args: Any, options: object = None) -> IRModule:
    """Apply a pass, and hold ``main`` to the same results on arguments as before."""
    made = apply(PASSES[f"relax.{name}"], mod, options)
    assert [d for d in loomir.verify(made) if d.severity == "error"] == []
    assert apply(PASSES[f"relax.{name}"], made, None) is made or options is not None
    if args:
        wanted = flat(loomir.interpret(mod, "main", *args))
        found = flat(loomir.interpret(made, "main", *args))
        for a, b in zip(wanted, found, strict=True):
            np.testing.assert_allclose(b, a, rtol=1e-5, atol=1e-6)
    return made
