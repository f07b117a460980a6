"""Print TIR expressions, and the parts of statements with the same syntax.

Text must parse back to the same node. A plain number is int32 and takes part in Python's own
arithmetic, so if all operands are plain, the first is printed with its dtype; other constants
always are.
"""

from __future__ import annotations

import math
from typing import Final

from loomir.ir.equality import structural_equal
from loomir.ir.module import GlobalVar
from loomir.ir.op import Op
from loomir.ir.visit import Step
from loomir.script.printer.doc import (
    DictDoc,
    ExprDoc,
    IdDoc,
    ListDoc,
    LiteralDoc,
    OperationDoc,
    SliceDoc,
    TupleDoc,
)
from loomir.script.printer.docsifier import Docsifier, expr_handler, leaf_handler
from loomir.script.printer.tir.buffer import buffer_doc
from loomir.script.printer.values import I, T, declaration, dtype_doc, print_typed, text
from loomir.support.diagnostics import CompileError
from loomir.support.dtype import DataType
from loomir.tir.buffer import BufferLoad, BufferRegion, Range
from loomir.tir.builtins.calls import OUTSIDE, mistake_of
from loomir.tir.builtins.device import COMM_REDUCER, DEVICE, dtype_given
from loomir.tir.builtins.llvm_intrinsics import LLVM, mistake_of_llvm
from loomir.tir.builtins.table import BUILTINS, call_builtin
from loomir.tir.expr import (
    GE,
    GT,
    LE,
    LT,
    NE,
    Add,
    And,
    Broadcast,
    Call,
    Cast,
    Div,
    Eq,
    FloatImm,
    FloorDiv,
    FloorMod,
    IntImm,
    Let,
    Max,
    Min,
    Mod,
    Mul,
    Not,
    Or,
    PrimExpr,
    Ramp,
    Select,
    Shuffle,
    StringImm,
    Sub,
    Var,
)
from loomir.tir.function import PrimFunc
from loomir.tir.types import dtype_of_type

__all__ = [
    "FUNCTIONS",
    "OPERATORS",
    "SYMBOLS",
    "condition",
    "declare_var",
    "domain",
    "index_docs",
    "slice_of",
]

_INT32: Final = DataType("int32")
SYMBOLS: Final[dict[type, str]] = {
    Add: "+",
    Sub: "-",
    Mul: "*",
    Div: "/",
    FloorDiv: "//",
    FloorMod: "%",
    Eq: "==",
    NE: "!=",
    LT: "<",
    LE: "<=",
    GT: ">",
    GE: ">=",
    And: "and",
    Or: "or",
}
FUNCTIONS: Final[dict[type, str]] = {Min: "min", Max: "max", Mod: "truncmod"}
OPERATORS: Final = {
    "bitwise_and": "&",
    "bitwise_or": "|",
    "bitwise_xor": "^",
    "bitwise_not": "~",
    "shift_left": "<<",
    "shift_right": ">>",
}


def _is_plain(doc: ExprDoc) -> bool:
    return isinstance(doc, LiteralDoc) and doc.is_number


def _anchor(*docs: ExprDoc) -> tuple[ExprDoc, ...]:
    """Return the operands with a dtype on the first where all are plain numbers."""
    if docs and all(_is_plain(doc) for doc in docs):
        return (T.attr("int32").call(docs[0]), *docs[1:])
    return docs


def _docs(d: Docsifier, nodes: tuple[PrimExpr, ...]) -> Step[tuple[ExprDoc, ...]]:
    docs: list[ExprDoc] = []
    for node in nodes:
        docs.append((yield d.expr(node)))
    return tuple(docs)


# -- leaves ------------------------------------------------------------------------------------


@leaf_handler("tir", Var)
def _var(d: Docsifier, node: Var) -> ExprDoc:
    return d.name_of(node, node.name_hint)


@leaf_handler("tir", IntImm)
def _int(d: Docsifier, node: IntImm) -> ExprDoc:
    return LiteralDoc(node.value) if node.dtype is _INT32 else print_typed(node.value, node.dtype)


@leaf_handler("tir", FloatImm)
def _float(d: Docsifier, node: FloatImm) -> ExprDoc:
    value = node.value
    plain = LiteralDoc(value) if math.isfinite(value) else text(str(value))
    return T.attr(str(node.dtype)).call(plain)


@leaf_handler("tir", StringImm)
def _string(d: Docsifier, node: StringImm) -> ExprDoc:
    return text(node.value)


@leaf_handler("default", GlobalVar)
def _global_var(d: Docsifier, node: GlobalVar) -> ExprDoc:
    known = d.functions.get(node.name_hint)
    return I.attr("GlobalVar").call(text(node.name_hint)) if known is None else known.doc


@leaf_handler("default", Op)
def _op(d: Docsifier, node: Op) -> ExprDoc:
    return text(node.name)


# -- operators ---------------------------------------------------------------------------------


@expr_handler("tir", *SYMBOLS)
def _binary(d: Docsifier, node: Add) -> Step[ExprDoc]:
    a = yield d.expr(node.a)
    b = yield d.expr(node.b)
    return OperationDoc(SYMBOLS[type(node)], _anchor(a, b))


