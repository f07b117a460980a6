"""The parser: walk the Doc AST, with stacks of names and dialects, and collect mistakes.

Every statement is parsed by itself: an invalid one is reported and left out, and the names that it
would have bound are poisoned, so that their uses are not reported again.
"""

from __future__ import annotations

import builtins
import sys
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

from loomir.script.builder.frame import Frame, IRBuilder, StmtFrame
from loomir.script.builder.mistakes import mistake, with_span
from loomir.script.parser import dispatch, doc
from loomir.script.parser.evaluate.captured_names import MISSING, CapturedNames
from loomir.script.parser.evaluate.dialect import PoisonedValue
from loomir.script.parser.evaluate.evaluator import ExprEvaluator
from loomir.script.parser.evaluate.namespaces import I, ModuleFunction, R, T
from loomir.script.parser.evaluate.plain_functions import PLAIN_FUNCTIONS
from loomir.script.parser.evaluate.var_table import POISON, Entry, Poison, VarTable, VarTableFrame
from loomir.script.parser.module_calls import make_call
from loomir.support.diagnostics import CompileError, Diagnostic, nearest
from loomir.support.dtype import DataType
from loomir.support.span import Span
from loomir.tir.expr import PrimExpr, Var

__all__ = ["MAX_STATEMENTS", "FunctionState", "Parser", "header", "targets_of"]

# What stands in a scope whose head was refused cannot be judged by its place.
_JUDGED_BY_PLACE: Final = frozenset({"SCR0017", "SCR0021", "SCR0022", "SCR0024"})
MAX_STATEMENTS: Final = 100_000
_MODULES: Final = sys.stdlib_module_names | {
    *("jax", "jnp", "loomir", "ml_dtypes", "np", "numpy", "onnx", "pd", "scipy", "torch", "tvm")
}
_OF_ELEMENTS: Final = ("jnp", "math", "np", "numpy", "torch")
"""Modules with functions of elements, such as exp."""
_DTYPES: Final = frozenset(
    {"float16", "bfloat16", "float32", "float64"}
    | {f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)}
)
_FALLBACK: Final[Mapping[str, object]] = {"T": T, "I": I, "R": R}


class LostFrame(StmtFrame[None]):
    """Stands in for a scope whose head was refused; makes nothing."""

    def enter(self) -> None:
        """Bind nothing."""


@dataclass
class FunctionState:
    """What is known of the function that is being read."""

    name: str
    scope: VarTableFrame
    reassigned: frozenset[str]
    typed: frozenset[int] = frozenset()  # statements ``x: T.int32 = …`` that make a local
    sizes: Mapping[str, DataType] = field(default_factory=dict[str, DataType])
    """The dtypes of the names that the body declares, as ``n = T.int32()`` does."""


