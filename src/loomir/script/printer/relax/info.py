"""Print structural information, devices, and the expressions of shape variables in it.

An extent that is a number is printed plainly. Other numbers are plain if the parser gives them the
dtype int64: beside an operand that is not a number.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from loomir.ir.module import VDevice
from loomir.ir.visit import Step, pre_order
from loomir.relax.shape import INT64, ShapeExpr
from loomir.relax.struct_info import (
    FuncStructInfo,
    ObjectStructInfo,
    PrimStructInfo,
    ShapeStructInfo,
    TensorStructInfo,
    TupleStructInfo,
)
from loomir.script.printer.doc import (
    AssignDoc,
    ExprDoc,
    ListDoc,
    LiteralDoc,
    OperationDoc,
    TupleDoc,
)
from loomir.script.printer.docsifier import Docsifier, expr_handler, leaf_handler
from loomir.script.printer.tir.expr import FUNCTIONS, SYMBOLS
from loomir.script.printer.values import (
    I,
    R,
    T,
    declaration,
    dtype_doc,
    print_typed,
    text,
    value_doc,
)
from loomir.support.dtype import DataType
from loomir.tir.expr import IntImm, PrimExpr, Var

__all__ = ["dims", "docs_of", "vdevice_doc"]

_PLAIN: Final = (INT64, DataType("int32"))
_DEFAULT_DEVICE: Final = VDevice()


def docs_of(d: Docsifier, nodes: Sequence[Any]) -> Step[tuple[ExprDoc, ...]]:
    """Ask for the documents of several nodes."""
    docs: list[ExprDoc] = []
    for node in nodes:
        docs.append((yield d.expr(node)))
    return tuple(docs)


# -- shapes --------------------------------------------------------------------------------------
def dims(d: Docsifier, values: Sequence[PrimExpr]) -> Step[tuple[ExprDoc, ...]]:
    """Ask for the documents of extents."""
    docs: list[ExprDoc] = []
    for value in values:
        if isinstance(value, IntImm):
            docs.append(LiteralDoc(value.value))
        else:
            docs.append((yield d.expr(value)))
    return tuple(docs)


@leaf_handler("relax", Var)
def _shape_var(d: Docsifier, node: Var) -> ExprDoc:
    known = d.find_known(node)
    if known is None:
        known = d.declare(node, node.name_hint)
        if d.shape_vars is not None:
            d.shape_vars.append(AssignDoc(known, declaration(node.type_annotation)))
    return known


@leaf_handler("relax", IntImm)
def _int(d: Docsifier, node: IntImm) -> ExprDoc:
    return print_typed(node.value, node.dtype)


def _operands(d: Docsifier, a: PrimExpr, b: PrimExpr) -> Step[tuple[ExprDoc, ExprDoc]]:
    plain = isinstance(a, IntImm) != isinstance(b, IntImm)
    docs: list[ExprDoc] = []
    for operand in (a, b):
        if plain and isinstance(operand, IntImm) and operand.dtype in _PLAIN:
            docs.append(LiteralDoc(operand.value))
        else:
            docs.append((yield d.expr(operand)))
    return docs[0], docs[1]


@expr_handler("relax", *SYMBOLS)
def _binary(d: Docsifier, node: Any) -> Step[ExprDoc]:
    return OperationDoc(SYMBOLS[type(node)], (yield _operands(d, node.a, node.b)))


@expr_handler("relax", *FUNCTIONS)
def _function(d: Docsifier, node: Any) -> Step[ExprDoc]:
    return T.attr(FUNCTIONS[type(node)]).call(*(yield _operands(d, node.a, node.b)))


# -- structural information ----------------------------------------------------------------------
@leaf_handler("relax", ObjectStructInfo)
def _object(d: Docsifier, node: ObjectStructInfo) -> ExprDoc:
    return R.attr("Any").call()


@expr_handler("relax", PrimStructInfo)
def _prim(d: Docsifier, node: PrimStructInfo) -> Step[ExprDoc]:
    if node.value is None:
        return R.attr("Prim").call(dtype_doc(node.dtype))
    value = yield d.expr(node.value)
    if node.dtype is INT64 or not any(isinstance(p, Var) for p in pre_order(node.value)):
        return R.attr("Prim").call(value=value)
    return R.attr("Prim").call(dtype_doc(node.dtype), value=value)


@expr_handler("relax", ShapeStructInfo)
def _shape(d: Docsifier, node: ShapeStructInfo) -> Step[ExprDoc]:
    if node.values is not None:
        return R.attr("Shape").call(ListDoc((yield dims(d, node.values))))
    if node.ndim < 0:
        return R.attr("Shape").call()
    return R.attr("Shape").call(ndim=LiteralDoc(node.ndim))


@expr_handler("relax", TensorStructInfo)
def _tensor(d: Docsifier, node: TensorStructInfo) -> Step[ExprDoc]:
    args: tuple[ExprDoc, ...] = ()
    keywords: dict[str, ExprDoc] = {}
    if isinstance(node.shape, ShapeExpr):
        args = (TupleDoc((yield dims(d, node.shape.values))),)
    elif node.shape is not None:
        args = ((yield d.expr(node.shape)),)
    if not node.dtype.is_void:
        keywords["dtype"] = dtype_doc(node.dtype)
    if node.vdevice is not None:
        keywords["vdevice"] = yield vdevice_doc(d, node.vdevice)
    if node.shape is None and node.ndim >= 0:
        keywords["ndim"] = LiteralDoc(node.ndim)
    return R.attr("Tensor").call(*args, **keywords)


@expr_handler("relax", TupleStructInfo)
def _tuple(d: Docsifier, node: TupleStructInfo) -> Step[ExprDoc]:
    return R.attr("Tuple").call(*(yield docs_of(d, node.fields)))


@expr_handler("relax", FuncStructInfo)
def _func(d: Docsifier, node: FuncStructInfo) -> Step[ExprDoc]:
    keywords: dict[str, ExprDoc] = {}
    args: tuple[ExprDoc, ...] = ()
    if node.params is not None:
        params = yield docs_of(d, node.params)
        args = (TupleDoc(params), (yield d.expr(node.ret)))
    elif not isinstance(node.ret, ObjectStructInfo):
        keywords["ret"] = yield d.expr(node.ret)
    if not node.purity or node.params is None:  # a packed function is usually taken for impure
        keywords["purity"] = LiteralDoc(node.purity)
    if node.derive_func is not None:
        derive = node.derive_func
        # A Python function has no form; its name tells the reader which it is.
        name = derive if isinstance(derive, str) else getattr(derive, "__name__", str(derive))
        keywords["derive_func"] = text(name)
    return R.attr("Callable").call(*args, **keywords)


# -- devices -------------------------------------------------------------------------------------
def vdevice_doc(d: Docsifier, device: VDevice) -> Step[ExprDoc]:
    """Ask for the document of a device; arguments that are the usual ones at the end left out."""
    given = [device.target, device.dev_id, device.mem_scope]
    usual = [_DEFAULT_DEVICE.target, _DEFAULT_DEVICE.dev_id, _DEFAULT_DEVICE.mem_scope]
    while given and given[-1] == usual[len(given) - 1]:
        given.pop()
    args: list[ExprDoc] = []
    for value in given:
        args.append((yield value_doc(d, value)))
    return I.attr("vdevice").call(*args)


@expr_handler("default", VDevice)
def _vdevice(d: Docsifier, node: VDevice) -> Step[ExprDoc]:
    return (yield vdevice_doc(d, node))
