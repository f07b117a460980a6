"""Lower tensors to a PrimFunc: each operation becomes loops around a block."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NoReturn, cast

from loomir.ir.substitution import substitute
from loomir.ir.visit import rewrite
from loomir.support.argument_errors import with_remedy
from loomir.support.caller_span import read_call, user_span
from loomir.support.dtype import BOOL, HANDLE, DataType
from loomir.te.operation import (
    ComputeOp,
    ExternOp,
    Operation,
    PlaceholderOp,
    PrimFuncOp,
    ScanOp,
)
from loomir.te.prefetch import Prefetch
from loomir.te.reduction import Reduce, ReduceAxis
from loomir.te.tensor import Tensor, TensorLoad
from loomir.tir.analysis.access_regions import infer_access_regions
from loomir.tir.analysis.copy_statement import fresh_copy
from loomir.tir.buffer import (
    Buffer,
    BufferLoad,
    BufferRegion,
    IterVar,
    IterVarType,
    Range,
    decl_buffer,
    extent_between,
)
from loomir.tir.expr import IntImm, Min, Or, PrimExpr, Var, match_dtypes
from loomir.tir.function import PrimFunc
from loomir.tir.rules import refuse
from loomir.tir.stmt import (
    TRUE,
    Block,
    BlockRealize,
    BufferStore,
    Evaluate,
    For,
    ForKind,
    IfThenElse,
    LetStmt,
    Stmt,
    seq,
)
from loomir.tir.types import VOID_TYPE

__all__ = ["create_prim_func"]


def _as_list(args: Sequence[Any], kwargs: Mapping[str, Any]) -> str | None:
    """Write a call with its tensors in a list, and the name by its name."""
    called = read_call(user_span())
    if called is None or kwargs or not args:
        return None
    if isinstance(args[-1], str):
        tensors, _, name = called.arguments.rpartition(", ")
        return f"write te.create_prim_func({tensors}, name={name})"
    if all(isinstance(arg, (Tensor, Var)) for arg in args):
        return f"write te.create_prim_func([{called.arguments}])"
    return None


@with_remedy(_as_list)
def create_prim_func(args: Sequence[Tensor | Var], *, name: str = "main") -> PrimFunc:
    """Make a function whose parameters are ``args``: tensors, given or computed, and scalars.

    What lies between is allocated inside. Outputs are written in place, as all arrays of TIR.
    Errors: TE0010 for a placeholder that is needed but not among ``args``, or something else among
    them, or twice.
    """
    return _Maker(args, name).make()


class _Maker:
    def __init__(self, args: Sequence[Tensor | Var], name: str) -> None:
        self.args, self.name = args, name
        self.span = user_span()
        self.buffers: dict[Tensor, Buffer] = {}
        self.allocated: list[Buffer] = []
        self.names: set[str] = set()

    def make(self) -> PrimFunc:
        if isinstance(cast("object", self.args), Tensor):
            self._refuse("a tensor is no list of tensors", "write te.create_prim_func([A, B])")
        params: list[Var] = []
        buffer_map: dict[Var, Buffer] = {}
        for arg in self.args:
            if any(arg is other for other in (*self.buffers, *params)):
                self._refuse(f"{_describe(arg)} is given twice", "name each argument once")
            if isinstance(arg, Tensor):
                buffer = self._declare(arg)
                handle = Var(f"{buffer.name}_handle", HANDLE, span=arg.span)
                params.append(handle)
                buffer_map[handle] = buffer
            elif isinstance(arg, Var):  # pyright: ignore[reportUnnecessaryIsInstance]
                params.append(arg)
            else:
                self._refuse(
                    f"{_describe(arg)} cannot be an argument",
                    "give tensors, and variables of te.var",
                )
        order = _sort_operations([a.op for a in self.args if isinstance(a, Tensor)])
        body = seq([s for op in order for s in self._operation(op)])
        root = Block((), (), (), "root", body, None, tuple(self.allocated))
        func = BlockRealize((), TRUE, root)
        return PrimFunc(
            tuple(params), func, VOID_TYPE, buffer_map, {"global_symbol": self.name}, span=self.span
        )

    def _refuse(self, message: str, help: str) -> NoReturn:
        refuse("TE0010", message, help=help, span=self.span)

    def _declare(self, tensor: Tensor) -> Buffer:
        name, count = tensor.name, 0
        while name in self.names:
            count += 1
            name = f"{tensor.name}_{count}"
        self.names.add(name)
        made = decl_buffer(tensor.shape, tensor.dtype, name, span=tensor.span)
        self.buffers[tensor] = made
        return made

    def _buffer(self, tensor: Tensor) -> Buffer:
        """Return the buffer of a tensor; one that is not an argument is allocated."""
        found = self.buffers.get(tensor)
        if found is None:
            found = self._declare(tensor)
            self.allocated.append(found)
        return found

    # -- operations ------------------------------------------------------------------------------
    def _operation(self, op: Operation) -> list[Stmt]:
        if isinstance(op, PlaceholderOp):
            tensor = op.outputs[0]
            if tensor not in self.buffers:
                refuse(
                    "TE0010",
                    f"placeholder {tensor.name!r} is needed but not among the arguments",
                    help="add it to the arguments of create_prim_func",
                    span=op.span or self.span,
                )
            return []
        if isinstance(op, ComputeOp):
            return [self._compute(op, [self._buffer(t) for t in op.outputs], {})]
        if isinstance(op, ExternOp):
            return [self._extern(op)]
        if isinstance(op, PrimFuncOp):
            return [self._function(op)]
        assert isinstance(op, ScanOp)
        return self._scan(op)

    def _expr(self, expr: PrimExpr | None) -> PrimExpr:
        """Read from buffers what the expression reads from tensors."""
        assert expr is not None

        def element(load: TensorLoad) -> PrimExpr:
            return BufferLoad(self._buffer(load.tensor), load.indices, span=load.span)

        made: PrimExpr = rewrite(expr, {TensorLoad: element})
        return made

    def _compute(
        self,
        op: ComputeOp,
        outputs: list[Buffer],
        fixed: Mapping[Var, Var],
        shape: tuple[PrimExpr, ...] | None = None,
    ) -> Stmt:
        """Emit a compute; ``fixed`` are axes that loops around run over already.

        ``shape``: how much of the outputs is computed, all where it is left out.
        """
        init, body = self._body(op, outputs, op.axis)
        extents = shape or outputs[0].shape
        if init is None:
            return self._nest(op, op.name, extents, fixed, (), None, body)
        # A block starts its outputs at the first step of a reduction; without steps nothing would.
        full = self._nest(op, op.name, extents, fixed, op.reduce_axis, init, body)
        none = _is_empty([self._expr(axis.dom.extent) for axis in op.reduce_axis])
        if isinstance(none, IntImm) and not none.value:
            return full
        start = self._nest(op, f"{op.name}_empty", extents, fixed, (), None, fresh_copy(init, {}))
        return start if isinstance(none, IntImm) else seq([IfThenElse(none, start), full])

    def _nest(
        self,
        op: ComputeOp,
        name: str,
        extents: tuple[PrimExpr, ...],
        fixed: Mapping[Var, Var],
        reduced: tuple[ReduceAxis, ...],
        init: Stmt | None,
        body: Stmt,
    ) -> Stmt:
        """Put loops over the axes around a block of ``body``."""
        loops: list[tuple[Var, PrimExpr, PrimExpr]] = []
        iters: list[IterVar] = []
        values: list[PrimExpr] = []
        names: dict[Any, PrimExpr] = {}

        def add(var: Var, least: PrimExpr, extent: PrimExpr, kind: IterVarType) -> None:
            block_var = Var(f"v_{var.name_hint}", var.dtype, span=var.span)
            iters.append(IterVar(Range(least, extent), block_var, kind, span=var.span))
            names[var] = block_var
            outer = fixed.get(var)
            if outer is None:
                outer = Var(var.name_hint, var.dtype, span=var.span)
                loops.append((outer, least, extent))
            values.append(outer)

        for var, extent in zip(op.axis, extents, strict=True):
            kind = IterVarType.ORDERED if var in fixed else IterVarType.DATA_PAR
            add(var, IntImm(0, var.dtype), extent, kind)
        for axis in reduced:
            extent = self._expr(axis.dom.extent)
            add(axis, self._expr(axis.dom.min), extent, IterVarType.COMM_REDUCE)
        made = substitute(body, names)
        first = None if init is None else substitute(init, names)
        reads, writes = infer_access_regions(made, first)
        block = Block(tuple(iters), reads, writes, name, made, first, annotations=dict(op.attrs))
        stmt: Stmt = BlockRealize(tuple(values), TRUE, block, span=op.span)
        for var, least, extent in reversed(loops):
            stmt = For(var, least, extent, ForKind.SERIAL, stmt)
        return stmt

    def _body(
        self, op: ComputeOp, outputs: list[Buffer], at: tuple[Var, ...]
    ) -> tuple[Stmt | None, Stmt]:
        first = op.body[0]
        if not isinstance(first, Reduce):
            stores = [
                BufferStore(b, self._expr(e), at, span=op.span)
                for b, e in zip(outputs, op.body, strict=True)
            ]
            return None, seq(stores)
        combiner = first.combiner
        start = first.init or combiner.identity
        init = seq(
            [
                BufferStore(b, self._expr(v), at, span=op.span)
                for b, v in zip(outputs, start, strict=True)
            ]
        )
        table: dict[Any, PrimExpr] = {}
        for buffer, lhs in zip(outputs, combiner.lhs, strict=True):
            table[lhs] = BufferLoad(buffer, at, span=op.span)
        for rhs, value in zip(combiner.rhs, first.source, strict=True):
            table[rhs] = self._expr(value)
        results = [substitute(r, table) for r in combiner.result]
        # What is stored first must not change what is stored next.
        temporaries = [Var(f"v_{b.name}", b.dtype) for b in outputs] if len(outputs) > 1 else []
        stored: Sequence[PrimExpr] = temporaries or results
        body = seq(
            [BufferStore(b, v, at, span=op.span) for b, v in zip(outputs, stored, strict=True)]
        )
        for var, value in reversed(list(zip(temporaries, results, strict=False))):
            body = LetStmt(var, value, body)
        condition = self._expr(first.condition)
        if not (isinstance(condition, IntImm) and condition.value):
            body = IfThenElse(condition, body)
        return init, body

    def _extern(self, op: ExternOp) -> Stmt:
        outer = [self._buffer(t) for t in op.sources]
        outer += [self._buffer(t) for t in op.outputs]
        inner = (*op.input_buffers, *op.output_buffers)
        table = _map_buffers(inner, outer)
        for mine, theirs in zip(inner, outer, strict=True):
            for size, extent in zip(mine.shape, theirs.shape, strict=True):
                if isinstance(size, Var) and size is not extent:
                    table.setdefault(size, extent)
        body = fresh_copy(rewrite(op.body, {Prefetch: _drop_prefetch}), table)
        reads = tuple(_cover_buffer(self._buffer(t)) for t in op.sources)
        writes = tuple(_cover_buffer(self._buffer(t)) for t in op.outputs)
        block = Block((), reads, writes, op.name, body, annotations=dict(op.attrs))
        return BlockRealize((), TRUE, block, span=op.span)

    def _function(self, op: PrimFuncOp) -> Stmt:
        outer = [self._buffer(t) for t in op.sources]
        outer += [self._buffer(t) for t in op.outputs]
        inner = (*op.input_buffers, *op.output_buffers)
        table = {**_map_buffers(inner, outer), **op.sizes}
        body = fresh_copy(op.func.body, table)
        if isinstance(body, BlockRealize) and _is_root(body.block):
            # A function has one root block; what this one allocates, the outer one does.
            self.allocated += body.block.alloc_buffers
            return body.block.body
        return body

    def _scan(self, op: ScanOp) -> list[Stmt]:
        """Emit the first steps, then a loop over the others with all that depends on states."""
        statements: list[Stmt] = []
        inner = _list_between(op)
        steps, total = match_dtypes(op.init[0].shape[0], op.outputs[0].shape[0])
        if not isinstance(steps, IntImm) or not isinstance(total, IntImm):
            steps = Min(steps, total)
        for out, state in zip(op.outputs, op.state, strict=True):
            self.buffers[state] = self._buffer(out)
        for first, out in zip(op.init, op.outputs, strict=True):
            statements.append(self._copy(first, self._buffer(out), op, steps))
        time = Var(op.name, total.dtype, span=op.span)
        body: list[Stmt] = []
        for part in inner:
            states = [op.outputs[op.update.index(t)] if t in op.update else t for t in part.outputs]
            outputs = [self._buffer(t) for t in states]
            body.append(self._compute(part, outputs, {part.axis[0]: time}))
        extent = extent_between(steps, total)
        statements.append(For(time, steps, extent, ForKind.SERIAL, seq(body)))
        return statements

    def _copy(self, source: Tensor, target: Buffer, op: ScanOp, steps: PrimExpr) -> Stmt:
        shape = (steps, *source.shape[1:])
        axis = tuple(Var(f"i{k}", e.dtype) for k, e in enumerate(shape))
        load = TensorLoad(source, axis)
        copy = ComputeOp(name=f"{op.name}_init", span=op.span, axis=axis, body=(load,))
        return self._compute(copy, [target], {}, shape)


def _is_empty(extents: list[PrimExpr]) -> PrimExpr:
    """Tell whether loops over the extents run not at all, as a constant where constants decide."""
    unknown = [e for e in extents if not isinstance(e, IntImm)]
    empty = any(isinstance(e, IntImm) and e.value <= 0 for e in extents)
    if empty or not unknown:
        return IntImm(int(empty), BOOL)
    made = unknown[0] <= 0
    for extent in unknown[1:]:
        made = Or(made, extent <= 0)
    return made


def _is_root(block: Block) -> bool:
    plain = not block.iter_vars and not block.match_buffers and block.init is None
    return plain and block.name_hint == "root"


def _drop_prefetch(_hint: Prefetch) -> Stmt:
    return Evaluate(IntImm(0, DataType("int32")))


def _describe(arg: object) -> str:
    name = getattr(arg, "name", None) or getattr(arg, "name_hint", None)
    return repr(name) if isinstance(name, str) else f"a {type(arg).__name__}"


def _cover_buffer(buffer: Buffer) -> BufferRegion:
    return buffer.whole()


def _map_buffers(inner: Sequence[Buffer], outer: Sequence[Buffer]) -> dict[Any, Any]:
    table: dict[Any, Any] = {}
    for mine, theirs in zip(inner, outer, strict=True):
        table[mine] = theirs
        table[mine.data] = theirs.data
    return table


def _sort_operations(outputs: Sequence[Operation]) -> list[Operation]:
    """List operations, each after those that it reads."""
    done: dict[Operation, None] = {}
    stack: list[tuple[Operation, bool]] = [(op, False) for op in reversed(outputs)]
    while stack:
        op, ready = stack.pop()
        if op in done:
            continue
        if ready:
            done[op] = None
            continue
        stack.append((op, True))
        stack += [(t.op, False) for t in reversed(_needs(op)) if t.op not in done]
    return list(done)


def _needs(op: Operation) -> tuple[Tensor, ...]:
    if not isinstance(op, ScanOp):
        return op.inputs()
    # What an update reads besides states is computed before the scan.
    inside = {t for part in _list_between(op) for t in part.outputs} | set(op.state)
    outside = [t for part in _list_between(op) for t in part.inputs() if t not in inside]
    return (*op.inputs(), *outside)


def _list_between(op: ScanOp) -> list[ComputeOp]:
    """List the computes from the states to the updates, each after those that it reads."""
    found: dict[Operation, bool] = {s.op: True for s in op.state}
    order: list[ComputeOp] = []
    stack: list[tuple[Operation, bool]] = [(t.op, False) for t in reversed(op.update)]
    updates = {t.op for t in op.update}
    while stack:
        part, ready = stack.pop()
        if part in found:
            continue
        if not ready:
            stack.append((part, True))
            stack += [(t.op, False) for t in part.inputs() if t.op not in found]
            continue
        depends = part in updates or any(found.get(t.op, False) for t in part.inputs())
        found[part] = depends
        if depends:
            if not isinstance(part, ComputeOp) or not part.axis:
                refuse(
                    "TE0009",
                    f"{part.name!r} depends on a state of {op.name!r} but is no compute over steps",
                    help="make it by te.compute, with the steps as its first axis",
                    span=part.span or op.span,
                )
            order.append(part)
    return order
