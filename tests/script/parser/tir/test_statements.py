# ruff: noqa: N806  (buffers are called as in the programs)
"""Statements of TIR: what is read is what was written, compared with the same built by hand."""

from __future__ import annotations

import textwrap
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import loomir
from loomir.ir import GlobalVar, IRModule, assert_structural_equal, pre_order
from loomir.support.dtype import DataType
from loomir.tir import (
    TRUE,
    Add,
    Allocate,
    AssertStmt,
    AttrStmt,
    Block,
    BlockRealize,
    Broadcast,
    Buffer,
    BufferLoad,
    BufferStore,
    Call,
    DeclBuffer,
    Evaluate,
    FloatImm,
    For,
    ForKind,
    IfThenElse,
    IntImm,
    IterVar,
    IterVarType,
    LetStmt,
    MatchBufferRegion,
    PointerType,
    PrimFunc,
    PrimType,
    Ramp,
    Range,
    SeqStmt,
    Stmt,
    StringImm,
    Var,
    While,
    call_builtin,
    convert,
    decl_buffer,
    seq,
)
from tests.clause import clauses
from tests.script.parser.programs import HEAD, read, read_body, read_module

INT32, INT64, FLOAT32 = DataType("int32"), DataType("int64"), DataType("float32")


class Made:
    """The function of ``HEAD``, built by hand."""

    def __init__(self) -> None:
        self.A = decl_buffer((8, 8), "float32", "A")
        self.x = Var("x", INT32)
        self.p = Var("p", DataType("handle"))

    def func(self, body: Stmt, ret: Any = None) -> PrimFunc:
        handle = Var("A_handle", DataType("handle"))
        params = (handle, self.x, self.p)
        return PrimFunc(params, body, ret, {handle: self.A}, {"global_symbol": "f"})

    def set(self, i: Any, j: Any, value: Any) -> BufferStore:
        return BufferStore(self.A, value, (convert(i), convert(j)))


def check(lines: list[str], made: Made, body: Stmt) -> None:
    """Check that the lines, in a function as in ``HEAD``, are read as the body."""
    text = HEAD + "".join(f"    {line}\n" for line in lines)
    assert_structural_equal(read(text), made.func(body))


def f32(value: float) -> FloatImm:
    return FloatImm(value, FLOAT32)


def i32(value: int) -> IntImm:
    return IntImm(value, INT32)


# -- loops -------------------------------------------------------------------------------------
LOOPS = [
    ("range(8)", i32(0), i32(8), ForKind.SERIAL),
    ("range(2, 8)", i32(2), i32(6), ForKind.SERIAL),
    ("T.serial(8)", i32(0), i32(8), ForKind.SERIAL),
    ("T.serial(0, 8)", i32(0), i32(8), ForKind.SERIAL),
    ("T.serial(2, extent=6)", i32(2), i32(6), ForKind.SERIAL),
    ("T.parallel(0, 8)", i32(0), i32(8), ForKind.PARALLEL),
    ("T.vectorized(0, 8)", i32(0), i32(8), ForKind.VECTORIZED),
    ("T.unroll(1, 8)", i32(1), i32(7), ForKind.UNROLLED),
    ("T.serial(T.int64(8))", IntImm(0, INT64), IntImm(8, INT64), ForKind.SERIAL),
    ("range(2**40)", IntImm(0, INT64), IntImm(2**40, INT64), ForKind.SERIAL),
    ("range(5, 2)", i32(5), i32(-3), ForKind.SERIAL),
    ("T.grid(8)", i32(0), i32(8), ForKind.SERIAL),
]


@clauses("TS-SYN-01", "TS-BLD-10", "TS-TREF-07", "TS-TREF-08")
@pytest.mark.parametrize(("text", "low", "extent", "kind"), LOOPS)
def test_loops(text: str, low: IntImm, extent: IntImm, kind: ForKind):
    made = Made()
    i = Var("i", extent.dtype)
    body = For(i, low, extent, kind, Evaluate(i))
    check([f"for i in {text}:", "    T.evaluate(i)"], made, body)


