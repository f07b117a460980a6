"""Models as plain data: the contents of a file, independent of the library that reads it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

__all__ = [
    "ELEMENTS",
    "STORED_AS",
    "Attribute",
    "FunctionDef",
    "GraphDef",
    "ModelDef",
    "NodeDef",
    "NodeType",
    "OptionalType",
    "Reference",
    "SequenceType",
    "TensorType",
]

NPArray: TypeAlias = Any
"""A NumPy array of numbers or of expressions, which NumPy's annotations cannot express."""

ELEMENTS: Final[Mapping[int, str]] = {
    1: "float32", 2: "uint8", 3: "int8", 4: "uint16", 5: "int16", 6: "int32", 7: "int64",
    8: "string", 9: "bool", 10: "float16", 11: "float64", 12: "uint32", 13: "uint64",
    14: "complex64", 15: "complex128", 16: "bfloat16", 17: "float8e4m3fn", 18: "float8e4m3fnuz",
    19: "float8e5m2", 20: "float8e5m2fnuz", 21: "uint4", 22: "int4", 23: "float4e2m1",
    24: "float8e8m0", 25: "uint2", 26: "int2",
}  # fmt: skip
"""The types of elements, by their numbers in the standard."""
_PLAIN: Final = (
    "float16", "float32", "float64", "bfloat16", "bool",
    "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
)  # fmt: skip
_BYTES: Final = (
    "float4e2m1", "float8e4m3fn", "float8e4m3fnuz", "float8e5m2", "float8e5m2fnuz", "float8e8m0",
)  # fmt: skip
STORED_AS: Final[Mapping[str, str]] = {
    **{name: name for name in _PLAIN},
    # Integers of a few bits take a byte each; floats of a few bits are stored as their bits.
    **dict.fromkeys(("int4", "int2"), "int8"),
    **dict.fromkeys(("uint4", "uint2", *_BYTES), "uint8"),
}
"""The Relax dtype in which elements of each supported ONNX type are stored."""


@dataclass(frozen=True, slots=True)
class TensorType:
    """A tensor type: the element type, and the extents: numbers, names, or unknown."""

    element: str
    dims: tuple[int | str | None, ...] | None = None


@dataclass(frozen=True, slots=True)
class SequenceType:
    """A sequence of values of one type."""

    element: NodeType


@dataclass(frozen=True, slots=True)
class OptionalType:
    """A value, or none."""

    element: NodeType


NodeType: TypeAlias = "TensorType | SequenceType | OptionalType | None"
"""The declared type of a value; None if there is none."""


@dataclass(frozen=True, slots=True)
class Reference:
    """An attribute that refers to one of the enclosing function."""

    name: str


@dataclass(frozen=True, slots=True)
class NodeDef:
    """A use of an operator; omitted inputs and outputs have empty names."""

    operator: str
    domain: str
    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, Attribute] = field(default_factory=dict[str, "Attribute"])
    source: Any = field(default=None, compare=False, repr=False)
    """The protobuf message of the node, for operators that the standard expands by it."""

    @property
    def label(self) -> str:
        """The name of the node in messages."""
        shown = f"{self.domain}.{self.operator}" if self.domain else self.operator
        called = self.name or (f"of {self.outputs[0]!r}" if self.outputs else "without a name")
        return f"{shown} {called!r}" if self.name else f"{shown} {called}"


@dataclass(frozen=True, slots=True)
class GraphDef:
    """A graph: nodes in an order in which each value is defined before its uses."""

    name: str
    inputs: Mapping[str, NodeType]
    outputs: Mapping[str, NodeType]
    constants: Mapping[str, Any]
    """Arrays by name, each with the type of its elements: ``(element, array)``."""
    nodes: tuple[NodeDef, ...]


@dataclass(frozen=True, slots=True)
class FunctionDef:
    """An operator that is defined by others."""

    operator: str
    domain: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    defaults: Mapping[str, Attribute]
    nodes: tuple[NodeDef, ...]
    versions: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class ModelDef:
    """A graph, the functions that it may call, and the version of each set of operators."""

    graph: GraphDef
    functions: Mapping[tuple[str, str], FunctionDef]
    versions: Mapping[str, int]
    """The version of each domain; the standard's is the empty one."""


Attribute: TypeAlias = Any
"""A number, a string, an array as ``(element, array)``, a ``GraphDef``, a type, a ``Reference``,
or a tuple of these."""
