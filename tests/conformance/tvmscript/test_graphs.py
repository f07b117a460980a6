"""TVMScript of graphs: what the parser makes of it, the builder, modules of both dialects."""

# To pyright a call of a decorator is a decorator, and never a frame: see docs/editors.md.
# pyright: reportGeneralTypeIssues=false

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import loomir
from loomir.ir.equality import assert_structural_equal
from loomir.relax import (
    Call,
    DataflowBlock,
    DataflowVar,
    Function,
    If,
    MatchCast,
    ObjectStructInfo,
    ShapeStructInfo,
    TensorStructInfo,
    TupleStructInfo,
    Var,
)
from loomir.relax.operator.definition import op_names
from loomir.script import IRBuilder, from_source
from loomir.script import relax as R
from loomir.tir.function import PrimFunc
from tests.conformance.graphs import (
    COUNT,
    F32,
    ONES,
    bindings,
    both,
    graph,
    known,
    module,
    packed,
    read,
    refused,
)
from tests.relax.kernels import ADD

X = f"x: {F32}"
KERNEL = f"return R.call_tir(cls.add, (x, x), out_ty={F32})"


def built(*, output: bool = True) -> Function:
    """Build a function with a dataflow block in Python."""
    with IRBuilder() as builder, R.function():
        R.func_name("main")
        x = R.arg("x", R.Tensor((4,), "float32"))
        with R.dataflow():
            a = R.emit(R.add(x, x), name_hint="a")
            b = R.emit(R.multiply(a, a), name_hint="b")
            R.output(b) if output else R.output()
        R.func_ret_value(b)
    made = builder.get()
    assert isinstance(made, Function)
    return made


# -- modules -------------------------------------------------------------------------------------
def test_TS_OV_02_one_module_holds_both_dialects():
    """A module holds functions of graphs and kernels side by side."""
    mod = read(module(ADD, graph(X, KERNEL)))
    assert [type(f) for f in mod.functions.values()] == [PrimFunc, Function]


def test_TS_DEC_04_functions():
    """The decorator R.function makes a function of graphs."""
    assert isinstance(from_source("@R.function\ndef f(x: R.Object):\n    return x\n"), Function)


def test_TS_DEC_05_they_compose():
    """Functions of both dialects stand in one class, and call one another by cls."""
    assert both(module(ADD, graph(X, KERNEL)), COUNT).tolist() == [0, 2, 4, 6]


def test_TS_DEC_07_out_ty():
    """R.call_tir takes out_ty."""
    (binding,) = bindings(read(module(ADD, graph(X, f"y = {KERNEL[7:]}", "return y")))["main"])
    assert_structural_equal(binding.value.sinfo_args[0], TensorStructInfo((4,), "float32"))


# -- the builder ---------------------------------------------------------------------------------
def test_TS_BLD_17_function_frames():
    """R.function makes the frame of a function."""
    with IRBuilder() as builder, R.function():
        R.func_name("f")
        R.func_ret_value(R.arg("x", R.Object))
    made = builder.get()
    assert_structural_equal(made, from_source("@R.function\ndef f(x: R.Object):\n    return x\n"))


def test_TS_BLD_18_dataflow_frames():
    """R.dataflow makes the frame of a dataflow block."""
    (block,) = built().body.blocks
    assert isinstance(block, DataflowBlock)
    assert both(built(), ONES).tolist() == [4, 4, 4, 4]


def test_TS_BLD_19_outputs():
    """R.output names what is seen after the block."""
    assert [isinstance(b.var, DataflowVar) for b in bindings(built())] == [True, False]
    with pytest.raises(loomir.CompileError):
        loomir.compile(built(output=False))


def test_TS_BLD_20_emit_gives_a_variable():
    """R.emit binds a value and gives its variable."""
    with IRBuilder() as builder, R.function():
        R.func_name("main")
        y = R.emit(R.negative(R.arg("x", R.Tensor((4,), "float32"))))
        assert isinstance(y, Var)
        R.func_ret_value(y)
    assert both(builder.get(), COUNT).tolist() == [0, -1, -2, -3]


