"""Counts of sequences of numbers in rows: TfIdfVectorizer."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from loomir import op
from loomir.frontend.onnx.node import Node, constant
from loomir.frontend.onnx.registry import Row, row
from loomir.relax.node import RelaxExpr
from loomir.te import Tensor, compute, reduce_axis, select, sum
from loomir.tir.expr import And, Eq, Or
from loomir.tir.expr import const as number


def _vectorizer(node: Node) -> RelaxExpr:
    pool = node.get("pool_int64s")
    if pool is None:
        raise node.refuse(
            "it counts strings, which are not supported",
            help="convert words to numbers before the model",
        )
    table, lengths = _grams(node, [int(v) for v in pool])
    x = node.emit(op.astype(node[0], "int64"))
    is_row = len(node.dims(0)) == 1
    if is_row:
        x = node.emit(op.expand_dims(x, 0))
    skips = int(node.get("max_skip_count", 0)) + 1
    made = node.compute(
        _counts, x, constant(table, "int64"), constant(lengths, "int64"), skips, table.shape[1]
    )
    mode, weights = str(node.get("mode", "TF")), _weights(node, len(lengths))
    if mode in ("IDF", "TFIDF"):
        if mode == "IDF":
            there = node.emit(op.greater(made, constant(0.0, "float32")))
            made = node.emit(op.astype(there, "float32"))
        made = node.emit(op.multiply(made, constant(weights, "float32")))
    return op.squeeze(made, [0]) if is_row else made


def _grams(node: Node, pool: list[int]) -> tuple[Any, Any]:
    """Return, for each output, the sequence that it counts, and its length; 0 for none."""
    starts = [int(v) for v in node.get("ngram_counts", ())]
    places = [int(v) for v in node.get("ngram_indexes", ())]
    least, most = int(node.get("min_gram_length", 1)), int(node.get("max_gram_length", 1))
    ends = [*starts[1:], len(pool)]
    grams: list[list[int]] = []
    for length, (start, end) in enumerate(zip(starts, ends), 1):
        grams += [pool[k : k + length] for k in range(start, end, length)]
    if len(grams) != len(places) or any(p < 0 for p in places):
        raise node.refuse(f"it has {len(places)} ngram_indexes for {len(grams)} n-grams")
    table = np.zeros((max([*places, 0]) + 1, max(most, 1)), "int64")
    lengths = np.zeros(len(table), "int64")
    for gram, place in zip(grams, places):
        if least <= len(gram) <= most:
            table[place, : len(gram)] = gram
            lengths[place] = len(gram)
    return table, lengths


def _weights(node: Node, count: int) -> Any:
    made = np.ones(count, "float32")
    given = node.get("weights")
    if given is not None:
        made[[int(v) for v in node.get("ngram_indexes")]] = [float(v) for v in given]
    return made


def _counts(x: Tensor, table: Tensor, lengths: Tensor, skips: int, longest: int) -> Tensor:
    """Count where a sequence stands in a row, its numbers side by side or with others between."""
    start = reduce_axis((0, x.shape[1]), name="start")
    skip = reduce_axis((0, skips), name="skip")

    def count(n: Any, k: Any) -> Any:
        length = lengths[k]
        step = skip.var.astype("int64") + 1
        first, width = start.var.astype("int64"), x.shape[1].astype("int64")
        # A sequence of one number has nothing between.
        found = And(length > 0, Or(length > 1, skip.var < 1))
        found = And(found, first + (length - 1) * step < width)
        for i in range(longest):
            place = first + i * step
            inside = select(place < width, place, number(0, "int64"))
            found = And(found, Or(length <= i, Eq(x[n, inside], table[k, i])))
        return sum(select(found, number(1, "float32"), number(0, "float32")), axis=[start, skip])

    return compute((x.shape[0], table.shape[0]), count, name="counts")


ROWS: Final[tuple[Row, ...]] = (row("TfIdfVectorizer", _vectorizer, note="strings"),)
