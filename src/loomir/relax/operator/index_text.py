"""Index maps as text, the form in which operator attributes keep them: ``lambda i0, i1: (i1, i0)``.

A text may contain sums, products, quotients and remainders of indices and numbers.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable
from functools import partial
from typing import Any, Final, cast

from loomir.arith.iterators.index_map import IndexMap
from loomir.ir.visit import fold
from loomir.support.diagnostics import CompileError
from loomir.support.stack_space import call_with_stack
from loomir.tir.expr import Add, FloorDiv, FloorMod, IntImm, Mul, Sub, Var

__all__ = ["index_function", "index_map_of", "index_text"]

_OPERATORS: Final[dict[type, str]] = {Add: "+", Sub: "-", Mul: "*", FloorDiv: "//", FloorMod: "%"}
_ALLOWED: Final = (
    *(ast.Tuple, ast.List, ast.Load, ast.Name),
    *(ast.BinOp, ast.Add, ast.Sub, ast.Mult, ast.FloorDiv, ast.Mod),
    *(ast.UnaryOp, ast.USub, ast.Constant),
)


def index_function(text: str) -> Callable[..., Any]:
    """Return the function that a text defines, of index expressions or of arrays of indices.

    Errors: ``ValueError`` for a text that is no such function.
    """
    try:
        tree = call_with_stack(partial(ast.parse, text.strip(), mode="eval"))
    except SyntaxError as error:
        raise ValueError(str(error)) from error
    if not isinstance(tree.body, ast.Lambda):
        raise ValueError("it is not a lambda")
    taken = tree.body.args
    names = {arg.arg for arg in taken.args}
    if taken.defaults or taken.vararg or taken.kwarg or taken.kwonlyargs:
        raise ValueError("it takes other than indices")
    for part in ast.walk(tree.body.body):
        known = not isinstance(part, ast.Name) or part.id in names
        whole = not isinstance(part, ast.Constant) or type(part.value) is int
        if not isinstance(part, _ALLOWED) or not known or not whole:
            raise ValueError("it is not made of indices, numbers, +, -, *, // and %")
    # The tree has been checked: it has only arithmetic on the arguments.
    code = compile(tree, "<index map>", "eval")
    return cast("Callable[..., Any]", eval(code, {"__builtins__": {}}))  # noqa: S307


def index_map_of(text: str) -> IndexMap:
    """Return the map of int64 indices that a text defines."""
    return IndexMap.from_func(index_function(text), dtype="int64")


def index_text(value: Any) -> str | None:
    """Write an index map, a function of indices or another text in canonical form.

    Returns None for anything else, and for a map with expressions other than arithmetic.
    """
    if isinstance(value, str):
        try:
            value = index_function(value)
        except ValueError:
            return None
    made = value if isinstance(value, IndexMap) else _map_of(value)
    if made is None:
        return None
    names = {var: f"i{k}" for k, var in enumerate(made.initial_indices)}

    def write(e: Any, parts: list[str | None]) -> str | None:
        if isinstance(e, Var):
            return names.get(e)
        if isinstance(e, IntImm):
            return str(e.value)
        operator = _OPERATORS.get(e.__class__)
        if operator is None or None in parts:
            return None
        return f"({parts[0]} {operator} {parts[1]})"

    texts = [_bare(fold(index, write)) for index in made.final_indices]
    if None in texts:
        return None
    ending = "," if len(texts) == 1 else ""
    return f"lambda {', '.join(names.values())}: ({', '.join(map(str, texts))}{ending})"


def _bare(text: str | None) -> str | None:
    return text[1:-1] if text is not None and text.startswith("(") else text


def _map_of(function: Any) -> IndexMap | None:
    """Make a map from a function with a fixed number of parameters that returns indices."""
    if not callable(function):
        return None
    try:
        kinds = [p.kind for p in inspect.signature(function).parameters.values()]
    except ValueError:  # a class of Python's own
        return None
    if inspect.Parameter.VAR_POSITIONAL in kinds:
        return None
    try:
        return IndexMap.from_func(function, dtype="int64")
    except CompileError:
        return None
