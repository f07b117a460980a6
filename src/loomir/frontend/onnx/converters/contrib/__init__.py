"""Operators of com.microsoft that exporters and optimisers of transformers write."""

from __future__ import annotations

from typing import Final

from loomir.frontend.onnx.converters.contrib import (
    attention,
    few_bits,
    fused,
    normalisation,
    quantised,
)
from loomir.frontend.onnx.registry import Row

ROWS: Final[tuple[Row, ...]] = (
    *attention.ROWS,
    *few_bits.ROWS,
    *fused.ROWS,
    *normalisation.ROWS,
    *quantised.ROWS,
)
