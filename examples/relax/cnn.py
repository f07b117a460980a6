"""A small convolutional network: two convolutions, pooling, the mean of each channel, classes."""

from __future__ import annotations

import numpy as np

from loomir.script import ir as I
from loomir.script import relax as R

SIDE, FIRST, SECOND, CLASSES = 12, 4, 6, 3
SIZES = {"batch": 2}


@I.ir_module
class CNN:
    @R.function
    def main(
        image: R.Tensor(("batch", 1, SIDE, SIDE), "float32"),
        w1: R.Tensor((FIRST, 1, 3, 3), "float32"),
        w2: R.Tensor((SECOND, FIRST, 3, 3), "float32"),
        classes: R.Tensor((SECOND, CLASSES), "float32"),
        bias: R.Tensor((CLASSES,), "float32"),
    ) -> R.Tensor(("batch", CLASSES), "float32"):
        with R.dataflow():
            y = R.nn.relu(R.nn.conv2d(image, w1, padding=1))
            y = R.nn.max_pool2d(y, pool_size=(2, 2), strides=(2, 2))
            y = R.nn.relu(R.nn.conv2d(y, w2, strides=2, padding=1))
            means = R.mean(y, axis=[2, 3])
            scores = R.nn.log_softmax(R.matmul(means, classes) + bias, axis=-1)
            R.output(scores)
        return scores


def conv(x, weight, stride):
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(2, 3))
    return np.einsum("ncijab,ocab->noij", windows[:, :, ::stride, ::stride], weight)


def reference(image, w1, w2, classes, bias):
    y = np.maximum(conv(image, w1, 1), 0)
    n, c, h, w = y.shape
    y = y.reshape(n, c, h // 2, 2, w // 2, 2).max(axis=(3, 5))
    y = np.maximum(conv(y, w2, 2), 0)
    scores = y.mean(axis=(2, 3)) @ classes + bias
    shifted = scores - scores.max(axis=-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))
