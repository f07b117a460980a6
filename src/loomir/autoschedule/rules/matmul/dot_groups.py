"""GEMM of narrow types by dot-product instructions, several steps at a time.

The instructions are VNNI and AVX512-BF16 of x86-64, and those of AArch64 (``dotprod``, ``i8mm``).

The steps of a group are contiguous in a word of 32 bits, and packed operands hold such words,
padded with zeros after the last step.

Bytes: VNNI multiplies unsigned with signed bytes, ``dotprod`` bytes of the same signedness, and
``i8mm`` any. Where operands do not fit, the highest bit of each byte of the left one is flipped
during packing, which adds or subtracts 128; accumulators start from the correction. Sums are exact,
and wrap.

Pairs of bfloat16 are added as ``T.dp2a`` says: the sum of each pair is rounded twice, like two
steps in float32. Subnormal numbers count as zero, an error of at most 2**-126 in each step.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from loomir.arith.fold import add, imm64, mul
from loomir.autoschedule.builders.loops import allocate, loop, scratch
from loomir.autoschedule.builders.operand_access import (
    extent_of,
    is_contiguous_along,
    ramp,
    size_of,
)
from loomir.autoschedule.ir.stage import Axis
from loomir.autoschedule.rules.matmul.operands import AxisValues, Side, load_vector
from loomir.autoschedule.rules.matmul.packing import Packing
from loomir.autoschedule.rules.matmul.recognise import Contraction
from loomir.support.dtype import DataType
from loomir.target import Target
from loomir.tir.buffer import Buffer, BufferLoad
from loomir.tir.builtins.table import IF_THEN_ELSE, call_builtin
from loomir.tir.expr import (
    LT,
    Broadcast,
    Call,
    Cast,
    FloorDiv,
    IntImm,
    PrimExpr,
    Shuffle,
    Sub,
    const,
)
from loomir.tir.stmt import BufferStore, Stmt

__all__ = ["WORD", "Groups", "find_dot_groups", "strip_widening"]

WORD: Final = DataType("int32")
"""The dtype of packed operands."""

_FLOAT32: Final = DataType("float32")
_INT8: Final = DataType("int8")
_UINT8: Final = DataType("uint8")
_BFLOAT16: Final = DataType("bfloat16")
_FLIP: Final = -0x7F7F7F80
"""The highest bit of each byte of a word."""

_FEWEST_ROWS: Final = 8
"""Rows from which packing pays."""
_FEWEST_COLUMNS: Final = 3
"""Columns from which the shortest vectors of these instructions are filled well enough."""


@dataclass(frozen=True, slots=True, eq=False)
class Groups:
    """How steps are grouped: ``size`` steps to a word, accumulated by ``builtin``.

    ``factors`` are left and right without widening conversions, ``packed_dtypes`` the dtypes that
    the builtin takes. With ``flips``, the left one is packed with its highest bit flipped.
    """

    size: int
    builtin: str
    factors: tuple[PrimExpr, PrimExpr]
    packed_dtypes: tuple[DataType, DataType]
    flips: bool
    pad: int = 1
    """The number of words is padded to a multiple of this."""

    def multiply_add(self, x: PrimExpr, y: PrimExpr, z: PrimExpr) -> PrimExpr:
        """Add the products of the groups in words of ``x`` and ``y`` to ``z``."""
        made = [
            call_builtin("reinterpret", v, dtype=packed.with_lanes(self.size * v.dtype.lanes))
            for v, packed in zip((x, y), self.packed_dtypes)
        ]
        return call_builtin(self.builtin, *made, z)

    def plan_packing(
        self,
        side: Side,
        value: Callable[[AxisValues, PrimExpr], PrimExpr],
        factor: PrimExpr,
        reduced: tuple[Axis, ...],
        lanes: int,
    ) -> Packing:
        """Describe how words are packed from the elements that ``value`` gives by step."""
        size = self.size
        flips = self.flips and side.name == "left"
        extent, known = extent_of(reduced), size_of(reduced)
        near = [axis for axis in reduced if axis.size != 1][-1:]
        whole_words = len(reduced) == 1 or (near and (near[0].size or 1) % size == 0)
        run = bool(whole_words) and is_contiguous_along(factor, near)

        def word(place: AxisValues, k: PrimExpr) -> PrimExpr:
            first = mul(k, imm64(size))
            if run:
                return _pack_words(load_vector(factor, value(place, first), size), flips)
            parts = [value(place, add(first, imm64(i))) for i in range(size)]
            return _pack_words(_concatenate(parts), flips)

        def pack_last_group(place: AxisValues, k: PrimExpr) -> PrimExpr:
            parts: list[PrimExpr] = []
            for i in range(size):
                step = add(mul(k, imm64(size)), imm64(i))
                one = value(place, step)
                zero = const(0, one.dtype)
                parts.append(Call(one.dtype, IF_THEN_ELSE, (LT(step, extent), one, zero)))
            return _pack_words(_concatenate(parts), flips)

        def pack_along(place: AxisValues, k: PrimExpr) -> PrimExpr:
            element = value(place, mul(k, imm64(size)))
            return _pack_words(load_vector(factor, element, lanes * size), flips)

        def across(place: AxisValues, k: PrimExpr) -> PrimExpr:
            first = mul(k, imm64(size))
            rows = [
                load_vector(factor, value(place, add(first, imm64(i))), lanes) for i in range(size)
            ]
            order = [i * lanes + lane for lane in range(lanes) for i in range(size)]
            mixed = Shuffle((_concatenate(rows),), tuple(IntImm(lane, WORD) for lane in order))
            return _pack_words(mixed, flips)

        complete = None
        if known is None or known % (size * self.pad):
            complete = FloorDiv(extent, imm64(size)) if known is None else imm64(known // size)
        return Packing(
            side,
            word,
            lanes,
            False,
            pack_along if is_contiguous_along(factor, reduced) else None,
            across if is_contiguous_along(factor, side.axes) else None,
            pack_last_group,
            complete,
            steps=lanes,
        )

    def correct_flips(
        self,
        packed: Buffer,
        at: tuple[PrimExpr, ...],
        depth: PrimExpr,
        starts: Buffer,
        lanes: int,
    ) -> Stmt:
        """Sum a packed tile of the right operand, to correct for flipped bits of the left one."""
        width = packed.shape[-1]
        assert isinstance(width, IntImm)
        total = scratch("total", (lanes,), WORD, scope="local")
        here = ramp(imm64(0), lanes)
        flip = Broadcast(const(_FLIP, WORD), lanes)

        def correct_vector(v: PrimExpr) -> Stmt:
            place = ramp(mul(v, imm64(lanes)), lanes)

            def step(k: PrimExpr) -> Stmt:
                read = BufferLoad(packed, (*at, k, place))
                return BufferStore(
                    total, self.multiply_add(flip, read, BufferLoad(total, (here,))), (here,)
                )

            zero = Broadcast(const(0, WORD), lanes)
            taken = Sub(zero, BufferLoad(total, (here,)))
            return allocate(
                [total],
                BufferStore(total, zero, (here,)),
                loop("k", depth, step),
                BufferStore(starts, taken, (at[0], place)),
            )

        return loop("v", width.value // lanes, correct_vector)


def find_dot_groups(found: Contraction, target: Target) -> Groups | None:
    """Choose dot-product instructions for a product of narrow types, where the target has them."""
    m, n = size_of(found.rows), size_of(found.columns)
    if (m is not None and m < _FEWEST_ROWS) or (n is not None and n < _FEWEST_COLUMNS):
        return None
    if found.ordered:
        return None
    left, right = strip_widening(found.left), strip_widening(found.right)
    one, other = left.dtype, right.dtype
    # Machines with AMX run one pair in the time of four FMAs: widening is faster there.
    pairs = target.has("avx512_bf16") and not target.has("amx_bf16")
    if found.dtype is _FLOAT32 and one is other is _BFLOAT16 and pairs:
        return Groups(2, "dp2a", (left, right), (one, other), False)
    bytes_ = (_INT8, _UINT8)
    if found.dtype is WORD and one in bytes_ and other in bytes_:
        packed = _find_packed_bytes(target, one, other)
        if packed is not None:
            return Groups(4, "dp4a", (left, right), (packed, other), packed is not one)
    return None


def _find_packed_bytes(target: Target, left: DataType, right: DataType) -> DataType | None:
    """Return what bytes of the left operand an instruction takes with those of the right one.

    None where the target has no such instruction.
    """
    opposite = _UINT8 if right is _INT8 else _INT8
    if target.has("avx512_vnni" if target.vector_bits > 256 else "avx_vnni"):
        return opposite
    if target.has("i8mm"):
        return left
    return right if target.has("asimddp") else None


def strip_widening(factor: PrimExpr) -> PrimExpr:
    """Strip conversions that preserve every value."""
    while isinstance(factor, Cast):
        to, of = factor.dtype, factor.value.dtype
        if of.is_bool or not _preserves_values(of, to):
            break
        factor = factor.value
    return factor


def _preserves_values(of: DataType, to: DataType) -> bool:
    if of.is_float and to.is_float:
        return of.bits < to.bits or of is to
    if not (of.is_integer and to.is_integer):
        return False
    return of is to or (of.bits < to.bits and (of.is_uint or to.is_int))


def _concatenate(parts: list[PrimExpr]) -> PrimExpr:
    """Concatenate scalars or vectors, as many as a power of two."""
    while len(parts) > 1:
        parts = [
            call_builtin("vectorcombine", low, high) for low, high in zip(parts[::2], parts[1::2])
        ]
    return parts[0]


def _pack_words(parts: PrimExpr, flips: bool) -> PrimExpr:
    lanes = parts.dtype.bits * parts.dtype.lanes // WORD.bits
    made: PrimExpr = call_builtin("reinterpret", parts, dtype=WORD.with_lanes(lanes))
    if not flips:
        return made
    flip: PrimExpr = const(_FLIP, WORD)
    return call_builtin("bitwise_xor", made, flip if lanes == 1 else Broadcast(flip, lanes))
