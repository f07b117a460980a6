"""Build one Relax function from a graph whose inputs are sorted by kind."""

from __future__ import annotations

import keyword
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from loomir.frontend.dataflow import with_dataflow_blocks
from loomir.frontend.loops import lift_loops
from loomir.frontend.torch.converters import load_converters
from loomir.frontend.torch.converters.control_flow import has_control_flow
from loomir.frontend.torch.dtypes import array_of, dtype_of, part_dtype_of
from loomir.frontend.torch.graph import GraphImporter, MissingValue
from loomir.frontend.torch.mistakes import CannotImport
from loomir.frontend.torch.node import is_complex_value
from loomir.frontend.torch.package import torch_package
from loomir.frontend.torch.problems import Problems
from loomir.frontend.torch.sizes import Sizes, solve_linear
from loomir.ir.module import IRModule
from loomir.op import null_value
from loomir.relax.expr import Constant, PrimValue, StringImm, Tuple, Var
from loomir.relax.node import RelaxExpr
from loomir.relax.normal.block_builder import BlockBuilder
from loomir.relax.shape import INT64, ShapeExpr, as_dims
from loomir.relax.struct_info import ShapeStructInfo, TensorStructInfo
from loomir.support.diagnostics import CompileError
from loomir.support.dtype import DataType
from loomir.support.runtime_types import show_value
from loomir.tir.expr import PrimExpr, const
from loomir.tir.expr import Var as ShapeVar

__all__ = ["Translation", "translate"]


@dataclass(slots=True)
class Translation:
    """A module with one function, and how it corresponds to the graph."""

    module: IRModule
    inputs: list[Any]
    """The placeholders that are the function's parameters, in order."""
    outputs: list[int]
    """The indices, among the graph's outputs, of the function's results, in order."""
    returned: list[Any] = field(default_factory=list[Any])
    """The graph's outputs: nodes, numbers and None."""
    problems: Problems = field(default_factory=Problems)


def translate(
    module: Any,
    *,
    constants: Mapping[Any, Any],
    name: str = "main",
    names: Mapping[Any, str] | None = None,
    outputs: Sequence[int] | None = None,
    attrs: Mapping[str, Any] | None = None,
    order: Sequence[Any] | None = None,
    takes_complex: bool = False,
) -> Translation:
    """Translate a ``GraphModule`` into a function.

    ``constants`` binds placeholders to tensors, whose memory is shared; the others are parameters,
    in ``order`` if given. ``outputs`` are the indices, among the graph's outputs, of the function's
    results, in order; by default all. ``takes_complex``: a complex input or output of the graph is
    a real one of the function, as by ``torch.view_as_real``; otherwise it is refused.

    Errors: PTC0010 to PTC0013, all at once.
    """
    load_converters()
    made = _Function(module, constants, dict(names or {}), takes_complex)
    return made.translate(name, outputs, dict(attrs or {}), order)


