"""apache-tvm as users run it: an operator of Relax, compiled by default, without search."""

from __future__ import annotations

from typing import Any

import numpy as np
import tvm
from tvm import relax

from benchmarks.peers import PreparedRun
from benchmarks.rows import Row

__all__ = ["Peer"]

nn = relax.op.nn

MOST = 1 << 29
"""Operations that are worth waiting for: its default loops take seconds to minutes for more."""


def _sum(x: Any, axis: int | None) -> Any:
    return relax.op.sum(x, axis)


def _conv(x: Any, w: Any, stride: int, padding: int, groups: int) -> Any:
    return nn.conv2d(x, w, strides=stride, padding=padding, groups=groups)


FUNCTIONS: dict[str, Any] = {
    "matmul": relax.op.matmul,
    "linear": lambda x, w: relax.op.matmul(x, relax.op.permute_dims(w)),
    "conv": _conv,
    "softmax": lambda x: nn.softmax(x, -1),
    "layer_norm": lambda x, g, b: nn.layer_norm(x, g, b, -1),
    "rms_norm": lambda x, g: nn.rms_norm(x, g, -1),
    "gelu": nn.gelu,
    "sum": _sum,
    "transpose": relax.op.permute_dims,
    "attention": lambda q, k, v: relax.op.permute_dims(
        nn.attention(*(relax.op.permute_dims(t, [0, 2, 1, 3]) for t in (q, k, v))), [0, 2, 1, 3]
    ),
}


class Peer:
    """Its default pipeline, for the CPU that runs it."""

    def __init__(self, threads: int) -> None:
        host = tvm.get_global_func("target.llvm_get_system_cpu", allow_missing=True)
        cpu = host() if host is not None else ""
        self.target = tvm.target.Target(
            {"kind": "llvm", "num-cores": threads, **({"mcpu": cpu} if cpu else {})}
        )

    def prepare(self, row: Row, inputs: list[Any]) -> PreparedRun | None:
        """Compile a row."""
        if row.dtype == "bfloat16" or row.flops > MOST:
            return None
        block = relax.BlockBuilder()
        kind = getattr(relax, "TensorStructInfo", None) or relax.TensorType
        given = [relax.Var(f"x{i}", kind(s, row.dtype)) for i, s in enumerate(row.shapes)]
        wide = {"out_dtype": "int32"} if row.dtype == "int8" else {}
        with block.function("main", given):
            value = block.emit(FUNCTIONS[row.kind](*given, **row.settings, **wide))
            block.emit_func_output(value)
        built = tvm.compile(block.get(), target=self.target)
        run = relax.VirtualMachine(built, tvm.cpu())["main"]
        tensors = [tvm.runtime.tensor(np.ascontiguousarray(x)) for x in inputs]
        result: list[Any] = [None]

        def once() -> None:
            result[0] = run(*tensors)

        return PreparedRun(once, lambda: result[0].numpy())
