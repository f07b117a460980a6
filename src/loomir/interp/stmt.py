"""The meaning of statements: a table of node classes, each of which adds instructions.

A function becomes one flat list of instructions with jumps, so nesting has no limit. Parallel loops run in
order here, which is one of the orders they allow.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, Union

from typing_extensions import TypeAlias

from loomir.interp.expr import compile_expr, find_view
from loomir.interp.machine import (
    FINISHED,
    RESULT,
    Code,
    Compiled,
    Environment,
    Instruction,
    instruction,
)
from loomir.interp.memory import Tracker, View, allocate, region_of, row_major, view_at
from loomir.interp.scope import Scope, refuse
from loomir.interp.values import Pointer, Value, encoder
from loomir.runtime.errors import RunValueError
from loomir.runtime.fault import Fault, FaultKind
from loomir.support.diagnostics import Diagnostic
from loomir.support.dtype import DataType
from loomir.support.span import Span
from loomir.tir.buffer import Buffer, IterVar, IterVarType, MatchBufferRegion
from loomir.tir.expr import Call, IntImm, PrimExpr, StringImm, Var
from loomir.tir.function import PrimFunc
from loomir.tir.op import BREAK_LOOP, CONTINUE_LOOP, RET
from loomir.tir.stmt import (
    Allocate,
    AssertStmt,
    AttrStmt,
    Block,
    BlockRealize,
    BufferRealize,
    BufferStore,
    DeclBuffer,
    Evaluate,
    For,
    ForKind,
    IfThenElse,
    LetStmt,
    SeqStmt,
    Stmt,
    While,
)
from loomir.tir.types import PrimType

__all__ = ["compile_body"]

Task: TypeAlias = Union[Stmt, Callable[[], object]]
Maker: TypeAlias = Callable[[int], Callable[..., int]]


class _Label:
    """A place among the instructions; its number is known when all are written."""

    __slots__ = ("number",)

    def __init__(self) -> None:
        self.number = -1


class _Writer:
    """The instructions of one function while they are written."""

    def __init__(self, scope: Scope) -> None:
        self.scope = scope
        self.loops: list[tuple[_Label, _Label]] = []
        """Where ``break`` and ``continue`` go, innermost last."""
        self._makers: list[tuple[Sequence[Code], Maker]] = []
        self._tasks: list[Task] = []

    def then(self, *tasks: Task) -> None:
        """Ask for statements and small steps to be done next, in this order."""
        self._tasks.extend(reversed(tasks))

    def add(self, operands: Sequence[Code], maker: Maker) -> None:
        """Add an instruction; ``maker`` is given the number of the one after it."""
        self._makers.append((operands, maker))

    def jump(self, label: _Label) -> None:
        """Add a jump."""
        self.add((), lambda after: lambda env: label.number)

    def place(self, label: _Label) -> Callable[[], None]:
        """Give the task that puts a label here."""

        def put() -> None:
            label.number = len(self._makers)

        return put

    def expr(self, value: PrimExpr) -> Code:
        """Compile an expression."""
        return compile_expr(value, self.scope)

    def exprs(self, values: Sequence[PrimExpr]) -> list[Code]:
        """Compile expressions."""
        return [compile_expr(v, self.scope) for v in values]

    def unbind(self, name: Var | Buffer) -> Callable[[], None]:
        """Give the task that ends the scope of a name."""
        return lambda: self.scope.unbind(name)

    def set(self, slot: int, value: Code) -> None:
        """Add an instruction that puts a value into a slot."""

        def maker(after: int) -> Callable[..., int]:
            def put(env: Environment, v: Value) -> int:
                env[slot] = v
                return after

            return put

        self.add((value,), maker)

    def branch(self, condition: Code, otherwise: _Label) -> None:
        """Go on where the condition holds, else to the label."""
        self.add((condition,), lambda after: lambda env, c: after if c else otherwise.number)

    def write(self, root: Stmt) -> None:
        """Write the instructions of a statement."""
        self.then(root)
        while self._tasks:
            task = self._tasks.pop()
            if isinstance(task, Stmt):
                _WRITERS[type(task)](task, self)
            else:
                task()

    def finish(self) -> tuple[Instruction, ...]:
        """Link the jumps."""
        return tuple(
            instruction(operands, maker(number + 1))
            for number, (operands, maker) in enumerate(self._makers)
        )


def compile_body(func: PrimFunc, scope: Scope) -> Compiled:
    """Compile a function whose parameters ``scope`` knows.

    Errors: TIR0401 for a name that is not bound where it is used.
    """
    writer = _Writer(scope)
    writer.write(func.body)
    missing: Fault | None = None
    if isinstance(func.ret_type, PrimType):
        missing = Fault(
            FaultKind.MISSING_RETURN,
            (f"{func.name} reached its end without returning a {func.ret_type.dtype}",),
            span=func.span,
            help="return a value on every path",
        )

    def end(env: Environment) -> int:
        if missing is not None:
            raise missing.error()
        env[RESULT] = None
        return FINISHED

    writer.add((), lambda after: end)
    return Compiled(func.name, writer.finish(), scope.size)


# -- plain statements --------------------------------------------------------------------------
def _seq(node: SeqStmt, w: _Writer) -> None:
    w.then(*node.seq)


def _let(node: LetStmt, w: _Writer) -> None:
    value = w.expr(node.value)
    w.set(w.scope.bind(node.var), value)
    w.then(node.body, w.unbind(node.var))


def _evaluate(node: Evaluate, w: _Writer) -> None:
    value = node.value
    if isinstance(value, Call) and value.op is RET:

        def leave(env: Environment, v: Value) -> int:
            env[RESULT] = v
            return FINISHED

        w.add((w.expr(value.args[0]),), lambda after: leave)
    elif isinstance(value, Call) and value.op in (BREAK_LOOP, CONTINUE_LOOP):
        if not w.loops:
            refuse("break or continue stands outside of a loop", "put it into a loop", value.span)
        w.jump(w.loops[-1][0 if value.op is BREAK_LOOP else 1])
    else:
        w.add((w.expr(value),), lambda after: lambda env, v: after)


def _if(node: IfThenElse, w: _Writer) -> None:
    otherwise, end = _Label(), _Label()
    w.branch(w.expr(node.condition), otherwise)
    if node.else_case is None:
        w.then(node.then_case, w.place(otherwise))
        return
    w.then(
        node.then_case,
        lambda: w.jump(end),
        w.place(otherwise),
        node.else_case,
        w.place(end),
    )


def _assert(node: AssertStmt, w: _Writer) -> None:
    message, span = node.message, node.span

    def fail(text: str) -> Exception:
        return Fault(FaultKind.ASSERTION, (text,), span=span, label="this does not hold").error()

    def with_text(after: int) -> Callable[..., int]:
        def check(env: Environment, holds: bool) -> int:
            if not holds:
                raise fail(message.value if isinstance(message, StringImm) else "")
            return after

        return check

    def with_number(after: int) -> Callable[..., int]:
        def check(env: Environment, text: int) -> int:
            raise fail(str(text))

        return check

    if isinstance(message, StringImm):
        w.add((w.expr(node.condition),), with_text)
        w.then(node.body)
        return
    failed, end = _Label(), _Label()
    w.branch(w.expr(node.condition), failed)
    number = w.expr(message)
    w.then(
        node.body,
        lambda: w.jump(end),
        w.place(failed),
        lambda: w.add((number,), with_number),
        w.place(end),
    )


def _store(node: BufferStore, w: _Writer) -> None:
    view_in, span = find_view(node.buffer, w.scope, node.span), node.span
    operands = [w.expr(node.value), *w.exprs(node.indices)]
    if node.indices and node.indices[-1].dtype.is_vector:
        w.add(operands, lambda after: _store_lanes(view_in, span, after))
        return
    encode = encoder(node.buffer.dtype)

    def any_rank(after: int) -> Callable[..., int]:
        def store(env: Environment, value: Value, *indices: int) -> int:
            view_in(env).write(indices, value, span)
            return after

        return store

    def one_axis(after: int) -> Callable[..., int]:
        def store(env: Environment, value: Value, index: int) -> int:
            view = view_in(env)
            if view.direct:
                low, high, stride, _ = view.axes[0]
                if low <= index < high:
                    at = view.start + index * stride
                    view.cells[at] = value if encode is None else encode(value)
                    return after
            view.write((index,), value, span)
            return after

        return store

    plain = len(node.indices) == 1 and not node.buffer.dtype.is_vector
    w.add(operands, one_axis if plain else any_rank)


def _store_lanes(
    view_in: Callable[[Environment], View], span: Span | None, after: int
) -> Callable[..., int]:
    def store(env: Environment, value: Value, *indices: Any) -> int:
        view = view_in(env)
        width = view.dtype.lanes
        for lane, last in enumerate(indices[-1]):
            part = value[lane * width : (lane + 1) * width] if width > 1 else value[lane]
            view.write((*indices[:-1], last), part, span)
        return after

    return store


# -- loops -------------------------------------------------------------------------------------
_UNORDERED: Final = (ForKind.PARALLEL, ForKind.VECTORIZED, ForKind.THREAD_BINDING)


def _for(node: For, w: _Writer) -> None:
    bounds = w.exprs((node.min, node.extent))
    _loop(node.loop_var, bounds, node.kind in _UNORDERED, node.body, node.span, w)


def _loop(
    var: Var, bounds: list[Code], unordered: bool, body: Stmt, span: Span | None, w: _Writer
) -> None:
    """Write a loop over ``[min, min + extent)``."""
    slot, end = w.scope.bind(var), w.scope.fresh()
    leave, again, done = _Label(), _Label(), _Label()
    trackers = w.scope.trackers if unordered else None

    def start(after: int) -> Callable[..., int]:
        def begin(env: Environment, least: int, extent: int) -> int:
            if extent <= 0:
                return done.number
            if least + extent - 1 > var.dtype.max_value or extent >= 1 << 63:
                raise loop_fault(var, span).error((least, extent, 0))
            env[slot] = least
            env[end] = least + extent
            if trackers is not None:
                trackers.append(Tracker(span))
            return after

        return begin

    def advance(after: int) -> Callable[..., int]:
        first = begun[0]

        def following(env: Environment) -> int:
            index = env[slot] + 1
            if index >= env[end]:
                return after
            env[slot] = index
            if trackers is not None:
                trackers[-1].iteration = index
            return first

        return following

    def close(after: int) -> Callable[..., int]:
        def stop(env: Environment) -> int:
            if trackers is not None:
                trackers.pop()
            return after

        return stop

    begun: list[int] = []
    top = _Label()
    w.add(bounds, start)
    w.loops.append((leave, again))
    w.then(
        w.place(top),
        body,
        w.place(again),
        lambda: begun.append(top.number),
        lambda: w.add((), advance),
        w.place(leave),
        lambda: w.add((), close) if trackers is not None else None,
        w.place(done),
        w.loops.pop,
        w.unbind(var),
    )


def loop_fault(var: Var, span: Span | None) -> Fault:
    """Describe a loop that its variable cannot count; values: the bounds."""
    return Fault(
        FaultKind.BAD_SIZE,
        (f"{var.name_hint} cannot count from ", 0, " over ", 1, f" iterations: it is {var.dtype}"),
        span=span,
        help="use a wider loop variable, such as T.int64",
        code="RUN0208",
    )


def _while(node: While, w: _Writer) -> None:
    top, leave = _Label(), _Label()
    w.place(top)()
    w.branch(w.expr(node.condition), leave)
    w.loops.append((leave, top))
    w.then(node.body, lambda: w.jump(top), w.place(leave), w.loops.pop)


def _attr(node: AttrStmt, w: _Writer) -> None:
    if node.attr_key not in ("thread_extent", "virtual_thread"):
        w.then(node.body)
        return
    var = node.node.var if isinstance(node.node, IterVar) else node.node
    if not isinstance(var, Var):
        refuse(
            f"the node of attribute {node.attr_key!r} is no variable",
            "give the variable that counts the threads",
            node.span,
        )
    zero = compile_expr(IntImm(0, var.dtype), w.scope)
    _loop(var, [zero, w.expr(node.value)], True, node.body, node.span, w)


# -- memory ------------------------------------------------------------------------------------
def _fresh(
    buffer: Buffer, shape: Sequence[int], strides: Sequence[int], offset: int, scope: Scope
) -> View:
    """Allocate what a buffer needs."""
    size: Sequence[int] = shape
    if strides or offset:
        steps = strides or row_major(shape)
        reach = sum((e - 1) * s for e, s in zip(shape, steps)) + 1 if all(shape) else 0
        size = (offset + reach,)
    memory = allocate(buffer.dtype, size, buffer.name, buffer.span, scope.trackers is not None)
    pointer = Pointer(memory, 0)
    return view_at(pointer, buffer.dtype, shape, strides, offset, buffer.name, scope.trackers)


def _numbers(buffer: Buffer, w: _Writer) -> list[Code]:
    """Compile a buffer's shape, strides and offset, in this order."""
    offset = [] if buffer.elem_offset is None else [buffer.elem_offset]
    return w.exprs([*buffer.shape, *buffer.strides, *offset])


