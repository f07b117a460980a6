"""Print constants of Relax: small ones as lists, others as bytes or as a reference to a file."""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from loomir.relax.expr import Constant
from loomir.script.builder.relax.constants import inline_reference, reference_of, store_constant
from loomir.script.printer.doc import ExprDoc, IdDoc, ListDoc, LiteralDoc, TupleDoc
from loomir.script.printer.docsifier import Docsifier, leaf_handler
from loomir.script.printer.values import R, dtype_doc, text
from loomir.support.array import Array

__all__: list[str] = []

_LISTED: Final = 32
"""How many elements a list may have: what a reader takes in."""


@leaf_handler("relax", Constant)
def _constant(d: Docsifier, node: Constant) -> ExprDoc:
    array = node.data
    if array.data.size <= _LISTED:
        listed = _write_list(array)
        if listed is not None:
            return R.attr("const").call(listed, dtype_doc(array.dtype))
        reference = inline_reference(array)
    else:
        reference = _reference(array, d.constants)
    shape = TupleDoc(tuple([LiteralDoc(extent) for extent in array.shape]))
    return R.attr("const").call(R.attr("data").call(text(reference), shape, dtype_doc(array.dtype)))


def _reference(array: Array, constants: str) -> str:
    if constants == "named" or (constants == "stored" and store_constant(array)):
        return reference_of(array)
    return inline_reference(array)


def _write_list(array: Array) -> ExprDoc | None:
    """Return an array as numbers in lists; None if these would not make it again."""
    kind = array.data.dtype.type
    data: Any = array.data
    values = [_number(item, kind) for item in data.reshape(-1)]
    plain: Any = np.array(values, dtype=data.dtype)
    plain = plain.reshape(array.shape)
    if Array(plain) != array or _loses_axes(array.shape):
        return None
    docs: list[ExprDoc] = [_number_doc(value) for value in values]
    if not docs:
        return ListDoc(())
    for extent in reversed(array.shape):
        rows = range(0, len(docs), extent)
        docs = [ListDoc(tuple(docs[i : i + extent])) for i in rows]
    return docs[0]


def _loses_axes(shape: tuple[int, ...]) -> bool:
    """Tell whether lists of this shape would not show all axes: ``[]`` for (0, 3)."""
    return 0 in shape and len(shape) > 1


def _number(item: Any, kind: Any) -> bool | int | float:
    """Return an element as Python's number, of as few digits as make the element again."""
    if issubclass(kind, np.bool_):
        return bool(item)
    if issubclass(kind, np.integer):
        return int(item)
    exact = float(item)
    if not math.isfinite(exact):
        return float(str(exact))  # a NaN as the text will give it
    short = float(str(item))
    return short if kind(short).tobytes() == item.tobytes() else exact


def _number_doc(value: bool | int | float) -> ExprDoc:
    if isinstance(value, float) and not math.isfinite(value):
        return IdDoc("float").call(text(str(value)))
    return LiteralDoc(value)
