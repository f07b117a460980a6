"""Convert a graph of ``torch.fx``: each node becomes Relax bindings."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from typing import Any, Final

from loomir.frontend.torch.checks import is_check
from loomir.frontend.torch.dtypes import array_of, part_dtype_of
from loomir.frontend.torch.item_arithmetic import (
    compute_item,
    is_item_arithmetic,
    is_read_float,
)
from loomir.frontend.torch.mistakes import CannotImport, MissingBody
from loomir.frontend.torch.node import Node, is_complex_value
from loomir.frontend.torch.package import torch_package
from loomir.frontend.torch.problems import Problems
from loomir.frontend.torch.registry import Row, find_row
from loomir.frontend.torch.sizes import Sizes
from loomir.op import astype, reshape, tensor_to_shape
from loomir.relax.expr import Constant, Var
from loomir.relax.node import RelaxExpr
from loomir.relax.normal.block_builder import BlockBuilder
from loomir.relax.shape import INT64, ShapeExpr, as_dims
from loomir.relax.struct_info import ShapeStructInfo, TensorStructInfo
from loomir.support.diagnostics import CompileError, InternalError
from loomir.support.dtype import DataType
from loomir.tir.expr import PrimExpr
from loomir.tir.expr import Var as ShapeVar

__all__ = ["GraphImporter", "MissingValue"]

_DEEPEST: Final = 48
"""The most levels of nested branches and loops."""
_FAULTS: Final = (
    TypeError, ValueError, KeyError, IndexError, AttributeError, AssertionError, ArithmeticError,
)  # fmt: skip
"""Exceptions that converters raise for unexpected kinds of arguments."""


class MissingValue:
    """A value that could not be imported; its users are skipped."""


class GraphImporter:
    """Emits the nodes of a graph into a builder, in order."""

    def __init__(self, builder: BlockBuilder, problems: Problems, sizes: Sizes) -> None:
        self.builder = builder
        self.problems = problems
        self.sizes = sizes
        self.bound: set[str] = set()
        """Names of shape variables that a parameter or a cast has bound."""
        self._depth = 0

    # -- the walk ----------------------------------------------------------------------------
    def run(self, module: Any, values: Mapping[Any, Any]) -> Any:
        """Import the nodes of a ``GraphModule``, with values for its placeholders.

        Returns the outputs of the graph, with Relax values in place of nodes.
        """
        scope: dict[Any, Any] = dict(values)
        for node in module.graph.nodes:
            if node.op == "output":
                return self._translate(node.args[0], scope)
            if node.op == "placeholder":
                scope.setdefault(node, MissingValue())
            elif node.op == "get_attr":
                scope[node] = self._attribute(module, node)
            elif node.op == "call_function":
                scope[node] = self._call(node, scope)
            else:
                self.problems.note_missing_converter(node, f"{node.op} {node.target}")
                scope[node] = MissingValue()
        raise InternalError("a graph of torch.fx has no output")

    def run_inner(self, module: Any, inputs: Sequence[Any]) -> list[Any]:
        """Import the nodes of a branch, or of a loop's body, on values for its inputs."""
        if self._depth == _DEEPEST:
            raise CannotImport(f"branches and loops are nested more than {_DEEPEST} deep")
        nodes = [n for n in module.graph.nodes if n.op == "placeholder"]
        bound = set(self.bound)  # bindings inside end with it
        self._depth += 1
        try:
            made = self.run(module, dict(zip(nodes, inputs, strict=True)))
        finally:
            self._depth -= 1
            self.bound = bound
        outputs: list[Any] = [*made] if isinstance(made, (list, tuple)) else [made]
        if any(_is_missing(v) for v in outputs):
            raise MissingBody
        return outputs

    def _attribute(self, module: Any, node: Any) -> Any:
        found = operator.attrgetter(str(node.target))(module)
        if not isinstance(found, torch_package().Tensor):
            return found
        node.meta.setdefault("val", found)
        try:
            return Constant(array_of(found))
        except CannotImport as error:
            self.problems.add(node, f"the tensor {node.target}", error)
            return MissingValue()

    def _call(self, node: Any, scope: dict[Any, Any]) -> Any:
        name = str(node.target)
        if not node.users:
            return None
        if is_check(node):
            return [None]  # the token that keeps effects in order
        if node.target is operator.getitem:
            whole = self._translate(node.args[0], scope)
            return whole if isinstance(whole, MissingValue) else whole[node.args[1]]
        try:
            size = self._size(node)
            if size is not None:
                return size
            if is_read_float(node.meta.get("val")) and is_item_arithmetic(node.target):
                return self._item(node, scope)
            row = self._row(node, name)
            if row is None:
                self.problems.note_missing_converter(node, name)
                return self._all_missing(node)
            arguments = self._arguments(node, scope)
            if any(_is_missing(v) for v in arguments.values()):
                return self._all_missing(node)
            return self._bind_outputs(node, row.convert(Node(node, arguments, self)))
        except MissingBody:
            pass
        except CannotImport as error:
            self.problems.add(node, name, error)
        except CompileError as error:
            self.problems.note_refused(node, name, error)
        except _FAULTS as error:
            what = str(error).splitlines()[0] if str(error) else type(error).__name__
            self.problems.add(node, name, CannotImport(f"its converter failed: {what}"))
        return self._all_missing(node)

    def _row(self, node: Any, name: str) -> Row | None:
        """Return the row of a node's converter, which knows complex numbers if it has any."""
        if not _has_complex(node):
            return find_row(name)
        row = find_row(name, complex=True)
        if row is None and find_row(name) is not None:
            raise CannotImport(
                "its converter takes no complex numbers",
                help="compute with their real and imaginary parts: torch.view_as_real(x)",
            )
        return row

    def _all_missing(self, node: Any) -> Any:
        made = node.meta.get("val")
        if not isinstance(made, (list, tuple)):
            return MissingValue()
        outputs: Sequence[Any] = [*made]
        return [MissingValue() for _ in outputs]

    def _size(self, node: Any) -> Any:
        """Return the size that a node is, as a number or expression; None for other nodes."""
        torch = torch_package()
        found = node.meta.get("val")
        if isinstance(found, (int, float)):
            return found
        if not isinstance(found, (torch.SymBool, torch.SymInt, torch.SymFloat)):
            return None
        is_item = str(node.target) == "aten._local_scalar_dense.default"
        if is_item and self._is_new(found):
            return None
        if is_read_float(found) and not is_item:
            if is_item_arithmetic(node.target) and not all(map(is_check, node.users)):
                return None
            if isinstance(found, torch.SymBool):
                return MissingValue()  # only checks use it
            raise CannotImport("it computes with a float that is read from a tensor")
        return (
            self._truth(found)
            if isinstance(found, torch.SymBool)
            else self.sizes.convert_size(found)
        )

    def _truth(self, found: Any) -> Any:
        try:
            return self.sizes.convert_size(found)
        except (CannotImport, *_FAULTS):
            return MissingValue()  # harmless if only checks use it

    def _is_new(self, size: Any) -> bool:
        return any(str(s) not in self.bound for s in size.node.expr.free_symbols)

    def _item(self, node: Any, scope: Mapping[Any, Any]) -> Any:
        operands = self._translate([*node.args], scope)
        if _is_missing(operands):
            return MissingValue()
        return compute_item(node.target, operands, self.emit)

    def _translate(self, value: Any, scope: Mapping[Any, Any]) -> Any:
        if isinstance(value, (list, tuple)):
            items: Sequence[Any] = [*value]
            return [self._translate(v, scope) for v in items]
        if hasattr(value, "op") and hasattr(value, "users"):
            return scope[value]
        return value

    def _arguments(self, node: Any, scope: Mapping[Any, Any]) -> dict[str, Any]:
        """Return arguments by the names of the operator's schema, defaults among them."""
        schema = getattr(node.target, "_schema", None)
        given = [self._translate(a, scope) for a in node.args]
        named = {k: self._translate(v, scope) for k, v in node.kwargs.items()}
        if schema is None:
            return {**{str(i): v for i, v in enumerate(given)}, **named}
        made: dict[str, Any] = {}
        for i, argument in enumerate(schema.arguments):
            if i < len(given):
                made[argument.name] = given[i]
            elif argument.name in named:
                made[argument.name] = named[argument.name]
            else:
                made[argument.name] = argument.default_value
        return made

    # -- results -----------------------------------------------------------------------------
    def _bind_outputs(self, node: Any, made: Any) -> Any:
        """Bind the outputs of a converter, each with torch's shape and dtype."""
        wanted = node.meta.get("val")
        if not isinstance(wanted, (list, tuple)):
            return self._match_shape(made, wanted)
        outputs: list[Any] = [*made]
        expected: list[Any] = [*wanted]
        outputs += [None] * (len(expected) - len(outputs))
        return [
            MissingValue() if m is None else self._match_shape(m, w)
            for m, w in zip(outputs, expected)
        ]

    def _match_shape(self, made: Any, wanted: Any) -> Any:
        if not isinstance(made, RelaxExpr) or not hasattr(wanted, "shape"):
            return made
        expr = made if isinstance(made, (Var, Constant)) else self.emit(made)
        info = self.builder.struct_info_of(expr)
        if not isinstance(info, TensorStructInfo):
            raise CannotImport("its converter returned something other than a tensor")
        dtype = part_dtype_of(wanted.dtype)
        if str(info.dtype) != dtype:
            expr = self.emit(astype(expr, dtype))
        dims = [self.sizes.convert_size(d) for d in wanted.shape]
        if is_complex_value(wanted):
            dims.append(2)
        own = info.dims
        if own is not None and len(own) != len(dims):
            raise CannotImport(f"its converter makes {len(own)} axes in place of {len(dims)}")
        if own is not None and all(self.sizes.is_equal(a, b) for a, b in zip(own, dims)):
            return expr
        self._note_symbols(wanted.shape)
        return self.builder.match_cast(
            expr, TensorStructInfo(ShapeExpr(as_dims(dims)), DataType(dtype))
        )

    def _note_symbols(self, shape: Sequence[Any]) -> None:
        for extent in shape:
            node = getattr(extent, "node", None)
            if node is not None and node.expr.is_Symbol:
                self.bound.add(str(node.expr))

    def emit(self, expr: RelaxExpr) -> Var:
        """Bind an expression to a variable whose extents are known, wherever its rank is."""
        var = self.builder.emit(expr)
        info = var.struct_info
        if isinstance(info, TensorStructInfo) and info.ndim >= 0 and info.dims is None:
            dims = tuple([ShapeVar("d", INT64) for _ in range(info.ndim)])
            return self.builder.match_cast(
                var, TensorStructInfo(ShapeExpr(dims), info.dtype, info.vdevice)
            )
        return var

    def bind_size(self, symbol: Any, tensor: RelaxExpr) -> PrimExpr:
        """Read a size, or a truth that stands for one, from a tensor without axes, at run time."""
        (name,) = symbol.node.expr.free_symbols
        flat = self.emit(astype(self.emit(reshape(tensor, (1,))), "int64"))
        shape = self.builder.emit(tensor_to_shape(flat))
        self.bound.add(str(name))
        self.builder.match_cast(shape, ShapeStructInfo((self.sizes.variable(name),)))
        bound: PrimExpr = self.sizes.convert_size(symbol)
        return bound


def _has_complex(node: Any) -> bool:
    """Tell whether an argument or a result of a node is complex."""
    made: Any = node.meta.get("val")
    results: Sequence[Any] = [*made] if isinstance(made, (list, tuple)) else [made]
    numbers: Sequence[Any] = [*node.args, *node.kwargs.values()]
    return any(map(is_complex_value, (*results, *node.all_input_nodes, *numbers)))


def _is_missing(value: Any) -> bool:
    if isinstance(value, (list, tuple)):
        items: Sequence[Any] = [*value]
        return any(isinstance(v, MissingValue) for v in items)
    return isinstance(value, MissingValue)
