"""Assignments in TIR, which bind a name, set a mutable local, or declare something."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, Final, cast

from loomir.ir.node import reset
from loomir.script.builder.arguments import as_expr, as_stored
from loomir.script.builder.buffer_spec import BufferSpec
from loomir.script.builder.frame import Frame
from loomir.script.builder.mistakes import mistake
from loomir.script.builder.tir.blocks import SBlockFrame
from loomir.script.builder.tir.buffers import local_scalar
from loomir.script.builder.tir.scopes import (
    DeclBufferFrame,
    EnvThread,
    LetFrame,
    MetaVar,
    RestFrame,
    fresh_for,
    require_indices,
    store,
)
from loomir.script.parser import doc
from loomir.script.parser.core import Parser
from loomir.script.parser.evaluate.captured_names import ForeignValue
from loomir.script.parser.evaluate.operators import is_expr, kind
from loomir.script.parser.evaluate.var_table import Entry, MutableLocal
from loomir.script.parser.places import blame
from loomir.support.diagnostics import CompileError
from loomir.support.span import Span
from loomir.tir.analysis.effects import reads_memory
from loomir.tir.buffer import Buffer, BufferLoad, BufferRegion
from loomir.tir.expr import IntImm, PrimExpr, Var

__all__ = [
    "FIXED",
    "bind_assign_value",
    "bind_for_value",
    "bind_item",
    "bind_let_value",
    "bind_name",
    "bind_with_value",
    "check_rebinding",
    "give_name",
    "list_reassigned_names",
    "list_typed_locals",
    "local_of",
    "name_reads",
    "store_local",
]

FIXED: Final = ("parameter", "loop variable", "let", "outer local")
"""The kinds of names that are not assigned again."""


def list_reassigned_names(body: Sequence[doc.StmtNode]) -> frozenset[str]:
    """List the names that are assigned more than once; they become mutable locals (S11)."""
    counts: Counter[str] = Counter()
    stack: list[doc.AST] = list(body)
    while stack:
        node = stack.pop()
        if isinstance(node, doc.Assign):
            targets: list[doc.AST] = list(node.targets)
            while targets:
                target = targets.pop()
                if isinstance(target, doc.Name):
                    counts[target.id] += 1
                elif isinstance(target, (doc.Tuple, doc.List)):
                    targets.extend(target.elts)
        elif isinstance(node, doc.AugAssign) and isinstance(node.target, doc.Name):
            counts[node.target.id] += 2
        for name in ("body", "orelse"):
            stack.extend(getattr(node, name, ()))
    return frozenset(name for name, count in counts.items() if count > 1)


def list_typed_locals(body: Sequence[doc.StmtNode]) -> frozenset[int]:
    """List the statements ``x: T.int32 = …``, by ``id``, after which the name is assigned again.

    They are followed by an assignment to the name in the same body, or in one inside of it.
    """
    found: set[int] = set()
    bodies: list[Sequence[doc.AST]] = [body]
    while bodies:
        later: set[str] = set()
        here = bodies.pop()
        is_typed = any(isinstance(node, doc.AnnAssign) for node in here)
        for node in reversed(here):
            if isinstance(node, doc.AnnAssign) and isinstance(node.target, doc.Name):
                if node.target.id in later:
                    found.add(id(node))
                continue
            if is_typed:
                later |= _list_assigned(node)
            bodies += [getattr(node, name, ()) for name in ("body", "orelse")]
    return frozenset(found)


def _list_assigned(node: doc.AST) -> set[str]:
    """List the names that a statement assigns, with those of the statements in it."""
    names: set[str] = set()
    stack: list[doc.AST] = [node]
    while stack:
        part = stack.pop()
        if isinstance(part, (doc.Assign, doc.AugAssign)):
            targets = part.targets if isinstance(part, doc.Assign) else [part.target]
            names |= {target.id for target in targets if isinstance(target, doc.Name)}
        for name in ("body", "orelse"):
            stack.extend(getattr(part, name, ()))
    return names


def give_name(value: Any, name: str) -> Any:
    """Return a variable or buffer that has no name yet the one it is assigned to."""
    if isinstance(value, Var):
        if not value.name_hint:
            reset(value, "name_hint", name)
    elif isinstance(value, Buffer) and not value.name:
        reset(value, "name", name)
        if not value.data.name_hint:
            reset(value.data, "name_hint", name)
        if isinstance(value.elem_offset, Var) and not value.elem_offset.name_hint:
            reset(value.elem_offset, "name_hint", f"{name}_elem_offset")
    return value


def check_rebinding(
    parser: Parser, name: str, span: Span, kinds: Sequence[str] = FIXED[:2]
) -> None:
    """Refuse another meaning for a parameter or a loop variable, and on request an annotated name.

    Errors: SCR0016.
    """
    entry = parser.vars.get(name)
    if entry is None or entry.kind not in kinds:
        return
    if entry.kind == "let":
        raise mistake(
            "SCR0016",
            f"{name!r} is bound with a type and cannot be assigned again",
            help=f"leave the type out at first, and {name} becomes a local variable",
            span=span,
        )
    if entry.kind == "outer local":
        raise mistake(
            "SCR0016",
            f"{name!r} is a variable of the function around the macro",
            help="write @T.macro(hygienic=False), or store in a buffer that is passed in",
            span=span,
        )
    article = "an" if entry.kind == "axis" else "a"
    raise mistake(
        "SCR0016",
        f"{name!r} is {article} {entry.kind} and cannot be bound again",
        help=f"to store, write {name}[…] = value; to bind, use another name"
        if isinstance(entry.value, Buffer)
        else "use another name",
        span=span,
    )


def bind_name(parser: Parser, name: str, value: object, kind_: str, span: Span) -> None:
    """Bind a name in the innermost scope; ``_`` binds nothing."""
    if name != "_":
        parser.vars.add(name, Entry(value, kind_, span))


def bind_for_value(parser: Parser, name: str, value: object, span: Span) -> None:
    """Bind a loop variable."""
    bind_name(parser, name, value, "loop variable", span)


def bind_item(parser: Parser, target: doc.ExprNode, value: object) -> None:
    """Bind one of the plain values that a loop goes through."""
    _unpack(parser, target, value, _bind_item)


def _bind_item(parser: Parser, target: doc.Name, value: object, span: Span) -> None:
    bind_for_value(parser, target.id, value, span)


def bind_with_value(parser: Parser, target: doc.ExprNode, value: object) -> None:
    """Bind what a ``with`` gives."""
    _unpack(parser, target, value, _bind_with)


def _bind_with(parser: Parser, target: doc.Name, value: object, span: Span) -> None:
    check_rebinding(parser, target.id, target.span)
    bind_name(parser, target.id, give_name(value, target.id), "value", target.span)


def bind_assign_value(parser: Parser, target: doc.ExprNode, value: object, span: Span) -> None:
    """Bind what a name is assigned, store what an element is."""
    _unpack(parser, target, value, _bind_assign, span)


def name_reads(parser: Parser, targets: Sequence[doc.ExprNode], value: object, span: Span) -> Any:
    """Name what an assignment of several parts reads before the first part is stored.

    Python evaluates the whole right side first: ``x[0], x[1] = x[1], x[0]`` swaps. Only values that
    a store before them could change get a name.
    """
    parts: list[doc.ExprNode] = []
    stack: list[Any] = list(reversed(targets))
    while stack:
        target = stack.pop()
        if isinstance(target, (doc.Tuple, doc.List)):
            stack.extend(reversed(target.elts))
        else:
            parts.append(target)
    if not any(_stores(parser, part) for part in parts[:-1]):
        return value
    return _name_reads(parser, value, span)


def _stores(parser: Parser, target: doc.ExprNode) -> bool:
    """Whether assigning a target writes memory that an expression may read."""
    if isinstance(target, doc.Name):
        entry = parser.vars.get(target.id)
        return entry is not None and isinstance(entry.value, MutableLocal)
    return isinstance(target, doc.Subscript)


def _name_reads(parser: Parser, value: Any, span: Span) -> Any:
    """Name each part of a value that reads memory."""
    if type(value) in (tuple, list):
        return type(value)(_name_reads(parser, part, span) for part in value)
    if isinstance(value, (PrimExpr, BufferRegion)) and reads_memory(made := as_expr(value)):
        var = fresh_for(made, "saved")
        reset(var, "span", span)
        parser.open(LetFrame(var, made), span)
        return var
    return value


def _unpack(
    parser: Parser, target: doc.ExprNode, value: Any, bind: Any, span: Span | None = None
) -> None:
    """Match a target with a value: tuples part by part.

    Errors: SCR0027 where they have different lengths.
    """
    if isinstance(target, doc.Name):
        bind(parser, target, value, span or target.span)
    elif isinstance(target, doc.Subscript) and span is not None:
        parser.builder.emit(_store(parser, target, value, span))
    elif isinstance(target, (doc.Tuple, doc.List)):
        starred = [part for part in target.elts if isinstance(part, doc.Starred)]
        if starred:
            raise mistake(
                "SCR0027",
                "a starred name takes no values",
                help="write a name for each value",
                span=starred[0].span,
            )
        if isinstance(value, MetaVar):
            inner: Any = value.value
            value = tuple(map(MetaVar, inner)) if type(inner) in (tuple, list) else inner
        many = type(value) in (tuple, list)
        values: list[Any] = list(value) if many else [value]
        if not many and len(target.elts) != 1:
            raise mistake(
                "SCR0027",
                f"{kind(value)} cannot be unpacked into {len(target.elts)} names",
                help="assign it to one name",
                span=target.span,
            )
        if len(values) != len(target.elts):
            raise mistake(
                "SCR0027",
                f"{len(values)} values cannot be unpacked into {len(target.elts)} names",
                help=f"write {len(values)} names",
                span=target.span,
            )
        for part, item in zip(target.elts, values, strict=True):
            _unpack(parser, part, item, bind, span)
    else:
        raise mistake(
            "SCR0027",
            "only names and elements of buffers can be assigned",
            help="assign to a name, or to A[i]",
            span=target.span,
        )


def _bind_assign(parser: Parser, target: doc.Name, value: object, span: Span) -> None:
    name = target.id
    entry = parser.vars.get(name)
    check_rebinding(parser, name, target.span, FIXED)
    if entry is not None and entry.kind == "axis":
        # The axis of a block inside of another may be called as one around it.
        is_inner = _is_axis_of_block(parser, value) and not _is_axis_of_block(parser, entry.value)
        if not is_inner:
            check_rebinding(parser, name, target.span, ("axis",))
    if isinstance(value, EnvThread):
        value.name = name
        bind_name(parser, name, value, "thread", target.span)
    elif isinstance(value, RestFrame):
        made = parser.open(value, span)
        if made is None:
            raise _not_assignable(value, span)
        bind_name(parser, name, give_name(made, name), "value", target.span)
    elif isinstance(value, BufferSpec):
        bind_name(parser, name, _declare(parser, value, name, span), "buffer", target.span)
    elif isinstance(value, Frame) or value is None or isinstance(value, ForeignValue):
        raise _not_assignable(cast("object", value), span)
    elif isinstance(value, MetaVar):
        bind_name(parser, name, value.value, "alias", target.span)
    elif _declares_again(entry, value, target):
        pass
    elif _declares(value):
        kind_ = "axis" if _is_axis_of_block(parser, value) else "declaration"
        bind_name(parser, name, give_name(value, name), kind_, target.span)
    elif not is_expr(value) and not isinstance(value, (bool, int, float)):
        bind_name(parser, name, _name_reads(parser, value, span), "alias", target.span)
    elif entry is not None and isinstance(entry.value, MutableLocal):
        store_local(parser, entry.value, value, span)
    else:
        _bind_value(parser, name, as_expr(value), span, target.span)


def _is_axis_of_block(parser: Parser, value: object) -> bool:
    """Whether a value is an axis of the innermost block."""
    block = parser.builder.find(SBlockFrame)
    return block is not None and any(axis.var is value for axis in block.iter_vars)


def _declares(value: object) -> bool:
    """Whether a value is a variable or buffer that waits for its name."""
    return (isinstance(value, Var) and not value.name_hint) or isinstance(value, Buffer)


def _declares_again(entry: Entry | None, value: object, target: doc.Name) -> bool:
    """Whether ``n = T.int32()`` names a variable that a shape above has declared.

    Errors: SCR0026 where the dtypes differ.
    """
    if entry is None or entry.kind != "shape" or not (isinstance(value, Var) and _declares(value)):
        return False
    known = cast("Var", entry.value)
    if known.dtype is not value.dtype:
        raise mistake(
            "SCR0026",
            f"{target.id!r} already names an extent, an {known.dtype}",
            label=f"this is {value.dtype}",
            help=f"write T.{known.dtype}(), or choose another name",
            span=target.span,
        )
    return True


def _not_assignable(value: object, span: Span) -> CompileError:
    if isinstance(value, Frame):
        return mistake(
            "SCR0013",
            "this opens a scope, and gives no value to assign",
            help="write it after `with` or `for … in`",
            span=span,
        )
    return mistake(
        "SCR0025",
        f"{kind(value)} is not a value that a name can be bound to",
        help="use a number, a buffer, or an expression of the program",
        span=span,
    )


def _declare(parser: Parser, spec: BufferSpec, name: str, span: Span) -> Buffer:
    if spec.data is None:
        raise mistake(
            "SCR0015",
            "T.Buffer only describes a parameter",
            help="allocate with T.alloc_buffer(shape, dtype), or give data= for existing memory",
            span=span,
        )
    return parser.open(DeclBufferFrame(spec.make(name, {}, span), owns=False), span)


def _bind_value(parser: Parser, name: str, value: PrimExpr, span: Span, at: Span) -> None:
    state = parser.function
    if state is not None and name in state.reassigned:
        buffer = give_name(local_scalar(value.dtype), name)
        parser.open(DeclBufferFrame(buffer, owns=True), span)
        local = MutableLocal(buffer)
        store_local(parser, local, value, span)
        bind_name(parser, name, local, "local", at)
    else:
        var = fresh_for(value, name)
        reset(var, "span", at)
        parser.open(LetFrame(var, value), span)
        bind_name(parser, name, var, "value", at)


def local_of(parser: Parser, node: doc.AnnAssign, var: Var) -> MutableLocal | None:
    """Make the local variable that a name with a type is; None if it is only bound.

    Errors: SCR0015 for a pointer, which no local variable holds.
    """
    state = parser.function
    target = cast("doc.Name", node.target)
    entry = parser.vars.get(target.id)
    if entry is not None and isinstance(entry.value, MutableLocal):
        return entry.value if entry.value.buffer.dtype is var.dtype else None
    if state is None or id(node) not in state.typed:
        return None
    if var.dtype.is_handle:
        raise mistake(
            "SCR0015",
            f"{target.id!r} is a pointer, and is assigned again",
            help="use a name for each pointer",
            span=node.annotation.span,
        )
    buffer = give_name(local_scalar(var.dtype), target.id)
    parser.open(DeclBufferFrame(buffer, owns=True), node.span)
    local = MutableLocal(buffer)
    bind_name(parser, target.id, local, "local", target.span)
    return local


def bind_let_value(
    parser: Parser, target: doc.Name, var: Var | None, value: object, span: Span
) -> None:
    """Bind a name to a value for the rest of the scope; without a variable, of the value's type."""
    if var is None:
        var = fresh_for(as_expr(value), target.id)
        reset(var, "span", target.span)
    made = as_expr(value) if var.dtype.is_handle else as_stored(value, var.dtype)
    if made.dtype is not var.dtype:
        raise mistake(
            "TIR0201",
            f"variable {target.id!r} is {var.dtype}, its value {made.dtype}",
            help=f"cast the value with T.cast(…, {str(var.dtype)!r})",
        )
    parser.open(LetFrame(var, made), span)
    bind_name(parser, target.id, var, "let", target.span)


def store_local(parser: Parser, local: MutableLocal, value: object, span: Span) -> None:
    """Assign a mutable local."""
    buffer: Any = local.buffer
    place = BufferLoad(buffer, (IntImm(0, buffer.shape[0].dtype),))
    made = store(place, value)
    reset(made, "span", span)
    parser.builder.emit(made)


def _store(parser: Parser, target: doc.Subscript, value: object, span: Span) -> Any:
    place = parser.evaluate(target)
    return store_at(place, value, target, span)


def store_at(place: object, value: object, target: doc.Subscript, span: Span) -> Any:
    """Make the store to an element or a slice.

    Errors: SCR0008 for what is not a buffer.
    """
    if not isinstance(place, (BufferLoad, BufferRegion)):
        raise mistake(
            "SCR0008",
            "only elements of buffers can be assigned",
            help="allocate a buffer with T.alloc_buffer",
            span=target.span,
        )
    try:
        require_indices(place)
    except CompileError as error:
        raise blame(error, target.span, (place,), (target,)) from error
    made = store(place, value)
    reset(made, "span", span)
    return made
