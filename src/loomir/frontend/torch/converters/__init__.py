"""Converters: one file for each family; importing a file adds its rows to the table."""

from __future__ import annotations

from loomir.frontend.torch.converters import (
    activation,
    attention,
    complex_numbers,
    control_flow,
    convolution,
    counting,
    creation,
    elementwise,
    experts,
    image,
    indexing,
    linear_algebra,
    matrices,
    movement,
    normalisation,
    pooling,
    quantisation,
    random,
    reduction,
    searching,
    sorting,
    special_functions,
)

__all__ = ["load_converters"]

_FAMILIES = (
    activation,
    attention,
    complex_numbers,
    control_flow,
    convolution,
    counting,
    creation,
    elementwise,
    experts,
    image,
    indexing,
    linear_algebra,
    matrices,
    movement,
    normalisation,
    pooling,
    quantisation,
    random,
    reduction,
    searching,
    sorting,
    special_functions,
)


def load_converters() -> None:
    """Make sure that the table has the rows of all families: importing this module adds them."""
