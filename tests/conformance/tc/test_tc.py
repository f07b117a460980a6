"""Tensor Comprehensions: every sentence of the specification, run both ways or refused."""

from __future__ import annotations

import numpy as np
import pytest

from loomir.support.diagnostics import RunError
from loomir.tc import define
from loomir.tir.buffer import IterVarType
from loomir.tir.stmt import Block
from tests.tc.compare_engines import counting, f32, fails, i32, read, refused, run

COPY = "def f(float(N) A) -> (B) { B(i) = A(i) }"


def shapes(text: str, *args: object) -> tuple[tuple[int, ...], ...]:
    tc = define(text)
    return tc[tc.names[-1]].output_shapes(*args)


# -- types ---------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("name", "dtype"),
    [
        *[("double", "float64"), ("float", "float32"), ("half", "float16"), ("byte", "uint8")],
        *[(n, n) for n in ("int8", "int16", "int32", "int64", "bool")],
        *[(n, n) for n in ("uint8", "uint16", "uint32", "uint64")],
    ],
)
def test_TC_TYPE_01_tensors_of_primitive_types(name: str, dtype: str):
    """What passes between statements are tensors of primitive types."""
    a = np.array([0, 1, 1], dtype)
    got = run(f"def f({name}(N) A) -> (C) {{ B(i) = A(i) C(i) = B(i) }}", a)
    assert got.dtype == dtype
    assert got.tolist() == a.tolist()


def test_TC_TYPE_02_rank_0_without_dimensions():
    """A tensor of rank 0 has no list of dimensions."""
    got = run("def f(float a, float(N) B) -> (C) { C(i) = a * B(i) + a() }", f32(3)[0], f32(1, 2))
    assert got.tolist() == [6, 9]
    assert run("def f(float(N) A) -> (s) { s() +=! A(i) }", f32(1, 2, 4)).shape == ()


def test_TC_TYPE_03_size_variables_name_sizes():
    """A size variable names the size of a dimension."""
    text = "def f(float(N, M) A) -> (B) { B() = M - N }"
    assert run(text, counting(2, 5)) == 3


def test_TC_TYPE_04_repeated_sizes_are_equal():
    """Dimensions of one size variable have equal sizes."""
    text = "def f(float(N) A, float(N) B) -> (C) { C(i) = A(i) + B(i) }"
    assert run(text, f32(1, 2), f32(3, 4)).tolist() == [4, 6]
    with pytest.raises(RunError) as caught:
        read(text)(f32(1, 2), f32(1, 2, 3))
    assert caught.value.diagnostic.code == "RUN0010"


def test_TC_TYPE_05_size_variables_are_values():
    """A size variable in an expression is its size."""
    assert run("def f(float(N) A) -> (B) { B(i) = A(i) * N + N / 2 }", f32(1, 2, 3)).tolist() == [
        *(4, 7, 10)
    ]


def test_TC_TYPE_06_output_types_are_inferred():
    """The type of an output is that of its right side, after C's conversions."""
    cases = {
        "half(N) A, float(N) B": "float32",
        "byte(N) A, byte(N) B": "int32",
        "int32(N) A, uint32(N) B": "uint32",
        "int64(N) A, float(N) B": "float32",
        "double(N) A, float(N) B": "float64",
    }
    for params, dtype in cases.items():
        tc = define(f"def f({params}) -> (C) {{ C(i) = A(i) + B(i) }}")
        assert str(tc.f._unit.made[0].buffer.dtype) == dtype
    refused("TC0201", "def f(half(N) A, bfloat16(N) B) -> (C) { C(i) = ^A(i) + B(i) }")


def test_TC_LAY_01_row_major():
    """Tensors are row-major in memory."""
    got = run("def f(float(N, M) A) -> (B) { B(j, i) = A(i, j) }", counting(2, 3))
    assert got.flags.c_contiguous
    assert got.ravel().tolist() == counting(2, 3).T.ravel().tolist()
    with pytest.raises(RunError):
        read(COPY)(counting(8)[::2])


