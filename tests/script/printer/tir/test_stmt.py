"""The text of statements, blocks, functions and modules, and what decides between two forms."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from loomir.ir import GlobalVar, IRModule
from loomir.script.printer import script
from loomir.support.dtype import BOOL, DataType
from loomir.tir import (
    TRUE,
    Allocate,
    AssertStmt,
    AttrStmt,
    BufferRealize,
    BufferType,
    DeclBuffer,
    ForKind,
    IfThenElse,
    IntImm,
    IterVar,
    IterVarType,
    Let,
    LetStmt,
    MatchBufferRegion,
    PointerType,
    PrimFunc,
    PrimType,
    Range,
    SeqStmt,
    Stmt,
    StringImm,
    Var,
    While,
    const,
    convert,
    decl_buffer,
)
from tests.clause import clauses
from tests.tir.programs import block, call, call_of, func, iterator, loop, ret, store, use, var

X, P = var("x"), var("p", "bool")
A = decl_buffer((16,), name="A")
FLOAT32 = DataType("float32")
ONE, TWO = use(1), use(2)


def pointer(name: str = "ptr", dtype: str = "float32", scope: str = "global") -> Var:
    return Var(name, type_annotation=PointerType(PrimType(DataType(dtype)), scope))


def lines(text: str) -> str:
    """A text written with its indentation in a test."""
    rows = text.strip("\n").split("\n")
    indent = len(rows[0]) - len(rows[0].lstrip())
    return "\n".join(row[indent:] for row in rows).rstrip()


def scoped(make: Callable[[], Stmt]) -> tuple[str, str]:
    """The text of a statement where it stands last, and where another follows."""
    return str(make()), str(SeqStmt((make(), TWO)))


def test_simple_statements():
    body = SeqStmt(
        (
            store(A, 1.5, X),
            use(X + 1),
            call("exp", const(1.0, "float32")),
            ret(X),
            call("break_loop"),
            call("continue_loop"),
            SeqStmt(()),
        )
    )
    assert str(body) == lines(
        """
        A[x] = T.float32(1.5)
        T.evaluate(x + 1)
        T.exp(T.float32(1.0))
        return x
        break
        continue
        """
    )
    assert str(SeqStmt(())) == "pass"


def test_what_scopes_is_a_statement_or_a_scope():
    y = var("y")
    last, inner = scoped(lambda: LetStmt(y, X + 1, use(y)))
    assert last == "y: T.int32 = x + 1\nT.evaluate(y)"
    assert inner == "with T.LetStmt(x + 1) as y:\n    T.evaluate(y)\nT.evaluate(2)"

    last, inner = scoped(lambda: AssertStmt(X < 3, StringImm("m"), ONE))
    assert last == 'assert x < 3, "m"\nT.evaluate(1)'
    assert inner == 'with T.Assert(x < 3, "m"):\n    T.evaluate(1)\nT.evaluate(2)'

    ptr = pointer()
    last, inner = scoped(lambda: Allocate(ptr, FLOAT32, (convert(4),), TRUE, use(ptr)))
    assert last == 'ptr = T.allocate([4], "float32", "global")\nT.evaluate(ptr)'
    assert inner.startswith('with T.allocate([4], "float32", "global") as ptr:\n    T.eva')

    made = decl_buffer((4,), name="B", data=A.data)
    last, inner = scoped(lambda: DeclBuffer(made, store(made, 1.0, 0)))
    assert last == 'B = T.decl_buffer((4,), "float32", data=A)\nB[0] = T.float32(1.0)'
    assert inner.startswith('with T.decl_buffer((4,), "float32", data=A) as B:\n    B[0] =')


def test_pointers_say_their_type():
    ptr = pointer("ptr", "int8", "local")
    last, inner = scoped(lambda: LetStmt(ptr, A.data, ONE))
    assert last.startswith('ptr: T.handle("int8", "local") = A\n')
    assert inner.startswith('ptr = T.handle("int8", "local")\nwith T.LetStmt(A, var=ptr):\n')


def test_allocations_write_what_is_not_the_default():
    odd = Allocate(pointer("b", "int8"), BOOL, (X, convert(4)), P, ONE, {"k": 1})
    assert str(odd).startswith(
        'b = T.allocate([x, 4], "bool", "global", condition=p, annotations={"k": 1}, '
        'type_annotation=T.handle("int8"))\n'
    )


def test_an_allocation_in_a_loop_is_a_buffer():
    made = decl_buffer((4,), name="C", scope="local")
    inside = Allocate(made.data, FLOAT32, made.shape, TRUE, DeclBuffer(made, store(made, 1.0, 0)))
    assert str(loop(var("i"), 4, inside)) == lines(
        """
        for i in range(4):
            C = T.alloc_buffer((4,), "float32", scope="local")
            C[0] = T.float32(1.0)
        """
    )
    assert str(inside).startswith("C = T.allocate(")


def test_attributes():
    assert str(AttrStmt(A, "key", convert(1), ONE)) == lines(
        """
        with T.attr(A, "key", 1):
            T.evaluate(1)
        """
    )
    thread = var("tx")
    assert str(AttrStmt(thread, "thread_extent", convert(32), use(thread))) == lines(
        """
        tx = T.int32()
        with T.attr(tx, "thread_extent", 32):
            T.evaluate(tx)
        """
    )


def test_branches():
    inner = IfThenElse(X < 2, ONE, TWO)
    assert str(IfThenElse(X < 1, ONE, inner)) == lines(
        """
        if x < 1:
            T.evaluate(1)
        elif x < 2:
            T.evaluate(1)
        else:
            T.evaluate(2)
        """
    )
    assert str(IfThenElse(TRUE, SeqStmt(()), SeqStmt(()))) == lines(
        """
        if T.bool(True):
            pass
        else:
            pass
        """
    )
    assert str(While(convert(1), call("break_loop"))) == "while T.int32(1):\n    break"


@pytest.mark.parametrize(
    ("made", "head"),
    [
        (loop(X, 8, ONE), "for x in range(8):"),
        (loop(X, 3, ONE, start=2), "for x in range(2, 5):"),
        (loop(X, -5, ONE), "for x in range(-5):"),
        (loop(X, 2**31 - 1, ONE, start=5), "for x in T.serial(5, extent=2147483647):"),
        (loop(X, var("n"), ONE, start=5), "for x in T.serial(5, extent=n):"),
        (loop(X, 4, ONE, start=var("m")), "for x in T.serial(m, extent=4):"),
        (loop(var("x", "int64"), 8, ONE), "for x in range(T.int64(8)):"),
        (loop(X, 8, ONE, ForKind.PARALLEL), "for x in T.parallel(8):"),
        (loop(X, 8, ONE, ForKind.VECTORIZED, start=1), "for x in T.vectorized(1, 9):"),
        (loop(X, 8, ONE, ForKind.UNROLLED), "for x in T.unroll(8):"),
        (
            loop(X, 8, ONE, annotations={"a": True}),
            'for x in T.serial(8, annotations={"a": True}):',
        ),
        (
            loop(
                X,
                8,
                ONE,
                ForKind.THREAD_BINDING,
                thread_binding=IterVar(None, var(""), IterVarType.THREAD_INDEX, "threadIdx.x"),
            ),
            'for x in T.thread_binding(8, thread="threadIdx.x"):',
        ),
    ],
)
def test_loops(made: Stmt, head: str):
    assert str(made).splitlines()[0] == head


def test_nests_of_loops_are_grids_where_bounds_allow():
    i, j, k = var("i"), var("j"), var("k")
    assert str(loop(i, 4, loop(j, X, loop(k, 2, ONE)))).startswith(
        "for i, j, k in T.grid(4, x, 2):"
    )
    triangle = str(loop(i, 4, loop(j, i, loop(k, 2, ONE))))
    assert triangle.startswith("for i in range(4):\n    for j, k in T.grid(i, 2):")
    mixed = str(loop(i, 4, loop(j, 4, ONE, ForKind.PARALLEL)))
    assert mixed.startswith("for i in range(4):\n    for j in T.parallel(4):")


# -- names -----------------------------------------------------------------------------------------


@clauses("TS-PRN-06")
def test_names_are_unique_while_alive_and_used_again():
    a, b, c = var("i"), var("i"), var("i")
    assert str(SeqStmt((loop(a, 4, loop(b, a, use(b))), loop(c, 4, use(c))))) == lines(
        """
        for i in range(4):
            for i_1 in range(i):
                T.evaluate(i_1)
        for i in range(4):
            T.evaluate(i)
        """
    )


def test_what_is_assigned_has_a_name_of_its_own():
    a, b = decl_buffer((4,), name="i"), decl_buffer((4,), name="i")
    one = block([], store(a, 1.0, 0), alloc_buffers=(a,), name="one")
    two = block([], store(b, 1.0, 0), alloc_buffers=(b,), name="two")
    text = str(SeqStmt((loop(var("i"), 4, ONE), one, two)))
    assert "for i in" in text
    assert "    i_1 = T.alloc_buffer(" in text
    assert "    i_2 = T.alloc_buffer(" in text


def test_variables_of_let_are_declared_before():
    a, b = var("class"), var("T", "float32")
    inner = Let(b, const(1.0, "float32"), b < 2.0)
    made = loop(var("i"), Let(a, X, a), IfThenElse(inner, ONE))
    assert str(made) == lines(
        """
        class_ = T.int32()
        for i in range(T.Let(class_, where={class_: x})):
            T_1 = T.float32()
            if T.Let(T_1 < T.float32(2.0), where={T_1: T.float32(1.0)}):
                T.evaluate(1)
        """
    )


# -- blocks ----------------------------------------------------------------------------------------


def test_a_block_writes_its_parts_in_order():
    i, j, k = var("i"), var("j"), var("k")
    vi, vj, vk, vo = var("vi"), var("vj"), var("vk"), var("vo", "int64")
    out = decl_buffer((16, 16), name="out")
    made = decl_buffer((4,), name="made")
    view = decl_buffer((4,), name="view", elem_offset=var("o"))
    heart = block(
        [
            (iterator(vi, 8), i),
            (iterator(vj, 8, "R"), j),
            (iterator(vk, 4, "O", start=2), k + 1),
            (iterator(vo, 3, "?"), 0),
        ],
        store(out, 1.0, vi, vk),
        X < 3,
        "heart",
        init=store(out, 0.0, vi, vk),
        reads=(A.region((vi,)), out.region((slice(0, 4), vk))),
        writes=(out.region((vi, slice(vk, vk + 2))),),
        alloc_buffers=(made,),
        match_buffers=(MatchBufferRegion(view, out.region((vi, slice(0, 4)))),),
        annotations={"note": (1, "x")},
    )
    assert str(loop(i, 8, loop(j, 8, loop(k, 4, heart)))) == lines(
        """
        for i, j, k in T.grid(8, 8, 4):
            with T.sblock("heart"):
                vi, vj = T.axis.remap("SR", [i, j])
                vk = T.axis.scan((2, 6), k + 1)
                vo = T.axis.opaque(T.int64(3), T.int64(0))
                T.where(x < 3)
                T.reads(A[vi], out[0:4, vk])
                T.writes(out[vi, vk:vk + (vk + 2 - vk)])
                T.sblock_attr({"note": (1, "x")})
                made = T.alloc_buffer((4,), "float32")
                o = T.int32()
                view = T.match_buffer(out[vi, 0:4], (4,), "float32", elem_offset=o)
                with T.init():
                    out[vi, vk] = T.float32(0.0)
                out[vi, vk] = T.float32(1.0)
        """
    )


def test_iterators_are_remapped_only_where_they_span_their_loops():
    i, j = var("i"), var("j")

    def axes(*iters: Any, start: int = 0) -> str:
        text = str(loop(i, 8, loop(j, 4, block(list(iters), ONE)), start=start))
        return "\n".join(row.strip() for row in text.splitlines() if "axis" in row)

    vi, vj = var("vi"), var("vj")
    assert "remap" in axes((iterator(vi, 8), i), (iterator(vj, 4), j))
    assert "remap" not in axes((iterator(vi, 8), i))
    assert "remap" not in axes((iterator(vi, 9), i), (iterator(vj, 4), j))
    assert "remap" not in axes((iterator(vi, 8), i), (iterator(vj, 4, start=1), j))
    assert "remap" not in axes((iterator(vi, 8), i), (iterator(vj, 4), j), start=2)
    assert "remap" not in axes((iterator(vi, 8, "O"), i), (iterator(vj, 4), j))


def test_buffers_of_a_block_come_first_where_its_heading_mentions_them():
    made = decl_buffer((4,), name="made")
    text = str(block([], ONE, alloc_buffers=(made,), writes=(made.whole(),)))
    assert text.index("alloc_buffer") < text.index("T.writes")


# -- functions -------------------------------------------------------------------------------------

HEADER = "from loomir.script import tir as T\n\n\n"


def body_of(made: PrimFunc) -> str:
    text = script(made)
    assert text.startswith(HEADER)
    return text.removeprefix(HEADER)


@clauses("TS-RT-02")
def test_static_buffers_stand_in_the_signature():
    b = decl_buffer((4,), "int8", "B", strides=(2,), scope="local")
    made = func(store(A, 1.0, 0), A, X, b, pointer("raw"), ret_type=PrimType(FLOAT32))
    assert body_of(made) == (
        "@T.prim_func\n"
        "def f(\n"
        '    A: T.Buffer((16,), "float32"),\n'
        "    x: T.int32,\n"
        '    B: T.Buffer((4,), "int8", strides=(2,), scope="local"),\n'
        '    raw: T.handle("float32"),\n'
        ") -> T.float32:\n"
        "    A[0] = T.float32(1.0)\n"
    )


def test_symbolic_buffers_are_matched_in_the_body():
    n, s = var("n", "int64"), var("s", "int64")
    a = decl_buffer((n, s), name="a", strides=(s, 1), buffer_type=BufferType.AUTO_BROADCAST)
    made = func(use(n), a, decl_buffer((n,), name="b"), attrs={"global_symbol": "f", "k": None})
    assert (
        body_of(made)
        == lines(
            """
        @T.prim_func
        def f(a_handle: T.handle, b_handle: T.handle):
            T.func_attr({"k": None})
            n = T.int64()
            s = T.int64()
            a = T.match_buffer(a_handle, (n, s), "float32", strides=(s, 1), buffer_type="auto")
            b = T.match_buffer(b_handle, (n,), "float32")
            T.evaluate(n)
        """
        )
        + "\n"
    )


def test_names_and_symbols_of_functions():
    assert body_of(func(ONE, attrs={})).startswith("@T.prim_func(private=True)\ndef main():")
    assert body_of(func(ONE, attrs={"global_symbol": "a.b"})).startswith(
        '@T.prim_func(name="a.b")\ndef a_b():'
    )


def test_the_root_block_is_left_out_where_it_comes_back():
    inner = block([], ONE, name="inner")

    def root(body: Stmt, **fields: Any) -> PrimFunc:
        return func(block([], body, name="root", **fields))

    assert "root" not in body_of(root(inner))
    assert "root" in body_of(root(ONE))
    made = decl_buffer((4,), name="made")
    text = body_of(root(ONE, alloc_buffers=(made,)))
    assert "root" not in text
    assert '    made = T.alloc_buffer((4,), "float32")\n' in text
    assert 'T.sblock("root")' in body_of(root(inner, annotations={"k": 1}))
    assert 'T.sblock("root")' in body_of(root(inner, reads=(A.whole(),)))
    twice = root(block([], inner, name="root"))
    assert body_of(twice).count('T.sblock("root")') == 2
    assert "root_block=False" in body_of(func(inner))
    assert "root_block=False" not in body_of(root(inner))


def test_modules():
    n = var("n")
    callee = func(ret(n), A, n, attrs={"global_symbol": "class"})
    a = decl_buffer((16,), name="a")
    calls = SeqStmt(
        (
            call_of(GlobalVar("class"), DataType("int32"), a.data, convert(3)),
            call_of(GlobalVar("class"), FLOAT32, a.data, convert(3)),
            call_of(GlobalVar("absent"), FLOAT32),
        )
    )
    caller = func(calls, a, attrs={})
    module = IRModule({GlobalVar("class"): callee, GlobalVar("main"): caller}, {"k": 1.5})
    assert script(module) == (
        "from loomir.script import ir as I\n"
        "from loomir.script import tir as T\n"
        "\n"
        "\n"
        "@I.ir_module\n"
        "class Module:\n"
        '    I.module_attrs({"k": 1.5})\n'
        "\n"
        '    @T.prim_func(name="class")\n'
        '    def class_(A: T.Buffer((16,), "float32"), n: T.int32) -> T.int32:\n'
        "        return n\n"
        "\n"
        "    @T.prim_func(private=True)\n"
        '    def main(a: T.Buffer((16,), "float32")):\n'
        "        cls.class_(a.data, 3)\n"
        '        T.Call("float32", cls.class_, [a.data, 3])\n'
        '        T.Call("float32", I.GlobalVar("absent"), [])\n'
    )
    assert script(IRModule({})).endswith("class Module:\n    pass\n")


def test_a_function_calls_itself_by_its_name():
    n = var("f")
    made = func(call_of(GlobalVar("f"), DataType("void"), n), n)
    assert body_of(made).splitlines()[1:] == ["def f(f_1: T.int32):", "    f(f_1)"]


def test_attribute_values():
    values = {
        "plain": (1, -1.5, True, None, "t", float("inf"), float("nan")),
        "nodes": (convert(1), StringImm("s"), IntImm(1, BOOL)),
        "other": {"dtype": FLOAT32, "list": [1]},
    }
    text = body_of(func(ONE, attrs={"global_symbol": "f", **values}))
    assert (
        'T.func_attr({"plain": (1, -1.5, True, None, "t", float("inf"), float("nan")), '
        '"nodes": (T.int32(1), T.StringImm("s"), T.bool(True)), '
        '"other": {"dtype": T.dtype("float32"), "list": (1,)}})'
    ) in text


# -- no form, showing, depth -----------------------------------------------------------------------


def test_nodes_without_a_form_are_written_from_their_fields():
    made = decl_buffer((4,), name="B")
    realize = BufferRealize(made, (Range(convert(0), convert(4)),), TRUE, store(made, 1.0, 0))
    assert str(realize) == (
        "# tir.BufferRealize has no form in TVMScript\n"
        'with tir.BufferRealize(buffer=B, shape=(4,), dtype="float32", bounds=(T.Range(0, 4),), '
        "condition=T.bool(True)):\n"
        "    B[0] = T.float32(1.0)"
    )
    thread = loop(var("i"), 4, ONE, ForKind.THREAD_BINDING)
    assert "has no form" in str(thread)
    assert "T.evaluate(1)" in str(thread)
    odd = IterVar(None, var("t"), IterVarType.UNROLLED)
    assert str(odd) == 'tir.IterVar(var=t, iter_type="kUnrolled", thread_tag="")'


def test_deep_statements_print():
    body: Stmt = ONE
    for _ in range(20_000):
        body = LetStmt(var("y"), convert(1), body)
    assert len(str(body).splitlines()) == 20_001
    chain: Stmt = ONE
    for _ in range(20_000):
        chain = IfThenElse(P, ONE, chain)
    assert str(chain).count("elif") == 19_999
    nest: Stmt = ONE
    for _ in range(2_000):
        nest = While(P, nest)
    assert str(nest).count("while") == 2_000
