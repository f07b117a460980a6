"""Kernels called by themselves, and numbers as scalars of what is called."""

from __future__ import annotations

import numpy as np
import pytest

import loomir
from loomir.ir import assert_structural_equal
from loomir.script import from_source
from tests.clause import clauses

KERNEL = """
@I.ir_module
class Module:
    @R.function(pure=False)
    def main(
        x: R.Tensor((4,), "float32"), y: R.Tensor((4,), "float32")
    ) -> R.Tensor((4,), "float32"):
        cls = Module
        cls.kernel(x, y, 3, 0.5)
        return y

    @T.prim_func
    def kernel(
        x: T.Buffer((4,), "float32"), y: T.Buffer((4,), "float32"), k: T.int32, by: T.float32
    ):
        for i in range(4):
            y[i] = x[i] * by + T.float32(k)
"""
SCALARS = """
@I.ir_module
class Module:
    @R.function
    def main() -> R.Tuple(R.Prim("uint8"), R.Prim("float64")):
        cls = Module
        return cls.pair(200, 2)

    @R.function
    def pair(a: R.Prim("uint8"), b: R.Prim("float64")) -> R.Tuple(R.Prim("uint8"), R.Prim("float64")):
        return (a, b)
"""


@clauses("RX-VALS-08")
def test_a_kernel_is_called_with_numbers_for_its_scalars() -> None:
    program = from_source(KERNEL)
    assert_structural_equal(from_source(program.script()), program)
    x = np.arange(4, dtype="float32")
    wanted = x * np.float32(0.5) + np.float32(3)
    interpreted = loomir.interpret(program, "main", x, np.zeros(4, "float32"))
    compiled = loomir.compile(program)["main"](x, np.zeros(4, "float32"))
    np.testing.assert_array_equal(interpreted, wanted)
    np.testing.assert_array_equal(compiled, wanted)


def test_a_graph_is_called_with_numbers_for_its_scalars() -> None:
    program = from_source(SCALARS)
    for given in (loomir.interpret(program, "main"), loomir.compile(program)["main"]()):
        assert given == (200, 2.0)
        assert [type(v) for v in given] == [np.uint8, np.float64]


@pytest.mark.parametrize(("number", "code"), [("2.5", "RLX0210"), ("300", "TIR0103")])
def test_a_number_that_the_parameter_cannot_hold_is_refused(number: str, code: str) -> None:
    text = SCALARS.replace("200", number)
    with pytest.raises(loomir.CompileError) as caught:
        from_source(text)
    (found,) = caught.value.diagnostics
    assert found.code == code
    assert found.span is not None
    assert text.splitlines()[found.span.line - 1].strip() == f"return cls.pair({number}, 2)"