def _split(buffer: Buffer, values: Sequence[int]) -> tuple[Sequence[int], Sequence[int], int]:
    rank, last = len(buffer.shape), len(buffer.shape) + len(buffer.strides)
    return values[:rank], values[rank:last], values[last] if len(values) > last else 0


def _allocate_buffer(buffer: Buffer, w: _Writer) -> None:
    """Add the allocation of a buffer of a block."""
    scope = w.scope
    operands = _numbers(buffer, w)
    data, slot = scope.bind(buffer.data), scope.bind(buffer)

    def maker(after: int) -> Callable[..., int]:
        def make(env: Environment, *values: int) -> int:
            env[slot] = view = _fresh(buffer, *_split(buffer, values), scope)
            env[data] = Pointer(view.memory, 0)
            return after

        return make

    w.add(operands, maker)


def _allocate(node: Allocate, w: _Writer) -> None:
    end, scope, span = _Label(), w.scope, node.span
    w.branch(w.expr(node.condition), end)
    operands = w.exprs(node.extents)
    slot = scope.bind(node.buffer_var)
    name, dtype = node.buffer_var.name_hint, node.dtype

    def maker(after: int) -> Callable[..., int]:
        def make(env: Environment, *extents: int) -> int:
            memory = allocate(dtype, extents, name, span, scope.trackers is not None)
            env[slot] = Pointer(memory, 0)
            return after

        return make

    w.add(operands, maker)
    w.then(node.body, w.place(end), w.unbind(node.buffer_var))


