"""Print functions of Relax, bindings, and other statements."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from loomir.ir.equality import structural_equal
from loomir.ir.module import GlobalVar
from loomir.ir.visit import Step, pre_order
from loomir.relax.expr import (
    Binding,
    BindingBlock,
    DataflowBlock,
    DataflowVar,
    Function,
    If,
    MatchCast,
    SeqExpr,
    Var,
    VarBinding,
)
from loomir.relax.info.relations import join
from loomir.relax.node import Expr, RelaxExpr, StructInfo
from loomir.relax.normal.derive import func_struct_info, struct_info_of
from loomir.relax.struct_info import OBJECT
from loomir.script.printer.doc import (
    AssignDoc,
    ExprDoc,
    ExprStmtDoc,
    FunctionDoc,
    IdDoc,
    IfDoc,
    LiteralDoc,
    ReturnDoc,
    ScopeDoc,
    StmtDoc,
)
from loomir.script.printer.docsifier import Docsifier, FunctionName, expr_handler, stmt_handler
from loomir.script.printer.relax.info import docs_of
from loomir.script.printer.values import R, dict_doc, text
from loomir.support.diagnostics import CompileError
from loomir.tir.function import PrimFunc

__all__ = ["relax_function_doc"]


# -- functions -----------------------------------------------------------------------------------
def relax_function_doc(
    d: Docsifier, func: Function, name: str, global_name: str | None
) -> Step[FunctionDoc]:
    """Ask for a function's definition.

    ``name`` is the definition's, ``global_name`` what the module calls the function; None within
    another function.
    """
    outermost = d.shape_vars is None
    declared: list[StmtDoc] = []
    if outermost:
        d.shape_vars = declared
    try:
        with d.token("relax"), d.frame("function") as frame:
            for unused in _list_unused(func) if outermost else ():
                d.bind(unused, IdDoc("_"))
            names = [d.declare(param, param.name_hint) for param in func.params]
            parameters: list[AssignDoc] = []
            for param_name, param in zip(names, func.params, strict=True):
                parameters.append(AssignDoc(param_name, None, (yield _annotation(d, param))))
            returns = None
            if func.ret_struct_info is not None:
                returns = yield d.expr(func.ret_struct_info)
            yield _attributes(d, func, global_name)
            d.emit(ReturnDoc((yield _value_of(d, func.body))))
    finally:
        if outermost:
            d.shape_vars = None
    options: dict[str, ExprDoc] = {}
    if global_name is not None:
        if "global_symbol" not in func.attrs:
            options["private"] = LiteralDoc(True)
        if name != global_name:
            options["name"] = text(global_name)
    if not func.is_pure:
        options["pure"] = LiteralDoc(False)
    decorator = R.attr("function")
    return FunctionDoc(
        name,
        parameters,
        [*declared, *frame.statements],
        (decorator.call(**options) if options else decorator,),
        returns,
    )


def _list_unused(func: Function) -> list[Var]:
    """List the variables that are called ``_`` and that nothing uses: they keep that name."""
    bound: list[Var] = []
    used: set[Var] = set()
    for part in pre_order(func):
        if isinstance(part, VarBinding) and part.var.name_hint == "_":
            bound.append(part.var)
        elif isinstance(part, Var):
            used.add(part)
        elif isinstance(part, DataflowBlock):
            used.update(_outputs(part.bindings))
    return [var for var in bound if var not in used]


def _attributes(d: Docsifier, func: Function, global_name: str | None) -> Step[None]:
    symbol = func.attrs.get("global_symbol")
    attrs = {k: v for k, v in func.attrs.items() if k != "global_symbol"}
    if symbol is not None and (not isinstance(symbol, str) or symbol != global_name):
        attrs["global_symbol"] = symbol
    if attrs:
        d.emit(ExprStmtDoc(R.attr("func_attr").call((yield dict_doc(d, attrs)))))


def _annotation(d: Docsifier, var: Var) -> Step[ExprDoc | None]:
    info = var.struct_info_annotation
    return None if info is None else (yield d.expr(info))


@stmt_handler("relax", Function)
def _function(d: Docsifier, node: Function, tail: bool) -> Step[None]:
    """Write a function outside of a module."""
    name = d.names.take(node.name)
    d.functions = {node.name: FunctionName(IdDoc(name), node)}
    d.emit((yield relax_function_doc(d, node, name, node.name)))


# -- values --------------------------------------------------------------------------------------
def _value_of(d: Docsifier, expr: RelaxExpr) -> Step[ExprDoc]:
    """Ask for the value of a body; emits its bindings."""
    if isinstance(expr, SeqExpr):
        for block in expr.blocks:
            yield d.stmt(block, False)
        return (yield d.expr(expr.body))
    return (yield d.expr(expr))


@expr_handler("relax", SeqExpr)
def _seq(d: Docsifier, node: SeqExpr) -> Step[ExprDoc]:
    return (yield _value_of(d, node))


@expr_handler("relax", If, Function)
def _bind_by_name(d: Docsifier, node: If | Function) -> Step[ExprDoc]:
    hint = "gv" if isinstance(node, If) else "func"
    name = IdDoc(d.names.take(hint, fresh=True))
    yield _bind(d, name, node, None)
    return name


# -- bindings ------------------------------------------------------------------------------------
def _bind(d: Docsifier, name: IdDoc, value: RelaxExpr, annotation: ExprDoc | None) -> Step[None]:
    """Emit what gives a value its name."""
    if isinstance(value, If):
        condition = yield d.expr(value.cond)
        bodies: list[list[StmtDoc]] = []
        for part in (value.true_branch, value.false_branch):
            with d.frame("branch") as frame:
                yield _branch(d, part, name)
            bodies.append(frame.statements)
        d.emit(IfDoc([(condition, bodies[0])], bodies[1]))
    elif isinstance(value, Function):
        d.emit((yield relax_function_doc(d, value, name.name, None)))
    else:
        d.emit(AssignDoc(name, (yield d.expr(value)), annotation))


def _branch(d: Docsifier, branch: Expr, name: IdDoc) -> Step[None]:
    """Emit a branch, whose last binding has the name of the branch's value."""
    if not isinstance(branch, SeqExpr):
        yield _bind(d, name, branch, None)
        return
    last = _find_last_binding(branch)
    for block in branch.blocks:
        if last is None or block is not branch.blocks[-1]:
            yield d.stmt(block, False)
    if last is None:
        yield _bind(d, name, branch.body, None)
        return
    for binding in branch.blocks[-1].bindings[:-1]:
        yield d.stmt(binding, False)
    assert last.var is not None
    d.bind(last.var, name)
    yield d.stmt(last, False)


