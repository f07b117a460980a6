"""Frames of other statements: bindings, allocations, branches, annotations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

from loomir.script.builder.arguments import (
    add_describer,
    as_annotations,
    as_buffer,
    as_dtype,
    as_expr,
    as_items,
    as_plain,
    as_stored,
    as_text,
    check_index,
    describe,
    difference,
    index_buffer,
    vector_indices,
)
from loomir.script.builder.dtypes import DTypeFunction, DTypeLike
from loomir.script.builder.expressions import truth
from loomir.script.builder.frame import Frame, IRBuilder, StmtFrame
from loomir.script.builder.function import PrimFuncFrame
from loomir.script.builder.mistakes import ArgumentError, mistake, wrong_argument
from loomir.support.dtype import DataType
from loomir.support.span import Span
from loomir.tir.buffer import (
    Buffer,
    BufferLoad,
    BufferRegion,
    IterVar,
    IterVarType,
    Range,
    check_indices,
)
from loomir.tir.builtins.table import pointer_type
from loomir.tir.expr import ExprLike, PrimExpr, StringImm, Var, const
from loomir.tir.stmt import (
    TRUE,
    Allocate,
    AssertStmt,
    AttrStmt,
    BufferStore,
    DeclBuffer,
    Evaluate,
    IfThenElse,
    LetStmt,
    Stmt,
)
from loomir.tir.types import PointerType, PrimType

__all__ = [
    "LET",
    "AllocateFrame",
    "AssertFrame",
    "AttrFrame",
    "BindFrame",
    "DeclBufferFrame",
    "ElseFrame",
    "EnvThread",
    "IfFrame",
    "LaunchThreadFrame",
    "LetAnnotation",
    "LetFrame",
    "MetaVar",
    "RestFrame",
    "ThenFrame",
    "allocate",
    "attr",
    "bind",
    "buffer_load",
    "buffer_store",
    "check",
    "env_thread",
    "evaluate",
    "iter_var",
    "launch_thread",
    "let_stmt",
    "make_typed_var",
    "require_indices",
    "store",
]


class MetaVar:
    """The value of ``T.meta_var``: a name assigned to it stands for it."""

    __slots__ = ("value",)

    def __init__(self, value: object) -> None:
        self.value = value


class RestFrame(StmtFrame[Any]):
    """A frame that may hold for the rest of the scope in which it stands."""

    what = "a scope"


class LetFrame(RestFrame):
    """Binds a variable to a value."""

    def __init__(self, var: Var, value: PrimExpr) -> None:
        super().__init__()
        self.var, self.value = var, value

    def enter(self) -> Var:
        """Return the variable."""
        return self.var

    def finish(self, builder: IRBuilder) -> None:
        """Make the ``LetStmt``."""
        builder.emit(LetStmt(self.var, self.value, self.body(), span=self.span))


def let_stmt(value: ExprLike, var: Var | None = None) -> LetFrame:
    """Bind a variable for the body of ``with``."""
    made = as_expr(value, "the value of T.LetStmt")
    if not (var is None or isinstance(var, Var)):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise _no_variable(var, "T.LetStmt")
    return LetFrame(fresh_for(made) if var is None else var, made)


class BindFrame(LetFrame):
    """Binds a variable where the statement stands, whether or not it is assigned to a name."""


def bind(value: ExprLike, type_annotation: object = None, *, var: Var | None = None) -> BindFrame:
    """Bind a variable to a value for the rest of the scope: a new one, unless ``var`` is given."""
    made = as_expr(value, "the value of T.bind")
    if var is None:
        said = None if type_annotation is None else make_typed_var(type_annotation)
        return BindFrame(fresh_for(made) if said is None else said, made)
    if not isinstance(var, Var):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise _no_variable(var, "T.bind")
    return BindFrame(var, made)


def make_typed_var(annotation: object, name: str = "", span: Span | None = None) -> Var:
    """Make a variable of a type such as ``T.int32`` or ``T.handle("int8")``.

    Errors: SCR0015 for what is no type of a value.
    """
    if isinstance(annotation, DTypeFunction) and not annotation.dtype.is_void:
        return Var(name, annotation.dtype, span=span)
    if isinstance(annotation, Var):
        return Var(name, type_annotation=annotation.type_annotation, span=span)
    raise wrong_argument(
        annotation,
        f"{describe(annotation)} is no type",
        code="SCR0015",
        help="write a dtype, as in `x: T.int32 = 1`",
    )


class LetAnnotation:
    """``T.let`` as a type: the name is bound once; ``T.let[T.int32]`` says its dtype too."""

    __slots__ = ("annotation",)

    def __init__(self, annotation: object = None) -> None:
        self.annotation = annotation

    def __getitem__(self, annotation: object) -> LetAnnotation:
        return LetAnnotation(annotation)

    def __call__(self, *args: object, **keywords: object) -> None:
        """Refuse a call. Errors: SCR0007."""
        raise mistake(
            "SCR0007",
            "T.let is a type, and is not called",
            help="write `x: T.let = value`, or T.Let(body, where={x: value}) in an expression",
        )


LET: Final = LetAnnotation()


def fresh_for(value: PrimExpr, name: str = "") -> Var:
    """Make a variable that can hold a value; of a pointer it knows the elements as the value does.

    Elements stay what they are where a pointer moves by bytes, unless the move says another dtype.
    """
    pointer = pointer_type(value) if value.dtype.is_handle else None
    if pointer is not None:
        return Var(name, type_annotation=pointer)
    return Var(name, value.dtype)


class AllocateFrame(RestFrame):
    """Allocates memory."""

    def __init__(
        self,
        var: Var,
        extents: tuple[PrimExpr, ...],
        element: PrimType,
        condition: PrimExpr,
        annotations: Mapping[str, Any],
    ) -> None:
        super().__init__()
        self.var, self.extents, self.element = var, extents, element
        self.condition, self.annotations = condition, annotations

    def enter(self) -> Var:
        """Return the pointer."""
        return self.var

    def finish(self, builder: IRBuilder) -> None:
        """Make the ``Allocate``."""
        made = Allocate(
            self.var,
            self.element.dtype,
            self.extents,
            self.condition,
            self.body(),
            self.annotations,
            span=self.span,
        )
        builder.emit(made)


def allocate(
    extents: Sequence[ExprLike],
    dtype: DTypeLike = "float32",
    scope: str = "global",
    condition: ExprLike | None = None,
    annotations: Mapping[str, Any] | None = None,
    type_annotation: Var | None = None,
) -> AllocateFrame:
    """Allocate memory and give a pointer to it.

    ``type_annotation`` is the pointer's type where the dtype implies another: ``T.handle("int8")``.
    """
    element = PrimType(as_dtype(dtype))
    sizes = tuple(as_expr(e, "an extent") for e in as_items(extents, "the extents"))
    var = Var("", type_annotation=PointerType(element, as_text(scope, "the scope")))
    if type_annotation is not None:
        if not isinstance(type_annotation, Var):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise wrong_argument(
                type_annotation, "the pointer's type is no type", help='write T.handle("int8")'
            )
        var = Var("", type_annotation=type_annotation.type_annotation)
    when = TRUE if condition is None else truth(condition)
    notes = {} if annotations is None else as_annotations(annotations, "annotations")
    return AllocateFrame(var, sizes, element, when, notes)


class DeclBufferFrame(RestFrame):
    """Declares a buffer; one without memory of its own is allocated around it."""

    def __init__(
        self, buffer: Buffer, owns: bool, annotations: Mapping[str, Any] | None = None
    ) -> None:
        super().__init__()
        self.buffer, self.owns = buffer, owns
        self.annotations: Mapping[str, Any] = {} if annotations is None else annotations

    def enter(self) -> Buffer:
        """Return the buffer."""
        return self.buffer

    def finish(self, builder: IRBuilder) -> None:
        """Make the ``DeclBuffer``."""
        made: Stmt = DeclBuffer(self.buffer, self.body(), span=self.span)
        if self.owns:
            b = self.buffer
            notes = self.annotations
            made = Allocate(b.data, b.dtype, b.shape, TRUE, made, notes, span=self.span)
        builder.emit(made)


class AssertFrame(RestFrame):
    """Runs its body if a condition holds."""

    def __init__(self, condition: PrimExpr, message: PrimExpr) -> None:
        super().__init__()
        self.condition, self.message = condition, message

    def enter(self) -> None:
        """Bind nothing."""

    def finish(self, builder: IRBuilder) -> None:
        """Make the ``AssertStmt``."""
        made = AssertStmt(self.condition, self.message, self.body(), span=self.span)
        builder.emit(made)


def check(
    condition: ExprLike,
    message: str | ExprLike | Sequence[object],
    *,
    error_kind: str = "",
) -> AssertFrame:
    """Assert a condition for the body of ``with``.

    The message may be (kind, [parts]) or a list of parts, which are put together; the name of a
    kind such as ``ValueError`` stands at its head.
    """
    if isinstance(message, tuple) and not error_kind:
        if len(message) != 2:
            raise wrong_argument(
                message,
                f"a message of {len(message)} parts",
                code="TIR0202",
                help='write ("ValueError", ["text"])',
            )
        error_kind, message = as_text(message[0], "the kind of an error"), cast("Any", message[1])
    if isinstance(message, (list, tuple)):
        message = "".join(map(_part, message))
    if error_kind and isinstance(message, (str, StringImm)):
        message = f"{error_kind}: {as_text(message, 'the message')}"
    text = as_expr(message, "the message of assert")
    if not isinstance(text, StringImm) and text.dtype != "int32":
        raise wrong_argument(
            message,
            f"the message of assert is {describe(message)}",
            code="TIR0202",
            help="use a string",
        )
    return AssertFrame(truth(condition), text)


def _part(part: object) -> str:
    """Write a part of a message; an expression is written as in TVMScript."""
    if isinstance(part, StringImm):
        return part.value
    if isinstance(part, (str, int, float, PrimExpr)):
        return str(part)
    raise wrong_argument(
        part,
        f"{describe(part)} is no part of a message",
        code="TIR0202",
        help="use strings and numbers",
    )


class AttrFrame(RestFrame):
    """Attaches a note for the compiler."""

    def __init__(self, node: object, key: str, value: PrimExpr) -> None:
        super().__init__()
        self.node, self.key, self.value = node, key, value

    def enter(self) -> None:
        """Bind nothing."""

    def finish(self, builder: IRBuilder) -> None:
        """Make the ``AttrStmt``."""
        builder.emit(AttrStmt(self.node, self.key, self.value, self.body(), span=self.span))


class AttrsFrame(RestFrame):
    """Attaches several notes, as if one by one."""

    def __init__(self, notes: Sequence[AttrFrame]) -> None:
        super().__init__()
        self.notes = tuple(notes)

    def enter(self) -> None:
        """Bind nothing."""

    def finish(self, builder: IRBuilder) -> None:
        """Make the ``AttrStmt`` of each note, the first outermost."""
        made = self.body()
        for note in reversed(self.notes):
            made = AttrStmt(note.node, note.key, note.value, made, span=self.span)
        builder.emit(made)


def attr(
    node: Any, attr_key: str | None = None, value: ExprLike | str | None = None
) -> AttrFrame | AttrsFrame:
    """Attach a note about a variable, a buffer or a name for the body of ``with``.

    A dict as the only argument attaches a note for each of its keys, about nothing: the number 0.
    """
    if attr_key is None and isinstance(node, Mapping):
        given = as_annotations(cast("Mapping[str, Any]", node), "T.attr")
        return AttrsFrame([_note(0, key, given_value) for key, given_value in given.items()])
    if attr_key is None or value is None:
        raise wrong_argument(
            node, "T.attr lacks a key or a value", help='write T.attr(x, "key", value)'
        )
    return _note(node, attr_key, value)


def _note(node: Any, attr_key: str, value: ExprLike | str) -> AttrFrame:
    about = as_plain(node, "the subject of T.attr")
    noted = StringImm(value) if isinstance(value, str) else as_expr(value, "the value of T.attr")
    return AttrFrame(about, as_text(attr_key, "the key of T.attr"), noted)


def iter_var(
    var: Var, dom: Range | Sequence[ExprLike] | None, iter_type: str, thread_tag: str = ""
) -> IterVar:
    """Make an iterator, for ``T.attr``; ``dom`` is a ``T.Range`` or (begin, end)."""
    kinds = {name.value: name for name in IterVarType}
    name = as_text(iter_type, "the kind of an iterator")
    kind = kinds.get(name) or kinds.get(f"k{name}")
    if kind is None:
        names = ", ".join(kinds)
        raise wrong_argument(
            iter_type, f"there is no kind of iterator {name!r}", help=f"the kinds are {names}"
        )
    if not isinstance(var, Var):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise _no_variable(var, "T.iter_var")
    span = dom
    if isinstance(dom, (tuple, list)):
        ends = as_items(dom, "the domain")
        if len(ends) != 2:
            raise wrong_argument(
                dom, f"the domain has {len(ends)} parts", help="write (begin, end)"
            )
        begin, end = (as_stored(part, var.dtype) for part in ends)
        span = Range(begin, difference(end, begin))
    if not (span is None or isinstance(span, Range)):
        raise wrong_argument(dom, f"{describe(dom)} is no domain", help="write (begin, end)")
    return IterVar(span, var, kind, as_text(thread_tag, "the thread"))


def _no_variable(value: object, what: str) -> ArgumentError:
    return wrong_argument(
        value,
        f"{what} takes a variable, not {describe(value)}",
        help="declare one first, as in x = T.int32()",
    )


class LaunchThreadFrame(AttrFrame):
    """Runs its body once for each value of a thread's index."""

    def __init__(self, thread: IterVar, extent: PrimExpr) -> None:
        super().__init__(thread, "thread_extent", extent)
        self.thread = thread

    def enter(self) -> Any:
        """Return the thread's index."""
        return self.thread.var


