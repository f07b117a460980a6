"""Random well-formed programs, built as IR: all that has a text form, in odd combinations."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from random import Random
from typing import Any

from loomir.check.tir.init_order import VOUCHED
from loomir.ir import GlobalVar, IRModule, pre_order
from loomir.support.dtype import BOOL, DataType
from loomir.tir import (
    BUILTINS,
    GE,
    GT,
    LE,
    LT,
    NE,
    TRUE,
    Add,
    Allocate,
    And,
    AssertStmt,
    AttrStmt,
    Block,
    BlockRealize,
    Broadcast,
    Buffer,
    BufferLoad,
    BufferRegion,
    BufferStore,
    BufferType,
    Call,
    Cast,
    DeclBuffer,
    Div,
    Eq,
    Evaluate,
    FloatImm,
    FloorDiv,
    FloorMod,
    For,
    ForKind,
    IfThenElse,
    IntImm,
    IterVar,
    IterVarType,
    Let,
    LetStmt,
    MatchBufferRegion,
    Max,
    Min,
    Mod,
    Mul,
    Not,
    Or,
    PointerType,
    PrimExpr,
    PrimFunc,
    PrimType,
    Ramp,
    Range,
    Select,
    Shuffle,
    Stmt,
    StringImm,
    Sub,
    Var,
    While,
    call_builtin,
    convert,
    decl_buffer,
    seq,
)
from loomir.tir.builtins.table import AcceptedDTypes

INT32, INT64 = DataType("int32"), DataType("int64")
NAMES = (
    *("i", "j", "x", "A", "B", "n", "vi", "i_1", "x_1"),
    *("class", "lambda", "None", "T", "I", "cls", "range", "float", "Module", "main", "f"),
    *("2d", "a.b", "a b", "größe", "ﬁ", "变量", "", "_", "__x", "match", "π", "😀", "data"),
)
DTYPES = tuple(
    DataType(name)
    for name in ("int32", "int64", "int8", "uint8", "uint64", "float32", "float16", "bool")
    + ("float64", "bfloat16", "int32x4", "float32x4", "boolx4", "uint8x2")
)
TEXTS = (
    "",
    "text",
    'a "quoted" one',
    "two\nlines",
    "tab\t\\n",
    "größe 变量 😀",
    "\x00\x7f",
    "'''",
    "\u2028",
)
FLOATS = (0.0, -0.0, 1.0, -1.5, 0.1, 1e-30, 65504.0, 3.0, 1e16, math.inf, -math.inf, math.nan)


class Scope:
    """What may be used at a point of the program."""

    def __init__(self) -> None:
        self.vars: list[Var] = []
        self.buffers: list[Buffer] = []
        self.loops: list[For] = []
        self.jumps = False
        self.returns = True
        self.whiles = True


class Maker:
    """Makes one program from a seed."""

    def __init__(self, seed: int) -> None:
        self.r = Random(seed)
        self.scope = Scope()
        self.ret: DataType | None = None
        self.callees: list[tuple[GlobalVar, PrimFunc]] = []

    # -- small choices ---------------------------------------------------------------------------
    def name(self) -> str:
        return self.r.choice(NAMES)

    def text(self) -> str:
        return self.r.choice(TEXTS)

    def var(self, dtype: DataType) -> Var:
        return Var(self.name(), dtype)

    def one_in(self, count: int) -> bool:
        return self.r.randrange(count) == 0

    @contextmanager
    def inner(self) -> Iterator[Scope]:
        """A scope within; what is added to it is gone afterwards."""
        scope = self.scope
        lengths = len(scope.vars), len(scope.buffers), len(scope.loops)
        flags = scope.jumps, scope.returns, scope.whiles
        yield scope
        del scope.vars[lengths[0] :], scope.buffers[lengths[1] :], scope.loops[lengths[2] :]
        scope.jumps, scope.returns, scope.whiles = flags

    def pointer(self, dtype: DataType, scope: str = "global") -> Var:
        return Var(self.name(), type_annotation=PointerType(PrimType(dtype), scope))

    # -- expressions -----------------------------------------------------------------------------
    def constant(self, dtype: DataType) -> PrimExpr:
        if dtype.lanes > 1:
            return Broadcast(self.constant(dtype.element), dtype.lanes)
        if dtype.is_float:
            fits = [f for f in self.floats() if not math.isfinite(f) or abs(f) <= dtype.max_finite]
            value = self.r.choice(fits)
            return FloatImm(value, dtype)
        return IntImm(self.integer(dtype), dtype)

    def floats(self) -> tuple[float, ...]:
        return FLOATS

    def integer(self, dtype: DataType) -> int:
        ends = [dtype.min_value, dtype.max_value, 0, 1]
        return self.r.choice([*ends, self.r.randint(0, min(100, dtype.max_value))])

    def leaf(self, dtype: DataType) -> PrimExpr:
        usable = [v for v in self.scope.vars if v.dtype is dtype]
        if usable and self.r.random() < 0.7:
            return self.r.choice(usable)
        loads = [b for b in self.scope.buffers if b.dtype is dtype]
        if loads and self.r.random() < 0.5:
            buffer = self.r.choice(loads)
            return BufferLoad(buffer, self.indices(buffer))
        return self.constant(dtype)

    def indices(self, buffer: Buffer) -> tuple[PrimExpr, ...]:
        return tuple(self.index(axis) for axis in buffer.shape)

    def index(self, extent: PrimExpr) -> PrimExpr:
        usable = [v for v in self.scope.vars if v.dtype.is_integer and v.dtype.lanes == 1]
        kind = self.r.randrange(4)
        if usable and kind:
            index: PrimExpr = self.r.choice(usable)
            if kind == 2:
                return Add(index, IntImm(1, index.dtype))
            return index
        top = extent.value - 1 if isinstance(extent, IntImm) else 0
        return IntImm(self.r.randint(0, max(0, min(top, 3))), self.r.choice((INT32, INT64)))

    def expr(self, dtype: DataType, depth: int = 3) -> PrimExpr:
        if dtype.is_handle:
            return Cast(self.leaf(INT64), dtype)
        if depth <= 0 or self.one_in(4):
            return self.leaf(dtype)
        ways = [self.arithmetic, self.choice, self.cast, self.let]
        if dtype.is_bool:
            ways = [self.logic, self.compare, self.choice, self.cast, self.let]
        if dtype.lanes > 1:
            ways.append(self.vector)
        ways.append(self.builtin)
        return self.r.choice(ways)(dtype, depth - 1)

    def arithmetic(self, dtype: DataType, depth: int) -> PrimExpr:
        ops = [Add, Sub, Mul, Div, FloorDiv, FloorMod, Min, Max]
        if dtype.is_integer:
            ops.append(Mod)
        return self.r.choice(ops)(self.expr(dtype, depth), self.expr(dtype, depth))

    def logic(self, dtype: DataType, depth: int) -> PrimExpr:
        if self.one_in(3):
            return Not(self.expr(dtype, depth))
        return self.r.choice((And, Or))(self.expr(dtype, depth), self.expr(dtype, depth))

    def compare(self, dtype: DataType, depth: int) -> PrimExpr:
        op = self.r.choice((Eq, NE, LT, LE, GT, GE))
        operand = self.r.choice([d for d in DTYPES if d.lanes == dtype.lanes])
        return op(self.expr(operand, depth), self.expr(operand, depth))

    def choice(self, dtype: DataType, depth: int) -> PrimExpr:
        if self.one_in(2):
            parts = (self.expr(BOOL, depth), self.expr(dtype, depth), self.expr(dtype, depth))
            return call_builtin("if_then_else", *parts)
        lanes = BOOL if dtype.lanes == 1 or self.one_in(2) else BOOL.with_lanes(dtype.lanes)
        return Select(self.expr(lanes, depth), self.expr(dtype, depth), self.expr(dtype, depth))

    def cast(self, dtype: DataType, depth: int) -> PrimExpr:
        source = self.r.choice([d for d in DTYPES if d.lanes == dtype.lanes])
        return Cast(self.expr(source, depth), dtype)

    def let(self, dtype: DataType, depth: int) -> PrimExpr:
        bound = self.var(self.r.choice(DTYPES))
        value = self.expr(bound.dtype, depth)
        with self.inner() as scope:
            scope.vars.append(bound)
            return Let(bound, value, self.expr(dtype, depth))

    def vector(self, dtype: DataType, depth: int) -> PrimExpr:
        kind = self.r.randrange(4)
        element = dtype.element
        if kind == 0 and element.is_integer:
            return Ramp(self.expr(element, depth), self.expr(element, depth), dtype.lanes)
        if kind == 1:
            picks = tuple(convert(self.r.randrange(8)) for _ in range(dtype.lanes))
            parts = (self.expr(dtype.with_lanes(4), depth), self.expr(dtype.with_lanes(4), depth))
            return Shuffle(parts, picks)
        flat = [b for b in self.scope.buffers if b.dtype is element and len(b.shape) == 1]
        if kind == 2 and flat:
            return BufferLoad(self.r.choice(flat), (self.ramp(dtype.lanes),))
        return Broadcast(self.expr(element, depth), dtype.lanes)

    def ramp(self, lanes: int) -> PrimExpr:
        usable = [v for v in self.scope.vars if v.dtype in (INT32, INT64)]
        base: PrimExpr = self.r.choice(usable) if usable and self.one_in(2) else IntImm(0, INT32)
        if self.one_in(2) and isinstance(base, Var):
            base = Mul(base, IntImm(4, base.dtype))
        stride = 1 if not isinstance(base, Var) or self.r.random() < 0.7 else 2
        return Ramp(base, IntImm(stride, base.dtype), lanes)

    def builtin(self, dtype: DataType, depth: int) -> PrimExpr:
        kind = self.r.randrange(3)
        if kind == 0:
            return call_builtin("likely", self.expr(dtype, depth))
        names = [
            name
            for name, row in BUILTINS.items()
            if row.arity in (1, 2, 3)
            and (
                (
                    row.accepts is AcceptedDTypes.FLOAT
                    and dtype.is_float
                    and not name.startswith("is")
                )
                or (
                    row.accepts is AcceptedDTypes.INTEGER
                    and dtype.is_integer
                    and name.startswith("s")
                )
                or (row.accepts is AcceptedDTypes.BITS and not dtype.is_float)
            )
        ]
        if not names:
            return self.leaf(dtype)
        name = self.r.choice(names)
        arity = BUILTINS[name].arity or 0
        made = call_builtin(name, *(self.expr(dtype, depth) for _ in range(arity)))
        if self.one_in(9):
            return Call(dtype, made.op, (*made.args, StringImm(self.text())))
        return made

    # -- statements ------------------------------------------------------------------------------
    def body(self, depth: int) -> Stmt:
        count = self.r.choice((0, 1, 1, 2, 2, 3))
        return seq([self.stmt(depth) for _ in range(count)])

    def stmt(self, depth: int) -> Stmt:
        if depth <= 0:
            return self.r.choice((self.store, self.evaluate))()
        ways = [
            *(self.store, self.evaluate, self.evaluate),
            *(self.let_stmt, self.if_stmt, self.for_stmt, self.grid, self.block, self.block),
            *(self.allocate, self.local_buffer, self.declare, self.assertion, self.attribute),
        ]
        if self.scope.whiles:
            ways.append(self.while_stmt)
        made = self.r.choice(ways)
        return made() if made in (self.store, self.evaluate) else made(depth - 1)

    def store(self) -> Stmt:
        if not self.scope.buffers:
            return self.evaluate()
        buffer = self.r.choice(self.scope.buffers)
        if len(buffer.shape) == 1 and buffer.dtype.lanes == 1 and self.one_in(3):
            ramp = self.ramp(4)
            return BufferStore(buffer, self.expr(buffer.dtype.with_lanes(4)), (ramp,))
        return BufferStore(buffer, self.expr(buffer.dtype), self.indices(buffer))

    def evaluate(self) -> Stmt:
        kind = self.r.randrange(6)
        if kind == 0 and self.scope.jumps:
            return Evaluate(call_builtin(self.r.choice(("break_loop", "continue_loop"))))
        if kind == 1 and self.ret is not None and self.scope.returns:
            return Evaluate(call_builtin("ret", self.expr(self.ret, 2)))
        if kind == 2 and self.callees:
            return Evaluate(self.module_call())
        if kind == 3:
            return Evaluate(StringImm(self.text()))
        return Evaluate(self.expr(self.r.choice(DTYPES)))

    def module_call(self) -> PrimExpr:
        name, callee = self.r.choice(self.callees)
        args: list[PrimExpr] = []
        for param in callee.params:
            buffer = callee.buffer_map.get(param)
            if buffer is None:
                args.append(self.expr(param.dtype, 2))
                continue
            usable = [b for b in self.scope.buffers if b.dtype is buffer.dtype]
            if not usable:
                return self.expr(INT32)
            args.append(self.r.choice(usable).data)
        gives = callee.ret_type
        dtype = gives.dtype if isinstance(gives, PrimType) else DataType("void")
        return Call(dtype, GlobalVar(name.name_hint), tuple(args))

    def let_stmt(self, depth: int) -> Stmt:
        bound = self.var(self.r.choice(DTYPES))
        value = self.expr(bound.dtype)
        if self.one_in(5) and self.scope.buffers:
            bound = self.pointer(self.r.choice(DTYPES[:4]), self.r.choice(("global", "local")))
            value = self.r.choice(self.scope.buffers).data
        with self.inner() as scope:
            scope.vars.append(bound)
            return LetStmt(bound, value, self.body(depth))

    def nested(self, depth: int) -> Stmt:
        with self.inner():
            return self.body(depth)

    def if_stmt(self, depth: int) -> Stmt:
        other = self.nested(depth) if self.one_in(2) else None
        return IfThenElse(self.expr(BOOL), self.nested(depth), other)

    def while_stmt(self, depth: int) -> Stmt:
        condition = self.expr(self.r.choice((BOOL, INT32)))
        while isinstance(condition, IntImm):
            condition = self.expr(BOOL)
        with self.inner() as scope:
            scope.jumps = True
            return While(condition, self.body(depth))

    def loop(self, kind: ForKind, depth: int, bounds: tuple[PrimExpr, PrimExpr]) -> For:
        dtype = bounds[1].dtype
        loop_var = self.var(dtype)
        bound = None
        if kind is ForKind.THREAD_BINDING:
            tag = self.r.choice(("threadIdx.x", "blockIdx.y"))
            bound = IterVar(None, self.var(dtype), IterVarType.THREAD_INDEX, tag)
        notes = self.attributes() if self.one_in(4) else {}
        with self.inner() as scope:
            scope.vars.append(loop_var)
            ordered = kind in (ForKind.SERIAL, ForKind.UNROLLED)
            scope.jumps = ordered
            scope.returns = scope.returns and ordered
            scope.whiles = scope.whiles and kind is not ForKind.VECTORIZED
            # A block's remap looks at loops; only their bounds matter to it.
            made = For(loop_var, *bounds, kind, Evaluate(convert(0)), bound, notes)
            scope.loops.append(made)
            body = self.body(depth)
            return For(loop_var, *bounds, kind, body, bound, notes)

    def bounds(self) -> tuple[PrimExpr, PrimExpr]:
        dtype = self.r.choice((INT32, INT32, INT64, DataType("uint8")))
        start: PrimExpr = IntImm(0, dtype)
        if self.one_in(3):
            start = self.expr(dtype, 2)
        extent = IntImm(self.r.randint(0, 20), dtype) if self.one_in(2) else self.expr(dtype, 2)
        return start, extent

    def for_stmt(self, depth: int) -> Stmt:
        return self.loop(self.r.choice(tuple(ForKind)), depth, self.bounds())

    def grid(self, depth: int) -> Stmt:
        """A nest of serial loops around a body."""
        loops: list[tuple[Var, PrimExpr]] = []
        with self.inner() as scope:
            for _ in range(self.r.randint(2, 3)):
                extent = self.expr(INT32, 1) if self.one_in(3) else convert(self.r.randint(1, 8))
                loops.append((self.var(INT32), extent))
                scope.vars.append(loops[-1][0])
                made = For(loops[-1][0], convert(0), extent, ForKind.SERIAL, Evaluate(convert(0)))
                scope.loops.append(made)
            scope.jumps = True
            body = self.body(depth)
        for loop_var, extent in reversed(loops):
            body = For(loop_var, convert(0), extent, ForKind.SERIAL, body)
        return body

    def assertion(self, depth: int) -> Stmt:
        message = StringImm(self.text()) if self.one_in(2) else self.expr(INT32, 1)
        return AssertStmt(self.expr(BOOL), message, self.nested(depth))

    def attribute(self, depth: int) -> Stmt:
        kind = self.r.randrange(3)
        if kind == 0:
            bound = self.var(INT32)
            subject: Any
            with self.inner() as scope:
                scope.vars.append(bound)
                scope.jumps, scope.returns = False, False
                key = self.r.choice(("thread_extent", "virtual_thread"))
                subject = bound
                if self.one_in(2):
                    dom = Range(convert(0), convert(4)) if self.one_in(3) else None
                    thread = self.r.choice((IterVarType.THREAD_INDEX, IterVarType.UNROLLED))
                    subject = IterVar(dom, bound, thread, self.text())
                return AttrStmt(subject, key, convert(4), self.body(depth))
        subject = self.attribute_value(1)
        if kind == 1 and self.scope.buffers:
            subject = self.r.choice(self.scope.buffers)
        value = self.expr(self.r.choice(DTYPES), 1)
        return AttrStmt(subject, self.r.choice(("pragma", self.text())), value, self.nested(depth))

    # -- attributes ------------------------------------------------------------------------------
    def attributes(self) -> dict[str, Any]:
        count = self.r.randint(1, 3)
        return {
            self.r.choice((self.name(), self.text())): self.attribute_value(2) for _ in range(count)
        }

    def attribute_value(self, depth: int) -> Any:
        kind = self.r.randrange(12 if depth else 9)
        if kind == 0:
            return self.r.choice((0, 1, -5, 2**40, True, False, None))
        if kind == 1:
            return self.r.choice(FLOATS)
        if kind in (2, 3):
            return self.text()
        if kind == 4:
            return self.r.choice(DTYPES)
        if kind == 5:
            return self.constant(self.r.choice([d for d in DTYPES if d.lanes == 1]))
        if kind == 6:
            return StringImm(self.text())
        if kind == 7 and self.scope.vars:
            return self.r.choice(self.scope.vars)
        if kind in (9, 10):
            return tuple(self.attribute_value(depth - 1) for _ in range(self.r.randint(0, 3)))
        if kind == 11:
            return {self.text(): self.attribute_value(depth - 1)}
        return 1

    # -- buffers ---------------------------------------------------------------------------------
    def buffer(self, **fields: Any) -> Buffer:
        """A buffer whose numbers mention variables in scope at most."""
        dtype = self.r.choice([d for d in DTYPES if d.lanes == 1 or self.one_in(4)])
        shape = fields.pop("shape", None)
        if shape is None:
            shape = tuple(self.extent() for _ in range(self.r.randint(0, 3)))
        strides: tuple[PrimExpr, ...] = ()
        if shape and self.one_in(5):
            strides = tuple(self.extent() for _ in shape)
        if self.one_in(5):
            fields.setdefault("elem_offset", self.extent())
        if self.one_in(6):
            fields.setdefault("data_alignment", self.r.choice((1, 16, 128)))
        if self.one_in(6):
            fields.setdefault("offset_factor", 4)
        if self.one_in(8):
            fields.setdefault("axis_separators", (1,))
        if strides and self.one_in(3):
            fields.setdefault("buffer_type", BufferType.AUTO_BROADCAST)
        fields.setdefault("scope", self.r.choice(("global", "global", "local", "shared.dyn")))
        return decl_buffer(
            shape, fields.pop("dtype", dtype), self.name(), strides=strides, **fields
        )

    def extent(self) -> PrimExpr:
        usable = [v for v in self.scope.vars if v.dtype in (INT32, INT64)]
        if usable and self.one_in(4):
            return self.r.choice(usable)
        return IntImm(self.r.randint(4, 16), self.r.choice((INT32, INT32, INT64)))

    def allocate(self, depth: int) -> Stmt:
        dtype = self.r.choice([d for d in DTYPES if d.lanes == 1])
        pointer = self.pointer(dtype, self.r.choice(("global", "local")))
        if dtype is BOOL and self.one_in(2):
            pointer = self.pointer(DataType("int8"))
        extents = tuple(self.extent() for _ in range(self.r.randint(1, 2)))
        condition = self.expr(BOOL) if self.one_in(3) else TRUE
        notes = self.attributes() if self.one_in(4) else {}
        with self.inner() as scope:
            scope.vars.append(pointer)
            body = self.body(depth)
            if self.one_in(2):
                made = self.buffer(data=pointer, dtype=dtype)
                scope.buffers.append(made)
                body = DeclBuffer(made, self.body(depth))
            return Allocate(pointer, dtype, extents, condition, body, notes)

    def local_buffer(self, depth: int) -> Stmt:
        """What ``T.alloc_buffer`` in a loop makes."""
        made = self.buffer(elem_offset=None)
        with self.inner() as scope:
            scope.buffers.append(made)
            body = DeclBuffer(made, self.body(depth))
        return Allocate(made.data, made.dtype, made.shape, TRUE, body)

    def declare(self, depth: int) -> Stmt:
        if not self.scope.buffers:
            return self.body(depth)
        source = self.r.choice(self.scope.buffers)
        made = self.buffer(data=source.data, dtype=source.dtype)
        with self.inner() as scope:
            scope.buffers.append(made)
            return DeclBuffer(made, self.body(depth))

    # -- blocks ----------------------------------------------------------------------------------
    def block(self, depth: int) -> Stmt:
        iters: list[IterVar] = []
        values: list[PrimExpr] = []
        kinds = (IterVarType.DATA_PAR, IterVarType.COMM_REDUCE, IterVarType.ORDERED)
        for _ in range(self.r.randint(0, 3)):
            dom, value = self.axis()
            assert dom.extent is not None
            iter_var = self.var(dom.extent.dtype)
            kind = self.r.choice((*kinds[:2], *kinds, IterVarType.OPAQUE))
            iters.append(IterVar(dom, iter_var, kind))
            values.append(value)
        predicate = self.expr(BOOL, 2) if self.one_in(4) else TRUE
        with self.inner() as scope:
            scope.vars += [it.var for it in iters]
            allocated = tuple(self.buffer() for _ in range(self.r.choice((0, 0, 1, 2))))
            scope.buffers += allocated
            matched = tuple(self.match() for _ in range(self.r.choice((0, 0, 1))))
            found = tuple(m for m in matched if m is not None)
            notes = self.attributes() if self.one_in(4) else {}
            notes[VOUCHED] = True
            regions = tuple(self.region() for _ in range(4 if scope.buffers else 0))
            made = Block(
                tuple(iters),
                regions[:2],
                regions[2:],
                self.r.choice((self.name(), self.text(), "root")),
                self.body(depth),
                self.nested(depth) if self.one_in(3) else None,
                allocated,
                found,
                notes,
            )
        return BlockRealize(tuple(values), predicate, made)

    def axis(self) -> tuple[Range, PrimExpr]:
        if self.scope.loops and self.r.random() < 0.6:
            loop = self.r.choice(self.scope.loops)
            if isinstance(loop.min, IntImm) and isinstance(loop.extent, (IntImm, Var)):
                return Range(loop.min, loop.extent), loop.loop_var
        dtype = self.r.choice((INT32, INT64))
        start: PrimExpr = IntImm(0, dtype)
        if self.one_in(3):
            start = IntImm(2, dtype) if self.one_in(2) else self.expr(dtype, 1)
        extent = IntImm(8, dtype) if self.one_in(2) else self.expr(dtype, 1)
        return Range(start, extent), self.expr(dtype, 2)

    def range(self, size: PrimExpr) -> Range:
        dtype = self.r.choice((INT32, INT64))
        kind = self.r.randrange(5)
        # Used twice below, so it must not bind.
        start = Add(self.leaf(dtype), self.leaf(dtype)) if self.one_in(2) else self.leaf(dtype)
        if isinstance(start, IntImm):
            start = IntImm(self.r.randint(0, 3), dtype)
        if kind == 0:
            return Range(IntImm(0, dtype), IntImm(2, dtype))
        if kind == 1:
            index = self.index(size)
            return Range(index, IntImm(1, index.dtype))
        if kind == 2:
            return Range(start, Sub(self.expr(dtype, 1), start))
        if kind == 3 and self.one_in(3):
            return Range(start)
        return Range(start, self.expr(dtype if self.r.random() < 0.9 else INT32, 1))

    def region(self) -> BufferRegion:
        buffer = self.r.choice(self.scope.buffers)
        if self.one_in(3):
            return buffer.whole()
        return BufferRegion(buffer, tuple(self.range(extent) for extent in buffer.shape))

    def match(self) -> MatchBufferRegion | None:
        usable = [
            b
            for b in self.scope.buffers
            if b.elem_offset is None and b.buffer_type is BufferType.DEFAULT
        ]
        if not usable:
            return None
        source = self.r.choice(usable)
        offset = Var(self.name(), INT32) if self.one_in(2) else None
        strides = tuple(Var(self.name(), INT32) for _ in source.shape) if self.one_in(2) else ()
        made = decl_buffer(
            source.shape,
            source.dtype,
            self.name(),
            strides=strides,
            elem_offset=offset,
            scope=source.scope,
            data_alignment=source.data_alignment,
        )
        self.scope.buffers.append(made)
        self.scope.vars += [v for v in (*strides, offset) if isinstance(v, Var)]
        return MatchBufferRegion(made, source.whole())

    # -- functions -------------------------------------------------------------------------------
    def func(self, symbol: str | None = "main", depth: int = 3) -> PrimFunc:
        self.scope = Scope()
        self.ret = self.r.choice((None, None, INT32, DataType("float32")))
        params: list[Var] = []
        buffers: dict[Var, Buffer] = {}
        sizes = [Var(self.name(), self.r.choice((INT32, INT64))) for _ in range(2)]
        for _ in range(self.r.randint(0, 4)):
            if self.one_in(3):
                params.append(self.var(self.r.choice(DTYPES)))
                self.scope.vars.append(params[-1])
                continue
            if self.one_in(6):
                params.append(self.pointer(DataType("float32"), self.r.choice(("global", "x"))))
                self.scope.vars.append(params[-1])
                continue
            handle = Var(self.name(), "handle")
            if self.one_in(6):
                handle = self.pointer(DataType("int8"))
            shape = None
            if self.one_in(3):
                shape = (self.r.choice(sizes), sizes[0] * 2 + 1)[: self.r.randint(1, 2)]
            usable, self.scope.vars = self.scope.vars, []
            buffers[handle] = self.buffer(**({} if shape is None else {"shape": shape}))
            self.scope.vars = usable
            params.append(handle)
            self.scope.buffers.append(buffers[handle])
        mentioned = {id(p) for b in buffers.values() for e in b.shape for p in _vars(e)}
        self.scope.vars += [v for v in sizes if id(v) in mentioned]
        self.r.shuffle(self.scope.vars)
        body = self.body(depth)
        if self.one_in(2):
            allocated = tuple(self.buffer() for _ in range(self.r.choice((0, 1))))
            body = BlockRealize((), TRUE, Block((), (), (), "root", body, alloc_buffers=allocated))
        if self.ret is not None:
            body = seq([body, Evaluate(call_builtin("ret", self.constant(self.ret)))])
        self.scope = Scope()  # a function's attributes stand outside of it
        attrs = self.attributes() if self.one_in(3) else {}
        attrs.pop("global_symbol", None)
        if symbol is not None:
            attrs["global_symbol"] = symbol
        ret_type = None if self.ret is None else PrimType(self.ret)
        return PrimFunc(tuple(params), body, ret_type, buffers, attrs)

    def module(self) -> IRModule:
        functions: dict[GlobalVar, PrimFunc] = {}
        for number in range(self.r.randint(0, 3)):
            name = self.r.choice(("f", "class", "a.b", "main", "2d", "größe"))
            if any(v.name_hint == name for v in functions):
                name = f"f{number}"
            symbol = self.r.choice((name, name, None, "other"))
            made = self.func(symbol, depth=2)
            functions[GlobalVar(name)] = made
            self.callees = list(functions.items())
        self.scope = Scope()
        attrs = self.attributes() if self.one_in(3) else {}
        return IRModule(functions, attrs)


def _vars(expr: PrimExpr) -> list[Var]:
    return [part for part in pre_order(expr) if isinstance(part, Var)]
