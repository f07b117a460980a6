"""``R.emit`` and similar functions, which add statements to a Relax function."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from loomir.relax.expr import Var
from loomir.relax.node import RelaxExpr
from loomir.script.builder.arguments import as_annotations, as_text
from loomir.script.builder.frame import IRBuilder
from loomir.script.builder.mistakes import mistake
from loomir.script.builder.relax.frames import (
    DataflowFrame,
    ElseFrame,
    FunctionFrame,
    IfFrame,
    ThenFrame,
    sequence,
)
from loomir.script.builder.relax.info import StructInfoLike, as_struct_info
from loomir.script.builder.relax.values import as_value
from loomir.support.span import Span

__all__ = [
    "arg",
    "branch",
    "dataflow",
    "else_case",
    "emit",
    "emit_match_cast",
    "func_attr",
    "func_name",
    "func_ret_struct_info",
    "func_ret_value",
    "is_impure",
    "is_pure",
    "output",
    "then_case",
]


def _function(what: str) -> FunctionFrame:
    return IRBuilder.current().need(FunctionFrame, what, "write it in `with R.function():`")


def func_name(name: str) -> None:
    """Name the function."""
    _function("R.func_name").name = as_text(name, "the name of the function")


def func_attr(attrs: Mapping[str, Any]) -> None:
    """Attach attributes to the function."""
    _function("R.func_attr").attrs.update(as_annotations(attrs, "R.func_attr"))


def is_pure() -> None:
    """Declare that the function has no side effects."""
    _function("R.is_pure").pure = True


def is_impure() -> None:
    """Declare that the function may have side effects."""
    _function("R.is_impure").pure = False


def arg(name: str, annotation: StructInfoLike, span: Span | None = None) -> Var:
    """Add a parameter.

    Errors: SCR0024 after the first binding, SCR0033 for what describes no value.
    """
    func = _function("R.arg")
    if func.builder is not None:
        raise mistake(
            "SCR0024", "R.arg comes after a binding", help="add all parameters first", span=span
        )
    var = Var(as_text(name, "the name"), as_struct_info(annotation), span=span)
    func.params.append(var)
    return var


def func_ret_struct_info(annotation: StructInfoLike) -> None:
    """Declare what the function returns."""
    _function("R.func_ret_struct_info").ret_info = as_struct_info(annotation)


def func_ret_value(value: object) -> None:
    """Set what the function returns; a call is bound to a variable first.

    Errors: SCR0030.
    """
    scope = sequence("R.func_ret_value")
    if not isinstance(scope, FunctionFrame):
        raise mistake(
            "SCR0030",
            "a return is inside of a branch",
            help="bind the same name last in both cases, and return it after the branch",
        )
    scope.returns(as_value(value))


def leaf(value: object, name: str = "") -> RelaxExpr:
    """Return a value as what can stand anywhere: bound to a variable unless it is simple."""
    return sequence("R.emit").leaf(as_value(value), name)


def emit(
    value: object,
    annotate_struct_info: StructInfoLike | None = None,
    name_hint: str = "",
    *,
    annotate_ty: StructInfoLike | None = None,
) -> Var:
    """Bind a value to a new variable."""
    given = annotate_ty if annotate_struct_info is None else annotate_struct_info
    info = None if given is None else as_struct_info(given)
    return sequence("R.emit").emit(as_value(value), name_hint, info)


def emit_match_cast(
    value: object, struct_info: StructInfoLike | None = None, *, ty: StructInfoLike | None = None
) -> Var:
    """Check a value against structural information at run time, and bind it.

    A shape variable that is an extent by itself in the description, and not bound yet, is bound.
    """
    given = ty if struct_info is None else struct_info
    if given is None:
        raise mistake(
            "SCR0005", "R.match_cast lacks struct_info", help='write R.Tensor(("n",), "float32")'
        )
    return sequence("R.match_cast").match_cast(as_value(value), as_struct_info(given), "")


def dataflow() -> DataflowFrame:
    """Open a dataflow block: ``with R.dataflow():``."""
    return DataflowFrame()


def output(*variables: Var) -> None:
    """Declare which variables of the dataflow block are visible after it."""
    frame = IRBuilder.current().need(
        DataflowFrame, "R.output", "write it as the last statement in `with R.dataflow():`"
    )
    frame.output(variables)


def branch(condition: object) -> IfFrame:
    """Open a branch; its cases are ``with R.Then():`` and ``with R.Else():`` in it."""
    return IfFrame(leaf(condition))


def then_case() -> ThenFrame:
    """Open the case where the condition holds."""
    return ThenFrame()


def else_case() -> ElseFrame:
    """Open the case where the condition does not hold."""
    return ElseFrame()
