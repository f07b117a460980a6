"""The decisions on TVMScript.

Those of class A, which change results, safety or acceptance, have three tests each: the example
that made the decision necessary, a property, and a negative.
"""

from __future__ import annotations

import itertools
import math
import textwrap
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import loomir
from loomir.ir import GlobalVar, IRModule, assert_structural_equal
from loomir.script import from_source, parse
from loomir.script import tir as T
from loomir.support.diagnostics import CompileError
from loomir.tir import Evaluate, PrimFunc, Var
from tests.conformance.compare_engines import both, i32, read, refused, zeros
from tests.script.printer.random_program import Maker

FEW = settings(max_examples=25, deadline=None)
HEAD = '@T.prim_func\ndef main(A: T.Buffer((4,), "int32"), n: T.int32):\n'


def body(*lines: str) -> str:
    return HEAD + "".join(f"    {line}\n" for line in lines)


# -- S1: the example of the text is read as it stands ----------------------------------------------
KERNEL = """
    @T.prim_func
    def add_kernel(A: T.Buffer((128,), "float32"),
                   B: T.Buffer((128,), "float32"),
                   C: T.Buffer((128,), "float32")):
        for i in range(128):
            with T.sblock("compute"):
                vi = T.axis.spatial(128, i)
                C[vi] = A[vi] + B[vi]
"""


def test_S1_example_the_kernel_of_the_text():
    """The kernel of the text's example is read verbatim, with a block in a plain prim_func."""
    text = f"@I.ir_module\nclass MyModule:\n{KERNEL}"
    made = from_source(text)
    a, b = np.arange(128, dtype=np.float32), np.full(128, 0.5, np.float32)
    args = a, b, zeros(128, dtype="float32")
    assert both(made, *args, name="add_kernel").tolist() == (a + b).tolist()


@pytest.mark.parametrize("options", ["", "()", "(s_tir=True)", "(s_tir=False)"])
def test_S1_property_s_tir_changes_nothing(options: str):
    """A function with blocks is the same whether or not s_tir says that it has some."""
    text = textwrap.dedent(KERNEL).replace("T.prim_func", f"T.prim_func{options}")
    assert_structural_equal(from_source(text), read(textwrap.dedent(KERNEL)))


def test_S1_negative_cls_is_only_in_modules():
    """Outside of a module cls is a name like others, and in one it has no other functions."""
    refused("SCR0003", body("cls.f(n)  # <--"))
    module = (
        "@I.ir_module\nclass M:\n    @T.prim_func\n    def main(n: T.int32):\n        {}  # <--\n"
    )
    refused("SCR0023", module.format("cls.other(n)"))
    refused("SCR0023", module.format("T.evaluate(cls.__class__)"))


def test_S2_call_extern_in_both_orders():
    """call_extern takes the dtype first, or the name first; both make the same call."""
    forms = ['"int32", "abs", n', '"abs", n', '"abs", n, dtype="int32"']
    made = [read(body(f"A[0] = T.call_extern({form})")) for form in forms]
    for other in made[1:]:
        assert_structural_equal(made[0], other)
    assert both(made[0], zeros(4), -5)[0] == 5


def test_S3_return_is_ret():
    """Return x is T.ret(x), with the same result."""
    one, two = read(body("return n * 2")), read(body("T.evaluate(T.ret(n * 2))"))
    assert_structural_equal(one, two)
    assert both(one, zeros(4), 21) == 42


S4 = [
    "x = [i for i in (1, 2)]",
    "A[0] = max(i for i in (1, 2))",
    "A[0] = (lambda: 1)()",
    "x = {k: 1 for k in (1,)}",
    "nonlocal n",
    "global n",
    "del n",
    "x = (y := n)",
    "A[0] = await_(n) if n else (yield)",
    "with open('x'): pass",
    "match n:\n        case 1:\n            pass",
    "raise ValueError",
    "x: 'int'",
    "A[0] = n if True else lambda: 2",
    "type X = int",
]


@pytest.mark.parametrize("line", S4)
def test_S4_only_listed_syntax(line: str):
    """What is not in the list of syntax is refused, with its line, and never expanded."""
    with pytest.raises(CompileError) as caught:
        from_source(body(line))
    found = caught.value.diagnostic
    assert found.span is not None
    assert found.span.line in (3, 4)


