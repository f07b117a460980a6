"""Mistakes in programs of Relax: their codes, places and help, all of a text at once."""

from __future__ import annotations

import pytest

from loomir.script import from_source
from loomir.support.diagnostics import CompileError, Diagnostic
from tests.clause import clauses

HEAD = "from loomir.script import ir as I, tir as T, relax as R\n"
FUNC = '@R.function\ndef f(x: R.Tensor((n, 4), "float32"), c: R.Tensor((), "bool")):\n'


def refused(text: str) -> tuple[Diagnostic, ...]:
    with pytest.raises(CompileError) as caught:
        from_source(HEAD + text)
    return caught.value.diagnostics


def places(found: tuple[Diagnostic, ...]) -> list[tuple[str, int, int]]:
    """Return codes and places; lines are counted from the first statement of the function."""
    return [(d.code, d.span.line - 3, d.span.column) for d in found if d.span]


STORAGE = "s = R.memory.alloc_storage(R.shape([4]))\n"
MISTAKES = [
    # what is known not to be of the kind that an operator takes
    ("y = R.negative(R.str('x'))\nreturn y", "OPS0004", 1, 20),
    ("y = R.negative(R.dtype('int8'))\nreturn y", "OPS0004", 1, 20),
    (
        f"{STORAGE}y = R.memory.alloc_tensor(s, T.int64, R.shape([4]), 'int8')\nreturn y",
        "OPS0004",
        2,
        9,
    ),
    (
        f"{STORAGE}y = R.memory.alloc_tensor(s, T.int32(0), R.shape([4]), 'int8')\nreturn y",
        "OPS0004",
        2,
        9,
    ),
    # statements
    ("for i in range(3):\n    y = x\nreturn x", "SCR0002", 1, 5),
    ("while c:\n    y = x\nreturn x", "SCR0002", 1, 5),
    ("assert c\nreturn x", "SCR0002", 1, 5),
    ("import os\nreturn x", "SCR0002", 1, 5),
    ("class A:\n    pass\nreturn x", "SCR0002", 1, 5),
    ("y = [a for a in x]\nreturn x", "SCR0002", 1, 9),
    ("y = lambda a: a\nreturn x", "SCR0002", 1, 9),
    ("def g(y):\n    return y\nreturn x", "SCR0014", 1, 5),
    ("x[0] = 1\nreturn x", "SCR0027", 1, 5),
    ("*a, b = (x, x)\nreturn x", "SCR0027", 1, 5),
    ("a, b = (x, x, x)\nreturn x", "SCR0027", 1, 5),
    ("a, b = x\nreturn x", "SCR0008", 1, 12),
    ("x\nreturn x", "SCR0025", 1, 5),
    ("R.dataflow()\nreturn x", "SCR0013", 1, 5),
    ("with T.sblock('b'):\n    pass\nreturn x", "SCR0013", 1, 10),
    ("y: R.Tensor((n, 5)) = x\nreturn y", "RLX0201", 1, 27),
    ("y: 3 = x\nreturn y", "SCR0033", 1, 8),
    ("y: R.Tensor\nreturn x", "SCR0015", 1, 5),
    ("y: R.Tensor((m, 4)) = x\nreturn y", "SCR0003", 1, 18),
    # results
    ("pass", "SCR0030", 0, 1),
    ("return", "SCR0030", 1, 5),
    ("return x\nreturn x", "SCR0030", 2, 5),
    ("return x\ny = R.negative(x)", "SCR0030", 2, 9),
    ("if c:\n    return x\nelse:\n    y = x\nreturn y", "SCR0030", 2, 9),
    ("with R.dataflow():\n    return x", "SCR0030", 2, 9),
    # blocks and branches
    ("with R.dataflow():\n    R.output(x)\nreturn x", "SCR0031", 2, 18),
    ("with R.dataflow():\n    y = x\n    R.output(y)\n    z = x\nreturn y", "SCR0031", 4, 13),
    ("with R.dataflow():\n    y = x\n    R.output(y)\n    R.output(y)\nreturn y", "SCR0031", 4, 9),
    ("with R.dataflow():\n    with R.dataflow():\n        y = x\nreturn x", "SCR0031", 2, 9),
    ("R.output(x)\nreturn x", "SCR0024", 1, 5),
    ("if c:\n    y = x\nreturn x", "SCR0032", 1, 5),
    ("if c:\n    y = x\nelse:\n    z = x\nreturn x", "SCR0032", 1, 5),
    ("if c:\n    y = x\nelse:\n    pass\nreturn x", "SCR0032", 1, 5),
    (
        "with R.dataflow():\n    if c:\n        y = x\n    else:\n        y = x\nreturn x",
        "SCR0032",
        2,
        9,
    ),
    ("if x:\n    y = x\nelse:\n    y = x\nreturn y", "RLX0205", 1, 8),
    ('if "a":\n    y = x\n    z = undefined\nreturn x', "SCR0003", 3, 13),
    # expressions
    ("y = undefined\nreturn y", "SCR0003", 1, 9),
    ("y = R.addd(x, x)\nreturn y", "SCR0004", 1, 11),
    ("y = x[0]\nreturn y", "SCR0008", 1, 9),
    ("y = x and c\nreturn y", "SCR0009", 1, 9),
    ("y = not c\nreturn y", "SCR0009", 1, 13),
    ("y = 1 < x < 2\nreturn y", "SCR0009", 1, 9),
    ("y = x if c else x\nreturn y", "SCR0009", 1, 14),
    ("y = x.shape\nreturn y", "SCR0006", 1, 11),
    ("y = R.add(x)\nreturn y", "OPS0001", 1, 9),
    ("y = R.const('a')\nreturn y", "SCR0005", 1, 17),
    ("y = R.const([[1], [1, 2]])\nreturn y", "SCR0005", 1, 17),
    ("y = R.const(300, 'int8')\nreturn y", "SCR0005", 1, 17),
    ("y = R.match_cast(x)\nreturn y", "SCR0005", 1, 9),
    ("y = R.call_tir(x, (x,), out_sinfo=R.Object)\nreturn y", "SCR0005", 1, 20),
    ("y = R.call_pure_packed(3, x, sinfo_args=R.Object)\nreturn y", "SCR0005", 1, 28),
    ('y = R.call_dps_packed("a", (x,))\nreturn y', "SCR0005", 1, 9),
    ('y = R.call_inplace_packed("a", x, sinfo_args=R.Object)\nreturn y', "SCR0005", 1, 9),
    ("y = x(c)\nreturn y", "RLX0208", 1, 9),
    ('R.print(x, format="")\nreturn x', "RLX0212", 1, 5),
    ("y = R.add(x, R.output)\nreturn y", "OPS0003", 1, 9),
    ("y: R.Tensor(R.shape_of(x)) = x\nreturn y", "SCR0033", 1, 17),
]


