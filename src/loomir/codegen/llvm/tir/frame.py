"""The state of one LLVM function under construction: values of names, and exits on errors."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final, NamedTuple, TypeAlias

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
from loomir.tir.buffer import Buffer
from loomir.tir.expr import PrimExpr, Var
from loomir.tir.signature import Signature
from loomir.tir.stmt import Stmt

__all__ = ["Cleanup", "FunctionFrame", "Interval", "Linked", "Long", "Loop", "Size", "Term", "Unit"]

Expressions: TypeAlias = Mapping[type, Callable[["FunctionFrame", Any], Step[Value]]]
Statements: TypeAlias = Mapping[type, Callable[["FunctionFrame", Any], Step[None]]]
Interval: TypeAlias = tuple[int, int]
"""The least and the greatest value that an integer may have."""


@dataclass(frozen=True, slots=True)
class Linked:
    """A function of the program, as others call it: ``checked`` takes arrays as ``DLTensor``."""

    name: str
    symbol: str
    signature: Signature
    returns: DataType
    checked: Callee


class Size(NamedTuple):
    """How large a statement is, whether it may leave a loop around it, or the function."""

    loops: int
    nodes: int
    jumps: bool
    leaves: bool


class Term(NamedTuple):
    """What loops inside of an iteration run: a weight times their extents."""

    weight: int
    extents: tuple[PrimExpr, ...]


class Long(NamedTuple):
    """A loop that counts what it runs: the weight of an iteration, with the terms, if any.

    It counts after ``each`` iteration, or after strips: of ``strip`` iterations, or, where that is
    0, of as many as the terms leave room for. The ``last`` strip counts, too, unless a loop around
    this one counts it.
    """

    weight: int
    terms: tuple[Term, ...]
    strip: int
    each: bool
    last: bool


@dataclass(slots=True)
class Unit:
    """What all functions of a module share."""

    module: Module
    faults: FaultTable
    expressions: Expressions
    statements: Statements
    allow_alias: bool
    functions: dict[str, Linked] = field(default_factory=dict[str, Linked])
    needs_pool: bool = False
    needs_callback: bool = False
    externs: dict[str, str] = field(default_factory=dict[str, str])
    parallel_loops: int = 0
    pieces: int = 0
    polls: bool = False
    """Whether long loops look whether they are to stop."""
    long_loops: Mapping[int, Long] = field(default_factory=dict[int, Long])
    """The long loops of the function in the making, by id."""
    interrupted: int = -1
    """The site of all stops of that kind, once there is one."""
    sizes: dict[int, Size] = field(default_factory=dict[int, Size])
    """Of the statements of the function in the making, by id, where it is too large to be one."""

    def count_loop(self) -> int:
        """Return a number to a parallel loop."""
        self.parallel_loops += 1
        return self.parallel_loops

    def count_piece(self) -> int:
        """Return a number to a piece of a large function."""
        self.pieces += 1
        return self.pieces

    @property
    def on_windows(self) -> bool:
        """Whether memory is Windows' to give."""
        return "windows" in self.module.triple

    @property
    def keeps_scratch(self) -> bool:
        """Whether the thread pool keeps memory between runs: it is there on Linux."""
        return "linux" in self.module.triple

    def declare_aligned_alloc(self) -> Callee:
        """Declare what gives memory; the order of its arguments is the system's."""
        name = "_aligned_malloc" if self.on_windows else "aligned_alloc"
        return self.module.declare(name, PTR, [I64, I64])

    def take_scratch(self) -> Callee:
        """Declare what gives memory of a former run."""
        self.needs_pool = True
        return self.module.declare(TAKE_SCRATCH, PTR, [I64], fresh=True)

    def free(self) -> Callee:
        """Declare what takes memory of an allocation back."""
        if self.keeps_scratch:
            return self.module.declare(GIVE_SCRATCH, VOID, [PTR])
        return self.module.declare("_aligned_free" if self.on_windows else "free", VOID, [PTR])


