"""What costs much is computed before the loops in which it does not change, and nothing else."""

from __future__ import annotations

import numpy as np
import pytest

import loomir
from fuzz.tir.engines import disagreement, inputs_of, reference, run_on
from fuzz.tir.generate import program_of_seed
from loomir import te
from loomir.interp import Interpreter
from loomir.ir.module import IRModule
from loomir.ir.visit import by_class, rewrite
from loomir.script import from_source
from loomir.script import tir as T
from loomir.support.dtype import DataType
from loomir.te import topi
from loomir.tir import (
    Add,
    BufferLoad,
    BufferStore,
    Call,
    Cast,
    Div,
    FloatImm,
    For,
    ForKind,
    LetStmt,
    Mul,
    PrimExpr,
    PrimFunc,
    Stmt,
    Var,
    call_builtin,
    const,
    decl_buffer,
    seq,
)
from loomir.transform import lower
from loomir.transform.tir.loops.hoist_expression import HoistOptions, hoist_expression
from loomir.transform.tir.loops.unroll_loop import unroll_loop
from tests.transform.meaning import HEADER, assert_becomes, assert_stays, check, only

HEAD = """
@T.prim_func
def main(
    A: T.Buffer((64,), "float32"),
    B: T.Buffer((64,), "float32"),
    C: T.Buffer((64,), "int32"),
    x: T.float32,
    n: T.int32,
):
"""


def read(text: str) -> PrimFunc:
    """Read a function."""
    made = from_source(text)
    assert isinstance(made, PrimFunc)
    return made


def program(text: str) -> str:
    return HEAD + "\n".join("    " + line for line in text.strip("\n").splitlines()) + "\n"


def becomes(before: str, after: str, options: object = None) -> None:
    assert_becomes(hoist_expression, program(before), program(after), options)


def stays(text: str, options: object = None) -> None:
    assert_stays(hoist_expression, program(text), options)


@pytest.mark.parametrize(
    "value",
    [
        "x / T.float32(3)",
        "T.sqrt(x)",
        "T.exp(x) + x * T.float32(2)",
        "T.pow(x, x)",
        "T.likely(T.tanh(x) < x) == (x < T.sin(x))",
        "n // T.max(n, 1)",
        "n % T.max(n, 1)",
        "T.truncdiv(n, T.min(n, -1))",
        "T.Select(x > T.float32(0), T.log(x), x)",
        "T.Select(x > T.float32(0), x, -x)",
        "T.Select(B[n] > x and B[n] < T.float32(9), B[n] + x, B[n])",
        "T.if_then_else(x > T.float32(0), T.log(x), x)",
        "T.Cast('int32', T.sqrt(x)) + n",
        "T.reinterpret('int32', T.sqrt(x))",
        "B[3] / x",
        "T.floordiv(x, T.float32(7))",
    ],
)
def test_what_is_costly_moves(value: str):
    becomes(
        f"for i in range(8):\n    A[i] = T.Cast('float32', {value}) + T.Cast('float32', i)",
        f"with T.LetStmt(T.Cast('float32', {value})) as v:\n"
        "    for i in range(8):\n        A[i] = v + T.Cast('float32', i)",
    )


@pytest.mark.parametrize(
    "value",
    [
        "x * x + T.float32(3)",
        "T.floor(x)",
        "T.fma(x, x, x)",
        "T.Cast('float32', n // 7)",
        "B[3] + x",
    ],
)
def test_what_is_cheap_stays(value: str):
    stays(f"for i in range(8):\n    A[i] = {value}")


def test_what_is_loaded_under_a_condition_only_stays():
    stays("for i in range(8):\n    A[i] = T.Select(x > T.float32(0) and B[n] < x, x, -x)")


def test_the_largest_expression_moves():
    becomes(
        "for i in range(8):\n    A[i] = (x + T.float32(1) / x) * x + B[i]",
        """
with T.LetStmt((x + T.float32(1) / x) * x) as v:
    for i in range(8):
        A[i] = v + B[i]
""",
    )


