"""The argument of a converter: a node, its arguments as Relax values, and helpers to build more."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, cast

import numpy as np

from loomir.frontend.torch.dtypes import part_dtype_of
from loomir.frontend.torch.mistakes import CannotImport
from loomir.frontend.torch.package import torch_package
from loomir.frontend.torch.sizes import Sizes
from loomir.op import astype, full
from loomir.relax.expr import Constant, PrimValue, Var
from loomir.relax.node import RelaxExpr
from loomir.relax.normal.block_builder import BlockBuilder
from loomir.relax.struct_info import TensorStructInfo
from loomir.support.array import Array
from loomir.support.dtype import DataType, numpy_of
from loomir.tir.expr import IntImm, PrimExpr
from loomir.tir.expr import cast as converted

__all__ = ["Graph", "Node", "constant", "is_complex_value"]


class Graph(Protocol):
    """The interface of the graph importer for nodes."""

    builder: BlockBuilder
    sizes: Sizes

    def emit(self, expr: RelaxExpr) -> Var:
        """Bind an expression to a variable whose extents are known."""
        ...

    def bind_size(self, symbol: Any, tensor: RelaxExpr) -> PrimExpr:
        """Read a size from a tensor without axes, when the program runs."""
        ...

    def run_inner(self, module: Any, inputs: Sequence[Any]) -> list[Any]:
        """Import the nodes of a branch, or of a loop's body, on values for its inputs."""
        ...