@dataclass(frozen=True, slots=True)
class Cleanup:
    """What must happen on the way out from here: ``memory`` is freed, then ``outer`` happens.

    ``fail`` and ``leave`` are blocks that do so and end in status 1 or 0.
    """

    fail: Block
    leave: Block
    memory: Value | None = None
    outer: Cleanup | None = None


@dataclass(frozen=True, slots=True)
class Loop:
    """A loop around the current place; ``exit`` is None if iterations may run in any order."""

    next: Block
    exit: Block | None
    cleanup: Cleanup


ALIGNMENT: Final = 64
"""The alignment of memory that generated code gets for itself."""


class Ahead(NamedTuple):
    """A loop whose vectors are fetched ahead: its variable, how far, and what already is."""

    loop_var: Var
    distance: int
    fetched: list[tuple[Var, PrimExpr]]


class FunctionFrame:
    """The state of emitting one function.

    - ``ahead`` is the loop whose vectors are fetched ahead.
    - ``env`` is what variables stand for; a buffer's data variable stands for the address.
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
    """Whether a sum may be a mistake, so that none is computed which nobody asks for."""

    def __init__(
        self, unit: Unit, function: Function, context: Value, result: Value | None
    ) -> None:
        self.unit = unit
        self._b = Builder(function)
        self.context = context
        self.result = result
        self.ahead: Ahead | None = None
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
        """Return what a variable stands for."""
        found = self.env.get(var)
        if found is None:
            raise InternalError(f"variable {var.name_hint!r} is not in scope in lowered code")
        return found

    # -- ways out ------------------------------------------------------------------------------
    def require(self, holds: Value, fault: Fault, *values: Value) -> None:
        """Go on where ``holds``, else stop with the fault."""
        b = self.b
        fine, bad = b.append("fine"), b.append("fault")
        fine.continues(b.block)
        b.condbr(holds, fine, bad, meta=self.unit.faults.rare())
        b.at(bad)
        self.stop(fault, *values)
        b.at(fine)

    def stop(self, fault: Fault, *values: Value) -> None:
        """End the block: stop with the fault. Values are 64-bit integers, few where threads run."""
        b = self.b
        self.unit.faults.record(b, self.context, self.unit.faults.add(fault), values)
        b.br(self.cleanup.fail)

    def propagate(self, status: Value) -> None:
        """Go on where a called function's status is 0, else stop with its fault."""
        b = self.b
        fine = b.append("fine")
        fine.continues(b.block)
        b.condbr(
            b.icmp("eq", status, const(status.type, 0)),
            fine,
            self.cleanup.fail,
            meta=self.unit.faults.rare(),
        )
        b.at(fine)

    def leave(self) -> None:
        """End the block: leave the function, then go on in a block that nothing reaches."""
        self.b.br(self.cleanup.leave)
        self.dead()

    def jump(self, loop: Loop, target: Block) -> None:
        """End the block: go to a block of a loop around, then on in one that nothing reaches."""
        b = self.b
        at: Cleanup | None = self.cleanup
        while at is not None and at is not loop.cleanup:
            if at.memory is not None:
                b.call(self.unit.free(), [at.memory])
            at = at.outer
        b.br(target)
        self.dead()

    def dead(self) -> None:
        """Go on in a new block that nothing reaches."""
        self.b.at(self.b.append("dead"))

    def push_cleanup(self, memory: Value) -> Cleanup:
        """Have memory freed on every way out, until ``self.cleanup`` is set back; give what was."""
        b, outer = self.b, self.cleanup
        here = b.block
        fail, leave = b.append("fail"), b.append("leave")
        for block, target in ((fail, outer.fail), (leave, outer.leave)):
            b.at(block)
            b.call(self.unit.free(), [memory])
            b.br(target)
        b.at(here)
        self.cleanup = Cleanup(fail, leave, memory, outer)
        return outer

    def close(self, failed: Value, fine: Value) -> None:
        """Write the last blocks: the function's own ``fail`` and ``leave``."""
        b = self.b
        b.br(self.cleanup.leave)
        b.at(self.cleanup.fail)
        b.ret(failed)
        b.at(self.cleanup.leave)
        b.ret(fine)
