"""The handlers of what surrounds functions: imports at the head of a text, constants, modules."""

from __future__ import annotations

from typing import Final

from loomir.script.builder.function import IRModuleFrame
from loomir.script.builder.mistakes import mistake
from loomir.script.parser import dispatch, doc
from loomir.script.parser.attributes import relax
from loomir.script.parser.core import Parser, header
from loomir.script.parser.evaluator import Poisoned
from loomir.script.parser.namespaces import (
    BY_IMPORT,
    IR_MODULE,
    PRIM_FUNC,
    Marker,
    ModuleFunction,
    ModuleNames,
    R,
)
from loomir.script.parser.operators import is_static, kind
from loomir.script.parser.tir_function import Options, read_prim_func
from loomir.script.parser.var_table import Entry
from loomir.support.diagnostics import CompileError

__all__ = ["read_module"]

_HOMES: Final = frozenset(
    {"loomir", "tvm", "loomir.script", "tvm.script", "tvm.script.parser", "__future__"}
)
_OPTIONS: Final[dict[str, type]] = {
    "private": bool,
    "name": str,
    "root_block": bool,
    "s_tir": bool,
    "check_well_formed": bool,
}


@dispatch.register(dispatch.DEFAULT, "Module")
def visit_module(parser: Parser, node: doc.Module) -> None:
    """Read a text."""
    parser.visit_body(node.body)


@dispatch.register(dispatch.DEFAULT, "Import")
def visit_import(parser: Parser, node: doc.Import) -> None:
    """Accept ``import tvm`` and its like, which a text may open with; it imports nothing."""
    for name in node.names:
        if name.name not in _HOMES or name.asname is not None:
            raise _refused_import(name)


@dispatch.register(dispatch.DEFAULT, "ImportFrom")
def visit_import_from(parser: Parser, node: doc.ImportFrom) -> None:
    """Read ``from tvm.script import tir as T``: it names the dialects, and imports nothing."""
    for name in node.names:
        known = node.module in _HOMES and node.level == 0
        if known and node.module == "__future__":
            continue
        if not known or name.name not in BY_IMPORT:
            raise _refused_import(name)
        value = BY_IMPORT[name.name]
        parser.vars.add(name.asname or name.name, Entry(value, "import", name.span))


def _refused_import(name: doc.alias) -> CompileError:
    return mistake(
        "SCR0002",
        "import is not part of TVMScript",
        label="nothing is imported while a text is read",
        help="`from loomir.script import ir as I, tir as T` may stand at the head of a text",
        span=name.span,
    )


@dispatch.register(dispatch.DEFAULT, "Assign")
def visit_assign(parser: Parser, node: doc.Assign) -> None:
    """Read a constant at the head of a text, such as ``N = 128``."""
    value = parser.evaluate(node.value)
    target = node.targets[0]
    if not is_static(value) or len(node.targets) != 1 or not isinstance(target, doc.Name):
        raise mistake(
            "SCR0025",
            "outside of functions only constants are named",
            help="write NAME = value with a number, a string or a tuple",
            span=node.span,
        )
    parser.vars.add(target.id, Entry(value, "alias", target.span))


@dispatch.register(dispatch.DEFAULT, "Expr")
def visit_expr(parser: Parser, node: doc.Expr) -> None:
    """Skip a docstring."""
    if not (isinstance(node.value, doc.Constant) and isinstance(node.value.value, str)):
        parser.generic_visit(node)


@dispatch.register(dispatch.DEFAULT, "Pass")
def visit_pass(parser: Parser, node: doc.Pass) -> None:
    """Skip ``pass``."""


@dispatch.register(dispatch.DEFAULT, "FunctionDef")
def visit_function(parser: Parser, node: doc.FunctionDef) -> None:
    """Read a function at the top of a text, by its decorator."""
    marker, options = read_decorators(parser, node)
    if marker is not PRIM_FUNC:
        raise _undecorated(node, "@T.prim_func")
    read_prim_func(parser, node, options)


@dispatch.register(dispatch.DEFAULT, "ClassDef")
def visit_class(parser: Parser, node: doc.ClassDef) -> None:
    """Read a class at the top of a text, by its decorator."""
    marker, _ = read_decorators(parser, node)
    if marker is not IR_MODULE:
        raise _undecorated(node, "@I.ir_module")
    read_module(parser, node)


def _undecorated(node: doc.FunctionDef | doc.ClassDef, wanted: str) -> CompileError:
    what = "function" if isinstance(node, doc.FunctionDef) else "class"
    return mistake(
        "SCR0014",
        f"the {what} {node.name!r} is no program",
        label=f"not decorated with {wanted}",
        help=f"write {wanted} above it",
        span=header(node),
    )


