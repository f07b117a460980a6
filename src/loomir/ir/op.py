"""The table of operators: callees of a ``Call`` other than functions of the module."""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum

from loomir.ir.node import Node, attr, meta, node
from loomir.ir.serialize import serializable
from loomir.support.diagnostics import InternalError

__all__ = ["Effect", "Op"]


@serializable
class Effect(Enum):
    """The effects of evaluating a call of an operator, from least to most."""

    EXPR_ANNOTATION = "kExprAnnotation"
    PURE = "kPure"
    READ_STATE = "kReadState"
    UPDATE_STATE = "kUpdateState"
    SPECIAL_CALL_ARG = "kSpecialCallArg"
    EMBED_INFO = "kEmbedInfo"
    CONTROL_JUMP = "kControlJump"
    OPAQUE = "kOpaque"


_TABLE: dict[str, Op] = {}


@node
class Op(Node):
    """An operator by its qualified name, such as ``tir.exp``; one object per name."""

    name: str = attr()
    effect: Effect = meta(default=Effect.OPAQUE)

    @staticmethod
    def register(name: str, effect: Effect) -> Op:
        """Add an operator to the table."""
        if name in _TABLE:
            raise InternalError(f"operator {name} is registered twice")
        _TABLE[name] = made = Op(name, effect)
        return made

    @staticmethod
    def restore(name: str, effect: Effect = Effect.OPAQUE) -> Op:
        """Find the operator that a saved program names."""
        return _TABLE[name]

    @staticmethod
    def get(name: str) -> Op | None:
        """Find an operator, or None."""
        return _TABLE.get(name)

    @staticmethod
    def names() -> Iterator[str]:
        """List all operators."""
        return iter(_TABLE)
