"""Handlers of statements in TIR, under the token ``"tirx"``."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any, Final, cast

from loomir.ir.node import reset
from loomir.script.builder.arguments import as_expr
from loomir.script.builder.buffer_spec import BufferSpec
from loomir.script.builder.frame import Frame, StmtFrame
from loomir.script.builder.mistakes import mistake, with_span
from loomir.script.builder.tir.blocks import BlockInitFrame, SBlockFrame
from loomir.script.builder.tir.loops import (
    ForFrame,
    WhileFrame,
    break_loop,
    continue_loop,
    ret,
    step_loop,
)
from loomir.script.builder.tir.scopes import (
    AllocateFrame,
    BindFrame,
    DeclBufferFrame,
    ElseFrame,
    IfFrame,
    LetAnnotation,
    LetFrame,
    RestFrame,
    ThenFrame,
    check,
    make_typed_var,
)
from loomir.script.parser import dispatch, doc
from loomir.script.parser.assignments import (
    FIXED,
    bind_assign_value,
    bind_for_value,
    bind_item,
    bind_let_value,
    bind_with_value,
    check_rebinding,
    local_of,
    name_reads,
    store_at,
    store_local,
)
from loomir.script.parser.core import Parser, header, targets_of
from loomir.script.parser.decorators import read_decorators
from loomir.script.parser.evaluate.dialect import Expansion, PoisonedValue
from loomir.script.parser.evaluate.namespaces import INLINE, MACRO
from loomir.script.parser.evaluate.operators import binary, is_static, kind
from loomir.script.parser.evaluate.var_table import MutableLocal
from loomir.script.parser.macros import define_macro, expand
from loomir.script.parser.module_calls import unquote
from loomir.script.parser.places import blame
from loomir.support.diagnostics import CompileError, Diagnostic
from loomir.support.span import Span
from loomir.tir.buffer import Buffer
from loomir.tir.expr import PrimExpr
from loomir.tir.stmt import Evaluate

__all__ = ["TOKEN"]

TOKEN: Final = "tirx"


# -- loops -------------------------------------------------------------------------------------
@dispatch.register(TOKEN, "For")
def visit_for(parser: Parser, node: doc.For) -> None:
    """Read a loop."""
    _refuse_else(parser, node.orelse, "for")
    try:
        value = parser.evaluate(node.iter)
        if type(value) in (tuple, list):
            _read_for_each(parser, node, value)
            return
        names = _loop_names(parser, node)
        frame, together = _loop_frame(value, node, len(names))
    except (CompileError, PoisonedValue) as error:
        parser.report_error(error, node.iter.span)
        parser.lose(targets_of(node), node.body)
        return
    frame.span = header(node)
    words = [name.id for name in names]
    count = len(frame.loops)
    frame.names = [f"{words[0]}_{place}" for place in range(count)] if together else words
    with parser.vars.frame(), parser.loop(of_program=True), frame:
        values: list[object] = [tuple(frame.values)] if together else [*frame.values]
        for name, value in zip(names, values, strict=True):
            bind_for_value(parser, name.id, value, name.span)
        parser.visit_body(node.body)


def _read_for_each(parser: Parser, node: doc.For, items: Sequence[object]) -> None:
    """Read the body once for each of some plain values: there is no loop in the program."""
    for name in targets_of(node):
        check_rebinding(parser, name, node.target.span)
    for index, item in enumerate(items):
        with parser.vars.frame(), parser.loop(of_program=False):
            parser.spend(len(node.body), header(node))
            try:
                bind_item(parser, node.target, item)
            except CompileError as error:
                raise _at_item(error, node, index) from error
            parser.visit_body(node.body)


def _at_item(error: CompileError, node: doc.For, index: int) -> CompileError:
    parts = node.iter.elts if isinstance(node.iter, (doc.Tuple, doc.List)) else []
    is_plain = index < len(parts) and not any(isinstance(p, doc.Starred) for p in parts)
    return with_span(error, parts[index].span if is_plain else node.target.span)


def _refuse_else(parser: Parser, orelse: Sequence[doc.StmtNode], word: str) -> None:
    if orelse:
        parser.problems.append(
            Diagnostic(
                "SCR0002",
                f"else on a {word} loop is not part of TVMScript",
                orelse[0].span,
                "in the else of a loop",
                help="write these statements after the loop",
            )
        )
        parser.lose((), orelse)


def _loop_names(parser: Parser, node: doc.For) -> list[doc.Name]:
    parts = node.target.elts if isinstance(node.target, (doc.Tuple, doc.List)) else [node.target]
    names: list[doc.Name] = []
    for part in parts:
        if not isinstance(part, doc.Name):
            raise mistake(
                "SCR0012",
                "a loop binds names only",
                help="write `for i in …` or `for i, j in …`",
                span=part.span,
            )
        check_rebinding(parser, part.id, part.span)
        if part.id != "_" and any(part.id == other.id for other in names):
            raise mistake(
                "SCR0016",
                f"{part.id!r} is bound twice by this loop",
                help="give each loop variable a name of its own",
                span=part.span,
            )
        names.append(part)
    return names


def _loop_frame(value: object, node: doc.For, count: int) -> tuple[ForFrame[Any], bool]:
    """Return the frame of a loop, and whether one name stands for the variables of several."""
    if isinstance(value, range):
        frame: ForFrame[Any] = step_loop(value.start, value.stop, value.step)
    elif isinstance(value, ForFrame):
        frame = cast("ForFrame[Any]", value)
    else:
        raise mistake(
            "SCR0012",
            f"a loop cannot run over {kind(value)}",
            help=f"loop over indices: for i in range({value.name}.shape[0]), and read "
            f"{value.name}[i]"
            if isinstance(value, Buffer)
            else "use range(n), T.serial, T.parallel, T.vectorized, T.unroll, T.grid, or a tuple",
            span=node.iter.span,
        )
    together = isinstance(node.target, doc.Name) and len(frame.loops) > 1
    if len(frame.loops) != count and not together:
        plural = "s" if len(frame.loops) != 1 else ""
        raise mistake(
            "SCR0012",
            f"{len(frame.loops)} loop{plural}, but {count} name{'s' if count != 1 else ''}",
            help=f"write {len(frame.loops)} name{plural} before `in`",
            span=node.target.span,
        )
    return frame, together


@dispatch.register(TOKEN, "While")
def visit_while(parser: Parser, node: doc.While) -> None:
    """Read a while loop."""
    _refuse_else(parser, node.orelse, "while")
    try:
        frame = WhileFrame(parser.evaluate(node.test))
    except (CompileError, PoisonedValue) as error:
        parser.report_error(error, node.test.span)
        parser.lose((), node.body)
        return
    frame.span = header(node)
    before = len(parser.problems)
    with parser.vars.frame(), parser.loop(of_program=True), frame:
        parser.visit_body(node.body)
        frame.is_incomplete = len(parser.problems) > before


@dispatch.register(TOKEN, "Break")
def visit_break(parser: Parser, node: doc.Break) -> None:
    """Read ``break``."""
    _check_leaving(parser, node, "break")
    _emit(parser, break_loop(), node.span)


@dispatch.register(TOKEN, "Continue")
def visit_continue(parser: Parser, node: doc.Continue) -> None:
    """Read ``continue``."""
    _check_leaving(parser, node, "continue")
    _emit(parser, continue_loop(), node.span)


def _check_leaving(parser: Parser, node: doc.AST, word: str) -> None:
    if parser.loops and not parser.loops[-1]:
        raise mistake(
            "SCR0021",
            f"{word} in a loop over Python values",
            label="each value has its own statements: there is no loop to leave",
            help="use an if, or a loop over range",
            span=node.span,
        )


@dispatch.register(TOKEN, "Return")
def visit_return(parser: Parser, node: doc.Return) -> None:
    """Read ``return value``."""
    if node.value is None:
        raise mistake(
            "SCR0021",
            "a return needs a value",
            help="a function without a result ends after its last statement; branch with an if",
            span=node.span,
        )
    value = parser.evaluate(node.value)
    try:
        made = ret(value)
    except CompileError as error:
        inner = node.value.span if error.diagnostic.code != "SCR0021" else node.span
        raise with_span(error, inner) from error
    _emit(parser, made, node.span)


def _emit(parser: Parser, value: PrimExpr, span: Span) -> None:
    reset(value, "span", span)
    parser.builder.emit(Evaluate(value, span=span))


@dispatch.register(TOKEN, "Pass")
def visit_pass(parser: Parser, node: doc.Pass) -> None:
    """Read ``pass``."""


@dispatch.register(TOKEN, "FunctionDef")
def visit_function(parser: Parser, node: doc.FunctionDef) -> None:
    """Read a macro that is defined in a function."""
    marker, options = read_decorators(parser, node)
    if marker is not None and marker in (MACRO, INLINE):
        define_macro(parser, node, marker, options.hygienic)
    else:
        visit_refused(parser, node)


@dispatch.register(TOKEN, "ClassDef")
@dispatch.register(TOKEN, "Import")
@dispatch.register(TOKEN, "ImportFrom")
def visit_refused(parser: Parser, node: doc.FunctionDef | doc.ClassDef | doc.Import) -> None:
    """Refuse what may stand outside of functions only.

    Errors: SCR0002.
    """
    is_import = isinstance(node, (doc.Import, doc.ImportFrom))
    word = "import" if is_import else "def" if isinstance(node, doc.FunctionDef) else "class"
    raise mistake(
        "SCR0002",
        f"{word} is not part of TVMScript" if is_import else f"{word} is not allowed in a function",
        label="not supported",
        help="import around the function"
        if is_import
        else "write it beside this one, in a class under @I.ir_module; for statements that "
        "are used again, write @T.macro above it",
        span=header(node),
    )


# -- branches ----------------------------------------------------------------------------------
@dispatch.register(TOKEN, "If")
def visit_if(parser: Parser, node: doc.If) -> None:
    """Read a branch with all its ``elif``; a condition known now decides now."""
    opened: list[Frame[Any]] = []
    current: doc.If | None = node
    while current is not None:
        current = _visit_case(parser, current, opened)
    for frame in reversed(opened):
        try:
            parser.builder.close(frame, failed=False)
        except CompileError as error:
            parser.report_error(error, frame.span)


def _visit_case(parser: Parser, node: doc.If, opened: list[Frame[Any]]) -> doc.If | None:
    """Read one case; gives the ``elif`` that is left to read."""
    try:
        test = parser.evaluate(node.test)
        if not is_static(test) and as_expr(test).dtype != "bool":
            raise mistake(
                "TIR0205",
                f"the condition of if is {as_expr(test).dtype}, not bool",
                help="compare with zero, as in x != 0",
            )
    except (CompileError, PoisonedValue) as error:
        parser.report_error(error, node.test.span)
        parser.lose((), node.body)
        parser.lose((), node.orelse)
        return None
    if is_static(test):
        rest = node.body if test else node.orelse
    else:
        frame = IfFrame(test)
        frame.span = node.test.span
        frame.__enter__()
        opened.append(frame)
        with parser.vars.frame(), ThenFrame():
            parser.visit_body(node.body)
        rest = node.orelse
        if not rest:
            return None
        other = ElseFrame()
        other.__enter__()
        opened.append(other)
    if len(rest) == 1 and isinstance(rest[0], doc.If):
        return rest[0]
    if opened:
        with parser.vars.frame():
            parser.visit_body(rest)
    else:
        parser.visit_body(rest)
    return None


# -- scopes ------------------------------------------------------------------------------------
@dispatch.register(TOKEN, "With")
def visit_with(parser: Parser, node: doc.With) -> None:
    """Read ``with``: blocks, init, allocations, bindings, notes."""
    with ExitStack() as stack:
        stack.enter_context(parser.vars.frame())
        for item in node.items:
            try:
                frame = _scope_frame(parser, item)
                frame.span = header(node)
                made = stack.enter_context(frame)
                if item.optional_vars is not None:
                    bind_with_value(parser, item.optional_vars, made)
            except (CompileError, PoisonedValue) as error:
                parser.report_error(error, item.context_expr.span)
                parser.lose(targets_of(node), node.body)
                return
        parser.visit_body(node.body)


def _scope_frame(parser: Parser, item: doc.withitem) -> Frame[Any]:
    value = parser.evaluate(item.context_expr)
    span = item.context_expr.span
    if isinstance(value, (ForFrame, WhileFrame)):
        raise mistake(
            "SCR0013", "a loop is written with `for`", help="write `for i in …:`", span=span
        )
    if not isinstance(value, (SBlockFrame, BlockInitFrame, RestFrame)):
        raise mistake(
            "SCR0013",
            f"{kind(value)} opens no scope",
            help="use with for T.sblock, T.init, T.allocate, T.decl_buffer, T.LetStmt, T.Assert "
            "or T.attr",
            span=span,
        )
    scope: Frame[Any] = value
    if item.optional_vars is not None and isinstance(value, (SBlockFrame, BlockInitFrame)):
        raise mistake(
            "SCR0013",
            "a block has no value to bind",
            help="leave out `as`; name the block as T.sblock(name)",
            span=item.optional_vars.span,
        )
    return scope


# -- assignments -------------------------------------------------------------------------------
@dispatch.register(TOKEN, "Assign")
def visit_assign(parser: Parser, node: doc.Assign) -> None:
    """Read ``a = value``."""
    try:
        value = name_reads(parser, node.targets, parser.evaluate(node.value), node.span)
    except (CompileError, PoisonedValue):
        _look_at_targets(parser, node)
        raise
    for target in node.targets:
        try:
            bind_assign_value(parser, target, value, node.span)
        except CompileError as error:
            raise blame(error, node.value.span, (value,), (node.value,)) from error


def _look_at_targets(parser: Parser, node: doc.Assign) -> None:
    """Report the mistakes in the targets of an assignment whose value is refused."""
    for target in node.targets:
        if isinstance(target, doc.Subscript):
            try:
                parser.evaluate(target)
            except (CompileError, PoisonedValue) as error:
                parser.report_error(error, target.span)


@dispatch.register(TOKEN, "AnnAssign")
def visit_ann_assign(parser: Parser, node: doc.AnnAssign) -> None:
    """Read ``a: T.int32 = value``: a binding, or a local variable where it is assigned again."""
    if not isinstance(node.target, doc.Name):
        raise mistake(
            "SCR0027",
            "only a name can have a type",
            help="leave the type out",
            span=node.target.span,
        )
    name = node.target.id
    check_rebinding(parser, name, node.target.span)
    annotation = parser.evaluate(unquote(node.annotation))
    if isinstance(annotation, BufferSpec):
        _bind_annotated_buffer(parser, node, node.target)
        return
    is_let = isinstance(annotation, LetAnnotation)
    said = annotation.annotation if isinstance(annotation, LetAnnotation) else annotation
    var = None
    if said is not None or not is_let:
        try:
            var = make_typed_var(said, name, node.target.span)
        except CompileError as error:
            raise with_span(error, node.annotation.span) from error
    local = None if is_let or var is None else local_of(parser, node, var)
    if local is not None and node.value is None:
        return
    if node.value is None:
        raise mistake(
            "SCR0015",
            f"{name!r} has a type but no value",
            help=f"give it one, as in `{name}: T.int32 = 0`",
            span=node.span,
        )
    value = parser.evaluate(node.value)
    try:
        if local is not None:
            store_local(parser, local, value, node.span)
        else:
            bind_let_value(parser, node.target, var, value, node.span)
    except CompileError as error:
        raise blame(error, node.value.span, (value,), (node.value,)) from error


def _bind_annotated_buffer(parser: Parser, node: doc.AnnAssign, target: doc.Name) -> None:
    value = None if node.value is None else parser.evaluate(node.value)
    if isinstance(value, DeclBufferFrame):
        value = parser.open(value, node.span)
    if not isinstance(value, Buffer):
        raise mistake(
            "SCR0015",
            "T.Buffer as a type describes a buffer, and makes none",
            help=f"write {target.id} = T.alloc_buffer(shape, dtype)",
            span=node.span,
        )
    bind_assign_value(parser, target, value, node.span)


@dispatch.register(TOKEN, "AugAssign")
def visit_aug_assign(parser: Parser, node: doc.AugAssign) -> None:
    """Read ``a op= value``."""
    target = node.target
    if isinstance(target, doc.Name):
        check_rebinding(parser, target.id, target.span, FIXED)
        entry = parser.vars.get(target.id)
        old = parser.evaluate(target)
        made = _combine(parser, node, old)
        if entry is None or not isinstance(entry.value, MutableLocal):
            raise mistake(
                "SCR0016",
                f"{target.id!r} is not a local variable of this function",
                help=f"assign {target.id} a first value in the function, or use another name",
                span=target.span,
            )
        try:
            store_local(parser, entry.value, made, node.span)
        except CompileError as error:
            raise with_span(error, node.span) from error
    elif isinstance(target, doc.Subscript):
        place = parser.evaluate(target)
        made = _combine(parser, node, place)
        try:
            parser.builder.emit(store_at(place, made, target, node.span))
        except CompileError as error:
            raise with_span(error, node.span) from error
    else:
        raise mistake(
            "SCR0027",
            "only names and elements of buffers can be assigned",
            help="assign to a name, or to A[i]",
            span=target.span,
        )


def _combine(parser: Parser, node: doc.AugAssign, old: object) -> object:
    value = parser.evaluate(node.value)
    try:
        made = binary(node.op, old, value)
    except CompileError as error:
        raise blame(error, node.span, (old, value), (node.target, node.value)) from error
    if isinstance(made, PrimExpr):
        reset(made, "span", node.span)
    return made


# -- other statements --------------------------------------------------------------------------
@dispatch.register(TOKEN, "Assert")
def visit_assert(parser: Parser, node: doc.Assert) -> None:
    """Read ``assert condition, message``: it guards the rest of the scope."""
    condition = parser.evaluate(node.test)
    message = "assertion failed" if node.msg is None else parser.evaluate(node.msg)
    try:
        made = as_expr(condition, "the condition of assert")
        if made.dtype != "bool":
            raise mistake(
                "TIR0205",
                f"the condition of assert is {made.dtype}, not bool",
                help="compare with zero, as in x != 0",
            )
    except CompileError as error:
        raise with_span(error, node.test.span) from error
    try:
        frame = check(condition, message)
    except CompileError as error:
        raise with_span(error, node.test.span if node.msg is None else node.msg.span) from error
    parser.open(frame, node.span)


@dispatch.register(TOKEN, "Expr")
def visit_expr(parser: Parser, node: doc.Expr) -> None:
    """Read an expression as a statement: a call for its effect, or a part of a block's head."""
    if isinstance(node.value, doc.Constant) and isinstance(node.value.value, str):
        return  # a docstring
    if isinstance(node.value, doc.Compare) and node.value.ops == ["=="]:
        raise mistake(
            "SCR0025",
            "a comparison as a statement has no effect",
            help="write one = to store",
            span=node.span,
        )
    top = parser.builder.frames[-1]
    before = len(top.statements) if isinstance(top, StmtFrame) else 0
    value = parser.evaluator.evaluate_statement(node.value)
    if isinstance(value, Expansion):
        expand(parser, value)
        return
    if isinstance(top, StmtFrame):
        for made in top.statements[before:]:
            if getattr(made, "span", node.span) is None:
                reset(made, "span", node.span)
    if value is None:
        return
    is_named = isinstance(value, (AllocateFrame, DeclBufferFrame, LetFrame))
    if isinstance(value, BindFrame) or (isinstance(value, RestFrame) and not is_named):
        parser.open(value, node.span)
    elif isinstance(value, PrimExpr):
        parser.builder.emit(Evaluate(value, span=node.span))
    elif isinstance(value, Frame):
        raise mistake(
            "SCR0013",
            "this opens a scope, and is not entered",
            help="write it after `with` or `for … in`, or assign what it gives",
            span=node.span,
        )
    else:
        raise mistake(
            "SCR0025",
            f"{kind(value)} as a statement has no effect",
            help="remove it, or assign it",
            span=node.span,
        )
