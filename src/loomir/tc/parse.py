"""Parse a text to a syntax tree, and report every mistake at its character.

Each function is parsed by itself, so that a mistake in one does not hide those in the next.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from functools import cache
from importlib import resources
from typing import Any, Final, cast

from lark import Lark, Token, Transformer_NonRecursive, Tree
from lark.exceptions import UnexpectedCharacters, UnexpectedInput, UnexpectedToken

from loomir.support.span import Source, Span
from loomir.tc.mistakes import Mistakes
from loomir.tc.syntax import (
    RESERVED,
    Apply,
    Assignment,
    Binary,
    CallStatement,
    Comment,
    Constraint,
    Def,
    Exists,
    Expr,
    Ident,
    Name,
    Number,
    Param,
    Program,
    RangeIn,
    SizeOf,
    Ternary,
    Unary,
    span_between,
    with_span,
)

__all__ = ["parse"]

# What only some systems take for the end of a line: errors count lines by "\n" only.
_ODD_SPACE: Final = re.compile("[\r\v\f\x1c\x1d\x1e\x85\u2028\u2029]")
_LANDMARK: Final = re.compile(r"(?:#|//)[^\n]*|\bdef\b")
_WORD: Final = re.compile(r"\w+|\S")


def parse(text: object, name: str = "<string>") -> Program:
    """Read the functions of a text.

    Errors: TC0001 for what cannot stand where it does, TC0002 for malformed numbers, TC0003 for
    reserved words as names.
    """
    mistakes = Mistakes()
    if not isinstance(text, str):
        mistakes.add(
            "TC0001",
            f"a {type(text).__name__} is not a text",
            None,
            help=_read_from(cast("object", text))
            if isinstance(text, os.PathLike)
            else "give a string, as in def f(float(N) A) -> (B) { B(i) = A(i) }",
        )
        mistakes.settle()
    source = Source(name, _ODD_SPACE.sub(" ", cast("str", text)))
    program = _read(source, mistakes)
    mistakes.settle()
    return program


def _read_from(path: object) -> str:
    return f"read the file: loomir.tc.define(pathlib.Path({str(path)!r}).read_text())"


def _read(source: Source, mistakes: Mistakes) -> Program:
    text = source.text
    places = _Places(source)
    starts: list[int] = []
    comments: list[Comment] = []
    for hit in _LANDMARK.finditer(text):
        if hit[0] == "def":
            starts.append(hit.start())
        else:
            written = hit[0].lstrip("#/").rstrip()
            comments.append(Comment(written, places.span(hit.start(), hit.end())))
    first = starts[0] if starts else len(text)
    stray = _WORD.search(re.sub(r"(?:#|//)[^\n]*", lambda m: " " * len(m[0]), text[:first]))
    if stray is not None:
        mistakes.add(
            "TC0001",
            f"unexpected {stray[0]!r}",
            places.span(*stray.span()),
            "outside of a function",
            help=_read_from(text) if text.endswith(".tc") else "start each function with def",
        )
    functions: list[Def] = []
    for start, end in zip(starts, [*starts, len(text)][1:], strict=True):
        made = _Chunk(places, start, end, mistakes).read()
        if made is not None:
            functions.append(made)
    if not starts and stray is None:
        mistakes.add(
            "TC0001",
            "the text has no function",
            None,
            help="write one, as in def f(float(N) A) -> (B) { B(i) = A(i) }",
        )
    return Program(source, tuple(functions), tuple(comments))


class _Places:
    """Turns offsets in a text into lines and columns."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.line_starts = [0, *(m.end() for m in re.finditer("\n", source.text))]

    def line_column(self, offset: int) -> tuple[int, int]:
        low, high = 0, len(self.line_starts)
        while high - low > 1:
            middle = (low + high) // 2
            if self.line_starts[middle] <= offset:
                low = middle
            else:
                high = middle
        return low + 1, offset - self.line_starts[low] + 1

    def span(self, start: int, end: int) -> Span:
        return Span(self.source, *self.line_column(start), *self.line_column(end))


@cache
def _lark() -> Lark:
    grammar = resources.files("loomir.tc").joinpath("grammar.lark").read_text(encoding="utf-8")
    return Lark(grammar, start="func", parser="lalr", lexer="contextual")


