"""Find the columns of an expression in its line, for Python versions that do not record them.

From 3.11 on, code objects contain the columns of each instruction. Before, the instructions of a
line are counted: those that call, index or combine occur in the order in which operands are
evaluated.
"""

from __future__ import annotations

import ast
import dis
from collections.abc import Iterator
from functools import lru_cache
from types import CodeType
from typing import Final

from loomir.support.stack_space import call_with_stack

__all__ = ["columns_of"]

_SCOPES: Final = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_KINDS: Final[dict[str, type[ast.expr]]] = {
    "CALL_FUNCTION": ast.Call,
    "CALL_FUNCTION_EX": ast.Call,
    "CALL_FUNCTION_KW": ast.Call,
    "CALL_METHOD": ast.Call,
    "BINARY_SUBSCR": ast.Subscript,
    "BINARY_ADD": ast.BinOp,
    "BINARY_FLOOR_DIVIDE": ast.BinOp,
    "BINARY_MODULO": ast.BinOp,
    "BINARY_MULTIPLY": ast.BinOp,
    "BINARY_SUBTRACT": ast.BinOp,
    "BINARY_TRUE_DIVIDE": ast.BinOp,
    "COMPARE_OP": ast.Compare,
}


def columns_of(
    code: CodeType, instruction: int, line: int, text: str
) -> tuple[int, int, int, int] | None:
    """Return first line, last line, and columns in bytes of an instruction's expression.

    Return None if that is uncertain.
    """
    tree = _parse(text)
    names = {i.offset: i.opname for i in dis.get_instructions(code)}
    kind = _KINDS.get(names.get(instruction, ""))
    if tree is None or kind is None:
        return None
    lines = _lines(code, list(names))
    same = [o for o, n in names.items() if _KINDS.get(n) is kind and lines.get(o) == line]
    found: list[ast.expr] = []
    for scope in _scopes(tree, code):
        parts = [p for p in _list_evaluated(scope) if type(p) is kind and p.lineno == line]
        if len(parts) == len(same):
            found.append(parts[same.index(instruction)])
    if len(found) != 1 or found[0].end_lineno is None or found[0].end_col_offset is None:
        return None
    (part,) = found
    return part.lineno, part.end_lineno or line, part.col_offset, part.end_col_offset or 0


@lru_cache(maxsize=8)
def _parse(text: str) -> ast.Module | None:
    try:
        return call_with_stack(ast.parse, text)
    except SyntaxError:
        return None


def _lines(code: CodeType, offsets: list[int]) -> dict[int, int]:
    """Return the line of each instruction."""
    starts = dict(dis.findlinestarts(code))
    made: dict[int, int] = {}
    line = code.co_firstlineno
    for offset in offsets:
        line = starts.get(offset) or line
        made[offset] = line
    return made


def _scopes(tree: ast.Module, code: CodeType) -> Iterator[ast.AST]:
    """List the parts of a file that the code may have been compiled from."""
    if code.co_name == "<module>":
        yield tree
        return
    for part in ast.walk(tree):
        if isinstance(part, ast.Lambda):
            if code.co_name == "<lambda>" and part.lineno == code.co_firstlineno:
                yield part
        elif isinstance(part, (ast.FunctionDef, ast.AsyncFunctionDef)):
            first = min([part.lineno, *(d.lineno for d in part.decorator_list)])
            if part.name == code.co_name and first == code.co_firstlineno:
                yield part


def _list_evaluated(scope: ast.AST) -> list[ast.expr]:
    """List the expressions that a scope itself evaluates, operands first."""
    made: list[ast.expr] = []
    inside = scope.body if isinstance(scope, (*_SCOPES, ast.Module)) else scope
    # Each part is pushed twice: to visit its operands, and to list it after them.
    stack: list[tuple[ast.AST, bool]] = []
    stack += [(p, False) for p in reversed(inside if isinstance(inside, list) else [inside])]
    while stack:
        part, done = stack.pop()
        if done:
            if isinstance(part, ast.expr):
                made.append(part)
            continue
        stack.append((part, True))
        stack += [(p, False) for p in reversed(_parts(part))]
    return made


def _parts(part: ast.AST) -> list[ast.AST]:
    """List what is evaluated for a part, in order."""
    if isinstance(part, ast.Lambda):
        return [d for d in (*part.args.defaults, *part.args.kw_defaults) if d is not None]
    if isinstance(part, (ast.FunctionDef, ast.AsyncFunctionDef)):
        return [*part.decorator_list, *part.args.defaults]
    if isinstance(part, ast.Assign):
        return [part.value, *part.targets]
    if isinstance(part, (ast.ListComp, ast.SetComp, ast.GeneratorExp, ast.DictComp)):
        return [part.generators[0].iter]
    return list(ast.iter_child_nodes(part))
