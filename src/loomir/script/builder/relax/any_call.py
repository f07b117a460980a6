"""Calls with all of their parts spelled out, for calls that no function of ``R`` builds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from loomir.ir.module import GlobalVar
from loomir.ir.op import Op
from loomir.relax.expr import Call
from loomir.relax.node import Callee, Expr
from loomir.relax.operator.definition import find_op
from loomir.script.builder.arguments import as_annotations, describe
from loomir.script.builder.mistakes import wrong_argument
from loomir.script.builder.relax.info import StructInfoLike, as_struct_infos
from loomir.script.builder.relax.values import as_values

__all__ = ["any_call"]


def any_call(
    op: str | Expr | GlobalVar,
    args: Sequence[object],
    *,
    ty_args: StructInfoLike | Sequence[StructInfoLike] | None = None,
    attrs: Mapping[str, Any] | None = None,
) -> Call:
    """Call an operator by its qualified name, or a function, exactly as written.

    Errors: SCR0004 for an operator that there is not.
    """
    infos = () if ty_args is None else as_struct_infos(ty_args)
    plain = {} if attrs is None else as_annotations(attrs, "R.Call")
    return Call(_callee(op), as_values(args), infos, plain)


def _callee(op: object) -> Callee:
    if isinstance(op, (Expr, GlobalVar)):
        return op
    row = find_op(op) if isinstance(op, str) else None
    found = None if row is None else row.op
    if isinstance(found, Op):
        return found
    raise wrong_argument(
        op,
        f"no operator is named {op!r}"
        if isinstance(op, str)
        else f"{describe(op)} is not an operator",
        code="SCR0004",
        help='write its qualified name, as in "relax.nn.relu"',
    )
