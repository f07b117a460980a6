# ruff: noqa: N805  (programs have no self)
"""Spellings that other implementations read: each means what the plain form means, and prints so."""

from __future__ import annotations

import pytest

from loomir.ir import assert_structural_equal
from loomir.script import from_source
from loomir.script import ir as I
from loomir.script import relax as R
from loomir.script import tir as T
from tests.script.parser.programs import HEAD, refused, refused_body


def lines(*body: str) -> str:
    """Give the text of a function with a body."""
    return HEAD + "".join(f"    {line}\n" for part in body for line in part.split("\n"))


def check_same(written: str, plain: str) -> None:
    """Check that two texts are one program, which prints as a text that reads back."""
    found, wanted = from_source(written), from_source(plain)
    assert_structural_equal(found, wanted)
    assert_structural_equal(from_source(found.script()), found)


LOOPS: dict[str, tuple[str, str]] = {
    "serial by step": (
        "for i in T.serial(1, 8, step=3):\n    A[i, 0] = 1.0",
        "for i in range(1, 8, 3):\n    A[i, 0] = 1.0",
    ),
    "range with keywords": (
        'for i in range(8, annotations={"pragma": 1}):\n    A[i, 0] = 1.0',
        'for i in T.serial(0, 8, annotations={"pragma": 1}):\n    A[i, 0] = 1.0',
    ),
    "range by step=": (
        "for i in range(0, 8, step=2):\n    A[i, 0] = 1.0",
        "for i in range(0, 8, 2):\n    A[i, 0] = 1.0",
    ),
    "unroll by step": (
        "for i in T.unroll(0, 8, step=4):\n    A[i, 0] = 1.0",
        "for k in T.unroll(2):\n    A[0 + k * 4, 0] = 1.0",
    ),
    "a loop variable of a dtype": (
        'for i in T.parallel(8, dtype="int64"):\n    A[i, 0] = 1.0',
        "for i in T.parallel(T.int64(8)):\n    A[i, 0] = 1.0",
    ),
    "a bound is converted": (
        'for i in T.serial(x, dtype="int64"):\n    A[i, 0] = 1.0',
        'for i in T.serial(T.cast(x, "int64")):\n    A[i, 0] = 1.0',
    ),
    "a grid of a dtype": (
        'for i, j in T.grid(8, 4, dtype="int64"):\n    A[i, j] = 1.0',
        "for i, j in T.grid(T.int64(8), T.int64(4)):\n    A[i, j] = 1.0",
    ),
    "a grid of ranges": (
        "for i, j in T.grid(8, (2, 8)):\n    A[i, j] = 1.0",
        "for i in range(8):\n    for j in range(2, 8):\n        A[i, j] = 1.0",
    ),
    "one name for several loops": (
        "for idx in T.grid(8, 4):\n    A[idx] = A[idx] + 1.0",
        "for i, j in T.grid(8, 4):\n    A[i, j] = A[i, j] + 1.0",
    ),
    "indices of a grid in a block": (
        (
            'for idx in T.grid(8, 4):\n    with T.sblock("b"):\n'
            '        v = T.axis.remap("SS", idx)\n        A[v] = 1.0'
        ),
        (
            'for i, j in T.grid(8, 4):\n    with T.sblock("b"):\n'
            '        vi, vj = T.axis.remap("SS", [i, j])\n        A[vi, vj] = 1.0'
        ),
    ),
    "a thread without its keyword": (
        'for i in T.thread_binding(8, "threadIdx.x"):\n    A[i, 0] = 1.0',
        'for i in T.thread_binding(0, 8, thread="threadIdx.x"):\n    A[i, 0] = 1.0',
    ),
    "unroll": (
        "for i in T.serial(8, unroll=True):\n    A[i, 0] = 1.0",
        'for i in T.serial(8, annotations={"pragma_unroll": True}):\n    A[i, 0] = 1.0',
    ),
    "no unroll": (
        "for i in T.serial(8, unroll=False):\n    A[i, 0] = 1.0",
        'for i in T.serial(8, annotations={"disable_unroll": True}):\n    A[i, 0] = 1.0',
    ),
}


@pytest.mark.parametrize("name", LOOPS)
def test_loops(name: str) -> None:
    written, plain = LOOPS[name]
    check_same(lines(written), lines(plain))


@pytest.mark.parametrize(
    ("loop", "code"),
    [
        ("T.serial(0, 8, step=0)", "SCR0012"),
        ("T.serial(0, 8, step=x)", "SCR0012"),
        ('T.serial(8, dtype="float32")', "SCR0005"),
        ("T.serial(8, unroll=0)", "SCR0005"),
        ("T.grid((1, 2, 3))", "SCR0005"),
        ("T.thread_binding(0, 8)", "SCR0005"),
        ("range(0, 8, 2, step=2)", "SCR0005"),
        ("range(0, 8, thread='a')", "SCR0005"),
    ],
)
def test_loops_that_are_refused(loop: str, code: str) -> None:
    assert [d.code for d in refused_body(f"for i in {loop}:", "    A[i, 0] = 1.0")] == [code]


@pytest.mark.parametrize(
    "options", ["s_tir=True", "check_well_formed=False", "s_tir=True, check_well_formed=False"]
)
def test_options_that_mean_nothing_here(options: str) -> None:
    program = (
        '@I.ir_module{0}\nclass Module:\n    @T.prim_func{0}\n    def f(x: T.Buffer((4,), "int32")):'
        "\n        x[0] = 1\n\n    @R.function{0}\n    def g(x: R.Tensor((4,), 'int32')):\n"
        "        return x\n"
    )
    check_same(program.format(f"({options})"), program.format(""))


def test_the_attributes_of_a_decorated_class() -> None:
    # Python runs the body of the class before it is read.
    @I.ir_module(s_tir=True, check_well_formed=False)
    class Module:
        I.module_attrs({"answer": 42})
        I.module_global_infos({"vdevice": [I.vdevice("llvm")]})

        @T.prim_func(s_tir=True)
        def f(x: T.Buffer((4,), "int32")):
            x[0] = 1

    assert Module.attrs["answer"] == 42
    assert len(Module.global_info["vdevice"]) == 1


op, nn, relu = R.add, R.nn, R.nn.relu


def test_captured_operators_are_called() -> None:
    @R.function
    def f(x: R.Tensor((4,), "float32")):
        y = op(x, x)
        z = nn.relu(y)
        return relu(z)

    text = (
        '@R.function\ndef f(x: R.Tensor((4,), "float32")):\n    y = R.add(x, x)\n'
        "    z = R.nn.relu(y)\n    return R.nn.relu(z)\n"
    )
    assert_structural_equal(f, from_source(text))


def test_a_captured_operator_is_no_value_of_a_kernel() -> None:
    values = {"op": op}
    text = "@T.prim_func\ndef f(x: T.Buffer((4,), 'float32')):\n    op(x)\n"
    assert [d.code for d in refused(text, **values)] == ["SCR0010"]
