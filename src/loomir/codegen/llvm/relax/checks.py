"""Emit checks of values against structural information: ``MatchCast``, arguments, results.

- What is statically known of a value is not checked again.
- Extents are compared from left to right; an unbound shape variable is bound to its extent.
- On entry, kinds and ranks of all parameters are checked and variables bound first; then extents.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import Final, NamedTuple

from loomir.arith.analyzer import Analyzer
from loomir.codegen.llvm.assembler.types import I32, I64, PTR
from loomir.codegen.llvm.assembler.values import FALSE, NULL, Value, const
from loomir.codegen.llvm.generated_module import FunctionCheck
from loomir.codegen.llvm.relax.boxes import box, unbox
from loomir.codegen.llvm.relax.devices import is_cpu
from loomir.codegen.llvm.relax.frame import GraphFrame
from loomir.codegen.llvm.relax.invoke import builtin
from loomir.codegen.llvm.relax.unit import dtype_word
from loomir.codegen.llvm.support.ir.objects import place
from loomir.codegen.llvm.tir.arithmetic import compare
from loomir.ir.visit import Step, pre_order
from loomir.relax import faults
from loomir.relax.expr import Var
from loomir.relax.info.describe import format_extent
from loomir.relax.node import StructInfo
from loomir.relax.shape import ShapeExpr
from loomir.relax.struct_info import (
    OBJECT,
    FuncStructInfo,
    ObjectStructInfo,
    PrimStructInfo,
    ShapeStructInfo,
    TensorStructInfo,
    TupleStructInfo,
)
from loomir.runtime import layout as dl
from loomir.runtime.fault import Fault
from loomir.runtime.graph import object_layout as at
from loomir.support.diagnostics import InternalError
from loomir.support.dtype import BOOL, VOID, DataType
from loomir.support.span import Span
from loomir.tir.expr import NE, Eq, IntImm, PrimExpr
from loomir.tir.expr import Var as ShapeVar

__all__ = [
    "CheckedValue",
    "Phase",
    "extents_at",
    "is_same",
    "match",
    "require_dtype",
    "require_kind",
]

_INT64: Final = DataType("int64")


class Phase(Enum):
    """The part of a comparison to emit: all, only binding variables, or only comparing."""

    WHOLE = 0
    BIND = 1
    COMPARE = 2


class CheckedValue(NamedTuple):
    """A value in messages: its name, where it is declared, and who claims its structure."""

    where: str
    span: Span | None = None
    claim: str | None = None

    def field(self, index: int) -> CheckedValue:
        """Return the description of a field of a tuple."""
        return self._replace(where=faults.field_of(self.where, index))

    def fault(self, found: Fault) -> Fault:
        """Return the fault to report; if the structure is a claim, one that says so."""
        if self.claim is None:
            return found
        return faults.not_a_claim(found, self.span, self.claim)


def match(
    frame: GraphFrame,
    value: Value,
    info: StructInfo,
    at_: CheckedValue,
    known: StructInfo = OBJECT,
    phase: Phase = Phase.WHOLE,
    bound: set[tuple[str, int]] | None = None,
) -> Step[None]:
    """Compare a value with structural information; ``known`` needs no check.

    ``bound`` are the extents to which variables were bound in the first phase.
    """
    if known is info and phase is not Phase.BIND and not _is_unbound(frame, info):
        return
    seen = set[tuple[str, int]]() if bound is None else bound
    if isinstance(info, TupleStructInfo):
        yield _tuple(frame, value, info, at_, known, phase, seen)
    elif isinstance(info, TensorStructInfo):
        yield _tensor(frame, value, info, at_, known, phase, seen)
    elif isinstance(info, ShapeStructInfo):
        yield _shape(frame, value, info, at_, known, phase, seen)
    elif isinstance(info, PrimStructInfo):
        yield _scalar(frame, value, info, at_, known, phase, seen)
    elif isinstance(info, FuncStructInfo):
        if phase is not Phase.BIND:
            yield _function(frame, value, info, at_, known)
    elif not isinstance(info, ObjectStructInfo):
        raise InternalError(f"no code for values of {type(info).__name__}")


def _is_unbound(frame: GraphFrame, info: StructInfo) -> bool:
    """Tell whether a variable of the information has no value yet."""
    return not all(v in frame.env for v in shape_vars(info))


def shape_vars(info: StructInfo) -> list[ShapeVar]:
    """List the shape variables that structural information mentions, with those of functions."""
    return [part for part in pre_order(info) if isinstance(part, ShapeVar)]


# -- kinds -------------------------------------------------------------------------------------
def require_kind(frame: GraphFrame, value: Value, kinds: Sequence[int], at_: CheckedValue) -> None:
    """Check that a value has one of several kinds."""
    b = frame.b
    given = frame.word(value, at.KIND, I32)
    fits = b.icmp("eq", given, const(I32, kinds[0]))
    for kind in kinds[1:]:
        fits = b.or_(fits, b.icmp("eq", given, const(I32, kind)))
    fault = faults.wrong_kind(at_.span, at_.where, faults.KINDS[kinds[0]])
    frame.require(fits, at_.fault(fault), b.zext(given, I64))


def _tuple(
    frame: GraphFrame,
    value: Value,
    info: TupleStructInfo,
    at_: CheckedValue,
    known: StructInfo,
    phase: Phase,
    bound: set[tuple[str, int]],
) -> Step[None]:
    count = len(info.fields)
    facts = known.fields if isinstance(known, TupleStructInfo) else ()
    if phase is not Phase.COMPARE:
        if not isinstance(known, TupleStructInfo):
            require_kind(frame, value, [at.TUPLE], at_)
        if len(facts) != count:
            facts = ()
            length = frame.word(value, at.LENGTH)
            fits = frame.b.icmp("eq", length, const(I64, count))
            fault = faults.wrong_length(at_.span, at_.where, count)
            frame.require(fits, at_.fault(fault), length)
    elif len(facts) != count:
        facts = ()
    for index, wanted in enumerate(info.fields):
        if isinstance(wanted, ObjectStructInfo):
            continue
        field = frame.word(value, at.ITEMS + 8 * index, PTR)
        fact = facts[index] if facts else OBJECT
        yield match(frame, field, wanted, at_.field(index), fact, phase, bound)


# -- tensors and shapes ------------------------------------------------------------------------
def _tensor(
    frame: GraphFrame,
    value: Value,
    info: TensorStructInfo,
    at_: CheckedValue,
    known: StructInfo,
    phase: Phase,
    bound: set[tuple[str, int]],
) -> Step[None]:
    fact = known if isinstance(known, TensorStructInfo) else TensorStructInfo()
    if phase is not Phase.COMPARE:
        if not isinstance(known, TensorStructInfo):
            require_kind(frame, value, [at.TENSOR], at_)
        _header(frame, value, info, fact, at_)
        if info.vdevice is not None and not is_cpu(info.vdevice):
            frame.require(FALSE, faults.no_such_device(at_.span, str(info.vdevice.target)))
    if isinstance(info.shape, ShapeExpr):
        data = place(frame.b, value, at.TENSOR_DLTENSOR + dl.DLTENSOR_SHAPE)
        dims = info.shape.values
        yield _extents(frame, data, dims, fact.dims, at_, phase, bound, is_tensor=True)
    elif isinstance(info.shape, Var) and phase is not Phase.BIND and info.shape in frame.values:
        _compare_shape(frame, value, info.shape, at_)


def _header(
    frame: GraphFrame,
    value: Value,
    info: TensorStructInfo,
    fact: TensorStructInfo,
    at_: CheckedValue,
) -> None:
    """Check dtype and rank, which are adjacent in memory."""
    b = frame.b
    rank = info.ndim if fact.ndim != info.ndim else -1
    dtype = info.dtype if fact.dtype is not info.dtype else VOID
    if rank < 0 and dtype is VOID:
        return
    word = frame.word(value, at.TENSOR_DLTENSOR + dl.DLTENSOR_NDIM)
    if dtype is not VOID:
        upper = b.lshr(word, const(I64, 32))
        fits = b.icmp("eq", upper, const(I64, dtype_word(dtype)))
        fault = faults.wrong_dtype(at_.span, at_.where, dtype)
        require_dtype(frame, fits, at_.fault(fault), upper)
    if rank >= 0:
        given = b.and_(word, const(I64, 0xFFFFFFFF))
        fault = faults.wrong_rank(at_.span, at_.where, rank)
        frame.require(b.icmp("eq", given, const(I64, rank)), at_.fault(fault), given)


def require_dtype(frame: GraphFrame, fits: Value, fault: Fault, word: Value) -> None:
    """Go on if ``fits``; else stop with a fault that names the dtype."""
    b = frame.b
    fine, bad = b.append("fine"), b.append("dtype")
    b.condbr(fits, fine, bad, meta=frame.unit.faults.rare())
    b.position_at_end(bad)
    frame.stop(fault, b.call(frame.graph.object_function("loomir_dtype_place"), [word]))
    b.position_at_end(fine)


def _extents(
    frame: GraphFrame,
    where: Value,
    wanted: Sequence[PrimExpr],
    facts: Sequence[PrimExpr] | None,
    at_: CheckedValue,
    phase: Phase,
    bound: set[tuple[str, int]],
    *,
    is_tensor: bool,
) -> Step[None]:
    """Compare extents; ``where`` is the address of a pointer to them."""
    base: Value | None = None
    if facts is not None and len(facts) != len(wanted):
        facts = None
    for axis, expr in enumerate(wanted):
        binds = isinstance(expr, ShapeVar) and expr not in frame.env
        if not binds:
            proved = facts is not None and is_same(expr, facts[axis])
            if proved or phase is Phase.BIND or (at_.where, axis) in bound:
                continue
        if base is None:
            base = frame.b.load(PTR, where)
        extent = frame.b.load(I64, frame.b.gep(I64, base, const(I64, axis)))
        if binds:
            assert isinstance(expr, ShapeVar)
            frame.bind_size(expr, extent, extent=is_tensor)
            bound.add((at_.where, axis))
            continue
        value: Value = yield frame.value(expr)
        fault = faults.wrong_extent(
            at_.span, at_.where, axis, format_extent(expr), literal=isinstance(expr, IntImm)
        )
        frame.require(frame.b.icmp("eq", value, extent), at_.fault(fault), value, extent)


def _compare_shape(frame: GraphFrame, value: Value, var: Var, at_: CheckedValue) -> None:
    """Compare a tensor's extents with those of a shape that a variable holds."""
    b = frame.b
    shape = frame.read_var(var)
    length = frame.word(shape, at.LENGTH)
    tensor = at.TENSOR_DLTENSOR
    rank = b.zext(frame.word(value, tensor + dl.DLTENSOR_NDIM, I32), I64)
    fault = faults.wrong_rank(at_.span, at_.where, -1)
    parts = (f"{at_.where} must have as many axes as {var.name_hint}: ", 1, ", not ", 0)
    fault = Fault(fault.kind, parts, fault.span, help="reshape it", code=fault.code)
    frame.require(b.icmp("eq", length, rank), at_.fault(fault), rank, length)
    extents = frame.word(value, tensor + dl.DLTENSOR_SHAPE, PTR)
    head, one, fine, done = (b.append(n) for n in ("head", "one", "fine", "done"))
    start = b.block
    b.br(head)
    b.position_at_end(head)
    i = b.phi(I64, "axis")
    i.add(const(I64, 0), start)
    b.condbr(b.icmp("slt", i, length), one, done)
    b.position_at_end(one)
    wanted = b.load(I64, b.gep(I64, place(b, shape, at.ITEMS), i))
    extent = b.load(I64, b.gep(I64, extents, i))
    bad = b.append("fault")
    b.condbr(b.icmp("eq", wanted, extent), fine, bad, meta=frame.unit.faults.rare())
    b.position_at_end(bad)
    wrong = faults.wrong_extent(at_.span, at_.where, 0, var.name_hint)
    parts = (f"{at_.where}, axis ", 2, ": the extent must be ", 0, f" ({var.name_hint}), not ", 1)
    frame.stop(
        at_.fault(Fault(wrong.kind, parts, wrong.span, help=wrong.help, code=wrong.code)),
        wanted,
        extent,
        i,
    )
    b.position_at_end(fine)
    i.add(b.add(i, const(I64, 1)), fine)
    b.br(head)
    b.position_at_end(done)