def test_bounds_of_variables():
    made = Made()
    i = Var("i", INT32)
    check(
        ["for i in T.serial(x, x + 4):", "    T.evaluate(i)"],
        made,
        For(i, made.x, i32(4), ForKind.SERIAL, Evaluate(i)),
    )
    made = Made()
    i = Var("i", INT32)
    check(
        ["for i in range(x, 8):", "    T.evaluate(i)"],
        made,
        For(i, made.x, i32(8) - made.x, ForKind.SERIAL, Evaluate(i)),
    )


def test_thread_binding_and_annotations():
    made = Made()
    i = Var("i", INT32)
    thread = IterVar(None, Var("threadIdx.x", INT32), IterVarType.THREAD_INDEX, "threadIdx.x")
    check(
        [
            'for i in T.thread_binding(0, 8, thread="threadIdx.x", annotations={"k": (1, "a")}):',
            "    pass",
        ],
        made,
        For(i, i32(0), i32(8), ForKind.THREAD_BINDING, SeqStmt(()), thread, {"k": (1, "a")}),
    )


STEPS = [
    ("range(0, 10, 3)", 4, lambda i: i32(0) + i * 3),
    ("range(10, 0, -3)", 4, lambda i: i32(10) + i * -3),
    ("range(3, 3, 2)", 0, lambda i: i32(3) + i * 2),
]


@pytest.mark.parametrize(("text", "count", "value"), STEPS)
def test_a_step_is_normalised(text: str, count: int, value: Any):
    made = Made()
    i = Var("i", INT32)
    body = For(i, i32(0), i32(count), ForKind.SERIAL, Evaluate(value(i)))
    check([f"for i in {text}:", "    T.evaluate(i)"], made, body)


@clauses("TS-BLD-09", "TS-TREF-04")
def test_grid_is_a_nest():
    made = Made()
    i, j = Var("i", INT32), Var("j", INT32)
    inner = For(j, i32(0), made.x, ForKind.SERIAL, made.set(i, j, f32(1)))
    check(
        ["for i, j in T.grid(8, x):", "    A[i, j] = 1.0"],
        made,
        For(i, i32(0), i32(8), ForKind.SERIAL, inner),
    )


@clauses("TS-SYN-08")
def test_while_break_and_continue():
    made = Made()
    body = seq(
        [
            IfThenElse(made.x > 3, Evaluate(call_builtin("continue_loop"))),
            Evaluate(call_builtin("break_loop")),
        ]
    )
    lines = ["    if x > 3:", "        continue", "    break"]
    check(["while x < 8:", *lines], made, While(made.x < 8, body))
    made = Made()
    leaving = Evaluate(call_builtin("break_loop"))
    check(["while True:", "    break"], made, While(convert(True), leaving))


def test_a_return_ends_an_endless_loop_but_the_break_of_an_inner_one_does_not():
    read(HEAD.replace("):", ") -> T.int32:") + "    while True:\n        return 1\n")
    with pytest.raises(Exception, match="SCR0022"):
        read(HEAD + "    while True:\n        for i in range(3):\n            break\n")


# -- branches ----------------------------------------------------------------------------------
@clauses("TS-SYN-05")
def test_if_elif_else():
    made = Made()
    inner = IfThenElse(made.x < 5, made.set(1, 0, f32(2)), made.set(2, 0, f32(3)))
    check(
        [
            "if x < 3:",
            "    A[0, 0] = 1.0",
            "elif x < 5:",
            "    A[1, 0] = 2.0",
            "else:",
            "    A[2, 0] = 3.0",
        ],
        made,
        IfThenElse(made.x < 3, made.set(0, 0, f32(1)), inner),
    )


@clauses("TS-SYN-06")
@pytest.mark.parametrize(
    ("condition", "taken"),
    [("N > 3", 1.0), ("N < 3", 2.0), ("'a' in S", 1.0), ("not N", 2.0), ("N is None", 2.0)],
)
def test_a_condition_that_is_known_decides_while_reading(condition: str, taken: float):
    body = read_body(
        f"if {condition}:",
        "    A[0, 0] = 1.0",
        "else:",
        "    A[0, 0] = 2.0",
        N=4,
        S=("a", "b"),
    )
    assert isinstance(body, BufferStore)
    assert isinstance(body.value, FloatImm)
    assert body.value.value == taken