def _declare(node: DeclBuffer, w: _Writer) -> None:
    buffer, scope = node.buffer, w.scope
    operands = _numbers(buffer, w)
    pointer = scope.slot(buffer.data, node.span)
    slot = scope.bind(buffer)

    def maker(after: int) -> Callable[..., int]:
        def make(env: Environment, *values: int) -> int:
            shape, strides, offset = _split(buffer, values)
            env[slot] = view_at(
                env[pointer], buffer.dtype, shape, strides, offset, buffer.name, scope.trackers
            )
            return after

        return make

    w.add(operands, maker)
    w.then(node.body, w.unbind(buffer))


def _realize_buffer(node: BufferRealize, w: _Writer) -> None:
    buffer = node.buffer
    fresh: list[Var] = []

    def bind(part: PrimExpr | None, value: Callable[[], Code]) -> None:
        if isinstance(part, Var) and not w.scope.knows(part):
            code = value()
            w.set(w.scope.bind(part), code)
            fresh.append(part)

    for extent, bound in zip(buffer.shape, node.bounds):
        wanted = bound.extent or IntImm(1, extent.dtype)
        bind(extent, lambda e=wanted: w.expr(e))
    for axis, stride in enumerate(buffer.strides):
        inner = w.exprs(buffer.shape[axis + 1 :])
        bind(stride, lambda rest=inner: _product(rest))
    bind(buffer.elem_offset, lambda: Code(lambda env: 0))
    _allocate_buffer(buffer, w)
    w.then(node.body, w.unbind(buffer), w.unbind(buffer.data), *[w.unbind(v) for v in fresh])


