"""Typing rules of statements."""

from __future__ import annotations

import pytest

from loomir.support.dtype import VOID
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
    PrimType,
    Range,
    SeqStmt,
    StringImm,
    Var,
    While,
    convert,
    decl_buffer,
)
from tests.conformance.compare_engines import both, dt, f32, i32, mistakes, refused, zeros
from tests.tir.programs import block, func, iterator
from tests.tir.refusal import refused as refuses

NOTHING = Evaluate(convert(0))
NOT_TRUTHS = ["int32", "uint8", "float32", "handle", "boolx4"]


def of(dtype: str) -> Var:
    return Var("x", dtype)


def pointer(dtype: str) -> Var:
    return Var("p", type_annotation=PointerType(PrimType(dt(dtype))))


# -- bindings and notes --------------------------------------------------------------------------
def test_TIR_STY_01_pointers_are_bound_to_handles():
    """A pointer is bound to any handle, whatever that points to, but not to void."""
    for value in (of("handle"), pointer("int8"), StringImm("s")):
        LetStmt(pointer("float64"), value, NOTHING)
    for wrong in (Var("v", VOID), of("int64")):
        with refuses("TIR0201"):
            LetStmt(pointer("int8"), wrong, NOTHING)


def test_TIR_STY_01a_a_variable_and_its_value():
    """Any other variable and its value have one dtype."""
    for dtype in ("int32", "boolx4", "bfloat16"):
        LetStmt(of(dtype), of(dtype), NOTHING)
    for wrong in ("int64", "uint32", "int32x2", "float32"):
        with refuses("TIR0201"):
            LetStmt(of("int32"), of(wrong), NOTHING)


def test_TIR_STY_02_attributes_are_valid():
    """A note is always valid, whatever it is about and says."""
    for about in (of("int32"), decl_buffer((4,)), StringImm("x"), convert(3)):
        for value in (convert(1), StringImm("s"), of("handle"), of("float32x4")):
            AttrStmt(about, "anything", value, NOTHING)
    source = """
        @T.prim_func
        def main(A: T.Buffer((2,), "int32")):
            with T.attr(A.data, "pragma_unknown", "text"):
                A[0] = 5
    """
    assert both(source, zeros(2)).tolist() == [5, 0]


def test_TIR_STY_03_messages():
    """The message of an assertion is a text or an int32 (T29)."""
    for message in (StringImm("no"), of("int32"), convert(7)):
        AssertStmt(TRUE, message, NOTHING)
    for wrong in ("int64", "uint32", "float32", "bool", "handle"):
        with refuses("TIR0202"):
            AssertStmt(TRUE, of(wrong), NOTHING)


@pytest.mark.parametrize("dtype", NOT_TRUTHS)
def test_TIR_STY_03a_asserted_conditions(dtype: str):
    """What is asserted is one truth value (T29)."""
    with refuses("TIR0205"):
        AssertStmt(of(dtype), StringImm("no"), NOTHING)


# -- stores --------------------------------------------------------------------------------------
def test_TIR_STY_04_vector_indices():
    """Only the last index of a store may be a vector."""
    buffer = decl_buffer((4, 8), "int32")
    BufferStore(buffer, of("int32x4"), (convert(0), of("int32x4")))
    with refuses("TIR0107"):
        BufferStore(buffer, of("int32x4"), (of("int32x4"), convert(0)))


def test_TIR_STY_04a_index_lanes():
    """A store without indices has one index lane, else those of the last index."""
    BufferStore(decl_buffer((), "int32"), of("int32"), ())
    BufferStore(decl_buffer((4, 8), "int32"), of("int32x2"), (convert(0), of("int64x2")))
    with refuses("TIR0107"):
        BufferStore(decl_buffer((), "int32"), of("int32"), (convert(0),))


def test_TIR_STY_04b_integer_indices():
    """Indices of a store are integers, signed and unsigned of any width in any mix (T24)."""
    buffer = decl_buffer((4, 8), "int32")
    for a, b in [("int8", "uint64"), ("uint16", "int32"), ("int64", "int64")]:
        BufferStore(buffer, of("int32"), (of(a), of(b)))
    for wrong in ("float32", "bool", "handle"):
        with refuses("TIR0107"):
            BufferStore(buffer, of("int32"), (convert(0), of(wrong)))


@pytest.mark.parametrize(
    ("element", "value", "index", "fits"),
    [
        ("int32", "int32", "int32", True),
        ("int32", "int32x4", "int32x4", True),
        ("int32", "int32", "int32x4", False),
        ("int32", "int32x8", "int32x4", False),
        ("int32x2", "int32x8", "int32x4", True),
        ("int32x2", "int32x4", "int32x4", False),
        ("int32", "int64", "int32", False),
        ("int32", "uint32", "int32", False),
        ("float32", "bfloat16", "int32", False),
    ],
)
def test_TIR_STY_04c_stored_values(element: str, value: str, index: str, fits: bool):
    """A stored value has index lanes times buffer lanes, and the buffer's code and bits (T23)."""
    buffer = decl_buffer((8,), element)
    if fits:
        BufferStore(buffer, of(value), (of(index),))
    else:
        with refuses("TIR0203"):
            BufferStore(buffer, of(value), (of(index),))