def extents_at(frame: GraphFrame, value: Value, rank: int) -> list[Value]:
    """Read the extents of a tensor of known rank."""
    b = frame.b
    base = frame.word(value, at.TENSOR_DLTENSOR + dl.DLTENSOR_SHAPE, PTR)
    return [b.load(I64, b.gep(I64, base, const(I64, i))) for i in range(rank)]


def _shape(
    frame: GraphFrame,
    value: Value,
    info: ShapeStructInfo,
    at_: CheckedValue,
    known: StructInfo,
    phase: Phase,
    bound: set[tuple[str, int]],
) -> Step[None]:
    fact = known if isinstance(known, ShapeStructInfo) else ShapeStructInfo()
    if phase is not Phase.COMPARE:
        if not isinstance(known, ShapeStructInfo):
            require_kind(frame, value, [at.SHAPE], at_)
        if info.ndim not in (-1, fact.ndim):
            length = frame.word(value, at.LENGTH)
            fits = frame.b.icmp("eq", length, const(I64, info.ndim))
            fault = faults.wrong_rank(at_.span, at_.where, info.ndim, shape=True)
            frame.require(fits, at_.fault(fault), length)
    if info.values is not None:
        pointer = frame.b.alloca(PTR, hint="extents")
        frame.b.store(place(frame.b, value, at.ITEMS), pointer)
        dims = info.values
        yield _extents(frame, pointer, dims, fact.values, at_, phase, bound, is_tensor=False)