class EnvThread:
    """``T.env_thread``: the index of a thread, by a name of its own wherever it is launched.

    Each launch makes a new variable: ``var`` is that of the last one.
    """

    def __init__(self, tag: str, dtype: DataType) -> None:
        self.tag, self.dtype = tag, dtype
        self.name = ""
        self.var: Var | None = None


def env_thread(thread_tag: str, dtype: DTypeLike = "int32") -> EnvThread:
    """Name the index of a thread, which ``T.launch_thread`` binds."""
    return EnvThread(as_text(thread_tag, "the thread"), as_dtype(dtype))


def launch_thread(thread: str | EnvThread | Var, extent: ExprLike) -> LaunchThreadFrame:
    """Bind a thread's index for the body of ``with``, or for the rest of the scope."""
    size = as_expr(extent, "the extent")
    builder = IRBuilder.active()
    func = None if builder is None else builder.find(PrimFuncFrame)
    known: dict[int, EnvThread] = {} if func is None else func.threads
    if isinstance(thread, Var):  # launched before
        thread = known.get(id(thread), cast("str", thread))
    if isinstance(thread, EnvThread):
        thread.var = var = Var(thread.name, thread.dtype)
        known[id(var)] = thread
        if isinstance(extent, int):
            size = const(extent, thread.dtype)
        return LaunchThreadFrame(IterVar(None, var, IterVarType.THREAD_INDEX, thread.tag), size)
    tag = as_text(thread, "the thread")
    var = Var("", size.dtype)
    return LaunchThreadFrame(IterVar(None, var, IterVarType.THREAD_INDEX, tag), size)