# -- scoping -------------------------------------------------------------------------------------
def test_TC_SCOPE_01_one_namespace():
    """Sizes, tensors and indices share one namespace."""
    refused("TC0102", "def f(float(A) ^A) -> (B) { B(i) = 1 where i in 0:A }")
    refused("TC0103", "def f(float(N) A) -> (B) { B(^N) = A(N) }")
    refused("TC0103", "def f(float(N) A) -> (B) { B(^A) = 1 where A in 0:N }")


def test_TC_SCOPE_02_sizes_come_from_the_signature():
    """Size variables are those of the parameters' types."""
    assert [v.name_hint for v in define(COPY).f._unit.sizes] == ["N"]
    refused("TC0110", "def f(float(N) A) -> (B) { B(i) = 1 where i in 0:^M }")


def test_TC_SCOPE_03_input_ranges_are_prescribed_output_ranges_inferred():
    """An input has the sizes of its type, an output those of its indices."""
    text = "def f(float(N) A, float(K) B) -> (C) { C(i) +=! A(i + k) * B(k) }"
    assert shapes(text, counting(10), counting(3)) == ((8,),)


def test_TC_SCOPE_04_index_variables_are_implicit():
    """A statement's indices are defined by their use."""
    assert run(COPY, f32(1, 2)).tolist() == [1, 2]


def test_TC_SCOPE_05_unknown_names_become_indices():
    """A name that is not in scope is an index of the statement."""
    got = run("def f(float(N) A) -> (B) { B(anything) = A(anything) + anything }", f32(1, 1))
    assert got.tolist() == [1, 2]


def test_TC_SCOPE_06_ranges_are_half_open():
    """A range holds its start and not its end."""
    got = run("def f(float(N) A) -> (s) { s() +=! A(i) where i in 1:3 }", f32(1, 10, 100, 1000))
    assert got == 110


def test_TC_SCOPE_07_ranges_come_from_use():
    """Where an index runs is told by the accesses that use it."""
    text = "def f(float(N) A, float(M) B) -> (C) { C(i) = A(i) + B(i) }"
    assert shapes(text, counting(7), counting(5)) == ((5,),)


def test_TC_SCOPE_08_indices_end_with_the_statement():
    """The same name may run elsewhere in the next statement."""
    text = "def f(float(N) A, float(M) B) -> (C, D) { C(i) = A(i) D(i) = B(i) }"
    assert shapes(text, counting(7), counting(5)) == ((7,), (5,))


# -- reductions ----------------------------------------------------------------------------------
def test_TC_RED_01_indices_only_on_the_right_reduce():
    """An index on the right and not on the left is reduced."""
    text = "def f(float(N, M) A) -> (B) { B(i) +=! A(i, k) }"
    assert run(text, counting(2, 3)).tolist() == counting(2, 3).sum(axis=1).tolist()
    (block,) = [b for b in blocks(text) if b.name_hint == "B"]
    assert [it.iter_type for it in block.iter_vars] == [
        *(IterVarType.DATA_PAR, IterVarType.COMM_REDUCE)
    ]


def blocks(text: str) -> list[Block]:
    from loomir.ir.visit import pre_order

    return [
        n
        for f in define(text).to_tir().functions.values()
        for n in pre_order(f.body)
        if isinstance(n, Block)
    ]


def test_TC_RED_02_reduction_needs_an_operator():
    """A statement with an index to reduce says how; the mistake names the index."""
    found = refused("TC0115", "def f(float(N, M) A) -> (B) { B(i) ^= A(i, k) }")
    assert "'k'" in found.message


def test_TC_RED_03_one_operator_per_statement():
    """A statement has one reduction operator for all indices."""
    refused("TC0001", "def f(float(N, M) A) -> (B) { B() +=! max^=! A(i, k) }")
    got = run("def f(float(N, M) A) -> (B) { B() max=! A(i, k) }", counting(3, 4))
    assert got == 12


def test_TC_RED_04_reductions_repeat_bit_for_bit():
    """One order is chosen, so that a kernel gives the same bits each time."""
    a = np.random.default_rng(0).standard_normal((50, 60)).astype("f")
    tc = read("def f(float(N, M) A) -> (B) { B() +=! A(i, j) }")
    assert len({tc(a).tobytes() for _ in range(5)}) == 1
    assert abs(float(tc(a)) - float(a.astype(float).sum())) < 1e-2