# -- allocations ---------------------------------------------------------------------------------
@pytest.mark.parametrize("dtype", NOT_TRUTHS)
def test_TIR_STY_05_condition_of_realize(dtype: str):
    """The condition of a realized buffer is one truth value."""
    with refuses("TIR0205"):
        BufferRealize(decl_buffer((4,)), (), of(dtype), NOTHING)


def test_TIR_STY_05a_bounds_of_realize():
    """The bounds of a realized buffer are integers of one dtype (T31)."""
    buffer = decl_buffer((4, 4))
    for dtype in ("int64", "uint8"):
        BufferRealize(buffer, (Range(of(dtype), of(dtype)),) * 2, TRUE, NOTHING)
    for a, b in [("int32", "int64"), ("int32", "uint32"), ("float32", "float32")]:
        with refuses("TIR0210"):
            BufferRealize(buffer, (Range(of(a), of(a)), Range(of(b), of(b))), TRUE, NOTHING)


def test_TIR_STY_06_allocated_pointers():
    """An allocation is of what its variable points to; bool may go by int8."""
    for stored, made in [("int32", "int32"), ("bool", "bool"), ("int8", "bool")]:
        Allocate(pointer(stored), dt(made), (convert(4),), TRUE, NOTHING)
    for stored, made in [("int32", "float32"), ("bool", "int8"), ("uint8", "bool")]:
        with refuses("TIR0204"):
            Allocate(pointer(stored), dt(made), (convert(4),), TRUE, NOTHING)
    with refuses("TIR0204"):
        Allocate(of("handle"), dt("int32"), (convert(4),), TRUE, NOTHING)


def test_TIR_STY_06a_extents():
    """The extents of an allocation are integer scalars."""
    for dtype in ("int32", "uint64", "int8"):
        Allocate(pointer("int32"), dt("int32"), (of(dtype), of(dtype)), TRUE, NOTHING)
    for wrong in ("float32", "bool", "int32x4", "handle"):
        with refuses("TIR0204"):
            Allocate(pointer("int32"), dt("int32"), (of(wrong),), TRUE, NOTHING)


@pytest.mark.parametrize("dtype", NOT_TRUTHS)
def test_TIR_STY_06b_condition_of_allocate(dtype: str):
    """The condition of an allocation is one truth value."""
    with refuses("TIR0205"):
        Allocate(pointer("int32"), dt("int32"), (convert(4),), of(dtype), NOTHING)


def test_TIR_STY_07_always_valid():
    """Declarations, sequences and evaluations are valid whatever their parts are."""
    for value in (of("handle"), of("float32x4"), StringImm("s")):
        made = Evaluate(value)
        SeqStmt((made, SeqStmt(()), made))
        DeclBuffer(decl_buffer((4,), "boolx2"), made)


# -- branches and loops --------------------------------------------------------------------------
@pytest.mark.parametrize("dtype", NOT_TRUTHS)
def test_TIR_STY_08_condition_of_if(dtype: str):
    """The condition of a branch is one truth value."""
    with refuses("TIR0205"):
        IfThenElse(of(dtype), NOTHING)
    if dtype == "int32":
        refused(
            "TIR0205",
            """
            @T.prim_func
            def main(x: T.int32):
                if x:  # <--
                    T.evaluate(0)
            """,
        )


@pytest.mark.parametrize("wrong", ["float32", "bool", "int32x4", "handle"])
def test_TIR_STY_09_loops_count_integers(wrong: str):
    """The variable, start and extent of a loop are integer scalars, signed or unsigned (T51)."""
    for good in ("int8", "uint64"):
        For(of(good), of(good), of(good), ForKind.SERIAL, NOTHING)
    with refuses("TIR0206"):
        For(of(wrong), of(wrong), of(wrong), ForKind.SERIAL, NOTHING)


def test_TIR_STY_09a_bounds_are_not_wider():
    """Start and extent have no more bits than the loop variable."""
    for low, extent in [("int64", "int32"), ("int32", "int64"), ("int64", "int64")]:
        with refuses("TIR0206"):
            For(of("int32"), of(low), of(extent), ForKind.SERIAL, NOTHING)
    with refuses("TIR0206"):
        For(of("int32"), convert(0), IntImm(4, dt("int64")), ForKind.SERIAL, NOTHING)


def test_TIR_STY_09b_a_narrow_constant_start():
    """A constant start narrower than the variable takes its dtype."""
    made = For(of("int64"), IntImm(-3, dt("int8")), of("int64"), ForKind.SERIAL, NOTHING)
    assert isinstance(made.min, IntImm)
    assert (made.min.value, made.min.dtype) == (-3, dt("int64"))


