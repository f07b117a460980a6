"""Check the expressions of a function: names in scope, jumps, returns, calls of other functions."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Any, Final, NamedTuple, TypeAlias, cast

from loomir.check.tir.internal_nodes import mistake_of_foreign
from loomir.check.tir.special_arguments import find_ill_described, find_misplaced, may_misplace
from loomir.ir.equality import structural_equal
from loomir.ir.module import BaseFunc, GlobalVar
from loomir.ir.node import Node
from loomir.ir.visit import nodes_in, plan_of, pre_order
from loomir.support.diagnostics import Diagnostic, nearest
from loomir.support.span import Span
from loomir.tir.analysis.constant_index import outside
from loomir.tir.analysis.control_flow import may_return
from loomir.tir.buffer import (
    Buffer,
    BufferLoad,
    BufferRegion,
)
from loomir.tir.builtins.calls import OUTSIDE, mistake_of
from loomir.tir.builtins.llvm_intrinsics import LLVM, mistake_of_llvm
from loomir.tir.builtins.table import BREAK_LOOP, CONTINUE_LOOP, RET, STACK_MAKE_ARRAY
from loomir.tir.expr import (
    Broadcast,
    Call,
    FloatImm,
    IntImm,
    Let,
    PrimExpr,
    Ramp,
    StringImm,
    Var,
)
from loomir.tir.function import PrimFunc, str_of
from loomir.tir.stmt import (
    BufferStore,
    Stmt,
)
from loomir.tir.types import PointerType, PrimType, TupleType, dtype_of_type

__all__ = [
    "LEVELS",
    "ExpressionWalk",
    "Loops",
    "Task",
    "describe_kind",
    "list_numbers",
    "name_of",
    "span_of",
]

_NO_PARTS: Final = frozenset({IntImm, FloatImm, StringImm})
LEVELS: Final = 50
"""How many levels of an expression are checked recursively; deeper ones on a stack."""


class ExpressionWalk:
    """The names in scope, what was found, and the checks of expressions."""

    def __init__(self, func: PrimFunc, functions: Mapping[str, BaseFunc]) -> None:
        self.func = func
        self.functions = functions
        self.found: list[Diagnostic] = []
        self.live: set[Node] = set()
        # Everything that was ever bound; a second binding is a mistake wherever it is.
        self.bound: set[Node] = set()
        self.told: set[int] = set()
        self.placed: defaultdict[int, int] = defaultdict(int)
        self.stack: list[Task] = []
        self.returns = False
        self.has_blocks = False
        self.span: Span | None = func.span

    # -- reports ---------------------------------------------------------------------------------
    def _report(
        self,
        code: str,
        message: str,
        *,
        help: str,
        span: Span | None = None,
        label: str = "",
        notes: tuple[str, ...] = (),
    ) -> None:
        self.found.append(
            Diagnostic(code, message, span or self.span, label, notes=notes, help=help)
        )

    # -- scopes ----------------------------------------------------------------------------------
    def _bind(self, name: Node) -> None:
        if name in self.bound:
            self._report(
                "TIR0402",
                f"{describe_kind(name)} {name_of(name)!r} is bound twice",
                label="bound here again",
                help="make a variable of its own for each binding, also in separate scopes",
                span=span_of(name),
            )
        self.bound.add(name)
        self.live.add(name)

    def _bind_fresh(self, buffer: Buffer) -> list[Node]:
        """Bind the variables in a buffer's fields that are not bound yet, and return them."""
        fresh: list[Node] = []
        for part in list_numbers(buffer):
            if part.__class__ is IntImm:
                continue
            for name in pre_order(part):
                if isinstance(name, Var) and name not in self.live:
                    self._bind(name)
                    fresh.append(name)
        return fresh

    def _use(self, name: Var, span: Span | None = None) -> None:
        if name in self.live or id(name) in self.told:
            return
        self.told.add(id(name))
        before = name in self.bound
        self._report(
            "TIR0401",
            f"variable {name.name_hint!r} is "
            + ("used outside of its scope" if before else "not defined"),
            help="use it inside of what binds it" if before else "bind it, or make it a parameter",
            span=span or name.span,
        )

    def _use_buffer(self, buffer: Buffer, span: Span | None) -> None:
        if buffer in self.live or id(buffer) in self.told:
            return
        self.told.add(id(buffer))
        before = buffer in self.bound
        self._report(
            "TIR0403",
            f"buffer {buffer.name!r} is "
            + ("used outside of its scope" if before else "not declared"),
            help="use it inside of what declares it"
            if before
            else "allocate it, match it, or make it a parameter",
            span=span or buffer.span,
        )

    def _walk_in_scope(self, body: Stmt, names: list[Node], loops: Loops) -> None:
        """Bind names, and walk a body in their scope."""
        for name in names:
            self._bind(name)
        self.stack += (names, (body, loops))

    # -- expressions -----------------------------------------------------------------------------
    def _constant_index(self, node: BufferLoad | BufferStore) -> None:
        found = outside(node.buffer, node.indices, node.span or self.span, "TIR0419")
        if found is not None:
            self.found.append(found)

    def _expressions(self, value: object, loops: Loops) -> None:
        """Check the expressions in a field's value."""
        for part in nodes_in(value):
            self._expression(part, loops, LEVELS)

    def _expression(self, node: Any, loops: Loops, levels: int) -> None:
        """Check an expression recursively, which is fast, and its deeper levels on a stack."""
        kind = node.__class__
        if kind in _NO_PARTS:
            return
        if kind is Var:
            if node not in self.live:
                self._use(node)
        elif not levels or kind is Let or kind.lowered_by:
            self._deep(node, loops)
        else:
            if kind is BufferLoad:
                self._element(node)
                parts = node.indices
            elif kind is Call:
                self._call(node, loops)
                parts = node.args
            else:
                if kind is BufferRegion:
                    self._use_buffer(node.buffer, node.span)
                parts = plan_of(kind).get(node)
            live, levels = self.live, levels - 1
            for part in parts:
                # The leaves are most of a program, and calls take most of the time.
                kind = part.__class__
                if kind is Var:
                    if part not in live:
                        self._use(part)
                elif kind is tuple:
                    for item in part:
                        self._expression(item, loops, levels)
                elif kind not in _NO_PARTS and part is not None:
                    self._expression(part, loops, levels)

    def _element(self, node: Any) -> None:
        """Check the buffer and the indices of a load or a store."""
        buffer = node.buffer
        if buffer not in self.live:
            self._use_buffer(buffer, node.span)
        for index, extent in zip(node.indices, buffer.shape):
            kind = index.__class__
            if kind is IntImm:
                if extent.__class__ is not IntImm or not 0 <= index.value < extent.value:
                    self._constant_index(node)
                    return
            elif kind is Ramp or kind is Broadcast:
                self._constant_index(node)
                return

    def _deep(self, value: Any, loops: Loops) -> None:
        """Check an expression of any depth, on a stack."""
        live = self.live
        stack: list[Any] = [value]
        while stack:
            node = stack.pop()
            kind = node.__class__
            if kind is Var:
                if node not in live:
                    self._use(node)
            elif kind in _NO_PARTS:
                pass
            elif kind is Let:
                stack += (node.body, _Bind(node.var), node.value)
            elif kind is _Bind:
                # The value of a Let is checked: its variable is in scope until the end of its body.
                self._bind(node.name)
                body = stack.pop()
                stack += (_Leave(node.name), body)
            elif kind is _Leave:
                live.discard(node.name)
            elif kind.lowered_by:
                self.found.append(mistake_of_foreign(node, self.span))
            else:
                if kind is BufferLoad:
                    self._element(node)
                elif kind is BufferRegion:
                    self._use_buffer(node.buffer, node.span)
                elif kind is Call:
                    self._call(node, loops)
                for part in reversed(plan_of(kind).get(node)):
                    if isinstance(part, tuple):
                        stack += reversed(cast("tuple[object, ...]", part))
                    elif part is not None:
                        stack.append(part)

    def _call(self, call: Call, loops: Loops) -> None:
        if self.placed or may_misplace(call):
            wrong = find_misplaced(call, self.placed)
            if wrong is not None:
                self.found.append(wrong.at(self.span))
        if isinstance(call.op, GlobalVar):
            self._module_call(call, call.op)
        elif call.op is RET:
            self._return(call, loops)
        elif call.op is BREAK_LOOP or call.op is CONTINUE_LOOP:
            self._jump(call, loops)
        elif call.op is STACK_MAKE_ARRAY:
            wrong = find_ill_described(call)
            if wrong is not None:
                self.found.append(wrong.at(self.span))
        elif call.op in OUTSIDE or call.op in LLVM:
            mistake = mistake_of(call) if call.op in OUTSIDE else mistake_of_llvm(call)
            if mistake is not None:
                self.found.append(mistake)

    # -- jumps and returns -----------------------------------------------------------------------
    def _jump(self, call: Call, loops: Loops) -> None:
        word = "break" if call.op is BREAK_LOOP else "continue"
        if not loops.innermost:
            self._report(
                "TIR0414",
                f"{word} is outside of a loop",
                help="use it inside of a serial or while loop",
                span=call.span,
            )
        elif loops.innermost != "serial":
            self._report(
                "TIR0407",
                f"{word} cannot leave an iteration of a {loops.innermost} loop",
                help="make the loop serial, or guard the rest of its body with if",
                span=call.span,
            )

    def _return(self, call: Call, loops: Loops) -> None:
        self.returns = True
        if loops.concurrent:
            self._report(
                "TIR0407",
                f"a {loops.concurrent} loop cannot be left by return",
                help="return after the loop, or make it serial",
                span=call.span,
            )
        wanted = self.func.ret_type
        if len(call.args) != 1:
            self._report(
                "TIR0405",
                f"T.ret takes one value, not {len(call.args)}",
                help="return one value",
                span=call.span,
            )
            return
        value = call.args[0]
        if isinstance(value, Var):
            fits = structural_equal(value.type_annotation, wanted)
            given = str_of(value.type_annotation)
        elif value.dtype.is_handle:
            fits, given = isinstance(wanted, PointerType), "a handle"
        else:
            fits = isinstance(wanted, PrimType) and wanted.dtype is value.dtype
            given = str(value.dtype)
        if not fits:
            self._report(
                "TIR0405",
                f"this returns {given}, but the function is declared to return {str_of(wanted)}",
                help="cast the value, or change the declared type",
                span=call.span,
            )

    def _end(self) -> None:
        wanted = self.func.ret_type
        nothing = isinstance(wanted, TupleType) and not wanted.fields
        if not nothing and not (self.returns and may_return(self.func.body)):
            self._report(
                "TIR0406",
                f"function {self.func.name!r} is declared to return {str_of(wanted)}, but ends "
                "without a return",
                help="return a value on every path, or declare no type",
                span=self.func.span,
            )

    # -- calls -----------------------------------------------------------------------------------
    def _module_call(self, call: Call, callee: GlobalVar) -> None:
        name = callee.name_hint
        func = self.functions.get(name)
        span = call.span
        if func is None:
            guess = nearest(name, self.functions)
            self._report(
                "TIR0408",
                f"there is no function {name!r} to call",
                notes=(f"there are {', '.join(self.functions)}",),
                help=f"did you mean {guess!r}?" if guess else "add it to the module",
                span=span,
            )
        elif not isinstance(func, PrimFunc):
            self._report(
                "TIR0410",
                f"{name!r} is not a PrimFunc, so a PrimFunc cannot call it",
                help="call it from Relax",
                span=span,
            )
        elif len(call.args) != len(func.params):
            self._report(
                "TIR0409",
                f"{name!r} takes {len(func.params)} arguments, not {len(call.args)}",
                help=f"pass {', '.join(_parameter(func, p) for p in func.params) or 'none'}",
                span=span,
            )
        else:
            for param, arg in zip(func.params, call.args, strict=True):
                self._argument(name, func, param, arg, span)
            if call.dtype is not dtype_of_type(func.ret_type):
                self._report(
                    "TIR0409",
                    f"the call of {name!r} has dtype {call.dtype}, but the function returns "
                    f"{str_of(func.ret_type)}",
                    help="give the call the dtype that the function returns",
                    span=span,
                )

    def _argument(
        self, name: str, func: PrimFunc, param: Var, arg: PrimExpr, span: Span | None
    ) -> None:
        buffer = func.buffer_map.get(param)
        wanted = param.dtype if buffer is None else buffer.dtype
        if buffer is None:
            given, fits = str(arg.dtype), arg.dtype is param.dtype
        elif isinstance(arg, Var) and isinstance(arg.type_annotation, PointerType):
            element = arg.type_annotation.element_type
            given, fits = f"an array of {str_of(element)}", dtype_of_type(element) is wanted
        elif isinstance(arg, Call) and arg.op is STACK_MAKE_ARRAY:
            element_dtype = arg.args[4].dtype
            given, fits = f"an array of {element_dtype}", element_dtype is wanted
        else:
            given, fits = str(arg.dtype), arg.dtype.is_handle
        if not fits:
            self._report(
                "TIR0409",
                f"parameter {_parameter(func, param)} of {name!r} is given {given}",
                help="pass a value of the parameter's kind and dtype",
                span=getattr(arg, "span", None) or span,
            )


