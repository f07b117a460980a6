"""Graphs of the forms that passes make, as people write them by hand."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import loomir
from loomir.ir.module import IRModule
from loomir.runtime.shape import Shape
from loomir.script import from_source
from loomir.transform.pipelines import lower_relax
from tests.codegen.relax.compare_engines import same

Array = Any
FOUR = np.arange(4, dtype="float32")

KERNELS = """
from loomir.script import ir as I, relax as R, tir as T
@I.ir_module
class Module:
    @T.prim_func(private=True)
    def twice(x: T.Buffer((4,), "float32"), y: T.Buffer((4,), "float32")):
        for i in range(4):
            with T.sblock("twice"):
                vi = T.axis.spatial(4, i)
                y[vi] = x[vi] * T.float32(2)
    @T.prim_func(private=True)
    def plus(xp: T.handle, y: T.Buffer((4,), "float32"), zp: T.handle):
        x = T.match_buffer(xp, (4,), "float32")
        z = T.match_buffer(zp, (4,), "float32")
        for i in range(4):
            with T.sblock("plus"):
                vi = T.axis.spatial(4, i)
                z[vi] = x[vi] + y[vi]
    @T.prim_func(private=True)
    def both(xp: T.handle, y: T.Buffer((4,), "float32"), zp: T.handle):
        x = T.match_buffer(xp, (4,), "float32")
        z = T.match_buffer(zp, (4,), "float32")
        for i in range(4):
            with T.sblock("both"):
                vi = T.axis.spatial(4, i)
                y[vi] = x[vi] * T.float32(3)
                z[vi] = x[vi] + T.float32(5)
    @T.prim_func(private=True)
    def next(x: T.Buffer((4,), "float32")):
        for i in range(4):
            with T.sblock("next"):
                vi = T.axis.spatial(4, i)
                x[vi] = x[vi] + T.float32(1)
    @T.prim_func(private=True)
    def open(xp: T.handle, yp: T.handle):
        n = T.int64()
        x = T.match_buffer(xp, (n,), "float32")
        y = T.match_buffer(yp, (n,), "float32")
        for i in range(n):
            with T.sblock("open"):
                vi = T.axis.spatial(n, i)
                y[vi] = x[vi] * T.float32(2)
    @T.prim_func(private=True)
    def sum(xp: T.handle, yp: T.handle, zp: T.handle):
        n = T.int64()
        x = T.match_buffer(xp, (n,), "float32")
        y = T.match_buffer(yp, (n,), "float32")
        z = T.match_buffer(zp, (n,), "float32")
        for i in range(n):
            with T.sblock("sum"):
                vi = T.axis.spatial(n, i)
                z[vi] = x[vi] + y[vi]
    @T.prim_func(private=True)
    def sized(xp: T.handle, n: T.int64, yp: T.handle):
        x = T.match_buffer(xp, (n,), "float32")
        y = T.match_buffer(yp, (n,), "float32")
        for i in range(n):
            with T.sblock("sized"):
                vi = T.axis.spatial(n, i)
                y[vi] = x[vi] + T.cast(n, "float32")
    @T.prim_func(private=True)
    def scaled(a: T.DTYPE, xp: T.handle, b: T.int32, n: T.int64, yp: T.handle):
        x = T.match_buffer(xp, (n,), "float32")
        y = T.match_buffer(yp, (n,), "float32")
        for i in range(n):
            with T.sblock("scaled"):
                vi = T.axis.spatial(n, i)
                y[vi] = x[vi] * T.cast(a, "float32") + T.cast(b, "float32")
    @T.prim_func(private=True)
    def moved(a: T.DTYPE, x: T.Buffer((4,), "float32")):
        for i in range(4):
            with T.sblock("moved"):
                vi = T.axis.spatial(4, i)
                x[vi] = x[vi] + T.cast(a, "float32")