@pytest.mark.parametrize(
    ("op", "dtype", "start"),
    [
        *[("+=!", "float32", 0), ("*=!", "float32", 1)],
        *[("min=!", "float32", np.inf), ("max=!", "float32", -np.inf)],
        *[("min=!", "int32", 2**31 - 1), ("max=!", "int32", -(2**31)), ("max=!", "uint8", 0)],
    ],
)
def test_TC_RED_05_mark_starts_from_the_identity(op: str, dtype: str, start: float):
    """With !, the output is first set to the identity of the operator."""
    text = f"def f({dtype}(N, M) A) -> (B) {{ B(i) {op} A(i, k) }}"
    empty = run(text, np.zeros((3, 0), dtype))
    assert empty.dtype == dtype
    assert empty.tolist() == [start] * 3
    out = np.full(2, 77, dtype)
    read(text)(np.array([[2, 3], [4, 1]], dtype), out=out)
    assert (
        out.tolist()
        == {"+": [5, 5], "*": [6, 4], "i": [2, 1], "a": [3, 4]}[op[0] if op[0] in "+*" else op[1]]
    )


def test_TC_RED_06_without_mark_values_accumulate():
    """Without !, the values that are there take part; the output is a parameter too."""
    text = "def f(float(N, M) A, float(N) B) -> (B) { B(i) += A(i, k) }"
    assert run(text, counting(2, 3), f32(100, 200)).tolist() == [106, 215]
    refused("TC0116", "def f(float(N, M) A) -> (B) { B(i) ^+= A(i, k) }")


# -- sizes and statements ------------------------------------------------------------------------
def test_TC_SIZE_01_size_expressions_read_nothing():
    """A size expression has neither reads of tensors nor indices."""
    refused("TC0110", "def f(float(N) A, int32(N) S) -> (B) { B(i) = 1 where i in 0:^S(0) }")
    refused("TC0110", "def f(float(N) A) -> (B) { B(i) +=! A(j) where i in 0:^j }")
    refused("TC0201", "def f(float(N) A) -> (B) { B(i) = 1 where i in 0:^1.5 }")


def test_TC_SIZE_02_size_expressions_use_sizes():
    """A size expression may use size variables."""
    text = "def f(float(N) A) -> (B) { B(i) = 1 where i in 0:2 * N + 1 }"
    assert run(text, f32(1, 2)).shape == (5,)


def test_TC_SIZE_03_size_expressions_use_axes():
    """A size expression may use the axes of tensors that are defined already."""
    text = "def f(float(N, M) A) -> (C) { B(j, i) = A(i, j) C(i) = 1 where i in 0:B.0 }"
    assert run(text, counting(2, 5)).shape == (5,)
    refused("TC0101", "def f(float(N) A) -> (C) { C(i) = A(i) where i in 0:^C.0 }")


def test_TC_SIZE_04_sizes_need_no_loops():
    """Shapes of outputs are computed from nothing but shapes of inputs."""
    text = "def f(float(N) A) -> (B) { B(i) = A(0) where i in 0:N % 4 ? N / 2 : N }"
    assert shapes(text, np.broadcast_to(f32(1), (10**9 + 1,))) == ((5 * 10**8,),)


def test_TC_STMT_01_statement():
    """A statement is the tensor with its indices, a reduction, and an expression."""
    assert run("def f(float(N) A) -> (B) { B(i) +=! 2 * A(i) }", f32(1, 2)).tolist() == [2, 4]


def test_TC_STMT_02_left_indices_are_defined():
    """An index on the left is on the right, or where or exists gives its range."""
    refused("TC0111", "def f(float(N) A) -> (B) { B(i, ^j) = A(i) }")
    assert run("def f(float(N) A) -> (B) { B(i) = 7 where i in 0:N }", f32(1, 2)).tolist() == [7, 7]
    text = "def f(float(N) A) -> (B) { B(i) = 7 where exists A(i) }"
    assert run(text, f32(1, 2)).tolist() == [7, 7]


def test_TC_STMT_03_reduction_is_optional():
    """Where all indices are on the left, = will do."""
    assert run(COPY, f32(3, 4)).tolist() == [3, 4]