@clauses("TS-SYN-02", "TS-SYN-09", "TS-RREF-08")
@pytest.mark.parametrize(("text", "code", "line", "column"), MISTAKES)
def test_mistake_in_a_function(text: str, code: str, line: int, column: int):
    found = refused(FUNC + "".join(f"    {part}\n" for part in text.split("\n")))
    assert places(found) == [(code, line, column)]
    assert all(d.help for d in found)


HEADS = [
    ("@R.function\ndef f(x):\n    return x\n", "SCR0015"),
    ("@R.function\ndef f(x: R.Tensor((4,)), *y: R.Object):\n    return x\n", "SCR0015"),
    ("@R.function\ndef f(x: R.Object = 1):\n    return x\n", "SCR0015"),
    ("@R.function\ndef f(x: R.Object, x: R.Object):\n    return x\n", "SCR0026"),
    (
        '@R.function\ndef f(x: R.Tensor(("n",), "int8")):\n    n = T.int32()\n    return x\n',
        "SCR0026",
    ),
    ("@R.function(pur=True)\ndef f(x: R.Object):\n    return x\n", "SCR0005"),
    ("@R.function(pure=1)\ndef f(x: R.Object):\n    return x\n", "SCR0005"),
    ("@R.function\ndef f(x: T.int32x4):\n    return x\n", "SCR0033"),
    ('@R.function\ndef f(x: R.Tensor((4,), "flaot32")):\n    return x\n', "TIR0001"),
    ("@R.function\ndef f(x: R.Tensor((4,), ndim=2)):\n    return x\n", "RLX0114"),
    ("@R.function\ndef f(x: R.Tensor(4)):\n    return x\n", "SCR0005"),
    ("@R.function\ndef f(x: R.Tensor((1.5,))):\n    return x\n", "RLX0002"),
    ("@R.function\ndef f(x: R.Prim()):\n    return x\n", "SCR0005"),
    ("@R.function\ndef f(x: R.Callable((R.Object,), R.Object, 1)):\n    return x\n", "SCR0005"),
    ('@R.function\ndef f(x: R.Tensor((4,), "int8", "llvm:x")):\n    return x\n', "SCR0034"),
    ("@R.function\ndef f(x: R.Tensor((4,))) -> R.Tensor((5,)):\n    return x\n", "RLX0214"),
    ("@R.function\ndef f(x: R.Tensor((4,))) -> R.Tensor((m,)):\n    return x\n", "SCR0003"),
    ("@R.function\ndef f(x: R.Object):\n    return f(x)\n", "SCR0035"),
]


