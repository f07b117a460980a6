"""Texts that try to run something while they are read: none does, each is refused with its line.

Three things watch: a file that must not appear, a function that must not be called, and an audit
hook that hears of whatever Python would execute.
"""

from __future__ import annotations

import ast
import ctypes
import sys
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import loomir.script
from loomir.script import from_source, parse_file
from loomir.support.diagnostics import CompileError
from tests.clause import clauses
from tests.script.parser.programs import HEAD

WRITE = "open('{mark}', 'w').write('x')"

CALLS = [
    WRITE,
    "__import__('os').system('touch {mark}')",
    "__import__('pathlib').Path('{mark}').touch()",
    "__builtins__['open']('{mark}', 'w')",
    "__builtins__.open('{mark}', 'w')",
    "__loader__.load_module('os').system('touch {mark}')",
    "__spec__.loader.exec_module(x)",
    "eval(\"open('{mark}', 'w')\")",
    "exec(\"open('{mark}', 'w')\")",
    "exec(compile(\"open('{mark}', 'w')\", '', 'exec'))",
    "compile('1', '', 'eval')",
    "getattr(T, 'exp')(x)",
    "setattr(T, 'exp', 1)",
    "delattr(T, 'exp')",
    "vars(T)['exp']",
    "dir(T)",
    "globals()['touch']()",
    "locals()['touch']()",
    "type('X', (), {{}})()",
    "type(x)(1)",
    "object.__subclasses__()",
    "super().__init__()",
    "breakpoint()",
    "input()",
    "help()",
    "quit()",
    "print('x', file=open('{mark}', 'w'))",
    "map(touch, (1, 2))",
    "filter(touch, (1, 2))",
    "next(iter((1,)))",
    "iter(touch, 1)",
    "memoryview(b'x')",
    "bytes(3)",
    "bytearray(3)",
    "hash(x)",
    "id(x)",
    "callable(touch)",
    "isinstance(x, object)",
    "os.system('touch {mark}')",
    "sys.modules['os'].system('touch {mark}')",
    "builtins.open('{mark}', 'w')",
    "importlib.import_module('os')",
    "subprocess.run(['touch', '{mark}'])",
    "pickle.loads(b'x')",
    "ctypes.CDLL(None).system(b'touch {mark}')",
    "touch()",
    "touch(*(1, 2))",
    "touch(**{{}})",
    "touch.__call__()",
    "(touch,)[0]()",
    "[touch][0]()",
    "{{'a': touch}}['a']()",
    "(touch if True else touch)()",
    "(touch or touch)()",
    "min((1, 2), key=touch)",
    "max(1, 2, key=touch)",
    "sorted((1, 2), key=touch)",
    "sum((touch(), 1))",
    "any((touch(),))",
    "int.from_bytes(b'x')",
    "str.join('', (touch(),))",
    "tuple.__class__('X', (), {{}})",
    "T.meta_var(touch)()",
    "T.call_packed(touch(), x)",
    "T.call_packed(touch, x)",
    "T.call_extern(touch, x)",
    "T.dtype(touch())",
    "T.cast(x, touch())",
    "T.cast(x, touch)",
    "T.int32(touch)",
    "T.Buffer(touch(), 'int32')",
    "T.evaluate(touch)",
    "T.prim_func(touch)",
    "T.macro(touch)",
    "T.inline(touch)",
    "I.ir_module(touch)",
    "T.exp(*touch())",
    "T.max(x, touch())",
    "A[touch(), 0]",
    "A[touch() : 3, 0]",
    "T.Let(x, where={{touch(): x}})",
    "trap()",
    "trap.method()",
    "trap.prop",
    "trap['x']",
    "trap + 1",
    "1 + trap",
    "-trap",
    "trap == 1",
    "trap < 1",
    "not trap",
    "trap and x",
    "x if trap else x",
    "str(trap)",
    "int(trap)",
    "len(trap)",
    "tuple(trap)",
    "(*trap,)",
    "x + trap",
    "T.max(x, trap)",
    "A[trap, 0]",
    "(1, 2)[trap]",
    "{{trap: 1}}",
]

CHAINS = [
    f"{root}.{chain}"
    for root in ("T", "A", "x", "()", "''", "T.exp", "deep.inner", "deep")
    for chain in (
        "__class__.__mro__[1].__subclasses__()",
        "__class__.__base__.__subclasses__()",
        "__init__.__globals__['__builtins__']['open']('{mark}', 'w')",
        "__reduce_ex__(2)",
        "__dict__['touch']()",
        "__getattribute__('touch')()",
    )
]