"""

S = 'R.Tensor((4,), "float32")'
N = 'R.Tensor(("n",), "float32")'
PAIR = f"R.Tuple({S}, {S})"


def program(functions: str, dtype: str = "int64") -> IRModule:
    """Read graphs that call the kernels; ``S``, ``N`` and ``PAIR`` stand for struct info."""
    text = KERNELS.replace("DTYPE", dtype) + functions
    for name, info in (("<S>", S), ("<N>", N), ("<PAIR>", PAIR)):
        text = text.replace(name, info)
    made = from_source(text)
    assert isinstance(made, IRModule)
    return made


def compiled(mod: IRModule) -> Callable[..., Any]:
    function: Callable[..., Any] = loomir.compile(mod, opt_level=0)["main"]
    return function


def agree(mod: IRModule, *args: Any) -> None:
    """Run both ways, and compare."""
    wanted = loomir.interpret(mod, "main", *copy.deepcopy(args))
    given = compiled(mod)(*copy.deepcopy(args))
    assert same(wanted, given), f"interpreted {wanted!r}, compiled {given!r}"


def fails(mod: IRModule, *args: Any) -> str:
    """Run both ways, see that both fail alike, and give the code."""
    with pytest.raises(loomir.RunError) as wanted:
        loomir.interpret(mod, "main", *copy.deepcopy(args))
    with pytest.raises(loomir.RunError) as given:
        compiled(mod)(*copy.deepcopy(args))
    assert wanted.value.diagnostic.code == given.value.diagnostic.code
    return given.value.diagnostic.code


# -- scalars -----------------------------------------------------------------------------------
def number(dtype: str) -> Any:
    return True if dtype == "bool" else 2.0 if "float" in dtype else 2


DTYPES = ("bool", "int8", "int64", "float16", "float32")


@pytest.mark.parametrize("dtype", DTYPES)
def test_kernels_take_scalars_of_graphs(dtype: str) -> None:
    literal = "T.bool(True)" if dtype == "bool" else f"T.{dtype}(3)"
    mod = program(
        f"""
    @R.function
    def main(x: <N>, a: R.Prim("{dtype}"), b: R.Prim("int32")) -> <N>:
        n = T.int64()
        cls = Module
        with R.dataflow():
            y = R.call_tir(cls.scaled, (a, x, b, R.prim_value(n)), out_sinfo=<N>)
            z = R.call_tir(cls.scaled, ({literal}, y, b), out_sinfo=<N>, tir_vars=R.shape([n]))
            w = R.add(z, y)
            R.output(w)
        return w
""",
        dtype,
    )
    fused = [name for name in lower_relax(mod) if name.startswith("fused_")]
    assert fused == ["fused_scaled_scaled_add"]
    agree(mod, FOUR, number(dtype), 5)


@pytest.mark.parametrize("dtype", DTYPES)
def test_kernels_that_write_over_arguments_take_scalars(dtype: str) -> None:
    mod = program(
        f"""
    @R.function
    def main(x: <S>, t: R.Tuple(R.Prim("{dtype}"), R.Prim("int64"))) -> <S>:
        cls = Module
        with R.dataflow():
            y = R.add(x, x)
            z = R.call_tir_inplace(cls.moved, (t[0], y), [1], <S>)
            R.output(z)
        return z
""",
        dtype,
    )
    agree(mod, FOUR, (number(dtype), 7))


@pytest.mark.parametrize("k", ["n", "n * 2 + 1", "T.int64(7)"])
def test_scalars_are_extents(k: str) -> None:
    mod = program(f"""
    @R.function
    def main(x: <S>, w: <N>) -> <S>:
        n = T.int64()
        cls = Module
        with R.dataflow():
            y = R.call_tir(cls.scaled, (R.prim_value({k}), x, T.int32(1), T.int64(4)), out_sinfo=<S>)
            z = R.call_tir(cls.scaled, (n, y, T.int32(1)), out_sinfo=<S>, tir_vars=R.shape([4]))
            R.output(z)
        return z
""")
    agree(mod, FOUR, np.zeros(3, "float32"))


def test_scalars_come_from_functions_and_branches() -> None:
    mod = program("""
    @R.function(private=True)
    def five() -> R.Prim("int64"):
        return R.prim_value(T.int64(5))
    @R.function
    def main(x: <S>, c: R.Tensor((), "bool")) -> <S>:
        cls = Module
        k = cls.five()
        if c:
            m = R.prim_value(T.int64(1))
        else:
            m = k
        y = R.call_tir(cls.scaled, (m, x, T.int32(0), T.int64(4)), out_sinfo=<S>)
        return y
""")
    for c in (True, False):
        agree(mod, FOUR, np.array(c))


@pytest.mark.parametrize(
    ("value", "code"),
    [(np.int64(3), ""), (np.int32(3), "RUN0402"), (np.array(3), "RUN0401"), ((3,), "RUN0401")],
)
def test_what_is_no_scalar_of_the_dtype_is_refused(value: Any, code: str) -> None:
    mod = program("""
    @R.function
    def main(x: <S>, a: R.Object) -> <S>:
        cls = Module
        y = R.call_tir(cls.scaled, (a, x, T.int32(1), T.int64(4)), out_sinfo=<S>)
        return y
