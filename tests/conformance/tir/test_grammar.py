"""Grammar: the nodes of the language, and what each of them consists of."""

from __future__ import annotations

from enum import Enum

import numpy as np
import pytest

from loomir import tir
from loomir.ir.module import BaseFunc, GlobalVar, IRModule
from loomir.ir.node import NODE_CLASSES, Node, attr, node
from loomir.ir.op import Op
from loomir.tir import (
    TRUE,
    Allocate,
    AssertStmt,
    AttrStmt,
    BinaryOp,
    Block,
    BlockRealize,
    BufferRealize,
    BufferRegion,
    BufferStore,
    BufferType,
    Call,
    CmpOp,
    DeclBuffer,
    Evaluate,
    For,
    ForKind,
    IfThenElse,
    IterVar,
    IterVarType,
    LetStmt,
    LogicalOp,
    MatchBufferRegion,
    PointerType,
    PrimFunc,
    PrimType,
    Range,
    SeqStmt,
    StringImm,
    TupleType,
    Type,
    Var,
    While,
    convert,
    decl_buffer,
)
from tests.conformance.compare_engines import both, dt, i32, zeros
from tests.tir.refusal import refused as refuses

NOTHING = Evaluate(convert(0))


def fields(made: Node) -> dict[str, object]:
    """Return a node's fields, by name."""
    return {f.name: getattr(made, f.name) for f in type(made).node_fields if f.name != "span"}


def holds(made: Node, **wanted: object) -> bool:
    """Tell whether a node has exactly these fields, with these values."""
    found = fields(made)
    return list(found) == list(wanted) and all(
        found[name] is value or found[name] == value for name, value in wanted.items()
    )


def names(kinds: type[Enum]) -> list[str]:
    return [kind.value for kind in kinds]


def test_TIR_GRAM_01_prim_func():
    """A function has parameters, a body, a result type, buffers of parameters, and attributes."""
    handle, buffer = Var("a", "handle"), decl_buffer((4,), "int32", "A")
    nothing = TupleType(())
    made = PrimFunc((handle,), NOTHING, nothing, {handle: buffer}, {"k": 1})
    assert holds(
        made,
        params=(handle,),
        body=NOTHING,
        ret_type=nothing,
        buffer_map={handle: buffer},
        attrs={"k": 1},
    )
    assert PrimFunc((), NOTHING).ret_type is not None  # left out, it is inferred


def test_TIR_GRAM_02_types():
    """A type is a dtype, a pointer with a storage scope, or a tuple."""
    made = {c.__name__ for c in NODE_CLASSES.values() if issubclass(c, Type) and c is not Type}
    assert made == {"PrimType", "PointerType", "TupleType"}
    element = PrimType(dt("int32"))
    assert holds(element, dtype=dt("int32"))
    assert holds(PointerType(element, "shared"), element_type=element, storage_scope="shared")
    assert holds(TupleType(()), fields=())


def test_TIR_GRAM_03_datatype():
    """A dtype is a code, the bits of an element and the number of lanes."""
    for text, code, bits, lanes in [
        ("int8x4", "INT", 8, 4),
        ("uint64", "UINT", 64, 1),
        ("float16x2", "FLOAT", 16, 2),
        ("bfloat16", "BFLOAT", 16, 1),
        ("handle", "HANDLE", 64, 1),
    ]:
        made = dt(text)
        assert (made.code.name, made.bits, made.lanes) == (code, bits, lanes)


def test_TIR_GRAM_04_bits():
    """An element has 0, 1, 8, 16, 32 or 64 bits."""
    found = {dt(t).bits for t in ("void", "bool", "int8", "float16", "uint32", "float64")}
    assert found == {0, 1, 8, 16, 32, 64}
    for bad in ("int7", "int128", "float8", "float99", "uint2", "bfloat32"):
        with refuses("TIR0001"):
            dt(bad)


def test_TIR_GRAM_05_lanes():
    """A value has 1, 2, 3, 4, 8, 16, 32 or 64 lanes (T20)."""
    for lanes in (2, 3, 4, 8, 16, 32, 64):
        assert dt(f"int32x{lanes}").lanes == lanes
    for bad in (0, 5, 7, 128, 2**20):
        with refuses("TIR0001"):
            dt(f"int32x{bad}")


