"""What is bound to threads runs as loops."""

from __future__ import annotations

import pytest

from loomir.support.diagnostics import CompileError
from loomir.transform import lower
from loomir.transform.tir.blocks.lower_thread_binding import lower_thread_binding
from tests.clause import clauses
from tests.transform.meaning import assert_becomes, check, parse

HEAD = """
@T.prim_func
def main(A: T.Buffer((64,), "int32")):
"""


@clauses("TIR-STMT-16")
def test_blocks_of_threads_are_parallel_and_threads_serial():
    assert_becomes(
        lower_thread_binding,
        HEAD
        + """
    for b in T.thread_binding(8, thread="blockIdx.x"):
        for t in T.thread_binding(8, thread="threadIdx.x"):
            A[b * 8 + t] = t
""",
        HEAD
        + """
    for b in T.parallel(8):
        for t in range(8):
            A[b * 8 + t] = t
""",
    )


@clauses("TIR-STMT-03", "TIR-STMT-03a", "TIR-STMT-03b")
def test_attributes_of_threads_are_loops_and_others_go():
    check(
        HEAD
        + """
    v = T.int32()
    w = T.int32()
    with T.attr("anything", "pragma_hint", 1):
        with T.attr(v, "thread_extent", 4):
            with T.attr(w, "virtual_thread", 2):
                A[v * 2 + w] = v - w
"""
    )


@clauses("TIR-STMT-03e")
def test_what_is_volatile_stays_so():
    made = check(
        HEAD
        + """
    with T.attr(A.data, "volatile_scope", 1):
        A[0] = 1
"""
    )
    assert "volatile_scope" in made.script()


def test_threads_of_no_variable_are_refused():
    mod = parse(HEAD + "\n    with T.attr('x', 'thread_extent', 4):\n        A[0] = 1\n")
    with pytest.raises(CompileError) as caught:
        lower(mod)
    assert caught.value.diagnostic.code == "TIR0503"
    assert caught.value.diagnostic.help == "use the variable that runs over the threads"
