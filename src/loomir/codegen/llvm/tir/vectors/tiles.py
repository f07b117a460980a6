"""Emit products of tiles: by the CPU's matrix unit (AMX) if it has one, else by plain vectors.

Both give the same bits. LLVM configures the unit's tile shapes on entry to a function that uses it
and again after calls, and releases the unit on exit.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from loomir.codegen.llvm.assembler.builder import Builder
from loomir.codegen.llvm.assembler.types import AMX, FLOAT, I8, I16, I32, I64, VOID
from loomir.codegen.llvm.assembler.values import NOTHING, Value, const, zero
from loomir.codegen.llvm.math.floats import cast
from loomir.codegen.llvm.math.fused_multiply_add import multiply_add
from loomir.codegen.llvm.tir.constants import constant_of
from loomir.codegen.llvm.tir.frame import FunctionFrame
from loomir.codegen.llvm.tir.vectors.dots import dot_bytes, flush_subnormals, widen_half
from loomir.ir.visit import Step
from loomir.support.dtype import DataType
from loomir.tir.builtins.tiles import TILE, TILE_BYTES
from loomir.tir.expr import Call

__all__ = ["dot_tiles"]

_INT64: Final = DataType("int64")
_ROWS: Final = const(I16, TILE)
_BYTES: Final = const(I16, TILE_BYTES)


def dot_tiles(frame: FunctionFrame, e: Call) -> Step[Value]:
    """Emit a product of packed factors."""
    pointers: list[Value] = []
    for part in e.args[:3]:
        pointer: Value = yield frame.value(part)
        pointers.append(pointer)
    count: Value = yield frame.value(e.args[3])
    b = frame.b
    steps = cast(b, count, e.args[3].dtype, _INT64)
    rows, columns, fresh = (constant_of(e.args[i]) for i in (4, 5, 8))
    assert isinstance(rows, int)
    assert isinstance(columns, int)
    dtypes = e.args[6].dtype, e.args[7].dtype
    needed = "amx_bf16" if dtypes[0].is_bfloat else "amx_int8"
    emit = _multiply_by_tiles if needed in b.module.features else _multiply_by_vectors
    emit(b, pointers, steps, (rows, columns), dtypes, bool(fresh))
    return NOTHING


def _advance(b: Builder, pointer: Value, offset: Value | int) -> Value:
    if offset == 0:
        return pointer
    return b.gep(I8, pointer, const(I64, offset) if isinstance(offset, int) else offset)


def _repeat(
    b: Builder,
    count: Value,
    starts: list[Value],
    body: Callable[[Value, list[Value]], list[Value]],
) -> list[Value]:
    """Emit a loop; ``body`` computes the next iteration's values from its number and the values."""
    origin = b.block
    head, inside, after = b.append("steps"), b.append("step"), b.append("stepped")
    b.br(head)
    b.position_at_end(head)
    i = b.phi(I64)
    i.add(const(I64, 0), origin)
    phis = [b.phi(start.type) for start in starts]
    for phi, start in zip(phis, starts):
        phi.add(start, origin)
    b.condbr(b.icmp("slt", i, count), inside, after)
    b.position_at_end(inside)
    made = body(i, list(phis))
    following = b.add(i, const(I64, 1))
    for phi, value in zip((i, *phis), (following, *made)):
        phi.add(value, b.block)
    b.br(head)
    b.position_at_end(after)
    return list(phis)


