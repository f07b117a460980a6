"""Blocks without T.reads and T.writes get the regions that their bodies access."""

from __future__ import annotations

import pytest

import loomir
from loomir.ir import pre_order, structural_equal
from loomir.support.dtype import DataType
from loomir.tir import (
    TRUE,
    Block,
    BlockRealize,
    BufferRealize,
    BufferStore,
    IntImm,
    Let,
    PrimFunc,
    Range,
    SeqStmt,
    Var,
    decl_buffer,
)
from loomir.tir.analysis.access_regions import infer_access_regions
from tests.clause import clauses
from tests.script.parser.programs import read

HEAD = """
@T.prim_func
def f(A: T.Buffer((8, 8), "float32"), B: T.Buffer((8, 8), "float32"), I: T.Buffer((8,), "int32"),
      x: T.int32):
    for i, j in T.grid(8, 8):
        with T.sblock("b"):
            vi, vj = T.axis.remap("SS", [i, j])
"""

BODIES = [
    ("B[vi, vj] = A[vj, vi]", "A[vj, vi]", "B[vi, vj]"),
    ("B[vi, vj] = A[vi, vj] + A[vi, vj]", "A[vi, vj]", "B[vi, vj]"),
    ("B[vi, vj] = A[vi, vj] + A[vi, vj - 1]", "A[vi, 0:8]", "B[vi, vj]"),
    ("B[vi, i + x] = 1.0", "", "B[vi, i + x]"),
    ("B[vi, 3] = A[2, vj]", "A[2, vj]", "B[vi, 3]"),
    ("B[vi, 0:4] = A[vi, vj:vj + 4]", "A[vi, vj:vj + 4]", "B[vi, 0:4]"),
    ("B[vi, T.Ramp(0, 2, 4)] = T.float32(1)", "", "B[vi, 0:8]"),
    ("for k in range(8):\n    B[vi, k] = A[k, vj]", "A[0:8, vj]", "B[vi, 0:8]"),
    ("k: T.int32 = vi + 1\nB[k, vj] = 1.0", "", "B[0:8, vj]"),
    ("B[I[vi], vj] = 1.0", "I[vi]", "B[0:8, vj]"),
    ("B[vi, vj] = A[I[vj], 0]", "A[0:8, 0], I[vj]", "B[vi, vj]"),
    ("if x > 0:\n    B[vi, vj] = 1.0\nelse:\n    B[vi, vj] = A[vi, 0]", "A[vi, 0]", "B[vi, vj]"),
    ("B[vi, vj] += 1.0", "B[vi, vj]", "B[vi, vj]"),
    ("with T.init():\n    B[vi, vj] = 0.0\nB[vi, vj] += A[vi, 0]", "A[vi, 0]", "B[vi, vj]"),
    (
        'C = T.alloc_buffer((8,), "float32")\nC[vi] = A[vi, 0]\nB[vi, 0] = C[vi]',
        "A[vi, 0]",
        "B[vi, 0]",
    ),
    ("M = T.match_buffer(A[vi, 0:4], (4,))\nM[vj] = B[vi, 0]", "B[vi, 0]", "A[vi, 0:4]"),
    ("M = T.match_buffer(A[vi, 0:4], (4,))\nB[vi, 0] = M[vj]", "A[vi, 0:4]", "B[vi, 0]"),
    ("y = 1.0\ny = y + A[vi, vj]\nB[vi, vj] = y", "A[vi, vj]", "B[vi, vj]"),
    ("T.evaluate(A.data)", "A", "A"),
    ("pass", "", ""),
]


@clauses("TS-BLD-08")
@pytest.mark.parametrize(("body", "reads", "writes"), BODIES)
def test_regions_of_a_block(body: str, reads: str, writes: str):
    lines = "".join(f"            {line}\n" for line in body.split("\n"))
    found = block_of(HEAD + lines)
    # Buffers and matches of the block itself cannot be named in its regions' text before them.
    head = [line for line in lines.splitlines() if "T.alloc" in line or "T.match" in line]
    rest = [line for line in lines.splitlines() if line not in head]
    regions = f"            T.reads({reads})\n            T.writes({writes})\n"
    wanted = block_of(HEAD + regions + "\n".join(head + rest) + "\n")
    assert [str(r) for r in found.reads] == [str(r) for r in wanted.reads]
    assert [str(r) for r in found.writes] == [str(r) for r in wanted.writes]


def block_of(text: str, name: str = "b") -> Block:
    func = read(text)
    return next(n for n in pre_order(func.body) if isinstance(n, Block) and n.name_hint == name)


def test_a_block_within_gives_its_regions_with_its_iterators_replaced():
    func = """
@T.prim_func
def f(A: T.Buffer((8, 8), "float32"), B: T.Buffer((8, 8), "float32")):
    for i in range(8):
        with T.sblock("b"):
            vi = T.axis.spatial(8, i)
            for j in range(4):
                with T.sblock("inner"):
                    wi = T.axis.spatial(8, vi)
                    wj = T.axis.spatial(4, j)
                    B[wi, wj] = A[wi, 0] + B[0, vi]
"""
    block = block_of(func)
    assert [str(r) for r in block.reads] == ["A[vi, 0]", "B[0, vi]"]
    assert [str(r) for r in block.writes] == ["B[vi, 0:8]"]


def test_an_empty_body_accesses_nothing():
    assert infer_access_regions(SeqStmt(())) == ((), ())


def test_a_buffer_declared_inside_stands_for_its_memory():
    body = 'D = T.decl_buffer((64,), "float32", data=A.data)\nB[vi, vj] = D[vi]'
    lines = "".join(f"            {line}\n" for line in body.split("\n"))
    block = block_of(HEAD + lines)
    assert [r.buffer.name for r in block.reads] == ["A"]
    assert [r.buffer.name for r in block.writes] == ["B"]
    assert not loomir.verify(read(HEAD + lines))


def test_memory_that_is_allocated_inside_has_no_region():
    inner = decl_buffer((4,), "int32", "C")
    outer = decl_buffer((4,), "int32", "A")
    one = IntImm(1, DataType("int32"))
    bounds = (Range(IntImm(0, DataType("int32")), IntImm(4, DataType("int32"))),)
    store = SeqStmt((BufferStore(inner, one, (one,)), BufferStore(outer, one, (one,))))
    reads, writes = infer_access_regions(BufferRealize(inner, bounds, TRUE, store))
    assert reads == ()
    assert [r.buffer for r in writes] == [outer]


def test_a_let_in_an_index_is_not_copied():
    x, i = Var("x", "int32"), Var("i", "int32")
    a = decl_buffer((8,), "int32", "A")
    index = Let(x, i + 1, x + x)
    reads, writes = infer_access_regions(BufferStore(a, i, (index,)))
    assert reads == ()
    assert structural_equal(writes[0], a.whole())
    block = Block((), reads, writes, "b", BufferStore(a, i, (index,)))
    handle = Var("a", "handle")
    func = PrimFunc((handle, i), BlockRealize((), TRUE, block), None, {handle: a})
    assert loomir.verify(func) == ()