# -- branches ----------------------------------------------------------------------------------
class IfFrame(Frame[None]):
    """A branch; its cases are ``with T.Then()`` and ``with T.Else()`` in it."""

    what = "`with T.If(condition):`"

    def __init__(self, condition: ExprLike) -> None:
        self.condition = truth(condition)
        self.then_case: Stmt | None = None
        self.else_case: Stmt | None = None

    def enter(self) -> None:
        """Bind nothing."""

    def finish(self, builder: IRBuilder) -> None:
        """Make the ``IfThenElse``."""
        if self.then_case is None:
            raise mistake(
                "SCR0024",
                "a branch has no case",
                help="write `with T.Then():` in `with T.If(condition):`",
            )
        made = IfThenElse(self.condition, self.then_case, self.else_case, span=self.span)
        builder.emit(made)


class ThenFrame(StmtFrame[None]):
    """What runs where the condition holds."""

    def enter(self) -> None:
        """Bind nothing."""
        IRBuilder.current().need(IfFrame, "T.Then", "write it in `with T.If(condition):`")

    def finish(self, builder: IRBuilder) -> None:
        """Add the case to the branch."""
        builder.need(IfFrame, "T.Then", "write it in T.If").then_case = self.body()


class ElseFrame(StmtFrame[None]):
    """What runs where the condition does not hold."""

    def enter(self) -> None:
        """Bind nothing."""
        IRBuilder.current().need(IfFrame, "T.Else", "write it in `with T.If(condition):`")

    def finish(self, builder: IRBuilder) -> None:
        """Add the case to the branch."""
        builder.need(IfFrame, "T.Else", "write it in T.If").else_case = self.body()


