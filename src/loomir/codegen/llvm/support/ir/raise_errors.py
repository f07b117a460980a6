"""Raise the errors that a context describes, as LLVM IR: a part of ``ir.checks``.

- ``loomir_raise(context, status, values)`` raises the fault that a context describes, which has
  space for that number of values; ``loomir_refuse(context, values)`` raises that arguments are of
  the wrong kind.
"""

from __future__ import annotations

from typing import Final

from loomir.codegen.llvm.assembler.names import escape
from loomir.runtime import layout

__all__ = ["RAISE", "RAISING", "REFUSE", "name_values"]

RAISE: Final = "loomir_raise"
REFUSE: Final = "loomir_refuse"

_ERROR: Final = "TVMFFIErrorSetRaisedFromCStr"


def name_values() -> dict[str, object]:
    """Return the values of the names in ``RAISING`` that ``layout`` does not define."""
    kind = layout.FAULT_KIND
    return {"KIND_SIZE": len(kind) + 1, "KIND": escape(kind.encode()), "ERROR": _ERROR}


RAISING: Final = """
@kind = private constant [$KIND_SIZE x i8] c"$KIND\\00"
@site.form = private constant [3 x i8] c"%d\\00"
@value.form = private constant [6 x i8] c";%lld\\00"
declare i32 @snprintf(ptr, i64, ptr, ...)
declare void @$ERROR(ptr, ptr)

define void @loomir_raise(ptr %context, i32 %status, i32 %values) {
  ; A value takes 21 characters at most, and there are 16.
  %text = alloca [512 x i8]
  %site = load i32, ptr %context
  %misfit = icmp eq i32 %status, 2
  %shown = select i1 %misfit, i32 $SITE_ARGUMENTS, i32 %site
  %begun = call i32 (ptr, i64, ptr, ...) @snprintf(
    ptr %text, i64 16, ptr @site.form, i32 %shown)
  %first = getelementptr i8, ptr %context, i64 8
  br label %value
value:
  %i = phi i32 [ 0, %0 ], [ %next, %more ]
  %used = phi i32 [ %begun, %0 ], [ %used.next, %more ]
  %inside = icmp slt i32 %i, %values
  %used64 = sext i32 %used to i64
  %at = getelementptr i8, ptr %text, i64 %used64
  br i1 %inside, label %more, label %root
more:
  %i64 = sext i32 %i to i64
  %v.at = getelementptr i64, ptr %first, i64 %i64
  %v = load i64, ptr %v.at
  %wrote = call i32 (ptr, i64, ptr, ...) @snprintf(ptr %at, i64 32, ptr @value.form, i64 %v)
  %used.next = add i32 %used, %wrote
  %next = add i32 %i, 1
  br label %value
root:
  %r = ptrtoint ptr %context to i64
  %last = call i32 (ptr, i64, ptr, ...) @snprintf(ptr %at, i64 32, ptr @value.form, i64 %r)
  call void @$ERROR(ptr @kind, ptr %text)
  ret void
}

define void @loomir_refuse(ptr %context, i32 %values) {
  %first = getelementptr i8, ptr %context, i64 8
  br label %value
value:
  %i = phi i32 [ 0, %0 ], [ %next, %clear ]
  %inside = icmp slt i32 %i, %values
  br i1 %inside, label %clear, label %out
clear:
  %i64 = sext i32 %i to i64
  %v.at = getelementptr i64, ptr %first, i64 %i64
  store i64 0, ptr %v.at
  %next = add i32 %i, 1
  br label %value
out:
  call void @loomir_raise(ptr %context, i32 2, i32 %values)
  ret void
}
"""