# -- by the unit -------------------------------------------------------------------------------
def _multiply_by_tiles(
    b: Builder,
    pointers: list[Value],
    steps: Value,
    size: tuple[int, int],
    dtypes: tuple[DataType, DataType],
    fresh: bool,
) -> None:
    sums, left, right = pointers
    rows, columns = size
    name = "llvm.x86.tdpbf16ps.internal"
    if not dtypes[0].is_bfloat:
        signs = "".join("s" if d.is_int else "u" for d in dtypes)
        name = f"llvm.x86.tdpb{signs}d.internal"

    def load(pointer: Value, offset: int, stride: int) -> Value:
        args = [_ROWS, _BYTES, _advance(b, pointer, offset), const(I64, stride)]
        return b.intrinsic("llvm.x86.tileloadd64.internal", args, result=AMX, overloads=())

    # Tiles of sums by their byte offset; a tile of columns is 16 sums wide.
    wide = columns * 4
    places = [
        (r, c, r * wide + c * 4) for r in range(0, rows, TILE) for c in range(0, columns, TILE)
    ]

    def start(offset: int) -> Value:
        if not fresh:
            return load(sums, offset, wide)
        shape = [_ROWS, _BYTES]
        return b.intrinsic("llvm.x86.tilezero.internal", shape, result=AMX, overloads=())

    def step(k: Value, accs: list[Value]) -> list[Value]:
        ours = _advance(b, left, b.mul(k, const(I64, rows * TILE_BYTES)))
        theirs = _advance(b, right, b.mul(k, const(I64, TILE * wide)))
        loaded: dict[tuple[str, int], Value] = {}
        made: list[Value] = []
        for (r, c, _), acc in zip(places, accs):
            # Each factor is loaded just before its first product: the unit is busy meanwhile.
            if ("left", r) not in loaded:
                loaded["left", r] = load(ours, r * TILE_BYTES, TILE_BYTES)
            if ("right", c) not in loaded:
                loaded["right", c] = load(theirs, c * 4, wide)
            factors = [loaded["left", r], loaded["right", c]]
            args = [_ROWS, _BYTES, _BYTES, acc, *factors]
            made.append(b.intrinsic(name, args, result=AMX, overloads=()))
        return made

    ends = _repeat(b, steps, [start(offset) for _, _, offset in places], step)
    for (_, _, offset), end in zip(places, ends):
        args = [_ROWS, _BYTES, _advance(b, sums, offset), const(I64, wide), end]
        b.intrinsic("llvm.x86.tilestored64.internal", args, result=VOID, overloads=())


# -- by vectors --------------------------------------------------------------------------------
def _multiply_by_vectors(
    b: Builder,
    pointers: list[Value],
    steps: Value,
    size: tuple[int, int],
    dtypes: tuple[DataType, DataType],
    fresh: bool,
) -> None:
    """Compute the sums vector by vector of each row; the inner loop runs over the steps."""
    sums, left, right = pointers
    rows, columns = size
    words = I32.with_lanes(TILE)
    sum_type = (FLOAT if dtypes[0].is_bfloat else I32).with_lanes(TILE)

    def products(pair: list[Value], acc: list[Value]) -> list[Value]:
        if dtypes[0].is_bfloat:
            parts = [
                [flush_subnormals(b, widen_half(b, w, second)) for w in pair]
                for second in (False, True)
            ]
            return [flush_subnormals(b, multiply_add(b, x, y, a)) for (x, y), a in zip(parts, acc)]
        return [dot_bytes(b, (pair[0], pair[1]), (dtypes[0].is_int, dtypes[1].is_int), acc[0])]

    def multiply_vector(number: Value, none: list[Value]) -> list[Value]:
        row = b.udiv(number, const(I64, columns // TILE))
        part = b.urem(number, const(I64, columns // TILE))
        place = _advance(b, sums, b.mul(number, const(I64, TILE * 4)))
        ours = _advance(b, left, b.mul(row, const(I64, TILE_BYTES)))
        theirs = _advance(b, right, b.mul(part, const(I64, TILE * 4)))

        def step(k: Value, accs: list[Value]) -> list[Value]:
            def group(i: Value, acc: list[Value]) -> list[Value]:
                at = b.add(b.mul(k, const(I64, TILE)), i)
                word_at = b.add(b.mul(k, const(I64, rows * TILE)), i)
                word = b.load(I32, _advance(b, ours, b.mul(word_at, const(I64, 4))), align=1)
                row_at = b.mul(at, const(I64, columns * 4))
                other = b.load(words, _advance(b, theirs, row_at), align=1)
                return products([b.splat(word, TILE), other], acc)

            if not dtypes[0].is_bfloat:
                return _repeat(b, const(I64, TILE), accs, group)
            none = const(sum_type, 0.0)
            both = _repeat(b, const(I64, TILE), [none, none], group)
            more = flush_subnormals(b, b.fadd(*both))
            return [flush_subnormals(b, b.fadd(flush_subnormals(b, accs[0]), more))]

        start = zero(sum_type) if fresh else b.load(sum_type, place, align=1)
        (end,) = _repeat(b, steps, [start], step)
        b.store(end, place, align=1)
        return []

    _repeat(b, const(I64, rows * columns // TILE), [], multiply_vector)