# -- single statements -------------------------------------------------------------------------
def evaluate(value: ExprLike) -> None:
    """Evaluate an expression for its effect."""
    made = as_expr(value, "what is evaluated")
    IRBuilder.current().emit(Evaluate(made, span=getattr(made, "span", None)))


def buffer_load(buffer: Buffer, indices: Sequence[ExprLike]) -> PrimExpr:
    """Read an element of a buffer."""
    found = index_buffer(as_buffer(buffer, "what is read"), as_items(indices, "the indices"))
    return as_expr(found)


def buffer_store(buffer: Buffer, value: ExprLike, indices: Sequence[ExprLike | slice]) -> None:
    """Write an element of a buffer; a slice as the last index writes a vector."""
    target = as_buffer(buffer, "what is written")
    items = as_items(indices, "the indices")
    place = index_buffer(target, items)
    IRBuilder.current().emit(store(place, value))


def require_indices(place: BufferLoad | BufferRegion) -> tuple[PrimExpr, ...]:
    """Return the indices of what a load or a region names, checked against constant extents."""
    if isinstance(place, BufferRegion):
        return vector_indices(place)
    for axis, index in enumerate(place.indices):
        check_index(place.buffer, axis, index)
    return place.indices


def store(place: BufferLoad | BufferRegion, value: object) -> BufferStore:
    """Make the store to what a load or a region names."""
    indices = require_indices(place)
    wanted = check_indices(place.buffer, indices, place.span)
    return BufferStore(place.buffer, as_stored(value, wanted), indices)


def _describe(value: object) -> str | None:
    if isinstance(value, Frame):
        return "the head of a statement"
    if isinstance(value, EnvThread):
        return "the index of a thread"
    return "T.meta_var(…)" if isinstance(value, MetaVar) else None


add_describer(_describe)
