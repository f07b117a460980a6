"""Calls of code outside of Relax: kernels, packed functions, closures.

``out_sinfo`` describes the result; ``out_ty``, ``sinfo_args`` and ``ty_args`` are other names of
it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias, cast

from loomir.ir.module import GlobalVar
from loomir.ir.node import Node
from loomir.relax.expr import Call, ExternFunc, Tuple, Var
from loomir.relax.node import Expr, RelaxExpr, StructInfo
from loomir.relax.operator.definition import find_op
from loomir.relax.shape import ShapeExpr
from loomir.script.builder.arguments import as_int, as_items, as_plain, describe
from loomir.script.builder.mistakes import mistake, wrong_argument
from loomir.script.builder.relax.info import (
    Extent,
    StructInfoLike,
    as_extents,
    as_struct_infos,
)
from loomir.script.builder.relax.values import as_value, as_values

__all__ = [
    "call_dps_packed",
    "call_inplace_packed",
    "call_packed",
    "call_pure_packed",
    "call_tir",
    "call_tir_inplace",
    "invoke_closure",
    "invoke_pure_closure",
]

Infos: TypeAlias = StructInfoLike | Sequence[StructInfoLike]


def call_tir(
    gvar: GlobalVar,
    args: object,
    out_sinfo: Infos | None = None,
    tir_vars: Sequence[Extent] | Expr | None = None,
    *,
    out_ty: Infos | None = None,
    sinfo_args: Infos | None = None,
    ty_args: Infos | None = None,
    packed_ints: Sequence[Extent] | Expr | None = None,
) -> Call:
    """Call a kernel of the module on tensors; it writes new tensors, which are the result.

    ``tir_vars``, also called ``packed_ints``, are integers, or a shape, for the parameters between
    its inputs and its results.
    """
    infos = _read_result("R.call_tir", out_sinfo, out_ty, sinfo_args, ty_args)
    given = (_kernel(gvar, "R.call_tir"), _arguments(args), *_ints(tir_vars, packed_ints))
    return _call("relax.call_tir", given, infos)


def call_tir_inplace(
    gvar: GlobalVar,
    args: object,
    inplace_indices: int | Sequence[int] | None = None,
    out_sinfo: Infos | None = None,
    tir_vars: Sequence[Extent] | Expr | None = None,
    *,
    out_ty: Infos | None = None,
    sinfo_args: Infos | None = None,
    ty_args: Infos | None = None,
    packed_ints: Sequence[Extent] | Expr | None = None,
) -> Call:
    """Call a kernel that writes some results over its arguments: -1 stands for a new tensor."""
    infos = _read_result("R.call_tir_inplace", out_sinfo, out_ty, sinfo_args, ty_args)
    given = (_kernel(gvar, "R.call_tir_inplace"), _arguments(args), *_ints(tir_vars, packed_ints))
    return _call("relax.call_tir_inplace", given, infos, _inplace(inplace_indices))


def call_dps_packed(
    func: str | RelaxExpr,
    args: object,
    out_sinfo: Infos | None = None,
    *,
    out_ty: Infos | None = None,
    sinfo_args: Infos | None = None,
    ty_args: Infos | None = None,
) -> Call:
    """Call a packed function that writes new tensors, given after its arguments."""
    infos = _read_result("R.call_dps_packed", out_sinfo, out_ty, sinfo_args, ty_args)
    return _call("relax.call_dps_packed", (_pack(func), _arguments(args)), infos)


def call_packed(
    func: str | RelaxExpr,
    *args: object,
    sinfo_args: Infos | None = None,
    ty_args: Infos | None = None,
    out_sinfo: Infos | None = None,
    out_ty: Infos | None = None,
    **attrs: object,
) -> Call:
    """Call a packed function, which may have side effects."""
    infos = _read_result("R.call_packed", out_sinfo, out_ty, sinfo_args, ty_args, needed=False)
    return Call(cast("Any", _pack(func)), as_values(args), infos, _plain_attrs(attrs))


def call_pure_packed(
    func: str | RelaxExpr,
    *args: object,
    sinfo_args: Infos | None = None,
    ty_args: Infos | None = None,
    out_sinfo: Infos | None = None,
    out_ty: Infos | None = None,
) -> Call:
    """Call a packed function without side effects."""
    infos = _read_result("R.call_pure_packed", out_sinfo, out_ty, sinfo_args, ty_args, needed=False)
    return _call("relax.call_pure_packed", (_pack(func), *as_values(args)), infos)


def call_inplace_packed(
    func: str | RelaxExpr,
    *args: object,
    inplace_indices: int | Sequence[int] | None = None,
    sinfo_args: Infos | None = None,
    ty_args: Infos | None = None,
    out_sinfo: Infos | None = None,
    out_ty: Infos | None = None,
) -> Call:
    """Call a packed function that overwrites some of its arguments and returns them."""
    infos = _read_result("R.call_inplace_packed", out_sinfo, out_ty, sinfo_args, ty_args)
    given = (_pack(func), *as_values(args))
    return _call("relax.call_inplace_packed", given, infos, _inplace(inplace_indices))


def invoke_closure(
    closure: RelaxExpr,
    args: object,
    sinfo_args: Infos | None = None,
    *,
    ty_args: Infos | None = None,
    out_sinfo: Infos | None = None,
    out_ty: Infos | None = None,
) -> Call:
    """Call a closure, which may have side effects."""
    infos = _read_result("R.invoke_closure", out_sinfo, out_ty, sinfo_args, ty_args)
    return _call("relax.invoke_closure", (as_value(closure), _arguments(args)), infos)


def invoke_pure_closure(
    closure: RelaxExpr,
    args: object,
    sinfo_args: Infos | None = None,
    *,
    ty_args: Infos | None = None,
    out_sinfo: Infos | None = None,
    out_ty: Infos | None = None,
) -> Call:
    """Call a closure without side effects."""
    infos = _read_result("R.invoke_pure_closure", out_sinfo, out_ty, sinfo_args, ty_args)
    return _call("relax.invoke_pure_closure", (as_value(closure), _arguments(args)), infos)


# -- parts ---------------------------------------------------------------------------------------
def _call(
    name: str,
    args: tuple[RelaxExpr, ...],
    infos: tuple[StructInfo, ...],
    attrs: Mapping[str, Any] | None = None,
) -> Call:
    found = find_op(name)
    if found is None:
        shown = "R." + name.removeprefix("relax.")
        raise mistake("SCR0004", f"there is no {shown}", help="see the list of operators")
    return Call(found.op, args, infos, attrs or {})


def _read_result(name: str, *given: Infos | None, needed: bool = True) -> tuple[StructInfo, ...]:
    """Read the description of results from whichever keyword gives it."""
    found = [item for item in given if item is not None]
    if not found and not needed:
        return ()
    if len(found) != 1:
        raise mistake(
            "SCR0005",
            f"{name} lacks out_sinfo" if not found else f"{name} describes its result twice",
            help='describe the result: out_sinfo=R.Tensor((2, n), "float32")',
        )
    return as_struct_infos(found[0])


def _kernel(value: object, name: str) -> GlobalVar:
    if isinstance(value, GlobalVar):
        return value
    raise wrong_argument(
        value,
        f"{name} calls a function of the module, not {describe(value)}",
        help="name a T.prim_func of the same module, as in cls.add",
    )


def _pack(value: object) -> RelaxExpr:
    if isinstance(value, (ExternFunc, Var)):
        return value
    if isinstance(value, str):
        return ExternFunc(value)
    raise wrong_argument(
        value,
        f"a packed function is named by a string, not {describe(value)}",
        help='write the name under which it is registered, as in "my.add"',
    )


def _arguments(value: object) -> RelaxExpr:
    """Read the arguments as one tuple: a literal one, or a variable that holds one (R33)."""
    if isinstance(value, (tuple, list)):
        return Tuple(as_values(cast("object", value)))
    made = as_value(value)
    if isinstance(made, Tuple):
        return made
    info = getattr(made, "struct_info_annotation", None)
    return made if type(info).__name__ == "TupleStructInfo" else Tuple((made,))


def _ints(*given: Sequence[Extent] | Expr | None) -> tuple[RelaxExpr, ...]:
    found = [item for item in given if item is not None]
    if len(found) > 1:
        raise mistake(
            "SCR0005", "tir_vars is given twice", help="packed_ints is another name of tir_vars"
        )
    if not found:
        return ()
    if isinstance(found[0], Expr):  # a shape by name
        return (found[0],)
    return (ShapeExpr(cast("Any", tuple(as_extents(found[0], "tir_vars")))),)


def _plain_attrs(attrs: Mapping[str, object]) -> dict[str, Any]:
    """Read options: plain data. Errors: SCR0005 for what belongs to the program."""
    made: dict[str, Any] = {}
    for name, value in attrs.items():
        if isinstance(value, Node):
            raise wrong_argument(
                value,
                f"the option {name!r} is {describe(value)}",
                help="options are numbers, strings, dtypes and lists of them; give values of the "
                "program as arguments",
            )
        made[name] = as_plain(value, f"the option {name!r}")
    return made


def _inplace(value: object) -> dict[str, Any]:
    if value is None:
        raise mistake(
            "SCR0005",
            "inplace_indices is missing",
            help="give the index of the argument that each result is written to, as in [0]",
        )
    items = as_items(value, "inplace_indices")
    return {"inplace_indices": tuple([as_int(item, "an index") for item in items])}