@pytest.mark.parametrize("word", ["emit_match_cast", "match_cast"])
def test_TS_BLD_21_checks(word: str):
    """R.emit_match_cast checks a value and gives its variable."""
    text = graph("x: R.Object", f"y = R.{word}(x, R.Shape([k, 2]))", "return R.prim_value(k)")
    assert isinstance(bindings(text)[0], MatchCast)
    assert both(text, loomir.Shape([3, 2])) == 3


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ('R.Tensor((2, n), "float32")', TensorStructInfo),
        ("R.Tuple(R.Tensor, R.Object)", TupleStructInfo),
        ("R.Shape([n, 2])", ShapeStructInfo),
        ("R.Any", ObjectStructInfo),
    ],
)
def test_TS_BLD_22_annotations(text: str, kind: type):
    """R.Tensor, R.Tuple, R.Shape and R.Any describe values."""
    assert isinstance(read(graph(f"a: {text}", "return a")).params[0].struct_info, kind)


def test_TS_BLD_23_calls_of_kernels():
    """R.call_tir(func, args, out_ty) calls a kernel."""
    call = f"return R.call_tir(cls.add, (x, x), {F32})"
    assert both(module(ADD, graph(X, call)), COUNT).tolist() == [0, 2, 4, 6]


def test_TS_BLD_24_calls_of_packed_functions():
    """R.call_packed(name, *args) calls a packed function."""
    with packed(sub=lambda a, b: a - b):
        text = graph(f"{X}, y: {F32}", f'return R.call_packed("test.sub", x, y, sinfo_args={F32})')
        assert both(text, COUNT, ONES).tolist() == [-1, 0, 1, 2]


def test_TS_BLD_25_calls_in_destination_passing_style():
    """R.call_dps_packed calls a packed function that writes its results."""
    with packed(twice=lambda a, out: np.copyto(out, a * 2)):
        text = graph(X, f'return R.call_dps_packed("test.twice", (x,), {F32})')
        assert both(text, COUNT).tolist() == [0, 2, 4, 6]


def found_in_script(name: str) -> Any:
    at: Any = R
    for part in name.removeprefix("relax.").split("."):
        at = getattr(at, part)
    return at


def test_TS_BLD_26_all_operators():
    """Every operator is a name of R."""
    names = list(op_names())
    assert len(names) > 100
    assert all(callable(found_in_script(name)) for name in names)


# -- syntax --------------------------------------------------------------------------------------
def test_TS_SYN_02_no_loops():
    """There is no for in a function of graphs."""
    refused("SCR0002", graph(X, "for i in range(3):  # <--", "    y = x", "return x"))


BRANCH = ("if c:", "    y = x + x", "else:", "    y = x", "return y")
CHOICE = f'c: R.Tensor((), "bool"), {X}'


def test_TS_SYN_07_branches():
    """An if with its else is a branch."""
    (binding,) = bindings(graph(CHOICE, *BRANCH))
    assert isinstance(binding.value, If)
    assert both(graph(CHOICE, *BRANCH), np.array(True), ONES).tolist() == [2, 2, 2, 2]


def test_TS_SYN_09_no_while():
    """There is no while in a function of graphs."""
    refused("SCR0002", graph(CHOICE, "while c:  # <--", "    y = x", "return x"))


def test_TS_SYN_11_assignments():
    """An assignment binds a value to a new variable."""
    first, second = bindings(graph(X, "y = R.exp(x)", "y = R.exp(y)", "return y"))
    assert (first.var.name_hint, second.value.args[0]) == ("y", first.var)


def test_TS_SYN_13_annotated_assignments():
    """An annotation says what is known of a variable."""
    assert known(graph(X, "y: R.Tensor(ndim=1) = x", "return y")) == "R.Tensor(ndim=1)"
    refused("RLX0201", graph(X, "y: R.Tensor(ndim=2) = x  # <--", "return y"))


def test_TS_SYN_15_results():
    """A return gives the value of the function."""
    assert both(graph(X, "return (x, x)"), ONES)[1].tolist() == [1, 1, 1, 1]
    refused("SCR0030", graph(X, "return  # <--"))


