"""Array checks that all functions share, as LLVM IR.

Each function has a *table* of requirements, and passes its arrays (``DLTensor``):

- ``i32 loomir_check(context, table, tensors, out)`` does all checks, if every extent is known.
- Otherwise ``loomir_open`` first checks each array by itself. The caller then binds and checks
  names, and ``loomir_lay_out`` checks strides and whether arrays overlap.

They return ``FINE``, or ``MISFIT`` with the fault of the first failed check in the context. ``out``
gets a record for each array. ``ir.raising`` raises what a context describes.
"""

from __future__ import annotations

from string import Template
from typing import Any, Final

from loomir.codegen.llvm.support.ir.check_table import (
    ANY_EXTENT,
    ARRAY,
    ARRAY_WORDS,
    HEAD,
    RECORD,
    RECORD_WORDS,
    STRIDED,
    TOGETHER,
    WRITTEN,
)
from loomir.codegen.llvm.support.ir.raise_errors import RAISE, RAISING, REFUSE, name_values
from loomir.runtime import layout

__all__ = ["CHECK", "CHECK_FUNCTIONS", "LAY_OUT", "OPEN", "checks_ir"]

CHECK: Final = "loomir_check"
OPEN: Final = "loomir_open"
LAY_OUT: Final = "loomir_lay_out"
CHECK_FUNCTIONS: Final = (CHECK, OPEN, LAY_OUT, RAISE, REFUSE)


def checks_ir(*, raises: bool = True) -> str:
    """Write the module; without the functions that raise errors, if no caller takes them."""
    numbers: dict[str, Any] = {
        name: value for name, value in vars(layout).items() if type(value) is int
    }
    numbers.update({name: 8 * i for i, name in enumerate(HEAD)})
    numbers.update({f"A_{name}": 8 * i for i, name in enumerate(ARRAY)})
    numbers.update({f"R_{name}": 8 * i for i, name in enumerate(RECORD)})
    numbers.update(
        HEAD_SIZE=8 * len(HEAD),
        ARRAY_SIZE=8 * ARRAY_WORDS,
        RECORD_SIZE=8 * RECORD_WORDS,
        ANY=ANY_EXTENT,
        WRITTEN=WRITTEN,
        STRIDED=STRIDED,
        TOGETHER=TOGETHER,
    )
    numbers.update(name_values())
    return Template(_CHECKS + (RAISING if raises else "")).substitute(numbers)


