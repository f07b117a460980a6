"""How generated code stops: the table of faults, and the code that reports one.

A function of generated code returns 0, 1 after a fault, or 2 where its arguments do not fit. The
*context*, ``{ i32 site, i32 depth, i64 v0, i64 v1, i64 v2 }``, then says which fault it was; its
``depth`` counts the calls that are under way, and ``v2`` is the address of the context that the
entry made, until there is a fault. Each thread of a parallel loop has a context.
"""

from __future__ import annotations

from typing import Final

from loomir.codegen.llvm.builder import Builder
from loomir.codegen.llvm.text import Callee, Metadata, Module
from loomir.codegen.llvm.types import I32, I64, PTR, VOID, Type, struct
from loomir.codegen.llvm.values import Value, const
from loomir.runtime import layout as at
from loomir.runtime.fault import Fault

__all__ = ["CONTEXT", "FAULTED", "FINE", "MISFIT", "ROOT", "FaultTable"]

CONTEXT: Final[Type] = struct([I32, I32, I64, I64, I64])
ROOT: Final = 4
"""The field of the context that says which call from outside this is."""
FINE: Final = const(I32, 0)
FAULTED: Final = const(I32, 1)
MISFIT: Final = const(I32, 2)

_FORMAT: Final = "%d;%lld;%lld;%lld;%lld"


class FaultTable:
    """The faults of a module; a fault's place in ``rows`` is its site."""

    __slots__ = ("_module", "_raise", "_record", "rows")

    def __init__(self, module: Module) -> None:
        self.rows: list[Fault] = []
        self._module = module
        self._record: Callee | None = None
        self._raise: Callee | None = None

    def add(self, fault: Fault) -> int:
        """Give the site of a new fault."""
        self.rows.append(fault)
        return len(self.rows) - 1

    def rare(self) -> dict[str, Metadata]:
        """Give the note that a branch nearly always goes to its first block."""
        return {"prof": self._module.metadata('!{!"branch_weights", i32 1048576, i32 1}')}

    def record(self, b: Builder, context: Value, site: int, values: tuple[Value, ...]) -> None:
        """Write a fault into the context; the values are 64-bit integers, at most three."""
        if self._record is None:
            self._record = _define_record(self._module)
        padded = [*values, *[const(I64, 0)] * (3 - len(values))]
        b.call(self._record, [context, const(I32, site), *padded])

    def raise_context(self, b: Builder, context: Value, status: Value) -> None:
        """Raise the error that a status other than 0 and a context describe."""
        if self._raise is None:
            self._raise = _define_raise(self._module)
        b.call(self._raise, [context, status])


_COLD: Final[dict[str, str | None]] = {"cold": None, "noinline": None, "nounwind": None}


def _define_record(module: Module) -> Callee:
    params = [("context", PTR), ("site", I32), ("v0", I64), ("v1", I64), ("v2", I64)]
    made = module.define("loomir.fault", VOID, params, linkage="internal", attributes=_COLD)
    b = Builder(made)
    context = made.params[0]
    for field, value in zip((0, 2, 3, 4), made.params[1:], strict=True):
        b.store(value, b.field(CONTEXT, context, field))
    b.ret()
    return made


def _define_raise(module: Module) -> Callee:
    printf = module.declare("snprintf", I32, [PTR, I64, PTR], varargs=True)
    set_error = module.declare("TVMFFIErrorSetRaisedFromCStr", VOID, [PTR, PTR])
    made = module.define(
        "loomir.raise",
        VOID,
        [("context", PTR), ("status", I32)],
        linkage="internal",
        attributes=_COLD,
    )
    b = Builder(made)
    context, status = made.params
    text = b.alloca(struct([I64] * 16), hint="text")
    values = [
        b.load(t, b.field(CONTEXT, context, i)) for i, t in ((0, I32), (2, I64), (3, I64), (4, I64))
    ]
    values.append(b.ptrtoint(context, I64))
    misfit = b.icmp("eq", status, MISFIT)
    values[0] = b.select(misfit, const(I32, at.SITE_ARGUMENTS), values[0])
    b.call(printf, [text, const(I64, 128), module.string(_FORMAT), *values])
    b.call(set_error, [module.string(at.FAULT_KIND), text])
    b.ret()
    return made
