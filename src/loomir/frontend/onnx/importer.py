"""A model becomes a module with one function of Relax."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeAlias, cast

import numpy as np

from loomir.frontend.dataflow import with_dataflow_blocks
from loomir.frontend.loops import lift_loops
from loomir.frontend.onnx.converters import load_converters
from loomir.frontend.onnx.declared_outputs import check_output_types, list_other_shapes
from loomir.frontend.onnx.graph import GraphImporter, constant_value, identifier
from loomir.frontend.onnx.limits import MOST_NODES, size_in_full, too_large
from loomir.frontend.onnx.mistakes import (
    CannotImport,
    NeedsBranches,
    NeedsConstants,
    refuse_model,
)
from loomir.frontend.onnx.model import (
    STORED_AS,
    GraphDef,
    ModelDef,
    NodeType,
    OptionalType,
    SequenceType,
    TensorType,
)
from loomir.frontend.onnx.problems import Problems
from loomir.frontend.onnx.proto import explain_reading, onnx_package, read_model
from loomir.frontend.onnx.values import (
    AbsentOptional,
    MissingValue,
    SequenceValue,
    TensorValue,
    Value,
)
from loomir.frontend.onnx.weights import LEAST, FileData, WeightFile, separate_weights
from loomir.ir.module import IRModule
from loomir.relax.expr import TupleGetItem, Var
from loomir.relax.normal.block_builder import BlockBuilder
from loomir.relax.shape import INT64, ShapeExpr, as_dims
from loomir.relax.struct_info import StructInfo, TensorStructInfo, TupleStructInfo
from loomir.support.array import Array
from loomir.support.compile_warning import caution
from loomir.support.diagnostics import CompileError, Diagnostic, nearest
from loomir.support.dtype import DataType
from loomir.tir.expr import Var as ShapeVar

__all__ = ["NEWEST", "ArgumentTensor", "has_only_shapes", "load_anew", "load_definition", "read"]

Model: TypeAlias = "str | os.PathLike[str] | bytes | Any"

NEWEST: Final = 28
"""The newest version of the standard's operators that the converters were written for."""


def load_anew(
    model: Model,
    *,
    dims: Mapping[str, int] | None = None,
    shapes: Mapping[str, Sequence[int]] | None = None,
    constants: Mapping[str, Any] | None = None,
    name: str = "main",
) -> IRModule:
    """Import a model like ``loomir.onnx.load``, but without the cache."""
    return load_definition(read(model), dims=dims, shapes=shapes, constants=constants, name=name)


def load_definition(
    model: ModelDef,
    *,
    dims: Mapping[str, int] | None = None,
    shapes: Mapping[str, Sequence[int]] | None = None,
    constants: Mapping[str, Any] | None = None,
    name: str = "main",
) -> IRModule:
    """Import a model that is read already, like ``load``."""
    return _ModelLoader(model, dims, shapes, constants, name).module()


def read(model: Model) -> ModelDef:
    """Read and check a model. Errors: ONX0001 to ONX0004."""
    onnx = onnx_package()
    load_converters()
    folder: Path | None = None
    shown = "the model"
    weights: dict[int, FileData] = {}
    data: Any = model
    if isinstance(model, (str, os.PathLike)):
        path = Path(cast("str", model))
        folder, shown = path.parent, str(path)
        data, weights = _read_file(path)
    with explain_reading(shown):
        if isinstance(data, (bytes, bytearray, memoryview)):
            proto = onnx.ModelProto()
            proto.ParseFromString(bytes(cast("bytes", data)))
        else:
            proto = data
            if not isinstance(proto, onnx.ModelProto):
                raise TypeError(f"a {type(data).__name__} is not a model")
        if not proto.HasField("graph"):
            raise ValueError("it has no graph")
        names = [output.name for output in proto.graph.output]
        if len(set(names)) < len(names):
            raise ValueError("it lists an output twice")
        _check(onnx, _as_scalars(onnx, proto, weights) if weights else proto)
        found = read_model(proto, folder, weights)
    if size_in_full(found) > MOST_NODES:
        raise CompileError(too_large())
    version = found.versions.get("", 1)
    if version > NEWEST:
        raise refuse_model(
            "ONX0005",
            f"{shown} needs opset version {version}, and versions up to {NEWEST} are supported",
            help="export it for an older version (opset)",
        )
    return found


