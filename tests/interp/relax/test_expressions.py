"""Each kind of expression, evaluated."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import loomir
from loomir.interp.relax.values import Closure, PrimFunction
from loomir.ir.module import GlobalVar, IRModule
from loomir.relax import (
    BindingBlock,
    Call,
    DataflowBlock,
    DataflowVar,
    DataTypeImm,
    ExternFunc,
    Function,
    If,
    PrimValue,
    SeqExpr,
    ShapeExpr,
    StringImm,
    Tuple,
    TupleGetItem,
)
from loomir.relax.struct_info import OBJECT
from loomir.support.diagnostics import CompileError, RunError
from loomir.support.dtype import DataType
from loomir.tir.expr import FloatImm, IntImm
from tests.clause import clauses
from tests.interp.relax.build import (
    bind,
    cast,
    const,
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

X = np.arange(6, dtype="float32").reshape(2, 3)


@clauses("RX-VALS-01")
def test_a_scalar_tensor_has_no_axes():
    x = var("x", tensor())
    (made,) = (run(func([x], op("negative", x), tensor()), np.array(2, "float32")),)
    assert isinstance(made, np.ndarray)
    assert made.shape == ()
    assert made == -2


@clauses("RX-SEM-07", "RX-SEM-05", "RX-SEM-25")
def test_names_give_the_value_itself():
    x, y = var("x", tensor(2, 3)), var("y", tensor(2, 3))
    assert run(func([x], seq(y, bind(y, x))), X) is X


@clauses("RX-SEM-08", "RX-VALS-03")
def test_a_tuple_has_its_fields_in_order_and_nests(register: Register):
    seen: list[int] = []

    def note(i: Any) -> Any:
        seen.append(int(i))
        return i

    register("test.note", note)
    fields = [packed("test.note", PrimValue(i), sinfo=(prim(),)) for i in range(3)]
    made = run(func([], Tuple((fields[0], Tuple((fields[1], Tuple(()))), fields[2]))))
    assert made == (0, (1, ()), 2)
    assert seen == [0, 1, 2]


@clauses("RX-VALS-03")
def test_the_empty_tuple_is_a_value():
    assert run(func([], Tuple(()), tuple_of())) == ()


@clauses("RX-SEM-11")
def test_a_field_is_the_field_itself():
    t = var("t", tuple_of(tensor(2, 3), prim()))
    assert run(func([t], TupleGetItem(t, 0)), (X, 1)) is X
    assert run(func([t], TupleGetItem(t, 1)), (X, 7)) == 7


@clauses("RX-SEM-11")
def test_a_field_that_is_not_there_is_an_error():
    t = var("t", OBJECT)
    with pytest.raises(IndexError) as caught:
        run(func([t], TupleGetItem(t, 2)), (1, 2))
    assert isinstance(caught.value, RunError)
    assert caught.value.diagnostic.code == "RUN0412"
    with pytest.raises(TypeError) as other:
        run(func([t], TupleGetItem(t, 0)), loomir.Shape([1]))
    assert isinstance(other.value, RunError)
    assert other.value.diagnostic.code == "RUN0401"


@clauses("RX-SEM-09", "RX-VALS-09")
@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (IntImm(3, DataType("int64")), np.int64),
        (IntImm(-3, DataType("int8")), np.int8),
        (IntImm(200, DataType("uint8")), np.uint8),
        (IntImm(1, DataType("bool")), np.bool_),
        (FloatImm(0.5, DataType("float32")), np.float32),
        (FloatImm(0.5, DataType("float16")), np.float16),
        (FloatImm(0.5, DataType("bfloat16")), ml_dtypes.bfloat16),
        (FloatImm(0.5, DataType("float64")), np.float64),
    ],
    ids=str,
)
def test_a_scalar_is_one_of_its_dtype(value: Any, kind: type):
    made = run(func([], PrimValue(value)))
    assert type(made) is kind
    assert made == value.value


@clauses("RX-SEM-09")
def test_a_scalar_is_computed_from_shape_variables():
    """Decision R13: any expression of bound variables."""
    n, x = size("n"), var("x", tensor(size("n")))
    x = var("x", tensor(n))
    made = run(func([x], PrimValue(n * 2 + 1), prim()), np.zeros(4, "float32"))
    assert made == 9
    assert made.dtype == np.int64


@clauses("RX-SEM-12", "RX-VALS-06")
def test_a_shape_is_computed_from_shape_variables():
    n = size("n")
    x = var("x", tensor(n, 3))
    made = run(func([x], ShapeExpr((n, n * 3)), shape(n, n * 3)), X)
    assert isinstance(made, loomir.Shape)
    assert made == (2, 6)


@clauses("RX-SEM-10", "RX-VALS-11")
def test_strings_and_dtypes_are_values():
    assert run(func([], StringImm("a b"))) == "a b"
    assert run(func([], DataTypeImm("int8"))) is DataType("int8")


@clauses("RX-VALS-10")
def test_objects_are_passed_on_faithfully(register: Register):
    x = var("x", OBJECT)
    thing = object()
    register("test.same", lambda value: value)
    assert run(func([x], x), thing) is thing
    assert run(func([x], packed("test.same", Tuple((x,)))), thing) == (thing,)


@clauses("RX-VALS-12", "RX-OPS-07")
def test_null_is_a_value():
    x = var("x", OBJECT)
    assert run(func([], op("null_value"))) is None
    assert run(func([x], Tuple((x,))), None) == (None,)


# -- constants -----------------------------------------------------------------------------------
@clauses("RX-SEM-06", "RX-SEM-30")
def test_each_result_of_a_constant_is_the_callers_own():
    f = func([], const([1, 2, 3]), tensor(3))
    first, second = run(f), run(f)
    first += 1
    assert list(first) == [2, 3, 4]
    assert list(second) == [1, 2, 3]
    assert list(run(f)) == [1, 2, 3]


@clauses("RX-SEM-06")
def test_a_packed_function_cannot_write_to_a_constant(register: Register):
    """Decision R35."""

    def write(x: Any) -> Any:
        x[0] = 9
        return x

    register("test.write", write)
    f = func([], packed("test.write", const([1, 2]), sinfo=(tensor(2),)))
    with pytest.raises(ValueError, match="read-only"):
        run(f)
    assert list(run(func([], const([1, 2])))) == [1, 2]


# -- functions -----------------------------------------------------------------------------------
@clauses("RX-SEM-13", "RX-VALS-04")
def test_a_closure_captures_by_reference(register: Register):
    def increment(x: Any) -> Any:
        x += 1
        return ()

    register("test.increment", increment)
    x, f, u, r = var("x", tensor(2)), var("f"), var("u"), var("r", tensor(2))
    body = seq(
        r,
        bind(f, Function((), x, tensor(2))),
        bind(u, packed("test.increment", x)),
        bind(r, Call(f, ())),
    )
    given = np.zeros(2, "float32")
    assert run(func([x], body), given) is given
    assert list(given) == [1, 1]


@clauses("RX-SEM-13", "RX-VALS-04")
def test_a_closure_outlives_the_call_that_made_it():
    x, f = var("x", tensor(2, 3)), var("f")
    closure = run(func([x], seq(f, bind(f, Function((), x, tensor(2, 3))))), X)
    assert isinstance(closure, Closure)
    assert closure() is X


@clauses("RX-DIM-06")
def test_a_closure_captures_shape_variables():
    n = size("n")
    x, f, y = var("x", tensor(n)), var("f"), var("y", tensor(n))
    closure = run(
        func([x], seq(f, bind(f, Function((y,), PrimValue(n), prim())))), np.zeros(4, "float32")
    )
    assert closure(np.ones(4, "float32")) == 4
    with pytest.raises(ValueError, match=r"argument y, axis 0: the extent must be 4 \(n\), not 5"):
        closure(np.ones(5, "float32"))


@clauses("RX-SEM-13")
def test_dataflow_variables_are_not_captured():
    x, d, f = var("x", tensor(2, 3)), DataflowVar("d", tensor(2, 3)), var("f")
    block = DataflowBlock((bind(d, x), bind(f, Function((), d))))
    with pytest.raises(CompileError) as caught:
        run(func([x], SeqExpr((block,), Call(f, ()))), X)
    assert caught.value.diagnostic.code == "TIR0401"


def countdown(own: Any) -> Function:
    """Return f(n) = n if n == 0 else own(n - 1), on scalars."""
    n = size("n")
    p = var("p", prim("int64", n))
    again = Call(own, (PrimValue(n - 1),))
    return Function((p,), If(PrimValue(n.equal(0)), p, again), prim())


@clauses("RX-SEM-14", "RX-VALS-04")
def test_a_local_function_may_call_itself():
    f, k = var("f"), var("k", prim())
    assert run(func([k], seq(Call(f, (k,)), bind(f, countdown(f))), prim()), 5) == 0


@clauses("RX-SEM-01", "RX-SEM-03")
def test_functions_of_a_module_see_one_another():
    n = size("n")
    p = var("p", prim("int64", n))
    odd = If(PrimValue(n.equal(0)), PrimValue(False), Call(GlobalVar("even"), (PrimValue(n - 1),)))
    q = size("q")
    s = var("s", prim("int64", q))
    even = If(PrimValue(q.equal(0)), PrimValue(True), Call(GlobalVar("odd"), (PrimValue(q - 1),)))
    mod = module(
        odd=func([p], odd, prim("bool"), "odd"), even=func([s], even, prim("bool"), "even")
    )
    assert [bool(run(mod, "odd", i)) for i in range(4)] == [False, True, False, True]
    assert [bool(run(mod, "even", i)) for i in range(4)] == [True, False, True, False]


def test_recursion_ends_at_the_limit():
    f, k = var("f"), var("k", prim())
    program = func([k], seq(Call(f, (k,)), bind(f, countdown(f))), prim())
    assert run(program, 999) == 0
    with pytest.raises(RecursionError) as caught:
        run(program, 1000)
    assert isinstance(caught.value, RunError)
    assert caught.value.diagnostic.code == "RUN0204"
    assert caught.value.diagnostic.message == "f is called more than 1000 calls deep"


def test_long_and_deep_functions_run():
    x = var("x", tensor(1))
    names = [var(f"y{i}", tensor(1)) for i in range(5000)]
    bindings = [bind(b, op("negative", a)) for a, b in zip([x, *names], names, strict=False)]
    assert run(func([x], seq(names[-1], *bindings)), np.ones(1, "float32")) == 1
    deep: Any = x
    for _ in range(5000):
        deep = op("negative", deep)
    assert run(func([x], deep), np.ones(1, "float32")) == 1


@clauses("RX-SEM-21")
def test_what_is_called_is_evaluated_before_its_arguments(register: Register):
    seen: list[str] = []

    def choose() -> Any:
        seen.append("callee")
        return lambda x, y: (x, y)

    register("test.choose", choose)
    register("test.first", lambda: seen.append("first") or 1)
    register("test.second", lambda: seen.append("second") or 2)
    call = Call(packed("test.choose"), (packed("test.first"), packed("test.second")))
    assert run(func([], call)) == (1, 2)
    assert seen == ["callee", "first", "second"]


@clauses("RX-SEM-21")
def test_a_call_has_a_scope_of_its_own():
    x, y = var("x", tensor(1)), var("y", tensor(1))
    inner = func([y], op("negative", y), tensor(1), "inner")
    main = func([x], op("add", Call(GlobalVar("inner"), (x,)), x), tensor(1))
    assert run(module(inner=inner, main=main), "main", np.ones(1, "float32")) == 0


@clauses("RX-SEM-21")
def test_a_wrong_number_of_arguments_is_an_error():
    f, x = var("f", OBJECT), var("x", OBJECT)
    with pytest.raises(TypeError, match="f takes 1 argument, not 2"):
        run(func([x], seq(Call(f, (x, x)), bind(f, Function((x,), x)))), 1)


def test_what_is_no_function_cannot_be_called():
    x = var("x", OBJECT)
    with pytest.raises(TypeError, match="what is called must be a function, not a scalar"):
        run(func([x], Call(x, ())), 1)


@clauses("RX-SEM-02")
def test_a_private_function_cannot_be_called_from_outside():
    x = var("x", OBJECT)
    mod = module(helper=Function((x,), x), main=func([x], Call(GlobalVar("helper"), (x,))))
    assert run(mod, "main", 3) == 3
    with pytest.raises(KeyError) as caught:
        run(mod, "helper", 3)
    assert isinstance(caught.value, RunError)
    assert caught.value.diagnostic.code == "RUN0121"


# -- branches ------------------------------------------------------------------------------------
def branching(info: Any) -> Function:
    c = var("c", info)
    return func([c], If(c, PrimValue(1), PrimValue(2)))


@clauses("RX-SEM-15")
@pytest.mark.parametrize("make", [np.bool_, np.array, bool], ids=lambda m: m.__name__)
def test_a_condition_is_a_bool_scalar_or_tensor(make: Any):
    """Decision R23."""
    assert run(branching(OBJECT), make(True)) == 1
    assert run(branching(OBJECT), make(False)) == 2


@clauses("RX-SEM-15")
@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (np.array([True]), "a tensor of bool whose rank is 1"),
        (np.array(1), "a tensor of int64 whose rank is 0"),
        (np.array([1.0, 2.0], "float32"), "a tensor of float32 whose rank is 1"),
        (1, "a scalar of int64"),
        (np.float32(1), "a scalar of float32"),
        ((True,), "a tuple"),
        (None, "null"),
        ("true", "a string"),
    ],
    ids=str,
)
def test_no_other_value_is_a_condition(value: Any, shown: str):
    """Decision R23: element 0 is never taken for the whole."""
    with pytest.raises(TypeError) as caught:
        run(branching(OBJECT), value)
    assert isinstance(caught.value, RunError)
    assert caught.value.diagnostic.code == "RUN0408"
    assert caught.value.diagnostic.message.endswith(f"not {shown}")


@clauses("RX-SEM-15")
@pytest.mark.parametrize("taken", [True, False])
def test_one_branch_is_evaluated(taken: bool, register: Register):
    seen: list[str] = []
    register("test.yes", lambda: seen.append("yes"))
    register("test.no", lambda: seen.append("no"))
    c = var("c", tensor(dtype="bool"))
    run(func([c], If(c, packed("test.yes"), packed("test.no"))), np.array(taken))
    assert seen == ["yes" if taken else "no"]


# -- sequences -----------------------------------------------------------------------------------
@clauses("RX-SEM-24")
def test_bindings_are_evaluated_in_order(register: Register):
    seen: list[int] = []
    register("test.note", lambda i: seen.append(int(i)))
    bindings = [bind(var(f"u{i}"), packed("test.note", PrimValue(i))) for i in range(4)]
    body = SeqExpr(
        (BindingBlock(tuple(bindings[:2])), BindingBlock(tuple(bindings[2:]))), Tuple(())
    )
    run(func([], body))
    assert seen == [0, 1, 2, 3]


@clauses("RX-SEM-24")
def test_dataflow_variables_end_with_their_block():
    x, d = var("x", OBJECT), DataflowVar("d", OBJECT)
    with pytest.raises(CompileError) as caught:
        run(func([x], SeqExpr((DataflowBlock((bind(d, x),)),), d)), 1)
    assert caught.value.diagnostic.code == "TIR0401"


@clauses("RX-SEM-24", "RX-DIM-03")
def test_what_is_bound_ends_with_the_sequence():
    x, y, m = var("x", tensor(4)), var("y", OBJECT), size("m")
    inner = seq(PrimValue(m), bind(y, x), cast(None, x, tensor(m)))
    given = np.zeros(4, "float32")
    assert run(func([x], seq(inner)), given) == 4
    with pytest.raises(CompileError):
        run(func([x], Tuple((inner, y))), given)
    with pytest.raises(CompileError):
        run(func([x], Tuple((inner, PrimValue(m)))), given)


@clauses("RX-SEM-26")
def test_match_cast_gives_the_value_itself():
    x, y = var("x", OBJECT), var("y", tensor(2, 3))
    assert run(func([x], seq(y, cast(y, x, tensor(2, 3)))), X) is X


# -- functions from elsewhere --------------------------------------------------------------------
COPY = """
@T.prim_func
def copy(x: T.Buffer((2, 3), "float32"), y: T.Buffer((2, 3), "float32")):
    T.func_attr({"global_symbol": "copy"})
    for i, j in T.grid(2, 3):
        y[i, j] = x[i, j] + T.float32(1)