def is_same(a: PrimExpr, b: PrimExpr) -> bool:
    """Tell whether two extents are certainly equal."""
    if a is b:
        return True
    if isinstance(a, IntImm) and isinstance(b, IntImm):
        return a.value == b.value
    if isinstance(a, (ShapeVar, IntImm)) and isinstance(b, (ShapeVar, IntImm)):
        return False
    return Analyzer().can_prove_equal(a, b)


# -- scalars -----------------------------------------------------------------------------------
def _scalar(
    frame: GraphFrame,
    value: Value,
    info: PrimStructInfo,
    at_: CheckedValue,
    known: StructInfo,
    phase: Phase,
    bound: set[tuple[str, int]],
) -> Step[None]:
    fact = known if isinstance(known, PrimStructInfo) else None
    if phase is not Phase.COMPARE:
        if fact is None:
            require_kind(frame, value, [at.PRIM], at_)
        if fact is None or fact.dtype is not info.dtype:
            _scalar_dtype(frame, value, info.dtype, at_)
    expr = info.value
    if expr is None:
        return
    if isinstance(expr, ShapeVar) and expr not in frame.env:
        frame.bind_size(expr, unbox(frame, value, expr.dtype))
        bound.add((at_.where, -1))
        return
    proved = fact is not None and fact.value is not None and is_same(expr, fact.value)
    if phase is Phase.BIND or proved or (at_.where, -1) in bound:
        return
    wanted: Value = yield frame.value(expr)
    given = unbox(frame, value, expr.dtype)
    _require_number(frame, expr, wanted, given, at_)


