"""Inline element-wise producers within a fused kernel.

The loop nests of a fused kernel run one after another. A nest that computes each element of a
buffer independently is removed, and its expression replaces the loads of the buffer if

- one statement loads it, no more often than it was computed; or
- the expression is cheap (no division, no call), and few statements load it.

A value that a statement would then compute twice is computed once. Each operation still rounds to
its own dtype, so results keep their bits, except for those of a NaN.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from loomir.arith.analyzer import Analyzer
from loomir.ir.node import Node
from loomir.ir.substitution import substitute
from loomir.ir.visit import by_class, children, rewrite
from loomir.tir.analysis.access_regions import infer_access_regions
from loomir.tir.buffer import Buffer, BufferLoad, IterVarType
from loomir.tir.expr import (
    And,
    Call,
    Div,
    FloorDiv,
    FloorMod,
    IntImm,
    Let,
    Mod,
    Or,
    PrimExpr,
    Var,
)
from loomir.tir.stmt import Block, BufferStore, For, LetStmt, SeqStmt, Stmt
from loomir.transform.relax.fusion.loop_nests import (
    Elements,
    elements_of,
    leaf_blocks,
    size_analyzer,
)

__all__ = ["inline_elements"]

_CHEAP: Final = 16
"""The most nodes of an expression that may be recomputed."""
_FEW: Final = 3
"""The most places at which it may be recomputed."""
_DIVISIONS: Final = (Div, FloorDiv, FloorMod, Mod)
_COSTLY: Final = (Call, *_DIVISIONS)


def inline_elements(
    stmts: Sequence[Stmt], buffers: Sequence[Buffer], between: Sequence[Buffer], output: Buffer
) -> tuple[tuple[Stmt, ...], tuple[Buffer, ...]]:
    """Inline nests of a kernel; return the remaining ones, and those of the buffers ``between``."""
    analyzer = size_analyzer(iter(buffers))
    nests = _Nests(stmts, analyzer)
    inner = {id(b) for b in between}
    for k in reversed(range(len(stmts))):
        elements = nests.elements[k]
        if elements is not None and id(elements.buffer) in inner:
            nests.inline(k, elements)
    _write_in_place(nests, between, output, analyzer)
    left = [s for s in nests.stmts if s is not None]
    used = _data_used(left)
    return tuple(left), tuple([b for b in between if id(b.data) in used])


def _data_used(stmts: Sequence[Stmt]) -> set[int]:
    """List the data variables that statements store to, load from or mention."""
    used: set[int] = set()
    for found in map(by_class, stmts):
        used |= {id(var) for var in found.get(Var, ())}
        for kind in (BufferStore, BufferLoad):
            used |= {id(access.buffer.data) for access in found.get(kind, ())}
    return used


class _Site:
    """Loads of a buffer at one place of a block."""

    __slots__ = ("free", "indices", "loads")

    def __init__(self, indices: tuple[PrimExpr, ...]) -> None:
        self.indices = indices
        self.loads: list[BufferLoad] = []
        self.free = False
        """Whether the block always evaluates one of the loads."""


class _Nests:
    def __init__(self, stmts: Sequence[Stmt], analyzer: Analyzer) -> None:
        self.stmts: list[Stmt | None] = list(stmts)
        self.elements = [elements_of(stmt, analyzer) for stmt in stmts]
        self.readers: dict[int, set[int]] = {}
        """The statements that load each buffer."""
        self.writers: dict[int, set[int]] = {}
        for k, stmt in enumerate(stmts):
            self._note(k, stmt)

    def _note(self, k: int, stmt: Stmt) -> None:
        found = by_class(stmt)
        for load in found.get(BufferLoad, ()):
            self.readers.setdefault(id(load.buffer), set()).add(k)
        for store in found.get(BufferStore, ()):
            self.writers.setdefault(id(store.buffer), set()).add(k)

    def inline(self, k: int, elements: Elements) -> None:
        """Inline a nest and remove it, if its expression can replace all loads of its buffer."""
        buffer = elements.buffer
        readers = sorted(self.readers.get(id(buffer), ()))
        if self.writers[id(buffer)] != {k} or any(reader < k for reader in readers):
            return
        for load in by_class(elements.value).get(BufferLoad, ()):
            if any(writer > k for writer in self.writers.get(id(load.buffer), ())):
                return  # its operands may be overwritten before
        plans: list[tuple[int, Block, list[_Site]]] = []
        for reader in readers:
            stmt = self.stmts[reader]
            if stmt is None:
                continue
            sites = _sites(stmt, buffer)
            if sites is None:
                return
            plans += [(reader, block, found) for block, found in sites]
        if not plans or not _is_worth(elements, plans):
            return
        for reader, block, found in plans:
            stmt = self.stmts[reader]
            assert stmt is not None
            made = _with_expression(block, elements, found)
            self.stmts[reader] = rewrite(
                stmt, {Block: lambda b, o=block, m=made: m if b is o else b}
            )
            self._note(reader, made)
        self.stmts[k] = None


def _is_worth(elements: Elements, plans: Sequence[tuple[int, Block, list[_Site]]]) -> bool:
    computed = not isinstance(elements.value, BufferLoad)
    if computed and any(_scatters(block, s.indices) for _, block, sites in plans for s in sites):
        return False
    places = 0
    covered = True
    lets = Let in by_class(elements.value)
    for _, block, sites in plans:
        for site in sites:
            repeats = 1 if site.free and _is_simple(block) else len(site.loads)
            places += repeats
            covered = covered and _covers(block, site.indices)
    if places == 1 and covered:
        return True
    if lets or places > _FEW:
        return False
    found = by_class(elements.value)
    if any(issubclass(cls, _COSTLY) for cls in found):
        return False
    return sum(map(len, found.values())) <= _CHEAP


def _covers(block: Block, indices: tuple[PrimExpr, ...]) -> bool:
    """Tell whether a block loads each element at most about once."""
    named = {v for index in indices for v in by_class(index).get(Var, ())}
    for it in block.iter_vars:
        extent = None if it.dom is None else it.dom.extent
        if it.var not in named and not (isinstance(extent, IntImm) and extent.value == 1):
            return False
    return not any(issubclass(cls, (For, SeqStmt)) for cls in by_class(block.body))


def _scatters(block: Block, indices: tuple[PrimExpr, ...]) -> bool:
    """Tell whether a reduction computes indices by division, as strided transposed convolutions do.

    It reads each element many times, and its schedule copies the elements first.
    """
    steps = {it.var for it in block.iter_vars if it.iter_type is IterVarType.COMM_REDUCE}
    return any(
        issubclass(cls, _DIVISIONS)
        and any(v in steps for node in nodes for v in by_class(node).get(Var, ()))
        for index in indices
        for cls, nodes in by_class(index).items()
    )


def _is_simple(block: Block) -> bool:
    """Tell whether a block only binds names and stores one element."""
    body = block.body
    while isinstance(body, LetStmt):
        body = body.body
    return isinstance(body, BufferStore)


def _sites(stmt: Stmt, buffer: Buffer) -> list[tuple[Block, list[_Site]]] | None:
    """List the places at which a statement loads a buffer; None if some cannot be replaced."""
    loads: list[BufferLoad] = by_class(stmt).get(BufferLoad, [])
    wanted = {id(load) for load in loads if load.buffer is buffer}
    result: list[tuple[Block, list[_Site]]] = []
    for block in leaf_blocks(stmt):
        found: dict[tuple[object, ...], _Site] = {}
        bound = _find_bound(block.body)
        for load, free in _loads(block.body):
            if load.buffer is not buffer:
                continue
            inner = [x for index in load.indices for x in by_class(index).get(BufferLoad, ())]
            if any(i.dtype.lanes != 1 for i in load.indices) or any(
                x.buffer is buffer for x in inner
            ):
                return None
            wanted.discard(id(load))
            site = found.setdefault(_key(load), _Site(load.indices))
            site.loads.append(load)
            names = {v for index in load.indices for v in by_class(index).get(Var, ())}
            site.free = site.free or (free and not names & bound)
            if names & bound and len(site.loads) > 1:
                site.free = False
        if found:
            result.append((block, list(found.values())))
    return None if wanted else result


def _find_bound(body: Stmt) -> set[Var]:
    found = by_class(body)
    lets = [n.var for cls in (LetStmt, Let) for n in found.get(cls, ())]
    return {*lets, *(loop.loop_var for loop in found.get(For, ()))}


def _loads(body: Stmt) -> Iterator[tuple[BufferLoad, bool]]:
    """List loads, each with whether it is evaluated whenever the body is."""
    stack: list[tuple[Node, bool]] = [(body, True)]
    while stack:
        node, free = stack.pop()
        if isinstance(node, BufferLoad):
            yield node, free
        parts = children(node)
        if isinstance(node, (And, Or)) or (isinstance(node, Call) and _is_choice(node)):
            stack.append((parts[0], free))
            stack += [(part, False) for part in parts[1:]]
        else:
            stack += [(part, free) for part in parts]


def _is_choice(call: Call) -> bool:
    return getattr(call.op, "name", "").endswith("if_then_else")


def _key(load: BufferLoad) -> tuple[object, ...]:
    """Return a key of a load's indices that is equal for equal ones."""
    found: list[object] = []
    stack: list[Node] = list(load.indices)
    while stack:
        node = stack.pop()
        if isinstance(node, Var):
            found.append(node)
        elif isinstance(node, IntImm):
            found.append((node.value, node.dtype))
        else:
            parts = children(node)
            extra = node if not parts else getattr(node, "buffer", getattr(node, "op", None))
            found.append((type(node), getattr(node, "dtype", None), extra, len(parts)))
            stack += parts
    return tuple(found)


