"""Calls of what lies outside of a graph, by the names that users know: run both ways."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import loomir
from loomir.ir import assert_structural_equal
from loomir.ir.visit import by_class
from loomir.relax.expr import Call
from loomir.support.diagnostics import CompileError
from tests.clause import clauses

PROGRAM = """
from loomir.script import ir as I, relax as R, tir as T

@I.ir_module
class Module:
    @T.prim_func
    def scale(a: T.handle, b: T.handle, n: T.int64, k: T.int64):
        A = T.match_buffer(a, (n,), "float32")
        B = T.match_buffer(b, (n,), "float32")
        for i in T.serial(n):
            B[i] = A[i] * T.Cast("float32", k)

    @T.prim_func
    def double(a: T.handle, b: T.handle):
        n = T.int64()
        A = T.match_buffer(a, (n,), "float32")
        B = T.match_buffer(b, (n,), "float32")
        for i in T.serial(n):
            B[i] = A[i] + A[i]

    @R.function
    def python(x: R.Tensor(("n",), "float32")):
        n = T.int64()
        like = R.Tensor((n,), "float32")
        y = R.call_py_func("tests.op.half", (x, R.prim_value(2)), out_sinfo=like)
        z = R.call_py_func("tests.op.pair", (x,), out_sinfo=[like, R.Tensor((1,))])
        return (y, z)

    @R.function(pure=False)
    def builtin(x: R.Tensor(("n",), "float32")):
        n = T.int64()
        like = R.Tensor((n,), "float32")
        y = R.call_builtin_with_ctx("tests.op.half", (x, R.prim_value(4)), sinfo_args=like)
        R.relax_print(y)
        R.relax_assert_op(R.const(True, "bool"))
        return y

    @R.function
    def shown(x: R.Tensor(("n",), "float32")):
        a = R.render_object(x)
        b = R.relax_shape_to_tensor(R.shape_of(x))
        return (a, b)

    @R.function(pure=False)
    def kernel(x: R.Tensor(("n",), "float32")):
        cls = Module
        n = T.int64()
        y = R.builtin.alloc_tensor(R.shape([n]), "float32")
        R.vm.call_tir_dyn(cls.scale, (x, y, R.shape([n, 3])))
        return y

    @R.function(pure=False)
    def written(x: R.Tensor(("n",), "float32"), s: R.Shape(ndim=2)):
        cls = Module
        n = T.int64()
        y = R.builtin.alloc_tensor(R.shape([n]), "float32")
        R.vm.call_tir_dyn(cls.scale, (x, y, s))
        z = R.builtin.alloc_tensor(R.shape([n]), "float32")
        R.vm.call_tir_dyn(cls.double, (y, z))
        return z

    @R.function
    def gradient(x: R.Tensor(("n",), "float32")):
        cls = Module
        n = T.int64()
        y = R.call_tir_with_grad(
            cls.double,
            (x,),
            R.Tensor((n,), "float32"),
            te_grad_name="g",
            te_grad_kwargs={"k": 1, "axes": [0, 2]},
        )
        return y
