"""Odd programs of Relax: texts to be changed, and calls of all names of ``R`` with odd arguments."""

from __future__ import annotations

from random import Random
from typing import Final

from loomir.script.parser.evaluate.namespaces import R

__all__ = ["GRAPHS", "odd_graph"]

HEAD: Final = "from loomir.script import ir as I, tir as T, relax as R\n\n"
GRAPHS: Final = (
    HEAD
    + """@I.ir_module
class Module:
    I.module_attrs({"k": 1})
    I.module_global_infos({"vdevice": [I.vdevice("llvm", 0, "global")]})

    @T.prim_func
    def add(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
        for i in range(8):
            B[i] = A[i] + T.float32(1)

    @R.function
    def main(x: R.Tensor((8,), "float32"), y: R.Tensor((8,), "float32", "llvm:0")):
        with R.dataflow():
            a = R.call_tir(cls.add, (x,), out_ty=R.Tensor((8,), "float32"))
            b = R.add(a, R.negative(y)) * 2
            R.output(b)
        c = cls.other(b)
        return c

    @R.function(private=True)
    def other(x: R.Tensor((8,), "float32")) -> R.Tensor((8,), "float32"):
        return R.exp(x)
""",
    HEAD
    + """@R.function
def f(
    c: R.Tensor((), "bool"), x: R.Tensor(("n", 4), "float32"), t: R.Tuple(R.Tensor, R.Shape([n]))
) -> R.Tensor(("n", 4), "float32"):
    n = T.int64()
    a, b = t
    m = T.int64()
    z = R.match_cast(a, R.Tensor((m, n + 1), "float32"))
    if c:
        y = x - 1
        r = -y
    else:
        r: R.Tensor((n, 4)) = x
    return r
""",
    HEAD
    + """@R.function(pure=False)
def f(x: R.Tensor((k,), "int32"), g: R.Callable((R.Object,), R.Object, False)):
    R.func_attr({"a": "b"})

    @R.function
    def loop(i: R.Tensor((), "int32"), s: R.Tensor((n,), "int32")) -> R.Tensor((n,), "int32"):
        cond = R.less(i, R.const(3, "int32"))
        if cond:
            v = R.add(s, s)
            w = loop(i + 1, v)
        else:
            w = s
        return w

    y = loop(R.const(0, "int32"), x)
    z = R.call_packed("name", y, (x, 1), sinfo_args=R.Tensor((k,), "int32"))
    g(z)
    q = (y, (z, R.shape([k, 2])), R.str("a"), R.prim_value(k), R.dtype("int8"))
    return q[1][0], q
""",
)

VALUES: Final = (
    *("1", "-1", "0", "2.5", "True", "None", '"a"', '""', '"int8"', '"n"', '"n + 1"', "[]", "()"),
    *("(1, 2)", "[x]", "(x, y)", "{}", '{"k": 1}', "{x: 1}", "x", "y", "t", "s", "c", "g", "n"),
    *("x + 1", "x < y", "-x", "x @ y", "t[0]", "x[0]", "t[5]", "n * 2", "n // 0", "R", "R.nn", "T"),
    *("R.Tensor", "R.Object", "R.add", "R.emit", "T.int64", "T.int64()", "T.float32(1)", "1 << 70"),
    *("R.Tensor((n, 4), 'float32')", "R.Shape([n])", "R.Prim('int64')", "R.Tuple(R.Object)"),
    *("R.Callable((R.Tensor(('q',)),), R.Tensor(('q',)))", "R.const(1.5)", "R.shape([n, 2])"),
    *("R.prim_value(n)", "R.dataflow()", "R.ExternFunc('a')", "'llvm:0'", "f", "lambda: 1"),
)
WAYS: Final = (
    "a = {}\nreturn a",
    "a = {}\nb = {}\nreturn a",
    "{}\nreturn x",
    "return {}",
    "a: {} = {}\nreturn a",
    "a, b = {}\nreturn a",
    "a += {}\nreturn a",
    "with R.dataflow():\n    a = {}\n    R.output({})\nreturn a",
    "with {}:\n    a = x\nreturn x",
    "if {}:\n    a = {}\nelse:\n    a = {}\nreturn a",
    "R.output({})\nreturn x",
    "@R.function\ndef h(z: {}) -> {}:\n    return z\na = h({})\nreturn a",
)


def odd_graph(random: Random) -> str:
    """Write a program in which names of ``R`` are given odd arguments."""
    way = random.choice(WAYS)
    body = way.format(*[_odd(random, 2) for _ in range(way.count("{}"))])
    pure = random.choice(("", "(pure=False)", "(private=True)"))
    params = (
        'x: R.Tensor((n, 4), "float32"), y: R.Tensor((n, 4), "float32"), s: R.Shape([n, 4]), '
        't: R.Tuple(R.Tensor((n,), "int32"), R.Object), c: R.Tensor((), "bool"), '
        "g: R.Callable((R.Object,), R.Object)"
    )
    if not random.randrange(8):
        params += f", z: {_odd(random, 2)}"
    lines = "".join(f"    {line}\n" for line in body.split("\n"))
    return f"{HEAD}@R.function{pure}\ndef f({params}):\n{lines}"


def _odd(random: Random, depth: int) -> str:
    if not depth or not random.randrange(3):
        return random.choice(VALUES)
    name = random.choice(sorted(R.table))
    given = [_odd(random, depth - 1) for _ in range(random.choice((0, 1, 1, 2, 2, 3, 4)))]
    words = random.sample(
        ("axis", "dtype", "out_sinfo", "ndim", "sinfo_args", "shape", "value"), random.randrange(2)
    )
    given += [f"{word}={_odd(random, depth - 1)}" for word in words]
    return f"R.{name}({', '.join(given)})"
