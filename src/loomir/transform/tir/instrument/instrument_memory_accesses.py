"""Instrument memory accesses, to find uninitialised reads and races between parallel iterations.

Each instrumented memory has shadow memory, its *marks*: a byte for each byte that was written, and
two stamps for each element, of its last write and of a read. A stamp identifies the loop iterations
in which it was set (``codegen/llvm/tir/sanitizer.py`` says how). Loops that may run in any order
run serially here, so that every run gives the same verdict.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from loomir.arith.fold import INT64, add, imm64, int64, mul, product, sub
from loomir.ir.module import BaseFunc, GlobalVar, IRModule
from loomir.ir.op import Op
from loomir.ir.passes import register
from loomir.ir.visit import Step, children, plan_of, pre_order, remake_node, rewrite, trampoline
from loomir.support.dtype import HANDLE, VOID, DataType
from loomir.tir.analysis.written_buffers import written_buffers
from loomir.tir.buffer import Buffer, BufferLoad, IterVar
from loomir.tir.builtins.calls import EXTERN, PACKED
from loomir.tir.builtins.table import (
    ADDRESS_OF,
    STACK_MAKE_ARRAY,
    WATCH_ESCAPE,
    WATCH_ITERATION,
    WATCH_LOOP,
    WATCH_MEMORY,
    WATCH_READ,
    WATCH_START,
    WATCH_WRITE,
    call_builtin,
    pointer_base,
)
from loomir.tir.builtins.tiles import DOT_TILES
from loomir.tir.expr import Call, IntImm, Let, Max, Min, PrimExpr, StringImm, Var, cast
from loomir.tir.function import PrimFunc
from loomir.tir.stmt import (
    TRUE,
    Allocate,
    AttrStmt,
    Block,
    BufferRealize,
    BufferStore,
    DeclBuffer,
    Evaluate,
    For,
    ForKind,
    LetStmt,
    Stmt,
    seq,
)
from loomir.tir.types import PointerType, PrimType
from loomir.transform.tir.blocks.lower_opaque_block import extents_of
from loomir.transform.tir.convert_ssa import convert_ssa
from loomir.transform.tir.views import Layout

__all__ = ["WatchOptions", "instrument_memory_accesses"]

_UNORDERED: Final = (ForKind.PARALLEL, ForKind.VECTORIZED, ForKind.THREAD_BINDING)
_THREADS: Final = ("thread_extent", "virtual_thread")
_BYTE: Final = DataType("uint8")
_OUTWARD: Final = PACKED | EXTERN | {DOT_TILES}
"""Calls that may access memory through pointers they are passed."""
_NULL: Final = call_builtin("reinterpret", imm64(0), dtype=HANDLE)
_WORDS: Final = 8
"""The words of the descriptor of a memory or a loop."""


@dataclass(frozen=True, slots=True)
class WatchOptions:
    """``enable`` switches the sanitizer on."""

    enable: bool = False


UNWATCHED: Final = WatchOptions()


@register("tir.InstrumentMemoryAccesses", requires={"opaque_blocks", "calls_lowered"})
def instrument_memory_accesses(mod: IRModule, options: WatchOptions = UNWATCHED) -> IRModule:
    """Instrument memory, loops and accesses for the memory sanitizer.

    A function that others call gets a second form, which takes the descriptors of its arrays and of
    the loop around the call.
    """
    if not options.enable:
        return mod
    funcs = {v.name_hint: f for v, f in mod.functions.items() if isinstance(f, PrimFunc)}
    inner = {
        name: GlobalVar(_find_unused_name(f"{name}_watched", mod)) for name in _list_called(funcs)
    }
    plan = _Plan(mod, inner, _races(funcs), _find_least_item(funcs) if inner else None)
    functions: dict[GlobalVar, BaseFunc] = dict(mod.functions)
    for var, func in mod.functions.items():
        if isinstance(func, PrimFunc):
            functions[var] = _entry(func, plan)
            if var.name_hint in inner:
                functions[inner[var.name_hint]] = _inner(func, plan)
    return mod.with_functions(functions)


@dataclass(frozen=True, slots=True)
class _Plan:
    """The state for all functions: ``inner`` forms, whether to find races, the granule if known."""

    mod: IRModule
    inner: Mapping[str, GlobalVar]
    races: bool
    granule: int | None


def _find_unused_name(name: str, mod: IRModule) -> str:
    taken = {v.name_hint for v in mod.functions}
    while name in taken:
        name += "_"
    return name


def _list_called(funcs: Mapping[str, PrimFunc]) -> list[str]:
    found: dict[str, None] = {}
    for func in funcs.values():
        for part in pre_order(func.body):
            if isinstance(part, Call) and isinstance(part.op, GlobalVar):
                found[part.op.name_hint] = None
    return [name for name in funcs if name in found]


def _is_unordered(s: Any) -> bool:
    if isinstance(s, For):
        return s.kind in _UNORDERED
    return isinstance(s, AttrStmt) and s.attr_key in _THREADS


def _races(funcs: Mapping[str, PrimFunc]) -> bool:
    return any(_is_unordered(part) for f in funcs.values() for part in pre_order(f.body))


def _buffers(func: PrimFunc) -> list[Buffer]:
    found = list(func.buffer_map.values())
    for part in pre_order(func.body):
        if isinstance(part, (BufferLoad, BufferStore, DeclBuffer)):
            found.append(part.buffer)
    return found


def _item(dtype: DataType) -> int:
    return dtype.itemsize // dtype.lanes


def _find_least_item(funcs: Mapping[str, PrimFunc]) -> int:
    return min((_item(b.dtype) for f in funcs.values() for b in _buffers(f)), default=1)


# -- functions -----------------------------------------------------------------------------------
def _entry(func: PrimFunc, plan: _Plan) -> PrimFunc:
    """Register the arrays that come from outside, and instrument the body."""
    walk = _Walk(func, plan)
    opened: list[tuple[Buffer, Var]] = []
    if plan.races:
        written = {id(b.data) for b in written_buffers(func, plan.mod)}
        opened = [(b, walk.open(b.data)) for b in func.buffer_map.values() if id(b.data) in written]
    start = Var("loops", HANDLE) if plan.races and plan.inner else None
    body = trampoline(walk.stmt(func.body, start))
    for buffer, region in reversed(opened):
        low, size = _bytes_of_parameter(buffer)
        body = walk.announce(buffer.data, region, low, size, _item(buffer.dtype), False, body)
    root = walk.root if start is None else start
    if plan.races:
        body = _with_words(root, WATCH_START, (), body)
    made = PrimFunc(func.params, body, func.ret_type, func.buffer_map, func.attrs, span=func.span)
    return convert_ssa(made)


def _inner(func: PrimFunc, plan: _Plan) -> PrimFunc:
    """Make the form of a function that takes the descriptors of its arrays."""
    walk = _Walk(func, plan)
    regions = tuple(walk.open(func.buffer_map[p].data) for p in func.params if p in func.buffer_map)
    loops = Var("loops", HANDLE)
    body = trampoline(walk.stmt(func.body, loops))
    attrs = {k: v for k, v in func.attrs.items() if k != "global_symbol"}
    params = (*func.params, *regions, loops)
    made = PrimFunc(params, body, func.ret_type, func.buffer_map, attrs, span=func.span)
    return convert_ssa(made)


def _bytes_of_parameter(buffer: Buffer) -> tuple[PrimExpr, PrimExpr]:
    """Return the start of an array, in bytes relative to its first element, and its size."""
    item = imm64(buffer.dtype.itemsize)
    if not buffer.strides:
        return imm64(0), mul(product(buffer.shape), item)
    low: PrimExpr = imm64(0)
    high: PrimExpr = imm64(1)
    for extent, stride in zip(buffer.shape, buffer.strides):
        move = mul(sub(int64(extent), imm64(1)), int64(stride))
        low = add(low, Min(move, imm64(0)))
        high = add(high, Max(move, imm64(0)))
    return mul(low, item), Max(mul(sub(high, low), item), imm64(0))


# -- descriptors ---------------------------------------------------------------------------------
def _memory(name: str, dtype: DataType) -> Var:
    return Var(name, type_annotation=PointerType(PrimType(dtype), "global"))


def _with_words(made: Var, op: Any, args: tuple[PrimExpr, ...], body: Stmt) -> Stmt:
    """Run ``body`` with a descriptor that ``op`` has filled."""
    words = _memory(made.name_hint, INT64)
    bound = LetStmt(made, Call(HANDLE, op, (words, *args)), body)
    return Allocate(words, INT64, (imm64(_WORDS),), TRUE, bound)


class _Walk:
    """One walk over a function; ``loops`` is the descriptor of the loops around a place."""

    def __init__(self, func: PrimFunc, plan: _Plan) -> None:
        self.plan = plan
        self.layout = Layout(func)
        self.regions: dict[int, Var] = {}
        self.root = Var("loops", HANDLE)
        self.items: dict[int, int] = {}
        for buffer in _buffers(func):
            item = _item(buffer.dtype)
            self.items[id(buffer.data)] = min(item, self.items.get(id(buffer.data), item))

    def open(self, data: Var) -> Var:
        """Return the descriptor of a memory."""
        made = self.regions[id(data)] = Var(f"{data.name_hint}_watch", HANDLE)
        return made

    def announce(
        self,
        data: Var,
        region: Var,
        low: PrimExpr,
        size: PrimExpr,
        item: int,
        fresh: bool,
        body: Stmt,
    ) -> Stmt:
        """Run ``body`` with ``region``, the descriptor of ``size`` bytes; ``fresh``: unwritten."""
        granule = self.plan.granule or min(item, self.items.get(id(data), item))
        written = _memory(f"{data.name_hint}_written", _BYTE) if fresh else None
        stamps = _memory(f"{data.name_hint}_stamps", INT64) if self.plan.races else None
        args = (
            data,
            low,
            size,
            imm64(int(math.log2(granule))),
            _NULL if stamps is None else stamps,
            _NULL if written is None else written,
        )
        made = _with_words(region, WATCH_MEMORY, args, body)
        if stamps is not None:
            made = Allocate(stamps, INT64, (_quotient(size, granule), imm64(2)), TRUE, made)
        if written is not None:
            made = Allocate(written, _BYTE, (size,), TRUE, made)
        return made

    def region_of(self, buffer: Buffer) -> Var | None:
        """Find the descriptor of a buffer's memory, None if it is not watched."""
        while id(buffer) in self.layout.matches:
            buffer = self.layout.matches[id(buffer)].source.buffer
        return self.regions.get(id(buffer.data))

    # -- expressions -----------------------------------------------------------------------------
    def expr(self, e: PrimExpr, loops: Var | None) -> PrimExpr:
        """Instrument the loads of an expression, and pass descriptors to calls."""

        def load(node: BufferLoad) -> PrimExpr:
            region = self.region_of(node.buffer)
            if region is None:
                return node
            lets: list[tuple[Var, PrimExpr]] = []
            indices = tuple(_name_once(i, f"i{n}", lets) for n, i in enumerate(node.indices))
            place = BufferLoad(node.buffer, indices, span=node.span)
            made: PrimExpr = Call(
                node.dtype,
                WATCH_READ,
                (place, region, _or_null(loops), StringImm(node.buffer.name), *indices),
                span=node.span,
            )
            for var, value in reversed(lets):
                made = Let(var, value, made)
            return made

        def call(node: Call) -> PrimExpr:
            if isinstance(node.op, Op) and node.op in _OUTWARD:
                made: PrimExpr = node
                for escape in self._escapes(node):
                    made = Let(Var("escaped", HANDLE), escape, made)
                return made
            if node.op is ADDRESS_OF:
                return _address(node)
            target = None
            if isinstance(node.op, GlobalVar):
                target = self.plan.inner.get(node.op.name_hint)
            if target is None:
                return node
            regions = [
                self.regions.get(id(a.args[0]), _NULL)
                for a in node.args
                if isinstance(a, Call) and a.op is STACK_MAKE_ARRAY
            ]
            args = (*node.args, *regions, _or_null(loops))
            return Call(node.dtype, target, args, span=node.span)

        return rewrite(e, {BufferLoad: load, Call: call})

    def _escapes(self, call: Call) -> list[PrimExpr]:
        """Mark the memory that is passed to a call out of the program as written."""
        escaping: dict[Var, None] = {}
        for part in pre_order(call):
            name = part if isinstance(part, Var) else None
            if isinstance(part, Call) and part.op is ADDRESS_OF:
                name = pointer_base(part)
            if name is not None and id(name) in self.regions:
                escaping[self.regions[id(name)]] = None
        return [Call(HANDLE, WATCH_ESCAPE, (region,)) for region in escaping]

    # -- statements ------------------------------------------------------------------------------
    def stmt(self, s: Stmt, loops: Var | None) -> Step[Stmt]:
        """Instrument a statement."""
        if isinstance(s, BufferStore):
            return self._store(s, loops)
        if _is_unordered(s):
            return (yield self._loop(s, loops))
        if isinstance(s, Evaluate) and isinstance(s.value, Call) and s.value.op in _OUTWARD:
            # A call statement drops its result, so it must stay a statement.
            args = tuple(self.expr(a, loops) for a in s.value.args)
            call = Call(s.value.dtype, s.value.op, args, span=s.value.span)
            escapes = [Evaluate(e) for e in self._escapes(s.value)]
            return seq((*escapes, Evaluate(call, span=s.span)), s.span)
        if isinstance(s, LetStmt) and s.var.dtype.is_handle:
            region = self.regions.get(id(pointer_base(s.value)))
            if region is not None:
                self.regions[id(s.var)] = region
        opened = [(data, dtype, size, self.open(data)) for data, dtype, size in _list_allocated(s)]
        done: dict[int, Any] = {id(None): None}
        for part in children(s):
            if isinstance(part, Stmt):
                done[id(part)] = yield self.stmt(part, loops)
            else:
                done[id(part)] = self.expr(part, loops) if isinstance(part, PrimExpr) else part
        if opened:
            body: Stmt = getattr(s, "body")  # noqa: B009 - only some statements have one
            for data, dtype, size, region in reversed(opened):
                done[id(body)] = self.announce(
                    data, region, imm64(0), size, _item(dtype), True, done[id(body)]
                )
        return remake_node(s, plan_of(type(s)), done)

    def _store(self, s: BufferStore, loops: Var | None) -> Stmt:
        value = self.expr(s.value, loops)
        indices = tuple(self.expr(i, loops) for i in s.indices)
        region = self.region_of(s.buffer)
        if region is None:
            return BufferStore(s.buffer, value, indices, span=s.span)
        lets: list[tuple[Var, PrimExpr]] = []
        value = _name_once(value, "value", lets)
        indices = tuple(_name_once(i, f"i{n}", lets) for n, i in enumerate(indices))
        place = BufferLoad(s.buffer, indices, span=s.span)
        args = (place, region, _or_null(loops), StringImm(s.buffer.name), *indices)
        note = Evaluate(Call(VOID, WATCH_WRITE, args, span=s.span), span=s.span)
        made: Stmt = seq((note, BufferStore(s.buffer, value, indices, span=s.span)), s.span)
        for var, bound in reversed(lets):
            made = LetStmt(var, bound, made, span=s.span)
        return made

    def _loop(self, s: Any, loops: Var | None) -> Step[Stmt]:
        """Make a loop serial, and record the current iteration."""
        here = Var("loops", HANDLE)
        var: Any = s.loop_var if isinstance(s, For) else s.node
        var = var.var if isinstance(var, IterVar) else var
        if not isinstance(var, Var):  # a later pass reports this
            return s
        body = yield self.stmt(s.body, here)
        step = Evaluate(Call(VOID, WATCH_ITERATION, (here, cast(var, INT64))))
        body = seq((step, body))
        if isinstance(s, For):
            start, extent = self.expr(s.min, loops), self.expr(s.extent, loops)
        else:
            start, extent = IntImm(0, var.dtype), cast(self.expr(s.value, loops), var.dtype)
        notes: Mapping[str, Any] = s.annotations if isinstance(s, For) else {}
        made = For(var, start, extent, ForKind.SERIAL, body, None, notes, span=s.span)
        return _with_words(here, WATCH_LOOP, (self.root if loops is None else loops,), made)


