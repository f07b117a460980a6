"""Macros: statements with parameters, parsed again at each call, as if they were written there.

An argument replaces its parameter unevaluated. What a body assigns is local to the body. Other
names mean

- under ``@T.macro``: what they meant at the definition, when it was made;
- under ``@T.inline``: what they mean at the definition, when the macro is called, as in Python;
- under ``@T.macro(hygienic=False)``: what they mean at the call.

Errors: SCR0028 for an invalid macro, SCR0029 for endless expansion.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from dataclasses import replace
from typing import Final, NamedTuple

from loomir.script.builder.mistakes import mistake, with_span
from loomir.script.parser import doc
from loomir.script.parser.assignments import bind_name, list_reassigned_names, list_typed_locals
from loomir.script.parser.core import MAX_STATEMENTS, FunctionState, Parser, header
from loomir.script.parser.evaluate.captured_names import CapturedNames
from loomir.script.parser.evaluate.dialect import Expansion
from loomir.script.parser.evaluate.namespaces import INLINE, Macro, Marker
from loomir.script.parser.evaluate.var_table import Entry, MutableLocal, VarTable
from loomir.support.diagnostics import Diagnostic

__all__ = ["check_macro", "define_macro", "expand"]

MAX_DEPTH: Final = 50
_SHOWN: Final = 2  # of the calls that lead to a mistake, these and the outermost are shown


def check_macro(node: doc.FunctionDef) -> list[Diagnostic]:
    """List what is wrong with a macro, whatever it is called with."""
    found: list[Diagnostic] = []
    if node.args.kwarg is not None:
        found.append(
            Diagnostic(
                "SCR0028",
                "a macro takes no **keywords",
                node.args.kwarg.span,
                help="name its parameters",
            )
        )
    for part in _statements(node):
        if isinstance(part, doc.Return):
            found.append(
                Diagnostic(
                    "SCR0028",
                    f"the macro {node.name!r} returns",
                    part.span,
                    "a macro is statements, and has no result",
                    help="store the result in a buffer that is passed in",
                )
            )
    return found


def _statements(node: doc.FunctionDef) -> Iterator[doc.AST]:
    """List the statements of a macro, those of macros in it aside."""
    stack: list[doc.AST] = list(node.body)
    while stack:
        part = stack.pop()
        yield part
        if not isinstance(part, (doc.FunctionDef, doc.ClassDef)):
            for name in ("body", "orelse"):
                stack.extend(getattr(part, name, ()))


def define_macro(parser: Parser, node: doc.FunctionDef, marker: Marker, hygienic: bool) -> None:
    """Read the definition of a macro in a text or in a function, and bind its name."""
    parser.problems += check_macro(node)
    table, depth = parser.vars, len(parser.vars.frames)
    if marker is INLINE:
        made = Macro(node.name, node, None, lambda: table.copy_below(depth))
    elif hygienic:
        known = table.copy_below(depth)
        made = Macro(node.name, node, None, lambda: known.copy_below(depth))
        known.add(node.name, Entry(made, "macro", header(node)))  # it may call itself
    else:
        made = Macro(node.name, node, None, None)
    bind_name(parser, node.name, made, "macro", header(node))


def expand(parser: Parser, call: Expansion) -> None:
    """Read the body of a macro where it is called."""
    macro, span = call.macro, call.node.span
    parser.spend(len(macro.node.body), span)
    if parser.depth >= MAX_DEPTH:
        parser.spent = MAX_STATEMENTS + 1  # once is enough
        raise mistake(
            "SCR0029",
            f"macros call one another {MAX_DEPTH} deep",
            label=f"{macro.name} is not read once more",
            help="end the calls with an `if` on a Python value, or write a loop",
            span=span,
        )
    bound = _bind_arguments(call)
    before = len(parser.problems)
    saved = parser.vars, parser.captured, parser.function
    if macro.names is not None:
        parser.vars = _read_only(macro.names())
        parser.captured = parser.captured if macro.around is None else CapturedNames(*macro.around)
    elif macro.around is not None:
        around = () if parser.captured is None else parser.captured.scopes
        parser.captured = CapturedNames(*around, *macro.around)
    parser.depth += 1
    try:
        with parser.vars.frame() as scope:
            body = macro.node.body
            known = list_reassigned_names(body), list_typed_locals(body)
            parser.function = FunctionState(macro.name, scope, *known)
            for part in _parameters(macro.node):
                value = bound[part.arg]
                if isinstance(value, _Default):
                    value = parser.evaluate(value.node)
                bind_name(parser, part.arg, value, "parameter", part.span)
            parser.visit_body(macro.node.body)
    finally:
        parser.depth -= 1
        parser.vars, parser.captured, parser.function = saved
    here = (span, f"in the macro {macro.name!r}, called here")
    for index in range(before, len(parser.problems)):
        found = parser.problems[index]
        calls = tuple([call for call in found.secondary if call != here])
        parser.problems[index] = replace(found, secondary=(*calls[:_SHOWN], here))


def _read_only(table: VarTable) -> VarTable:
    """Keep a macro from assigning the variables around it, as Python does."""
    for stack in table.name2value.values():
        for index, entry in enumerate(stack):
            if isinstance(entry.value, MutableLocal):
                stack[index] = entry._replace(kind="outer local")
    return table


def _parameters(node: doc.FunctionDef) -> list[doc.arg]:
    args = node.args
    extra = [] if args.vararg is None else [args.vararg]
    return [*args.posonlyargs, *args.args, *extra, *args.kwonlyargs]


class _Default(NamedTuple):
    """What a parameter is where nothing is given; it is evaluated in the macro."""

    node: doc.ExprNode


def _signature(node: doc.FunctionDef) -> inspect.Signature:
    kinds = inspect.Parameter
    args = node.args
    named = [*args.posonlyargs, *args.args]
    defaults: list[object] = [kinds.empty] * (len(named) - len(args.defaults))
    defaults += map(_Default, args.defaults)
    made: list[inspect.Parameter] = []
    for index, (part, default) in enumerate(zip(named, defaults, strict=True)):
        is_first = index < len(args.posonlyargs)
        kind = kinds.POSITIONAL_ONLY if is_first else kinds.POSITIONAL_OR_KEYWORD
        made.append(kinds(part.arg, kind, default=default))
    if args.vararg is not None:
        made.append(kinds(args.vararg.arg, kinds.VAR_POSITIONAL))
    for part, default in zip(args.kwonlyargs, args.kw_defaults, strict=True):
        given = kinds.empty if default is None else _Default(default)
        made.append(kinds(part.arg, kinds.KEYWORD_ONLY, default=given))
    return inspect.Signature(made)


def _bind_arguments(call: Expansion) -> dict[str, object]:
    """Return each parameter its argument, or its default."""
    macro = call.macro
    try:
        found = _signature(macro.node).bind(*call.args, **call.keywords)
    except TypeError as error:
        names = ", ".join(part.arg for part in _parameters(macro.node)) or "nothing"
        refused = mistake("SCR0005", f"{macro.name}: {error}", help=f"its parameters: {names}")
        raise with_span(refused, call.node.span) from error
    found.apply_defaults()
    return dict(found.arguments)
