"""Verify whole functions and modules: rules that no constructor can check.

Constructors check a node and its operands. Here: names are in scope and bound once, functions
return what they declare, jumps have targets, calls fit the called functions, blocks keep their
promises about order (``init_order``), and views have valid extents. All mistakes are reported.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple, TypeAlias, cast

from loomir.ir.equality import structural_equal
from loomir.ir.module import BaseFunc, GlobalVar, IRModule
from loomir.ir.node import Node
from loomir.ir.visit import children, nodes_in, plan_of, pre_order
from loomir.support.diagnostics import Diagnostic, nearest
from loomir.support.span import Span
from loomir.tir.analysis.affine import Affine
from loomir.tir.analysis.constant_index import outside
from loomir.tir.analysis.control_flow import can_leave, may_return
from loomir.tir.analysis.cross_thread import GRID, VIRTUAL, help_thread
from loomir.tir.analysis.init_order import check_init_order
from loomir.tir.buffer import (
    Buffer,
    BufferLoad,
    BufferRegion,
    IterVar,
    IterVarType,
    MatchBufferRegion,
    Range,
)
from loomir.tir.builtins.calls import OUTSIDE, mistake_of
from loomir.tir.builtins.llvm_intrinsics import LLVM, mistake_of_llvm
from loomir.tir.builtins.table import BREAK_LOOP, CONTINUE_LOOP, RET, STACK_MAKE_ARRAY
from loomir.tir.check.internal_nodes import mistake_of_foreign
from loomir.tir.check.out_of_range import check_ranges
from loomir.tir.check.special_arguments import find_ill_described, find_misplaced, may_misplace
from loomir.tir.check.verify_fast_path import is_plain
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
from loomir.tir.signature import find_passed_vectors
from loomir.tir.stmt import (
    Allocate,
    AttrStmt,
    Block,
    BlockRealize,
    BufferRealize,
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
from loomir.tir.types import PointerType, PrimType, TupleType, dtype_of_type

__all__ = ["verify", "verify_function"]

_CONCURRENT: Final = {
    ForKind.PARALLEL: "parallel",
    ForKind.VECTORIZED: "vectorized",
    ForKind.THREAD_BINDING: "thread",
}
_SCOPES: Final = frozenset({"TIR0401", "TIR0402", "TIR0420"})
_NO_PARTS: Final = frozenset({IntImm, FloatImm, StringImm})
_LEVELS: Final = 50
"""How many levels of an expression are checked recursively; deeper ones on a stack."""
_AXES: Final = frozenset(
    {IterVarType.DATA_PAR, IterVarType.COMM_REDUCE, IterVarType.ORDERED, IterVarType.OPAQUE}
)


def verify(program: PrimFunc | IRModule, *, ranges: bool = True) -> tuple[Diagnostic, ...]:
    """List every mistake of a function or a module, in program order; empty if it is well-formed.

    A function outside of any module may only call itself. ``ranges``: look for accesses out of
    range, too, which takes most of the time.
    Errors: TIR0401 to TIR0424, TIR0430.
    """
    if isinstance(program, PrimFunc):
        return tuple(_function(program, {program.name: program}, ranges))
    functions = {var.name_hint: func for var, func in program.functions.items()}
    kernels = [func for func in functions.values() if isinstance(func, PrimFunc)]
    return tuple(d for func in kernels for d in _function(func, functions, ranges))


def verify_function(func: PrimFunc, mod: IRModule) -> list[Diagnostic]:
    """List the mistakes of one function of a module, except accesses out of range."""
    return _function(func, {var.name_hint: other for var, other in mod.functions.items()}, False)


def _function(func: PrimFunc, functions: Mapping[str, BaseFunc], ranges: bool) -> list[Diagnostic]:
    walk = _Walk(func, functions)
    outside = find_passed_vectors(func) if "global_symbol" in func.attrs else ()
    found = [*outside, *walk.run()]
    # The proof looks names up, so it needs a program in which they are right.
    if walk.has_blocks and not any(d.code in _SCOPES for d in found):
        found += check_init_order(func)
    if ranges and not found:
        found += check_ranges(func)
    return found


class _Loops(NamedTuple):
    """The loops around a jump: the innermost one, and concurrent ones, which it may not cross.

    ``threads`` are those of a GPU's grid that are bound around.
    """

    innermost: str
    concurrent: str
    vectorized: bool
    threads: tuple[str, ...] = ()


_OUTSIDE: Final = _Loops("", "", False)
_SERIAL: Final = _Loops("serial", "", False)


_Task: TypeAlias = "tuple[Stmt, _Loops] | list[Node]"
"""A statement to visit, or the names that go out of scope after the statement that binds them."""


class _Leave(NamedTuple):
    """Take a name out of scope."""

    name: Var


class _Bind(NamedTuple):
    """Take a name into scope."""

    name: Var


class _Walk:
    """One walk over a function: scopes, jumps, returns, calls."""

    def __init__(self, func: PrimFunc, functions: Mapping[str, BaseFunc]) -> None:
        self.func = func
        self.functions = functions
        self.found: list[Diagnostic] = []
        self.live: set[Node] = set()
        # Everything that was ever bound; a second binding is a mistake wherever it is.
        self.bound: set[Node] = set()
        self.told: set[int] = set()
        self.placed: defaultdict[int, int] = defaultdict(int)
        self.stack: list[_Task] = []
        self.returns = False
        self.has_blocks = False
        self.span: Span | None = func.span

    def run(self) -> list[Diagnostic]:
        """Walk the function, and return its mistakes."""
        for param in self.func.params:
            self._bind(param)
        for buffer in self.func.buffer_map.values():
            self._bind_fresh(buffer)
            self._bind_buffer(buffer)
        stack, live = self.stack, self.live
        stack.append((self.func.body, _OUTSIDE))
        while stack:
            task = stack.pop()
            if isinstance(task, list):
                live.difference_update(task)
                continue
            node, loops = task
            self.span = getattr(node, "span", None) or self.span
            if node.__class__ is BufferStore and not self.placed and is_plain([node], live):
                continue
            check = _STATEMENTS.get(node.__class__)
            if check is None:
                self._other(node, loops)
            else:
                check(self, node, loops)
        self._end()
        return self.found

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
                f"{_kind(name)} {_hint(name)!r} is bound twice",
                label="bound here again",
                help="make a variable of its own for each binding, also in separate scopes",
                span=_span(name),
            )
        self.bound.add(name)
        self.live.add(name)

    def _bind_fresh(self, buffer: Buffer) -> list[Node]:
        """Bind the variables in a buffer's fields that are not bound yet, and return them."""
        fresh: list[Node] = []
        for part in _numbers(buffer):
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

    def _walk_in_scope(self, body: Stmt, names: list[Node], loops: _Loops) -> None:
        """Bind names, and walk a body in their scope."""
        for name in names:
            self._bind(name)
        self.stack += (names, (body, loops))

    # -- expressions -----------------------------------------------------------------------------
    def _constant_index(self, node: BufferLoad | BufferStore) -> None:
        found = outside(node.buffer, node.indices, node.span or self.span, "TIR0419")
        if found is not None:
            self.found.append(found)

    def _expressions(self, value: object, loops: _Loops) -> None:
        """Check the expressions in a field's value."""
        for part in nodes_in(value):
            self._expression(part, loops, _LEVELS)

    def _expression(self, node: Any, loops: _Loops, levels: int) -> None:
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

    def _deep(self, value: Any, loops: _Loops) -> None:
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

    def _call(self, call: Call, loops: _Loops) -> None:
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
    def _jump(self, call: Call, loops: _Loops) -> None:
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

    def _return(self, call: Call, loops: _Loops) -> None:
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

    # -- statements ------------------------------------------------------------------------------
    def _other(self, node: Any, loops: _Loops) -> None:
        if node.lowered_by:
            self.found.append(mistake_of_foreign(node, self.span))
        else:
            parts = children(node)
            self._expressions(tuple(p for p in parts if not isinstance(p, Stmt)), loops)
            bodies = [part for part in parts if isinstance(part, Stmt)]
            self.stack.extend((body, loops) for body in reversed(bodies))

    def _seq(self, node: SeqStmt, loops: _Loops) -> None:
        self.stack += [(part, loops) for part in reversed(node.seq)]

    def _store(self, node: BufferStore, loops: _Loops) -> None:
        self._element(node)
        self._expression(node.value, loops, _LEVELS)
        for index in node.indices:
            self._expression(index, loops, _LEVELS)

    def _evaluate(self, node: Evaluate, loops: _Loops) -> None:
        if self.placed or not is_plain([node.value], self.live):
            self._expression(node.value, loops, _LEVELS)

    def _if(self, node: IfThenElse, loops: _Loops) -> None:
        self._expressions(node.condition, loops)
        cases = (node.then_case, node.else_case)
        self.stack.extend((c, loops) for c in reversed(cases) if c is not None)

    def _let(self, node: LetStmt, loops: _Loops) -> None:
        self._expressions(node.value, loops)
        self._walk_in_scope(node.body, [node.var], loops)

    def _allocate(self, node: Allocate, loops: _Loops) -> None:
        self._expressions((node.extents, node.condition, node.annotations), loops)
        self._walk_in_scope(node.body, [node.buffer_var], loops)

    def _decl_buffer(self, node: DeclBuffer, loops: _Loops) -> None:
        self._use(node.buffer.data, node.span)
        self._expressions(_numbers(node.buffer), loops)
        self._walk_in_scope(node.body, [node.buffer], loops)

    def _realize(self, node: BufferRealize, loops: _Loops) -> None:
        names = self._bind_fresh(node.buffer) + self._bind_buffer(node.buffer)
        self._expressions((node.bounds, node.condition), loops)
        self.stack += (names, (node.body, loops))

    def _for(self, node: For, loops: _Loops) -> None:
        for part in (node.min, node.extent):
            if part.__class__ is not IntImm:
                self._expression(part, loops, _LEVELS)
        if node.annotations:
            self._expressions(node.annotations, loops)
        names: list[Node] = [node.loop_var]
        bound = node.thread_binding
        if (
            bound is None
            and node.kind is ForKind.SERIAL
            and (loops is _SERIAL or loops is _OUTSIDE)
            and node.loop_var not in self.bound
        ):
            # Most loops are like this, so this path makes as few calls as possible.
            self.bound.add(node.loop_var)
            self.live.add(node.loop_var)
            self.stack += (names, (node.body, _SERIAL))
            return
        if (bound is not None) != (node.kind is ForKind.THREAD_BINDING):
            self._report(
                "TIR0418",
                f"loop {node.loop_var.name_hint!r} is {node.kind.value} "
                f"{'without' if bound is None else 'with'} a thread",
                help="give thread loops a thread_binding, and only these",
            )
        if bound is not None and bound.var is not node.loop_var:
            names.append(bound.var)
        if node.kind is ForKind.SERIAL:
            inner = loops
            if loops.innermost != "serial":
                inner = loops._replace(innermost="serial")
        else:
            word = _CONCURRENT.get(node.kind)
            inner = _Loops(
                word or "serial",
                word or loops.concurrent,
                loops.vectorized or node.kind is ForKind.VECTORIZED,
                loops.threads if bound is None else self._threads(bound, loops),
            )
        self._walk_in_scope(node.body, names, inner)

    def _threads(self, bound: IterVar, loops: _Loops) -> tuple[str, ...]:
        """Return the threads that are bound in the body of a statement that binds another one."""
        tag = bound.thread_tag
        if tag not in GRID:
            if tag not in VIRTUAL:
                self._report("TIR0424", f"there is no thread {tag!r}", help=help_thread(tag))
            return loops.threads
        if tag in loops.threads:
            self._report(
                "TIR0422",
                f"{tag} is bound inside of a loop that binds it",
                help="a thread has one index: bind another, or make one of the loops serial",
            )
        return (*loops.threads, tag)

    def _while(self, node: While, loops: _Loops) -> None:
        self._expressions(node.condition, loops)
        if loops.vectorized:
            self._report(
                "TIR0411",
                "a while loop is inside of a vectorized loop",
                help="make the outer loop serial",
            )
        if isinstance(node.condition, IntImm) and not (
            node.condition.value and can_leave(node.body)
        ):
            ends = "never ends" if node.condition.value else "never runs"
            self._report(
                "TIR0415",
                f"a while loop with a constant condition {ends}",
                help="leave it by break or return, or test something that changes",
            )
        self.stack.append((node.body, loops._replace(innermost="serial")))

    def _attr(self, node: AttrStmt, loops: _Loops) -> None:
        self._expressions(node.value, loops)
        subject = node.node.var if isinstance(node.node, IterVar) else node.node
        if isinstance(subject, Node) and subject.lowered_by:
            self.found.append(mistake_of_foreign(subject, self.span))
        if node.is_binding and isinstance(subject, Var):
            threads = loops.threads
            if isinstance(node.node, IterVar):
                threads = self._threads(node.node, loops)
            self._walk_in_scope(
                node.body, [subject], _Loops("thread", "thread", loops.vectorized, threads)
            )
        else:
            self.stack.append((node.body, loops))

    # -- blocks ----------------------------------------------------------------------------------
    def _block(self, node: BlockRealize, loops: _Loops) -> None:
        block = node.block
        self.has_blocks = True
        self._expressions((node.values, node.predicate), loops)
        self.span = block.span or self.span
        names: list[Node] = []
        for it, value in zip(block.iter_vars, node.values, strict=True):
            self._iterator(block, it, value)
            self._expressions(it.dom, loops)
        for it in block.iter_vars:
            self._bind(it.var)
            names.append(it.var)
        for buffer in block.alloc_buffers:
            self._check_allocated(block, buffer)
            names += self._bind_buffer(buffer)
        for match in block.match_buffers:
            self._expressions(match.source, loops)
            names += self._bind_fresh(match.buffer)
            names += self._bind_buffer(match.buffer)
            self._match(match)
        self._expressions((block.reads, block.writes, block.annotations), loops)
        self.stack += (names, (block.body, loops))
        if block.init is not None:
            self.stack.append((block.init, loops))

    def _iterator(self, block: Block, it: IterVar, value: PrimExpr) -> None:
        name = it.var.name_hint
        if it.iter_type not in _AXES or it.dom is None or it.dom.extent is None:
            self._report(
                "TIR0416",
                f"iterator {name!r} of block {block.name_hint!r} has no domain, or is of kind "
                f"{it.iter_type.value}",
                help="give it a domain, and make it spatial, reduce, scan or opaque",
                span=it.span,
            )
        if value.dtype is not it.var.dtype:
            self._report(
                "TIR0417",
                f"iterator {name!r} of block {block.name_hint!r} is {it.var.dtype}, its value "
                f"{value.dtype}",
                help="cast the value, or give the domain the value's dtype",
                span=it.span,
            )

    def _check_allocated(self, block: Block, buffer: Buffer) -> None:
        for part in _numbers(buffer):
            for name in pre_order(part):
                if isinstance(name, Var) and name not in self.live:
                    self.told.add(id(name))
                    self._report(
                        "TIR0404",
                        f"nothing binds {name.name_hint!r} in the shape, strides or offset of "
                        f"buffer {buffer.name!r}, which block {block.name_hint!r} allocates",
                        help="allocate with extents that are known where the block starts",
                        span=buffer.span,
                    )

    def _match(self, match: MatchBufferRegion) -> None:
        buffer, region = match.buffer, match.source.region
        offset = len(region) - len(buffer.shape)
        for axis, part in enumerate(region):
            extent = _extent(part)
            if axis < offset:
                if not _is_equal(extent, IntImm(1, extent.dtype)):
                    self._report(
                        "TIR0412",
                        f"axis {axis} of the region that {buffer.name!r} matches is not known to "
                        "have extent 1, but the buffer lacks it",
                        help="match one index there, or give the buffer that axis",
                        span=match.span or match.source.span,
                    )
                continue
            wanted = buffer.shape[axis - offset]
            if not isinstance(wanted, Var) and not _is_equal(wanted, extent):
                self._report(
                    "TIR0412",
                    f"axis {axis - offset} of {buffer.name!r} is not known to have the extent of "
                    "the region that it matches",
                    label=f"{wanted} here, {extent} in the region",
                    help="give the buffer the region's extents",
                    span=match.span or match.source.span,
                )

    def _bind_buffer(self, buffer: Buffer) -> list[Node]:
        """Bind a buffer and its memory, and return both."""
        if buffer in self.bound:
            self._bind(buffer)
            self.live.add(buffer.data)
        else:
            self._bind(buffer.data)
            self._bind(buffer)
        return [buffer.data, buffer]


