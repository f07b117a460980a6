"""Operators of Relax: a family to a file, one ``define_op`` for each operator.

Importing this package defines all of them. The names are those of ``R`` in TVMScript.
"""

from __future__ import annotations

from loomir.op import nn
from loomir.op.manipulate import (
    broadcast_to,
    concat,
    expand_dims,
    flatten,
    flip,
    permute_dims,
    reshape,
    squeeze,
    stack,
)
from loomir.op.unary import negative

__all__ = [
    "broadcast_to",
    "concat",
    "expand_dims",
    "flatten",
    "flip",
    "negative",
    "nn",
    "permute_dims",
    "reshape",
    "squeeze",
    "stack",
]