class Parser(doc.NodeVisitor):
    """Reads one text, function or class into a program."""

    def __init__(self, captured: CapturedNames | None = None) -> None:
        self.vars = VarTable()
        self.vars.frames.append(VarTableFrame())
        self.tokens = [dispatch.DEFAULT]
        self.problems: list[Diagnostic] = []
        self.captured = captured
        self.ignores_captured = False
        self.builder = IRBuilder()
        self.evaluator = ExprEvaluator(self)
        self.function: FunctionState | None = None
        self.programs: list[str] = []
        # What parameters without an annotation are, by name.
        self.declared: Mapping[str, object] = {}
        self.names_of_shapes: VarTableFrame | None = None
        self.poisoned = 0
        self.lost = 0
        # How deep macros are in one another, and what was read more than once so far.
        self.depth = 0
        self.spent = 0
        # For each loop around, innermost last: whether it is one of the program.
        self.loops: list[bool] = []

    # -- nodes ---------------------------------------------------------------------------------
    @property
    def token(self) -> str:
        """The dialect that is being read."""
        return self.tokens[-1]

    @property
    def in_kernel(self) -> bool:
        """Whether a function of TIR is read."""
        return self.token == "tirx"

    @contextmanager
    def dialect(self, token: str) -> Generator[None, None, None]:
        """Read in a dialect for the body of ``with``."""
        self.tokens.append(token)
        try:
            yield
        finally:
            self.tokens.pop()

    def visit(self, node: doc.AST) -> None:
        """Hand a node to its handler."""
        handler = dispatch.get(self.token, type(node).__name__)
        if isinstance(node, doc.Name):  # what stands for a refused statement
            raise PoisonedValue
        if handler is None:
            self.generic_visit(node)
        else:
            handler(self, node)

    def generic_visit(self, node: doc.AST) -> None:
        """Refuse a node that the dialect does not know.

        Errors: SCR0002.
        """
        kind = type(node).__name__
        raise mistake(
            "SCR0002",
            f"{_STATEMENTS.get(kind, kind)} is not allowed here",
            help="see the reference of TVMScript for what a program holds",
            span=header(node),
        )

    def visit_body(self, body: Sequence[doc.StmtNode]) -> None:
        """Read statements one by one, reporting those that are refused."""
        for node in body:
            try:
                self.visit(node)
            except (CompileError, PoisonedValue) as error:
                self.report_error(error, node.span)
                self.poison(targets_of(node))

    def lose(self, names: Sequence[str], body: Sequence[doc.StmtNode]) -> None:
        """Read the body of a scope whose head was refused, only for the mistakes in it."""
        frame = LostFrame()
        self.lost += 1
        frame.__enter__()
        try:
            with self.vars.frame():
                self.poison(names)
                self.visit_body(body)
        finally:
            self.lost -= 1
            self.builder.close(frame, failed=True)

    def spend(self, statements: int, span: Span) -> None:
        """Count statements that are read once more, by a macro or a loop over plain values.

        Errors: SCR0029.
        """
        was_below = self.spent <= MAX_STATEMENTS
        self.spent += statements
        if self.spent > MAX_STATEMENTS:
            if not was_below:
                raise PoisonedValue
            raise mistake(
                "SCR0029",
                f"macros and loops over Python values make more than {MAX_STATEMENTS} statements",
                label="no more are read from here",
                help="write loops of the program, such as range",
                span=span,
            )

    # -- mistakes ------------------------------------------------------------------------------
    def report_error(self, error: CompileError | PoisonedValue, span: Span | None) -> None:
        """Report the mistakes of an error; those without a place stand at ``span``."""
        self.poisoned += isinstance(error, PoisonedValue)
        if isinstance(error, CompileError):
            for problem in with_span(error, span).diagnostics:
                if not (self.lost and problem.code in _JUDGED_BY_PLACE):
                    self.problems.append(problem)

    def setbacks(self) -> int:
        """Count what was refused so far, and what was left out for resting on that."""
        return len(self.problems) + self.poisoned

    def poison(self, names: Sequence[str]) -> None:
        """Make names mean something that was refused already."""
        for name in names:
            entry = self.vars.get(name)
            if entry is None or entry.kind not in ("local", "parameter", "loop variable"):
                self.vars.add(name, Entry(POISON, "poison"))

    @contextmanager
    def loop(self, *, of_program: bool) -> Generator[None, None, None]:
        """Read the body of a loop, or of one that is only written out."""
        self.loops.append(of_program)
        try:
            yield
        finally:
            self.loops.pop()

    # -- values --------------------------------------------------------------------------------
    def evaluate(self, node: doc.ExprNode) -> Any:
        """Return the value of an expression."""
        return self.evaluator.evaluate(node)

    def lookup(self, node: doc.Name) -> object:
        """Return what a name means.

        Errors: SCR0003.
        """
        found = self._find(node.id)
        if found is not MISSING:
            return found
        error = self._undefined(node)
        if self.function is not None:  # once is enough
            self.vars.add_to(self.function.scope, node.id, Entry(POISON, "poison"))
        raise error

    def _find(self, name: str) -> object:
        entry = self.vars.get(name)
        if entry is not None:
            return entry.value
        if self.captured is not None:
            found = self.captured.get(name)
            if found is not MISSING and not (
                self.ignores_captured and isinstance(found, (int, float, PrimExpr))
            ):
                return found
        known = PLAIN_FUNCTIONS.get(name) or _FALLBACK.get(name, MISSING)
        dialect = self.evaluator.dialect
        return dialect.module(name) if known is MISSING and dialect is not None else known

    def _undefined(self, node: doc.Name) -> CompileError:
        known = [*self.vars.names(), "T" if self.in_kernel else "R"]
        around = [] if self.captured is None else self.captured.names()
        near = nearest(node.id, known) or nearest(node.id, [*around, *PLAIN_FUNCTIONS])
        ended = self.vars.was_defined(node.id)
        if ended is not None and ended.kind == "dataflow variable":
            return mistake(
                "SCR0003",
                f"{node.id!r} is not defined here",
                label="only its dataflow block knows it",
                help=f"write R.output({node.id}) at the end of the block, with what else it gives",
                span=node.span,
            )
        if ended is not None and not isinstance(ended.value, Poison):
            where = "" if ended.span is None else f" at line {ended.span.line}"
            return mistake(
                "SCR0003",
                f"{node.id!r} is not defined here",
                label=f"its scope, entered{where}, has ended" if where else "its scope has ended",
                help=f"assign {node.id} before the loop, branch or block that binds it",
                span=node.span,
            )
        help_ = f"did you mean {near!r}?" if near else "define it before its use"
        if node.id == "cls":
            help_ = "cls is the module around: write the function in a class under @I.ir_module"
        elif node.id == "metadata":
            help_ = "print the program again with script(show_meta=True), which adds what it names"
        elif node.id in _DTYPES:
            help_ = f'write "{node.id}" as a dtype, or T.{node.id} for a number'
        elif node.id == "print":
            help_ = (
                "write values to a buffer, and print that in Python"
                if self.in_kernel
                else "write R.print(x)"
            )
        elif hasattr(builtins, node.id):
            help_ = "Python's functions cannot be called in a program"
        elif near is None and node.id in _OF_ELEMENTS:
            own = "T" if self.in_kernel else "R"
            help_ = f"modules of Python are not read: write {own}.exp in place of {node.id}.exp"
        elif near is None and node.id in _MODULES:
            help_ = "modules of Python are not read: use what T has, or a value from around"
        return mistake(
            "SCR0003",
            f"{node.id!r} is not defined",
            label="not found",
            help=help_,
            span=node.span,
        )

    def declare_shape_name(self, node: doc.Name, dtype: DataType) -> object:
        """Return what a name in a shape means; a new one is an int64 variable in extents (S10)."""
        found = self._find(node.id)
        if found is not MISSING or self.function is None:
            return self.lookup(node) if found is MISSING else found
        var = Var(node.id, self.function.sizes.get(node.id, dtype), span=node.span)
        scope = self.function.scope if self.names_of_shapes is None else self.names_of_shapes
        self.vars.add_to(scope, node.id, Entry(var, "shape", node.span))
        return var

    @contextmanager
    def shape_scope(self) -> Generator[None, None, None]:
        """Declare names in shapes for the body of ``with`` only."""
        before = self.names_of_shapes
        with self.vars.frame() as scope:
            self.names_of_shapes = scope
            try:
                yield
            finally:
                self.names_of_shapes = before

    def call_function(
        self,
        target: ModuleFunction,
        node: doc.Call,
        args: list[object],
        parts: Sequence[doc.ExprNode],
    ) -> PrimExpr:
        """Make the call of a function of the module."""
        return make_call(self.evaluator, target, node, args, parts)

    def open(self, frame: Frame[Any], span: Span) -> Any:
        """Enter a frame for the rest of the scope."""
        frame.span = span
        return self.builder.open(frame)


