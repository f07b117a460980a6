# ruff: noqa: N805  (programs have no self)
"""Spellings of Relax that other implementations read: each means what the plain form means."""

from __future__ import annotations

import numpy as np
import pytest

import loomir
from loomir.ir import assert_structural_equal
from loomir.script import from_source
from loomir.script import relax as R
from tests.script.parser.programs import refused
from tests.script.parser.test_equal_spellings import check_same

HEAD = (
    '@R.function(pure=False)\ndef f(x: R.Tensor((2, 3), "float32"), y: R.Tensor((1, 2, 8, 8))):\n'
)


def lines(*body: str) -> str:
    """Return the text of a function with a body."""
    return HEAD + "".join(f"    {line}\n" for part in body for line in part.split("\n"))


BODIES: dict[str, tuple[str, str]] = {
    "shapes": (
        "a = R.reshape(x, R.ShapeExpr([3, 2]))\nreturn a",
        "a = R.reshape(x, R.shape([3, 2]))\nreturn a",
    ),
    "fields": (
        "t = (x, y)\na = R.TupleGetItem(t, 0)\nreturn R.add(R.TupleGetItem(t, index=0), a)",
        "t = (x, y)\na = t[0]\nreturn R.add(t[0], a)",
    ),
    "regions of interest": (
        "a = R.image.resize2d(y, (4, 4), roi=[T.float32(0.0), 0.0, 1, 0.5])\nreturn a",
        "a = R.image.resize2d(y, (4, 4), roi=(0.0, 0.0, 1, 0.5))\nreturn a",
    ),
    "no dtype of an option": (
        (
            'a = R.cumsum(x, axis=0, dtype="void")\n'
            'return R.matmul(a, R.zeros((3, 1), "float32"), "void")'
        ),
        "a = R.cumsum(x, axis=0)\nreturn R.matmul(a, R.zeros((3, 1), 'float32'))",
    ),
    "dtypes as descriptions": (
        "n: T.int64 = R.prim_value(3)\nt: R.Tuple(T.int64, R.Object) = (n, x)\nreturn t",
        (
            'n: R.Prim("int64") = R.prim_value(3)\n'
            't: R.Tuple(R.Prim("int64"), R.Object) = (n, x)\nreturn t'
        ),
    ),
    "a packed function described twice": (
        (
            'g: R.Callable((R.Object,), R.Object, True) = R.ExternFunc("a.b", R.Callable((R.Object,), '
            "R.Object, True))\na = g(x)\nreturn a"
        ),
        'a = R.call_pure_packed("a.b", x, ty_args=R.Object)\nreturn a',
    ),
    "no dtype of a view": (
        (
            'a = R.memory.view(x, (6,), R.dtype(""), R.prim_value(0))\n'
            'b = R.memory.view(x, (6,), "")\nreturn (a, b)'
        ),
        "a = R.memory.view(x, (6,))\nb = R.memory.view(x, (6,))\nreturn (a, b)",
    ),
    "null as an argument": (
        "n: R.Any = R.null_value()\na = R.memory.view(x, (6,), n, n)\nreturn a",
        "n: R.Any = R.null_value()\na = R.memory.view(x, (6,))\nreturn a",
    ),
    "devices": (
        (
            "a = R.hint_on_device(x, R.device(1, 0))\nb = R.hint_on_device(a, R.cpu(0))\n"
            "return R.hint_on_device(b, R.device(device_type=2, index=1))"
        ),
        (
            'a = R.hint_on_device(x, "llvm:0")\nb = R.hint_on_device(a, "llvm:0")\n'
            'return R.hint_on_device(b, "cuda:1")'
        ),
    ),
    "a described packed function": (
        (
            'g = R.ExternFunc("a.b", R.Callable(ret=R.Tensor((2, 3)), purity=False))\na = g(x)\n'
            "b = R.call_packed(g, x, sinfo_args=R.Object)\nreturn a"
        ),
        (
            'a = R.call_packed("a.b", x, sinfo_args=R.Tensor((2, 3)))\n'
            'b = R.call_packed("a.b", x, sinfo_args=R.Object)\nreturn a'
        ),
    ),
    "a described pure function": (
        'a = R.ExternFunc("a.b", R.Callable((R.Tensor,), R.Tensor((2, 3)), True))(x)\nreturn a',
        'a = R.call_pure_packed("a.b", x, sinfo_args=R.Tensor((2, 3)))\nreturn a',
    ),
    "zeros": (
        'return R.add(x, R.const(np.zeros((2, 3), dtype="float32")))',
        'return R.add(x, R.const([[0, 0, 0], [0, 0, 0]], "float32"))',
    ),
    "ones": (
        "return R.add(x, R.const(np.ones((2, 3), np.float32)))",
        'return R.add(x, R.const([[1, 1, 1], [1, 1, 1]], "float32"))',
    ),
    "full": (
        'return R.add(x, R.const(numpy.full((2, 1), 2.5), "float32"))',
        'return R.add(x, R.const([[2.5], [2.5]], "float32"))',
    ),
    "arange": (
        'return R.add(x, R.const(np.arange(6, dtype="float32").reshape(2, 3)))',
        'return R.add(x, R.const([[0, 1, 2], [3, 4, 5]], "float32"))',
    ),
    "array": (
        'return R.add(x, R.const(np.array([[1, 2, 3]], dtype=np.int8).astype("float32")))',
        'return R.add(x, R.const([[1, 2, 3]], "float32"))',
    ),
    "array of the dtype that NumPy gives": (
        "return R.const(np.array([1, 2]))",
        'return R.const([1, 2], "int64")',
    ),
    "a number": (
        "return R.add(x, R.const(np.float32(0.5)))",
        'return R.add(x, R.const(0.5, "float32"))',
    ),
    "eye and linspace": (
        (
            'a = R.const(np.eye(2, dtype="int32"))\n'
            'return (a, R.const(np.linspace(0, 1, 3), "float32"))'
        ),
        'a = R.const([[1, 0], [0, 1]], "int32")\nreturn (a, R.const([0.0, 0.5, 1.0], "float32"))',
    ),
    "a value of NumPy": (
        'return R.multiply(x, R.const(np.pi, "float32"))',
        f'return R.multiply(x, R.const({np.pi}, "float32"))',
    ),
}


