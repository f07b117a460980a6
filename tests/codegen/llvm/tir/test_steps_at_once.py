"""Loops of which native code writes out several steps."""

from __future__ import annotations

import numpy as np
import pytest

import loomir
from loomir.script import tir as T


@pytest.mark.parametrize("steps", [5, 7])
def test_steps_of_an_annotated_loop_are_written_out(steps: int) -> None:
    @T.prim_func
    def add_up(x: T.Buffer((100,), "float32"), out: T.Buffer((1,), "float32")) -> None:
        out[0] = T.float32(0)
        for i in T.serial(100, annotations={"steps_at_once": steps}):
            out[0] = out[0] + x[i]

    run = loomir.compile(add_up, "haswell", schedule=False)
    assert run.assembly().count("addss") in ([5] if steps == 5 else range(7, 14))
    x, out = np.arange(100, dtype="float32"), np.empty(1, "float32")
    run(x, out)
    assert out[0] == 4950


def test_with_one_step_at_once_nothing_is_written_out() -> None:
    @T.prim_func
    def add_up(x: T.Buffer((100,), "float32"), out: T.Buffer((1,), "float32")) -> None:
        out[0] = T.float32(0)
        for _ in T.serial(1):
            for i in T.serial(100, annotations={"steps_at_once": 1}):
                out[0] = out[0] + x[i]

    run = loomir.compile(add_up, "haswell", schedule=False)
    assert "llvm.loop.unroll.disable" in run.llvm_ir()
    assert run.assembly().count("addss") == 1
    x, out = np.arange(100, dtype="float32"), np.empty(1, "float32")
    run(x, out)
    assert out[0] == 4950