class _Function:
    def __init__(
        self,
        module: Any,
        constants: Mapping[Any, Any],
        names: dict[Any, str],
        takes_complex: bool,
    ) -> None:
        self.takes_complex = takes_complex
        self.module = module
        self.constants = constants
        self.names = names
        self.problems = Problems()
        self.sizes = Sizes()
        self.values: dict[Any, Any] = {}
        self.params: list[Var] = []
        self.inputs: list[Any] = []
        self._taken: set[str] = set()
        self._solved: dict[Any, PrimExpr] = {}
        """Symbols that computed extents tell, each with its value."""
        self._casts: list[tuple[Any, Var, TensorStructInfo]] = []
        """Inputs with computed extents: the parameter, and what is known of it in the graph."""

    def translate(
        self,
        name: str,
        outputs: Sequence[int] | None,
        attrs: dict[str, Any],
        order: Sequence[Any] | None,
    ) -> Translation:
        dataflow = not has_control_flow(self.module)
        builder = BlockBuilder()
        importer = GraphImporter(builder, self.problems, self.sizes)
        nodes = [n for n in self.module.graph.nodes if n.op == "placeholder"]
        for node in order if order is not None else nodes:
            self._placeholder(node, importer)
        for node in nodes:
            self._scalar(node, importer)
        self._solve_extents(nodes, importer.bound)
        for node in nodes:
            if node in self.constants:
                self._constant(node)
        output = next(n for n in self.module.graph.nodes if n.op == "output")
        given = output.args[0]
        returned: list[Any] = [*given] if isinstance(given, (list, tuple)) else [given]
        kept = list(range(len(returned))) if outputs is None else list(outputs)
        with builder.function(name, self.params, attrs=attrs):
            if dataflow:
                builder.begin_dataflow_block()
            self._bind_solved(builder, importer)
            results = importer.run(self.module, self.values)
            self._stop()
            found: list[Any] = [*results] if isinstance(results, list) else [results]
            result = self._result(builder, [(returned[i], found[i]) for i in kept])
            self._stop()
            if dataflow:
                builder.end_block()
            builder.emit_func_output(result)
        made = builder.get()
        if not dataflow:
            made = with_dataflow_blocks(lift_loops(made))
        return Translation(made, self.inputs, kept, returned, self.problems)

    def _stop(self) -> None:
        """Raise an error with all problems, if there are any."""
        if self.problems:
            raise CompileError.of(self.problems.diagnostics())

    def _result(self, builder: BlockBuilder, outputs: Sequence[tuple[Any, Any]]) -> RelaxExpr:
        made: list[RelaxExpr] = []
        for node, value in outputs:
            try:
                if is_complex_value(node) and not self.takes_complex:
                    raise CannotImport(
                        "it is complex, and no array of Loomir is",
                        help="return its real and imaginary parts: torch.view_as_real(x)",
                        code="PTC0013",
                    )
                made.append(builder.emit_output(_expression(value)))
            except CannotImport as error:
                self.problems.add(node, "the output", error)
        return made[0] if len(made) == 1 else Tuple(tuple(made))

    # -- inputs ------------------------------------------------------------------------------
    def _constant(self, node: Any) -> None:
        try:
            self.values[node] = Constant(array_of(self.constants[node]))
        except CannotImport as error:
            self.problems.add(node, f"the parameter {node.name}", error)
            self.values[node] = MissingValue()

    def _placeholder(self, node: Any, importer: GraphImporter) -> None:
        if node in self.constants:
            return
        torch = torch_package()
        value = node.meta.get("val")
        if isinstance(value, torch.Tensor):
            try:
                info = self._info(value)
            except CannotImport as error:
                self.problems.add(node, f"the input {node.name}", error)
                self.values[node] = MissingValue()
                return
            for extent in value.shape:
                if isinstance(extent, torch.SymInt) and extent.node.expr.is_Symbol:
                    importer.bound.add(str(extent.node.expr))
            self._param(node, Var(self._name(node), info))
        elif not isinstance(value, torch.SymInt):
            self.values[node] = value  # a number or None, which the graph was traced for

    def _scalar(self, node: Any, importer: GraphImporter) -> None:
        """Import a size that is an input; it is a parameter unless it is an extent of a tensor."""
        value = node.meta.get("val")
        if not isinstance(value, torch_package().SymInt):
            return
        size = self.sizes.convert_size(value)
        self.values[node] = size
        if value.node.expr.is_Symbol and str(value.node.expr) not in importer.bound:
            importer.bound.add(str(value.node.expr))
            self._param(node, Var(self._name(node), ShapeStructInfo((size,))))
            self.values[node] = size

    def _solve_extents(self, nodes: Sequence[Any], bound: set[str]) -> None:
        """Find sizes from computed extents: n is half of the rows where an input has 2 * n rows."""
        inputs = [n for n in nodes if isinstance(self.values.get(n), Var)]
        extents = [(n, i, e) for n in inputs for i, e in _find_computed_extents(n)]
        axes: dict[tuple[Any, int], ShapeVar] = {}
        for node, axis, expr in extents:
            if all(str(s) in bound for s in expr.free_symbols):
                continue
            solved = solve_linear(expr, bound)
            if solved is None:
                names = ", ".join(sorted(map(str, expr.free_symbols)))
                reason = f"axis {axis} has {expr} elements, and no axis of an input tells {names}"
                remedy = 'export it with a dimension that is not computed: torch.export.Dim("n")'
                error = CannotImport(reason, help=remedy)
                self.problems.add(node, f"the input {node.name}", error)
                continue
            symbol, factor, rest = solved
            bound.add(str(symbol))
            whole = axes[node, axis] = self._extent_var(node, axis)
            self._solved[symbol] = (whole - self.sizes.convert(rest)) // factor
        for node, axis, expr in extents:
            if not expr.free_symbols.isdisjoint(self._solved):
                axes.setdefault((node, axis), self._extent_var(node, axis))
        for node in dict.fromkeys(node for node, _ in axes):
            var, info = self.values[node], self._info(node.meta["val"])
            dims = [axes.get((node, axis), d) for axis, d in enumerate(info.dims or ())]
            param = Var(var.name_hint, TensorStructInfo(ShapeExpr(tuple(dims)), info.dtype))
            self.params[self.params.index(var)] = param
            self._casts.append((node, param, info))

    def _extent_var(self, node: Any, axis: int) -> ShapeVar:
        return ShapeVar(f"{self.values[node].name_hint}_{axis}", INT64)

    def _bind_solved(self, builder: BlockBuilder, importer: GraphImporter) -> None:
        """Bind the sizes that computed extents tell, and check these extents."""
        for symbol, value in self._solved.items():
            shape = builder.emit(ShapeExpr((value,)))
            builder.match_cast(shape, ShapeStructInfo((self.sizes.variable(symbol),)))
        for node, param, info in self._casts:
            self.values[node] = builder.match_cast(param, info, param.name_hint)

    def _info(self, value: Any) -> TensorStructInfo:
        torch = torch_package()
        if value.layout is not torch.strided:
            raise CannotImport(
                "it is sparse", code="PTC0013", help="make it dense: tensor.to_dense()"
            )
        if value.device.type != "cpu":
            raise CannotImport(
                f"it is on device {value.device}, and Loomir compiles for the CPU",
                code="PTC0013",
                help="move the model and its inputs first: model.cpu()",
            )
        dims = [self.sizes.convert_size(d) for d in value.shape]
        dtype = (part_dtype_of if self.takes_complex else dtype_of)(value.dtype)
        if is_complex_value(value):
            dims.append(2)
        return TensorStructInfo(ShapeExpr(as_dims(dims)), DataType(dtype))

    def _param(self, node: Any, var: Var) -> None:
        self.values[node] = var
        self.params.append(var)
        self.inputs.append(node)

    def _name(self, node: Any) -> str:
        found: str = re.sub(r"\W", "_", str(self.names.get(node, node.name))) or "x"
        if found[0].isdigit() or keyword.iskeyword(found):
            found = f"_{found}"
        name, number = found, 1
        while name in self._taken:
            name, number = f"{found}_{number}", number + 1
        self._taken.add(name)
        return name


def _find_computed_extents(node: Any) -> list[tuple[int, Any]]:
    """Return axes of an input whose extents are expressions of symbols, with these."""
    extents: Sequence[Any] = node.meta["val"].shape
    found = [(i, e.node.expr) for i, e in enumerate(extents) if hasattr(e, "node")]
    return [(i, expr) for i, expr in found if not expr.is_Symbol and expr.free_symbols]


def _expression(value: Any) -> RelaxExpr:
    """Return an output as an expression: a tensor, a size, or a Python constant."""
    if isinstance(value, RelaxExpr):
        return value
    if isinstance(value, (bool, int, PrimExpr)):
        return PrimValue(value)
    if isinstance(value, float):
        return PrimValue(const(value, DataType("float64")))
    if isinstance(value, str):
        return StringImm(value)
    if value is None:
        return null_value()
    what = "what is not made" if isinstance(value, MissingValue) else show_value(value)
    raise CannotImport(f"the graph returns {what}", help="return tensors and Python numbers")
