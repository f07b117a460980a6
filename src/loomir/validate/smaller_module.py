"""Shrink the constant sizes of a program that would run for too long."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

from loomir.ir.module import IRModule
from loomir.ir.visit import by_class, rebuild, rewrite
from loomir.tir.buffer import Buffer, BufferLoad, BufferRegion, MatchBufferRegion
from loomir.tir.expr import IntImm
from loomir.tir.function import PrimFunc
from loomir.tir.stmt import Block, BufferRealize, BufferStore, DeclBuffer, For

__all__ = ["SmallerModule", "smaller_ones"]

_STEP: Final = 16
"""Smaller sizes keep the remainder modulo this number, a usual width of vectors and tiles."""
_LARGEST: Final = (64, 32, 16, 0, -8, -6, -4, -3)
"""Sizes from which on smaller ones are put in their place, the best first.

Of those below 0, no size is larger than that, whatever it leaves.
"""
_FACTORS: Final = 16
_NEAR: Final = (2, 6)
"""Sizes that are so much larger than others, small and large ones, are those with a border."""
_SMALL: Final = 24


class SmallerModule(NamedTuple):
    """A module with other sizes, and the table of replaced sizes."""

    module: IRModule
    sizes: tuple[tuple[int, int], ...]


def smaller_ones(module: IRModule, name: str) -> Iterator[SmallerModule]:
    """Yield modules in which a function has smaller and smaller sizes.

    A number is replaced wherever it occurs; expressions that depend on it otherwise may not fit.
    """
    func = module[name]
    assert isinstance(func, PrimFunc)
    last: dict[int, int] = {}
    for largest in _LARGEST:
        table = _table(_sizes(func), largest)
        if not table or table == last:
            continue
        last = table
        more = {old + by: new + by for old, new in table.items() for by in (-1, 1)} | table
        more |= {-old: -new for old, new in table.items()}

        def replace_size(number: IntImm, table: dict[int, int] = more) -> IntImm:
            size = table.get(number.value)
            return number if size is None else IntImm(size, number.dtype, span=number.span)

        functions = {
            var: _resize(one, replace_size) if isinstance(one, PrimFunc) else one
            for var, one in module.functions.items()
        }
        yield SmallerModule(module.with_functions(functions), tuple(table.items()))


def _resize(func: PrimFunc, replace_size: Callable[[IntImm], IntImm]) -> PrimFunc:
    """Change numbers in a function and in its buffers."""
    numbers = {IntImm: replace_size}
    known: dict[int, tuple[Buffer, Buffer]] = {}

    def resize_buffer(buffer: Buffer) -> Buffer:
        if id(buffer) not in known:
            parts: dict[str, Any] = {
                "shape": tuple(rewrite(e, numbers) for e in buffer.shape),
                "strides": tuple(rewrite(e, numbers) for e in buffer.strides),
            }
            known[id(buffer)] = buffer, rebuild(buffer, parts)
        return known[id(buffer)][1]

    def access(node: Any) -> Any:
        return rebuild(node, {"buffer": resize_buffer(node.buffer)})

    def block(node: Block) -> Block:
        return rebuild(node, {"alloc_buffers": tuple(map(resize_buffer, node.alloc_buffers))})

    kinds = (BufferLoad, BufferStore, BufferRegion, DeclBuffer, BufferRealize, MatchBufferRegion)
    rules: dict[type, Any] = {**numbers, **dict.fromkeys(kinds, access), Block: block}
    buffers = {param: resize_buffer(buffer) for param, buffer in func.buffer_map.items()}
    body = rewrite(func.body, rules)
    return PrimFunc(func.params, body, func.ret_type, buffers, func.attrs, span=func.span)


def _sizes(func: PrimFunc) -> list[int]:
    """List the numbers that are extents of arrays and loops, in order."""
    found = by_class(func)
    extents = [extent for b in found.get(Buffer, ()) for extent in b.shape]
    extents += [extent for b in func.buffer_map.values() for extent in b.shape]
    extents += [loop.extent for loop in found.get(For, ())]
    return sorted({e.value for e in extents if isinstance(e, IntImm)})


def _table(sizes: list[int], largest: int) -> dict[int, int]:
    """Choose a smaller number for each size; near sizes stay near, and products stay products."""
    table: dict[int, int] = {}
    fresh = largest
    for size in sizes:
        if size <= (largest + _STEP if largest >= 0 else -largest):
            continue
        new = _find_related_size(size, table)
        if new is None and largest >= 0:
            new = fresh + (size % _STEP or _STEP)
            fresh += _STEP
        elif new is None:
            new = max(2, -fresh)
            fresh += 1
        if new < size:
            table[size] = new
    return table


def _find_related_size(size: int, table: dict[int, int]) -> int | None:
    for old, new in table.items():
        if size - old <= _NEAR[size > _SMALL]:
            return new + size - old
    for old, new in table.items():
        if size % old:
            continue
        factor = size // old
        if factor in table:
            return new * table[factor]
        if factor <= _FACTORS:
            return new * factor
    return None