def _product(factors: list[Code]) -> Code:
    def multiply(env: Environment) -> int:
        total = 1
        for factor in factors:
            total *= factor.run(env)
        return total

    return Code(multiply)


# -- blocks ------------------------------------------------------------------------------------
def _realize_block(node: BlockRealize, w: _Writer) -> None:
    block, end = node.block, _Label()
    w.branch(w.expr(node.predicate), end)
    values = w.exprs(node.values)
    for it, value in zip(block.iter_vars, values):
        w.set(w.scope.bind(it.var), value)
    w.then(block, w.place(end), *[w.unbind(it.var) for it in block.iter_vars])


def _block(node: Block, w: _Writer) -> None:
    bound: list[Var | Buffer] = []
    for buffer in node.alloc_buffers:
        _allocate_buffer(buffer, w)
        bound += [buffer, buffer.data]
    for match in node.match_buffers:
        bound += _match(match, w)
    tasks: list[Task] = [node.body, *[w.unbind(name) for name in bound]]
    if node.init is not None:
        skip = _Label()
        reduced = [it for it in node.iter_vars if it.iter_type is IterVarType.COMM_REDUCE]
        w.add(*_at_start(reduced, skip, w))
        tasks[:0] = [node.init, w.place(skip)]
    w.then(*tasks)


