"""How graphs are written."""

from __future__ import annotations

import ast
import re
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import loomir.script
from loomir.ir import GlobalVar, IRModule, Op, structural_equal
from loomir.relax import (
    BindingBlock,
    Call,
    Constant,
    DataflowBlock,
    DataflowVar,
    DataTypeImm,
    ExternFunc,
    FuncStructInfo,
    Function,
    If,
    MatchCast,
    ObjectStructInfo,
    PrimStructInfo,
    PrimValue,
    SeqExpr,
    ShapeExpr,
    ShapeStructInfo,
    StringImm,
    TensorStructInfo,
    Tuple,
    TupleGetItem,
    TupleStructInfo,
    Var,
    VarBinding,
    VDevice,
)
from loomir.relax.operator.definition import op_def
from loomir.support.config import SETTINGS
from loomir.support.diagnostics import CompileError
from loomir.tir import (
    Add,
    And,
    Cast,
    Div,
    FloorDiv,
    FloorMod,
    IntImm,
    Max,
    Min,
    Mul,
    Not,
    Or,
    Select,
    Sub,
    const,
)
from loomir.tir import Var as ShapeVar
from tests.clause import clauses
from tests.growth import assert_grows

N, M = ShapeVar("n", "int64"), ShapeVar("m", "int64")
F32 = "float32"


def tensor(*shape: Any, dtype: str = F32, device: VDevice | None = None) -> TensorStructInfo:
    return TensorStructInfo(shape, dtype, device)


def var(name: str, *shape: Any, dtype: str = F32) -> Var:
    return Var(name, tensor(*shape, dtype=dtype))


def negative(x: Any) -> Call:
    op = Op.get("relax.negative")
    if op is None:
        return loomir.relax.op.negative(x)
    return op_def(op).call(x)


def seq(*parts: Any) -> SeqExpr:
    """Make a body of bindings and blocks, the value last."""
    *bindings, value = parts
    return SeqExpr((BindingBlock(tuple(bindings)),) if bindings else (), value)


def function(params: Any, body: Any, ret: Any = None, name: str = "main", **attrs: Any) -> Function:
    return Function(tuple(params), body, ret, True, {"global_symbol": name, **attrs})


def written(program: Any) -> str:
    text = program.script()
    return text[text.index("\n\n\n") + 3 :]


def dedented(text: str) -> str:
    return textwrap.dedent(text).lstrip("\n")


X, Y = var("x", N, 128), var("y", 128)


