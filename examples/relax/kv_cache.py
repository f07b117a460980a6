"""A step of decoding: new keys and values are written into the caches of the caller."""

from __future__ import annotations

import numpy as np

from loomir.script import ir as I
from loomir.script import relax as R
from loomir.script import tir as T

CAPACITY, WIDTH = 16, 8
SIZES = {"position": 10}


@I.ir_module
class Decoder:
    @T.prim_func(private=True)
    def append(
        cache: T.Buffer((CAPACITY, WIDTH), "float32"),
        row: T.Buffer((WIDTH,), "float32"),
        position: T.int64,
    ):
        for i in range(WIDTH):
            cache[position, i] = row[i]

    @T.prim_func(private=True)
    def scores(
        query: T.Buffer((WIDTH,), "float32"),
        keys: T.Buffer((CAPACITY, WIDTH), "float32"),
        out: T.handle,
    ):
        n = T.int64()
        S = T.match_buffer(out, (n,), "float32")
        for i in range(n):
            S[i] = T.float32(0)
            for k in range(WIDTH):
                S[i] += query[k] * keys[i, k]

    @T.prim_func(private=True)
    def weighted(
        weights: T.handle,
        values: T.Buffer((CAPACITY, WIDTH), "float32"),
        out: T.Buffer((WIDTH,), "float32"),
    ):
        n = T.int64()
        W = T.match_buffer(weights, (n,), "float32")
        for k in range(WIDTH):
            out[k] = T.float32(0)
            for i in range(n):
                out[k] += W[i] * values[i, k]

    @R.function(pure=False)
    def main(
        query: R.Tensor((WIDTH,), "float32"),
        key: R.Tensor((WIDTH,), "float32"),
        value: R.Tensor((WIDTH,), "float32"),
        keys: R.Tensor((CAPACITY, WIDTH), "float32"),
        values: R.Tensor((CAPACITY, WIDTH), "float32"),
        at: R.Prim(value="position"),
    ) -> R.Tensor((WIDTH,), "float32"):
        position = T.int64()
        all_keys = R.call_tir_inplace(
            cls.append,
            (keys, key),
            inplace_indices=[0],
            out_sinfo=R.Tensor((CAPACITY, WIDTH), "float32"),
            tir_vars=R.shape([position]),
        )
        all_values = R.call_tir_inplace(
            cls.append,
            (values, value),
            inplace_indices=[0],
            out_sinfo=R.Tensor((CAPACITY, WIDTH), "float32"),
            tir_vars=R.shape([position]),
        )
        s = R.call_tir(
            cls.scores, (query, all_keys), out_sinfo=R.Tensor((position + 1,), "float32")
        )
        e = R.exp(R.subtract(s, R.max(s)))
        w = R.divide(e, R.sum(e))
        return R.call_tir(cls.weighted, (w, all_values), out_sinfo=R.Tensor((WIDTH,), "float32"))


def reference(query, key, value, keys, values, at):
    keys[at], values[at] = key, value
    s = keys[: at + 1] @ query
    w = np.exp(s - s.max())
    return w / w.sum() @ values[: at + 1]