def test_TIR_GRAM_06_let_stmt():
    """A statement may bind a variable to a value."""
    x, value = Var("x", "int32"), convert(3)
    assert holds(LetStmt(x, value, NOTHING), var=x, value=value, body=NOTHING)


def test_TIR_GRAM_07_attr_stmt():
    """A note may be about any object: a variable, a buffer, a text."""
    for about in (Var("x", "int32"), decl_buffer((4,)), StringImm("pragma")):
        made = AttrStmt(about, "key", TRUE, NOTHING)
        assert holds(made, node=about, attr_key="key", value=TRUE, body=NOTHING)


def test_TIR_GRAM_08_assert_stmt():
    """A statement may assert a condition, with a message."""
    text = StringImm("no")
    assert holds(AssertStmt(TRUE, text, NOTHING), condition=TRUE, message=text, body=NOTHING)


def test_TIR_GRAM_09_buffer_store():
    """A store has a buffer, a value and indices."""
    buffer, value, index = decl_buffer((4,), "int32"), convert(1), convert(2)
    made = BufferStore(buffer, value, (index,))
    assert holds(made, buffer=buffer, value=value, indices=(index,))


def test_TIR_GRAM_10_buffer_realize():
    """A buffer may be realized with bounds and a condition."""
    buffer, bounds = decl_buffer((4,)), (Range(convert(0), convert(4)),)
    made = BufferRealize(buffer, bounds, TRUE, NOTHING)
    assert holds(made, buffer=buffer, bounds=bounds, condition=TRUE, body=NOTHING)


def test_TIR_GRAM_11_allocate():
    """An allocation has a variable, a dtype, extents, a condition and annotations."""
    p = Var("p", type_annotation=PointerType(PrimType(dt("int32"))))
    extents = (convert(4),)
    assert holds(
        Allocate(p, dt("int32"), extents, TRUE, NOTHING, {"k": 1}),
        buffer_var=p,
        dtype=dt("int32"),
        extents=extents,
        condition=TRUE,
        body=NOTHING,
        annotations={"k": 1},
    )


def test_TIR_GRAM_12_decl_buffer():
    """A buffer may be declared for a body."""
    buffer = decl_buffer((4,))
    assert holds(DeclBuffer(buffer, NOTHING), buffer=buffer, body=NOTHING)


def test_TIR_GRAM_13_seq_stmt():
    """A sequence has any number of statements, none included (T47)."""
    for parts in ((), (NOTHING,), (NOTHING, Evaluate(convert(1)))):
        assert holds(SeqStmt(parts), seq=parts)


def test_TIR_GRAM_14_if_then_else():
    """A branch has a condition, one case, and another that may be left out."""
    made = IfThenElse(TRUE, NOTHING)
    assert holds(made, condition=TRUE, then_case=NOTHING, else_case=None)
    assert IfThenElse(TRUE, NOTHING, NOTHING).else_case is NOTHING


def test_TIR_GRAM_15_evaluate():
    """An expression may stand as a statement."""
    value = convert(1)
    assert holds(Evaluate(value), value=value)


def test_TIR_GRAM_16_for():
    """A loop has a variable, a start, an extent, a kind, a body, a thread and annotations."""
    i, low, extent = Var("i", "int32"), convert(0), convert(4)
    thread = IterVar(None, Var("t", "int32"), IterVarType.THREAD_INDEX, "threadIdx.x")
    assert holds(
        For(i, low, extent, ForKind.THREAD_BINDING, NOTHING, thread, {"k": 1}),
        loop_var=i,
        min=low,
        extent=extent,
        kind=ForKind.THREAD_BINDING,
        body=NOTHING,
        thread_binding=thread,
        annotations={"k": 1},
    )
    assert For(i, low, extent, ForKind.SERIAL, NOTHING).thread_binding is None


def test_TIR_GRAM_17_while():
    """A while loop has a condition and a body."""
    condition = Var("x", "bool")
    assert holds(While(condition, NOTHING), condition=condition, body=NOTHING)