@pytest.mark.parametrize(
    ("info", "text"),
    [
        (ObjectStructInfo(), "R.Any()"),
        (tensor(N, 3), 'R.Tensor((n, 3), dtype="float32")'),
        (tensor(dtype="bool"), 'R.Tensor((), dtype="bool")'),
        (tensor(2**62), 'R.Tensor((4611686018427387904,), dtype="float32")'),
        (TensorStructInfo(), "R.Tensor()"),
        (TensorStructInfo(ndim=2), "R.Tensor(ndim=2)"),
        (TensorStructInfo(dtype="bfloat16", ndim=0), 'R.Tensor(dtype="bfloat16", ndim=0)'),
        (TensorStructInfo((N,)), "R.Tensor((n,))"),
        (TensorStructInfo(Var("s", ShapeStructInfo(ndim=2))), "R.Tensor(s)"),
        (
            tensor(1, device=VDevice("llvm")),
            'R.Tensor((1,), dtype="float32", vdevice=I.vdevice("llvm"))',
        ),
        (
            tensor(1, device=VDevice("", 2)),
            'R.Tensor((1,), dtype="float32", vdevice=I.vdevice("", 2))',
        ),
        (
            tensor(1, device=VDevice({"kind": "llvm", "keys": ("cpu",)}, 0, "shared")),
            (
                'R.Tensor((1,), dtype="float32", vdevice='
                'I.vdevice({"kind": "llvm", "keys": ("cpu",)}, 0, "shared"))'
            ),
        ),
        (tensor(1, device=VDevice()), 'R.Tensor((1,), dtype="float32", vdevice=I.vdevice())'),
        (ShapeStructInfo(), "R.Shape()"),
        (ShapeStructInfo(ndim=3), "R.Shape(ndim=3)"),
        (ShapeStructInfo((N, 1)), "R.Shape([n, 1])"),
        (ShapeStructInfo(()), "R.Shape([])"),
        (PrimStructInfo("int32"), 'R.Prim("int32")'),
        (PrimStructInfo("int64", N + 1), "R.Prim(value=n + 1)"),
        (PrimStructInfo("int64", const(3, "int64")), "R.Prim(value=T.int64(3))"),
        (TupleStructInfo(()), "R.Tuple()"),
        (
            TupleStructInfo((ObjectStructInfo(), TupleStructInfo((ShapeStructInfo(),)))),
            "R.Tuple(R.Any(), R.Tuple(R.Shape()))",
        ),
        (
            FuncStructInfo((tensor(N), ObjectStructInfo()), tensor(N)),
            (
                'R.Callable((R.Tensor((n,), dtype="float32"), R.Any()), '
                'R.Tensor((n,), dtype="float32"))'
            ),
        ),
        (FuncStructInfo((), ObjectStructInfo(), False), "R.Callable((), R.Any(), purity=False)"),
        (
            FuncStructInfo(None, ObjectStructInfo(), False, "empty_derive"),
            'R.Callable(purity=False, derive_func="empty_derive")',
        ),
        (
            FuncStructInfo(None, TensorStructInfo(), True, "default_derive"),
            'R.Callable(ret=R.Tensor(), purity=True, derive_func="default_derive")',
        ),
    ],
    ids=str,
)
@clauses("TS-RT-01")
def test_structural_information(info: Any, text: str):
    assert str(info) == text


ONE = IntImm(1, N.dtype)


@pytest.mark.parametrize(
    ("extent", "text"),
    [
        (IntImm(-5, N.dtype), "-5"),
        (N, "n"),
        (Add(N, ONE), "n + 1"),
        (Sub(ONE, N), "1 - n"),
        (Mul(Add(N, M), ONE), "(n + m) * 1"),
        (Div(N, ONE), "n / 1"),
        (FloorDiv(N, FloorMod(M, ONE)), "n // (m % 1)"),
        (Min(N, ONE), "T.min(n, 1)"),
        (Max(ONE, M), "T.max(1, m)"),
        (Add(ONE, ONE), "T.int64(1) + T.int64(1)"),
        (Min(ONE, ONE), "T.min(T.int64(1), T.int64(1))"),
        (
            Select(And(N < M, Or(Not(N < ONE), ONE < M)), N, ONE),
            "T.Select(n < m and (not n < 1 or 1 < m), n, T.int64(1))",
        ),
        (Cast(ShapeVar("k", "int32") + 1, N.dtype), 'T.Cast("int64", k + 1)'),
    ],
    ids=str,
)
@clauses("RX-GRAM-01")
def test_extents(extent: Any, text: str):
    assert str(ShapeExpr((extent,))) == f"R.shape([{text}])"


CALLEE = ExternFunc("pkg.f")


