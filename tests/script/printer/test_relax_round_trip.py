"""Graphs that are printed are read back as the same program, and printed as the same text."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import loomir
from loomir.ir import GlobalVar, IRModule, assert_structural_equal, from_json, to_json
from loomir.relax import (
    BindingBlock,
    Call,
    Constant,
    DataflowBlock,
    ExternFunc,
    FuncStructInfo,
    Function,
    If,
    ObjectStructInfo,
    PrimStructInfo,
    PrimValue,
    SeqExpr,
    StructInfo,
    TensorStructInfo,
    Tuple,
    TupleGetItem,
    TupleStructInfo,
    Var,
    VarBinding,
)
from loomir.script import from_source
from loomir.support.config import SETTINGS
from loomir.support.diagnostics import CompileError
from loomir.tir import Cast, const
from loomir.tir import Var as ShapeVar
from tests.clause import clauses
from tests.script.printer.random_graph import Maker
from tests.script.printer.test_relax import chain, function, negative, seq, tensor, var


def assert_round_trip(program: Function | IRModule, **options: Any) -> None:
    text = program.script(**options)
    again = from_source(text)
    assert_structural_equal(program, again)
    assert again.script(**options) == text


@pytest.fixture(autouse=True)
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(SETTINGS, "cache_dir", tmp_path)
    return tmp_path / "constants"


@clauses("TS-RT-01", "TS-OV-03")
@pytest.mark.parametrize("start", range(0, 200, 50))
def test_random_programs_come_back(start: int):
    for seed in range(start, start + 50):
        program = Maker(seed).module()
        assert_round_trip(program)
        assert_round_trip(program, constants="inline")


def test_random_programs_come_back_from_json():
    for seed in range(50):
        program = Maker(seed).module()
        assert_structural_equal(program, from_json(to_json(program)))


C, X = var("c", dtype="bool"), var("x", 2)
TWO = tensor(2)


def bound(value: Any, info: StructInfo, *params: Var) -> Function:
    """Make a function that binds a value and returns it."""
    v = Var("v", info)
    return function(params, seq(VarBinding(v, value), v), info)


def once(name: str) -> tuple[VarBinding, Var]:
    made = VarBinding(Var(name, TWO), negative(X))
    return made, made.var


OUTPUT = Var("gv", TWO)
BINDING, INNER = once("a")
CASES = {
    "leaf": seq(X),
    "binding": seq(BINDING, INNER),
    "alias": seq(VarBinding(ALIAS := Var("b", TWO), X), ALIAS),
    "constant": seq(Constant(np.zeros(2, "float32"))),
    "before": seq(VarBinding(Var("a", TWO), negative(X)), X),
    "flow": SeqExpr((DataflowBlock((VarBinding(OUTPUT, negative(X)),)),), OUTPUT),
    "inner": seq(VarBinding(INSIDE := Var("i", TWO), If(C, seq(X), seq(X))), INSIDE),
}


@clauses("TS-RT-01")
@pytest.mark.parametrize("no", CASES)
@pytest.mark.parametrize("yes", CASES)
def test_branches_come_back(yes: str, no: str):
    if yes != no:  # a variable is bound once
        assert_round_trip(bound(If(C, CASES[yes], CASES[no]), TWO, C, X))


@clauses("TS-RT-01")
@pytest.mark.parametrize("info", [ObjectStructInfo(), TensorStructInfo(ndim=1)], ids=str)
def test_less_may_be_said_of_a_branch_than_is_known(info: StructInfo):
    assert_round_trip(bound(If(C, seq(X), seq(X)), info, C, X))


N = ShapeVar("n", "int64")
SCALARS = [
    PrimValue(3),
    PrimValue(True),
    PrimValue(0.1),
    PrimValue(const(2**64 - 1, "uint64")),
    PrimValue(const(1.5, "float64")),
    *[PrimValue(const(float(v), "float16")) for v in ("inf", "-inf", "nan", "-0.0")],
    PrimValue(Cast(const(2, "int32"), N.dtype)),
]


@clauses("TS-RT-01")
@pytest.mark.parametrize("value", SCALARS, ids=str)
def test_scalars_come_back(value: PrimValue):
    info = PrimStructInfo(value.value.dtype, value.value)
    assert_round_trip(bound(value, info))


@clauses("TS-RT-01")
def test_tuples_come_back():
    pair = TupleStructInfo((TWO, TupleStructInfo(())))
    assert_round_trip(bound(Tuple((X, Tuple(()))), pair, X))
    assert_round_trip(bound(Tuple((X,)), TupleStructInfo((TWO,)), X))
    assert_round_trip(bound(TupleGetItem(Tuple((X, C)), 0), TWO, X, C))


@clauses("TS-RT-01")
def test_calls_come_back():
    for infos in ((), (TWO,), (TWO, ObjectStructInfo()), (TupleStructInfo((TWO,)),)):
        call = Call(ExternFunc("pkg.f"), (X, Tuple((X, C))), infos)
        info = infos[0] if len(infos) == 1 else TupleStructInfo(infos) if infos else None
        func = bound(call, info or ObjectStructInfo(), X, C)
        impure = Function(func.params, func.body, func.ret_struct_info, False, func.attrs)
        again = from_source(impure.script())
        assert isinstance(again, Function)
        assert isinstance(again.body, SeqExpr)
        (made,) = again.body.blocks[0].bindings
        assert isinstance(made, VarBinding)
        assert str(made.value) == str(call)
        assert isinstance(made.value, Call)
        for left, right in zip(made.value.sinfo_args, infos, strict=True):
            assert_structural_equal(left, right)


@clauses("TS-RT-01")
def test_closures_come_back():
    info = FuncStructInfo((TWO,), TWO)
    f, y, z = Var("f", info), Var("y", TWO), Var("z", TWO)
    inner = Function((y,), seq(VarBinding(z, Call(f, (y,))), z), TWO)
    assert_round_trip(function((X,), seq(VarBinding(f, inner), f), info))


@clauses("TS-RT-01")
def test_modules_come_back():
    r = Var("r", TWO)
    main = function((X,), seq(VarBinding(r, Call(GlobalVar("my.helper"), (X,))), r), TWO)
    helper = Function((y := var("y", 2),), seq(y), TWO)
    renamed = function((z := var("z", 2),), seq(z), TWO, name="other", level=(1, "x", None))
    functions: dict[GlobalVar, Any] = {
        GlobalVar("main"): main,
        GlobalVar("my.helper"): helper,
        GlobalVar("class"): renamed,
    }
    assert_round_trip(IRModule(functions, {"level": 1}))


def test_calls_that_no_function_makes_come_back():
    op = negative(X).op
    value = Call(op, (X,), (TWO,), {})
    text = bound(value, TWO, X).script()
    assert 'R.Call("relax.negative", [x], ty_args=' in text
    again = from_source(text)
    assert isinstance(again, Function)
    made = again.body.blocks[0].bindings[0].value  # type: ignore[attr-defined]
    assert len(made.sinfo_args) == 1


def test_programs_that_are_not_normal_come_back_in_normal_form():
    x = var("x", 2)
    nested = function((x,), negative(negative(x)), TWO)
    again = from_source(nested.script())
    a, b = Var("a", TWO), Var("b", TWO)
    expected = seq(VarBinding(a, negative(x)), VarBinding(b, negative(a)), b)
    assert_structural_equal(function((x,), expected, TWO), again)
    branch = function((C, x), If(C, negative(x), x), TWO)
    again = from_source(branch.script())
    r = Var("r", TWO)
    case = seq(VarBinding(c := Var("c", TWO), negative(x)), c)
    expected = seq(VarBinding(r, If(C, case, seq(x))), r)
    assert_structural_equal(function((C, x), expected, TWO), again)


LARGE = np.arange(1000, dtype="float32")


def large() -> Function:
    return bound(Constant(LARGE), tensor(1000))


def test_another_process_reads_large_constants(tmp_path: Path):
    text = large().script()
    assert len(text) < 1000
    code = (
        "import sys\nfrom loomir.script import from_source\n"
        "made = from_source(sys.stdin.read())\n"
        "print(made.body.blocks[0].bindings[0].value.data.digest())"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        input=text,
        capture_output=True,
        text=True,
        check=True,
        env={"LOOMIR_CACHE_DIR": str(tmp_path), "PYTHONPATH": ":".join(sys.path)},
    )
    assert done.stdout.strip() == Constant(LARGE).data.digest()


def test_a_missing_constant_is_placed_in_the_text(store: Path):
    text = large().script()
    next(store.iterdir()).unlink()
    with pytest.raises(CompileError) as raised:
        from_source(text)
    (found,) = raised.value.diagnostics
    assert found.code == "SCR0050"
    assert found.span is not None
    assert "R.data(" in text.splitlines()[found.span.line - 1]
    assert_round_trip(large(), constants="inline")


def test_what_is_read_computes_the_same():
    func = chain(3)
    func = Function(func.params, func.body, func.params[0].struct_info, True, func.attrs)
    again = from_source(func.script())
    data = np.array([1, -2, 3], "float32")
    assert np.array_equal(loomir.interpret(again, data), -data)


def test_long_programs_are_read_in_time():
    func = chain(2_000)
    func = Function(func.params, func.body, func.params[0].struct_info, True, func.attrs)
    assert_round_trip(func)


def test_blocks_of_one_kind_are_merged():
    a, first = once("a")
    b, last = once("b")
    func = function((X,), SeqExpr((BindingBlock((a,)), BindingBlock((b,))), last), TWO)
    again = from_source(func.script())
    assert_structural_equal(function((X,), seq(a, b, last), TWO), again)
    assert first is a.var


def test_what_nothing_uses_keeps_its_name():
    program = from_source("""
@R.function(pure=False)
def main(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
    R.print(x, format="{}")
    _ = R.print(x, format="{}")
    @R.function(pure=False)
    def g(_: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
        R.print(x, format="{}")
        return _
    with R.dataflow():
        _ = R.add(x, x)
        y = R.add(x, x)
        R.output(y)
    _ = g(y)
    return _
""")
    assert_round_trip(program)
    lines = [line.strip() for line in program.script().splitlines()]
    assert sum(line.startswith("_: ") for line in lines) == 4
    assert 'def g(v: R.Tensor((4,), dtype="float32")) -> R.Tensor((4,), dtype="float32"):' in lines
    assert "return v" in lines
    assert "return _" not in lines
