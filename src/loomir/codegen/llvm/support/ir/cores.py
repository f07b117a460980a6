"""Determine the number of threads from environment variables and the system, as generated IR."""

from __future__ import annotations

from typing import Final

from loomir.codegen.llvm.assembler.builder import Builder
from loomir.codegen.llvm.assembler.types import I32, I64, PTR
from loomir.codegen.llvm.assembler.values import NULL, Value, const
from loomir.codegen.llvm.support.ir.cpu_quota import LIMIT_FILES, define_cpu_quota
from loomir.codegen.llvm.support.ir.system.interface import System

__all__ = ["count_cores", "emit_min", "read_thread_setting"]

_VARIABLES: Final = ("OMP_NUM_THREADS", "LOOMIR_NUM_THREADS")
"""The last of these that is set counts."""


def read_thread_setting(b: Builder, most: int) -> Value:
    """Read the number at the start of the variable that is set, at most ``most``; 0 for none."""
    getenv = b.module.declare("getenv", PTR, [PTR])
    strtol = b.module.declare("strtol", I64, [PTR, PTR, I32])
    text = b.module.string("")
    for name in _VARIABLES:
        found = b.call(getenv, [b.module.string(name)])
        text = b.select(b.icmp("eq", found, NULL), text, found)
    number = b.call(strtol, [text, NULL, const(I32, 10)])
    some = b.icmp("sgt", number, const(I64, 0))
    return b.trunc(b.select(some, emit_min(b, number, const(I64, most)), const(I64, 0)), I32)


def count_cores(b: Builder, system: System, quota: Value, most: int) -> Value:
    """Return how many CPUs the calling thread may use by its affinity and quota, 1 to ``most``.

    The word at ``quota`` caches the quota: 0 if it is not read yet, -1 if there is none.
    """
    usable = system.count_cpus(b)
    known = b.icmp("sgt", usable, const(I32, 0))
    cpus = b.select(known, emit_min(b, usable, const(I32, most)), const(I32, 1))
    paid = _read_quota(b, system, quota)
    limited = b.icmp("sgt", paid, const(I32, 0))
    return b.select(limited, emit_min(b, cpus, paid), cpus)


def _read_quota(b: Builder, system: System, quota: Value) -> Value:
    was_set = b.load_atomic(I32, quota, "monotonic")
    if not system.has_quotas:
        return was_set
    unknown, known = b.append("unknown"), b.append("known")
    start = b.block
    b.condbr(b.icmp("eq", was_set, const(I32, 0)), unknown, known)
    b.position_at_end(unknown)
    found = b.call(define_cpu_quota(b.module), [b.module.string(file) for file in LIMIT_FILES])
    b.br(known)
    b.position_at_end(known)
    result = b.phi(I32)
    result.add(was_set, start)
    result.add(found, unknown)
    return result


def emit_min(b: Builder, x: Value, limit: Value) -> Value:
    """Return the lesser of two signed integers."""
    return b.select(b.icmp("slt", x, limit), x, limit)