@expr_handler("tir", *FUNCTIONS)
def _function(d: Docsifier, node: Min) -> Step[ExprDoc]:
    a = yield d.expr(node.a)
    b = yield d.expr(node.b)
    return T.attr(FUNCTIONS[type(node)]).call(*_anchor(a, b))


@expr_handler("tir", Not)
def _not(d: Docsifier, node: Not) -> Step[ExprDoc]:
    return OperationDoc("not", ((yield d.expr(node.a)),))


# -- other expressions -------------------------------------------------------------------------


@expr_handler("tir", Cast)
def _cast(d: Docsifier, node: Cast) -> Step[ExprDoc]:
    return T.attr("Cast").call(dtype_doc(node.dtype), (yield d.expr(node.value)))


@expr_handler("tir", Select)
def _select(d: Docsifier, node: Select) -> Step[ExprDoc]:
    docs = yield _docs(d, (node.condition, node.true_value, node.false_value))
    return T.attr("Select").call(*docs)


@expr_handler("tir", Ramp)
def _ramp(d: Docsifier, node: Ramp) -> Step[ExprDoc]:
    docs = yield _docs(d, (node.base, node.stride))
    return T.attr("Ramp").call(*docs, LiteralDoc(node.lanes))


@expr_handler("tir", Broadcast)
def _broadcast(d: Docsifier, node: Broadcast) -> Step[ExprDoc]:
    return T.attr("Broadcast").call((yield d.expr(node.value)), LiteralDoc(node.lanes))


@expr_handler("tir", Shuffle)
def _shuffle(d: Docsifier, node: Shuffle) -> Step[ExprDoc]:
    vectors = yield _docs(d, node.vectors)
    indices = yield _docs(d, node.indices)
    return T.attr("Shuffle").call(ListDoc(vectors), ListDoc(indices))


@expr_handler("tir", Let)
def _let(d: Docsifier, node: Let) -> Step[ExprDoc]:
    value = yield d.expr(node.value)
    var = d.find_known(node.var) or declare_var(d, node.var)
    body = yield d.expr(node.body)
    return T.attr("Let").call(body, where=DictDoc(((var, value),)))


def declare_var(d: Docsifier, var: Var) -> IdDoc:
    """Name a variable and emit the statement that declares it, as ``x = T.int32()``."""
    name = d.declare(var, var.name_hint)
    d.emit_declaration(name, declaration(var.type_annotation))
    return name


# -- calls -------------------------------------------------------------------------------------


@expr_handler("tir", Call)
def _call(d: Docsifier, node: Call) -> Step[ExprDoc]:
    args = yield _docs(d, node.args)
    if isinstance(node.op, GlobalVar):
        known = d.functions.get(node.op.name_hint)
        if (
            known is not None
            and isinstance(known.func, PrimFunc)
            and dtype_of_type(known.func.ret_type) is node.dtype
        ):
            return known.doc.call(*args)
        op = yield d.expr(node.op)
        return T.attr("Call").call(dtype_doc(node.dtype), op, ListDoc(args))
    if node.op in LLVM and mistake_of_llvm(node) is None:
        if node.dtype is not _INT32:  # where a plain number is read as of the call's dtype
            args = tuple([T.attr("int32").call(doc) if _is_plain(doc) else doc for doc in args])
        return T.attr(LLVM[node.op]).call(dtype_doc(node.dtype), *args)
    if node.op in OUTSIDE and mistake_of(node) is None:
        return _call_outside(node, args)
    if node.op in DEVICE:
        return _call_device(node, args)
    name = node.op.name.removeprefix("tir.")
    if not is_regular(name, node):
        return T.attr("Call").call(dtype_doc(node.dtype), text(node.op.name), ListDoc(args))
    if name in OPERATORS:
        return OperationDoc(OPERATORS[name], _anchor(*args))
    if BUILTINS[name].takes_dtype:
        args = (dtype_doc(node.dtype), *args)
    return T.attr(name).call(*_anchor(*args))


def _call_outside(node: Call, args: tuple[ExprDoc, ...]) -> ExprDoc:
    """Write a call of a packed function; its dtype where it is not the usual one."""
    assert isinstance(node.op, Op)
    row = OUTSIDE[node.op]
    if row.default is None:
        return T.attr(row.name).call(dtype_doc(node.dtype), *args)
    if node.dtype is row.default:
        return T.attr(row.name).call(*args)
    return T.attr(row.name).call(*args, dtype=dtype_doc(node.dtype))


def _call_device(node: Call, args: tuple[ExprDoc, ...]) -> ExprDoc:
    """Write an instruction of a GPU; its dtype where it is not the usual one."""
    assert isinstance(node.op, Op)
    row = DEVICE[node.op]
    callee: ExprDoc = T
    for part in row.name.split("."):
        callee = callee.attr(part)
    if node.op is COMM_REDUCER:
        return callee.call(args[0], ListDoc(args[1:]))
    if node.dtype is dtype_given(row, node.args):
        return callee.call(*args)
    return callee.call(*args, dtype=dtype_doc(node.dtype))


