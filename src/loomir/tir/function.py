"""Functions of TIR: parameters, their buffers, a body."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from loomir.ir.module import BaseFunc
from loomir.ir.node import attr, binds, child, meta, node, replace_lists, reset
from loomir.ir.visit import pre_order
from loomir.support.printing import to_text
from loomir.support.span import Span
from loomir.tir.buffer import Buffer
from loomir.tir.builtins.table import RET
from loomir.tir.expr import Call, PrimExpr, Var
from loomir.tir.rules import refuse
from loomir.tir.stmt import Stmt
from loomir.tir.types import VOID_TYPE, PointerType, PrimType, Type

__all__ = ["PrimFunc", "type_of_returns"]


@node
class PrimFunc(BaseFunc):
    """A function on scalars and buffers.

    A parameter that ``buffer_map`` maps to a buffer takes an array, the others take numbers or
    handles. Names that first occur in a buffer's shape, strides or offset are bound from the array
    that is passed. Arrays may not overlap. ``ret_type`` is the type of what ``T.ret`` returns; left
    out, it is inferred. ``buffer_map`` is kept in the order of ``params``.
    Errors: TIR0305 for returns of different types, TIR0306 for a buffer of something that is no
    parameter.
    """

    params: tuple[Var, ...] = binds()
    body: Stmt
    ret_type: Type = child(default=None)
    buffer_map: Mapping[Var, Buffer] = binds(default_factory=dict)
    attrs: Mapping[str, Any] = attr(default_factory=dict)
    span: Span | None = meta(default=None, kw_only=True)

    def __post_init__(self) -> None:
        if self.attrs:
            replace_lists(self, "attrs")
        for param in self.buffer_map:
            if not any(param is p for p in self.params):
                refuse(
                    "TIR0306",
                    f"{param.name_hint!r} has a buffer but is not a parameter",
                    help="match buffers of parameters only",
                    span=self.span,
                )
            if not param.dtype.is_handle:
                refuse(
                    "TIR0306",
                    f"parameter {param.name_hint!r} has a buffer but is {param.dtype}",
                    help="declare it as T.handle",
                    span=param.span or self.span,
                )
        in_order = {p: self.buffer_map[p] for p in self.params if p in self.buffer_map}
        if list(in_order) != list(self.buffer_map):
            reset(self, "buffer_map", in_order)
        if self.ret_type is None:  # pyright: ignore[reportUnnecessaryComparison]
            reset(self, "ret_type", type_of_returns(self.body))

    @property
    def name(self) -> str:
        """The ``global_symbol``, or ``main`` where there is none."""
        return str(self.attrs.get("global_symbol", "main"))

    def script(self) -> str:
        """Write the function as TVMScript, which parses back to an equal function."""
        return to_text(self)


def type_of_returns(body: Stmt) -> Type:
    """Return the type that all ``T.ret`` in ``body`` return, the empty tuple where there is none.

    Errors: TIR0305.
    """
    found: Type | None = None
    for part in pre_order(body):
        if isinstance(part, Call) and part.op is RET:
            made = _type_of(part.args[0])
            if found is not None and (
                type(made) is not type(found) or str_of(made) != str_of(found)
            ):
                refuse(
                    "TIR0305",
                    f"one return gives {str_of(found)}, another {str_of(made)}",
                    help="cast the returned values to one dtype",
                    span=part.span,
                )
            found = made
    return VOID_TYPE if found is None else found


def _type_of(value: PrimExpr) -> Type:
    if isinstance(value, Var):
        return value.type_annotation
    if value.dtype.is_handle:
        return PointerType(PrimType(value.dtype))
    return PrimType(value.dtype)


def str_of(annotation: Type) -> str:
    """Name a type in a message."""
    if isinstance(annotation, PrimType):
        return str(annotation.dtype)
    if isinstance(annotation, PointerType):
        return f"pointer to {str_of(annotation.element_type)} in {annotation.storage_scope}"
    return "nothing"
