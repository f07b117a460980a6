"""Statements of TIR, and their semantics.

- A variable is bound once, and is in scope in the ``body`` of the node that binds it.
- Loops run ``loop_var`` over ``[min, min + extent)``; both are evaluated once, before the first
  iteration.
- A fresh allocation holds indeterminate values and overlaps nothing.
- An error stops the program at once; in a parallel loop, at the end of the loop at the latest.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum
from itertools import chain
from typing import Any, ClassVar, Final

from loomir.ir.node import Node, attr, binds, child, meta, node, replace_lists, reset, uses
from loomir.ir.serialize import serializable
from loomir.support.diagnostics import with_article
from loomir.support.dtype import BOOL, DataType
from loomir.support.span import Span
from loomir.tir.buffer import (
    Buffer,
    BufferRegion,
    IterVar,
    MatchBufferRegion,
    Range,
    check_indices,
)
from loomir.tir.expr import IntImm, PrimExpr, StringImm, Var
from loomir.tir.rules import refuse
from loomir.tir.types import PointerType, PrimType

__all__ = [
    "PREFETCH_DISTANCE",
    "STEPS_AT_ONCE",
    "THREAD_KEYS",
    "TRUE",
    "Allocate",
    "AssertStmt",
    "AttrStmt",
    "Block",
    "BlockRealize",
    "BufferRealize",
    "BufferStore",
    "DeclBuffer",
    "Evaluate",
    "For",
    "ForKind",
    "IfThenElse",
    "LetStmt",
    "SeqStmt",
    "Stmt",
    "While",
    "seq",
]

TRUE = IntImm(1, BOOL)
PREFETCH_DISTANCE: Final = "prefetch_distance"
"""The annotation of a serial loop whose loads are prefetched so many elements ahead.

It is a hint for vectors of arrays whose place depends on more than the loop's variable.
"""
STEPS_AT_ONCE: Final = "steps_at_once"
"""The annotation of a loop that gives the factor by which native code unrolls it.

