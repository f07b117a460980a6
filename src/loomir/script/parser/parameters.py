"""Valid parameters of functions, in every dialect."""

from __future__ import annotations

from loomir.script.builder.mistakes import mistake
from loomir.script.parser import doc
from loomir.script.parser.core import Parser

__all__ = ["refuse_kinds"]


def refuse_kinds(parser: Parser, args: doc.arguments) -> None:
    """Report parameters that are not plain, and take them out."""
    odd = [*args.kwonlyargs, *(a for a in (args.vararg, args.kwarg) if a is not None)]
    for part in odd:
        error = mistake(
            "SCR0015",
            f"parameter {part.arg!r} is not passed by position",
            help="write plain parameters: name: type",
            span=part.span,
        )
        parser.report_error(error, part.span)
        parser.poison([part.arg])
    for default in args.defaults:
        error = mistake(
            "SCR0015",
            "a parameter has a default",
            help="pass the value with every call",
            span=default.span,
        )
        parser.report_error(error, default.span)
    seen: set[str] = set()
    args.args = [*args.posonlyargs, *args.args]
    for part in list(args.args):
        if part.arg in seen:
            error = mistake(
                "SCR0026",
                f"two parameters are named {part.arg!r}",
                help="give each parameter a name of its own",
                span=part.span,
            )
            parser.report_error(error, part.span)
            args.args.remove(part)
        seen.add(part.arg)
