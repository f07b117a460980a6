"""Services of the process for compiled code, as LLVM IR.

- ``i32 loomir_poll(context)`` refills the budget, and returns 1 if the call must stop. It asks
  Python, only in Python's main thread, where signals are handled: some tens of times a second, and
  less often if the GIL is contended, so that asking takes at most a hundredth of the time. The
  exception of a signal handler is kept together with the root of the call that it stops, from which
  the call's other threads learn it.
- ``ptr loomir_take_raised(root)`` returns the exception that stopped that call, as a new reference,
  or NULL.
- ``void loomir_set_main(thread)`` sets the main thread.
- ``ir.stack`` measures the stack.
"""

from __future__ import annotations

from string import Template
from typing import Final

from loomir.codegen.llvm.support.ir.faults import FULL
from loomir.codegen.llvm.support.ir.names import POLL
from loomir.codegen.llvm.support.ir.stack import stack_ir
from loomir.codegen.llvm.support.ir.system.posix import NUMBERS
from loomir.target.triples import architecture_of, system_name

__all__ = ["POLL", "library_ir", "process_ir"]


_PAUSE: Final = 20_000_000
"""Nanoseconds between two questions to Python: far below what a person notices after Ctrl-C."""
_SHARE: Final = 100
_MOST: Final = 500_000_000
"""After a question that took long, the next waits ``_SHARE`` times as long, but at most so many
nanoseconds: half a second is still an answer to Ctrl-C.
"""

_UNIX: Final = Template("""
declare i64 @pthread_self()
declare i32 @clock_gettime(i32, ptr)

define internal i64 @self() {
  %self = call i64 @pthread_self()
  ret i64 %self
}

define internal i64 @now() {
  %time = alloca [2 x i64]
  %failed = call i32 @clock_gettime(i32 $monotonic, ptr %time)
  %seconds = load i64, ptr %time
  %rest.at = getelementptr i64, ptr %time, i64 1
  %rest = load i64, ptr %rest.at
  %whole = mul i64 %seconds, 1000000000
  %now = add i64 %whole, %rest
  ret i64 %now
}
""")
_WINDOWS: Final = """
declare i32 @GetCurrentThreadId()
declare i64 @GetTickCount64()

define internal i64 @self() {
  %number = call i32 @GetCurrentThreadId()
  %self = zext i32 %number to i64
  ret i64 %self
}

define internal i64 @now() {
  %ticks = call i64 @GetTickCount64()
  %now = mul i64 %ticks, 1000000
  ret i64 %now
}
"""
_PROCESS: Final = Template("""
@main = internal global i64 0
@stopping = internal global i64 0
@next = internal global i64 0
@raised = internal global ptr null

declare i32 @PyGILState_Ensure()
declare void @PyGILState_Release(i32)
declare i32 @PyErr_CheckSignals()
declare void @PyErr_Fetch(ptr, ptr, ptr)
declare void @PyErr_NormalizeException(ptr, ptr, ptr)
declare i32 @PyException_SetTraceback(ptr, ptr)
declare void @Py_DecRef(ptr)

define internal i32 @ask(ptr %context) {
  %budget.at = getelementptr i8, ptr %context, i64 8
  store i64 $full, ptr %budget.at
  %root.at = getelementptr i8, ptr %context, i64 24
  %root = load i64, ptr %root.at
  %stopping = load atomic i64, ptr @stopping monotonic, align 8
  %told = icmp eq i64 %stopping, %root
  br i1 %told, label %stop, label %thread
thread:
  %self = call i64 @self()
  %main = load atomic i64, ptr @main monotonic, align 8
  %is.main = icmp eq i64 %self, %main
  br i1 %is.main, label %clock, label %go
clock:
  %now = call i64 @now()
  %next = load i64, ptr @next
  %is.time = icmp sge i64 %now, %next
  br i1 %is.time, label %ask, label %go
ask:
  %state = call i32 @PyGILState_Ensure()
  %answer = call i32 @PyErr_CheckSignals()
  %failed = icmp ne i32 %answer, 0
  br i1 %failed, label %keep, label %asked
keep:
  %type.at = alloca ptr
  %value.at = alloca ptr
  %trace.at = alloca ptr
  call void @PyErr_Fetch(ptr %type.at, ptr %value.at, ptr %trace.at)
  call void @PyErr_NormalizeException(ptr %type.at, ptr %value.at, ptr %trace.at)
  %type = load ptr, ptr %type.at
  %value = load ptr, ptr %value.at
  %trace = load ptr, ptr %trace.at
  %traced = icmp ne ptr %trace, null
  br i1 %traced, label %traces, label %kept
traces:
  %set = call i32 @PyException_SetTraceback(ptr %value, ptr %trace)
  br label %kept
kept:
  call void @Py_DecRef(ptr %type)
  call void @Py_DecRef(ptr %trace)
  %before = load ptr, ptr @raised
  store ptr %value, ptr @raised
  call void @Py_DecRef(ptr %before)
  store atomic i64 %root, ptr @stopping release, align 8
  br label %asked
asked:
  call void @PyGILState_Release(i32 %state)
  %later = call i64 @now()
  %took = sub i64 %later, %now
  %long = mul i64 %took, $share
  %longer = icmp sgt i64 %long, $pause
  %scaled = select i1 %longer, i64 %long, i64 $pause
  %late = icmp sgt i64 %scaled, $most
  %wait = select i1 %late, i64 $most, i64 %scaled
  %then = add i64 %later, %wait
  store i64 %then, ptr @next
  br i1 %failed, label %stop, label %go
stop:
  ret i32 1
go:
  ret i32 0
}

define ptr @loomir_take_raised(i64 %root) {
  %stopping = load atomic i64, ptr @stopping monotonic, align 8
  %is.this = icmp eq i64 %stopping, %root
  br i1 %is.this, label %this, label %none
this:
  %raised = load ptr, ptr @raised
  store ptr null, ptr @raised
  store atomic i64 0, ptr @stopping release, align 8
  ret ptr %raised
none:
  ret ptr null
}

define void @loomir_set_main(i64 %thread) {
  store atomic i64 %thread, ptr @main monotonic, align 8
  ret void
}
""")

