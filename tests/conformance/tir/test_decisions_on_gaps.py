"""Decisions of classes B and C, which fill gaps and settle words: a test for each."""

from __future__ import annotations

import itertools
import math

import ml_dtypes
import numpy as np
import pytest

from loomir.interp import interpret
from loomir.support.diagnostics import RunError
from loomir.support.dtype import LANES
from loomir.tir import (
    TRUE,
    Allocate,
    AssertStmt,
    Block,
    BlockRealize,
    BufferRealize,
    BufferStore,
    Evaluate,
    FloatImm,
    For,
    ForKind,
    IntImm,
    IterVar,
    IterVarType,
    PointerType,
    PrimType,
    Ramp,
    Range,
    SeqStmt,
    StringImm,
    Var,
    convert,
    decl_buffer,
)
from tests.conformance.compare_engines import (
    both,
    both_ways,
    dt,
    each,
    f32,
    f64,
    fails,
    i8,
    i32,
    i64,
    mistakes,
    read,
    refused,
    run_both,
    truths,
    values,
    zeros,
)
from tests.tir.programs import func, loop, store
from tests.tir.refusal import refused as refuses

INF, NAN = math.inf, math.nan
X = Var("x", "int32")
FALSE = IntImm(0, dt("bool"))


def view(region: str, shape: str, body: str) -> str:
    return f"""
        @T.prim_func
        def main(x: T.int32, A: T.Buffer((4, 8), "int32")):
            with T.sblock("b"):
                V = T.match_buffer(A[{region}], {shape}, "int32")
                {body}
    """


def test_T7_axes_of_views_are_compared_from_the_last():
    """A view's extents are compared with the region's last axes; the ranks may differ."""
    assert both(view("2, 4:7", "(3,)", "V[1] = 9"), 0, zeros(4, 8))[2, 5] == 9
    refused("TIR0412", view("2, 4:7", "(1,)", "V[0] = 9"))


def test_T8_a_region_ends_before_its_stop():
    """The bound of a region is start + extent, exclusive."""
    source = view("1, 2:5", "(3,)", "V[x] = 9")
    interpreted, native = both_ways(source)
    for run in (interpreted, native):
        run(2, zeros(4, 8))
    with pytest.raises(IndexError):
        interpreted(3, zeros(4, 8))


def test_T9_comparisons_give_bool():
    """The result of a comparison is bool, with the lanes of its operands."""
    x = Var("x", "float16x4")
    assert (x < x).dtype == "boolx4"
    assert each("a < b", "bool", a=f64(1, 2), b=f64(2, 1)).dtype == bool


def test_T10_remainders_by_sign_of_the_divisor():
    """The floor remainder is from 0 up to b for b > 0, and from b up to 0 for b < 0."""
    rows = [(a, b) for a in range(-9, 10) for b in range(-4, 5) if b]
    a, b = i32(*(x for x, _ in rows)), i32(*(y for _, y in rows))
    out = each("a % b", a=a, b=b).tolist()
    assert all(0 <= r < d if d > 0 else d < r <= 0 for r, (_, d) in zip(out, rows, strict=True))
    assert out == [x % y for x, y in rows]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_T14_nan_in_min_and_max(dtype: str):
    """NaN on either side of min or max gives NaN, in vectors too; the zeros are equal."""
    a, b = values(dtype, NAN, 2.0, 0.0, -0.0), values(dtype, 2.0, NAN, -0.0, 0.0)
    for op in ("min", "max"):
        out = each(f"T.{op}(a, b)", a=a, b=b)
        assert np.isnan(out[:2].astype(float)).all()
        assert out[2:].astype(float).tolist() == [0, 0]
        source = f"""
            @T.prim_func
            def main(A: T.Buffer((4,), "{dtype}"), B: T.Buffer((4,), "{dtype}")):
                B[0:4] = T.{op}(A[0:4], B[0:4])
        """
        assert np.isnan(both(source, a, b)[:2].astype(float)).all()


