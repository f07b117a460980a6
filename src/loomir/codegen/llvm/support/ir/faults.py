"""Faults of generated code: the table of faults, and the code that reports one.

A generated function returns 0, 1 after a fault, or 2 if its arguments do not fit. The *context*,
``{ i32 site, i32 depth, i64 v0, i64 v1, i64 v2, … }``, then identifies the fault; ``depth`` counts
the calls in progress. Before a fault, ``v0`` is the budget until the next interrupt check
(``tir.polling``), ``v1`` the lowest stack address that needs no check (``tir.stack``), and ``v2``
the address of the context that the entry made. Each thread of a parallel loop has a context of its
own. Instrumented code has no such threads, and space for more values: the indices of an element.
"""

from __future__ import annotations

from typing import Final

from loomir.codegen.llvm.assembler.builder import Builder
from loomir.codegen.llvm.assembler.text import Callee, Metadata, Module
from loomir.codegen.llvm.assembler.types import I32, I64, PTR, VOID, Type, struct
from loomir.codegen.llvm.assembler.values import Value, const
from loomir.codegen.llvm.support.ir.raise_errors import RAISE, REFUSE
from loomir.runtime.fault import Fault

__all__ = [
    "BUDGET",
    "CONTEXT",
    "FAULTED",
    "FEW",
    "FINE",
    "FLOOR",
    "FULL",
    "MANY",
    "MISFIT",
    "ROOT",
    "FaultTable",
    "open_context",
]

CONTEXT: Final[Type] = struct([I32, I32, I64, I64, I64])
"""The fields that every context begins with."""
BUDGET: Final = 2
"""The field of the context that ``tir.polling`` counts down from ``FULL``."""
FLOOR: Final = 3
"""The field of the context with the address down to which this thread's stack needs no check."""
ROOT: Final = 4
"""The field of the context with the number of the call from outside."""
FULL: Final = 1 << 23
"""The budget in TIR nodes: milliseconds, since a core evaluates some nodes in a nanosecond."""
FINE: Final = const(I32, 0)
FAULTED: Final = const(I32, 1)
MISFIT: Final = const(I32, 2)

FEW: Final = 3
"""How many values of a fault the pool's records have room for."""
MANY: Final = 16


class FaultTable:
    """The faults of a module; the site of a fault is its index in ``rows``.

    ``values`` is the most values of a fault, ``context`` the type of the context they are written
    to.
    """

    __slots__ = ("_module", "_record", "context", "rows", "values")

    def __init__(self, module: Module, values: int = FEW) -> None:
        self.values = values
        self.context: Type = struct([I32, I32, *[I64] * values])
        self.rows: list[Fault] = []
        self._module = module
        self._record: Callee | None = None

    def add(self, fault: Fault) -> int:
        """Add a fault, and return its site."""
        self.rows.append(fault)
        return len(self.rows) - 1

    def rare(self) -> dict[str, Metadata]:
        """Return the metadata that a branch nearly always goes to its first block."""
        return {"prof": self._module.metadata('!{!"branch_weights", i32 1048576, i32 1}')}

    def record(self, b: Builder, context: Value, site: int, values: tuple[Value, ...]) -> None:
        """Write a fault into the context; the values are 64-bit integers."""
        self.record_at(b, context, const(I32, site), values)

    def record_at(self, b: Builder, context: Value, site: Value, values: tuple[Value, ...]) -> None:
        """Write a fault whose site is computed at run time."""
        if self._record is None:
            self._record = _define_record(self._module, self.context, self.values)
        padded = [*values, *[const(I64, 0)] * (self.values - len(values))]
        b.call(self._record, [context, site, *padded])

    def raise_context(self, b: Builder, context: Value, status: Value) -> None:
        """Raise the error that a status other than 0 and a context describe."""
        callee = self._module.declare(RAISE, VOID, [PTR, I32, I32])
        b.call(callee, [context, status, const(I32, self.values)])

    def refuse(self, b: Builder, context: Value) -> None:
        """Raise the error that arguments have wrong types, or are too few."""
        callee = self._module.declare(REFUSE, VOID, [PTR, I32])
        b.call(callee, [context, const(I32, self.values)])


def open_context(b: Builder, context: Value) -> Value:
    """Initialise a context, and return the number of its call from outside."""
    b.store(const(I32, 0), b.field(CONTEXT, context, 1))
    b.store(const(I64, FULL), b.field(CONTEXT, context, BUDGET))
    b.store(const(I64, -1), b.field(CONTEXT, context, FLOOR))
    root = b.ptrtoint(context, I64)
    b.store(root, b.field(CONTEXT, context, ROOT))
    return root


_COLD: Final[dict[str, str | None]] = {"cold": None, "noinline": None, "nounwind": None}


def _define_record(module: Module, t: Type, count: int) -> Callee:
    params = [("context", PTR), ("site", I32), *[(f"v{i}", I64) for i in range(count)]]
    made = module.define("loomir.fault", VOID, params, linkage="internal", attributes=_COLD)
    b = Builder(made)
    context = made.params[0]
    for field, value in zip((0, *range(2, 2 + count)), made.params[1:], strict=True):
        b.store(value, b.field(t, context, field))
    b.ret()
    return made
