# ruff: noqa: N803, N805  (names as in programs)
"""How a text becomes a program: decorators, dispatch, names and scopes."""

# To pyright a call of a decorator is a decorator, and never a frame: see docs/editors.md.
# pyright: reportGeneralTypeIssues=false

from __future__ import annotations

import ast
import copy
from typing import Any

import pytest

from loomir.ir import IRModule, assert_structural_equal
from loomir.script import from_source, parse, tirx
from loomir.script import ir as I
from loomir.script import tir as T
from loomir.script.builder.frame import IRBuilder
from loomir.script.parser import dispatch, doc
from loomir.script.parser.convert import convert, parse_text
from loomir.script.parser.core import Parser
from loomir.script.parser.evaluate.var_table import Entry, VarTable
from loomir.script.printer import docsify, script
from loomir.script.printer.doc import ClassDoc, Doc, StmtBlockDoc
from loomir.script.printer.python_printer import to_python
from loomir.support.diagnostics import CompileError, Diagnostic
from loomir.support.span import Source
from loomir.tir import PrimFunc
from tests.conformance.compare_engines import both, i32, read, refused, zeros

ran: list[str] = []


def touch() -> int:
    """Note that Python called this."""
    ran.append("touched")
    return 1


MODULE = """
@I.ir_module
class Module:
    @T.prim_func
    def main(A: T.Buffer((4,), "int32"), B: T.Buffer((4,), "int32")):
        for i in range(4):
            cls.one(A, B, i)

    @T.prim_func(private=True)
    def one(A: T.Buffer((4,), "int32"), B: T.Buffer((4,), "int32"), i: T.int32):
        if A[i] > 0:
            B[i] = A[i] * 2
        else:
            B[i] = -A[i]
"""


# -- overview ------------------------------------------------------------------------------------
def test_TS_OV_01_source_is_read_not_run():
    """A decorated body is text to the parser: nothing in it is called, not even what would raise."""

    @T.prim_func
    def main(A: T.Buffer((4,), "int32")):
        for i in range(4):  # Python's range would give numbers and the loop would run
            A[i] = i * 2

    assert both(main, zeros(4)).tolist() == [0, 2, 4, 6]
    ran.clear()
    with pytest.raises(CompileError) as caught:

        @T.prim_func
        def other(A: T.Buffer((4,), "int32")):
            A[0] = touch()

    assert caught.value.diagnostic.code == "SCR0007"
    assert ran == []


@pytest.mark.parametrize("how", ["text", "again"])
def test_TS_OV_03_modules_come_back(how: str):
    """What script() prints is read as an equal module, whose text is the same and runs the same."""
    made = read(MODULE)
    again = from_source(made.script())
    if how == "again":
        again = from_source(again.script())
    assert_structural_equal(made, again)
    assert again.script() == made.script()
    assert both(again, i32(3, -4, 0, 7), zeros(4)).tolist() == [6, 4, 0, 14]


def test_TS_OV_04_the_stages_of_reading(monkeypatch: pytest.MonkeyPatch):
    """Text passes Python's parser, then the Doc AST, then handlers, which fill the builder."""
    stages: list[str] = []
    python_parse, visit, enter = ast.parse, Parser.visit, IRBuilder.open

    def watch_parse(*args: Any, **keywords: Any) -> Any:
        stages.append("ast")
        return python_parse(*args, **keywords)

    def watch_visit(self: Parser, node: doc.AST) -> None:
        assert isinstance(node, doc.AST)  # never a node of Python's
        stages.append(type(node).__name__)
        visit(self, node)

    def watch_enter(self: IRBuilder, frame: Any) -> Any:
        stages.append(type(frame).__name__)
        return enter(self, frame)

    monkeypatch.setattr(ast, "parse", watch_parse)
    monkeypatch.setattr(Parser, "visit", watch_visit)
    monkeypatch.setattr(IRBuilder, "open", watch_enter)
    made = from_source("@T.prim_func\ndef f(x: T.int32):\n    y = x\n    T.evaluate(y)\n")
    assert isinstance(made, PrimFunc)
    kept = [s for s in stages if s != "ast"]
    assert stages[0] == "ast"
    assert kept == ["FunctionDef", "Assign", "LetFrame", "Expr"]


