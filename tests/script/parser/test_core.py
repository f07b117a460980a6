"""The parser's machinery: dispatch, names and scopes, the Doc AST and its places."""

from __future__ import annotations

import ast
import contextlib
from typing import Any

import pytest

from loomir.script import IRBuilder, from_source
from loomir.script.parser import dispatch, doc
from loomir.script.parser.convert import convert, parse_text
from loomir.script.parser.core import Parser
from loomir.script.parser.evaluate.var_table import Entry, VarTable
from loomir.support.diagnostics import CompileError, Diagnostic, InternalError
from loomir.support.span import Source, Span
from tests.clause import clauses


# -- dispatch ----------------------------------------------------------------------------------
@clauses("TS-DISP-01", "TS-DISP-02")
def test_the_token_of_a_function_is_its_dialect_s(monkeypatch: pytest.MonkeyPatch):
    assert Parser().tokens == ["default"]
    seen: list[list[str]] = []
    visit = Parser.visit

    def watch(self: Parser, node: doc.AST) -> None:
        if isinstance(node, (doc.Expr, doc.FunctionDef)):
            seen.append(list(self.tokens))
        visit(self, node)

    monkeypatch.setattr(Parser, "visit", watch)
    from_source("@T.prim_func\ndef f():\n    T.evaluate(1)\n")
    assert seen == [["default"], ["default", "tirx"]]


@clauses("TS-DISP-03")
def test_the_dialect_s_handler_wins_then_the_default_then_the_generic_visit():
    own, default = dispatch.get("tirx", "Assign"), dispatch.get("default", "Assign")
    assert own is not None
    assert default is not None
    assert own is not default
    assert dispatch.get("tirx", "Module") is dispatch.get("default", "Module")
    assert dispatch.get("default", "While") is None
    parser = Parser()
    span = Span(Source("x", "x"), 1, 1, 1, 2)
    with pytest.raises(CompileError) as caught:
        parser.visit(doc.While(span, doc.Name(span, "x"), [], []))
    assert caught.value.diagnostic.message == "while is not allowed here"


