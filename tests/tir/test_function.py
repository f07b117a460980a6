from __future__ import annotations

from loomir.ir import GlobalVar, IRModule, structural_equal
from loomir.support.dtype import DataType
from loomir.tir import (
    VOID_TYPE,
    Evaluate,
    PointerType,
    PrimExpr,
    PrimFunc,
    PrimType,
    SeqStmt,
    Stmt,
    Type,
    Var,
    call_builtin,
    const,
    convert,
    decl_buffer,
)
from tests.clause import clauses
from tests.tir.refusal import refused

NOTHING = Evaluate(convert(0))


def ret(value: PrimExpr) -> Stmt:
    return Evaluate(call_builtin("ret", value))


def returned(*values: PrimExpr) -> Type:
    return PrimFunc((), SeqStmt(tuple(ret(v) for v in values))).ret_type


@clauses("TIR-GRAM-01", "TIR-GRAM-32")
def test_a_function_has_the_fields_of_the_grammar():
    names = [f.name for f in PrimFunc.node_fields if f.name != "span"]
    assert names == ["params", "body", "ret_type", "buffer_map", "attrs"]
    made = PrimFunc((), NOTHING, attrs={"global_symbol": "f", "list": (1, "x", None)})
    assert made.name == "f"
    assert made.attrs["list"] == (1, "x", None)


@clauses("TIR-GRAM-33", "TIR-PROG-01")
def test_a_module_maps_names_to_functions():
    func = PrimFunc((), NOTHING)
    module = IRModule({GlobalVar("f"): func})
    assert module["f"] is func
    assert module.get_global_var("f").name_hint == "f"
    with refused("TIR0004", "ff"):
        module["ff"]


@clauses("TIR-OTY-06", "TIR-OTY-06a")
def test_a_function_without_a_return_returns_nothing():
    assert structural_equal(PrimFunc((), NOTHING).ret_type, VOID_TYPE)


@clauses("TIR-OTY-06b")
def test_a_returned_variable_gives_its_type():
    pointer = PointerType(PrimType(DataType("int8")), "shared")
    assert structural_equal(returned(Var("p", type_annotation=pointer)), pointer)
    assert structural_equal(returned(Var("x", "int8")), PrimType(DataType("int8")))


@clauses("TIR-OTY-06c")
def test_a_returned_handle_gives_a_pointer():
    handle = call_builtin("likely", Var("p", "handle"))
    assert isinstance(returned(handle), PointerType)


@clauses("TIR-OTY-06d")
def test_a_returned_value_gives_its_dtype():
    assert structural_equal(returned(const(1, "int8")), PrimType(DataType("int8")))


@clauses("TIR-OTY-06e")
def test_all_returns_give_one_type():
    assert structural_equal(returned(convert(1), convert(2)), PrimType(DataType("int32")))
    with refused("TIR0305", "int32", "float32"):
        returned(convert(1), const(2.0, "float32"))


def test_buffers_belong_to_parameters_that_are_handles():
    buffer = decl_buffer((4,))
    with refused("TIR0306", "not a parameter"):
        PrimFunc((), NOTHING, buffer_map={Var("a", "handle"): buffer})
    number = Var("a", "int64")
    with refused("TIR0306", "int64"):
        PrimFunc((number,), NOTHING, buffer_map={number: buffer})


def test_buffers_are_kept_in_the_order_of_parameters():
    a, b = Var("a", "handle"), Var("b", "handle")
    x, y = decl_buffer((4,), name="x"), decl_buffer((4,), name="y")
    made = PrimFunc((a, b), NOTHING, buffer_map={b: y, a: x})
    assert list(made.buffer_map.values()) == [x, y]
    assert structural_equal(made, PrimFunc((a, b), NOTHING, buffer_map={a: x, b: y}))
