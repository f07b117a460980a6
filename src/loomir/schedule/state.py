"""The program under schedule, with references to its loops and blocks that survive edits.

A program is a value: an edit replaces a subtree and shares the rest. A ``Ref`` names a loop or
block of the latest program. An edit visits the new parts of the subtree, the removed ones, and the
path up to the function, but no other nests.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from loomir.ir.module import IRModule
from loomir.ir.visit import children, rebuild
from loomir.schedule.refusal import replace_part
from loomir.support.diagnostics import InternalError
from loomir.tir.function import PrimFunc
from loomir.tir.stmt import TRUE, Block, BlockRealize, For, Stmt

__all__ = ["FunctionState", "Ref", "State", "directly_below", "with_root_block"]


class Ref:
    """A loop or a block of the program under schedule; ``stmt`` is None once it is gone."""

    __slots__ = ("home", "parent", "stmt")

    def __init__(self, stmt: For | BlockRealize, parent: Ref | None, home: FunctionState) -> None:
        self.stmt: For | BlockRealize | None = stmt
        self.parent = parent
        self.home = home

    @property
    def is_loop(self) -> bool:
        """Whether it is a loop."""
        return isinstance(self.stmt, For)

    @property
    def loop(self) -> For:
        """The loop that it is."""
        if not isinstance(self.stmt, For):
            raise InternalError("this reference is not a loop")
        return self.stmt

    @property
    def realize(self) -> BlockRealize:
        """The block that it is, with its bindings."""
        if not isinstance(self.stmt, BlockRealize):
            raise InternalError("this reference is not a block")
        return self.stmt

    @property
    def block(self) -> Block:
        """The block that it is."""
        return self.realize.block

    # -- what is around ------------------------------------------------------------------------
    def list_around(self) -> Iterator[Ref]:
        """List the loops and blocks around it, innermost first."""
        at = self.parent
        while at is not None:
            yield at
            at = at.parent

    @property
    def scope(self) -> Ref:
        """The innermost block around it; the root's scope is the root itself."""
        return next((r for r in self.list_around() if not r.is_loop), self)

    def loops(self) -> list[Ref]:
        """List the loops between it and its scope, outermost first."""
        found: list[Ref] = []
        for ref in self.list_around():
            if not ref.is_loop:
                break
            found.append(ref)
        found.reverse()
        return found

    # -- what is inside ------------------------------------------------------------------------
    def list_below(self) -> list[Ref]:
        """List the loops and blocks directly below, in program order."""
        stmt = self.stmt
        return [] if stmt is None else [self.home.ref(s) for s in directly_below(stmt)]

    def blocks(self) -> list[Ref]:
        """List the blocks below it of one scope: none inside of others, in program order."""
        found: list[Ref] = []
        stack = self.list_below()[::-1]
        while stack:
            ref = stack.pop()
            if ref.is_loop:
                stack.extend(reversed(ref.list_below()))
            else:
                found.append(ref)
        return found


def directly_below(stmt: Stmt) -> list[For | BlockRealize]:
    """List the outermost loops and blocks inside of a statement, in program order."""
    found: list[For | BlockRealize] = []
    stack = [part for part in reversed(children(stmt)) if isinstance(part, Stmt)]
    while stack:
        node = stack.pop()
        if isinstance(node, (For, BlockRealize)):
            found.append(node)
        else:
            stack.extend(part for part in reversed(children(node)) if isinstance(part, Stmt))
    return found


def with_root_block(func: PrimFunc) -> PrimFunc:
    """Return the function with a block as its body, which it has already unless built by hand."""
    body = func.body
    if isinstance(body, BlockRealize) and not body.block.iter_vars:
        return func
    root = BlockRealize((), TRUE, Block((), (), (), "root", body))
    return rebuild(func, {"body": root})