def a_block(**parts: object) -> Block:
    axis = IterVar(Range(convert(0), convert(4)), Var("v", "int32"), IterVarType.DATA_PAR)
    given: dict[str, object] = {"reads": (), "writes": (), "name_hint": "b", "body": NOTHING}
    return Block((axis,), **{**given, **parts})  # type: ignore[arg-type]


def test_TIR_GRAM_18_block():
    """A block has axes, what it reads and writes, a name, a body, and optional parts."""
    source, view, made = (decl_buffer((4,), name=n) for n in "ABC")
    region = source.whole()
    match = MatchBufferRegion(view, region)
    block = a_block(
        reads=(region,),
        writes=(region,),
        init=NOTHING,
        alloc_buffers=(made,),
        match_buffers=(match,),
        annotations={"k": 1},
    )
    assert holds(
        block,
        iter_vars=block.iter_vars,
        reads=(region,),
        writes=(region,),
        name_hint="b",
        body=NOTHING,
        init=NOTHING,
        alloc_buffers=(made,),
        match_buffers=(match,),
        annotations={"k": 1},
    )
    assert a_block().init is None


def test_TIR_GRAM_19_block_realize():
    """Realizing a block gives its axes values, under a predicate; iter_values is another name (T48)."""
    block, values = a_block(), (convert(1),)
    made = BlockRealize(values, TRUE, block)
    assert holds(made, values=values, predicate=TRUE, block=block)
    assert made.iter_values is made.values


def test_TIR_GRAM_20_buffer():
    """A buffer has data, dtype, shape, separators, strides, offset, name, alignment, factor, type."""
    made = decl_buffer((4, 2), "int8", "A", strides=(2, 1), elem_offset=3, axis_separators=(1,))
    assert list(fields(made)) == [
        "data",
        "dtype",
        "shape",
        "axis_separators",
        "strides",
        "elem_offset",
        "name",
        "data_alignment",
        "offset_factor",
        "buffer_type",
    ]
    assert [e.value for e in (*made.shape, *made.strides, *made.axis_separators)] == [4, 2, 2, 1, 1]
    assert made.elem_offset.value == 3
    assert (made.name, made.data_alignment, made.offset_factor) == ("A", 64, 1)
    assert decl_buffer((4,)).elem_offset is None


def test_TIR_GRAM_21_buffer_type():
    """A buffer is of type default or auto-broadcast."""
    assert names(BufferType) == ["kDefault", "kAutoBroadcast"]
    assert decl_buffer((4,)).buffer_type is BufferType.DEFAULT


def test_TIR_GRAM_22_regions():
    """A region is a buffer with ranges; a match is a buffer with its source's region."""
    source, view = decl_buffer((4,)), decl_buffer((2,))
    ranges = (Range(convert(1), convert(2)),)
    region = BufferRegion(source, ranges)
    assert holds(region, buffer=source, region=ranges)
    assert holds(MatchBufferRegion(view, region), buffer=view, source=region)


@pytest.mark.parametrize(
    ("name", "parts"),
    {
        "Var": "name_hint dtype type_annotation",
        "IntImm": "value dtype",
        "FloatImm": "value dtype",
        "StringImm": "value",
        "Cast": "value dtype",
        "Select": "condition true_value false_value",
        "BufferLoad": "buffer indices",
        "Ramp": "base stride lanes",
        "Broadcast": "value lanes",
        "Let": "var value body",
        "Call": "dtype op args",
        "Shuffle": "vectors indices",
    }.items(),
)
def test_TIR_GRAM_23_expressions(name: str, parts: str):
    """Each kind of expression has the fields that the grammar lists, in that order."""
    found = [f.name for f in getattr(tir, name).node_fields if f.name != "span"]
    assert found == parts.split()


def test_TIR_GRAM_24_callees():
    """A call names a builtin or a function of the module."""
    op, function = Op.get("tir.exp"), GlobalVar("f")
    assert op is not None
    x = Var("x", "float32")
    for callee in (op, function):
        assert holds(Call(dt("float32"), callee, (x,)), dtype=dt("float32"), op=callee, args=(x,))