def _with_expression(block: Block, elements: Elements, sites: Sequence[_Site]) -> Block:
    """Replace loads by an expression; equal loads share one that is bound to a name."""
    table: dict[int, PrimExpr] = {}
    bound: list[tuple[Var, PrimExpr]] = []
    for site in sites:
        value = substitute(elements.value, elements.bind_iterators(site.indices))
        if len(site.loads) > 1 and site.free and _is_simple(block):
            name = Var(elements.buffer.name, elements.value.dtype)
            bound.append((name, value))
            value = name
        for load in site.loads:
            table[id(load)] = value

    def value_of(load: BufferLoad) -> PrimExpr:
        return table.get(id(load), load)

    body = rewrite(block.body, {BufferLoad: value_of})
    for name, value in bound:
        body = LetStmt(name, value, body)
    reads, writes = infer_access_regions(body, block.init)
    return Block(
        block.iter_vars,
        reads,
        writes,
        block.name_hint,
        body,
        block.init,
        block.alloc_buffers,
        block.match_buffers,
        block.annotations,
        span=block.span,
    )


def _write_in_place(
    nests: _Nests, between: Sequence[Buffer], output: Buffer, analyzer: Analyzer
) -> None:
    """Let a buffer that the last nest reads and overwrites element by element be the output."""
    writing = [k for k in nests.writers.get(id(output), ()) if nests.stmts[k] is not None]
    if len(writing) != 1 or nests.readers.get(id(output)):
        return
    last = writing[0]
    stmt = nests.stmts[last]
    assert stmt is not None
    stores = [s for s in by_class(stmt).get(BufferStore, ()) if s.buffer is output]
    if elements_of(stmt, analyzer, with_names=True) is None or len(stores) != 1:
        return
    wanted = _key(BufferLoad(output, stores[0].indices))
    for buffer in between:
        readers = {k for k in nests.readers.get(id(buffer), ()) if nests.stmts[k] is not None}
        written = {k for k in nests.writers.get(id(buffer), ()) if nests.stmts[k] is not None}
        if not written or max(written) >= last or not _is_same(buffer, output, analyzer):
            continue
        loads = [x for x in by_class(stmt).get(BufferLoad, ()) if x.buffer is buffer]
        if (
            not loads
            or any(_key(load) != wanted for load in loads)
            or not readers <= {last, *written}
        ):
            continue
        for k in sorted(readers | written):
            part = nests.stmts[k]
            assert part is not None
            nests.stmts[k] = _rename(part, buffer, output)
        return


def _is_same(buffer: Buffer, output: Buffer, analyzer: Analyzer) -> bool:
    if buffer.dtype is not output.dtype or len(buffer.shape) != len(output.shape):
        return False
    return all(analyzer.can_prove_equal(a, b) for a, b in zip(buffer.shape, output.shape))


def _rename(stmt: Stmt, old: Buffer, new: Buffer) -> Stmt:
    return substitute(stmt, {old: new, old.data: new.data})
