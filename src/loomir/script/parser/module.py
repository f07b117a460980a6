"""Handlers of what surrounds functions: imports at the top of a text, constants, modules."""

from __future__ import annotations

from typing import Final, NamedTuple, cast

from loomir.script.builder.function import IRModuleFrame
from loomir.script.builder.mistakes import mistake
from loomir.script.parser import dispatch, doc
from loomir.script.parser.core import Parser, header
from loomir.script.parser.decorators import Options, read_decorators, refuse_undecorated
from loomir.script.parser.evaluate.dialect import PoisonedValue
from loomir.script.parser.evaluate.namespaces import (
    BY_IMPORT,
    FUNCTION,
    INLINE,
    IR_MODULE,
    MACRO,
    PRIM_FUNC,
    REWRITER,
    Marker,
    ModuleFunction,
    ModuleNames,
    relax_reader,
)
from loomir.script.parser.evaluate.operators import is_static
from loomir.script.parser.evaluate.var_table import Entry
from loomir.script.parser.macros import define_macro
from loomir.script.parser.tir.function import read_prim_func
from loomir.support.diagnostics import CompileError
from loomir.support.span import Span

__all__ = ["read_function", "read_module", "visit_module"]

_HOMES: Final = frozenset(
    {"loomir", "tvm", "loomir.script", "tvm.script", "tvm.script.parser", "__future__"}
)


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
        if node.module == "typing" and node.level == 0 and name.name == "TypeVar":
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
        help="`from loomir.script import ir as I, tir as T, relax as R` may stand at its head",
        span=name.span,
    )


@dispatch.register(dispatch.DEFAULT, "Assign")
def visit_assign(parser: Parser, node: doc.Assign) -> None:
    """Read a constant at the head of a text, such as ``N = 128``."""
    if _names_an_extent(node):
        return
    if _is_metadata(node):
        found = relax_reader().read_metadata(node)
        parser.vars.add("metadata", Entry(found, "alias", node.targets[0].span))
        return
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


def _names_an_extent(node: doc.Assign) -> bool:
    """Whether this is ``n = TypeVar("n")``: shapes may name ``n`` without it."""
    call = node.value
    return (
        isinstance(call, doc.Call)
        and isinstance(call.func, doc.Name)
        and call.func.id == "TypeVar"
        and len(call.args) == 1
        and isinstance(call.args[0], doc.Constant)
        and [getattr(target, "id", "") for target in node.targets] == [call.args[0].value]
    )


def _is_metadata(node: doc.Assign) -> bool:
    """Whether this is ``metadata = tvm.ir.load_json("…")``."""
    call = node.value
    return (
        isinstance(call, doc.Call)
        and isinstance(call.func, doc.Attribute)
        and call.func.attr == "load_json"
        and len(call.args) == 1
        and not call.keywords
        and isinstance(call.args[0], doc.Constant)
        and isinstance(call.args[0].value, str)
        and [getattr(target, "id", "") for target in node.targets] == ["metadata"]
    )


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
    if marker is not None and marker in (MACRO, INLINE):
        define_macro(parser, node, marker, options.hygienic)
        return
    if marker is None or marker not in FUNCTIONS:
        raise refuse_undecorated(node, "@T.prim_func or @R.function")
    parser.programs.append(node.name)
    read_function(parser, node, options, marker)


def read_function(parser: Parser, node: doc.FunctionDef, options: Options, marker: Marker) -> None:
    """Read a function in the dialect of its decorator."""
    if marker is FUNCTION:
        relax_reader().read_function(parser, node, options)
    else:
        read_prim_func(parser, node, options)


@dispatch.register(dispatch.DEFAULT, "ClassDef")
def visit_class(parser: Parser, node: doc.ClassDef) -> None:
    """Read a class at the top of a text, by its decorator."""
    marker, _ = read_decorators(parser, node)
    if marker is not IR_MODULE and marker is not REWRITER:
        raise refuse_undecorated(node, "@I.ir_module")
    parser.programs.append(node.name)
    if marker is REWRITER:
        check_rewriter(node)
    read_module(parser, node)


def check_rewriter(node: doc.ClassDef) -> None:
    """Check that a class under ``@R.rewriter`` has its two functions. Errors: SCR0014."""
    heads = {part.name: part for part in node.body if isinstance(part, doc.FunctionDef)}
    if set(heads) != {"pattern", "replacement"}:
        raise mistake(
            "SCR0014",
            f"the rewriter {node.name!r} has other functions than a pattern and its replacement",
            help="write the functions pattern and replacement, under @R.function",
            span=header(node),
        )
    counts = {name: len(part.args.args) for name, part in heads.items()}
    if counts["pattern"] != counts["replacement"]:
        raise mistake(
            "SCR0014",
            f"the pattern takes {counts['pattern']} parameters, and its replacement "
            f"{counts['replacement']}",
            help="give both the same parameters",
            span=header(heads["replacement"]),
        )