def test_out_of_several_loops_at_once():
    becomes(
        """
for i in range(4):
    for j in range(4):
        for k in range(4):
            A[i * 16 + j * 4 + k] = T.exp(x) * T.sqrt(T.Cast("float32", j)) + B[k]
""",
        """
with T.LetStmt(T.exp(x)) as e:
    for i in range(4):
        for j in range(4):
            with T.LetStmt(e * T.sqrt(T.Cast("float32", j))) as v:
                for k in range(4):
                    A[i * 16 + j * 4 + k] = v + B[k]
""",
    )


def test_what_is_equal_is_computed_once_for_a_loop():
    becomes(
        """
for i in range(4):
    A[i] = T.exp(x + T.float32(0.0))
    A[i + 4] = T.exp(x + T.float32(0.0)) + B[i]
    A[i + 8] = T.exp(x + T.float32(-0.0))
    if B[i] > T.float32(0):
        B[i] = T.exp(x + T.float32(0.0))
for i in range(4):
    A[i] = T.exp(x + T.float32(0.0))
""",
        """
with T.LetStmt(T.exp(x + T.float32(0.0))) as v:
    with T.LetStmt(T.exp(x + T.float32(-0.0))) as w:
        for i in range(4):
            A[i] = v
            A[i + 4] = v + B[i]
            A[i + 8] = w
            if B[i] > T.float32(0):
                B[i] = v
with T.LetStmt(T.exp(x + T.float32(0.0))) as u:
    for i in range(4):
        A[i] = u
""",
    )


def test_vectors():
    becomes(
        """
for i in range(4):
    A[i * 4:i * 4 + 4] = B[i * 4:i * 4 + 4] / T.Broadcast(T.sqrt(x), 4)
""",
        """
with T.LetStmt(T.Broadcast(T.sqrt(x), 4)) as v:
    for i in range(4):
        A[i * 4:i * 4 + 4] = B[i * 4:i * 4 + 4] / v
""",
    )


def test_out_of_parallel_loops():
    text = """
for i in T.parallel(8):
    A[i * 4:i * 4 + 4] = B[i * 4:i * 4 + 4] / T.Broadcast(T.sqrt(x), 4)
"""
    becomes(
        text,
        """
with T.LetStmt(T.Broadcast(T.sqrt(x), 4)) as v:
    for i in T.parallel(8):
        A[i * 4:i * 4 + 4] = B[i * 4:i * 4 + 4] / v
""",
    )
    made = loomir.compile(from_source(HEADER + program(text)), cache=False)
    a, b = np.zeros(64, "float32"), np.arange(64, dtype="float32")
    made(a, b, np.zeros(64, "int32"), 9.0, 0)
    np.testing.assert_array_equal(a[:32], b[:32] / np.float32(3))


def test_bounds_and_conditions_of_what_is_inside():
    becomes(
        """
for i in range(8):
    if T.sqrt(x) > B[i]:
        for j in range(T.Cast("int32", T.exp(x))):
            A[i] = B[i]
    y: T.float32 = T.log(x)
    A[i] = A[i] + y
""",
        """
with T.LetStmt(T.sqrt(x)) as s:
    with T.LetStmt(T.Cast("int32", T.exp(x))) as e:
        with T.LetStmt(T.log(x)) as l:
            for i in range(8):
                if s > B[i]:
                    for j in range(e):
                        A[i] = B[i]
                y: T.float32 = l
                A[i] = A[i] + y
""",
    )


# -- variables -----------------------------------------------------------------------------------


def test_no_further_than_where_variables_are_bound():
    becomes(
        """
for i in range(4):
    y: T.float32 = B[i]
    for j in range(4):
        z: T.float32 = y + B[j]
        A[i * 4 + j] = T.exp(y) + T.exp(z) + T.sqrt(T.Cast("float32", i))
""",
        """
for i in range(4):
    y: T.float32 = B[i]
    with T.LetStmt(T.exp(y)) as e:
        with T.LetStmt(T.sqrt(T.Cast("float32", i))) as s:
            for j in range(4):
                z: T.float32 = y + B[j]
                A[i * 4 + j] = e + T.exp(z) + s
""",
    )