def test_TC_STMT_04_identity_then_every_point():
    """With !, an element is the reduction of the expression at every point, from the identity."""
    text = "def f(float(N, M) A) -> (B) { B(i) *=! A(i, k) }"
    assert run(text, counting(2, 3)).tolist() == [6, 120]
    refused("TC0114", "def f(float(N) A) -> (A) { A(i) = ^A(i - 1) where i in 1:N }")
    refused("TC0112", "def f(float(N, N) A) -> (B) { B(i, ^i) = A(i, i) }")
    got = run("def f(float(N) A) -> (A) { A(i) = A(i) + 1 }", f32(1, 2))
    assert got.tolist() == [2, 3]


def test_TC_STMT_05_order_does_not_matter():
    """Whatever the order of the points, the result is the same."""
    a = counting(4, 5, 6, dtype="int32")
    for left in ("i, j", "j, i"):
        text = f"def f(int32(I, J, K) A) -> (B) {{ B({left}) +=! A(i, j, k) }}"
        wanted = a.sum(axis=2)
        assert (run(text, a) == (wanted if left == "i, j" else wanted.T)).all()


def test_TC_STMT_06_existing_values_take_part():
    """Without !, an earlier statement's values take part."""
    text = "def f(float(N) A) -> (B) { B(i) = 10 * A(i) B(i) max= 15.0f + 0 * A(i) }"
    assert run(text, f32(1, 2)).tolist() == [15, 20]


