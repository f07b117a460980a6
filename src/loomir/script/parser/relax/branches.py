"""Handlers of branches in Relax: ``if``, ``elif`` and ``else``."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import NamedTuple

from loomir.ir.node import reset
from loomir.relax.expr import Var
from loomir.relax.node import Expr
from loomir.script.builder.mistakes import mistake
from loomir.script.builder.relax.frames import (
    ElseFrame,
    IfFrame,
    ThenFrame,
)
from loomir.script.builder.relax.values import as_value, is_value
from loomir.script.parser import dispatch, doc
from loomir.script.parser.core import Parser, header, targets_of
from loomir.script.parser.evaluate.dialect import PoisonedValue
from loomir.script.parser.evaluate.operators import is_static
from loomir.script.parser.evaluate.var_table import Entry
from loomir.script.parser.relax.bound_values import emit_value, evaluate_bound
from loomir.script.parser.relax.function import TOKEN
from loomir.script.parser.relax.values import (
    at_uses,
    info_of,
    kind_of_value,
)
from loomir.support.diagnostics import CompileError
from loomir.tir.expr import PrimExpr

__all__ = ["list_bound"]


def list_bound(body: Sequence[doc.StmtNode]) -> list[str]:
    """List the names that statements bind, those in scopes too."""
    found: list[str] = []
    stack: list[doc.AST] = list(body)
    while stack:
        part = stack.pop()
        found += targets_of(part)
        if not isinstance(part, doc.FunctionDef):
            for name in ("body", "orelse"):
                stack.extend(getattr(part, name, ()))
    return found


class _Case(NamedTuple):
    """A case of a branch that is being read."""

    frame: ThenFrame | ElseFrame
    names: ExitStack
    before: int


class _Branch(NamedTuple):
    """A branch whose second case is being read."""

    node: doc.If
    frame: IfFrame
    condition: object
    before: int
    case: _Case


@dispatch.register(TOKEN, "If")
def visit_if(parser: Parser, node: doc.If) -> None:
    """Read a branch with all its ``elif``; a condition that is known now decides now."""
    opened: list[_Branch] = []
    current: doc.If | None = node
    while current is not None:
        current = _visit_cases(parser, current, opened)
    for branch in reversed(opened):
        _close_case(parser, branch.case)
        _close_branch(parser, branch)


def _visit_cases(parser: Parser, node: doc.If, opened: list[_Branch]) -> doc.If | None:
    """Read the cases of one condition; gives the ``elif`` that is left to read."""
    before = parser.setbacks()
    try:
        test = evaluate_bound(parser, node.test)
        if is_static(test):
            return _visit_rest(parser, node.body if test else node.orelse)
        _check_branch(node, test)
        cond = as_value(test) if not _needs_name(test) else emit_value(parser, test, "", node.test)
        frame = IfFrame(cond)
        frame.span = header(node)
        frame.__enter__()
    except (CompileError, PoisonedValue) as error:
        parser.report_error(error, header(node))
        parser.poison(list_bound([node]))
        return None
    case = _open_case(parser, ThenFrame(), node)
    parser.visit_body(node.body)
    _close_case(parser, case)
    case = _open_case(parser, ElseFrame(), node)
    opened.append(_Branch(node, frame, cond, before, case))
    return _visit_rest(parser, node.orelse)


def _visit_rest(parser: Parser, body: Sequence[doc.StmtNode]) -> doc.If | None:
    """Read a case, unless it is an ``elif``, which is given back."""
    if len(body) == 1 and isinstance(body[0], doc.If):
        return body[0]
    parser.visit_body(body)
    return None


def _check_branch(node: doc.If, test: object) -> None:
    if not node.orelse:
        raise mistake(
            "SCR0032",
            "a branch has no else case",
            help="write both cases: each ends by binding the same name",
            span=header(node),
        )
    if not is_value(test) and not isinstance(test, PrimExpr):
        raise mistake(
            "SCR0032",
            f"the condition is {kind_of_value(test)}",
            help="give a tensor of rank 0 and dtype bool",
            span=node.test.span,
        )


def _open_case(parser: Parser, frame: ThenFrame | ElseFrame, node: doc.If) -> _Case:
    names = ExitStack()
    made = _Case(frame, names, parser.setbacks())
    frame.span = header(node)
    frame.__enter__()
    names.enter_context(parser.vars.frame())
    return made


def _close_case(parser: Parser, case: _Case) -> None:
    case.names.close()
    try:
        parser.builder.close(case.frame, failed=parser.setbacks() > case.before)
    except CompileError as error:
        parser.report_error(error, case.frame.span)


def _close_branch(parser: Parser, branch: _Branch) -> None:
    node, frame = branch.node, branch.frame
    failed = parser.setbacks() > branch.before
    try:
        parser.builder.close(frame, failed)
    except CompileError as error:
        parser.report_error(_place_at_condition(error, branch.condition, node.test), frame.span)
        failed = True
    if frame.var is not None:
        reset(frame.var, "span", frame.span)
        parser.vars.add(frame.cases[True][1], Entry(frame.var, "value", frame.span))
    if failed:
        parser.poison(list_bound([node]))


def _place_at_condition(error: CompileError, cond: object, node: doc.ExprNode) -> CompileError:
    """Place what is said of the condition of a branch at the condition."""
    found = [replace(d, span=node.span) if d.code == "RLX0205" else d for d in error.diagnostics]
    return at_uses(CompileError(*found), (cond,), (node,))


def _needs_name(value: object) -> bool:
    return isinstance(value, Expr) and not isinstance(value, (Var,)) and info_of(value) is None