def _read_file(path: Path) -> tuple[bytes, dict[int, FileData]]:
    """Read a file, except the data of large initializers. Errors: ONX0002."""
    try:
        file = WeightFile(path)
        if path.stat().st_size < LEAST:
            return path.read_bytes(), {}
        separate = separate_weights(np.memmap(path, "uint8", "r"))
        if separate is None:
            return path.read_bytes(), {}
    except OSError as error:
        raise refuse_model(
            "ONX0002",
            f"cannot read {path}: {error.strerror or error}",
            help="give the path of a model, a file that ends in .onnx",
        ) from error
    data, places = separate
    return data, {number: FileData(file, *place) for number, place in places.items()}


def _as_scalars(onnx: Any, proto: Any, weights: Collection[int]) -> Any:
    """Return a model in which initializers without data are scalars, for the checker."""
    made = onnx.ModelProto()
    made.CopyFrom(proto)
    for number in weights:
        weight = made.graph.initializer[number]
        weight.ClearField("dims")
        weight.raw_data = bytes(16)
    return made


def _check(onnx: Any, proto: Any) -> None:
    """Check a model with the onnx package; external data is checked when it is read."""
    if any(t.data_location == 1 for t in proto.graph.initializer):
        return
    try:
        onnx.checker.check_model(proto)
    except onnx.checker.ValidationError as error:
        # The import lists all unknown operators, with a remedy.
        if "No Op registered" not in str(error) and "No opset import" not in str(error):
            raise


class _ModelLoader:
    def __init__(
        self,
        model: ModelDef,
        dims: Mapping[str, int] | None,
        shapes: Mapping[str, Sequence[int]] | None,
        constants: Mapping[str, Any] | None,
        name: str,
    ) -> None:
        self.model = model
        self.sizes: dict[str, ShapeVar | int] = {} if dims is None else dict(dims)
        self.shapes: Mapping[str, Sequence[int]] = {} if shapes is None else shapes
        self.constants: Mapping[str, Any] = {} if constants is None else constants
        self.name = name
        self.problems = Problems()
        self.warnings: list[Diagnostic] = []
        self.params: list[Var] = []
        graph = model.graph
        self.inputs = {k: v for k, v in graph.inputs.items() if k not in graph.constants}
        self._check_names(self.shapes, "shapes", self.inputs)
        self._check_names(self.constants, "constants", graph.inputs)
        self._check_names(self.sizes, "dims", _dim_names(graph))

    @staticmethod
    def _check_names(given: Mapping[str, Any], what: str, known: Any) -> None:
        for one in given:
            if one not in known:
                guess = nearest(one, known)
                raise refuse_model(
                    "ONX0006",
                    f"{what} names {one!r}, which the model does not have",
                    notes=(f"it has: {', '.join(known) or 'none'}",),
                    help=f"did you mean {guess!r}?" if guess else "leave it out",
                )

    def module(self) -> IRModule:
        values = {k: self._input(k, t) for k, t in self.inputs.items()}
        for key, given in self.constants.items():
            if key not in values:
                values[key] = self._bind(self.model.graph.inputs[key], given)
        self._stop()
        try:
            made = self._function(values, dataflow=True)
        except NeedsBranches:
            made = self._function(values, dataflow=False)
        caution(self.warnings)
        return made

    def _function(self, values: Mapping[str, Value], *, dataflow: bool) -> IRModule:
        self.problems = Problems()
        builder = BlockBuilder()
        importer = GraphImporter(builder, self.model, self.problems, dataflow=dataflow)
        with builder.function(self.name, self.params):
            if dataflow:
                builder.begin_dataflow_block()
            outputs = importer.run_main(values)
            for label, value in zip(self.model.graph.outputs, outputs):
                if isinstance(value, MissingValue) and not self.problems:
                    self.problems.add(None, CannotImport(f"no node defines the output {label!r}"))
            if not self.problems:
                check_output_types(self.model.graph.outputs, outputs, self.problems)
            self._stop()
            if not self.shapes and not self.constants:  # they may make others than it was for
                self.warnings = list_other_shapes(self.model.graph.outputs, outputs)
            result = importer.result(outputs)
            if dataflow:
                builder.end_block()
            builder.emit_func_output(result)
        made = builder.get()
        return made if dataflow else with_dataflow_blocks(lift_loops(made))

    def _stop(self) -> None:
        """Raise an error with all problems, if there are any."""
        if not self.problems:
            return
        found = self.problems.diagnostics()
        if any(d.code == "ONX0011" for d in found):
            error = NeedsConstants(*found)
            error.names = tuple(sources(self.model.graph, self.problems.unknown))
            raise error
        raise CompileError.of(found)

    # -- inputs ------------------------------------------------------------------------------
    def _input(self, name: str, kind: NodeType) -> Value:
        if name in self.constants:
            bound = self.constants[name]
            if not has_only_shapes(bound):
                return self._bind(kind, bound)
        info = self._info(name, kind, self.constants.get(name))
        if info is None:
            return MissingValue()
        var = Var(identifier(name), info)
        self.params.append(var)
        return self._value(var, info, kind)

    def _value(self, expr: Any, info: StructInfo, kind: NodeType) -> Value:
        while isinstance(kind, OptionalType):
            kind = kind.element
        if isinstance(info, TupleStructInfo):
            inner = kind.element if isinstance(kind, SequenceType) else None
            items = [
                self._value(TupleGetItem(expr, i), f, inner) for i, f in enumerate(info.fields)
            ]
            return SequenceValue(tuple(items))
        assert isinstance(kind, TensorType)
        return TensorValue(expr, kind.element)

    def _info(self, name: str, kind: NodeType, bound: Any) -> StructInfo | None:
        if isinstance(kind, OptionalType):
            kind = kind.element
        if isinstance(kind, SequenceType):
            if not isinstance(bound, (list, tuple)):
                self.problems.add(None, _open(name, "is a sequence of unknown length"))
                return None
            items: list[Any] = [*bound]
            fields = [self._info(f"{name}_{i}", kind.element, v) for i, v in enumerate(items)]
            return TupleStructInfo(tuple([f for f in fields if f is not None]))
        if not isinstance(kind, TensorType):
            self.problems.add(None, _open(name, "has a type that is not supported"))
            return None
        if kind.element not in STORED_AS:
            self.problems.add(None, _open(name, f"has elements of type {kind.element}"))
            return None
        dtype = DataType(STORED_AS[kind.element])
        given = self.shapes.get(name)
        if given is None and hasattr(bound, "shape"):
            given = bound.shape
        if given is not None:
            return TensorStructInfo(ShapeExpr(as_dims([int(d) for d in given])), dtype)
        if kind.dims is None:
            return TensorStructInfo(None, dtype)
        dims = [self._dim(d, f"{name}_{i}") for i, d in enumerate(kind.dims)]
        return TensorStructInfo(ShapeExpr(as_dims(dims)), dtype)

    def _dim(self, dim: int | str | None, otherwise: str) -> Any:
        if isinstance(dim, int):
            return dim
        key = dim or otherwise
        return self.sizes.setdefault(key, ShapeVar(identifier(key), INT64))

    def _bind(self, kind: NodeType, given: Any) -> Value:
        if given is None:
            return AbsentOptional()
        if isinstance(kind, OptionalType):
            return self._bind(kind.element, given)
        if isinstance(kind, SequenceType):
            return SequenceValue(tuple([self._bind(kind.element, v) for v in given]))
        assert isinstance(kind, TensorType)
        array = np.asarray(given)
        if kind.element in STORED_AS:
            array = Array(array).data if array.dtype.kind in "iufb" else array
        return constant_value((kind.element, array))


