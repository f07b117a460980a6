"""Converters: one file for each family, with its rows of the table at the end."""

from __future__ import annotations

from typing import Final

from loomir.frontend.onnx.converters import (
    activation,
    contrib,
    control_flow,
    convolution,
    elementwise,
    geometry,
    image,
    indexing,
    linear_algebra,
    ml,
    movement,
    normalisation,
    padding,
    pooling,
    quantisation,
    recurrent,
    reduction,
    sequence,
    shape,
    signal,
    vision,
)
from loomir.frontend.onnx.registry import add_rows

__all__ = ["load_converters"]

_FAMILIES: Final = (
    activation,
    contrib,
    control_flow,
    convolution,
    elementwise,
    geometry,
    image,
    indexing,
    linear_algebra,
    ml,
    movement,
    normalisation,
    padding,
    pooling,
    quantisation,
    recurrent,
    reduction,
    sequence,
    shape,
    signal,
    vision,
)
for _family in _FAMILIES:
    add_rows(_family.ROWS)


def load_converters() -> None:
    """Make sure that the table has the rows of all families: importing this module adds them."""
