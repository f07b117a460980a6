"""Write the remedy of a mistake in the user's own text: the one line that is right there.

What refuses a part of a program knows values, not what is written around them. Here the syntax
tree is at hand, so that ``use T.max`` becomes ``write T.max(x[i], 0.0)``.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Final, TypeAlias

from loomir.script.parser.convert import Places
from loomir.script.parser.remedy_rules import calls, loops, syntax, values
from loomir.script.parser.remedy_rules.spot import Spot
from loomir.support.diagnostics import Diagnostic
from loomir.support.span import Span

__all__ = ["write_remedies"]

_Rule: TypeAlias = "Callable[[Spot], str | None]"


def write_remedies(
    problems: Iterable[Diagnostic], tree: ast.AST, places: Places
) -> list[Diagnostic]:
    """Write out the remedies of mistakes, and leave out mistakes that follow from others."""
    nodes = list(ast.walk(tree))
    parents = {id(child): node for node in nodes for child in ast.iter_child_nodes(node)}
    named = {n.target.id for n in nodes if isinstance(n, ast.NamedExpr)}
    by_line: dict[int, list[ast.AST]] = {}
    for node in nodes:
        if isinstance(node, (ast.expr, ast.stmt, ast.arg)):
            by_line.setdefault(node.lineno + places.shift, []).append(node)
    made: list[Diagnostic] = []
    for problem in problems:
        span = problem.span
        is_here = span is not None and span.source is places.source
        here = _find_nodes_at(span, by_line.get(span.line, []), places) if is_here and span else ()
        if not here:
            made.append(problem)
            continue
        if problem.code == "SCR0003" and isinstance(here[-1], ast.Name) and here[-1].id in named:
            continue  # an assignment expression, which was refused
        around: list[ast.AST] = []
        node = parents.get(id(here[-1]))
        while node is not None:
            around.append(node)
            node = parents.get(id(node))
        spot = Spot(problem, here, tuple(around), tree, places)
        remedies = (rule(spot) for rule in _RULES.get(problem.code, ()))
        found = next((one for one in remedies if one), None)
        made.append(problem if found is None else replace(problem, help=found))
    return made


def _find_nodes_at(span: Span, nodes: Sequence[ast.AST], places: Places) -> tuple[ast.AST, ...]:
    """Return those of a line's nodes that are at a place, the inner ones first."""
    found: list[ast.AST] = []
    for node in nodes:
        at = places.span(node)
        starts = at.column
        if isinstance(node, ast.Attribute) and span.column > starts:  # marked at its name
            starts = at.end_column - len(node.attr)
        is_whole = (at.end_line, at.end_column) == (span.end_line, span.end_column)
        if starts == span.column and (is_whole or isinstance(node, ast.stmt)):
            found.insert(0, node)
    exact = [n for n in found if not isinstance(n, ast.stmt)]
    return tuple(exact or found)


_RULES: Final[dict[str, tuple[_Rule, ...]]] = {
    "OPS0001": (calls.name_option,),
    "SCR0002": (syntax.replace_syntax,),
    "SCR0003": (calls.read_no_files,),
    "OPS0003": (calls.make_constant,),
    "SCR0005": (calls.name_plain_function, loops.divide_whole),
    "SCR0006": (calls.replace_method, calls.name_module_function),
    "SCR0007": (calls.name_foreign_function,),
    "SCR0008": (loops.make_buffer, values.take_part, values.name_item),
    "SCR0009": (syntax.choose_by_call, syntax.compare, syntax.loop_over_buffers),
    "SCR0012": (loops.name_loops,),
    "SCR0013": (loops.name_block,),
    "SCR0015": (values.drop_receiver, loops.declare_name),
    "SCR0023": (calls.call_kernel,),
    "SCR0025": (values.return_buffer, loops.index_by_loops),
    "SCR0033": (calls.tuple_arguments, loops.describe_parameter),
    "TIR0102": (syntax.compare_with_zero,),
    "TIR0107": (values.write_indices,),
    "TIR0203": (values.write_cast,),
    "TIR0206": (values.write_cast,),
}