F_STRINGS = [
    f'f"{{{{{inner}}}}}"'
    for inner in (
        WRITE,
        "touch()",
        "x.__class__",
        "T.__dict__",
        "trap",
        "trap!r",
        "trap!s:>9",
        "1:{{touch()}}",
        "1:{{trap}}",
        "1:{{'9' * 99999999}}",
        "(lambda: touch())()",
        "[touch() for i in (1,)]",
        "(y := touch())",
        "().__class__.__base__",
    )
] + [
    "'{{0.__class__}}'.format(x)",
    "'{{}}'.format(trap)",
    "'%s' % trap",
    "'%(a)s' % {{'a': trap}}",
    "'a'.join((touch(),))",
    "format(trap, 'x')",
    "''.__class__.format('{{0.__init__.__globals__}}', x)",
    "str('{{0.__class__}}').format_map(deep)",
]

SYNTAX = [
    f"(lambda: {WRITE})()",
    "(lambda touch=touch(): touch)()",
    "[touch() for i in (1, 2)]",
    "{{touch() for i in (1, 2)}}",
    "{{i: touch() for i in (1, 2)}}",
    "sum(touch() for i in (1, 2))",
    "[i for i in touch()]",
    "[i for i in (1,) if touch()]",
    "(y := touch())",
    "(yield touch())",
    "(yield from touch())",
    "(await touch())",
    "{{**touch()}}",
    "[*touch()]",
    "touch() if touch() else touch()",
    "touch() < touch() < touch()",
    "T.max(*touch(), **touch())",
    "b'x'.decode()",
    "...",
    "1j",
]

STATEMENTS = [
    "import os; os.system('touch {mark}')",
    "from os import system; system('touch {mark}')",
    "from os import *",
    "import loomir.script.parser as T",
    "del T",
    "global touch",
    "T.exp = touch",
    "A.data = touch()",
    "deep.inner = touch()",
    "x: touch() = 1",
    "x: 'touch()' = 1",
    "y = z = touch()",
    "y, z = touch()",
    "y, *z = touch()",
    "y += touch()",
    "assert touch()",
    "assert x, touch()",
    "raise touch()",
    "return touch()",
    "for i in touch(): pass",
    "for i in trap: pass",
    "for touch().x in (1, 2): pass",
    "while touch(): pass",
    "while trap: pass",
    "if touch(): pass",
    "if trap: pass",
    "with touch(): pass",
    "with trap: pass",
    "with trap as y: pass",
    "with T.sblock(touch()): pass",
    "try: touch()\n    finally: pass",
    "match touch():\n        case 1: pass",
    "def g(y=touch()): pass",
    "@touch()\n    def g(): pass",
    "@touch\n    def g(): pass",
    "@T.macro(hygienic=touch())\n    def g(): pass",
    "class C(touch()): pass",
    "async def g(): await touch()",
    "T.func_attr({{'k': touch()}})",
    "T.func_attr(touch())",
    "@T.macro\n    def g(): touch()\n    g()",
    "@T.macro\n    def g(y): T.evaluate(y)\n    g(touch())",
    "@T.inline\n    def g(y=touch()): T.evaluate(y)\n    g()",
]

WHOLE = [
    "@touch()\n{head}    pass\n",
    "@touch\n{head}    pass\n",
    "@T.prim_func(private=touch())\ndef f(): pass\n",
    "@T.prim_func\ndef f(x: T.int32 = touch()): pass\n",
    "@T.prim_func\ndef f(x: touch()): pass\n",
    "@T.prim_func\ndef f(x: 'touch()'): pass\n",
    "@T.prim_func\ndef f(x: T.Buffer((touch(),))): pass\n",
    "@T.prim_func\ndef f(x: T.Buffer(('touch()',))): pass\n",
    "@T.prim_func\ndef f() -> touch(): pass\n",
    "@T.prim_func\ndef f(*, x=touch()): pass\n",
    "@(lambda f: touch())\ndef f(): pass\n",
    "@I.ir_module\nclass M(touch()): pass\n",
    "@I.ir_module\nclass M(metaclass=touch()): pass\n",
    "@I.ir_module\nclass M:\n    touch()\n",
    "@I.ir_module\nclass M:\n    x = touch()\n",
    "@I.ir_module\nclass M:\n    I.module_attrs(touch())\n",
    "@I.ir_module\nclass M:\n    @touch()\n    def f(): pass\n",
    "@I.ir_module\n@touch()\nclass M:\n    @T.prim_func\n    def f(): pass\n",
]

