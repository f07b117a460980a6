"""Statement semantics, second part: bindings, notes, assertions, stores, allocations, branches."""

from __future__ import annotations

import numpy as np
import pytest

import loomir
from loomir.interp import interpret
from loomir.support.diagnostics import RunError
from loomir.tir import (
    TRUE,
    Allocate,
    AttrStmt,
    BufferRealize,
    BufferStore,
    DeclBuffer,
    Evaluate,
    IntImm,
    LetStmt,
    PointerType,
    PrimExpr,
    PrimType,
    Range,
    SeqStmt,
    Stmt,
    Var,
    convert,
    decl_buffer,
)
from tests.conformance.compare_engines import (
    both,
    dt,
    f32,
    fails,
    i32,
    mistakes,
    numpy_named,
    read,
    refused,
    run_both,
    zeros,
)
from tests.tir.programs import func, loop, store, use

FALSE = IntImm(0, dt("bool"))
X = Var("x", "int32")


def pointer(dtype: str = "int32", name: str = "p") -> Var:
    return Var(name, type_annotation=PointerType(PrimType(dt(dtype))))


# -- bindings ------------------------------------------------------------------------------------
def test_TIR_STMT_02_let():
    """A binding evaluates its value once, then its body sees that, whatever changes since."""
    source = """
        @T.prim_func
        def main(A: T.Buffer((3,), "int32")):
            x = A[0] + 1
            A[0] = 50
            A[1] = x
            A[2] = x + A[0]
    """
    assert both(source, i32(4, 0, 0)).tolist() == [50, 5, 55]
    # A value that fails stops the program before the body.
    failing = """
        @T.prim_func
        def main(n: T.int32, A: T.Buffer((1,), "int32")):
            x = 1 // n  # <--
            A[0] = 7
    """
    fails("RUN0201", failing, 0, zeros(1))


def test_TIR_STMT_02_pointers():
    """A pointer is bound to a handle and points to elements of its own type."""
    p, source = pointer("float32"), decl_buffer((4,), "int32", "A")
    bits = decl_buffer((4,), "float32", "B", data=p)
    body = DeclBuffer(bits, store(bits, 1.0, 2))
    out = both(func(LetStmt(p, source.data, body), source), zeros(4))
    assert out.tolist() == [0, 0, 0x3F800000, 0]


# -- notes ---------------------------------------------------------------------------------------
@pytest.mark.parametrize("key", ["pragma_x", "volatile_scope", "storage_alignment", ""])
def test_TIR_STMT_03_unknown_notes(key: str):
    """A note with another key changes nothing: its body runs."""
    buffer = decl_buffer((2,), "int32", "A")
    made = AttrStmt(buffer.data, key, convert(1), store(buffer, 4, 1))
    assert both(func(made, buffer), zeros(2)).tolist() == [0, 4]


THREADS = ["thread_extent", "virtual_thread"]


def threads(key: str, extent: PrimExpr | int, body: Stmt, name: Var) -> AttrStmt:
    return AttrStmt(name, key, convert(extent), body)


@pytest.mark.parametrize("key", THREADS)
def test_TIR_STMT_03a_threads(key: str):
    """The notes that start threads name a variable and how many values it takes."""
    t, buffer = Var("t", "int32"), decl_buffer((6,), "int32", "A")
    made = func(threads(key, 5, store(buffer, t * t, t), t), buffer)
    assert both(made, zeros(6)).tolist() == [0, 1, 4, 9, 16, 0]
    assert mistakes(made) == []


@pytest.mark.parametrize("key", THREADS)
def test_TIR_STMT_03b_one_run_for_each_value(key: str):
    """The body runs once for each value below the bound, none for 0; nested, for each pair (T44)."""
    s, t, buffer = Var("s", "int32"), Var("t", "int32"), decl_buffer((3, 4), "int32", "A")
    inner = threads(key, 4, store(buffer, buffer[s, t] + s * 10 + t, s, t), t)
    out = both(func(threads(key, 3, inner, s), buffer), zeros(3, 4))
    assert out.tolist() == [[i * 10 + j for j in range(4)] for i in range(3)]
    u, flat = Var("u", "int32"), decl_buffer((1,), "int32", "B")
    assert both(func(threads(key, 0, store(flat, 1, u), u), flat), zeros(1)).tolist() == [0]


