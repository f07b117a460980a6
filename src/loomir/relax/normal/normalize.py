"""Normal form of whole programs: establish it, and check it.

1. The value of a binding is a leaf, or contains only leaves. A tuple of leaves is a leaf. A
   function occurs only as a whole value, an operator only as a callee.
2. Sequences occur only as bodies of functions and as branches;
3. and these are always sequences, whose results are leaves.
4. Blocks are not empty, and no two adjacent blocks are of the same kind.
5. A call of an operator with a normalisation rule of its own has the form that the rule produces.

In addition, every variable and every function has structural information.
"""

from __future__ import annotations

from typing import Any, Final, TypeVar

from loomir.ir.module import IRModule
from loomir.ir.node import Node
from loomir.ir.op import Op
from loomir.ir.passes import Subject, function_fact
from loomir.ir.visit import children, trampoline
from loomir.relax.expr import (
    Binding,
    BindingBlock,
    Call,
    ExternFunc,
    Function,
    If,
    MatchCast,
    SeqExpr,
    Tuple,
    TupleGetItem,
    Var,
    VarBinding,
)
from loomir.relax.node import RelaxExpr
from loomir.relax.normal.block_builder import BlockBuilder
from loomir.relax.normal.blocks import is_dataflow
from loomir.relax.normal.normalizer import ATOMS, Normalizer, calls_packed
from loomir.relax.operator.definition import find_op
from loomir.support.diagnostics import CompileError, Diagnostic
from loomir.support.span import Span
from loomir.tir.function import PrimFunc

__all__ = ["normal_form_violations", "normalize"]

_P = TypeVar("_P", IRModule, Function, PrimFunc)


def normalize(program: _P, warnings: list[Diagnostic] | None = None) -> _P:
    """Bring a program into normal form and derive the structural information of variables.

    A program that is in normal form is returned as it is. ``warnings`` gets the warnings.
    Errors: those of derivation, and RLX0107, RLX0109, RLX0301, RLX0302; of all functions together.
    """
    if isinstance(program, PrimFunc):
        return program
    builder = BlockBuilder(program if isinstance(program, IRModule) else None)
    made: Any
    if isinstance(program, Function):
        made = _normalize(builder.normalizer, program)
    else:
        made = _module(builder, program)
    if warnings is not None:
        warnings += builder.warnings
    return made


def _module(builder: BlockBuilder, mod: IRModule) -> IRModule:
    mistakes: list[Diagnostic] = []
    changed = False
    for var, func in mod.functions.items():
        if not isinstance(func, Function):
            continue
        try:
            made = _normalize(builder.normalizer, func)
        except CompileError as error:
            mistakes += error.diagnostics
            continue
        if made is not func:
            changed = True
            builder.update_func(var, made)
    if mistakes:
        raise CompileError.of(mistakes)
    return builder.get() if changed else mod


def _normalize(normalizer: Normalizer, func: Function) -> Function:
    made = trampoline(normalizer.function(func))
    normalizer.derive(made)  # compares the result with its annotation
    return made


# -- what is not in normal form -------------------------------------------------------------------
_CALLEES: Final = (Op, ExternFunc)


def normal_form_violations(program: IRModule | Function | PrimFunc) -> tuple[Diagnostic, ...]:
    """List the places where a program is not in normal form, in program order.

    Errors: RLX0311 to RLX0315 for the criteria 1 to 5, RLX0003 for a variable without annotation,
    RLX0316 for a function without.
    """
    if isinstance(program, PrimFunc):
        return ()
    functions = program.functions.values() if isinstance(program, IRModule) else (program,)
    found: list[Diagnostic] = []
    for func in functions:
        if isinstance(func, Function):
            found += _Check(func).run()
    return tuple(found)


@function_fact("relax_normal_form", Function)
def _(subject: Subject) -> tuple[Diagnostic, ...]:
    return normal_form_violations(subject.func)


