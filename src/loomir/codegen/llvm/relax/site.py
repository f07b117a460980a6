"""The operator call that is being emitted, and accessors for its arguments and attributes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from loomir.codegen.llvm.assembler.values import Value
from loomir.codegen.llvm.relax.checks import CheckedValue, require_kind
from loomir.codegen.llvm.relax.frame import GraphFrame, Slot
from loomir.codegen.llvm.relax.leaves import facts, leaf
from loomir.ir.visit import Step
from loomir.relax.expr import Call, DataTypeImm, PrimValue, StringImm
from loomir.relax.node import RelaxExpr, StructInfo
from loomir.relax.struct_info import PrimStructInfo, ShapeStructInfo, TensorStructInfo
from loomir.runtime.graph import object_layout as at
from loomir.support.span import Span
from loomir.tir.expr import FloatImm, IntImm

__all__ = ["Site"]

_FACTS: dict[int, type[StructInfo]] = {
    at.TENSOR: TensorStructInfo,
    at.SHAPE: ShapeStructInfo,
    at.PRIM: PrimStructInfo,
}


class Site(NamedTuple):
    """A call of an operator in a function."""

    frame: GraphFrame
    call: Call

    @property
    def span(self) -> Span | None:
        """The source location of the call."""
        return self.call.span

    @property
    def shown(self) -> str:
        """The operator as users write it."""
        return "R." + str(getattr(self.call.op, "name", "")).removeprefix("relax.")

    def has(self, index: int) -> bool:
        """Tell whether the call has an optional argument."""
        return index < len(self.call.args)

    def arg(self, index: int) -> RelaxExpr:
        """Return an argument as an expression."""
        return self.call.args[index]

    def value(self, index: int) -> Step[Value]:
        """Return the value of an argument."""
        return leaf(self.frame, self.call.args[index])

    def require_argument(self, index: int, kind: int) -> Step[Value]:
        """Return the value of an argument, which must have the given kind."""
        value: Value = yield leaf(self.frame, self.call.args[index])
        known = _FACTS.get(kind)
        if known is None or not isinstance(facts(self.call.args[index]), known):
            where = CheckedValue(f"{self.shown}: argument {index + 1}", self.span)
            require_kind(self.frame, value, [kind], where)
        return value

    def option(self, index: int, name: str) -> Any:
        """Return an option from an argument or an attribute; None if it is absent."""
        if name in self.call.attrs:
            return self.call.attrs[name]
        if index >= len(self.call.args):
            return None
        arg = self.call.args[index]
        if isinstance(arg, (DataTypeImm, StringImm)):
            return arg.value
        if isinstance(arg, PrimValue) and isinstance(arg.value, (IntImm, FloatImm)):
            return arg.value.value
        return None

    def take_reference(self, value: Value) -> Slot:
        """Return an owned reference to a value in a new slot."""
        return self.frame.take_reference(value)

    def unit(self) -> Slot:
        """Return the empty tuple."""
        return self.take_reference(self.frame.graph.unit_value())

    def tuple_of(self, values: Sequence[Value]) -> Slot:
        """Return a tuple of values."""
        return self.take_reference(self.frame.tuple_of(values, self.span))