EXPRESSIONS = [*CALLS, *CHAINS, *F_STRINGS, *SYNTAX]
EVERYTHING = [*EXPRESSIONS, *STATEMENTS, *WHOLE]


class Heard:
    """What ran."""

    events: list[str] = []
    listening = False


def touch(*args: object, **keywords: object) -> int:
    """Tell that something ran."""
    Heard.events.append("touch")
    return 1


class Trap:
    """A value of which every use tells."""

    def __getattr__(self, name: str) -> Any:
        return touch

    def __call__(self, *args: object) -> int:
        return touch()

    @property
    def prop(self) -> int:
        return touch()

    def __bool__(self) -> bool:
        return bool(touch())

    def __eq__(self, other: object) -> bool:
        return bool(touch())

    def __hash__(self) -> int:
        return touch()

    def __iter__(self) -> Iterator[int]:
        return iter((touch(),))

    def __format__(self, spec: str) -> str:
        return str(touch())

    __getitem__ = __add__ = __radd__ = __lt__ = __gt__ = __index__ = __int__ = __len__ = touch
    __neg__ = __enter__ = __exit__ = touch
    __str__ = __repr__ = lambda self: str(touch())


class Deep:
    """A value whose parts are other values."""

    inner = Trap()


AROUND = {"touch": touch, "trap": Trap(), "deep": Deep()}
RUNS = (
    "exec",
    "os.",
    "subprocess.",
    "ctypes.",
    "shutil.",
    "pickle.",
    "builtins.input",
    "builtins.breakpoint",
)


STACK = (
    "getcontext",
    "pthread_attr_destroy",
    "pthread_attr_getguardsize",
    "pthread_attr_getstack",
    "pthread_attr_init",
    "pthread_attr_setstacksize",
    "pthread_create",
    "pthread_getattr_np",
    "pthread_join",
)
"""The C functions that measure stacks, and run the parser in a thread with a larger one."""


def address_of(name: str) -> int | None:
    found = getattr(ctypes.CDLL(None), name, None)
    return None if found is None else ctypes.cast(found, ctypes.c_void_p).value


HARMLESS = frozenset(map(address_of, STACK))


def is_harmless(event: str, args: tuple[object, ...]) -> bool:
    """Whether a call of C only concerns stacks: from 3.14 on, Python tells of every call."""
    return event == "ctypes.call_function" and args[0] in HARMLESS


def hear(event: str, args: tuple[object, ...]) -> None:
    """Note what Python executes, while a text is read."""
    if Heard.listening and event.startswith(RUNS) and not is_harmless(event, args):
        Heard.events.append(event)


sys.addaudithook(hear)


@contextmanager
def nothing_runs(mark: Path) -> Generator[None]:
    """Check that nothing runs in the body of ``with``."""
    Heard.events.clear()
    Heard.listening = True
    try:
        yield
    finally:
        Heard.listening = False
    assert Heard.events == []
    assert not mark.exists()


READ: dict[str, Callable[[str], object]] = {
    "text": from_source,
    "values": lambda text: from_source(text, values=AROUND),
    "file": parse_file,
}


ast.unparse(ast.parse("1"))  # remedies use it, and Python 3.14 imports it then


def refuse(text: str, mark: Path, how: str) -> None:
    """Read a text; it must be refused, with a place in it."""
    with nothing_runs(mark), pytest.raises(CompileError) as caught:
        READ[how](text)
    count = text.count("\n") + 1
    for found in caught.value.diagnostics:
        assert found.code.startswith(("SCR", "TIR"))
        assert found.help
        assert found.span is not None
        assert 1 <= found.span.line <= count


def test_the_watchers_hear(tmp_path: Path):
    with pytest.raises(AssertionError), nothing_runs(tmp_path / "mark"):
        exec("1")  # noqa: S102, what must be heard
    with pytest.raises(AssertionError), nothing_runs(tmp_path / "mark"):
        str(Trap())
    assert len(set(EVERYTHING)) >= 200


