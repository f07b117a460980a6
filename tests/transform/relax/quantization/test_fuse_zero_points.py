"""Products of bytes less zero points become kernels that read bytes, with the same results."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import loomir
from loomir.ir.module import IRModule
from loomir.ir.visit import pre_order
from loomir.relax.expr import Constant
from tests.transform.relax.modules import applied, module

RNG = np.random.default_rng(3)


def small(dtype: str, *shape: int) -> Any:
    info = np.iinfo(dtype)
    return RNG.integers(info.min, info.max + 1, shape).astype(dtype)


def check(text: str, *args: Any) -> IRModule:
    """Apply the pass; integers are equal, by the interpreter and compiled with a schedule."""
    mod = module(text)
    made = applied("FuseZeroPoints", mod)
    wanted = loomir.interpret(mod, "main", *args)
    assert np.array_equal(loomir.interpret(made, "main", *args), wanted)
    assert np.array_equal(loomir.compile(mod)["main"](*args), wanted)
    return made


def test_a_product_with_zero_points_of_both_operands():
    made = check(
        """
    @R.function
    def main(
        a: R.Tensor((9, 20), "uint8"),
        b: R.Tensor((20, 7), "int8"),
        p: R.Tensor((9, 1), "uint8"),
        q: R.Tensor((7,), "int8"),
    ):
        with R.dataflow():
            y = R.matmul(
                R.subtract(R.astype(a, "int32"), R.astype(p, "int32")),
                R.subtract(R.astype(b, "int32"), R.astype(q, "int32")),
            )
            R.output(y)
        return y
    """,
        small("uint8", 9, 20),
        small("int8", 20, 7),
        small("uint8", 9, 1),
        small("int8", 7),
    )
    assert sorted(made) == ["integer_matmul", "main"]
    text = made.script()
    assert "R.astype" not in text
    assert "cls.integer_matmul, (a, b, p, q)" in text


def test_widening_without_a_zero_point_is_fused_too():
    made = check(
        """
    @R.function
    def main(a: R.Tensor((4, 16), "int8"), b: R.Tensor((16, 16), "int8")):
        with R.dataflow():
            y = R.matmul(R.astype(a, "int32"), R.astype(b, "int32"))
            R.output(y)
        return y
    """,
        small("int8", 4, 16),
        small("int8", 16, 16),
    )
    assert sorted(made) == ["integer_matmul", "main"]


def test_a_batch_of_unknown_size():
    made = check(
        """
    @R.function
    def main(a: R.Tensor(("n", 3, 17), "uint8"), b: R.Tensor((17, 5), "uint8")):
        n = T.int64()
        with R.dataflow():
            y = R.matmul(
                R.subtract(R.astype(a, "int32"), R.const(128, "int32")),
                R.subtract(R.astype(b, "int32"), R.const(3, "int32")),
            )
            R.output(y)
        return y
    """,
        small("uint8", 2, 3, 17),
        small("uint8", 17, 5),
    )
    assert "R.subtract" not in made.script()


@pytest.mark.parametrize(
    ("padding", "strides", "groups"), [(1, 1, 1), ((1, 0, 2, 1), 2, 1), (1, 1, 4)]
)
def test_a_padded_convolution(padding: Any, strides: int, groups: int):
    channels = 4 // groups
    made = check(
        f"""
    @R.function
    def main(
        x: R.Tensor((2, 4, 7, 6), "uint8"),
        w: R.Tensor((8, {channels}, 3, 3), "int8"),
        z: R.Tensor((8, 1, 1, 1), "int8"),
    ):
        with R.dataflow():
            y = R.nn.conv2d(
                R.subtract(R.astype(x, "int32"), R.const(11, "int32")),
                R.subtract(R.astype(w, "int32"), R.astype(z, "int32")),
                padding={padding}, strides={strides}, groups={groups},
            )
            R.output(y)
        return y
    """,
        small("uint8", 2, 4, 7, 6),
        small("int8", 8, channels, 3, 3),
        small("int8", 8, 1, 1, 1),
    )
    assert sorted(made) == ["integer_conv2d", "main"]


def test_constant_weights_stay_bytes_all_the_way():
    import onnx
    from onnx import TensorProto, helper

    from loomir.transform.pipelines import lower_relax

    weights, codes = small("int8", 64, 48), small("uint8", 8, 64)
    graph = helper.make_graph(
        [helper.make_node("MatMulInteger", ["x", "w", "p", "q"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.UINT8, [8, 64])],
        [helper.make_tensor_value_info("y", TensorProto.INT32, [8, 48])],
        [
            onnx.numpy_helper.from_array(weights, "w"),
            onnx.numpy_helper.from_array(np.array(200, "uint8"), "p"),
            onnx.numpy_helper.from_array(np.zeros(48, "int8"), "q"),
        ],
    )
    mod = loomir.onnx.load(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)]))
    lowered = lower_relax(mod)
    constants = [
        p for f in lowered.functions.values() for p in pre_order(f) if isinstance(p, Constant)
    ]
    assert {(str(c.data.dtype), c.data.shape) for c in constants} == {
        ("int8", (64, 48)),
        ("uint8", ()),
    }  # and no zero point of 0
    wanted = (codes.astype("int32") - 200) @ weights.astype("int32")
    assert np.array_equal(loomir.compile(mod)(codes), wanted)


@pytest.mark.parametrize(
    "body",
    [
        'R.matmul(R.astype(a, "int32"), c)',  # one operand is no byte
        'R.matmul(R.astype(R.astype(a, "int16"), "int32"), R.astype(b, "int32"))',
        'R.matmul(R.subtract(R.astype(s, "int32"), R.astype(a, "int32")), R.astype(b, "int32"))',
        'R.matmul(R.astype(a, "int32"), R.astype(b, "int32"), out_dtype="int64")',
    ],
)
def test_what_is_no_product_of_bytes_stays(body: str):
    mod = module(f"""
    @R.function
    def main(
        a: R.Tensor((4, 4), "int8"),
        b: R.Tensor((4, 4), "int8"),
        c: R.Tensor((4, 4), "int32"),
        s: R.Tensor((1, 4), "int8"),
    ):
        with R.dataflow():
            y = {body}
            R.output(y)
        return y
    """)
    assert applied("FuseZeroPoints", mod) is mod


def test_what_a_kernel_may_write_outside_of_dataflow_stays():
    mod = module("""
    @R.function
    def main(a: R.Tensor((4, 4), "int8")):
        wide = R.astype(a, "int32")
        y = R.matmul(wide, wide)
        return y
    """)
    assert applied("FuseZeroPoints", mod) is mod


def test_a_zero_point_that_is_written_to_is_read_as_it_runs():
    mod = module("""
    @T.prim_func(private=True)
    def three(z: T.Buffer((), "int32")):
        z[()] = 3

    @R.function
    def main(a: R.Tensor((4, 16), "int8"), b: R.Tensor((16, 4), "int8")):
        z = R.zeros((), "int32")
        w = R.call_tir_inplace(cls.three, (z,), inplace_indices=[0], out_ty=R.Tensor((), "int32"))
        with R.dataflow():
            x = R.subtract(R.astype(a, "int32"), z)
            y = R.add(R.matmul(x, R.astype(b, "int32")), w)
            R.output(y)
        return y
    """)
    a, b = small("int8", 4, 16), small("int8", 16, 4)
    made = applied("FuseZeroPoints", mod)
    wanted = (a.astype("int32") - 3) @ b.astype("int32") + 3
    assert np.array_equal(loomir.interpret(made, "main", a, b), wanted)
    assert np.array_equal(loomir.compile(mod)["main"](a, b), wanted)
