"""Random texts: the parser against the grammar, native code against the interpreter, mutations."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from loomir.interp import interpret
from loomir.support.diagnostics import CompileError, RunError
from loomir.support.dtype import numpy_of
from loomir.tc import define
from loomir.tc.fmt import fmt
from loomir.tc.parse import parse
from loomir.tc.syntax import Assignment, Expr, Number, Program, RangeIn, walk
from tests.codegen.llvm.tir.compare_engines import same
from tests.tc.generate import Made, Programs, Text

EXAMPLES = sorted((Path(__file__).parents[2] / "examples" / "tc").glob("*.tc"))


def flat(program: Program) -> Iterator[object]:
    """List all that a tree holds, without places."""
    for function in program.functions:
        yield "def", function.name.name, [i.name for i in function.returns]
        for param in function.params:
            sizes = None if param.sizes is None else [i.name for i in param.sizes]
            yield param.type.name, sizes, param.name.name
        for statement in function.body:
            if not isinstance(statement, Assignment):
                names = (*statement.targets, statement.callee, *statement.args)
                yield "call", len(statement.targets), [i.name for i in names]
                continue
            yield statement.target.name, [i.name for i in statement.indices], statement.op
            yield from expression(statement.value)
            for part in statement.where:
                if isinstance(part, RangeIn):
                    yield "in", part.index.name
                    yield from expression(part.start)
                    yield from expression(part.stop)
                else:
                    yield "exists"
                    yield from expression(part.access)


def expression(root: Expr) -> Iterator[object]:
    for expr in walk(root):
        facts = [getattr(expr, n, None) for n in ("name", "axis", "op")]
        count = len(getattr(expr, "args", ()))
        yield type(expr).__name__, facts, count, expr.text if isinstance(expr, Number) else ""


@pytest.mark.parametrize("share", range(4))
def test_what_the_grammar_derives_is_read_and_written(share: int):
    for seed in range(share * 150, share * 150 + 150):
        text = Text(seed).program()
        tree = parse(text)
        written = fmt(tree)
        again = parse(written)
        assert list(flat(again)) == list(flat(tree)), text
        assert fmt(again) == written
        assert len(again.comments) == len(tree.comments)


def arrays(made: Made, rng: np.random.Generator) -> list[np.ndarray]:
    sizes = {name: int(rng.integers(0, 6)) for name in ("N", "M", "K")}
    kinds = {"float": "float32", "double": "float64"}
    return [
        rng.integers(-3, 4, [sizes[a] for a in axes]).astype(kinds.get(kind, kind))
        for kind, axes in made.params
    ]


@pytest.mark.parametrize("share", range(6))
def test_random_programs_run_as_the_interpreter_does(share: int):
    """The interpreter refuses each access outside, so that this holds the ranges to be right."""
    ran = 0
    for seed in range(share * 40, share * 40 + 40):
        made = Programs(seed).make()
        try:
            tc = define(made.text, cache=False, opt_level=int(seed % 4 == 0))
        except CompileError as error:
            codes = {d.code for d in error.diagnostics}
            assert codes <= {"TC0301", "TC0302", "TC0303", "TC0114", "TC0115", "TC0104"}, error
            continue
        rng = np.random.default_rng(seed)
        for _ in range(4):
            ran += agree(tc, arrays(made, rng), made.text)
    assert ran > 10


def agree(tc: object, inputs: list[np.ndarray], text: str) -> int:
    """Run both ways; tells whether the sizes let the program run."""
    operator = tc.f  # type: ignore[attr-defined]
    try:
        shapes = operator.output_shapes(*inputs)
    except RunError as error:
        assert error.diagnostic.code == "TC0402"
        return 0
    dtypes = [numpy_of(t.buffer.dtype) for t in operator._unit.made]
    wanted = [np.zeros(s, d) for s, d in zip(shapes, dtypes, strict=True)]
    given = [a.copy() for a in wanted]
    outcome = [run(lambda: interpret(tc.to_tir(), "f", *inputs, *wanted)) for _ in "1"]  # type: ignore[attr-defined]
    outcome.append(run(lambda: operator(*inputs, out=tuple(given))))
    assert outcome[0] == outcome[1], text
    # Before the loops run, or for a division: never for an access in the loops.
    assert outcome[0] in ("", "RUN0202"), (outcome[0], text)
    if outcome[0]:
        return 0
    for a, b in zip(given, wanted, strict=True):
        assert same(a, b), text
    return 1


def run(call: object) -> str:
    """Run something; return the code of its error, or nothing."""
    try:
        call()  # type: ignore[operator]
    except RunError as error:
        return error.diagnostic.code
    return ""


CHARACTERS = "()[]{}:,.=+-*/%!?<>&|#;'\"\\ \n\t0129eExfuAij_αй∑\u2028\x00"
WORDS = (
    "def",
    "where",
    "in",
    "exists",
    "float",
    "N",
    "A(i)",
    "1e",
    "0x",
    "+=!",
    "->",
    "T.1",
    "min=",
)


def changed(text: str, rng: random.Random) -> str:
    """Change a text in a few places."""
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(len(text) + 1)
        other = rng.randrange(len(text) + 1)
        kind = rng.randrange(5)
        if kind == 0:
            text = text[:at] + text[at + rng.randint(1, 4) :]
        elif kind == 1:
            text = text[:at] + rng.choice(CHARACTERS) + text[at:]
        elif kind == 2:
            text = text[:at] + " " + rng.choice(WORDS) + " " + text[at:]
        elif kind == 3:
            text = text[:at] + text[min(at, other) : max(at, other)] + text[at:]
        else:
            text = text[: min(at, other)] + text[max(at, other) :]
        text = text[:4000]
    return text


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda p: p.stem)
def test_changed_texts_are_read_or_refused(path: Path):
    text = path.read_text(encoding="utf-8")
    rng = random.Random(path.stem)
    refused = 0
    for _ in range(120):
        try:
            define(changed(text, rng)).fmt()
        except CompileError as error:
            refused += 1
            for mistake in error.diagnostics:
                assert mistake.help
                assert mistake.code.startswith("TC0")
                str(mistake)
    assert refused > 60
