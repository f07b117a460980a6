"""The argument of a converter: a node, its inputs as Relax values, and helpers to build more."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypeAlias, cast

import numpy as np

from loomir.frontend.onnx.mistakes import CannotImport
from loomir.frontend.onnx.model import STORED_AS, GraphDef, NodeDef
from loomir.frontend.onnx.values import (
    AbsentOptional,
    MissingValue,
    SequenceValue,
    TensorValue,
    Value,
)
from loomir.relax.expr import Constant, Var
from loomir.relax.node import RelaxExpr
from loomir.relax.normal.block_builder import BlockBuilder
from loomir.relax.shape import ShapeExpr, as_dims
from loomir.relax.struct_info import TensorStructInfo
from loomir.support.dtype import DataType, numpy_of
from loomir.tir.expr import IntImm, PrimExpr

__all__ = ["Graph", "Node"]

NPArray: TypeAlias = Any
"""A NumPy array of numbers or of expressions, which NumPy's annotations cannot express."""


class Graph(Protocol):
    """The interface of the graph importer for nodes."""

    builder: BlockBuilder
    dataflow: bool
    """Whether everything is in one dataflow block, which has no branches."""

    def emit(self, expr: RelaxExpr, name: str = "") -> Var:
        """Bind an expression to a variable whose extents are known."""
        ...

    def expression(self, value: Value) -> RelaxExpr:
        """Return the expression of a tensor, which is made where there is none yet."""
        ...

    def extents(self, tensor: RelaxExpr, count: int) -> list[PrimExpr]:
        """Read extents from a tensor of integers, when the program runs."""
        ...

    def run(self, body: GraphDef, inputs: Sequence[Value]) -> list[Value]:
        """Import the nodes of a graph within a node, on values for its inputs."""
        ...

    def convert(
        self, operator: str, inputs: Sequence[Any], attributes: Mapping[str, Any], outputs: int
    ) -> list[Value]:
        """Import a use of another operator."""
        ...

    def simplify(self, expr: Any) -> Any:
        """Return an extent in its simplest form: a number where it is one."""
        ...


