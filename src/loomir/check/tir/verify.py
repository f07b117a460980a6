"""Verify whole functions and modules: rules that no constructor can check.

Constructors check a node and its operands. Here: names are in scope and bound once, functions
return what they declare, jumps have targets, calls fit the called functions, blocks keep their
promises about order (``init_order``), and views have valid extents. All mistakes are reported.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from loomir.check.tir.affine import Affine
from loomir.check.tir.init_order import check_init_order
from loomir.check.tir.internal_nodes import mistake_of_foreign
from loomir.check.tir.out_of_range import check_ranges
from loomir.check.tir.verify_expressions import (
    LEVELS,
    ExpressionWalk,
    Loops,
    list_numbers,
)
from loomir.check.tir.verify_fast_path import is_plain
from loomir.ir.equality import structural_equal
from loomir.ir.module import BaseFunc, IRModule
from loomir.ir.node import Node
from loomir.ir.visit import children, pre_order
from loomir.support.diagnostics import Diagnostic
from loomir.tir.analysis.control_flow import can_leave
from loomir.tir.analysis.cross_thread import GRID, VIRTUAL, help_thread
from loomir.tir.buffer import (
    Buffer,
    IterVar,
    IterVarType,
    MatchBufferRegion,
    Range,
)
from loomir.tir.expr import (
    IntImm,
    PrimExpr,
    Var,
)
from loomir.tir.function import PrimFunc
from loomir.tir.signature import find_passed_vectors
from loomir.tir.stmt import (
    Allocate,
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

__all__ = ["verify", "verify_function"]

_CONCURRENT: Final = {
    ForKind.PARALLEL: "parallel",
    ForKind.VECTORIZED: "vectorized",
    ForKind.THREAD_BINDING: "thread",
}
_SCOPES: Final = frozenset({"TIR0401", "TIR0402", "TIR0420"})
_AXES: Final = frozenset(
    {IterVarType.DATA_PAR, IterVarType.COMM_REDUCE, IterVarType.ORDERED, IterVarType.OPAQUE}
)


def verify(program: PrimFunc | IRModule, *, ranges: bool = True) -> tuple[Diagnostic, ...]:
    """List every mistake of a function or a module, in program order; empty if it is well-formed.

    A function outside of any module may only call itself. ``ranges``: look for accesses out of
    range, too, which takes most of the time.
    Errors: TIR0401 to TIR0424, TIR0430.
    """
    if isinstance(program, PrimFunc):
        return tuple(_function(program, {program.name: program}, ranges))
    functions = {var.name_hint: func for var, func in program.functions.items()}
    kernels = [func for func in functions.values() if isinstance(func, PrimFunc)]
    return tuple(d for func in kernels for d in _function(func, functions, ranges))


def verify_function(func: PrimFunc, mod: IRModule) -> list[Diagnostic]:
    """List the mistakes of one function of a module, except accesses out of range."""
    return _function(func, {var.name_hint: other for var, other in mod.functions.items()}, False)


def _function(func: PrimFunc, functions: Mapping[str, BaseFunc], ranges: bool) -> list[Diagnostic]:
    walk = _Walk(func, functions)
    outside = find_passed_vectors(func) if "global_symbol" in func.attrs else ()
    found = [*outside, *walk.run()]
    # The proof looks names up, so it needs a program in which they are right.
    if walk.has_blocks and not any(d.code in _SCOPES for d in found):
        found += check_init_order(func)
    if ranges and not found:
        found += check_ranges(func)
    return found


_OUTSIDE: Final = Loops("", "", False)
_SERIAL: Final = Loops("serial", "", False)


class _Walk(ExpressionWalk):
    """One walk over a function: its statements, and the names that they bind."""

    def run(self) -> list[Diagnostic]:
        """Walk the function, and return its mistakes."""
        for param in self.func.params:
            self._bind(param)
        for buffer in self.func.buffer_map.values():
            self._bind_fresh(buffer)
            self._bind_buffer(buffer)
        stack, live = self.stack, self.live
        stack.append((self.func.body, _OUTSIDE))
        while stack:
            task = stack.pop()
            if isinstance(task, list):
                live.difference_update(task)
                continue
            node, loops = task
            self.span = getattr(node, "span", None) or self.span
            if node.__class__ is BufferStore and not self.placed and is_plain([node], live):
                continue
            check = _STATEMENTS.get(node.__class__)
            if check is None:
                self._check_other(node, loops)
            else:
                check(self, node, loops)
        self._end()
        return self.found

    # -- statements ------------------------------------------------------------------------------
    def _check_other(self, node: Any, loops: Loops) -> None:
        if node.lowered_by:
            self.found.append(mistake_of_foreign(node, self.span))
        else:
            parts = children(node)
            self._expressions(tuple(p for p in parts if not isinstance(p, Stmt)), loops)
            bodies = [part for part in parts if isinstance(part, Stmt)]
            self.stack.extend((body, loops) for body in reversed(bodies))

    def _seq(self, node: SeqStmt, loops: Loops) -> None:
        self.stack += [(part, loops) for part in reversed(node.seq)]

    def _store(self, node: BufferStore, loops: Loops) -> None:
        self._element(node)
        self._expression(node.value, loops, LEVELS)
        for index in node.indices:
            self._expression(index, loops, LEVELS)

    def _evaluate(self, node: Evaluate, loops: Loops) -> None:
        if self.placed or not is_plain([node.value], self.live):
            self._expression(node.value, loops, LEVELS)

    def _if(self, node: IfThenElse, loops: Loops) -> None:
        self._expressions(node.condition, loops)
        cases = (node.then_case, node.else_case)
        self.stack.extend((c, loops) for c in reversed(cases) if c is not None)

    def _let(self, node: LetStmt, loops: Loops) -> None:
        self._expressions(node.value, loops)
        self._walk_in_scope(node.body, [node.var], loops)

    def _allocate(self, node: Allocate, loops: Loops) -> None:
        self._expressions((node.extents, node.condition, node.annotations), loops)
        self._walk_in_scope(node.body, [node.buffer_var], loops)

    def _decl_buffer(self, node: DeclBuffer, loops: Loops) -> None:
        self._use(node.buffer.data, node.span)
        self._expressions(list_numbers(node.buffer), loops)
        self._walk_in_scope(node.body, [node.buffer], loops)

    def _realize(self, node: BufferRealize, loops: Loops) -> None:
        names = self._bind_fresh(node.buffer) + self._bind_buffer(node.buffer)
        self._expressions((node.bounds, node.condition), loops)
        self.stack += (names, (node.body, loops))

    def _for(self, node: For, loops: Loops) -> None:
        for part in (node.min, node.extent):
            if part.__class__ is not IntImm:
                self._expression(part, loops, LEVELS)
        if node.annotations:
            self._expressions(node.annotations, loops)
        names: list[Node] = [node.loop_var]
        bound = node.thread_binding
        if (
            bound is None
            and node.kind is ForKind.SERIAL
            and (loops is _SERIAL or loops is _OUTSIDE)
            and node.loop_var not in self.bound
        ):
            # Most loops are like this, so this path makes as few calls as possible.
            self.bound.add(node.loop_var)
            self.live.add(node.loop_var)
            self.stack += (names, (node.body, _SERIAL))
            return
        if (bound is not None) != (node.kind is ForKind.THREAD_BINDING):
            self._report(
                "TIR0418",
                f"loop {node.loop_var.name_hint!r} is {node.kind.value} "
                f"{'without' if bound is None else 'with'} a thread",
                help="give thread loops a thread_binding, and only these",
            )
        if bound is not None and bound.var is not node.loop_var:
            names.append(bound.var)
        if node.kind is ForKind.SERIAL:
            inner = loops
            if loops.innermost != "serial":
                inner = loops._replace(innermost="serial")
        else:
            word = _CONCURRENT.get(node.kind)
            inner = Loops(
                word or "serial",
                word or loops.concurrent,
                loops.vectorized or node.kind is ForKind.VECTORIZED,
                loops.threads if bound is None else self._threads(bound, loops),
            )
        self._walk_in_scope(node.body, names, inner)

    def _threads(self, bound: IterVar, loops: Loops) -> tuple[str, ...]:
        """Return the threads that are bound in the body of a statement that binds another one."""
        tag = bound.thread_tag
        if tag not in GRID:
            if tag not in VIRTUAL:
                self._report("TIR0424", f"there is no thread {tag!r}", help=help_thread(tag))
            return loops.threads
        if tag in loops.threads:
            self._report(
                "TIR0422",
                f"{tag} is bound inside of a loop that binds it",
                help="a thread has one index: bind another, or make one of the loops serial",
            )
        return (*loops.threads, tag)

    def _while(self, node: While, loops: Loops) -> None:
        self._expressions(node.condition, loops)
        if loops.vectorized:
            self._report(
                "TIR0411",
                "a while loop is inside of a vectorized loop",
                help="make the outer loop serial",
            )
        if isinstance(node.condition, IntImm) and not (
            node.condition.value and can_leave(node.body)
        ):
            ends = "never ends" if node.condition.value else "never runs"
            self._report(
                "TIR0415",
                f"a while loop with a constant condition {ends}",
                help="leave it by break or return, or test something that changes",
            )
        self.stack.append((node.body, loops._replace(innermost="serial")))

    def _attr(self, node: AttrStmt, loops: Loops) -> None:
        self._expressions(node.value, loops)
        subject = node.node.var if isinstance(node.node, IterVar) else node.node
        if isinstance(subject, Node) and subject.lowered_by:
            self.found.append(mistake_of_foreign(subject, self.span))
        if node.is_binding and isinstance(subject, Var):
            threads = loops.threads
            if isinstance(node.node, IterVar):
                threads = self._threads(node.node, loops)
            self._walk_in_scope(
                node.body, [subject], Loops("thread", "thread", loops.vectorized, threads)
            )
        else:
            self.stack.append((node.body, loops))

    # -- blocks ----------------------------------------------------------------------------------
    def _block(self, node: BlockRealize, loops: Loops) -> None:
        block = node.block
        self.has_blocks = True
        self._expressions((node.values, node.predicate), loops)
        self.span = block.span or self.span
        names: list[Node] = []
        for it, value in zip(block.iter_vars, node.values, strict=True):
            self._iterator(block, it, value)
            self._expressions(it.dom, loops)
        for it in block.iter_vars:
            self._bind(it.var)
            names.append(it.var)
        for buffer in block.alloc_buffers:
            self._check_allocated(block, buffer)
            names += self._bind_buffer(buffer)
        for match in block.match_buffers:
            self._expressions(match.source, loops)
            names += self._bind_fresh(match.buffer)
            names += self._bind_buffer(match.buffer)
            self._match(match)
        self._expressions((block.reads, block.writes, block.annotations), loops)
        self.stack += (names, (block.body, loops))
        if block.init is not None:
            self.stack.append((block.init, loops))

    def _iterator(self, block: Block, it: IterVar, value: PrimExpr) -> None:
        name = it.var.name_hint
        if it.iter_type not in _AXES or it.dom is None or it.dom.extent is None:
            self._report(
                "TIR0416",
                f"iterator {name!r} of block {block.name_hint!r} has no domain, or is of kind "
                f"{it.iter_type.value}",
                help="give it a domain, and make it spatial, reduce, scan or opaque",
                span=it.span,
            )
        if value.dtype is not it.var.dtype:
            self._report(
                "TIR0417",
                f"iterator {name!r} of block {block.name_hint!r} is {it.var.dtype}, its value "
                f"{value.dtype}",
                help="cast the value, or give the domain the value's dtype",
                span=it.span,
            )

    def _check_allocated(self, block: Block, buffer: Buffer) -> None:
        for part in list_numbers(buffer):
            for name in pre_order(part):
                if isinstance(name, Var) and name not in self.live:
                    self.told.add(id(name))
                    self._report(
                        "TIR0404",
                        f"nothing binds {name.name_hint!r} in the shape, strides or offset of "
                        f"buffer {buffer.name!r}, which block {block.name_hint!r} allocates",
                        help="allocate with extents that are known where the block starts",
                        span=buffer.span,
                    )

    def _match(self, match: MatchBufferRegion) -> None:
        buffer, region = match.buffer, match.source.region
        offset = len(region) - len(buffer.shape)
        for axis, part in enumerate(region):
            extent = _extent(part)
            if axis < offset:
                if not _is_equal(extent, IntImm(1, extent.dtype)):
                    self._report(
                        "TIR0412",
                        f"axis {axis} of the region that {buffer.name!r} matches is not known to "
                        "have extent 1, but the buffer lacks it",
                        help="match one index there, or give the buffer that axis",
                        span=match.span or match.source.span,
                    )
                continue
            wanted = buffer.shape[axis - offset]
            if not isinstance(wanted, Var) and not _is_equal(wanted, extent):
                self._report(
                    "TIR0412",
                    f"axis {axis - offset} of {buffer.name!r} is not known to have the extent of "
                    "the region that it matches",
                    label=f"{wanted} here, {extent} in the region",
                    help="give the buffer the region's extents",
                    span=match.span or match.source.span,
                )

    def _bind_buffer(self, buffer: Buffer) -> list[Node]:
        """Bind a buffer and its memory, and return both."""
        if buffer in self.bound:
            self._bind(buffer)
            self.live.add(buffer.data)
        else:
            self._bind(buffer.data)
            self._bind(buffer)
        return [buffer.data, buffer]


_STATEMENTS: Final[dict[type, Callable[[_Walk, Any, Loops], None]]] = {
    SeqStmt: _Walk._seq,  # pyright: ignore[reportPrivateUsage]
    For: _Walk._for,  # pyright: ignore[reportPrivateUsage]
    While: _Walk._while,  # pyright: ignore[reportPrivateUsage]
    IfThenElse: _Walk._if,  # pyright: ignore[reportPrivateUsage]
    LetStmt: _Walk._let,  # pyright: ignore[reportPrivateUsage]
    AttrStmt: _Walk._attr,  # pyright: ignore[reportPrivateUsage]
    Allocate: _Walk._allocate,  # pyright: ignore[reportPrivateUsage]
    DeclBuffer: _Walk._decl_buffer,  # pyright: ignore[reportPrivateUsage]
    BufferRealize: _Walk._realize,  # pyright: ignore[reportPrivateUsage]
    BlockRealize: _Walk._block,  # pyright: ignore[reportPrivateUsage]
    BufferStore: _Walk._store,  # pyright: ignore[reportPrivateUsage]
    Evaluate: _Walk._evaluate,  # pyright: ignore[reportPrivateUsage]
}


def _extent(part: Range) -> PrimExpr:
    return IntImm(1, part.min.dtype) if part.extent is None else part.extent


def _is_equal(a: PrimExpr, b: PrimExpr) -> bool:
    """Tell whether two extents are known to be equal, also if their arithmetic wraps."""
    if a is b or structural_equal(a, b):
        return True
    affine = Affine()
    difference = affine.read(a).plus(affine.read(b), -1)
    return difference.is_constant and difference.constant == 0
