"""Operators of com.microsoft, which exporters and optimisers of transformers use."""

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
