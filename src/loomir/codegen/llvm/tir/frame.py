"""The state of one LLVM function under construction: values of names, and exits on errors."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final, NamedTuple, TypeAlias

from loomir.arith.bounds.interval import Interval
from loomir.codegen.llvm.assembler.builder import Builder
from loomir.codegen.llvm.assembler.text import Block, Callee, Function, Module
from loomir.codegen.llvm.assembler.types import I64, PTR, VOID
from loomir.codegen.llvm.assembler.values import Value, const
from loomir.codegen.llvm.support.ir.faults import FaultTable
from loomir.codegen.llvm.support.ir.names import GIVE_SCRATCH, TAKE_SCRATCH
from loomir.ir.visit import Step
from loomir.runtime.fault import Fault
from loomir.support.diagnostics import InternalError
from loomir.support.dtype import DataType
from loomir.target.triples import system_name
from loomir.tir.buffer import Buffer
from loomir.tir.expr import PrimExpr, Var
from loomir.tir.signature import Signature
from loomir.tir.stmt import Stmt

__all__ = [
    "Cleanup",
    "FunctionFrame",
    "LinkedFunction",
    "LongLoop",
    "Loop",
    "Size",
    "Unit",
    "WorkTerm",
]

Expressions: TypeAlias = Mapping[type, Callable[["FunctionFrame", Any], Step[Value]]]
Statements: TypeAlias = Mapping[type, Callable[["FunctionFrame", Any], Step[None]]]


@dataclass(frozen=True, slots=True)
class LinkedFunction:
    """The entries of a function of the program; ``checked`` takes arrays as ``DLTensor``."""

    name: str
    symbol: str
    signature: Signature
    returns: DataType
    checked: Callee


class Size(NamedTuple):
    """The loops and nodes of a statement; whether it may leave the loop around, or the function."""

    loops: int
    nodes: int
    jumps: bool
    leaves: bool


class WorkTerm(NamedTuple):
    """The work of a nest inside an iteration: the weight of its body, times the extents."""

    weight: int
    extents: tuple[PrimExpr, ...]


class LongLoop(NamedTuple):
    """A loop that takes its work from the budget: ``weight`` and ``terms`` for each iteration.

    It does so after each iteration (``each``), or after strips of ``strip`` iterations. If
    ``strip`` is 0, the terms determine the length of strips at run time. ``last``: the last strip
    counts too, since no loop around this one counts it.
    """

    weight: int
    terms: tuple[WorkTerm, ...]
    strip: int
    each: bool
    last: bool


@dataclass(slots=True)
class Unit:
    """The state that all functions of a module share."""

    module: Module
    faults: FaultTable
    expressions: Expressions
    statements: Statements
    allow_alias: bool
    functions: dict[str, LinkedFunction] = field(default_factory=dict[str, LinkedFunction])
    needs_pool: bool = False
    needs_callback: bool = False
    externs: dict[str, str] = field(default_factory=dict[str, str])
    parallel_loops: int = 0
    pieces: int = 0
    polls: bool = False
    """Whether long loops check for interrupts."""
    long_loops: Mapping[int, LongLoop] = field(default_factory=dict[int, LongLoop])
    """The long loops of the function that is being emitted, by id."""
    interrupted: int = -1
    """The number of the fault of an interrupt, or -1 while there is none."""
    sizes: dict[int, Size] = field(default_factory=dict[int, Size])
    """The sizes of statements, by id, if the function that is being emitted has to be split."""

    def count_loop(self) -> int:
        """Return the number of the next parallel loop."""
        self.parallel_loops += 1
        return self.parallel_loops

    def count_piece(self) -> int:
        """Return the number of the next piece of a large function."""
        self.pieces += 1
        return self.pieces

    @property
    def on_windows(self) -> bool:
        """Whether the target is Windows, whose C library has its own allocator functions."""
        return "windows" in self.module.triple

    @property
    def keeps_scratch(self) -> bool:
        """Whether the thread pool, which exists on known systems, keeps memory between runs."""
        return system_name(self.module.triple) is not None

    def declare_aligned_alloc(self) -> Callee:
        """Declare the allocator; the order of its arguments depends on the system."""
        name = "_aligned_malloc" if self.on_windows else "aligned_alloc"
        return self.module.declare(name, PTR, [I64, I64])

    def take_scratch(self) -> Callee:
        """Declare the function that hands out memory of an earlier run."""
        self.needs_pool = True
        return self.module.declare(TAKE_SCRATCH, PTR, [I64], fresh=True)

    def free(self) -> Callee:
        """Declare the function that frees an allocation."""
        if self.keeps_scratch:
            return self.module.declare(GIVE_SCRATCH, VOID, [PTR])
        return self.module.declare("_aligned_free" if self.on_windows else "free", VOID, [PTR])


@dataclass(frozen=True, slots=True)
class Cleanup:
    """The cleanup on the way out of the current place: free ``memory``, then do ``outer``.

    The blocks ``fail`` and ``leave`` do so, and return status 1 or 0.
    """

    fail: Block
    leave: Block
    memory: Value | None = None
    outer: Cleanup | None = None


@dataclass(frozen=True, slots=True)
class Loop:
    """A loop around the current place; ``exit`` is None if the loop cannot be left."""

    next: Block
    exit: Block | None
    cleanup: Cleanup


ALIGNMENT: Final = 64
"""The alignment of memory that generated code allocates."""


class PrefetchLoop(NamedTuple):
    """A loop that prefetches: its variable, the distance in elements, what is prefetched so far."""

    loop_var: Var
    distance: int
    fetched: list[tuple[Var, PrimExpr]]


class FunctionFrame:
    """The state of emitting one function.

    - ``ahead`` is the loop that prefetches vectors.
    - ``env`` has the value of each variable; that of a buffer's data variable is its address.
    - ``ranges`` bounds loop variables; ``wide`` holds them as 64-bit integers.
    - ``views`` are addresses of declared buffers, their offset included; ``offsets`` those offsets.
    - ``owned`` are data variables of memory that is aligned as its elements are.
    - ``distinct`` are data variables that nothing overlaps; ``derived`` are other names of memory.
    """

    __slots__ = (
        "_b",
        "ahead",
        "cleanup",
        "context",
        "derived",
        "distinct",
        "env",
        "loops",
        "offsets",
        "owned",
        "ranges",
        "result",
        "stack_left",
        "unit",
        "views",
        "volatile",
        "wide",
    )

    checks_arithmetic: ClassVar[bool] = False
    """Whether overflow is a fault, so that no sum may be computed unless the program needs it."""

    def __init__(
        self, unit: Unit, function: Function, context: Value, result: Value | None
    ) -> None:
        self.unit = unit
        self._b = Builder(function)
        self.context = context
        self.result = result
        self.ahead: PrefetchLoop | None = None
        self.env: dict[Var, Value] = {}
        self.ranges: dict[Var, Interval] = {}
        self.wide: dict[Var, Value] = {}
        self.views: dict[Buffer, Value] = {}
        self.offsets: dict[Buffer, Value] = {}
        self.owned: set[Var] = set()
        self.distinct: set[Var] = set()
        self.derived: set[Var] = set()
        self.volatile: set[Var] = set()
        self.loops: list[Loop] = []
        self.stack_left = 0
        fail, leave = self.b.append("fail"), self.b.append("leave")
        self.cleanup = Cleanup(fail, leave)

    @property
    def b(self) -> Builder:
        """The builder, at the current place."""
        return self._b

    # -- visiting ------------------------------------------------------------------------------
    def value(self, expr: PrimExpr) -> Step[Value]:
        """Visit an expression."""
        return self.unit.expressions[expr.__class__](self, expr)

    def run(self, stmt: Stmt) -> Step[None]:
        """Visit a statement."""
        return self.unit.statements[stmt.__class__](self, stmt)

    def lookup(self, var: Var) -> Value:
        """Return the value of a variable."""
        found = self.env.get(var)
        if found is None:
            raise InternalError(f"variable {var.name_hint!r} is not in scope in lowered code")
        return found

    # -- ways out ------------------------------------------------------------------------------
    def require(self, holds: Value, fault: Fault, *values: Value) -> None:
        """Go on if ``holds``, else stop with the fault."""
        b = self.b
        fine, bad = b.append("fine"), b.append("fault")
        fine.continues(b.block)
        b.condbr(holds, fine, bad, meta=self.unit.faults.rare())
        b.position_at_end(bad)
        self.stop(fault, *values)
        b.position_at_end(fine)

    def stop(self, fault: Fault, *values: Value) -> None:
        """End the block: stop with the fault. Values are 64-bit integers; threads can store few."""
        b = self.b
        self.unit.faults.record(b, self.context, self.unit.faults.add(fault), values)
        b.br(self.cleanup.fail)

    def propagate(self, status: Value) -> None:
        """Go on if a called function's status is 0, else stop with its fault."""
        b = self.b
        fine = b.append("fine")
        fine.continues(b.block)
        b.condbr(
            b.icmp("eq", status, const(status.type, 0)),
            fine,
            self.cleanup.fail,
            meta=self.unit.faults.rare(),
        )
        b.position_at_end(fine)

    def leave(self) -> None:
        """End the block: leave the function, then go on in an unreachable block."""
        self.b.br(self.cleanup.leave)
        self.dead()

    def jump(self, loop: Loop, target: Block) -> None:
        """End the block: jump to a block of an enclosing loop; go on in an unreachable block."""
        b = self.b
        at: Cleanup | None = self.cleanup
        while at is not None and at is not loop.cleanup:
            if at.memory is not None:
                b.call(self.unit.free(), [at.memory])
            at = at.outer
        b.br(target)
        self.dead()

    def dead(self) -> None:
        """Go on in a new, unreachable block."""
        self.b.position_at_end(self.b.append("dead"))

    def push_cleanup(self, memory: Value) -> Cleanup:
        """Free memory on every way out, until ``self.cleanup`` is reset to the returned one."""
        b, outer = self.b, self.cleanup
        here = b.block
        fail, leave = b.append("fail"), b.append("leave")
        for block, target in ((fail, outer.fail), (leave, outer.leave)):
            b.position_at_end(block)
            b.call(self.unit.free(), [memory])
            b.br(target)
        b.position_at_end(here)
        self.cleanup = Cleanup(fail, leave, memory, outer)
        return outer

    def close(self, failed: Value, fine: Value) -> None:
        """Write the last blocks, the outermost ``fail`` and ``leave``."""
        b = self.b
        b.br(self.cleanup.leave)
        b.position_at_end(self.cleanup.fail)
        b.ret(failed)
        b.position_at_end(self.cleanup.leave)
        b.ret(fine)