def is_regular(name: str, node: Call) -> bool:
    """Tell whether the table of builtins makes this very call of the arguments."""
    row = BUILTINS.get(name)
    if row is None or row.op is not node.op:
        return False
    try:
        return call_builtin(name, *node.args, dtype=node.dtype).dtype is node.dtype
    except (CompileError, IndexError):
        return False


# -- buffers and ranges ------------------------------------------------------------------------


@expr_handler("tir", BufferLoad)
def _load(d: Docsifier, node: BufferLoad) -> Step[ExprDoc]:
    items = yield index_docs(d, node.indices)
    return buffer_doc(d, node.buffer).index(items)


def index_docs(d: Docsifier, indices: tuple[PrimExpr, ...]) -> Step[tuple[ExprDoc, ...]]:
    """Ask for the documents of indices; a ramp of stride 1 in the last is a slice."""
    items: list[ExprDoc] = []
    for axis, index in enumerate(indices):
        last = axis == len(indices) - 1
        if last and isinstance(index, Ramp) and _is_const(index.stride, 1):
            extent = IntImm(index.lanes, index.base.dtype)
            items.append((yield slice_of(d, index.base, extent)))
        else:
            items.append((yield d.expr(index)))
    return tuple(items)


def _is_const(expr: PrimExpr, value: int) -> bool:
    return isinstance(expr, IntImm) and expr.value == value


def slice_of(d: Docsifier, start: PrimExpr, extent: PrimExpr) -> Step[ExprDoc]:
    """Ask for ``start:stop``, written so that it reads back as this start and extent."""
    found = yield _bounds(d, start, extent)
    if found is None:
        docs = yield _docs(d, (start, extent))
        return T.attr("Range").call(*docs)
    return SliceDoc(*found)


def domain(d: Docsifier, dom: Range) -> Step[ExprDoc]:
    """Ask for a domain: its extent where it starts at 0, else ``(begin, end)``."""
    start, extent = dom.min, dom.extent
    if extent is not None and _is_const(start, 0) and start.dtype is extent.dtype:
        return (yield d.expr(extent))
    found = None if extent is None else (yield _bounds(d, start, extent))
    if found is None:
        return (yield d.expr(dom))
    return TupleDoc(found)


def _bounds(
    d: Docsifier, start: PrimExpr, extent: PrimExpr
) -> Step[tuple[ExprDoc, ExprDoc] | None]:
    """Ask for begin and end; None if no pair reads back as this range."""
    dtype = start.dtype
    if extent.dtype is not dtype:
        return None
    if isinstance(start, IntImm) and isinstance(extent, IntImm):
        stop = start.value + extent.value
        if not dtype.min_value <= stop <= dtype.max_value:
            return None
        return (yield d.expr(start)), (yield d.expr(IntImm(stop, dtype)))
    begin = yield d.expr(start)
    if _is_const(start, 0):
        return begin, (yield d.expr(extent))
    if isinstance(extent, Sub) and _is_difference(extent, start):
        return begin, (yield d.expr(extent.a))
    # The parser reads `m:m + e` as extent e, whatever e is.
    again = yield d.expr(start)
    length = yield d.expr(extent)
    return begin, OperationDoc("+", _anchor(again, length))


def _is_difference(extent: Sub, start: PrimExpr) -> bool:
    """Tell whether ``start:extent.a`` reads back as this extent, which the parser may simplify."""
    if not structural_equal(extent.b, start):
        return False
    stop = extent.a
    if isinstance(stop, IntImm) and isinstance(start, IntImm):
        return False
    if isinstance(stop, Add) and structural_equal(stop.a, start):
        return False
    return not structural_equal(_base(stop), _base(start))


def _base(expr: PrimExpr) -> PrimExpr:
    """Return what a constant is added to or taken from, or the expression itself."""
    if isinstance(expr, (Add, Sub)) and isinstance(expr.b, IntImm):
        return expr.a
    return expr


@expr_handler("tir", Range)
def _range(d: Docsifier, node: Range) -> Step[ExprDoc]:
    parts = (node.min,) if node.extent is None else (node.min, node.extent)
    return T.attr("Range").call(*(yield _docs(d, parts)))


@expr_handler("tir", BufferRegion)
def _region(d: Docsifier, node: BufferRegion) -> Step[ExprDoc]:
    items: list[ExprDoc] = []
    for part in node.region:
        if part.extent is None:
            items.append((yield d.expr(part)))
        elif _is_const(part.extent, 1) and part.extent.dtype is part.min.dtype:
            items.append((yield d.expr(part.min)))
        else:
            items.append((yield slice_of(d, part.min, part.extent)))
    return buffer_doc(d, node.buffer).index(tuple(items))


def condition(d: Docsifier, expr: PrimExpr) -> Step[ExprDoc]:
    """Ask for a condition; a constant says its dtype, since a plain one decides while parsing."""
    if isinstance(expr, IntImm):
        return print_typed(expr.value, expr.dtype)
    return (yield d.expr(expr))
