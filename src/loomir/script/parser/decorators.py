"""Decorators and their options: which definitions are programs or macros."""

from __future__ import annotations

from typing import Final, NamedTuple

from loomir.script.builder.mistakes import mistake
from loomir.script.parser import doc
from loomir.script.parser.core import Parser, header
from loomir.script.parser.evaluate.namespaces import FUNCTION, IR_MODULE, MACRO, PRIM_FUNC, Marker
from loomir.script.parser.evaluate.operators import kind
from loomir.support.diagnostics import CompileError, with_article

__all__ = ["Options", "read_decorators", "refuse_undecorated"]

# Other implementations have more kinds of functions, and check programs where they are read.
_WITHOUT_MEANING: Final[dict[str, type]] = {"s_tir": bool, "check_well_formed": bool}
_OPTIONS: Final[dict[Marker, tuple[dict[str, type], str]]] = {
    PRIM_FUNC: (
        {
            "private": bool,
            "name": str,
            "root_block": bool,
            **_WITHOUT_MEANING,
        },
        "its options are private, name and root_block",
    ),
    FUNCTION: (
        {"private": bool, "pure": bool, "name": str, **_WITHOUT_MEANING},
        "its options are private, pure and name",
    ),
    IR_MODULE: (_WITHOUT_MEANING, "write @I.ir_module without options"),
    MACRO: ({"hygienic": bool}, "its option is hygienic"),
}


class Options(NamedTuple):
    """What ``@T.prim_func(…)`` or ``@R.function(…)`` says of a function, ``@T.macro`` of a macro.

    ``name`` is its name where that is no Python identifier; without ``root_block`` no block is put
    around the body; names in a macro that is not ``hygienic`` mean what they do at the call.
    """

    private: bool = False
    name: str | None = None
    root_block: bool = True
    hygienic: bool = True
    pure: bool = True


def read_decorators(
    parser: Parser, node: doc.FunctionDef | doc.ClassDef
) -> tuple[Marker | None, Options]:
    """Find what a definition's decorators make of it, and their options.

    Errors: SCR0014 for any other decorator, SCR0005 for its options.
    """
    found: Marker | None = None
    options = Options()
    for decorator in node.decorator_list:
        func = decorator.func if isinstance(decorator, doc.Call) else decorator
        value = parser.evaluate(func)
        if not isinstance(value, Marker) or found is not None:
            raise mistake(
                "SCR0014",
                f"{kind(value)} is not a decorator of programs"
                if not isinstance(value, Marker)
                else "a program has one decorator",
                help="use @T.prim_func or @R.function, or @I.ir_module for a class",
                span=decorator.span,
            )
        found = value
        if isinstance(decorator, doc.Call):
            options = _options(parser, decorator, value)
    return found, options


def _options(parser: Parser, decorator: doc.Call, marker: Marker) -> Options:
    options = Options()
    known, help_ = _OPTIONS.get(marker, ({}, "write it without options"))
    for word in decorator.keywords:
        if word.arg not in known:
            raise mistake(
                "SCR0005", f"{marker.name} has no option {word.arg!r}", help=help_, span=word.span
            )
        value = parser.evaluate(word.value)
        if type(value) is not known[word.arg]:
            raise mistake(
                "SCR0005",
                f"the option {word.arg!r} is {kind(value)}",
                help=f"give {with_article(known[word.arg].__name__)}",
                span=word.value.span,
            )
        if word.arg in Options._fields:
            options = options._replace(**{word.arg: value})
    if decorator.args:
        raise mistake(
            "SCR0005",
            "a decorator's options are named",
            help="write the name of the option, as in @T.prim_func(private=True)",
            span=decorator.args[0].span,
        )
    return options


def refuse_undecorated(node: doc.FunctionDef | doc.ClassDef, wanted: str) -> CompileError:
    """Make the error of a definition that is not a program."""
    what = "function" if isinstance(node, doc.FunctionDef) else "class"
    return mistake(
        "SCR0014",
        f"the {what} {node.name!r} is not a program",
        label=f"not decorated with {wanted}",
        help=f"write {wanted} above it",
        span=header(node),
    )