class _Parts(NamedTuple):
    """What a module holds, by how it is read."""

    kernels: list[tuple[doc.FunctionDef, Options]]
    graphs: list[tuple[doc.FunctionDef, Options]]
    others: list[doc.Expr]


FUNCTIONS: Final = (PRIM_FUNC, FUNCTION)
"""The decorators of functions."""


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
        parser.report_error(error, node.span)
    frame = IRModuleFrame()
    frame.span = header(node)
    frame.__enter__()
    before = len(parser.problems)
    functions: dict[str, object] = {}
    found = _heads(parser, frame, node, functions)
    with parser.vars.frame():
        names = ModuleNames(node.name, functions)
        for name in ("cls", node.name):
            parser.vars.add(name, Entry(names, "module", node.span))
        for part in found.others:
            _read_attrs(parser, part)
        refused: list[str] = []
        for part, options in found.kernels:
            seen = len(parser.problems)
            read_prim_func(parser, part, options)
            if len(parser.problems) > seen:
                refused.append(part.name)
        if found.graphs:
            functions.update(dict.fromkeys(refused))
            relax = relax_reader()
            heads = [
                relax.Head(part, options, cast("ModuleFunction", functions[part.name]).var)
                for part, options in found.graphs
            ]
            relax.declare_heads(parser, frame, heads)
            order, endless = relax.order_for_reading(parser, heads, ("cls", node.name))
            functions.update(dict.fromkeys(endless))
            for head in order:
                seen = len(parser.problems)
                read_function(parser, head.node, head.options, FUNCTION)
                if len(parser.problems) > seen and head.node.returns is None:
                    functions[head.node.name] = None
    parser.builder.close(frame, failed=len(parser.problems) > before)


def _heads(
    parser: Parser,
    frame: IRModuleFrame,
    node: doc.ClassDef,
    functions: dict[str, object],
) -> _Parts:
    """List what is to be read, the names of all functions known first."""
    found = _Parts([], [], [])
    for part in node.body:
        try:
            if isinstance(part, doc.FunctionDef):
                _demand_new(functions, part.name, header(part))
                functions[part.name] = None
                marker, options = read_decorators(parser, part)
                if marker is MACRO or marker is INLINE:
                    raise mistake(
                        "SCR0028",
                        f"the macro {part.name!r} stands in a module",
                        help="write it before the class, or in the function that calls it",
                        span=header(part),
                    )
                if marker is None or marker not in FUNCTIONS:
                    raise refuse_undecorated(part, "@T.prim_func or @R.function")
                name = part.name if options.name is None else options.name
                is_relax = marker is FUNCTION
                functions[part.name] = ModuleFunction(frame.declare(name), part, is_relax)
                (found.graphs if is_relax else found.kernels).append((part, options))
            elif isinstance(part, doc.Expr):
                if not isinstance(part.value, doc.Constant):
                    found.others.append(part)
            elif _names_outside(part):
                assigned = cast("doc.Assign", part)
                name = cast("doc.Name", assigned.targets[0]).id
                _demand_new(functions, name, part.span)
                functions[name] = parser.evaluate(assigned.value)
            elif not isinstance(part, doc.Pass):
                parser.generic_visit(part)
        except (CompileError, PoisonedValue) as error:
            parser.report_error(error, part.span)
    return found


def _demand_new(functions: dict[str, object], name: str, span: Span) -> None:
    """Check that a name is that of one function only. Errors: SCR0026."""
    if name in functions:
        raise mistake(
            "SCR0026",
            f"the module has two functions named {name!r}",
            help="give each function a name of its own",
            span=span,
        )


def _names_outside(part: doc.AST) -> bool:
    """Whether this is ``f = R.ExternFunc("name")``: ``cls.f`` then stands for that function."""
    return (
        isinstance(part, doc.Assign)
        and [type(target) for target in part.targets] == [doc.Name]
        and isinstance(part.value, doc.Call)
        and isinstance(part.value.func, doc.Attribute)
        and part.value.func.attr == "ExternFunc"
    )


def _read_attrs(parser: Parser, node: doc.Expr) -> None:
    try:
        if parser.evaluate(node.value) is not None:
            parser.generic_visit(node)
    except (CompileError, PoisonedValue) as error:
        parser.report_error(error, node.span)
