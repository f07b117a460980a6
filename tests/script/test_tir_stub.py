"""What editors and type checkers know of ``T``: a stub that is written from its names."""

from __future__ import annotations

import ast
import inspect

import pytest

from loomir.script import relax as R
from loomir.script import tir as T
from tools.tir_stub import PATH, stub_text


def test_the_stub_is_current(request: pytest.FixtureRequest):
    actual = stub_text()
    if request.config.getoption("--update-golden"):
        PATH.write_text(actual, encoding="utf-8")
    assert PATH.read_text(encoding="utf-8") == actual, "run pytest --update-golden"


def test_every_name_is_in_the_stub():
    defined: set[str] = set()
    for node in ast.walk(ast.parse(PATH.read_text(encoding="utf-8"))):
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            defined.add(node.name)
        elif isinstance(node, ast.ImportFrom):
            defined |= {alias.asname or alias.name for alias in node.names}
    assert sorted(set(T.__all__) - defined) == []


def test_python_knows_the_parameters_of_builtins():
    assert str(inspect.signature(T.atan2)) == "(y: 'ExprLike', x: 'ExprLike', /) -> 'PrimExpr'"
    assert [*inspect.signature(T.fma).parameters] == ["a", "b", "c"]


def test_python_completes_operators():
    assert {"add", "nn", "Tensor", "function", "output"} <= set(dir(R))
    assert "relu" in dir(R.nn)
