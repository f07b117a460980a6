"""ONNX Runtime: a model of one operator, its weights as initializers, outputs bound beforehand."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

from benchmarks.peers import PreparedRun
from benchmarks.rows import Row

__all__ = ["Peer", "model_of"]

TYPES: Final = {
    "float32": TensorProto.FLOAT,
    "int8": TensorProto.INT8,
    "int32": TensorProto.INT32,
    "bfloat16": TensorProto.BFLOAT16,
}


def _nodes(row: Row) -> list[Any]:
    names = [f"x{i}" for i in range(len(row.shapes))]
    simple: dict[str, tuple[str, dict[str, Any]]] = {
        "matmul": ("MatMulInteger" if row.dtype == "int8" else "MatMul", {}),
        "linear": ("Gemm", {"transB": 1}),
        "softmax": ("Softmax", {"axis": -1}),
        "layer_norm": ("LayerNormalization", {"axis": -1, "epsilon": 1e-5}),
        "rms_norm": ("RMSNormalization", {"axis": -1, "epsilon": 1e-5}),
        "gelu": ("Gelu", {}),
        "transpose": ("Transpose", {"perm": [1, 0]}),
        "attention": ("Attention", {}),
    }
    if row.kind == "sum":
        axis = row.settings["axis"]
        if axis is None:
            return [helper.make_node("ReduceSum", names, ["y"], keepdims=0)]
        return [helper.make_node("ReduceSum", [*names, "axes"], ["y"], keepdims=0)]
    if row.kind == "conv":
        s = row.settings
        pads, strides = [s["padding"]] * 4, [s["stride"]] * 2
        return [
            helper.make_node("Conv", names, ["y"], pads=pads, strides=strides, group=s["groups"])
        ]
    operator, attributes = simple[row.kind]
    return [helper.make_node(operator, names, ["y"], **attributes)]


def model_of(row: Row, inputs: list[Any], opset: int = 23) -> Any:
    """Make the model of a row."""
    constants = [numpy_helper.from_array(inputs[i], f"x{i}") for i in row.constant]
    if row.kind == "sum" and row.settings["axis"] is not None:
        axes = np.array([row.settings["axis"]], "int64")
        constants.append(numpy_helper.from_array(axes, "axes"))
    described = [
        helper.make_tensor_value_info(f"x{i}", TYPES[row.dtype], shape)
        for i, shape in enumerate(row.shapes)
        if i not in row.constant
    ]
    out = helper.make_tensor_value_info("y", TYPES[row.out_dtype], row.out)
    graph = helper.make_graph(_nodes(row), "row", described, [out], constants)
    opsets = [helper.make_opsetid("", opset)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


class Peer:
    """A session for each row."""

    def __init__(self, threads: int) -> None:
        self.options = onnxruntime.SessionOptions()
        self.options.intra_op_num_threads = threads
        self.options.inter_op_num_threads = 1
        onnxruntime.set_default_logger_severity(3)

    def prepare(self, row: Row, inputs: list[Any]) -> PreparedRun | None:
        """Make a session."""
        if row.dtype == "bfloat16":
            return None  # no kernel for CPUs
        text = model_of(row, inputs).SerializeToString()
        session = onnxruntime.InferenceSession(
            text, self.options, providers=["CPUExecutionProvider"]
        )
        binding = session.io_binding()
        values = [onnxruntime.OrtValue.ortvalue_from_numpy(x) for x in inputs]
        for i, value in enumerate(values):
            if i not in row.constant:
                binding.bind_ortvalue_input(f"x{i}", value)
        out = np.empty(row.out, row.out_dtype)
        output = onnxruntime.OrtValue.ortvalue_from_numpy(out)
        binding.bind_ortvalue_output("y", output)
        return PreparedRun(lambda: session.run_with_iobinding(binding), output.numpy)