"""


@clauses("RX-SEM-16")
def test_an_unknown_packed_function_is_an_error():
    with pytest.raises(KeyError) as caught:
        run(func([], ExternFunc("test.no_such_function")))
    assert isinstance(caught.value, RunError)
    assert caught.value.diagnostic.code == "RUN0304"


@clauses("RX-SEM-22", "RX-VALS-07")
def test_a_packed_function_is_just_called(register: Register):
    register("test.twice", lambda x: (x, x))
    x = var("x", tensor(2, 3))
    a, b = run(func([x], packed("test.twice", x)), X)
    assert a is X
    assert b is X


def test_what_a_packed_function_raises_comes_out(register: Register):
    class Odd(Exception):
        pass

    def fail(error: Any) -> None:
        raise error

    register("test.fail", fail)
    x = var("x", OBJECT)
    for error in (Odd("why"), StopIteration(3), KeyError("k")):
        with pytest.raises(type(error)) as caught:
            run(func([x], packed("test.fail", x)), error)
        assert caught.value is error


@clauses("RX-SEM-23", "RX-VALS-08")
def test_a_loop_level_function_is_a_value_that_is_called():
    x, y, u, f = var("x", tensor(2, 3)), var("y", tensor(2, 3)), var("u"), var("f")
    main = func([x, y], seq(u, bind(f, GlobalVar("copy")), bind(u, Call(f, (x, y)))), tuple_of())
    mod = module(copy=prim_func(COPY), main=main)
    y0 = np.zeros((2, 3), "float32")
    assert run(mod, "main", X, y0) == ()
    assert (y0 == X + 1).all()
    value = run(module(copy=prim_func(COPY), main=func([], GlobalVar("copy"))), "main")
    assert isinstance(value, PrimFunction)


@clauses("RX-SEM-17")
def test_a_loop_level_function_is_found_by_its_symbol():
    x, y = var("x", tensor(2, 3)), var("y", tensor(2, 3))
    main = func([x, y], packed("copy", x, y, sinfo=(tuple_of(),)))
    y0 = np.zeros((2, 3), "float32")
    run(module(copy=prim_func(COPY), main=main), "main", X, y0)
    assert (y0 == X + 1).all()


def test_loop_level_functions_of_a_mixed_module_are_called_as_before():
    mod = IRModule({GlobalVar("copy"): prim_func(COPY), GlobalVar("main"): func([], Tuple(()))})
    y0 = np.zeros((2, 3), "float32")
    loomir.interpret(mod, "copy", X, y0)
    assert (y0 == X + 1).all()


# -- operators -----------------------------------------------------------------------------------
@clauses("RX-SEM-18")
def test_arguments_of_operators_are_evaluated_in_order(register: Register):
    seen: list[str] = []

    def note(name: str, x: Any) -> Any:
        seen.append(name)
        return x

    register("test.note", note)
    x = var("x", tensor(2, 3))
    parts = [packed("test.note", StringImm(n), x, sinfo=(tensor(2, 3),)) for n in "ab"]
    assert (run(func([x], op("add", *parts)), X) == X + X).all()
    assert seen == ["a", "b"]


@clauses("RX-SEM-19", "RX-SEM-30")
def test_results_of_operators_are_new():
    x = var("x", tensor(2, 3))
    made = run(func([x], op("reshape", x, ShapeExpr((3, 2)))), X)
    assert made.shape == (3, 2)
    assert not np.may_share_memory(made, X)
    assert made.flags.writeable


def test_operators_refuse_values_that_do_not_fit_together():
    x, y = var("x", OBJECT), var("y", OBJECT)
    f = func([x, y], op("add", x, y))
    assert run(f, np.ones(2), np.ones(2))[0] == 2
    with pytest.raises(ValueError, match=r"^error\[RUN0212\]: R.add: ") as caught:
        run(f, np.ones(2), np.ones(3))
    assert isinstance(caught.value, RunError)


@pytest.mark.parametrize(
    ("name", "args", "kind", "code"),
    [
        ("floor_divide", (np.array([1]), np.array([0])), ZeroDivisionError, "RUN0201"),
        ("take", (np.ones(3, "float32"), np.array([3])), IndexError, "RUN0203"),
    ],
)
def test_what_a_reference_raises_is_an_error_of_the_run(
    name: str, args: Any, kind: type[Exception], code: str
):
    x, y = var("x", OBJECT), var("y", OBJECT)
    options = {"axis": 0, "mode": "fast"} if name == "take" else {}
    with pytest.raises(kind) as caught:
        run(func([x, y], op(name, x, y, **options)), *args)
    assert isinstance(caught.value, RunError)
    assert caught.value.diagnostic.code == code
