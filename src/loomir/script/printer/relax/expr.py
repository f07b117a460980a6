"""Print expressions of Relax.

An expression that only statements can express (a branch, a function, bindings within an expression)
is printed before the current statement, which refers to it by name.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from loomir.ir.module import GlobalVar
from loomir.ir.op import Op
from loomir.ir.visit import Step
from loomir.relax.expr import (
    Call,
    DataflowVar,
    DataTypeImm,
    ExternFunc,
    PrimValue,
    StringImm,
    Tuple,
    TupleGetItem,
    Var,
)
from loomir.relax.operator.definition import OpDef, find_op
from loomir.relax.operator.params import REQUIRED
from loomir.relax.shape import INT64, ShapeExpr
from loomir.relax.struct_info import TupleStructInfo
from loomir.script.printer.doc import (
    CallDoc,
    ExprDoc,
    IndexDoc,
    ListDoc,
    LiteralDoc,
    TupleDoc,
)
from loomir.script.printer.docsifier import Docsifier, expr_handler, leaf_handler
from loomir.script.printer.relax.info import dims, docs_of
from loomir.script.printer.values import R, dict_doc, dtype_doc, text, value_doc
from loomir.support.diagnostics import CompileError
from loomir.support.dtype import DataType
from loomir.tir.expr import FloatImm, IntImm

__all__: list[str] = []

_FLOAT32: Final = DataType("float32")
_OUT_TY: Final = frozenset({"call_tir", "call_tir_inplace", "call_dps_packed"})
"""Operators whose result is described by ``out_ty``; others have ``ty_args``."""
_IN_PLACE: Final = frozenset({"call_tir_inplace", "call_inplace_packed"})
_OUTSIDE: Final = frozenset(
    {*_OUT_TY, *_IN_PLACE, "call_pure_packed", "invoke_closure", "invoke_pure_closure"}
)
"""Operators that call what is not an operator, of arguments in an order of their own."""


# -- leaves --------------------------------------------------------------------------------------
@leaf_handler("relax", Var, DataflowVar)
def _var(d: Docsifier, node: Var) -> ExprDoc:
    return d.name_of(node, node.name_hint)


@expr_handler("relax", ShapeExpr)
def _shape(d: Docsifier, node: ShapeExpr) -> Step[ExprDoc]:
    return R.attr("shape").call(ListDoc((yield dims(d, node.values))))


@expr_handler("relax", PrimValue)
def _prim_value(d: Docsifier, node: PrimValue) -> Step[ExprDoc]:
    value = node.value
    doc: ExprDoc | None = None
    if isinstance(value, IntImm) and (value.dtype is INT64 or value.dtype.is_bool):
        doc = LiteralDoc(bool(value.value) if value.dtype.is_bool else value.value)
    elif isinstance(value, FloatImm) and value.dtype is _FLOAT32:
        made = yield value_doc(d, value.value)
        doc = made
    return R.attr("prim_value").call(doc or (yield d.expr(value)))


@leaf_handler("relax", StringImm)
def _string(d: Docsifier, node: StringImm) -> ExprDoc:
    return R.attr("str").call(text(node.value))


@leaf_handler("relax", DataTypeImm)
def _dtype(d: Docsifier, node: DataTypeImm) -> ExprDoc:
    return R.attr("dtype").call(dtype_doc(node.value))


@leaf_handler("relax", ExternFunc)
def _extern(d: Docsifier, node: ExternFunc) -> ExprDoc:
    return R.attr("ExternFunc").call(text(node.global_symbol))


# -- tuples --------------------------------------------------------------------------------------
@expr_handler("relax", Tuple)
def _tuple(d: Docsifier, node: Tuple) -> Step[ExprDoc]:
    return TupleDoc((yield docs_of(d, node.fields)))


@expr_handler("relax", TupleGetItem)
def _item(d: Docsifier, node: TupleGetItem) -> Step[ExprDoc]:
    if isinstance(node.tuple_value, Tuple):  # Python's own would be unpacked while parsing
        whole: ExprDoc = R.attr("tuple").call(*(yield docs_of(d, node.tuple_value.fields)))
    else:
        whole = yield d.expr(node.tuple_value)
    return IndexDoc(whole, (LiteralDoc(node.index),))


# -- calls ---------------------------------------------------------------------------------------
@expr_handler("relax", Call)
def _call(d: Docsifier, node: Call) -> Step[ExprDoc]:
    args = yield docs_of(d, node.args)
    if isinstance(node.op, Op) and _calls_outside(node, node.op):
        return (yield _call_outside(d, node, node.op, args))
    if isinstance(node.op, ExternFunc) and not node.attrs:
        keywords = yield _describe(d, node, "ty_args")
        name = text(node.op.global_symbol)
        return R.attr("call_packed").call(name, *args, **keywords)
    if isinstance(node.op, Op):
        row = find_op(node.op.name)
        given = None if row is None else _options(row, node)
        if given is not None:
            assert row is not None
            return (yield _operator(d, node, row, args, given))
    elif not node.attrs:
        keywords = yield _describe(d, node, "ty_args")
        return CallDoc((yield d.expr(node.op)), args, tuple(keywords.items()))
    return (yield _general(d, node, args))


def _operator(
    d: Docsifier, node: Call, row: OpDef, args: tuple[ExprDoc, ...], given: Mapping[str, Any]
) -> Step[ExprDoc]:
    """Write ``R.name(inputs, options that are not the default)``; inputs after those by name."""
    assert isinstance(node.op, Op)
    callee: ExprDoc = R
    for part in node.op.name.removeprefix("relax.").split("."):
        callee = callee.attr(part)
    leading = _count_leading(row, len(args))
    keywords = dict(zip([p.name for p in row.inputs[leading:]], args[leading:]))
    for name, value in given.items():
        if isinstance(value, DataType):
            keywords[name] = dtype_doc(value)
        else:
            keywords[name] = yield value_doc(d, value)
    keywords.update((yield _describe(d, node, "ty_args")))
    return callee.call(*args[:leading], **keywords)


def _calls_outside(node: Call, op: Op) -> bool:
    """Tell whether a call is one that the functions of ``_OUTSIDE`` make."""
    name = op.name.removeprefix("relax.")
    attrs = {"inplace_indices"} if name in _IN_PLACE else set[str]()
    if name not in _OUTSIDE or set(node.attrs) != attrs or not node.args:
        return False
    if not node.sinfo_args and name != "call_pure_packed":
        return False
    first, *rest = node.args
    if name.startswith("call_tir"):
        more = rest[1:]
        fits = isinstance(first, GlobalVar) and all(isinstance(a, ShapeExpr) for a in more)
        return fits and len(more) <= 1 and bool(rest) and _is_tuple(rest[0])
    if name.endswith("_closure"):
        return len(rest) == 1 and _is_tuple(rest[0])
    if not isinstance(first, ExternFunc):
        return False
    return name != "call_dps_packed" or (len(rest) == 1 and _is_tuple(rest[0]))


def _is_tuple(expr: object) -> bool:
    """Tell whether an expression is read as a tuple of arguments, and not as one of them."""
    info = getattr(expr, "struct_info_annotation", None)
    return isinstance(expr, Tuple) or isinstance(info, TupleStructInfo)


def _call_outside(d: Docsifier, node: Call, op: Op, args: tuple[ExprDoc, ...]) -> Step[ExprDoc]:
    """Write a call of a kernel, a packed function or a closure by an operator."""
    name = op.name.removeprefix("relax.")
    first = node.args[0]
    if isinstance(first, ExternFunc):
        args = (text(first.global_symbol), *args[1:])
    keywords: dict[str, ExprDoc] = {}
    if name.startswith("call_tir") and len(args) > 2:
        keywords["tir_vars"] = args[2]
        args = args[:2]
    for key, value in node.attrs.items():
        keywords[key] = yield value_doc(d, value)
    keywords.update((yield _describe(d, node, "out_ty" if name in _OUT_TY else "ty_args")))
    return R.attr(name).call(*args, **keywords)


def _describe(d: Docsifier, node: Call, name: str) -> Step[dict[str, ExprDoc]]:
    """Ask for the keyword that describes results: one by itself, several as a list."""
    if not node.sinfo_args:
        return {}
    docs = yield docs_of(d, node.sinfo_args)
    return {name: docs[0] if len(docs) == 1 else ListDoc(docs)}


def _count_leading(row: OpDef, count: int) -> int:
    """Return how many of a call's arguments come before its first option, and need no name."""
    inputs = row.inputs
    if count > len(inputs) or any(param.variadic for param in inputs):
        return count
    before = next((k for k, param in enumerate(row.params) if param not in inputs), count)
    return min(before, count)