def test_TS_OV_05_the_stages_of_printing():
    """A module becomes documents, and text comes only of the documents."""
    made = read(MODULE)
    documents = docsify(made)
    assert isinstance(documents, StmtBlockDoc)
    assert [type(part) for part in documents.statements] == [ClassDoc]
    text = to_python(documents)
    assert isinstance(documents, Doc)
    assert script(made).endswith(text)
    ast.parse(text)  # the text is Python's syntax


def test_TS_OV_06_one_builder_for_all_dialects():
    """Frames of a module and of TIR stand on one stack of one builder."""
    with IRBuilder() as ib, I.ir_module():
        assert [type(f).__name__ for f in ib.frames] == ["IRModuleBuilder"]
        with T.prim_func():
            T.func_name("f")
            with T.serial(0, 4):
                kinds = [type(f).__name__ for f in ib.frames]
                T.evaluate(0)
    assert kinds == ["IRModuleBuilder", "PrimFuncDecorator", "ForFrame"]
    assert isinstance(ib.get(), IRModule)


# -- decorators ----------------------------------------------------------------------------------
@pytest.mark.parametrize("package", ["tvm.script", "loomir.script"])
@pytest.mark.parametrize("name", ["tir", "tirx"])
def test_TS_DEC_01_the_usual_imports(package: str, name: str):
    """I and T are imported from the script package, by either name of the dialect (S14)."""
    head = f"from {package} import ir as I\nfrom {package} import {name} as T\n"
    assert_structural_equal(from_source(head + MODULE), from_source(MODULE))
    other = f"from {package} import ir as J, {name} as K\n"
    text = MODULE.replace("I.", "J.").replace("T.", "K.")
    assert_structural_equal(from_source(other + text), from_source(MODULE))
    assert tirx is T


def test_TS_DEC_02_a_class_becomes_a_module():
    """Each method under @T.prim_func is a function of the module, others are refused."""
    made = read(MODULE)
    assert isinstance(made, IRModule)
    assert [str(name) for name in made] == ["main", "one"]
    refused(
        "SCR0014",
        """
        @I.ir_module
        class Module:
            def main(A: T.Buffer((4,), "int32")):  # <--
                A[0] = 1
        """,
    )


def test_TS_DEC_03_a_function_becomes_a_prim_func():
    """@T.prim_func gives a PrimFunc with the names and types of the text, bare or called."""
    for decorator in ("T.prim_func", "T.prim_func()", "T.prim_func(private=False)"):
        made = from_source(
            f'@{decorator}\ndef f(A: T.Buffer((4, 2), "int8"), n: T.uint8):\n    pass\n'
        )
        assert isinstance(made, PrimFunc)
        assert (made.name, [p.name_hint for p in made.params]) == ("f", ["A_handle", "n"])
        (buffer,) = made.buffer_map.values()
        assert [int(e.value) for e in buffer.shape] == [4, 2]  # type: ignore[union-attr]
        assert (str(buffer.dtype), str(made.params[1].dtype)) == ("int8", "uint8")


@pytest.mark.parametrize("name", ["cls", "Module"])
def test_TS_DEC_06_sibling_functions(name: str):
    """cls, or the name of the class, gives a function of the module, defined before or after (S1)."""
    text = MODULE.replace("cls.", f"{name}.")
    assert both(text, i32(3, -4, 0, 7), zeros(4)).tolist() == [6, 4, 0, 14]
    refused("SCR0023", MODULE.replace("cls.one(A, B, i)", f"{name}.two(A, B, i)  # <--"))


def test_TS_DEC_08_the_class_body_is_not_run():
    """The decorator hands the class to parse(), which reads the source: no method is ever called."""
    ran.clear()

    @I.ir_module
    class Module:
        @T.prim_func
        def main(A: T.Buffer((4,), "int32"), n: T.int32):
            for i in range(n):
                A[i] = A[i] // 2

    assert isinstance(Module, IRModule)
    assert both(Module, i32(8, 7, -7, 5), 3).tolist() == [4, 3, -4, 5]

    class Plain:
        @T.prim_func
        def main(A: T.Buffer((4,), "int32"), n: T.int32):
            for i in range(n):
                A[i] = A[i] // 2

    assert_structural_equal(parse(Plain), Module)
    assert ran == []