@clauses("TS-DISP-04")
def test_handlers_are_registered_once(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(dispatch, "_TABLE", dict(dispatch._TABLE))

    @dispatch.register("dialect", "Pass")
    def handler(parser: Parser, node: doc.Pass) -> None:
        raise CompileError(Diagnostic("SCR0002", "handled"))

    assert dispatch.get("dialect", "Pass") is handler
    with pytest.raises(InternalError):
        dispatch.register("dialect", "Pass")(handler)
    parser = Parser()
    span = Span(Source("x", "x"), 1, 1, 1, 2)
    with parser.dialect("dialect"), pytest.raises(CompileError, match="handled"):
        parser.visit(doc.Pass(span))
    assert parser.token == "default"


@clauses("TS-FLOW-02")
def test_the_parser_visits_the_doc_ast():
    assert issubclass(Parser, doc.NodeVisitor)
    places: list[str] = []

    class Names(doc.NodeVisitor):
        def visit_Name(self, node: doc.Name) -> None:  # noqa: N802, the name of the class
            places.append(node.id)

    Names().visit(mirror("a + b[c](d, e=f)\n"))
    assert places == ["a", "b", "c", "d", "f"]


# -- names -------------------------------------------------------------------------------------
@clauses("TS-FLOW-05", "TS-FLOW-06", "TS-FLOW-07", "TS-FLOW-08")
def test_names_stack_up_and_end_with_their_scope():
    table = VarTable()
    with table.frame() as outer:
        table.add("x", Entry(1, "value"))
        assert list(table.name2value) == ["x"]
        with table.frame():
            table.add("x", Entry(2, "value"))
            table.add("y", Entry(3, "value"))
            table.add_to(outer, "z", Entry(4, "value"))
            assert [table.get(n).value for n in "xyz"] == [2, 3, 4]  # type: ignore[union-attr]
            assert len(table.frames) == 2
        assert table.get("x") == Entry(1, "value")
        assert table.get("y") is None
        assert table.get("z") == Entry(4, "value")
        assert sorted(table.names()) == ["x", "z"]
    assert table.frames == []
    assert table.get("x") is None
    assert table.was_defined("y") == Entry(3, "value")


@clauses("TS-FLOW-05")
def test_scopes_of_a_program():
    text = """
@T.prim_func
def f(A: T.Buffer((8,), "int32"), x: T.int32):
    for i in range(8):
        y = i
        A[i] = y
    with T.LetStmt(x) as z:
        A[0] = z
    if x > 0:
        w = x
        A[0] = w
    {}
"""
    for name in "iyzw":
        with pytest.raises(CompileError) as caught:
            from_source(text.format(f"A[0] = {name}"))
        assert [d.code for d in caught.value.diagnostics] == ["SCR0003"]


# -- the Doc AST -------------------------------------------------------------------------------
def mirror(text: str) -> Any:
    tree, places = parse_text(Source("file.py", text, 1))
    problems: list[Diagnostic] = []
    made = convert(tree, places, problems)
    assert problems == []
    return made


EXAMPLES = [
    "x = y = 1\n",
    "x += a.b[c, 1:2:3]\n",
    "x: T.int32 = -1\n",
    "for i, j in T.grid(1, 2):\n    pass\n",
    "while a and b or not c:\n    break\n",
    "if a < b <= c:\n    continue\nelse:\n    return x\n",
    "with a as b, c:\n    assert x, 'm'\n",
    "f(a, b=[1, (2, 3)], c={'k': None})\n",
    "@T.prim_func(private=True)\ndef f(a: T.handle, *, b=1) -> T.int32:\n    x if y else z\n",
    "@I.ir_module\nclass M(B, k=1):\n    '''doc'''\n",
    "import a.b as c\nfrom d import e\n",
]


@clauses("TS-OV-04")
@pytest.mark.parametrize("text", EXAMPLES)
def test_the_doc_ast_mirrors_python_s(text: str):
    def same(node: Any, made: Any) -> None:
        if isinstance(node, list):
            assert len(node) == len(made)
            for a, b in zip(node, made, strict=True):
                same(a, b)
        elif isinstance(node, ast.AST) and not isinstance(made, str):
            assert type(node).__name__ == type(made).__name__
            if hasattr(node, "lineno"):
                s = made.span
                assert (s.line, s.column) == (node.lineno, node.col_offset + 1)
                assert (s.end_line, s.end_column) == (node.end_lineno, node.end_col_offset + 1)
            for field in doc.FIELDS[type(made).__name__]:
                same(getattr(node, field), getattr(made, field))
        elif not isinstance(node, ast.AST):
            assert node == made

    same(ast.parse(text), mirror(text))


def test_places_count_characters():
    (statement,) = mirror('é = "日本" + x\n').body
    name = statement.value.right
    assert (name.id, name.span.column, name.span.end_column) == ("x", 12, 13)


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_places_with_other_line_ends(end: str):
    first, second = mirror(f"a = 1{end}é = y{end}").body
    assert (first.span.line, second.value.span.line, second.value.span.column) == (1, 2, 5)


def test_a_form_feed_does_not_end_a_line():
    _, second = mirror("a = 1\n\x0cb = é\n").body
    assert (second.span.line, second.targets[0].id) == (2, "b")


def test_a_refused_part_leaves_the_rest():
    tree, places = parse_text(Source("file.py", "x = (lambda: 1) + y\n"))
    problems: list[Diagnostic] = []
    made: Any = convert(tree, places, problems)
    assert [p.code for p in problems] == ["SCR0002"]
    assert made.body[0].value.right.id == "y"


def test_reading_leaves_no_builder_behind():
    for text in ("@T.prim_func\ndef f():\n    A[0] = 1\n", "@T.prim_func\ndef f():\n    pass\n"):
        with contextlib.suppress(CompileError):
            from_source(text)
        assert IRBuilder.active() is None
