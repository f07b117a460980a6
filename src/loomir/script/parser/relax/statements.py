"""Handlers of statements in Relax, under the token ``"relax"``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

from loomir.ir.equality import structural_equal
from loomir.ir.node import reset
from loomir.relax.expr import ExternFunc, Tuple, Var
from loomir.relax.node import Expr, StructInfo
from loomir.relax.struct_info import TensorStructInfo, TupleStructInfo
from loomir.script.builder.frame import Frame
from loomir.script.builder.mistakes import mistake, with_span
from loomir.script.builder.relax.frames import (
    DataflowFrame,
    FunctionFrame,
    sequence,
)
from loomir.script.builder.relax.values import as_value, is_value
from loomir.script.builder.tir.scopes import MetaVar
from loomir.script.parser import dispatch, doc
from loomir.script.parser.core import Parser, header
from loomir.script.parser.decorators import read_decorators, refuse_undecorated
from loomir.script.parser.evaluate.captured_names import ForeignValue
from loomir.script.parser.evaluate.dialect import Expansion, PoisonedValue
from loomir.script.parser.evaluate.namespaces import (
    FUNCTION,
    INLINE,
    MACRO,
    ModuleFunction,
    ModuleNames,
)
from loomir.script.parser.evaluate.operators import holds_expr, is_static
from loomir.script.parser.evaluate.var_table import Entry
from loomir.script.parser.macros import define_macro, expand
from loomir.script.parser.places import blame
from loomir.script.parser.relax.bound_values import dialect_of, emit_value, evaluate_bound
from loomir.script.parser.relax.branches import list_bound
from loomir.script.parser.relax.function import TOKEN, read_info, read_inner
from loomir.script.parser.relax.values import (
    AnnotatedValue,
    Cast,
    emit_at,
    info_of,
    kind_of_value,
    unwrap,
)
from loomir.support.diagnostics import CompileError
from loomir.tir.expr import PrimExpr
from loomir.tir.expr import Var as ShapeVar

__all__ = ["TOKEN"]


@dispatch.register(TOKEN, "Assign")
def visit_assign(parser: Parser, node: doc.Assign) -> None:
    """Read ``a = value``: a binding; a name bound before means something else from here on."""
    value = evaluate_bound(parser, node.value)
    for target in node.targets:
        value = _bind(parser, target, value, node.value)


@dispatch.register(TOKEN, "AnnAssign")
def visit_ann_assign(parser: Parser, node: doc.AnnAssign) -> None:
    """Read ``a: R.Tensor(…) = value``."""
    target = node.target
    if not isinstance(target, doc.Name):
        raise mistake(
            "SCR0027",
            "only a name can have an annotation",
            help="leave the annotation out",
            span=target.span,
        )
    info = read_info(parser, node.annotation, declares=False)
    if node.value is None:
        sequence("an annotation").said[target.id] = info, node.span
        return
    value = evaluate_bound(parser, node.value)
    if isinstance(value, AnnotatedValue) and isinstance(value.value, ExternFunc):
        _check_extern(value, info, node)
        parser.vars.add(target.id, Entry(value, "alias", target.span))
        return
    var = emit_value(parser, value, target.id, node.value, info, target.span)
    parser.vars.add(target.id, Entry(var, "value", target.span))


def _check_extern(value: AnnotatedValue, info: StructInfo, node: doc.AnnAssign) -> None:
    """Refuse an annotation of a packed function that is not what is said of it. Errors: RLX0201."""
    if structural_equal(value.info, info):
        return
    raise mistake(
        "RLX0201",
        f"{cast('doc.Name', node.target).id!r} is annotated as {info}, but described as "
        f"{value.info}",
        help="change the annotation, or leave it out",
        span=node.annotation.span,
    )


@dispatch.register(TOKEN, "AugAssign")
def visit_aug_assign(parser: Parser, node: doc.AugAssign) -> None:
    """Read ``a += value``: a new binding of the name."""
    if not isinstance(node.target, doc.Name):
        raise mistake(
            "SCR0027",
            "only names are bound",
            help="tensors are values: write a new one, as with R.scatter_elements",
            span=node.target.span,
        )
    value = doc.BinOp(node.span, node.target, node.op, node.value)
    _bind(parser, node.target, evaluate_bound(parser, value), value)


def _bind(parser: Parser, target: doc.ExprNode, value: object, node: doc.ExprNode) -> object:
    """Bind one target; gives what a further target is bound to."""
    if isinstance(target, doc.Name):
        return _bind_name(parser, target, value, node)
    if isinstance(target, (doc.Tuple, doc.List)):
        return _unpack(parser, target, value, node)
    raise mistake(
        "SCR0027",
        "only names are bound",
        help="tensors are values: write a new one, as with R.scatter_elements",
        span=target.span,
    )


def _bind_name(parser: Parser, target: doc.Name, value: object, node: doc.ExprNode) -> object:
    name = target.id
    if isinstance(value, MetaVar):
        parser.vars.add(name, Entry(value.value, "alias", target.span))
        return value.value
    if isinstance(value, AnnotatedValue) and isinstance(value.value, ExternFunc):
        parser.vars.add(name, Entry(value, "alias", target.span))
        return value
    if isinstance(value, ShapeVar) and not value.name_hint:
        known = parser.vars.get(name)
        if known is not None and isinstance(known.value, ShapeVar) and known.kind == "shape":
            _require_same_dtype(known.value, value, node)
            return known.value  # declared by a shape before this line
        reset(value, "name_hint", name)
        reset(value, "span", target.span)
        parser.vars.add(name, Entry(value, "shape", target.span))
        return value
    no_value = value is None or isinstance(value, ForeignValue) or _is_frame(value)
    if no_value and not dialect_of(parser).holds(value):
        raise mistake(
            "SCR0025",
            f"{kind_of_value(value)} is not a value that a name can be bound to",
            help="use a value of the program, or R.const(…) for numbers",
            span=node.span,
        )
    if isinstance(value, (ModuleFunction, ModuleNames, PrimExpr, StructInfo)) or _is_plain(value):
        parser.vars.add(name, Entry(value, "alias", target.span))
        return value
    var = emit_value(parser, value, name, node, at=target.span)
    parser.vars.add(name, Entry(var, "value", target.span))
    return var


def _require_same_dtype(known: ShapeVar, declared: ShapeVar, node: doc.ExprNode) -> None:
    """Refuse to declare a shape variable again with another dtype."""
    if known.dtype is not declared.dtype:
        raise mistake(
            "SCR0026",
            f"'{known.name_hint}' already names an extent, an {known.dtype}",
            label=f"this is {declared.dtype}",
            help=f"write T.{known.dtype}(), or choose another name",
            span=node.span,
        )


def _is_frame(value: object) -> bool:
    return isinstance(value, Frame)


def _is_plain(value: object) -> bool:
    """Whether a value is known while the program is read, and none of Relax is in it."""
    if not is_static(value):
        return False
    return value != () and not holds_expr(value)  # the empty tuple is a value of the program


def _unpack(
    parser: Parser, target: doc.Tuple | doc.List, value: object, node: doc.ExprNode
) -> object:
    count = len(target.elts)
    if any(isinstance(part, doc.Starred) for part in target.elts):
        raise mistake(
            "SCR0027",
            "a starred name takes no values",
            help="write a name for each value",
            span=target.span,
        )
    if isinstance(value, (tuple, list)):
        given = cast("Sequence[object]", value)
        _check_count(target, len(given))
        items = list(given)
        if isinstance(node, (doc.Tuple, doc.List)) and len(node.elts) == count:
            nodes = list(node.elts)
        else:
            nodes = [node] * count
        # All values are computed before any name means another thing.
        for part, item, at in zip(target.elts, items, nodes, strict=True):
            _bind(parser, part, item, at)
        return cast("object", value)
    if not is_value(value) and not isinstance(value, (Cast, AnnotatedValue)):
        raise mistake(
            "SCR0027",
            f"{kind_of_value(value)} cannot be unpacked into {count} names",
            help="assign it to one name",
            span=target.span,
        )
    whole = value if isinstance(value, (Var, Tuple)) else emit_value(parser, value, "", node)
    info = info_of(whole)
    if isinstance(info, TupleStructInfo):
        _check_count(target, len(info.fields))
    dialect = dialect_of(parser)
    for index, part in enumerate(target.elts):
        try:
            field = whole.fields[index] if isinstance(whole, Tuple) else None
            item = dialect.item(whole, index) if field is None else field
        except CompileError as error:
            raise blame(error, node.span, (whole,), (node,)) from error
        _bind(parser, part, item, node)
    return whole


def _check_count(target: doc.Tuple | doc.List, count: int) -> None:
    if count != len(target.elts):
        raise mistake(
            "SCR0027",
            f"{count} values cannot be unpacked into {len(target.elts)} names",
            help=f"write {count} names",
            span=target.span,
        )


@dispatch.register(TOKEN, "Expr")
def visit_expr(parser: Parser, node: doc.Expr) -> None:
    """Read an expression as a statement: a call for its effect, or a part of a function."""
    if isinstance(node.value, doc.Constant) and isinstance(node.value.value, str):
        return  # a docstring
    value = evaluate_bound(parser, node.value, is_statement=True)
    if isinstance(value, Expansion):
        expand(parser, value)
    elif isinstance(value, Cast):
        try:
            sequence("R.match_cast").check(value.value, value.info, node.span)
        except CompileError as error:
            raise with_span(error, node.span) from error
    elif isinstance(value, AnnotatedValue) or (
        isinstance(value, Expr) and not isinstance(value, Var)
    ):
        emit_value(parser, value, "_", node.value, at=node.span)
    elif isinstance(value, Frame):
        raise mistake(
            "SCR0013",
            "this opens a scope, and is not entered",
            help="write it after `with`",
            span=node.span,
        )
    elif value is not None:
        raise mistake(
            "SCR0025",
            f"{kind_of_value(value)} as a statement has no effect",
            help="remove it, or assign it",
            span=node.span,
        )


@dispatch.register(TOKEN, "Return")
def visit_return(parser: Parser, node: doc.Return) -> None:
    """Read ``return value``."""
    scope = sequence("return")
    if not isinstance(scope, FunctionFrame):
        raise mistake(
            "SCR0030",
            "a return is inside of a branch",
            help="bind the same name last in both cases, and return it after the branch",
            span=node.span,
        )
    if node.value is None:
        raise mistake(
            "SCR0030",
            "a return needs a value",
            help="`return ()` gives the empty tuple",
            span=node.span,
        )
    value = evaluate_bound(parser, node.value)
    if isinstance(value, (Cast, AnnotatedValue)):
        value = emit_value(parser, value, "", node.value)
    origin = dialect_of(parser).origin
    try:
        made = as_value(unwrap(value))
    except CompileError as error:
        raise blame(error, node.value.span, (value,), (node.value,)) from error
    if origin is not None and origin[0] is value:
        made = emit_at(made, "", node.value.span, *origin[1:])
    scope.returns(made, node.span)
    dialect_of(parser).result = (made, node.value)


@dispatch.register(TOKEN, "Pass")
def visit_pass(parser: Parser, node: doc.Pass) -> None:
    """Read ``pass``."""


@dispatch.register(TOKEN, "FunctionDef")
def visit_function(parser: Parser, node: doc.FunctionDef) -> None:
    """Read a function in a function, or a macro."""
    marker, options = read_decorators(parser, node)
    if marker is FUNCTION:
        read_inner(parser, node, options)
    elif marker is not None and marker in (MACRO, INLINE):
        define_macro(parser, node, marker, options.hygienic)
    else:
        raise refuse_undecorated(node, "@R.function")


@dispatch.register(TOKEN, "With")
def visit_with(parser: Parser, node: doc.With) -> None:
    """Read ``with R.dataflow():``; what ``R.output`` names is known after it."""
    frame = None
    try:
        if len(node.items) != 1:
            raise mistake(
                "SCR0013",
                "with opens one scope of Relax",
                help="write `with R.dataflow():`",
                span=node.items[1].context_expr.span,
            )
        item = node.items[0]
        value = parser.evaluate(item.context_expr)
        if not isinstance(value, DataflowFrame):
            raise mistake(
                "SCR0013",
                "this opens no scope of Relax",
                help="write `with R.dataflow():`",
                span=item.context_expr.span,
            )
        if item.optional_vars is not None:
            raise mistake(
                "SCR0013",
                "a dataflow block has no value to bind",
                help="leave out `as`",
                span=item.optional_vars.span,
            )
        value.span = header(node)
        value.__enter__()
        frame = value
    except (CompileError, PoisonedValue) as error:
        parser.report_error(error, header(node))
        parser.poison(list_bound(node.body))
        return
    before = parser.setbacks()
    with parser.vars.frame() as names:
        parser.visit_body(node.body)
        found = {name: parser.vars.get(name) for name in names.names}
    failed = parser.setbacks() > before
    try:
        parser.builder.close(frame, failed=False)
    except CompileError as error:
        parser.report_error(error, frame.span)
        failed = True
    outputs = frame.outputs or {}
    for name, entry in found.items():
        if entry is not None and id(entry.value) in outputs:
            parser.vars.add(name, entry)
        elif failed and parser.vars.get(name) is None:
            parser.poison([name])
        elif entry is not None and name in parser.vars.ended:
            parser.vars.ended[name] = entry._replace(kind="dataflow variable")


def _refuse(word: str, help_: str) -> Callable[[Parser, Any], None]:
    def visit(parser: Parser, node: doc.AST) -> None:
        error = mistake(
            "SCR0002",
            f"{word} is not part of Relax",
            label="not supported",
            help=help_,
            span=header(node),
        )
        parser.report_error(error, node.span)
        parser.poison(list_bound([cast("doc.StmtNode", node)]))

    return visit


_LOOPS = "use operators on whole tensors, a function that calls itself, or a T.prim_func"
_ALONG = frozenset(("sum", "mean", "max", "min", "prod", "argmax", "argmin", "std", "variance"))
"""Operators that take axes, so that they compute all rows of a tensor at once."""


@dispatch.register(TOKEN, "For")
def refuse_for(parser: Parser, node: doc.For) -> None:
    """Refuse a loop, and say what computes all of its iterations at once."""
    _refuse("for", _suggest_whole(parser, node) or _LOOPS)(parser, node)


def _suggest_whole(parser: Parser, node: doc.For) -> str | None:
    """Write the operator that a loop over a tensor applies to each row, for all rows."""
    over, row = node.iter, node.target
    if isinstance(over, doc.Call) and isinstance(over.func, doc.Name) and over.func.id == "range":
        return "build the graph with relax.BlockBuilder: loops of Python around bb.emit(...) run"
    if not isinstance(over, doc.Name) or not isinstance(row, doc.Name):
        return None
    entry = parser.vars.get(over.id)
    info = None if entry is None else info_of(entry.value)
    if not isinstance(info, TensorStructInfo):
        return None
    for part in node.body:
        call = getattr(part, "value", None)
        if not isinstance(call, doc.Call) or not isinstance(call.func, doc.Attribute):
            continue
        first = call.args[0] if call.args else None
        if not isinstance(first, doc.Name) or first.id != row.id:
            continue
        name, rank = call.func.attr, info.ndim
        if name not in _ALONG:
            return f"write R.{name}({over.id}), which computes all of {over.id}"
        axes = "-1" if rank <= 2 else str(tuple(range(1, rank)))
        return f"write R.{name}({over.id}, axis={axes}), which computes all rows of {over.id}"
    return f"a tensor is computed as a whole: write operators of {over.id}, as in {over.id} * 2.0"


dispatch.register(TOKEN, "While")(_refuse("while", _LOOPS))
dispatch.register(TOKEN, "Assert")(_refuse("assert", "write R.assert_op(condition)"))
dispatch.register(TOKEN, "Break")(_refuse("break", "there are no loops in Relax"))
dispatch.register(TOKEN, "Continue")(_refuse("continue", "there are no loops in Relax"))
dispatch.register(TOKEN, "Import")(_refuse("import", "import around the function"))
dispatch.register(TOKEN, "ImportFrom")(_refuse("import", "import around the function"))
dispatch.register(TOKEN, "ClassDef")(_refuse("class", "write it around the function"))