_PLAIN: Final = """
define i32 @loomir_poll(ptr %context) {
  %stop = call i32 @ask(ptr %context)
  ret i32 %stop
}
"""
# The callers' registers, vectors too, are saved here, so that loops keep their values in them: see
# ``tir.polling``. The save area begins at a multiple of 64, and its header is zero.
_SAVING: Final = """
define i32 @loomir_poll(ptr %context) naked {
  call void asm sideeffect "
    pushq %rbp
    movq %rsp, %rbp
    pushq %rcx
    pushq %rdx
    pushq %rsi
    pushq %rdi
    pushq %r8
    pushq %r9
    pushq %r10
    pushq %r11
    subq $$2688, %rsp
    andq $$-64, %rsp
    xorl %eax, %eax
    movq %rax, 512(%rsp)
    movq %rax, 520(%rsp)
    movq %rax, 528(%rsp)
    movq %rax, 536(%rsp)
    movq %rax, 544(%rsp)
    movq %rax, 552(%rsp)
    movq %rax, 560(%rsp)
    movq %rax, 568(%rsp)
    movl $$0xE7, %eax
    xorl %edx, %edx
    xsave64 (%rsp)
    callq ${0:P}
    movl %eax, %ecx
    movl $$0xE7, %eax
    xorl %edx, %edx
    xrstor64 (%rsp)
    movl %ecx, %eax
    leaq -64(%rbp), %rsp
    popq %r11
    popq %r10
    popq %r9
    popq %r8
    popq %rdi
    popq %rsi
    popq %rdx
    popq %rcx
    popq %rbp
    retq", "i,~{memory}"(ptr @ask)
  unreachable
}
"""

_LIBRARY: Final = """
declare i64 @pthread_self()

define i32 @loomir_poll(ptr %context) {
  ret i32 0
}
"""


def library_ir(triple: str) -> str:
    """Write the module for programs in C, which handle signals themselves: nothing polls."""
    return _LIBRARY + stack_ir(triple)


def process_ir(triple: str, *, xsave: bool) -> str:
    """Write the module; ``xsave``: the CPU has more registers than baseline x86-64."""
    text = _PROCESS.substitute(full=FULL, pause=_PAUSE, share=_SHARE, most=_MOST)
    text += stack_ir(triple)
    system = system_name(triple)
    if system == "windows":
        # Its calling convention is another one; nothing polls there (``module.generate``).
        return text + _WINDOWS + _PLAIN
    text += _UNIX.substitute(monotonic=NUMBERS[system or "linux"].monotonic)
    if architecture_of(triple) != "x86_64":
        return text + _PLAIN
    saving = _SAVING if xsave else _SAVING.replace("xsave64", "fxsave64")
    return text + (saving if xsave else saving.replace("xrstor64", "fxrstor64"))
