"""Empty statements and unused definitions go; what may fail stays."""

from __future__ import annotations

import pytest

from loomir.transform.tir.remove_no_op import remove_no_op
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
