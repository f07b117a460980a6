"""Variable scoping: what binds a name, and where it may be used."""

from __future__ import annotations

import pytest

from loomir.ir.module import GlobalVar, IRModule
from loomir.tir import (
    TRUE,
    Allocate,
    AttrStmt,
    BufferRealize,
    Call,
    Evaluate,
    Let,
    LetStmt,
    MatchBufferRegion,
    PointerType,
    PrimFunc,
    PrimType,
    SeqStmt,
    Stmt,
    Var,
    convert,
    decl_buffer,
)
from tests.conformance.compare_engines import both, dt, mistakes, refused, run_both, zeros
from tests.tir.programs import block, func, iterator, loop, store, use, var

NOTHING = Evaluate(convert(0))
OUTSIDE = ["TIR0401"]


def after(binder: Stmt, name: Var, *params: Var) -> list[str]:
    """Say what is wrong where a name is used after the statement that binds it."""
    return mistakes(func(SeqStmt((binder, use(name))), *params))


def pointer() -> Var:
    return Var("p", type_annotation=PointerType(PrimType(dt("int32"))))


def test_TIR_SCOPE_01_bound_once():
    """A variable is bound once, in nested scopes and in separate ones (T49)."""
    x = var("x")
    for body in (
        loop(x, 4, loop(x, 4, NOTHING)),
        SeqStmt((loop(x, 4, NOTHING), loop(x, 4, NOTHING))),
        SeqStmt((LetStmt(x, convert(1), NOTHING), use(Let(x, convert(1), x)))),
    ):
        assert mistakes(func(body)) == ["TIR0402"]
    assert mistakes(func(loop(x, 4, NOTHING), x)) == ["TIR0402"]
    assert mistakes(func(NOTHING, x, x)) == ["TIR0402"]
    # One name for two variables is fine.
    assert mistakes(func(SeqStmt((loop(var("x"), 4, NOTHING), loop(x, 4, NOTHING))))) == []


def test_TIR_SCOPE_02_lexical():
    """A variable is used inside of what binds it only."""
    x = var("x")
    assert mistakes(func(use(x))) == OUTSIDE
    assert mistakes(func(SeqStmt((use(x), LetStmt(x, convert(1), NOTHING))))) == OUTSIDE
    refused(
        "SCR0003",
        """
        @T.prim_func
        def main(A: T.Buffer((4,), "int32")):
            for i in range(4):
                A[i] = 1
            A[0] = i  # <--
        """,
    )


def test_TIR_SCOPE_03_functions_of_the_module():
    """A function of the module is in scope in all of them, before it and inside of itself (T43)."""
    source = """
        @I.ir_module
        class Module:
            @T.prim_func
            def main(n: T.int32) -> T.int32:
                return cls.down(n)

            @T.prim_func
            def down(n: T.int32) -> T.int32:
                if n <= 0:
                    return 7
                return cls.down(n - 1)
    """
    assert run_both(source, 5, name="main").value == 7
    missing = PrimFunc((), Evaluate(Call(dt("void"), GlobalVar("gone"), ())), attrs={})
    assert mistakes(IRModule({GlobalVar("main"): missing})) == ["TIR0408"]


def test_TIR_SCOPE_04_parameters():
    """A parameter is in scope in the whole body."""
    x = var("x")
    assert mistakes(func(loop(var("i"), 4, use(x)), x)) == []
    assert mistakes(func(loop(var("i"), 4, use(x)))) == OUTSIDE


def test_TIR_SCOPE_05_let():
    """What a binding binds is in scope in its body, not in its value."""
    x = var("x")
    assert mistakes(func(LetStmt(x, convert(1), use(x)))) == []
    assert mistakes(func(LetStmt(x, x, NOTHING))) == OUTSIDE
    assert after(LetStmt(x, convert(1), NOTHING), x) == OUTSIDE
    assert mistakes(func(use(Let(x, convert(1), x + 1)))) == []
    assert mistakes(func(use(Let(x, convert(1), x) + x))) == OUTSIDE
    assert mistakes(func(use(Let(x, x + 1, convert(1))))) == OUTSIDE