_STATEMENTS: Final[dict[type, Callable[[_Walk, Any, _Loops], None]]] = {
    SeqStmt: _Walk._seq,  # pyright: ignore[reportPrivateUsage]
    For: _Walk._for,  # pyright: ignore[reportPrivateUsage]
    While: _Walk._while,  # pyright: ignore[reportPrivateUsage]
    IfThenElse: _Walk._if,  # pyright: ignore[reportPrivateUsage]
    LetStmt: _Walk._let,  # pyright: ignore[reportPrivateUsage]
    AttrStmt: _Walk._attr,  # pyright: ignore[reportPrivateUsage]
    Allocate: _Walk._allocate,  # pyright: ignore[reportPrivateUsage]
    DeclBuffer: _Walk._decl_buffer,  # pyright: ignore[reportPrivateUsage]
    BufferRealize: _Walk._realize,  # pyright: ignore[reportPrivateUsage]
    BlockRealize: _Walk._block,  # pyright: ignore[reportPrivateUsage]
    BufferStore: _Walk._store,  # pyright: ignore[reportPrivateUsage]
    Evaluate: _Walk._evaluate,  # pyright: ignore[reportPrivateUsage]
}


# -- questions -------------------------------------------------------------------------------------


def _kind(name: Node) -> str:
    return "buffer" if isinstance(name, Buffer) else "variable"


def _hint(name: Node) -> str:
    return str(getattr(name, "name_hint", None) or getattr(name, "name", ""))


def _span(name: Node) -> Span | None:
    found: object = getattr(name, "span", None)
    return found if isinstance(found, Span) else None


def _parameter(func: PrimFunc, param: Var) -> str:
    buffer = func.buffer_map.get(param)
    if buffer is None:
        return f"{param.name_hint!r} ({param.dtype})"
    return f"{buffer.name!r} (an array of {buffer.dtype})"


def _numbers(buffer: Buffer) -> tuple[PrimExpr, ...]:
    """List the expressions in a buffer's fields."""
    offset = () if buffer.elem_offset is None else (buffer.elem_offset,)
    return (*buffer.shape, *buffer.strides, *offset)


def _extent(part: Range) -> PrimExpr:
    return IntImm(1, part.min.dtype) if part.extent is None else part.extent


def _is_equal(a: PrimExpr, b: PrimExpr) -> bool:
    """Tell whether two extents are known to be equal, also if their arithmetic wraps."""
    if a is b or structural_equal(a, b):
        return True
    affine = Affine()
    difference = affine.read(a).plus(affine.read(b), -1)
    return difference.is_constant and difference.constant == 0