# -- S5: whatever is built prints as text that is read back ---------------------------------------
ODD = ["for", "2x", "a.b c", "", "naïve", "日本", "a\nb", '"', "\\", "\x00", "T", "cls", "f"]
VALUES = [
    *(2**64 - 1, -(2**63), 1.7976931348623157e308, 5e-324, -0.0, True, None, "\r\n\t", "é\ud7ff"),
    *("{x}", "'\"'\"", ("a", (1,)), {"k": {"j": 2.5}}, math.inf, -math.inf, 10**5000),
]


def test_S5_example_names_and_values_that_python_cannot_write():
    """Keywords, names with dots or digits first, extreme numbers and texts come back."""
    for name, value in itertools.product(ODD, VALUES):
        x = Var(name, "int32")
        made = PrimFunc((x,), Evaluate(x), attrs={"global_symbol": name or "f", "k": value})
        again = from_source(made.script())
        assert_structural_equal(made, again)
        assert isinstance(again, PrimFunc)
        assert again.attrs["k"] == value
        assert again.attrs["global_symbol"] == (name or "f")
    for text in ("(n < 3) == (n > 1)", "(n == 1) == (n == 2)", "(n // 2) % 3 - (1 - n)"):
        source = body(f"A[0] = T.int32({text})")
        assert_structural_equal(from_source(read(source).script()), read(source))
    nan = read(body('T.func_attr({"k": T.float32("nan")})', "T.evaluate(n)"))
    assert from_source(nan.script()).script() == nan.script()


@FEW
@given(st.integers(0, 2**32))
def test_S5_property_random_programs_come_back(seed: int):
    """Random modules are read from their print as equal ones, which print the same."""
    made = Maker(seed).module()
    text = made.script()
    again = from_source(text)
    assert_structural_equal(made, again)
    assert again.script() == text


@FEW
@given(st.text(max_size=12), st.text(max_size=12))
def test_S5_property_any_texts_come_back(name: str, value: str):
    """Functions of any name, with any text in an attribute, come back in a module."""
    x, y = Var(name, "float32"), Var(name, "float32")
    func = PrimFunc((x,), Evaluate(x), attrs={"text": value})
    other = PrimFunc((y,), Evaluate(y), attrs={"text": value})
    made = IRModule({GlobalVar(name or "f"): func, GlobalVar("main_"): other})
    assert_structural_equal(from_source(made.script()), made)


def test_S5_negative_a_changed_text_is_another_program():
    """The comparison finds what differs only in a constant, an operator's order or an attribute."""
    source = body('T.func_attr({"k": "v"})', "A[0] = (n - 1) - (n - 2)")
    made = read(source)
    for old, new in [('"v"', '"w"'), ("(n - 2)", "n - 2"), ("- 1", "- 3"), ('"k"', '"j"')]:
        assert old in source
        with pytest.raises(CompileError):
            assert_structural_equal(read(source.replace(old, new)), made)


def test_S6_the_printed_form_is_canonical():
    """What is bound prints as a plain assignment, without a call around it."""
    text = read(body("x = n + 1", "A[0] = x", "A[1] = x")).script()
    assert "x: T.int32 = n + 1" in text or "x = n + 1" in text
    assert "LetStmt" not in text
    assert from_source(text).script() == text


# -- S7: a text is read, never run -----------------------------------------------------------------
PROBES = [
    "T.evaluate(__import__('pathlib').Path({path!r}).write_text('x'))",
    "T.evaluate((lambda: open({path!r}, 'w').write('x'))())",
    "x: (open({path!r}, 'w').write('x')) = n",
    "A[open({path!r}, 'w').write('x')] = 1",
    "assert n, open({path!r}, 'w').write('x')",
    "T.evaluate(f\"{{open({path!r}, 'w').write('x')}}\")",
]


@pytest.mark.parametrize("probe", PROBES)
def test_S7_example_calls_in_a_text_do_nothing(probe: str, tmp_path: Path):
    """Calls that would write a file are refused by name or kind, and the file is not written."""
    path = tmp_path / "touched"
    with pytest.raises(CompileError) as caught:
        from_source(body(probe.format(path=str(path))))
    assert not path.exists()
    assert caught.value.diagnostic.span is not None
    assert caught.value.diagnostic.span.line == 3


NAMES = ["open", "exec", "eval", "__import__", "getattr", "T", "A", "n", "str", "K", "type", "vars"]
ATTRIBUTES = ["__class__", "__dict__", "__init__", "__globals__", "system", "mro", "data", "f_back"]