@pytest.mark.parametrize(
    ("expr", "text"),
    [
        (X, "x"),
        (Tuple(()), "()"),
        (Tuple((X,)), "(x,)"),
        (Tuple((X, Tuple((Y, X)))), "(x, (y, x))"),
        (TupleGetItem(Var("t"), 2), "t[2]"),
        (TupleGetItem(Tuple((X, Y)), 1), "R.tuple(x, y)[1]"),
        (PrimValue(3), "R.prim_value(3)"),
        (PrimValue(True), "R.prim_value(True)"),
        (PrimValue(0.1), "R.prim_value(0.1)"),
        (PrimValue(const(float("-inf"), F32)), 'R.prim_value(float("-inf"))'),
        (PrimValue(const(1, "uint8")), "R.prim_value(T.uint8(1))"),
        (PrimValue(const(1.0, "float64")), "R.prim_value(T.float64(1.0))"),
        (PrimValue(N * 2), "R.prim_value(n * 2)"),
        (StringImm('a"\n\\é'), 'R.str("a\\"\\n\\\\é")'),
        (DataTypeImm("int8"), 'R.dtype("int8")'),
        (CALLEE, 'R.ExternFunc("pkg.f")'),
        (Call(CALLEE, ()), 'R.call_packed("pkg.f")'),
        (
            Call(CALLEE, (X, StringImm("s")), (tensor(2),)),
            'R.call_packed("pkg.f", x, R.str("s"), ty_args=R.Tensor((2,), dtype="float32"))',
        ),
        (
            Call(CALLEE, (), (tensor(2), ObjectStructInfo())),
            'R.call_packed("pkg.f", ty_args=[R.Tensor((2,), dtype="float32"), R.Any()])',
        ),
        (Call(Var("f"), (X, PrimValue(1))), "f(x, R.prim_value(1))"),
        (Call(GlobalVar("g"), (X,)), 'I.GlobalVar("g")(x)'),
        (negative(X), "R.negative(x)"),
        (negative(negative(X)), "R.negative(R.negative(x))"),
        (
            Call(negative(X).op, (X, X), (), {"k": (1, 2)}),
            'R.Call("relax.negative", [x, x], attrs={"k": (1, 2)})',
        ),
    ],
    ids=str,
)
def test_expressions(expr: Any, text: str):
    assert str(expr) == text


G, S = GlobalVar("g"), Var("s", TupleStructInfo((tensor(2),)))
TWO = tensor(2)
T2 = 'R.Tensor((2,), dtype="float32")'


@pytest.mark.parametrize(
    ("name", "args", "attrs", "text"),
    [
        ("call_tir", (G, Tuple((X,))), {}, f'(I.GlobalVar("g"), (x,), out_ty={T2})'),
        ("call_tir", (G, S), {}, f'(I.GlobalVar("g"), s, out_ty={T2})'),
        (
            "call_tir",
            (G, Tuple(()), ShapeExpr((N,))),
            {},
            f'(I.GlobalVar("g"), (), tir_vars=R.shape([n]), out_ty={T2})',
        ),
        (
            "call_tir_inplace",
            (G, Tuple((X,))),
            {"inplace_indices": (0,)},
            f'(I.GlobalVar("g"), (x,), inplace_indices=(0,), out_ty={T2})',
        ),
        ("call_dps_packed", (CALLEE, Tuple((X,))), {}, f'("pkg.f", (x,), out_ty={T2})'),
        ("call_pure_packed", (CALLEE, X, Y), {}, f'("pkg.f", x, y, ty_args={T2})'),
        (
            "call_inplace_packed",
            (CALLEE, X),
            {"inplace_indices": (0, -1)},
            f'("pkg.f", x, inplace_indices=(0, -1), ty_args={T2})',
        ),
        ("invoke_closure", (Var("f"), Tuple((X,))), {}, f"(f, (x,), ty_args={T2})"),
        ("invoke_pure_closure", (Var("f"), Tuple(())), {}, f"(f, (), ty_args={T2})"),
    ],
)
def test_calls_of_what_is_no_operator(name: str, args: Any, attrs: Any, text: str):
    assert str(Call(Op(f"relax.{name}"), args, (TWO,), attrs)) == f"R.{name}{text}"


def test_calls_that_no_function_makes_name_all_their_parts():
    odd = Call(Op("relax.call_tir"), (G, X), (TWO,))
    assert str(odd) == f'R.Call("relax.call_tir", [I.GlobalVar("g"), x], ty_args={T2})'
    odd = Call(Op("relax.call_dps_packed"), (CALLEE, Tuple(())))
    assert str(odd) == 'R.Call("relax.call_dps_packed", [R.ExternFunc("pkg.f"), ()])'
    odd = Call(G, (X,), (TWO,), {"k": 1})
    assert str(odd) == f'R.Call(I.GlobalVar("g"), [x], ty_args={T2}, attrs={{"k": 1}})'
    assert str(Call(Var("f"), (X,), (TWO,))) == f"f(x, ty_args={T2})"


