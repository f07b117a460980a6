"""Decide which operators may compute in 16-bit floats, and which must not.

Loomir computes them in float32 and rounds once, so the only risk is the range of a float16 result:
numbers beyond 65504 become infinite, and those below 6e-5 lose digits.
"""

from __future__ import annotations

from enum import Enum
from typing import Final

from loomir.relax.operator.definition import OpDef

__all__ = ["Precision", "precision_of"]


class Precision(Enum):
    """The precision in which an operator is computed."""

    ALWAYS = "always"
    """In 16 bits: the operator takes most of the time, and accumulates in float32 anyway."""
    FOLLOW = "follow"
    """In 16 bits if its arguments have 16 bits and the users of its result want that."""
    NEVER = "never"
    """In float32: the operator can produce huge or tiny numbers, or has a dtype option."""


_FAMILIES: Final = {
    "convolution": Precision.ALWAYS,
    "linear_algebra": Precision.ALWAYS,
    "activation": Precision.FOLLOW,  # results are of the size of the arguments
    "attention": Precision.FOLLOW,  # averages; the softmax inside is in float32
    "index": Precision.FOLLOW,
    "manipulate": Precision.FOLLOW,  # moves elements
    "normalization": Precision.FOLLOW,  # results have variance 1
    "pooling": Precision.FOLLOW,  # averages and maxima
    "shaping": Precision.FOLLOW,
    "ternary": Precision.FOLLOW,
}
"""The policies of families of operators; that of all others is NEVER."""

_OPERATORS: Final = {
    # Sums of products whose accumulated result must have the operands' dtype.
    "relax.einsum": Precision.FOLLOW,
    "relax.outer": Precision.FOLLOW,
    # Moving variances may be tiny.
    "relax.nn.batch_norm": Precision.NEVER,
    # Results are tuples of several kinds, or are not moved elements.
    "relax.nn.dropout": Precision.NEVER,
    "relax.meshgrid": Precision.NEVER,
    "relax.one_hot": Precision.NEVER,
    # Sums of many elements, or of elements at one place.
    "relax.collapse_sum_to": Precision.NEVER,
    "relax.collapse_sum_like": Precision.NEVER,
    "relax.scatter_elements": Precision.NEVER,
    "relax.scatter_nd": Precision.NEVER,
    "relax.index_put": Precision.NEVER,
    # Results are of the size of the arguments.
    "relax.add": Precision.FOLLOW,
    "relax.subtract": Precision.FOLLOW,
    "relax.multiply": Precision.FOLLOW,
    "relax.divide": Precision.FOLLOW,
    "relax.maximum": Precision.FOLLOW,
    "relax.minimum": Precision.FOLLOW,
    "relax.abs": Precision.FOLLOW,
    "relax.negative": Precision.FOLLOW,
    "relax.sigmoid": Precision.FOLLOW,
    "relax.tanh": Precision.FOLLOW,
    "relax.erf": Precision.FOLLOW,
    "relax.clip": Precision.FOLLOW,
    "relax.max": Precision.FOLLOW,
    "relax.min": Precision.FOLLOW,
    "relax.where": Precision.FOLLOW,
}
"""The policies of operators that differ from their family."""


def precision_of(definition: OpDef) -> Precision:
    """Return the policy of an operator."""
    found = _OPERATORS.get(definition.name)
    return _FAMILIES.get(definition.family, Precision.NEVER) if found is None else found
