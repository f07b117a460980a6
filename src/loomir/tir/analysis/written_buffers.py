"""Find the buffers that a function may write."""

from __future__ import annotations

from typing import NamedTuple

from loomir.ir.module import GlobalVar, IRModule
from loomir.ir.visit import pre_order
from loomir.tir.buffer import Buffer
from loomir.tir.expr import Call, Var
from loomir.tir.function import PrimFunc
from loomir.tir.stmt import Block, BufferStore

__all__ = ["written_buffers"]


class _Uses(NamedTuple):
    """The uses of data in one function: written, escaping, and passed to calls."""

    written: dict[int, Buffer]
    passed: list[tuple[int, str, int]]
    by_data: dict[int, Buffer]


def written_buffers(
    func: PrimFunc, module: IRModule | None = None, *, escaping: bool = True
) -> list[Buffer]:
    """List the buffers that the function may write, in order of first mention.

    A write through a ``match_buffer`` counts for its source. A buffer handed to a function of
    ``module`` counts where that function may write it; without a module every such buffer counts.
    A buffer whose pointer goes elsewhere counts where ``escaping``.
    """
    uses = {func.name: _uses_of(func, escaping)}
    pending = [func.name]
    while pending and module is not None:
        for _, name, _ in uses[pending.pop()].passed:
            if name not in uses and name in module:
                callee = module[name]
                if isinstance(callee, PrimFunc):
                    uses[name] = _uses_of(callee, escaping)
                    pending.append(name)
    changed = True
    while changed:
        changed = False
        for use in uses.values():
            for data, name, position in use.passed:
                if data not in use.written and _writes(uses, module, name, position):
                    use.written[data] = use.by_data[data]
                    changed = True
    return list(uses[func.name].written.values())


def _writes(uses: dict[str, _Uses], module: IRModule | None, name: str, position: int) -> bool:
    """Tell whether a function may write the buffer of a parameter, as far as it is analysed."""
    if module is None or name not in uses:
        return True
    callee = module[name]
    if not isinstance(callee, PrimFunc) or position >= len(callee.params):
        return True
    buffer = callee.buffer_map.get(callee.params[position])
    return buffer is None or id(buffer.data) in uses[name].written


def _uses_of(func: PrimFunc, escaping: bool) -> _Uses:
    by_data: dict[int, Buffer] = {id(b.data): b for b in func.buffer_map.values()}
    source: dict[int, Buffer] = {}
    stored: list[Buffer] = []
    passed: list[tuple[int, str, int]] = []
    mentions: dict[int, int] = {}
    for part in pre_order(func.body):
        if isinstance(part, Block):
            for match in part.match_buffers:
                source[id(match.buffer.data)] = match.source.buffer
                by_data[id(match.buffer.data)] = match.buffer
        elif isinstance(part, BufferStore):
            stored.append(part.buffer)
        elif isinstance(part, Call) and isinstance(part.op, GlobalVar):
            for position, arg in enumerate(part.args):
                if isinstance(arg, Var) and id(arg) in by_data:
                    passed.append((id(arg), part.op.name_hint, position))
                    mentions[id(arg)] = mentions.get(id(arg), 0) - 1
        elif isinstance(part, Var) and id(part) in by_data:
            mentions[id(part)] = mentions.get(id(part), 0) + 1
    if escaping:  # a pointer that goes anywhere else may be written through
        stored += [by_data[data] for data, count in mentions.items() if count > 0]
    written: dict[int, Buffer] = {}
    for buffer in stored:
        at: Buffer | None = buffer
        while at is not None and id(at.data) not in written:
            written[id(at.data)] = at
            at = source.get(id(at.data))
    handed = [
        (id(root.data), name, position)
        for data, name, position in passed
        for root in _roots(by_data[data], source)
    ]
    by_data.update((id(b.data), b) for b in source.values())
    return _Uses(written, handed, by_data)


def _roots(buffer: Buffer, source: dict[int, Buffer]) -> list[Buffer]:
    """List a buffer and those of whose memory it is a view."""
    chain = [buffer]
    while id(chain[-1].data) in source:
        chain.append(source[id(chain[-1].data)])
    return chain
