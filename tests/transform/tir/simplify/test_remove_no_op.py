"""Empty statements and unused definitions go; what may fail stays."""

from __future__ import annotations

import pytest

import loomir
from loomir.script import from_source
from loomir.transform.tir.simplify.remove_no_op import remove_no_op
from tests.clause import clauses
from tests.transform.meaning import assert_becomes, assert_stays

HEAD = """
@T.prim_func
def main(A: T.Buffer((64,), "int32"), n: T.int32):
"""


def indented(text: str) -> str:
    return HEAD + "\n".join("    " + line for line in text.strip().splitlines()) + "\n"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("T.evaluate(0)\nA[0] = 1", "A[0] = 1"),
        ("T.evaluate(A[0] + n)\nA[0] = 1", "A[0] = 1"),
        ("for i in range(8):\n    T.evaluate(i)\nA[0] = 1", "A[0] = 1"),
        ("if n > 3:\n    pass\nA[0] = 1", "A[0] = 1"),
        ("if n > 3:\n    A[0] = 1\nelse:\n    pass", "if n > 3:\n    A[0] = 1"),
        ("x: T.int32 = n * 2\nA[0] = 1", "A[0] = 1"),
        ("t = T.decl_buffer((4,), 'int32', data=A.data)\nA[0] = 1", "A[0] = 1"),
    ],
)
def test_what_does_nothing_goes(before: str, after: str):
    assert_becomes(remove_no_op, indented(before), indented(after))


@pytest.mark.parametrize(
    "text",
    [
        "x: T.int32 = n // (n - 3)\nA[0] = 1",
        "T.evaluate(n // (n - 3))\nA[0] = 1",
        "for i in range(n):\n    A[0] = 1",
        "t = T.decl_buffer((4,), 'int32', data=A.data)\nt[0] = 1",
    ],
)
def test_what_acts_or_may_fail_stays(text: str):
    assert_stays(remove_no_op, indented(text))


@clauses("TIR-STMT-03e")
def test_loads_of_volatile_memory_stay():
    func = from_source("""
@T.prim_func
def main(A: T.Buffer((4,), "int32"), B: T.Buffer((4,), "int32")):
    with T.attr(A.data, "volatile_scope", 1):
        T.evaluate(A[0])
        T.evaluate(B[0])
        x: T.int32 = A[2]
        A[1] = 5
        A[1] = 6
""")
    lines = loomir.compile(func, cache=False).llvm_ir().splitlines()
    assert sum("load volatile" in line for line in lines) == 2
    assert sum("store volatile" in line for line in lines) == 2