Without it LLVM decides; 1 saves that analysis, a third of LLVM's time.
"""
THREAD_KEYS: Final = frozenset({"thread_extent", "virtual_thread"})
"""The keys of attributes that run their body once for each value of a variable."""
_INT8 = DataType("int8")


class Stmt(Node):
    """The base class of statements."""

    __slots__ = ()

    in_words: ClassVar[str] = "a statement"
    outside_of: ClassVar[type[Node] | None] = PrimExpr


@serializable
class ForKind(Enum):
    """The kinds of loops: how their iterations run."""

    SERIAL = "kSerial"
    PARALLEL = "kParallel"
    VECTORIZED = "kVectorized"
    UNROLLED = "kUnrolled"
    THREAD_BINDING = "kThreadBinding"


def _condition(owner: str, condition: PrimExpr, span: Span | None) -> None:
    if condition.dtype is not BOOL:
        refuse(
            "TIR0205",
            f"the condition of {owner} is {condition.dtype}, not bool",
            help="compare with zero, as in x != 0",
            span=span,
        )


@node
class LetStmt(Stmt):
    """Run ``body`` with ``var`` bound to ``value``; a pointer variable takes any handle.

    Errors: TIR0201.
    """

    var: Var = binds()
    value: PrimExpr
    body: Stmt
    span: Span | None = meta(default=None, kw_only=True)

    def __post_init__(self) -> None:
        var, value = self.var, self.value
        if isinstance(var.type_annotation, PointerType):
            fits = value.dtype.is_handle
        else:
            fits = var.dtype is value.dtype
        if not fits:
            refuse(
                "TIR0201",
                f"variable {var.name_hint!r} is {var.dtype}, its value {value.dtype}",
                help=f"cast the value with T.cast(…, {str(var.dtype)!r})",
                span=self.span,
            )


@node
class AttrStmt(Stmt):
    """Run ``body`` with a note for the compiler about ``node``.

    Three keys have meaning: ``thread_extent`` and ``virtual_thread`` run ``body`` once for each
    value of the variable ``node`` below ``value``, in any order; ``volatile_scope`` keeps accesses
    from being optimised.
    """

    node: Any = binds()
    attr_key: str = attr()
    value: PrimExpr
    body: Stmt
    span: Span | None = meta(default=None, kw_only=True)

    def __post_init__(self) -> None:
        replace_lists(self, "node")

    @property
    def is_binding(self) -> bool:
        """Whether ``node`` is bound here; otherwise it was bound around."""
        return self.attr_key in THREAD_KEYS


@node
class AssertStmt(Stmt):
    """Run ``body`` if ``condition`` holds, else raise an assertion error with ``message``.

    Errors: TIR0202 for a message that is neither a string nor int32, TIR0205.
    """

    condition: PrimExpr
    message: PrimExpr
    body: Stmt
    span: Span | None = meta(default=None, kw_only=True)

    def __post_init__(self) -> None:
        _condition("assert", self.condition, self.span)
        if not isinstance(self.message, StringImm) and self.message.dtype != "int32":
            refuse(
                "TIR0202",
                f"the message of assert is {self.message.dtype}",
                help="use a string",
                span=self.span,
            )


@node
class BufferStore(Stmt):
    """``buffer[indices] = value``; the value is evaluated before the indices.

    A vector in the last index stores one slice of ``value`` per lane.
    Errors: TIR0107, TIR0203.
    """

    buffer: Buffer = uses()
    value: PrimExpr
    indices: tuple[PrimExpr, ...]
    span: Span | None = meta(default=None, kw_only=True)

    def __post_init__(self) -> None:
        wanted = check_indices(self.buffer, self.indices, self.span)
        if self.value.dtype is not wanted:
            refuse(
                "TIR0203",
                f"{with_article(self.value.dtype)} is stored into {self.buffer.called}, which "
                f"takes {wanted} here",
                help=f"cast the value with T.cast(…, {str(wanted)!r})",
                span=self.span,
            )


@node
class BufferRealize(Stmt):
    """Run ``body`` with ``buffer`` freshly allocated; ``bounds`` and ``condition`` are hints.

    Errors: TIR0205, TIR0210.
    """

    buffer: Buffer = binds()
    bounds: tuple[Range, ...]
    condition: PrimExpr
    body: Stmt
    span: Span | None = meta(default=None, kw_only=True)

    def __post_init__(self) -> None:
        _condition("BufferRealize", self.condition, self.span)
        parts = [e for r in self.bounds for e in (r.min, r.extent) if e is not None]
        if any(not e.dtype.is_integer or e.dtype is not parts[0].dtype for e in parts):
            refuse(
                "TIR0210",
                f"the bounds of {self.buffer.called} differ in dtype or are not integers",
                help="give all bounds one scalar integer dtype",
                span=self.span,
            )


@node
class Allocate(Stmt):
    """Run ``body`` with ``buffer_var`` pointing to fresh memory, where ``condition`` holds.

    Errors: TIR0204, TIR0205.
    """

    buffer_var: Var = binds()
    dtype: DataType = attr()
    extents: tuple[PrimExpr, ...]
    condition: PrimExpr
    body: Stmt
    annotations: Mapping[str, Any] = child(default_factory=dict)
    span: Span | None = meta(default=None, kw_only=True)

    def __post_init__(self) -> None:
        if self.annotations:
            replace_lists(self, "annotations")
        annotation = self.buffer_var.type_annotation
        pointee = annotation.element_type if isinstance(annotation, PointerType) else None
        fits = isinstance(pointee, PrimType) and (
            pointee.dtype is self.dtype or (self.dtype is BOOL and pointee.dtype is _INT8)
        )
        if not fits:
            refuse(
                "TIR0204",
                f"variable {self.buffer_var.name_hint!r} is not a pointer to {self.dtype}",
                help="allocate the dtype that the variable points to",
                span=self.span,
            )
        for extent in self.extents:
            if not extent.dtype.is_integer or extent.dtype.lanes != 1:
                refuse(
                    "TIR0204",
                    f"an extent of the allocation is {extent.dtype}",
                    help="use scalar integers",
                    span=self.span,
                )
        _condition("Allocate", self.condition, self.span)


@node
class DeclBuffer(Stmt):
    """Run ``body`` with ``buffer`` in scope, on memory that exists already."""

    buffer: Buffer = binds()
    body: Stmt
    span: Span | None = meta(default=None, kw_only=True)


@node
class SeqStmt(Stmt):
    """Run statements one after the other; nested sequences are flattened."""

    seq: tuple[Stmt, ...]
    span: Span | None = meta(default=None, kw_only=True)

    def __post_init__(self) -> None:
        if any(isinstance(part, SeqStmt) for part in self.seq):
            parts = ((p.seq if isinstance(p, SeqStmt) else (p,)) for p in self.seq)
            reset(self, "seq", tuple(chain.from_iterable(parts)))


@node
class IfThenElse(Stmt):
    """Run ``then_case`` where ``condition`` holds, else ``else_case`` if there is one (TIR0205)."""

    condition: PrimExpr
    then_case: Stmt
    else_case: Stmt | None = child(default=None)
    span: Span | None = meta(default=None, kw_only=True)

    def __post_init__(self) -> None:
        _condition("if", self.condition, self.span)


@node
class Evaluate(Stmt):
    """Evaluate ``value`` for its effect."""

    value: PrimExpr
    span: Span | None = meta(default=None, kw_only=True)


@node
class For(Stmt):
    """Run ``body`` for each ``loop_var`` in ``[min, min + extent)``, none where that is empty.

    Parallel iterations may run in any order and must not read what others write. Vectorised ones
    keep the order of errors and effects. Unrolled loops mean what serial ones mean.
    Errors: TIR0206.
    """

    loop_var: Var = binds()
    min: PrimExpr
    extent: PrimExpr
    kind: ForKind = attr()
    body: Stmt
    thread_binding: IterVar | None = child(default=None)
    annotations: Mapping[str, Any] = child(default_factory=dict)
    span: Span | None = meta(default=None, kw_only=True)

    def __post_init__(self) -> None:
        if self.annotations:
            replace_lists(self, "annotations")
        dtype = self.loop_var.dtype
        for name in ("min", "extent"):
            part: PrimExpr = getattr(self, name)
            if isinstance(part, IntImm) and part.dtype.bits < dtype.bits:
                reset(self, name, IntImm(part.value, dtype, span=part.span))
                part = getattr(self, name)
            if not part.dtype.is_integer or part.dtype.lanes != 1 or part.dtype is not dtype:
                refuse(
                    "TIR0206",
                    f"loop variable {self.loop_var.name_hint!r} is {dtype}, "
                    f"its {name} {part.dtype}",
                    help="give the loop variable and its bounds one scalar integer dtype",
                    span=self.span,
                )


@node
class While(Stmt):
    """Run ``body`` as long as ``condition`` is not zero (TIR0207)."""

    condition: PrimExpr
    body: Stmt
    span: Span | None = meta(default=None, kw_only=True)

    def __post_init__(self) -> None:
        dtype = self.condition.dtype
        if dtype.lanes != 1 or not (dtype.is_integer or dtype.is_bool):
            refuse(
                "TIR0207",
                f"the condition of while is {dtype}",
                help="use a bool, or compare with zero",
                span=self.span,
            )


@node
class Block(Stmt):
    """A unit of computation over iterators, with the buffers that it reads, writes and allocates.

    ``init`` runs where every reducing iterator stands at the start of its domain, before ``body``;
    without reducing iterators it runs each time. ``reads`` and ``writes`` only describe the block.
    Errors: TIR0208.
    """

    iter_vars: tuple[IterVar, ...]
    reads: tuple[BufferRegion, ...]
    writes: tuple[BufferRegion, ...]
    name_hint: str = attr()
    body: Stmt
    init: Stmt | None = child(default=None)
    alloc_buffers: tuple[Buffer, ...] = binds(default=())
    match_buffers: tuple[MatchBufferRegion, ...] = child(default=())
    annotations: Mapping[str, Any] = child(default_factory=dict)
    span: Span | None = meta(default=None, kw_only=True)

    # Names come into scope in this order: iterators, then buffers, then what uses them.
    scan_first: ClassVar[tuple[str, ...]] = ("iter_vars", "alloc_buffers", "match_buffers")

    def __post_init__(self) -> None:
        if self.annotations:
            replace_lists(self, "annotations")
        for it in self.iter_vars:
            if not it.var.dtype.is_integer or it.var.dtype.lanes != 1:
                refuse(
                    "TIR0208",
                    f"iterator {it.var.name_hint!r} of block {self.name_hint!r} is {it.var.dtype}",
                    help="use a scalar integer iterator",
                    span=it.span or self.span,
                )

    @property
    def is_reduction(self) -> bool:
        """Whether an iterator of the block reduces."""
        return any(it.iter_type.value == "kCommReduce" for it in self.iter_vars)


@node
class BlockRealize(Stmt):
    """Run ``block`` with its iterators bound to ``values``, where ``predicate`` holds (TIR0209)."""

    values: tuple[PrimExpr, ...]
    predicate: PrimExpr
    block: Block
    span: Span | None = meta(default=None, kw_only=True)

    def __post_init__(self) -> None:
        if len(self.values) != len(self.block.iter_vars):
            refuse(
                "TIR0209",
                f"block {self.block.name_hint!r} has {len(self.block.iter_vars)} iterators but "
                f"{len(self.values)} values",
                help="bind every iterator",
                span=self.span,
            )
        if not self.predicate.dtype.is_bool or self.predicate.dtype.lanes != 1:
            refuse(
                "TIR0209",
                f"the predicate of block {self.block.name_hint!r} is {self.predicate.dtype}",
                help="use a bool, as in T.where(i < n)",
                span=self.span,
            )

    @property
    def iter_values(self) -> tuple[PrimExpr, ...]:
        """The same as ``values``: the specification uses both names."""
        return self.values


def seq(statements: Iterable[Stmt], span: Span | None = None) -> Stmt:
    """Put statements in sequence; nested sequences are flattened, a single one is returned."""
    flat: list[Stmt] = []
    for statement in statements:
        if isinstance(statement, SeqStmt):
            flat.extend(statement.seq)
        else:
            flat.append(statement)
    return flat[0] if len(flat) == 1 else SeqStmt(tuple(flat), span=span)
