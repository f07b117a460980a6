"""Convert a model: visit its nodes in order, and add the result of each converter to one function.

Functions of the model, and operators that the standard defines by others, are expanded where they
are used. Nodes that cannot be imported are recorded and the walk goes on, so that all of them are
reported at once.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np

from loomir.arith.analyzer import Analyzer
from loomir.frontend.onnx.limits import MOST_AXES, MOST_NODES, too_large
from loomir.frontend.onnx.mistakes import CannotImport, MissingBody
from loomir.frontend.onnx.model import (
    STORED_AS,
    FunctionDef,
    GraphDef,
    ModelDef,
    NodeDef,
    Reference,
)
from loomir.frontend.onnx.node import Node
from loomir.frontend.onnx.problems import Problems
from loomir.frontend.onnx.proto import is_standard_function, standard_function
from loomir.frontend.onnx.registry import Row, find_row
from loomir.frontend.onnx.shape_arithmetic import fold
from loomir.frontend.onnx.values import (
    AbsentOptional,
    MissingValue,
    SequenceValue,
    TensorValue,
    Value,
)
from loomir.op import astype, shape_to_tensor, tensor_to_shape
from loomir.relax.expr import Constant, Expr, Tuple, Var
from loomir.relax.node import RelaxExpr, StructInfo
from loomir.relax.normal.block_builder import BlockBuilder
from loomir.relax.shape import INT64, ShapeExpr
from loomir.relax.struct_info import (
    ShapeStructInfo,
    TensorStructInfo,
    TupleStructInfo,
)
from loomir.support.array import Array
from loomir.support.diagnostics import CompileError
from loomir.te import Tensor, compute, select
from loomir.tir.expr import IntImm, PrimExpr, const
from loomir.tir.expr import Var as ShapeVar

__all__ = ["GraphImporter", "constant_value", "identifier", "type_of"]

_DEEPEST: Final = 48
_FAULTS: Final = (
    TypeError,
    ValueError,
    KeyError,
    IndexError,
    AttributeError,
    AssertionError,
    ArithmeticError,
    MemoryError,
)


@dataclass
class _Frame:
    """A scope of nodes that is being imported: a graph, or a function in place of a node."""

    nodes: Sequence[NodeDef]
    scope: dict[str, Value | None]
    versions: Mapping[str, int]
    around: _Frame | None = None
    """The outer scope, whose values the nodes may use."""
    finish: Callable[[], None] | None = None
    next: int = 0
    label: NodeDef | None = field(default=None)
    """The node of the model that these nodes expand."""


class GraphImporter:
    """Imports the nodes of a model into a function of a builder."""

    def __init__(
        self, builder: BlockBuilder, model: ModelDef, problems: Problems, *, dataflow: bool
    ) -> None:
        self.builder = builder
        self.model = model
        self.problems = problems
        self.dataflow = dataflow
        """Whether everything is in one dataflow block, with dataflow variables."""
        self._analyzer = Analyzer()
        self._frame: _Frame | None = None
        self._walked = 0
        self._depth = 0
        self._names: dict[str, int] = {}

    # -- walking -----------------------------------------------------------------------------
    def run_main(self, inputs: Mapping[str, Value]) -> list[Value]:
        """Import the graph of the model."""
        graph = self.model.graph
        scope: dict[str, Value | None] = {**_constants(graph), **inputs}
        self._walk(_Frame(graph.nodes, scope, self.model.versions))
        return [self._output(scope.get(name), name) for name in graph.outputs]

    def run(self, body: GraphDef, inputs: Sequence[Value]) -> list[Value]:
        """Import the nodes of a graph inside the current node, with values for its inputs."""
        around = self._frame
        assert around is not None
        scope: dict[str, Value | None] = dict(_constants(body))
        scope.update(zip(body.inputs, inputs))
        frame = _Frame(body.nodes, scope, around.versions, around, label=around.label)
        if self._depth >= _DEEPEST:
            raise CannotImport(f"more than {_DEEPEST} graphs are nested")
        self._depth += 1
        self._walk(frame)
        self._depth -= 1
        self._frame = around
        return [self._output(_find(frame, name), name) for name in body.outputs]

    def _output(self, value: Value | None, name: str) -> Value:
        if value is None:
            self.problems.add(None, CannotImport(f"no node defines the output {name!r}"))
            return MissingValue()
        return value

    def _walk(self, first: _Frame) -> None:
        frames = [first]
        while frames:
            frame = frames[-1]
            if frame.next == len(frame.nodes):
                frames.pop()
                if frame.finish is not None:
                    frame.finish()
                continue
            node = frame.nodes[frame.next]
            frame.next += 1
            self._walked += 1
            if self._walked > MOST_NODES:
                raise CompileError(too_large())
            self._frame = frame
            inner = self._node(node, frame)
            if inner is not None:
                frames.append(inner)

    def _node(self, node: NodeDef, frame: _Frame) -> _Frame | None:
        """Import a node; return the scope of a function that expands it, if there is one."""
        shown = frame.label or node
        try:
            inputs = [_find_input(frame, name) for name in node.inputs]
            version = frame.versions.get(node.domain, 1)
            own = self.model.functions.get((node.domain, node.operator))
            if any(isinstance(v, MissingValue) for v in inputs):
                if own is None and not is_known(node, version):
                    self.problems.note_missing_converter(node, shown, version)
                _bind(frame, node, [MissingValue()] * len(node.outputs))
                return None
            if own is None:
                made = self._convert(Node(node, inputs, version, self))
                if made is not None:
                    _bind(frame, node, made)
                    return None
            function = own or standard_function(node, version, [type_of(v) for v in inputs])
            if function is None:
                self.problems.note_missing_converter(node, shown, version)
                _bind(frame, node, [MissingValue()] * len(node.outputs))
                return None
            return self._expand(function, node, inputs, frame)
        except MissingBody:
            pass
        except CannotImport as error:
            self.problems.add(shown, error)
        except CompileError as error:
            self.problems.note_refused(shown, error)
        except _FAULTS as error:
            self.problems.faulty(shown, error)
        _bind(frame, node, [MissingValue()] * len(node.outputs))
        return None

    def _convert(self, node: Node) -> list[Value] | None:
        """Return the outputs of a node; None if its operator has no converter."""
        folded = fold(node)
        if folded is not None:
            return [folded]
        row = find_row(node.definition.domain, node.operator, node.version)
        return None if row is None else self._convert_by_row(row, node)

    def _convert_by_row(self, row: Row, node: Node) -> list[Value]:
        if not row.small:
            _check_elements(node)
        made = row.convert(node)
        values: list[Any] = [*made] if isinstance(made, (tuple, list)) else [made]
        first = node.inputs[0] if node.inputs else None
        element = first.element if row.moves and isinstance(first, TensorValue) else ""
        return [self._value(v, element) for v in values]

    def _value(self, made: Any, element: str) -> Value:
        if made is None:
            return MissingValue()
        if not isinstance(made, Expr):
            return made
        expr = made if isinstance(made, (Var, Constant)) else self.emit(made)
        info = self.builder.struct_info_of(expr)
        if not isinstance(info, TensorStructInfo):
            raise CannotImport("its converter returned something other than a tensor")
        stored = str(info.dtype)
        same = element and STORED_AS.get(element) == stored
        return TensorValue(expr, element if same else stored)

    def _expand(
        self,
        function: FunctionDef,
        node: NodeDef,
        inputs: Sequence[Value | None],
        frame: _Frame,
    ) -> _Frame:
        attributes = {**function.defaults, **node.attributes}
        scope: dict[str, Value | None] = dict.fromkeys(function.inputs)
        scope.update(zip(function.inputs, inputs))
        nodes = [_with_attributes(n, attributes) for n in function.nodes]
        inner = _Frame(nodes, scope, {**frame.versions, **function.versions})
        inner.label = frame.label or node

        def finish() -> None:
            made = [scope.get(name) or MissingValue() for name in function.outputs]
            _bind(frame, node, made[: len(node.outputs)])

        inner.finish = finish
        return inner

    def convert(
        self, operator: str, inputs: Sequence[Any], attributes: Mapping[str, Any], outputs: int
    ) -> list[Value]:
        """Import a use of another standard operator, in its newest version unless known."""
        around = self._frame
        assert around is not None
        names = [f"in{i}" if v is not None else "" for i, v in enumerate(inputs)]
        made = tuple([f"out{i}" for i in range(outputs)])
        scope: dict[str, Value | None] = {
            name: self._value(v, "") for name, v in zip(names, inputs) if name
        }
        node = NodeDef(operator, "", "", tuple(names), made, attributes)
        version = around.versions.get("", 1)
        given = [scope[name] if name else None for name in names]
        values = self._convert(Node(node, given, version, self))
        self._frame = around
        if values is None:
            raise CannotImport(f"it needs {operator}, which has no converter")
        return values

    # -- expressions -------------------------------------------------------------------------
    def emit(self, expr: RelaxExpr, name: str = "") -> Var:
        """Bind an expression to a variable whose extents are known, wherever its rank is."""
        bind = self.builder.emit if self.dataflow else self.builder.emit_output
        var = bind(expr, name)
        info = var.struct_info
        known = self._fill_known_extents(info)
        if known is info:
            return var
        return self.builder.match_cast(var, known, output=not self.dataflow)

    def _fill_known_extents(self, info: StructInfo) -> StructInfo:
        if isinstance(info, TensorStructInfo) and info.ndim >= 0 and info.dims is None:
            dims = tuple([self._extent("d") for _ in range(info.ndim)])
            return TensorStructInfo(ShapeExpr(dims), info.dtype, info.vdevice)
        if isinstance(info, TupleStructInfo):
            fields = tuple([self._fill_known_extents(f) for f in info.fields])
            if any(a is not b for a, b in zip(fields, info.fields)):
                return TupleStructInfo(fields)
        return info

    def _extent(self, name: str) -> ShapeVar:
        """Return a new shape variable with a unique name."""
        number = self._names[name] = self._names.get(name, -1) + 1
        return ShapeVar(f"{name}{number}", INT64)

    def expression(self, value: Value) -> RelaxExpr:
        """Return the expression of a tensor, which is created if there is none yet."""
        if not isinstance(value, TensorValue):
            raise CannotImport(
                "one of its inputs is a sequence or an optional, and must be a tensor"
            )
        if value.expr is not None:
            return value.expr
        known = value.known
        assert known is not None
        if not known.dtype.hasobject:
            made: Expr = Constant(Array(known))
        else:
            made = self._symbolic(known, value.element)
            if self._depth:
                return made  # it is bound in a branch, but the value may be used outside
        value.expr = made
        return made

    def _symbolic(self, known: Any, element: str) -> Var:
        """Make a tensor of extents."""
        items = [v if isinstance(v, PrimExpr) else const(int(v), "int64") for v in known.flat]
        if known.ndim == 1 and all(self._is_extent(v) for v in items):
            made = self.emit(shape_to_tensor(ShapeExpr(tuple(items))))
            return made if element == "int64" else self.emit(astype(made, STORED_AS[element]))

        def extents(*given: PrimExpr) -> Tensor:
            def item(*index: PrimExpr) -> PrimExpr:
                found = given[-1]
                for k in reversed(range(len(given) - 1)):
                    found = select(index[0] == const(k, index[0].dtype), given[k], found)
                return found.astype(STORED_AS[element]) if element != "int64" else found

            return compute(known.shape, item, name="extents")

        return self.emit(self.builder.call_te(extents, *items))

    def _is_extent(self, expr: PrimExpr) -> bool:
        return isinstance(expr, ShapeVar) or (isinstance(expr, IntImm) and expr.value >= 0)

    def extents(self, tensor: RelaxExpr, count: int) -> list[PrimExpr]:
        """Read extents from a tensor of integers with one axis, when the program runs."""
        if count > MOST_AXES:
            raise CannotImport(f"its result has {count} axes, and arrays have at most {MOST_AXES}")
        if str(tensor_dtype(self.builder, tensor)) != "int64":
            tensor = self.emit(astype(tensor, "int64"))
        shape = self.builder.emit(tensor_to_shape(tensor))
        dims = tuple([self._extent("s") for _ in range(count)])
        self.builder.match_cast(shape, ShapeStructInfo(dims), output=not self.dataflow)
        return list(dims)

    def simplify(self, expr: Any) -> Any:
        """Return an extent in its simplest form, if possible as a number."""
        if not isinstance(expr, PrimExpr):
            return expr
        found = self._analyzer.simplify(expr)
        return found.value if isinstance(found, IntImm) else found

    def result(self, values: Sequence[Value]) -> RelaxExpr:
        """Return the function's result: a tensor, or a tuple of several."""
        made = [self._leaf(v) for v in values]
        return made[0] if len(made) == 1 else Tuple(tuple(made))

    def _leaf(self, value: Value) -> RelaxExpr:
        if isinstance(value, SequenceValue):
            return Tuple(tuple([self._leaf(v) for v in value.items]))
        if isinstance(value, AbsentOptional):
            return Tuple(())
        return self.builder.emit_output(self.expression(value))


