"""Hints go, and what they say is never evaluated."""

from __future__ import annotations

import pytest

from loomir.transform.tir.simplify.remove_assume import remove_assume
from tests.clause import clauses
from tests.transform.meaning import assert_becomes, assert_stays, check

HEAD = """
@T.prim_func
def main(A: T.Buffer((64,), "int32"), n: T.int32):
"""


def indented(text: str) -> str:
    return HEAD + "\n".join("    " + line for line in text.strip().splitlines()) + "\n"


@clauses("TIR-BLTN-08")
@pytest.mark.parametrize(
    "hint",
    ["T.assume(n // (n - 3) == 2)", "T.assume(A[n * 1000] > 0)", "T.tvm_tuple(1 // (n - 3), n)"],
)
def test_what_is_only_told_goes_and_cannot_fail(hint: str) -> None:
    assert_becomes(remove_assume, indented(f"{hint}\nA[0] = 1"), indented("A[0] = 1"))
    made = check(indented(f"for i in T.vectorized(8):\n    {hint}\n    A[i] = n"))
    assert hint.partition("(")[0] not in made.script()


@clauses("TIR-BLTN-02")
@pytest.mark.parametrize("hint", ["likely", "ignore_loop_partition"])
def test_annotations_are_what_they_hold(hint: str) -> None:
    assert_stays(remove_assume, indented(f"if T.{hint}(n > 3):\n    A[0] = 1"))
    check(indented(f"for i in range(8):\n    if T.{hint}(i < n):\n        A[i] = 1"))