# -- dispatch ------------------------------------------------------------------------------------
def watched(text: str, monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, list[str]]]:
    """Read a text; return each node's kind with the tokens at its visit."""
    seen: list[tuple[str, list[str]]] = []
    visit = Parser.visit

    def watch(self: Parser, node: doc.AST) -> None:
        seen.append((type(node).__name__, list(self.tokens)))
        visit(self, node)

    monkeypatch.setattr(Parser, "visit", watch)
    from_source(text)
    return seen


def test_TS_DISP_01_the_stack_starts_with_default(monkeypatch: pytest.MonkeyPatch):
    """A new parser's tokens are ["default"]; the text itself is visited under it."""
    assert Parser().tokens == ["default"]
    seen = watched(MODULE, monkeypatch)
    assert seen[0] == ("ClassDef", ["default"])


def test_TS_DISP_02_functions_push_their_dialect(monkeypatch: pytest.MonkeyPatch):
    """@T.prim_func pushes "tirx" for its body, and pops it also where the body is refused."""
    seen = watched(MODULE, monkeypatch)
    bodies = [tokens for kind, tokens in seen if kind in ("For", "If", "Assign")]
    assert bodies
    assert all(tokens[0] == "default" and tokens[-1] == "tirx" for tokens in bodies)
    parser = Parser()
    with pytest.raises(RuntimeError), parser.dialect("tirx"):
        raise RuntimeError
    assert parser.tokens == ["default"]


def test_TS_DISP_03_the_order_of_lookup(monkeypatch: pytest.MonkeyPatch):
    """First the token's handler, then that of "default", then the generic visit."""
    monkeypatch.setattr(dispatch, "_TABLE", {})
    asked: list[str] = []
    parser = Parser()
    node = doc.Pass(parse_place())
    monkeypatch.setattr(Parser, "generic_visit", lambda self, node: asked.append("generic"))
    with parser.dialect("mine"):
        parser.visit(node)
        dispatch.register("default", "Pass")(lambda parser, node: asked.append("default"))
        parser.visit(node)
        dispatch.register("mine", "Pass")(lambda parser, node: asked.append("mine"))
        parser.visit(node)
    parser.visit(node)
    assert asked == ["generic", "default", "mine", "default"]


def parse_place() -> Any:
    source = Source("x", "pass\n")
    tree, places = parse_text(source)
    problems: list[Diagnostic] = []
    made: Any = convert(tree, places, problems)
    return made.body[0].span


def test_TS_DISP_04_handlers_are_registered(monkeypatch: pytest.MonkeyPatch):
    """dispatch.register(token, type) adds a handler, which then reads programs."""
    monkeypatch.setattr(dispatch, "_TABLE", dict(dispatch._TABLE))
    known = dispatch._TABLE.pop(("tirx", "Pass"), None) or dispatch._TABLE.pop(("default", "Pass"))
    found: list[object] = []

    @dispatch.register("tirx", "Pass")
    def read_pass(parser: Parser, node: doc.Pass) -> None:
        found.append(node)
        known(parser, node)

    assert dispatch.get("tirx", "Pass") is read_pass
    from_source("@T.prim_func\ndef f():\n    pass\n")
    assert len(found) == 1


# -- the flow of reading -------------------------------------------------------------------------
def test_TS_FLOW_01_texts_functions_and_classes():
    """parse() takes a text, a function or a class, with further names, and nothing else (S12)."""
    text = "@T.prim_func\ndef f(x: T.int32):\n    T.evaluate(x + K)\n"

    def f(x: T.int32):
        T.evaluate(x + K)  # noqa: F821, given to parse

    given = {"K": 3}
    assert_structural_equal(parse(text, given), parse(f, given))
    with pytest.raises(CompileError) as caught:
        parse(f)
    assert caught.value.diagnostic.code == "SCR0003"
    for bad in (3, None, ["x"], ast.parse(text)):
        with pytest.raises(CompileError) as caught:
            parse(bad)
        assert caught.value.diagnostic.code == "SCR0014"


