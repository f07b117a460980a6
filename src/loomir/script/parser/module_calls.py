"""Calls of functions of the same module: parameters and results, read from the callee's header."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from loomir.script.builder.arguments import as_stored
from loomir.script.builder.buffer_spec import BufferSpec
from loomir.script.builder.dtypes import DTypeFunction
from loomir.script.builder.mistakes import mistake, with_span
from loomir.script.parser import doc
from loomir.script.parser.convert import read_expression
from loomir.script.parser.evaluate.dialect import PoisonedValue
from loomir.script.parser.evaluate.evaluator import ExprEvaluator
from loomir.script.parser.evaluate.namespaces import ModuleFunction
from loomir.script.parser.evaluate.operators import is_expr, kind
from loomir.support.diagnostics import CompileError, Diagnostic
from loomir.support.dtype import HANDLE, VOID, DataType
from loomir.tir.array_argument import describe
from loomir.tir.buffer import Buffer
from loomir.tir.expr import Call, IntImm, PrimExpr, Var

__all__ = ["make_call", "returns_value", "unquote"]

BUFFER: Final = "a buffer"


class _EndlessHead(CompileError):
    """A head that cannot be read before itself."""


class Head(NamedTuple):
    """What a function takes (a dtype, or ``a buffer``) and what it gives."""

    parameters: tuple[tuple[str, DataType | str], ...]
    returns: DataType


def make_call(
    evaluator: ExprEvaluator,
    target: ModuleFunction,
    node: doc.Call,
    args: list[object],
    parts: Sequence[doc.ExprNode],
) -> PrimExpr:
    """Make the call; a buffer is passed by its pointer, a plain number takes the parameter's dtype.

    Errors: SCR0023 where the arguments are not what the function takes.
    """
    if target.is_relax:
        raise mistake(
            "SCR0023",
            f"{target.node.name!r} is a function of Relax, and a kernel calls kernels only",
            help="call both from a function of Relax",
            span=node.span,
        )
    if target.node in evaluator.heads:
        raise _EndlessHead(
            Diagnostic(
                "SCR0023",
                f"the head of {target.node.name!r} calls {target.node.name!r}",
                node.span,
                help="write a type or a buffer there, without calls of functions",
            )
        )
    evaluator.heads.add(target.node)
    try:
        head = _head(evaluator, target.node)
    except CompileError as error:
        raise with_span(error, node.span) from error
    finally:
        evaluator.heads.discard(target.node)
    name = target.node.name
    if len(args) != len(head.parameters):
        wanted = ", ".join(p for p, _ in head.parameters) or "nothing"
        raise mistake(
            "SCR0023",
            f"{name} takes {_count(len(head.parameters))}, not {len(args)}",
            help=f"its parameters: {wanted}",
            span=node.span,
        )
    given: list[PrimExpr] = []
    for (parameter, wanted), value, part in zip(head.parameters, args, parts, strict=True):
        made = _argument(value, wanted)
        if made is None:
            raise mistake(
                "SCR0023",
                f"parameter {parameter!r} of {name} is {wanted}, not {kind(value)}",
                help="pass a buffer by its name"
                if wanted in (BUFFER, HANDLE)
                else f"convert it with T.cast(…, {str(wanted)!r})",
                span=part.span,
            )
        given.append(made)
    return Call(head.returns, target.var, tuple(given), span=node.span)


def _count(number: int) -> str:
    return f"{number} argument{'' if number == 1 else 's'}"


def _argument(value: object, wanted: DataType | str) -> PrimExpr | None:
    if isinstance(value, Buffer):
        return _pass_pointer(value) if wanted in (BUFFER, HANDLE) else None
    if wanted in (BUFFER, HANDLE):
        return value if isinstance(value, PrimExpr) and value.dtype.is_handle else None
    if not isinstance(wanted, DataType) or not (
        is_expr(value) or isinstance(value, (bool, int, float))
    ):
        return None
    made = as_stored(value, wanted)
    return made if made.dtype is wanted else None


def _pass_pointer(buffer: Buffer) -> PrimExpr:
    """Pass a buffer by its pointer; one that lies elsewhere in that memory by a description."""
    offset = buffer.elem_offset
    at_start = offset is None or (isinstance(offset, IntImm) and offset.value == 0)
    return buffer.data if at_start and not buffer.strides else describe(buffer)


def _head(evaluator: ExprEvaluator, node: doc.FunctionDef) -> Head:
    """Read a function's head; mistakes in it are reported where the function is read."""
    try:
        parameters = tuple([(a.arg, _parameter(evaluator, a)) for a in node.args.args])
        returns = _returns(evaluator, node)
    except _EndlessHead:
        raise
    except CompileError as error:
        if node.returns is None and any(d.code == "SCR0023" for d in error.diagnostics):
            raise
        raise PoisonedValue from error
    return Head(parameters, returns)


def unquote(node: doc.ExprNode) -> doc.ExprNode:
    """Return the expression in an annotation that is a string."""
    if isinstance(node, doc.Constant) and isinstance(node.value, str):
        return read_expression(node.value, node.span)
    return node


def _parameter(evaluator: ExprEvaluator, arg: doc.arg) -> DataType | str:
    if arg.annotation is None:
        raise PoisonedValue
    node = unquote(arg.annotation)
    if isinstance(node, doc.Call) and evaluator.evaluate(node.func) is BufferSpec:
        return BUFFER
    return _dtype(evaluator.evaluate(node))


def _dtype(value: object) -> DataType:
    if isinstance(value, DTypeFunction):
        return value.dtype
    if isinstance(value, Var):
        return value.dtype
    raise PoisonedValue


def _returns(evaluator: ExprEvaluator, node: doc.FunctionDef) -> DataType:
    if node.returns is None:
        if returns_value(node):
            raise mistake(
                "SCR0023",
                f"{node.name} returns a value, but its head does not say which dtype",
                help=f"write the return type, as in `def {node.name}(…) -> T.int32:`",
            )
        return VOID
    value = evaluator.evaluate(unquote(node.returns))
    return VOID if value is None else _dtype(value)


def returns_value(node: doc.FunctionDef) -> bool:
    """Whether a function has a ``return`` with a value."""
    stack: list[doc.AST] = list(node.body)
    while stack:
        part = stack.pop()
        if isinstance(part, doc.Return) and part.value is not None:
            return True
        for name in ("body", "orelse"):
            stack.extend(getattr(part, name, ()))
    return False
