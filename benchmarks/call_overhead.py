"""Measure the overhead of a call, on three arrays of four floats.

Run: python -m benchmarks.call_overhead
"""

from __future__ import annotations

import ctypes

import numpy as np

import loomir
from benchmarks.table import measure, print_table
from loomir.script import tir as T


@T.prim_func
def add(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32"), C: T.Buffer((4,), "float32")):
    for i in T.vectorized(4):
        C[i] = A[i] + B[i]


def nothing(a: object, b: object, c: object) -> None:
    """Do nothing."""


def main() -> None:
    """Print the table."""
    a, b, c = (np.ones(4, "float32") for _ in range(3))
    function = loomir.compile(add)["add"]
    function(a, b, c)
    libc = ctypes.CDLL(None)
    pointer = ctypes.c_void_p

    def through_ctypes() -> None:
        libc.labs(pointer(a.ctypes.data), pointer(b.ctypes.data), pointer(c.ctypes.data))

    seconds = measure(
        {
            "an empty Python function": lambda: nothing(a, b, c),
            "np.add(a, b, out=c)": lambda: np.add(a, b, out=c),
            "loomir": lambda: function(a, b, c),
            "ctypes, three addresses": through_ctypes,
        },
        rounds=31,
        number=20_000,
    )
    print_table("a call with three small NumPy arrays", seconds, "np.add(a, b, out=c)")


if __name__ == "__main__":
    main()