def _scalar_dtype(frame: GraphFrame, value: Value, dtype: DataType, at_: CheckedValue) -> None:
    """Check the dtype of a scalar; a Python number is converted to it."""
    b = frame.b
    word = frame.word(value, at.DTYPE_WORD)
    fine, other, plain, bad = (b.append(n) for n in ("fine", "other", "plain", "dtype"))
    fits = b.icmp("eq", word, const(I64, dtype_word(dtype)))
    flags = b.and_(frame.word(value, at.FLAGS, I32), const(I32, at.UNTYPED))
    typed = b.icmp("eq", flags, const(I32, 0))
    b.condbr(b.and_(fits, typed), fine, other, meta=frame.unit.faults.rare())
    b.position_at_end(other)
    b.condbr(typed, bad, plain)
    b.position_at_end(plain)
    passed = [value, frame.graph.dtype(dtype), frame.graph.text(at_.where)]
    slot = builtin(frame, "number", passed, at_.span)
    taken = unbox(frame, frame.read(slot), BOOL)
    frame.release(slot)
    b.condbr(taken, fine, bad)
    b.position_at_end(bad)
    fault = faults.wrong_dtype(at_.span, at_.where, dtype, scalar=True)
    frame.stop(at_.fault(fault), frame.dtype_place(word))
    b.position_at_end(fine)


