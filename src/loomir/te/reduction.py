"""Reductions: axes to reduce over, commutative combiners, and the sums made of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Final, TypeAlias, cast

from loomir.ir.node import Node, attr, binds, child, meta, node
from loomir.support.caller_span import located, user_span
from loomir.support.diagnostics import with_article, with_count
from loomir.support.dtype import BOOL, DataType
from loomir.support.runtime_types import show_value
from loomir.support.span import Span
from loomir.tir.buffer import Range, extent_between
from loomir.tir.expr import (
    Add,
    And,
    ExprLike,
    IntImm,
    Max,
    Min,
    Mul,
    Or,
    PrimExpr,
    Var,
    const,
    convert,
    match_dtypes,
)
from loomir.tir.rules import refuse

__all__ = [
    "CommReducer",
    "Reduce",
    "ReduceAxis",
    "all",
    "any",
    "as_tuple",
    "comm_reducer",
    "max",
    "min",
    "prod",
    "reduce_axis",
    "sum",
]


@node
class ReduceAxis(Var):
    """A variable that runs over ``dom`` inside of a reduction, in unspecified order."""

    lowered_by: ClassVar[str] = "te.create_prim_func"

    dom: Range = child(default=None, kw_only=True)

    @property
    def var(self) -> Var:
        """The variable itself."""
        return self


Axes: TypeAlias = ReduceAxis | Sequence[ReduceAxis]


def reduce_axis(dom: tuple[ExprLike, ExprLike] | Range, name: str = "k") -> ReduceAxis:
    """Make an axis over ``[start, stop)``. Errors: TE0003 for bounds that are not integers."""
    span = user_span()
    if isinstance(cast("object", dom), int):
        stop = name if isinstance(cast("object", name), int) else dom
        start = dom if isinstance(cast("object", name), int) else 0
        refuse(
            "TE0003",
            "an axis runs over a range",
            help=f'write te.reduce_axis(({start}, {stop}), name="k")',
            span=span,
        )
    if isinstance(dom, Range):
        least, extent = dom.min, dom.extent
    else:
        least, stop = match_dtypes(*dom)
        extent = extent_between(least, stop)
    if extent is None or not extent.dtype.is_integer or extent.dtype.lanes != 1:
        refuse(
            "TE0003",
            f"axis {name!r} does not run over integers",
            help="give (start, stop) as integers, as in te.reduce_axis((0, n))",
            span=span,
        )
    return ReduceAxis(name, extent.dtype, dom=Range(least, extent), span=span)


@node
class CommReducer(Node):
    """A commutative, associative combiner of values: ``result`` in terms of ``lhs`` and ``rhs``.

    ``identity`` combined with anything gives that thing.
    """

    lowered_by: ClassVar[str] = "te.create_prim_func"

    lhs: tuple[Var, ...] = binds()
    rhs: tuple[Var, ...] = binds()
    result: tuple[PrimExpr, ...]
    identity: tuple[PrimExpr, ...]
    span: Span | None = meta(default=None, kw_only=True)


@node
class Reduce(PrimExpr):
    """``source`` combined over ``axis``, where ``condition`` holds; stands at the top of a compute.

    ``init`` are the values to start from, the combiner's identity where there are none. Of several
    sources, this is the result number ``value_index``.
    """

    lowered_by: ClassVar[str] = "te.create_prim_func"

    combiner: CommReducer
    source: tuple[PrimExpr, ...]
    init: tuple[PrimExpr, ...]
    axis: tuple[ReduceAxis, ...] = binds()
    condition: PrimExpr = child()
    value_index: int = attr(default=0)
    span: Span | None = meta(default=None, kw_only=True)

    def __post_init__(self) -> None:
        self.dtype = self.source[self.value_index].dtype


Combine: TypeAlias = Callable[..., Any]
_OF_ONE: Final = (Add, Mul, Max, Min, And, Or)
"""The classes that combine two expressions."""


def comm_reducer(
    fcombine: Combine, fidentity: Callable[..., Any], name: str = "reduce"
) -> Callable[..., Any]:
    """Make a reduction of ``fcombine(lhs, rhs)`` and ``fidentity(dtype)``.

    For several values at once, both take and give tuples: ``fcombine((i, a), (j, b))`` with
    ``fidentity(dtype_i, dtype_a)``. The result is called as ``(source, axis, where=None,
    init=None)``, and gives one expression, or a tuple of them.
    Errors: TE0004 where the parts do not fit each other.
    """

    def reducer(
        expr: Any, axis: Axes | None = None, where: ExprLike | None = None, init: Any = None
    ) -> Any:
        span = user_span()
        if axis is None:
            refuse(
                "TE0004",
                f"{name!r} is not told over which axes",
                help=f"name one: k = te.reduce_axis((0, n)), then te.{name}(A[i, k], axis=k)",
                span=span,
            )
        several = isinstance(expr, (tuple, list))
        if several and fcombine in _OF_ONE:
            refuse(
                "TE0004",
                f"{name!r} reduces one value, not a {type(cast('object', expr)).__name__}",
                help="reduce each by itself, or make a reduction of several with te.comm_reducer",
                span=span,
            )
        source = tuple(convert(e) for e in as_tuple(expr))
        with located():
            combiner = _combiner(fcombine, fidentity, source, several, name, span)
        axes = as_tuple(axis)
        condition = IntImm(1, BOOL) if where is None else convert(where)
        start: tuple[PrimExpr, ...] = ()
        if init is not None:
            pairs = zip(as_tuple(init), source, strict=False)
            start = tuple(
                const(v, s.dtype) if isinstance(v, (int, float)) else convert(v) for v, s in pairs
            )
        _check(name, source, axes, condition, None if init is None else start, span)
        made = tuple(
            Reduce(combiner, source, start, axes, condition, i, span=span)
            for i in range(len(source))
        )
        return made if several else made[0]

    reducer.__name__ = name
    return reducer


def as_tuple(value: Any) -> tuple[Any, ...]:
    """Return the items of a tuple or list, or the value itself as the only item."""
    return tuple(value) if isinstance(value, (tuple, list)) else (value,)  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]


def _combiner(
    fcombine: Combine,
    fidentity: Callable[..., Any],
    source: tuple[PrimExpr, ...],
    several: bool,
    name: str,
    span: Span | None,
) -> CommReducer:
    dtypes = [s.dtype for s in source]
    lhs = tuple(Var(f"x{i}", d) for i, d in enumerate(dtypes))
    rhs = tuple(Var(f"y{i}", d) for i, d in enumerate(dtypes))
    made: Any = fcombine(lhs, rhs) if several else fcombine(lhs[0], rhs[0])
    identity: Any = fidentity(*(str(d) for d in dtypes))
    results, identities = as_tuple(made), as_tuple(identity)
    for what, values in (("fcombine", results), ("fidentity", identities)):
        if len(values) != len(source):
            refuse(
                "TE0004",
                f"{what} of {name!r} gives {with_count(len(values), 'value')} for "
                f"{with_count(len(source), 'source')}",
                help=f"give {with_count(len(source), 'value')}",
                span=span,
            )
    result = tuple(_fit(v, d, name, span) for v, d in zip(results, dtypes, strict=True))
    start = tuple(_fit(v, d, name, span) for v, d in zip(identities, dtypes, strict=True))
    return CommReducer(lhs, rhs, result, start, span=span)


def _fit(value: Any, dtype: DataType, name: str, span: Span | None) -> PrimExpr:
    made = const(value, dtype) if isinstance(value, (int, float)) else convert(value)
    if made.dtype is not dtype:
        refuse(
            "TE0004",
            f"{name!r} combines {dtype} to {made.dtype}",
            help="cast the result of fcombine, and the identity, to the dtype of the source",
            span=span,
        )
    return made


def _describe(value: object) -> str:
    if isinstance(value, (int, float)):
        return show_value(value)
    return with_article(type(value).__name__)


def _check(
    name: str,
    source: tuple[PrimExpr, ...],
    axes: tuple[Any, ...],
    condition: PrimExpr,
    init: tuple[PrimExpr, ...] | None,
    span: Span | None,
) -> None:
    wrong = [a for a in axes if not isinstance(a, ReduceAxis)]
    twice = len(set(map(id, axes))) < len(axes)
    if not axes or wrong or twice:
        pair = (
            bool(wrong) and name in ("max", "min") and isinstance(wrong[0], (int, float, PrimExpr))
        )
        refuse(
            "TE0003",
            f"{name!r} has no axis to reduce over"
            if not axes
            else f"{name!r} cannot reduce over {_describe(wrong[0])}"
            if wrong
            else f"{name!r} reduces over an axis twice",
            help=f"write T.{name}(a, b) for two values: te.{name} reduces over axes"
            if pair
            else 'make an axis: k = te.reduce_axis((0, n), name="k"), and index with it',
            span=span,
        )
    if not condition.dtype.is_bool:
        refuse(
            "TE0004",
            f"the condition of {name!r} is {condition.dtype}",
            help="use a comparison, as in where=k < n",
            span=span,
        )
    if init is not None and [v.dtype for v in init] != [s.dtype for s in source]:
        refuse(
            "TE0004",
            f"the initial value of {name!r} does not have the dtype of what is reduced",
            help=f"start from {', '.join(str(s.dtype) for s in source)}",
            span=span,
        )


def _lowest(dtype: str) -> PrimExpr:
    kind = DataType(dtype)
    return const(float("-inf") if kind.is_float else kind.min_value, kind)


def _greatest(dtype: str) -> PrimExpr:
    kind = DataType(dtype)
    return const(float("inf") if kind.is_float else kind.max_value, kind)


def _zero(dtype: str) -> PrimExpr:
    return const(0, DataType(dtype))


def _unit(dtype: str) -> PrimExpr:
    return const(1, DataType(dtype))


# The names of the field.
sum = comm_reducer(Add, _zero, "sum")  # noqa: A001
prod = comm_reducer(Mul, _unit, "prod")
max = comm_reducer(Max, _lowest, "max")  # noqa: A001
min = comm_reducer(Min, _greatest, "min")  # noqa: A001
all = comm_reducer(And, _unit, "all")  # noqa: A001
any = comm_reducer(Or, _zero, "any")  # noqa: A001
