"""Products are computed in 16 bits, and what lies between them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import loomir
from loomir import op, relax
from loomir.ir.equality import assert_structural_equal
from loomir.ir.passes import PASSES, apply
from loomir.relax.operator.definition import find_op, op_names
from loomir.transform.relax.precision.precision_policy import Precision, precision_of
from loomir.transform.relax.precision.to_mixed_precision import ToMixedPrecisionOptions
from tests.transform.relax.modules import module
from tests.transform.relax.test_lowering import described, program, random

SIGNATURE = """
    @R.function
    def main(x: R.Tensor(("n", 4), "float32"), a: R.Tensor((4, 4), "float32"), b: R.Tensor((4, 4), "float32")):
        n = T.int64()
        with R.dataflow():
"""
BODY = """
            p = R.matmul(x, a)
            q = R.nn.relu(p)
            r = R.matmul(q, b)
            R.output(r)
        return r
"""


def mixed(text: str, expected: str, args: Any = None, **options: Any) -> loomir.relax.IRModule:
    """Apply the pass, and hold its results to 16 bits: within a part in 500 of those before."""
    mod = module(text)
    made = apply(PASSES["relax.ToMixedPrecision"], mod, ToMixedPrecisionOptions(**options))
    assert [d for d in loomir.verify(made) if d.severity == "error"] == []
    assert_structural_equal(made, module(expected))
    given = (random(3, 4), random(4, 4), random(1, 4, 4)[0]) if args is None else args
    wanted = loomir.interpret(mod, "main", *given)
    if options.get("fp16_input_names"):
        given = [g.astype("float16") for g in given]
    found = loomir.interpret(made, "main", *given)
    assert found.dtype == wanted.dtype
    near = 1 / 50 if options.get("low_dtype") == "bfloat16" else 1 / 500
    np.testing.assert_allclose(found, wanted, rtol=near, atol=near * np.abs(wanted).max())
    return made


def test_what_lies_between_products_follows_them():
    after = """
            xl = R.astype(x, "float16")
            al = R.astype(a, "float16")
            p = R.matmul(xl, al, out_dtype="float32")
            pl = R.astype(p, "float16")
            q = R.nn.relu(pl)
            bl = R.astype(b, "float16")
            r = R.matmul(q, bl, out_dtype="float32")
            R.output(r)
        return r
    """
    mixed(SIGNATURE + BODY, SIGNATURE + after)


def test_results_in_16_bits():
    after = """
            xl = R.astype(x, "bfloat16")
            al = R.astype(a, "bfloat16")
            p = R.matmul(xl, al, out_dtype="bfloat16")
            q = R.nn.relu(p)
            bl = R.astype(b, "bfloat16")
            rl = R.matmul(q, bl, out_dtype="bfloat16")
            r = R.astype(rl, "float32")
            R.output(r)
        return r
    """
    options = {"out_dtype": "bfloat16", "low_dtype": "bfloat16"}
    mixed(SIGNATURE + BODY, SIGNATURE + after, **options)


def test_what_is_used_in_float32_too_stays_so():
    before = """
            p = R.matmul(x, a)
            q = R.nn.relu(p)
            e = R.exp(q)
            r = R.matmul(q, b)
            s = R.add(r, e)
            R.output(s)
        return s
    """
    after = """
            xl = R.astype(x, "float16")
            al = R.astype(a, "float16")
            p = R.matmul(xl, al, out_dtype="float32")
            q = R.nn.relu(p)
            e = R.exp(q)
            ql = R.astype(q, "float16")
            bl = R.astype(b, "float16")
            r = R.matmul(ql, bl, out_dtype="float32")
            s = R.add(r, e)
            R.output(s)
        return s
    """
    mixed(SIGNATURE + before, SIGNATURE + after)


def test_parts_tuples_and_biases():
    before = """
            p = R.linear(x, a, b0)
            parts = R.split(p, 2, axis=1)
            q = parts[0]
            s = parts[1]
            t = R.concat((s, q), axis=1)
            r = R.linear(t, b)
            R.output(r)
        return r
    """
    after = """
            xl = R.astype(x, "float16")
            al = R.astype(a, "float16")
            p = R.linear(xl, al, b0, out_dtype="float32")
            pl = R.astype(p, "float16")
            parts = R.split(pl, 2, axis=1)
            q = parts[0]
            s = parts[1]
            t = R.concat((s, q), axis=1)
            bl = R.astype(b, "float16")
            r = R.linear(t, bl, out_dtype="float32")
            R.output(r)
        return r
    """
    given = (random(3, 4), random(4, 4), random(4, 4), random(4))
    header = SIGNATURE.replace('b: R.Tensor((4, 4), "float32")', 'b: R.Tensor((4, 4), "float32"), b0: R.Tensor((4,), "float32")')  # fmt: skip
    mixed(header + before, header + after, given)


def test_named_parameters_are_given_in_16_bits():
    after = """
            p = R.matmul(x, a, out_dtype="float32")
            pl = R.astype(p, "float16")
            q = R.nn.relu(pl)
            r = R.matmul(q, b, out_dtype="float32")
            s = R.add(r, aw)
            R.output(s)
        return s
    """
    before = BODY.replace("R.output(r)", "s = R.add(r, a)\n            R.output(s)")
    before = before.replace("return r", "return s").replace("\n        with", "with")
    square = SIGNATURE.replace('("n", 4)', "(4, 4)").replace("        n = T.int64()\n", "")
    header = square.replace("float32", "float16")
    header = header.replace("with", 'aw = R.astype(a, "float32")\n        with')
    args = (random(4, 4), random(4, 4), random(4, 4))
    mixed(square + before, header + after, args, fp16_input_names=["x", "a", "b"])


def test_a_constant_that_is_too_great_stays():
    n = loomir.tir.Var("n", "int64")
    mask = relax.Constant(np.float32([[0, -1e9], [0, 0]]))
    scale = relax.Constant(np.float32(0.5))

    def build(b: Any, x: Any, y: Any) -> Any:
        p = b.emit(op.multiply(b.emit(op.matmul(x, y)), scale))
        p = b.emit(op.nn.softmax(b.emit(op.add(p, mask))))
        return op.matmul(p, y)

    mod = program(build, [described((2, n)), described((n, 2))])
    made = apply(PASSES["relax.ToMixedPrecision"], mod)
    x, y = np.eye(2, dtype="float32"), np.float32([[1, 2], [3, 5]])
    wanted = loomir.interpret(mod, "main", x, y)
    np.testing.assert_allclose(loomir.interpret(made, "main", x, y), wanted, rtol=2e-3)
    np.testing.assert_allclose(loomir.compile(made, opt_level=0)["main"](x, y), wanted, rtol=2e-3)
    assert "float16" in made.script()


@pytest.mark.parametrize(
    "body",
    [
        "r = R.exp(R.add(x, x))",  # no product
        'r = R.matmul(x, a, out_dtype="float64")',
        "r = R.nn.relu(R.reshape(x, (n * 4,)))",
        'r = R.matmul(R.astype(x, "float64"), R.astype(a, "float64"))',
    ],
)
def test_others_stay(body: str):
    mod = module(SIGNATURE + f"            {body}\n            R.output(r)\n        return r\n")
    assert apply(PASSES["relax.ToMixedPrecision"], mod) is mod


def test_ordinary_blocks_stay():
    text = SIGNATURE.replace("        with R.dataflow():\n", "") + BODY.replace(
        "            ", "        "
    )
    mod = module(text.replace("        R.output(r)\n", ""))
    assert apply(PASSES["relax.ToMixedPrecision"], mod) is mod


def test_every_operator_has_a_policy():
    found = {name: precision_of(find_op(name)) for name in op_names()}  # type: ignore[arg-type]
    always = {name for name, policy in found.items() if policy is Precision.ALWAYS}
    convolutions = {f"relax.nn.conv{k}d{t}" for k in (1, 2, 3) for t in ("", "_transpose")}
    assert always == {"relax.matmul", "relax.linear", *convolutions}
    never = ("exp", "power", "sum", "cumsum", "nn.batch_norm", "call_tir", "astype", "full")
    assert all(found[f"relax.{name}"] is Precision.NEVER for name in never)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"out_dtype": "float64"}, "give 'float32' or 'float16' as out_dtype"),
        ({"low_dtype": "int8"}, "low_dtype is 'int8'"),
        ({"fp16_input_names": ["y"]}, "no function has a parameter 'y'"),
    ],
)
def test_mistaken_options_are_refused(options: Any, text: str):
    with pytest.raises(loomir.CompileError) as caught:
        apply(PASSES["relax.ToMixedPrecision"], module(SIGNATURE + BODY), ToMixedPrecisionOptions(**options))  # fmt: skip
    assert caught.value.diagnostic.code == "RLX0331"
    assert text in str(caught.value)