def _find_last_binding(branch: SeqExpr) -> VarBinding | MatchCast | None:
    """Return the last binding where it binds the branch's value, and reads back as doing so."""
    if not branch.blocks or isinstance(branch.blocks[-1], DataflowBlock):
        return None
    bindings = branch.blocks[-1].bindings
    last = bindings[-1] if bindings else None
    if isinstance(last, (VarBinding, MatchCast)) and last.var is branch.body:
        return last
    return None


@stmt_handler("relax", VarBinding)
def _var_binding(d: Docsifier, node: VarBinding, tail: bool) -> Step[None]:
    with d.token("relax"):
        name = d.name_of(node.var, node.var.name_hint)
        assert isinstance(name, IdDoc)
        annotation = None
        if not isinstance(node.value, (If, Function)):
            annotation = yield _annotation(d, node.var)
        elif isinstance(node.value, If) and _says_more(d, node.var, node.value):
            d.emit(AssignDoc(name, None, (yield _annotation(d, node.var))))
        yield _bind(d, name, node.value, annotation)


def _says_more(d: Docsifier, var: Var, value: If) -> bool:
    """Tell whether a variable's annotation is not what its branches give."""
    info = var.struct_info_annotation
    cases = (value.true_branch, value.false_branch)
    try:
        first, second = (struct_info_of(_result(case), _signatures(d)) for case in cases)
        return info is not None and not structural_equal(join(first, second), info)
    except CompileError:  # not in normal form: what is derived is as good
        return False


def _result(case: Expr) -> RelaxExpr:
    return case.body if isinstance(case, SeqExpr) else case


def _signatures(d: Docsifier) -> Callable[[GlobalVar], StructInfo]:
    def describe_function(var: GlobalVar) -> StructInfo:
        known = d.functions.get(var.name_hint)
        func = None if known is None else known.func
        return func_struct_info(func) if isinstance(func, (Function, PrimFunc)) else OBJECT

    return describe_function


@stmt_handler("relax", MatchCast)
def _match_cast(d: Docsifier, node: MatchCast, tail: bool) -> Step[None]:
    with d.token("relax"):
        args = yield docs_of(d, (node.value, node.struct_info))
        call = R.attr("match_cast").call(*args)
        if node.var is None:
            d.emit(ExprStmtDoc(call))
        else:
            name = d.name_of(node.var, node.var.name_hint)
            info = node.var.struct_info_annotation
            # What the cast says of the variable need not be said again.
            said = info is None or structural_equal(info, node.struct_info)
            d.emit(AssignDoc(name, call, None if said else (yield _annotation(d, node.var))))


# -- blocks --------------------------------------------------------------------------------------
@stmt_handler("relax", BindingBlock)
def _block(d: Docsifier, node: BindingBlock, tail: bool) -> Step[None]:
    for binding in node.bindings:
        yield d.stmt(binding, False)


@stmt_handler("relax", DataflowBlock)
def _dataflow(d: Docsifier, node: DataflowBlock, tail: bool) -> Step[None]:
    with d.token("relax"):
        with d.frame("dataflow") as frame:
            yield _block(d, node, False)
        outputs = yield docs_of(d, _outputs(node.bindings))
        end = ExprStmtDoc(R.attr("output").call(*outputs))
        d.emit(ScopeDoc(R.attr("dataflow").call(), [*frame.statements, end]))


def _outputs(bindings: Sequence[Binding]) -> list[Var]:
    """List the variables that a dataflow block shows outside."""
    found: list[Var] = []
    for binding in bindings:
        var = binding.var if isinstance(binding, (VarBinding, MatchCast)) else None
        if var is not None and not isinstance(var, DataflowVar):
            found.append(var)
    return found
