"""The functions on values that every library exports to C, as LLVM IR.

If a program links several libraries, all of them use the functions of one.
"""

from __future__ import annotations

from string import Template
from typing import Any, Final

from loomir.runtime import layout
from loomir.runtime.graph import object_layout

__all__ = ["TEXT_SIZE", "bytes_constant", "text_constant", "values_ir"]

TEXT_SIZE: Final = 2048
"""The most bytes of an error message."""


def values_ir() -> str:
    """Write the module."""
    numbers: dict[str, Any] = {
        name: value
        for module in (layout, object_layout)
        for name, value in vars(module).items()
        if type(value) is int
    }
    return Template(_IR).substitute(
        numbers,
        TEXT_SIZE=TEXT_SIZE,
        TEXTS="\n".join(text_constant(name, text) for name, text in _TEXTS.items()),
        PRIM_SIZE=object_layout.PRIM_VALUE + 8,
    )


def text_constant(name: str, text: str) -> str:
    """Write a C string as a constant of IR, with special bytes escaped."""
    return bytes_constant(
        name, text.encode("utf-8", "backslashreplace").replace(b"\0", b"?") + b"\0"
    )


def bytes_constant(name: str, data: bytes, align: int = 1, linkage: str = "private") -> str:
    """Write bytes as a constant of IR."""
    shown = data.decode("latin-1").translate(_ESCAPED)
    return f'@"{name}" = {linkage} constant [{len(data)} x i8] c"{shown}", align {align}'