# -- expressions ---------------------------------------------------------------------------------
def test_TC_EXPR_01_mathematics():
    """Expressions compute what mathematics says; integers divide rounding down."""
    a = f32(0.5, 2)
    got = run("def f(float(N) A) -> (B) { B(i) = log(A(i)) + sqrt(A(i)) * pow(A(i), 2) }", a)
    assert np.allclose(got, np.log(a) + np.sqrt(a) * a**2)
    n = i32(-7, 7, -8, 8)
    for op, wanted in (("/", n // 3), ("%", n % 3)):
        assert (
            run(f"def f(int32(N) A) -> (B) {{ B(i) = A(i) {op} 3 }}", n).tolist() == wanted.tolist()
        )


def test_TC_EXPR_02_reads():
    """A tensor with indices in parentheses is read there."""
    assert run("def f(float(N, M) A) -> (B) { B(i) = A(i, 1) }", counting(2, 3)).tolist() == [2, 5]


def test_TC_EXPR_03_indices_may_be_any_expression():
    """An index may be any expression; only linear ones tell ranges."""
    got = run("def f(float(N) A) -> (B) { B(i) = A(i * i % N) where i in 0:N }", f32(1, 2, 3))
    assert got.tolist() == [1, 2, 2]
    refused("TC0301", "def f(float(N) A) -> (B) { B(i) = A(^i * i) }")


def test_TC_EXPR_04_outside_reads_are_refused():
    """A read that may be outside is proved or checked; one of data is checked with checks."""
    text = "def f(float(N) A, float(M) B) -> (C) { C(i) = A(i) * B(i * i) where exists A(i) }"
    assert run(text, f32(1, 2), f32(3, 4)).tolist() == [3, 8]
    fails("RUN0202", text, f32(1, 2, 3), f32(3, 4))
    gather = "def f(float(N) A, int32(M) I) -> (B) { B(i) = A(I(i)) }"
    tc = define(gather, check_bounds=True, cache=False)
    assert tc(f32(1, 2), i32(1, 0)).tolist() == [2, 1]
    with pytest.raises(RunError):
        tc(f32(1, 2), i32(1, 2))


# -- grammar -------------------------------------------------------------------------------------
def value(expression: str, dtype: str = "double") -> object:
    return run(
        f"def f({dtype} A) -> (B) {{ B() = {expression} }}", np.array(0, np.float64)
    ).tolist()


def test_TC_GRAM_01_numbers_of_C():
    """Numbers are written, and typed, as in C."""
    for text, wanted in {
        "12": 12,
        "0x1F": 31,
        "017": 15,
        "3u": 3,
        "5ll": 5,
        "0xffffffff": 2**32 - 1,
        "1.5": 1.5,
        ".5": 0.5,
        "2.": 2.0,
        "1e3": 1000.0,
        "25e-2": 0.25,
        "0x1p-1": 0.5,
        "3000000000": 3 * 10**9,
        "0.1f": float(np.float32(0.1)),
    }.items():
        assert value(text) == wanted
    for text in ("09", "0x", "1.2.3", "12q", "1e", "99999999999999999999"):
        refused("TC0002", f"def f(float A) -> (B) {{ B() = ^{text} }}")


def test_TC_GRAM_02_identifiers():
    """Names are C's; what starts with a digit is a number."""
    assert run("def _f9(float(_N1) a_B) -> (Z_) { Z_(_) = a_B(_) }", f32(5)).tolist() == [5]
    refused("TC0001", "def f(float(N) ^1e5) -> (B) { B(i) = 1 }")
    assert value("1e5") == 1e5


def test_TC_GRAM_03_unary_operators():
    """A sign and a negation stand before what they apply to."""
    assert value("-3 - -2") == -1
    assert value("!0 + !7") == 1
    assert value("--2") == 2


def test_TC_GRAM_04_binary_operators():
    """Binary operators have the precedence of C."""
    assert value("1 + 2 * 3 - 8 / 4 % 3") == 5
    assert value("2 - 1 - 1") == 0
    assert value("1 < 2 == 3 > 2") is True
    assert value("1 == 1 && 0 != 0 || 2 <= 1 || 3 >= 3") is True
    assert value("1 || 0 && 0") is True


def test_TC_GRAM_05_ternary():
    """A ternary evaluates only the side that is chosen, and groups to the right."""
    assert value("0 ? 1 : 1 ? 2 : 3") == 2
    got = run("def f(float(N) A) -> (B) { B(i) = i < N ? A(i) : 9 where i in 0:N + 1 }", f32(1, 2))
    assert got.tolist() == [1, 2, 9]


def test_TC_GRAM_06_sizes_of_axes():
    """A name, a point and a number give the size of an axis, counted from 0."""
    assert run("def f(float(N, M) A) -> (B) { B() = A.0 * 10 + A.1 }", counting(2, 5)) == 25
    refused("TC0105", "def f(float(N) A) -> (B) { B() = ^A.1 }")


def test_TC_GRAM_07_reads_and_builtins():
    """A name with expressions in parentheses reads a tensor or calls a function."""
    got = run("def f(float(N) exp) -> (B) { B(i) = exp(i) + sqrt(4.0f) }", f32(1, 2))
    assert got.tolist() == [3, 4]
    refused("TC0101", "def f(float(N) A) -> (B) { B(i) = ^unknown(i) + A(i) }")


@pytest.mark.parametrize(
    ("op", "fresh", "kept"),
    [
        ("+", [5, 9], [15, 19]),
        ("*", [6, 20], [60, 200]),
        ("min", [2, 4], [2, 4]),
        ("max", [3, 5], [10, 10]),
    ],
)
def test_TC_GRAM_08_reductions(op: str, fresh: list[float], kept: list[float]):
    """There are four reductions, each with a form that starts anew."""
    a = np.array([[2, 3], [4, 5]], "f")
    assert run(f"def f(float(N, M) A) -> (B) {{ B(i) {op}=! A(i, k) }}", a).tolist() == fresh
    text = f"def f(float(N, M) A, float(N) B) -> (B) {{ B(i) {op}= A(i, k) }}"
    assert run(text, a, f32(10, 10)).tolist() == kept
    refused("TC0001", "def f(float(N, M) A) -> (B) { B(i) ^-= A(i, k) }")


def test_TC_GRAM_09_range_constraint():
    """A constraint is an index, in, and two expressions."""
    text = "def f(float(N) A) -> (B) { B(i) = A(i) where i in 0:N > 2 ? 2 : N }"
    assert run(text, f32(1, 2, 3)).tolist() == [1, 2]


def test_TC_GRAM_10_statement():
    """A statement has = or a reduction, and may have constraints."""
    refused("TC0001", "def f(float(N) A) -> (B) { B(i) ^A(i) }")
    assert run("def f(float(N) A) -> (B) { B(i) = A(i) where i in 0:1 }", f32(5, 6)).tolist() == [5]


def test_TC_GRAM_11_call_statement():
    """Names, = and a name with names in parentheses call a function of the text."""
    text = """
    def two(float(N) A) -> (B, C) { B(i) = A(i) + 1  C(i) = 2 * A(i) }
    def f(float(M) X) -> (Z) { P, Q = two(X)  Z(i) = P(i) * Q(i) }
    """
    assert run(text, f32(1, 2)).tolist() == [4, 12]


def test_TC_GRAM_12_parameters_and_results():
    """A parameter is a type and a name, a result a name."""
    tc = define("def f(float(N) A, int32 b) -> (C, D) { C(i) = A(i) D() = b }")
    assert repr(tc.f) == "<tensor comprehension f(A, b) -> (C, D)>"


def test_TC_GRAM_13_scalar_types():
    """The scalar types are named as in C, with their widths."""
    refused("TC0004", "def f(^flot(N) A) -> (B) { B(i) = A(i) }")
    for name in ("double", "float", "half", "int32", "byte", "uint32", "int8", "uint64", "bool"):
        assert define(f"def f({name}(N) A) -> (B) {{ B(i) = A(i) }}").names == ("f",)


def test_TC_GRAM_14_types():
    """A type is a scalar type and a list of sizes, which may be left out or empty."""
    assert run("def f(float() A) -> (B) { B() = A }", f32(4)[0]) == 4
    refused("TC0001", "def f(float(^3) A) -> (B) { B(i) = A(i) }")


def test_TC_GRAM_15_functions():
    """A function is def, a name, parameters, results and statements; one result needs no parentheses."""
    for returns in ("(B)", "B"):
        assert define(f"def f(float(N) A) -> {returns} {{ B(i) = A(i) }}").names == ("f",)
    text = "def f(float(N) A) -> (B) { B(i) = A(i) } def g(float(N) A) -> C { C(i) = A(i) }"
    assert define(text).names == ("f", "g")


def test_TC_GRAM_16_lists():
    """Statements are separated by whitespace, other lists by commas."""
    text = "def f(float(N) A) -> (B, C) { B(i) = A(i) C(i) = B(i) }"
    assert define(text).names == ("f",)
    refused("TC0001", "def f(float(N) A) -> (B, C) { B(i) = A(i)^; C(i) = B(i) }")
    refused("TC0001", "def f(float(N) A ^float(N) B) -> (C) { C(i) = A(i) }")


def test_TC_GRAM_17_constraints():
    """Constraints are separated by commas, and where needs one."""
    text = "def f(float(N) A) -> (B) { B(i, j) = 1 where i in 0:2, j in 0:3 }"
    assert run(text, f32(1)).shape == (2, 3)
    refused("TC0001", "def f(float(N) A) -> (B) { B(i) = A(i) where ^}")


# -- range inference -----------------------------------------------------------------------------
def test_TC_INF_01_where_fixes_a_range():
    """A range after where is the index's range."""
    text = "def f(float(N) A) -> (B) { B(i) = A(2 * i) where i in 0:2 }"
    assert shapes(text, counting(10)) == ((2,),)
    fails("RUN0202", text, f32(1, 2))


def test_TC_INF_02_all_others_are_open():
    """Every index without where needs a range from accesses."""
    refused("TC0301", "def f(float(N) A) -> (B) { B(i) +=! A(i) * ^k }")


def test_TC_INF_03_rounds_look_at_one_open_variable():
    """An access with two open variables tells nothing until one of them is known."""
    refused("TC0301", "def f(float(N) A) -> (B) { B(i, j) = A(^i + j) }")
    text = "def f(float(N) A, float(M) B) -> (C) { C(i, j) = A(i + j) * B(j) }"
    assert shapes(text, counting(10), counting(4)) == ((7, 4),)


def test_TC_INF_04_maximal_interval():
    """An access gives the largest interval in which it stays inside."""
    text = "def f(float(N) A) -> (B) { B() +=! A(3 * i - 4) * i }"
    got = run(text, counting(12))
    assert got == sum(counting(12)[3 * i - 4] * i for i in range(2, 6))


def test_TC_INF_05_resolved_variables_take_all_their_values():
    """A variable with a range counts with all its values."""
    text = "def f(float(N) A, float(M) B) -> (C) { C(i) +=! A(i + 2 * k) * B(k) }"
    assert shapes(text, counting(10), counting(3)) == ((6,),)


def test_TC_INF_06_intervals_of_a_round_are_intersected():
    """Several intervals of one round are intersected."""
    text = "def f(float(N) A, float(M) B) -> (C) { C(i) = A(i) + B(i) }"
    assert [shapes(text, counting(n), counting(5)) for n in (4, 6)] == [((4,),), ((5,),)]


def test_TC_INF_07_rounds_go_on():
    """Rounds follow one another until every index has its range, or one asks for where."""
    text = (
        "def f(float(N) A, float(M) B, float(K) C) -> (D) { D(i) +=! A(i + j) * B(j + k) * C(k) }"
    )
    assert shapes(text, counting(20), counting(9), counting(3)) == ((14,),)
    found = refused("TC0301", "def f(float(N) A) -> (B) { B(i, j) = A(^i + j) }")
    assert "where i in" in found.help


def test_TC_INF_08_convolution():
    """In a convolution, the filter's index comes first, then the output's."""
    text = "def f(float(N) B, float(M) K, float(P) A) -> (A) { A(i) += B(i + k) * K(k) }"
    b, k = counting(9), counting(4)
    assert run(text, b, k, np.zeros(6, "f")).tolist() == np.correlate(b, k).tolist()


def test_TC_INF_09_left_over_accesses_are_preconditions():
    """What no round used is proved, or warned of and checked before the kernel."""
    text = "def f(float(N) A, float(M) B) -> (C) { C(i) = A(i) + B(i) where i in 0:N }"
    (warning,) = define(text).warnings
    assert (warning.code, warning.severity) == ("TC0304", "warning")
    fails("RUN0202", text, f32(1, 2, 3), f32(1, 2))
    assert run(text, f32(1, 2), f32(1, 2, 3)).tolist() == [2, 4]
    assert not define(COPY.replace("}", "where i in 0:N - 1 }")).warnings
    refused("TC0303", "def f(float(N) A) -> (B) { B(i) = ^A(i) where i in 0:N + 1 }")


def test_TC_INF_10_indices_from_data_tell_nothing():
    """An index that is read from a tensor tells no range; those inside of it do."""
    text = "def f(float(N) B, int32(M) C) -> (A) { A(i) = B(C(i)) }"
    assert run(text, f32(5, 6, 7), i32(2, 0)).tolist() == [7, 5]


@pytest.mark.parametrize("size", range(8))
def test_TC_INF_11_strides_round_down(size: int):
    """B(2 * i) lets i run up to (I + 1) / 2."""
    assert shapes("def f(float(I) B) -> (A) { A(i) = B(2 * i) }", counting(size)) == (
        ((size + 1) // 2,),
    )


@pytest.mark.parametrize("size", range(8))
def test_TC_INF_12_strides_are_intersected(size: int):
    """B(2 * i) with B(2 * i + 1) lets i run up to I / 2."""
    text = "def f(float(I) B) -> (A) { A(i) = B(2 * i) + B(2 * i + 1) }"
    assert shapes(text, counting(size)) == ((size // 2,),)


def test_TC_INF_13_factors_from_data_need_where():
    """B(S(0) * i) needs where."""
    refused("TC0301", "def f(float(I) B, int32(M) S) -> (A) { A(i) = B(S(0) * ^i) }")


def test_TC_INF_14_exists_only_infers():
    """An access after exists tells ranges, and is never read."""
    text = "def f(float(N) A, float(M) B) -> (C) { C(i) = B(i / 2) where exists A(i) }"
    assert run(text, np.full(4, np.nan, "f"), f32(1, 2)).tolist() == [1, 1, 2, 2]


def test_indices_of_outputs_start_at_0():
    """An output whose range starts elsewhere asks for where (decision C11)."""
    refused("TC0302", "def f(float(I) B) -> (A) { A(^i) = B(10 - i) }")
    got = run("def f(float(I) B) -> (A) { A(i) = B(I - 1 - i) }", f32(1, 2, 3))
    assert got.tolist() == [3, 2, 1]
