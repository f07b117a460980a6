"""Calls whose extents, strides or shapes are open until the program runs: the same both ways."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import loomir
from loomir.ir.module import IRModule
from loomir.ir.visit import by_class
from loomir.relax.expr import ExternFunc
from loomir.transform.relax.kernels.legalize_ops import legalize_ops
from tests.clause import clauses

PROGRAM = """
from loomir.script import ir as I, relax as R, tir as T

@I.ir_module
class Module:
    @R.function
    def cut(x: R.Tensor(("n", 2), "float32"), s: R.Shape(["b", "e", "k"])):
        b, e, k = T.int64(), T.int64(), T.int64()
        y = R.strided_slice(x, axes=[0], begin=(b,), end=(e,), strides=(k,))
        z = R.strided_slice(x, axes=[0], begin=(e,), end=(b - e,), strides=(-k,))
        return (y, z)

    @R.function
    def product(x: R.Tensor(("a", 2, 3), "float32"), y: R.Tensor(("b", 3, "m"), "float32")):
        z = R.matmul(x, y)
        w = R.einsum((x, y), "aij,ajk->aik")
        return (z, w)

    @R.function
    def sum(x: R.Tensor(("a", 1), "float32"), y: R.Tensor(("b", "m"), "float32")):
        z = R.add(x, y)
        w = R.where(R.less(x, y), z, R.ewise_fma(x, y, z))
        v = R.masked_fill(x, R.less(y, R.const(0, "float32")), 7)
        return (w, v)
"""
UNKNOWN = """
from loomir.script import ir as I, relax as R, tir as T

@I.ir_module
class Module:
    @R.function
    def sum(x: R.Tensor("float32"), y: R.Tensor("float32")):
        return R.add(x, y)

    @R.function
    def halves(x: R.Tensor("float32")):
        return R.split(x, 2, axis=1)

    @R.function
    def taken(x: R.Tensor("float32"), i: R.Prim("int32")):
        return R.take(x, i, axis=-1)

    @R.function
    def shaped(x: R.Tensor("float32"), s: R.Shape(ndim=2)):
        return R.reshape(x, s)