class _Check:
    def __init__(self, func: Function) -> None:
        self.stack: list[Node] = [func]
        self.found: list[Diagnostic] = []
        self.span: Span | None = func.span

    def run(self) -> list[Diagnostic]:
        while self.stack:
            part = self.stack.pop()
            if isinstance(part, Function):
                for param in part.params:
                    self._check_annotated(param)
                if part.ret_struct_info is None:
                    self._report(
                        "RLX0316",
                        "nothing is known of what the function returns yet",
                        "annotate it, or normalize the program",
                        part,
                    )
                self._body(part.body, "the body of a function")
            elif isinstance(part, SeqExpr):
                self._sequence(part)
            elif isinstance(part, Binding):
                self._check_binding(part)
        return self.found

    def _report(self, code: str, message: str, help: str, at: Node) -> None:
        span = getattr(at, "span", None) or self.span
        self.found.append(Diagnostic(code, message, span, help=help))

    def _check_annotated(self, var: Var) -> None:
        if var.struct_info_annotation is None:
            self._report(
                "RLX0003",
                f"nothing is known of the variable {var.name_hint!r} yet",
                "annotate it, or normalize the program first",
                var,
            )

    def _body(self, expr: RelaxExpr, what: str) -> None:
        if isinstance(expr, SeqExpr):
            self.stack.append(expr)
        else:
            self._report(
                "RLX0313",
                f"{what} is not a sequence (normal form 3)",
                "wrap it: relax.SeqExpr((), value), or normalize the program",
                expr,
            )

    def _sequence(self, expr: SeqExpr) -> None:
        before: BindingBlock | None = None
        for block in expr.blocks:
            if not block.bindings:
                self._report(
                    "RLX0314",
                    "a block is empty (normal form 4)",
                    "remove it, or normalize the program",
                    block,
                )
                continue
            if before is not None and is_dataflow(before) == is_dataflow(block):
                self._report(
                    "RLX0314",
                    "two blocks of one kind follow each other (normal form 4)",
                    "join them, or normalize the program",
                    block,
                )
            before = block
        if not self._is_leaf(expr.body):
            self._report(
                "RLX0313",
                "the result of a sequence is not a leaf (normal form 3)",
                "bind it to a variable, or normalize the program",
                expr.body,
            )
        self.stack.extend(b for block in reversed(expr.blocks) for b in reversed(block.bindings))

    def _check_binding(self, binding: Binding) -> None:
        assert isinstance(binding, (VarBinding, MatchCast))
        self.span = binding.span or self.span
        if binding.var is not None:
            self._check_annotated(binding.var)
        value = binding.value
        if isinstance(value, SeqExpr):
            self._report(
                "RLX0312",
                "a sequence is the value of a binding (normal form 2)",
                "put its bindings before this one, or normalize the program",
                value,
            )
            self.stack.append(value)
        elif isinstance(value, If):
            self._leaves((value.cond,))
            self._body(value.false_branch, "a branch")
            self._body(value.true_branch, "a branch")
        elif isinstance(value, Function):
            self.stack.append(value)
        elif isinstance(value, Call):
            callee = () if isinstance(value.op, _CALLEES) else (value.op,)
            self._leaves((*callee, *value.args[calls_packed(value) :]))
            self._check_own_rule(value)
        elif isinstance(value, TupleGetItem):
            self._leaves((value.tuple_value,))
        elif not isinstance(value, ExternFunc):
            self._leaves((value,))

    def _leaves(self, exprs: tuple[Node, ...]) -> None:
        for expr in exprs:
            if not self._is_leaf(expr):
                self._report(
                    "RLX0311",
                    f"a {expr.__class__.__name__} is nested in another expression (normal form 1)",
                    "bind it to a variable, or normalize the program",
                    expr,
                )

    def _is_leaf(self, expr: Node) -> bool:
        pending: list[Node] = [expr]
        while pending:
            part = pending.pop()
            if isinstance(part, Tuple):
                pending.extend(children(part))
            elif part.__class__ not in ATOMS:
                return False
        return True

    def _check_own_rule(self, call: Call) -> None:
        found = find_op(call.op.name) if isinstance(call.op, Op) else None
        if found is None or found.normalize is None:
            return
        try:
            same = found.normalize_call(call) is call
        except CompileError:  # reported where the call is derived
            return
        if not same:
            shown = "R." + found.name.removeprefix("relax.")
            self._report(
                "RLX0315",
                f"the call is not as {shown} wants it (normal form 5)",
                "give the arguments as a literal tuple, or normalize the program",
                call,
            )
