"""Bounds checks are made once, at the entry, where sizes decide them; the loops are scheduled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import loomir
from loomir.ir.module import GlobalVar
from loomir.script import from_source, parse_file
from loomir.script import tir as T
from loomir.tir.function import PrimFunc
from loomir.transform.tir.instrument.split_bounds_checks import split_bounds_checks


def read(body: str, arguments: str) -> PrimFunc:
    lines = "\n".join(f"    {line}" for line in body.strip("\n").split("\n"))
    made = from_source(f"@T.prim_func\ndef kernel({arguments}):\n{lines}\n")
    assert isinstance(made, PrimFunc)
    return made


def outcome(call: Callable[..., object], arrays: list[Any], numbers: list[int]) -> tuple[Any, ...]:
    """Call, and give what the arrays hold then and what was raised."""
    copies = [np.array(a) for a in arrays]
    problem = None
    try:
        call(*copies, *numbers)
    except loomir.RunError as error:
        (only,) = error.diagnostics
        problem = (only.code, only.message)
    return (*[c.tolist() for c in copies], problem)


VECTORS = 'x: T.Buffer(("n",), "float32"), y: T.Buffer(("m",), "float32")'
COPY = "for i in range(n):\n    y[i] = x[i] + T.float32(1)"
WINDOW = "for i in range(m):\n    y[i] = x[i] + x[i + 1]"
STRIDED = "for i in range(m):\n    y[i] = x[2 * i + 1]"
BACKWARDS = "for i in range(n):\n    y[n - 1 - i] = x[i]"
PADDED = """
for i in range(m):
    y[i] = T.if_then_else(1 <= i and i < n, x[i - 1], T.float32(0))
"""
BRANCH = """
for i in range(m):
    if i < n:
        y[i] = x[i]
"""
INNER = """
for i in range(m):
    y[i] = T.float32(0)
    for k in range(3):
        y[i] += x[i + k]
"""
BLOCK = """
for i in range(n):
    with T.sblock("copy"):
        vi = T.axis.spatial(n, i)
        T.where(i < 100)
        y[vi] = x[vi]
"""
LET = """
for i in range(n):
    k: T.let = i + 1
    y[k] = x[i]
"""
ALLOCATED = """
z = T.alloc_buffer((n,), "float32")
for i in range(m):
    z[i] = x[i]
for i in range(m):
    y[i] = z[i]
"""


@pytest.mark.parametrize("sizes", [(0, 0), (1, 1), (40, 40), (40, 41), (41, 40), (40, 19), (5, 0)])
@pytest.mark.parametrize(
    "body", [COPY, WINDOW, STRIDED, BACKWARDS, PADDED, BRANCH, INNER, BLOCK, LET, ALLOCATED]
)
def test_checked_code_does_what_the_interpreter_does(body: str, sizes: tuple[int, int]):
    func = read(body, VECTORS)
    arrays = [np.arange(size, dtype="float32") for size in sizes]
    run = loomir.compile(func, check_bounds=True)
    wanted = outcome(lambda *args: loomir.interpret(func, "kernel", *args), arrays, [])
    assert outcome(run, arrays, []) == wanted


def test_indices_from_memory_are_checked_where_they_are_read():
    arguments = VECTORS + ', at: T.Buffer(("n",), "int64")'
    for body in (
        "for i in range(n):\n    x[i] = y[at[i]]",
        "for i in range(n):\n    y[at[i]] = x[i]",
        "for i in range(n):\n    if at[i] < m:\n        y[at[i]] = x[i]",
        "for i in range(n):\n    y[at[at[i]]] = x[i]",
    ):
        func = read(body, arguments)
        run = loomir.compile(func, check_bounds=True)
        for at in ([0, 1, 2], [2, 2, 0], [0, 3, 1], [-1, 0, 0], [0, 0, 2**62]):
            arrays = [np.ones(3, "float32"), np.ones(3, "float32"), np.array(at)]
            wanted = outcome(lambda *a, f=func: loomir.interpret(f, "kernel", *a), arrays, [])
            assert outcome(run, arrays, []) == wanted


def test_conditions_on_memory_prove_nothing():
    body = """
if at[0] < 3:
    at[0] = T.int64(1000000000)
    y[at[0]] = x[0]
