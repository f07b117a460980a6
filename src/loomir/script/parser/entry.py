"""Entry points of the parser: a text, and the decorators of functions and classes."""

from __future__ import annotations

import copy
import inspect
import sys
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from types import FrameType, FunctionType
from typing import Any, cast, overload

from loomir.ir.module import BaseFunc, IRModule
from loomir.ir.trust import mark_untrusted
from loomir.script.builder.frame import Program
from loomir.script.builder.function import IRModuleFrame, PrimFuncFrame
from loomir.script.builder.mistakes import mistake
from loomir.script.parser import doc, source
from loomir.script.parser.convert import Places, convert, parse_text
from loomir.script.parser.core import Parser
from loomir.script.parser.decorators import Options
from loomir.script.parser.evaluate.captured_names import CapturedNames
from loomir.script.parser.evaluate.dialect import PoisonedValue
from loomir.script.parser.evaluate.namespaces import (
    INLINE,
    IR_MODULE,
    MACRO,
    PRIM_FUNC,
    Macro,
    Marker,
    mark,
)
from loomir.script.parser.evaluate.var_table import VarTable
from loomir.script.parser.macros import check_macro
from loomir.script.parser.module import check_rewriter, read_function, read_module, visit_module
from loomir.script.parser.remedies import write_remedies
from loomir.support.argument_errors import refuse_options
from loomir.support.compile_warning import caution
from loomir.support.diagnostics import CompileError, Diagnostic, InternalError, with_article
from loomir.support.span import Source, Span
from loomir.tir.function import PrimFunc

__all__ = [
    "PrimFuncDecorator",
    "from_source",
    "inline",
    "ir_module",
    "macro",
    "parse",
    "prim_func",
    "read_decorated",
    "read_rewriter",
    "read_tree",
    "sort_mistakes",
]


