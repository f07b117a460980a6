from __future__ import annotations

import pytest

from loomir.tir import (
    MatchBufferRegion,
    SeqStmt,
    convert,
    decl_buffer,
    signature_of,
    written_buffers,
)
from loomir.tir.signature import Field
from tests.clause import clauses
from tests.tir.programs import NOTHING, block, func, ret, store, use, var
from tests.tir.refusal import refused

N, M, S, O = (var(name, "int64") for name in "nmso")  # noqa: E741


@clauses("TIR-STMT-01", "TIR-STMT-01a", "TIR-STMT-01k")
def test_lone_variables_are_bound_before_anything_is_checked():
    first = decl_buffer((N * 2, M), name="first")
    second = decl_buffer((N, 4), name="second")
    made = signature_of(func(NOTHING, first, M, second))
    assert [p.name for p in made.parameters] == ["first", "m", "second"]
    assert [(b.var, b.source) for b in made.bindings] == [(N, Field(2, "shape", 0))]
    checks = [(r.source, str(r.value)) for r in made.requirements]
    assert [source for source, _ in checks] == [
        Field(0, "shape", 0),
        Field(0, "shape", 1),
        Field(2, "shape", 1),
    ]


@clauses("TIR-STMT-01g", "TIR-STMT-01i")
def test_strides_and_offsets_bind_too():
    buffer = decl_buffer((4,), strides=(S,), elem_offset=O)
    made = signature_of(func(NOTHING, buffer))
    assert [b.source for b in made.bindings] == [
        Field(0, "strides", 0),
        Field(0, "elem_offset", -1),
    ]
    zero = decl_buffer((4,), elem_offset=0)
    assert [r.source.what for r in signature_of(func(NOTHING, zero)).requirements] == ["shape"]
    fixed = decl_buffer((4,), elem_offset=8)
    assert signature_of(func(NOTHING, fixed)).requirements[-1].source.what == "elem_offset"


def test_a_name_that_nothing_binds_is_refused():
    with refused("TIR0307", "'n'"):
        signature_of(func(NOTHING, decl_buffer((N * 2,))))


def test_the_result_is_its_dtype():
    assert signature_of(func(ret(convert(1)))).returns == "int32"
    assert signature_of(func(NOTHING)).returns is None


@pytest.mark.parametrize("through", ["store", "call", "view"])
def test_written_buffers_are_found(through: str):
    a, b = decl_buffer((4,), name="a"), decl_buffer((4,), name="b")
    view = decl_buffer((4,), name="view")
    body = {
        "store": store(a, 1.0, 0),
        "call": use(a.data),
        "view": block(
            [],
            store(view, 1.0, 0),
            match_buffers=(MatchBufferRegion(view, a.whole()),),
        ),
    }[through]
    made = func(SeqStmt((body, use(b[0]))), a, b)
    assert a in written_buffers(made)
    assert b not in written_buffers(made)
    assert [p.written for p in signature_of(made).parameters] == [True, False]
