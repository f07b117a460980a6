"""Mutations of models: of the bytes of a file, and of the contents of a valid one."""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from random import Random
from typing import Any, Final

import numpy as np

__all__ = ["DamagedModel", "model_of_seed"]

LARGEST: Final = 1 << 16
"""Bytes of the largest model that is damaged."""
NUMBERS: Final = (0, 1, -1, 2, 3, 7, 255, 1 << 31, -(1 << 31), 1 << 40, (1 << 63) - 1, -(1 << 63))
PLACES: Final = (
    "../secret",
    "/etc/passwd",
    "secret\0",
    "",
    ".",
    "weights.bin",
    "link",
    "a/../../secret",
)
NETWORK: Final = """
<ir_version: 9, opset_import: ["" : 19]>
main (float[N, 3, 8, 8] x, int64[M] k) => (float[N, 4] y, float[M, 4] z)
  <float[4, 3, 3, 3] w, float[4] b, float[64, 4] v>
{
  c = Conv <pads = [1, 1, 1, 1]> (x, w, b)
  r = Relu (c)
  p = MaxPool <kernel_shape = [2, 2], strides = [2, 2]> (r)
  s = Shape (p)
  zero = Constant <value_ints = [0]> ()
  n = Gather (s, zero)
  rest = Constant <value_ints = [-1]> ()
  shape = Concat <axis = 0> (n, rest)
  f = Reshape (p, shape)
  g = MatMul (f, v)
  y = Softmax <axis = 1> (g)
  z = Gather <axis = 0> (v, k)
}
"""


@dataclass(frozen=True)
class DamagedModel:
    """A file, and what was done to it."""

    name: str
    data: bytes
    changes: tuple[str, ...]