@pytest.mark.parametrize("name", BODIES)
def test_statements(name: str) -> None:
    written, plain = BODIES[name]
    check_same(lines(written), lines(plain))


@pytest.mark.parametrize(
    ("value", "code"),
    [
        ("np.random.rand(2, 3)", "SCR0004"),
        ("np.load('a.npy')", "SCR0004"),
        ("np.zeros((2, 3), dtype='flaot32')", "SCR0005"),
        ("np.zeros((-2, 3))", "SCR0005"),
        ("np.zeros((100000, 100000))", "SCR0020"),
        ("np.arange(1000000000)", "SCR0020"),
        ("np.eye(100000)", "SCR0020"),
        ("np.array(x)", "SCR0005"),
        ("np.array([[1], [1, 2]])", "SCR0005"),
        ("np.zeros((2, 3)).tofile('a')", "SCR0006"),
        ("np.zeros((2, 3)).reshape(4)", "SCR0005"),
        ("np.zeros", "SCR0005"),
    ],
)
def test_only_a_few_functions_of_numpy_are_called(value: str, code: str) -> None:
    assert [d.code for d in refused(lines(f"return R.add(x, R.const({value}))"))] == [code]


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ("return R.device(3)", "SCR0005"),
        ("return R.TupleGetItem(x, 0)", "RLX0206"),
        ("return R.image.resize2d(y, (4, 4), roi=['a'])", "OPS0002"),
        ("return R.memory.view(x, (6,), R.dtype('a'))", "TIR0001"),
    ],
)
def test_statements_that_are_refused(body: str, code: str) -> None:
    assert [d.code for d in refused(lines(body))] == [code]