def tensor_dtype(builder: BlockBuilder, expr: RelaxExpr) -> Any:
    """Return the dtype of an expression that is a tensor."""
    info = builder.struct_info_of(expr)
    assert isinstance(info, TensorStructInfo)
    return info.dtype


def is_known(node: NodeDef, version: int) -> bool:
    """Tell whether an operator has a converter, or is defined by others in the standard."""
    found = find_row(node.domain, node.operator, version)
    return found is not None or is_standard_function(node, version)


def _constants(graph: GraphDef) -> dict[str, Value]:
    return {name: constant_value(given) for name, given in graph.constants.items()}


def constant_value(given: tuple[str, np.ndarray[Any, Any] | Array]) -> TensorValue:
    """Return a constant of a model as a value."""
    element, array = given
    if isinstance(array, Array):
        return TensorValue(Constant(array), element)
    if element not in STORED_AS:
        return TensorValue(None, element, array)
    return TensorValue(Constant(Array(array)), element)


def _check_elements(node: Node) -> None:
    for value in node.inputs:
        if isinstance(value, TensorValue) and STORED_AS.get(value.element) != value.element:
            raise CannotImport(f"elements of type {value.element} are not supported")


def _find(frame: _Frame | None, name: str) -> Value | None:
    while frame is not None:
        if name in frame.scope:
            return frame.scope[name]
        frame = frame.around
    return None