def test_TIR_STY_09c_a_narrow_constant_extent():
    """A constant extent narrower than the variable takes its dtype."""
    made = For(of("uint32"), of("uint32"), IntImm(7, dt("uint8")), ForKind.SERIAL, NOTHING)
    assert isinstance(made.extent, IntImm)
    assert (made.extent.value, made.extent.dtype) == (7, dt("uint32"))


def test_TIR_STY_09d_one_dtype():
    """After that, variable, start and extent have one dtype; other expressions are not widened."""
    for low, extent in [("int16", "int32"), ("int32", "int16"), ("uint32", "uint32")]:
        with refuses("TIR0206"):
            For(of("int32"), of(low), of(extent), ForKind.SERIAL, NOTHING)


def test_TIR_STY_09e_vectorized_loops():
    """A vectorized loop holds no while; it may start anywhere, and have any extent (T46)."""
    refused(
        "TIR0411",
        """
        @T.prim_func
        def main(A: T.Buffer((4,), "int32")):
            for i in T.vectorized(4):
                while A[i] < 3:  # <--
                    A[i] = A[i] + 1
        """,
    )
    source = """
        @T.prim_func
        def main(n: T.int32, A: T.Buffer((8,), "int32")):
            for i in T.vectorized(2, 6):
                A[i] = i
            for i in T.vectorized(n):
                A[i] = A[i] + 100
    """
    assert both(source, 3, zeros(8)).tolist() == [100, 100, 102, 3, 4, 5, 0, 0]


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "handle", "int32x4", "boolx2"])
def test_TIR_STY_10_condition_of_while(dtype: str):
    """The condition of while is an integer or a truth value, of one lane (T28)."""
    with refuses("TIR0207"):
        While(of(dtype), NOTHING)
    for good in ("int8", "uint64", "bool"):
        While(of(good), NOTHING)


def test_TIR_STY_10a_constant_conditions():
    """A constant condition is allowed only where it holds and the body can leave the loop (T28)."""
    ending = """
        @T.prim_func
        def main(A: T.Buffer((1,), "int32")):
            while True:
                A[0] = A[0] + 1
                if A[0] > 4:
                    break
    """
    assert both(ending, zeros(1)).tolist() == [5]
    refused(
        "SCR0022",
        """
        @T.prim_func
        def main(A: T.Buffer((1,), "int32")):
            while True:  # <--
                A[0] = A[0] + 1
        """,
    )
    for value in (0, 1):
        assert mistakes(func(While(IntImm(value, dt("int32")), NOTHING))) == ["TIR0415"]


# -- blocks --------------------------------------------------------------------------------------
def test_TIR_STY_11_axes_are_integers():
    """The axes of a block are integer scalars, signed or unsigned."""
    for good in ("int8", "uint64"):
        axis = IterVar(None, of(good), IterVarType.DATA_PAR)
        Block((axis,), (), (), "b", NOTHING)
    for wrong in ("float32", "bool", "int32x4", "handle"):
        axis = IterVar(None, of(wrong), IterVarType.DATA_PAR)
        with refuses("TIR0208"):
            Block((axis,), (), (), "b", NOTHING)


def test_TIR_STY_12_as_many_values_as_axes():
    """A realized block has a value for each axis (T48)."""
    made = Block((iterator(Var("v", "int32"), 4),), (), (), "b", NOTHING)
    for values in ((), (convert(0), convert(1))):
        with refuses("TIR0209"):
            BlockRealize(values, TRUE, made)
    assert BlockRealize((convert(0),), TRUE, made).values[0].dtype == "int32"


@pytest.mark.parametrize("dtype", NOT_TRUTHS)
def test_TIR_STY_12a_predicates(dtype: str):
    """The predicate of a block is a truth value (T48)."""
    with refuses("TIR0209"):
        block([], NOTHING, of(dtype))
    if dtype == "float32":
        refused(
            "TIR0209",
            """
            @T.prim_func
            def main(x: T.float32):
                for i in range(4):
                    with T.sblock("b"):
                        T.where(x)  # <--
                        T.evaluate(0)
            """,
        )


def test_well_typed_statements_run():
    """One program with each kind of statement, well typed, runs."""
    source = """
        @T.prim_func
        def main(x: T.float32, A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "int32")):
            y = x * T.float32(2)
            assert y > T.float32(0), "positive"
            with T.allocate([4], "float32") as p:
                C = T.decl_buffer((4,), "float32", data=p)
                for i in T.unroll(4):
                    C[i] = A[i] * y
                for i in range(4):
                    if C[i] > T.float32(4):
                        B[i] = T.cast(C[i], "int32")
                    else:
                        B[i] = -1
    """
    assert both(source, 1.5, f32(1, 2, 3, 0), i32(0, 0, 0, 0)).tolist() == [-1, 6, 9, -1]
