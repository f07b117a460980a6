"""Lower one statement: its index variables, their ranges, and the bounds of its accesses."""

from __future__ import annotations

import re
from typing import NamedTuple, Protocol

from loomir.arith.analyzer import Analyzer
from loomir.ir.visit import post_order
from loomir.support.diagnostics import with_count
from loomir.support.dtype import DataType
from loomir.support.span import Span
from loomir.tc.blocks import Update, blocks_of
from loomir.tc.expressions import Expressions
from loomir.tc.mistakes import Mistakes
from loomir.tc.preconditions import Preconditions
from loomir.tc.ranges import AxisAccess, Interval, find_accesses, infer, is_plain, variables_in
from loomir.tc.scope import BrokenName, Indices, Names, Size, Tensor
from loomir.tc.syntax import Assignment, Exists, RangeIn
from loomir.tc.to_te import Step
from loomir.tc.types import INDEX, SCALARS, common_dtype
from loomir.tir.buffer import BufferLoad, decl_buffer
from loomir.tir.expr import GE, IntImm, Max, PrimExpr, Var
from loomir.tir.stmt import Stmt

__all__ = ["FunctionScope", "Work", "assign"]


class Work(Protocol):
    """The function that statements are lowered for."""

    mistakes: Mistakes
    plain: Analyzer
    checks: Preconditions
    statements: list[Stmt]
    steps: list[Step]
    locals: dict[int, Tensor]

    def block_name(self, name: str) -> str:
        """Return a name that no other block has."""
        ...


class FunctionScope:
    """The names of a function, or of one that is called; ``outputs`` says how results are called.

    Each of these has the name of its memory, and whether that memory is the caller's.
    """

    def __init__(
        self, names: Names, outputs: dict[str, tuple[str, bool]], work: Work, prefix: str = ""
    ) -> None:
        self.names, self.outputs, self.work, self.prefix = names, outputs, work, prefix


class _Parts(NamedTuple):
    """The parts of a statement as TIR."""

    value: PrimExpr
    fixed: dict[Var, Interval]
    exists: list[AxisAccess]


def assign(statement: Assignment, frame: FunctionScope) -> None:
    """Lower an assignment into the function's statements; mistakes are noted."""
    worker = _Assign(statement, frame)
    if not worker.run() and statement.target.name not in frame.names:
        frame.names[statement.target.name] = BrokenName(statement.target.span)


