"""Make a kernel from a function on tensor expressions, and a call of it.

A function of ``te.Tensor`` becomes a private PrimFunc, and a call of it by ``call_tir``. Shape
variables become variables of the kernel: it reads those that are an extent of an array by
themselves from that array, and gets the others as ``packed_ints``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, cast

from loomir.ir.node import Node
from loomir.ir.substitution import substitute
from loomir.ir.visit import pre_order
from loomir.relax.expr import DataTypeImm, PrimValue, StringImm, Tuple, TupleGetItem
from loomir.relax.info.describe import format_info
from loomir.relax.node import Expr, RelaxExpr, StructInfo
from loomir.relax.shape import ShapeExpr, as_dims
from loomir.relax.struct_info import (
    PrimStructInfo,
    ShapeStructInfo,
    TensorStructInfo,
    TupleStructInfo,
)
from loomir.support.span import Span
from loomir.te.create_prim_func import create_prim_func
from loomir.te.operation import compute, placeholder
from loomir.te.tensor import Tensor
from loomir.tir.analysis.copy_statement import fresh_var
from loomir.tir.buffer import Buffer
from loomir.tir.expr import IntImm, PrimExpr
from loomir.tir.expr import Var as ShapeVar
from loomir.tir.function import PrimFunc
from loomir.tir.rules import refuse

__all__ = ["KernelCall", "make_kernel"]

Leaf = Callable[[RelaxExpr], RelaxExpr]
Describe = Callable[[RelaxExpr], StructInfo]


class KernelCall(NamedTuple):
    """A function of TIR and how it is called."""

    func: PrimFunc
    args: tuple[RelaxExpr, ...]
    ints: tuple[PrimExpr, ...]
    """The shape variables that are passed besides the tensors."""
    results: tuple[TensorStructInfo, ...]


def make_kernel(
    te_func: Callable[..., Any],
    args: Sequence[Any],
    keywords: Mapping[str, Any],
    *,
    leaf: Leaf,
    describe: Describe,
    attrs: Mapping[str, Any],
) -> KernelCall:
    """Make the kernel of ``te_func`` on arguments.

    ``leaf`` emits an expression that is no leaf, ``describe`` returns what is known of a leaf.
    Errors: RLX0309 for an argument of unknown extents, or a result that is not a tensor.
    """
    return _Maker(leaf, describe).make(te_func, args, keywords, attrs)


class _Maker:
    def __init__(self, leaf: Leaf, describe: Describe) -> None:
        self.leaf = leaf
        self.describe = describe
        self.inputs: dict[RelaxExpr, Tensor] = {}
        self.inner: dict[ShapeVar, ShapeVar] = {}
        """The kernel's variable for each shape variable."""
        self.infos: list[TensorStructInfo] = []

    def make(
        self,
        te_func: Callable[..., Any],
        args: Sequence[Any],
        keywords: Mapping[str, Any],
        attrs: Mapping[str, Any],
    ) -> KernelCall:
        given = [self._argument(a) for a in args]
        named = {name: self._argument(a) for name, a in keywords.items()}
        outputs = _tensors(te_func(*given, **named), te_func)
        seen: set[Tensor] = set(self.inputs.values())
        fresh: list[Tensor] = []
        for out in outputs:
            fresh.append(_copy(out) if out in seen else out)
            seen.add(fresh[-1])
        tensors = (*self.inputs.values(), *fresh)
        func = create_prim_func(tensors)
        ints = self._to_pass(func, tensors)
        if ints:
            func = create_prim_func((*self.inputs.values(), *ints.values(), *fresh))
        private = {k: v for k, v in func.attrs.items() if k != "global_symbol"}
        return KernelCall(
            PrimFunc(
                func.params,
                func.body,
                func.ret_type,
                func.buffer_map,
                {**private, **attrs},
                span=func.span,
            ),
            tuple(self.inputs),
            tuple(ints),
            tuple([self._result(out) for out in fresh]),
        )

    # -- arguments -------------------------------------------------------------------------------
    def _argument(self, value: Any) -> Any:
        if isinstance(value, (list, tuple)):
            items = [self._argument(item) for item in cast("Sequence[Any]", value)]
            return items if isinstance(value, list) else tuple(items)
        if isinstance(value, dict):
            table = cast("dict[Any, Any]", value)
            return {key: self._argument(item) for key, item in table.items()}
        if isinstance(value, PrimExpr):
            return self._inside(value)
        if isinstance(value, Expr):
            return self._expression(value)
        return value

    def _expression(self, expr: RelaxExpr) -> Any:
        leaf = self.leaf(expr)
        if isinstance(leaf, (StringImm, DataTypeImm)):
            return leaf.value
        if isinstance(leaf, PrimValue):
            return self._inside(leaf.value)
        if isinstance(leaf, Tuple):
            return [self._expression(field) for field in leaf.fields]
        info = self.describe(leaf)
        span = expr.span
        if isinstance(info, TensorStructInfo):
            return self._tensor(leaf, info, span)
        if isinstance(info, TupleStructInfo):
            return [self._expression(TupleGetItem(leaf, k)) for k in range(len(info.fields))]
        if isinstance(info, ShapeStructInfo) and info.values is not None:
            return tuple([self._inside(v) for v in info.values])
        if isinstance(info, PrimStructInfo) and info.value is not None:
            return self._inside(info.value)
        return refuse(
            "RLX0309",
            f"a kernel cannot take {format_info(info)}",
            help="give tensors, and shapes and scalars whose values are known",
            span=span,
        )

    def _tensor(self, leaf: RelaxExpr, info: TensorStructInfo, span: Span | None) -> Tensor:
        found = self.inputs.get(leaf)  # arrays must not overlap, so each is passed once
        if found is None:
            if info.dims is None or info.dtype.is_void:
                refuse(
                    "RLX0309",
                    f"a kernel needs the dtype and extents of a tensor, and of this one is known "
                    f"only {format_info(info)}",
                    help="match it first: bb.match_cast(value, R.Tensor((n, m), dtype))",
                    span=span,
                )
            # Numbers have the same dtype as the extents of computed tensors.
            shape = [d.value if isinstance(d, IntImm) else self._inside(d) for d in info.dims]
            name = _letters(len(self.inputs))
            found = self.inputs[leaf] = placeholder(shape, info.dtype, name)
            self.infos.append(info)
        return found

    def _inside(self, value: PrimExpr) -> PrimExpr:
        """Return an expression of shape variables in those of the kernel."""
        for part in pre_order(value):
            if isinstance(part, ShapeVar) and part not in self.inner:
                self.inner[part] = fresh_var(part)
        return substitute(value, self.inner)

    # -- results ---------------------------------------------------------------------------------
    def _to_pass(self, func: PrimFunc, tensors: Iterable[Tensor]) -> dict[ShapeVar, ShapeVar]:
        """List the variables that the kernel uses and cannot read from the extents of an array."""
        readable = {dim for t in tensors for dim in t.shape if isinstance(dim, ShapeVar)}
        wanted = {outer: inner for outer, inner in self.inner.items() if inner not in readable}
        if not wanted:
            return {}
        roots: list[Node] = [func.body, *(e for b in func.buffer_map.values() for e in b.shape)]
        used: set[Node] = set()
        for root in roots:
            for part in pre_order(root):
                used.add(part)
                if isinstance(part, Buffer):
                    used.update(p for e in part.shape for p in pre_order(e))
        return {outer: inner for outer, inner in wanted.items() if inner in used}

    def _result(self, out: Tensor) -> TensorStructInfo:
        back = {inner: outer for outer, inner in self.inner.items()}
        dims = as_dims([substitute(dim, back) for dim in out.shape])
        devices = {info.vdevice for info in self.infos}
        device = devices.pop() if len(devices) == 1 else None
        return TensorStructInfo(ShapeExpr(dims), out.dtype, device)


def _letters(number: int) -> str:
    name = chr(ord("A") + number % 26)
    return name if number < 26 else f"{name}{number // 26}"


def _copy(tensor: Tensor) -> Tensor:
    """Compute a tensor with the elements of another."""
    return compute(tensor.shape, tensor, name="copy")


def _tensors(given: Any, te_func: Callable[..., Any]) -> list[Tensor]:
    if isinstance(given, Tensor):
        return [given]
    items: list[Any] = []
    if isinstance(given, (list, tuple)):
        items = list(cast("Sequence[Any]", given))
    if items and all(isinstance(item, Tensor) for item in items):
        return items
    name = getattr(te_func, "__name__", "the function")
    refuse(
        "RLX0309",
        f"{name} returns something other than tensors",
        help="return a te.Tensor, or a list of them",
    )