def test_T16_select_is_strict():
    """Select raises for a division in the value that it does not give; if_then_else does not."""
    source = """
        @T.prim_func
        def main(b: T.int32) -> T.int32:
            return T.{}(b != 0, 6 // b, -1)
    """
    assert both(source.format("Select"), 3) == both(source.format("if_then_else"), 3) == 2
    fails("RUN0201", source.format("Select"), 0)
    assert both(source.format("if_then_else"), 0) == -1


@pytest.mark.parametrize(
    ("dtype", "wanted"),
    [
        ("int8", [127, -128, 0, 127, -128]),
        ("uint8", [255, 0, 0, 255, 0]),
        ("int32", [2**31 - 1, -(2**31), 0, 2**31 - 1, -(2**31)]),
        ("uint32", [2**32 - 1, 0, 0, 2**32 - 1, 0]),
        ("int64", [2**63 - 1, -(2**63), 0, 2**63 - 1, -(2**63)]),
        ("uint64", [2**64 - 1, 0, 0, 2**64 - 1, 0]),
    ],
)
def test_T17_floats_saturate(dtype: str, wanted: list[int]):
    """A float beyond an integer's ends becomes the nearer end, NaN becomes 0."""
    rows = f64(1e300, -1e300, NAN, INF, -INF)
    assert each(f"T.Cast('{dtype}', a)", dtype, a=rows).tolist() == wanted
    single = f32(3e38, -3e38, NAN, INF, -INF)
    assert each(f"T.Cast('{dtype}', a)", dtype, a=single).tolist() == wanted


def test_T18_cast_to_bool():
    """A cast to bool is a comparison with 0."""
    for rows in (i32(2, 256, 0), f64(0.5, NAN, -0.0), i8(-1, -128, 0)):
        assert each("T.Cast('bool', a)", "bool", a=rows).tolist() == [True, True, False]


def test_T19_one_bool():
    """uint1 is bool; a byte of memory holds it, any byte but 0 is true, and it is written as 1."""
    assert dt("uint1") is dt("bool")
    source = """
        @T.prim_func
        def main(A: T.Buffer((3,), "bool"), B: T.Buffer((3,), "int32"), C: T.Buffer((3,), "bool")):
            for i in range(3):
                B[i] = T.Cast("int32", A[i])
                C[i] = A[i]
    """
    odd = np.array([0, 2, 128], np.uint8).view(bool)
    _, (_, numbers, flags) = run_both(source, odd, zeros(3), truths(0, 0, 0))
    assert numbers.tolist() == [0, 1, 1]
    assert flags.view(np.uint8).tolist() == [0, 1, 1]


def test_T20_lanes_and_bits():
    """Lanes are 1, 2, 3, 4, 8, 16, 32 or 64; other lanes and widths are type errors."""
    assert LANES == (1, 2, 3, 4, 8, 16, 32, 64)
    for bad in ("int32x5", "int32x65536", "int7", "int128", "float8", "uint4"):
        with refuses("TIR0001"):
            dt(bad)


def test_T21_largest_bfloat16():
    """The largest bfloat16 is 3.3895313892515355e38."""
    largest = float(ml_dtypes.finfo(ml_dtypes.bfloat16).max)
    assert largest == dt("bfloat16").max_finite == 3.3895313892515355e38
    FloatImm(largest, dt("bfloat16"))
    for over in (3.4e38, 3.5e38):
        with refuses("TIR0103"):
            FloatImm(over, dt("bfloat16"))


def test_T22_wide_literals_are_checked():
    """A literal must fit 64 bits too."""
    for dtype, value in [("int64", 2**63), ("uint64", 2**64), ("uint64", -1)]:
        with refuses("TIR0103"):
            IntImm(value, dt(dtype))
    refused(
        "TIR0103",
        """
        @T.prim_func
        def main(A: T.Buffer((1,), "int64")):
            A[0] = T.int64(9223372036854775808)  # <--
        """,
    )