class _Chunk:
    """One function of the text."""

    def __init__(self, places: _Places, start: int, end: int, mistakes: Mistakes) -> None:
        self.places, self.start, self.end, self.mistakes = places, start, end, mistakes

    def read(self) -> Def | None:
        text = self.places.source.text[self.start : self.end]
        try:
            reader: Any = _lark()
            tree = reader.parse(text)
        except UnexpectedInput as error:
            self._explain(error, text)
            return None
        before = len(self.mistakes.found)
        made = _Builder(self).transform(cast("Tree[Any]", tree))
        return cast("Def", made) if len(self.mistakes.found) == before else None

    def span(self, token: Token) -> Span:
        """Return the place of a token in the whole text."""
        start = self.start + (token.start_pos or 0)
        return self.places.span(start, start + len(token))

    def _explain(self, error: UnexpectedInput, text: str) -> None:
        whole = self.places.source.text
        facts: Any = error  # lark does not say the types of these
        if isinstance(error, UnexpectedToken) and facts.token.type != "$END":
            token: str = facts.token
            start: int = self.start + (facts.token.start_pos or 0)
            end = start + len(token)
            shown = f"unexpected {str(token)!r}"
            wanted = set(cast("Iterable[str]", facts.accepts or facts.expected))
        elif isinstance(error, UnexpectedCharacters):
            start = self.start + (facts.pos_in_stream or 0)
            word = _WORD.match(whole, start)
            end = word.end() if word is not None else start + 1
            shown = f"unexpected {whole[start:end]!r}"
            wanted = set(cast("Iterable[str]", facts.allowed or ()))
        else:
            start = self.start + len(_blank_comments(text).rstrip())
            end = start + 1
            shown = "the function does not end"
            wanted = set(cast("Iterable[str]", getattr(error, "accepts", None) or ()))
        before = _blank_comments(whole[self.start : start]).rstrip()
        label, advice = _advice(wanted, whole[start:end].strip(), before)
        self.mistakes.add("TC0001", shown, self.places.span(start, end), label, help=advice)


def _blank_comments(text: str) -> str:
    return re.sub(r"(?:#|//)[^\n]*", lambda m: " " * len(m[0]), text)


_TOKENS: Final = {
    "ID": "a name",
    "NUMBER": "a number",
    "LPAR": "'('",
    "RPAR": "')'",
    "LBRACE": "'{'",
    "RBRACE": "'}'",
    "COMMA": "','",
    "COLON": "':'",
    "IN": "'in'",
    "DEF": "'def'",
    "EQUAL": "'='",
    "__ANON_0": "'->'",
    "OPERATOR": "'=' or a reduction",
}


def _advice(wanted: set[str], got: str, before: str) -> tuple[str, str]:
    """Say what could stand there, and what to do."""
    if "OPERATOR" in wanted:
        return (
            "'=' or a reduction is missing",
            "write =, or one of += *= min= max= +=! *=! min=! max=!",
        )
    if got in ("[", "]"):
        return "indices stand between ( and )", "write it as in B(i) = A(i)"
    if got == "*" and before.endswith("*"):
        return "there is no operator **", "write pow(x, 2), or x * x"
    if got == ";":
        return "no ';' after statements", "leave it out: statements need only whitespace"
    if not got and "RBRACE" in wanted:
        return "'}' is missing", "write '}' after the last statement"
    if "PLUS" in wanted and got == "=":
        return "one '=' does not compare", "compare with ==; each statement assigns once"
    if "PLUS" in wanted:
        return "the expression ends before this", "write an operator, or close what is open"
    if "NOT" in wanted:
        return "an expression is missing", "write a number, a name, or name(indices)"
    if wanted == {"ID"} and before.endswith("="):
        return (
            "only the call of a function may follow",
            "write the indices of what is assigned, as in B(i) = …, or B() = … for a single number",
        )
    if {"ID", "RBRACE"} <= wanted and got in _OPERATORS:
        return (
            "the call of a function ends before this",
            "write the indices of what is assigned, as in B(i) = …, or B() = … for a single number",
        )
    names = sorted(_TOKENS[t] for t in wanted if t in _TOKENS)
    if not names:
        return "nothing may stand here", "leave it out"
    listed = " or ".join(names)
    return f"{listed} is missing", f"write {listed} here"


_OPERATORS: Final = frozenset(
    ["+", "-", "*", "/", "%", "==", "!=", "<", "<=", ">", ">=", "&&", "||", "?"]
)


