"""Measure the remaining stack of a thread, as LLVM IR: a part of ``ir.process``.

- ``i32 loomir_has_stack(ptr context, i64 lowest)`` tells whether frames of this thread may reach
  down to an address. It writes to the context how far they may reach without asking again
  (``faults.FLOOR``).
- ``i32 loomir_may_leave(i64 here)`` tells whether enough is left for Python, or for whatever else
  was registered: ``_OTHERS`` bytes, or half of a smaller stack.

The bounds of a thread's stack are queried once for each thread and kept in one word: the lowest
address, a multiple of a page, the logarithm of the size, and whether the stack *grows*. That of the
first thread grows up to ``RLIMIT_STACK``; a part of it always exists (``_THERE``), and for the rest
the limit is read again.

Space for leaf functions of C and for signal frames, whose size depends on the machine, is kept free
below. On systems other than Linux, a call uses at most ``_FIXED`` bytes.
"""

from __future__ import annotations

from string import Template
from typing import Final

from loomir.codegen.llvm.support.ir.faults import FLOOR, ROOT
from loomir.codegen.llvm.support.ir.names import HAS_STACK, MAY_LEAVE

__all__ = ["HAS_STACK", "MAY_LEAVE", "stack_ir"]


_FIXED: Final = 3 << 20
"""Bytes that a call may use where the stack is not measured; most systems give threads 8 MB."""
_UNKNOWN: Final = 32 << 10
"""Bytes that a call may use if the system could not tell the stack's size, for lack of memory."""
_OTHERS: Final = 64 << 10
"""Bytes that are left for Python and other callees."""
_LEAVES: Final = 6 << 10
"""Bytes that are kept free for leaf functions of C, besides those of a signal frame."""
_THERE: Final = 96 << 10
"""Bytes of the first thread's stack that Linux maps from the beginning: it starts with 128 KB."""
_CHUNK: Final = 32 << 10
"""Bytes by which the first thread's stack grows before its limit is read again."""
_GETTID: Final = {"x86_64": 186, "aarch64": 178, "riscv64": 178}