@FEW
@given(st.sampled_from(NAMES), st.lists(st.sampled_from(ATTRIBUTES), max_size=4), st.booleans())
def test_S7_property_chains_give_a_program_or_a_typed_error(
    name: str, attributes: list[str], called: bool
):
    """Any chain of names and attributes is a program or a mistake with a place; nothing else comes."""
    text = ".".join([name, *attributes]) + ("('x')" if called else "")
    try:
        from_source(body(f"T.evaluate({text})"), values={"K": Traps()})
    except CompileError as error:
        assert error.diagnostic.span is not None
        assert error.diagnostic.span.line == 3


class Traps:
    """A value from around whose every use raises."""

    def __getattr__(self, name: str) -> object:
        raise SystemExit(name)

    def __call__(self, *args: object) -> object:
        raise SystemExit(args)

    def __format__(self, spec: str) -> str:
        raise SystemExit(spec)


@pytest.mark.parametrize(
    "use", ["K", "K.x", "K()", "K[0]", "K + 1", "-K", "f'{K}'", "str(K)", "K == K"]
)
def test_S7_negative_objects_from_around_are_not_used(use: str):
    """An object that is not a value of a program is refused without a call of any of its methods."""
    with pytest.raises(CompileError):
        from_source(body(f"A[0] = {use}"), values={"K": Traps()})
    assert isinstance(from_source(body("A[0] = K"), values={"K": 3}), PrimFunc)


def test_S8_loops_with_else_and_steps():
    """Else on a loop is an error; constant steps but zero are normalised, in both directions."""
    for loop in ("for i in range(4):", "while n > 0:"):
        refused("SCR0002", body(loop, "    break", "else:", "    A[0] = 9"))
    for bounds in ("0, 4, 3", "3, -1, -1", "3, 0, -2", "0, 4, -1", "1, 4, 100"):
        source = body(f"for i in range({bounds}):", "    A[i] = A[0] + i + 1")
        wanted = [0, 0, 0, 0]
        for i in range(*map(int, bounds.split(","))):
            wanted[i] = wanted[0] + i + 1
        assert both(source, zeros(4), 0).tolist() == wanted
    for step in ("0", "n"):
        with pytest.raises(CompileError):
            from_source(body(f"for i in range(0, 4, {step}):", "    A[i] = 1"))


@pytest.mark.parametrize(
    "text", ["n in (1, 2)", "n not in (1,)", "n is 1", "n is not None", "A[0] is n"]
)
def test_S9_in_and_is_on_expressions(text: str):
    """In and is on expressions are errors, also as conditions; on known values they are computed."""
    for line in (f"A[0] = T.int32({text})", f"if {text}: A[0] = 1", f"assert {text}"):
        refused("SCR0009", body(f"{line}  # <--"))
    made = from_source(body("if K in (1, 2) and K is not None:", "    A[0] = 7"), values={"K": 2})
    assert both(made, zeros(4), 0)[0] == 7


def test_S10_names_in_shapes_declare_variables():
    """Names and texts in a shape that nothing declares are int64 variables, one for each name."""
    plain = "@T.prim_func\ndef main(a: T.handle, b: T.handle):\n    A = T.match_buffer(a, (m, n))\n"
    plain += "    B = T.match_buffer(b, (n, m))\n    for i, j in T.grid(m, n):\n        B[j, i] = A[i, j]\n"
    a = np.arange(6, dtype=np.float32).reshape(2, 3)
    assert both(plain, a, zeros(3, 2, dtype="float32")).tolist() == a.T.tolist()
    quoted = plain.replace("(m, n))", '("m", "n"))', 1).replace("(n, m))", '("n", m))')
    assert_structural_equal(from_source(plain), from_source(quoted))
    made = from_source(plain)
    assert isinstance(made, PrimFunc)
    shapes = [e for buffer in made.buffer_map.values() for e in buffer.shape]
    assert {str(e.dtype) for e in shapes} == {"int64"}
    assert len({id(e) for e in shapes}) == 2


