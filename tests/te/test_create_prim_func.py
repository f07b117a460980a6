"""Functions made of tensors."""

from __future__ import annotations

import numpy as np

import loomir
from loomir import te
from loomir.ir.module import GlobalVar, IRModule
from tests.te.running import checked, run_both
from tests.tir.refusal import refused


def chain():
    """Return an input, a tensor between, and an output."""
    a = te.placeholder((3,), name="A")
    b = te.compute((3,), lambda i: a[i] + 1.0, name="B")
    return a, b, te.compute((3,), lambda i: b[i] * b[2 - i], name="C")


def test_what_lies_between_is_allocated_once():
    a, b, c = chain()
    d = te.compute((3,), lambda i: b[i] + c[i], name="D")
    x = np.arange(3, dtype="float32")
    y = x + 1
    func = run_both([a, d], [x], [y + y * y[::-1]])
    assert func.script().count("alloc_buffer") == 2


def test_arguments_may_come_in_any_order():
    a, b, c = chain()
    func = checked([c, b, a], name="transposed")
    x, y, z = np.arange(3, dtype="float32"), np.zeros(3, "float32"), np.zeros(3, "float32")
    for run in (loomir.compile(func, opt_level=1), loomir.interpret):
        args = (z, y, x) if run is not loomir.interpret else (func, z, y, x)
        y[:], z[:] = 0, 0
        run(*args)
        np.testing.assert_array_equal(y, x + 1)
        np.testing.assert_array_equal(z, (x + 1) * (x + 1)[::-1])
    assert func.name == "transposed"


def test_tensors_of_one_name_become_buffers_of_many():
    a = te.placeholder((2,), name="T")
    b = te.compute((2,), lambda i: a[i] + 1.0, name="T")
    c = te.placeholder((2,), name="T_1")
    d = te.compute((2,), lambda i: b[i] * c[i], name="T")
    func = checked([a, c, d])
    assert [x.name for x in func.buffer_map.values()] == ["T", "T_1", "T_2"]
    x = np.arange(2, dtype="float32")
    run_both([a, c, d], [x, x], [(x + 1) * x])


def test_a_function_of_what_is_given_does_nothing():
    a = te.placeholder((2,), name="A")
    run_both([a], [np.ones(2, "float32")], [])
    assert checked([]).params == ()


def test_functions_join_modules():
    a, _, c = chain()
    module = IRModule(
        {GlobalVar(n): te.create_prim_func([a, c], name=n) for n in ("first", "second")}
    )
    assert loomir.verify(module) == ()


def test_long_chains_do_not_exhaust_the_stack():
    a = last = te.placeholder((1,), name="A")
    for _ in range(3000):
        last = te.compute((1,), lambda i, t=last: t[i] + 1.0, name="B")
    func = te.create_prim_func([a, last])
    assert len(func.body.block.alloc_buffers) == 2999


def test_mistakes_in_arguments():
    a, b, c = chain()
    with refused("TE0010", "placeholder 'A' is needed"):
        te.create_prim_func([c])
    with refused("TE0010", "'A' is given twice"):
        te.create_prim_func([a, c, a])
    for wrong in (np.zeros(3), [a], "A", None, 3):
        with refused("TE0010", "cannot be an argument"):
            te.create_prim_func([a, c, wrong])
    n = te.var("n")
    with refused("TE0010", "'n' is given twice"):
        te.create_prim_func([n, n])
    assert b.ndim == 1