class Node:
    """A use of an operator.

    ``node[i]`` is input ``i`` as an expression of Relax; ``node.get(name, otherwise)`` is an
    attribute. ``node.emit`` binds new expressions.
    """

    def __init__(
        self,
        definition: NodeDef,
        inputs: Sequence[Value | None],
        version: int,
        graph: Graph,
    ) -> None:
        self.definition = definition
        self.operator = definition.operator
        self.inputs = list(inputs)
        self.version = version
        """The version of the operator's domain that the model uses."""
        self.graph = graph

    # -- inputs ------------------------------------------------------------------------------
    def __len__(self) -> int:
        return len(self.inputs)

    def has(self, index: int) -> bool:
        """Tell whether an input is given."""
        return index < len(self.inputs) and self.inputs[index] is not None

    def value(self, index: int) -> Value:
        """Return an input of any kind."""
        found = self.inputs[index] if index < len(self.inputs) else None
        if found is None:
            raise CannotImport(f"its required input {index} is missing")
        return found

    def tensor(self, index: int) -> TensorValue:
        """Return an input that is a tensor."""
        found = self.value(index)
        if not isinstance(found, TensorValue):
            raise CannotImport(f"its input {index} is {_kind(found)}, and must be a tensor")
        return found

    def sequence(self, index: int) -> SequenceValue:
        """Return an input that is a sequence."""
        found = self.value(index)
        if not isinstance(found, SequenceValue):
            raise CannotImport(f"its input {index} is {_kind(found)}, and must be a sequence")
        return found

    def __getitem__(self, index: int) -> RelaxExpr:
        """Return a tensor among the inputs as an expression."""
        made = self.graph.expression(self.tensor(index))
        self.inputs[index] = self.tensor(index).with_expr(made)
        return made

    def all(self, start: int = 0) -> list[RelaxExpr]:
        """Return all inputs from one on as expressions; those left out are skipped."""
        return [self[i] for i in range(start, len(self.inputs)) if self.has(i)]

    def element(self, index: int) -> str:
        """Return the type of a tensor's elements, as ONNX names it."""
        return self.tensor(index).element

    def info(self, index: int) -> TensorStructInfo:
        """Return what is known of a tensor."""
        return self.info_of(self[index])

    def info_of(self, expr: RelaxExpr) -> TensorStructInfo:
        """Return what is known of an expression that is a tensor."""
        found = self.graph.builder.struct_info_of(expr)
        if not isinstance(found, TensorStructInfo):
            raise CannotImport("one of its inputs is not a tensor")
        return found

    def dtype(self, index: int) -> str:
        """Return the Relax dtype in which a tensor's elements are stored."""
        return str(self.info(index).dtype)

    def rank(self, index: int) -> int:
        """Return the rank of a tensor."""
        known = self.tensor(index).known
        return known.ndim if known is not None else len(self.dims(index))

    def dims(self, index: int) -> list[Any]:
        """Return the extents of a tensor, numbers or expressions."""
        known = self.tensor(index).known
        return list(known.shape) if known is not None else self.dims_of(self[index])

    def dims_of(self, expr: RelaxExpr) -> list[Any]:
        """Return the extents of an expression that is a tensor."""
        info = self.info_of(expr)
        if info.dims is None:
            raise CannotImport(
                "the rank of its input is unknown",
                help="give the shape of the model's inputs: load(model, shapes={'x': (1, 3)})",
            )
        return [d.value if isinstance(d, IntImm) else d for d in info.dims]

    def axis(self, name: str, otherwise: int, rank: int) -> int:
        """Return an attribute that is an axis, counted from 0."""
        return self.count_axis(int(self.get(name, otherwise)), rank)

    def count_axis(self, axis: int, rank: int) -> int:
        """Return an axis counted from 0."""
        if not -rank <= axis < max(rank, 1):
            raise CannotImport(f"axis {axis} is out of range for {rank} axes")
        return axis + rank if axis < 0 else axis

    def constant(self, index: int) -> NPArray | None:
        """Return the elements of an input that are numbers known at import, else None."""
        return self.tensor(index).constant if self.has(index) else None

    def find_known(self, index: int) -> list[Any] | None:
        """Return the elements of an input as numbers and expressions; None if unknown."""
        found = self.tensor(index).known if self.has(index) else None
        return None if found is None else [_number(v) for v in found.reshape(-1)]

    def numbers(self, index: int, what: str) -> NPArray:
        """Return the elements of an input, which must be known at import."""
        found = self.constant(index)
        if found is None:
            raise self.unknown(index, what)
        return found

    def unknown(self, index: int, what: str) -> CannotImport:
        """Create the error of an input whose elements must be known at import."""
        name = self.definition.inputs[index] if index < len(self.definition.inputs) else ""
        return CannotImport(
            f"its {what} must be known at import, and are the elements of {name!r}",
            help=f"bind it to a constant: load(model, constants={{{name!r}: array}})",
            code="ONX0011",
            value=name,
        )

    # -- attributes --------------------------------------------------------------------------
    def get(self, name: str, otherwise: Any = None) -> Any:
        """Return an attribute, or ``otherwise`` where it is not given."""
        found = self.definition.attributes.get(name)
        return otherwise if found is None else found

    # -- outputs -----------------------------------------------------------------------------
    @property
    def wanted(self) -> int:
        """The number of outputs up to the last one with a name."""
        names = self.definition.outputs
        return next((i + 1 for i in reversed(range(len(names))) if names[i]), 0)

    def wants(self, index: int) -> bool:
        """Tell whether an output has a name."""
        names = self.definition.outputs
        return index < len(names) and bool(names[index])

    def emit(self, expr: RelaxExpr) -> Var:
        """Bind an expression to a variable."""
        return self.graph.emit(expr)

    def match_dims(self, expr: RelaxExpr, dims: Sequence[Any]) -> Var:
        """Bind a tensor whose extents are compared with others when the program runs."""
        info = TensorStructInfo(ShapeExpr(as_dims(dims)), self.info_of(expr).dtype)
        return self.graph.builder.match_cast(expr, info, output=not self.graph.dataflow)

    def compute(self, te_func: Callable[..., Any], *args: Any) -> Var:
        """Bind the result of a kernel, which a function of tensor expressions defines."""
        return self.graph.emit(self.graph.builder.call_te(te_func, *args))

    def extents(self, index: int, count: int | None = None) -> list[Any]:
        """Return extents that an input contains; unknown ones are read at run time."""
        known = self.find_known(index)
        if known is not None:
            return known
        dims = self.dims(index)
        length = count if count is not None else dims[0] if dims else 1
        if not isinstance(length, int):
            raise self.unknown(index, "numbers")
        return list(self.graph.extents(self[index], length))

    def simplify(self, expr: Any) -> Any:
        """Return an extent in its simplest form: a number where it is one."""
        return self.graph.simplify(expr)

    def constant_like(self, value: Any, index: int = 0) -> Constant:
        """Make a tensor without axes, of the dtype of an input."""
        return constant(value, self.dtype(index))

    def convert(
        self, operator: str, *inputs: Any, outputs: int = 1, **attributes: Any
    ) -> list[Value]:
        """Import a use of another operator; inputs are values, expressions, or None."""
        return self.graph.convert(operator, inputs, attributes, outputs)

    def one(self, operator: str, *inputs: Any, **attributes: Any) -> RelaxExpr:
        """Import a use of another operator that has one output, a tensor."""
        (made,) = self.graph.convert(operator, inputs, attributes, 1)
        return self.graph.expression(made)

    def refuse(self, reason: str, help: str = "") -> CannotImport:
        """Create the error of a node that cannot be imported, with the reason."""
        return CannotImport(reason, help=help)


def constant(value: Any, dtype: str) -> Constant:
    """Make a constant tensor of a dtype."""
    kind = numpy_of(DataType(STORED_AS.get(dtype, dtype)))
    return Constant(cast("Any", np.asarray(value).astype(kind)))


def _number(value: Any) -> Any:
    if isinstance(value, PrimExpr):
        return value
    return value.item() if hasattr(value, "item") else value


def _kind(value: Value) -> str:
    if isinstance(value, MissingValue):
        return "missing"
    if isinstance(value, AbsentOptional):
        return "an optional without a value"
    return "a sequence" if isinstance(value, SequenceValue) else "a tensor"
