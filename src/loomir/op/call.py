"""Operators that call kernels, packed functions, Python functions and closures."""

from __future__ import annotations

from typing import Any

from loomir.ir.module import GlobalVar
from loomir.op.rules.kernel_rules import (
    arguments_of,
    check_kernel,
    literal_arguments,
    outputs_of,
    result_of,
)
from loomir.relax.expr import Call, Tuple, TupleGetItem
from loomir.relax.info.describe import format_info
from loomir.relax.info.proof import shape_vars_in
from loomir.relax.info.relations import (
    erase_to_well_defined,
    get_shape_var_mapping,
    substitute_shape_vars,
)
from loomir.relax.node import RelaxExpr, StructInfo
from loomir.relax.normal.derive import derive_packed_result
from loomir.relax.operator.context import OpContext
from loomir.relax.operator.definition import Mistake, define_op, find_op
from loomir.relax.operator.params import (
    Kind,
    Param,
    arguments,
    data,
    expr,
    function,
    info,
    ints,
    several,
    text,
)
from loomir.relax.struct_info import (
    OBJECT,
    FuncStructInfo,
    ObjectStructInfo,
    TupleStructInfo,
)
from loomir.support.diagnostics import with_count

__all__ = [
    "call_builtin_with_ctx",
    "call_dps_packed",
    "call_inplace_packed",
    "call_pure_packed",
    "call_py_func",
    "call_tir",
    "call_tir_inplace",
    "call_tir_with_grad",
    "invoke_closure",
    "invoke_pure_closure",
    "make_closure",
]

_INTS = Param("tir_vars", Kind.SHAPE, None, aliases=("packed_ints",))


# -- kernels -----------------------------------------------------------------------------------
def _infer_tir(c: OpContext) -> StructInfo:
    count = len(outputs_of(c))
    check_kernel(c, (-1,) * count)
    return result_of(c)


def _infer_tir_inplace(c: OpContext) -> StructInfo:
    check_kernel(c, tuple(c["inplace_indices"]))
    return result_of(c)


call_tir = define_op(
    "call_tir",
    function("gvar"),
    arguments("args"),
    info(),
    _INTS,
    infer=_infer_tir,
    doc="Call a kernel of the module, which writes new tensors.\n\nThe kernel's parameters are "
    "``args``, then the integers ``tir_vars``, then the results that ``out_sinfo`` describes; it "
    "may write the latter only. A single result is returned as a tensor, several as a tuple.\n"
    "Errors: RLX0230 to RLX0235.",
    family="base",
    normalize=literal_arguments,
    mistakes=(Mistake((), {}, "OPS0001"),),
)

call_tir_inplace = define_op(
    "call_tir_inplace",
    function("gvar"),
    arguments("args"),
    ints("inplace_indices"),
    info(),
    _INTS,
    infer=_infer_tir_inplace,
    doc="Call a kernel of the module, which writes results over some of its arguments.\n\n"
    "``inplace_indices`` has, for each result, the argument that it overwrites, or -1 for a new "
    "tensor; only the latter are additional parameters. A constant is copied first.\n"
    "Errors: RLX0230 to RLX0236.",
    family="base",
    normalize=literal_arguments,
    mistakes=(Mistake((), {}, "OPS0001"),),
)


def _plain_call_tir(builder: Any, call: Call) -> Call:
    """Write the call without what its gradient needs."""
    plain = find_op("relax.call_tir")
    assert plain is not None
    return Call(plain.op, call.args, call.sinfo_args, span=call.span)


call_tir_with_grad = define_op(
    "call_tir_with_grad",
    function("gvar"),
    arguments("args"),
    info(),
    text("te_grad_name"),
    data("te_grad_kwargs", None),
    _INTS,
    infer=_infer_tir,
    doc="Call a kernel as ``call_tir`` does, and name the function that builds its gradient.\n\n"
    "``te_grad_kwargs`` are keyword arguments of that function.",
    family="base",
    normalize=literal_arguments,
    legalize=_plain_call_tir,
    mistakes=(Mistake((), {}, "OPS0001"),),
)


