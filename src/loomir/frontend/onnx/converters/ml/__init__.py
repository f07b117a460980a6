"""Operators of ai.onnx.ml, to which scikit-learn and boosted trees are exported."""

from __future__ import annotations

from typing import Final

from loomir.frontend.onnx.converters.ml import features, linear, trees
from loomir.frontend.onnx.registry import Row

ROWS: Final[tuple[Row, ...]] = (*features.ROWS, *linear.ROWS, *trees.ROWS)