class Loops(NamedTuple):
    """The loops around a jump: the innermost one, and concurrent ones, which it may not cross.

    ``threads`` are those of a GPU's grid that are bound around.
    """

    innermost: str
    concurrent: str
    vectorized: bool
    threads: tuple[str, ...] = ()


Task: TypeAlias = "tuple[Stmt, Loops] | list[Node]"
"""A statement to visit, or the names that go out of scope after the statement that binds them."""


class _Leave(NamedTuple):
    """Take a name out of scope."""

    name: Var


class _Bind(NamedTuple):
    """Take a name into scope."""

    name: Var


def describe_kind(name: Node) -> str:
    """Tell a buffer from a variable, in words."""
    return "buffer" if isinstance(name, Buffer) else "variable"


def name_of(name: Node) -> str:
    """Return the name that the program gives."""
    return str(getattr(name, "name_hint", None) or getattr(name, "name", ""))


def span_of(name: Node) -> Span | None:
    """Return where a name is bound, if that is known."""
    found: object = getattr(name, "span", None)
    return found if isinstance(found, Span) else None


def _parameter(func: PrimFunc, param: Var) -> str:
    buffer = func.buffer_map.get(param)
    if buffer is None:
        return f"{param.name_hint!r} ({param.dtype})"
    return f"{buffer.name!r} (an array of {buffer.dtype})"


def list_numbers(buffer: Buffer) -> tuple[PrimExpr, ...]:
    """List the expressions in a buffer's fields."""
    offset = () if buffer.elem_offset is None else (buffer.elem_offset,)
    return (*buffer.shape, *buffer.strides, *offset)