_PLAIN: Final = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789 .,:;-_")
_ESCAPED: Final = [chr(i) if i in _PLAIN else f"\\{i:02X}" for i in range(256)]
_TEXTS: Final = {
    "bad.tensor": "the tensor cannot be borrowed: it must be on the CPU, row-major, and of a dtype "
    "of one lane in whole bytes",
    "bad.value": "an argument is NULL or out of its range",
    "bad.kind": "the value is of another kind",
    "no.memory": "there is no memory left",
    "plain": "%s",
}
_IR: Final = """
@loomir_error_text = weak_odr thread_local global [$TEXT_SIZE x i8] zeroinitializer
$TEXTS

declare i64 @loomir_tensor_bytes(i64, ptr, i64)
declare ptr @loomir_tensor_lend(i64, ptr, ptr, i32, ptr, i64)
declare ptr @loomir_new(i64, i32, i32)
declare void @loomir_retain(ptr)
declare i64 @strlen(ptr)
declare ptr @memcpy(ptr, ptr, i64)
declare i32 @snprintf(ptr, i64, ptr, ...)

define weak_odr ptr @loomir_last_error() {
  ret ptr @loomir_error_text
}

define internal ptr @say(ptr %text) noinline {
  %n = call i32 (ptr, i64, ptr, ...) @snprintf(
    ptr @loomir_error_text, i64 $TEXT_SIZE, ptr @plain, ptr %text)
  ret ptr null
}

define internal ptr @made(ptr %object) {
  %none = icmp eq ptr %object, null
  br i1 %none, label %bad, label %fine
bad:
  %x = call ptr @say(ptr @no.memory)
  ret ptr null
fine:
  ret ptr %object
}

define weak_odr ptr @loomir_borrow(ptr %t) {
  %given = icmp ne ptr %t, null
  br i1 %given, label %look, label %bad
look:
  %device.at = getelementptr i8, ptr %t, i64 $DLTENSOR_DEVICE_TYPE
  %device = load i32, ptr %device.at
  %word.at = getelementptr i8, ptr %t, i64 $DLTENSOR_NDIM
  %word = load i64, ptr %word.at
  %ndim32 = trunc i64 %word to i32
  %ndim = sext i32 %ndim32 to i64
  %code.up = lshr i64 %word, 32
  %code = and i64 %code.up, 255
  %bits.up = lshr i64 %word, 40
  %bits = and i64 %bits.up, 255
  %lanes = lshr i64 %word, 48
  %cpu = icmp eq i32 %device, $DEVICE_CPU
  %ranked = icmp ule i32 %ndim32, 65535
  %one = icmp eq i64 %lanes, 1
  %part = and i64 %bits, 7
  %whole = icmp eq i64 %part, 0
  %some = icmp ne i64 %bits, 0
  %small = icmp ule i64 %bits, 64
  %known = icmp ule i64 %code, $CODE_BOOL
  %ok1 = and i1 %cpu, %ranked
  %ok2 = and i1 %ok1, %one
  %ok3 = and i1 %ok2, %whole
  %ok4 = and i1 %ok3, %some
  %ok5 = and i1 %ok4, %small
  %ok6 = and i1 %ok5, %known
  br i1 %ok6, label %measure, label %bad
measure:
  %extents.at = getelementptr i8, ptr %t, i64 $DLTENSOR_SHAPE
  %extents = load ptr, ptr %extents.at
  %strides.at = getelementptr i8, ptr %t, i64 $DLTENSOR_STRIDES
  %strides = load ptr, ptr %strides.at
  %data = load ptr, ptr %t
  %offset.at = getelementptr i8, ptr %t, i64 $DLTENSOR_BYTE_OFFSET
  %offset = load i64, ptr %offset.at
  %flat = icmp eq i64 %ndim, 0
  %shaped = icmp ne ptr %extents, null
  %known.shape = or i1 %flat, %shaped
  br i1 %known.shape, label %count, label %bad
count:
  %size = lshr i64 %bits, 3
  %bytes = call i64 @loomir_tensor_bytes(i64 %word, ptr %extents, i64 %size)
  %fits = icmp sge i64 %bytes, 0
  %empty = icmp eq i64 %bytes, 0
  %there = icmp ne ptr %data, null
  %backed = or i1 %empty, %there
  %ok7 = and i1 %fits, %backed
  br i1 %ok7, label %dense, label %bad
dense:
  %implied = icmp eq ptr %strides, null
  %plain.row = or i1 %implied, %empty
  br i1 %plain.row, label %make, label %axis
axis:
  %i = phi i64 [ %ndim, %dense ], [ %next, %on ]
  %want = phi i64 [ 1, %dense ], [ %wider, %on ]
  %more = icmp sgt i64 %i, 0
  br i1 %more, label %step, label %make
step:
  %next = sub i64 %i, 1
  %extent.at = getelementptr i64, ptr %extents, i64 %next
  %extent = load i64, ptr %extent.at
  %stride.at = getelementptr i64, ptr %strides, i64 %next
  %stride = load i64, ptr %stride.at
  %same = icmp eq i64 %stride, %want
  %single = icmp eq i64 %extent, 1
  %row = or i1 %same, %single
  br i1 %row, label %on, label %bad
on:
  %wider = mul i64 %want, %extent
  br label %axis
make:
  %start = getelementptr i8, ptr %data, i64 %offset
  %object = call ptr @loomir_tensor_lend(
    i64 %word, ptr %extents, ptr %start, i32 0, ptr null, i64 %bytes)
  %result = call ptr @made(ptr %object)
  ret ptr %result
bad:
  %x = call ptr @say(ptr @bad.tensor)
  ret ptr null
}

define weak_odr ptr @loomir_scalar(i32 %code, i32 %bits, ptr %value) {
  %given = icmp ne ptr %value, null
  %known = icmp ule i32 %code, $CODE_BOOL
  %ok = and i1 %given, %known
  br i1 %ok, label %width, label %bad
width:
  %signed = icmp eq i32 %code, $CODE_INT
  switch i32 %bits, label %bad [
    i32 8, label %b8 i32 16, label %b16 i32 32, label %b32 i32 64, label %b64 ]
b8:
  %v8 = load i8, ptr %value
  %s8 = sext i8 %v8 to i64
  %z8 = zext i8 %v8 to i64
  %x8 = select i1 %signed, i64 %s8, i64 %z8
  br label %make
b16:
  %v16 = load i16, ptr %value
  %s16 = sext i16 %v16 to i64
  %z16 = zext i16 %v16 to i64
  %x16 = select i1 %signed, i64 %s16, i64 %z16
  br label %make
b32:
  %v32 = load i32, ptr %value
  %s32 = sext i32 %v32 to i64
  %z32 = zext i32 %v32 to i64
  %x32 = select i1 %signed, i64 %s32, i64 %z32
  br label %make
b64:
  %v64 = load i64, ptr %value
  br label %make
make:
  %x = phi i64 [ %x8, %b8 ], [ %x16, %b16 ], [ %x32, %b32 ], [ %v64, %b64 ]
  %object = call ptr @loomir_new(i64 $PRIM_SIZE, i32 $PRIM, i32 0)
  %none = icmp eq ptr %object, null
  br i1 %none, label %out, label %fill
fill:
  %up = shl i32 %bits, 8
  %low = or i32 %code, %up
  %word32 = or i32 %low, 65536
  %word = zext i32 %word32 to i64
  %word.at = getelementptr i8, ptr %object, i64 $DTYPE_WORD
  store i64 %word, ptr %word.at
  %value.at = getelementptr i8, ptr %object, i64 $PRIM_VALUE
  store i64 %x, ptr %value.at
  br label %out
out:
  %result = call ptr @made(ptr %object)
  ret ptr %result
bad:
  %y = call ptr @say(ptr @bad.value)
  ret ptr null
}

define internal ptr @words(i64 %count, ptr %from, i32 %kind) {
  %some = icmp ult i64 %count, 1099511627776
  %none.needed = icmp eq i64 %count, 0
  %given = icmp ne ptr %from, null
  %there = or i1 %none.needed, %given
  %ok = and i1 %some, %there
  br i1 %ok, label %make, label %bad
make:
  %bytes = shl i64 %count, 3
  %size = add i64 %bytes, $ITEMS
  %object = call ptr @loomir_new(i64 %size, i32 %kind, i32 0)
  %none = icmp eq ptr %object, null
  br i1 %none, label %out, label %fill
fill:
  %length.at = getelementptr i8, ptr %object, i64 $LENGTH
  store i64 %count, ptr %length.at
  %items.at = getelementptr i8, ptr %object, i64 $ITEMS
  br i1 %none.needed, label %out, label %copy
copy:
  %c = call ptr @memcpy(ptr %items.at, ptr %from, i64 %bytes)
  br label %out
out:
  %result = call ptr @made(ptr %object)
  ret ptr %result
bad:
  %x = call ptr @say(ptr @bad.value)
  ret ptr null
}

define weak_odr ptr @loomir_shape(i64 %count, ptr %extents) {
  %object = call ptr @words(i64 %count, ptr %extents, i32 $SHAPE)
  ret ptr %object
}

define weak_odr ptr @loomir_tuple(i64 %count, ptr %fields) {
entry:
  %some = icmp ult i64 %count, 1099511627776
  %none.needed = icmp eq i64 %count, 0
  %given = icmp ne ptr %fields, null
  %there = or i1 %none.needed, %given
  %ok = and i1 %some, %there
  br i1 %ok, label %look, label %bad
look:
  %i = phi i64 [ 0, %entry ], [ %next, %one ]
  %more = icmp slt i64 %i, %count
  br i1 %more, label %one, label %make
one:
  %field.at = getelementptr ptr, ptr %fields, i64 %i
  %field = load ptr, ptr %field.at
  %next = add i64 %i, 1
  %null = icmp eq ptr %field, null
  br i1 %null, label %bad, label %look
make:
  %object = call ptr @words(i64 %count, ptr %fields, i32 $TUPLE)
  %none = icmp eq ptr %object, null
  br i1 %none, label %out, label %keep
keep:
  %j = phi i64 [ 0, %make ], [ %j.next, %hold ]
  %j.more = icmp slt i64 %j, %count
  br i1 %j.more, label %hold, label %out
hold:
  %kept.at = getelementptr ptr, ptr %fields, i64 %j
  %kept = load ptr, ptr %kept.at
  call void @loomir_retain(ptr %kept)
  %j.next = add i64 %j, 1
  br label %keep
out:
  ret ptr %object
bad:
  %x = call ptr @say(ptr @bad.value)
  ret ptr null
}

define weak_odr ptr @loomir_string(ptr %text) {
  %given = icmp ne ptr %text, null
  br i1 %given, label %make, label %bad
make:
  %length = call i64 @strlen(ptr %text)
  %bytes = add i64 %length, 1
  %size = add i64 %bytes, $ITEMS
  %object = call ptr @loomir_new(i64 %size, i32 $STRING, i32 0)
  %none = icmp eq ptr %object, null
  br i1 %none, label %out, label %fill
fill:
  %length.at = getelementptr i8, ptr %object, i64 $LENGTH
  store i64 %length, ptr %length.at
  %items.at = getelementptr i8, ptr %object, i64 $ITEMS
  %c = call ptr @memcpy(ptr %items.at, ptr %text, i64 %bytes)
  br label %out
out:
  %result = call ptr @made(ptr %object)
  ret ptr %result
bad:
  %x = call ptr @say(ptr @bad.value)
  ret ptr null
}

define weak_odr ptr @loomir_null() {
  %object = call ptr @loomir_new(i64 $HEADER_SIZE, i32 $NULL_OBJECT, i32 0)
  %result = call ptr @made(ptr %object)
  ret ptr %result
}

define weak_odr i32 @loomir_kind(ptr %value) {
  %given = icmp ne ptr %value, null
  br i1 %given, label %look, label %bad
look:
  %kind.at = getelementptr i8, ptr %value, i64 $KIND
  %kind = load i32, ptr %kind.at
  ret i32 %kind
bad:
  ret i32 -1
}

define weak_odr i64 @loomir_count(ptr %value) {
  %kind = call i32 @loomir_kind(ptr %value)
  switch i32 %kind, label %bad [
    i32 $TUPLE, label %look i32 $SHAPE, label %look i32 $STRING, label %look ]
look:
  %length.at = getelementptr i8, ptr %value, i64 $LENGTH
  %length = load i64, ptr %length.at
  ret i64 %length
bad:
  ret i64 -1
}

define weak_odr ptr @loomir_field(ptr %value, i64 %index) {
  %kind = call i32 @loomir_kind(ptr %value)
  %tuple = icmp eq i32 %kind, $TUPLE
  br i1 %tuple, label %look, label %bad
look:
  %length = call i64 @loomir_count(ptr %value)
  %fits = icmp ult i64 %index, %length
  br i1 %fits, label %get, label %outside
get:
  %items = getelementptr i8, ptr %value, i64 $ITEMS
  %item.at = getelementptr ptr, ptr %items, i64 %index
  %item = load ptr, ptr %item.at
  call void @loomir_retain(ptr %item)
  ret ptr %item
bad:
  %x = call ptr @say(ptr @bad.kind)
  ret ptr null
outside:
  %y = call ptr @say(ptr @bad.value)
  ret ptr null
}

define internal ptr @inside(ptr %value, i32 %wanted, i64 %offset) {
  %kind = call i32 @loomir_kind(ptr %value)
  %same = icmp eq i32 %kind, %wanted
  br i1 %same, label %give, label %bad
give:
  %at = getelementptr i8, ptr %value, i64 %offset
  ret ptr %at
bad:
  %x = call ptr @say(ptr @bad.kind)
  ret ptr null
}

define weak_odr ptr @loomir_tensor(ptr %value) {
  %at = call ptr @inside(ptr %value, i32 $TENSOR, i64 $TENSOR_DLTENSOR)
  ret ptr %at
}

define weak_odr ptr @loomir_extents(ptr %value) {
  %at = call ptr @inside(ptr %value, i32 $SHAPE, i64 $ITEMS)
  ret ptr %at
}

define weak_odr ptr @loomir_text(ptr %value) {
  %at = call ptr @inside(ptr %value, i32 $STRING, i64 $ITEMS)
  ret ptr %at
}

define weak_odr i32 @loomir_number(ptr %value, i32 %code, i32 %bits, ptr %out) {
  %at = call ptr @inside(ptr %value, i32 $PRIM, i64 $DTYPE_WORD)
  %none = icmp eq ptr %at, null
  br i1 %none, label %fail, label %look
look:
  %word = load i32, ptr %at
  %up = shl i32 %bits, 8
  %low = or i32 %code, %up
  %wanted = or i32 %low, 65536
  %same = icmp eq i32 %word, %wanted
  %given = icmp ne ptr %out, null
  %ok = and i1 %same, %given
  br i1 %ok, label %copy, label %bad
copy:
  %from = getelementptr i8, ptr %value, i64 $PRIM_VALUE
  %bytes32 = lshr i32 %bits, 3
  %bytes = zext i32 %bytes32 to i64
  %c = call ptr @memcpy(ptr %out, ptr %from, i64 %bytes)
  ret i32 0
bad:
  %x = call ptr @say(ptr @bad.kind)
  br label %fail
fail:
  ret i32 1
}
"""
