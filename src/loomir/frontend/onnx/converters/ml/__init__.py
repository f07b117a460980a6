"""Operators to which scikit-learn and boosted trees are exported, and optimisers."""

from __future__ import annotations

from typing import Final

from loomir.frontend.onnx.converters.ml import features, labels, linear, ngrams, optimisers, trees
from loomir.frontend.onnx.registry import Row

ROWS: Final[tuple[Row, ...]] = (
    *features.ROWS,
    *labels.ROWS,
    *linear.ROWS,
    *ngrams.ROWS,
    *optimisers.ROWS,
    *trees.ROWS,
)
