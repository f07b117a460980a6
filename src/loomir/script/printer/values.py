"""Print plain data: literals, dtypes, types, values of attributes and annotations."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, cast

from loomir.ir.node import Node
from loomir.ir.visit import Step
from loomir.script.printer.doc import (
    CallDoc,
    DictDoc,
    ExprDoc,
    IdDoc,
    ListDoc,
    LiteralDoc,
    TupleDoc,
)
from loomir.script.printer.docsifier import Docsifier, leaf_handler
from loomir.support.dtype import DataType
from loomir.tir.expr import IntImm, StringImm
from loomir.tir.types import PointerType, PrimType, TupleType, Type

__all__ = [
    "I",
    "R",
    "T",
    "declaration",
    "dict_doc",
    "dtype_doc",
    "print_typed",
    "text",
    "type_doc",
    "value_doc",
]

I = IdDoc("I")  # noqa: E741, the name that programs use
T = IdDoc("T")
R = IdDoc("R")


def text(value: str) -> LiteralDoc:
    """Return a string literal."""
    return LiteralDoc(value)


def dtype_doc(dtype: DataType) -> LiteralDoc:
    """Return a dtype as the string that arguments take."""
    return LiteralDoc(str(dtype))


def print_typed(value: int, dtype: DataType) -> CallDoc:
    """Return a constant that says its dtype, as ``T.int64(5)``."""
    return T.attr(str(dtype)).call(LiteralDoc(bool(value) if dtype.is_bool else value))


def type_doc(annotation: Type) -> ExprDoc:
    """Return a type as annotations write it."""
    if isinstance(annotation, PrimType):
        return T.attr(str(annotation.dtype))
    if isinstance(annotation, PointerType) and isinstance(annotation.element_type, PrimType):
        args = [dtype_doc(annotation.element_type.dtype)]
        if annotation.storage_scope != "global":
            args.append(text(annotation.storage_scope))
        return T.attr("handle").call(*args)
    if isinstance(annotation, TupleType) and annotation.fields:
        return T.attr("Tuple").call(*(type_doc(field) for field in annotation.fields))
    return T.attr("void")


def declaration(annotation: Type) -> ExprDoc:
    """Return what a variable of a type is assigned where it is declared, as ``T.int64()``."""
    doc = type_doc(annotation)
    return doc if isinstance(doc, CallDoc) else doc.call()


@leaf_handler("tir", PrimType, PointerType, TupleType)
def _type(d: Docsifier, node: Type) -> ExprDoc:
    return type_doc(node)


def value_doc(d: Docsifier, value: object) -> Step[ExprDoc]:
    """Ask for an attribute's value; plain data stays plain, constants say their dtype."""
    if isinstance(value, IntImm):
        return print_typed(value.value, value.dtype)
    if isinstance(value, StringImm):
        return T.attr("StringImm").call(text(value.value))
    if isinstance(value, Node):
        return (yield d.expr(value))
    if isinstance(value, Mapping):
        return (yield dict_doc(d, cast("Mapping[Any, object]", value)))
    if isinstance(value, (tuple, list)):
        items: list[ExprDoc] = []
        for item in cast("tuple[object, ...]", value):
            items.append((yield value_doc(d, item)))
        return TupleDoc(tuple(items)) if isinstance(value, tuple) else ListDoc(tuple(items))
    if isinstance(value, DataType):
        return T.attr("dtype").call(dtype_doc(value))
    if isinstance(value, float) and not math.isfinite(value):
        return IdDoc("float").call(text(str(value)))
    if value is None or isinstance(value, (bool, int, float, str)):
        return LiteralDoc(value)
    return LiteralDoc(repr(value))


def dict_doc(d: Docsifier, values: Mapping[Any, object]) -> Step[DictDoc]:
    """Ask for the document of attributes or annotations."""
    items: list[tuple[ExprDoc, ExprDoc]] = []
    for key, value in values.items():
        key_doc = yield value_doc(d, key)
        items.append((key_doc, (yield value_doc(d, value))))
    return DictDoc(tuple(items))
