"""Decompose a product of bytes with zero points into a plain product, and sums of rows and columns.

``sum((a - za) * (b - zb))`` equals ``sum(a * b) - zb * sum(a - za) - za * sum(b)`` exactly, since
integers wrap. The plain product can use instructions for bytes; the rest is subtracted at the end.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from dataclasses import replace
from typing import Final, NamedTuple, TypeAlias

from loomir.arith.fold import imm
from loomir.autoschedule.builders.evaluate import storage_order, value_at
from loomir.autoschedule.builders.loops import allocate, scratch
from loomir.autoschedule.builders.operand_access import size_of
from loomir.autoschedule.ir.plan import Plan, Prepack
from loomir.autoschedule.ir.stage import Combine, Stage, has_zero_trip_case
from loomir.autoschedule.rewrite.def_use import reads_of
from loomir.autoschedule.rules.matmul.amx import has_matrix_unit
from loomir.autoschedule.rules.matmul.collapse_axes import Views
from loomir.autoschedule.rules.matmul.dot_groups import find_dot_groups, strip_widening
from loomir.autoschedule.rules.matmul.recognise import recognise
from loomir.ir.visit import by_class, rewrite
from loomir.support.dtype import DataType
from loomir.target import Target
from loomir.tir.buffer import Buffer, BufferLoad
from loomir.tir.builtins.table import IF_THEN_ELSE
from loomir.tir.expr import Add, Call, IntImm, Mul, PrimExpr, Select, Sub, Var, cast, const
from loomir.tir.stmt import Stmt

__all__ = ["plan_zero_points"]

_BYTES: Final = (DataType("int8"), DataType("uint8"))
_INT32: Final = DataType("int32")
_FEWEST: Final = 16
"""Steps from which instructions for bytes save more than the sums of the factors cost."""

InnerBuffers: TypeAlias = Callable[[int], Set[Buffer]]
ProductPlanner: TypeAlias = Callable[[Sequence[Stage], Set[Buffer]], "Plan | None"]
"""Plans a sum of products with the stages after it; nothing else reads these buffers."""
StagePlanner: TypeAlias = Callable[[Stage], Plan]
"""Plans a stage by itself."""


class _Factor(NamedTuple):
    """``value - zero``: bytes widened to int32, and what is subtracted from each of them."""

    value: PrimExpr
    zero: PrimExpr | None


def plan_zero_points(
    stages: Sequence[Stage],
    count: int,
    inner: InnerBuffers,
    target: Target,
    constants: Set[Var],
    plans: tuple[ProductPlanner, StagePlanner],
) -> tuple[Plan, int] | None:
    """Plan a sum of products of bytes less zero points, with at most ``count`` stages in all.

    None if it is no such sum, or the target has no instructions for bytes. The first stage may
    pad one of the factors.
    """
    pad, lead = None, 0
    if len(stages) > 1 and stages[0].combine is Combine.NONE and stages[0].buffer in inner(2):
        pad, lead = stages[0], 1
    stage = stages[lead]
    if stage.combine is not Combine.SUM or stage.buffer.dtype is not _INT32:
        return None
    if not isinstance(stage.value, Mul) or not stage.reduced or has_zero_trip_case(stage):
        return None
    if (size_of(stage.reduced) or _FEWEST) < _FEWEST:
        return None
    if pad is not None:
        narrow = _narrow_padding(pad)
        if narrow is None:
            return None
        stage = replace(stage, value=_read_narrow(stage.value, pad.buffer, narrow))
        pad = narrow[0]
    assert isinstance(stage.value, Mul)
    left, right = _split_factor(stage.value.a), _split_factor(stage.value.b)
    if left is None or right is None or not _are_separate(stage, left, right):
        return None
    made = _DecomposedSum(stage, left, right)
    if not _has_instructions(made.product, target):
        return None
    for many in range(count - lead, 0, -1):
        group = [made.product, made.end, *stages[lead + 1 : lead + many]]
        plan = plans[0](group, {*inner(lead + many), made.product.buffer})
        if plan is not None:
            return _combine(made, pad, plan, None, constants, plans[1]), lead + many
    plan = plans[0]([made.product], frozenset())
    assert plan is not None  # recognised as a product of a matrix with a matrix
    return _combine(made, pad, plan, made.end, constants, plans[1]), lead + 1


def _combine(
    stages: _DecomposedSum,
    pad: Stage | None,
    plan: Plan,
    end: Stage | None,
    constants: Set[Var],
    single: StagePlanner,
) -> Plan:
    """Put the sums before a product, and ``end`` after it."""
    ahead = list(plan.ahead)
    made: list[Stmt] = []
    private: list[Buffer] = []
    for stage in (*(() if pad is None else (pad,)), *stages.sums):
        stmt = single(stage).stmt
        if _is_constant(stage, constants):
            ahead.append(Prepack(stmt, (stage.buffer,)))
        else:
            made.append(stmt)
            private.append(stage.buffer)
    made.append(plan.stmt)
    made += [] if end is None else [single(end).stmt]
    if id(stages.product.buffer.data) in set[int]().union(*map(reads_of, made)):
        private.append(stages.product.buffer)
    names = " and ".join(stage.name for stage in stages.sums)
    text = f"a product of bytes, from which zero points times {names} are subtracted"
    return replace(
        plan,
        stmt=allocate(private, *made),
        choices=(*plan.choices, text),
        ahead=tuple(ahead),
    )


def _is_constant(stage: Stage, constants: Set[Var]) -> bool:
    """Whether a stage gives the same in all calls: it uses no sizes or scalars of a call either."""
    axes = (*stage.axes, *stage.reduced)
    found = by_class(stage.value)
    fixed = {axis.var for axis in axes}.issuperset(found.get(Var, ()))
    loads: list[BufferLoad] = found.get(BufferLoad, [])
    same = all(load.buffer.data in constants for load in loads)
    return fixed and same and all(axis.size is not None for axis in axes)


class _DecomposedSum:
    """The stages that a sum of products is decomposed into."""

    def __init__(self, stage: Stage, left: _Factor, right: _Factor) -> None:
        self.sums: list[Stage] = []
        axes = storage_order(stage)
        self.product = Stage(
            stage.name,
            stage.axes,
            stage.reduced,
            scratch(f"{stage.buffer.name}_bytes", [axis.extent for axis in axes], _INT32),
            tuple(axis.var for axis in axes),
            Mul(left.value, right.value),
            Combine.SUM,
            const(0, _INT32),
        )
        own = BufferLoad(stage.buffer, stage.indices)
        init: PrimExpr = own if stage.init is None else stage.init
        total: PrimExpr = BufferLoad(self.product.buffer, self.product.indices)
        if right.zero is not None:
            term = left.value if left.zero is None else Sub(left.value, left.zero)
            total = Sub(total, Mul(right.zero, self._sum(stage, "rows", term)))
        if left.zero is not None:
            total = Sub(total, Mul(left.zero, self._sum(stage, "columns", right.value)))
        if not (isinstance(init, IntImm) and init.value == 0):
            total = Add(init, total)
        self.end = Stage(
            stage.name,
            stage.axes,
            (),
            stage.buffer,
            stage.indices,
            total,
            in_place=stage.init is None,
            block=stage.block,
        )

    def _sum(self, stage: Stage, name: str, term: PrimExpr) -> PrimExpr:
        """Sum a factor over all steps, and load the sum at the axes that it depends on."""
        used = set(by_class(term).get(Var, ()))
        axes = [axis for axis in storage_order(stage) if axis.var in used]
        shape = [axis.extent for axis in axes] or [1]
        indices: tuple[PrimExpr, ...] = tuple(axis.var for axis in axes) or (const(0, "int64"),)
        total = scratch(f"{stage.buffer.name}_{name}", shape, _INT32)
        # Axes of its own: no two stages share a variable.
        table = {a.var: Var(a.var.name_hint, a.var.dtype) for a in (*axes, *stage.reduced)}
        self.sums.append(
            Stage(
                total.name,
                tuple(a._replace(var=table[a.var]) for a in axes),
                tuple(a._replace(var=table[a.var]) for a in stage.reduced),
                total,
                tuple(table.get(i, i) if isinstance(i, Var) else i for i in indices),
                value_at(term, table),
                Combine.SUM,
                const(0, _INT32),
            )
        )
        return BufferLoad(total, indices)


def _split_factor(factor: PrimExpr) -> _Factor | None:
    """Split a factor into bytes and their zero point; None if it is of another form."""
    if factor.dtype is not _INT32:
        return None
    value = strip_widening(factor)
    if value.dtype in _BYTES and not isinstance(value, Sub):
        return _Factor(cast(value, _INT32), None)
    guarded = _match_guarded(factor)
    if guarded is not None:
        condition, inner, rebuild = guarded
        found = _split_factor(inner)
        if found is None or found.zero is None:
            return None
        narrow = strip_widening(found.value)
        zero = _as_byte(found.zero, narrow.dtype)
        if zero is None:
            return None
        return _Factor(cast(rebuild(condition, narrow, zero), _INT32), found.zero)
    if isinstance(value, Sub):
        # In fewer bits the difference of two bytes still does not wrap.
        zero = value.b
        narrow = strip_widening(value.a)
        small = isinstance(zero, IntImm) and abs(zero.value) < 256
        small = small or strip_widening(zero).dtype in _BYTES
        exact = value.dtype is _INT32 or (value.dtype.is_int and value.dtype.bits > 8 and small)
        if narrow.dtype in _BYTES and exact:
            return _Factor(cast(narrow, _INT32), cast(zero, _INT32))
    if isinstance(factor, Add) and isinstance(factor.b, IntImm):
        narrow = strip_widening(factor.a)
        if narrow.dtype in _BYTES:
            return _Factor(cast(narrow, _INT32), imm(-factor.b.value, _INT32))
    return None


_Rebuild: TypeAlias = Callable[[PrimExpr, PrimExpr, PrimExpr], PrimExpr]


def _match_guarded(value: PrimExpr) -> tuple[PrimExpr, PrimExpr, _Rebuild] | None:
    """Match a value that is 0 where a condition fails; also return how to build another."""
    if isinstance(value, Select):
        parts = value.condition, value.true_value, value.false_value
        rebuild: _Rebuild = _select
    elif isinstance(value, Call) and value.op is IF_THEN_ELSE:
        parts, rebuild = value.args, _choose
    else:
        return None
    condition, inner, other = parts
    return (condition, inner, rebuild) if isinstance(other, IntImm) and other.value == 0 else None


def _select(condition: PrimExpr, one: PrimExpr, other: PrimExpr) -> PrimExpr:
    return Select(condition, one, other)


def _choose(condition: PrimExpr, one: PrimExpr, other: PrimExpr) -> PrimExpr:
    return Call(one.dtype, IF_THEN_ELSE, (condition, one, other))


def _as_byte(zero: PrimExpr, dtype: DataType) -> PrimExpr | None:
    """Return a zero point in the dtype of the bytes, if that can represent it."""
    if isinstance(zero, IntImm):
        return (
            const(zero.value, dtype) if dtype.min_value <= zero.value <= dtype.max_value else None
        )
    zero = strip_widening(zero)
    return zero if zero.dtype is dtype else None


def _narrow_padding(pad: Stage) -> tuple[Stage, PrimExpr] | None:
    """Pad bytes with their zero point rather than differences with 0; also return the former."""
    found = _split_factor(pad.value)
    if found is None or found.zero is None or pad.in_place:
        return None
    narrow = strip_widening(found.value)
    names = {axis.var for axis in pad.axes}
    if names & set(by_class(found.zero).get(Var, ())):
        return None
    buffer = scratch(f"{pad.buffer.name}_bytes", pad.buffer.shape, narrow.dtype)
    return replace(pad, buffer=buffer, value=narrow), found.zero


def _read_narrow(value: PrimExpr, wide: Buffer, narrow: tuple[Stage, PrimExpr]) -> PrimExpr:
    """Read padded bytes, and subtract their zero point."""
    stage, zero = narrow

    def subtract_zero_point(load: BufferLoad) -> PrimExpr:
        if load.buffer is not wide:
            return load
        return Sub(cast(BufferLoad(stage.buffer, load.indices), _INT32), zero)

    return rewrite(value, {BufferLoad: subtract_zero_point})


def _are_separate(stage: Stage, left: _Factor, right: _Factor) -> bool:
    """Whether there is a zero point, and each depends only on axes of its own factor."""
    reduced = {axis.var for axis in stage.reduced}
    axes = {axis.var for axis in stage.axes}
    for factor in (left, right):
        if factor.zero is None:
            continue
        found = set(by_class(factor.zero).get(Var, ()))
        if found & reduced or not (found & axes) <= set(by_class(factor.value).get(Var, ())):
            return False
    return left.zero is not None or right.zero is not None


def _has_instructions(product: Stage, target: Target) -> bool:
    """Whether the target has instructions for a product of bytes."""
    found = recognise([product], Views())
    if found is None or found.by_vector:
        return False
    return has_matrix_unit(found, target) or find_dot_groups(found, target) is not None
