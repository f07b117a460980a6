"""The thread pool by the functions of each system: those of POSIX only and of Windows, run here."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import llvmlite.binding as llvm
import pytest

from loomir.codegen.llvm.jit.engine import TargetMachine, assembly
from loomir.codegen.llvm.support.ir.pool import pool_module
from loomir.codegen.llvm.support.ir.process import process_ir
from loomir.support.diagnostics import InternalError
from loomir.target.triples import architecture_of, system_name

POOL = Path(__file__).with_name("test_pool.py")
C_LIBRARY = {"aligned_alloc", "free", "getenv", "strtol", "loomir_poll"}
POSIX = C_LIBRARY | {
    "clock_gettime", "pthread_attr_destroy", "pthread_attr_init", "pthread_attr_setstacksize",
    "pthread_cond_broadcast", "pthread_cond_init", "pthread_cond_timedwait", "pthread_cond_wait",
    "pthread_create", "pthread_join", "pthread_mutex_init", "pthread_mutex_lock",
    "pthread_mutex_unlock", "pthread_sigmask", "sysconf",
}  # fmt: skip
WINDOWS = {
    "AcquireSRWLockExclusive", "CloseHandle", "CreateThread", "GetActiveProcessorCount",
    "QueryPerformanceCounter", "QueryPerformanceFrequency", "ReleaseSRWLockExclusive",
    "SleepConditionVariableSRW", "WaitForSingleObject", "WakeAllConditionVariable",
    "_aligned_free", "_aligned_malloc", "getenv", "strtol", "loomir_poll",
}  # fmt: skip
PYTHON = {
    "PyErr_CheckSignals", "PyErr_Fetch", "PyErr_NormalizeException", "PyException_SetTraceback",
    "PyGILState_Ensure", "PyGILState_Release", "Py_DecRef",
}  # fmt: skip
MAC, MAC_INTEL = "arm64-apple-darwin23.1.0", "x86_64-apple-macosx13.0.0"
WINDOWS_INTEL, BSD = "x86_64-pc-windows-msvc", "x86_64-unknown-freebsd14.0"


def called(text: str, triple: str) -> set[str]:
    """Compile IR for a machine, and return the functions of others that it calls."""
    module = llvm.parse_assembly(text)
    module.verify()
    assert assembly(text, TargetMachine.of("", triple=triple), 2)
    outside = {f.name for f in module.functions if f.is_declaration}
    return {name for name in outside if not name.startswith("llvm.")}


@pytest.mark.parametrize("triple", [MAC, MAC_INTEL, BSD, "aarch64-unknown-linux-gnu"])
def test_the_pool_of_unix_calls_posix_only(triple: str):
    assert called(pool_module(triple, portable=True).render(), triple) == POSIX
    if "linux" not in triple:
        found = called(process_ir(triple, xsave=False), triple)
        assert found == PYTHON | {"pthread_self", "clock_gettime"}


def test_the_pool_of_windows_calls_functions_of_windows():
    assert called(pool_module(WINDOWS_INTEL).render(), WINDOWS_INTEL) == WINDOWS
    found = called(process_ir(WINDOWS_INTEL, xsave=True), WINDOWS_INTEL)
    assert found == PYTHON | {"GetCurrentThreadId", "GetTickCount64"}


@pytest.mark.parametrize(
    "triple", ["sparc-unknown-linux-gnu", "armv7-apple-darwin", "wasm32-unknown-wasi", "x86_64"]
)
def test_other_machines_are_refused(triple: str):
    with pytest.raises(InternalError, match="no thread pool"):
        pool_module(triple)


def test_systems_and_machines_have_one_name_each():
    triples = (MAC, MAC_INTEL, WINDOWS_INTEL, BSD, "amd64-unknown-linux-musl", "wasm32-wasi")
    assert [system_name(t) for t in triples] == [
        "darwin", "darwin", "windows", "freebsd", "linux", None,
    ]  # fmt: skip
    assert [architecture_of(t) for t in triples[:3]] == ["aarch64", "x86_64", "x86_64"]


def run_pool_tests(code: str, *, measured: bool = True, **environment: str) -> str:
    """Run the tests of the pool that need no other process, in a child after some code.

    ``measured`` tells whether the clock is fine enough for a region.
    """
    chosen = "every_index or ranges or fault or delayed or follow or nested or callers"
    chosen += " or measured" * measured
    script = f"import pytest\n{code}\npytest.main(['-n0', '-q', {str(POOL)!r}, '-k', {chosen!r}])"
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, **environment},
        cwd=POOL.parents[4],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    return done.stdout + done.stderr


@pytest.mark.skipif(not hasattr(os, "fork"), reason="it asks for POSIX")
def test_the_pool_works_by_posix_only():
    shown = run_pool_tests(
        "from loomir.codegen.llvm.support import pool\nassert pool.is_portable()",
        LOOMIR_PORTABLE="1",
    )
    assert " passed" in shown, shown
    assert " failed" not in shown, shown


STAND_INS = """
declare i32 @sched_yield()
declare i32 @nanosleep(ptr, ptr)
declare i32 @clock_gettime(i32, ptr)
declare i32 @pthread_create(ptr, ptr, ptr, ptr)
declare i32 @pthread_join(i64, ptr)
declare ptr @aligned_alloc(i64, i64)
declare void @free(ptr)