_STATEMENTS: Final = {
    "FunctionDef": "def",
    "ClassDef": "class",
    "Import": "import",
    "ImportFrom": "import",
    "Return": "return",
    "For": "for",
    "While": "while",
    "If": "if",
    "With": "with",
    "Assign": "an assignment",
    "AnnAssign": "an assignment",
    "AugAssign": "an assignment",
    "Assert": "assert",
    "Expr": "an expression",
}


def header(node: doc.AST) -> Span:
    """Return the place of a statement's head, without its body."""
    span = node.span
    end: doc.AST | None = None
    if isinstance(node, doc.For):
        end = node.iter
    elif isinstance(node, (doc.While, doc.If)):
        end = node.test
    elif isinstance(node, doc.With):
        last = node.items[-1]
        end = last.optional_vars or last.context_expr
    elif isinstance(node, (doc.FunctionDef, doc.ClassDef)):
        word = "def" if isinstance(node, doc.FunctionDef) else "class"
        stop = span.column + len(word) + 1 + len(node.name)
        return Span(span.source, span.line, span.column, span.line, stop)
    if end is None:
        return span
    return Span(span.source, span.line, span.column, end.span.end_line, end.span.end_column)


def targets_of(node: doc.AST) -> list[str]:
    """List the names that a statement binds."""
    found: list[str] = []
    stack: list[doc.AST | None] = []
    if isinstance(node, doc.Assign):
        stack.extend(node.targets)
    elif isinstance(node, (doc.AnnAssign, doc.For)):
        stack.append(node.target)
    elif isinstance(node, doc.With):
        stack.extend(item.optional_vars for item in node.items)
    elif isinstance(node, (doc.FunctionDef, doc.ClassDef)):
        found.append(node.name)
    elif isinstance(node, (doc.Import, doc.ImportFrom)):
        found += [(name.asname or name.name).split(".")[0] for name in node.names]
    while stack:
        part = stack.pop()
        if isinstance(part, doc.Name):
            found.append(part.id)
        elif isinstance(part, (doc.Tuple, doc.List)):
            stack.extend(part.elts)
        elif isinstance(part, doc.Starred):
            stack.append(part.value)
    return found