""")
    if code:
        assert fails(mod, FOUR, value) == code
    else:
        agree(mod, FOUR, value)


def test_what_is_no_tensor_is_refused() -> None:
    mod = program("""
    @R.function
    def main(x: R.Object) -> <S>:
        cls = Module
        y = R.call_tir(cls.twice, (x,), out_sinfo=<S>)
        return y
""")
    agree(mod, FOUR)
    assert fails(mod, (4,)) == "RUN0401"


@pytest.mark.parametrize(
    "size", ["R.Shape(['n'])", "R.Shape(ndim=1)", "R.Shape"], ids=["named", "counted", "unknown"]
)
def test_integers_of_kernels_come_as_shapes(size: str) -> None:
    mod = program(f"""
    @R.function
    def main(x: <N>, s: {size}) -> <N>:
        n = T.int64()
        cls = Module
        y = R.call_tir(cls.sized, (x,), out_sinfo=<N>, tir_vars=s)
        z = R.call_tir(cls.sized, (y,), out_sinfo=<N>, tir_vars=R.shape_of(y))
        return z
""")
    agree(mod, FOUR, Shape((4,)))
    if size == "R.Shape":
        assert fails(mod, FOUR, Shape((4, 4))) == "RUN0403"
        assert fails(mod, FOUR, Shape(())) == "RUN0403"


# -- functions that are to be one kernel ---------------------------------------------------------
GROUPS = {
    "one": ("a = {twice(x)}; b = {plus(a, x)}", "b", S),
    "tuple": ("a = {twice(x)}; b = {plus(a, x)}", "(a, b)", PAIR),
    "nested": ("a = {twice(x)}; b = {plus(a, x)}", "((a, b), (a,), ())", ""),
    "empty": ("a = {twice(x)}", "()", "R.Tuple()"),
    "fields": ("a = {both(x)}; b = {plus(a[0], a[1])}", "b", S),
    "several": ("a = {both(x)}", "a", PAIR),
    "inplace": ("a = {twice(x)}; b = R.call_tir_inplace(cls.next, (a,), [0], <S>)", "b", S),
    "parameter": ("a = {twice(x)}", "x", S),
    "constant": ("a = {plus(x, R.const([1, 2, 3, 4], 'float32'))}", "a", S),
    "only constant": ("a = {twice(x)}", "R.const([1, 2, 3, 4], 'float32')", S),
    "operators": ("a = R.exp(x); b = R.add(a, R.const(1.0))", "b", S),
    "alias": ("a = {twice(x)}; b = a; c = {plus(a, b)}", "c", S),
    "cast": ("a = {twice(x)}; b = R.match_cast(a, <S>)", "b", S),
    "shape": ("a = {twice(x)}; s = R.shape_of(a); b = R.reshape(a, s)", "b", S),
    "coarse": ("a = {twice(x)}", "a", 'R.Tensor(ndim=1, dtype="float32")'),
    "called": ("a = cls.inner(x); b = cls.inner(a)", "b", S),
}


def written(lines: str) -> list[str]:
    """Write calls of kernels out."""
    found: list[str] = []
    for line in lines.split("; "):
        before, _, rest = line.partition("{")
        name, _, args = rest.rstrip("}").partition("(")
        infos = "[<S>, <S>]" if name == "both" else "<S>"
        call = f"R.call_tir(cls.{name}, ({args[:-1]},), out_sinfo={infos})"
        found.append(before + call if rest else line)
    return found


@pytest.mark.parametrize(
    ("form", "dataflow", "attr"),
    [
        *((form, dataflow, '"Primitive": True') for form in GROUPS for dataflow in (False, True)),
        *((form, True, '"Composite": "mine"') for form in ("one", "nested", "inplace")),
    ],
)
def test_groups_of_any_form_keep_their_meaning(form: str, dataflow: bool, attr: str) -> None:
    lines, result, info = GROUPS[form]
    info = info or f"R.Tuple({PAIR}, R.Tuple({S}), R.Tuple())"
    body = written(lines)
    if dataflow:
        names = ", ".join(line.split(" = ")[0] for line in body)
        body = ["with R.dataflow():", *(f"    {line}" for line in body), f"    R.output({names})"]
    text = "".join(f"        {line}\n" for line in body)
    mod = program(f"""
    @R.function(private=True)
    def inner(x: <S>) -> <S>:
        R.func_attr({{{attr}}})
        cls = Module
        a = R.call_tir(cls.twice, (x,), out_sinfo=<S>)
        b = R.call_tir(cls.plus, (a, x), out_sinfo=<S>)
        return b
    @R.function(private=True)
    def group(x: <S>) -> {info}:
        R.func_attr({{{attr}}})
        cls = Module
{text}        return {result}
    @R.function
    def main(x: <S>) -> {info}:
        y = Module.group(x)
        return y
