"""Check values against structural information: MatchCast, entry and exit of functions, claims."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import loomir
from loomir.ir.module import GlobalVar, VDevice
from loomir.relax import (
    Call,
    FuncStructInfo,
    Function,
    If,
    PrimStructInfo,
    PrimValue,
    ShapeExpr,
    ShapeStructInfo,
    StructInfo,
    TensorStructInfo,
    Tuple,
    Var,
)
from loomir.relax.struct_info import DEFAULT_DERIVE, EMPTY_DERIVE, OBJECT
from loomir.script import tir as T
from loomir.support.diagnostics import CompileError, RunError
from loomir.support.dtype import DataType
from loomir.tir.expr import FloatImm, FloorDiv, IntImm, PrimExpr, Select
from tests.clause import clauses
from tests.interp.relax.build import (
    bind,
    cast,
    func,
    module,
    op,
    packed,
    prim,
    prim_func,
    run,
    seq,
    shape,
    size,
    tensor,
    tuple_of,
    var,
)
from tests.interp.relax.conftest import Register

Z = np.zeros


def f32(*dims: int) -> Any:
    return Z(dims, "float32")


def matched(info: StructInfo, value: Any) -> Any:
    """Match a value that nothing is known of."""
    x, y = var("x", OBJECT), var("y", info)
    return run(func([x], seq(y, cast(y, x, info))), value)


def refusal(program: Any, *args: Any) -> tuple[str, str]:
    """Return code and message of what a run raises."""
    with pytest.raises(RunError) as caught:
        run(program, *args)
    return caught.value.diagnostic.code, caught.value.diagnostic.message


def mismatch(info: StructInfo, value: Any) -> tuple[str, str]:
    x = var("x", OBJECT)
    return refusal(func([x], seq(x, cast(None, x, info))), value)


# -- MatchCast, kind by kind ---------------------------------------------------------------------
@clauses("RX-MC-01", "RX-MC-03")
@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ((f32(2),), "a tuple"),
        (loomir.Shape([2]), "a shape"),
        (np.float32(1), "a scalar"),
        (1.5, "a scalar"),
        ("x", "a string"),
        (DataType("int8"), "a dtype"),
        (None, "null"),
        (len, "a packed function"),
        (object(), "an object"),
    ],
    ids=lambda v: v if isinstance(v, str) else "",
)
@clauses("RX-VALS-13")
def test_a_tensor_is_no_other_kind(value: Any, shown: str):
    wanted = ("RUN0401", f"the matched value must be a tensor, not {shown}")
    assert mismatch(TensorStructInfo(), value) == wanted


@clauses("RX-MC-02")
@pytest.mark.parametrize("value", [f32(2), (1, 2), None, "x", len, loomir.Shape([1]), object()])
def test_any_value_is_an_object(value: Any):
    assert matched(OBJECT, value) is value


@clauses("RX-MC-03a")
def test_the_rank_of_a_tensor():
    assert matched(TensorStructInfo(ndim=2), f32(2, 3)).shape == (2, 3)
    assert matched(TensorStructInfo(ndim=-1), f32(2, 3)).shape == (2, 3)
    assert mismatch(TensorStructInfo(ndim=1), f32(2, 3)) == (
        "RUN0403",
        "the matched value must have 1 axis, not 2",
    )


@clauses("RX-MC-03b")
def test_the_dtype_of_a_tensor():
    assert matched(TensorStructInfo(dtype=DataType("int8")), Z(2, "int8")).dtype == np.int8
    assert matched(TensorStructInfo(), Z(2, ml_dtypes.bfloat16)).dtype == ml_dtypes.bfloat16
    assert mismatch(TensorStructInfo(dtype=DataType("int8")), Z(2, "uint8")) == (
        "RUN0402",
        "the matched value must hold int8, not uint8",
    )


@clauses("RX-MC-03c", "RX-VALS-02")
def test_the_device_of_a_tensor():
    here = TensorStructInfo(None, DataType("float32"), VDevice("llvm"))
    assert matched(here, f32(2)).shape == (2,)
    gone = TensorStructInfo(None, DataType("float32"), VDevice("cuda"))
    code, message = mismatch(gone, f32(2))
    assert code == "RUN0414"
    assert message == "there is no device cuda here: programs run on the CPU"


@clauses("RX-MC-03d")
def test_the_shape_of_a_tensor_is_that_of_a_variable():
    s, x = var("s", ShapeStructInfo()), var("x", OBJECT)
    f = func([s, x], seq(x, cast(None, x, TensorStructInfo(s, DataType("float32")))))
    assert run(f, loomir.Shape([2, 3]), f32(2, 3)).shape == (2, 3)
    assert refusal(f, loomir.Shape([2, 3]), f32(2, 4)) == (
        "RUN0404",
        "the matched value, axis 1: the extent must be 3 (s), not 4",
    )
    assert refusal(f, loomir.Shape([2, 3]), f32(2))[0] == "RUN0403"


@clauses("RX-MC-03e")
def test_a_shape_has_as_many_extents_as_the_tensor_has_axes():
    assert mismatch(tensor(2, 3), f32(2)) == (
        "RUN0403",
        "the matched value must have 2 axes, not 1",
    )


@clauses("RX-MC-03f", "RX-DIM-01", "RX-DIM-04")
def test_a_lone_variable_of_a_tensor_is_bound():
    n, m = size("n"), size("m")
    x = var("x", OBJECT)
    f = func([x], seq(ShapeExpr((n, m)), cast(None, x, tensor(n, m))))
    assert run(f, f32(2, 3)) == (2, 3)
    square = func([x], seq(PrimValue(n), cast(None, x, tensor(n, n))))
    assert run(square, f32(3, 3)) == 3
    assert refusal(square, f32(3, 4)) == (
        "RUN0404",
        "the matched value, axis 1: the extent must be 3 (n), not 4",
    )


@clauses("RX-MC-03g", "RX-DIM-07")
def test_other_extents_are_evaluated():
    n = size("n")
    x = var("x", OBJECT)
    f = func([x], seq(x, cast(None, x, tensor(n, n * 2 + 1))))
    assert run(f, f32(2, 5)).shape == (2, 5)
    assert refusal(f, f32(2, 4)) == (
        "RUN0404",
        "the matched value, axis 1: the extent must be 5 (n * 2 + 1), not 4",
    )


@clauses("RX-DIM-05")
def test_a_variable_that_is_not_bound_is_no_number():
    n = size("n")
    x = var("x", OBJECT)
    with pytest.raises(CompileError) as caught:
        run(func([x], seq(x, cast(None, x, tensor(n * 2)))), f32(4))
    assert caught.value.diagnostic.code == "TIR0401"


@clauses("RX-MC-04")
@pytest.mark.parametrize(
    ("info", "value"),
    [
        (prim("int64"), np.int64(3)),
        (prim("int64"), 3),
        (prim("uint8"), 255),
        (prim("float32"), 0.1),
        (prim("float32"), 3),
        (prim("bool"), True),
        (prim("bfloat16"), ml_dtypes.bfloat16(1)),
        (prim("int8", IntImm(-3, DataType("int8"))), -3),
        (prim("float32", FloatImm(0.5, DataType("float32"))), 0.5),
    ],
    ids=str,
)
def test_a_scalar_of_a_dtype(info: PrimStructInfo, value: Any):
    made = matched(info, value)
    assert isinstance(made, np.generic)
    assert str(made.dtype) == str(info.dtype)


@clauses("RX-MC-04")
@pytest.mark.parametrize(
    ("info", "value", "code", "message"),
    [
        (prim("int64"), np.int32(3), "RUN0402", "must be int64, not int32"),
        (prim("int64"), 3.0, "RUN0402", "must be int64, not float64"),
        (prim("int64"), True, "RUN0402", "must be int64, not bool"),
        (prim("bool"), 1, "RUN0402", "must be bool, not int64"),
        (prim("int8"), 128, "RUN0009", "is 128, which does not fit int8"),
        (prim("int64"), Z((), "int64"), "RUN0401", "must be a scalar, not a tensor"),
        (prim("int64", IntImm(4, DataType("int64"))), 3, "RUN0405", "must be 4, not 3"),
        (
            prim("float32", FloatImm(0.5, DataType("float32"))),
            0.25,
            "RUN0405",
            "must be T.float32(0.5), and is another number",
        ),
    ],
    ids=str,
)
def test_a_scalar_of_another_dtype_or_value(
    info: PrimStructInfo, value: Any, code: str, message: str
):
    assert mismatch(info, value) == (code, f"the matched value {message}")


@clauses("RX-MC-04")
def test_a_lone_variable_of_a_scalar_is_bound():
    n = size("n")
    x = var("x", OBJECT)
    f = func([x], seq(PrimValue(n + 1), cast(None, x, prim("int64", n))))
    assert run(f, 4) == 5


@clauses("RX-MC-05")
def test_the_rank_of_a_shape():
    assert matched(ShapeStructInfo(ndim=2), loomir.Shape([1, 2])) == (1, 2)
    assert matched(ShapeStructInfo(), loomir.Shape([1, 2])) == (1, 2)
    assert mismatch(ShapeStructInfo(ndim=1), loomir.Shape([1, 2])) == (
        "RUN0403",
        "the matched value must have 1 extent, not 2",
    )
    assert mismatch(ShapeStructInfo(), (1, 2)) == (
        "RUN0401",
        "the matched value must be a shape, not a tuple",
    )


@clauses("RX-MC-05a", "RX-MC-05b")
def test_the_extents_of_a_shape():
    n = size("n")
    x = var("x", OBJECT)
    f = func([x], seq(PrimValue(n), cast(None, x, shape(n, n + 1))))
    assert run(f, loomir.Shape([3, 4])) == 3
    assert refusal(f, loomir.Shape([3, 5])) == (
        "RUN0404",
        "the matched value, axis 1: the extent must be 4 (n + 1), not 5",
    )


@clauses("RX-MC-06", "RX-ENTRY-03")
def test_the_fields_of_a_tuple():
    n = size("n")
    info = tuple_of(tensor(n), tuple_of(tensor(n), prim()))
    made = matched(info, (f32(2), (f32(2), 1)))
    assert isinstance(made[1][1], np.int64)
    assert mismatch(info, (f32(2),)) == (
        "RUN0406",
        "the matched value must be a tuple of 2 fields, not 1",
    )
    assert mismatch(info, (f32(2), (f32(3), 1))) == (
        "RUN0404",
        "the matched value[1][0], axis 0: the extent must be 2 (n), not 3",
    )
    assert mismatch(info, f32(2))[0] == "RUN0401"


@clauses("RX-MC-06")
def test_a_tuple_that_matches_is_the_same_tuple():
    given = (f32(2), (f32(3),))
    assert matched(tuple_of(tensor(2), tuple_of(tensor(3))), given) is given


def callable_info(*params: StructInfo, ret: StructInfo, pure: bool = True) -> FuncStructInfo:
    return FuncStructInfo(params, ret, pure)


@clauses("RX-MC-07")
def test_functions_and_packed_functions_differ():
    opaque = FuncStructInfo(None, OBJECT, False, DEFAULT_DERIVE)
    known = callable_info(OBJECT, ret=OBJECT)
    assert matched(opaque, len) is len
    assert matched(FuncStructInfo(None, OBJECT, False, EMPTY_DERIVE), len) is len
    assert mismatch(known, len) == (
        "RUN0401",
        "the matched value must be a function, not a packed function",
    )
    x, y, f = var("x", OBJECT), var("y", OBJECT), var("f", OBJECT)
    made = func([x], seq(x, bind(f, Function((y,), y)), cast(None, f, opaque)))
    assert refusal(made, 1) == (
        "RUN0401",
        "the matched value must be a packed function, not a function",
    )


@clauses("RX-MC-07a", "RX-VALS-05")
@pytest.mark.parametrize(
    ("wanted", "fits"),
    [
        (callable_info(tensor(2), ret=tensor(2)), True),
        (callable_info(tensor(2), ret=TensorStructInfo(ndim=1)), True),
        (callable_info(tensor(2), ret=OBJECT), True),
        (callable_info(tensor(2), ret=tensor(2), pure=False), True),
        (callable_info(tensor(3), ret=tensor(2)), False),
        (callable_info(tensor(2), ret=tensor(3)), False),
        (callable_info(tensor(2), tensor(2), ret=tensor(2)), False),
        (callable_info(ret=tensor(2)), False),
    ],
    ids=str,
)
def test_a_closure_is_compared_by_its_signature(wanted: FuncStructInfo, fits: bool):
    y, f = var("y", tensor(2)), var("f", OBJECT)
    inner = Function((y,), y, tensor(2))
    program = func([], seq(Tuple(()), bind(f, inner), cast(None, f, wanted)))
    if fits:
        assert run(program) == ()
    else:
        assert refusal(program)[0] == "RUN0407"


@clauses("RX-MC-07a")
def test_an_impure_closure_is_not_a_pure_one():
    y, f = var("y", tensor(2)), var("f", OBJECT)
    inner = Function((y,), y, tensor(2), is_pure=False)
    wanted = callable_info(tensor(2), ret=tensor(2))
    assert refusal(func([], seq(f, bind(f, inner), cast(None, f, wanted))))[0] == "RUN0407"


def test_sizes_that_are_known_take_part_in_the_comparison_of_signatures():
    n = size("n")
    x, y, f = var("x", tensor(n)), var("y", tensor(4)), var("f", OBJECT)
    inner = Function((y,), y, tensor(4))
    wanted = callable_info(tensor(n), ret=tensor(n))
    program = func([x], seq(Tuple(()), bind(f, inner), cast(None, f, wanted)))
    assert run(program, f32(4)) == ()
    assert refusal(program, f32(5))[0] == "RUN0407"


# -- entry and exit ------------------------------------------------------------------------------
def product() -> Function:
    """Return f(x: (M * N,), y: (M, N)) -> (N * N, M * M), which returns its third argument."""
    m, n = size("M"), size("N")
    x, y, z = var("x", tensor(m * n)), var("y", tensor(m, n)), var("z", OBJECT)
    return func([x, y, z], z, tensor(n * n, m * m))


@clauses("RX-ENTRY-01", "RX-ENTRY-02", "RX-ENTRY-06", "RX-DIM-02")
def test_variables_are_bound_before_anything_is_compared():
    assert run(product(), f32(6), f32(2, 3), f32(9, 4)).shape == (9, 4)
    assert refusal(product(), f32(7), f32(2, 3), f32(9, 4)) == (
        "RUN0404",
        "argument x, axis 0: the extent must be 6 (M * N), not 7",
    )


@clauses("RX-ENTRY-05")
def test_the_result_is_compared():
    """Decision R21."""
    assert refusal(product(), f32(6), f32(2, 3), f32(4, 9)) == (
        "RUN0404",
        "the result of main, axis 0: the extent must be 9 (N * N), not 4",
    )


@clauses("RX-ENTRY-05")
def test_what_a_packed_function_claims_is_no_proof(register: Register):
    """Decisions R21 and R22: the claim is compared, and so is the annotation."""
    register("test.seven", lambda: f32(7))
    y = var("y", tensor(4))
    claimed = func([], packed("test.seven", sinfo=(tensor(4),)), tensor(4))
    assert refusal(claimed) == (
        "RUN0404",
        "the result of 'test.seven', axis 0: the extent must be 4, not 7",
    )
    annotated = func([], seq(y, bind(y, packed("test.seven"))))
    assert refusal(annotated) == (
        "RUN0404",
        "the value of y, axis 0: the extent must be 4, not 7",
    )
    assert refusal(func([], packed("test.seven"), tensor(4))) == (
        "RUN0404",
        "the result of main, axis 0: the extent must be 4, not 7",
    )


@clauses("RX-ENTRY-02", "RX-ENTRY-03")
def test_binding_positions_are_found_in_shapes_scalars_and_tuples():
    a, b, c = size("a"), size("b"), size("c")
    params = [
        var("x", tensor(a + b + c)),
        var("t", tuple_of(shape(a), tuple_of(prim("int64", b), tensor(c)))),
    ]
    f = func(params, ShapeExpr((a, b, c)))
    assert run(f, f32(6), (loomir.Shape([1]), (2, f32(3)))) == (1, 2, 3)
    assert refusal(f, f32(5), (loomir.Shape([1]), (2, f32(3))))[0] == "RUN0404"


@clauses("RX-ENTRY-04")
def test_all_mistakes_are_told_from_left_to_right():
    n = size("n")
    f = func([var("x", tensor(n)), var("y", tensor(n)), var("z", prim())], Tuple(()))
    with pytest.raises(ValueError, match="argument y") as caught:
        run(f, f32(2), f32(3), "no number")
    assert isinstance(caught.value, RunError)
    assert [d.code for d in caught.value.diagnostics] == ["RUN0404", "RUN0401"]
    assert caught.value.diagnostic.notes == ("n is 2: argument x, axis 0",)


def test_a_variable_whose_place_does_not_fit_is_not_asked_for():
    n = size("n")
    f = func([var("x", tensor(n * 2)), var("y", tensor(n, 1))], Tuple(()))
    with pytest.raises(RunError) as caught:
        run(f, f32(4), f32(2))
    assert [d.message for d in caught.value.diagnostics] == ["argument y must have 2 axes, not 1"]


@clauses("RX-ENTRY-04")
def test_calls_within_a_program_compare_too():
    n = size("n")
    y, z = var("y", tensor(n)), var("z", tensor(n))
    inner = func([y, z], y, tensor(n), "inner")
    a, b = var("a", OBJECT), var("b", OBJECT)
    main = func([a, b], Call(GlobalVar("inner"), (a, b)))
    mod = module(inner=inner, main=main)
    assert run(mod, "main", f32(2), f32(2)).shape == (2,)
    with pytest.raises(ValueError, match="argument z, axis 0"):
        run(mod, "main", f32(2), f32(3))


@given(
    st.lists(st.integers(0, 5), min_size=2, max_size=2),
    st.lists(st.integers(0, 5), min_size=2, max_size=2),
    st.integers(0, 12),
)
def test_a_function_is_entered_where_all_extents_agree(x: Any, y: Any, total: int):
    """Decision R21: f(x: (n, m), y: (m, n), z: (n + m,)) -> (m,), which returns its last."""
    n, m = size("n"), size("m")
    params = [var("x", tensor(n, m)), var("y", tensor(m, n)), var("z", tensor(n + m))]
    f = func(params, params[2], tensor(m))
    agree = x == y[::-1] and total == sum(x)
    arrays = f32(*x), f32(*y), f32(total)
    if agree and total == x[1]:
        assert run(f, *arrays) is arrays[2]
    else:
        with pytest.raises(ValueError, match=r"^error\[RUN0404\]") as caught:
            run(f, *arrays)
        about_result = "the result of main" in str(caught.value)
        assert about_result == agree


# -- arithmetic of shapes ------------------------------------------------------------------------
N = size("n")
K = PrimStructInfo(DataType("int64"), N)


def sized(expr: PrimExpr) -> Function:
    """Return f(n) = R.shape([expr])."""
    return func([var("k", K)], ShapeExpr((expr,)))


@clauses("RX-DIM-07")
@pytest.mark.parametrize(
    ("expr", "n"),
    [
        (N * N, 2**32),
        (N + 1, 2**63 - 1),
        (N - 2, -(2**63)),
        (T.shift_left(N, 3), 2**61),
        (N * N - N * N, 2**32),
        (FloorDiv(N, IntImm(-1, DataType("int64"))), -(2**63)),
    ],
    ids=str,
)
def test_sizes_do_not_wrap(expr: PrimExpr, n: int):
    """Decision R40."""
    assert refusal(sized(expr), n)[0] == "RUN0410"
    with pytest.raises(ValueError, match="overflow"):
        run(sized(expr), n)


@clauses("RX-DIM-07")
def test_a_division_by_zero_is_an_error():
    """Decision X7: a Select evaluates both of its values."""
    code, message = refusal(sized(FloorDiv(IntImm(6, DataType("int64")), N)), 0)
    assert code == "RUN0201"
    assert message == "FloorDiv divides by zero"
    one = IntImm(1, DataType("int64"))
    chosen = Select(N.equal(0), one, FloorDiv(one, N))
    assert run(sized(chosen), 1) == (1,)
    assert refusal(sized(chosen), 0)[0] == "RUN0201"


@given(st.integers(-(2**63), 2**63 - 1), st.integers(-(2**63), 2**63 - 1))
@clauses("RX-DIM-07")
def test_arithmetic_of_sizes_is_that_of_the_integers(a: int, b: int):
    """Decision R40."""
    n, m = size("n"), size("m")
    params = [var("p", prim("int64", n)), var("q", prim("int64", m))]
    for expr, value in [
        (n + m, a + b),
        (n - m, a - b),
        (n * m, a * b),
        (n // m, a // b if b else None),
        (n % m, a % b if b else None),
    ]:
        f = func(params, PrimValue(expr))
        if value is None:
            with pytest.raises(ZeroDivisionError):
                run(f, a, b)
        elif -(2**63) <= value < 2**63:
            assert run(f, a, b) == value
        else:
            with pytest.raises(ValueError, match="overflow"):
                run(f, a, b)


@pytest.mark.parametrize(("n", "code"), [(-1, "RUN0409"), (2**61, "RUN0411")])
def test_no_tensor_has_an_impossible_size(n: int, code: str):
    """Decision R40: refused before anything is allocated."""
    fill = prim_func(
        "@T.prim_func\n"
        "def fill(y: T.handle):\n"
        "    n = T.int64()\n"
        '    Y = T.match_buffer(y, (n,), "float32")\n'
        "    for i in range(n):\n"
        "        Y[i] = T.float32(0)\n"
    )
    k = var("k", K)
    main = func([k], op("call_tir", GlobalVar("fill"), Tuple(()), sinfo=(tensor(N),)))
    assert refusal(module(fill=fill, main=main), "main", n)[0] == code


def test_a_condition_on_a_size_is_a_scalar():
    f = func([var("k", K)], If(PrimValue(N > 3), PrimValue(1), PrimValue(2)))
    assert run(f, 4) == 1
    assert run(f, 3) == 2


def test_parameters_may_hold_the_shape_of_others():
    s = var("s", ShapeStructInfo(ndim=2))
    x = Var("x", TensorStructInfo(s, DataType("float32")))
    f = func([s, x], x)
    assert run(f, loomir.Shape([2, 3]), f32(2, 3)).shape == (2, 3)
    assert refusal(f, loomir.Shape([2, 3]), f32(3, 2))[0] == "RUN0404"