@pytest.mark.parametrize(("text", "code"), HEADS)
def test_mistake_in_a_head(text: str, code: str):
    assert [d.code for d in refused(text)] == [code]


def test_all_mistakes_of_a_module_are_told_once():
    found = refused(
        "@I.ir_module\n"
        "class M:\n"
        "    @T.prim_func\n"
        '    def k(A: T.Buffer((4,), "float32")):\n'
        "        A[9] = 1.0\n"
        "        cls.a(A)\n"
        "    @R.function\n"
        "    def a(x: R.Tensor((4,))):\n"
        "        y = undefined\n"
        "        z = R.negative(y)\n"
        "        w = cls.k(z)\n"
        "        v = cls.missing(x)\n"
        "        return cls.b(w)\n"
        "    @R.function\n"
        "    def b(x: R.Tensor((4,))):\n"
        "        return cls.b(x)\n"
    )
    assert [(d.code, d.span.line) for d in found if d.span] == [
        ("SCR0019", 6),
        ("SCR0023", 7),
        ("SCR0003", 10),
        ("SCR0023", 13),
        ("SCR0035", 16),
    ]


def test_a_kernel_is_not_called_by_itself():
    found = refused(
        "@I.ir_module\nclass M:\n"
        '    @T.prim_func\n    def k(A: T.Buffer((4,), "float32")):\n        pass\n'
        "    @R.function\n    def f(x: R.Tensor((4,))):\n        return cls.k(x)\n"
    )
    assert [d.code for d in found] == ["SCR0023"]
    assert found[0].help.startswith("write R.call_tir(cls.k,")


@pytest.mark.parametrize(
    "text",
    [
        "y = __import__('os')",
        "y = x.__class__",
        "y = R.__class__",
        "y = R.add.__globals__",
        "y = R.emit.__code__",
        "y = R.add.op",
        "y = open('/etc/passwd')",
        "y = R.const(__builtins__)",
        "y: R.Tensor((__import__('os'),)) = x",
        "R.func_attr(globals())",
    ],
)
def test_nothing_is_reached_but_what_programs_have(text: str):
    codes = {d.code for d in refused(FUNC + f"    {text}\n    return x\n")}
    assert codes <= {"SCR0003", "SCR0004", "SCR0006", "SCR0007"}


ADVICE = [
    ("y = R.relu(x)\nreturn y", "did you mean R.nn.relu?"),
    ("y = R.softmax(x)\nreturn y", "did you mean R.nn.softmax?"),
    ("y = R.transpose(x)\nreturn y", "did you mean R.permute_dims?"),
    ("y = R.leaky_relu(x)\nreturn y", "did you mean R.nn.leakyrelu?"),
    ("y = R.image.matmul(x, x)\nreturn y", "did you mean R.matmul?"),
    ("y = R.qqqqqq(x)\nreturn y", "docs/reference/relax-operators.md lists the operators"),
    ("y = x.shape\nreturn y", "write R.shape_of(x)"),
    ("y = x.T\nreturn y", "write R.permute_dims(x)"),
    ("y = x.sum()\nreturn y", "write R.sum(x)"),
    ("y = x.relu()\nreturn y", "write R.nn.relu(x)"),
    ("y = x.qqqqqq\nreturn y", "use the value itself"),
    (
        "with R.dataflow():\n    y = x\nreturn y",
        "write R.output(y) at the end of the block, with what else it gives",
    ),
    (
        "y = cls.f(x)\nreturn y",
        "cls is the module around: write the function in a class under @I.ir_module",
    ),
]


@pytest.mark.parametrize(("text", "help_"), ADVICE)
def test_advice_says_what_to_write(text: str, help_: str):
    found = refused(FUNC + "".join(f"    {part}\n" for part in text.split("\n")))
    assert [d.help for d in found] == [help_]
