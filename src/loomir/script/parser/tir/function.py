"""The handler of functions in TIR: parameters, return type, body."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from loomir.ir.module import GlobalVar
from loomir.script.builder.buffer_spec import BufferSpec
from loomir.script.builder.dtypes import DTypeFunction
from loomir.script.builder.function import IRModuleFrame, PrimFuncFrame, arg, func_ret
from loomir.script.builder.mistakes import ArgumentError, mistake, with_span
from loomir.script.parser import doc
from loomir.script.parser.assignments import bind_name, list_reassigned_names, list_typed_locals
from loomir.script.parser.core import FunctionState, Parser, header
from loomir.script.parser.decorators import Options
from loomir.script.parser.evaluate.dialect import PoisonedValue
from loomir.script.parser.evaluate.namespaces import ModuleFunction
from loomir.script.parser.evaluate.var_table import POISON
from loomir.script.parser.module_calls import unquote
from loomir.script.parser.parameters import refuse_kinds
from loomir.script.parser.tir.statements import TOKEN
from loomir.support.diagnostics import CompileError
from loomir.support.dtype import HANDLE, DataType
from loomir.tir.expr import Var

__all__ = ["read_prim_func"]


def read_prim_func(parser: Parser, node: doc.FunctionDef, options: Options) -> None:
    """Read a function into the module that is being built, or as the program."""
    name = node.name if options.name is None else options.name
    frame = PrimFuncFrame(options.private, name, options.root_block)
    frame.span = header(node)
    before = len(parser.problems)
    parser.vars.ended.clear()
    with parser.dialect(TOKEN), parser.vars.frame() as scope:
        known = list_reassigned_names(node.body), list_typed_locals(node.body)
        # Before there is a function: in one, a name that is looked up and not found is marked as
        # refused, and the statement that uses it would be left out without a word.
        sizes = _sizes(parser, node.body)
        parser.function = FunctionState(node.name, scope, *known)
        frame.__enter__()
        try:
            if parser.builder.find(IRModuleFrame) is None:
                own = ModuleFunction(GlobalVar(name), node)
                bind_name(parser, node.name, own, "function", header(node))
            parser.function.sizes = sizes
            _read_parameters(parser, frame, node.args)
            _read_return_type(parser, node)
            parser.visit_body(node.body)
        finally:
            parser.function = None
            # A function with mistakes is not finished: its parts may be missing.
            failed = len(parser.problems) > before
            try:
                parser.builder.close(frame, failed)
            except CompileError as error:
                parser.report_error(error, frame.span)


def _sizes(parser: Parser, body: Sequence[doc.StmtNode]) -> dict[str, DataType]:
    """List the names that ``n = T.int32()`` or ``n, m = T.int32(), T.int32()`` declare."""
    found: dict[str, DataType] = {}
    for node in body:
        if isinstance(node, doc.Assign):
            for target in node.targets:
                for name, value in _pairs(target, node.value):
                    dtype = _read_declared_dtype(parser, value)
                    if dtype is not None:
                        found.setdefault(name, dtype)
    return found


def _pairs(target: doc.ExprNode, value: doc.ExprNode) -> list[tuple[str, doc.ExprNode]]:
    """Match the names of a target with the parts of a value."""
    sequence = doc.Tuple, doc.List
    if isinstance(target, sequence) and isinstance(value, sequence):
        return [
            (part.id, item)
            for part, item in zip(target.elts, value.elts)
            if isinstance(part, doc.Name)
        ]
    return [(target.id, value)] if isinstance(target, doc.Name) else []


def _read_declared_dtype(parser: Parser, node: doc.ExprNode) -> DataType | None:
    """Return the dtype of ``T.int32()``; None for any other expression."""
    if not isinstance(node, doc.Call) or node.args or not isinstance(node.func, doc.Attribute):
        return None
    try:
        function = parser.evaluate(node.func)
    except (CompileError, PoisonedValue):
        return None  # reported where the statement is read
    return function.dtype if isinstance(function, DTypeFunction) else None


def _read_parameters(parser: Parser, frame: PrimFuncFrame, args: doc.arguments) -> None:
    refuse_kinds(parser, args)
    values: dict[str, object] = {}
    # Numbers first: the shape of a buffer may name a parameter that comes after it.
    for is_buffer in (False, True):
        for part in args.args:
            if _describes_buffer(parser, part) == is_buffer:
                values[part.arg] = _read_parameter(parser, frame, part)
    order = {part.arg: index for index, part in enumerate(args.args)}
    made = {name: index for index, name in enumerate(values)}
    if len(frame.params) == len(order):
        frame.params = [
            frame.params[made[name]] for name in sorted(made, key=lambda name: order[name])
        ]


def _describes_buffer(parser: Parser, part: doc.arg) -> bool:
    if part.arg in parser.declared:
        return isinstance(parser.declared[part.arg], BufferSpec)
    node = part.annotation
    if isinstance(node, doc.Constant):
        return "Buffer" in str(node.value)
    return isinstance(node, doc.Call) and not (
        isinstance(node.func, doc.Attribute) and node.func.attr == "handle"
    )


def _read_parameter(parser: Parser, frame: PrimFuncFrame, part: doc.arg) -> object:
    value: object = POISON
    try:
        declared = parser.declared.get(part.arg)
        if declared is None and part.annotation is None:
            raise mistake(
                "SCR0015",
                f"parameter {part.arg!r} has no type",
                help=f'write {part.arg}: T.Buffer((8,), "float32"), T.handle, or T.int32',
                span=part.span,
            )
        place = part.annotation or part
        annotation: Any = declared
        if declared is None and part.annotation is not None:
            annotation = parser.evaluate(unquote(part.annotation))
        if annotation is BufferSpec:
            raise mistake(
                "SCR0015",
                f"parameter {part.arg!r} has no shape",
                help=f'write {part.arg}: T.Buffer((8,), "float32")',
                span=place.span,
            )
        try:
            value = arg(part.arg, annotation, part.span)
        except CompileError as error:
            raise _place_error(error, place) from error
    except (CompileError, PoisonedValue) as error:
        parser.report_error(error, part.span)
        frame.params.append(Var(part.arg, HANDLE))  # keeps the others in their order
    for name, var in frame.shape_names.items():  # of a T.Buffer(…) from around the function
        if parser.vars.get(name) is None:
            bind_name(parser, name, var, "shape", part.span)
    bind_name(parser, part.arg, value, "parameter", part.span)
    return value


def _place_error(error: CompileError, node: doc.AST) -> CompileError:
    """Place an error at the argument of ``T.Buffer`` that it blames, or at the annotation."""
    if isinstance(error, ArgumentError) and isinstance(node, doc.Call):
        for part in (*node.args, *(word.value for word in node.keywords)):
            if isinstance(part, doc.Constant) and part.value == error.culprit:
                return with_span(error, part.span)
    return with_span(error, node.span)


def _read_return_type(parser: Parser, node: doc.FunctionDef) -> None:
    if node.returns is None:
        return
    try:
        annotation: Any = parser.evaluate(unquote(node.returns))
        if not (annotation is None or isinstance(annotation, (DTypeFunction, Var))):
            raise mistake(
                "SCR0015",
                "a function returns a scalar or nothing",
                help="write `-> T.int32`; give arrays as parameters and write them in place",
                span=node.returns.span,
            )
        func_ret(annotation)
    except (CompileError, PoisonedValue) as error:
        parser.report_error(error, node.returns.span)
