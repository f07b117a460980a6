"""Explain why a primitive does not apply, as an error that points at the program."""

from __future__ import annotations

import re
from typing import Final, NamedTuple, NoReturn

from loomir.ir.substitution import substitute
from loomir.ir.visit import children, map_children, rebuild
from loomir.support.diagnostics import Diagnostic
from loomir.support.printing import to_text
from loomir.support.span import Source, Span
from loomir.tir.expr import Var
from loomir.tir.function import PrimFunc
from loomir.tir.stmt import BlockRealize, For, Stmt

__all__ = ["Refusal", "RefusalError", "diagnostic_of", "refuse", "replace_part"]

_MARK: Final = "loomir_mark"


class Refusal(NamedTuple):
    """Why a primitive does not apply; formatted only when shown.

    ``help`` says what would be legal, ``at`` is the loop or block that stands in the way.
    """

    code: str
    text: str
    values: tuple[object, ...] = ()
    help: str = ""
    at: Stmt | None = None

    def __str__(self) -> str:
        return self.text.format(*self.values)


class RefusalError(Exception):
    """Carries a refusal to the schedule, which knows the program's text."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(refusal)
        self.refusal = refusal


def refuse(refusal: Refusal) -> NoReturn:
    """Stop a primitive before it has changed anything."""
    raise RefusalError(refusal)


def diagnostic_of(primitive: str, refusal: Refusal, func: PrimFunc | None) -> Diagnostic:
    """Write a refusal, with the loop or block underlined in the text of the function."""
    span = None
    if func is not None and refusal.at is not None:
        span = _place(func, refusal.at)
    return Diagnostic(
        refusal.code,
        f"{primitive}: {refusal}",
        span,
        help=refusal.help,
    )


def _place(func: PrimFunc, at: Stmt) -> Span | None:
    """Find a loop or block in the text of its function.

    The function is written once more with a name of its own for the loop or block: where that name
    stands, the loop or block does.
    """
    text = to_text(func)
    marked = replace_part(func.body, at, _mark(at))
    if marked is None:
        return None
    lines = to_text(rebuild(func, {"body": marked})).splitlines()
    wanted = f'"{_MARK}"' if isinstance(at, BlockRealize) else _MARK
    number = next((n for n, line in enumerate(lines, 1) if wanted in line), 0)
    if not number:
        return None
    column = lines[number - 1].index(wanted)
    own = text.splitlines()[number - 1]
    found = re.compile(r'"[^"]*"|\w+').match(own, column)
    end = found.end() if found else len(own)
    return Span(Source("<schedule>", text), number, column + 1, number, end + 1)


def _mark(at: Stmt) -> Stmt:
    if isinstance(at, For):
        var = Var(_MARK, at.loop_var.dtype)
        return rebuild(at, {"loop_var": var, "body": substitute(at.body, {at.loop_var: var})})
    if isinstance(at, BlockRealize):
        return rebuild(at, {"block": rebuild(at.block, {"name_hint": _MARK})})
    return at


class _Link(NamedTuple):
    """A statement that has others in it, and what it is in itself."""

    owner: Stmt
    above: _Link | None


def replace_part(root: Stmt, old: Stmt, new: Stmt, *, enter: bool = True) -> Stmt | None:
    """Put ``new`` in the place of ``old``, or give None if ``old`` is not in ``root``.

    Without ``enter``, loops and blocks below ``root`` are not looked into.
    """
    stack: list[tuple[Stmt, _Link | None]] = [(root, None)]
    while stack:
        node, above = stack.pop()
        if node is old:
            made: Stmt = new
            while above is not None:
                made = _replace_child(above.owner, node, made)
                node, above = above
            return made
        if enter or node is root or not isinstance(node, (For, BlockRealize)):
            inner = _Link(node, above)
            stack.extend((part, inner) for part in children(node) if isinstance(part, Stmt))
    return None


def _replace_child(owner: Stmt, old: Stmt, new: Stmt) -> Stmt:
    return map_children(owner, lambda part: new if part is old else part)