PAYLOAD = np.array([0x7FC00001], "uint32").view("float32")


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (np.array(1.5, F32), 'R.const(1.5, "float32")'),
        (np.array([[1, 2], [3, 4]], "int32"), 'R.const([[1, 2], [3, 4]], "int32")'),
        (
            np.array([0.1, 1e-45, 3.4028235e38], F32),
            'R.const([0.1, 1e-45, 3.4028235e+38], "float32")',
        ),
        (
            np.array([-0.0, np.inf, -np.inf, np.nan], "float64"),
            'R.const([-0.0, float("inf"), float("-inf"), float("nan")], "float64")',
        ),
        (np.array([0.1, 65504], "float16"), 'R.const([0.1, 65500.0], "float16")'),
        (np.array([0.1, 3e38], ml_dtypes.bfloat16), 'R.const([0.100098, 3.00406e+38], "bfloat16")'),
        (
            np.array([-(2**63), 2**63 - 1]),
            'R.const([-9223372036854775808, 9223372036854775807], "int64")',
        ),
        (np.array(2**64 - 1, "uint64"), 'R.const(18446744073709551615, "uint64")'),
        (np.array([True, False]), 'R.const([True, False], "bool")'),
        (np.zeros(0, "int8"), 'R.const([], "int8")'),
        (np.zeros((2, 0), "int8"), 'R.const(R.data("base64:", (2, 0), "int8"))'),
        (np.zeros((0, 2), "int8"), 'R.const(R.data("base64:", (0, 2), "int8"))'),
        (PAYLOAD, 'R.const(R.data("base64:AQDAfw==", (1,), "float32"))'),
    ],
    ids=str,
)
def test_small_constants(data: Any, text: str):
    assert Constant(data).__str__() == text


def test_a_constant_has_as_many_digits_as_it_needs():
    random = np.random.default_rng(1)
    bits = random.integers(0, 2**32, 20_000, dtype="uint32")
    for row in bits.view("float32").reshape(-1, 20):
        text = str(Constant(row))
        if "base64" not in text:
            plain = re.sub(r'float\("(-?inf|nan)"\)', r'"\1"', text)
            numbers = ast.literal_eval(plain[len("R.const(") : -len(', "float32")')])
            numbers = list(map(float, numbers))
            assert np.array(numbers, F32).tobytes() == row.tobytes()
        else:
            assert np.isnan(row).any()


LARGE = np.arange(40, dtype="int32")
DIGEST = Constant(LARGE).data.digest()


def large() -> Function:
    return function((), seq(Constant(LARGE)))


def test_large_constants_are_stored_when_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setattr(SETTINGS, "cache_dir", tmp_path)
    named = f'R.const(R.data("sha256:{DIGEST}", (40,), "int32"))'
    assert named in str(large())
    assert list(tmp_path.iterdir()) == []
    assert "base64:" in large().script(constants="inline")
    assert list(tmp_path.iterdir()) == []
    assert named in large().script()
    assert [f.stem for f in (tmp_path / "constants").iterdir()] == [DIGEST]
    IRModule({GlobalVar("main"): large()}).show()
    assert named in capsys.readouterr().out
    monkeypatch.setattr(SETTINGS, "cache_dir", None)
    assert "base64:" in large().script()
    with pytest.raises(CompileError) as raised:
        large().script(constants="elsewhere")
    assert raised.value.diagnostics[0].code == "SCR0005"