def test_a_known_condition_before_a_run_time_one():
    made = Made()
    check(
        ["if False:", "    A[0, 0] = 1.0", "elif x > 1:", "    A[0, 0] = 2.0"],
        made,
        IfThenElse(made.x > 1, made.set(0, 0, f32(2))),
    )


def test_names_of_a_branch_that_is_taken_stay():
    made = Made()
    y = Var("y", INT32)
    check(["if True:", "    y = x", "T.evaluate(y)"], made, LetStmt(y, made.x, Evaluate(y)))


# -- bindings ----------------------------------------------------------------------------------
@clauses("TS-SYN-10", "TS-FLOW-04")
def test_a_name_that_is_assigned_once_is_a_let_around_the_rest():
    made = Made()
    y, z = Var("y", INT32), Var("z", FLOAT32)
    rest = seq([made.set(y, 0, z), Evaluate(y)])
    check(
        ["y = x + 1", "z = A[0, 1]", "A[y, 0] = z", "T.evaluate(y)"],
        made,
        LetStmt(y, made.x + 1, LetStmt(z, BufferLoad(made.A, (i32(0), i32(1))), rest)),
    )


@clauses("TS-SYN-10")
def test_a_name_that_is_assigned_again_is_a_buffer_of_one_element():
    made = Made()
    y = decl_buffer((1,), "int32", "y", scope="local")
    zero = (i32(0),)
    i = Var("i", INT32)
    loop = For(i, i32(0), i32(8), ForKind.SERIAL, BufferStore(y, BufferLoad(y, zero) + i, zero))
    body = seq([BufferStore(y, i32(0), zero), loop, Evaluate(BufferLoad(y, zero))])
    wanted = Allocate(y.data, INT32, (i32(1),), TRUE, DeclBuffer(y, body))
    check(["y = 0", "for i in range(8):", "    y = y + i", "T.evaluate(y)"], made, wanted)
    check(["y = 0", "for i in range(8):", "    y += i", "T.evaluate(y)"], made, wanted)


def test_a_type_makes_a_let_in_every_case():
    made = Made()
    i, y, j, z = (Var(n, INT32) for n in ("i", "y", "j", "y"))
    first = For(i, i32(0), i32(8), ForKind.SERIAL, LetStmt(y, i32(1), Evaluate(y)))
    second = For(j, i32(0), i32(8), ForKind.SERIAL, LetStmt(z, i32(2), Evaluate(z)))
    check(
        [
            "for i in range(8):",
            "    y: T.int32 = 1",
            "    T.evaluate(y)",
            "for i in range(8):",
            "    y: 'T.int32' = 2",
            "    T.evaluate(y)",
        ],
        made,
        seq([first, second]),
    )


def test_let_scopes_pointers_and_aliases():
    made = Made()
    y, q = Var("y", INT32), Var("q", type_annotation=PointerType(PrimType(FLOAT32)))
    body = seq([LetStmt(y, made.x, Evaluate(y)), LetStmt(q, made.A.data, Evaluate(q))])
    check(
        [
            "with T.LetStmt(x) as y:",
            "    T.evaluate(y)",
            "z = T.meta_var(A)",
            "q = z.data",
            "T.evaluate(q)",
        ],
        made,
        body,
    )
    made = Made()
    v = Var("v", INT64)
    value = IntImm(5, INT64)
    check(
        ["v = T.int64()", "with T.LetStmt(T.int64(5), var=v):", "    T.evaluate(v)"],
        made,
        LetStmt(v, value, Evaluate(v)),
    )


def test_several_targets():
    made = Made()
    y, z = Var("y", INT32), Var("z", INT32)
    check(
        ["y, z = x, 2", "A[y, z] = A[z, y] = 1.0"],
        made,
        LetStmt(
            y,
            made.x,
            LetStmt(z, i32(2), seq([made.set(y, z, f32(1)), made.set(z, y, f32(1))])),
        ),
    )


