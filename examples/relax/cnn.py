"""A small convolutional network: convolution, pooling, the mean of each channel, classes."""

from __future__ import annotations

import numpy as np

from loomir.script import ir as I
from loomir.script import relax as R
from loomir.script import tir as T

SIDE, CHANNELS, CLASSES = 10, 4, 3
SIZES = {"batch": 2}


@I.ir_module
class CNN:
    @T.prim_func(private=True)
    def conv2d(image: T.handle, weight: T.handle, result: T.handle):
        batch = T.int64()
        X = T.match_buffer(image, (batch, SIDE, SIDE), "float32")
        W = T.match_buffer(weight, (CHANNELS, 3, 3), "float32")
        Y = T.match_buffer(result, (batch, CHANNELS, SIDE - 2, SIDE - 2), "float32")
        for n, c, i, j in T.grid(batch, CHANNELS, SIDE - 2, SIDE - 2):
            Y[n, c, i, j] = T.float32(0)
            for di, dj in T.grid(3, 3):
                Y[n, c, i, j] += X[n, i + di, j + dj] * W[c, di, dj]

    @R.function
    def main(
        image: R.Tensor(("batch", SIDE, SIDE), "float32"),
        weight: R.Tensor((CHANNELS, 3, 3), "float32"),
        classes: R.Tensor((CHANNELS, CLASSES), "float32"),
    ) -> R.Tensor(("batch", CLASSES), "float32"):
        batch = T.int64()
        with R.dataflow():
            y = R.call_tir(
                cls.conv2d,
                (image, weight),
                out_sinfo=R.Tensor((batch, CHANNELS, SIDE - 2, SIDE - 2), "float32"),
            )
            active = R.maximum(y, R.const(0, "float32"))
            half = (SIDE - 2) // 2
            tiles = R.reshape(active, (batch, CHANNELS, half, 2, half, 2))
            pooled = R.max(tiles, axis=[3, 5])
            means = R.mean(pooled, axis=[2, 3])
            weighted = R.multiply(R.expand_dims(means, 2), R.expand_dims(classes, 0))
            scores = R.sum(weighted, axis=[1])
            R.output(scores)
        return scores


def reference(image, weight, classes):
    windows = np.lib.stride_tricks.sliding_window_view(image, (3, 3), axis=(1, 2))
    y = np.maximum(np.einsum("nijab,cab->ncij", windows, weight), 0)
    half = (SIDE - 2) // 2
    pooled = y.reshape(len(y), CHANNELS, half, 2, half, 2).max(axis=(3, 5))
    return pooled.mean(axis=(2, 3)) @ classes
