"""Of calls with several results, what nothing takes out is not computed, and the rest is fused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import loomir
from loomir.script import from_source
from loomir.transform.pipelines import lower_relax
from loomir.transform.relax.kernels.legalize_ops import legalize_ops

SOURCE = '''
@I.ir_module
class Fields:
    @R.function
    def branches(x: R.Tensor((6, "n"), "float16"), c: R.Tensor((), "bool")):
        """Parts that two branches take out."""
        s = R.split(x, 3, axis=0)
        a = s[2]
        unused = s[1]
        if c:
            d = s[0]
            f = R.exp(d)
        else:
            d = s[0]
            f = R.negative(d)
        return (a, f)

    @R.function
    def gated(x: R.Tensor(("n", 34), "float32")):
        with R.dataflow():
            s = R.split(x, [17, 20], axis=1)
            a = s[0]
            b = s[2]
            d = R.max(b, axis=1, keepdims=True)
            e = R.multiply(a, d)
            R.output(e)
        return e

    @R.function
    def thirds(x: R.Tensor(("n",), "int32")):
        """That n is a multiple of 3 is not known before it runs."""
        with R.dataflow():
            s = R.split(x, 3)
            a = s[1]
            e = R.add(a, a)
            R.output(e)
        return e

    @R.function
    def whole(x: R.Tensor((4, "n"), "float32")):
        s = R.split(x, 2, axis=0)
        a = s[0]
        return (s, R.exp(a))

    @R.function
    def normalised(x: R.Tensor((2, 3, "h"), "float32"), g: R.Tensor((3,), "float32")):
        """The mean and the variance are not taken out."""
        with R.dataflow():
            s = R.nn.batch_norm(x, g, g, g, g, axis=1, training=True)
            a = s[0]
            e = R.nn.relu(a)
            R.output(e)
        return e

    @R.function
    def blocks(x: R.Tensor((4, "n"), "float32")):
        """A call in a block of its own, which is left empty."""
        s = R.split(x, 2, axis=0)
        with R.dataflow():
            a = s[1]
            e = R.exp(a)
            R.output(e)
        return e
'''
FIELDS: Any = from_source(SOURCE)


def flat(value: Any) -> list[Any]:
    many = isinstance(value, (tuple, list))
    return [a for v in value for a in flat(v)] if many else [np.asarray(value)]


@pytest.fixture(scope="module")
def built() -> loomir.Executable:
    return loomir.compile(FIELDS)


def array(*shape: int, dtype: str = "float32") -> Any:
    made = np.random.default_rng(0).uniform(0.5, 4, shape).astype(dtype)
    if made.size > 3 and dtype != "int32":
        made.flat[:3] = np.nan, np.inf, -0.0
    return made


@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("branches", (array(6, 5, dtype="float16"), np.array(True))),
        ("branches", (array(6, 1, dtype="float16"), np.array(False))),
        ("branches", (array(6, 0, dtype="float16"), np.array(False))),
        ("gated", (array(7, 34),)),
        ("gated", (array(0, 34),)),
        ("thirds", (array(33, dtype="int32"),)),
        ("whole", (array(4, 3),)),
        ("blocks", (array(4, 5),)),
    ],
)
def test_what_is_taken_out_stays_the_same(
    built: loomir.Executable, name: str, given: tuple[Any, ...]
) -> None:
    wanted = flat(loomir.interpret(FIELDS, name, *given))
    found = flat(built[name](*given))
    assert len(found) == len(wanted)
    for a, b in zip(wanted, found):
        assert a.dtype == b.dtype
        np.testing.assert_allclose(a, b, rtol=1e-3 if a.dtype == "float16" else 1e-6)


def test_a_normalised_image_is_fused_with_what_follows(built: loomir.Executable) -> None:
    x, g = np.random.default_rng(1).random((2, 3, 7), "float32"), np.ones(3, "float32")
    wanted = flat(loomir.interpret(FIELDS, "normalised", x, g))
    np.testing.assert_allclose(flat(built["normalised"](x, g))[0], wanted[0], rtol=1e-5)
    assert "fused_batch_norm_relu" in lower_relax(FIELDS).script()


def test_parts_that_do_not_fit_are_refused_all_the_same(built: loomir.Executable) -> None:
    with pytest.raises(loomir.RunError, match="RUN0212"):
        built["thirds"](array(10, dtype="int32"))


def test_parts_of_a_split_are_kernels_of_their_own() -> None:
    """Two thirds of ``gated``: what nothing reads has none; a tuple that is used stays one."""
    text = legalize_ops(FIELDS).script()
    gated = text[text.index("def gated") : text.index("def thirds")]
    assert gated.count("R.call_tir(cls.split") == 2
    whole = text[text.index("def whole") :].partition("return")[0]
    assert whole.count("R.call_tir(cls.split") == 1
