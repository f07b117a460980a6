"""Adapters through which graphs call kernels, each defined on first use."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from loomir.codegen.llvm.assembler.builder import Builder
from loomir.codegen.llvm.assembler.text import Callee, Function, Param
from loomir.codegen.llvm.assembler.types import I8, I32, I64, PTR
from loomir.codegen.llvm.assembler.values import Value
from loomir.codegen.llvm.math.floats import register_type
from loomir.codegen.llvm.relax.unit import GraphUnit
from loomir.codegen.llvm.support.ir.objects import place
from loomir.codegen.llvm.tir.constants import constant_of
from loomir.codegen.llvm.tir.entry.arguments import define_checked
from loomir.codegen.llvm.tir.frame import LinkedFunction
from loomir.relax.struct_info import TensorStructInfo
from loomir.runtime import layout as dl
from loomir.support.dtype import DataType
from loomir.tir.expr import IntImm, PrimExpr

__all__ = ["TensorLayout", "adapt_kernel", "are_proved", "layout_of", "numbers_of"]


class TensorLayout(NamedTuple):
    """The layout of a tensor that is known at compile time.

    ``home`` is the storage, allocated by this function, that it lies in from byte ``begin`` on;
    None for memory of unknown origin.
    """

    dtype: DataType
    extents: tuple[int, ...]
    home: object = None
    begin: int = 0

    @property
    def end(self) -> int:
        """The end of its bytes in ``home``."""
        size = self.dtype.itemsize
        for extent in self.extents:
            size *= extent
        return self.begin + size


def numbers_of(exprs: Sequence[PrimExpr]) -> tuple[int, ...] | None:
    """Return extents as numbers; None if one is not constant, or negative."""
    found = tuple([e.value for e in exprs if isinstance(e, IntImm) and e.value >= 0])
    return found if len(found) == len(exprs) else None


def layout_of(info: object) -> TensorLayout | None:
    """Return the layout of a tensor that was checked against structural information."""
    if not isinstance(info, TensorStructInfo) or info.dims is None or info.dtype.is_void:
        return None
    extents = numbers_of(info.dims)
    return None if extents is None else TensorLayout(info.dtype, extents)


def fresh_layout_of(info: object) -> TensorLayout | None:
    """Return the layout of a new tensor with its own memory."""
    laid = layout_of(info)
    return None if laid is None else laid._replace(home=object())


def are_proved(linked: LinkedFunction, args: Sequence[TensorLayout | None]) -> bool:
    """Tell whether a kernel's checks of tensors, in the order of its arrays, would all pass."""
    signature = linked.signature
    if signature.bindings:
        return False
    for source, value in signature.requirements:
        # Extents are compared below; tensors of graphs have no byte offset.
        if source.what != "shape" and not (
            source.what == "elem_offset" and constant_of(value) == 0
        ):
            return False
    arrays = [p for p in signature.parameters if p.buffer is not None]
    if len(arrays) != len(args):  # a handle without a buffer takes an argument, too
        return False
    pairs = list(zip(arrays, args, strict=True))
    for parameter, laid in pairs:
        buffer = parameter.buffer
        if laid is None or buffer is None or buffer.strides or buffer.dtype is not laid.dtype:
            return False
        if numbers_of(buffer.shape) != laid.extents:
            return False
    return all(
        _are_disjoint(a, b)
        for i, (first, a) in enumerate(pairs)
        for second, b in pairs[i + 1 :]
        if first.written or second.written
    )


def _are_disjoint(a: TensorLayout | None, b: TensorLayout | None) -> bool:
    if a is None or b is None:
        return False
    if a.home is not b.home:
        # Memory allocated by this function overlaps no other.
        return True
    return a.home is not None and (a.end <= b.begin or b.end <= a.begin)


# -- functions ---------------------------------------------------------------------------------
def adapt_kernel(graph: GraphUnit, name: str, *, proved: bool = False) -> Callee:
    """Return the function that passes DLTensors of a graph to a kernel.

    It checks them, unless they are ``proved``.
    """
    found = graph.adapters.get((name, proved))
    if found is None:
        linked, body = graph.unit.functions[name], graph.bodies[name]
        made = _open(graph, linked, "trusted" if proved else "kernel")
        if proved:
            _pass_on(made, linked, body)
        else:
            define_checked(graph.unit, linked.signature, made, body)
        found = graph.adapters[name, proved] = made
    return found


def _open(graph: GraphUnit, linked: LinkedFunction, kind: str) -> Function:
    params: list[Param] = [("context", PTR, "noalias")]
    for p in linked.signature.parameters:
        params.append((p.name, PTR if p.buffer is not None else register_type(p.dtype)))
    params.append(("result", PTR, "noalias"))
    return graph.module.define(f"{linked.symbol}.{kind}", I32, params, linkage="internal")


def _pass_on(made: Function, linked: LinkedFunction, body: Callee) -> None:
    b = Builder(made)
    context, *given, result = made.params
    arrays: list[Value] = []
    scalars: list[Value] = []
    for parameter, value in zip(linked.signature.parameters, given, strict=True):
        if parameter.buffer is None:
            scalars.append(value)
            continue
        offset = b.load(I64, place(b, value, dl.DLTENSOR_BYTE_OFFSET))
        arrays.append(b.gep(I8, b.load(PTR, place(b, value, dl.DLTENSOR_DATA)), offset))
    b.ret(b.call(body, [context, *arrays, *scalars, result]))