def _at_start(reduced: list[IterVar], skip: _Label, w: _Writer) -> tuple[list[Code], Maker]:
    """Go on where every reducing iterator stands at the start of its domain, else skip."""
    slots: list[int] = []
    starts: list[Code] = []
    for it in reduced:
        if it.dom is not None:
            slots.append(w.scope.slot(it.var))
            starts.append(w.expr(it.dom.min))

    def maker(after: int) -> Callable[..., int]:
        def test(env: Environment, *least: int) -> int:
            for slot, start in zip(slots, least):
                if env[slot] != start:
                    return skip.number
            return after

        return test

    return starts, maker


def _match(node: MatchBufferRegion, w: _Writer) -> list[Var | Buffer]:
    """Make a buffer another name for a region; gives the names that this binds."""
    buffer, region = node.buffer, node.source.region
    source = find_view(node.source.buffer, w.scope, node.span)
    dtype = DataType("int64")
    mins = w.exprs([r.min for r in region])
    extents = w.exprs([r.extent or IntImm(1, dtype) for r in region])
    data, slot = w.scope.bind(buffer.data), w.scope.bind(buffer)
    rank, span = len(buffer.shape), node.span

    def maker(after: int) -> Callable[..., int]:
        def make(env: Environment, *values: int) -> int:
            count = len(region)
            lengths = values[count:]
            if any(e != 1 for e in lengths[: count - rank]):
                raise match_error(buffer, "leaves out an axis whose extent is not 1", span)
            env[slot] = view = region_of(source(env), values[:count], lengths, rank, buffer.name)
            env[data] = view.pointer
            return after

        return make

    w.add([*mins, *extents], maker)
    bound: list[Var | Buffer] = [buffer, buffer.data]
    facts: list[tuple[PrimExpr, Callable[[View], int], str]] = []
    for axis, extent in enumerate(buffer.shape):
        facts.append((extent, lambda v, a=axis: v.axes[a].extent, f"the extent of axis {axis}"))
    for axis, stride in enumerate(buffer.strides):
        facts.append((stride, lambda v, a=axis: v.axes[a].stride, f"the stride of axis {axis}"))
    if buffer.elem_offset is not None and not isinstance(buffer.elem_offset, IntImm):
        facts.append((buffer.elem_offset, lambda v: v.start // v.dtype.lanes, "the offset"))
    # Names first, then what mentions them.
    for value, actual, _ in facts:
        if isinstance(value, Var) and not w.scope.knows(value):
            view = Code(lambda env, a=actual: a(env[slot]))
            w.set(w.scope.bind(value), view)
            bound.append(value)
    for value, actual, what in facts:
        w.add((w.expr(value),), _agreement(buffer, slot, actual, what, span))
    return bound


def _agreement(
    buffer: Buffer, slot: int, actual: Callable[[View], int], what: str, span: Span | None
) -> Maker:
    def maker(after: int) -> Callable[..., int]:
        def check(env: Environment, wanted: int) -> int:
            found = actual(env[slot])
            if found != wanted:
                raise match_error(buffer, f"says {what} is {wanted}, the region's is {found}", span)
            return after

        return check

    return maker


def match_error(buffer: Buffer, what: str, span: Span | None) -> RunValueError:
    """Make the error for a region that its new name does not describe."""
    return RunValueError(
        Diagnostic(
            "RUN0094",
            f"match_buffer: {buffer.name} {what}",
            span=span,
            help="declare the buffer with the shape of the region",
        )
    )


_WRITERS: Final[dict[type, Callable[[Any, _Writer], None]]] = {
    SeqStmt: _seq,
    LetStmt: _let,
    Evaluate: _evaluate,
    IfThenElse: _if,
    AssertStmt: _assert,
    BufferStore: _store,
    For: _for,
    While: _while,
    AttrStmt: _attr,
    Allocate: _allocate,
    DeclBuffer: _declare,
    BufferRealize: _realize_buffer,
    BlockRealize: _realize_block,
    Block: _block,
}