def _require_number(
    frame: GraphFrame, expr: PrimExpr, wanted: Value, given: Value, at_: CheckedValue
) -> None:
    b, dtype = frame.b, expr.dtype
    if dtype.is_float:
        # A required NaN is compared by its bits; zeros of both signs are equal.
        both = b.and_(compare(b, NE, dtype, wanted, wanted), compare(b, NE, dtype, given, given))
        fits = b.or_(compare(b, Eq, dtype, wanted, given), both)
        frame.require(fits, at_.fault(faults.wrong_float(at_.span, at_.where, format_extent(expr))))
        return
    wide = [_wide(frame, v, dtype) for v in (wanted, given)]
    fault = faults.wrong_number(
        at_.span, at_.where, format_extent(expr), literal=isinstance(expr, IntImm)
    )
    frame.require(b.icmp("eq", *wide), at_.fault(fault), *wide)


def _wide(frame: GraphFrame, value: Value, dtype: DataType) -> Value:
    if value.type is I64:
        return value
    return frame.b.sext(value, I64) if dtype.is_int else frame.b.zext(value, I64)


# -- functions ---------------------------------------------------------------------------------
def _function(
    frame: GraphFrame, value: Value, info: FuncStructInfo, at_: CheckedValue, known: StructInfo
) -> Step[None]:
    if info.params is None:
        if not (isinstance(known, FuncStructInfo) and known.params is None):
            require_kind(frame, value, [at.PACKED], at_)
        return
    if known is info:
        return
    require_kind(frame, value, [at.CLOSURE], at_)
    b = frame.b
    variables = tuple(dict.fromkeys(v for v in shape_vars(info) if v in frame.env))
    check = frame.graph.add_check(FunctionCheck(info, variables, at_.where, at_.span, at_.claim))
    given = frame.word(value, at.INFO, PTR)
    # Without shape variables, a function that fits once always fits.
    last = frame.graph.variable(f"fits.{check}")
    test, done = b.append("test"), b.append("fits")
    if variables:
        b.br(test)
    else:
        b.condbr(b.icmp("eq", b.load_atomic(PTR, last, "monotonic"), given), done, test)
    b.position_at_end(test)
    since = len(frame.temporary)
    passed = [value, frame.graph.prim(_INT64, check)]
    passed += [box(frame, frame.lookup(v), v.dtype, at_.span) for v in variables]
    frame.release(builtin(frame, "match_function", passed, at_.span))
    frame.drop_temporary(since)
    fixed = b.icmp("ne", frame.word(given, at.INFO_FIXED), const(I64, 0))
    b.store_atomic(b.select(fixed, given, NULL), last, "monotonic")
    b.br(done)
    b.position_at_end(done)
    return
    yield