# -- packed functions --------------------------------------------------------------------------
def _demand_packed(c: OpContext) -> None:
    """Check that the callee is a packed function. Errors: RLX0238."""
    known = c.args[0]
    packed = isinstance(known, FuncStructInfo) and known.params is None
    if not packed and not isinstance(known, ObjectStructInfo):
        c.refuse(
            "RLX0238",
            f"the first argument is {format_info(known)}, not a packed function",
            help="name one, as in R.ExternFunc('name'); call other functions directly",
            arg=0,
        )


def _infer_dps_packed(c: OpContext) -> StructInfo:
    _demand_packed(c)
    arguments_of(c)
    outputs_of(c)
    return result_of(c)


def _infer_packed(c: OpContext) -> StructInfo:
    _demand_packed(c)
    if not c.call.sinfo_args:
        c.refuse(
            "RLX0239",
            "the result of the packed function is not described",
            help="describe the result, as in sinfo_args=R.Object",
        )
    return result_of(c)


def _infer_inplace_packed(c: OpContext) -> StructInfo:
    count = len(c.call.args) - 1
    for index in c["inplace_indices"]:
        if not -1 <= index < count:
            c.refuse(
                "RLX0236",
                f"there is no argument {index} to write",
                help=f"give a number from 0 to {count - 1}, or -1 for a new value",
            )
    return _infer_packed(c)


call_dps_packed = define_op(
    "call_dps_packed",
    function("func"),
    arguments("args"),
    info(),
    infer=_infer_dps_packed,
    doc="Call a packed function that writes new tensors, which it is given after ``args``.\n\n"
    "It must have no other effects. Errors: RLX0231, RLX0232, RLX0238.",
    family="base",
    normalize=literal_arguments,
    mistakes=(Mistake((), {}, "OPS0001"),),
)

call_pure_packed = define_op(
    "call_pure_packed",
    function("func"),
    several("args"),
    info("sinfo_args"),
    infer=_infer_packed,
    doc="Call a packed function without side effects.\n\nErrors: RLX0238, RLX0239.",
    family="base",
    mistakes=(Mistake((), {}, "OPS0001"),),
)

call_inplace_packed = define_op(
    "call_inplace_packed",
    function("func"),
    several("args"),
    ints("inplace_indices"),
    info("sinfo_args"),
    infer=_infer_inplace_packed,
    doc="Call a packed function that writes some of its arguments and returns them.\n\n"
    "``inplace_indices`` are those arguments; they are not used after the call. A constant is "
    "copied first. Errors: RLX0236, RLX0238, RLX0239.",
    family="base",
    mistakes=(Mistake((), {}, "OPS0001"),),
)


def _fields(builder: Any, call: Call) -> tuple[RelaxExpr, ...]:
    """Return the arguments that come as a tuple."""
    given = call.args[1]
    if isinstance(given, Tuple):
        return given.fields
    known = builder.struct_info_of(given)
    assert isinstance(known, TupleStructInfo), "the arguments are no tuple"
    return tuple([builder.emit(TupleGetItem(given, i)) for i in range(len(known.fields))])


def _pure_call(builder: Any, call: Call) -> Call:
    """Write the call as one of a packed function."""
    pure = find_op("relax.call_pure_packed")
    assert pure is not None
    args = (call.args[0], *_fields(builder, call))
    return Call(pure.op, args, call.sinfo_args, span=call.span)


def _direct_call(builder: Any, call: Call) -> Call:
    """Write the call as one of a packed function that may have effects."""
    return Call(call.args[0], _fields(builder, call), call.sinfo_args, span=call.span)


call_py_func = define_op(
    "call_py_func",
    function("func_name"),
    arguments("args"),
    info(),
    infer=_infer_packed,
    doc="Call a registered Python function without side effects.\n"
    "\nIt gets arrays and returns what ``out_sinfo`` describes, which is checked. "
    "Errors: RLX0238, RLX0239.",
    family="base",
    normalize=literal_arguments,
    legalize=_pure_call,
    mistakes=(Mistake((), {}, "OPS0001"),),
)