def test_a_let_moves_as_a_whole_and_not_what_uses_its_variable():
    becomes(
        """
y = T.float32()
z = T.float32()
for i in range(4):
    A[i] = T.Let(T.exp(y) * y, where={y: x * x}) + B[i]
    A[i + 4] = T.Let(T.exp(z) * B[i], where={z: T.sqrt(x)})
""",
        """
y = T.float32()
z = T.float32()
with T.LetStmt(T.Let(T.exp(y) * y, where={y: x * x})) as v:
    with T.LetStmt(T.sqrt(x)) as s:
        for i in range(4):
            A[i] = v + B[i]
            A[i + 4] = T.Let(T.exp(z) * B[i], where={z: s})
""",
    )


# -- divisions of integers -----------------------------------------------------------------------


@pytest.mark.parametrize(
    "value",
    [
        "n // (n + 5)",
        "n % C[0]",
        "T.truncmod(n, n)",
        "n // T.max(C[i], 0)",
        "T.Cast('int32', T.sqrt(T.Cast('float32', n // (n + 5))))",
    ],
)
def test_what_may_divide_by_zero_stays(value: str):
    stays(f"for i in range(8):\n    C[i + 8] = {value}")


def test_a_division_under_a_condition_moves_with_another_divisor_for_0():
    becomes(
        "for i in range(8):\n    if n > 0:\n        C[i] = 77 // n",
        """
with T.LetStmt(77 // T.Select(n == 0, 1, n)) as q:
    for i in range(8):
        if n > 0:
            C[i] = T.if_then_else(n != 0, q, 77 // n)
""",
    )


def test_divisions_in_divisions_move_together():
    becomes(
        """
for i in range(2):
    if A[i] > x:
        for j in range(4):
            C[i * 4 + j] = 77 // n % (n // 3) + 1 + j
""",
        """
with T.LetStmt(77 // T.Select(n == 0, 1, n) % T.Select(n // 3 == 0, 1, n // 3) + 1) as q:
    for i in range(2):
        if A[i] > x:
            for j in range(4):
                C[i * 4 + j] = T.if_then_else(n != 0 and n // 3 != 0, q, 77 // n % (n // 3) + 1) + j
""",
    )


def test_a_load_stays_whose_index_may_be_outside_for_another_divisor():
    becomes(
        "for i in range(8):\n    if B[i] > x:\n        A[i] = T.exp(B[n // C[3]])",
        """
with T.LetStmt(n // T.Select(C[3] == 0, 1, C[3])) as q:
    for i in range(8):
        if B[i] > x:
            A[i] = T.exp(B[T.if_then_else(C[3] != 0, q, n // C[3])])
""",
    )


def test_quotients_of_branches_are_addresses_in_all_lanes():
    """LLVM's vectoriser takes the address of its first lane, even if that skips the division."""
    made = read(
        """
@T.prim_func
def main(
    key: T.Buffer((n, 33), "int32"),
    x: T.Buffer((n, 33), "int16"),
    y: T.Buffer((n, 33), "int16"),
    out: T.Buffer((16,), "int16"),
    least: T.int32,
):
    for i in range(n):
        for j in range(33):
            if x[i, j] <= j or least >= y[i % 3 % n, j]:
                out[key[i, j] & 15] = y[i, 32 - j]
"""
    )
    rng = np.random.default_rng(0)
    for schedule in (True, False):
        run = loomir.compile(made, schedule=schedule)
        for n in (1, 2, 3, 5):
            key = rng.integers(0, 16, (n, 33), "int32")
            x, y = rng.integers(-40, 40, (2, n, 33), "int16")
            out, want = np.zeros((2, 16), "int16")
            run(key, x, y, out, 0)
            for i in range(n):
                for j in range(33):
                    if x[i, j] <= j or y[i % 3 % n, j] <= 0:
                        want[key[i, j]] = y[i, 32 - j]
            np.testing.assert_array_equal(out, want)


def test_the_variable_of_a_loop_as_divisor():
    becomes(
        """
for i in range(1, 5):
    for j in range(4):
        C[i * 4 + j] = n // i + j
""",
        """
for i in range(1, 5):
    with T.LetStmt(n // i) as q:
        for j in range(4):
            C[i * 4 + j] = q + j
""",
    )
    stays("for i in range(4):\n    for j in range(4):\n        C[i * 4 + j] = n // i + j")
    # That a loop has iterations says nothing before it.
    stays("for i in range(n):\n    C[i] = 77 // n")


