"""Free variables of expressions: what a closure captures.

Scopes are those of the language: a parameter is visible in its function, a variable of a block in
what follows it, and the variable of a function in the function itself. A shape variable is bound
where it first occurs as an extent by itself, in the annotation of a parameter or in a
``MatchCast``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from loomir.ir.node import Node
from loomir.ir.visit import children, pre_order
from loomir.relax.expr import Function, MatchCast, SeqExpr, Var, VarBinding
from loomir.relax.node import RelaxExpr, StructInfo
from loomir.relax.shape import ShapeExpr
from loomir.relax.struct_info import (
    FuncStructInfo,
    PrimStructInfo,
    ShapeStructInfo,
    TensorStructInfo,
    TupleStructInfo,
)
from loomir.tir.expr import PrimExpr
from loomir.tir.expr import Var as ShapeVar

__all__ = [
    "free_relax_vars",
    "free_shape_vars",
    "shape_vars_bound_by",
    "shape_vars_in",
]


def shape_vars_bound_by(info: StructInfo) -> Iterator[ShapeVar]:
    """List the shape variables that are by themselves an extent, a member of a shape or a scalar.

    Those that a function's own signature binds are not among them.
    """
    stack: list[Node] = [info]
    while stack:
        part = stack.pop()
        if isinstance(part, TensorStructInfo):
            if isinstance(part.shape, ShapeExpr):
                yield from (d for d in part.shape.values if isinstance(d, ShapeVar))
        elif isinstance(part, ShapeStructInfo):
            yield from (d for d in part.values or () if isinstance(d, ShapeVar))
        elif isinstance(part, PrimStructInfo):
            if isinstance(part.value, ShapeVar):
                yield part.value
        elif isinstance(part, TupleStructInfo):
            stack.extend(reversed(part.fields))


def shape_vars_in(info: StructInfo) -> Iterator[ShapeVar]:
    """List the shape variables that structural information mentions and does not bind itself."""
    stack: list[tuple[Node, frozenset[ShapeVar]]] = [(info, frozenset())]
    while stack:
        part, own = stack.pop()
        if isinstance(part, FuncStructInfo):
            params = part.params or ()
            own = own.union(*(shape_vars_bound_by(p) for p in params))
            stack.append((part.ret, own))
            stack.extend((p, own) for p in reversed(params))
        elif isinstance(part, TupleStructInfo):
            stack.extend((f, own) for f in reversed(part.fields))
        else:
            yield from (p for p in pre_order(part) if isinstance(p, ShapeVar) and p not in own)


def free_relax_vars(expr: RelaxExpr) -> list[Var]:
    """List the variables that an expression uses and does not bind, in order of use."""
    return list(_Walk(()).run(expr).relax)


def free_shape_vars(expr: RelaxExpr, outer: Iterable[ShapeVar] = ()) -> list[ShapeVar]:
    """List the shape variables that an expression uses and does not bind, in order of use.

    ``outer`` are those in scope around it: what is among them is used, not
    bound, where it is an extent by itself too.
    """
    return list(_Walk(outer).run(expr).shape)


class _Leave:
    """Ends a scope: what it bound is no longer known."""

    __slots__ = ("names",)

    def __init__(self) -> None:
        self.names: list[Node] = []


class _Bind:
    """Binds a variable, after what its value uses."""

    __slots__ = ("binding",)

    def __init__(self, binding: VarBinding | MatchCast) -> None:
        self.binding = binding


class _Walk:
    def __init__(self, outer: Iterable[ShapeVar]) -> None:
        self.outer = frozenset(outer)
        self.bound: set[Node] = set()
        self.relax: dict[Var, None] = {}
        self.shape: dict[ShapeVar, None] = {}
        self.scopes: list[_Leave] = [_Leave()]

    def run(self, root: RelaxExpr) -> _Walk:
        stack: list[Node | _Leave | _Bind] = [root]
        while stack:
            item = stack.pop()
            if isinstance(item, _Leave):
                self.scopes.pop()
                self.bound.difference_update(item.names)
            elif isinstance(item, _Bind):
                self._bind(item.binding)
            elif isinstance(item, Var):
                self._use(item)
            elif isinstance(item, StructInfo):
                self._use_info(item)
            elif isinstance(item, PrimExpr):
                self._use_shape(p for p in pre_order(item) if isinstance(p, ShapeVar))
            elif isinstance(item, Function):
                stack += reversed(self._enter(item))
            elif isinstance(item, (VarBinding, MatchCast)):
                stack.append(_Bind(item))
                stack.append(item.value)
                if isinstance(item, VarBinding) and isinstance(item.value, Function):
                    self._define(item.var)  # it may call itself
            elif isinstance(item, SeqExpr):
                stack.append(self._scope())
                stack.append(item.body)
                stack.extend(reversed(item.blocks))
            else:
                stack.extend(reversed(children(item)))
        return self

    def _scope(self) -> _Leave:
        made = _Leave()
        self.scopes.append(made)
        return made

    def _enter(self, func: Function) -> list[Node | _Leave | _Bind]:
        leave = self._scope()
        infos = [p.struct_info_annotation for p in func.params]
        known = [info for info in infos if info is not None]
        for info in known:
            self._define_shapes(info)
        for param in func.params:
            self._define(param)
        ret = () if func.ret_struct_info is None else (func.ret_struct_info,)
        return [*known, func.body, *ret, leave]

    def _bind(self, binding: VarBinding | MatchCast) -> None:
        if isinstance(binding, MatchCast):
            self._define_shapes(binding.struct_info)
            self._use_info(binding.struct_info)
        var = binding.var
        if var is not None:
            if var.struct_info_annotation is not None:
                self._use_info(var.struct_info_annotation)
            self._define(var)

    def _define(self, name: Node) -> None:
        if name not in self.bound:
            self.bound.add(name)
            self.scopes[-1].names.append(name)

    def _define_shapes(self, info: StructInfo) -> None:
        for name in shape_vars_bound_by(info):
            if name not in self.outer and name not in self.shape:
                self._define(name)

    def _use(self, var: Var) -> None:
        if var not in self.bound:
            self.relax.setdefault(var)

    def _use_shape(self, names: Iterable[ShapeVar]) -> None:
        for name in names:
            if name not in self.bound:
                self.shape.setdefault(name)

    def _use_info(self, info: StructInfo) -> None:
        self._use_shape(shape_vars_in(info))
        for part in pre_order(info):
            if isinstance(part, Var):
                self._use(part)