# -- stores ------------------------------------------------------------------------------------
@clauses("TS-SYN-16", "TS-SYN-17", "TS-TREF-10")
def test_loads_and_stores():
    made = Made()
    v = Var("val", FLOAT32)
    load = BufferLoad(made.A, (made.x, i32(0)))
    check(
        ["val = A[x, 0]", "A[x, 1] = val + 1.0"],
        made,
        LetStmt(v, load, made.set(made.x, 1, v + 1.0)),
    )


def test_a_slice_is_a_vector():
    made = Made()
    row = Ramp(made.x, i32(1), 4)
    base = Ramp(i32(0), i32(1), 4)
    check(
        ["A[0, x:x + 4] = A[1, 0:4] + 1.0", "A[0, 0:4] = 2", "A[2, 2:3] = 1.0"],
        made,
        seq(
            [
                made.set(0, row, BufferLoad(made.A, (i32(1), base)) + Broadcast(f32(1), 4)),
                made.set(0, base, Broadcast(f32(2), 4)),
                made.set(2, 2, f32(1)),
            ]
        ),
    )


def test_augmented_stores():
    made = Made()
    load = BufferLoad(made.A, (i32(0), made.x))
    check(["A[0, x] *= 2.0"], made, made.set(0, made.x, load * 2.0))


# -- other statements --------------------------------------------------------------------------
def test_asserts():
    made = Made()
    inner = AssertStmt(made.x < 9, StringImm("big"), Evaluate(i32(1)))
    check(
        ['assert x > 0, "small"', 'with T.Assert(x < 9, "big"):', "    T.evaluate(1)"],
        made,
        AssertStmt(made.x > 0, StringImm("small"), inner),
    )
    made = Made()
    check(
        ["assert x > 0"], made, AssertStmt(made.x > 0, StringImm("assertion failed"), SeqStmt(()))
    )


def test_allocations():
    made = Made()
    p = Var("q", type_annotation=PointerType(PrimType(FLOAT32), "local"))
    B = Buffer(p, FLOAT32, (i32(4),), name="B")
    body = DeclBuffer(B, BufferStore(B, f32(1), (i32(0),)))
    lines = ['B = T.decl_buffer((4,), "float32", data=q)', "B[0] = 1.0"]
    wanted = Allocate(p, FLOAT32, (i32(4),), TRUE, body)
    check(['q = T.allocate([4], "float32", "local")', *lines], made, wanted)
    inside = [f"    {line}" for line in lines]
    check(['with T.allocate([4], "float32", "local") as q:', *inside], made, wanted)


@clauses("TS-BLD-15", "TS-TREF-09")
def test_a_buffer_in_a_loop_is_allocated_by_each_iteration():
    made = Made()
    i = Var("i", INT32)
    B = decl_buffer((4,), "float32", "B", scope="local")
    inner = Allocate(
        B.data, FLOAT32, (i32(4),), TRUE, DeclBuffer(B, BufferStore(B, f32(1), (i32(0),)))
    )
    check(
        [
            "for i in range(8):",
            "    A[i, 0] = 1.0",
            '    B = T.alloc_buffer((4,), "float32", scope="local")',
            "    B[0] = 1.0",
        ],
        made,
        For(i, i32(0), i32(8), ForKind.SERIAL, seq([made.set(i, 0, f32(1)), inner])),
    )


@clauses("TS-BLD-15", "TS-TREF-09")
def test_a_buffer_of_the_function_belongs_to_its_root_block():
    made = Made()
    B = decl_buffer((4,), "float32", "B")
    body = BufferStore(B, f32(1), (i32(0),))
    root = Block((), (), (), "root", body, alloc_buffers=(B,))
    wanted = BlockRealize((), TRUE, root)
    check(['B = T.alloc_buffer((4,), "float32")', "B[0] = 1.0"], made, wanted)


