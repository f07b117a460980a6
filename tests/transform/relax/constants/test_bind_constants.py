"""Arguments that are the same in all calls are fixed when a program is compiled."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import loomir
from loomir import op, te
from loomir.ir.module import GlobalVar, IRModule
from loomir.te import topi
from loomir.tir.function import PrimFunc
from tests.transform.relax.test_lowering import described, program

RANDOM = np.random.default_rng(5)


def numbers(*shape: int) -> Any:
    """Return whole numbers, whose sums are exact in any order."""
    return RANDOM.integers(-4, 5, shape).astype("float32")


def linear(rows: Any = 8) -> PrimFunc:
    x, w = te.placeholder((rows, 40), name="x"), te.placeholder((120, 40), name="w")
    return te.create_prim_func([x, w, topi.matmul(x, w, transpose_b=True)], name="linear")


def test_a_function_is_called_without_its_weights(tmp_path: Path) -> None:
    x, w, out = numbers(8, 40), numbers(120, 40), np.zeros((8, 120), "float32")
    exe = loomir.compile(linear(), constants={"w": w}, cache=False)
    assert "linear_loops_packed" in exe.llvm_ir()
    assert exe["linear"](x, out) is None
    np.testing.assert_array_equal(out, x @ w.T)
    w[:] = 0  # the program has a copy
    again = np.zeros_like(out)
    exe(x, again)
    np.testing.assert_array_equal(again, out)
    exe.save(tmp_path / "saved")
    again[:] = 0
    loomir.load(tmp_path / "saved")(x, again)
    np.testing.assert_array_equal(again, out)


@pytest.mark.parametrize("options", [{"schedule": False}, {"check_bounds": True}])
def test_with_any_options(options: Any) -> None:
    n = te.var("n", "int64")
    x, w, out = numbers(3, 40), numbers(120, 40), np.zeros((3, 120), "float32")
    loomir.compile(linear(n), constants={"w": w}, cache=False, opt_level=1, **options)(x, out)
    np.testing.assert_array_equal(out, x @ w.T)


def test_graphs_too() -> None:
    w = numbers(70, 60)
    mod = program(lambda b, x, v: op.matmul(x, v), [described((9, 70)), described((70, 60))])
    exe = loomir.compile(mod, constants={"x1": w}, cache=False)
    x = numbers(9, 70)
    np.testing.assert_array_equal(exe["main"](x), x @ w)


@pytest.mark.parametrize(
    ("constants", "message"),
    [
        ({"v": numbers(120, 40)}, "has no parameter 'v'"),
        ({"w": numbers(40, 120)}, "the parameter 'w' is"),
        ({"w": numbers(120, 40).astype("float64")}, "the parameter 'w' is"),
        ({"matmul": numbers(8, 120)}, "'matmul' is written, and cannot be constant"),
    ],
)
def test_what_does_not_fit_is_refused(constants: Any, message: str) -> None:
    with pytest.raises(loomir.CompileError) as caught:
        loomir.compile(linear(), constants=constants)
    (found,) = caught.value.diagnostics
    assert found.code == "RLX0330"
    assert message in found.message


def test_a_module_of_several_functions_has_no_names_to_bind() -> None:
    mod = IRModule(
        {
            GlobalVar(name): PrimFunc(
                f.params, f.body, f.ret_type, f.buffer_map, {"global_symbol": name}
            )
            for name, f in (("a", linear()), ("b", linear()))
        }
    )
    with pytest.raises(loomir.CompileError) as caught:
        loomir.compile(mod, constants={"w": numbers(120, 40)})
    assert caught.value.diagnostics[0].code == "RLX0330"