OPERATORS = [
    *[("+", "add"), ("-", "subtract"), ("*", "multiply"), ("/", "divide"), ("//", "floor_divide")],
    *[("%", "mod"), ("**", "power"), ("<", "less"), ("<=", "less_equal"), (">", "greater")],
    *[(">=", "greater_equal"), ("==", "equal"), ("!=", "not_equal")],
]


@pytest.mark.parametrize(("sign", "name"), OPERATORS)
def test_TS_SYN_19_arithmetic(sign: str, name: str):
    """Arithmetic on tensors calls operators."""
    (binding,) = bindings(graph(X, f"y = x {sign} x", "return y"))
    assert isinstance(binding.value, Call)
    assert binding.value.op.name == f"relax.{name}"


# -- the reference -------------------------------------------------------------------------------
def test_TS_RREF_01_signatures():
    """Parameters and the result are annotated with R.Tensor."""
    made = read(
        graph('x: R.Tensor((n, 4), "float32")', "return x", ret='R.Tensor((n, 4), "float32")')
    )
    assert_structural_equal(made.params[0].struct_info, made.ret_struct_info)


def test_TS_RREF_02_private_functions():
    """A private function has no symbol."""
    made = read("@R.function(private=True)\ndef f(x: R.Object):\n    return x\n")
    assert "global_symbol" not in made.attrs


def test_TS_RREF_03_impure_functions():
    """A function with pure=False may have effects."""
    assert not read("@R.function(pure=False)\ndef f(x: R.Object):\n    return x\n").is_pure


def test_TS_RREF_04_dataflow_variables_are_local():
    """What a dataflow block binds is local, but for what R.output names."""
    lines = ("with R.dataflow():", "    a = R.exp(x)", "    b = a + a", "    R.output(b)")
    assert both(graph(X, *lines, "return b"), ONES - 1).tolist() == [2, 2, 2, 2]
    refused("SCR0003", graph(X, *lines, "return a  # <--"))


def test_TS_RREF_05_kernels_are_called_by_cls():
    """A kernel of the module is cls.NAME."""
    text = module(ADD, graph(f"{X}, y: {F32}", f"return R.call_tir(cls.add, (x, y), out_ty={F32})"))
    assert both(text, COUNT, ONES).tolist() == [1, 2, 3, 4]
    refused(
        "SCR0023",
        text.replace("cls.add", "cls.ad").replace(f"out_ty={F32})", f"out_ty={F32})  # <--"),
    )


@pytest.mark.parametrize("dims", [(2,), (2, 3)])
def test_TS_RREF_06_out_ty_is_what_is_made(dims: tuple[int, ...]):
    """out_ty gives shape and dtype of the result."""
    info = f'R.Tensor({dims}, "int8")'
    kernel = f"@T.prim_func\ndef k(a: T.Buffer({dims}, 'int8')):\n    T.evaluate(0)\n"
    found = both_shapes(module(kernel, graph("", f"return R.call_tir(cls.k, (), out_ty={info})")))
    assert found == (dims, "int8")


def both_shapes(text: str) -> tuple[Any, str]:
    made = loomir.interpret(read(text), "main"), loomir.compile(read(text))["main"]()
    assert made[0].shape == made[1].shape
    assert made[0].dtype == made[1].dtype
    return made[1].shape, str(made[1].dtype)


def test_TS_RREF_07_conditions():
    """The condition of a branch is a variable that holds a bool."""
    refused("RLX0205", graph(f"c: R.Tensor((), 'int8'), {X}", "if c:  # <--", *BRANCH[1:]))


def test_TS_RREF_08_both_cases():
    """Both cases of a branch are written."""
    refused("SCR0032", graph(CHOICE, "if c:  # <--", "    y = x", "return x"))


@pytest.mark.parametrize("taken", [True, False])
def test_TS_RREF_09_what_both_cases_bind(taken: bool):
    """What both cases bind is known after the branch."""
    found = both(graph(CHOICE, *BRANCH), np.array(taken), COUNT)
    assert found.tolist() == ([0, 2, 4, 6] if taken else [0, 1, 2, 3])