@cache
def _models() -> tuple[tuple[str, bytes], ...]:
    """Return the small models that the standard has, and a network with weights."""
    onnx: Any = importlib.import_module("onnx")
    parser: Any = importlib.import_module("onnx.parser")
    loader: Any = importlib.import_module("onnx.backend.test.loader")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        cases = loader.load_model_tests(kind="node")
    found = [(c.name, c.model.SerializeToString()) for c in cases]
    network = parser.parse_model(NETWORK)
    random = np.random.default_rng(0)
    for name, shape in (("w", (4, 3, 3, 3)), ("b", (4,)), ("v", (64, 4))):
        values = random.standard_normal(shape).astype("float32")
        network.graph.initializer.append(onnx.numpy_helper.from_array(values, name))
    small = [(n, d) for n, d in found if len(d) <= LARGEST]
    return (*small, *[("network", network.SerializeToString())] * (len(small) // 4))


# -- bytes ---------------------------------------------------------------------------------------
def _damage_bytes(data: bytes, random: Random) -> bytes:
    kind = random.randrange(6)
    at = random.randrange(len(data) + 1)
    if kind == 0:
        return data[:at]
    if kind == 1:
        return data[:at] + random.randbytes(random.randint(1, 8)) + data[at:]
    end = min(at + random.randint(1, 16), len(data))
    if kind == 2:
        return data[:at] + data[end:]
    if kind == 3:
        return data[:end] + data[at:end] * random.randint(1, 64) + data[end:]
    changed = bytearray(data)
    for _ in range(random.randint(1, 6) if data else 0):
        place = random.randrange(len(changed))
        changed[place] ^= 1 << random.randrange(8) if kind == 4 else random.randrange(256)
    return bytes(changed)


# -- what a file says ----------------------------------------------------------------------------
def _any(items: Any, random: Random) -> Any:
    return items[random.randrange(len(items))] if len(items) else None


def _change_node(graph: Any, random: Random) -> None:
    node, other = _any(graph.node, random), _any(graph.node, random)
    if node is None:
        return
    kind = random.randrange(9)
    if kind == 0:
        node.op_type = random.choice(
            [other.op_type, "Loop", "If", "Scan", "Foo", "", "Reshape", "Pad"]
        )
    elif kind == 1:
        node.domain = random.choice(["com.microsoft", "own", "ai.onnx", "ai.onnx.ml", "\u0000"])
    elif kind == 2 and len(node.input):
        node.input[random.randrange(len(node.input))] = random.choice(
            [*other.output, *node.output, *node.input, "", "nowhere"]
        )
    elif kind == 3 and len(node.output):
        node.output[random.randrange(len(node.output))] = random.choice([*other.output, "", "x"])
    elif kind == 4:
        node.input.append(random.choice([*node.input, *other.output, ""]))
    elif kind == 5 and len(node.input):
        del node.input[random.randrange(len(node.input))]
    elif kind == 6:
        graph.node.remove(node)
    elif kind == 7:
        graph.node.add().CopyFrom(node)
    else:
        node.attribute.extend([*other.attribute])


def _change_attribute(graph: Any, random: Random) -> None:
    node = _any([n for n in graph.node if len(n.attribute)], random)
    if node is None:
        return
    attribute = _any(node.attribute, random)
    kind = random.randrange(7)
    if kind == 0:
        attribute.i = random.choice(NUMBERS)
    elif kind == 1 and len(attribute.ints):
        attribute.ints[random.randrange(len(attribute.ints))] = random.choice(NUMBERS)
    elif kind == 2:
        attribute.ints.extend(random.choices(NUMBERS, k=random.randint(1, 5)))
    elif kind == 3:
        attribute.f = random.choice([0.0, -1.0, float("nan"), float("inf"), 1e38])
    elif kind == 4:
        attribute.s = random.choice([b"", b"\xff\xfe", b"SAME_UPPER", b"linear", b"x" * 100])
    elif kind == 5:
        attribute.type = random.randrange(16)
    else:
        node.attribute.remove(attribute)


def _change_tensor(graph: Any, random: Random) -> None:
    tensors = [*graph.initializer, *[a.t for n in graph.node for a in n.attribute if a.type == 4]]
    tensor = _any(tensors, random)
    if tensor is None:
        return
    kind = random.randrange(6)
    if kind == 0:
        tensor.dims.append(random.choice(NUMBERS))
    elif kind == 1 and len(tensor.dims):
        tensor.dims[random.randrange(len(tensor.dims))] = random.choice(NUMBERS)
    elif kind == 2:
        tensor.data_type = random.randrange(30)
    elif kind == 3:
        tensor.raw_data = tensor.raw_data[: random.randint(0, len(tensor.raw_data))]
    elif kind == 4:
        tensor.name = random.choice([*[t.name for t in tensors], "", "x"])
    else:
        tensor.ClearField("raw_data")
        tensor.data_location = 1
        for key, value in (
            ("location", random.choice(PLACES)),
            ("offset", str(random.choice([*NUMBERS, "x"]))),
            ("length", str(random.choice([*NUMBERS, ""]))),
        ):
            if random.random() < 0.8:
                entry = tensor.external_data.add()
                entry.key, entry.value = key, value


def _change_value(graph: Any, random: Random) -> None:
    value = _any([*graph.input, *graph.output, *graph.value_info], random)
    if value is None:
        return
    kind = random.randrange(6)
    if kind == 0:
        value.type.tensor_type.elem_type = random.randrange(30)
    elif kind == 1 and len(value.type.tensor_type.shape.dim):
        dim = _any(value.type.tensor_type.shape.dim, random)
        dim.dim_value = random.choice(NUMBERS)
    elif kind == 2 and len(value.type.tensor_type.shape.dim):
        dim = _any(value.type.tensor_type.shape.dim, random)
        dim.dim_param = random.choice(["N", "", "for", "N + 1", "\u00e9", "x" * 300])
    elif kind == 3:
        value.type.tensor_type.shape.dim.add().dim_value = random.choice(NUMBERS)
    elif kind == 4:
        value.type.tensor_type.ClearField("shape")
    else:
        value.name = random.choice(["", "x", "a b", *[v.name for v in graph.input]])


def _change_model(model: Any, random: Random) -> None:
    kind = random.randrange(5)
    if kind == 0 and len(model.opset_import):
        _any(model.opset_import, random).version = random.choice([*NUMBERS, 5, 9, 13, 24, 99])
    elif kind == 1:
        model.ir_version = random.choice(NUMBERS)
    elif kind == 2:
        function = model.functions.add()
        function.name, function.domain = "Foo", "own"
        function.input.append("x")
        function.output.append("y")
        inner = function.node.add()
        inner.op_type, inner.domain = random.choice(["Foo", "Relu"]), random.choice(["own", ""])
        inner.input.append("x")
        inner.output.append("y")
        node = _any(model.graph.node, random)
        if node is not None:
            node.op_type, node.domain = "Foo", "own"
    elif kind == 3:
        model.graph.ClearField(random.choice(["node", "input", "output", "initializer", "name"]))
    else:
        graph = model.graph
        for _ in range(random.choice([3, 70])):  # a graph within a graph within …
            node = graph.node.add()
            node.op_type = "If"
            node.input.append("cond")
            node.output.append("deep")
            for name in ("then_branch", "else_branch")[: random.randint(1, 2)]:
                attribute = node.attribute.add()
                attribute.name, attribute.type = name, 5
                attribute.g.name = "deeper"
            graph = node.attribute[0].g


_OF_GRAPHS: Final[tuple[Callable[[Any, Random], None], ...]] = (
    _change_node,
    _change_node,
    _change_attribute,
    _change_attribute,
    _change_tensor,
    _change_value,
)


def _too_deep() -> type[Exception]:
    return importlib.import_module("google.protobuf.message").DecodeError


def model_of_seed(seed: int) -> DamagedModel:
    """Return the damaged file of a seed."""
    random = Random(seed)
    name, data = random.choice(_models())
    if random.random() < 0.3:
        return DamagedModel(name, _damage_bytes(data, random), ("bytes",))
    model: Any = importlib.import_module("onnx").ModelProto.FromString(data)
    changes: list[str] = []
    for _ in range(random.choice([1, 1, 1, 2, 4])):
        if random.random() < 0.1:
            _change_model(model, random)
            changes.append("model")
            continue
        change = random.choice(_OF_GRAPHS)
        try:
            change(model.graph, random)
        except (ValueError, TypeError, _too_deep()):  # protobuf holds no such number, text or depth
            continue
        changes.append(change.__name__.removeprefix("_change_"))
    return DamagedModel(name, model.SerializeToString(), tuple(changes))
