"""The meaning of blocks: init, predicates, allocations, other names for regions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from loomir.runtime.errors import RunIndexError, RunValueError, RunZeroDivisionError
from loomir.support.diagnostics import CompileError
from loomir.support.dtype import BOOL
from loomir.tir import (
    TRUE,
    Block,
    BlockRealize,
    Buffer,
    BufferRegion,
    IntImm,
    IterVar,
    IterVarType,
    MatchBufferRegion,
    PrimExpr,
    Ramp,
    Range,
    Stmt,
    Var,
    decl_buffer,
    seq,
)
from tests.clause import clauses
from tests.interp.build import array, i32, load, loop, run, store

X, I_, J, K = (Var(n, "int32") for n in "xijk")
A = decl_buffer((4, 8), "int32", "A")
B = decl_buffer((4,), "int32", "B")
DATA = np.arange(32, dtype=np.int32).reshape(4, 8)


def axis(name: str, extent: int, kind: str = "DATA_PAR", start: int = 0) -> IterVar:
    dom = Range(i32(start), i32(extent))
    return IterVar(dom, Var(name, "int32"), IterVarType[kind])


def block(
    axes: list[tuple[IterVar, PrimExpr]],
    body: Stmt,
    *,
    where: PrimExpr = TRUE,
    **parts: Any,
) -> BlockRealize:
    made = Block(tuple(it for it, _ in axes), (), (), "b", body, **parts)
    return BlockRealize(tuple(v for _, v in axes), where, made)


def reduction(
    value: PrimExpr = K, *, start: int = 0, extent: int = 8
) -> tuple[BlockRealize, IterVar, IterVar]:
    """Sum the rows of A into B, from 100; the reduced axis is bound to ``value``."""
    vi, vk = axis("vi", 4), axis("vk", extent, "COMM_REDUCE", start)
    body = store(B, load(B, vi.var) + load(A, vi.var, vk.var), vi.var)
    made = block([(vi, I_), (vk, value)], body, init=store(B, i32(100), vi.var))
    return made, vi, vk


def sums(*body: Stmt, start: int = -7) -> list[int]:
    out = array(*[start] * 4)
    run([A, B], *body, args=(DATA, out))
    return out.tolist()


WANTED = [100 + int(row.sum()) for row in DATA]


@clauses("TIR-STMT-18h", "TIR-STMT-19")
def test_init_runs_where_every_reducing_iterator_is_at_its_start() -> None:
    made, _, _ = reduction()
    assert sums(loop(I_, 4, loop(K, 8, made))) == WANTED


@clauses("TIR-STMT-18h")
def test_init_once_with_the_reducing_loop_split() -> None:
    outer, inner = Var("ko", "int32"), Var("ki", "int32")
    made, _, _ = reduction(outer * 4 + inner)
    assert sums(loop(I_, 4, loop(outer, 2, loop(inner, 4, made)))) == WANTED


@clauses("TIR-STMT-18h")
def test_init_once_with_the_reducing_loop_outside() -> None:
    made, _, _ = reduction()
    assert sums(loop(K, 8, loop(I_, 4, made))) == WANTED


@clauses("TIR-STMT-18h")
def test_init_runs_at_the_start_of_the_domain_wherever_that_is() -> None:
    made, _, _ = reduction(K + 2, start=2, extent=6)
    wanted = [100 + int(row[2:].sum()) for row in DATA]
    assert sums(loop(I_, 4, loop(K, 6, made))) == wanted
    # Not at its start, and outside of a loop over it: no init.
    fixed, _, _ = reduction(i32(3))
    assert sums(loop(I_, 4, fixed), start=0) == [3, 11, 19, 27]


@clauses("TIR-STMT-18i")
def test_without_reducing_iterators_init_runs_each_time() -> None:
    vi = axis("vi", 4)
    made = block([(vi, I_)], store(B, load(B, vi.var) + 1, vi.var), init=store(B, vi.var, vi.var))
    assert sums(loop(J, 3, loop(I_, 4, made))) == [1, 2, 3, 4]


@clauses("TIR-STMT-19a")
def test_a_predicate_that_fails_skips_the_whole_block() -> None:
    vi, vk = axis("vi", 4), axis("vk", 8, "COMM_REDUCE")
    fresh = decl_buffer((i32(1) // X,), "int32", "F")
    made = block(
        [(vi, I_), (vk, i32(0))],
        store(B, load(B, vi.var) + 5, vi.var),
        where=I_ < 2,
        init=store(B, i32(100), vi.var),
    )
    assert sums(loop(I_, 4, made)) == [105, 105, -7, -7]
    never = block([], store(B, i32(1), 0), where=IntImm(0, BOOL), alloc_buffers=(fresh,))
    run([A, B, X], never, args=(DATA, array(0, 0, 0, 0), 0))
    always = block([], store(B, i32(1), 0), alloc_buffers=(fresh,))
    with pytest.raises(RunZeroDivisionError):
        run([A, B, X], always, args=(DATA, array(0, 0, 0, 0), 0))


@clauses("TIR-STMT-19a")
def test_a_predicate_of_a_split_that_does_not_divide() -> None:
    out = array(*[-7] * 12)
    buffer = decl_buffer((12,), "int32", "O")
    v = axis("v", 12)
    made = block([(v, I_ * 4 + J)], store(buffer, i32(1), v.var), where=(I_ * 4 + J) < 10)
    run([buffer], loop(I_, 3, loop(J, 4, made)), args=(out,))
    assert out.tolist() == [1] * 10 + [-7, -7]


@clauses("TIR-STMT-19", "TIR-STMT-19b", "TIR-SCOPE-06")
def test_iterators_are_bound_for_the_block_only() -> None:
    vi = axis("vi", 4)
    made = block([(vi, I_ * 2 - I_)], store(B, vi.var * 3, vi.var))
    assert sums(loop(I_, 4, made)) == [0, 3, 6, 9]
    with pytest.raises(CompileError, match="nothing binds it"):
        sums(loop(I_, 4, made), store(B, vi.var, 0))


@clauses("TIR-STMT-18", "TIR-STMT-18a", "TIR-STMT-18j", "TIR-STMT-18k", "TIR-SCOPE-11")
def test_a_block_allocates_anew_each_time() -> None:
    t = decl_buffer((X, 2), "int32", "T")
    v = axis("v", 4)
    body = seq([store(B, load(t, 1, 1), v.var), store(t, i32(3), 1, 1)])
    made = block([(v, I_)], body, alloc_buffers=(t,))
    out = array(0, 0, 0, 0)
    run([B, X], loop(I_, 4, made), args=(out, 2))
    poison = int.from_bytes(b"\xcd" * 4, "little", signed=True)
    assert out.tolist() == [poison] * 4
    with pytest.raises(CompileError, match="nothing declares it"):
        run([B, X], loop(I_, 4, made), store(t, i32(1), 0, 0), args=(out, 2))


# -- other names for regions ---------------------------------------------------------------------
def matched(target: Buffer, region: tuple[tuple[PrimExpr | int, PrimExpr | int], ...], body: Stmt):
    def number(x: PrimExpr | int) -> PrimExpr:
        return i32(x) if isinstance(x, int) else x

    ranges = tuple(Range(number(a), number(b)) for a, b in region)
    made = MatchBufferRegion(target, BufferRegion(A, ranges))
    return block([], body, match_buffers=(made,))


def changed(*body: Stmt, params: tuple[Any, ...] = (), args: tuple[Any, ...] = ()) -> Any:
    data = DATA.copy()
    run([A, *params], *body, args=(data, *args))
    return data


@clauses("TIR-STMT-18b", "TIR-BUF-04")
def test_a_matched_buffer_is_its_region() -> None:
    m = decl_buffer((2, 3), "int32", "M")
    body = seq(
        [
            store(m, load(m, 0, 0) + 1000, 1, 2),
            store(A, i32(-1), 2, 3),
            store(A, load(m, 1, 1), 0, 0),
        ]
    )
    data = changed(matched(m, ((1, 2), (2, 3)), body))
    assert data[2, 4] == DATA[1, 2] + 1000
    assert data[0, 0] == -1  # written through A, read through M


@clauses("TIR-STMT-18e", "TIR-OTY-05e")
def test_a_matched_buffer_may_leave_out_leading_axes() -> None:
    m = decl_buffer((3,), "int32", "M")
    data = changed(matched(m, ((2, 1), (4, 3)), store(m, i32(5), 2)))
    assert data[2, 6] == 5
    n = Var("n", "int32")
    with pytest.raises(RunValueError) as caught:
        changed(matched(m, ((0, n), (4, 3)), store(m, i32(5), 2)), params=(n,), args=(2,))
    assert caught.value.diagnostic.code == "RUN0211"


@clauses("TIR-STMT-18f")
def test_a_vector_index_of_a_matched_buffer_is_offset() -> None:
    m = decl_buffer((4,), "int32", "M")
    body = store(m, Ramp(i32(50), i32(1), 4), Ramp(i32(3), i32(-1), 4))
    assert changed(matched(m, ((1, 1), (2, 4)), body))[1].tolist()[2:6] == [53, 52, 51, 50]


@clauses("TIR-STMT-18d")
def test_names_in_the_shape_of_a_matched_buffer_are_bound() -> None:
    n = Var("n", "int32")
    m = decl_buffer((n, n + 1), "int32", "M")
    data = changed(matched(m, ((0, X), (0, X + 1)), store(m, n, 0, 0)), params=(X,), args=(3,))
    assert data[0, 0] == 3
    square = decl_buffer((n, n), "int32", "M")
    with pytest.raises(RunValueError, match="M says the extent of axis 1 is 3, the region's is 4"):
        changed(
            matched(square, ((0, X), (0, X + 1)), store(square, n, 0, 0)), params=(X,), args=(3,)
        )


@clauses("TIR-STMT-18c")
def test_strides_and_offset_of_a_matched_buffer_are_bound() -> None:
    s, t, o = (Var(n, "int32") for n in "sto")
    m = decl_buffer((2, 2), "int32", "M", strides=(s, t), elem_offset=o)
    data = changed(matched(m, ((1, 2), (2, 2)), store(m, s * 10 + t, 1, 1)))
    assert data[2, 3] == 81


@clauses("TIR-STMT-18g")
def test_an_index_beyond_the_region_is_an_error_here() -> None:
    m = decl_buffer((3,), "int32", "M")
    with pytest.raises(RunIndexError, match="index 3 is outside of axis 0 of M"):
        changed(matched(m, ((1, 1), (2, 3)), store(m, i32(1), 3)))
    # Inside of the region, outside of the source: not the next row.
    with pytest.raises(RunIndexError):
        changed(matched(m, ((1, 1), (6, 3)), store(m, i32(1), 2)))
    below = matched(m, ((1, 1), (-1, 3)), store(m, i32(1), 0))
    with pytest.raises(RunIndexError):
        changed(below)


@clauses("TIR-STMT-18b")
def test_a_match_of_a_match() -> None:
    m, inner = decl_buffer((3, 4), "int32", "M"), decl_buffer((2,), "int32", "N")
    ranges = (Range(i32(1), i32(1)), Range(i32(1), i32(2)))
    again = MatchBufferRegion(inner, BufferRegion(m, ranges))
    body = block([], store(inner, i32(77), 1), match_buffers=(again,))
    assert changed(matched(m, ((1, 3), (2, 4)), body))[2, 4] == 77
