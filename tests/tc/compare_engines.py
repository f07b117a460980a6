"""Run texts in Tensor Comprehensions by the interpreter and as native code."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import pytest

import loomir
from loomir.interp import interpret
from loomir.support.diagnostics import CompileError, Diagnostic, RunError
from loomir.tc import Comprehension, define
from tests.codegen.llvm.tir.compare_engines import same

Array = Any


@lru_cache(maxsize=64)
def read(text: str) -> Comprehension:
    """Read a text without a cache on disk; once, for it is compiled once then."""
    return define(text, cache=False)


def run(text: str | Comprehension, *args: Array, name: str | None = None) -> Any:
    """Run a function both ways on copies of the arrays; return what both return."""
    tc = read(text) if isinstance(text, str) else text
    operator = tc[name or tc.names[-1]]
    ours = [np.array(a) for a in args]
    given = operator(*(np.array(a) for a in args))
    results = given if isinstance(given, tuple) else (given,)
    made = [np.zeros(s, t) for s, t in _made(operator, ours)]
    interpret(tc.to_tir(), operator.__name__, *ours, *made)
    wanted = _returned(operator, [*ours, *made])
    for a, b in zip(results, wanted, strict=True):
        assert a.shape == b.shape
        assert same(a, b), f"native gives {a}, the interpreter {b}"
    return given


def _made(operator: Any, args: Sequence[Array]) -> list[tuple[tuple[int, ...], Any]]:
    from loomir.support.dtype import numpy_of

    shapes = operator.output_shapes(*args)
    kinds = [numpy_of(t.buffer.dtype) for t in operator._unit.made]
    return list(zip(shapes, kinds, strict=True))


def _returned(operator: Any, arrays: list[Array]) -> list[Array]:
    unit = operator._unit
    by_tensor = dict(zip(map(id, (*unit.taken, *unit.made)), arrays, strict=True))
    return [by_tensor[id(t)] for t in unit.returned]


def refused(code: str, text: str) -> Diagnostic:
    """Check that a text is refused at the place of ``^`` in it; return the first mistake."""
    plain, line, column = marked(text)
    with pytest.raises(CompileError) as caught:
        define(plain)
    first = caught.value.diagnostic
    assert first.code == code, str(caught.value)
    assert first.help
    if line:
        assert first.span is not None, str(caught.value)
        assert (first.span.line, first.span.column) == (line, column), str(caught.value)
    return first


def marked(text: str) -> tuple[str, int, int]:
    """Take the mark ``^`` out of a text; return its line and column, 0 where it has none."""
    offset = text.find("^")
    if offset < 0:
        return text, 0, 0
    before = text[:offset]
    return before + text[offset + 1 :], before.count("\n") + 1, offset - before.rfind("\n")


def fails(code: str, text: str, *args: Array) -> Diagnostic:
    """Check that a call fails at run time, compiled and interpreted."""
    tc = read(text)
    operator = tc[tc.names[-1]]
    with pytest.raises(RunError) as native:
        operator(*args)
    made = [np.zeros(s, t) for s, t in _made(operator, args)]
    with pytest.raises(RunError) as oracle:
        loomir.interpret(tc.to_tir(), operator.__name__, *args, *made)
    assert native.value.diagnostic.code == oracle.value.diagnostic.code == code
    return native.value.diagnostic


def f32(*values: float) -> Array:
    return np.array(values, np.float32)


def i32(*values: int) -> Array:
    return np.array(values, np.int32)


def counting(*shape: int, dtype: str = "float32") -> Array:
    """Make an array of small different numbers."""
    return (np.arange(np.prod(shape, dtype=int)) % 13 + 1).reshape(shape).astype(dtype)
