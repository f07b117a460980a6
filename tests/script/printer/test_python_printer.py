from __future__ import annotations

import ast
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loomir.script.printer.doc import (
    AssertDoc,
    AssignDoc,
    CallDoc,
    ClassDoc,
    CommentDoc,
    DictDoc,
    Doc,
    ExprDoc,
    ExprStmtDoc,
    ForDoc,
    FunctionDoc,
    IdDoc,
    IfDoc,
    ListDoc,
    LiteralDoc,
    OperationDoc,
    ReturnDoc,
    ScopeDoc,
    SliceDoc,
    StmtBlockDoc,
    TupleDoc,
    WhileDoc,
)
from loomir.script.printer.python_printer import quote, to_python
from tests.clause import clauses
from tests.growth import assert_grows

A, B, C = IdDoc("a"), IdDoc("b"), IdDoc("c")
ONE = LiteralDoc(1)
PASS: list[ExprStmtDoc] = []


def op(symbol: str, *operands: ExprDoc) -> OperationDoc:
    return OperationDoc(symbol, operands)


@clauses("TS-PRN-01")
@pytest.mark.parametrize(
    ("doc", "text"),
    [
        (IdDoc("T").attr("axis").attr("spatial"), "T.axis.spatial"),
        (A.index((ONE, SliceDoc(B, C))), "a[1, b:c]"),
        (A.index(()), "a[()]"),
        (CallDoc(A, (B, ONE), (("k", C),)), "a(b, 1, k=c)"),
        (A.call(), "a()"),
        (TupleDoc(()), "()"),
        (TupleDoc((A,)), "(a,)"),
        (TupleDoc((A, B)), "(a, b)"),
        (TupleDoc((A, B), bare=True), "a, b"),
        (ListDoc((A, ONE)), "[a, 1]"),
        (DictDoc(((LiteralDoc("k"), A), (LiteralDoc("m"), B))), '{"k": a, "m": b}'),
        (LiteralDoc(None), "None"),
        (LiteralDoc(True), "True"),
        (LiteralDoc(-0.0), "-0.0"),
        (LiteralDoc(2**64 - 1), "18446744073709551615"),
        (LiteralDoc(1.7976931348623157e308), "1.7976931348623157e+308"),
    ],
)
def test_expressions(doc: Doc, text: str):
    assert to_python(doc) == text


@clauses("TS-PRN-03")
def test_an_axis_is_a_call_of_an_attribute():
    axis = CallDoc(IdDoc("T").attr("axis").attr("spatial"), (LiteralDoc(128), IdDoc("i")))
    assert to_python(axis) == "T.axis.spatial(128, i)"


@clauses("TS-PRN-02", "TS-PRN-07")
def test_statements_are_indented():
    inner = [ExprStmtDoc(A), AssignDoc(A, B), AssignDoc(A, ONE, IdDoc("int"))]
    body = [
        ForDoc((A, B), C, [IfDoc([(A, inner), (B, [])], [ReturnDoc(A)])]),
        WhileDoc(A, [AssertDoc(A, LiteralDoc("m"))]),
        ScopeDoc(A.call(), [ScopeDoc(B, [])], C),
        CommentDoc("two\nlines"),
    ]
    func = FunctionDoc("f", [AssignDoc(A, None, B)], body, (C,), IdDoc("r"))
    text = to_python(ClassDoc("K", [func, FunctionDoc("g", [], [])], (A,)))
    assert text == (
        "@a\n"
        "class K:\n"
        "    @c\n"
        "    def f(a: b) -> r:\n"
        "        for a, b in c:\n"
        "            if a:\n"
        "                a\n"
        "                a = b\n"
        "                a: int = 1\n"
        "            elif b:\n"
        "                pass\n"
        "            else:\n"
        "                return a\n"
        "        while a:\n"
        '            assert a, "m"\n'
        "        with a() as c:\n"
        "            with b:\n"
        "                pass\n"
        "        # two\n"
        "        # lines\n"
        "\n"
        "    def g():\n"
        "        pass\n"
    )
    ast.parse(text)


def test_a_body_of_comments_holds_a_statement():
    assert to_python(StmtBlockDoc([CommentDoc("x")])) == "# x\npass\n"
    assert to_python(ClassDoc("K")) == "class K:\n    pass\n"


def test_long_parameter_lists_stand_in_lines():
    many = [AssignDoc(IdDoc(f"parameter_{n}"), None, IdDoc("annotation")) for n in range(6)]
    text = to_python(FunctionDoc("f", many, []))
    assert max(map(len, text.splitlines())) < 40
    assert text.count("\n") == 9
    ast.parse(text)