# -- loads ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "write",
    [
        "A[9] = B[i]",
        "A[C[i] % 64] = B[i]",
        "D = T.decl_buffer((8,), 'float32', data=A.data)\nD[i] = B[i]",
        "for j in range(2):\n    A[j] = B[j]",
        "if n > 3:\n    A[3] = B[i]",
        "T.evaluate(T.call_extern('int32', 'abs', n))",
        "T.evaluate(T.call_packed('nothing', A.data))",
    ],
)
def test_a_load_stays_where_the_loop_may_write_what_it_reads(write: str):
    body = "\n".join("    " + line for line in write.splitlines())
    text = f"for i in range(8):\n{body}\n    B[i + 8] = T.exp(A[3])"
    func = read(HEADER + program(text))
    assert hoist_expression(func) is func
    reader = "for i in range(8):\n    B[i + 8] = T.exp(A[3])"
    func = read(HEADER + program(reader))
    assert hoist_expression(func) is not func


def test_a_load_moves_out_of_the_loops_that_do_not_write_it():
    becomes(
        """
for i in range(4):
    A[0] = B[i]
    for j in range(4):
        for k in range(4):
            B[4 + i * 4 + j] = T.exp(A[0]) + B[k]
    for j in range(4):
        B[j + 32] = B[j] / A[j + 5]
""",
        """
for i in range(4):
    A[0] = B[i]
    with T.LetStmt(T.exp(A[0])) as v:
        for j in range(4):
            for k in range(4):
                B[4 + i * 4 + j] = v + B[k]
    for j in range(4):
        B[j + 32] = B[j] / A[j + 5]
""",
    )


def test_arrays_that_may_overlap():
    text = "for i in range(8):\n    A[i] = T.exp(B[3]) + x"
    stays(text, HoistOptions(allow_alias=True))
    becomes(
        text,
        "with T.LetStmt(T.exp(B[3]) + x) as v:\n    for i in range(8):\n        A[i] = v",
    )
    # Own memory overlaps nothing.
    own = """
d = T.allocate([1], "float32", "local")
t = T.decl_buffer((1,), "float32", data=d)
t[0] = x
"""
    becomes(
        own + "for i in range(8):\n    A[i] = T.exp(t[0])",
        own + "with T.LetStmt(T.exp(t[0])) as v:\n    for i in range(8):\n        A[i] = v",
        HoistOptions(allow_alias=True),
    )


def test_overlapping_arrays_when_compiled():
    func = read(HEADER + program("for i in range(8):\n    A[i] = T.exp(B[3] * x)"))
    run = loomir.compile(func, allow_alias=True, cache=False)
    a = np.full(64, 0.5, "float32")
    run(a, a, np.zeros(64, "int32"), 1.0, 0)
    once = np.exp(np.float32(0.5))
    twice = np.exp(once)
    np.testing.assert_allclose(a[:8], [once] * 4 + [twice] * 4, rtol=1e-6)


def test_memory_whose_address_is_taken():
    own = """
d = T.allocate([1], "float32", "local")
t = T.decl_buffer((1,), "float32", data=d)
t[0] = x
"""
    stays(
        own
        + """
p: T.handle("float32") = d
D = T.decl_buffer((1,), "float32", data=p)
for i in range(8):
    A[i] = T.exp(t[0])
    D[0] = B[i]
"""
    )
    stays(
        own
        + """
p: T.handle("float32") = d
D = T.decl_buffer((1,), "float32", data=p)
for i in range(8):
    A[i] = T.exp(D[0])
    t[0] = B[i]
"""
    )


def test_volatile_memory_stays():
    stays(
        """
with T.attr(B.data, "volatile_scope", 1):
    for i in range(8):
        A[i] = T.exp(B[3])
"""
    )


