from __future__ import annotations

import pytest

from loomir.ir.node import NODE_CLASSES
from loomir.support.dtype import BOOL, DataType
from loomir.tir import (
    TRUE,
    Allocate,
    AssertStmt,
    AttrStmt,
    Block,
    BlockRealize,
    BufferRealize,
    BufferStore,
    DeclBuffer,
    Evaluate,
    For,
    ForKind,
    IfThenElse,
    IntImm,
    IterVar,
    IterVarType,
    LetStmt,
    PointerType,
    PrimExpr,
    PrimType,
    Ramp,
    Range,
    SeqStmt,
    Stmt,
    StringImm,
    Var,
    While,
    const,
    convert,
    decl_buffer,
    seq,
)
from tests.clause import clauses
from tests.tir.refusal import refused

NOTHING = Evaluate(convert(0))
NOT_A_CONDITION = ["int32", "boolx4", "float32", "handle"]


def var(dtype: str, name: str = "x") -> Var:
    return Var(name, dtype)


def pointer(dtype: str, scope: str = "global") -> Var:
    return Var("p", type_annotation=PointerType(PrimType(DataType(dtype)), scope))


STATEMENTS = {
    "LetStmt": ("var", "value", "body"),
    "AttrStmt": ("node", "attr_key", "value", "body"),
    "AssertStmt": ("condition", "message", "body"),
    "BufferStore": ("buffer", "value", "indices"),
    "BufferRealize": ("buffer", "bounds", "condition", "body"),
    "Allocate": ("buffer_var", "dtype", "extents", "condition", "body", "annotations"),
    "DeclBuffer": ("buffer", "body"),
    "SeqStmt": ("seq",),
    "IfThenElse": ("condition", "then_case", "else_case"),
    "Evaluate": ("value",),
    "For": ("loop_var", "min", "extent", "kind", "body", "thread_binding", "annotations"),
    "While": ("condition", "body"),
    "Block": (
        "iter_vars",
        "reads",
        "writes",
        "name_hint",
        "body",
        "init",
        "alloc_buffers",
        "match_buffers",
        "annotations",
    ),
    "BlockRealize": ("values", "predicate", "block"),
}


@clauses(
    *(f"TIR-GRAM-{n:02}" for n in range(6, 20)),
    "TIR-GRAM-28",
    "TIR-TE-01",
    "TIR-TE-02",
    "TIR-TE-03",
)
def test_the_statements_are_those_of_the_grammar():
    made = {
        cls.__name__: tuple(f.name for f in cls.node_fields if f.name != "span")
        for cls in NODE_CLASSES.values()
        if issubclass(cls, Stmt) and cls.__module__.startswith("loomir.tir.")
    }
    assert made == STATEMENTS
    assert {kind.value for kind in ForKind} == {
        "kSerial",
        "kParallel",
        "kVectorized",
        "kUnrolled",
        "kThreadBinding",
    }


@clauses("TIR-STY-01", "TIR-STY-01a")
def test_a_let_statement_binds_a_value_of_its_dtype():
    LetStmt(var("int64"), const(1, "int64"), NOTHING)
    LetStmt(pointer("float32"), var("handle"), NOTHING)
    LetStmt(pointer("float32"), pointer("int8"), NOTHING)
    with refused("TIR0201"):
        LetStmt(var("int64"), convert(1), NOTHING)
    with refused("TIR0201"):
        LetStmt(pointer("float32"), var("int64"), NOTHING)
    with refused("TIR0201"):
        LetStmt(pointer("float32"), Var("v", "void"), NOTHING)


@clauses("TIR-STY-02")
def test_an_attribute_statement_is_always_valid():
    for node in (var("int32"), None, "text", 5, decl_buffer((4,))):
        assert AttrStmt(node, "any key", StringImm("v"), NOTHING).node is node


@clauses("TIR-STY-03")
def test_the_message_of_an_assertion_is_a_string_or_int32():
    AssertStmt(TRUE, StringImm("text"), NOTHING)
    AssertStmt(TRUE, var("int32"), NOTHING)
    for dtype in ("int64", "float32", "handle"):
        with refused("TIR0202"):
            AssertStmt(TRUE, var(dtype), NOTHING)


@clauses("TIR-STY-03a")
@pytest.mark.parametrize("dtype", NOT_A_CONDITION)
def test_the_condition_of_an_assertion_is_a_bool(dtype: str):
    with refused("TIR0205"):
        AssertStmt(var(dtype), StringImm(""), NOTHING)


@clauses("TIR-STY-04c")
def test_a_stored_value_has_the_dtype_of_what_it_replaces():
    buffer = decl_buffer((8,), "int8x4")
    BufferStore(buffer, var("int8x4"), (convert(0),))
    BufferStore(buffer, var("int8x16"), (Ramp(convert(0), convert(1), 4),))
    for dtype in ("int8", "uint8x4", "int16x4"):
        with refused("TIR0203"):
            BufferStore(buffer, var(dtype), (convert(0),))


@clauses("TIR-STY-04", "TIR-STY-04b")
def test_stores_check_indices_as_loads_do():
    buffer = decl_buffer((8, 8))
    zero, one = convert(0), const(1.0, "float32")
    with refused("TIR0107"):
        BufferStore(buffer, one, (zero,))
    with refused("TIR0107"):
        BufferStore(buffer, one, (zero, one))