@clauses("TS-RT-01")
def test_a_function():
    lv = DataflowVar("lv", tensor(N, 128))
    gv = var("gv", N, 128)
    t = var("t", N, M)
    flow = DataflowBlock((VarBinding(lv, negative(X)), VarBinding(gv, negative(lv))))
    casts = BindingBlock((MatchCast(t, gv, tensor(N, M)), MatchCast(None, Y, tensor(M))))
    func = function((X, Y), SeqExpr((flow, casts), t), tensor(N, M), level=3)
    assert func.script() == dedented("""
        from loomir.script import relax as R
        from loomir.script import tir as T


        @R.function
        def main(
            x: R.Tensor((n, 128), dtype="float32"),
            y: R.Tensor((128,), dtype="float32"),
        ) -> R.Tensor((n, m), dtype="float32"):
            n = T.int64()
            m = T.int64()
            R.func_attr({"level": 3})
            with R.dataflow():
                lv: R.Tensor((n, 128), dtype="float32") = R.negative(x)
                gv: R.Tensor((n, 128), dtype="float32") = R.negative(lv)
                R.output(gv)
            t = R.match_cast(gv, R.Tensor((n, m), dtype="float32"))
            R.match_cast(y, R.Tensor((m,), dtype="float32"))
            return t
        """)


@clauses("TS-RT-01")
def test_branches_end_in_the_name_of_their_value():
    cond, x = var("cond", dtype="bool"), var("x", 2)
    a, b, deep, r = (var(name, 2) for name in ("a", "b", "deep", "r"))
    inner = If(cond, seq(VarBinding(a, negative(x)), a), seq(x))
    outer = If(
        cond,
        seq(VarBinding(deep, inner), deep),
        seq(VarBinding(b, negative(x)), VarBinding(Var("c", tensor(2)), negative(b)), b),
    )
    func = function((cond, x), seq(VarBinding(r, outer), r))
    assert written(func) == dedented("""
        @R.function
        def main(cond: R.Tensor((), dtype="bool"), x: R.Tensor((2,), dtype="float32")):
            if cond:
                if cond:
                    r: R.Tensor((2,), dtype="float32") = R.negative(x)
                else:
                    r = x
            else:
                b: R.Tensor((2,), dtype="float32") = R.negative(x)
                c: R.Tensor((2,), dtype="float32") = R.negative(b)
                r = b
            return r
        """)


def test_a_branch_says_before_what_its_cases_do_not():
    cond, x = var("cond", dtype="bool"), var("x", 2)
    r = Var("r", ObjectStructInfo())
    func = function((cond,), seq(VarBinding(r, If(cond, seq(x), seq(x))), r))
    assert (
        "    r: R.Any()\n    if cond:\n        r = x\n    else:\n        r = x\n" in func.script()
    )


def test_closures_are_nested_functions():
    x, y = var("x", N), var("y", N)
    info = FuncStructInfo((tensor(N),), tensor(N), False)
    f = Var("f", info)
    again = Var("again", tensor(N))
    inner = Function((y,), seq(VarBinding(again, Call(f, (y,))), again), tensor(N), False)
    func = Function((x,), seq(VarBinding(f, inner), f), info)
    assert written(func) == dedented("""
        @R.function(private=True)
        def main(
            x: R.Tensor((n,), dtype="float32"),
        ) -> R.Callable((R.Tensor((n,), dtype="float32"),), R.Tensor((n,), dtype="float32"), purity=False):
            n = T.int64()
            @R.function(pure=False)
            def f(y: R.Tensor((n,), dtype="float32")) -> R.Tensor((n,), dtype="float32"):
                again: R.Tensor((n,), dtype="float32") = f(y)
                return again
            return f
        """)


def test_a_module():
    x = var("x", 4)
    r = Var("r", tensor(4))
    main = function((x,), seq(VarBinding(r, Call(GlobalVar("my.helper"), (x,))), r))
    helper = Function((y := var("y", 4),), seq(y), None)
    renamed = function((z := var("z", 4),), seq(z), name="other")
    mod = IRModule(
        {
            GlobalVar("main"): main,
            GlobalVar("my.helper"): helper,
            GlobalVar("class"): renamed,
        },
        {"level": 1},
        {"vdevice": (VDevice("llvm"), VDevice("llvm", 1))},
    )
    assert mod.script() == dedented("""
        from loomir.script import ir as I
        from loomir.script import relax as R
        from loomir.script import tir as T


        @I.ir_module
        class Module:
            I.module_attrs({"level": 1})

            I.module_global_infos({"vdevice": [I.vdevice("llvm"), I.vdevice("llvm", 1)]})

            @R.function
            def main(x: R.Tensor((4,), dtype="float32")):
                r: R.Tensor((4,), dtype="float32") = cls.my_helper(x)
                return r

            @R.function(private=True, name="my.helper")
            def my_helper(y: R.Tensor((4,), dtype="float32")):
                return y

            @R.function(name="class")
            def class_(z: R.Tensor((4,), dtype="float32")):
                R.func_attr({"global_symbol": "other"})
                return z
        """)