def read_decorators(
    parser: Parser, node: doc.FunctionDef | doc.ClassDef
) -> tuple[Marker | None, Options]:
    """Find what a definition's decorators make of it, and their options.

    Errors: SCR0010 for Relax, SCR0014 for any other decorator.
    """
    found: Marker | None = None
    options = Options()
    for decorator in node.decorator_list:
        func = decorator.func if isinstance(decorator, doc.Call) else decorator
        value = R if _is_relax(parser, func) else parser.evaluate(func)
        if value is R:
            raise relax_at(decorator)
        if not isinstance(value, Marker) or found is not None:
            raise mistake(
                "SCR0014",
                f"{kind(value)} is no decorator of programs"
                if not isinstance(value, Marker)
                else "a program has one decorator",
                help="use @T.prim_func, or @I.ir_module for a class",
                span=decorator.span,
            )
        found = value
        if isinstance(decorator, doc.Call):
            options = _options(parser, decorator)
    return found, options


def _is_relax(parser: Parser, func: doc.ExprNode) -> bool:
    return isinstance(func, doc.Attribute) and (
        isinstance(func.value, doc.Name) and parser.lookup(func.value) is R
    )


def relax_at(node: doc.AST) -> CompileError:
    """Make the error of Relax at a place."""
    return CompileError(relax().diagnostic.at(node.span))


def _options(parser: Parser, decorator: doc.Call) -> Options:
    options = Options()
    for word in decorator.keywords:
        if word.arg not in _OPTIONS:
            raise mistake(
                "SCR0005",
                f"T.prim_func has no option {word.arg!r}",
                help="its options are private, name and root_block",
                span=word.span,
            )
        value = parser.evaluate(word.value)
        if type(value) is not _OPTIONS[word.arg]:
            raise mistake(
                "SCR0005",
                f"the option {word.arg!r} is {kind(value)}",
                help=f"give a {_OPTIONS[word.arg].__name__}",
                span=word.value.span,
            )
        if word.arg in Options._fields:
            options = options._replace(**{word.arg: value})
    if decorator.args:
        raise mistake(
            "SCR0005",
            "a decorator's options are named",
            help="write @T.prim_func(private=True)",
            span=decorator.args[0].span,
        )
    return options


# -- modules -----------------------------------------------------------------------------------
def read_module(parser: Parser, node: doc.ClassDef) -> None:
    """Read a class as a module; its functions know one another as ``cls.name``."""
    if node.bases or node.keywords:
        first: doc.AST = (node.bases or node.keywords)[0]
        error = mistake(
            "SCR0014",
            "a module has no base classes",
            help=f"write `class {node.name}:`",
            span=first.span,
        )
        parser.caught(error, node.span)
    frame = IRModuleFrame()
    frame.span = header(node)
    frame.__enter__()
    before = len(parser.problems)
    functions: dict[str, ModuleFunction | None] = {}
    found = _heads(parser, frame, node, functions)
    with parser.vars.frame():
        names = ModuleNames(node.name, functions)
        for name in ("cls", node.name):
            parser.vars.add(name, Entry(names, "module", node.span))
        for part, options in found:
            if isinstance(part, doc.FunctionDef):
                read_prim_func(parser, part, options)
            else:
                _read_attrs(parser, part)
    parser.builder.close(frame, failed=len(parser.problems) > before)


def _heads(
    parser: Parser,
    frame: IRModuleFrame,
    node: doc.ClassDef,
    functions: dict[str, ModuleFunction | None],
) -> list[tuple[doc.FunctionDef | doc.Expr, Options]]:
    """List what is to be read, the names of all functions known first."""
    found: list[tuple[doc.FunctionDef | doc.Expr, Options]] = []
    for part in node.body:
        try:
            if isinstance(part, doc.FunctionDef):
                if part.name in functions:
                    raise mistake(
                        "SCR0026",
                        f"the module has two functions named {part.name!r}",
                        help="give each function a name of its own",
                        span=header(part),
                    )
                functions[part.name] = None
                marker, options = read_decorators(parser, part)
                if marker is not PRIM_FUNC:
                    raise _undecorated(part, "@T.prim_func")
                name = part.name if options.name is None else options.name
                functions[part.name] = ModuleFunction(frame.declare(name), part)
                found.append((part, options))
            elif isinstance(part, doc.Expr):
                if not isinstance(part.value, doc.Constant):
                    found.append((part, Options()))
            elif not isinstance(part, doc.Pass):
                parser.generic_visit(part)
        except (CompileError, Poisoned) as error:
            parser.caught(error, part.span)
    return found


def _read_attrs(parser: Parser, node: doc.Expr) -> None:
    try:
        if parser.evaluate(node.value) is not None:
            parser.generic_visit(node)
    except (CompileError, Poisoned) as error:
        parser.caught(error, node.span)
