"""Constant weights are packed once, and kernels take them so."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import loomir
from loomir import op, relax
from loomir.driver import choose_packing
from loomir.ir.module import IRModule
from loomir.ir.passes import PASSES, apply
from loomir.relax.normal.block_builder import BlockBuilder
from loomir.target import Target
from loomir.tir.function import PrimFunc
from loomir.transform.pipelines import lower_relax
from loomir.transform.relax.constants.bind_params import BindParamsOptions
from tests.transform.relax.test_lowering import calls, described, program

RANDOM = np.random.default_rng(3)
NATIVE = Target("native")


def weights(*shape: int) -> Any:
    """Return whole numbers, whose sums are exact in any order."""
    return RANDOM.integers(-4, 5, shape).astype("float32")


def layers(*shapes: tuple[int, int], rows: Any = 8) -> tuple[IRModule, dict[str, Any]]:
    """Make a perceptron, and its weights by name."""
    params = [described((rows, shapes[0][0])), *[described(s) for s in shapes]]

    def build(b: BlockBuilder, x: Any, *ws: Any) -> Any:
        for w in ws:
            x = b.emit(op.nn.relu(op.matmul(x, w)))
        return x

    names = {f"x{k + 1}": weights(*s) for k, s in enumerate(shapes)}
    return program(build, params), names


def bound(mod: IRModule, params: dict[str, Any]) -> IRModule:
    return apply(PASSES["relax.BindParams"], mod, BindParamsOptions("main", params))


def packed(mod: IRModule) -> IRModule:
    made = lower_relax(mod, choose_packing(NATIVE, cache=False, least=0), verify=True)
    assert [d for d in loomir.verify(made) if d.severity == "error"] == []
    return made


def kernels(mod: IRModule) -> list[str]:
    return sorted(v.name_hint for v, f in mod.functions.items() if isinstance(f, PrimFunc))


def constants(mod: IRModule) -> list[relax.Constant]:
    """List the different constants of ``main``."""
    func = mod["main"]
    found = loomir.ir.visit.by_class(func).get(relax.Constant, ())
    return list({id(c): c for c in found}.values())


def test_kernels_take_weights_as_panels() -> None:
    open_, params = layers((20, 18), (18, 33))
    mod = bound(open_, params)
    made = packed(mod)
    assert all(name.endswith("_packed") for name in kernels(made))
    assert [c.data.data.ndim for c in constants(made)] == [3, 3]
    x = weights(8, 20)
    wanted = loomir.interpret(mod, "main", x)
    for ready in (loomir.interpret(made, "main", x), loomir.compile(made)["main"](x)):
        np.testing.assert_array_equal(ready, wanted)


def test_a_weight_of_two_calls_is_packed_once() -> None:
    shared = relax.Constant(weights(64, 64))

    def build(b: BlockBuilder, x: Any) -> Any:
        first = b.emit(op.nn.relu(op.matmul(x, shared)))
        return op.nn.relu(b.emit(op.matmul(first, shared)))

    made = packed(program(build, [described((8, 64))]))
    (kernel,) = kernels(made)
    assert kernel.endswith("_packed")
    (constant,) = constants(made)
    assert constant.data.data.size >= 64 * 64


def test_a_weight_that_something_else_reads_stays() -> None:
    w = relax.Constant(weights(20, 20))

    def build(b: BlockBuilder, x: Any) -> Any:
        product = b.emit(op.matmul(x, w))
        return relax.Tuple((product, b.emit(op.add(x, w))))

    mod = program(build, [described((20, 20))])
    made = packed(mod)
    assert sorted(c.data.data.ndim for c in constants(made)) == [2, 3]
    x = weights(20, 20)
    for a, b in zip(loomir.interpret(mod, "main", x), loomir.compile(made)["main"](x)):
        np.testing.assert_array_equal(a, b)


def test_a_kernel_is_called_with_weights_and_with_arguments() -> None:
    w = relax.Constant(weights(16, 16))

    def build(b: BlockBuilder, x: Any, v: Any) -> Any:
        return relax.Tuple((b.emit(op.matmul(x, w)), b.emit(op.matmul(x, v))))

    mod = program(build, [described((8, 16)), described((16, 16))])
    made = packed(mod)
    assert kernels(made) == ["matmul", "matmul_packed"]
    x, v = weights(8, 16), weights(16, 16)
    for a, b in zip(loomir.interpret(mod, "main", x, v), loomir.interpret(made, "main", x, v)):
        np.testing.assert_array_equal(a, b)


def test_convolutions_and_open_batches() -> None:
    n = loomir.tir.Var("n", "int64")
    kernel, w = relax.Constant(weights(6, 4, 3, 3)), relax.Constant(weights(20, 16))

    def build(b: BlockBuilder, x: Any, y: Any) -> Any:
        image = b.emit(op.nn.conv2d(x, kernel, padding=1))
        return relax.Tuple((b.emit(op.nn.relu(image)), b.emit(op.matmul(y, op.permute_dims(w)))))

    mod = program(build, [described((1, 4, 4, 4)), described((n, 16))])
    made = packed(mod)
    assert all(name.endswith("_packed") for name in kernels(made))
    x, y = weights(1, 4, 4, 4), weights(5, 16)
    wanted = loomir.interpret(mod, "main", x, y)
    for got in (loomir.interpret(made, "main", x, y), loomir.compile(made)["main"](x, y)):
        for a, b in zip(wanted, got, strict=True):
            np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("options", [{"opt_level": 0}, {"schedule": False}, {"check_bounds": True}])
def test_loops_that_are_not_arranged_read_weights_as_they_are(options: dict[str, Any]) -> None:
    mod = bound(*layers((64, 96)))
    stages: list[str] = []
    assert lower_relax(mod, on_stage=lambda name, m: stages.append(m.script()))
    assert "relu_packed" not in stages[-1]
    assert "relu_packed" not in loomir.compile(mod, cache=False, **options).llvm_ir()
    assert "relu_packed" in loomir.compile(mod, cache=False).llvm_ir()


def test_large_weights_travel_with_a_saved_program(tmp_path: Any) -> None:
    mod = bound(*layers((520, 520)))
    exe = loomir.compile(mod, cache=False)
    exe.save(tmp_path / "saved")
    x = weights(8, 520)
    again: Callable[..., Any] = loomir.load(tmp_path / "saved")["main"]
    np.testing.assert_array_equal(again(x), loomir.interpret(mod, "main", x))


def test_without_a_machine_there_is_nothing_to_do() -> None:
    mod = lower_relax(bound(*layers((64, 96))))
    assert apply(PASSES["relax.PackConstants"], mod) is mod
    assert calls(mod).count("call_tir") == 1