def test_T23_stored_dtypes():
    """A stored value has the code and bits of the buffer, not only the lanes."""
    source = """
        @T.prim_func
        def main(x: T.{}, A: T.Buffer((1,), "int32")):
            A[0] = x  # <--
    """
    assert both(source.format("int32"), 3, zeros(1)).tolist() == [3]
    for wrong in ("int64", "uint32", "float32", "int8"):
        refused("TIR0203", source.format(wrong))


def test_T24_mixed_indices():
    """Indices may be any mix of integers; floats and truth values are refused."""
    source = """
        @T.prim_func
        def main(i: T.{}, j: T.{}, A: T.Buffer((4, 8), "int32")) -> T.int32:
            return A[i, j]  # <--
    """
    data = np.arange(32, dtype=np.int32).reshape(4, 8)
    for i, j in itertools.product(["int8", "uint64"], ["uint8", "int64"]):
        assert both(source.format(i, j), 2, 5, data) == 21
    for wrong in ("float32", "bool"):
        refused("TIR0107", source.format("int32", wrong))


def test_T25_negative_indices_are_outside():
    """An index is extended by its sign: -1 is outside, told with checks, refused where constant."""
    source = """
        @T.prim_func
        def main(i: T.int8, A: T.Buffer((4,), "int32")) -> T.int32:
            return A[i]  # <--
    """
    assert both(source, 3, i32(1, 2, 3, 4)) == 4
    for outside in (-1, 4, -128):
        fails("RUN0203", source, outside, zeros(4), check_bounds=True)
    refused("SCR0019", source.replace("A[i]", "A[-1]"))


def test_T26_as_many_indices_as_axes():
    """Another number of indices than axes is a type error."""
    source = """
        @T.prim_func
        def main(A: T.Buffer((4, 8), "int32")) -> T.int32:
            return A[{}]  # <--
    """
    assert both(source.format("1, 2"), zeros(4, 8)) == 0
    for wrong in ("1", "1, 2, 3"):
        refused("TIR0107", source.format(wrong))


def test_T27_ramps_of_integers():
    """Base and stride of a ramp are integers of one dtype."""
    for dtype in ("float32", "bfloat16", "bool"):
        part = Var("x", dtype)
        with refuses("TIR0108"):
            Ramp(part, part, 4)
    assert Ramp(Var("x", "uint8"), Var("y", "uint8"), 4).dtype == "uint8x4"


def test_T28_conditions_of_while():
    """Any number but 0 holds; a constant needs a way out; vectors and floats are refused."""
    source = """
        @T.prim_func
        def main(x: T.int32, A: T.Buffer((1,), "int32")) -> T.int32:
            A[0] = x
            while A[0]:
                A[0] = A[0] // 2
                if A[0] == 7:
                    return 7
            return 0
    """
    assert [both(source, x, zeros(1)) for x in (0, 2, 15)] == [0, 0, 7]
    refused("SCR0022", source.replace("A[0]:", "True:").replace("return 7", "A[0] = 1"))
    refused("TIR0207", source.replace("while A[0]:", "while T.cast(A[0], 'float32'):"))