def test_TS_FLOW_02_the_parser_visits_the_doc_ast(monkeypatch: pytest.MonkeyPatch):
    """Parser is a NodeVisitor; it sees every statement of a text once, in order."""
    assert issubclass(Parser, doc.NodeVisitor)
    seen = [kind for kind, _ in watched(MODULE, monkeypatch)]
    assert seen.count("For") == seen.count("If") == 1
    assert seen.count("Assign") == 2
    assert seen.index("For") < seen.index("If") < seen.index("Assign")


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("A[0] = len('four')", None),
        ("A[0] = T.min(x, K)", None),
        ("A[0] = open('x')", "SCR0003"),
        ("A[0] = T.__dict__", "SCR0004"),
        ("A[0] = touch()", "SCR0003"),
        ("A[0] = T.nothing(x)", "SCR0004"),
        ("A[0] = A.__class__", "SCR0006"),
    ],
)
def test_TS_FLOW_03_names_are_looked_up(line: str, code: str | None):
    """Names are those of the table, of T and I, and of values; nothing else is reached (S7)."""
    text = f'@T.prim_func\ndef f(A: T.Buffer((4,), "int32"), x: T.int32):\n    {line}\n'
    if code is None:
        assert isinstance(from_source(text, values={"K": 3}), PrimFunc)
        return
    with pytest.raises(CompileError) as caught:
        from_source(text, values={"K": 3})
    (found,) = caught.value.diagnostics
    assert found.code == code
    assert found.span is not None
    assert found.span.line == 3


def test_TS_FLOW_04_assignments_bind_names():
    """A value that is assigned gets the name in the program: a let, a buffer or an alias."""
    source = """
        @T.prim_func
        def main(a: T.handle, n: T.int32):
            A = T.match_buffer(a, (4,), "int32")
            B = T.alloc_buffer((4,), "int32")
            C = A
            total = n * 2
            for i in range(4):
                B[i] = C[i] + total
            for i in range(4):
                A[3 - i] = B[i]
    """
    assert both(source, i32(1, 2, 3, 4), 5).tolist() == [14, 13, 12, 11]
    text = read(source).script()
    assert "C = " not in text  # another name of a buffer is not a statement
    assert "total: T.int32 = n * 2" in text or "total = n * 2" in text


SCOPES = """
@T.prim_func
def f(A: T.Buffer((8,), "int32"), x: T.int32):
    for i in range(8):
        y = i + 1
        A[i] = y
    with T.LetStmt(x) as z:
        A[0] = z
    if x > 0:
        w = x + 1
        A[0] = w
    A[0] = {}
"""


@pytest.mark.parametrize("name", ["i", "y", "z", "w"])
def test_TS_FLOW_05_scopes_of_bodies(name: str):
    """Names of a for, with or if body are unknown after it, and the mistake says so."""
    assert isinstance(from_source(SCOPES.format("x")), PrimFunc)
    found = refused("SCR0003", SCOPES.format(f"{name}  # <--"))
    assert found.label.endswith("has ended")


def test_TS_FLOW_06_the_table_has_frames_and_stacks():
    """The table is a stack of frames and, for each name, a stack of meanings."""
    table = VarTable()
    assert (table.frames, table.name2value) == ([], {})
    with table.frame() as outer, table.frame() as inner:
        table.add("x", Entry(1, "value"))
        table.add_to(outer, "x", Entry(2, "value"))
        assert table.frames == [outer, inner]
        assert [entry.value for entry in table.name2value["x"]] == [1, 2]
        assert (outer.names, inner.names) == (["x"], ["x"])


def test_TS_FLOW_07_the_latest_binding_wins():
    """A name that is bound again means the later, until that scope ends."""
    source = """
        @T.prim_func
        def main(A: T.Buffer((4,), "int32")):
            with T.LetStmt(T.int32(1)) as z:
                A[0] = z
                with T.LetStmt(z + 10) as z:
                    A[1] = z
                A[2] = z
            for z in range(3, 4):
                A[z] = z
    """
    assert both(source, zeros(4)).tolist() == [1, 11, 1, 3]
    table = VarTable()
    with table.frame():
        for value in range(5):
            table.add("x", Entry(value, "value"))
            assert table.get("x") == Entry(value, "value")


def test_TS_FLOW_08_a_frame_takes_its_names_along():
    """Popping a frame, also by an error, uncovers what its names meant before."""
    table = VarTable()
    with table.frame():
        table.add("x", Entry(1, "value"))
        before = copy.deepcopy(table.name2value)
        with pytest.raises(RuntimeError), table.frame():  # noqa: PT012, all of it in the frame
            for value in (2, 3):
                table.add("x", Entry(value, "value"))
                table.add("y", Entry(value, "value"))
            raise RuntimeError
        assert {name: stack for name, stack in table.name2value.items() if stack} == before
        assert table.get("y") is None
    assert list(table.names()) == []
