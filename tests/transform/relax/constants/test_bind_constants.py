"""Arguments that are the same in all calls are fixed when a program is compiled."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import loomir
from loomir import op, te
from loomir.ir.module import GlobalVar, IRModule
from loomir.script import tir as T
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


@T.prim_func
def any_strides(a: T.Buffer((3, 4), "float32"), y: T.Buffer((3, 4), "float32", strides=("s", "t"))):
    for i, j in T.grid(3, 4):
        y[i, j] = a[i, j] + T.float32(1)


@T.prim_func
def wide_rows(a: T.Buffer((3, 4), "float32", strides=(8, 1)), y: T.Buffer((3, 4), "float32")):
    for i, j in T.grid(3, 4):
        y[i, j] = a[i, j] + T.float32(1)


@T.prim_func
def as_number(a: T.Buffer((4,), "float32"), y: T.Buffer((4,), "float32", strides=("s",))):
    for i in range(4):
        y[i] = a[i] + T.Cast("float32", s)  # noqa: F821


@T.prim_func
def by_pointer(a: T.Buffer((4,), "float32"), y: T.Buffer((4,), "float32", strides=("s",))):
    flat = T.decl_buffer((4,), "float32", data=y.data)
    for i in range(4):
        flat[i] = a[i]


@T.prim_func
def counted(a: T.Buffer((4,), "float32"), y: T.Buffer((4,), "float32")) -> T.int32:
    for i in range(4):
        y[i] = a[i]
    return 4


def test_parameters_that_declare_strides_take_views(tmp_path: Path) -> None:
    a, wide = numbers(3, 4), np.zeros((3, 8), "float32")
    exe = loomir.compile(any_strides, constants={"a": a}, cache=False)
    exe.save(tmp_path / "saved")
    for run in (exe, loomir.load(tmp_path / "saved")):
        for out in (np.zeros((3, 4), "float32"), np.zeros((4, 3), "float32").T, wide[:, ::-2]):
            run(out)
            np.testing.assert_array_equal(out, a + 1)
    assert not wide[:, ::2].any()


def test_only_parameters_that_declare_strides_take_views() -> None:
    wide, out = numbers(3, 8), np.zeros((3, 4), "float32")
    exe = loomir.compile(wide_rows, constants={"a": wide[:, :4]}, cache=False)
    exe(out)
    np.testing.assert_array_equal(out, wide[:, :4] + 1)
    with pytest.raises(loomir.RunError, match="y must be row-major"):
        exe(np.zeros((4, 3), "float32").T)


@pytest.mark.parametrize(
    ("func", "message"),
    [
        (as_number, "'y' declares strides, and the loops use its stride 's' by itself"),
        (by_pointer, "'y' declares strides, and the loops use its pointer by itself"),
        (counted, "'counted' returns a value, and takes no constants"),
    ],
)
def test_loops_that_a_graph_cannot_call_are_refused(func: PrimFunc, message: str) -> None:
    with pytest.raises(loomir.CompileError) as caught:
        loomir.compile(func, constants={"a": numbers(4)})
    (found,) = caught.value.diagnostics
    assert (found.code, found.message) == ("RLX0330", message)