def from_source(
    text: str,
    *,
    name: str = "<string>",
    values: Mapping[str, object] | None = None,
    trusted: bool = True,
) -> Program:
    """Read a program from its text.

    Nothing is run: names are those of the program, ``T``, ``R`` and ``I``, and of ``values``.
    ``name`` is what errors call the text. Returns a module for a class under ``@I.ir_module``, a
    function for one under ``@T.prim_func`` or ``@R.function``. What is probably a mistake is
    reported as a ``loomir.CompileWarning``.
    A program that is not ``trusted`` is compiled with bounds checks, unless ``loomir.compile`` gets
    ``check_bounds=False``; it may still call functions of Python and C that have names.

    Errors: SCR0001 to SCR0035, TIR01xx to TIR03xx, RLX and OPS, all mistakes of the text at once.
    """
    if not isinstance(text, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise mistake("SCR0001", "the argument is not a text", help="pass the program as a str")
    made = Source(name, text)
    tree, places = parse_text(made)
    parser = Parser(None if values is None else CapturedNames(values))

    def read(node: doc.AST) -> None:
        visit_module(parser, cast("doc.Module", node))
        if not parser.problems:
            _check_count(parser.programs)

    made = _read(parser, tree, places, read)
    return made if trusted else mark_untrusted(made)


def _check_count(names: list[str]) -> None:
    if len(names) == 1:
        return
    raise mistake(
        "SCR0014",
        f"the text holds {len(names)} programs" if names else "the text holds no program",
        notes=(f"they are {', '.join(names)}",) if names else (),
        help="put the functions into one class under @I.ir_module"
        if names
        else "write a function under @T.prim_func or @R.function, or a class under @I.ir_module",
    )


def parse(program: object, extra_vars: Mapping[str, object] | None = None) -> Program:
    """Read a program from a text, a Python function or a class."""
    if isinstance(program, str):
        return from_source(program, values=extra_vars)
    frame = sys._getframe(1)  # pyright: ignore[reportPrivateUsage]
    extra = [] if extra_vars is None else [extra_vars]
    if isinstance(program, FunctionType):
        found = source.find_function(program.__code__, program.__globals__)
        return _read_function(program, found, frame, Options(), extra, PRIM_FUNC)
    if isinstance(program, type):
        return _read_class(program, frame, extra)
    raise mistake(
        "SCR0014",
        f"{with_article(type(program).__name__)} is not a program",
        help="pass a text, a function or a class",
    )


def _read(parser: Parser, tree: Any, places: Places, read: Callable[[doc.AST], None]) -> Program:
    """Read what a user wrote, who is warned of what may not be meant."""
    made = read_tree(parser, tree, places, read)
    caution(parser.builder.warnings)
    return made


def read_tree(
    parser: Parser, tree: Any, places: Places, read: Callable[[doc.AST], None]
) -> Program:
    """Convert a syntax tree, read it, and give what was built; raises all mistakes at once."""
    node = convert(tree, places, parser.problems)
    with ExitStack() as stack:
        stack.enter_context(parser.builder)
        try:
            if node is not None:
                read(node)
        except (CompileError, PoisonedValue) as error:
            parser.report_error(error, None if node is None else node.span)
        except RecursionError as error:
            raise mistake(
                "SCR0001",
                "the program is nested too deeply",
                help="split it into functions",
                span=None if node is None else node.span,
            ) from error
    if parser.problems:
        raise CompileError(*write_remedies(sort_mistakes(parser.problems), tree, places))
    if parser.poisoned:
        raise InternalError("a part of the program was left out, and no mistake was told")
    return parser.builder.get()


def sort_mistakes(problems: list[Diagnostic]) -> list[Diagnostic]:
    """Sort mistakes by place, each once; those in another file's macro by the place of its call."""
    seen: dict[tuple[str, tuple[int, int], str, str], Diagnostic] = {}
    for problem in problems:
        span = problem.span
        name = "" if span is None else span.source.name
        seen.setdefault((name, _position(span), problem.code, problem.message), problem)
    return sorted(seen.values(), key=_order)


def _position(span: Span | None) -> tuple[int, int]:
    return (0, 0) if span is None else (span.line, span.column)


def _order(problem: Diagnostic) -> tuple[int, int]:
    span = problem.span
    if span is not None and problem.secondary:
        outermost = problem.secondary[-1][0]
        if outermost.source.name != span.source.name:
            span = outermost
    return _position(span)


# -- decorators --------------------------------------------------------------------------------
def _is_class_body(frame: FrameType) -> bool:
    names = frame.f_locals
    return "__module__" in names and "__qualname__" in names and names is not frame.f_globals


def read_decorated(
    func: object, frame: FrameType, options: Options, marker: Marker
) -> BaseFunc | FunctionType:
    """Read a function that Python has made, unless it is read with its class."""
    func = _function(func)
    if func.__name__ == "<lambda>":
        raise mistake("SCR0014", "a lambda is not a program", help="write the program with def")
    if func.__code__.co_flags & inspect.CO_COROUTINE:
        name = func.__name__
        raise mistake("SCR0014", "a program waits for nothing", help=f"write def {name}, not async")
    found = source.find_function(func.__code__, func.__globals__)
    around = source.class_around(found)
    if around is not None and _is_class_body(frame) and _is_module_class(around):
        return func  # read with its class
    made = _read_function(func, found, frame, options, [], marker)
    return cast("BaseFunc", made)


def _is_module_class(node: Any) -> bool:
    """Whether a class is decorated with something called ``ir_module``."""
    for decorator in node.decorator_list:
        called = getattr(decorator, "func", decorator)
        if getattr(called, "attr", getattr(called, "id", "")) == "ir_module":
            return True
    return False


def _read_function(
    func: FunctionType,
    found: source.Definition,
    frame: FrameType,
    options: Options,
    extra: list[Mapping[str, object]],
    marker: Marker,
) -> Program:
    parser = Parser(CapturedNames(*extra, *source.scopes_of(frame, func)))

    def read(node: doc.AST) -> None:
        read_function(parser, cast("doc.FunctionDef", node), options, marker)

    return _read(parser, _drop_decorators(found.node), found.places, read)


def _read_class(cls: type, frame: FrameType, extra: list[Mapping[str, object]]) -> IRModule:
    found = source.find_class(cls, frame)
    parser = Parser(CapturedNames(*extra, *source.scopes_of(frame)))

    def read(node: doc.AST) -> None:
        read_module(parser, cast("doc.ClassDef", node))

    return cast("IRModule", _read(parser, _drop_decorators(found.node), found.places, read))


def read_rewriter(cls: type, frame: FrameType) -> IRModule:
    """Read a class as the two functions of a rewriter."""
    found = source.find_class(cls, frame)
    parser = Parser(CapturedNames(*source.scopes_of(frame)))

    def read(node: doc.AST) -> None:
        check_rewriter(cast("doc.ClassDef", node))
        read_module(parser, cast("doc.ClassDef", node))

    return cast("IRModule", _read(parser, _drop_decorators(found.node), found.places, read))


def _drop_decorators(node: Any) -> Any:
    """Return a definition without its decorators, which Python has applied.

    A copy: the tree of a file is kept, and the file may be loaded again.
    """
    made = copy.copy(node)
    made.decorator_list = []
    return made


class PrimFuncDecorator(PrimFuncFrame):
    """``T.prim_func(private=True)``: a decorator, and a frame of the builder."""

    def __call__(self, func: Callable[..., Any]) -> PrimFunc:
        """Read a function."""
        frame = sys._getframe(1)  # pyright: ignore[reportPrivateUsage]
        options = Options(self.private, self.name or None, self.root_block)
        return cast("PrimFunc", read_decorated(func, frame, options, PRIM_FUNC))


def _function(func: object) -> FunctionType:
    if isinstance(func, FunctionType):
        return func
    raise mistake(
        "SCR0014",
        f"{with_article(type(func).__name__)} is not a function",
        help="write @T.prim_func or @R.function above a def, @I.ir_module above a class",
    )


@overload
def prim_func(func: Callable[..., Any]) -> PrimFunc: ...
@overload
def prim_func(
    func: None = None,
    *,
    private: bool = False,
    name: str | None = None,
    root_block: bool = True,
    check_well_formed: bool = True,
    s_tir: bool = False,
) -> PrimFuncDecorator: ...
def prim_func(
    func: Callable[..., Any] | None = None,
    *,
    private: bool = False,
    name: str | None = None,
    root_block: bool = True,
    check_well_formed: bool = True,
    s_tir: bool = False,
    **others: Any,
) -> PrimFunc | PrimFuncDecorator:
    """Read a function as a program of TIR; its body is not run by Python.

    In a class under ``@I.ir_module`` the function is read with the class. Called without a
    function this is the frame that builds one: ``with T.prim_func(): …``. ``name`` is the
    function's name where that is no Python identifier. ``root_block=False`` keeps a root block
    from being put around a body that has blocks. ``s_tir`` and ``check_well_formed`` are read and
    mean nothing here.

    Errors: those of ``from_source``, SCR0011 where Python does not keep the source, and RUN0012 for
    an option that is none.
    """
    refuse_options(others, ("private", "name", "root_block"), "T.prim_func")
    if func is None:
        return PrimFuncDecorator(private, name, root_block)
    frame = sys._getframe(1)  # pyright: ignore[reportPrivateUsage]
    return cast(
        "PrimFunc", read_decorated(func, frame, Options(private, name, root_block), PRIM_FUNC)
    )


class MacroDecorator:
    """``T.macro(hygienic=False)``: a decorator."""

    def __init__(self, hygienic: bool) -> None:
        self.hygienic = hygienic

    def __call__(self, func: Callable[..., Any]) -> Macro:
        """Read a macro."""
        frame = sys._getframe(1)  # pyright: ignore[reportPrivateUsage]
        return _read_macro(_function(func), frame, self.hygienic)


@overload
def macro(func: Callable[..., Any]) -> Macro: ...
@overload
def macro(func: None = None, *, hygienic: bool = True) -> MacroDecorator: ...
def macro(
    func: Callable[..., Any] | None = None, *, hygienic: bool = True
) -> Macro | MacroDecorator:
    """Parse a macro: statements with parameters, expanded at each call.

    Parameters stand for the expressions of a call, which are not evaluated first. Other names have
    the meaning that they have at the definition; with ``hygienic=False``, that at the call.

    Errors: SCR0001, SCR0002 and SCR0028 for what is wrong with the macro whatever its call,
    SCR0011.
    """
    if func is None:
        return MacroDecorator(hygienic)
    frame = sys._getframe(1)  # pyright: ignore[reportPrivateUsage]
    return _read_macro(_function(func), frame, hygienic)


def inline(func: Callable[..., Any]) -> Macro:
    """Parse a macro, as ``macro`` does, whose names are looked up when it is called.

    Names mean what they mean at the definition, as in a function of Python's: those that are
    assigned after it are known too.

    Errors: those of ``macro``.
    """
    function = _function(func)
    scopes = source.live_scopes_of(function)
    return Macro(function.__name__, _macro_node(function), scopes, VarTable)


def _read_macro(func: FunctionType, frame: FrameType, hygienic: bool) -> Macro:
    node = _macro_node(func)
    if not hygienic:
        return Macro(func.__name__, node, source.live_scopes_of(func), None)
    own: dict[str, object] = {}
    scopes = (own, *[dict(scope) for scope in source.scopes_of(frame, func)])
    own[func.__name__] = made = Macro(func.__name__, node, scopes, VarTable)
    return made


def _macro_node(func: FunctionType) -> doc.FunctionDef:
    """Return the definition of a macro, checked for what is wrong whatever its call."""
    found = source.find_function(func.__code__, func.__globals__)
    problems: list[Diagnostic] = []
    node = cast("doc.FunctionDef", convert(_drop_decorators(found.node), found.places, problems))
    problems += check_macro(node)
    if problems:
        raise CompileError(*sort_mistakes(problems))
    return node


class IRModuleBuilder(IRModuleFrame):
    """``I.ir_module()``: a decorator, and a frame of the builder."""

    def __call__(self, cls: type) -> IRModule:
        """Read a class."""
        return _read_class(cls, sys._getframe(1), [])  # pyright: ignore[reportPrivateUsage]


@overload
def ir_module(cls: type) -> IRModule: ...
@overload
def ir_module(
    cls: None = None, *, check_well_formed: bool = True, s_tir: bool = False
) -> IRModuleBuilder: ...
def ir_module(
    cls: type | None = None,
    *,
    check_well_formed: bool = True,
    s_tir: bool = False,
    **others: Any,
) -> IRModule | IRModuleBuilder:
    """Read a class as a module: its methods under ``@T.prim_func`` and ``@R.function``.

    Called without a class this is the frame that builds a module: ``with I.ir_module(): …``.
    ``check_well_formed`` and ``s_tir`` are read and mean nothing here.

    Errors: those of ``from_source``, SCR0011 where Python does not keep the source, and RUN0012 for
    an option that is none.
    """
    refuse_options(others, ("check_well_formed", "s_tir"), "I.ir_module")
    if cls is None:
        return IRModuleBuilder()
    if not isinstance(cls, type):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise mistake(
            "SCR0014",
            f"{with_article(type(cls).__name__)} is not a class",
            help="write @I.ir_module above a class, and @T.prim_func above a def",
        )
    return _read_class(cls, sys._getframe(1), [])  # pyright: ignore[reportPrivateUsage]


mark(prim_func, PRIM_FUNC)
mark(ir_module, IR_MODULE)
mark(macro, MACRO)
mark(inline, INLINE)
