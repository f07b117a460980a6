"""Print TIR statements other than blocks.

A node that scopes over the rest of its list is printed as a plain statement if it is the last one
there, and as ``with`` if others follow.
"""

from __future__ import annotations

from loomir.ir.equality import structural_equal
from loomir.ir.visit import Step, pre_order
from loomir.script.printer.doc import (
    AssertDoc,
    AssignDoc,
    CallDoc,
    ExprDoc,
    ExprStmtDoc,
    ForDoc,
    IdDoc,
    IfDoc,
    ListDoc,
    LiteralDoc,
    ReturnDoc,
    ScopeDoc,
    StmtDoc,
    WhileDoc,
)
from loomir.script.printer.docsifier import Docsifier, stmt_handler
from loomir.script.printer.tir.buffer import (
    bind_buffer,
    buffer_arguments,
    buffer_doc,
    declare_free,
    declare_pointer,
)
from loomir.script.printer.tir.expr import condition, declare_var, index_docs
from loomir.script.printer.tir.text import call_text, plain_text, store_text
from loomir.script.printer.values import T, dict_doc, dtype_doc, text, type_doc, value_doc
from loomir.tir.buffer import IterVar, IterVarType
from loomir.tir.builtins.table import BREAK_LOOP, CONTINUE_LOOP, RET
from loomir.tir.expr import Call, IntImm, PrimExpr, Var
from loomir.tir.stmt import (
    Allocate,
    AssertStmt,
    AttrStmt,
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
from loomir.tir.types import PointerType, PrimType

__all__: list[str] = []

_BINDING_KEYS = frozenset({"thread_extent", "virtual_thread"})


@stmt_handler("tir", SeqStmt)
def _seq(d: Docsifier, node: SeqStmt, tail: bool) -> Step[None]:
    last = len(node.seq) - 1
    for number, statement in enumerate(node.seq):
        if not _write_store(d, statement):
            yield d.stmt(statement, tail and number == last)


@stmt_handler("tir", Evaluate)
def _evaluate(d: Docsifier, node: Evaluate, tail: bool) -> Step[None]:
    value = node.value
    if isinstance(value, Call) and not value.args:
        jump = {id(BREAK_LOOP): "break", id(CONTINUE_LOOP): "continue"}.get(id(value.op))
        if jump is not None and value.dtype.is_void:
            d.emit(ExprStmtDoc(IdDoc(jump)))
            return
    if isinstance(value, Call) and value.op is RET and _gives_its_argument(value):
        d.emit(ReturnDoc((yield d.expr(value.args[0]))))
        return
    doc = yield d.expr(value)
    if not (isinstance(value, Call) and isinstance(doc, CallDoc)):
        doc = T.attr("evaluate").call(doc)
    d.emit(ExprStmtDoc(doc))


def _gives_its_argument(call: Call) -> bool:
    return len(call.args) == 1 and call.dtype is call.args[0].dtype


@stmt_handler("tir", BufferStore)
def _store(d: Docsifier, node: BufferStore, tail: bool) -> Step[None]:
    if not _write_store(d, node):
        value = yield d.expr(node.value)
        items = yield index_docs(d, node.indices)
        d.emit(AssignDoc(buffer_doc(d, node.buffer).index(items), value))


def _write_store(d: Docsifier, node: Stmt) -> bool:
    """Write a plain store at once, as most statements are; tell whether it was one."""
    if node.__class__ is not BufferStore:
        return False
    line = store_text(d, node)  # pyright: ignore[reportArgumentType]
    if line is None:
        return False
    d.emit(line)
    return True


# -- what scopes over the rest -------------------------------------------------------------------


@stmt_handler("tir", LetStmt)
def _let(d: Docsifier, node: LetStmt, tail: bool) -> Step[None]:
    value = yield d.expr(node.value)
    annotation = node.var.type_annotation
    if tail:
        name = d.define(node.var, node.var.name_hint)
        d.emit(AssignDoc(name, value, type_doc(annotation)))
        yield d.stmt(node.body, True)
        return
    made = node.value.type_annotation if isinstance(node.value, Var) else PrimType(node.value.dtype)
    if not structural_equal(annotation, made):
        call = T.attr("LetStmt").call(value, var=declare_var(d, node.var))
        d.emit(ScopeDoc(call, (yield d.body(node.body, "scope"))))
        return
    with d.frame("scope") as frame:
        name = d.define(node.var, node.var.name_hint)
        yield d.stmt(node.body, True)
    d.emit(ScopeDoc(T.attr("LetStmt").call(value), frame.statements, name))


@stmt_handler("tir", AssertStmt)
def _assert(d: Docsifier, node: AssertStmt, tail: bool) -> Step[None]:
    test = yield condition(d, node.condition)
    message = yield condition(d, node.message)
    if tail:
        d.emit(AssertDoc(test, message))
        yield d.stmt(node.body, True)
        return
    body = yield d.body(node.body, "scope")
    d.emit(ScopeDoc(T.attr("Assert").call(test, message), body))


@stmt_handler("tir", AttrStmt)
def _attr(d: Docsifier, node: AttrStmt, tail: bool) -> Step[None]:
    subject = node.node
    value = yield d.expr(node.value)
    if isinstance(subject, IterVar) and _is_launch(subject, node):
        with d.frame("scope") as frame:
            name = d.define(subject.var, subject.var.name_hint)
            yield d.stmt(node.body, True)
        call = T.attr("launch_thread").call(text(subject.thread_tag), value)
        d.emit(ScopeDoc(call, frame.statements, name))
        return
    if isinstance(subject, IterVar):
        subject_doc = yield _iterator(d, subject)
    else:
        binds = isinstance(subject, Var) and node.attr_key in _BINDING_KEYS
        if binds and d.find_known(subject) is None:
            declare_var(d, subject)
        subject_doc = yield value_doc(d, subject)
    body = yield d.body(node.body, "scope")
    d.emit(ScopeDoc(T.attr("attr").call(subject_doc, text(node.attr_key), value), body))


def _is_launch(thread: IterVar, node: AttrStmt) -> bool:
    """Tell whether ``T.launch_thread`` makes this statement."""
    return (
        node.attr_key == "thread_extent"
        and thread.dom is None
        and thread.iter_type is IterVarType.THREAD_INDEX
        and structural_equal(thread.var.type_annotation, PrimType(node.value.dtype))
    )


def _iterator(d: Docsifier, node: IterVar) -> Step[ExprDoc]:
    """Ask for ``T.iter_var``, the variable declared before."""
    dom: ExprDoc = LiteralDoc(None)
    if node.dom is not None:
        dom = yield d.expr(node.dom)
    var = declare_var(d, node.var)
    made: ExprDoc = T.attr("iter_var").call(
        var, dom, text(node.iter_type.value), text(node.thread_tag)
    )
    return made


@stmt_handler("tir", Allocate)
def _allocate(d: Docsifier, node: Allocate, tail: bool) -> Step[None]:
    if tail and d.top.kind == "loop" and _is_local_buffer(node):
        assert isinstance(node.body, DeclBuffer)
        buffer = node.body.buffer
        args, keywords = yield buffer_arguments(d, buffer)
        call = T.attr("alloc_buffer").call(*args, **keywords)
        d.emit(AssignDoc(bind_buffer(d, buffer, d.declare(buffer, buffer.name)), call))
        yield d.stmt(node.body.body, True)
        return
    call = yield _allocation(d, node)
    if tail:
        d.emit(AssignDoc(d.declare(node.buffer_var, node.buffer_var.name_hint), call))
        yield d.stmt(node.body, True)
        return
    with d.frame("scope") as frame:
        name = d.define(node.buffer_var, node.buffer_var.name_hint)
        yield d.stmt(node.body, True)
    d.emit(ScopeDoc(call, frame.statements, name))


def _is_true(expr: PrimExpr) -> bool:
    return isinstance(expr, IntImm) and expr.value == 1


def _is_local_buffer(node: Allocate) -> bool:
    """Tell whether ``T.alloc_buffer`` in a loop's body makes this allocation and its buffer."""
    declared = node.body
    if not isinstance(declared, DeclBuffer) or node.annotations or not _is_true(node.condition):
        return False
    buffer, annotation = declared.buffer, node.buffer_var.type_annotation
    return (
        buffer.data is node.buffer_var
        and buffer.dtype is node.dtype
        and isinstance(annotation, PointerType)
        and structural_equal(annotation.element_type, PrimType(node.dtype))
        and not buffer.strides
        and buffer.elem_offset is None
        and len(buffer.shape) == len(node.extents)
        and all(
            a is b or structural_equal(a, b)
            for a, b in zip(buffer.shape, node.extents, strict=True)
        )
    )


def _allocation(d: Docsifier, node: Allocate) -> Step[CallDoc]:
    extents: list[ExprDoc] = []
    for extent in node.extents:
        extents.append((yield d.expr(extent)))
    annotation = node.buffer_var.type_annotation
    scope = annotation.storage_scope if isinstance(annotation, PointerType) else "global"
    extra: dict[str, ExprDoc] = {}
    if not _is_true(node.condition):
        extra["condition"] = yield condition(d, node.condition)
    if node.annotations:
        extra["annotations"] = yield dict_doc(d, node.annotations)
    if not structural_equal(annotation, PointerType(PrimType(node.dtype), scope)):
        extra["type_annotation"] = type_doc(annotation)
    args = (ListDoc(tuple(extents)), dtype_doc(node.dtype), text(scope))
    return T.attr("allocate").call(*args, **extra)


@stmt_handler("tir", DeclBuffer)
def _decl_buffer(d: Docsifier, node: DeclBuffer, tail: bool) -> Step[None]:
    buffer = node.buffer
    declare_free(d, buffer)
    if d.find_known(buffer.data) is None:
        # Memory that nothing in scope has made; the name at least is the program's.
        declare_pointer(d, buffer)
        d.name_of(buffer.data, buffer.data.name_hint)
    args, keywords = yield buffer_arguments(d, buffer)
    call = T.attr("decl_buffer").call(*args, **keywords)
    if tail:
        d.emit(AssignDoc(d.bind(buffer, d.declare(buffer, buffer.name)), call))
        yield d.stmt(node.body, True)
        return
    with d.frame("scope") as frame:
        name = d.define(buffer, buffer.name)
        yield d.stmt(node.body, True)
    d.emit(ScopeDoc(call, frame.statements, name))


# -- control flow --------------------------------------------------------------------------------


@stmt_handler("tir", IfThenElse)
def _if(d: Docsifier, node: IfThenElse, tail: bool) -> Step[None]:
    branches: list[tuple[ExprDoc, list[StmtDoc]]] = []
    at: Stmt | None = node
    while isinstance(at, IfThenElse):
        test = yield condition(d, at.condition)
        branches.append((test, (yield d.body(at.then_case, "loop"))))
        at = at.else_case
    otherwise = None if at is None else (yield d.body(at, "loop"))
    d.emit(IfDoc(branches, otherwise))


@stmt_handler("tir", While)
def _while(d: Docsifier, node: While, tail: bool) -> Step[None]:
    test = yield condition(d, node.condition)
    d.emit(WhileDoc(test, (yield d.body(node.body, "loop"))))


_KINDS = {
    ForKind.SERIAL: "serial",
    ForKind.PARALLEL: "parallel",
    ForKind.VECTORIZED: "vectorized",
    ForKind.UNROLLED: "unroll",
    ForKind.THREAD_BINDING: "thread_binding",
}


@stmt_handler("tir", For)
def _for(d: Docsifier, node: For, tail: bool) -> Step[None]:
    if not _has_form(node):
        yield d.fallback_stmt(node)
        return
    nest = _nest(node)
    if len(nest) > 1:
        extents: list[ExprDoc] = []
        for loop in nest:
            extents.append(plain_text(d, loop.extent) or (yield d.expr(loop.extent)))
        iterable: ExprDoc = call_text("T.grid", extents) or T.attr("grid").call(*extents)
    else:
        iterable = yield _iterable(d, node)
    with d.frame("loop") as frame:
        targets = tuple([d.define(loop.loop_var, loop.loop_var.name_hint) for loop in nest])
        for loop in nest:
            d.loops[id(loop.loop_var)] = loop
        if not _write_store(d, nest[-1].body):
            yield d.stmt(nest[-1].body, True)
    for loop in nest:
        del d.loops[id(loop.loop_var)]
    d.emit(ForDoc(targets, iterable, frame.statements))


def _has_form(node: For) -> bool:
    """Tell whether the loop's kind and thread go together as the text form has them."""
    bound = node.thread_binding
    if bound is None or node.kind is not ForKind.THREAD_BINDING:
        return bound is None and node.kind is not ForKind.THREAD_BINDING
    return (
        bound.dom is None
        and bound.iter_type is IterVarType.THREAD_INDEX
        and bound.var.dtype is node.loop_var.dtype
    )


def _is_zero(expr: PrimExpr) -> bool:
    return isinstance(expr, IntImm) and expr.value == 0


def _is_in_grid(node: Stmt) -> bool:
    return (
        isinstance(node, For)
        and node.kind is ForKind.SERIAL
        and node.thread_binding is None
        and not node.annotations
        and _is_zero(node.min)
    )


def _nest(node: For) -> list[For]:
    """List the loops that one ``T.grid`` can stand for, from ``node`` inwards."""
    nest = [node]
    if not _is_in_grid(node):
        return nest
    inside = {id(node.loop_var)}
    body = node.body
    while isinstance(body, For) and _is_in_grid(body):
        fixed = isinstance(body.extent, IntImm)
        if not fixed and any(id(part) in inside for part in pre_order(body.extent)):
            break
        nest.append(body)
        inside.add(id(body.loop_var))
        body = body.body
    return nest


def _iterable(d: Docsifier, node: For) -> Step[ExprDoc]:
    start, extent = node.min, node.extent
    keywords: dict[str, ExprDoc] = {}
    stop: IntImm | None = None
    if _is_zero(start):
        args: tuple[ExprDoc, ...] = (plain_text(d, extent) or (yield d.expr(extent)),)
    else:
        if isinstance(start, IntImm) and isinstance(extent, IntImm):
            end = start.value + extent.value
            if start.dtype.min_value <= end <= start.dtype.max_value:
                stop = IntImm(end, start.dtype)
        begin = yield d.expr(start)
        if stop is not None:
            args = (begin, (yield d.expr(stop)))
        else:
            args = (begin,)
            keywords["extent"] = yield d.expr(extent)
    if node.thread_binding is not None:
        keywords["thread"] = text(node.thread_binding.thread_tag)
    if node.annotations:
        keywords["annotations"] = yield dict_doc(d, node.annotations)
    if node.kind is ForKind.SERIAL and not keywords:
        return IdDoc("range").call(*args)
    return T.attr(_KINDS[node.kind]).call(*args, **keywords)
