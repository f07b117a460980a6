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
    """In what dtype an operator is computed."""

    ALWAYS = "always"
    """In 16 bits: it takes most of the time, and sums in float32 wherever its result goes."""
    FOLLOW = "follow"
    """In 16 bits where its arguments are of that, and what uses its result wants it so."""
    NEVER = "never"
    """In float32: it makes great or tiny numbers of moderate ones, or is told a dtype."""


_FAMILIES: Final = {
    "convolution": Precision.ALWAYS,
    "linear_algebra": Precision.ALWAYS,
    "activation": Precision.FOLLOW,  # of the size of their arguments
    "attention": Precision.FOLLOW,  # means of values; the softmax within is in float32
    "index": Precision.FOLLOW,
    "manipulate": Precision.FOLLOW,  # elements are moved
    "normalization": Precision.FOLLOW,  # to a variance of 1
    "pooling": Precision.FOLLOW,  # means and maxima
    "shaping": Precision.FOLLOW,
    "ternary": Precision.FOLLOW,
}
"""The policy of families; that of all others is NEVER."""

_OPERATORS: Final = {
    # Sums of products whose own dtype the accumulated result must have.
    "relax.einsum": Precision.FOLLOW,
    "relax.outer": Precision.FOLLOW,
    # Moving variances may be tiny.
    "relax.nn.batch_norm": Precision.NEVER,
    # Results in tuples of several kinds, or numbers that nothing is moved from.
    "relax.nn.dropout": Precision.NEVER,
    "relax.meshgrid": Precision.NEVER,
    "relax.one_hot": Precision.NEVER,
    # Sums of many elements, or of elements at one place.
    "relax.collapse_sum_to": Precision.NEVER,
    "relax.collapse_sum_like": Precision.NEVER,
    "relax.scatter_elements": Precision.NEVER,
    "relax.scatter_nd": Precision.NEVER,
    "relax.index_put": Precision.NEVER,
    # Moderate results of moderate arguments.
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
"""Operators that differ from their family."""


def precision_of(definition: OpDef) -> Precision:
    """Return the policy of an operator."""
    found = _OPERATORS.get(definition.name)
    return _FAMILIES.get(definition.family, Precision.NEVER) if found is None else found
