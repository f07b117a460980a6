"""Derive the structural information of expressions: rules 1 to 16 of relax.md.

What cannot be proved is checked at run time, after a warning; what must fail is an error.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NoReturn

from loomir.arith.analyzer import Analyzer
from loomir.ir.module import BaseFunc, GlobalVar
from loomir.ir.node import Node
from loomir.ir.op import Op
from loomir.ir.visit import Step, rewrite, trampoline
from loomir.relax.expr import (
    Binding,
    Call,
    Constant,
    DataflowBlock,
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
from loomir.relax.info.describe import ErrorSpans, differences, error_spans_of, format_info
from loomir.relax.info.relations import (
    Match,
    check_compatibility,
    drop_binders,
    get_shape_var_mapping,
    is_subtype,
    join,
    substitute_shape_vars,
)
from loomir.relax.node import RelaxExpr, StructInfo
from loomir.relax.normal.scope import Scope
from loomir.relax.normal.signature import func_struct_info
from loomir.relax.operator.context import OpContext
from loomir.relax.operator.definition import op_def
from loomir.relax.shape import ShapeExpr
from loomir.relax.struct_info import (
    DEFAULT_DERIVE,
    OBJECT,
    FuncStructInfo,
    ObjectStructInfo,
    PrimStructInfo,
    ShapeStructInfo,
    TensorStructInfo,
    TupleStructInfo,
)
from loomir.support.diagnostics import CompileError, Diagnostic, with_count
from loomir.support.dtype import VOID
from loomir.tir.expr import PrimExpr
from loomir.tir.rules import refuse

__all__ = ["Deriver", "func_struct_info", "struct_info_of"]

Functions = Callable[[GlobalVar], StructInfo]
Definitions = Callable[[GlobalVar], "BaseFunc | None"]


def struct_info_of(expr: RelaxExpr | Op, functions: Functions | None = None) -> StructInfo:
    """Return what is known of a leaf: a variable, a constant, a tuple of leaves, a function's name.

    Errors: RLX0003 for a variable of which nothing is known, RLX0217 for what is not a leaf, or has
    no structural information of its own.
    """
    return trampoline(_leaf(expr, functions))


def _leaf(expr: RelaxExpr | Op, functions: Functions | None) -> Step[StructInfo]:
    if isinstance(expr, Tuple):
        fields: list[StructInfo] = []
        for field in expr.fields:
            fields.append((yield _leaf(field, functions)))
        return TupleStructInfo(tuple(fields))
    if isinstance(expr, Var):
        return expr.struct_info
    if isinstance(expr, GlobalVar) and functions is not None:
        return functions(expr)
    rule = _LEAVES.get(expr.__class__)
    return _refuse_value(expr) if rule is None else rule(expr)


def _refuse_value(expr: Node) -> NoReturn:
    if isinstance(expr, Op):
        what, help_ = (
            f"the operator {expr.name} is not a value",
            "call it, or wrap it in a function",
        )
    elif isinstance(expr, GlobalVar):
        what = f"nothing is known of the function {expr.name_hint!r}"
        help_ = "define it in the module"
    else:
        what = f"a {expr.__class__.__name__} stands where only a variable or a constant can"
        help_ = "bind it to a variable first"
    refuse("RLX0217", what, help=help_, span=getattr(expr, "span", None))


PACKED: Final = FuncStructInfo(None, OBJECT, purity=False, derive_func=DEFAULT_DERIVE)
"""A packed function: only its calls say what it returns."""

_LEAVES: Final[dict[type, Callable[[Any], StructInfo]]] = {
    Constant: lambda e: e.struct_info,
    PrimValue: lambda e: PrimStructInfo(e.value.dtype, e.value),
    StringImm: lambda e: OBJECT,
    DataTypeImm: lambda e: OBJECT,
    ShapeExpr: lambda e: ShapeStructInfo(e.values),
    ExternFunc: lambda e: PACKED,
}


class Deriver:
    """Derives binding after binding, in the order of the program.

    - ``scope`` holds what is in scope: ``enter`` and ``leave`` it with blocks that end, ``declare``
      what is bound, ``bind_shape_vars`` of what a ``MatchCast`` says.
    - ``pure``: calls here must be pure; ``in_dataflow``: so they must in a dataflow block.
    - ``derive`` trusts the blocks within an expression, which were derived when they were built;
      ``check`` derives every binding in them.
    - ``functions`` gives what is known of the module's functions, ``definition`` a function itself
      where it is there already; ``warn`` is called with what is left to run time.
    """

    def __init__(
        self,
        functions: Functions,
        warn: Callable[[Diagnostic], None],
        analyzer: Analyzer | None = None,
        *,
        definition: Definitions | None = None,
    ) -> None:
        self.functions = functions
        self.warn = warn
        self.analyzer = analyzer or Analyzer()
        self.definition = definition
        self.scope = Scope(self.analyzer)
        self.pure = False
        self.in_dataflow = False
        self.memory: dict[Any, Any] = {}
        self._deep = False

    def derive(self, expr: RelaxExpr | Op) -> StructInfo:
        """Return the structural information of a value that is to be bound.

        Errors: RLX0201 to RLX0249, and those of operators.
        """
        return self._value(expr) if isinstance(expr, GlobalVar) else trampoline(self._visit(expr))

    def check(self, expr: RelaxExpr) -> StructInfo:
        """Derive a value with every binding in it, also in functions.

        Errors: RLX0201 to RLX0249, and those of operators.
        """
        before, self._deep = self._deep, True
        try:
            return trampoline(self._visit(expr))
        finally:
            self._deep = before

    def lookup(self, expr: RelaxExpr | Op) -> StructInfo:
        """Return what is known of a leaf. Errors: RLX0003, RLX0216, RLX0217."""
        if isinstance(expr, Var):
            return self._variable(expr)
        if isinstance(expr, GlobalVar):
            return self.scope.instance(self.functions(expr))
        rule = _LEAVES.get(expr.__class__)
        return trampoline(self._visit(expr)) if rule is None else rule(expr)

    def _value(self, expr: RelaxExpr | Op) -> StructInfo:
        """Return what is known of a leaf that is used as a value, not as the callee of a call."""
        found = self.lookup(expr)
        # The result may be kept in this function, and a shape variable is bound in one function
        # only.
        return self.scope.rename_shape_vars(found) if isinstance(expr, GlobalVar) else found

    def _variable(self, var: Var) -> StructInfo:
        found = self.scope.info_of(var)
        if found is None and var in self.scope.relax_vars:
            refuse(
                "RLX0216",
                f"the function {var.name_hint!r} calls itself, and its result is not annotated",
                help=f"annotate what {var.name_hint!r} returns, as in -> R.Tensor(…)",
                span=var.span,
            )
        return var.struct_info if found is None else found

    # -- expressions -------------------------------------------------------------------------------
    def _visit(self, expr: RelaxExpr | Op) -> Step[StructInfo]:
        if isinstance(expr, Tuple):
            fields = yield self._visit_all(expr.fields)
            return TupleStructInfo(fields)
        if isinstance(expr, Call):
            return (yield self._call(expr))
        if isinstance(expr, TupleGetItem):
            found = yield self._visit(expr.tuple_value)
            return _field_of(expr, found)
        if isinstance(expr, If):
            return (yield self._if(expr))
        if isinstance(expr, SeqExpr):
            return (yield self._sequence(expr))
        if isinstance(expr, Function):
            return (yield self._function(expr))
        if isinstance(expr, (Var, GlobalVar)) or expr.__class__ in _LEAVES:
            return self.lookup(expr)
        return _refuse_value(expr)

    def _visit_all(self, exprs: tuple[RelaxExpr, ...]) -> Step[tuple[StructInfo, ...]]:
        found: list[StructInfo] = []
        for expr in exprs:
            leaf = isinstance(expr, (Var, GlobalVar)) or expr.__class__ in _LEAVES
            found.append(self._value(expr) if leaf else (yield self._visit(expr)))
        return tuple(found)

    def _if(self, expr: If) -> Step[StructInfo]:
        condition = yield self._visit(expr.cond)
        check_condition(expr, condition)
        first = yield self._visit(expr.true_branch)
        second = yield self._visit(expr.false_branch)
        return join(first, second, self.analyzer, bound=self.scope.shape_vars)

    def _sequence(self, expr: SeqExpr) -> Step[StructInfo]:
        if not self._deep:
            found = yield self._visit(expr.body)
            return self.scope.erase(found)
        self.scope.enter()
        for block in expr.blocks:
            outer = self.in_dataflow
            self.in_dataflow = outer or isinstance(block, DataflowBlock)
            for binding in block.bindings:
                yield self._derive_binding(binding)
            self.in_dataflow = outer
            if isinstance(block, DataflowBlock):
                for binding in block.bindings:
                    var: Any = getattr(binding, "var", None)
                    if isinstance(var, DataflowVar):
                        self.scope.forget(var)
        found = yield self._visit(expr.body)
        self.scope.leave()
        return self.scope.erase(found)

    def _function(self, func: Function) -> Step[StructInfo]:
        outer = self.pure, self.in_dataflow
        self.pure = func.is_pure and not func.attrs.get("relax.force_pure", False)
        self.in_dataflow = False
        self.scope.enter(func.params)
        for param in func.params:
            if param.struct_info_annotation is None:
                self.scope.declare(param, OBJECT)
        try:
            found = yield self._visit(func.body)
            found = self.check_return(func, found)
        finally:
            self.scope.leave()
            self.pure, self.in_dataflow = outer
        params = tuple([p.struct_info_annotation or OBJECT for p in func.params])
        return FuncStructInfo(params, found, func.is_pure)

    def check_return(self, func: Function, found: StructInfo) -> StructInfo:
        """Compare a function's result with its annotation, while its parameters are in scope.

        Returns what callers know of the result. Errors: RLX0214; warns with RLX0215.
        """
        wanted = func.ret_struct_info
        if wanted is None:
            return self.scope.erase(found)
        body = func.body.body if isinstance(func.body, SeqExpr) else func.body
        place = ErrorSpans(getattr(body, "span", None) or func.span, ())
        fits = check_compatibility(found, wanted, self.analyzer, bound=self.scope.shape_vars)
        if fits is not Match.YES:
            self._mismatch(
                fits,
                ("RLX0214", "RLX0215"),
                f"the function {_returns(fits)} {format_info(wanted)},"
                f" but gives {format_info(found)}",
                (found, wanted),
                "change the annotation, or check the value with R.match_cast before it is returned",
                place,
            )
        return wanted

    # -- bindings ----------------------------------------------------------------------------------
    def _derive_binding(self, binding: Binding) -> Step[None]:
        if isinstance(binding, MatchCast):
            value = yield self._visit(binding.value)
            self.check_match_cast(binding, value)
            if binding.var is not None:
                info = binding.var.struct_info_annotation or binding.struct_info
                self.scope.declare(binding.var, info)
        elif isinstance(binding, VarBinding):
            yield self._var_binding(binding)

    def _var_binding(self, binding: VarBinding) -> Step[None]:
        var, value = binding.var, binding.value
        recursive = isinstance(value, Function)
        if isinstance(value, Function):
            known = var.struct_info_annotation
            if known is None and value.ret_struct_info is not None:
                known = func_struct_info(value)
            self.scope.declare(var, known)
        found = yield self._visit(value)
        self.check_binding(var, found, binding.value)
        if not recursive or var.struct_info_annotation is None:
            self.scope.declare(var, var.struct_info_annotation or found)

    def check_binding(self, var: Var, found: StructInfo, value: Node) -> Match:
        """Compare a value with the annotation of the variable that it is bound to.

        For ``MAYBE``, after a warning (RLX0202), the caller emits a ``MatchCast`` to the annotation
        instead of the binding. Errors: RLX0201.
        """
        wanted = var.struct_info_annotation
        if wanted is None:
            return Match.YES
        fits = check_compatibility(found, wanted, self.analyzer, bound=self.scope.shape_vars)
        if fits is not Match.YES:
            name = repr(var.name_hint)
            what = f"{name} is annotated as {format_info(wanted)}, but its value is "
            what += "" if fits is Match.NO else "only known to be "
            self._mismatch(
                fits,
                ("RLX0201", "RLX0202"),
                what + format_info(found),
                (found, wanted),
                "change the annotation, or leave it out"
                if fits is Match.NO
                else f"write {var.name_hint} = R.match_cast(…, {format_info(wanted)}) to check it",
                error_spans_of(value, var),
            )
        return fits

    def check_match_cast(self, binding: MatchCast, value: StructInfo) -> None:
        """Bring the shape variables of a cast into scope, and check the cast.

        Warns with RLX0203 of a cast that always fails. Errors: RLX0204 where the variable's
        annotation does not hold after the cast.
        """
        scope, wanted = self.scope, binding.struct_info
        mapping = get_shape_var_mapping(wanted, value, scope.shape_vars)
        for var in scope.bind_shape_vars(wanted):
            if var in mapping:
                self.analyzer.know_equal(var, mapping[var])
        either = check_compatibility(value, wanted, self.analyzer, bound=scope.shape_vars)
        if either is Match.NO:
            either = check_compatibility(wanted, value, self.analyzer, bound=scope.shape_vars)
        if either is Match.NO:
            self.warn(
                Diagnostic(
                    "RLX0203",
                    f"this cast to {format_info(wanted)} always fails:"
                    f" the value is {format_info(value)}",
                    binding.span or getattr(binding.value, "span", None),
                    notes=differences(value, wanted, self.analyzer),
                    help="cast to what the value can be",
                    severity="warning",
                )
            )
        annotated = None if binding.var is None else binding.var.struct_info_annotation
        if annotated is None or binding.var is None:
            return
        if is_subtype(wanted, annotated, self.analyzer, bound=scope.shape_vars) is not Match.YES:
            refuse(
                "RLX0204",
                f"{binding.var.name_hint!r} is annotated as"
                f" {format_info(annotated)}, which a value that "
                f"is cast to {format_info(wanted)} need not be",
                notes=differences(wanted, annotated, self.analyzer),
                help="leave the annotation out: the cast says what the variable is",
                span=binding.var.span or binding.span,
            )

    def _mismatch(
        self,
        fits: Match,
        codes: tuple[str, str],
        message: str,
        infos: tuple[StructInfo, StructInfo],
        help: str,  # named after the diagnostic's field
        place: ErrorSpans,
    ) -> None:
        """Raise if two descriptions certainly differ; warn if they may."""
        span, secondary = place
        notes = differences(*infos, self.analyzer)
        if fits is Match.NO:
            raise CompileError(Diagnostic(codes[0], message, span, "", secondary, notes, help))
        notes += ("it is checked at run time",)
        self.warn(Diagnostic(codes[1], message, span, "", secondary, notes, help, "warning"))

    # -- calls -------------------------------------------------------------------------------------
    def _call(self, call: Call) -> Step[StructInfo]:
        if isinstance(call.op, Op):
            args = yield self._visit_all(call.args)
            return self._operator(call, call.op, args)
        callee = yield self._visit(call.op)
        args = yield self._visit_all(call.args)
        if not isinstance(callee, FuncStructInfo):
            span, secondary = error_spans_of(call.op, call)
            what = f"{_name_of(call.op)} is {format_info(callee)}, which cannot be called"
            help_ = "call a function; what may be one is made so by R.match_cast to R.Callable"
            raise CompileError(Diagnostic("RLX0208", what, span, "", secondary, (), help_))
        if callee.params is None:
            self._demand_pure(call, purity=False)
            return derive_packed_result(call, callee)
        self._demand_pure(call, callee.purity)
        return self._closure(call, callee, callee.params, args)

    def _operator(self, call: Call, op: Op, args: tuple[StructInfo, ...]) -> StructInfo:
        definition = op_def(op)
        self._demand_pure(call, definition.is_pure)
        definition.check(call)
        return definition.infer(
            OpContext(
                call,
                args,
                self.analyzer,
                lookup=self.lookup,
                warn=self.warn,
                definition=self.definition,
                memory=self.memory,
            )
        )

    def _closure(
        self,
        call: Call,
        callee: FuncStructInfo,
        params: tuple[StructInfo, ...],
        args: tuple[StructInfo, ...],
    ) -> StructInfo:
        name = _name_of(call.op)
        if len(params) != len(args):
            extra = call.args[len(params)] if len(args) > len(params) else None
            refuse(
                "RLX0209",
                f"{name} takes {with_count(len(params), 'argument')}, not {len(args)}",
                help=f"call it with {', '.join(map(format_info, params)) or 'none'}",
                span=error_spans_of(extra, call).span,
            )
        bound = self.scope.shape_vars
        mapping = get_shape_var_mapping(TupleStructInfo(params), TupleStructInfo(args), bound)
        wanted = substitute_shape_vars(drop_binders(callee, mapping, bound), mapping)
        for index, (given, param) in enumerate(zip(args, wanted.params or ())):
            fits = check_compatibility(given, param, self.analyzer, bound=bound)
            if fits is not Match.YES:
                only = "" if fits is Match.NO else "only known to be "
                self._mismatch(
                    fits,
                    ("RLX0210", "RLX0211"),
                    f"argument {index + 1} of {name} is {only}{format_info(given)}, "
                    f"but {format_info(param)} is wanted",
                    (given, param),
                    f"check it first: R.match_cast(…, {format_info(param)})",
                    error_spans_of(call.args[index], call),
                )
        ret = wanted.ret if wanted is callee else self.simplify(wanted.ret)
        return self.scope.erase(ret)

    def simplify(self, info: StructInfo) -> StructInfo:
        """Return structural information with its extents and values in their simplest form."""

        def dims(values: tuple[PrimExpr, ...]) -> tuple[PrimExpr, ...]:
            made = tuple([self.analyzer.simplify(v) for v in values])
            return values if all(a is b for a, b in zip(made, values)) else made

        def shape(e: ShapeExpr) -> ShapeExpr:
            made = dims(e.values)
            return e if made is e.values else ShapeExpr(made, span=e.span)

        def values(e: ShapeStructInfo) -> ShapeStructInfo:
            made = e.values if e.values is None else dims(e.values)
            return e if made is e.values else ShapeStructInfo(made, span=e.span)

        return rewrite(info, {ShapeExpr: shape, ShapeStructInfo: values})

    def _demand_pure(self, call: Call, purity: bool) -> None:
        """Refuse an impure call where only pure ones may stand. Errors: RLX0212, RLX0213."""
        if purity or not (self.pure or self.in_dataflow):
            return
        name = _name_of(call.op)
        if isinstance(call.op, ExternFunc):
            help_ = f"if it has no effect, write R.call_pure_packed({call.op.global_symbol!r}, …)"
        elif isinstance(call.op, GlobalVar):
            help_ = "call a PrimFunc with R.call_tir; mark other functions pure where they are"
        else:
            help_ = "make the call outside, in a function marked pure=False"
        if self.in_dataflow:
            refuse(
                "RLX0213",
                f"{name} may have effects, and a dataflow block has none",
                help=help_,
                span=call.span,
            )
        refuse(
            "RLX0212",
            f"{name} may have effects, and the function is declared pure",
            help=help_ if isinstance(call.op, ExternFunc) else f"{help_}, or declare pure=False",
            span=call.span,
        )


def derive_packed_result(call: Call, callee: FuncStructInfo) -> StructInfo:
    """Return what a call of a packed function declares as its result, by ``derive_func``.

    Source: relax.md, ``derive_func``; the claim is checked when the call returns (R22).
    """
    derive: Any = callee.derive_func
    if callable(derive):
        made: Any = derive(call)
        return made
    if derive != DEFAULT_DERIVE or not call.sinfo_args:
        return OBJECT
    return call.sinfo_args[0] if len(call.sinfo_args) == 1 else TupleStructInfo(call.sinfo_args)


def check_condition(expr: If, info: StructInfo) -> None:
    """Check that a branch's condition is a bool: a tensor of rank 0, or a scalar (R23).

    What is not known is checked at run time. Errors: RLX0205.
    """
    if isinstance(info, ObjectStructInfo):
        return
    if isinstance(info, TensorStructInfo) and info.ndim <= 0:
        fits = info.dtype.is_bool or info.dtype is VOID
    else:
        fits = isinstance(info, PrimStructInfo) and info.dtype.is_bool
    if not fits:
        span, secondary = error_spans_of(expr.cond, expr)
        what = f"the condition is {format_info(info)}, not a bool"
        help_ = 'give R.Tensor((), "bool"), or a bool scalar'
        if isinstance(info, TensorStructInfo) and info.dtype.is_bool:
            secondary = ()
            help_ = "choose for each element with R.where(c, a, b); a branch has one condition"
        raise CompileError(Diagnostic("RLX0205", what, span, "", secondary, (), help_))


def _field_of(expr: TupleGetItem, info: StructInfo) -> StructInfo:
    if not isinstance(info, TupleStructInfo):
        refuse(
            "RLX0206",
            f"{format_info(info)} has no fields",
            help="take fields of tuples only; what may be one is made so by R.match_cast",
            span=expr.span,
        )
    if expr.index >= len(info.fields):
        refuse(
            "RLX0207",
            f"the tuple has {with_count(len(info.fields), 'field')}, none of which is number "
            f"{expr.index}",
            help=f"fields are numbered from 0 to {len(info.fields) - 1}"
            if info.fields
            else "it is empty",
            span=expr.span,
        )
    return info.fields[expr.index]


def _returns(fits: Match) -> str:
    return "is annotated to return" if fits is Match.NO else "is to return"


def _name_of(callee: Node) -> str:
    """Name what is called, in a message."""
    if isinstance(callee, Op):
        return "R." + callee.name.removeprefix("relax.")
    if isinstance(callee, ExternFunc):
        return f"the packed function {callee.global_symbol!r}"
    if isinstance(callee, (Var, GlobalVar)):
        return repr(callee.name_hint)
    return "the callee"
