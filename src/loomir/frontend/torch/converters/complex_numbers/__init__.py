"""Converters of complex numbers, which are pairs along one more axis, the last."""

from loomir.frontend.torch.converters.complex_numbers import (
    elementwise,
    fourier,
    movement,
    products,
)

__all__ = ["elementwise", "fourier", "movement", "products"]