_CHECKS: Final = """
declare { i64, i1 } @llvm.umul.with.overflow.i64(i64, i64)

define internal i32 @misfit(ptr %context, ptr %table, i64 %site, i64 %v0, i64 %v1) cold noinline {
  %site32 = trunc i64 %site to i32
  store i32 %site32, ptr %context
  %values = getelementptr i8, ptr %context, i64 8
  %count.at = getelementptr i8, ptr %table, i64 $VALUES
  %count = load i64, ptr %count.at
  br label %clear
clear:
  %i = phi i64 [ 0, %0 ], [ %next, %clear ]
  %at = getelementptr i64, ptr %values, i64 %i
  store i64 0, ptr %at
  %next = add i64 %i, 1
  %more = icmp ult i64 %next, %count
  br i1 %more, label %clear, label %fill
fill:
  store i64 %v0, ptr %values
  %second = getelementptr i64, ptr %values, i64 1
  store i64 %v1, ptr %second
  ret i32 2
}

; Kinds, ranks, addresses and sizes, one array after the other.
define i32 @loomir_open(ptr %context, ptr %table, ptr %tensors, ptr %out) {
  %count = load i64, ptr %table
  %head = getelementptr i8, ptr %table, i64 $HEAD_SIZE
  %records = mul i64 %count, $RECORD_SIZE
  %behind = getelementptr i8, ptr %out, i64 %records
  br label %array
array:
  %n = phi i64 [ 0, %0 ], [ %n.next, %done ]
  %a = phi ptr [ %head, %0 ], [ %a.next, %done ]
  %r = phi ptr [ %out, %0 ], [ %r.next, %done ]
  %own = phi ptr [ %behind, %0 ], [ %own.next, %done ]
  %left = icmp ult i64 %n, %count
  br i1 %left, label %look, label %fine
look:
  %t.at = getelementptr ptr, ptr %tensors, i64 %n
  %t = load ptr, ptr %t.at
  %word.at = getelementptr i8, ptr %t, i64 $DLTENSOR_NDIM
  %word = load i64, ptr %word.at
  %device.at = getelementptr i8, ptr %t, i64 $DLTENSOR_DEVICE_TYPE
  %device = load i32, ptr %device.at
  %wanted = load i64, ptr %a
  %same = icmp eq i64 %word, %wanted
  %cpu = icmp eq i32 %device, $DEVICE_CPU
  %kind = and i1 %same, %cpu
  br i1 %kind, label %place, label %bad.kind
place:
  %size.at = getelementptr i8, ptr %a, i64 $A_SIZE
  %size = load i64, ptr %size.at
  %rank.at = getelementptr i8, ptr %a, i64 $A_RANK
  %rank = load i64, ptr %rank.at
  %extents = getelementptr i8, ptr %a, i64 $ARRAY_SIZE
  %shape.at = getelementptr i8, ptr %t, i64 $DLTENSOR_SHAPE
  %shape = load ptr, ptr %shape.at
  %strides.at = getelementptr i8, ptr %t, i64 $DLTENSOR_STRIDES
  %given = load ptr, ptr %strides.at
  %compact = icmp eq ptr %given, null
  %strides = select i1 %compact, ptr %own, ptr %given
  %r.strides = getelementptr i8, ptr %r, i64 $R_STRIDES
  store ptr %strides, ptr %r.strides
  br i1 %compact, label %row, label %address
row:
  %k = phi i64 [ %rank, %place ], [ %k.next, %row.axis ]
  %step = phi i64 [ 1, %place ], [ %wider, %row.axis ]
  %k.more = icmp ne i64 %k, 0
  br i1 %k.more, label %row.axis, label %address
row.axis:
  %k.next = sub i64 %k, 1
  %own.at = getelementptr i64, ptr %own, i64 %k.next
  store i64 %step, ptr %own.at
  %e.at = getelementptr i64, ptr %shape, i64 %k.next
  %e = load i64, ptr %e.at
  %wider = mul i64 %step, %e
  br label %row
address:
  %start = load ptr, ptr %t
  %offset.at = getelementptr i8, ptr %t, i64 $DLTENSOR_BYTE_OFFSET
  %offset = load i64, ptr %offset.at
  %over = urem i64 %offset, %size
  %whole = icmp eq i64 %over, 0
  br i1 %whole, label %measure, label %bad.offset
measure:
  %data = getelementptr i8, ptr %start, i64 %offset
  store ptr %data, ptr %r
  br label %axis
axis:
  %i = phi i64 [ 0, %measure ], [ %i.next, %next.axis ]
  %total = phi i64 [ %size, %measure ], [ %total.next, %next.axis ]
  %empty = phi i1 [ false, %measure ], [ %empty.next, %next.axis ]
  %sane = phi i1 [ true, %measure ], [ %sane.next, %next.axis ]
  %i.more = icmp ne i64 %i, %rank
  br i1 %i.more, label %extent, label %measured
extent:
  %x.at = getelementptr i64, ptr %shape, i64 %i
  %x = load i64, ptr %x.at
  %declared.at = getelementptr i64, ptr %extents, i64 %i
  %declared = load i64, ptr %declared.at
  %zero = icmp eq i64 %x, 0
  %empty.next = or i1 %empty, %zero
  %pair = call { i64, i1 } @llvm.umul.with.overflow.i64(i64 %total, i64 %x)
  %total.next = extractvalue { i64, i1 } %pair, 0
  %overflow = extractvalue { i64, i1 } %pair, 1
  %fits = xor i1 %overflow, true
  %positive = icmp sge i64 %x, 0
  %possible = and i1 %fits, %positive
  ; One that is declared is compared with that later, which says more.
  %known = icmp ne i64 %declared, $ANY
  %fine.here = or i1 %known, %possible
  %sane.next = and i1 %sane, %fine.here
  br label %next.axis
next.axis:
  %i.next = add i64 %i, 1
  br label %axis
measured:
  %small = icmp sge i64 %total, 0
  %there = icmp ne ptr %start, null
  %m1 = and i1 %sane, %small
  %m2 = and i1 %m1, %there
  %m3 = or i1 %m2, %empty
  %r.empty = getelementptr i8, ptr %r, i64 $R_EMPTY
  %empty64 = zext i1 %empty to i64
  store i64 %empty64, ptr %r.empty
  br i1 %m3, label %done, label %bad.measure
done:
  %n.next = add i64 %n, 1
  %a.next = getelementptr i64, ptr %extents, i64 %rank
  %r.next = getelementptr i8, ptr %r, i64 $RECORD_SIZE
  %own.next = getelementptr i64, ptr %own, i64 %rank
  br label %array
fine:
  ret i32 0
bad.kind:
  br label %bad
bad.offset:
  br label %bad
bad.measure:
  br label %bad
bad:
  %which = phi i64 [ $A_KIND_SITE, %bad.kind ], [ $A_OFFSET_SITE, %bad.offset ],
    [ $A_MEASURE_SITE, %bad.measure ]
  %site.at = getelementptr i8, ptr %a, i64 %which
  %site = load i64, ptr %site.at
  %status = call i32 @misfit(ptr %context, ptr %table, i64 %site, i64 0, i64 0)
  ret i32 %status
}

; Extents that are constants.
define internal i32 @extents(ptr %context, ptr %table, ptr %tensors) {
  %count = load i64, ptr %table
  %head = getelementptr i8, ptr %table, i64 $HEAD_SIZE
  %first.at = getelementptr i8, ptr %table, i64 $EXTENT_SITE
  %first = load i64, ptr %first.at
  br label %array
array:
  %n = phi i64 [ 0, %0 ], [ %n.next, %done ]
  %a = phi ptr [ %head, %0 ], [ %a.next, %done ]
  %s = phi i64 [ %first, %0 ], [ %site, %done ]
  %left = icmp ult i64 %n, %count
  br i1 %left, label %look, label %fine
look:
  %t.at = getelementptr ptr, ptr %tensors, i64 %n
  %t = load ptr, ptr %t.at
  %rank.at = getelementptr i8, ptr %a, i64 $A_RANK
  %rank = load i64, ptr %rank.at
  %extents = getelementptr i8, ptr %a, i64 $ARRAY_SIZE
  %shape.at = getelementptr i8, ptr %t, i64 $DLTENSOR_SHAPE
  %shape = load ptr, ptr %shape.at
  br label %axis
axis:
  %i = phi i64 [ 0, %look ], [ %i.next, %next ]
  %site = phi i64 [ %s, %look ], [ %site.next, %next ]
  %more = icmp ne i64 %i, %rank
  br i1 %more, label %extent, label %done
extent:
  %x.at = getelementptr i64, ptr %shape, i64 %i
  %x = load i64, ptr %x.at
  %want.at = getelementptr i64, ptr %extents, i64 %i
  %want = load i64, ptr %want.at
  %same = icmp eq i64 %x, %want
  br i1 %same, label %next, label %bad
next:
  %i.next = add i64 %i, 1
  %site.next = add i64 %site, 1
  br label %axis
done:
  %n.next = add i64 %n, 1
  %a.next = getelementptr i64, ptr %extents, i64 %rank
  br label %array
fine:
  ret i32 0
bad:
  %status = call i32 @misfit(ptr %context, ptr %table, i64 %site, i64 %x, i64 %want)
  ret i32 %status
}

; How elements follow each other, and which bytes each array covers; then overlaps.
define i32 @loomir_lay_out(ptr %context, ptr %table, ptr %tensors, ptr %out) {
  %count = load i64, ptr %table
  %head = getelementptr i8, ptr %table, i64 $HEAD_SIZE
  br label %array
array:
  %n = phi i64 [ 0, %0 ], [ %n.next, %done ]
  %a = phi ptr [ %head, %0 ], [ %a.next, %done ]
  %r = phi ptr [ %out, %0 ], [ %r.next, %done ]
  %left = icmp ult i64 %n, %count
  br i1 %left, label %look, label %compare
look:
  %t.at = getelementptr ptr, ptr %tensors, i64 %n
  %t = load ptr, ptr %t.at
  %size.at = getelementptr i8, ptr %a, i64 $A_SIZE
  %size = load i64, ptr %size.at
  %rank.at = getelementptr i8, ptr %a, i64 $A_RANK
  %rank = load i64, ptr %rank.at
  %flags.at = getelementptr i8, ptr %a, i64 $A_FLAGS
  %flags = load i64, ptr %flags.at
  %strided.bit = and i64 %flags, $STRIDED
  %strided = icmp ne i64 %strided.bit, 0
  %shape.at = getelementptr i8, ptr %t, i64 $DLTENSOR_SHAPE
  %shape = load ptr, ptr %shape.at
  %r.strides = getelementptr i8, ptr %r, i64 $R_STRIDES
  %strides = load ptr, ptr %r.strides
  br i1 %strided, label %move, label %row
move:
  %m = phi i64 [ 0, %look ], [ %m.next, %move.axis ]
  %first = phi i64 [ 0, %look ], [ %first.next, %move.axis ]
  %last = phi i64 [ 0, %look ], [ %last.next, %move.axis ]
  %m.more = icmp ne i64 %m, %rank
  br i1 %m.more, label %move.axis, label %moved
move.axis:
  %mx.at = getelementptr i64, ptr %shape, i64 %m
  %mx = load i64, ptr %mx.at
  %ms.at = getelementptr i64, ptr %strides, i64 %m
  %ms = load i64, ptr %ms.at
  %mx.less = sub i64 %mx, 1
  %far = mul i64 %mx.less, %ms
  %back = icmp slt i64 %far, 0
  %down = select i1 %back, i64 %far, i64 0
  %up = select i1 %back, i64 0, i64 %far
  %first.next = add i64 %first, %down
  %last.next = add i64 %last, %up
  %m.next = add i64 %m, 1
  br label %move
moved:
  %end = add i64 %last, 1
  br label %covered
row:
  %k = phi i64 [ %rank, %look ], [ %k.next, %row.axis ]
  %step = phi i64 [ 1, %look ], [ %wider, %row.axis ]
  %dense = phi i1 [ true, %look ], [ %dense.next, %row.axis ]
  %k.more = icmp ne i64 %k, 0
  br i1 %k.more, label %row.axis, label %rowed
row.axis:
  %k.next = sub i64 %k, 1
  %x.at = getelementptr i64, ptr %shape, i64 %k.next
  %x = load i64, ptr %x.at
  %s.at = getelementptr i64, ptr %strides, i64 %k.next
  %s = load i64, ptr %s.at
  %same = icmp eq i64 %s, %step
  %single = icmp eq i64 %x, 1
  %either = or i1 %same, %single
  %dense.next = and i1 %dense, %either
  %wider = mul i64 %step, %x
  br label %row
rowed:
  %re.at = getelementptr i8, ptr %r, i64 $R_EMPTY
  %re = load i64, ptr %re.at
  %re.empty = icmp ne i64 %re, 0
  %laid = or i1 %dense, %re.empty
  br i1 %laid, label %covered, label %bad
covered:
  %from = phi i64 [ %first, %moved ], [ 0, %rowed ]
  %to = phi i64 [ %end, %moved ], [ %step, %rowed ]
  %data = load ptr, ptr %r
  %from.bytes = mul i64 %from, %size
  %to.bytes = mul i64 %to, %size
  %low = getelementptr i8, ptr %data, i64 %from.bytes
  %high = getelementptr i8, ptr %data, i64 %to.bytes
  %r.low = getelementptr i8, ptr %r, i64 $R_LOW
  store ptr %low, ptr %r.low
  %r.high = getelementptr i8, ptr %r, i64 $R_HIGH
  store ptr %high, ptr %r.high
  br label %done
done:
  %n.next = add i64 %n, 1
  %a.words = getelementptr i8, ptr %a, i64 $ARRAY_SIZE
  %a.next = getelementptr i64, ptr %a.words, i64 %rank
  %r.next = getelementptr i8, ptr %r, i64 $RECORD_SIZE
  br label %array
bad:
  %site.at = getelementptr i8, ptr %a, i64 $A_LAYOUT_SITE
  %site = load i64, ptr %site.at
  %status = call i32 @misfit(ptr %context, ptr %table, i64 %site, i64 0, i64 0)
  ret i32 %status
compare:
  %pair = call i64 @overlap(ptr %table, ptr %out)
  %disjoint = icmp slt i64 %pair, 0
  br i1 %disjoint, label %fine, label %overlapping
fine:
  ret i32 0
overlapping:
  %overlapped = call i32 @overlapped(ptr %context, ptr %table, i64 %pair)
  ret i32 %overlapped
}

; The number of the first pair that overlaps, of those that are compared, below the numbers of both
; in it: first << 48 | second << 32 | number; -1 where none does.
define internal i64 @overlap(ptr %table, ptr %out) {
  %count = load i64, ptr %table
  %pairs.at = getelementptr i8, ptr %table, i64 $PAIRS
  %pairs = load i64, ptr %pairs.at
  %head = getelementptr i8, ptr %table, i64 $HEAD_SIZE
  %compared = icmp ne i64 %pairs, 0
  br i1 %compared, label %outer, label %disjoint
outer:
  %i = phi i64 [ 0, %0 ], [ %i.next, %outer.next ]
  %a = phi ptr [ %head, %0 ], [ %a.next, %outer.next ]
  %r = phi ptr [ %out, %0 ], [ %r.next, %outer.next ]
  %number = phi i64 [ 0, %0 ], [ %seen, %outer.next ]
  %i.more = icmp ult i64 %i, %count
  br i1 %i.more, label %first, label %disjoint
first:
  %low.at = getelementptr i8, ptr %r, i64 $R_LOW
  %low = load ptr, ptr %low.at
  %high.at = getelementptr i8, ptr %r, i64 $R_HIGH
  %high = load ptr, ptr %high.at
  %empty.at = getelementptr i8, ptr %r, i64 $R_EMPTY
  %empty = load i64, ptr %empty.at
  %flags.at = getelementptr i8, ptr %a, i64 $A_FLAGS
  %flags = load i64, ptr %flags.at
  %rank.at = getelementptr i8, ptr %a, i64 $A_RANK
  %rank = load i64, ptr %rank.at
  %a.words = getelementptr i8, ptr %a, i64 $ARRAY_SIZE
  %a.next = getelementptr i64, ptr %a.words, i64 %rank
  %r.next = getelementptr i8, ptr %r, i64 $RECORD_SIZE
  %i.next = add i64 %i, 1
  br label %inner
inner:
  %j = phi i64 [ %i.next, %first ], [ %j.next, %inner.next ]
  %b = phi ptr [ %a.next, %first ], [ %b.next, %inner.next ]
  %q = phi ptr [ %r.next, %first ], [ %q.next, %inner.next ]
  %seen = phi i64 [ %number, %first ], [ %seen.next, %inner.next ]
  %j.more = icmp ult i64 %j, %count
  br i1 %j.more, label %second, label %outer.next
second:
  %b.flags.at = getelementptr i8, ptr %b, i64 $A_FLAGS
  %b.flags = load i64, ptr %b.flags.at
  %b.rank.at = getelementptr i8, ptr %b, i64 $A_RANK
  %b.rank = load i64, ptr %b.rank.at
  %either = or i64 %flags, %b.flags
  %written.bit = and i64 %either, $WRITTEN
  %written = icmp ne i64 %written.bit, 0
  br i1 %written, label %bytes, label %skip
bytes:
  %q.low.at = getelementptr i8, ptr %q, i64 $R_LOW
  %q.low = load ptr, ptr %q.low.at
  %q.high.at = getelementptr i8, ptr %q, i64 $R_HIGH
  %q.high = load ptr, ptr %q.high.at
  %q.empty.at = getelementptr i8, ptr %q, i64 $R_EMPTY
  %q.empty = load i64, ptr %q.empty.at
  %before = icmp ule ptr %high, %q.low
  %behind = icmp ule ptr %q.high, %low
  %some.empty = or i64 %empty, %q.empty
  %nothing = icmp ne i64 %some.empty, 0
  %o1 = or i1 %before, %behind
  %o2 = or i1 %o1, %nothing
  %counted = add i64 %seen, 1
  br i1 %o2, label %inner.next, label %found
skip:
  br label %inner.next
inner.next:
  %seen.next = phi i64 [ %counted, %bytes ], [ %seen, %skip ]
  %j.next = add i64 %j, 1
  %b.words = getelementptr i8, ptr %b, i64 $ARRAY_SIZE
  %b.next = getelementptr i64, ptr %b.words, i64 %b.rank
  %q.next = getelementptr i8, ptr %q, i64 $RECORD_SIZE
  br label %inner
outer.next:
  br label %outer
found:
  %i.up = shl i64 %i, 48
  %j.up = shl i64 %j, 32
  %f1 = or i64 %i.up, %j.up
  %f2 = or i64 %f1, %seen
  ret i64 %f2
disjoint:
  ret i64 -1
}

define internal i32 @overlapped(ptr %context, ptr %table, i64 %pair) cold noinline {
  %pairs.at = getelementptr i8, ptr %table, i64 $PAIRS
  %pairs = load i64, ptr %pairs.at
  %site.at = getelementptr i8, ptr %table, i64 $PAIR_SITE
  %site = load i64, ptr %site.at
  %together = icmp eq i64 %pairs, $TOGETHER
  %first = lshr i64 %pair, 48
  %second.up = lshr i64 %pair, 32
  %second = and i64 %second.up, 65535
  %number = and i64 %pair, 4294967295
  %step = select i1 %together, i64 0, i64 %number
  %v0 = select i1 %together, i64 %first, i64 0
  %v1 = select i1 %together, i64 %second, i64 0
  %at = add i64 %site, %step
  %status = call i32 @misfit(ptr %context, ptr %table, i64 %at, i64 %v0, i64 %v1)
  ret i32 %status
}

; All checks where every extent is a constant. What fits is found in one go; for what may not, the
; checks run in their order, to find the first that fails.
define i32 @loomir_check(ptr %context, ptr %table, ptr %tensors, ptr %out) {
  %count = load i64, ptr %table
  %head = getelementptr i8, ptr %table, i64 $HEAD_SIZE
  %plain.at = getelementptr i8, ptr %table, i64 $PLAIN
  %plain = load i64, ptr %plain.at
  %pairs.at = getelementptr i8, ptr %table, i64 $PAIRS
  %pairs = load i64, ptr %pairs.at
  %any = icmp eq i64 %pairs, 0
  %quick = icmp ne i64 %plain, 0
  br i1 %quick, label %array, label %slow
array:
  %n = phi i64 [ 0, %0 ], [ %n.next, %done ]
  %a = phi ptr [ %head, %0 ], [ %a.next, %done ]
  %r = phi ptr [ %out, %0 ], [ %r.next, %done ]
  %t.at = getelementptr ptr, ptr %tensors, i64 %n
  %t = load ptr, ptr %t.at
  %word.at = getelementptr i8, ptr %t, i64 $DLTENSOR_NDIM
  %word = load i64, ptr %word.at
  %device.at = getelementptr i8, ptr %t, i64 $DLTENSOR_DEVICE_TYPE
  %device = load i32, ptr %device.at
  %wanted = load i64, ptr %a
  %start = load ptr, ptr %t
  %offset.at = getelementptr i8, ptr %t, i64 $DLTENSOR_BYTE_OFFSET
  %offset = load i64, ptr %offset.at
  %mask.at = getelementptr i8, ptr %a, i64 $A_MASK
  %mask = load i64, ptr %mask.at
  %over = and i64 %offset, %mask
  %same = icmp eq i64 %word, %wanted
  %cpu = icmp eq i32 %device, $DEVICE_CPU
  %whole = icmp eq i64 %over, 0
  %there = icmp ne ptr %start, null
  %c1 = and i1 %same, %cpu
  %c2 = and i1 %whole, %there
  %c3 = and i1 %c1, %c2
  br i1 %c3, label %place, label %slow
place:
  %rank.at = getelementptr i8, ptr %a, i64 $A_RANK
  %rank = load i64, ptr %rank.at
  %bytes.at = getelementptr i8, ptr %a, i64 $A_BYTES
  %bytes = load i64, ptr %bytes.at
  %extents = getelementptr i8, ptr %a, i64 $ARRAY_SIZE
  %shape.at = getelementptr i8, ptr %t, i64 $DLTENSOR_SHAPE
  %shape = load ptr, ptr %shape.at
  %strides.at = getelementptr i8, ptr %t, i64 $DLTENSOR_STRIDES
  %strides = load ptr, ptr %strides.at
  %low = getelementptr i8, ptr %start, i64 %offset
  %high = getelementptr i8, ptr %low, i64 %bytes
  store ptr %low, ptr %r
  %r.low = getelementptr i8, ptr %r, i64 $R_LOW
  store ptr %low, ptr %r.low
  %r.high = getelementptr i8, ptr %r, i64 $R_HIGH
  store ptr %high, ptr %r.high
  %compact = icmp eq ptr %strides, null
  br label %axis
axis:
  %k = phi i64 [ %rank, %place ], [ %k.next, %next ]
  %step = phi i64 [ 1, %place ], [ %wider, %next ]
  %more = icmp ne i64 %k, 0
  br i1 %more, label %extent, label %before
extent:
  %k.next = sub i64 %k, 1
  %x.at = getelementptr i64, ptr %shape, i64 %k.next
  %x = load i64, ptr %x.at
  %want.at = getelementptr i64, ptr %extents, i64 %k.next
  %want = load i64, ptr %want.at
  %wider = mul i64 %step, %want
  %is = icmp eq i64 %x, %want
  br i1 %is, label %equal, label %slow
equal:
  br i1 %compact, label %next, label %stride
stride:
  %s.at = getelementptr i64, ptr %strides, i64 %k.next
  %s = load i64, ptr %s.at
  %follows = icmp eq i64 %s, %step
  %single = icmp eq i64 %want, 1
  %either = or i1 %follows, %single
  br i1 %either, label %next, label %slow
next:
  br label %axis
before:
  %q = phi ptr [ %out, %axis ], [ %q.next, %other ]
  %last = icmp eq ptr %q, %r
  br i1 %last, label %done, label %other
other:
  %q.low.at = getelementptr i8, ptr %q, i64 $R_LOW
  %q.low = load ptr, ptr %q.low.at
  %q.high.at = getelementptr i8, ptr %q, i64 $R_HIGH
  %q.high = load ptr, ptr %q.high.at
  %q.next = getelementptr i8, ptr %q, i64 $RECORD_SIZE
  %o1 = icmp ule ptr %q.high, %low
  %o2 = icmp ule ptr %high, %q.low
  %o3 = or i1 %o1, %o2
  %disjoint = or i1 %o3, %any
  br i1 %disjoint, label %before, label %slow
done:
  %n.next = add i64 %n, 1
  %a.next = getelementptr i64, ptr %extents, i64 %rank
  %r.next = getelementptr i8, ptr %r, i64 $RECORD_SIZE
  %left = icmp ult i64 %n.next, %count
  br i1 %left, label %array, label %fine
fine:
  ret i32 0
slow:
  %all = call i32 @in_order(ptr %context, ptr %table, ptr %tensors, ptr %out)
  ret i32 %all
}

define internal i32 @in_order(ptr %context, ptr %table, ptr %tensors, ptr %out) noinline {
  %opened = call i32 @loomir_open(ptr %context, ptr %table, ptr %tensors, ptr %out)
  %o = icmp eq i32 %opened, 0
  br i1 %o, label %hold, label %bad.open
hold:
  %status = call i32 @extents(ptr %context, ptr %table, ptr %tensors)
  %h = icmp eq i32 %status, 0
  br i1 %h, label %lay, label %bad.extents
lay:
  %laid = call i32 @loomir_lay_out(ptr %context, ptr %table, ptr %tensors, ptr %out)
  ret i32 %laid
bad.open:
  ret i32 %opened
bad.extents:
  ret i32 %status
}
"""
