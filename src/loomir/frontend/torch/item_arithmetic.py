"""Import arithmetic on floats that a program reads from tensors: ``2 * x.mean().item()``.

PyTorch writes it as Python's operators on a number that it does not know. Here such a number is a
tensor of float64 without axes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias

import numpy as np

from loomir import op
from loomir.relax.expr import Constant, PrimValue
from loomir.relax.node import RelaxExpr
from loomir.support.array import Array
from loomir.support.dtype import DataType
from loomir.tir.expr import PrimExpr, cast

__all__ = ["compute_item", "is_item_arithmetic", "is_read_float"]

Emit: TypeAlias = Callable[[RelaxExpr], RelaxExpr]
_FLOAT: Final = "float64"


def is_read_float(value: Any) -> bool:
    """Tell whether a number of PyTorch depends on a float that is read from a tensor."""
    node = getattr(value, "node", None)
    return node is not None and any(str(s).startswith("zuf") for s in node.expr.free_symbols)


def is_item_arithmetic(target: Any) -> bool:
    """Tell whether a node's function computes with such numbers."""
    return _name_of(target) in _FUNCTIONS


def compute_item(target: Any, operands: Sequence[Any], emit: Emit) -> RelaxExpr:
    """Return the result of a function in ``is_item_arithmetic``, a tensor without axes."""
    given = [emit(_tensor_of(operand)) for operand in operands]
    return emit(_FUNCTIONS[_name_of(target)](*given))


def _name_of(target: Any) -> str:
    return str(getattr(target, "__name__", "")).removeprefix("_")


def _tensor_of(value: Any) -> RelaxExpr:
    if isinstance(value, RelaxExpr):
        return value
    if isinstance(value, PrimExpr):
        return op.full((), PrimValue(cast(value, DataType(_FLOAT))), _FLOAT)
    dtype = "bool" if isinstance(value, bool) else _FLOAT
    return Constant(Array(np.array(value, dtype)))


def _keep(x: RelaxExpr) -> RelaxExpr:
    return x


_FUNCTIONS: Final[Mapping[str, Callable[..., RelaxExpr]]] = {
    "add": op.add,
    "sub": op.subtract,
    "mul": op.multiply,
    "truediv": op.divide,
    "floordiv": op.floor_divide,
    "mod": op.floor_mod,
    "pow": op.power,
    "neg": op.negative,
    "pos": _keep,
    "abs": op.abs,
    "lt": op.less,
    "le": op.less_equal,
    "gt": op.greater,
    "ge": op.greater_equal,
    "eq": op.equal,
    "ne": op.not_equal,
    "and_": op.logical_and,
    "or_": op.logical_or,
    "sym_float": _keep,
    "sym_not": op.logical_not,
    "sym_max": op.maximum,
    "sym_min": op.minimum,
    "sym_ite": op.where,
    "sym_sqrt": op.sqrt,
    "sym_sin": op.sin,
    "sym_cos": op.cos,
    "sym_tan": op.tan,
    "sym_sinh": op.sinh,
    "sym_cosh": op.cosh,
    "sym_tanh": op.tanh,
    "sym_asin": op.asin,
    "sym_acos": op.acos,
    "sym_atan": op.atan,
}
"""Operators of Python, and functions of PyTorch on numbers, by name."""