@clauses("TS-RT-01")
def test_equal_names_are_made_different():
    hints = ["T", "R", "I", "cls", "_", "class", "2x", "x", "x", "é", "a b", "None", "", "n", "x_1"]
    params = [var(hint, N) for hint in hints]
    func = function(params, seq(Tuple(tuple(params))))
    text = func.script()
    names = [line.split(":")[0].strip() for line in text.splitlines() if ": R.Tensor" in line]
    assert len(set(names)) == len(hints)
    assert all(name.isidentifier() for name in names)
    assert names[5:10] == ["class_", "v2x", "x", "x_1", "é"]
    assert "    n_1 = T.int64()\n" in text
    assert not set(names) & {"T", "R", "I", "cls", "_"}


def test_programs_that_are_not_normal_are_readable():
    cond, x = var("cond", dtype="bool"), var("x", 2)
    branch = If(cond, negative(x), x)
    nested = SeqExpr((BindingBlock((VarBinding(Var("a"), negative(x)),)),), Var("b"))
    func = function((cond, x), Tuple((branch, Function((), nested), nested)))
    assert written(func) == dedented("""
        @R.function
        def main(cond: R.Tensor((), dtype="bool"), x: R.Tensor((2,), dtype="float32")):
            if cond:
                gv = R.negative(x)
            else:
                gv = x
            @R.function
            def func():
                a = R.negative(x)
                return b
            a = R.negative(x)
            return (gv, func, b)
        """)


def test_parts_of_programs_are_readable():
    block = DataflowBlock((VarBinding(var("v", 1), negative(X)),))
    assert str(block) == dedented("""
        with R.dataflow():
            v: R.Tensor((1,), dtype="float32") = R.negative(x)
            R.output(v)
        """).rstrip("\n")
    assert str(SeqExpr((BindingBlock(block.bindings),), X)) == dedented("""
        v: R.Tensor((1,), dtype="float32") = R.negative(x)
        x
        """).rstrip("\n")
    assert str(MatchCast(None, X, ObjectStructInfo())) == "R.match_cast(x, R.Any())"
    assert str(If(X, X, Y)) == "if x:\n    gv = x\nelse:\n    gv = y\ngv"


def chain(count: int) -> Function:
    at: Any = var("x", N)
    first = at
    bindings: list[Any] = []
    for _ in range(count):
        bindings.append(VarBinding(made := var("lv", N), negative(at)))
        at = made
    return function((first,), seq(*bindings, at))


def test_time_is_in_proportion_to_length():
    assert chain(5_000).script().count("R.negative") == 5_000

    def printing(count: int) -> Callable[[], str]:
        made = chain(count)
        return made.script

    assert_grows(9, printing, 1_000, 4_000)


def test_any_depth_is_written():
    expr: Any = X
    for _ in range(50_000):
        expr = negative(expr)
    assert str(expr).endswith("(x" + ")" * 50_000)
    branch: Any = X
    for _ in range(200):
        branch = If(Y, branch, X)
    assert str(branch).count("if y:") == 200


def test_variables_of_scalars_keep_their_dtype():
    k = ShapeVar("k", "int32")
    known = PrimStructInfo("int32", k)
    x = Var("x", known)
    func = Function((x,), SeqExpr((), x), known, attrs={"global_symbol": "main"})
    text = func.script()
    assert 'x: R.Prim("int32", value=k)' in text
    assert structural_equal(func, loomir.script.from_source(text))