"""


def floats(*shape: int) -> Any:
    return np.random.default_rng(0).uniform(-2, 2, shape).astype("float32")


class Ways:
    """Two ways to run a program."""

    def __init__(self, text: str) -> None:
        made = loomir.script.from_source(text)
        assert isinstance(made, IRModule)
        self.module = made
        compiled = loomir.compile(self.module, opt_level=0, cache=False)
        self.runs = [
            lambda name, *a: compiled[name](*a),
            lambda name, *a: loomir.interpret(self.module, name, *a),
        ]


@pytest.fixture(scope="module")
def opened() -> Ways:
    return Ways(PROGRAM)


@pytest.fixture(scope="module")
def unknown() -> Ways:
    return Ways(UNKNOWN)


def test_kernels_compute_what_is_open(opened: Ways):
    assert not by_class(legalize_ops(opened.module)).get(ExternFunc)


@pytest.mark.parametrize("bounds", [(1, 7, 2), (0, 9, 4), (20, 3, 1), (6, 6, 1), (8, 2, 3)])
def test_slices_of_open_strides_are_those_of_python(opened: Ways, bounds: tuple[int, int, int]):
    x, (b, e, k) = floats(9, 2), bounds
    for run in opened.runs:
        y, z = run("cut", x.copy(), loomir.Shape(bounds))
        np.testing.assert_array_equal(y, x[b:e:k])
        np.testing.assert_array_equal(z, x[e : b - e : -k])


@clauses("RX-DIM-07")
def test_a_stride_that_turns_out_to_be_zero_raises(opened: Ways):
    for run in opened.runs:
        with pytest.raises(ZeroDivisionError, match="RUN0201"):
            run("cut", floats(3, 2), loomir.Shape((0, 2, 0)))


@pytest.mark.parametrize(("a", "b"), [(3, 1), (1, 3), (3, 3), (1, 1), (0, 1), (1, 0)])
def test_axes_that_turn_out_to_be_one_are_repeated(opened: Ways, a: int, b: int):
    x, y = floats(a, 2, 3), floats(b, 3, 4)
    p, q = floats(a, 1), floats(b, 5)
    for run in opened.runs:
        for made in run("product", x.copy(), y.copy()):
            np.testing.assert_allclose(made, x @ y, rtol=1e-5, atol=1e-6)
        w, v = run("sum", p.copy(), q.copy())
        np.testing.assert_array_equal(w, np.where(p < q, p + q, p * q + (p + q)))
        np.testing.assert_array_equal(v, np.where(q < 0, np.float32(7), p))


def test_extents_that_turn_out_not_to_broadcast_raise(opened: Ways):
    for run in opened.runs:
        with pytest.raises(ValueError, match="RUN0212"):
            run("product", floats(2, 2, 3), floats(3, 3, 4))
        with pytest.raises(ValueError, match="RUN0212"):
            run("sum", floats(2, 1), floats(3, 5))


def test_what_is_only_known_when_it_runs_is_computed(unknown: Ways):
    x, y = floats(3, 4), floats(4)
    for run in unknown.runs:
        np.testing.assert_array_equal(run("sum", x.copy(), y.copy()), x + y)
        np.testing.assert_array_equal(run("halves", x.copy())[1], x[:, 2:])
        np.testing.assert_array_equal(run("taken", x.copy(), -1), x[:, -1])
        np.testing.assert_array_equal(run("shaped", x.copy(), loomir.Shape((2, 6)))[1], x.flat[6:])


@pytest.mark.parametrize(
    ("name", "args", "says"),
    [
        ("sum", (floats(3, 4), floats(3)), r"R.add: the shapes \(3, 4\) and \(3,\) do not"),
        ("halves", (floats(3),), "R.split: axis 1 is not one of a tensor of rank 1"),
        ("taken", (floats(), 0), "R.take: axis -1 is not one of a tensor of rank 0"),
        ("shaped", (floats(3), loomir.Shape((2, 2))), "R.reshape: "),
    ],
    ids=lambda v: v if isinstance(v, str) else "",
)
def test_mistakes_that_show_late_are_told_by_the_operators_rule(
    unknown: Ways, name: str, args: Any, says: str
):
    for run in unknown.runs:
        with pytest.raises(ValueError, match="RUN0212.*" + says):
            run(name, *args)


def test_a_reshape_to_nothing_takes_nothing():
    """That there are as many elements is checked although none is copied."""
    module: Any = loomir.script.from_source(
        """
from loomir.script import ir as I
from loomir.script import relax as R

@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor(("m", 2), "uint16")) -> R.Tensor((0, 1), "uint16"):
        return R.reshape(x, R.shape([0, 1]))
"""
    )
    for run in (lambda x: loomir.interpret(module, "main", x), loomir.compile(module)["main"]):
        assert run(np.zeros((0, 2), "uint16")).shape == (0, 1)
        with pytest.raises(loomir.RunError) as caught:
            run(np.zeros((1, 2), "uint16"))
        assert caught.value.diagnostic.code == "RUN0212"


@pytest.mark.parametrize(
    "known", ['R.Tensor("float32", ndim=3)', 'R.Tensor("float32")', "R.Tensor"]
)
@pytest.mark.parametrize("shape", [(1, 3, 1), (2, 3, 1), (1, 1, 1), (2, 3, 4), (0, 1, 2)])
def test_all_axes_of_one_element_go_where_none_is_known(known: str, shape: tuple[int, ...]):
    mod = loomir.script.from_source(f"""
from loomir.script import ir as I, relax as R
@I.ir_module
class Module:
    @R.function
    def main(x: {known}):
        y = R.squeeze(x)
        return y
""")
    x = np.arange(np.prod(shape), dtype="float32").reshape(shape)
    for y in (loomir.interpret(mod, "main", x), loomir.compile(mod, opt_level=0)["main"](x)):
        np.testing.assert_array_equal(y, np.squeeze(x), strict=True)