@pytest.mark.parametrize(
    "loop",
    [
        # the loop may have no iterations
        "for i in range(n):\n    A[i] = T.exp(B[n])",
        # not in each iteration
        "for i in range(8):\n    if i < n:\n        A[i] = T.exp(B[n])",
        "for i in range(8):\n    A[i] = T.if_then_else(i < n, T.exp(B[n]), x)",
        "for i in range(8):\n    C[i] = T.Cast('int32', i < n and T.exp(B[n]) > x)",
        "for i in range(8):\n    C[i] = T.Cast('int32', i < n or T.exp(B[n]) > x)",
        # not after what may end the iteration, or the program
        "for i in range(8):\n    if n > 6:\n        break\n    A[i] = T.exp(B[n])",
        "for i in range(8):\n    if n > 6:\n        continue\n    A[i] = T.exp(B[n])",
        "for i in range(8):\n    assert n < 6, 'n'\n    A[i] = T.exp(B[n])",
        "for i in range(8):\n    C[i] = 77 // n\n    A[i] = T.exp(B[n])",
        (
            "for i in range(8):\n    for j in range(n, n + 2):\n        C[i] = j\n"
            "    A[i] = T.exp(B[n])"
        ),
        (
            "for i in range(8):\n    d = T.allocate([n], 'int32', 'global')\n"
            "    t = T.decl_buffer((n,), 'int32', data=d)\n    t[0] = 1\n    A[i] = T.exp(B[n])"
        ),
        "for i in T.serial(n, 8):\n    A[i] = T.exp(B[n])",
        "for i in range(8):\n    while C[i] > n:\n        C[i] = n\n    A[i] = T.exp(B[n])",
    ],
)
def test_a_load_stays_where_it_might_not_be_made(loop: str):
    func = read(HEADER + program(loop))
    assert hoist_expression(func) is func


@pytest.mark.parametrize(
    ("array", "view"),
    [
        ("D: T.Buffer((m, m), 'float32')", ""),
        ("S: T.Buffer((8,), 'float32', strides=(0,))", "data=S.data"),
        ("S: T.Buffer((4,), 'float32')", "data=S.data"),
        ("S: T.Buffer((8,), 'float32')", "data=S.data, elem_offset=n"),
        ("S: T.Buffer((8,), 'float32')", "data=S.data, strides=(n,)"),
    ],
)
def test_an_element_stays_that_may_not_be_in_the_array(array: str, view: str):
    line = f"    D = T.decl_buffer((8,), 'float32', {view})\n" if view else "    pass\n"
    element = "D[7]" if view else "D[0, 0]"
    func = read(
        f"""{HEADER}
@T.prim_func
def main(a: T.handle, A: T.Buffer((64,), "float32"), n: T.int32):
    m = T.int32()
    {array.replace(": T.Buffer(", " = T.match_buffer(a, ")}
{line}    for i in range(n):
        A[i] = T.exp({element})
"""
    )
    assert hoist_expression(func) is func


def test_an_element_of_a_view_and_of_an_array_with_strides():
    view = "T.decl_buffer((8,), 'float32', data=S.data)"
    for declared in (
        "D = T.match_buffer(a, (8,), 'float32', strides=(n,))",
        f"S = T.match_buffer(a, (8,), 'float32')\n    D = {view}",
    ):
        func = read(
            f"""{HEADER}
@T.prim_func
def main(a: T.handle, A: T.Buffer((64,), "float32"), n: T.int32):
    {declared}
    for i in range(n):
        A[i] = T.exp(D[7])
"""
        )
        assert len(by_class(hoist_expression(func).body)[LetStmt]) == 1


def test_an_element_that_no_array_has_is_not_loaded():
    func = read(
        HEADER
        + program(
            "for i in range(n):\n    for k in T.unroll(62, 66):\n"
            "        if k < n:\n            A[i] = T.exp(B[k])"
        )
    )
    made = hoist_expression(unroll_loop(func))
    found = [s.value.args[0].indices[0].value for s in by_class(made.body)[LetStmt]]
    assert found == [62, 63]


def test_a_load_of_any_index_where_each_iteration_makes_it():
    becomes(
        "for i in range(8):\n    A[i] = T.exp(B[n])",
        "with T.LetStmt(T.exp(B[n])) as v:\n    for i in range(8):\n        A[i] = v",
    )
    becomes(
        """
for i in range(8):
    if n > 4:
        for j in range(4):
            A[i] = T.exp(B[n]) + B[j]
""",
        """
for i in range(8):
    if n > 4:
        with T.LetStmt(T.exp(B[n])) as v:
            for j in range(4):
                A[i] = v + B[j]
""",
    )