def test_attr_and_launch_thread():
    made = Made()
    tx = Var("tx", INT32)
    thread = IterVar(None, tx, IterVarType.THREAD_INDEX, "threadIdx.x")
    check(
        [
            'with T.attr(x, "pragma", 1):',
            '    tx = T.launch_thread("threadIdx.x", 8)',
            "    T.evaluate(tx)",
        ],
        made,
        AttrStmt(made.x, "pragma", i32(1), AttrStmt(thread, "thread_extent", i32(8), Evaluate(tx))),
    )


@clauses("TS-SYN-20")
def test_calls_as_statements_are_evaluated():
    made = Made()
    check(
        ["T.evaluate(0)", "T.exp(1.0)", "x"],
        made,
        seq([Evaluate(i32(0)), Evaluate(call_builtin("exp", f32(1))), Evaluate(made.x)]),
    )


@clauses("TS-SYN-14")
def test_return():
    made = Made()
    text = HEAD.replace("):", ") -> T.float32:") + "    return 1\n"
    wanted = made.func(Evaluate(call_builtin("ret", f32(1))), PrimType(FLOAT32))
    assert_structural_equal(read(text), wanted)
    made = Made()
    text = HEAD + "    if x > 0:\n        return x\n    T.evaluate(T.ret(x + 1))\n"
    body = seq(
        [
            IfThenElse(made.x > 0, Evaluate(call_builtin("ret", made.x))),
            Evaluate(call_builtin("ret", made.x + 1)),
        ]
    )
    assert_structural_equal(read(text), made.func(body, PrimType(INT32)))


def test_nothing_to_do():
    made = Made()
    check(["pass"], made, SeqStmt(()))
    check(['"""A docstring."""', "pass", '"another text"'], made, SeqStmt(()))


# -- blocks ------------------------------------------------------------------------------------
MATMUL = """
@T.prim_func
def f(A: T.Buffer((8, 8), "float32"), x: T.int32, p: T.handle):
    for i, j, k in T.grid(8, 8, 8):
        with T.{block}("product"):
            {axes}
            {head}
            with T.init():
                A[vi, vj] = 0.0
            A[vi, vj] += 1.0
"""
REMAP = 'vi, vj, vk = T.axis.remap("SSR", [i, j, k])'
AXES = """vi = T.axis.spatial(8, i)
            vj = T.axis.S((0, 8), j)
            vk = T.axis.reduce(T.Range(0, 8), k)"""


def matmul(reads: bool) -> PrimFunc:
    made = Made()
    loops = [Var(n, INT32) for n in "ijk"]
    vi, vj, _ = its = [Var(f"v{n}", INT32) for n in "ijk"]
    kinds = [IterVarType.DATA_PAR, IterVarType.DATA_PAR, IterVarType.COMM_REDUCE]
    dom = Range(i32(0), i32(8))
    region = made.A[vi, vj]
    point = made.A.region((vi, vj))
    block = Block(
        tuple(IterVar(dom, v, k) for v, k in zip(its, kinds, strict=True)),
        (made.A.whole(),) if reads else (),
        (point,),
        "product",
        made.set(vi, vj, region + 1.0),
        made.set(vi, vj, f32(0)),
    )
    body: Stmt = BlockRealize(tuple(loops), TRUE, block)
    for var in reversed(loops):
        body = For(var, i32(0), i32(8), ForKind.SERIAL, body)
    root = Block((), (), (), "root", body)
    return made.func(BlockRealize((), TRUE, root))


@clauses(
    *("TS-SYN-03", "TS-BLD-06", "TS-BLD-07", "TS-BLD-08", "TS-BLD-11", "TS-BLD-12", "TS-BLD-13"),
    *("TS-TREF-04", "TS-TREF-06"),
)
@pytest.mark.parametrize("axes", [REMAP, AXES])
@pytest.mark.parametrize("block", ["sblock", "block"])
@pytest.mark.parametrize("reads", [True, False])
def test_a_block_with_axes_regions_and_init(axes: str, block: str, reads: bool):
    head = "T.reads(A)\n            T.writes(A[vi, vj])" if reads else ""
    made = read(MATMUL.format(axes=axes, block=block, head=head))
    assert_structural_equal(made, matmul(reads))


