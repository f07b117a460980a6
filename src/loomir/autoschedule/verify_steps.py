"""Verify each scheduling step of a function, when tests ask for it.

After lifting and after each rewrite: every stage is well-formed, uses only variables in scope, and
stays within the extents of its buffers; nothing is read before it is computed or after it has been
overwritten; no two stages write an element that was written once before. After each rule: its loops
use the memory of their stages and no other, leave no stage out, and name only what is in scope.
Faults of the program itself are not reported.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from typing import TypeAlias

from loomir.autoschedule.builders.loops import allocate
from loomir.autoschedule.ir.plan import Plan
from loomir.autoschedule.ir.stage import Combine, LiftedFunction, Stage
from loomir.autoschedule.ir.verify_stage import stage_violations
from loomir.autoschedule.rewrite.def_use import reads_of, writes_of
from loomir.autoschedule.trace_steps import serial_loops
from loomir.check.tir.out_of_range import check_ranges
from loomir.check.tir.verify import verify
from loomir.ir.equality import structural_equal
from loomir.ir.substitution import free_definitions
from loomir.ir.visit import by_class, pre_order
from loomir.support.diagnostics import Diagnostic, InternalError
from loomir.tir.buffer import Buffer, BufferLoad
from loomir.tir.expr import Add, IntImm, Let, PrimExpr, Var
from loomir.tir.function import PrimFunc
from loomir.tir.stmt import Allocate, Block, BufferStore, Evaluate, Stmt, seq

__all__ = ["StepVerifier", "verify_scheduled", "verify_stages"]

_Version: TypeAlias = tuple[int, int]
"""Memory by the identity of its pointer, and how many parts have written it."""


def verify_stages(stages: Iterable[Stage], step: str, *, of_block: bool = False) -> None:
    """Check stages one by one, those ``of_block`` within loops around them.

    Errors: InternalError that names the step, the stage, and what is wrong with it.
    """
    for stage in stages:
        for found in stage_violations(stage, of_block=of_block):
            raise _wrong(step, stage, found)


def _wrong(step: str, part: Stage | None, found: str) -> InternalError:
    where = "" if part is None else f"stage {part.name!r} of {part.buffer.name!r}: "
    return InternalError(f"{step} is wrong: {where}{found}")


class StepVerifier:
    """Verifies a function's kernel after each step, beside what it was before.

    Errors: InternalError that names the step to blame.
    """

    def __init__(self, func: PrimFunc) -> None:
        self.func = func
        self.kernel: LiftedFunction | None = None
        self.names = {id(node) for node in free_definitions(func.body)}
        self.names.update(map(id, func.params))
        for buffer in func.buffer_map.values():
            parts = (buffer.data, *buffer.shape, *buffer.strides, buffer.elem_offset)
            for part in [part for part in parts if part is not None]:
                self.names.update(id(var) for var in by_class(part).get(Var, ()))

    def verify_step(self, step: str, kernel: LiftedFunction) -> None:
        """Check what a step made."""
        before = self.kernel
        self.kernel = kernel
        if kernel is before:
            return
        self.names.update(id(buffer.data) for buffer in kernel.between)
        known = set[int]() if before is None else set(map(id, before.parts))
        stages = [
            part for part in kernel.parts if isinstance(part, Stage) and id(part) not in known
        ]
        verify_stages(stages, step)
        for stage in stages:
            for found in _unknown_names(stage, self.names):
                raise _wrong(step, stage, found)
        self._check_ranges(step, stages)
        self._check_order(step, before, kernel)

    def _check_ranges(self, step: str, stages: Sequence[Stage]) -> None:
        func = self.func

        def faults(body: Stmt) -> list[str]:
            program = PrimFunc(func.params, body, func.ret_type, func.buffer_map)
            return [found.message for found in check_ranges(program)]

        if not stages or not faults(seq([serial_loops(stage) for stage in stages])):
            return
        if check_ranges(func):
            return  # the program's own mistake
        for stage in stages:
            for found in faults(serial_loops(stage)):
                raise _wrong(step, stage, found)

    def _check_order(
        self, step: str, before: LiftedFunction | None, kernel: LiftedFunction
    ) -> None:
        unmade = dict(_reads_before_made(kernel))
        if before is None:
            lost = _find_stored(self.func.body) - _outputs(kernel)
            if unmade:
                own = _find_loaded_first(self.func.body)
                unmade = {data: stage for data, stage in unmade.items() if data not in own}
        else:
            lost = _outputs(before) - _outputs(kernel)
            for data, _ in _reads_before_made(before):
                unmade.pop(data, None)
        if lost:
            raise _wrong(step, None, f"nothing writes {len(lost)} of the arrays written before")
        for data, stage in unmade.items():
            name = next(b.name for b in kernel.between if id(b.data) == data)
            raise _wrong(step, stage, f"{name!r} is read before it is made")
        if before is not None:
            self._check_versions(step, before, kernel)
            for stage, number in _new_overwrites(before, kernel):
                raise _wrong(step, stage, f"it overwrites elements of {number} stages before it")

    def _check_versions(self, step: str, before: LiftedFunction, kernel: LiftedFunction) -> None:
        counts = [Counter(d for p in k.parts for d in writes_of(p)) for k in (before, kernel)]
        changed = {data for data in counts[0] | counts[1] if counts[0][data] != counts[1][data]}
        old = _sources(before, changed)
        for (version, sources), part in zip(
            *(_sources(kernel, changed).items(), _writers(kernel, changed))
        ):
            if not sources <= old.get(version, sources):
                stage = part if isinstance(part, Stage) else None
                raise _wrong(step, stage, "it reads what others have overwritten, or never read")

    def verify_plan(self, plan: Plan, parts: Sequence[Stage | Stmt]) -> None:
        """Check the loops of a plan against the parts that it takes."""
        assert self.kernel is not None
        names = set(self.names)
        for prepack in plan.ahead:
            names.update(id(buffer.data) for buffer in prepack.buffers)
        for node in free_definitions(plan.stmt):
            if id(node.data if isinstance(node, Buffer) else node) not in names:
                name = node.name if isinstance(node, Buffer) else node
                raise _wrong(plan.kind, None, f"the loops use {name}, which nothing defines")
        touched = reads_of(plan.stmt)
        inner = {id(buffer.data) for buffer in plan.inner}
        for part in parts:
            if isinstance(part, Stage) and _is_missing(part, touched | inner):
                raise _wrong(plan.kind, part, "the loops do not compute it")
        buffers = (*self.func.buffer_map.values(), *self.kernel.between)
        memory = {id(buffer.data): buffer for buffer in buffers}
        of_parts = set[int]().union(*(_memory_of(part) for part in parts))
        for data in touched & memory.keys() - of_parts:
            raise _wrong(plan.kind, None, f"the loops use {memory[data].name!r}, not its stages")


def _memory_of(part: Stage | Stmt) -> Set[int]:
    """Return the memory that a part reads or writes, or whose pointer it uses as a value."""
    used = reads_of(part) | writes_of(part)
    if isinstance(part, Stage):
        for expr in (*part.indices, part.value, *([] if part.init is None else [part.init])):
            used |= reads_of(Evaluate(expr))
    return used


def _is_missing(stage: Stage, touched: Set[int]) -> bool:
    """Whether loops that use only some memory leave elements of a stage out."""
    return id(stage.buffer.data) not in touched and all(axis.size != 0 for axis in stage.axes)


def verify_scheduled(
    old: PrimFunc, new: PrimFunc, plans: Sequence[Plan], wrap: Callable[[Stmt], Stmt]
) -> None:
    """Check that a scheduled function is well-formed; ``wrap`` puts the names of plans in scope.

    Errors: InternalError that names the first rule whose loops are not.
    """
    ahead = [buffer for plan in plans for part in plan.ahead for buffer in part.buffers]

    def faults(body: Stmt) -> list[Diagnostic]:
        inside = allocate(ahead, body) if ahead else body
        made = PrimFunc(new.params, inside, new.ret_type, new.buffer_map, new.attrs)
        return [found for found in verify(made, ranges=False) if found.severity == "error"]

    found = faults(new.body)
    if not found or any(d.severity == "error" for d in verify(old, ranges=False)):
        return
    guilty = (plan.kind for plan in plans if faults(wrap(plan.stmt)))
    raise _wrong(next(guilty, "the default schedule"), None, "\n".join(map(str, found[:3])))


# -- names -------------------------------------------------------------------------------------
def _unknown_names(stage: Stage, known: Set[int]) -> Iterator[str]:
    names = {id(axis.var) for axis in (*stage.axes, *stage.reduced)}
    parts: list[PrimExpr] = [stage.value, *stage.indices]
    parts += [axis.extent for axis in (*stage.axes, *stage.reduced)]
    if stage.init is not None:
        parts.append(stage.init)
    if id(stage.buffer.data) not in known:
        yield f"it writes {stage.buffer.name!r}, which nothing defines"
    for part in parts:
        found = by_class(part)
        lets = {id(let.var) for let in found.get(Let, ())}
        for load in found.get(BufferLoad, ()):
            if id(load.buffer.data) not in known:
                yield f"it reads {load.buffer.name!r}, which nothing defines"
        for var in found.get(Var, ()):
            if id(var) not in names and id(var) not in known and id(var) not in lets:
                yield f"it uses {var.name_hint!r}, which is no axis of it and defined nowhere"


# -- order -------------------------------------------------------------------------------------
def _outputs(kernel: LiftedFunction) -> set[int]:
    """Return the memory that is written and lives on."""
    written = set[int]().union(*(writes_of(part) for part in kernel.parts))
    return written - {id(buffer.data) for buffer in kernel.between}


def _find_stored(body: Stmt) -> set[int]:
    found = by_class(body)
    local = {id(b.data) for block in found.get(Block, ()) for b in block.alloc_buffers}
    local |= {id(allocated.buffer_var) for allocated in found.get(Allocate, ())}
    return {id(store.buffer.data) for store in found.get(BufferStore, ())} - local


def _reads_before_made(kernel: LiftedFunction) -> Iterator[tuple[int, Stage]]:
    """List the memory between stages that a stage reads and no part before it writes."""
    unmade = {id(buffer.data) for buffer in kernel.between}
    for part in kernel.parts:
        if isinstance(part, Stage):
            values = [part.value] if part.init is None else [part.value, part.init]
            loads = (load for v in values for load in by_class(v).get(BufferLoad, ()))
            read = {id(load.buffer.data) for load in loads}
            if part.init is None and part.combine is not Combine.NONE:
                read.add(id(part.buffer.data))
            for data in read & unmade:
                yield data, part
        unmade -= writes_of(part)


def _find_loaded_first(body: Stmt) -> set[int]:
    """Return the memory that a program loads before it stores to it, as it is written."""
    stored: set[int] = set()
    early: set[int] = set()
    for node in pre_order(body):
        if isinstance(node, Block) and node.init is not None:
            stored |= {id(s.buffer.data) for s in by_class(node.init).get(BufferStore, ())}
        elif isinstance(node, BufferLoad) and id(node.buffer.data) not in stored:
            early.add(id(node.buffer.data))
        elif isinstance(node, BufferStore):
            loads = by_class(node.value).get(BufferLoad, ())
            early |= {id(load.buffer.data) for load in loads} - stored
            stored.add(id(node.buffer.data))
    return early


def _writers(kernel: LiftedFunction, changed: Set[int]) -> Iterator[Stage | Stmt]:
    for part in kernel.parts:
        yield from (part for data in sorted(writes_of(part)) if data not in changed)


def _sources(kernel: LiftedFunction, changed: Set[int]) -> dict[_Version, frozenset[_Version]]:
    """Return what each write is made of, in order; ``changed`` memory counts as what it is made of.

    A step may write some memory less often than before, as where it inlines what that holds.
    """
    versions: Counter[int] = Counter()
    through: dict[int, frozenset[_Version]] = {}
    made: dict[_Version, frozenset[_Version]] = {}
    for part in kernel.parts:
        sources: set[_Version] = set()
        for data in reads_of(part):
            if data in changed:
                sources |= through.get(data, frozenset())
            else:
                sources.add((data, versions[data]))
        frozen = frozenset(sources)
        for data in sorted(writes_of(part)):
            versions[data] += 1
            if data in changed:
                through[data] = through.get(data, frozenset()) | frozen
            else:
                made[data, versions[data]] = frozen
    return made


# -- elements that are written twice -----------------------------------------------------------
def _new_overwrites(before: LiftedFunction, after: LiftedFunction) -> Iterator[tuple[Stage, int]]:
    """List stages that overwrite elements of more stages than before the step."""
    old, new = _overwrites(before), _overwrites(after)
    counts = Counter({data: sum(number for _, number in listed) for data, listed in old.items()})
    for data, listed in new.items():
        if sum(number for _, number in listed) > counts[data]:
            yield listed[-1]


def _overwrites(kernel: LiftedFunction) -> dict[int, list[tuple[Stage, int]]]:
    """Find the stages that provably overwrite elements of stages before them, and of how many."""
    by_memory: dict[int, list[Stage]] = {}
    for part in kernel.parts:
        if isinstance(part, Stage):
            by_memory.setdefault(id(part.buffer.data), []).append(part)
    found: dict[int, list[tuple[Stage, int]]] = {}
    for data, stages in by_memory.items():
        for place, stage in enumerate(stages):
            if stage.in_place or (stage.combine is not Combine.NONE and stage.init is None):
                continue
            number = sum(_overlap(stage, earlier) for earlier in stages[:place])
            if number:
                found.setdefault(data, []).append((stage, number))
    return found


def _overlap(a: Stage, b: Stage) -> bool:
    """Whether two stages provably write an element in common, where they write any."""
    if a.buffer is not b.buffer:
        return False
    return all(_meet(*_range(a, x), *_range(b, y)) for x, y in zip(a.indices, b.indices))


def _range(stage: Stage, index: PrimExpr) -> tuple[PrimExpr, int, PrimExpr | None]:
    """Return a variable or number, what is added, and the extent: how an index runs."""
    start = 0
    if isinstance(index, Add) and isinstance(index.b, IntImm):
        index, start = index.a, index.b.value
    extents = {axis.var: axis.extent for axis in stage.axes}
    if isinstance(index, IntImm):
        return index, index.value, IntImm(1, index.dtype)
    extent = extents.get(index) if isinstance(index, Var) else None
    return index, start, extent


def _meet(
    a: PrimExpr, low: int, extent: PrimExpr | None, b: PrimExpr, other: int, size: PrimExpr | None
) -> bool:
    """Whether two ranges have an element in common, where neither is empty."""
    if extent is None or size is None:
        return extent is size and a is b and low == other
    if isinstance(extent, IntImm) and isinstance(size, IntImm):
        return low < other + size.value and other < low + extent.value
    return low == other and structural_equal(extent, size)