def _find_input(frame: _Frame, name: str) -> Value | None:
    if not name:
        return None
    found = _find(frame, name)
    if found is None and not _is_bound(frame, name):
        raise CannotImport(f"its input {name!r} is not defined before it")
    return found


def _is_bound(frame: _Frame | None, name: str) -> bool:
    while frame is not None:
        if name in frame.scope:
            return True
        frame = frame.around
    return False


def _bind(frame: _Frame, node: NodeDef, values: Sequence[Value]) -> None:
    for name, value in zip(node.outputs, values):
        if name:
            frame.scope[name] = value
    for name in node.outputs[len(values) :]:
        frame.scope.setdefault(name, MissingValue())


def type_of(value: Value | None) -> tuple[str, list[int | None] | None] | None:
    """Return the type of the elements of a tensor, and its extents where they are numbers."""
    if isinstance(value, TensorValue):
        known = value.known
        if known is not None:
            return value.element, list(known.shape)
        info = getattr(value.expr, "struct_info", None)
        dims = info.dims if isinstance(info, TensorStructInfo) else None
        return value.element, None if dims is None else [
            d.value if isinstance(d, IntImm) else None for d in dims
        ]
    return None


def _with_attributes(node: NodeDef, values: Mapping[str, Any]) -> NodeDef:
    """Return a node of a function with references to the function's attributes resolved."""
    if not node.attributes:
        return node
    made: dict[str, Any] = {}
    for name, value in node.attributes.items():
        if isinstance(value, Reference):
            if values.get(value.name) is not None:
                made[name] = values[value.name]
        elif isinstance(value, GraphDef):
            inner = tuple([_with_attributes(n, values) for n in value.nodes])
            made[name] = replace(value, nodes=inner)
        else:
            made[name] = value
    return replace(node, attributes=made)


_NAME: Final = re.compile(r"\W")


def identifier(name: str) -> str:
    """Turn a name into a valid name of a variable."""
    made = _NAME.sub("_", name) or "v"
    return f"v{made}" if made[0].isdigit() else made