@clauses("TS-TREF-05")
def test_all_of_a_block_s_head():
    func = read(
        HEAD
        + """
    for i in range(8):
        with T.sblock("b"):
            vi = T.axis.scan((2, 6), i)
            vj = T.axis.opaque(x, x - 1)
            T.where(i < 3)
            T.reads(A[vi, 0:4], A[vi:vi + 2, vj:vj + x])
            T.writes([A[0, 0]])
            T.sblock_attr({"key": {"inner": [1, 2.5, True]}})
            B = T.alloc_buffer((4,), "int8", scope="local")
            M = T.match_buffer(A[vi, 0:4], (4,))
            B[0] = T.int8(1)
            M[0] = 1.0
"""
    )
    realize = next(n for n in pre_order(func.body) if isinstance(n, BlockRealize) and n.values)
    block = realize.block
    assert [it.iter_type for it in block.iter_vars] == [IterVarType.ORDERED, IterVarType.OPAQUE]
    vi, vj = (it.var for it in block.iter_vars)
    (A,) = func.buffer_map.values()
    x = func.params[1]
    assert_structural_equal(block.iter_vars[0].dom, Range(i32(2), i32(4)))  # type: ignore[arg-type]
    assert_structural_equal(block.iter_vars[1].dom, Range(i32(0), x))  # type: ignore[arg-type]
    assert block.reads[0].region[1].extent.value == 4  # type: ignore[union-attr]
    assert_structural_equal(block.reads[1].region[0], Range(vi, i32(2)))
    assert block.reads[1].region[1].min is vj
    assert block.reads[1].region[1].extent is x
    assert_structural_equal(block.writes[0], A[0:1, 0:1])
    assert block.annotations == {"key": {"inner": (1, 2.5, True)}}
    assert [b.name for b in block.alloc_buffers] == ["B"]
    (match,) = block.match_buffers
    assert isinstance(match, MatchBufferRegion)
    assert (match.buffer.name, match.buffer.dtype) == ("M", "float32")
    assert realize.predicate.dtype == "bool"


def test_a_root_block_that_is_written_is_not_put_around_again():
    body = read_body('with T.sblock("root"):', '    with T.sblock("b"):', "        pass")
    assert isinstance(body, BlockRealize)
    assert isinstance(body.block.body, BlockRealize)
    assert body.block.body.block.name_hint == "b"


# -- functions and buffers ---------------------------------------------------------------------
@clauses("TS-TREF-01", "TS-TREF-02", "TS-BLD-14")
def test_handles_with_match_buffer_and_symbolic_shapes():
    func = read(
        "@T.prim_func\n"
        "def f(a: T.handle, b: T.handle):\n"
        '    A = T.match_buffer(a, (m, n * 2), "float16", strides=[s, 1], elem_offset=e)\n'
        '    B = T.match_buffer(b, ("m", 4), align=16, offset_factor=2, type="auto")\n'
    )
    a, b = func.params
    A, B = func.buffer_map[a], func.buffer_map[b]
    assert A.shape[0] is B.shape[0]
    assert (A.name, A.data.name_hint, str(A.dtype)) == ("A", "A", "float16")
    assert [str(v.dtype) for v in (A.shape[0], A.strides[0], A.elem_offset) if v is not None] == [
        "int64"
    ] * 3
    assert (B.data_alignment, B.offset_factor, B.buffer_type.name) == (16, 2, "AUTO_BROADCAST")
    assert str(B.dtype) == "float32"


@clauses("TS-TREF-03", "TS-BLD-16", "TS-SYN-12")
def test_buffers_and_scalars_in_the_signature():
    func = read(
        "@T.prim_func(private=True)\n"
        'def f(A: T.Buffer((n, 4), "float32"), n: T.int64, s: "T.float32", '
        'p: T.handle("int8", "shared"), /) -> T.int32:\n'
        '    T.func_attr({"tir.noalias": True, "k": [1, (2, "x")]})\n'
        "    return 1\n"
    )
    assert [p.name_hint for p in func.params] == ["A_handle", "n", "s", "p"]
    (A,) = func.buffer_map.values()
    assert A.shape[0] is func.params[1]
    assert_structural_equal(
        func.params[3].type_annotation, PointerType(PrimType(DataType("int8")), "shared")
    )
    assert func.attrs == {"tir.noalias": True, "k": (1, (2, "x"))}
    assert_structural_equal(func.ret_type, PrimType(INT32))


