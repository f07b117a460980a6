"""Read models: bytes to plain data, by the onnx package, which only this module imports.

Files are untrusted: sizes are compared with the available bytes before memory is allocated, and
exceptions of the package become errors that name the model.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, TypeAlias, cast

import numpy as np

from loomir.frontend.onnx.external_data import external_data, read_external
from loomir.frontend.onnx.mistakes import CannotImport, refuse_model
from loomir.frontend.onnx.model import (
    ELEMENTS,
    STORED_AS,
    FunctionDef,
    GraphDef,
    ModelDef,
    NodeDef,
    NodeType,
    OptionalType,
    Reference,
    SequenceType,
    TensorType,
)
from loomir.frontend.onnx.weights import LEAST, FileData
from loomir.support.array import Array
from loomir.support.fork_safe import import_module

__all__ = [
    "convert_stored",
    "element_dtype",
    "explain_reading",
    "is_standard_function",
    "onnx_package",
    "read_function",
    "read_model",
    "read_tensor",
    "standard_function",
]

NPArray: TypeAlias = Any

_DEEPEST: Final = 32
"""The most levels of nested graphs."""
_LARGEST_SPARSE: Final = 1 << 26
"""The most elements of a sparse tensor as a dense one."""
_BITS: Final[Mapping[str, int]] = {
    "complex64": 64, "complex128": 128, "uint4": 4, "int4": 4, "float4e2m1": 4, "uint2": 2,
    "int2": 2, "bool": 8,
}  # fmt: skip


def onnx_package(part: str = "") -> Any:
    """Return the onnx package, or a part of it. Errors: ONX0001 where it is not installed."""
    try:
        return import_module(f"onnx.{part}" if part else "onnx")
    except ImportError as error:
        raise refuse_model(
            "ONX0001",
            f"reading ONNX models needs the package onnx, which cannot be imported: {error}",
            help='install it: pip install "loomir[onnx]"',
        ) from error


@contextmanager
def explain_reading(name: str) -> Generator[None, None, None]:
    """Convert exceptions of the onnx package and NumPy. Errors: ONX0002."""
    try:
        yield
    except (ValueError, TypeError, KeyError, IndexError, AttributeError, OverflowError) as error:
        raise _unreadable(name, error) from error
    except (ArithmeticError, RuntimeError, RecursionError, MemoryError) as error:
        raise _unreadable(name, error) from error
    except Exception as error:
        # Its own classes, and those of protobuf, do not inherit from the above.
        if type(error).__module__.partition(".")[0] not in ("onnx", "google"):
            raise
        raise _unreadable(name, error) from error


def _unreadable(name: str, error: Exception) -> Exception:
    first = next((line for line in str(error).splitlines() if line.strip()), type(error).__name__)
    return refuse_model(
        "ONX0002",
        f"{name} is not a valid ONNX model: {first.strip()}",
        help="export it again, or check it with onnx.checker.check_model",
    )


def element_name(number: int) -> str:
    """Return the name of an element type."""
    return ELEMENTS.get(number, f"type {number}")


def read_model(
    proto: Any, folder: Path | None, weights: Mapping[int, FileData] | None = None
) -> ModelDef:
    """Read a ``ModelProto``; tensors outside of it are looked for only in ``folder``.

    ``weights`` is the data of initializers by their number, where the message has none.
    """
    reader = _Reader(folder)
    functions = [reader.function(f) for f in proto.functions]
    return ModelDef(
        reader.graph(proto.graph, weights or {}),
        {(f.domain, f.operator): f for f in functions},
        _versions(proto.opset_import),
    )


def read_function(proto: Any) -> FunctionDef:
    """Read a ``FunctionProto``."""
    return _Reader(None).function(proto)


def read_tensor(proto: Any) -> tuple[str, NPArray]:
    """Read a ``TensorProto`` that contains its data."""
    return _Reader(None).tensor(proto)


def _domain(name: str) -> str:
    return "" if name == "ai.onnx" else name


def _versions(imports: Iterable[Any]) -> dict[str, int]:
    return {_domain(each.domain): int(each.version) for each in imports}


def _read_name(name: Any) -> str:
    """Return a name; protobuf returns invalid UTF-8 as bytes."""
    if not isinstance(name, str):
        raise ValueError(f"the name {name!r} is not valid UTF-8")
    return name


class _Reader:
    def __init__(self, folder: Path | None) -> None:
        self.folder = folder
        self.depth = 0

    # -- graphs ------------------------------------------------------------------------------
    def graph(self, proto: Any, weights: Mapping[int, FileData] = MappingProxyType({})) -> GraphDef:
        if self.depth >= _DEEPEST:
            raise ValueError(f"more than {_DEEPEST} graphs are nested")
        self.depth += 1
        constants = {
            t.name: self.weight(t, weights.get(i)) for i, t in enumerate(proto.initializer)
        }
        constants.update({t.values.name: self.sparse(t) for t in proto.sparse_initializer})
        made = GraphDef(
            proto.name,
            {_read_name(v.name): self.type(v.type) for v in proto.input},
            {_read_name(v.name): self.type(v.type) for v in proto.output},
            constants,
            tuple([self.node(n) for n in proto.node]),
        )
        self.depth -= 1
        return made

    def function(self, proto: Any) -> FunctionDef:
        defaults: dict[str, Any] = {a.name: self.attribute(a) for a in proto.attribute_proto}
        return FunctionDef(
            proto.name,
            _domain(proto.domain),
            tuple(proto.input),
            tuple(proto.output),
            {**dict.fromkeys(proto.attribute), **defaults},
            tuple([self.node(n) for n in proto.node]),
            _versions(proto.opset_import),
        )

    def node(self, proto: Any) -> NodeDef:
        return NodeDef(
            proto.op_type,
            _domain(proto.domain),
            proto.name,
            tuple(proto.input),
            tuple(proto.output),
            {a.name: self.attribute(a) for a in proto.attribute},
            proto,
        )

    def attribute(self, proto: Any) -> Any:
        if proto.ref_attr_name:
            return Reference(proto.ref_attr_name)
        return _ATTRIBUTES[proto.type](self, proto)

    def type(self, proto: Any) -> NodeType:
        kind = proto.WhichOneof("value")
        if kind == "tensor_type":
            tensor = proto.tensor_type
            element = element_name(tensor.elem_type)
            if not tensor.HasField("shape"):
                return TensorType(element)
            return TensorType(element, tuple([_dim(d) for d in tensor.shape.dim]))
        if kind == "sequence_type":
            return SequenceType(self.type(proto.sequence_type.elem_type))
        if kind == "optional_type":
            return OptionalType(self.type(proto.optional_type.elem_type))
        return None

    # -- tensors -----------------------------------------------------------------------------
    def weight(self, proto: Any, data: FileData | None) -> tuple[str, NPArray | Array]:
        """Read an initializer, or the place from which its elements are read later."""
        if data is None and proto.data_location != 1:
            return self.tensor(proto)
        element = element_name(proto.data_type)
        shape = tuple([int(d) for d in proto.dims])
        plain = STORED_AS.get(element) == element and element not in ("bool", "string", "bfloat16")
        size = math.prod(shape) * _width(element) // 8 if plain else -1
        if data is None:
            if size < LEAST or any(d < 0 for d in shape):
                return self.tensor(proto)
            said = {e.key: e.value for e in proto.external_data}
            data = external_data(said, self.folder, proto.name, size)
        if not plain:
            copy = type(proto)()
            copy.CopyFrom(proto)
            copy.raw_data = data.bytes()
            return self.tensor(copy)
        if any(d < 0 for d in shape) or data.size != size:
            raise ValueError(f"the tensor {proto.name!r} holds data of another shape")
        return element, data.array(element, shape)

    def tensor(self, proto: Any) -> tuple[str, NPArray]:
        element = element_name(proto.data_type)
        shape = [int(d) for d in proto.dims]
        if any(d < 0 for d in shape):
            raise ValueError(f"the tensor {proto.name!r} has a negative extent")
        count = math.prod(shape)
        external = proto.data_location == 1
        if external:
            bits = _BITS.get(element, 8 if "8" in element else 0) or _width(element)
            raw = read_external(
                {e.key: e.value for e in proto.external_data},
                self.folder,
                proto.name,
                (count * bits + 7) // 8,
            )
            copy = type(proto)(name=proto.name, data_type=proto.data_type, dims=shape)
            if element not in STORED_AS or STORED_AS[element] != element:
                copy.raw_data = raw.tobytes()
                return self.tensor(copy)
            return element, cast("NPArray", raw).view(_numpy_dtype(element)).reshape(shape)
        if count > max(proto.ByteSize(), 16) * 8:
            raise ValueError(f"the tensor {proto.name!r} holds less data than its shape says")
        array: NPArray = onnx_package("numpy_helper").to_array(proto)
        if array.shape != tuple(shape):
            raise ValueError(f"the tensor {proto.name!r} holds data of another shape")
        return element, convert_stored(element, array)

    def sparse(self, proto: Any) -> tuple[str, NPArray]:
        shape = [int(d) for d in proto.dims]
        if any(d < 0 for d in shape) or math.prod(shape) > _LARGEST_SPARSE:
            raise ValueError(f"the sparse tensor {proto.values.name!r} is too large")
        element, values = self.tensor(proto.values)
        _, places = self.tensor(proto.indices)
        made: NPArray = np.zeros(shape, values.dtype)
        if places.ndim == 1:
            made.reshape(-1)[places] = values
        else:
            made[tuple(places.T)] = values
        return element, made


def _width(element: str) -> int:
    return np.dtype(_numpy_dtype(element)).itemsize * 8


def _numpy_dtype(element: str) -> Any:
    if element == "bfloat16":
        return import_module("ml_dtypes").bfloat16
    return np.dtype(STORED_AS[element])


def element_dtype(element: str) -> Any:
    """Return the NumPy dtype of the onnx package for a type of elements."""
    number = next(k for k, v in ELEMENTS.items() if v == element)
    return onnx_package("helper").tensor_dtype_to_np_dtype(number)


def convert_stored(element: str, array: NPArray) -> NPArray:
    """Convert an array to the Relax dtype in which such elements are stored."""
    if element not in STORED_AS or element in ("bfloat16", STORED_AS[element]):
        return array
    if element.startswith(("int", "uint")):
        return array.astype(STORED_AS[element])
    return array.view("uint8")


def _dim(proto: Any) -> int | str | None:
    kind = proto.WhichOneof("value")
    if kind == "dim_value":
        value = int(proto.dim_value)
        if value < 0:
            return None
        return value
    return str(proto.dim_param) or None if kind == "dim_param" else None


def _text(value: bytes) -> str:
    return value.decode("utf-8", "surrogateescape")


_ATTRIBUTES: Final[Mapping[int, Callable[[_Reader, Any], Any]]] = {
    1: lambda r, a: float(a.f),
    2: lambda r, a: int(a.i),
    3: lambda r, a: _text(a.s),
    4: lambda r, a: r.tensor(a.t),
    5: lambda r, a: r.graph(a.g),
    6: lambda r, a: tuple([float(v) for v in a.floats]),
    7: lambda r, a: tuple([int(v) for v in a.ints]),
    8: lambda r, a: tuple([_text(v) for v in a.strings]),
    9: lambda r, a: tuple([r.tensor(v) for v in a.tensors]),
    10: lambda r, a: tuple([r.graph(v) for v in a.graphs]),
    11: lambda r, a: r.sparse(a.sparse_tensor),
    12: lambda r, a: tuple([r.sparse(v) for v in a.sparse_tensors]),
    13: lambda r, a: r.type(a.tp),
    14: lambda r, a: tuple([r.type(v) for v in a.type_protos]),
}


# -- operators that the standard defines by others -----------------------------------------------
def _schema(node: NodeDef, version: int) -> Any:
    """Return the standard's schema of an operator; None if it has no such operator."""
    defs = onnx_package("defs")
    try:
        return defs.get_schema(node.operator, version, node.domain)
    except Exception as error:
        if type(error).__name__ != "SchemaError":
            raise
        return None


