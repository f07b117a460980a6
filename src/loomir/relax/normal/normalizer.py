"""Normalise expressions to bindings whose values contain no nested expressions.

Each nested expression that is not a leaf is first bound to a variable, from left to right, which
preserves the order of evaluation. Each variable gets the structural information derived from its
value. Programs may be deep, so visitors are generators, run by ``trampoline``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NoReturn, TypeVar, cast

from loomir.ir.equality import structural_equal
from loomir.ir.module import BaseFunc, GlobalVar
from loomir.ir.node import Node
from loomir.ir.op import Op
from loomir.ir.substitution import substitute
from loomir.ir.visit import Step, pre_order, trampoline
from loomir.relax.expr import (
    Binding,
    BindingBlock,
    Call,
    Constant,
    DataflowVar,
    DataTypeImm,
    ExternFunc,
    Function,
    If,
    MatchCast,
    PrimValue,
    SeqExpr,
    StringImm,
    Tuple,
    TupleGetItem,
    Var,
    VarBinding,
)
from loomir.relax.free_vars import free_relax_vars
from loomir.relax.info.relations import Match, forget_variables
from loomir.relax.node import Callee, RelaxExpr, StructInfo
from loomir.relax.normal.blocks import Scope, is_dataflow
from loomir.relax.normal.derive import Deriver, func_struct_info
from loomir.relax.operator.definition import find_op
from loomir.relax.shape import ShapeExpr
from loomir.relax.struct_info import OBJECT, FuncStructInfo
from loomir.support.diagnostics import CompileError, Diagnostic
from loomir.support.span import Span
from loomir.tir.expr import PrimExpr
from loomir.tir.expr import Var as ShapeVar
from loomir.tir.rules import refuse

__all__ = ["ATOMS", "Normalizer", "calls_packed", "is_force_pure", "is_leaf"]

_R = TypeVar("_R")
_N = TypeVar("_N", bound=Node)

ATOMS: Final = frozenset(
    {Var, DataflowVar, GlobalVar, Constant, ShapeExpr, PrimValue, StringImm, DataTypeImm}
)
"""Leaf expressions without expressions in them; a ``Tuple`` of leaves is a leaf as well."""


def is_leaf(expr: object) -> bool:
    """Whether an expression may occur within another one; the fields of a tuple are not checked."""
    return expr.__class__ in ATOMS or isinstance(expr, Tuple)


def calls_packed(call: Call) -> bool:
    """Whether an operator's call passes a packed function that the operator calls."""
    return isinstance(call.op, Op) and bool(call.args) and isinstance(call.args[0], ExternFunc)


def is_force_pure(func: Function) -> bool:
    """Whether the author vouches for impure calls in a function."""
    return bool(func.attrs.get("relax.force_pure"))