def test_declared_variables():
    func = read(
        "@T.prim_func\ndef f(a: T.handle):\n    m, n = T.int64(), T.var('int32')\n"
        "    A = T.match_buffer(a, (m, n), 'int8')\n"
    )
    (A,) = func.buffer_map.values()
    assert [(v.name_hint, str(v.dtype)) for v in A.shape if isinstance(v, Var)] == [
        ("m", "int64"),
        ("n", "int32"),
    ]


CALLS = """
@I.ir_module
class M:
    I.module_attrs({"k": 1})

    @T.prim_func(private=True)
    def twice(A: T.Buffer((8,), "float32"), n: T.int64):
        A[0] = A[0] * 2.0

    @T.prim_func
    def fact(n: T.int32) -> T.int32:
        if n <= 1:
            return 1
        return n * M.fact(n - 1)

    @T.prim_func
    def main(A: T.Buffer((8,), "float32")) -> T.int32:
        cls.twice(A, 3)
        cls.twice(A.data, T.int64(4))
        return cls.fact(5)
"""


@clauses("TS-DEC-02", "TS-DEC-06")
def test_functions_of_a_module_call_one_another():
    module = read_module(CALLS)
    assert isinstance(module, IRModule)
    assert (list(module), module.attrs) == (["twice", "fact", "main"], {"k": 1})
    calls = [
        n
        for name in ("main", "fact")
        for n in pre_order(module[name])
        if isinstance(n, Call) and isinstance(n.op, GlobalVar)
    ]
    assert [(str(c.dtype), c.op.name_hint, len(c.args)) for c in calls] == [
        ("void", "twice", 2),
        ("void", "twice", 2),
        ("int32", "fact", 1),
        ("int32", "fact", 1),
    ]
    main = module["main"]
    assert isinstance(main, PrimFunc)
    (A,) = main.buffer_map.values()
    assert calls[0].args[0] is A.data
    assert_structural_equal(calls[0].args[1], IntImm(3, INT64))


def test_a_function_calls_itself_by_its_name():
    func = read(
        "@T.prim_func\ndef fact(n: T.int32) -> T.int32:\n    if n <= 1:\n        return 1\n"
        "    return n * fact(n - 1)\n"
    )
    (call,) = [n for n in pre_order(func) if isinstance(n, Call) and isinstance(n.op, GlobalVar)]
    assert (str(call.dtype), call.op.name_hint) == ("int32", "fact")


HEADERS = [
    "from tvm.script import ir as I, tirx as T, relax as R\n",
    "from tvm.script import tir as T\nimport tvm\n",
    "from loomir.script import tir as T\nimport loomir.script\n",
    "from __future__ import annotations\nfrom tvm.script.parser import tir as T\n",
    '"""A text."""\nN = 8\n',
    "",
]


@clauses("TS-DEC-01")
@pytest.mark.parametrize("header", HEADERS)
def test_headers_of_a_text(header: str):
    read(header + HEAD + "    A[0, 0] = 1.0\n")


def test_other_names_by_import():
    func = read("from tvm.script import tirx as X\n@X.prim_func\ndef f():\n    X.evaluate(1)\n")
    assert isinstance(func.body, Evaluate)


