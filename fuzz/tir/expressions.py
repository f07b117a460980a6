"""Random well-typed expressions.

An expression is drawn for a dtype and a number of lanes. By construction, indices stay in bounds
and divisors are not zero, unless the program may fail.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from fuzz.choices import Choices
from fuzz.tir.functions import Producer, exact_producers
from loomir.ir.module import GlobalVar
from loomir.ir.visit import pre_order
from loomir.support.dtype import BOOL, DataType
from loomir.tir import (
    GE,
    GT,
    LE,
    LT,
    NE,
    Add,
    And,
    Broadcast,
    Buffer,
    BufferLoad,
    Call,
    Cast,
    Div,
    Eq,
    FloorDiv,
    FloorMod,
    IntImm,
    Let,
    Max,
    Min,
    Mod,
    Mul,
    Not,
    Or,
    PrimExpr,
    PrimFunc,
    Ramp,
    Select,
    Shuffle,
    Sub,
    Var,
    call_builtin,
    const,
)

__all__ = ["Context", "Expressions", "Index", "Place", "UsableBuffer"]

INT32, INT64 = DataType("int32"), DataType("int64")


class Index(NamedTuple):
    """An integer variable whose value lies in ``low`` to ``high``."""

    var: Var
    low: int
    high: int


class Place(NamedTuple):
    """An axis that must be indexed with exactly ``var``, so that iterations stay independent."""

    axis: int
    var: Var


@dataclass(frozen=True)
class UsableBuffer:
    """A buffer that may be used here, with its extents as they are at run time."""

    buffer: Buffer
    extents: tuple[int, ...]
    pinned: tuple[Place, ...] = ()
    writable: bool = True
    root: int = 0
    """Buffers of one root may share memory."""
    passable: bool = True
    """Whether it can be handed to a function: compact, and the first name of its memory."""


@dataclass(frozen=True)
class Context:
    """What an expression or statement may use."""

    indices: tuple[Index, ...] = ()
    scalars: tuple[Var, ...] = ()
    buffers: tuple[UsableBuffer, ...] = ()
    repeat: int = 1
    """How many times this place runs, at most."""
    jumps: bool = False
    """Whether ``break`` and ``continue`` may stand here."""
    returns: DataType | None = None
    """What may be returned here, if anything."""
    private: bool = True
    """Whether no parallel loop is around."""
    vectorized: bool = False
    """Whether a vectorised loop is around."""

    def with_index(self, var: Var, low: int, high: int) -> Context:
        """Add an integer variable."""
        return replace(self, indices=(*self.indices, Index(var, low, high)))


@dataclass
class Policy:
    """What a program likes: its dtypes, how deep it goes, and which operators it favours."""

    dtypes: list[DataType]
    depth: int
    favours: str
    size: int = 2
    """0 for a program of a few statements, 1 for a middling one, 2 for a large one."""


@dataclass
class Helper:
    """A function that may be called: the dtypes of its scalars, what it returns, what it costs."""

    func: PrimFunc
    scalars: list[DataType]
    buffers: list[tuple[DataType, tuple[int, ...] | None]] = field(default_factory=list)
    returns: DataType | None = None
    cost: int = 10


class Expressions:
    """Draws expressions for one program."""

    def __init__(self, choices: Choices, policy: Policy, may_fail: bool) -> None:
        self.choices = choices
        self.policy = policy
        self.may_fail = may_fail
        self.helpers: list[Helper] = []
        self.cost = 0
        """About how many scalar operations running takes."""
        self.drawn = 0
        """How many expressions there are; above ``most`` only the smallest are drawn."""
        self.most = (90, 220, 500)[policy.size]
        self._names = 0
        self._few: dict[DataType, list[PrimExpr]] = {}
        self._made: list[tuple[Context, PrimExpr]] = []

    # -- small things --------------------------------------------------------------------------
    def name(self, stem: str) -> str:
        """Make a name."""
        self._names += 1
        return f"{stem}{self._names}"

    def constant(self, dtype: DataType) -> PrimExpr:
        """Draw a constant; corners are as likely as small numbers."""
        if self.policy.favours != "constants":
            return self._any_constant(dtype)
        few = self._few.setdefault(dtype, [])
        if len(few) < 2:
            few.append(self._any_constant(dtype))
        return self.choices.pick(few)

    def _any_constant(self, dtype: DataType) -> PrimExpr:
        c, element = self.choices, dtype.element
        value: Any
        if element.is_bool:
            value = c.chance(0.5)
        elif element.is_float:
            limit = element.max_finite
            value = c.pick([0.0, 1.0, -1.0, 2.0, 0.5, -0.0, 3.0, 0.1, limit, float("inf"), -7.25])
        else:
            low, high = element.min_value, element.max_value
            corners = [0, 1, 2, 3, 7, high, low, high - 1, 1 << (element.bits // 2)]
            if element.is_int:
                corners += [-1, -2]
            value = c.pick(corners)
        return const(value, dtype)

    def dtype(self) -> DataType:
        """Draw one of the program's dtypes."""
        return self.choices.pick(self.policy.dtypes)

    # -- indices -------------------------------------------------------------------------------
    def index(self, ctx: Context, extent: int, depth: int = 1) -> PrimExpr:
        """Draw an index of an axis: at least 0, below ``extent``."""
        c = self.choices
        inside = [i for i in ctx.indices if i.low >= 0 and i.high < extent]
        if inside and c.chance(0.6):
            return c.pick(inside).var
        if ctx.indices and c.chance(0.4):
            shifted = self._affine(ctx, extent)
            if shifted is not None:
                return shifted
        if depth > 0 and c.chance(0.35):
            dtype = c.pick([INT32, INT32, INT64])
            any_value = self.expr(ctx, dtype, depth)
            if c.chance(0.5):
                return FloorMod(any_value, const(extent, dtype))
            low, high = const(0, dtype), const(extent - 1, dtype)
            return Min(Max(any_value, low), high)
        dtype = c.pick([INT32, INT64])
        return const(c.integer(0, extent - 1), dtype)

    def _affine(self, ctx: Context, extent: int) -> PrimExpr | None:
        """Shift, scale or mirror a variable so that it stays inside, where that is possible."""
        c = self.choices
        one = c.pick(ctx.indices)
        low, high = one.low, one.high
        dtype = one.var.dtype
        if high < low or not dtype.is_int:
            return None
        ways: list[PrimExpr] = []
        if high - low < extent:
            shift = c.integer(-low, extent - 1 - high)
            if dtype.min_value <= shift <= dtype.max_value:
                ways.append(Add(one.var, const(shift, dtype)))
            if high <= dtype.max_value:
                ways.append(Sub(const(high, dtype), one.var))
        if low >= 0 and high * 2 < extent and high * 2 <= dtype.max_value:
            ways.append(Mul(one.var, const(2, dtype)))
        if low >= 0 and high // 2 < extent:
            ways.append(FloorDiv(one.var, const(2, dtype)))
        if dtype.max_value >= extent:
            ways.append(FloorMod(one.var, const(extent, dtype)))
        return c.pick(ways) if ways else None

    def access(
        self, ctx: Context, known: UsableBuffer, lanes: int, depth: int = 1
    ) -> tuple[PrimExpr, ...] | None:
        """Draw indices of a buffer, or None where that many lanes do not fit."""
        indices: list[PrimExpr] = []
        pinned = {p.axis: p.var for p in known.pinned}
        last = len(known.extents) - 1
        if any(e == 0 for e in known.extents):
            return None
        for axis, extent in enumerate(known.extents):
            if lanes > 1 and axis == last:
                if axis in pinned or extent < lanes:
                    return None
                step = self.choices.pick([1, 1, 1, -1, 0 if known.writable is False else 1])
                if step == 1 and extent >= 2 * lanes and self.choices.chance(0.2):
                    step = 2
                reach = abs(step) * (lanes - 1)
                base = self.index(ctx, extent - reach, depth)
                if base.dtype.is_uint and step < 0:
                    base = Cast(base, INT32)
                if step < 0:
                    base = Add(base, const(reach, base.dtype))
                indices.append(Ramp(base, const(step, base.dtype), lanes))
            elif axis in pinned:
                indices.append(pinned[axis])
            else:
                indices.append(self.index(ctx, extent, depth))
        return None if lanes > 1 and not indices else tuple(indices)

    # -- expressions ---------------------------------------------------------------------------
    def expr(self, ctx: Context, dtype: DataType, depth: int | None = None) -> PrimExpr:
        """Draw an expression of ``dtype``."""
        depth = self.policy.depth if depth is None else depth
        self.cost += ctx.repeat * dtype.lanes
        self.drawn += 1
        if depth <= 0 or self.drawn > self.most or self.choices.chance(0.12):
            return self.leaf(ctx, dtype)
        element = dtype.element
        if element.is_bool:
            makers = self._bool_makers
        elif element.is_float:
            makers = self._float_makers
        else:
            makers = self._int_makers
        if self.policy.favours == "shared" and self.choices.chance(0.4):
            known = [e for c, e in self._made if c is ctx and e.dtype is dtype]
            if known:
                return self.choices.pick(known)
        maker = self.choices.weighted(makers(dtype))
        made: PrimExpr | None = maker(ctx, dtype, depth - 1)
        if made is None:
            return self.leaf(ctx, dtype)
        # A name may be bound once, so what binds one is never used twice.
        if self.policy.favours == "shared" and not any(isinstance(p, Let) for p in pre_order(made)):
            self._made = [*self._made[-30:], (ctx, made)]
        return made

    def leaf(self, ctx: Context, dtype: DataType) -> PrimExpr:
        """Draw a load, a variable or a constant."""
        c = self.choices
        if c.chance(0.25 if self.policy.favours == "constants" else 0.65):
            loaded = self.load(ctx, dtype)
            if loaded is not None:
                return loaded
        element = dtype.element
        names = [v for v in ctx.scalars if v.dtype is element]
        names += [i.var for i in ctx.indices if i.var.dtype is element]
        if names and c.chance(0.7):
            name = c.pick(names)
            if dtype.lanes == 1:
                return name
            if element.is_integer and c.chance(0.3):
                return Ramp(name, self.constant(element), dtype.lanes)
            return Broadcast(name, dtype.lanes)
        if ctx.indices and not element.is_bool and c.chance(0.3):
            cast: PrimExpr = Cast(c.pick(ctx.indices).var, element)
            return cast if dtype.lanes == 1 else Broadcast(cast, dtype.lanes)
        return self.constant(dtype)

    def load(self, ctx: Context, dtype: DataType) -> PrimExpr | None:
        """Draw a load, or None where no buffer has that dtype."""
        fits = [k for k in ctx.buffers if k.buffer.dtype is dtype.element]
        if not fits:
            return None
        known = self.choices.pick(fits)
        indices = self.access(ctx, known, dtype.lanes)
        return None if indices is None else BufferLoad(known.buffer, indices)

    def _common(self, dtype: DataType) -> list[tuple[float, Callable[..., PrimExpr | None]]]:
        makers: list[tuple[float, Callable[..., PrimExpr | None]]] = [
            (2.0, self._cast),
            (1.2, self._select),
            (0.8, self._let),
            (0.8, self._if_then_else),
            (0.5, self._likely),
        ]
        if self.helpers:
            makers.append((1.5, self._call))
        if dtype.lanes > 1:
            makers += [(1.0, self._shuffle), (0.7, self._broadcast)]
        elif self.choices.chance(0.1):
            makers.append((1.0, self._pick_lane))
        return makers

    def _binary(self, *kinds: type) -> Callable[..., PrimExpr]:
        def make(ctx: Context, dtype: DataType, depth: int) -> PrimExpr:
            kind = self.choices.pick(kinds)
            a = self.expr(ctx, dtype, depth)
            if self.choices.chance(0.08):
                name = Var(self.name("s"), dtype)
                return Let(name, a, kind(name, name))
            return kind(a, self.expr(ctx, dtype, depth))

        return make

    def _function(self, ctx: Context, dtype: DataType, depth: int) -> PrimExpr | None:
        """Call any builtin that gives the dtype; of those over many dtypes, the program's."""
        known = [p for p in exact_producers()[dtype.element] if self._likes(p, dtype.element)]
        if not known:
            return None
        # First the function: each is as likely as another, however many dtypes it goes with.
        name = self.choices.pick(list(dict.fromkeys(p.name for p in known)))
        made: Producer = self.choices.pick([p for p in known if p.name == name])
        args = [self.expr(ctx, d.with_lanes(dtype.lanes), depth) for d in made.args]
        return call_builtin(name, *args)

    def _likes(self, producer: Producer, dtype: DataType) -> bool:
        first = producer.args[0]
        return first is dtype or first in self.policy.dtypes

    def _weight(self, what: str) -> float:
        return 4.0 if self.policy.favours == what else 1.0

    # -- integers ------------------------------------------------------------------------------
    def _int_makers(self, dtype: DataType) -> list[tuple[float, Callable[..., PrimExpr | None]]]:
        return [
            (4.0, self._binary(Add, Sub, Mul)),
            (1.5 * self._weight("divide"), self._divide),
            (1.2 * self._weight("minmax"), self._binary(Min, Max)),
            (2.8, self._function),
            (0.4, self._reinterpret),
            *self._common(dtype),
        ]

    def _divide(self, ctx: Context, dtype: DataType, depth: int) -> PrimExpr:
        kind = self.choices.pick((Div, Mod, FloorDiv, FloorMod))
        a = self.expr(ctx, dtype, depth)
        if self.may_fail and self.choices.chance(0.3):
            return kind(a, self.expr(ctx, dtype, depth))
        if self.choices.chance(0.4):
            corners = [1, 2, 3, 5, 7, 8, dtype.element.max_value]
            if dtype.is_int:
                corners += [-1, -1, -2, -3, dtype.element.min_value]
            return kind(a, const(self.choices.pick(corners), dtype))
        b = self.expr(ctx, dtype, depth)
        odd = call_builtin("bitwise_or", b, const(1, dtype))
        return kind(a, odd)

    def _reinterpret(self, ctx: Context, dtype: DataType, depth: int) -> PrimExpr | None:
        # Not from floats: which NaN an operation gives is open, and here it would show.
        same = [f"{s}int{dtype.bits}" for s in ("", "u")]
        source = DataType(self.choices.pick(same)).with_lanes(dtype.lanes)
        return call_builtin("reinterpret", self.expr(ctx, source, depth), dtype=dtype)

    # -- floats --------------------------------------------------------------------------------
    def _float_makers(self, dtype: DataType) -> list[tuple[float, Callable[..., PrimExpr | None]]]:
        return [
            (4.0, self._binary(Add, Sub, Mul)),
            (1.0 * self._weight("divide"), self._binary(Div, Div, FloorDiv, FloorMod)),
            (1.5 * self._weight("minmax"), self._binary(Min, Max)),
            (2.4, self._function),
            (0.3, self._copysign),
            (0.3, self._reinterpret),
            *self._common(dtype),
        ]

    def _copysign(self, ctx: Context, dtype: DataType, depth: int) -> PrimExpr:
        # The sign of a NaN is open, so the second operand is never one.
        sign = Cast(self.expr(ctx, INT32.with_lanes(dtype.lanes), depth - 1), dtype)
        return call_builtin("copysign", self.expr(ctx, dtype, depth), sign)

    # -- truth ---------------------------------------------------------------------------------
    def _bool_makers(self, dtype: DataType) -> list[tuple[float, Callable[..., PrimExpr | None]]]:
        return [
            (5.0, self._compare),
            (2.0, self._binary(And, Or)),
            (1.0, self._not),
            (1.8, self._function),
            (0.3, self._binary(Eq, NE)),
            *self._common(dtype),
        ]

    def _compare(self, ctx: Context, dtype: DataType, depth: int) -> PrimExpr:
        kind = self.choices.pick((Eq, NE, LT, LE, GT, GE))
        of = self.dtype().with_lanes(dtype.lanes)
        return kind(self.expr(ctx, of, depth), self.expr(ctx, of, depth))

    def _not(self, ctx: Context, dtype: DataType, depth: int) -> PrimExpr:
        return Not(self.expr(ctx, dtype, depth))

    # -- for every dtype -----------------------------------------------------------------------
    def _cast(self, ctx: Context, dtype: DataType, depth: int) -> PrimExpr:
        source = self.dtype().with_lanes(dtype.lanes)
        return Cast(self.expr(ctx, source, depth), dtype)

    def _select(self, ctx: Context, dtype: DataType, depth: int) -> PrimExpr:
        lanes = self.choices.pick((1, dtype.lanes))
        condition = self.expr(ctx, BOOL.with_lanes(lanes), depth)
        return Select(condition, self.expr(ctx, dtype, depth), self.expr(ctx, dtype, depth))

    def _if_then_else(self, ctx: Context, dtype: DataType, depth: int) -> PrimExpr:
        condition = self.expr(ctx, BOOL, depth)
        values = (self.expr(ctx, dtype, depth), self.expr(ctx, dtype, depth))
        return call_builtin("if_then_else", condition, *values)

    def _likely(self, ctx: Context, dtype: DataType, depth: int) -> PrimExpr:
        return call_builtin("likely", self.expr(ctx, dtype, depth))

    def _let(self, ctx: Context, dtype: DataType, depth: int) -> PrimExpr:
        name = Var(self.name("t"), self.dtype())
        value = self.expr(ctx, name.dtype, depth)
        inner = replace(ctx, scalars=(*ctx.scalars, name))
        return Let(name, value, self.expr(inner, dtype, depth))

    def _shuffle(self, ctx: Context, dtype: DataType, depth: int) -> PrimExpr:
        c = self.choices
        parts = [dtype.element.with_lanes(c.pick((1, 2, 4))) for _ in range(c.integer(1, 2))]
        total = sum(p.lanes for p in parts)
        vectors = tuple(self.expr(ctx, p, depth) for p in parts)
        picks = tuple(IntImm(c.integer(0, total - 1), INT32) for _ in range(dtype.lanes))
        return Shuffle(vectors, picks)

    def _pick_lane(self, ctx: Context, dtype: DataType, depth: int) -> PrimExpr:
        return self._shuffle(ctx, dtype, depth)

    def _broadcast(self, ctx: Context, dtype: DataType, depth: int) -> PrimExpr:
        return Broadcast(self.expr(ctx, dtype.element, depth), dtype.lanes)

    def _call(self, ctx: Context, dtype: DataType, depth: int) -> PrimExpr | None:
        fits = [h for h in self.helpers if h.returns is dtype and not h.buffers]
        if not fits:
            return None
        helper = self.choices.pick(fits)
        self.cost += ctx.repeat * helper.cost
        args = tuple(self.expr(ctx, d, min(depth, 1)) for d in helper.scalars)
        return Call(dtype, GlobalVar(helper.func.name), args)
