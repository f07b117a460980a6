"""Loomir as users run it: tensor expressions, ``loomir.compile`` with weights as constants."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import ml_dtypes
import numpy as np

import loomir
from benchmarks.peers import PreparedRun
from benchmarks.rows import Row
from loomir import te
from loomir.te import topi

__all__ = ["Peer"]


def _matmul(row: Row, a: Any, b: Any) -> Any:
    return topi.matmul(a, b, out_dtype=row.out_dtype)


PROGRAMS: Final[dict[str, Callable[..., Any]]] = {
    "matmul": _matmul,
    "linear": lambda row, x, w: topi.matmul(x, w, transpose_b=True),
    "conv": lambda row, x, w: topi.conv(x, w, **row.settings),
    "softmax": lambda row, x: topi.softmax(x),
    "layer_norm": lambda row, x, g, b: topi.layer_norm(x, g, b),
    "rms_norm": lambda row, x, g: topi.rms_norm(x, g),
    "gelu": lambda row, x: topi.gelu(x),
    "sum": lambda row, x: topi.sum(x, row.settings["axis"]),
    "transpose": lambda row, x: topi.transpose(x),
    "attention": lambda row, q, k, v: topi.attention(q, k, v),
}


class Peer:
    """The default."""

    def __init__(self, threads: int) -> None:
        pass  # its pool follows the CPUs that the process may use

    def prepare(self, row: Row, inputs: list[Any]) -> PreparedRun | None:
        """Compile a row."""
        given = [te.placeholder(s, row.dtype, name=f"x{i}") for i, s in enumerate(row.shapes)]
        made = PROGRAMS[row.kind](row, *given)
        weights = {f"x{i}": inputs[i] for i in row.constant}
        program = te.create_prim_func([*given, made])
        run = loomir.compile(program, cache=False, constants=weights)
        inputs = [x for i, x in enumerate(inputs) if i not in row.constant]
        dtype = ml_dtypes.bfloat16 if row.out_dtype == "bfloat16" else row.out_dtype
        out = np.empty(row.out, dtype)
        return PreparedRun(lambda: run(*inputs, out), lambda: out)
