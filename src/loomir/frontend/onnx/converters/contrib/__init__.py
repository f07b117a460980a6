"""Operators of com.microsoft, which exporters and optimisers of transformers use."""

from __future__ import annotations

from typing import Final

from loomir.frontend.onnx.converters.contrib import (
    attention,
    few_bits,
    fused_operators,
    normalisation,
    quantised_operators,
)
from loomir.frontend.onnx.registry import Row

ROWS: Final[tuple[Row, ...]] = (
    *attention.ROWS,
    *few_bits.ROWS,
    *fused_operators.ROWS,
    *normalisation.ROWS,
    *quantised_operators.ROWS,
)