def test_S10_texts_in_shapes_name_what_is_the_program_s_own():
    """A value of Python with the name of a text in a shape changes nothing: only bare names take it."""
    kernel = """
        @T.prim_func
        def main(A: T.Buffer(("n", "2 * n"), "float32"), B: T.Buffer((k,), "float32")):
            B[0] = A[0, 1]
    """
    graph = """
        @R.function
        def main(x: R.Tensor(("n", k), "float32")) -> R.Tensor(("n", k), "float32"):
            return R.add(x, x)
    """
    for source in (kernel, graph):
        made = from_source(textwrap.dedent(source), values={"n": 10, "k": 4})
        assert_structural_equal(made, from_source(textwrap.dedent(source.replace("k", "4"))))
        assert made.script().count("n = T.int64()") == 1


def test_S11_names_that_are_assigned_again():
    """A local that is assigned again is a variable, also across iterations; parameters may not be."""
    source = body("x = n", "for i in range(4):", "    x = x + i", "    A[i] = x", "A[0] = x")
    assert both(source, zeros(4), 10).tolist() == [16, 11, 13, 16]
    refused("SCR0016", body("n = 3  # <--"))
    refused("SCR0016", body("for i in range(4):", "    i = 3  # <--"))
    refused("SCR0016", body("n += 1  # <--"))


def test_S12_sources_are_found_in_unusual_places():
    """Programs are read from inside try, from nested functions, and from a lambda's neighbour."""
    try:

        @T.prim_func
        def inner(x: T.int32):
            T.evaluate(x + 1)

    finally:
        pass

    def make(k: int) -> PrimFunc:
        @T.prim_func
        def inner(x: T.int32):
            T.evaluate(x + k)

        return inner

    assert_structural_equal(make(1), inner)
    assert_structural_equal(
        parse("@T.prim_func\ndef inner(x: T.int32):\n    T.evaluate(x + 1)\n"), inner
    )
    with pytest.raises(CompileError):
        assert_structural_equal(make(2), inner)
    names: dict[str, object] = {"T": T}
    code = "def f(x: T.int32):\n    T.evaluate(x)\n"
    exec(compile(code, "<nowhere>", "exec"), names)  # noqa: S102, a function without a source
    with pytest.raises(CompileError) as caught:
        parse(names["f"])
    assert caught.value.diagnostic.code == "SCR0011"


def test_S13_sblock_is_a_block_of_any_axes():
    """A block need not be spatial: one without axes, and one of nothing but a reduction, are read."""
    source = body(
        'with T.sblock("none"):',
        "    A[0] = 100",
        "for i in range(4):",
        '    with T.sblock("all"):',
        "        vi = T.axis.reduce(4, i)",
        "        with T.init():",
        "            A[3] = 0",
        "        A[3] = A[3] + vi",
    )
    assert both(source, zeros(4), 0).tolist() == [100, 0, 0, 6]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("T.sblock", "T.block"),
        ("T.sblock_attr", "T.block_attr"),
        ("T.sblock_alloc_buffer", "T.alloc_buffer"),
        ("T.axis.spatial", "T.axis.S"),
        ("T.axis.reduce", "T.axis.R"),
    ],
)
def test_S14_names_of_both_generations(old: str, new: str):
    """Both generations' names of blocks, axes and dialects make the same program."""
    source = body(
        "for i, j in T.grid(4, 4):",
        '    with T.sblock("b"):',
        "        vi = T.axis.spatial(4, i)",
        "        vj = T.axis.reduce(4, j)",
        '        T.sblock_attr({"k": 1})',
        '        C = T.sblock_alloc_buffer((4,), "int32")',
        "        C[vi] = vj",
        "        A[vi] = C[vi]",
    )
    assert_structural_equal(read(source.replace(f"{old}(", f"{new}(")), read(source))
    tirx = "from tvm.script import tirx as X\n" + source.replace("T.", "X.")
    assert_structural_equal(from_source(tirx), read(source))


@pytest.mark.parametrize("index", ["4", "-1", "2 + 2", "0 - 1", "2**40", "T.int64(4)", "K", "-K"])
def test_S15_constant_indices_are_checked(index: str):
    """A constant index outside of the buffer is an error where it stands; -1 is not the last one."""
    for line in (f"A[{index}] = 1", f"A[0] = A[{index}]", f"if n > 9: A[{index}] += 1"):
        with pytest.raises(CompileError) as caught:
            loomir.compile(from_source(body(line), values={"K": 7}), cache=False)
        found = caught.value.diagnostic
        assert found.code == "SCR0019"
        assert found.span is not None
        assert found.span.line == 3
    assert both(body("A[3] = A[0] + 1"), i32(4, 0, 0, 0), 0)[3] == 5