def test_a_constant_element_of_an_array_wherever_it_is_loaded():
    becomes(
        "for i in range(n):\n    if i < 4:\n        A[i] = T.exp(B[63])",
        "with T.LetStmt(T.exp(B[63])) as v:\n"
        "    for i in range(n):\n        if i < 4:\n            A[i] = v",
    )


OWN = """
d = T.allocate([2], "float32", "local")
t = T.decl_buffer((2,), "float32", data=d)
"""


def test_an_element_of_own_memory_that_was_stored():
    becomes(
        OWN + "t[1] = x\nfor i in range(n):\n    A[i] = T.exp(t[1])",
        OWN
        + "t[1] = x\nwith T.LetStmt(T.exp(t[1])) as v:\n    for i in range(n):\n        A[i] = v",
    )


@pytest.mark.parametrize(
    "loop",
    [
        "t[0] = x\nfor i in range(n):\n    A[i] = T.exp(t[1])",
        "if n > 2:\n    t[1] = x\nfor i in range(n - 2):\n    A[i] = T.exp(t[1])",
        "for i in range(n):\n    t[1] = x\nfor i in range(n):\n    A[i] = T.exp(t[1])",
    ],
)
def test_own_memory_of_which_nothing_is_known_stays(loop: str):
    func = read(HEADER + program(OWN + loop))
    assert hoist_expression(func) is func


def test_memory_that_each_iteration_has_for_itself():
    becomes(
        """
for i in range(8):
    d = T.allocate([2], "float32", "local")
    t = T.decl_buffer((2,), "float32", data=d)
    t[1] = B[i]
    for j in range(4):
        A[i * 4 + j] = T.exp(t[1]) + B[j]
""",
        """
for i in range(8):
    d = T.allocate([2], "float32", "local")
    t = T.decl_buffer((2,), "float32", data=d)
    t[1] = B[i]
    with T.LetStmt(T.exp(t[1])) as v:
        for j in range(4):
            A[i * 4 + j] = v + B[j]
""",
    )


def test_a_view_that_each_iteration_declares():
    view = "T.decl_buffer((8,), 'float32', data=B.data, elem_offset=i)"
    becomes(
        f"""
for i in range(8):
    D = {view}
    for j in range(4):
        A[i * 4 + j] = T.exp(D[0])
""",
        f"""
for i in range(8):
    D = {view}
    with T.LetStmt(T.exp(D[0])) as v:
        for j in range(4):
            A[i * 4 + j] = v
""",
    )


def test_a_load_stays_in_a_loop_whose_variable_may_not_count_so_far():
    handles, n, i = [Var("a", "handle"), Var("b", "handle")], Var("n", "int32"), Var("i", "int32")
    a, b = decl_buffer((64,), "float32", "A"), decl_buffer((64,), "float32", "B")

    def function(first: PrimExpr) -> PrimFunc:
        store = BufferStore(a, call_builtin("exp", BufferLoad(b, (n,))), (i - first,))
        loop = For(i, first, const(8, "int32"), ForKind.SERIAL, store)
        return PrimFunc((*handles, n), loop, None, {handles[0]: a, handles[1]: b})

    assert not isinstance(hoist_expression(function(const(2, "int32"))).body, For)
    func = function(n)
    assert hoist_expression(func) is func


# -- what else stays -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "A[0] = T.exp(x)",
        "while A[0] > T.exp(x):\n    A[0] = x",
        "for i in range(8):\n    A[i] = T.exp(B[i])",
        "for i in range(T.Cast('int32', T.exp(x))):\n    A[i] = x",
        "for i in range(8):\n    T.evaluate(T.call_extern('int32', 'abs', n // T.max(n, 1)))",
        "for i in range(8):\n    A[i] = T.call_pure_extern('float32', 'expf', x) / B[i]",
        "for i in range(8):\n    A[i] = T.undef('float32') / x",
    ],
)
def test_nothing_to_do(text: str):
    func = read(HEADER + program(text))
    assert hoist_expression(func) is func


