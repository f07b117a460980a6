"""Programs' texts with something wrong in them: bytes, words, lines, and parts of the syntax tree."""

from __future__ import annotations

import ast
import copy
import inspect
import io
import tokenize
from pathlib import Path
from random import Random
from typing import Any, Final

from loomir.script import tir
from loomir.script.builder.tir.table import AXIS
from tests.script.printer.odd_program import CHARACTERS, WORDS, OddMaker
from tests.script.printer.random_program import Maker

__all__ = ["corpus", "mutate", "odd_call"]

ROOT: Final = Path(__file__).parents[2]
PIECES: Final = (
    *("(", ")", "[", "]", "{", "}", ":", ",", ".", "=", "==", "+", "*", "**", "//", "%", "@", "->"),
    *(
        "\n",
        "    ",
        "\t",
        "\\\n",
        "#",
        '"',
        "'",
        '"""',
        "f'",
        "0x",
        "1e999",
        "0",
        "-1",
        "10**9",
        "1j",
    ),
    *("for", "if", "else:", "while", "def", "class", "with", "as", "in", "is", "not", "and", "or"),
    *(
        "lambda: 0",
        "yield",
        "await x",
        "return",
        "return 1",
        "break",
        "pass",
        "None",
        "True",
        "...",
    ),
    *("[i for i in x]", "*x", "**x", "x := 1", "f'{x}'", "b'x'", "T", "I", "R", "cls", "T.axis"),
    *("T.macro", "T.inline", "T.sblock('b')", "T.init()", "T.grid(2, 3)", "T.float32", "T.handle"),
    *("T.int8(300)", "T.Buffer((2,), 'int8')", "A", "A[0]", "A[0:4]", "A.data", "x.dtype", "print"),
)
HAND_WRITTEN: Final = (
    """@T.macro
def put(B, i, v=1.0):
    B[i] = v


@T.prim_func
def f(a: T.handle, x: T.int32, b: T.Buffer((4, "n"), "float32")) -> T.int32:
    A = T.match_buffer(a, (n, 8), "float32", strides=(s, 1), elem_offset=o)
    T.func_attr({"k": [1, (2.5, None)], "d": {"e": True}})
    y: T.float32 = T.exp(A[0, x])
    acc = T.float32(0)
    for i, k in T.grid(4, n):
        with T.sblock("step"):
            vi, vk = T.axis.remap("SR", [i, k])
            T.where(vi < 3 and vk != x)
            T.reads(A[vk, 0:8])
            T.writes(b[vi, 0:n])
            with T.init():
                b[vi, vk] = 0.0
            b[vi, vk] += A[vk, vi] * y
    for v in (1, 2):
        put(b, v, v=A[0, 1])
    while acc < 3.0:
        acc = acc + 1.0
        if x > 2:
            break
        elif x in (1, 2) if False else False:
            continue
    assert x >= 0, f"no {'x'}"
    b[1, T.Ramp(0, 1, 4)] = T.Select(b[0, 0:4] > T.Broadcast(y, 4), b[2, 0:4], T.float32x4(2))
    return x // 3
""",
    """from loomir.script import ir as I, tir as T

N = 16


@I.ir_module
class M:
    I.module_attrs({"name": "m"})

    @T.prim_func(private=True)
    def g(p: T.handle("float32"), n: T.int64) -> T.float32:
        B = T.decl_buffer((N,), "float32", data=p)
        return B[n]

    @T.prim_func
    def main(A: T.Buffer((N,), "float32"), n: T.int64):
        C = T.alloc_buffer((N,), "float32")
        for i in T.parallel(0, N, annotations={"k": 1}):
            C[i] = cls.g(A, n) + T.if_then_else(n > 3, A[i], -A[i])
        with T.LetStmt(n + 1) as m:
            T.evaluate(T.call_extern("int32", "f", m))
        with T.launch_thread("threadIdx.x", 4) as t:
            A[t] = C[t]
""",
)


def corpus() -> list[str]:
    """List the texts that are changed."""
    examples = [p.read_text(encoding="utf-8") for p in sorted((ROOT / "examples").glob("*.py"))]
    made = [Maker(seed).module().script() for seed in range(8)]
    made += [OddMaker(seed).func(depth=2).script() for seed in range(8)]
    return [*HAND_WRITTEN * 6, *examples, *(text for text in made if len(text) < 6000)]


def mutate(text: str, random: Random) -> str:
    """Change a text in one to three places."""
    for _ in range(random.choice((1, 1, 2, 3))):
        text = random.choice(WAYS)(text, random)
    return text


