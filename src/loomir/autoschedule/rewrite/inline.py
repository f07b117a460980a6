"""Inline element-wise producers into their consumers (``compute_inline``).

A producer is inlined if it is then computed no more often than before, or if it is cheap. Each
operation still rounds to its own dtype, so that results keep their bits.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from loomir.arith.fold import imm64, int64
from loomir.autoschedule.builders.evaluate import value_at
from loomir.autoschedule.ir.stage import Combine, LiftedFunction, Stage
from loomir.autoschedule.rewrite.affine_guards import affine_form
from loomir.autoschedule.rewrite.def_use import Usage, reads_of
from loomir.ir.equality import structural_equal
from loomir.ir.visit import by_class, rewrite
from loomir.tir.buffer import Buffer, BufferLoad
from loomir.tir.builtins.table import IF_THEN_ELSE
from loomir.tir.expr import Call, Div, FloorDiv, FloorMod, IntImm, Let, Mod, Mul, PrimExpr, Var

__all__ = ["inline_stages"]

_CHEAP: Final = 24
"""Nodes of an expression that is cheap enough to be computed several times."""
_FEW: Final = 3
"""Uses up to which a cheap expression may be computed again at each."""
_LARGE: Final = 512
"""Nodes that an expression may grow to: a chain of any length is inlined in linear time."""
_COSTLY: Final = (Div, FloorDiv, FloorMod, Mod)


def inline_stages(kernel: LiftedFunction) -> LiftedFunction:
    """Inline stages whose buffers only live within the function into the stages that read them."""
    usage = Usage(kernel.parts)
    inner = {id(b.data) for b in kernel.between}
    for k in reversed(range(len(kernel.parts))):
        part = usage.parts[k]
        if isinstance(part, Stage) and id(part.buffer.data) in inner and _is_whole(part):
            _inline(usage, k, part)
    left = tuple(part for part in usage.parts if part is not None)
    if len(left) == len(kernel.parts):
        return kernel
    used = usage.memory()
    between = tuple(b for b in kernel.between if id(b.data) in used)
    return LiftedFunction(kernel.func, left, between)


def _is_whole(stage: Stage) -> bool:
    """Whether a stage computes each element of its buffer on its own."""
    if stage.combine is not Combine.NONE or stage.in_place or stage.reduced:
        return False
    extents = {axis.var: axis.extent for axis in stage.axes}
    for index, extent in zip(stage.indices, stage.buffer.shape):
        if isinstance(index, Var) and index in extents:
            if not structural_equal(extents[index], int64(extent)):
                return False
        elif not (isinstance(index, IntImm) and isinstance(extent, IntImm) and extent.value == 1):
            return False
    return True


def _inline(usage: Usage, k: int, stage: Stage) -> None:
    data = id(stage.buffer.data)
    if any(place != k for place in usage.writers(data)):
        return
    readers: list[tuple[int, Stage]] = []
    for place in usage.readers(data):
        part = usage.parts[place]
        if place == k:
            continue
        if place < k or not isinstance(part, Stage) or part.buffer is stage.buffer:
            return
        readers.append((place, part))
    if not readers:
        return
    last = readers[-1][0]
    for source in reads_of(stage) - {data}:
        if any(k < place < last for place in usage.writers(source)):
            return  # what it is made of does not stay
    if any(reader.buffer.data is load for _, reader in readers for load in _sources(stage)):
        return  # the reader would read what it writes
    if not _is_worth(stage, readers):
        return
    for place, reader in readers:
        usage.put(place, _substitute_loads(reader, stage))
    usage.put(k, None)


def _sources(stage: Stage) -> list[Var]:
    return [p.buffer.data for p in by_class(stage.value).get(BufferLoad, ())]


def _loads(stage: Stage, buffer: Buffer) -> list[BufferLoad]:
    values = [stage.value] if stage.init is None else [stage.value, stage.init]
    found = [p for v in values for p in by_class(v).get(BufferLoad, ())]
    return [p for p in found if p.buffer.data is buffer.data]


def _is_worth(stage: Stage, readers: list[tuple[int, Stage]]) -> bool:
    sites = [(reader, load) for _, reader in readers for load in _loads(reader, stage.buffer)]
    if any(load.buffer is not stage.buffer or load.dtype.lanes != 1 for _, load in sites):
        return False
    found = by_class(stage.value)
    size = sum(map(len, found.values()))
    if any(size + _size(reader.value) > _LARGE for reader, _ in sites):
        return False
    padded = any(call.op is IF_THEN_ELSE for call in found.get(Call, ()))
    if padded and any(_repeats(*site) for site in sites):
        return False  # borders are asked for once, not at each step of a product
    if not isinstance(stage.value, BufferLoad) and any(_scatters(*site) for site in sites):
        return False  # each element is read at many steps, each behind a division
    if len(sites) == 1 and _covers(*sites[0]):
        return True
    if _is_view(stage) and all(_covers(*site) for site in sites):
        return True
    if Let in found or len(sites) > _FEW:
        return False
    for cls, nodes in found.items():
        if issubclass(cls, _COSTLY):
            return False
        if issubclass(cls, Call) and any(node.op is not IF_THEN_ELSE for node in nodes):
            return False
    return size <= _CHEAP


def _is_view(stage: Stage) -> bool:
    """Whether a stage only passes elements on, contiguous rows as such: a copy gains nothing."""
    load = stage.value
    if not isinstance(load, BufferLoad) or not load.indices or not stage.indices:
        return False
    last = stage.indices[-1]
    *outer, along = (affine_form(int64(index), stage.axes) for index in load.indices)
    if not isinstance(last, Var) or along is None or along.terms.get(last) != 1:
        return False
    return all(form is not None and last not in form.terms for form in outer)


def _size(value: PrimExpr) -> int:
    return sum(map(len, by_class(value).values()))


def _covers(reader: Stage, load: BufferLoad) -> bool:
    """Whether a stage loads each element at most about once."""
    named = {v for index in load.indices for v in by_class(index).get(Var, ())}
    axes = (*reader.axes, *reader.reduced)
    return all(axis.var in named or axis.size == 1 for axis in axes)


def _repeats(reader: Stage, load: BufferLoad) -> bool:
    """Whether a sum runs along an axis that shifts no window, such as the channels of an image."""
    own = {axis.var for axis in reader.axes}
    left = {axis.var for axis in reader.reduced if axis.size != 1}
    if not isinstance(reader.value, Mul) or reader.combine is not Combine.SUM:
        return False
    for index in load.indices:
        form = affine_form(int64(index), (*reader.axes, *reader.reduced))
        if form is not None and form.terms.keys() & own:
            left -= form.terms.keys()
    return bool(left)


def _scatters(reader: Stage, load: BufferLoad) -> bool:
    """Whether a sum divides to find its elements, as a transposed convolution with a stride."""
    if reader.combine is not Combine.SUM:
        return False
    steps = {axis.var for axis in reader.reduced}
    return any(
        issubclass(cls, _COSTLY)
        and any(v in steps for node in nodes for v in by_class(node).get(Var, ()))
        for index in load.indices
        for cls, nodes in by_class(index).items()
    )


def _substitute_loads(reader: Stage, stage: Stage) -> Stage:
    def value_of(load: BufferLoad) -> PrimExpr:
        if load.buffer is not stage.buffer:
            return load
        table: dict[Var, PrimExpr] = {axis.var: imm64(0) for axis in stage.axes}  # of one value
        pairs = zip(stage.indices, load.indices)
        table.update({i: int64(e) for i, e in pairs if isinstance(i, Var)})
        return value_at(stage.value, table)

    value = rewrite(reader.value, {BufferLoad: value_of})
    init = None if reader.init is None else rewrite(reader.init, {BufferLoad: value_of})
    return replace(reader, value=value, init=init)