def test_checked_and_watched_programs_report_the_same():
    text = program(
        "for i in range(n):\n    if n < 70:\n        A[i % 64] = T.exp(B[n]) + T.sqrt(x)\n"
    )
    for options in ({"check_bounds": True}, {"checked": True}):
        run = loomir.compile(from_source(HEADER + text), cache=False, **options)  # type: ignore[arg-type]
        given = [np.zeros(64, "float32"), np.zeros(64, "float32"), np.zeros(64, "int32"), 1.0]
        run(*given, 70)
        with pytest.raises(loomir.RunError, match="index 64 is outside of axis 0 of B"):
            run(*given, 64)


def test_norms_take_one_root_for_a_row():
    x = te.placeholder((16, 64), "float32", name="x")
    squares = topi.sum(topi.multiply(x, x), axis=1)
    out = te.compute((16, 64), lambda i, j: x[i, j] / T.sqrt(squares[i] + T.float32(1e-5)))
    made = check(te.create_prim_func([x, out]).script())
    roots = 0
    for loop in by_class(only(made).body)[For]:
        calls = [c.op.name for c in by_class(loop).get(Call, ())]
        roots += calls.count("tir.sqrt")
        assert For in by_class(loop.body) or "tir.sqrt" not in calls
    assert roots


# -- programs of any kind ------------------------------------------------------------------------


def disguised(load: BufferLoad) -> PrimExpr:
    """Make a costly expression of the same value, where a double has all values of a dtype."""
    dtype = load.dtype
    if dtype.bits > 32:
        return load
    double = DataType("float64").with_lanes(dtype.lanes)
    return Cast(Div(Cast(load, double), const(1.0, double)), dtype)


def test_drawn_programs_whose_loads_are_all_costly_mean_the_same():
    changed = 0
    for seed in range(80):
        drawn = program_of_seed(seed)
        stages: dict[str, IRModule] = {}
        lower(drawn.module, on_stage=stages.setdefault)
        functions = {
            var: rewrite(func, {BufferLoad: disguised})
            for var, func in stages["tir.UnrollLoop"].functions.items()
        }
        made = {var: hoist_expression(func) for var, func in functions.items()}
        if made == functions:
            continue
        changed += 1
        inputs = inputs_of(drawn, seed)
        wanted = reference(drawn, drawn.module, inputs)
        interpreter = Interpreter(drawn.module.with_functions(made), flat=True)
        for how, outcome in wanted.items():
            got = run_on(lambda f, args: interpreter.call(f, args, {}), drawn, inputs[how])  # noqa: B023
            assert not disagreement(drawn, outcome, got), seed
    assert changed > 8


def nest(depth: int) -> PrimFunc:
    """Make so many loops around each other, with a store in each."""
    handles = [Var(name, "handle") for name in "ab"]
    a, b = decl_buffer((64,), "float32", "A"), decl_buffer((64,), "float32", "B")
    zero = const(0, "int32")
    body: Stmt | None = None
    for k in range(depth):
        i = Var("i", "int32")
        value = call_builtin("exp", BufferLoad(b, (const(k % 64, "int32"),)))
        here: Stmt = BufferStore(a, Div(value, FloatImm(3.0, value.dtype)), (i,))
        inner = here if body is None else seq([here, body])
        body = For(i, zero, const(1 + k % 2, "int32"), ForKind.SERIAL, inner)
    assert body is not None
    return PrimFunc(tuple(handles), body, None, {handles[0]: a, handles[1]: b})


def test_deep_nests():
    made = hoist_expression(nest(3_000))
    at = made.body
    depth = 0
    while not isinstance(at, For):
        at, depth = at.body, depth + 1  # type: ignore[attr-defined]
    assert depth == 64
    assert not any(Call in by_class(s.value) for s in by_class(at)[BufferStore])


def test_deep_expressions_and_parts_that_are_shared():
    x, i = Var("x", "float32"), Var("i", "int32")
    handle, a = Var("a", "handle"), decl_buffer((64,), "float32", "A")
    value: PrimExpr = call_builtin("exp", x)
    for _ in range(3_000):
        value = Add(value, x)
    for _ in range(3):
        value = Mul(value, value)
    store = BufferStore(a, Add(value, BufferLoad(a, (i,))), (i,))
    loop = For(i, const(0, "int32"), const(8, "int32"), ForKind.SERIAL, store)
    made = hoist_expression(PrimFunc((handle, x), loop, None, {handle: a}))
    assert getattr(made.body, "value") is value  # noqa: B009 - of a let