VALUES: Final = (
    *("1", "-1", "0", "8", "2.5", "True", "None", '"a"', '""', '"int8"', '"n * 2"', '"float32x4"'),
    *("()", "(1, 2)", "[]", "[i]", "[1, x]", "(x, None)", '{"k": 1}', "{x: 1}", "{}", '("n", 4)'),
    *("A", "A[i]", "A[0:4]", "A[i:i + 4]", "A.data", "A.shape", "A.scope", "A.scope()", "b", "h"),
    *("x", "i", "x + 1", "x > 0", "T", "T.axis", "T.float32", "T.int8()", "T.handle()", "T.void"),
    *(
        "T.grid(2, 3)",
        "T.sblock('b')",
        "T.init()",
        "T.range",
        "T.Buffer((2,), 'int8')",
        "T.float32(2)",
    ),
    *(
        "T.alloc_buffer((4,))",
        "T.meta_var(x)",
        "T.Range(0, 4)",
        "T.int32x4(1)",
        "T.bool(True)",
        "m",
    ),
    *(
        "T.LetStmt(x)",
        "T.allocate([4], 'int8')",
        "slice",
        "range(3)",
        "len",
        "f",
        "T.macro",
        "I",
        "R",
    ),
    *("T.StringImm('a')", "1 << 900", "-0.0", "float('nan')", "float('inf')", "x.dtype", "*(1, x)"),
)
CALLED: Final = (*tir.__all__, *(f"axis.{name}" for name in AXIS))
SHAPES: Final = (
    *(
        "{}",
        "{}",
        "{}",
        "y = {}",
        "A[i] = {}",
        "A[{}] = 1.0",
        "{}[0] = 1",
        "y: {} = 1",
        "y = z = {}",
    ),
    *("with {}:\n    A[i] = 1.0", "with {} as y:\n    A[i] = 1.0", "for j in {}:\n    A[j] = 1.0"),
    *("for j, k in {}:\n    A[j] = 1.0", "if {}:\n    A[i] = 1.0", "while {}:\n    A[i] = 1.0"),
    *("return {}", "assert {}", "assert x > 0, {}", "y, z = {}", "y = {}\ny = {}", "b[{}] += 1"),
    *("T.evaluate({})", "T.reads({})", "T.func_attr({})", "@{}\ndef g(y):\n    A[0] = y\ng(1.0)"),
)


def odd_call(random: Random) -> str:
    """Write a program in which a name of ``T`` is given odd arguments."""
    pad = "        "
    head = (
        '@T.prim_func\ndef f(A: T.Buffer((8,), "float32"), b: T.Buffer((n,), "bool"), h: T.handle, '
        "x: T.int32):\n    @T.macro\n    def m(v):\n        A[0] = v\n    for i in range(8):\n"
    )
    if random.randrange(2):
        head, pad = f'{head}        with T.sblock("blk"):\n', "            "
    if not random.randrange(8):
        return f"@T.prim_func\ndef f(x: {_odd(random, 2)}, A: T.Buffer((8,))):\n    A[0] = x\n"
    shape = random.choice(SHAPES)
    body = shape.format(*[_odd(random, 2) for _ in range(shape.count("{}"))])
    return head + "".join(f"{pad}{line}\n" for line in body.split("\n"))


def _odd(random: Random, depth: int) -> str:
    if not depth or not random.randrange(3):
        return random.choice(VALUES)
    name = random.choice(CALLED)
    given = [_odd(random, depth - 1) for _ in range(random.choice((0, 1, 1, 2, 2, 3, 4)))]
    words = _keywords(name)
    named = {w: _odd(random, depth - 1) for w in random.choices(words, k=random.randrange(3)) if w}
    return f"T.{name}({', '.join([*given, *(f'{w}={v}' for w, v in named.items())])})"


def _keywords(name: str) -> list[str]:
    try:
        target = getattr(tir.axis, name[5:]) if name.startswith("axis.") else getattr(tir, name)
        return [p for p in inspect.signature(target).parameters if p != "args"] or [""]
    except (TypeError, ValueError):
        return [""]


def _character(text: str, random: Random) -> str:
    at = random.randrange(len(text) + 1)
    new = random.choice(("", random.choice(CHARACTERS), chr(random.randrange(128))))
    return text[:at] + new + text[at + random.randrange(2) :]


def _piece(text: str, random: Random) -> str:
    at = random.randrange(len(text) + 1)
    return text[:at] + random.choice(PIECES) + text[at:]


def _line(text: str, random: Random) -> str:
    lines = text.split("\n")
    at = random.randrange(len(lines))
    kind = random.randrange(5)
    if kind == 0:
        del lines[at]
    elif kind == 1:
        lines.insert(at, random.choice(lines))
    elif kind == 2:
        lines[at] = "    " + lines[at]
    elif kind == 3:
        lines[at] = lines[at].removeprefix("    ")
    else:
        other = random.randrange(len(lines))
        lines[at], lines[other] = lines[other], lines[at]
    return "\n".join(lines)


def _token(text: str, random: Random) -> str:
    try:
        tokens = list(tokenize.generate_tokens(io.StringIO(text).readline))
    except (tokenize.TokenError, SyntaxError):
        return _character(text, random)
    usable = [t for t in tokens if t.string.strip()]
    if not usable:
        return _piece(text, random)
    token = random.choice(usable)
    other = random.choice(usable).string
    new = random.choice(("", other, random.choice(PIECES), random.choice(WORDS), "0", "x"))
    lines = text.split("\n")
    (row, start), (end_row, end) = token.start, token.end
    if row != end_row or row > len(lines):
        return _piece(text, random)
    line = lines[row - 1]
    lines[row - 1] = line[:start] + new + line[end:]
    return "\n".join(lines)


def _tree(text: str, random: Random) -> str:
    """Put a part of the program's syntax tree in the place of another."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        return _character(text, random)
    kinds: tuple[type[Any], ...] = random.choice(((ast.expr,), (ast.stmt,)))
    nodes = [node for node in ast.walk(tree) if isinstance(node, kinds)]
    if len(nodes) < 2:
        return _piece(text, random)
    target, source = random.choice(nodes), copy.deepcopy(random.choice(nodes))
    for parent in ast.walk(tree):
        for name, value in ast.iter_fields(parent):
            if value is target:
                setattr(parent, name, source)
            elif isinstance(value, list):
                items: list[Any] = value
                for index, item in enumerate(items):
                    if item is target:
                        items[index] = source
    try:
        return ast.unparse(tree)
    except (RecursionError, ValueError, TypeError, AttributeError):
        return _piece(text, random)


WAYS: Final = (_character, _piece, _line, _token, *(_tree,) * 4)