""")
    agree(mod, FOUR)


@pytest.mark.parametrize(
    "use",
    [
        "f = R.make_closure(cls.group, (x,)); y = R.invoke_pure_closure(f, (), sinfo_args=<S>)",
        "f = cls.group; y = f(x)",
        "t = (x, x); z = t[1]; y = cls.group(z)",
        "z = R.match_cast(x, R.Tensor(ndim=1, dtype='float32')); y = cls.group(z)",
    ],
    ids=["closure", "value", "field", "coarse"],
)
def test_groups_are_used_in_any_way(use: str) -> None:
    lines = "".join(f"        {line}\n" for line in use.split("; "))
    mod = program(f"""
    @R.function(private=True)
    def group(x: <S>) -> <S>:
        R.func_attr({{"Primitive": True}})
        cls = Module
        a = R.call_tir(cls.twice, (x,), out_sinfo=<S>)
        b = R.call_tir(cls.plus, (a, x), out_sinfo=<S>)
        return b
    @R.function
    def main(x: <S>) -> <S>:
        cls = Module
{lines}        return y
""")
    agree(mod, FOUR)


def test_groups_take_scalars_and_sizes() -> None:
    mod = program("""
    @R.function(private=True)
    def group(x: <N>, a: R.Prim("int64"), s: R.Shape(["m"])) -> <N>:
        R.func_attr({"Primitive": True})
        n = T.int64()
        m = T.int64()
        cls = Module
        y = R.call_tir(cls.scaled, (a, x, T.int32(1)), out_sinfo=<N>, tir_vars=R.shape([n]))
        z = R.call_tir(cls.scaled, (m, y, T.int32(1)), out_sinfo=<N>, tir_vars=R.shape([n]))
        return z
    @R.function
    def main(x: <N>, a: R.Prim("int64")) -> <N>:
        n = T.int64()
        y = Module.group(x, a, R.shape([n + 1]))
        return y
""")
    assert "group" in lower_relax(mod)
    assert ", (x, a), tir_vars=R.shape([n + 1])" in lower_relax(mod)["main"].script()
    agree(mod, FOUR, 3)


# -- what kernels check ------------------------------------------------------------------------
@pytest.mark.parametrize("attr", ["", 'R.func_attr({"Primitive": True})'])
@pytest.mark.filterwarnings("ignore::loomir.support.compile_warning.CompileWarning")
def test_kernels_that_are_fused_still_check_their_arguments(attr: str) -> None:
    mod = program(f"""
    @R.function(private=True)
    def group(x: <N>) -> <S>:
        {attr or "n = T.int64()"}
        cls = Module
        with R.dataflow():
            a = R.call_tir(cls.twice, (x,), out_sinfo=<S>)
            b = R.call_tir(cls.plus, (a, x), out_sinfo=<S>)
            R.output(b)
        return b
    @R.function
    def main(x: <N>) -> <S>:
        y = Module.group(x)
        return y
""")
    agree(mod, FOUR)
    assert fails(mod, FOUR[:3]) == "RUN0005"


@pytest.mark.filterwarnings("ignore::loomir.support.compile_warning.CompileWarning")
def test_kernels_that_are_fused_still_compare_extents() -> None:
    mod = program("""
    @R.function
    def main(x: <N>, y: R.Tensor(("m",), "float32")) -> <N>:
        n = T.int64()
        cls = Module
        with R.dataflow():
            a = R.call_tir(cls.sum, (x, y), out_sinfo=<N>)
            b = R.call_tir(cls.open, (a,), out_sinfo=<N>)
            R.output(b)
        return b
""")
    agree(mod, FOUR, FOUR)
    with pytest.raises(loomir.RunError):
        compiled(mod)(FOUR, FOUR[:3])


# -- effects -----------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "lines",
    [
        "a = R.exp(x); b = R.builtin.stop_lift_params(a); c = R.add(a, b)",
        "c = R.builtin.stop_lift_params(x)",
        "c = R.builtin.stop_lift_params(R.const([1, 2, 3, 4], 'float32'))",
        "b = R.builtin.stop_lift_params(x); c = {plus(b, x)}",
    ],
)
def test_what_keeps_passes_away_is_the_tensor_itself(lines: str) -> None:
    text = "".join(f"        {line}\n" for line in written(lines))
    mod = program(f"""
    @R.function
    def main(x: <S>) -> <S>:
        cls = Module
{text}        return c
""")
    agree(mod, FOUR)