def test_T29_messages_of_assertions():
    """A text is shown as it is, an int32 as its digits, evaluated only where it is needed."""
    buffer = decl_buffer((1,), "int32", "A")
    made = func(AssertStmt(X > 0, convert(8) // X + 42, store(buffer, X, 0)), X, buffer)
    assert both(made, 2, zeros(1)).tolist() == [2]
    assert fails("RUN0202", made, -1, zeros(1)).message == "34"
    fails("RUN0201", made, 0, zeros(1))
    text = func(AssertStmt(X > 0, StringImm("no {0} %s"), store(buffer, X, 0)), X, buffer)
    assert fails("RUN0202", text, 0, zeros(1)).message == "no {0} %s"


def pointer() -> Var:
    return Var("p", type_annotation=PointerType(PrimType(dt("int32"))))


def test_T30_allocations_under_a_condition():
    """An allocation whose condition is 0 skips its body; a text writes true ones only."""
    buffer = decl_buffer((1,), "int32", "A")
    for condition, wanted in [(TRUE, 5), (FALSE, 0)]:
        p = pointer()
        made = Allocate(p, dt("int32"), (convert(4),), condition, store(buffer, 5, 0))
        assert both(func(made, buffer), zeros(1)).tolist() == [wanted]


def test_T31_realized_buffers():
    """A realized buffer is an allocation of its shape; bounds do not matter; no text makes one."""
    fresh, out = decl_buffer((4,), "int32", "B"), decl_buffer((1,), "int32", "A")
    for bounds in ((), (Range(convert(2), convert(1)),)):
        body = SeqStmt((store(fresh, 8, 3), store(out, fresh[3], 0)))
        assert both(func(BufferRealize(fresh, bounds, TRUE, body), out), zeros(1)).tolist() == [8]
    refused(
        "SCR0004",
        """
        @T.prim_func
        def main(A: T.Buffer((1,), "int32")):
            with T.realize(A[0:1], ""):  # <--
                A[0] = 1
        """,
    )


LAYOUT = """
    @T.prim_func
    def main(a: T.handle) -> T.int64:
        A = T.match_buffer(a, (2, 3), "int32", strides=(s, t))
        return s * 10 + t
"""


def test_T34_no_strides():
    """An array without strides binds the packed ones."""
    assert both(LAYOUT, zeros(2, 3)) == 31
    assert both(LAYOUT, zeros(2, 6)[:, ::2]) == 62


def test_T35_expressions_in_shapes():
    """Names are bound from all arrays first, then all other extents are checked."""
    source = """
        @T.prim_func
        def main(a: T.handle, b: T.handle) -> T.int64:
            A = T.match_buffer(a, (n * 2, n * m), "int32")
            B = T.match_buffer(b, (m, n), "int32")
            return n * 10 + m
    """
    assert both(source, zeros(6, 12), zeros(4, 3)) == 34
    fails("RUN0005", source, zeros(7, 12), zeros(4, 3))


def test_T36_names_in_strides():
    """A stride may use a name that only a later shape binds."""
    source = """
        @T.prim_func
        def main(a: T.handle, b: T.handle) -> T.int64:
            A = T.match_buffer(a, (2, 3), "int32", strides=(n, 1))
            B = T.match_buffer(b, (n,), "int32")
            return n
    """
    assert both(source, zeros(2, 8)[:, :3], zeros(8)) == 8
    with pytest.raises(RunError):
        both(source, zeros(2, 8)[:, :3], zeros(7))


def test_T37_listed_names_are_passed():
    """A name of a shape that is a parameter is passed and agrees, wherever it stands."""
    source = """
        @T.prim_func
        def main(n: T.int32, a: T.handle) -> T.int32:
            A = T.match_buffer(a, (n,), "int32")
            return n
    """
    assert both(source, 5, zeros(5)) == 5
    fails("RUN0010", source, 4, zeros(5))
    fails("RUN0101", source, zeros(5))


def test_T38_overlap_is_checked():
    """Arrays that share memory are refused at each call, unless that is allowed."""
    source = """
        @T.prim_func
        def main(A: T.Buffer((4,), "int32"), B: T.Buffer((4,), "int32")):
            for i in range(4):
                B[i] = A[3 - i]
    """
    memory = np.arange(8, dtype=np.int32)
    for second in (memory[:4], memory[3:7]):
        fails("RUN0008", source, memory[:4], second)
    assert both(source, memory[:4], memory[4:]).tolist() == [3, 2, 1, 0]
    assert both(source, memory[:4], memory[:4], allow_alias=True).tolist() == [3, 2, 2, 3]


def test_T39_memory_that_is_taken():
    """Unaligned memory is fine, an empty array too; what is read-only is, where nothing is written."""
    source = """
        @T.prim_func
        def main(a: T.handle) -> T.float64:
            A = T.match_buffer(a, (n,), "float64")
            if n == 0:
                return T.float64(-1)
            return A[n - 1]
    """
    odd = np.arange(17, dtype=np.uint8)[1:].view(np.float64)
    assert both(source, odd) == odd[1]
    assert both(source, np.zeros(0)) == -1
    fixed = f64(1, 2)
    fixed.flags.writeable = False
    for run in both_ways(source):
        assert run(fixed) == 2
    writes = source.replace("if n == 0:", "A[0] = T.float64(1)\n            if n == 0:")
    for run in both_ways(writes):
        with pytest.raises(RunError) as caught:
            run(fixed)
        assert caught.value.diagnostic.code == "RUN0108"


def test_T41_results_of_one_dtype():
    """Two returns of different dtypes are refused."""
    refused(
        "TIR0305",
        """
        @T.prim_func
        def main(x: T.int32):
            if x > 0:
                return x
            return T.float32(1)  # <--
        """,
    )


def test_T42_no_way_around_the_return():
    """Not to return is an error, early where certain; nothing returns from a concurrent loop."""
    source = """
        @T.prim_func
        def main(n: T.int32) -> T.int32:
            for i in T.serial(n):
                if i > 3:
                    return i
    """
    assert both(source, 9) == 4
    fails("RUN0205", source, 2)
    refused("TIR0406", source.replace("return i", "T.evaluate(i)"))
    for kind in ("parallel", "vectorized"):
        refused("SCR0021", source.replace("serial(n)", f"{kind}(8)"))


def test_T45_two_writers():
    """Two iterations that write one element have no defined result: watched, that is an error."""
    source = """
        @T.prim_func
        def main(A: T.Buffer((4,), "int32")):
            for i in T.parallel(4):
                A[i // 2] = i
    """
    with pytest.raises(RunError) as caught:
        interpret(read(source), zeros(4), track=True)
    assert caught.value.diagnostic.code == "RUN0210"


@pytest.mark.parametrize(("start", "stop"), [(0, 4), (2, 6), (3, 3), (1, 8)])
def test_T46_vectorized_from_anywhere(start: int, stop: int):
    """A vectorized loop starts anywhere, and runs serially where its extent is not constant."""
    source = f"""
        @T.prim_func
        def main(m: T.int32, n: T.int32, A: T.Buffer((8,), "int32")):
            for i in T.vectorized({start}, {stop}):
                A[i] = i + 1
            for i in T.vectorized(m, n):
                A[i] = A[i] + 100
    """
    wanted = [(i + 101 if start <= i < stop else 0) for i in range(8)]
    assert both(source, start, stop, zeros(8)).tolist() == wanted


def test_T47_empty_sequences():
    """An empty sequence does nothing; sequences inside of sequences are one."""
    buffer = decl_buffer((2,), "int32", "A")
    inner = SeqStmt((SeqStmt(()), store(buffer, 1, 0), SeqStmt((store(buffer, 2, 1),))))
    assert len(inner.seq) == 2
    assert both(func(SeqStmt((inner, SeqStmt(()))), buffer), zeros(2)).tolist() == [1, 2]
    assert both(func(SeqStmt(()), buffer), zeros(2)).tolist() == [0, 0]


def test_T48_names_of_values():
    """The values of a block's axes are called values; iter_values is the same."""
    axis = IterVar(Range(convert(0), convert(4)), Var("v", "int32"), IterVarType.DATA_PAR)
    made = Block((axis,), (), (), "b", Evaluate(convert(0)))
    realized = BlockRealize((convert(1),), TRUE, made)
    assert realized.iter_values is realized.values
    assert realized.values[0].value == 1


def test_T49_one_binding_for_a_variable():
    """A variable bound in two places is refused, in separate scopes too."""
    nothing = Evaluate(convert(0))
    for body in (
        loop(X, 2, loop(X, 2, nothing)),
        SeqStmt((loop(X, 2, nothing), loop(X, 2, nothing))),
    ):
        assert mistakes(func(body)) == ["TIR0402"]


@pytest.mark.parametrize("dtype", ["int32", "float32", "float64", "uint8"])
def test_T50_fresh_memory_holds_anything(dtype: str):
    """The interpreter fills fresh memory with NaN or 0xCD, and watched tells who reads it."""
    source = f"""
        @T.prim_func
        def main() -> T.{dtype}:
            A = T.alloc_buffer((2,), "{dtype}")
            A[0] = 1
            return A[1]
    """
    found = interpret(read(source))
    pattern = int.from_bytes(b"\xcd" * dt(dtype).itemsize, "little", signed=dtype == "int32")
    assert math.isnan(found) if dt(dtype).is_float else found == pattern
    with pytest.raises(RunError) as caught:
        interpret(read(source), track=True)
    assert caught.value.diagnostic.code == "RUN0209"
    assert both(source.replace("A[1]", "A[0]")) == 1


@pytest.mark.parametrize("dtype", ["int8", "uint8", "uint64", "int64"])
def test_T51_signed_and_unsigned_extents(dtype: str):
    """Loops and axes count with signed and unsigned integers."""
    buffer = decl_buffer((4,), "int32", "A")
    i, v = Var("i", dtype), Var("v", dtype)
    low, extent = IntImm(0, dt(dtype)), IntImm(4, dt(dtype))
    axis = IterVar(Range(low, extent), v, IterVarType.DATA_PAR)
    body = Block((axis,), (), (), "b", BufferStore(buffer, v.astype("int32") + 1, (v,)))
    made = For(i, low, extent, ForKind.SERIAL, BlockRealize((i,), TRUE, body))
    assert both(func(made, buffer), zeros(4)).tolist() == [1, 2, 3, 4]


def test_T52_trip_counts():
    """Trip counts are computed in 64 bits; one that the variable cannot count is an error."""
    buffer, i, n = decl_buffer((1,), "int32", "A"), Var("i", "int8"), Var("n", "int8")
    body = store(buffer, buffer[0] + 1, 0)
    made = func(For(i, IntImm(100, dt("int8")), n, ForKind.SERIAL, body), n, buffer)
    assert both(made, 28, zeros(1)).tolist() == [28]
    fails("RUN0208", made, 29, zeros(1))


def test_T53_arguments_of_builtins():
    """A builtin evaluates its arguments from left to right, unless it says otherwise."""
    source = """
        @T.prim_func
        def main(x: T.int32) -> T.float32:
            return T.{}(T.cast({}, "float32"), T.cast({}, "float32"))  # <--
    """
    for name in ("pow", "atan2", "fmod", "copysign"):
        for first, second, word in [
            ("1 // x", "1 % x", "FloorDiv"),
            ("1 % x", "1 // x", "FloorMod"),
        ]:
            assert word in fails("RUN0201", source.format(name, first, second), 0).message
    lazy = "T.if_then_else(b != 0, a // b, T.if_then_else(a > 0, a, a // b))"
    assert each(lazy, a=i64(6, 6), b=i64(4, 0)).tolist() == [1, 6]


def test_T54_value_before_indices():
    """A store evaluates its value before its indices: the error of the value is the one told."""
    source = """
        @T.prim_func
        def main(x: T.int32, A: T.Buffer((4,), "int32")):
            A[1 // x] = 1 % x  # <--
    """
    assert "FloorMod" in fails("RUN0201", source, 0, zeros(4)).message
    writes = """
        @I.ir_module
        class Module:
            @T.prim_func(private=True)
            def next(C: T.Buffer((1,), "int32")) -> T.int32:
                C[0] = C[0] + 1
                return C[0]

            @T.prim_func
            def main(C: T.Buffer((1,), "int32"), A: T.Buffer((4,), "int32")):
                A[cls.next(C)] = cls.next(C)
    """
    assert both(writes, zeros(1), zeros(4)).tolist() == [0, 0, 1, 0]
