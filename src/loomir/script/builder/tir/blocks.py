"""Blocks: their iterators, regions, annotations, and the init of a reduction.

All declarations of a block come before its first statement.
Errors: SCR0017 for parts out of place, SCR0024 outside of a block.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias, cast

from loomir.script.builder.arguments import (
    as_annotations,
    as_expr,
    as_items,
    as_region,
    as_text,
    describe,
    difference,
)
from loomir.script.builder.expressions import truth
from loomir.script.builder.frame import IRBuilder, StmtFrame
from loomir.script.builder.function import PrimFuncFrame
from loomir.script.builder.mistakes import mistake, wrong_argument
from loomir.script.builder.tir.loops import range_of_loop
from loomir.support.dtype import DataType
from loomir.tir.analysis.access_regions import infer_access_regions
from loomir.tir.buffer import (
    Buffer,
    BufferLoad,
    BufferRegion,
    IterVar,
    IterVarType,
    MatchBufferRegion,
    Range,
)
from loomir.tir.expr import ExprLike, IntImm, PrimExpr, Var, match_dtypes
from loomir.tir.expr import cast as cast_expr
from loomir.tir.stmt import TRUE, Block, BlockRealize, Stmt

__all__ = [
    "Axis",
    "BlockInitFrame",
    "SBlockFrame",
    "axis",
    "block_attr",
    "init",
    "reads",
    "sblock",
    "where",
    "writes",
]

Domain: TypeAlias = ExprLike | Sequence[ExprLike] | Range
RegionLike: TypeAlias = Buffer | BufferLoad | BufferRegion


class SBlockFrame(StmtFrame[None]):
    """A block with its iterators, the values they take, and what it touches."""

    what = "a block"

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name
        self.iter_vars: list[IterVar] = []
        self.values: list[PrimExpr] = []
        self.predicate: PrimExpr | None = None
        self.reads: tuple[BufferRegion, ...] | None = None
        self.writes: tuple[BufferRegion, ...] | None = None
        self.init: Stmt | None = None
        self.alloc_buffers: list[Buffer] = []
        self.match_buffers: list[MatchBufferRegion] = []
        self.annotations: dict[str, Any] = {}

    def enter(self) -> None:
        """Bind nothing."""

    def finish(self, builder: IRBuilder) -> None:
        """Make the block and its realisation; regions that are not written are derived."""
        body = self.body()
        func = builder.find(PrimFuncFrame)
        reads_, writes_ = self.reads, self.writes
        if reads_ is None or writes_ is None:
            found = infer_access_regions(
                body,
                self.init,
                self.alloc_buffers,
                self.match_buffers,
                func.pointers if func is not None else None,
            )
            reads_ = found[0] if reads_ is None else reads_
            writes_ = found[1] if writes_ is None else writes_
        block = Block(
            tuple(self.iter_vars),
            reads_,
            writes_,
            self.name,
            body,
            self.init,
            tuple(self.alloc_buffers),
            tuple(self.match_buffers),
            self.annotations,
            span=self.span,
        )
        predicate = TRUE if self.predicate is None else self.predicate
        if func is not None:
            func.has_blocks = True
        builder.emit(BlockRealize(tuple(self.values), predicate, block, span=self.span))


class BlockInitFrame(StmtFrame[None]):
    """What a reduction starts from."""

    what = "`with T.init():`"

    def enter(self) -> None:
        """Bind nothing."""

    def finish(self, builder: IRBuilder) -> None:
        """Add the statements to the block."""
        block = builder.find(SBlockFrame)
        if block is not None:
            block.init = self.body()


def sblock(name: str = "", *, no_realize: bool = False) -> SBlockFrame:
    """Open a block.

    Errors: SCR0005 for ``no_realize``, which would leave the block without its place.
    """
    if no_realize:
        raise mistake("SCR0005", "a block is always realised", help="leave no_realize out")
    return SBlockFrame(as_text(name, "the name of the block"))


def init() -> BlockInitFrame:
    """Open what a reduction starts from."""
    if head_of_block("T.init()").init is not None:
        raise mistake("SCR0017", "the block has a second T.init()", help="write one T.init()")
    return BlockInitFrame()


def head_of_block(what: str) -> SBlockFrame:
    """Return the block whose head is being written."""
    builder = IRBuilder.current()
    scope = builder.scope()
    if not isinstance(scope, SBlockFrame):
        inside = builder.find(SBlockFrame) is not None
        raise mistake(
            "SCR0017",
            f"{what} is {'in a statement of a block' if inside else 'outside of a block'}",
            help="write it directly in the body of `with T.sblock(name):`, before its statements",
        )
    if scope.statements or builder.frames[-1] is not scope:
        raise mistake(
            "SCR0017",
            f"{what} comes after a statement of the block",
            help="write it before the first statement of the block",
        )
    return scope


def where(predicate: ExprLike) -> None:
    """Say where the block runs at all."""
    block = head_of_block("T.where")
    if block.predicate is not None:
        raise mistake(
            "SCR0017", "the block has a second T.where", help="join the conditions with `and`"
        )
    made = truth(predicate)
    if not made.dtype.is_bool or made.dtype.lanes != 1:
        raise wrong_argument(
            predicate,
            f"the predicate of the block is {made.dtype}",
            code="TIR0209",
            help="use a bool, as in T.where(i < n)",
        )
    block.predicate = made


def reads(*regions: RegionLike | Sequence[RegionLike]) -> None:
    """Declare the regions that the block reads."""
    block = head_of_block("T.reads")
    if block.reads is not None:
        raise mistake("SCR0017", "the block has a second T.reads", help="list all regions in one")
    block.reads = _regions(regions, "T.reads")


def writes(*regions: RegionLike | Sequence[RegionLike]) -> None:
    """Declare the regions that the block writes."""
    block = head_of_block("T.writes")
    if block.writes is not None:
        raise mistake("SCR0017", "the block has a second T.writes", help="list all regions in one")
    block.writes = _regions(regions, "T.writes")


def _regions(regions: tuple[Any, ...], what: str) -> tuple[BufferRegion, ...]:
    found: list[BufferRegion] = []
    for region in regions:
        many = cast("Sequence[object]", region) if isinstance(region, (tuple, list)) else [region]
        found += [as_region(item, what) for item in many]
    return tuple(found)


def block_attr(attrs: Mapping[str, Any]) -> None:
    """Attach notes to the block."""
    block = head_of_block("T.sblock_attr")
    block.annotations.update(as_annotations(attrs, "T.sblock_attr"))


# -- axes --------------------------------------------------------------------------------------
_LETTERS: Final = {
    "S": IterVarType.DATA_PAR,
    "R": IterVarType.COMM_REDUCE,
    "O": IterVarType.ORDERED,
}


class Axis:
    """``T.axis``: declares the iterators of a block."""

    def spatial(self, dom: Domain, binding: ExprLike, dtype: str | None = None) -> Var:
        """Declare an axis whose points are independent of one another."""
        return _axis("T.axis.spatial", IterVarType.DATA_PAR, dom, binding, dtype)

    S = spatial

    def reduce(self, dom: Domain, binding: ExprLike, dtype: str | None = None) -> Var:
        """Declare an axis over which the block accumulates."""
        return _axis("T.axis.reduce", IterVarType.COMM_REDUCE, dom, binding, dtype)

    R = reduce

    def scan(self, dom: Domain, binding: ExprLike, dtype: str | None = None) -> Var:
        """Declare an axis that must be walked in order."""
        return _axis("T.axis.scan", IterVarType.ORDERED, dom, binding, dtype)

    def opaque(self, dom: Domain, binding: ExprLike, dtype: str | None = None) -> Var:
        """Declare an axis of which nothing is known."""
        return _axis("T.axis.opaque", IterVarType.OPAQUE, dom, binding, dtype)

    def remap(self, kinds: str, bindings: Sequence[Var], dtype: str | None = None) -> Any:
        """Declare axes that span a loop each; gives one variable, or a tuple of them.

        ``kinds`` has a letter for each: S spatial, R reduce, O scan.
        """
        letters = as_text(kinds, "the kinds of T.axis.remap")
        given = as_items(bindings, "the loops of T.axis.remap")
        if len(letters) != len(given):
            raise wrong_argument(
                kinds,
                f"T.axis.remap has {len(letters)} kinds for {len(given)} loops",
                help="write one letter for each loop",
            )
        made: list[Var] = []
        for letter, binding in zip(letters, given, strict=True):
            if letter not in _LETTERS:
                raise wrong_argument(
                    kinds,
                    f"{letter!r} is not a kind of axis",
                    help="use S for spatial, R for reduce, O for scan",
                )
            dom = range_of_loop(IRBuilder.current(), binding)
            if dom is None:
                raise wrong_argument(
                    binding,
                    f"T.axis.remap takes loop variables, not {describe(binding)}",
                    help="write T.axis.spatial(extent, value) for other values",
                )
            loop = cast("Var", binding)
            made.append(_axis("T.axis.remap", _LETTERS[letter], dom, loop, dtype))
        return made[0] if len(made) == 1 else tuple(made)


axis: Final = Axis()


def _axis(what: str, kind: IterVarType, dom: Domain, binding: ExprLike, dtype: str | None) -> Var:
    block = head_of_block(what)
    value = as_expr(binding, f"the value of {what}")
    span = _domain(dom, value, what)
    wanted = span.min.dtype if dtype is None else DataType(as_text(dtype, "the dtype"))
    if dtype is not None:
        extent = None if span.extent is None else cast_expr(span.extent, wanted)
        span = Range(cast_expr(span.min, wanted), extent)
    if isinstance(binding, (int, IntImm)) or value.dtype.bits < wanted.bits:
        value = cast_expr(value, wanted)
    if value.dtype is not wanted:
        raise wrong_argument(
            binding,
            f"an axis of dtype {wanted} takes its value from {describe(value)}",
            help=f"give the domain that dtype, as in T.{value.dtype}(128), or cast the value",
        )
    var = Var("", wanted)
    block.iter_vars.append(IterVar(span, var, kind))
    block.values.append(value)
    return var


def _domain(dom: object, value: PrimExpr, what: str) -> Range:
    """Read a domain: an extent, or a begin and an end; plain numbers take the value's dtype."""
    if isinstance(dom, Range):
        return dom
    like = value.dtype if value.dtype.is_integer and value.dtype.lanes == 1 else None
    if isinstance(dom, (tuple, list)):
        ends = cast("Sequence[object]", dom)
        if len(ends) != 2:
            raise wrong_argument(
                ends, f"the domain of {what} has {len(ends)} parts", help="write (begin, end)"
            )
        begin, end = (_read_bound(e, like, what) for e in ends)
        low, high = match_dtypes(begin, end)
        return Range(low, difference(high, low))
    extent = _read_bound(dom, like, what)
    return Range(IntImm(0, extent.dtype), extent)


def _read_bound(value: object, like: DataType | None, what: str) -> PrimExpr:
    if like is not None and isinstance(value, int) and not isinstance(value, bool):
        fits = like.min_value <= value <= like.max_value
        return IntImm(value, like) if fits else as_expr(value)
    made = as_expr(value, f"the domain of {what}")
    if not made.dtype.is_integer or made.dtype.lanes != 1:
        raise wrong_argument(
            value,
            f"the domain of {what} must be an integer, not {describe(value)}",
            help="give an extent, or (begin, end)",
        )
    return made
