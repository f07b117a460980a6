"""One run reports every mistake of a text, in order, and none that follows from another."""

from __future__ import annotations

from random import Random
from typing import Final

import pytest

from tests.script.parser.programs import read, refused

HEAD: Final = (
    '@T.prim_func\ndef f(A: T.Buffer((8, 8), "float32"), x: T.int32, b: T.Buffer((8,), "bool")):\n'
)
# Statements that stand anywhere; {n} makes their names differ.
GOOD: Final = (
    "A[0, 1] = A[1, 0] + T.float32(2)",
    "y{n} = x * 3\nA[1, 1] = T.cast(y{n}, 'float32')",
    "for i{n} in range(8):\n    A[i{n}, 0] = 1.0",
    "for i{n}, j{n} in T.grid(8, 8):\n    if i{n} > j{n}:\n        A[i{n}, j{n}] = 0.0",
    "b[0:4] = b[4:8] or x > 2",
    "s{n} = T.float32(0)\ns{n} = s{n} + A[0, 0]",
    "C{n} = T.alloc_buffer((4,))\nC{n}[0] = A[2, 2]",
    "for v{n} in (1, 2):\n    A[v{n}, 0] = T.float32(v{n})",
    "assert x >= 0, 'x is negative'",
    "T.evaluate(x + 1)",
)
# Each has one mistake: its line within the statement, and its code. What it binds is used on.
BAD: Final = (
    ("u{n} = nothing{n} + 1\nA[0, 0] = u{n}", 0, "SCR0003"),
    ("A[0, 8] = 1.0", 0, "SCR0019"),
    ("A[0] = 1.0", 0, "TIR0107"),
    ("w{n} = T.no_such(x)\nA[0, w{n}] = w{n}", 0, "SCR0004"),
    ("l{n} = lambda: x\nA[l{n}, 0] = l{n}", 0, "SCR0002"),
    ("for k{n}, m{n} in T.grid(8):\n    A[k{n}, 0] = k{n}", 0, "SCR0012"),
    ("with x:\n    break", 0, "SCR0013"),
    ("x = 5", 0, "SCR0016"),
    ("d{n} = T.alloc_buffer((4,), 'flot32')\nd{n}[0] = 1", 0, "TIR0001"),
    ("if A[0, 0]:\n    A[0, 0] = 1.0", 0, "TIR0205"),
    ("while x > 1:\n    A[0, 0] = q{n}", 1, "SCR0003"),
    ("for m{n} in range(4):\n    A[m{n}, 0] = x", 1, "TIR0203"),
    ("z{n} = T.uint32(1) + x\nA[z{n}, 0] = z{n}", 0, "TIR0101"),
    ("a{n}, c{n} = x\nA[a{n}, c{n}] = 1.0", 0, "SCR0027"),
    ("import os{n}\nA[0, os{n}] = 1.0", 0, "SCR0002"),
    ("def g{n}(v):\n    A[0, 0] = v\ng{n}(1)", 0, "SCR0002"),
    ("p{n}, *r{n} = (1, 2)\nA[p{n}, r{n}] = 1.0", 0, "SCR0027"),
)


def program(seed: int) -> tuple[str, list[tuple[int, str]]]:
    """Write a program with two to four mistakes; return their lines and codes too."""
    random = Random(seed)
    parts: list[tuple[str, int, str]] = [(random.choice(GOOD), 0, "") for _ in range(6)]
    for bad in random.sample(BAD, random.randint(2, 4)):
        parts.insert(random.randrange(len(parts) + 1), bad)
    lines = HEAD.rstrip().split("\n")
    wanted: list[tuple[int, str]] = []
    for number, (text, line, code) in enumerate(parts):
        if code:
            wanted.append((len(lines) + line + 1, code))
        lines += [f"    {part}" for part in text.replace("{n}", str(number)).split("\n")]
    return "\n".join(lines) + "\n", wanted


def test_without_its_mistakes_the_program_is_read():
    body = "\n".join(text.replace("{n}", str(n)) for n, text in enumerate(GOOD))
    read(HEAD + "".join(f"    {line}\n" for line in body.split("\n")))


@pytest.mark.parametrize("seed", range(60))
def test_all_mistakes_and_no_others(seed: int):
    text, wanted = program(seed)
    found = [(d.span.line if d.span else 0, d.code) for d in refused(text)]
    assert found == wanted, text


@pytest.mark.parametrize("line", ["a, b = x.int64(), T.int64()", "a = x.int64()", "a = x.y()"])
@pytest.mark.parametrize("at", [0, 1])
def test_a_size_of_an_unknown_name_is_not_left_out(line: str, at: int):
    lines = ["A = T.match_buffer(p, (4,))", "A[0] = 1.0"]
    lines.insert(at, line)
    (found, *_) = refused(
        "@T.prim_func\ndef f(p: T.handle):\n" + "".join(f"    {one}\n" for one in lines)
    )
    assert (found.code, found.message) == ("SCR0003", "'x' is not defined")