@pytest.mark.parametrize("key", THREADS)
def test_TIR_STMT_03c_errors_of_threads(key: str):
    """An error in one run ends the program at the note, at the latest when all have ended (T44)."""
    t, buffer = Var("t", "int32"), decl_buffer((4,), "int32", "A")
    body = store(buffer, convert(1) // (t - 2), t)
    made = func(SeqStmt((threads(key, 4, body, t), store(buffer, 99, 2))), buffer)
    fails("RUN0201", made, zeros(4))


@pytest.mark.parametrize("key", THREADS)
def test_TIR_STMT_03d_scope_of_threads(key: str):
    """The variable lives in the body; it is not bound outside, and not bound again inside."""
    t = Var("t", "int32")
    nothing = Evaluate(convert(0))
    after = SeqStmt((threads(key, 4, nothing, t), use(t)))
    assert mistakes(func(after)) == ["TIR0401"]
    assert mistakes(func(threads(key, 4, loop(t, 2, nothing), t))) == ["TIR0402"]


def test_TIR_STMT_03e_volatile():
    """In a volatile scope no access is optimised away: each store and load stays, even a useless one."""
    source = """
        @T.prim_func
        def main(A: T.Buffer((4,), "int32")):
            {}:
                A[0] = 1
                A[0] = 2
                T.evaluate(A[1])
                x = A[2]
    """
    volatile = source.format('with T.attr(A.data, "volatile_scope", 1)')
    plain = source.format('with T.attr(A.data, "pragma_x", 1)')
    for made, accesses in [(volatile, (2, 2)), (plain, (0, 0))]:
        assert both(made, zeros(4)).tolist() == [2, 0, 0, 0]
        text = loomir.compile(read(made), cache=False).llvm_ir()
        assert (text.count("store volatile"), text.count("load volatile")) == accesses


# -- assertions ----------------------------------------------------------------------------------
def test_TIR_STMT_04_assert():
    """Where the condition holds the rest runs; else the program ends with the message (T29)."""
    source = """
        @T.prim_func
        def main(x: T.int32, A: T.Buffer((1,), "int32")):
            assert x > 0, "x must be {positive}, %d"  # <--
            A[0] = x
    """
    assert both(source, 3, zeros(1)).tolist() == [3]
    assert fails("RUN0202", source, 0, zeros(1)).message == "x must be {positive}, %d"
    with pytest.raises(AssertionError):
        both(source, 0, zeros(1))


# -- stores --------------------------------------------------------------------------------------
def test_TIR_STMT_05_value_before_indices():
    """A store evaluates its value first, then its indices from left to right (T54)."""
    source = """
        @T.prim_func
        def main(x: T.int32, A: T.Buffer((4, 4), "int32")):
            A[{}, {}] = {}  # <--
    """
    quotient, remainder = "1 // x", "1 % x"
    for order in ((remainder, remainder, quotient), (quotient, remainder, "0")):
        assert "FloorDiv" in fails("RUN0201", source.format(*order), 0, zeros(4, 4)).message
    for order in ((quotient, quotient, remainder), (remainder, quotient, "0")):
        assert "FloorMod" in fails("RUN0201", source.format(*order), 0, zeros(4, 4)).message


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint32", "int64", "uint64"])
def test_TIR_STMT_05a_index_dtypes(dtype: str):
    """Indices of a store are widened to the machine's, by their own sign (T25)."""
    source = f"""
        @T.prim_func
        def main(x: T.{dtype}, A: T.Buffer((256,), "int8")):
            A[x] = 1
    """
    index = min(dt(dtype).max_value, 255)
    assert both(source, index, zeros(256, dtype="int8")).nonzero()[0].tolist() == [index]
    if dtype != "uint8":
        outside = dt(dtype).min_value or 256
        fails("RUN0203", source, outside, zeros(256, dtype="int8"), check_bounds=True)


def test_TIR_STMT_05b_no_indices():
    """A store without indices sets the only element."""
    source = """
        @T.prim_func
        def main(x: T.float32, A: T.Buffer((), "float32")):
            A[()] = x
    """
    assert both(source, 2.5, zeros(dtype="float32"))[()] == 2.5


def test_TIR_STMT_05c_one_element():
    """Scalar indices set one element, and no other."""
    source = """
        @T.prim_func
        def main(i: T.int32, j: T.int32, A: T.Buffer((3, 4), "int32")):
            A[i, j] = 7
    """
    for i, j in [(0, 0), (2, 3), (1, 2)]:
        out = both(source, i, j, zeros(3, 4))
        assert out[i, j] == 7
        assert out.sum() == 7


@pytest.mark.parametrize("step", [1, 2, -1, -2])
def test_TIR_STMT_05d_vector_index(step: int):
    """A vector index stores a slice of the value for each of its lanes, in their order."""
    source = f"""
        @T.prim_func
        def main(x: T.int32, A: T.Buffer((2, 8), "int32")):
            A[1, T.Ramp(x, {step}, 4)] = T.Ramp(10, 1, 4)
    """
    start = 0 if step > 0 else 7
    wanted = [0] * 8
    for lane in range(4):
        wanted[start + lane * step] = 10 + lane
    assert both(source, start, zeros(2, 8)).tolist() == [[0] * 8, wanted]


def test_TIR_STMT_05d_slices():
    """Where elements are vectors, each index lane stores a slice of as many lanes as one has."""
    source = """
        @T.prim_func
        def main(A: T.Buffer((6,), "int32")):
            B = T.alloc_buffer((3,), "int32x2")
            B[0] = T.Ramp(70, 1, 2)
            B[T.Ramp(2, -1, 2)] = T.Ramp(10, 1, 4)
            for i in range(3):
                A[i * 2 : i * 2 + 2] = B[i]
    """
    assert both(source, zeros(6)).tolist() == [70, 71, 12, 13, 10, 11]


def test_TIR_STMT_05d_repeated_lanes():
    """Lanes that store to one element store in their order: the last one stays."""
    source = """
        @T.prim_func
        def main(A: T.Buffer((4,), "int32")):
            A[T.Broadcast(2, 4)] = T.Ramp(10, 1, 4)
    """
    assert both(source, zeros(4)).tolist() == [0, 0, 13, 0]


def test_TIR_STMT_05e_outside():
    """Nothing is promised for a store outside of a buffer; with checks it is an error (T25)."""
    source = """
        @T.prim_func
        def main(x: T.int32, A: T.Buffer((2, 4), "int32")):
            A[0, x] = 1  # <--
    """
    for index in (-1, 4, 7):  # 4 would be the next row's first
        fails("RUN0203", source, index, zeros(2, 4), check_bounds=True)
    refused("SCR0019", source.replace("x]", "4]"))


# -- allocations ---------------------------------------------------------------------------------
def test_TIR_STMT_06_realize():
    """Realizing a buffer allocates its shape for the body (T31)."""
    made, out = decl_buffer((X + 2,), "int32", "B"), decl_buffer((2,), "int32", "A")
    body = SeqStmt((store(made, 6, X + 1), store(out, made[X + 1], 0)))
    assert both(func(BufferRealize(made, (), TRUE, body), X, out), 3, zeros(2)).tolist() == [6, 0]


def test_TIR_STMT_06a_bounds_are_hints():
    """The bounds and the condition of a realized buffer do not change what happens (T31)."""
    made, out = decl_buffer((4,), "int32", "B"), decl_buffer((1,), "int32", "A")
    bounds = (Range(convert(1), convert(1)),)
    body = SeqStmt((store(made, 6, 3), store(out, made[3], 0)))
    assert both(func(BufferRealize(made, bounds, FALSE, body), out), zeros(1)).tolist() == [6]


def allocated(condition: PrimExpr, extents: tuple[PrimExpr, ...] = (convert(4),)) -> Stmt:
    """Make an allocation whose body writes 5 to A, by way of the fresh memory."""
    p = pointer()
    fresh = decl_buffer((4,), "int32", "B", data=p)
    body = DeclBuffer(fresh, SeqStmt((store(fresh, 5, 1), store(A, fresh[1], 0))))
    return Allocate(p, dt("int32"), extents, condition, body)


A = decl_buffer((2,), "int32", "A")


def test_TIR_STMT_07_condition_of_allocate():
    """Where its condition does not hold, an allocation does nothing: its body does not run (T30)."""
    for flag, wanted in [(TRUE, 5), (FALSE, 0)]:
        assert both(func(allocated(flag), A), zeros(2)).tolist() == [wanted, 0]
    made = func(SeqStmt((allocated(X > 0), store(A, 9, 1))), X, A)
    assert both(made, 1, zeros(2)).tolist() == [5, 9]
    assert both(made, 0, zeros(2)).tolist() == [0, 9]


def test_TIR_STMT_07a_extents_in_order():
    """The extents are evaluated in order, after the condition, and not where it does not hold."""
    one, two = convert(8) // X, convert(8) % X
    for extents, word in [((one, two), "FloorDiv"), ((two, one), "FloorMod")]:
        assert word in fails("RUN0201", func(allocated(TRUE, extents), X, A), 0, zeros(2)).message
        assert both(func(allocated(FALSE, extents), X, A), 0, zeros(2)).tolist() == [0, 0]
    condition = allocated((convert(1) // X) > 0, (two, two))
    assert "FloorDiv" in fails("RUN0201", func(condition, X, A), 0, zeros(2)).message


def test_TIR_STMT_07b_fresh_memory():
    """An allocation overlaps nothing: not the arguments, not another, not the callers' of a recursion."""
    source = """
        @I.ir_module
        class Module:
            @T.prim_func
            def main(n: T.int32, A: T.Buffer((4,), "int32")):
                B = T.alloc_buffer((4,), "int32")
                for i in range(4):
                    B[i] = n * 10 + i
                if n > 0:
                    cls.main(n - 1, A)
                for i in range(4):
                    A[i] = A[i] + B[i]
    """
    assert both(source, 3, zeros(4)).tolist() == [60, 64, 68, 72]
    source = """
        @T.prim_func
        def main(A: T.Buffer((4,), "int32")):
            for i in T.parallel(4):
                with T.allocate([64], "int32") as p:
                    B = T.decl_buffer((64,), "int32", data=p)
                    for j in range(64):
                        B[j] = i
                    for j in range(64):
                        A[i] = A[i] + B[j]
    """
    assert both(source, zeros(4)).tolist() == [0, 64, 128, 192]


def test_TIR_STMT_07c_end_of_allocations():
    """After the body the memory is given back, and its pointer is out of scope."""
    p = pointer()
    made = Allocate(p, dt("int32"), (convert(4),), TRUE, Evaluate(convert(0)))
    assert mistakes(func(SeqStmt((made, use(p))))) == ["TIR0401"]
    source = """
        @T.prim_func
        def main(n: T.int32, A: T.Buffer((1,), "int32")):
            for i in range(n):
                with T.allocate([1 << 22], "int32") as p:
                    B = T.decl_buffer((1 << 22,), "int32", data=p)
                    B[i] = i
                    if i == 700:
                        break
                    A[0] = A[0] + B[i]
    """
    # 700 times 16 MiB, left by the end of the body and by break.
    assert run_native(source, 1000, zeros(1)).tolist() == [700 * 699 // 2]
    assert both(source, 3, zeros(1)).tolist() == [3]


def run_native(source: str, *args: object) -> np.ndarray:
    loomir.compile(read(source), cache=False)["main"](*args)
    return args[-1]  # type: ignore[return-value]


@pytest.mark.parametrize("dtype", ["int8", "float16", "bfloat16", "bool", "float64"])
def test_TIR_STMT_07b_dtypes(dtype: str):
    """Memory of any dtype can be allocated and holds what was stored."""
    source = f"""
        @T.prim_func
        def main(A: T.Buffer((4,), "{dtype}")):
            with T.allocate([4], "{dtype}") as p:
                B = T.decl_buffer((4,), "{dtype}", data=p)
                for i in range(4):
                    B[3 - i] = A[i]
                for i in range(4):
                    A[i] = B[i]
    """
    given = np.array([1, 0, 0, 0]).astype(numpy_named(dtype))
    assert both(source, given).tolist() == [0, 0, 0, 1]


def test_TIR_STMT_08_declared_buffers():
    """A declaration only names memory that exists: in another shape, from an offset, with strides."""
    source = """
        @T.prim_func
        def main(A: T.Buffer((8,), "int32")):
            B = T.decl_buffer((2, 3), "int32", data=A.data, elem_offset=1, strides=(4, 1))
            for i, j in T.grid(2, 3):
                B[i, j] = i * 10 + j + 1
    """
    assert both(source, zeros(8)).tolist() == [0, 1, 2, 3, 0, 11, 12, 13]


# -- sequences, branches, evaluations ------------------------------------------------------------
def test_TIR_STMT_09_sequences():
    """Statements run in order; an empty sequence does nothing (T47)."""
    source = """
        @T.prim_func
        def main(A: T.Buffer((3,), "int32")):
            A[0] = 1
            A[1] = A[0] + 1
            A[0] = A[1] * 10
            A[2] = A[0] + A[1]
    """
    assert both(source, zeros(3)).tolist() == [20, 2, 22]
    assert both(func(SeqStmt(()), A), i32(4, 5)).tolist() == [4, 5]
    nested = SeqStmt((SeqStmt(()), SeqStmt((store(A, 1, 0), SeqStmt((store(A, 2, 1),))))))
    assert both(func(nested, A), zeros(2)).tolist() == [1, 2]


def test_TIR_STMT_10_branches():
    """The first case runs where the condition holds, else the second, else nothing."""
    source = """
        @T.prim_func
        def main(x: T.int32, A: T.Buffer((2,), "int32")):
            if x > 0:
                A[0] = 1
            else:
                A[0] = 2 // (x + 1)
            if x > 1:
                A[1] = 3 // (x - 1)
    """
    for x, wanted in [(2, [1, 3]), (1, [1, 9]), (0, [2, 9])]:
        assert both(source, x, i32(9, 9)).tolist() == wanted
    fails("RUN0201", source, -1, i32(9, 9))


def test_TIR_STMT_11_evaluate():
    """An expression as a statement is evaluated: its errors show, its value does not."""
    source = """
        @T.prim_func
        def main(x: T.int32, A: T.Buffer((1,), "int32")):
            T.evaluate(A[0] + 1 // x)  # <--
    """
    assert both(source, 1, i32(5)).tolist() == [5]
    fails("RUN0201", source, 0, i32(5))


def test_errors_keep_what_was_written_before():
    """What a program wrote before its error is in the caller's arrays."""
    buffer = decl_buffer((2,), "float32", "A")
    stop = BufferStore(buffer, buffer[0], (convert(1) // X,))
    made = func(SeqStmt((store(buffer, 1.5, 0), stop)), X, buffer)
    data = f32(0, 0)
    with pytest.raises(RunError):
        interpret(made, "f", 0, data)
    assert data.tolist() == [1.5, 0]
    assert run_both(made, 1, f32(0, 0)).arrays[0].tolist() == [1.5, 1.5]