@clauses("TS-DEC-05")
def test_the_example_of_the_specification_as_far_as_it_is_tir():
    module = read_module(
        "@I.ir_module\nclass MyModule:\n    @T.prim_func\n"
        '    def add_kernel(A: T.Buffer((128,), "float32"),\n'
        '                   B: T.Buffer((128,), "float32"),\n'
        '                   C: T.Buffer((128,), "float32")):\n'
        "        for i in range(128):\n"
        '            with T.sblock("compute"):\n'
        "                vi = T.axis.spatial(128, i)\n"
        "                C[vi] = A[vi] + B[vi]\n"
    )
    (block,) = [
        n
        for n in pre_order(module["add_kernel"])
        if isinstance(n, Block) and n.name_hint == "compute"
    ]
    assert [r.buffer.name for r in block.reads] == ["A", "B"]
    assert [r.buffer.name for r in block.writes] == ["C"]


# -- several targets -------------------------------------------------------------------------
_AT_ONCE = """
    x[0], x[1] = x[1], x[0]
    a = T.int32(1)
    b = T.int32(2)
    for i in range(5):
        a, b = b, a + b
    y[0], y[1] = a, b
    x[2], t = 5, x[2]
    y[2] = t
    x[3] = y[3] = x[3] + 1
    x[4:6], x[6:8] = x[6:8], x[4:6]
    p = (x[0], x[1])
    x[0] = 100
    y[4] = p[0]
    a, y[a] = 5, 6
    (x[0], x[1]), x[2] = (x[1], x[2]), x[0]
"""


@pytest.mark.parametrize("schedule", [True, False])
def test_all_values_are_read_before_the_first_is_stored(schedule: bool):
    params = 'x: T.Buffer((8,), "int32"), y: T.Buffer((8,), "int32")'
    func = read(f"@T.prim_func\ndef f({params}):{_AT_ONCE}")
    x, y = np.arange(8, dtype="int32"), np.zeros(8, "int32")
    loomir.compile(func, schedule=schedule)(x, y)
    as_python: dict[str, Any] = {"x": list(range(8)), "y": [0] * 8, "T": SimpleNamespace(int32=int)}
    exec(textwrap.dedent(_AT_ONCE), as_python)  # noqa: S102 - Python itself is the judge
    assert (x.tolist(), y.tolist()) == (as_python["x"], as_python["y"])


def test_an_axis_may_be_called_as_one_of_the_block_around():
    body = """
    for i in range(8):
        with T.sblock("outer"):
            v = T.axis.spatial(8, i)
            with T.sblock("inner"):
                v = T.axis.spatial(8, v)
                A[v, v] = 1.0
    """
    func = read(HEAD + body)
    assert [n.name_hint for n in pre_order(func) if isinstance(n, Block)][1:] == ["outer", "inner"]


# -- spans -------------------------------------------------------------------------------------
def test_nodes_know_where_they_stand():
    text = HEAD + "    for i in range(8):\n        A[i, 0] = A[i, 1] / T.exp(A[i, 2])\n    x // 2\n"
    func = read(text)
    lines = text.split("\n")

    def part(node: Any) -> str:
        s = node.span
        return lines[s.line - 1][s.column - 1 : s.end_column - 1]

    nodes = list(pre_order(func))
    assert part(func) == "def f"
    assert [part(n) for n in nodes if isinstance(n, For)] == ["for i in range(8)"]
    assert [part(n) for n in nodes if isinstance(n, BufferStore)] == [
        "A[i, 0] = A[i, 1] / T.exp(A[i, 2])"
    ]
    assert [part(n) for n in nodes if isinstance(n, BufferLoad)] == ["A[i, 1]", "A[i, 2]"]
    assert [part(n) for n in nodes if isinstance(n, Call)] == ["T.exp(A[i, 2])"]
    assert [part(n) for n in nodes if type(n).__name__ == "Div"] == ["A[i, 1] / T.exp(A[i, 2])"]
    assert [part(n) for n in nodes if type(n).__name__ == "FloorDiv"] == ["x // 2"]
    assert all(part(b).startswith("A: T.Buffer") for b in func.buffer_map.values())


def test_values_from_around_keep_their_own_places():
    v = Var("v", INT32)
    kept = Add(v, i32(1))
    body = read_body("T.evaluate(T.cast(k, 'int32'))", k=kept)
    assert isinstance(body, Evaluate)
    assert body.value is kept
    assert kept.span is None