def _quotient(size: PrimExpr, granule: int) -> PrimExpr:
    """Divide a size by the granule, rounding up."""
    if isinstance(size, IntImm):
        return imm64(-(-size.value // granule))
    if granule == 1:
        return size
    return add(call_builtin("shift_right", size, imm64(int(math.log2(granule)))), imm64(1))


def _or_null(loops: Var | None) -> PrimExpr:
    return _NULL if loops is None else loops


def _address(call: Call) -> PrimExpr:
    """Take the address of an element, without instrumenting its load: it is not read."""
    lets: list[Let] = []
    element = call.args[0]
    while isinstance(element, Let):
        lets.append(element)
        element = element.body
    if not isinstance(element, Call) or element.op is not WATCH_READ:
        return call
    made: PrimExpr = Call(call.dtype, call.op, element.args[:1], span=call.span)
    for let in reversed(lets):
        made = Let(let.var, let.value, made)
    return made


def _name_once(e: PrimExpr, name: str, lets: list[tuple[Var, PrimExpr]]) -> PrimExpr:
    """Return a variable for an expression that must be evaluated once."""
    if isinstance(e, (Var, IntImm)):
        return e
    var = Var(name, e.dtype)
    lets.append((var, e))
    return var


def _list_allocated(s: Stmt) -> list[tuple[Var, DataType, PrimExpr]]:
    """List the allocations of a statement, with their sizes in bytes."""
    if isinstance(s, Allocate):
        size = mul(product(s.extents), imm64(s.dtype.itemsize))
        return [(s.buffer_var, s.dtype, size)]
    buffers: tuple[Buffer, ...] = ()
    if isinstance(s, Block):
        buffers = s.alloc_buffers
    elif isinstance(s, BufferRealize):
        buffers = (s.buffer,)
    return [
        (b.data, b.dtype, mul(product(extents_of(b)), imm64(b.dtype.itemsize))) for b in buffers
    ]