# -- precedence ------------------------------------------------------------------------------------

BINARY = (
    *("or", "and", "<", "<=", ">", ">=", "==", "!="),
    *("|", "^", "&", "<<", ">>", "+", "-", "*", "/", "//", "%"),
)
NAMES = {
    "Or": "or",
    "And": "and",
    "Lt": "<",
    "LtE": "<=",
    "Gt": ">",
    "GtE": ">=",
    "Eq": "==",
    "NotEq": "!=",
    "BitOr": "|",
    "BitXor": "^",
    "BitAnd": "&",
    "LShift": "<<",
    "RShift": ">>",
    "Add": "+",
    "Sub": "-",
    "Mult": "*",
    "Div": "/",
    "FloorDiv": "//",
    "Mod": "%",
    "Not": "not",
    "USub": "-",
    "Invert": "~",
}


def shape_of(doc: ExprDoc) -> object:
    """The nesting of operators that a document means."""
    if isinstance(doc, OperationDoc):
        return (doc.symbol, *map(shape_of, doc.operands))
    if isinstance(doc, IdDoc):
        return doc.name
    assert isinstance(doc, LiteralDoc)
    if isinstance(doc.value, (int, float)) and doc.value < 0:
        return ("-", -doc.value)
    return doc.value


def read_shape(node: ast.expr) -> object:
    """The nesting that Python reads, operators grouped to the left."""
    if isinstance(node, ast.BinOp):
        return (NAMES[type(node.op).__name__], read_shape(node.left), read_shape(node.right))
    if isinstance(node, ast.UnaryOp):
        return (NAMES[type(node.op).__name__], read_shape(node.operand))
    if isinstance(node, ast.BoolOp):
        made = read_shape(node.values[0])
        for value in node.values[1:]:
            made = (NAMES[type(node.op).__name__], made, read_shape(value))
        return made
    if isinstance(node, ast.Compare):
        (right,), (operator,) = node.comparators, node.ops
        return (NAMES[type(operator).__name__], read_shape(node.left), read_shape(right))
    if isinstance(node, ast.Name):
        return node.id
    assert isinstance(node, ast.Constant)
    return node.value


leaves = st.sampled_from([A, B, LiteralDoc(1), LiteralDoc(-2), LiteralDoc(2.5)])
operations = st.recursive(
    leaves,
    lambda part: st.one_of(
        st.builds(op, st.sampled_from(BINARY), part, part),
        st.builds(op, st.sampled_from(("not", "-", "~")), part),
    ),
    max_leaves=12,
)


@given(operations)
def test_parentheses_keep_the_nesting(doc: ExprDoc):
    text = to_python(doc)
    assert read_shape(ast.parse(text, mode="eval").body) == shape_of(doc)


@pytest.mark.parametrize(
    ("doc", "text"),
    [
        (op("<", op("<", A, B), C), "(a < b) < c"),
        (op("==", A, op("==", B, C)), "a == (b == c)"),
        (op("-", op("-", A, B), C), "a - b - c"),
        (op("-", A, op("-", B, C)), "a - (b - c)"),
        (op("and", op("and", A, B), C), "a and b and c"),
        (op("not", op("==", A, B)), "not a == b"),
        (op("==", op("not", A), B), "(not a) == b"),
        (op("*", LiteralDoc(-1), A), "-1 * a"),
        (op("+", A, B).attr("x"), "(a + b).x"),
    ],
)
def test_parentheses_stand_only_where_needed(doc: ExprDoc, text: str):
    assert to_python(doc) == text


# -- strings ---------------------------------------------------------------------------------------


@given(st.text())
def test_strings_read_back(value: str):
    text = quote(value)
    assert ast.literal_eval(text) == value
    assert len(text.splitlines()) == 1


@given(st.text(st.characters(codec="utf-8")))
def test_strings_survive_a_file(value: str):
    text = quote(value)
    assert text.encode().decode() == text


def test_what_is_readable_stays():
    assert quote("größe 变量 😀 'x'") == "\"größe 变量 😀 'x'\""
    assert quote('a"b\\\n\t\x00\u2028\ud800') == r'"a\"b\\\n\t\x00\u2028\ud800"'


# -- depth -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("right", [False, True])
def test_deep_expressions_take_linear_time(right: bool):
    def printing(size: int) -> Callable[[], None]:
        doc: ExprDoc = A
        for _ in range(size):
            doc = op("+", A, doc) if right else op("+", doc, A)

        def run() -> None:
            assert to_python(doc).count("+") == size

        return run

    assert_grows(30, printing, 10_000, 100_000)