class _Assign:
    def __init__(self, statement: Assignment, frame: FunctionScope) -> None:
        self.statement, self.frame, self.work = statement, frame, frame.work
        self.names, self.mistakes = frame.names, frame.work.mistakes
        self.indices = Indices()
        self.right = True

    def wrong(
        self,
        code: str,
        message: str,
        span: Span | None,
        label: str = "",
        *,
        defined: Span | None = None,
        help: str,  # named after the diagnostic's field
    ) -> None:
        """Note a mistake of this statement."""
        secondary = () if defined is None else ((defined, "defined here"),)
        self.mistakes.add(code, message, span, label, secondary=secondary, help=help)
        self.right = False

    def run(self) -> bool:
        """Lower the statement; return whether it had no mistake."""
        target = self._target()
        parts = self._parts()
        left = self._find_left_side()
        if parts is None or not self.right:
            return False
        read = variables_in(parts.value, self.indices.vars.values())
        reduced = tuple(v for v in read if not any(v is x for x in left))
        self._check_unused(parts, left)
        self._check_operator(reduced, parts.value.dtype, target)
        if target is not None:
            self._check_own_reads(target, parts.value, left)
        if not self.right:
            return False
        return self._lower(target, parts, left, reduced)

    # -- what is written ---------------------------------------------------------------------------
    def _target(self) -> Tensor | None:
        """Find the tensor that is assigned; None for a new one."""
        ident = self.statement.target
        entry = self.names.get(ident.name)
        if isinstance(entry, Size):
            self.wrong(
                "TC0102",
                f"{ident.name!r} is a size already",
                ident.span,
                defined=entry.span,
                help="use another name: sizes, tensors and indices share one namespace",
            )
        elif isinstance(entry, BrokenName):
            self.right = False
        elif isinstance(entry, Tensor):
            if not entry.writable:
                self.wrong(
                    "TC0109",
                    f"{ident.name!r} is assigned, and it is a parameter that is not returned",
                    ident.span,
                    defined=entry.span,
                    help=f"return {ident.name} to change it in place, or assign another name",
                )
            if len(entry.dims) != len(self.statement.indices):
                self.wrong(
                    "TC0104",
                    f"{ident.name!r} has {with_count(len(entry.dims), 'axis', 'axes')} and is "
                    f"assigned with {with_count(len(self.statement.indices), 'index', 'indices')}",
                    ident.span,
                    defined=entry.span,
                    help="give one index for each axis",
                )
            return entry
        elif ident.name in SCALARS:
            self.wrong("TC0003", f"{ident.name!r} is a type", ident.span, help="use another name")
        return None

    def _find_left_side(self) -> tuple[Var, ...]:
        """Return the variables of the left side."""
        found: list[Var] = []
        seen: dict[str, Span] = {}
        for ident in self.statement.indices:
            entry = self.names.get(ident.name)
            if entry is not None:
                kind = "size" if isinstance(entry, Size) else "tensor"
                self.wrong(
                    "TC0103",
                    f"{ident.name!r} is a {kind}, not an index",
                    ident.span,
                    defined=entry.span,
                    help="index with a name of its own, as in B(i) = …",
                )
            elif ident.name == self.statement.target.name:
                self.wrong(
                    "TC0102",
                    f"{ident.name!r} is both the tensor and its index",
                    ident.span,
                    help="use another name for the index",
                )
            elif ident.name in seen:
                self.wrong(
                    "TC0112",
                    f"index {ident.name!r} stands twice on the left",
                    ident.span,
                    defined=seen[ident.name],
                    help="an element has one index per axis: use another name",
                )
            elif ident.name not in self.indices.vars:
                if self.right:
                    self.wrong(
                        "TC0111",
                        f"nothing says where {ident.name!r} runs",
                        ident.span,
                        "it is neither on the right nor after where",
                        help=f"add where {ident.name} in 0:…",
                    )
            else:
                seen[ident.name] = ident.span
                found.append(self.indices.vars[ident.name])
        return tuple(found)

    # -- what is read ------------------------------------------------------------------------------
    def _parts(self) -> _Parts | None:
        statement = self.statement
        value = Expressions(self.names, self.indices, self.mistakes).make(statement.value)
        fixed: dict[Var, Interval] = {}
        exists: list[AxisAccess] = []
        for part in statement.where:
            if isinstance(part, RangeIn):
                self._range(part, fixed)
            else:
                self._exists(part, exists)
        if value is None:
            self.right = False
        return _Parts(value, fixed, exists) if value is not None and self.right else None

    def _range(self, part: RangeIn, fixed: dict[Var, Interval]) -> None:
        entry = self.names.get(part.index.name)
        if entry is not None:
            self.wrong(
                "TC0103",
                f"{part.index.name!r} is a {'size' if isinstance(entry, Size) else 'tensor'}, "
                "not an index",
                part.index.span,
                defined=entry.span,
                help="where gives ranges to indices",
            )
            return
        sizes = Expressions(self.names, None, self.mistakes)
        start, stop = sizes.integer(part.start), sizes.integer(part.stop)
        if start is None or stop is None:
            self.right = False
            return
        known = part.index.name in self.indices.vars
        var = self.indices.use_ident(part.index)
        if var in fixed:
            self.wrong(
                "TC0113",
                f"{part.index.name!r} has a range already",
                part.index.span,
                help="give each index one range",
            )
        elif not known and not any(i.name == part.index.name for i in self.statement.indices):
            self.wrong(
                "TC0113",
                f"the statement has no index {part.index.name!r}",
                part.index.span,
                help="leave its range out",
            )
        simplify = self.work.plain.simplify
        fixed[var] = Interval(simplify(start), simplify(stop))

    def _exists(self, part: Exists, exists: list[AxisAccess]) -> None:
        access = part.access
        if not isinstance(self.names.get(access.name), (Tensor, BrokenName)):
            self.wrong(
                "TC0101",
                f"there is no tensor {access.name!r} here",
                access.span,
                help="exists takes an access of a tensor that has its values already",
            )
            return
        made = Expressions(self.names, self.indices, self.mistakes).make(access)
        if not isinstance(made, BufferLoad):
            self.right = False
            return
        found = [a for a in find_accesses(made, self._tensors()) if a.span is made.span]
        exists += [a._replace(informs=True) for a in found]

    def _tensors(self) -> dict[int, tuple[str, tuple[PrimExpr, ...]]]:
        return {
            id(t.buffer.data): (name, t.dims)
            for name, t in self.names.items()
            if isinstance(t, Tensor)
        }

    def _check_unused(self, parts: _Parts, left: tuple[Var, ...]) -> None:
        variables = list(self.indices.vars.values())
        read = {id(v) for v in variables_in(parts.value, variables)} | {id(v) for v in left}
        for name, var in self.indices.vars.items():
            if id(var) not in read:
                self.wrong(
                    "TC0113",
                    f"the statement has no index {name!r}",
                    self.indices.spans[name],
                    help="use it on the left or on the right, or leave it out here",
                )

    def _check_operator(
        self, reduced: tuple[Var, ...], dtype: DataType, target: Tensor | None
    ) -> None:
        statement = self.statement
        op = statement.op
        if op == "=" and reduced:
            names = ", ".join(repr(v.name_hint) for v in reduced)
            self.wrong(
                "TC0115",
                f"{names} on the right {'is' if len(reduced) == 1 else 'are'} not on the left, and "
                "'=' does not say how to reduce",
                statement.op_span,
                help="write +=!, *=!, min=! or max=!, or put the index on the left",
            )
        elif (
            op != "=" and not op.endswith("!") and (target is None or not self._has_values(target))
        ):
            name = statement.target.name
            self.wrong(
                "TC0116",
                f"{name!r} has no values to accumulate into",
                statement.op_span,
                f"{op} goes on from what is there",
                help=f"write {op}! to start anew, or make {name} a parameter too",
            )
        if op != "=":
            kept = dtype if target is None else target.buffer.dtype
            if kept.is_bool or common_dtype(kept, dtype) is None:
                self.wrong(
                    "TC0201",
                    f"{op} does not reduce {dtype} into {kept}",
                    statement.op_span,
                    help="convert the right side, as in int32(x)",
                )

    def _has_values(self, target: Tensor) -> bool:
        return target.writable

    def _check_own_reads(self, target: Tensor, value: PrimExpr, left: tuple[Var, ...]) -> None:
        for node in post_order(value):
            if not isinstance(node, BufferLoad) or node.buffer.data is not target.buffer.data:
                continue
            same = len(node.indices) == len(left)
            same = same and all(a is b for a, b in zip(node.indices, left, strict=False))
            if not same:
                self.wrong(
                    "TC0114",
                    f"{self.statement.target.name!r} is read here at other elements than the one "
                    "that is assigned",
                    node.span,
                    "which may have changed already",
                    help="assign to another tensor, and read this one",
                )

    # -- ranges and loops --------------------------------------------------------------------------
    def _lower(
        self, target: Tensor | None, parts: _Parts, left: tuple[Var, ...], reduced: tuple[Var, ...]
    ) -> bool:
        work, variables = self.work, tuple(self.indices.vars.values())
        accesses = [*find_accesses(parts.value, self._tensors()), *parts.exists]
        ranges, over, missing = infer(variables, parts.fixed, accesses, work.plain)
        if missing:
            self._ambiguous(missing, over)
            return False
        ends = [end for interval in ranges.values() for end in interval]
        if not all(is_plain(work.plain, end) for end in ends):
            over = accesses  # what was inferred holds without overflow only
        if target is None:
            target = self._new(left, ranges, parts.value.dtype)
            if target is None:
                return False
        else:
            for axis, var in enumerate(left):
                name, span = self.statement.target.name, self.statement.indices[axis].span
                access = AxisAccess(name, axis, target.dims[axis], var, None, span)
                work.checks.require_inside(access, ranges[var], variables, ranges)
        for access in over:
            work.checks.require_access(access, variables, ranges)
        target.written = True
        name = work.block_name(self.frame.prefix + self.statement.target.name)
        update = Update(
            target.buffer, left, reduced, self.statement.op, parts.value, name, self.statement.span
        )
        work.statements += blocks_of(update, ranges, work.plain)
        whole = all(
            work.plain.can_prove_equal(ranges[v].start, IntImm(0, INDEX))
            and work.plain.can_prove_equal(ranges[v].stop, dim)
            for v, dim in zip(left, target.dims, strict=True)
        )
        work.steps.append(Step(update, ranges, whole))
        return True

    def _ambiguous(self, missing: list[Var], over: list[AxisAccess]) -> None:
        for var in missing:
            notes: list[str] = []
            for access in over:
                mentioned = variables_in(access.at, missing)
                if any(v is var for v in mentioned):
                    notes.append(_reason(access, mentioned))
            span = self.indices.spans[var.name_hint]
            self.mistakes.add(
                "TC0301",
                f"the range of {var.name_hint!r} cannot be inferred",
                span,
                "no access tells its range",
                notes=tuple(dict.fromkeys(notes)),
                help=f"add where {var.name_hint} in 0:… at the end of the statement",
            )

    def _new(
        self, left: tuple[Var, ...], ranges: dict[Var, Interval], dtype: DataType
    ) -> Tensor | None:
        """Make the tensor that the statement defines."""
        statement, analyzer = self.statement, self.work.plain
        zero = IntImm(0, INDEX)
        for var, ident in zip(left, statement.indices, strict=True):
            start = ranges[var].start
            if not analyzer.can_prove_equal(start, zero):
                self.wrong(
                    "TC0302",
                    f"{ident.name!r} runs from {_write_size(start)}, and the indices of a new "
                    "tensor start at 0",
                    ident.span,
                    f"its range is {_write_size(start)}:{_write_size(ranges[var].stop)}",
                    help=f"shift the index, or add where {ident.name} in 0:…",
                )
        if not self.right:
            return None
        dims = tuple(ranges[var].stop for var in left)
        name, outside = self.frame.outputs.get(
            statement.target.name, (self.frame.prefix + statement.target.name, False)
        )
        shape = list(dims)
        for axis, dim in enumerate(dims):
            if analyzer.can_prove(GE(dim, zero)):
                continue
            if outside:
                self.work.checks.know(GE(dim, zero))  # an array was passed that has this size
            else:
                text = f"axis {axis} of {name} would have a negative size"
                self.work.checks.require(GE(dim, zero), text, statement.target.span)
                shape[axis] = Max(dim, zero)  # memory is allocated before the check
            analyzer.enter(GE(dim, zero))
        buffer = decl_buffer(shape, dtype, name, span=statement.target.span)
        made = Tensor(name, buffer, dims, statement.target.span, True)
        self.names[statement.target.name] = made
        self.work.locals[id(buffer)] = made
        return made


def _write_size(size: PrimExpr) -> str:
    """Write a size as in Tensor Comprehensions."""
    plain = re.sub(r"T\.int64\((-?\d+)\)", r"\1", str(size))
    return plain.replace("T.", "").replace("//", "/")


def _reason(access: AxisAccess, mentioned: list[Var]) -> str:
    if len(mentioned) > 1:
        names = " and ".join(repr(v.name_hint) for v in mentioned)
        return f"index {access.axis} of {access.name!r} has both {names}"
    return f"index {access.axis} of {access.name!r} is not a sum of multiples by constants"