class Normalizer:
    """Normalises expressions into the innermost of a stack of scopes.

    ``functions`` gives what is known of the functions of the module, ``warn`` is called with
    warnings.
    """

    def __init__(
        self,
        functions: Callable[[GlobalVar], StructInfo],
        warn: Callable[[Diagnostic], None],
        definition: Callable[[GlobalVar], BaseFunc | None],
    ) -> None:
        self.deriver = Deriver(functions, warn, definition=definition)
        self.known = self.deriver.scope
        """The variables in scope, and what is known of them."""
        self.scopes: list[Scope] = []
        self.bound: dict[Var, Binding] = {}
        """The binding of each variable."""
        self.renamed: dict[Node, Node] = {}
        """The replacements of variables and shape variables of the old program."""
        self._shapes_renamed = False
        self.mistakes: list[Diagnostic] | None = None
        """If a list, it collects the mistakes of all bindings; else the first one raises."""
        self._names: dict[str, int] = {}
        self._finished: dict[SeqExpr, bool] = {}

    @property
    def scope(self) -> Scope:
        """The innermost scope. Errors: RLX0306 where there is none."""
        if not self.scopes:
            refuse(
                "RLX0306",
                "there is no function to add to",
                help="begin one with `with bb.function(name, params):`",
            )
        return self.scopes[-1]

    # -- structural information ------------------------------------------------------------------
    def derive(self, value: RelaxExpr) -> StructInfo:
        """Derive what is known of a right-hand side; mistakes are placed at it."""
        self._set_purity()
        try:
            return self.deriver.derive(value)
        except CompileError as error:
            if value.span is None or all(d.span is not None for d in error.diagnostics):
                raise
            raise CompileError.of([d.at(value.span) for d in error.diagnostics]) from None

    def _set_purity(self) -> None:
        scope = self.scopes[-1] if self.scopes else None
        self.deriver.pure = scope is not None and scope.pure
        self.deriver.in_dataflow = scope is not None and scope.dataflow

    def info(self, info: StructInfo) -> StructInfo:
        """Return structural information with renamed variables."""
        return self._substitute(info) if self.renamed else info

    def _substitute(self, part: _N) -> _N:
        table = {name: self.renamed[name] for name in pre_order(part) if name in self.renamed}
        return substitute(part, table) if table else part

    # -- scopes ----------------------------------------------------------------------------------
    def enter(self, pure: bool, params: Sequence[Var] = ()) -> None:
        """Begin a sequence; ``params`` are those of the function whose body it is."""
        self.scopes.append(Scope(pure))
        self.known.enter(params)

    def leave(self) -> Scope:
        """End the innermost sequence."""
        self.known.leave()
        return self.scopes.pop()

    def leave_to(self, depth: int) -> None:
        """End sequences until ``depth`` of them are left."""
        while len(self.scopes) > depth:
            self.leave()

    def finish(self, body: RelaxExpr) -> SeqExpr:
        """End the innermost sequence, which a builder filled, with its result.

        It is known to be in normal form, so deep branches are not visited again at each level.
        """
        scope = self.leave()
        made = scope.finish(body)
        self._finished[made] = scope.pure
        return made

    def open(self, dataflow: bool, origin: BindingBlock | None = None) -> None:
        """Continue in a block of a kind; variables of the previous dataflow block end."""
        scope = self.scope
        if scope.dataflow and not dataflow:
            for binding in scope.bindings:
                var = getattr(binding, "var", None)
                if isinstance(var, DataflowVar):
                    self.known.forget(var)
        scope.open(dataflow, origin)

    # -- variables -------------------------------------------------------------------------------
    def rename(self, old: Var | ShapeVar, new: RelaxExpr | PrimExpr) -> None:
        """Replace a variable by a leaf, from here on; an extent in a shape variable's."""
        self.renamed[old] = new
        self._shapes_renamed = self._shapes_renamed or isinstance(old, ShapeVar)

    def fresh(self, hint: str, info: StructInfo, ordinary: bool, span: Span | None) -> Var:
        """Make a variable of the current block; without a hint it gets a numbered name."""
        dataflow = self.scope.dataflow and not ordinary
        if ordinary:
            info = self.outside(info)
        if not hint:
            stem = "lv" if dataflow else "gv"
            count = self._names.get(stem, 0)
            self._names[stem] = count + 1
            hint = f"{stem}{count}" if count else stem
        return (DataflowVar if dataflow else Var)(hint, info, span=span)

    def outside(self, info: StructInfo) -> StructInfo:
        """Return what is known of a value after the dataflow block in which it is bound."""
        if not self.scopes or not self.scope.dataflow:
            return info
        return forget_variables(info, lambda var: isinstance(var, DataflowVar))

    def add(self, binding: Binding) -> None:
        """Add a binding to the current block as it is."""
        self.scope.add(binding)
        if isinstance(binding, (VarBinding, MatchCast)) and binding.var is not None:
            self.bound[binding.var] = binding
            self.known.declare(binding.var)

    def bind(self, value: RelaxExpr, hint: str = "", *, ordinary: bool = False) -> Var:
        """Bind a value in normal form to a new variable; ``ordinary`` if it is an output."""
        var = self.fresh(hint, self.derive(value), ordinary, value.span)
        self.add(VarBinding(var, value, span=value.span))
        return var

    # -- expressions -----------------------------------------------------------------------------
    def leaf(self, expr: RelaxExpr) -> Step[RelaxExpr]:
        """Return a leaf in place of an expression: a variable bound to it, if it is no leaf."""
        made = yield self.value(expr)
        return made if is_leaf(made) else self.bind(made)

    def leaves(self, given: Sequence[RelaxExpr]) -> Step[tuple[RelaxExpr, ...]]:
        """Return leaves in place of expressions; the same tuple if all of them are leaves."""
        made: list[RelaxExpr] = []
        for expr in given:
            if expr.__class__ in ATOMS:
                made.append(self._atom(expr))
            else:
                made.append((yield self.leaf(expr)))
        same = all(a is b for a, b in zip(made, given))
        return cast("tuple[RelaxExpr, ...]", given) if same else tuple(made)

    def _atom(self, expr: RelaxExpr) -> RelaxExpr:
        if isinstance(expr, Var):
            return cast("RelaxExpr", self.renamed.get(expr, expr))
        if self._shapes_renamed and isinstance(expr, (ShapeExpr, PrimValue)):
            return self._substitute(expr)
        return expr

    def value(self, expr: RelaxExpr) -> Step[RelaxExpr]:
        """Return a right-hand side in place of an expression: nothing in it but leaves."""
        if expr.__class__ in ATOMS:
            return self._atom(expr)
        if isinstance(expr, Call):
            return (yield self._call(expr))
        if isinstance(expr, Tuple):
            fields = yield self.leaves(expr.fields)
            return expr if fields is expr.fields else Tuple(fields, span=expr.span)
        if isinstance(expr, TupleGetItem):
            (of,) = yield self.leaves((expr.tuple_value,))
            if of is expr.tuple_value:
                return expr
            return TupleGetItem(of, expr.index, span=expr.span)
        if isinstance(expr, If):
            return (yield self._if(expr))
        if isinstance(expr, SeqExpr):
            return (yield self._flatten(expr))
        if isinstance(expr, Function):
            return (yield self.function(expr))
        if isinstance(expr, ExternFunc):
            return expr
        return _refuse_expression(expr)

    def _call(self, call: Call) -> Step[RelaxExpr]:
        op: Callee = call.op
        if not isinstance(op, (Op, ExternFunc)):
            (op,) = yield self.leaves((op,))
        args = yield self._arguments(call)
        sinfo = call.sinfo_args
        if self.renamed and sinfo:
            made_infos = tuple([self.info(s) for s in sinfo])
            sinfo = sinfo if all(a is b for a, b in zip(made_infos, sinfo)) else made_infos
        if op is not call.op or args is not call.args or sinfo is not call.sinfo_args:
            call = Call(op, args, sinfo, call.attrs, span=call.span)
        if isinstance(op, Op):
            found = find_op(op.name)
            if found is not None and found.normalize is not None:
                made = found.normalize_call(call)
                if made is not call:
                    args = yield self._arguments(made)
                    if args is not made.args:
                        made = Call(made.op, args, made.sinfo_args, made.attrs, span=made.span)
                    return made if made.span is not None else _place(made, call.span)
        return call

    def _arguments(self, call: Call) -> Step[tuple[RelaxExpr, ...]]:
        """Return leaves for the arguments; a packed function for an operator to call is one."""
        if not calls_packed(call):
            return (yield self.leaves(call.args))
        rest = call.args[1:]
        made = yield self.leaves(rest)
        return call.args if made is rest else (call.args[0], *made)

    def _if(self, expr: If) -> Step[RelaxExpr]:
        if self.scope.dataflow:
            refuse(
                "RLX0107",
                "a branch is not allowed in a dataflow block (rule 7)",
                help="end the dataflow block before it, or use R.where",
                span=expr.span,
            )
        (cond,) = yield self.leaves((expr.cond,))
        pure = self.scope.pure
        first = yield self.sequence(expr.true_branch, pure)
        second = yield self.sequence(expr.false_branch, pure)
        if (cond, first, second) == (expr.cond, expr.true_branch, expr.false_branch):
            return expr
        return If(cond, first, second, span=expr.span)

    # -- sequences -------------------------------------------------------------------------------
    def sequence(self, expr: RelaxExpr, pure: bool) -> Step[SeqExpr]:
        """Return a sequence in normal form, in a scope of its own."""
        known_pure = self._finished.get(expr) if isinstance(expr, SeqExpr) else None
        if isinstance(expr, SeqExpr) and known_pure is not None and known_pure >= pure:
            return expr
        depth = len(self.scopes)
        self.enter(pure)
        try:
            origin = expr if isinstance(expr, SeqExpr) else None
            if origin is not None:
                yield self._blocks(origin.blocks)
                self.open(False)
            body = yield self.leaf(expr if origin is None else origin.body)
            return self.scope.finish(body, origin)
        finally:
            self.leave_to(depth)

    def _flatten(self, expr: SeqExpr) -> Step[RelaxExpr]:
        """Add the bindings of a sequence to the current scope, and return its value."""
        outer = self.scope.dataflow
        if outer:
            for block in expr.blocks:
                if block.bindings and not is_dataflow(block):
                    refuse(
                        "RLX0301",
                        "an ordinary block is not allowed in a dataflow block",
                        help="end the dataflow block before it, or make the inner one dataflow",
                        span=block.bindings[0].span or block.span or expr.span,
                    )
        yield self._blocks(expr.blocks)
        self.open(outer)
        return (yield self.value(expr.body))

    def _blocks(self, blocks: Sequence[BindingBlock]) -> Step[None]:
        for block in blocks:
            if not block.bindings:
                continue
            self.open(is_dataflow(block), block)
            for binding in block.bindings:
                depth = len(self.scopes)
                try:
                    yield self.add_binding(binding)
                except CompileError as error:
                    if self.mistakes is None:
                        raise
                    self.mistakes += error.diagnostics
                    self.leave_to(depth)
                    self._give_up(binding)

    def function(self, func: Function) -> Step[Function]:
        """Return a function in normal form with an annotated result; the same one if it is such."""
        params = tuple([self.parameter(p) for p in func.params])
        self.known.enter(params)
        try:
            body = yield self.sequence(func.body, func.is_pure and not is_force_pure(func))
        finally:
            self.known.leave()
        if func.ret_struct_info is not None:
            ret = self.info(func.ret_struct_info)
        else:
            found = self.derive(Function(params, body, None, func.is_pure, span=func.span))
            ret = found.ret if isinstance(found, FuncStructInfo) else OBJECT
        same = all(a is b for a, b in zip(params, func.params))
        if same and body is func.body and ret is func.ret_struct_info:
            return func
        return Function(params, body, ret, func.is_pure, func.attrs, span=func.span)

    def parameter(self, param: Var) -> Var:
        """Return a parameter with an annotation. Errors: RLX0003 for what is no variable."""
        info: object = getattr(param, "struct_info_annotation", None)
        if not isinstance(cast("object", param), Var) or not isinstance(
            info, (StructInfo, type(None))
        ):
            Var.refuse_others(getattr(param, "name_hint", None) or str(param), info)
        return self._annotate(param, OBJECT)

    # -- bindings --------------------------------------------------------------------------------
    def add_binding(self, binding: Binding) -> Step[None]:
        """Add a binding of the old program, its value normalised and its variable annotated."""
        if isinstance(binding, MatchCast):
            value = yield self.value(binding.value)
            self.cast(binding, value)
            return
        assert isinstance(binding, VarBinding)
        var = binding.var
        func = binding.value
        if isinstance(func, Function) and var.struct_info_annotation is None:
            # A function may call itself, so its variable is declared before its value is derived.
            recursive = var in free_relax_vars(func)
            if recursive and func.ret_struct_info is not None:
                info = self.info(func_struct_info(func))
                var = type(var)(var.name_hint, info, span=var.span)
                self.rename(binding.var, var)
        if isinstance(func, Function):
            self.known.declare(var)
        value = yield self.value(func)
        self.define(var, value, binding)

    def _give_up(self, binding: Binding) -> None:
        """Declare the variable of a wrong binding by its annotation, or as any object."""
        assert isinstance(binding, (VarBinding, MatchCast))
        if isinstance(binding, MatchCast):
            self.known.bind_shape_vars(binding.struct_info)
        if binding.var is not None:
            given = self.renamed.get(binding.var, binding.var)
            if isinstance(given, Var):
                func = binding.value
                known = func_struct_info(func) if isinstance(func, Function) else OBJECT
                self.known.declare(self._annotate(given, known))

    def define(self, var: Var, value: RelaxExpr, origin: VarBinding | None = None) -> None:
        """Bind a value in normal form to a variable of the old program.

        An annotation that the value may not fit is checked when the program runs.
        """
        derived = self.derive(value)
        span = (origin.span if origin is not None else None) or value.span or var.span
        var = self._annotate(var, derived)
        wanted = var.struct_info
        fits = Match.YES
        if wanted is not derived and not structural_equal(wanted, derived):
            fits = self.deriver.check_binding(var, derived, value)
        if fits is Match.MAYBE:
            source = value if is_leaf(value) else self.bind(value)
            self.known.bind_shape_vars(wanted)
            self.add(MatchCast(var, source, wanted, span=span))
        elif origin is not None and origin.var is var and origin.value is value:
            self.add(origin)
        else:
            self.add(VarBinding(var, value, span=span))

    def _annotate(self, var: Var, derived: StructInfo) -> Var:
        """Return a variable with an annotation: what was derived, if it has none."""
        given = var.struct_info_annotation
        info = derived if given is None else self.info(given)
        if given is None and not isinstance(var, DataflowVar):
            info = self.outside(info)
        if info is given:
            return var
        made = type(var)(var.name_hint, info, span=var.span)
        self.rename(var, made)
        return made

    def cast(self, origin: MatchCast, value: RelaxExpr) -> Var | None:
        """Add a check whose value is in normal form, and return its variable."""
        wanted = self.info(origin.struct_info)
        given = self.derive(value)
        var = origin.var
        if var is not None:
            var = self._annotate(var, wanted)
        same = (var, value, wanted) == (origin.var, origin.value, origin.struct_info)
        made = origin if same else MatchCast(var, value, wanted, span=origin.span)
        self.deriver.check_match_cast(made, given)
        self.add(made)
        return var

    def run(self, step: Step[_R]) -> _R:
        """Run a visitor to its result."""
        return trampoline(step)


def _place(call: Call, span: Span | None) -> Call:
    return Call(call.op, call.args, call.sinfo_args, call.attrs, span=span)


def _refuse_expression(expr: object) -> NoReturn:
    if isinstance(expr, Op):
        refuse(
            "RLX0109",
            f"the operator {expr.name} is used where a value is expected (rule 9)",
            help="call it; a function that calls it can be passed on",
        )
    refuse(
        "RLX0302",
        f"a {type(expr).__name__} is not an expression of a graph",
        help="give a variable, a constant made with R.const, or a call",
        span=getattr(expr, "span", None),
    )
