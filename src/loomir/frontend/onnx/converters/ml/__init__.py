"""Operators of ai.onnx.ml, of which exporters of scikit-learn and boosted trees make models."""

from __future__ import annotations

from typing import Final

from loomir.frontend.onnx.converters.ml import features, linear, trees
from loomir.frontend.onnx.registry import Row

ROWS: Final[tuple[Row, ...]] = (*features.ROWS, *linear.ROWS, *trees.ROWS)