@clauses("TS-OV-01", "TS-FLOW-03")
@pytest.mark.parametrize("how", ["text", "values", "file"])
@pytest.mark.parametrize("probe", EXPRESSIONS)
def test_expressions_run_nothing(probe: str, how: str, tmp_path: Path):
    mark = tmp_path / "mark"
    line = probe.format(mark=mark)
    for program in (
        f"{HEAD}    T.evaluate(T.int32({line}))\n",
        f"{HEAD}    A[0, 0] = {line}\n",
        f"{HEAD}    @T.macro\n    def g(y):\n        T.evaluate(T.int32({line}))\n    g(1)\n",
    ):
        refuse(program, mark, how)


@clauses("TS-OV-01", "TS-FLOW-03")
@pytest.mark.parametrize("probe", EXPRESSIONS)
def test_annotations_run_nothing(probe: str, tmp_path: Path):
    mark = tmp_path / "mark"
    # Without the values from around, a name in a shape would declare a variable (S10).
    for shape in ("({},)", "({}, 4)", "[{}]"):
        text = shape.format(probe.format(mark=mark))
        refuse(f"@T.prim_func\ndef f(z: T.Buffer({text})):\n    pass\n", mark, "values")


@clauses("TS-OV-01", "TS-DEC-08")
@pytest.mark.parametrize("how", ["text", "values", "file"])
@pytest.mark.parametrize("probe", STATEMENTS)
def test_statements_run_nothing(probe: str, how: str, tmp_path: Path):
    mark = tmp_path / "mark"
    refuse(f"{HEAD}    {probe.format(mark=mark)}\n", mark, how)


@clauses("TS-OV-01", "TS-DEC-08")
@pytest.mark.parametrize("how", ["text", "values"])
@pytest.mark.parametrize("probe", WHOLE)
def test_heads_run_nothing(probe: str, how: str, tmp_path: Path):
    refuse(probe.format(head=HEAD.split("\n", 1)[1]), tmp_path / "mark", how)


# -- the source ----------------------------------------------------------------------------------
RUNNERS = {"eval", "exec", "compile", "__import__", "import_module", "globals", "locals", "vars"}
REACHED = {
    # Where a name that is looked up is not a constant: what it is one of.
    ("attributes.py", "_field"): "names of _ATTRIBUTES, written there",
    ("convert.py", "_converted"): "fields that classes of the Doc AST declare",
    ("convert.py", "convert"): "fields that classes of the Doc AST declare",
    ("core.py", "_undefined"): "asked only whether Python has it, for the help",
    ("doc.py", "visit"): "names of classes of the Doc AST",
    ("doc.py", "generic_visit"): "fields that classes of the Doc AST declare",
    ("macros.py", "*"): "fields that bodies stand in, written there",
    ("module_calls.py", "*"): "fields that bodies stand in, written there",
    ("assignments.py", "*"): "fields that bodies stand in, written there",
    ("function.py", "_walk"): "fields that classes of the Doc AST declare",
    ("branches.py", "list_bound"): "fields that bodies stand in, written there",
    ("table.py", "<module>"): "names of __all__",
}


def reaching(file: Path) -> list[tuple[str, str, int]]:
    """List the calls of getattr and its kin with a name that is not a constant."""
    found: list[tuple[str, str, int]] = []
    stack: list[tuple[ast.AST, str]] = [(ast.parse(file.read_text(encoding="utf-8")), "<module>")]
    while stack:
        node, around = stack.pop()
        if isinstance(node, ast.FunctionDef):
            around = node.name
        if isinstance(node, ast.Call):
            called = getattr(node.func, "id", getattr(node.func, "attr", ""))
            if called in RUNNERS and not (called == "compile" and "re" in ast.dump(node.func)):
                found.append((called, around, node.lineno))
            reads = called in ("getattr", "setattr", "delattr", "attrgetter", "hasattr")
            if reads and not isinstance(node.args[min(1, len(node.args) - 1)], ast.Constant):
                found.append((called, around, node.lineno))
        stack += [(child, around) for child in ast.iter_child_nodes(node)]
    return found


@pytest.mark.parametrize("package", ["parser", "builder"])
def test_the_source_reaches_for_listed_names_only(package: str):
    folder = Path(loomir.script.__file__).parent / package
    unlisted = [
        f"{file.name}:{line}: {called} in {around}"
        for file in sorted(folder.rglob("*.py"))
        for called, around, line in reaching(file)
        if not {(file.name, around), (file.name, "*")} & set(REACHED)
    ]
    assert unlisted == []
