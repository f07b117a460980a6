"""Functions of Relax: parameters, results, and their headers, which other functions use."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from loomir.ir.module import GlobalVar
from loomir.relax.expr import Var
from loomir.relax.node import StructInfo
from loomir.relax.struct_info import OBJECT, FuncStructInfo
from loomir.script.builder.function import IRModuleFrame
from loomir.script.builder.mistakes import mistake
from loomir.script.builder.relax.frames import FunctionFrame, Signatures, sequence
from loomir.script.builder.relax.info import as_struct_info
from loomir.script.parser import doc
from loomir.script.parser.core import FunctionState, Parser, header
from loomir.script.parser.decorators import Options
from loomir.script.parser.evaluate.dialect import PoisonedValue
from loomir.script.parser.evaluate.namespaces import ModuleFunction
from loomir.script.parser.evaluate.var_table import POISON, Entry
from loomir.script.parser.module_calls import unquote
from loomir.script.parser.parameters import refuse_kinds
from loomir.script.parser.places import blame
from loomir.script.parser.relax.values import RelaxValues
from loomir.support.diagnostics import CompileError

__all__ = ["TOKEN", "declare_heads", "order_for_reading", "read_function", "read_inner"]

TOKEN = "relax"


@contextmanager
def _dialect(parser: Parser, node: doc.FunctionDef) -> Generator[None, None, None]:
    """Read Relax, in a scope of its own, for the body of ``with``."""
    saved = parser.function, parser.evaluator.dialect
    with parser.dialect(TOKEN), parser.vars.frame() as scope:
        parser.function = FunctionState(node.name, scope, frozenset())
        parser.evaluator.dialect = RelaxValues()
        try:
            yield
        finally:
            parser.function, parser.evaluator.dialect = saved


def read_function(parser: Parser, node: doc.FunctionDef, options: Options) -> None:
    """Read a function into the module that is being built, or as the program."""
    name = node.name if options.name is None else options.name
    frame = FunctionFrame(options.private, options.pure, name)
    frame.span = header(node)
    before = parser.setbacks()
    parser.vars.ended.clear()
    with _dialect(parser, node):
        frame.__enter__()
        try:
            _read_head(parser, frame, node)
            try:
                if parser.builder.find(IRModuleFrame) is None:
                    _declare_recursive(parser, frame, node, GlobalVar(name))
            except CompileError as error:
                parser.report_error(error, frame.span)
                parser.poison([node.name])
            parser.visit_body(node.body)
        finally:
            failed = parser.setbacks() > before
            _close(parser, frame, failed)


def _close(parser: Parser, frame: FunctionFrame, failed: bool) -> None:
    """Make the function, unless it has mistakes."""
    try:
        parser.builder.close(frame, failed)
    except CompileError as error:
        dialect = parser.evaluator.dialect
        assert isinstance(dialect, RelaxValues)
        parser.report_error(dialect.at_result(error), frame.span)


def _declare_recursive(
    parser: Parser, frame: FunctionFrame, node: doc.FunctionDef, var: GlobalVar
) -> None:
    """Let a function that is a program call itself by its name."""
    if not _names_in(node.body) & {node.name}:
        return
    if parser.vars.get(node.name) is not None:
        return
    if frame.ret_info is None:
        raise _missing_annotation(node)
    parser.vars.add(node.name, Entry(ModuleFunction(var, node, True), "function", header(node)))
    info = FuncStructInfo(tuple([p.struct_info for p in frame.params]), frame.ret_info, frame.pure)
    frame.scope().declare(var.name_hint, info)


def _missing_annotation(node: doc.FunctionDef) -> CompileError:
    return mistake(
        "SCR0035",
        f"the function {node.name!r} calls itself, and its result is not annotated",
        help=f'write the annotation, as in `def {node.name}(…) -> R.Tensor((2, n), "float32"):`',
        span=header(node),
    )


# -- heads ---------------------------------------------------------------------------------------
def _read_head(parser: Parser, frame: FunctionFrame, node: doc.FunctionDef) -> None:
    """Read parameters and annotations; the refused ones stand for any value."""
    refuse_kinds(parser, node.args)
    for part in node.args.args:
        value: object = POISON
        info: StructInfo = OBJECT
        try:
            if part.annotation is None:
                raise mistake(
                    "SCR0015",
                    f"parameter {part.arg!r} has no annotation",
                    help=f'write {part.arg}: R.Tensor((2, "n"), "float32"), or R.Object',
                    span=part.span,
                )
            info = read_info(parser, part.annotation, declares=True)
            value = Var(part.arg, info, span=part.span)
        except (CompileError, PoisonedValue) as error:
            parser.report_error(error, part.span)
        frame.params.append(value if isinstance(value, Var) else Var(part.arg, info))
        parser.vars.add(part.arg, Entry(value, "value", part.span))
    if node.returns is not None:
        try:
            frame.ret_info = read_info(parser, node.returns, declares=False)
        except (CompileError, PoisonedValue) as error:
            parser.report_error(error, node.returns.span)


def read_info(parser: Parser, node: doc.ExprNode, *, declares: bool) -> StructInfo:
    """Read a description of a value. Errors: SCR0033, and those of what stands in it."""
    evaluator = parser.evaluator
    dialect = evaluator.dialect
    assert isinstance(dialect, RelaxValues)
    inner = unquote(node)
    evaluator.declares, dialect.in_annotation = declares, True
    try:
        value = parser.evaluate(inner)
        try:
            return as_struct_info(value)
        except CompileError as error:
            raise blame(error, node.span, (value,), (inner,)) from error
    finally:
        evaluator.declares, dialect.in_annotation = False, False


class Head(NamedTuple):
    """A function of a module that is to be read."""

    node: doc.FunctionDef
    options: Options
    var: GlobalVar


def declare_heads(parser: Parser, module: IRModuleFrame, heads: Sequence[Head]) -> None:
    """Say what functions take and give before any is read; those that do not say it are left."""
    signatures = Signatures.of(module)
    before = len(parser.problems)
    for head in heads:
        if head.node.returns is None:
            continue
        frame = FunctionFrame()
        with _dialect(parser, head.node):
            _read_head(parser, frame, head.node)
        params = tuple([p.struct_info for p in frame.params])
        pure = head.options.pure and not _says_impure(head.node)
        info = FuncStructInfo(params, frame.ret_info or OBJECT, pure)
        signatures.declare(head.var.name_hint, info)
    del parser.problems[before:]  # they are reported where the functions are read


def _says_impure(node: doc.FunctionDef) -> bool:
    return any(
        isinstance(part, doc.Expr)
        and isinstance(part.value, doc.Call)
        and isinstance(part.value.func, doc.Attribute)
        and part.value.func.attr == "is_impure"
        for part in node.body
    )


def order_for_reading(
    parser: Parser, heads: Sequence[Head], module: Sequence[str]
) -> tuple[list[Head], list[str]]:
    """Put functions that do not say what they return before those that call them.

    Gives also the names of those that call themselves, maybe by way of others.
    Errors (reported): SCR0035 for these.
    """
    endless: list[str] = []
    silent = {h.node.name: h for h in heads if h.node.returns is None}
    order: list[Head] = []
    state: dict[str, bool] = {}  # False while what it calls is looked at
    for start in heads:
        stack = [(start, False)]
        while stack:
            head, done = stack.pop()
            name = head.node.name
            if done:
                state[name] = True
                order.append(head)
                continue
            if name in state:
                continue
            state[name] = False
            stack.append((head, True))
            for other in sorted(_siblings_in(head.node.body, module) & silent.keys()):
                if state.get(other) is False:
                    parser.report_error(_missing_annotation(silent[other].node), head.node.span)
                    endless.append(other)
                elif other not in state:
                    stack.append((silent[other], False))
    return order, endless


def _siblings_in(body: Sequence[doc.AST], module: Sequence[str]) -> set[str]:
    """List the names that are taken from the module, as ``cls.name``."""
    found: set[str] = set()
    for part in _walk(body):
        owner = part.value if isinstance(part, doc.Attribute) else None
        if isinstance(part, doc.Attribute) and isinstance(owner, doc.Name) and owner.id in module:
            found.add(part.attr)
    return found


def _names_in(body: Sequence[doc.AST]) -> set[str]:
    return {part.id for part in _walk(body) if isinstance(part, doc.Name)}


def _walk(body: Sequence[doc.AST]) -> Generator[doc.AST, None, None]:
    stack: list[Any] = list(body)
    while stack:
        part = stack.pop()
        if isinstance(part, list):
            stack += part
        elif isinstance(part, doc.AST):
            yield part
            stack += [getattr(part, name) for name in doc.FIELDS[type(part).__name__]]


# -- functions in functions ----------------------------------------------------------------------
def read_inner(parser: Parser, node: doc.FunctionDef, options: Options) -> None:
    """Read a function in a function; its name stands for the closure."""
    owner = sequence("a function")
    frame = FunctionFrame(True, options.pure, node.name)
    frame.span = header(node)
    before = parser.setbacks()
    with _dialect(parser, node):
        frame.__enter__()
        try:
            _read_head(parser, frame, node)
            if node.name in _names_in(node.body) and frame.ret_info is None:
                parser.report_error(_missing_annotation(node), frame.span)
                parser.poison([node.name])
            elif node.name in _names_in(node.body) and frame.ret_info is not None:
                params = tuple([p.struct_info for p in frame.params])
                info = FuncStructInfo(params, frame.ret_info, frame.pure)
                frame.var = Var(node.name, info, span=header(node))
                if all(part.arg != node.name for part in node.args.args):
                    parser.vars.add(node.name, Entry(frame.var, "value", header(node)))
            parser.visit_body(node.body)
        finally:
            _close(parser, frame, parser.setbacks() > before)
    if frame.var is None or parser.setbacks() > before:
        raise PoisonedValue
    owner.last = frame.var, node.name
    parser.vars.add(node.name, Entry(frame.var, "value", header(node)))