class Node:
    """A use of an operator.

    ``node[i]`` and ``node["name"]`` are arguments, in the order of the operator's schema, with its
    defaults: numbers, sizes, lists, None, and tensors as expressions. ``node.tensor(i)`` converts a
    number to a tensor. ``node.emit`` binds new expressions.
    """

    def __init__(
        self,
        definition: Any,
        arguments: Mapping[str, Any],
        graph: Graph,
    ) -> None:
        self.definition = definition
        """The node of ``torch.fx``."""
        self.operator = str(definition.target)
        self.arguments = dict(arguments)
        self.graph = graph
        self._names = list(self.arguments)

    # -- arguments ---------------------------------------------------------------------------
    def __len__(self) -> int:
        return len(self._names)

    def _name(self, place: int | str) -> str:
        if isinstance(place, str):
            return place
        if place >= len(self._names):
            raise CannotImport(f"it has no argument {place}")
        return self._names[place]

    def __getitem__(self, place: int | str) -> Any:
        """Return an argument."""
        return self.arguments.get(self._name(place))

    def is_tensor(self, place: int | str) -> bool:
        """Tell whether an argument is a tensor."""
        return isinstance(self[place], RelaxExpr)

    def is_complex(self, place: int | str) -> bool:
        """Tell whether an argument is a complex number, or a tensor of them with a last axis of 2.

        Of a list, whether any of its tensors is.
        """
        name = self._name(place)
        given = dict(zip(self._names, self.definition.args)) | dict(self.definition.kwargs)
        return any(is_complex_value(v) for v in _as_list(given.get(name)))

    @property
    def makes_complex(self) -> bool:
        """Tell whether the result, or the first of several, is complex."""
        return is_complex_value(self.result)

    def tensor(self, place: int | str, dtype: str | None = None) -> RelaxExpr:
        """Return an argument as a tensor, with the given dtype, if any."""
        found = self[place]
        if found is None:
            raise CannotImport(f"its argument {self._name(place)!r} is missing")
        return self.as_tensor(found, dtype)

    def as_tensor(self, value: Any, dtype: str | None = None) -> RelaxExpr:
        """Return a value as a tensor, with the given dtype, if any; a number has no axes."""
        if isinstance(value, RelaxExpr):
            return value if dtype is None else self.cast(value, dtype)
        kind = dtype or self.dtype
        if isinstance(value, PrimExpr):
            filled = PrimValue(converted(value, DataType(kind)))
            return self.emit(full((), filled, kind))
        return constant(value, kind)

    def cast(self, x: RelaxExpr, dtype: str) -> RelaxExpr:
        """Return a tensor in a dtype."""
        return x if self.dtype_of(x) == dtype else self.emit(astype(x, dtype))

    def info_of(self, expr: RelaxExpr) -> TensorStructInfo:
        """Return what is known of an expression that is a tensor."""
        found = self.graph.builder.struct_info_of(expr)
        if not isinstance(found, TensorStructInfo):
            raise CannotImport("one of its inputs is not a tensor")
        return found

    def dtype_of(self, expr: RelaxExpr) -> str:
        """Return the dtype of a tensor."""
        return str(self.info_of(expr).dtype)

    def dims_of(self, expr: RelaxExpr) -> list[Any]:
        """Return the extents of a tensor: numbers, and expressions where they are not known."""
        dims = self.info_of(expr).dims
        if dims is None:
            raise CannotImport("the rank of its input is unknown")
        return [d.value if isinstance(d, IntImm) else d for d in dims]

    def dims(self, place: int | str) -> list[Any]:
        """Return the extents of an argument."""
        return self.dims_of(self.tensor(place))

    def rank(self, place: int | str) -> int:
        """Return how many axes an argument has."""
        return len(self.dims(place))

    def axis(self, place: int | str, rank: int) -> int:
        """Return an argument that is an axis, counted from 0."""
        return self.count_axis(self[place], rank)

    def count_axis(self, axis: Any, rank: int) -> int:
        """Return an axis counted from 0."""
        if not -rank <= axis < max(rank, 1):
            raise CannotImport(f"axis {axis} is out of range for {rank} axes")
        return int(axis + rank if axis < 0 else axis)

    def axes(self, place: int | str, rank: int) -> list[int] | None:
        """Return axes counted from 0; None if none is named."""
        given = self[place]
        if given is None:
            return None
        return [self.count_axis(a, rank) for a in _as_list(given)]

    def ints(self, place: int | str, count: int) -> list[int]:
        """Return an argument that has one number for each of ``count`` axes."""
        listed = _as_list(self[place])
        if len(listed) == 1:
            listed = listed * count
        if len(listed) != count or not all(isinstance(v, int) for v in listed):
            raise CannotImport(f"{self._name(place)} must be {count} constant integers")
        return listed

    # -- the result --------------------------------------------------------------------------
    @property
    def result(self) -> Any:
        """The meta tensor that torch records as the result; the first of several."""
        return _as_list(self.definition.meta.get("val"))[0]

    @property
    def dtype(self) -> str:
        """The dtype of the result; that of the parts of complex numbers."""
        return part_dtype_of(self.result.dtype)

    @property
    def shape(self) -> list[Any]:
        """The extents of the result, without the axis of the parts of complex numbers."""
        return [self.graph.sizes.convert_size(d) for d in self.result.shape]

    def wants(self, index: int) -> bool:
        """Tell whether one of several outputs is used."""
        return any(
            user.target.__name__ != "getitem" or user.args[1] == index
            for user in self.definition.users
            if hasattr(user.target, "__name__")
        )

    def promote(self, *places: int | str) -> str:
        """Return the dtype in which PyTorch combines arguments."""
        torch = torch_package()
        given: list[Any] = []
        arguments = dict(zip(self._names, self.definition.args)) | dict(self.definition.kwargs)
        for place in places:
            value = arguments.get(self._name(place))
            meta = getattr(value, "meta", None)
            given.append(value if meta is None else meta.get("val"))
        if len(given) == 1:
            return part_dtype_of(given[0].dtype)
        plain = [
            (1.0 if isinstance(v, (float, torch.SymFloat)) else 1)
            if not isinstance(v, (bool, complex, torch.Tensor))
            else v
            for v in given
        ]
        return part_dtype_of(torch.result_type(*plain))

    # -- what is made ------------------------------------------------------------------------
    def emit(self, expr: RelaxExpr) -> Var:
        """Bind an expression to a variable."""
        return self.graph.emit(expr)

    def compute(self, te_func: Callable[..., Any], *args: Any) -> Var:
        """Bind the result of a kernel that is made by a function of tensor expressions."""
        return self.graph.emit(self.graph.builder.call_te(te_func, *args))

    def constant(self, value: Any, dtype: str | None = None) -> Constant:
        """Make a constant tensor, of the dtype of the result unless another is named."""
        return constant(value, dtype or self.dtype)

    def simplify(self, expr: Any) -> Any:
        """Return an extent in its simplest form: a number where it is one."""
        return self.graph.sizes.simplify(expr)

    def is_equal(self, a: Any, b: Any) -> bool:
        """Tell whether two extents certainly are the same."""
        return self.graph.sizes.is_equal(a, b)

    def refuse(self, reason: str, help: str = "") -> CannotImport:
        """Create the error of a node that cannot be imported, with the reason."""
        return CannotImport(reason, help=help)


def _as_list(value: Any) -> list[Any]:
    return [*value] if isinstance(value, (list, tuple)) else [value]


def is_complex_value(value: Any) -> bool:
    """Tell whether a node of ``torch.fx``, its value or a number is complex."""
    if isinstance(value, complex):
        return True
    meta: Any = getattr(value, "meta", None)  # a class has a method of this name
    found: Any = cast("Any", meta).get("val") if isinstance(meta, dict) else value
    return isinstance(found, torch_package().Tensor) and bool(found.is_complex())


def constant(value: Any, dtype: str) -> Constant:
    """Make a constant tensor of a dtype."""
    with np.errstate(all="ignore"):
        made: Any = np.asarray(value)
        return Constant(Array(made.astype(numpy_of(DataType(dtype)))))