"""
    func = read(body, VECTORS + ', at: T.Buffer((1,), "int64")')
    run = loomir.compile(func, check_bounds=True)
    with pytest.raises(loomir.RunError, match="index 1000000000 is outside of axis 0 of y"):
        run(np.ones(3, "float32"), np.ones(3, "float32"), np.zeros(1, "int64"))


@pytest.mark.parametrize(
    ("dtype", "values"),
    [
        ("int64", (0, 3, 4, -1, 2**63 - 1, -(2**63), 2**32, 2**31)),
        ("int32", (0, 3, 4, -1, 2**31 - 1, -(2**31))),
        ("uint64", (0, 3, 4, 2**63 - 1)),
        ("uint8", (0, 3, 4, 255)),
    ],
)
def test_numbers_that_are_passed_never_wrap_past_the_checks(dtype: str, values: tuple[int, ...]):
    body = "for i in range(n):\n    y[T.int64(i) + T.int64(c)] = x[i]"
    func = read(body, f"{VECTORS}, c: T.{dtype}")
    run = loomir.compile(func, check_bounds=True)
    arrays = [np.arange(5, dtype="float32"), np.zeros(8, "float32")]
    for value in values:
        wanted = outcome(lambda *a: loomir.interpret(func, "kernel", *a), arrays, [value])
        assert outcome(run, arrays, [value]) == wanted


PRODUCT = """
for i, j in T.grid(16, 16):
    y[i, j] = T.float32(0)
    for k in range(16):
        y[i, j] += x[i, k] * x[k, j]
"""
PROVED = [
    ("for i in range(16):\n    y[i] = x[i]", (16,), (16,)),
    ("for i in range(14):\n    y[i] = x[i] + x[i + 1] + x[i + 2]", (16,), (16,)),
    (
        "for i in range(16):\n    y[i] = T.if_then_else(0 < i, x[i - 1], T.float32(0))",
        (16,),
        (16,),
    ),
    (
        PRODUCT,
        (16, 16),
        (16, 16),
    ),
]


@pytest.mark.parametrize(("body", "x", "y"), PROVED)
def test_what_loops_prove_costs_nothing(body: str, x: tuple[int, ...], y: tuple[int, ...]):
    func = read(body, f'x: T.Buffer({x}, "float32"), y: T.Buffer({y}, "float32")')
    plain = loomir.compile(func, cache=False).assembly()
    assert loomir.compile(func, cache=False, check_bounds=True).assembly() == plain


def test_sizes_that_agree_prove_it_too():
    func = read(
        "for i in range(n):\n    y[i] = x[i] * T.float32(2)",
        'x: T.Buffer(("n",), "float32"), y: T.Buffer(("n",), "float32")',
    )
    made = split_bounds_checks(func)
    assert made is not None
    assert made.fast is func


def test_memory_with_two_names_is_left_to_the_checks_of_each_access():
    @T.prim_func
    def views(x: T.Buffer((16,), "float32"), y: T.Buffer((16,), "float32"), n: T.int32):
        z = T.decl_buffer((8,), "float32", data=x.data)
        for i in range(n):
            y[i] = z[i]

    assert split_bounds_checks(views) is None
    run = loomir.compile(views, check_bounds=True)
    with pytest.raises(loomir.RunError, match="index 8 is outside of axis 0 of z"):
        run(np.ones(16, "float32"), np.ones(16, "float32"), 16)


UNTRUSTED = f"""
@T.prim_func
def kernel({VECTORS}):
    T.func_attr({{"tir.bounds_checked": True}})
    for i in range(n):
        y[i] = x[i]
"""


def test_untrusted_text_is_compiled_with_checks():
    x, y = np.ones(9, "float32"), np.zeros(8, "float32")
    func = from_source(UNTRUSTED, trusted=False)
    again = from_source(func.script())
    (parsed,) = parse_file(UNTRUSTED, trusted=False).values()
    text = UNTRUSTED.replace("\n", "\n    ").replace("kernel(", "kernel(")
    module = from_source(f"@I.ir_module\nclass M:{text}", trusted=False)
    ways: list[dict[str, Any]] = [{}, {"schedule": False}, {"opt_level": 0}]
    for program in (func, again, parsed, module):
        for options in ways:
            with pytest.raises(loomir.RunError, match="index 8 is outside of axis 0 of y"):
                loomir.compile(program, **options)(x, y)
    assert "untrusted" in func.attrs
    plain = loomir.compile(from_source(UNTRUSTED), cache=False).llvm_ir()
    assert loomir.compile(func, check_bounds=False, cache=False).llvm_ir() == plain


def test_graphs_of_untrusted_text_are_checked():
    text = """
@I.ir_module
class M:
    @T.prim_func
    def copy(x: T.Buffer(("n",), "float32"), y: T.Buffer((2,), "float32")):
        for i in range(n):
            y[i] = x[i]

    @R.function
    def main(x: R.Tensor(("n",), "float32")):
        cls = M
        with R.dataflow():
            y = R.call_tir(cls.copy, (x,), out_sinfo=R.Tensor((2,), "float32"))
            R.output(y)
        return y
"""
    module = from_source(text, trusted=False)
    assert all(f.attrs["untrusted"] for f in module.functions.values())
    assert isinstance(next(iter(module.functions)), GlobalVar)
    run = loomir.compile(module)
    assert run(np.ones(2, "float32")).tolist() == [1, 1]
    with pytest.raises(loomir.RunError, match="index 2 is outside of axis 0 of y"):
        run(np.ones(3, "float32"))