"""
X = np.array([1, 2, 4], "float32")


@pytest.fixture(scope="module")
def module() -> Any:
    loomir.register_func("tests.op.half", lambda x, by: (x / by).astype("float32"), override=True)
    loomir.register_func("tests.op.pair", lambda x: (x + 1, x[:1]), override=True)
    return loomir.script.from_source(PROGRAM)


@pytest.fixture(scope="module")
def ways(module: Any) -> list[Any]:
    compiled = loomir.compile(module, opt_level=0, cache=False)
    return [
        lambda name, *a: compiled[name](*a),
        lambda name, *a: loomir.interpret(module, name, *a),
    ]


def test_the_program_is_written_and_read_back(module: Any):
    assert loomir.verify(module) == ()
    text = module.script()
    for name in ("relax_print", "relax_assert_op", "relax_shape_to_tensor", "R.Call("):
        assert name not in text
    assert_structural_equal(module, loomir.script.from_source(text))
    (call,) = [c for c in by_class(module["gradient"])[Call] if "te_grad_kwargs" in c.attrs]
    assert call.attrs["te_grad_kwargs"] == {"k": 1, "axes": (0, 2)}


@clauses("RX-VALS-07", "RX-OPS-04a")
def test_functions_of_python_are_called(ways: list[Any], capsys: pytest.CaptureFixture[str]):
    for run in ways:
        half, (more, first) = run("python", X.copy())
        np.testing.assert_array_equal(half, X / 2)
        np.testing.assert_array_equal(more, X + 1)
        np.testing.assert_array_equal(first, X[:1])
        np.testing.assert_array_equal(run("builtin", X.copy()), X / 4)
        assert capsys.readouterr().out == "[0.25 0.5  1.  ]\n"
        text, sizes = run("shown", X.copy())
        assert text == "[1. 2. 4.]"
        np.testing.assert_array_equal(sizes, [3])


@clauses("RX-SEM-23")
def test_kernels_are_called_with_sizes_of_a_shape(ways: list[Any]):
    for run in ways:
        np.testing.assert_array_equal(run("kernel", X.copy()), X * 3)
        np.testing.assert_array_equal(run("written", X.copy(), loomir.Shape((3, 5))), X * 10)
        np.testing.assert_array_equal(run("gradient", X.copy()), X * 2)


@clauses("RX-PUR-02", "RX-DER-14a")
@pytest.mark.parametrize(
    ("old", "new", "code"),
    [
        ("(x, y, R.shape([n, 3]))", "(x, y, R.shape([n]))", "RLX0233"),
        ("(x, y, R.shape([n, 3]))", "(x, R.shape([n, 3]))", "RLX0233"),
        ("s: R.Shape(ndim=2)", "s: R.Shape()", "RLX0234"),
        ('te_grad_kwargs={"k": 1, "axes": [0, 2]}', "te_grad_kwargs=[1]", "OPS0002"),
        ("out_sinfo=like", "out_sinfo=[]", "RLX0239"),
        ("(pure=False)\n    def builtin", "\n    def builtin", "RLX0212"),
        ("(pure=False)\n    def kernel", "\n    def kernel", "RLX0212"),
    ],
)
def test_mistakes_are_refused(old: str, new: str, code: str):
    assert old in PROGRAM
    with pytest.raises(CompileError) as caught:
        loomir.script.from_source(PROGRAM.replace(old, new))
    assert caught.value.diagnostic.code == code


CLOSURES = """
from loomir.script import ir as I
from loomir.script import relax as R

@I.ir_module
class Module:
    @R.function(private=True)
    def keep(i: R.Tensor((), "int8"), x: R.Tensor((3, "a"), "int64")) -> R.Tensor((3, "a"), "int64"):
        return x

    @R.function
    def main(y: R.Tensor((3, 3), "int64"), q: R.Any) -> R.Tensor((3, 3), "int64"):
        cls = Module
        f = R.make_closure(cls.keep, (R.const(2, "int8"), q))
        g = R.make_closure(cls.keep, (y,))
        z: R.Any = R.invoke_pure_closure(f, (), ty_args=R.Any)
        u: R.Any = R.invoke_pure_closure(g, (R.const(1, "int8"),), ty_args=R.Any)
        w = R.match_cast(z, R.Tensor((3, 3), "int64"))
        v = R.match_cast(u, R.Tensor((3, 3), "int64"))
        return R.add(w, v)
"""


def test_what_values_do_not_tell_of_a_closure_is_forgotten():
    """A value of unknown shape leaves the variables of its parameter open: no name is left over."""
    module: Any = loomir.script.from_source(CLOSURES)
    assert loomir.verify(module) == ()
    text = module.script()
    assert 'f: R.Callable((), R.Tensor(dtype="int64", ndim=2))' in text
    assert 'R.Tensor((3, 3), dtype="int64"))' in text
    data = np.arange(9).reshape(3, 3)
    for run in (lambda *a: loomir.interpret(module, "main", *a), loomir.compile(module)["main"]):
        np.testing.assert_array_equal(run(data, data + 1), 2 * data + 1)
