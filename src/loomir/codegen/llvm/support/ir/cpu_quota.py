"""Read the CPU quota of a container, as generated IR, for libraries that run without Python.

A container sees its own limit at the root of the cgroup file system. Limits of other groups in the
hierarchy are only read by Python code (``loomir.target.cpus``).
"""

from __future__ import annotations

from typing import Final

from loomir.codegen.llvm.assembler.builder import Builder
from loomir.codegen.llvm.assembler.text import Function, Module
from loomir.codegen.llvm.assembler.types import I8, I32, I64, PTR
from loomir.codegen.llvm.assembler.values import NULL, const

__all__ = ["LIMIT_FILES", "define_cpu_quota"]

LIMIT_FILES: Final = (
    "/sys/fs/cgroup/cpu.max",
    "/sys/fs/cgroup/cpu/cpu.cfs_quota_us",
    "/sys/fs/cgroup/cpu/cpu.cfs_period_us",
)
"""The files of cgroups v2, with quota and period in one file, and of cgroups v1."""

_ROOM: Final = 64
"""Bytes that are read; two numbers have at most 41."""


def define_cpu_quota(module: Module) -> Function:
    """Define ``i32 cpu_quota(ptr limit, ptr quota, ptr period)``; the arguments are file paths.

    It returns the quota in CPUs, rounded up; 0 if there is none.
    """
    read = _define_read(module)
    strtol = module.declare("strtol", I64, [PTR, PTR, I32])
    params = [("limit", PTR), ("quota", PTR), ("period", PTR)]
    f = module.define("cpu_quota", I32, params, linkage="internal")
    b = Builder(f)
    first, second, after = b.alloca(I8, _ROOM), b.alloca(I8, _ROOM), b.alloca(PTR)
    one, two, limited, divided, none = (
        b.append(n) for n in ("one", "two", "limited", "divided", "none")
    )
    zero, ten = const(I64, 0), const(I32, 10)
    b.condbr(b.icmp("ne", b.call(read, [f.params[0], first]), zero), one, two)
    b.position_at_end(one)
    quota_of_one = b.call(strtol, [first, after, ten])
    period_of_one = b.call(strtol, [b.load(PTR, after), NULL, ten])
    b.br(limited)
    b.position_at_end(two)
    b.call(read, [f.params[1], first])
    b.call(read, [f.params[2], second])
    quota_of_two = b.call(strtol, [first, NULL, ten])
    period_of_two = b.call(strtol, [second, NULL, ten])
    b.br(limited)
    b.position_at_end(limited)
    quota, period = b.phi(I64), b.phi(I64)
    for value, of_one, of_two in (
        (quota, quota_of_one, quota_of_two),
        (period, period_of_one, period_of_two),
    ):
        value.add(of_one, one)
        value.add(of_two, two)
    some = b.and_(b.icmp("sgt", quota, zero), b.icmp("sgt", period, zero))
    b.condbr(some, divided, none)
    b.position_at_end(divided)
    cpus = b.add(b.udiv(b.sub(quota, const(I64, 1)), period), const(I64, 1))
    most = const(I64, (1 << 31) - 1)
    b.ret(b.trunc(b.select(b.icmp("ult", cpus, most), cpus, most), I32))
    b.position_at_end(none)
    b.ret(const(I32, 0))
    return f


def _define_read(module: Module) -> Function:
    """Define ``i64 read_text(ptr path, ptr text)``; it returns the bytes read, and adds a zero."""
    f = module.define("read_text", I64, [("path", PTR), ("text", PTR)], linkage="internal")
    b = Builder(f)
    path, text = f.params
    opened, done = b.append("opened"), b.append("done")
    start = b.block
    # `open` takes a mode only for files that it creates.
    handle = b.call(module.declare("open", I32, [PTR, I32]), [path, const(I32, 0)])
    b.condbr(b.icmp("sge", handle, const(I32, 0)), opened, done)
    b.position_at_end(opened)
    count = b.call(
        module.declare("read", I64, [I32, PTR, I64]), [handle, text, const(I64, _ROOM - 1)]
    )
    b.call(module.declare("close", I32, [I32]), [handle])
    some = b.select(b.icmp("sgt", count, const(I64, 0)), count, const(I64, 0))
    b.br(done)
    b.position_at_end(done)
    size = b.phi(I64)
    size.add(const(I64, 0), start)
    size.add(some, opened)
    b.store(const(I8, 0), b.gep(I8, text, size))
    b.ret(size)
    return f