define void @AcquireSRWLockExclusive(ptr %lock) {
  br label %try
try:
  %pair = cmpxchg ptr %lock, i64 0, i64 1 seq_cst seq_cst
  %taken = extractvalue { i64, i1 } %pair, 1
  br i1 %taken, label %done, label %again
again:
  %yielded = call i32 @sched_yield()
  br label %try
done:
  ret void
}
define void @ReleaseSRWLockExclusive(ptr %lock) {
  store atomic i64 0, ptr %lock seq_cst, align 8
  ret void
}
define i64 @ticks() {
  %time = alloca [2 x i64]
  %failed = call i32 @clock_gettime(i32 1, ptr %time)
  %seconds = load i64, ptr %time
  %rest.at = getelementptr i64, ptr %time, i64 1
  %rest = load i64, ptr %rest.at
  %whole = mul i64 %seconds, 10000000
  %part = udiv i64 %rest, 100
  %ticks = add i64 %whole, %part
  ret i64 %ticks
}
define i32 @SleepConditionVariableSRW(ptr %condition, ptr %lock, i32 %ms, i32 %flags) {
  %nap = alloca [2 x i64]
  store i64 0, ptr %nap
  %nap.rest = getelementptr i64, ptr %nap, i64 1
  store i64 50000, ptr %nap.rest
  %before = load atomic i64, ptr %condition seq_cst, align 8
  %start = call i64 @ticks()
  %wide = zext i32 %ms to i64
  %time = mul i64 %wide, 10000
  %until = add i64 %start, %time
  store atomic i64 0, ptr %lock seq_cst, align 8
  br label %look
look:
  %now = load atomic i64, ptr %condition seq_cst, align 8
  %woken = icmp ne i64 %now, %before
  %clock = call i64 @ticks()
  %late = icmp uge i64 %clock, %until
  %ends = or i1 %woken, %late
  br i1 %ends, label %wake, label %sleep
sleep:
  %slept = call i32 @nanosleep(ptr %nap, ptr null)
  br label %look
wake:
  call void @AcquireSRWLockExclusive(ptr %lock)
  %answer = zext i1 %woken to i32
  ret i32 %answer
}
define void @WakeAllConditionVariable(ptr %condition) {
  %before = atomicrmw add ptr %condition, i64 1 seq_cst
  ret void
}
define ptr @CreateThread(ptr %security, i64 %size, ptr %body, ptr %given, i32 %flags, ptr %id) {
  %thread = alloca i64
  %failed = call i32 @pthread_create(ptr %thread, ptr null, ptr %body, ptr %given)
  %bad = icmp ne i32 %failed, 0
  %number = load i64, ptr %thread
  %handle = inttoptr i64 %number to ptr
  %made = select i1 %bad, ptr null, ptr %handle
  ret ptr %made
}
define i32 @WaitForSingleObject(ptr %handle, i32 %ms) {
  %thread = ptrtoint ptr %handle to i64
  %failed = call i32 @pthread_join(i64 %thread, ptr null)
  ret i32 %failed
}
define i32 @CloseHandle(ptr %handle) {
  ret i32 1
}
define i32 @QueryPerformanceCounter(ptr %out) {
  %ticks = call i64 @ticks()
  store i64 %ticks, ptr %out
  ret i32 1
}
define i32 @QueryPerformanceFrequency(ptr %out) {
  store i64 10000000, ptr %out
  ret i32 1
}
define i32 @GetActiveProcessorCount(i32 %group) {
  ret i32 2
}
define ptr @_aligned_malloc(i64 %size, i64 %align) {
  %made = call ptr @aligned_alloc(i64 %align, i64 %size)
  ret ptr %made
}
define void @_aligned_free(ptr %memory) {
  call void @free(ptr %memory)
  ret void
}
"""
"""Functions of Windows by those of POSIX. A condition is a count of wake-ups; sleepers watch it."""

AS_WINDOWS = f"""
import ctypes
from loomir.codegen.llvm.jit.engine import compile_ir, load
from loomir.codegen.llvm.support import pool
from loomir.codegen.llvm.support.ir.pool import pool_module
from loomir.codegen.llvm.support.process import process_symbols

def load_pool():
    others = load(compile_ir({STAND_INS!r}), {{}})
    names = {sorted(WINDOWS - {"getenv", "strtol", "loomir_poll"})!r}
    stand_ins = {{name: others.address(name) for name in names}}
    text = pool_module({WINDOWS_INTEL!r}).render()
    library = load(compile_ir(text), process_symbols() | stand_ins)
    for kept in (others, library):
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(kept))
    set_quota = ctypes.CFUNCTYPE(None, ctypes.c_int32)(library.address("loomir_pool_set_quota"))
    set_quota(-1)
    return library

pool._load = load_pool
assert pool.pool_symbols()
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the stand-ins are of Linux")
def test_the_pool_works_by_functions_of_windows():
    shown = run_pool_tests(AS_WINDOWS, measured=False)
    assert " passed" in shown, shown
    assert " failed" not in shown, shown