@clauses("TIR-STY-05", "TIR-STY-05a")
def test_a_realized_buffer_has_bounds_of_one_integer_dtype():
    buffer = decl_buffer((8,))
    BufferRealize(buffer, (Range(convert(0), convert(8)),), TRUE, NOTHING)
    with refused("TIR0205"):
        BufferRealize(buffer, (), var("int32"), NOTHING)
    with refused("TIR0210"):
        BufferRealize(buffer, (Range(convert(0), const(8, "int64")),), TRUE, NOTHING)
    with refused("TIR0210"):
        BufferRealize(buffer, (Range(const(0.0, "float32")),), TRUE, NOTHING)


@clauses("TIR-STY-06")
def test_an_allocation_is_of_what_its_variable_points_to():
    Allocate(pointer("float32"), DataType("float32"), (convert(8),), TRUE, NOTHING)
    Allocate(pointer("int8"), BOOL, (convert(8),), TRUE, NOTHING)
    with refused("TIR0204"):
        Allocate(pointer("float32"), DataType("float16"), (convert(8),), TRUE, NOTHING)
    with refused("TIR0204"):
        Allocate(var("handle"), DataType("float32"), (convert(8),), TRUE, NOTHING)


@clauses("TIR-STY-06a", "TIR-STY-06b")
def test_an_allocation_has_integer_extents_and_a_condition():
    dtype = DataType("float32")
    for extent in ("float32", "int32x4", "bool"):
        with refused("TIR0204"):
            Allocate(pointer("float32"), dtype, (var(extent),), TRUE, NOTHING)
    with refused("TIR0205"):
        Allocate(pointer("float32"), dtype, (), var("int32"), NOTHING)


@clauses("TIR-STY-07", "TIR-GRAM-13")
def test_declarations_sequences_and_evaluations_are_always_valid():
    DeclBuffer(decl_buffer((4,)), NOTHING)
    assert SeqStmt(()).seq == ()
    Evaluate(StringImm("text"))


def test_seq_joins_nested_sequences():
    one, two = Evaluate(convert(1)), Evaluate(convert(2))
    assert seq([one]) is one
    flat = seq([one, SeqStmt((two, one)), SeqStmt(())])
    assert isinstance(flat, SeqStmt)
    assert SeqStmt((one, SeqStmt((two, one)), SeqStmt(()))).seq == (one, two, one)
    assert flat.seq == (one, two, one)


@clauses("TIR-STY-08")
@pytest.mark.parametrize("dtype", NOT_A_CONDITION)
def test_the_condition_of_if_is_a_bool(dtype: str):
    IfThenElse(var("bool"), NOTHING)
    with refused("TIR0205"):
        IfThenElse(var(dtype), NOTHING)


def loop(name: Var, start: PrimExpr, extent: PrimExpr) -> For:
    return For(name, start, extent, ForKind.SERIAL, NOTHING)


@clauses("TIR-STY-09", "TIR-STY-09a", "TIR-STY-09d")
def test_a_loop_counts_in_one_scalar_integer_dtype():
    for dtype in ("int8", "uint64"):
        loop(var(dtype), var(dtype), var(dtype))
    with refused("TIR0206"):
        loop(var("int32"), var("int64"), var("int32"))
    with refused("TIR0206"):
        loop(var("int64"), var("int64"), var("int32"))
    with refused("TIR0206"):
        loop(var("int32"), const(0, "int64"), var("int32"))
    for dtype in ("float32", "int32x4", "bool"):
        with refused("TIR0206"):
            loop(var(dtype), var(dtype), var(dtype))


@clauses("TIR-STY-09b", "TIR-STY-09c")
def test_constants_are_widened_to_the_loop_variable():
    made = loop(var("int64"), const(1, "int8"), const(5, "int32"))
    assert isinstance(made.min, IntImm)
    assert isinstance(made.extent, IntImm)
    assert (made.min.value, made.min.dtype) == (1, "int64")
    assert (made.extent.value, made.extent.dtype) == (5, "int64")


@clauses("TIR-STY-10")
def test_the_condition_of_while_is_an_integer_or_a_bool():
    for dtype in ("int32", "uint8", "bool"):
        While(var(dtype), NOTHING)
    for dtype in ("float32", "boolx4", "handle"):
        with refused("TIR0207"):
            While(var(dtype), NOTHING)


def block(*dtypes: str) -> Block:
    iters = tuple(IterVar(None, var(dtype), IterVarType.DATA_PAR) for dtype in dtypes)
    return Block(iters, (), (), "b", NOTHING)


@clauses("TIR-STY-11")
def test_iterators_are_scalar_integers():
    assert len(block("int8", "uint64").iter_vars) == 2
    for dtype in ("float32", "int32x4", "bool"):
        with refused("TIR0208"):
            block(dtype)


@clauses("TIR-STY-12", "TIR-STY-12a")
def test_a_realized_block_has_a_value_for_each_iterator_and_a_predicate():
    made = BlockRealize((convert(0),), TRUE, block("int32"))
    assert made.iter_values is made.values
    with refused("TIR0209", "1 iter"):
        BlockRealize((), TRUE, block("int32"))
    with refused("TIR0209"):
        BlockRealize((), var("int32"), block())