call_builtin_with_ctx = define_op(
    "call_builtin_with_ctx",
    function("func"),
    arguments("args"),
    info("sinfo_args"),
    infer=_infer_packed,
    doc="Call a packed function to which other compilers pass the state of their run time.\n\n"
    "Loomir has no such state: the function gets only the arguments, and may have effects. "
    "Errors: RLX0238, RLX0239.",
    family="base",
    normalize=literal_arguments,
    legalize=_direct_call,
    pure=False,
    mistakes=(Mistake((), {}, "OPS0001"),),
)


# -- closures ----------------------------------------------------------------------------------
def _infer_invoke(c: OpContext) -> StructInfo:
    known = c.args[0]
    if not isinstance(known, (FuncStructInfo, ObjectStructInfo)):
        c.refuse(
            "RLX0238",
            f"the first argument is {format_info(known)}, not a closure",
            help="call what R.make_closure gives, or a function",
            arg=0,
        )
    given = arguments_of(c)
    params = known.params if isinstance(known, FuncStructInfo) else None
    if given is not None and params is not None and len(given.infos) != len(params):
        c.refuse(
            "RLX0209",
            f"the closure takes {with_count(len(params), 'argument')}, not {len(given.infos)}",
            help="give one argument for each parameter that is left",
            arg=1,
        )
    return derive_packed_result(c.call, _CLAIMED)


_CLAIMED = FuncStructInfo(None, OBJECT, derive_func="default_derive")


def _infer_make_closure(c: OpContext) -> StructInfo:
    """Infer the function of the parameters that are left, where the function is the module's."""
    known, given = c.args[0], arguments_of(c)
    if not isinstance(known, (FuncStructInfo, ObjectStructInfo)):
        c.refuse(
            "RLX0238",
            f"the first argument is {format_info(known)}, not a function",
            help="make closures of functions of the module",
            arg=0,
        )
    params = known.params if isinstance(known, FuncStructInfo) else None
    if given is None or params is None or not isinstance(known, FuncStructInfo):
        return OBJECT
    left = len(params) - len(given.infos)
    if left < 0:
        c.refuse(
            "RLX0209",
            f"the function takes {with_count(len(params), 'argument')}, and {len(given.infos)} are "
            "given",
            help="give values for the last of its parameters",
            arg=1,
        )
    if not isinstance(c.call.args[0], GlobalVar):
        return OBJECT
    last = TupleStructInfo(params[left:])
    values = get_shape_var_mapping(last, TupleStructInfo(given.infos))
    bound = substitute_shape_vars(known, values)
    made = FuncStructInfo((bound.params or ())[:left], bound.ret, bound.purity)
    # What the values did not tell, and no parameter that is left tells, is not known any more.
    unknown = frozenset(shape_vars_in(known)) - frozenset(values)
    return erase_to_well_defined(made, frozenset(), frozenset(shape_vars_in(made)) - unknown)


make_closure = define_op(
    "make_closure",
    function("func"),
    arguments("args"),
    infer=_infer_make_closure,
    doc="Return a closure: the function with its last parameters bound to ``args``.",
    family="base",
    normalize=literal_arguments,
    mistakes=(Mistake((), {}, "OPS0001"),),
)

invoke_closure = define_op(
    "invoke_closure",
    expr("closure"),
    arguments("args"),
    info("sinfo_args", None),
    infer=_infer_invoke,
    doc="Call a closure, which may have effects.\n\nThe result is what ``sinfo_args`` claims, "
    "which is checked when the call returns.",
    family="base",
    normalize=literal_arguments,
    pure=False,
    mistakes=(Mistake((), {}, "OPS0001"),),
)

invoke_pure_closure = define_op(
    "invoke_pure_closure",
    expr("closure"),
    arguments("args"),
    info("sinfo_args", None),
    infer=_infer_invoke,
    doc="Call a closure without side effects.",
    family="base",
    normalize=literal_arguments,
    mistakes=(Mistake((), {}, "OPS0001"),),
)
