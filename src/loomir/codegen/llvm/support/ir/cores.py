"""Determine the number of threads from environment variables and the system, as generated IR."""

from __future__ import annotations

from typing import Final

from loomir.codegen.llvm.assembler.builder import Builder
from loomir.codegen.llvm.assembler.types import I32, I64, PTR, vector
from loomir.codegen.llvm.assembler.values import NULL, Value, const, zero
from loomir.codegen.llvm.support.ir.cpu_quota import LIMIT_FILES, define_cpu_quota
from loomir.codegen.llvm.support.ir.placement import count_cpus, read_own_cpus

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


def count_cores(b: Builder, quota: Value, most: int) -> Value:
    """Return how many CPUs the calling thread may use by its affinity and quota, 1 to ``most``.

    The word at ``quota`` caches the quota: 0 if it is not read yet, -1 if there is none.
    """
    mask = b.alloca(I64, 128, align=16)
    b.store(zero(vector(I64, 128)), mask, align=16)
    failed = read_own_cpus(b, mask)
    low = count_cpus(b, mask)
    usable = b.and_(b.icmp("eq", failed, const(I32, 0)), b.icmp("sgt", low, const(I32, 0)))
    cpus = b.select(usable, emit_min(b, low, const(I32, most)), const(I32, 1))
    paid = _read_quota(b, quota)
    limited = b.icmp("sgt", paid, const(I32, 0))
    return b.select(limited, emit_min(b, cpus, paid), cpus)


def _read_quota(b: Builder, quota: Value) -> Value:
    unknown, known = b.append("unknown"), b.append("known")
    start = b.block
    was_set = b.load_atomic(I32, quota, "monotonic")
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