def test_numpy_around_a_function() -> None:
    table = np.arange(6).reshape(2, 3)

    @R.function
    def f(x: R.Tensor((2, 3), "float32")):
        y = R.add(x, R.const(np.ones((2, 3), "float32")))
        return R.add(y, R.const(table.astype("float32")))

    text = (
        '@R.function\ndef f(x: R.Tensor((2, 3), "float32")):\n'
        '    y = R.add(x, R.const([[1, 1, 1], [1, 1, 1]], "float32"))\n'
        '    return R.add(y, R.const([[0, 1, 2], [3, 4, 5]], "float32"))\n'
    )
    assert_structural_equal(f, from_source(text))
    given = np.ones((2, 3), "float32")
    np.testing.assert_array_equal(loomir.interpret(f, given), given + 1 + table)


class Sneaky:
    """An element that would notice being converted."""

    touched = False

    def __float__(self) -> float:
        Sneaky.touched = True
        return 1.0


def test_arrays_of_objects_are_not_converted() -> None:
    table = np.array([Sneaky(), Sneaky()])
    text = (
        "@R.function\ndef f(x: R.Tensor((2,), 'float32')):\n"
        "    return R.add(x, R.const(table.astype('float32')))\n"
    )
    assert [d.code for d in refused(text, table=table)] == ["SCR0007"]
    assert not Sneaky.touched


def test_a_function_that_calls_itself_says_what_it_returns() -> None:
    (found,) = refused(
        "@R.function\ndef f(n: R.Tensor((), 'int32')):\n    if R.less(n, R.const(3)):\n"
        "        r = f(R.add(n, R.const(1)))\n    else:\n        r = n\n    return r\n"
    )
    assert found.code == "SCR0035"
    assert "-> R.Tensor" in (found.help or "")


def test_what_is_said_of_a_packed_function_agrees() -> None:
    (found,) = refused(
        lines(
            'g: R.Callable((R.Object,), R.Object, True) = R.ExternFunc("a.b", '
            "R.Callable((R.Object,), R.Tensor, True))\nreturn g(x)"
        )
    )
    assert (found.code, found.help) == ("RLX0201", "change the annotation, or leave it out")


def test_vectors_do_not_describe_values() -> None:
    (found,) = refused(lines("n: T.int64x4 = R.prim_value(3)\nreturn n"))
    assert found.code == "SCR0033"


REWRITER = (
    "@R.rewriter\nclass Rewriter:\n    @R.function\n    def pattern(x: R.Tensor, y: R.Tensor):\n"
    "        return R.add(x, y)\n\n    @R.function\n"
    "    def replacement(x: R.Tensor, y: R.Tensor):\n        return R.subtract(x, R.negative(y))\n"
)


def test_a_rewriter_is_a_module_of_two_functions() -> None:
    check_same(REWRITER, REWRITER.replace("R.rewriter", "I.ir_module"))

    @R.rewriter
    class Rewriter:
        @R.function
        def pattern(x: R.Tensor, y: R.Tensor):
            return R.add(x, y)

        @R.function
        def replacement(x: R.Tensor, y: R.Tensor):
            return R.subtract(x, R.negative(y))

    assert_structural_equal(Rewriter, from_source(REWRITER))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("def pattern(", "def shape(", "other functions than a pattern"),
        ("replacement(x: R.Tensor, y: R.Tensor)", "replacement(x: R.Tensor)", "takes 2 parameters"),
    ],
)
def test_what_is_no_rewriter(old: str, new: str, message: str) -> None:
    (found,) = refused(REWRITER.replace(old, new).replace("R.negative(y)", "x"))
    assert found.code == "SCR0014"
    assert message in found.message
