"""Loomir as a backend of the onnx package (``onnx.backend.base``).

``prepare(model)`` returns an object whose ``run`` takes arrays. A model whose shapes or axes are
inputs is compiled at its first run for the values of these inputs, and again for other values. One
that cannot be imported with open extents is compiled for the shapes of its inputs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias, cast

import numpy as np

from loomir.frontend.onnx.importer import ArgumentTensor, has_only_shapes, load_definition, read
from loomir.frontend.onnx.mistakes import NeedsConstants
from loomir.frontend.onnx.model import (
    STORED_AS,
    ModelDef,
    NodeType,
    OptionalType,
    SequenceType,
    TensorType,
)
from loomir.frontend.onnx.proto import convert_stored, element_dtype, onnx_package
from loomir.frontend.onnx.values import is_array
from loomir.support.compiling import to_executable
from loomir.support.diagnostics import CompileError

__all__ = [
    "LoomirBackend",
    "PreparedModel",
    "as_onnx_value",
    "is_compatible",
    "prepare",
    "run_model",
    "supports_device",
]

NPArray: TypeAlias = Any
_SMALL: Final = 1024
"""The most elements of an input that may hold shapes or axes, if none is named."""


class PreparedModel:
    """A model that is ready to run; programs are cached by the inputs that they are for."""

    def __init__(self, model: ModelDef, options: Mapping[str, Any]) -> None:
        self.model = model
        self.options = options
        self.names = [k for k in model.graph.inputs if k not in model.graph.constants]
        self._bound: frozenset[str] = frozenset()
        self._has_fixed_shapes = False
        """Whether programs are compiled for the shapes of their inputs."""
        self._programs: dict[Any, tuple[Any, list[str]]] = {}

    @property
    def bound(self) -> frozenset[str]:
        """The inputs whose elements are compiled into programs."""
        return self._bound

    def run(self, inputs: Any, **_: Any) -> tuple[Any, ...]:
        """Run on a sequence of arrays, or on arrays by name; return the outputs in order."""
        if isinstance(inputs, Mapping):
            given = dict(cast("Mapping[str, Any]", inputs))
        else:
            given = dict(zip(self.names, cast("Sequence[Any]", inputs)))
        program, passed = self._program(given)
        arguments = [_argument(given[name]) for name in passed]
        made = program(*arguments)
        outputs = list(self.model.graph.outputs.values())
        results = (made,) if len(outputs) == 1 else made
        return tuple([as_onnx_value(r, t) for r, t in zip(results, outputs)])

    def _program(self, given: Mapping[str, Any]) -> tuple[Any, list[str]]:
        while True:
            constants = self._constants(given)
            key = tuple([(k, _key(v)) for k, v in constants.items()])
            found = self._programs.get(key)
            if found is not None:
                return found
            try:
                module = load_definition(self.model, constants=constants)
            except NeedsConstants as error:
                more = self._bound | self._find_needed(error.names, given)
                if more == self._bound:
                    raise
                self._bound = more
                continue
            except CompileError as error:
                if self._has_fixed_shapes or error.diagnostics[0].code != "ONX0012":
                    raise
                self._has_fixed_shapes = True  # it may be extents that are not known
                continue
            passed = [n for n in self.names if n not in constants or has_only_shapes(constants[n])]
            made = (to_executable(module, **self.options), passed)
            self._programs[key] = made
            return made

    def _constants(self, given: Mapping[str, Any]) -> dict[str, Any]:
        made: dict[str, Any] = {}
        for name, kind in self.model.graph.inputs.items():
            if name not in given:
                continue
            value = given[name]
            if name in self._bound or value is None:
                made[name] = value
            elif isinstance(kind, (SequenceType, OptionalType)) or (
                isinstance(kind, TensorType) and (kind.dims is None or self._has_fixed_shapes)
            ):
                made[name] = _open(value)
        return made

    def _find_needed(self, names: Sequence[str], given: Mapping[str, Any]) -> frozenset[str]:
        found = frozenset(names) & frozenset(given)
        if found - self._bound:
            return found
        small = [
            name
            for name, value in given.items()
            if is_array(value) and value.dtype.kind in "iub" and value.size <= _SMALL
        ]
        return frozenset(small)


def _open(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return [_open(v) for v in cast("Sequence[Any]", value)]
    return ArgumentTensor(np.asarray(value).shape)


def _key(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return tuple([_key(v) for v in cast("Sequence[Any]", value)])
    if isinstance(value, ArgumentTensor):
        return value.shape
    if value is None:
        return None
    array = np.asarray(value)
    return array.shape, str(array.dtype), array.tobytes()


def _argument(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return tuple([_argument(v) for v in cast("Sequence[Any]", value)])
    array = np.asarray(value)
    return convert_stored(_element_of(array), array)


def _element_of(array: NPArray) -> str:
    name = str(array.dtype).replace("_", "")
    return name[: -len("fn")] if name == "float4e2m1fn" else name.removesuffix("fnu")


def as_onnx_value(value: Any, kind: NodeType) -> Any:
    """Convert a value of a program for ONNX: sequences to lists, arrays to its dtypes."""
    if isinstance(kind, OptionalType):
        if isinstance(value, (tuple, list)) and not isinstance(kind.element, SequenceType):
            return None
        return as_onnx_value(value, kind.element)
    if isinstance(kind, SequenceType):
        return [as_onnx_value(v, kind.element) for v in value]
    array: NPArray = np.asarray(value)
    if isinstance(kind, TensorType) and STORED_AS.get(kind.element) != kind.element:
        dtype = element_dtype(kind.element)
        integer = kind.element.startswith(("int", "uint"))
        return array.astype(dtype) if integer else array.view(dtype)
    return array


def prepare(model: Any, device: str = "CPU", **options: Any) -> PreparedModel:
    """Read a model, which the first run will compile. Errors: ONX0001 to ONX0005."""
    return PreparedModel(read(model), options)


def run_model(model: Any, inputs: Any, device: str = "CPU", **options: Any) -> tuple[Any, ...]:
    """Run a model once."""
    return prepare(model, device, **options).run(inputs)


def run_node(
    node: Any, inputs: Any, device: str = "CPU", outputs_info: Any = None, **options: Any
) -> tuple[Any, ...]:
    """Run one node on arrays; ``outputs_info`` has dtype and shape of each output."""
    helper = onnx_package("helper")
    arrays = [np.asarray(v) for v in inputs]
    to_type = helper.np_dtype_to_tensor_dtype
    given = [
        helper.make_tensor_value_info(name, to_type(a.dtype), a.shape)
        for name, a in zip([n for n in node.input if n], arrays)
    ]
    kinds = outputs_info or [(arrays[0].dtype, None)] * len(node.output)
    made = [
        helper.make_tensor_value_info(name, to_type(np.dtype(dtype)), shape)
        for name, (dtype, shape) in zip(node.output, kinds)
    ]
    graph = helper.make_graph([node], "node", given, made)
    return run_model(helper.make_model(graph), arrays, device, **options)


def is_compatible(model: Any, device: str = "CPU", **_: Any) -> bool:
    """Tell whether a model can be imported, as far as that shows without its inputs."""
    return supports_device(device)


def supports_device(device: str) -> bool:
    """Tell whether programs run on a device."""
    return device.partition(":")[0] == "CPU"


class LoomirBackend:
    """The functions of this module as a class, for ``onnx.backend.test``."""

    prepare = staticmethod(prepare)
    run_model = staticmethod(run_model)
    run_node = staticmethod(run_node)
    is_compatible = staticmethod(is_compatible)
    supports_device = staticmethod(supports_device)