def test_TIR_GRAM_25_logical():
    """The logical operators are and, or, not."""
    assert kinds_of(LogicalOp) == {"And", "Or", "Not"}
    assert operands_of(LogicalOp) == {("a", "b"), ("a",)}


def test_TIR_GRAM_26_binary():
    """There are nine binary operators, each with operands a and b."""
    wanted = "Add Sub Mul Div Mod FloorDiv FloorMod Min Max"
    assert kinds_of(BinaryOp) == set(wanted.split())
    assert operands_of(BinaryOp) == {("a", "b")}


def test_TIR_GRAM_27_comparisons():
    """There are six comparisons, each with operands a and b."""
    assert kinds_of(CmpOp) == {"Eq", "NE", "LT", "LE", "GE", "GT"}
    assert operands_of(CmpOp) == {("a", "b")}


def kinds_of(root: type[Node]) -> set[str]:
    return {c.__name__ for c in NODE_CLASSES.values() if issubclass(c, root) and c is not root}


def operands_of(root: type[Node]) -> set[tuple[str, ...]]:
    kinds = [c for c in NODE_CLASSES.values() if issubclass(c, root) and c is not root]
    return {tuple(f.name for f in c.node_fields if f.name != "span") for c in kinds}


def test_TIR_GRAM_28_for_kinds():
    """A loop is serial, parallel, vectorized, unrolled or bound to a thread."""
    assert names(ForKind) == ["kSerial", "kParallel", "kVectorized", "kUnrolled", "kThreadBinding"]


def test_TIR_GRAM_29_range():
    """A range has a start, and an extent that may be left out."""
    low, extent = convert(1), convert(4)
    assert holds(Range(low, extent), min=low, extent=extent)
    assert holds(Range(low), min=low, extent=None)


def test_TIR_GRAM_30_iter_var():
    """An axis has a domain that may be left out, a variable, a kind and a thread's tag."""
    v = Var("v", "int32")
    made = IterVar(None, v, IterVarType.THREAD_INDEX, "threadIdx.x")
    assert holds(
        made, dom=None, var=v, iter_type=IterVarType.THREAD_INDEX, thread_tag="threadIdx.x"
    )


def test_TIR_GRAM_31_iter_var_types():
    """There are nine kinds of axes."""
    assert names(IterVarType) == [
        "kDataPar",
        "kThreadIndex",
        "kCommReduce",
        "kOrdered",
        "kOpaque",
        "kUnrolled",
        "kVectorized",
        "kParallelized",
        "kTensorized",
    ]


def test_TIR_GRAM_32_attrs():
    """Attributes map texts to any objects, and change nothing that runs."""
    source = """
        @T.prim_func
        def main(x: T.int32) -> T.int32:
            T.func_attr({"note": [1, "two", {"three": 3.0}], "x": 0})
            return x + 1
    """
    assert both(source, 4) == 5
    assert set(PrimFunc((), NOTHING, attrs={"k": object()}).attrs) == {"k"}


@node
class Elsewhere(BaseFunc):
    """A function of another language."""

    attrs: dict[str, object] = attr(default_factory=dict)


def test_TIR_GRAM_33_modules():
    """A module maps names to functions, of other languages too."""
    mine, other = GlobalVar("f"), GlobalVar("g")
    functions = {mine: PrimFunc((), NOTHING), other: Elsewhere()}
    made = IRModule(functions)
    assert holds(mine, name_hint="f")
    assert list(made.functions) == [mine, other]
    assert made["f"] is functions[mine]
    assert made["g"] is functions[other]


def test_TIR_GRAM_34_tensors():
    """An array arrives as data, device, rank, dtype, shape, strides that may be null, and offset (T39)."""
    source = """
        @T.prim_func
        def main(a: T.handle):
            A = T.match_buffer(a, (m, n), "int32", strides=(s, t))
            A[0, 0] = T.cast(m * 1000 + n * 100 + s * 10 + t, "int32")
            A[m - 1, n - 1] = A[0, 1]
    """
    whole = zeros(3, 8) + i32(7)
    out = both(source, whole[1:, 2::3])
    assert out.tolist() == [[2283, 7], [7, 7]]  # m=2 n=2 s=8 t=3, from the offset on
    assert np.all(whole == 7)
