"""OpenVINO: a model of one operator, its weights constant, float32 kept as it is."""

from __future__ import annotations

from typing import Any

import numpy as np
import openvino
from openvino import opset13 as ops

from benchmarks.peers import PreparedRun
from benchmarks.rows import Row

__all__ = ["Peer"]


def _conv(x: Any, w: Any, stride: int, padding: int, groups: int) -> Any:
    where = ([stride] * 2, [padding] * 2, [padding] * 2, [1, 1])
    if groups == 1:
        return ops.convolution(x, w, *where)
    shape = (groups, w.data.shape[0] // groups, *w.data.shape[1:])
    return ops.group_convolution(x, ops.constant(w.data.reshape(shape)), *where)


def _layer_norm(x: Any, g: Any, b: Any) -> Any:
    made = ops.mvn(x, np.array([-1], "int64"), True, 1e-5, "inside_sqrt")
    return ops.add(ops.multiply(made, g), b)


def _rms_norm(x: Any, g: Any) -> Any:
    mean = ops.reduce_mean(ops.power(x, np.float32(2)), np.array([-1], "int64"), True)
    root = ops.sqrt(ops.add(mean, np.float32(1e-5)))
    return ops.multiply(ops.multiply(x, ops.divide(np.float32(1), root)), g)


def _sum(x: Any, axis: int | None) -> Any:
    return ops.reduce_sum(x, np.array([0, 1] if axis is None else [axis], "int64"), False)


FUNCTIONS: dict[str, Any] = {
    "matmul": lambda a, b: ops.matmul(a, b, False, False),
    "linear": lambda x, w: ops.matmul(x, w, False, True),
    "conv": _conv,
    "softmax": lambda x: ops.softmax(x, -1),
    "layer_norm": _layer_norm,
    "rms_norm": _rms_norm,
    "gelu": lambda x: ops.gelu(x, "erf"),
    "sum": _sum,
    "transpose": lambda x: ops.transpose(x, np.array([1, 0], "int64")),
    "attention": lambda q, k, v: ops.scaled_dot_product_attention(q, k, v, causal=False),
}


class Peer:
    """One request with its tensors set."""

    def __init__(self, threads: int) -> None:
        self.core = openvino.Core()
        self.settings = {
            "INFERENCE_NUM_THREADS": threads,
            "NUM_STREAMS": 1,
            "PERFORMANCE_HINT": "LATENCY",
            "INFERENCE_PRECISION_HINT": "f32",
        }

    def prepare(self, row: Row, inputs: list[Any]) -> PreparedRun | None:
        """Compile a row."""
        if row.dtype != "float32":
            return None
        nodes = [
            ops.constant(x) if i in row.constant else ops.parameter(x.shape, np.float32)
            for i, x in enumerate(inputs)
        ]
        given = [n for i, n in enumerate(nodes) if i not in row.constant]
        model = openvino.Model([FUNCTIONS[row.kind](*nodes, **row.settings)], given, "row")
        request = self.core.compile_model(model, "CPU", self.settings).create_infer_request()
        kept = [x for i, x in enumerate(inputs) if i not in row.constant]
        for place, array in enumerate(kept):
            request.set_input_tensor(place, openvino.Tensor(array, shared_memory=True))
        out = np.empty(row.out, "float32")
        if row.out:
            request.set_output_tensor(0, openvino.Tensor(out, shared_memory=True))
            return PreparedRun(lambda: request.infer(share_outputs=True), lambda: out)
        return PreparedRun(lambda: request.infer(), lambda: request.get_output_tensor(0).data)