def is_standard_function(node: NodeDef, version: int) -> bool:
    """Tell whether the standard defines an operator by others."""
    schema = _schema(node, version)
    if schema is None:
        return False
    return bool(schema.has_function or schema.has_context_dependent_function)


def standard_function(
    node: NodeDef, version: int, types: list[tuple[str, list[int | None] | None] | None]
) -> FunctionDef | None:
    """Return how the standard defines an operator by others; None if it does not."""
    schema = _schema(node, version)
    if schema is None:
        return None
    proto = onnx_package().FunctionProto()
    if schema.has_function:
        data = schema.get_function_with_opset_version(version)
        proto.CopyFrom(data) if not isinstance(data, bytes) else proto.ParseFromString(data)
    elif schema.has_context_dependent_function:
        helper = onnx_package("helper")
        simple = {k: v for k, v in node.attributes.items() if _is_simple(v)}
        made = helper.make_node(
            node.operator, node.inputs, node.outputs, domain=node.domain, **simple
        )
        # Graphs and tensors, such as the changes of scores of FlexAttention, go into the definition
        # as they are.
        written = {a.name: a for a in getattr(node.source, "attribute", ()) if not a.ref_attr_name}
        others = [name for name in node.attributes if name not in simple]
        if any(name not in written for name in others):
            raise CannotImport("an attribute that its definition needs is a function's")
        made.attribute.extend([written[name] for name in others])
        given = [_type_proto(helper, t).SerializeToString() for t in types]
        # A definition is written for a version, and holds until there is another one.
        known = [v for v in schema.context_dependent_function_opset_versions if v <= version]
        version = max(known, default=version)
        data = schema.get_context_dependent_function_with_opset_version(
            version, made.SerializeToString(), given
        )
        if not data:
            return None
        proto.ParseFromString(data)
    else:
        return None
    found = read_function(proto)
    given_versions = {"": version, **found.versions} if not node.domain else found.versions
    defaults = {name: _default(a) for name, a in schema.attributes.items()}
    return FunctionDef(
        found.operator,
        found.domain,
        found.inputs,
        found.outputs,
        {**found.defaults, **{k: v for k, v in defaults.items() if v is not None}},
        found.nodes,
        given_versions,
    )


def _is_simple(value: Any) -> bool:
    items = cast("tuple[Any, ...]", value) if isinstance(value, tuple) else (value,)
    return all(isinstance(v, (int, float, str)) for v in items)


def _default(attribute: Any) -> Any:
    proto = attribute.default_value
    return _Reader(None).attribute(proto) if proto is not None and proto.type else None


def _type_proto(helper: Any, given: tuple[str, list[int | None] | None] | None) -> Any:
    if given is None:
        return onnx_package().TypeProto()
    number = next(k for k, v in ELEMENTS.items() if v == given[0])
    return helper.make_tensor_type_proto(number, given[1])
