"""Scopes during derivation: visible variables, and their structural information."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from loomir.arith.analyzer import Analyzer
from loomir.ir.visit import by_class
from loomir.relax.expr import Var
from loomir.relax.info.proof import EXTENT_LIMIT, shape_vars_in
from loomir.relax.info.relations import erase_to_well_defined, substitute_shape_vars
from loomir.relax.node import StructInfo
from loomir.relax.struct_info import (
    FuncStructInfo,
    PrimStructInfo,
    ShapeStructInfo,
    TensorStructInfo,
    TupleStructInfo,
)
from loomir.tir.expr import Var as ShapeVar

__all__ = ["Scope"]


class Scope:
    """Variables by their nesting (``Γ``), and the shape variables that are bound (``Σ``).

    The analyzer assumes that shape variables which are an extent are not negative.
    """

    def __init__(self, analyzer: Analyzer) -> None:
        self.analyzer = analyzer
        self.relax_vars: set[Var] = set()
        self.shape_vars: set[ShapeVar] = set()
        self._levels: list[tuple[list[Var], list[ShapeVar]]] = [([], [])]
        self._infos: dict[Var, StructInfo] = {}
        self._captured: dict[Var, frozenset[ShapeVar]] = {}
        self._sizes: set[ShapeVar] = set()

    def enter(self, params: Sequence[Var] = ()) -> None:
        """Start a scope; ``params`` are in it, and so are the shape variables that they bind."""
        self._levels.append(([], []))
        for param in params:
            if param.struct_info_annotation is not None:
                self.bind_shape_vars(param.struct_info_annotation)
        for param in params:
            self.declare(param)

    def leave(self) -> None:
        """End the latest scope."""
        declared, bound = self._levels.pop()
        for var in declared:
            self.relax_vars.discard(var)
            self._captured.pop(var, None)
        self.shape_vars.difference_update(bound)

    def erase(self, info: StructInfo) -> StructInfo:
        """Forget what ``info`` says in terms of variables that are not in scope."""
        return erase_to_well_defined(info, self.relax_vars, self.shape_vars)

    def declare(self, var: Var, info: StructInfo | None = None) -> None:
        """Put a variable in scope; ``info`` is what is known of one without annotation."""
        if var not in self.relax_vars:
            self.relax_vars.add(var)
            self._levels[-1][0].append(var)
        if info is not None:
            self._infos[var] = info
        known = info or var.struct_info_annotation
        if known is not None and _has_function(known):
            self._captured[var] = frozenset(self.shape_vars.intersection(shape_vars_in(known)))

    def forget(self, var: Var) -> None:
        """Take a variable out of scope before its level ends."""
        self.relax_vars.discard(var)

    def bind_shape_vars(self, info: StructInfo) -> list[ShapeVar]:
        """Bring the shape variables of an annotation into scope; returns the new ones."""
        new: list[ShapeVar] = []
        for part in _outside_functions(info):
            for var in shape_vars_in(part):
                if var not in self.shape_vars:
                    self.shape_vars.add(var)
                    self._levels[-1][1].append(var)
                    new.append(var)
            rows = part.dims if isinstance(part, TensorStructInfo) else None
            rows = part.values if isinstance(part, ShapeStructInfo) else rows
            for dim in rows or ():
                if isinstance(dim, ShapeVar) and dim not in self._sizes:
                    self._sizes.add(dim)
                    self.analyzer.assume_size(dim, EXTENT_LIMIT)
        return new

    def info_of(self, var: Var) -> StructInfo | None:
        """Return what is known of a variable, None if nothing is yet.

        The shape variables of a function's parameters are renamed at each use, unless captured.
        """
        known = self._infos.get(var) or var.struct_info_annotation
        if known is not None and var in self._captured:
            return self.instance(known, self._captured[var])
        return known

    def instance(self, info: StructInfo, captured: frozenset[ShapeVar] = frozenset()) -> StructInfo:
        """Rename the parameters' shape variables that are in scope here, where a function is used.

        They are in scope where a function calls itself.
        """
        clash = [v for v in shape_vars_in(info) if v in self.shape_vars and v not in captured]
        if not clash:
            return info
        return substitute_shape_vars(info, {v: ShapeVar(v.name_hint, v.dtype) for v in clash})

    def rename_shape_vars(self, info: StructInfo) -> StructInfo:
        """Rename all shape variables of a function's parameters and result."""
        own = shape_vars_in(info)
        if not own:
            return info
        return substitute_shape_vars(info, {v: ShapeVar(v.name_hint, v.dtype) for v in own})


def _has_function(info: StructInfo) -> bool:
    if isinstance(info, TupleStructInfo):
        return FuncStructInfo in by_class(info)
    return isinstance(info, FuncStructInfo)


def _outside_functions(
    info: StructInfo,
) -> Iterator[TensorStructInfo | ShapeStructInfo | PrimStructInfo]:
    """List the parts that describe values other than functions."""
    pending = [info]
    while pending:
        part = pending.pop()
        if isinstance(part, TupleStructInfo):
            pending.extend(reversed(part.fields))
        elif isinstance(part, (TensorStructInfo, ShapeStructInfo, PrimStructInfo)):
            yield part
