"""Multiply matrices at the machine's speed: packed panels, a tile of sums in registers.

The loops follow the usual plan of fast matrix products. Strips of B and blocks of A are copied so
that the inner loop reads memory in order; that loop keeps ``MR`` x ``NR`` sums in vector registers
and adds one column of A times one row of B at each step. Rows past the end of A are packed as zeros
and never written back.
"""

import numpy as np

from loomir.script import tir as T

N = 1024  # a multiple of NR and of KC
MR, NR = 6, 16  # the tile of sums: 6 rows of 16 columns fill 12 of 16 vector registers of 256 bits
KC = 512  # depth of a panel: a strip of B, KC x NR, stays in the first-level cache
MC = 66  # rows of a block of A, a multiple of MR: MC x KC stays in the second-level cache
GROUP = 4  # strips of B that are packed side by side, so that whole cache lines are read
INTERPRET = {"N": 32, "KC": 16, "MC": 12, "GROUP": 2}


@T.prim_func
def matmul(
    A: T.Buffer((N, N), "float32"),
    B: T.Buffer((N, N), "float32"),
    C: T.Buffer((N, N), "float32"),
):
    strips = T.alloc_buffer((N // NR, KC, NR), "float32")
    for panel in range(N // KC):
        for group in T.parallel(N // NR // GROUP):
            for k in range(KC):
                for s in T.unroll(GROUP):
                    for c in T.vectorized(NR):
                        strips[group * GROUP + s, k, c] = B[
                            panel * KC + k, (group * GROUP + s) * NR + c
                        ]
        for block in T.parallel((N + MC - 1) // MC):
            rows = T.alloc_buffer((MC // MR, KC, MR), "float32")
            for tile in range(MC // MR):
                top: T.int32 = block * MC + tile * MR
                if top + MR <= N:
                    for k in range(KC):
                        for r in T.unroll(MR):
                            rows[tile, k, r] = A[top + r, panel * KC + k]
                else:
                    for k in range(KC):
                        for r in T.unroll(MR):
                            rows[tile, k, r] = T.if_then_else(
                                top + r < N, A[top + r, panel * KC + k], T.float32(0)
                            )
            for strip in range(N // NR):
                for tile in range((T.min(N - block * MC, MC) + MR - 1) // MR):
                    sums = T.alloc_buffer((MR, NR), "float32", scope="local")
                    for r in T.unroll(MR):
                        row: T.int32 = block * MC + tile * MR + r
                        if panel == 0 or row >= N:
                            for c in T.vectorized(NR):
                                sums[r, c] = T.float32(0)
                        else:
                            for c in T.vectorized(NR):
                                sums[r, c] = C[row, strip * NR + c]
                    for k in range(KC):
                        for r in T.unroll(MR):
                            for c in T.vectorized(NR):
                                sums[r, c] = T.fma(
                                    rows[tile, k, r], strips[strip, k, c], sums[r, c]
                                )
                    for r in T.unroll(MR):
                        row: T.int32 = block * MC + tile * MR + r
                        if row < N:
                            for c in T.vectorized(NR):
                                C[row, strip * NR + c] = sums[r, c]


def reference(A, B, C):
    return A.astype(np.float64) @ B.astype(np.float64)


def baseline(A, B, C):
    np.matmul(A, B, out=C)


def flops():
    return 2 * N**3