def test_TIR_SCOPE_06_axes():
    """The axes of a block are in scope in it, not in their values, its predicate, or after it."""
    v = var("v")
    assert mistakes(func(block([(iterator(v, 4), 0)], use(v)))) == []
    assert mistakes(func(block([(iterator(v, 4), v)], NOTHING))) == OUTSIDE
    assert mistakes(func(block([(iterator(v, 4), 0)], NOTHING, v < 2))) == OUTSIDE
    assert after(block([(iterator(v, 4), 0)], NOTHING), v) == OUTSIDE


def test_TIR_SCOPE_07_loops():
    """A loop variable is in scope in the body, not in the bounds."""
    i = var("i")
    assert mistakes(func(loop(i, 4, use(i)))) == []
    assert mistakes(func(loop(i, i, NOTHING))) == OUTSIDE
    assert after(loop(i, 4, NOTHING), i) == OUTSIDE


def test_TIR_SCOPE_08_allocations():
    """An allocation's pointer is in scope in its body only."""
    p = pointer()
    assert mistakes(func(Allocate(p, dt("int32"), (convert(4),), TRUE, use(p)))) == []
    assert after(Allocate(p, dt("int32"), (convert(4),), TRUE, NOTHING), p) == OUTSIDE


def test_TIR_SCOPE_09_realized_buffers():
    """A realized buffer binds its data, and fresh variables of its strides, offset and shape."""
    n, s, o = var("n"), var("s"), var("o")
    buffer = decl_buffer((n,), "int32", strides=(s,), elem_offset=o)
    inside = SeqStmt((store(buffer, 1, 0), use(n, s, o, buffer.data)))
    assert mistakes(func(BufferRealize(buffer, (), TRUE, inside))) == []
    for name in (n, s, o, buffer.data):
        assert after(BufferRealize(buffer, (), TRUE, NOTHING), name) == OUTSIDE


@pytest.mark.parametrize("key", ["thread_extent", "virtual_thread"])
def test_TIR_SCOPE_10_threads(key: str):
    """The notes that start threads bind their variable in the body; others bind nothing."""
    x = var("x")
    assert mistakes(func(AttrStmt(x, key, convert(4), use(x)))) == []
    assert after(AttrStmt(x, key, convert(4), NOTHING), x) == OUTSIDE
    assert mistakes(func(AttrStmt(x, "pragma", convert(4), use(x)))) == OUTSIDE


def test_TIR_SCOPE_11_buffers_of_blocks():
    """A block binds the data of the buffers that it allocates and matches, up to its end."""
    source, made, view = (decl_buffer((4,), "int32", name) for name in "ABV")
    match = MatchBufferRegion(view, source.whole())
    inside = SeqStmt((store(made, 1, 0), store(view, 1, 0), use(made.data, view.data)))
    whole = block([], inside, alloc_buffers=(made,), match_buffers=(match,))
    assert mistakes(func(whole, source)) == []
    for buffer in (made, view):
        outside = SeqStmt((whole, store(buffer, 1, 0)))
        assert mistakes(func(outside, source)) == ["TIR0403"]


def test_TIR_SCOPE_12_known_sizes():
    """A block allocates buffers whose shape, strides and offset are bound already."""
    n = var("n")
    for buffer in (
        decl_buffer((n,)),
        decl_buffer((4,), strides=(n,)),
        decl_buffer((4,), elem_offset=n),
    ):
        made = block([], NOTHING, alloc_buffers=(buffer,))
        assert mistakes(func(made)) == ["TIR0404"]
        assert mistakes(func(made, n)) == []
    # An axis of the block is bound where it allocates.
    source = """
        @T.prim_func
        def main(A: T.Buffer((4,), "int32")):
            for i in range(4):
                with T.sblock("b"):
                    v = T.axis.spatial(4, i)
                    B = T.alloc_buffer((v + 1,), "int32")
                    B[v] = v * 3
                    A[v] = B[v]
    """
    assert both(source, zeros(4)).tolist() == [0, 3, 6, 9]