class FunctionState:
    """One function under schedule: its program, and the references to its parts."""

    def __init__(self, func: PrimFunc) -> None:
        self.func = with_root_block(func)
        self._refs: dict[int, Ref] = {}
        body = self.func.body
        assert isinstance(body, BlockRealize)
        self.root = self._enter(body, None)
        self._fill(self.root)

    def _enter(self, stmt: For | BlockRealize, parent: Ref | None) -> Ref:
        made = self._refs[id(stmt)] = Ref(stmt, parent, self)
        return made

    def _fill(self, top: Ref) -> None:
        stack = [top]
        while stack:
            ref = stack.pop()
            assert ref.stmt is not None
            for inner in directly_below(ref.stmt):
                if id(inner) in self._refs:
                    raise InternalError("a loop or block occurs twice in the program")
                stack.append(self._enter(inner, ref))

    def ref(self, stmt: For | BlockRealize) -> Ref:
        """Return the reference to a loop or block of the program as it is now."""
        return self._refs[id(stmt)]

    def refs(self) -> Iterable[Ref]:
        """List all references, in no order."""
        return self._refs.values()

    # -- edits ---------------------------------------------------------------------------------
    def replace(self, ref: Ref, new: Stmt, blocks: Mapping[Block, Block] | None = None) -> None:
        """Replace a loop or block by a statement.

        References stay with the loops and blocks of ``new`` that were there before, with loops of
        the same variable, and with the blocks that ``blocks`` gives for old ones; without it, with
        those of the same first iterator, or the same name. Others are gone.
        """
        old = ref.stmt
        if old is None:
            raise InternalError("this reference is gone")
        if old is new:
            return
        parent = ref.parent
        fresh, kept = self._new_parts(new)
        lost = self._list_lost(ref, {id(stayed.stmt) for stayed, _ in kept})
        known = _OldRefs(lost, blocks or {})
        for node, above in fresh:
            owner = parent if above is None else self._refs[id(above)]
            found = known.take(node)
            if found is None:
                self._enter(node, owner)
            else:
                self._refs.pop(id(found.stmt), None)
                found.stmt, found.parent = node, owner
                self._refs[id(node)] = found
        for gone in known.list_unmatched():
            self._refs.pop(id(gone.stmt), None)
            gone.stmt = None
        for stayed, above in kept:
            stayed.parent = parent if above is None else self._refs[id(above)]
        self._rebuild_around(parent, old, new)

    def _new_parts(
        self, new: Stmt
    ) -> tuple[
        list[tuple[For | BlockRealize, For | BlockRealize | None]],
        list[tuple[Ref, For | BlockRealize | None]],
    ]:
        """List the new loops and blocks, and those that are kept, with what is around each."""
        fresh: list[tuple[For | BlockRealize, For | BlockRealize | None]] = []
        kept: list[tuple[Ref, For | BlockRealize | None]] = []
        stack: list[tuple[For | BlockRealize, For | BlockRealize | None]] = []
        if isinstance(new, (For, BlockRealize)):
            stack.append((new, None))
        else:
            stack.extend((node, None) for node in reversed(directly_below(new)))
        while stack:
            node, above = stack.pop()
            known = self._refs.get(id(node))
            if known is not None:
                kept.append((known, above))
                continue
            fresh.append((node, above))
            stack.extend((inner, node) for inner in reversed(directly_below(node)))
        return fresh, kept

    def _list_lost(self, ref: Ref, kept: set[int]) -> list[Ref]:
        """List what was in the old subtree and is not kept as it is."""
        lost: list[Ref] = []
        stack = [ref]
        while stack:
            at = stack.pop()
            if id(at.stmt) in kept:
                continue
            lost.append(at)
            stack.extend(reversed(at.list_below()))
        return lost

    def _rebuild_around(self, parent: Ref | None, old: Stmt, new: Stmt) -> None:
        up = parent
        while up is not None:
            assert up.stmt is not None
            before = up.stmt
            made = replace_part(before, old, new, enter=False)
            if not isinstance(made, (For, BlockRealize)):
                raise InternalError("a reference is not below its parent")
            del self._refs[id(before)]
            up.stmt = made
            self._refs[id(made)] = up
            old, new, up = before, made, up.parent
        self.func = rebuild(self.func, {"body": new})

    def copy(self) -> tuple[FunctionState, dict[int, Ref]]:
        """Return an independent state of the same program, and its references by the old ids."""
        made = FunctionState(self.func)
        return made, {id(ref): made._refs[key] for key, ref in self._refs.items()}


class _OldRefs:
    """References into an old subtree, to be matched with loops and blocks of the new one."""

    def __init__(self, lost: list[Ref], blocks: Mapping[Block, Block]) -> None:
        self._all = lost
        self._taken: set[int] = set()
        self._loops = {id(r.loop.loop_var): r for r in lost if r.is_loop}
        old = [r for r in lost if not r.is_loop]
        by_block = {id(r.block): r for r in old}
        self._mod = {
            id(new): by_block[id(block)] for block, new in blocks.items() if id(block) in by_block
        }
        self._blocks = by_block
        self._iters = {id(r.block.iter_vars[0].var): r for r in old if r.block.iter_vars}
        self._names = {r.block.name_hint: r for r in old}

    def take(self, node: For | BlockRealize) -> Ref | None:
        """Return the old reference that continues as this loop or block."""
        if isinstance(node, For):
            found = self._loops.get(id(node.loop_var))
        else:
            block = node.block
            found = self._mod.get(id(block)) or self._blocks.get(id(block))
            if found is None and block.iter_vars:
                found = self._iters.get(id(block.iter_vars[0].var))
            if found is None and not self._mod:
                found = self._names.get(block.name_hint)
        if found is None or id(found) in self._taken:
            return None
        self._taken.add(id(found))
        return found

    def list_unmatched(self) -> list[Ref]:
        """List the references whose loops and blocks are gone."""
        return [r for r in self._all if id(r) not in self._taken]


class State:
    """A module under schedule, whose functions are loaded on first use."""

    def __init__(self, mod: IRModule) -> None:
        self._mod = mod
        self._functions: dict[str, FunctionState] = {}

    @property
    def mod(self) -> IRModule:
        """The module as it is now; the same object as long as nothing changed."""
        now = {
            var: self._functions[var.name_hint].func
            for var, func in self._mod.functions.items()
            if var.name_hint in self._functions and self._functions[var.name_hint].func is not func
        }
        if now:
            self._mod = self._mod.with_functions({**self._mod.functions, **now})
        return self._mod

    def function(self, name: str) -> FunctionState | None:
        """Return the state of a function, None if there is no such loop-level function."""
        found = self._functions.get(name)
        if found is None and name in self._mod:
            func = self._mod[name]
            if isinstance(func, PrimFunc):
                found = self._functions[name] = FunctionState(func)
        return found

    def names(self) -> list[str]:
        """List the names of the functions that can be scheduled."""
        return [v.name_hint for v, f in self._mod.functions.items() if isinstance(f, PrimFunc)]

    def copy(self) -> tuple[State, dict[int, Ref]]:
        """Return an independent state of the same program, and its references by the old ids."""
        made = State(self.mod)
        refs: dict[int, Ref] = {}
        for name, function in self._functions.items():
            made._functions[name], own = function.copy()
            refs.update(own)
        return made, refs
