"""Convolve images with 3x3 filters, padded by one pixel (NCHW)."""

import numpy as np

from loomir.script import tir as T

BATCH, CHANNELS, FILTERS, SIZE = 1, 16, 32, 56
INTERPRET = {"CHANNELS": 3, "FILTERS": 4, "SIZE": 9}


@T.prim_func
def conv2d(
    X: T.Buffer((BATCH, CHANNELS, SIZE, SIZE), "float32"),
    W: T.Buffer((FILTERS, CHANNELS, 3, 3), "float32"),
    Y: T.Buffer((BATCH, FILTERS, SIZE, SIZE), "float32"),
):
    padded = T.alloc_buffer((BATCH, CHANNELS, SIZE + 2, SIZE + 2), "float32")
    for n, c, y, x in T.grid(BATCH, CHANNELS, SIZE + 2, SIZE + 2):
        with T.sblock("pad"):
            vn, vc, vy, vx = T.axis.remap("SSSS", [n, c, y, x])
            padded[vn, vc, vy, vx] = T.if_then_else(
                vy >= 1 and vy <= SIZE and vx >= 1 and vx <= SIZE,
                X[vn, vc, vy - 1, vx - 1],
                T.float32(0),
            )
    for n, f, y, x, c, ky, kx in T.grid(BATCH, FILTERS, SIZE, SIZE, CHANNELS, 3, 3):
        with T.sblock("conv"):
            vn, vf, vy, vx, vc, vky, vkx = T.axis.remap("SSSSRRR", [n, f, y, x, c, ky, kx])
            with T.init():
                Y[vn, vf, vy, vx] = T.float32(0)
            Y[vn, vf, vy, vx] += padded[vn, vc, vy + vky, vx + vkx] * W[vf, vc, vky, vkx]


def reference(X, W, Y):
    padded = np.pad(X.astype(np.float64), ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(2, 3))
    return np.einsum("ncyxij,fcij->nfyx", windows, W)