def has_only_shapes(bound: Any) -> bool:
    """Tell whether a bound value only determines the number of tensors and their shapes."""
    if isinstance(bound, (list, tuple)):
        return any(has_only_shapes(v) for v in cast("Sequence[Any]", bound))
    return isinstance(bound, ArgumentTensor)


class ArgumentTensor:
    """In ``constants``, a tensor of known shape whose elements are arguments."""

    def __init__(self, shape: Sequence[int]) -> None:
        self.shape = tuple(shape)


def _open(name: str, why: str) -> CannotImport:
    return CannotImport(
        f"its input {name!r} {why}",
        help=f"bind it: load(model, constants={{{name!r}: value}})",
        code="ONX0011",
    )


def _dim_names(graph: GraphDef) -> list[str]:
    found: dict[str, None] = {}
    for name, kind in graph.inputs.items():
        for i, d in enumerate(kind.dims or () if isinstance(kind, TensorType) else ()):
            if not isinstance(d, int):
                found.setdefault(d or f"{name}_{i}")
    return list(found)


def sources(graph: GraphDef, names: Sequence[str]) -> list[str]:
    """List the inputs of a graph that values in it are computed from."""
    makers = {name: node for node in graph.nodes for name in node.outputs}
    todo, seen, found = list(names), set(names), dict[str, None]()
    while todo:
        name = todo.pop()
        if name in graph.inputs:
            found.setdefault(name)
        for before in makers[name].inputs if name in makers else ():
            if before not in seen:
                seen.add(before)
                todo.append(before)
    return list(found)