_MEASURED: Final = Template("""
@stack.key = internal global i64 -1
@stack.top = internal global i64 0

declare i32 @pthread_getattr_np(i64, ptr)
declare i32 @pthread_attr_getstack(ptr, ptr, ptr)
declare i32 @pthread_attr_getguardsize(ptr, ptr)
declare i32 @pthread_attr_destroy(ptr)
declare i32 @pthread_key_create(ptr, ptr)
declare i32 @pthread_key_delete(i32)
declare i64 @pthread_getspecific(i32)
declare i32 @pthread_setspecific(i32, i64)
declare i32 @getrlimit(i32, ptr)
declare i64 @getauxval(i64)
declare i32 @getpid()
declare i64 @syscall(i64, ...)
declare i64 @llvm.ctlz.i64(i64, i1)
declare i64 @llvm.umax.i64(i64, i64)
declare i64 @llvm.umin.i64(i64, i64)

define internal i32 @stack_key() noinline {
  %made.at = alloca i32
  %failed = call i32 @pthread_key_create(ptr %made.at, ptr null)
  %bad = icmp ne i32 %failed, 0
  br i1 %bad, label %none, label %try
try:
  %made = load i32, ptr %made.at
  %wide = zext i32 %made to i64
  %pair = cmpxchg ptr @stack.key, i64 -1, i64 %wide seq_cst seq_cst
  %is.ours = extractvalue { i64, i1 } %pair, 1
  br i1 %is.ours, label %ours, label %other
ours:
  ret i32 %made
other:
  %deleted = call i32 @pthread_key_delete(i32 %made)
  %before = extractvalue { i64, i1 } %pair, 0
  %theirs = trunc i64 %before to i32
  ret i32 %theirs
none:
  ret i32 -1
}

define internal i64 @measure_stack() noinline {
  %attr = alloca [128 x i8], align 16
  %low.at = alloca i64
  %size.at = alloca i64
  %guard.at = alloca i64
  %self = call i64 @pthread_self()
  %failed = call i32 @pthread_getattr_np(i64 %self, ptr %attr)
  %bad = icmp ne i32 %failed, 0
  br i1 %bad, label %none, label %read
read:
  store i64 0, ptr %guard.at
  %r1 = call i32 @pthread_attr_getstack(ptr %attr, ptr %low.at, ptr %size.at)
  %r2 = call i32 @pthread_attr_getguardsize(ptr %attr, ptr %guard.at)
  %r3 = call i32 @pthread_attr_destroy(ptr %attr)
  %start = load i64, ptr %low.at
  %size = load i64, ptr %size.at
  %guard = load i64, ptr %guard.at
  %guarded = add i64 %start, %guard
  %over = add i64 %guarded, 4095
  %low = and i64 %over, -4096
  %zeros = call i64 @llvm.ctlz.i64(i64 %size, i1 false)
  %log = sub i64 63, %zeros
  %pid = call i32 @getpid()
  %tid.wide = call i64 (i64, ...) @syscall(i64 $gettid)
  %tid = trunc i64 %tid.wide to i32
  %grows = icmp eq i32 %pid, %tid
  br i1 %grows, label %first, label %plain
first:
  %end = add i64 %start, %size
  store atomic i64 %end, ptr @stack.top monotonic, align 8
  br label %plain
plain:
  %bit = phi i64 [ 0, %read ], [ 64, %first ]
  %p1 = or i64 %low, %log
  %p2 = or i64 %p1, %bit
  ret i64 %p2
none:
  ret i64 0
}

define internal i64 @own_stack() {
  %kept = load atomic i64, ptr @stack.key monotonic, align 8
  %missing = icmp eq i64 %kept, -1
  br i1 %missing, label %make, label %look
make:
  %made = call i32 @stack_key()
  br label %keyed
look:
  %known.key = trunc i64 %kept to i32
  br label %keyed
keyed:
  %key = phi i32 [ %made, %make ], [ %known.key, %look ]
  %keyless = icmp eq i32 %key, -1
  br i1 %keyless, label %without, label %with
without:
  %measured = call i64 @measure_stack()
  ret i64 %measured
with:
  %known = call i64 @pthread_getspecific(i32 %key)
  %is.new = icmp eq i64 %known, 0
  br i1 %is.new, label %new, label %old
new:
  %found = call i64 @measure_stack()
  %set = call i32 @pthread_setspecific(i32 %key, i64 %found)
  ret i64 %found
old:
  ret i64 %known
}

; The lowest address that frames may have now; those near ``here`` are asked for.
define internal i64 @lowest(i64 %own, i64 %here) {
  %low = and i64 %own, -4096
  %bit = and i64 %own, 64
  %grows = icmp ne i64 %bit, 0
  br i1 %grows, label %first, label %fixed
first:
  %top = load atomic i64, ptr @stack.top monotonic, align 8
  %there = sub i64 %top, $there
  %is.there = icmp uge i64 %here, %there
  br i1 %is.there, label %near, label %limited
near:
  %surely = call i64 @llvm.umax.i64(i64 %low, i64 %there)
  ret i64 %surely
limited:
  %limit = alloca [2 x i64]
  store i64 -1, ptr %limit
  %asked = call i32 @getrlimit(i32 3, ptr %limit)
  %most = load i64, ptr %limit
  %less = call i64 @llvm.umin.i64(i64 %most, i64 %top)
  %down = sub i64 %top, %less
  %free = call i64 @llvm.umax.i64(i64 %low, i64 %down)
  %chunk = sub i64 %here, $chunk
  %step = call i64 @llvm.umax.i64(i64 %free, i64 %chunk)
  ret i64 %step
fixed:
  ret i64 %low
}

define internal i64 @reserve() {
  %signal = call i64 @getauxval(i64 51)
  %reserve = add i64 %signal, $leaves
  ret i64 %reserve
}

define i32 @$has_stack(ptr %context, i64 %here) cold noinline {
  %floor.at = getelementptr i8, ptr %context, i64 $floor
  %own = call i64 @own_stack()
  %unknown = icmp eq i64 %own, 0
  br i1 %unknown, label %guess, label %known
guess:
  %root.at = getelementptr i8, ptr %context, i64 $root
  %root = load i64, ptr %root.at
  %guessed = sub i64 %root, $unknown
  br label %compare
known:
  %reserve = call i64 @reserve()
  %wanted = sub i64 %here, %reserve
  %low = call i64 @lowest(i64 %own, i64 %wanted)
  %kept = add i64 %low, %reserve
  br label %compare
compare:
  %floor = phi i64 [ %guessed, %guess ], [ %kept, %known ]
  %fits = icmp uge i64 %here, %floor
  br i1 %fits, label %enough, label %short
enough:
  store i64 %floor, ptr %floor.at
  ret i32 1
short:
  ret i32 0
}

define i32 @$may_leave(i64 %here) {
  %own = call i64 @own_stack()
  %unknown = icmp eq i64 %own, 0
  br i1 %unknown, label %enough, label %known
known:
  %log = and i64 %own, 63
  %half.log = sub i64 %log, 1
  %half = shl i64 1, %half.log
  %need = call i64 @llvm.umin.i64(i64 %half, i64 $others)
  %wanted = sub i64 %here, %need
  %low = call i64 @lowest(i64 %own, i64 %wanted)
  %fits = icmp uge i64 %wanted, %low
  br i1 %fits, label %enough, label %short
enough:
  ret i32 1
short:
  ret i32 0
}
""")

_COUNTED: Final = Template("""
define i32 @$has_stack(ptr %context, i64 %here) cold noinline {
  %floor.at = getelementptr i8, ptr %context, i64 $floor
  %root.at = getelementptr i8, ptr %context, i64 $root
  %root = load i64, ptr %root.at
  %floor = sub i64 %root, $fixed
  %below = icmp ult i64 %here, %floor
  %above = icmp ugt i64 %here, %root
  ; A thread of a parallel loop has another stack.
  %short = and i1 %below, true
  %value = select i1 %above, i64 0, i64 %floor
  store i64 %value, ptr %floor.at
  %answer = select i1 %short, i32 0, i32 1
  ret i32 %answer
}

define i32 @$may_leave(i64 %here) {
  ret i32 1
}
""")


def stack_ir(triple: str) -> str:
    """Write the IR of the functions for a machine."""
    arch = triple.split("-")[0]
    given = {
        "has_stack": HAS_STACK,
        "may_leave": MAY_LEAVE,
        "floor": 8 * (FLOOR - 1),
        "root": 8 * (ROOT - 1),
        "fixed": _FIXED,
        "unknown": _UNKNOWN,
        "others": _OTHERS,
        "leaves": _LEAVES,
        "there": _THERE,
        "chunk": _CHUNK,
    }
    if "linux" in triple and arch in _GETTID:
        return _MEASURED.substitute(given, gettid=_GETTID[arch])
    return _COUNTED.substitute(given)