class _Builder(Transformer_NonRecursive[Any, Any]):
    """Makes the tree's nodes, bottom-up; a method for each rule of the grammar."""

    def __init__(self, chunk: _Chunk) -> None:
        super().__init__()
        self.chunk = chunk

    def _ident(self, token: Token) -> Ident:
        name, span = str(token), self.chunk.span(token)
        if name in RESERVED:
            self.chunk.mistakes.add(
                "TC0003",
                f"{name!r} is a word of the language",
                span,
                "cannot name anything",
                help="use another name",
            )
        return Ident(name, span)

    def _idents(self, items: list[Any]) -> tuple[Ident, ...]:
        return tuple(self._ident(item) for item in items if item is not None)

    # -- functions and statements ----------------------------------------------------------------
    def func(self, items: list[Any]) -> Def:
        start, name, params, returns, *body = items
        end = body.pop()
        span = span_between(self.chunk.span(start), self.chunk.span(end))
        return Def(self._ident(name), params, returns, tuple(body), span)

    def params(self, items: list[Any]) -> tuple[Param, ...]:
        return tuple(item for item in items if item is not None)

    def param(self, items: list[Any]) -> Param:
        kind, sizes, name = items
        span = span_between(self.chunk.span(kind), self.chunk.span(name))
        return Param(self._ident(kind), sizes, self._ident(name), span)

    def returns(self, items: list[Any]) -> tuple[Ident, ...]:
        return cast("tuple[Ident, ...]", items[0])

    def returns_one(self, items: list[Any]) -> tuple[Ident, ...]:
        return self._idents(items)

    def ids(self, items: list[Any]) -> tuple[Ident, ...]:
        return self._idents(items)

    def targets(self, items: list[Any]) -> tuple[Ident, ...]:
        return self._idents(items)

    def assignment(self, items: list[Any]) -> Assignment:
        target, indices, op, value, where = items
        ident = self._ident(target)
        span = span_between(ident.span, value.span)
        constraints = cast("tuple[Constraint, ...]", where or ())
        return Assignment(ident, indices, str(op), value, constraints, span, self.chunk.span(op))

    def call(self, items: list[Any]) -> CallStatement:
        targets, callee, args, end = items
        span = span_between(targets[0].span, self.chunk.span(end))
        return CallStatement(targets, self._ident(callee), args, span)

    def where(self, items: list[Any]) -> tuple[Constraint, ...]:
        return tuple(items)

    def range_constraint(self, items: list[Any]) -> RangeIn:
        index, start, stop = items
        return RangeIn(self._ident(index), start, stop)

    def exists_constraint(self, items: list[Any]) -> Exists:
        return Exists(self.apply(items))

    # -- expressions -----------------------------------------------------------------------------
    def exps(self, items: list[Any]) -> tuple[Expr, ...]:
        return tuple(items)

    def number(self, items: list[Any]) -> Number:
        return Number(str(items[0]), self.chunk.span(items[0]))

    def name(self, items: list[Any]) -> Name:
        ident = self._ident(items[0])
        return Name(ident.name, ident.span)

    def size_of(self, items: list[Any]) -> SizeOf:
        ident, number = self._ident(items[0]), items[1]
        span = span_between(ident.span, self.chunk.span(number))
        if not re.fullmatch(r"[0-9]{1,4}", number):
            self.chunk.mistakes.add(
                "TC0002",
                f"{str(number)!r} is not the number of an axis",
                self.chunk.span(number),
                help=f"count axes from 0, as in {ident.name}.0",
            )
            return SizeOf(ident.name, 0, span)
        return SizeOf(ident.name, int(number), span)

    def apply(self, items: list[Any]) -> Apply:
        name, args, end = items
        ident = self._ident(name)
        return Apply(ident.name, args or (), span_between(ident.span, self.chunk.span(end)))

    def group(self, items: list[Any]) -> Expr:
        start, expr, end = items
        return with_span(expr, span_between(self.chunk.span(start), self.chunk.span(end)))

    def unary(self, items: list[Any]) -> Unary:
        op, operand = items
        return Unary(str(op), operand, span_between(self.chunk.span(op), operand.span))

    def binary(self, items: list[Any]) -> Binary:
        left, op, right = items
        return Binary(str(op), left, right, span_between(left.span, right.span))

    def ternary(self, items: list[Any]) -> Ternary:
        condition, then, otherwise = items
        return Ternary(condition, then, otherwise, span_between(condition.span, otherwise.span))
