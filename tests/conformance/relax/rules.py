"""Check hand-built programs against the rules of well-formedness."""

from __future__ import annotations

from typing import Any

import pytest

import loomir
from loomir.check.relax.well_formed import well_formed
from loomir.relax import Function, TensorStructInfo, Var
from loomir.support.diagnostics import CompileError
from tests.conformance.graphs import F32
from tests.relax.programs import seq, var

X = f"x: {F32}"
PARAM = var("x", 2)
COND = Var("c", TensorStructInfo((), "bool"))


def main(
    *blocks: Any, out: Any = PARAM, params: Any = (PARAM,), ret: Any = None, **attrs: Any
) -> Function:
    return Function(params, seq(blocks, out), ret, attrs={"global_symbol": "main", **attrs})


def broken(rule: int, program: Any) -> None:
    """Check that a program breaks one rule only, and that the compiler refuses it for that."""
    found = well_formed(program)
    assert {d.code for d in found} == {f"RLX01{rule:02d}"}, found
    if found[0].severity == "error":
        with pytest.raises(CompileError) as caught:
            loomir.compile(program, cache=False)
        assert caught.value.diagnostic.code == f"RLX01{rule:02d}"
