from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import loomir
from loomir.check.tir.verify import verify
from loomir.ir import BaseFunc, GlobalVar, IRModule
from loomir.ir.node import node
from loomir.script import from_source
from loomir.support.dtype import HANDLE, VOID, DataType
from loomir.tir import (
    TRUE,
    Allocate,
    AttrStmt,
    Buffer,
    BufferRealize,
    BufferRegion,
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
from loomir.tir.stmt import AssertStmt
from tests.clause import clauses
from tests.growth import assert_grows
from tests.tir.programs import (
    NOTHING,
    block,
    call,
    call_of,
    func,
    iterator,
    loop,
    ret,
    store,
    use,
    var,
)

INT32, FLOAT32 = DataType("int32"), DataType("float32")


def codes(program: PrimFunc | IRModule) -> list[str]:
    found = verify(program)
    assert all(d.help and d.message for d in found)
    return [d.code for d in found]


def pointer(name: str = "p", dtype: str = "float32") -> Var:
    return Var(name, type_annotation=PointerType(PrimType(DataType(dtype))))


# -- scopes --------------------------------------------------------------------------------------


@clauses("TIR-SCOPE-04", "TIR-EVAL-01")
def test_parameters_are_in_scope_in_the_body():
    x = var("x")
    assert codes(func(use(x), x)) == []
    assert codes(func(use(x))) == ["TIR0401"]


@clauses("TIR-SCOPE-02", "TIR-SCOPE-05")
def test_a_let_statement_binds_in_its_body_only():
    x = var("x")
    assert codes(func(LetStmt(x, convert(1), use(x)))) == []
    assert codes(func(SeqStmt((LetStmt(x, convert(1), NOTHING), use(x))))) == ["TIR0401"]
    assert codes(func(LetStmt(x, x, NOTHING))) == ["TIR0401"]


@clauses("TIR-SCOPE-05")
def test_a_let_binds_in_its_body_only():
    x, y = var("x"), var("y")
    assert codes(func(use(Let(x, convert(1), x + 1)))) == []
    assert codes(func(use(Let(x, convert(1), x) + x))) == ["TIR0401"]
    assert codes(func(use(Let(x, x + 1, convert(1))))) == ["TIR0401"]
    assert codes(func(use(Let(x, Let(y, convert(1), y), x + y)))) == ["TIR0401"]


@clauses("TIR-SCOPE-07")
def test_a_loop_variable_is_in_scope_in_the_body_only():
    i = var("i")
    assert codes(func(loop(i, 4, use(i)))) == []
    assert codes(func(SeqStmt((loop(i, 4, NOTHING), use(i))))) == ["TIR0401"]
    assert codes(func(loop(i, i, NOTHING))) == ["TIR0401"]


@clauses("TIR-SCOPE-06")
def test_iterators_are_in_scope_in_the_block_only():
    vi = var("vi")
    assert codes(func(block([(iterator(vi, 4), 0)], use(vi)))) == []
    # Values and predicate are evaluated outside (T2).
    assert codes(func(block([(iterator(vi, 4), vi)], NOTHING))) == ["TIR0401"]
    assert codes(func(block([(iterator(vi, 4), 0)], NOTHING, vi < 2))) == ["TIR0401"]
    assert codes(func(SeqStmt((block([(iterator(vi, 4), 0)], NOTHING), use(vi))))) == ["TIR0401"]


@clauses("TIR-SCOPE-08")
def test_an_allocation_binds_in_its_body_only():
    p = pointer()
    assert codes(func(Allocate(p, FLOAT32, (convert(4),), TRUE, use(p)))) == []
    outside = SeqStmt((Allocate(p, FLOAT32, (), TRUE, NOTHING), use(p)))
    assert codes(func(outside)) == ["TIR0401"]


@clauses("TIR-SCOPE-09")
def test_a_realized_buffer_binds_its_memory_and_fresh_variables():
    n, s = var("n"), var("s")
    buffer = decl_buffer((n,), strides=(s,))
    inside = SeqStmt((store(buffer, 1.0, 0), use(n, s, buffer.data)))
    assert codes(func(BufferRealize(buffer, (), TRUE, inside))) == []
    after = SeqStmt((BufferRealize(buffer, (), TRUE, NOTHING), use(n)))
    assert codes(func(after)) == ["TIR0401"]


@clauses("TIR-SCOPE-10", "TIR-STMT-03d")
@pytest.mark.parametrize("key", ["thread_extent", "virtual_thread"])
def test_thread_attributes_bind_their_variable(key: str):
    x = var("x")
    assert codes(func(AttrStmt(x, key, convert(4), use(x)))) == []
    assert codes(func(SeqStmt((AttrStmt(x, key, convert(4), NOTHING), use(x))))) == ["TIR0401"]
    assert codes(func(AttrStmt(x, "pragma", convert(4), use(x)))) == ["TIR0401"]


@clauses("TIR-SCOPE-11")
def test_a_block_binds_the_buffers_that_it_allocates_and_matches():
    source, made, view = (decl_buffer((4,), name=n) for n in ("source", "made", "view"))
    match = MatchBufferRegion(view, source.whole())
    inside = SeqStmt((store(made, 1.0, 0), store(view, 1.0, 0), use(made.data, view.data)))
    whole = block([], inside, alloc_buffers=(made,), match_buffers=(match,))
    assert codes(func(whole, source)) == []
    after = SeqStmt((block([], NOTHING, alloc_buffers=(made,)), store(made, 1.0, 0)))
    assert codes(func(after)) == ["TIR0403"]


@clauses("TIR-SCOPE-12")
def test_allocated_buffers_have_no_free_variables():
    n = var("n")
    for buffer in (
        decl_buffer((n,)),
        decl_buffer((4,), strides=(n,)),
        decl_buffer((4,), elem_offset=n),
    ):
        made = block([], NOTHING, alloc_buffers=(buffer,))
        assert codes(func(made)) == ["TIR0404"]
        assert codes(func(made, n)) == []
    # An iterator of the block is bound where it allocates.
    vi = var("vi")
    inner = block([(iterator(vi, 4), 0)], NOTHING, alloc_buffers=(decl_buffer((vi,)),))
    assert codes(func(inner)) == []


@clauses("TIR-SCOPE-01")
def test_a_variable_is_bound_once():
    x = var("x")
    nested = loop(x, 4, loop(x, 4, NOTHING))
    siblings = SeqStmt((loop(x, 4, NOTHING), loop(x, 4, NOTHING)))
    lets = SeqStmt((LetStmt(x, convert(1), NOTHING), use(Let(x, convert(1), x))))
    parameter = func(loop(x, 4, NOTHING), x)
    for program in (func(nested), func(siblings), func(lets), parameter):
        assert codes(program) == ["TIR0402"]
    assert codes(func(NOTHING, x, x)) == ["TIR0402"]


def test_a_buffer_is_declared_once():
    buffer = decl_buffer((4,))
    once = block([], NOTHING, alloc_buffers=(buffer,))
    assert codes(func(SeqStmt((once, block([], NOTHING, alloc_buffers=(buffer,)))))) == ["TIR0402"]
    assert codes(func(NOTHING, buffer, buffer)) == ["TIR0402"]


def test_buffers_are_used_in_their_scope():
    buffer, other = decl_buffer((4,)), decl_buffer((4,), name="other")
    assert codes(func(use(buffer[0]))) == ["TIR0403"]
    region = BufferRegion(other, (Range(convert(0), convert(4)),))
    assert codes(func(block([], NOTHING, reads=(region,)), buffer)) == ["TIR0403"]


def test_a_declared_buffer_needs_its_memory():
    p, n = pointer(), var("n")
    buffer = decl_buffer((4,), data=p)
    inside = DeclBuffer(buffer, store(buffer, 1.0, 0))
    assert codes(func(Allocate(p, FLOAT32, (convert(4),), TRUE, inside))) == []
    assert codes(func(DeclBuffer(decl_buffer((4,)), NOTHING))) == ["TIR0401"]
    sized = decl_buffer((n,), data=p)
    assert codes(func(DeclBuffer(sized, NOTHING), p)) == ["TIR0401"]


def test_shapes_of_parameters_bind_their_variables():
    n, m, s = var("n", "int64"), var("m", "int64"), var("s", "int64")
    first = decl_buffer((n, m * 2), strides=(s, 1))
    assert codes(func(use(n, m, s), first, decl_buffer((n,), name="second"))) == []


def test_a_view_binds_fresh_strides_and_offsets():
    source = decl_buffer((4,), name="source")
    s, o = var("s"), var("o")
    view = decl_buffer((2,), strides=(s,), elem_offset=o)
    match = MatchBufferRegion(view, source.region((slice(0, 2),)))
    inside = block([], use(s, o), match_buffers=(match,))
    assert codes(func(inside, source)) == []
    assert codes(func(SeqStmt((inside, use(s))), source)) == ["TIR0401"]


def test_all_mistakes_are_told_at_once_and_each_once():
    x, y = var("x"), var("y")
    program = func(SeqStmt((use(x), use(y), use(x), call("break_loop"), ret(1))))
    assert codes(program) == ["TIR0401", "TIR0401", "TIR0414"]


def test_messages_tell_undefined_from_out_of_scope():
    x = var("x")
    (undefined,) = verify(func(use(x)))
    (outside,) = verify(func(SeqStmt((loop(x, 4, NOTHING), use(x)))))
    assert "not defined" in undefined.message
    assert "outside of its scope" in outside.message


# -- returns -------------------------------------------------------------------------------------


@clauses("TIR-OTY-06b", "TIR-OTY-06c", "TIR-OTY-06d")
def test_returns_have_the_declared_type():
    x = var("x", "float32")
    assert codes(func(ret(x), x, ret_type=PrimType(FLOAT32))) == []
    assert codes(func(ret(x), x, ret_type=PrimType(INT32))) == ["TIR0405"]
    assert codes(func(ret(const(1, "int8")), ret_type=PrimType(INT32))) == ["TIR0405"]
    handle = pointer("p", "int8")
    assert codes(func(ret(handle), handle, ret_type=handle.type_annotation)) == []
    assert codes(func(ret(handle), handle, ret_type=PointerType(PrimType(FLOAT32)))) == ["TIR0405"]


@clauses("TIR-OTY-06a")
def test_a_function_with_a_result_returns():
    assert codes(func(NOTHING, ret_type=PrimType(INT32))) == ["TIR0406"]
    never = IfThenElse(IntImm(0, DataType("bool")), ret(1))
    assert codes(func(never, ret_type=PrimType(INT32))) == ["TIR0406"]
    maybe = IfThenElse(var("c", "bool"), ret(1))
    assert codes(func(maybe, maybe.condition, ret_type=PrimType(INT32))) == []
    nowhere = loop(var("i"), 0, ret(1))
    assert codes(func(nowhere, ret_type=PrimType(INT32))) == ["TIR0406"]


CONCURRENT = (ForKind.PARALLEL, ForKind.VECTORIZED, ForKind.THREAD_BINDING)


def thread(name: Var) -> IterVar:
    return IterVar(None, name, IterVarType.THREAD_INDEX, "threadIdx.x")


def concurrent(kind: ForKind, body: Stmt) -> Stmt:
    bound = thread(var("t")) if kind is ForKind.THREAD_BINDING else None
    return loop(var("i"), 4, body, kind, thread_binding=bound)


@pytest.mark.parametrize("kind", CONCURRENT)
def test_concurrent_loops_are_not_left(kind: ForKind):
    for jump in (ret(1), call("break_loop"), call("continue_loop")):
        assert codes(func(concurrent(kind, jump))) == ["TIR0407"]
    inner = loop(var("j"), 4, SeqStmt((call("break_loop"), call("continue_loop"))))
    assert codes(func(concurrent(kind, inner))) == []
    assert codes(func(concurrent(kind, loop(var("j"), 4, ret(1))))) == ["TIR0407"]


def test_thread_extents_are_not_left():
    x = var("x")
    assert codes(func(AttrStmt(x, "thread_extent", convert(4), ret(1)))) == ["TIR0407"]
    jump = loop(var("i"), 4, AttrStmt(x, "virtual_thread", convert(4), call("break_loop")))
    assert codes(func(jump)) == ["TIR0407"]


def test_jumps_stand_in_loops():
    for jump in (call("break_loop"), call("continue_loop")):
        assert codes(func(jump)) == ["TIR0414"]
        assert codes(func(loop(var("i"), 4, jump))) == []
        assert codes(func(loop(var("i"), 4, jump, ForKind.UNROLLED))) == []
        assert codes(func(While(var("c", "bool") < TRUE, jump), var("d"))) == ["TIR0401"]


# -- loops ---------------------------------------------------------------------------------------


@clauses("TIR-STY-09e")
def test_a_vectorized_loop_holds_no_while():
    c = var("c", "bool")
    inside = loop(var("i"), 4, loop(var("j"), 4, While(c, NOTHING)), ForKind.VECTORIZED)
    assert codes(func(inside, c)) == ["TIR0411"]
    # Any first value, and an extent that is not constant or 0, are fine (T46).
    n = var("n")
    assert codes(func(loop(var("i"), n, NOTHING, ForKind.VECTORIZED, start=2), n)) == []
    assert codes(func(loop(var("i"), 0, NOTHING, ForKind.VECTORIZED))) == []


@clauses("TIR-STY-10a")
def test_a_while_loop_with_a_constant_condition_can_be_left():
    assert codes(func(While(TRUE, call("break_loop")))) == []
    assert codes(func(While(convert(2), ret(1)))) == []
    assert codes(func(While(TRUE, NOTHING))) == ["TIR0415"]
    assert codes(func(While(convert(0), call("break_loop")))) == ["TIR0415"]
    # This break leaves the inner loop only.
    assert codes(func(While(TRUE, loop(var("i"), 4, call("break_loop"))))) == ["TIR0415"]


def test_thread_loops_have_a_thread_and_only_these():
    assert codes(func(loop(var("i"), 4, NOTHING, ForKind.THREAD_BINDING))) == ["TIR0418"]
    assert codes(func(loop(var("i"), 4, NOTHING, thread_binding=thread(var("t"))))) == ["TIR0418"]


# -- calls ---------------------------------------------------------------------------------------

TWICE = GlobalVar("twice")


def module(caller: Stmt, *params: Var | Buffer) -> IRModule:
    """A module with ``twice(x: Buffer[int8], n: int32) -> int32`` and ``main``."""
    n = var("n")
    x = decl_buffer((4,), "int8", "x")
    callee = func(ret(n * 2), x, n, attrs={"global_symbol": "twice"})
    main = func(caller, *params, attrs={"global_symbol": "main"})
    return IRModule({TWICE: callee, GlobalVar("main"): main})


@clauses("TIR-SCOPE-03", "TIR-PROG-02", "TIR-PROG-03")
def test_functions_of_the_module_are_in_scope_everywhere():
    a = decl_buffer((4,), "int8", "a")
    good = call_of(TWICE, INT32, a.data, convert(3))
    assert codes(module(good, a)) == []
    n = var("n")
    again = call_of(GlobalVar("f"), VOID, n)
    assert codes(func(again, n)) == []


def test_only_functions_of_the_module_are_called():
    found = verify(module(call_of(GlobalVar("twise"), INT32)))
    assert [d.code for d in found] == ["TIR0408"]
    assert "twice" in found[0].help
    assert codes(func(call_of(TWICE, INT32))) == ["TIR0408"]


def test_calls_pass_what_the_parameters_take():
    a, b = decl_buffer((4,), "int8", "a"), decl_buffer((4,), "float32", "b")
    wrong = (
        call_of(TWICE, INT32, a.data),
        call_of(TWICE, INT32, a.data, const(3, "int64")),
        call_of(TWICE, INT32, b.data, convert(3)),
        call_of(TWICE, INT32, convert(3), convert(3)),
        call_of(TWICE, VOID, a.data, convert(3)),
    )
    for made in wrong:
        assert codes(module(made, a, b)) == ["TIR0409"]


def test_arrays_of_lowered_calls_are_checked_by_their_element():
    a = decl_buffer((4,), "int8", "a")
    for dtype, expected in (("int8", []), ("float32", ["TIR0409"])):
        shape = call("tvm_stack_make_shape", convert(4))
        array = call(
            "tvm_stack_make_array",
            a.data,
            shape.value,
            shape.value,
            convert(1),
            const(0, dtype),
            convert(0),
        )
        made = call_of(TWICE, INT32, array.value, convert(3))
        assert codes(module(made, a)) == expected


@pytest.mark.parametrize("at", [0, 1, 2, 5], ids=["data", "shape", "strides", "offset"])
def test_parts_of_an_arrays_description_are_of_their_kinds(at: int):
    a = decl_buffer((4,), "int8", "a")
    shape = call("tvm_stack_make_shape", convert(4)).value
    parts = [a.data, shape, shape, convert(1), const(0, "int8"), convert(0)]
    parts[at] = const(0, "float32")
    array = call("tvm_stack_make_array", *parts).value
    assert codes(module(call_of(TWICE, INT32, array, convert(3)), a)) == ["TIR0114"]


def test_strides_that_are_a_number_are_refused():
    text = """
@T.prim_func
def f(x: T.Buffer((4,), "float32")):
    T.tvm_call_packed(
        "sum",
        T.tvm_stack_make_array(x.data, T.tvm_stack_make_shape(4), 0, 1, T.float32(0), 0),
    )
"""
    with pytest.raises(loomir.CompileError) as caught:
        loomir.compile(from_source(text))
    found = caught.value.diagnostic
    assert (found.code, found.span.line if found.span else 0) == ("TIR0114", 6)
    assert "T.tvm_stack_make_shape()" in found.help


@node
class Foreign(BaseFunc):
    """A function of another IR."""


@clauses("TIR-PROG-04", "TIR-EVAL-14")
def test_functions_of_other_irs_are_not_called():
    functions = {
        GlobalVar("foreign"): Foreign(),
        GlobalVar("f"): func(call_of(GlobalVar("foreign"), VOID)),
    }
    assert codes(IRModule(functions)) == ["TIR0410"]


# -- blocks --------------------------------------------------------------------------------------


def view(shape: tuple[int | Var, ...], *ranges: tuple[object, object]) -> list[str]:
    n = var("n")
    source = decl_buffer((8, 8), name="source")
    parts = tuple(
        Range(
            convert(low) if isinstance(low, int) else low,
            convert(size) if isinstance(size, int) else size,
        )
        for low, size in ranges
    )
    match = MatchBufferRegion(decl_buffer(shape), BufferRegion(source, parts))
    free = [p for r in parts for p in (r.min, r.extent) if isinstance(p, Var)]
    made = block([], NOTHING, match_buffers=(match,))
    return codes(func(made, source, n, *{id(v): v for v in free}.values()))


@clauses("TIR-OTY-05f", "TIR-STMT-18e")
def test_axes_that_a_view_lacks_have_extent_1():
    m = var("m")
    assert view((4,), (2, 1), (0, 4)) == []
    assert view((4,), (0, 2), (0, 4)) == ["TIR0412"]
    assert view((4,), (0, m), (0, 4)) == ["TIR0412"]
    assert view((4,), (m, m - m + 1), (0, 4)) == []


@clauses("TIR-OTY-05g", "TIR-STMT-18d")
def test_extents_of_a_view_are_those_of_the_region():
    m = var("m")
    assert view((2, 4), (0, 2), (0, 4)) == []
    assert view((2, 3), (0, 2), (0, 4)) == ["TIR0412"]
    assert view((var("fresh"), 4), (0, 2), (0, 4)) == []
    assert view((2, 4), (m, 2), (0, 4)) == []
    assert view((2, 4), (0, m), (0, 4)) == ["TIR0412"]


def test_iterators_have_a_domain_a_kind_and_a_value_of_their_dtype():
    vi = var("vi")
    odd = IterVar(Range(convert(0), convert(4)), vi, IterVarType.UNROLLED)
    assert codes(func(block([(odd, 0)], NOTHING))) == ["TIR0416"]
    assert codes(func(block([(IterVar(None, vi, IterVarType.DATA_PAR), 0)], NOTHING))) == [
        "TIR0416"
    ]
    assert codes(func(block([(iterator(vi, 4), const(0, "int64"))], NOTHING))) == ["TIR0417"]


def test_other_well_formed_programs_pass():
    c = var("c", "bool")
    a = decl_buffer((4,), name="a", buffer_type=BufferType.AUTO_BROADCAST)
    body = AssertStmt(
        c,
        StringImm("text"),
        SeqStmt((IfThenElse(c, store(a, 1.0, 0), store(a, 2.0, 0)), SeqStmt(()))),
    )
    assert codes(func(body, c, a)) == []
    handle = var("h", "handle")
    assert codes(func(use(handle), handle)) == []
    assert handle.dtype is HANDLE


def test_depth_and_length_cost_linear_time():
    def deep(size: int) -> PrimFunc:
        x = var("x")
        value = x
        body: Stmt = NOTHING
        for _ in range(size):
            value = value + x
        for _ in range(size):
            body = LetStmt(var("y"), x, body)
        return func(SeqStmt((use(value), body)), x)

    def check(size: int) -> Callable[[], object]:
        made = deep(size)
        return lambda: codes(made)

    assert codes(deep(40_000)) == []
    assert_grows(60, check, 2_000, 40_000)


@pytest.mark.parametrize(("inner", "found"), [("threadIdx.x", ["TIR0422"]), ("threadIdx.y", [])])
@pytest.mark.parametrize("form", ["loops", "attributes", "both"])
def test_a_thread_has_one_index(form: str, inner: str, found: list[str]):
    outer_loop = 'for i in T.thread_binding(4, thread="threadIdx.x"):'
    inner_loop = f'for j in T.thread_binding(4, thread="{inner}"):'
    if form == "attributes":
        outer_loop = 'with T.launch_thread("threadIdx.x", 4) as i:'
    if form != "loops":
        inner_loop = f'with T.launch_thread("{inner}", 4) as j:'
    made = from_source(
        "@T.prim_func\ndef f(x: T.Buffer((4, 4), 'int32')):\n"
        f"    {outer_loop}\n        for k in range(2):\n            while x[i, 0] < k:\n"
        f"                {inner_loop}\n                    x[i, j] = k\n"
    )
    assert isinstance(made, PrimFunc)
    assert [d.code for d in verify(made)] == found


def test_threads_one_after_another_and_virtual_ones():
    made = from_source(
        "@T.prim_func\ndef f(x: T.Buffer((4, 4), 'int32')):\n"
        '    for i in T.thread_binding(4, thread="threadIdx.x"):\n        x[i, 0] = 1\n'
        '    for i in T.thread_binding(4, thread="threadIdx.x"):\n        x[i, 1] = 1\n'
        '    for i in T.thread_binding(2, thread="vthread"):\n'
        '        for j in T.thread_binding(2, thread="vthread"):\n            x[i, j] = 1\n'
    )
    assert isinstance(made, PrimFunc)
    assert verify(made) == ()


@pytest.mark.parametrize(
    ("head", "body"),
    [
        ("v: T.float32x4, x: T.Buffer((4,), 'float32'))", "x[0:4] = v"),
        ("v: T.float32) -> T.float32x4", "return T.Broadcast(v, 4)"),
    ],
)
def test_vectors_are_not_passed_from_outside(head: str, body: str):
    made = from_source(f"@T.prim_func\ndef f({head}:\n    {body}\n")
    assert isinstance(made, PrimFunc)
    given = (1.0, np.zeros(4, "float32"))[: len(made.params)]
    with pytest.raises(loomir.CompileError, match="TIR0423"):
        loomir.compile(made, cache=False)
    with pytest.raises(loomir.CompileError, match="TIR0423"):
        loomir.interpret(made, "f", *given)


def test_functions_of_a_module_pass_vectors_to_one_another():
    made = from_source("""
@I.ir_module
class M:
    @T.prim_func(private=True)
    def put(v: T.float32x4, x: T.Buffer((4,), "float32")):
        x[0:4] = v

    @T.prim_func
    def f(x: T.Buffer((4,), "float32")):
        M.put(T.Broadcast(T.float32(2), 4), x)
""")
    out = np.zeros(4, "float32")
    loomir.compile(made, cache=False)["f"](out)
    assert out.tolist() == [2, 2, 2, 2]


@pytest.mark.parametrize("tag", ["threadIdx.q", "foo", "threadIdx", "vthread.w", ""])
@pytest.mark.parametrize("form", ["loop", "attribute"])
def test_threads_that_no_grid_has(tag: str, form: str):
    head = f'for i in T.thread_binding(4, thread="{tag}"):'
    if form == "attribute":
        head = f'with T.launch_thread("{tag}", 4) as i:'
    made = from_source(
        f"@T.prim_func\ndef f(x: T.Buffer((4,), 'int32')):\n    {head}\n        x[i] = 1\n"
    )
    assert isinstance(made, PrimFunc)
    (found,) = verify(made)
    assert found.code == "TIR0424"
    assert found.message == f"there is no thread {tag!r}"
    assert found.help.startswith("did you mean ")