def _options(row: OpDef, node: Call) -> dict[str, Any] | None:
    """Return options to write; None if the operator makes another call of what is written."""
    given: dict[str, Any] = {}
    for param in row.options:
        if param.name not in node.attrs:
            return None
        value = node.attrs[param.name]
        if (
            param.default is REQUIRED
            or type(value) is not type(param.default)
            or value != param.default
        ):
            given[param.name] = value
    described = {"sinfo_args": node.sinfo_args} if node.sinfo_args else {}
    try:
        leading = _count_leading(row, len(node.args))
        named = zip((p.name for p in row.inputs[leading:]), node.args[leading:])
        made = row.call(*node.args[:leading], **dict(named), **given, **described)
    except CompileError:
        return None
    same = (
        made.op is node.op
        and len(made.args) == len(node.args)
        and all(a is b for a, b in zip(made.args, node.args))
        and made.sinfo_args == node.sinfo_args
        and made.attrs == node.attrs
    )
    return given if same else None


def _general(d: Docsifier, node: Call, args: tuple[ExprDoc, ...]) -> Step[ExprDoc]:
    """Write a call that has no form of its own, all parts named."""
    keywords = yield _describe(d, node, "ty_args")
    if node.attrs:
        keywords["attrs"] = yield dict_doc(d, node.attrs)
    op = yield d.expr(node.op)
    return R.attr("Call").call(op, ListDoc(args), **keywords)
