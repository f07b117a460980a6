"""Check that a call of a kernel fits the kernel: parameters, results, and what it writes.

A kernel is a ``PrimFunc`` of the module. Its parameters are the inputs, then integers, then the
outputs, which nothing else writes.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from loomir.ir.module import BaseFunc, GlobalVar, IRModule
from loomir.ir.visit import by_class
from loomir.relax.expr import Call, Constant, Tuple, TupleGetItem, Var
from loomir.relax.info.describe import differences, error_spans_of, format_info
from loomir.relax.info.proof import Match, shape_vars_in
from loomir.relax.info.relations import (
    check_compatibility,
    get_shape_var_mapping,
    substitute_shape_vars,
)
from loomir.relax.node import RelaxExpr, StructInfo
from loomir.relax.operator.context import OpContext
from loomir.relax.shape import ShapeExpr
from loomir.relax.struct_info import (
    FuncStructInfo,
    ObjectStructInfo,
    PrimStructInfo,
    TensorStructInfo,
    TupleStructInfo,
)
from loomir.support.diagnostics import Diagnostic, with_count
from loomir.tir.analysis.written_buffers import written_buffers
from loomir.tir.expr import Call as PrimCall
from loomir.tir.function import PrimFunc

__all__ = [
    "Arguments",
    "arguments_of",
    "check_kernel",
    "kernel_of",
    "literal_arguments",
    "outputs_of",
    "result_of",
]


class Arguments(NamedTuple):
    """The fields of a tuple of arguments, and what is known of each."""

    exprs: tuple[RelaxExpr, ...]
    infos: tuple[StructInfo, ...]


def arguments_of(c: OpContext, index: int = 1) -> Arguments | None:
    """Return the fields of the argument that is a tuple, None if not even their number is known.

    Errors: RLX0231 for what is not a tuple.
    """
    expr, info = c.call.args[index], c.args[index]
    if isinstance(info, TupleStructInfo):
        count = len(info.fields)
        exprs = expr.fields if isinstance(expr, Tuple) else (expr,) * count
        return Arguments(exprs, info.fields)
    if not isinstance(info, ObjectStructInfo):
        c.refuse(
            "RLX0231",
            f"the arguments are {format_info(info)}, not a tuple",
            help="give them as a tuple, as in (x, y)",
            arg=index,
        )
    return None


def literal_arguments(call: Call) -> Call:
    """Write the arguments out: those of a tuple, or one tensor by itself (R33)."""
    given = call.args[1]
    known = given.struct_info if isinstance(given, Constant) else None
    if isinstance(given, Var):
        known = given.struct_info_annotation
    fields: tuple[RelaxExpr, ...]
    if isinstance(known, TensorStructInfo):
        fields = (given,)
    elif isinstance(known, TupleStructInfo):
        fields = tuple([TupleGetItem(given, i, span=call.span) for i in range(len(known.fields))])
    else:
        return call
    args = (call.args[0], Tuple(fields, span=call.span), *call.args[2:])
    return Call(call.op, args, call.sinfo_args, call.attrs, span=call.span)


def outputs_of(c: OpContext) -> tuple[TensorStructInfo, ...]:
    """Return what describes the results: tensors, whose extents and dtypes are known.

    Errors: RLX0232 for others.
    """
    infos: tuple[StructInfo, ...] = c.call.sinfo_args
    if len(infos) == 1 and isinstance(infos[0], TupleStructInfo):
        infos = infos[0].fields
    found: list[TensorStructInfo] = []
    for info in infos:
        fits = isinstance(info, TensorStructInfo) and isinstance(info.shape, ShapeExpr)
        if not fits or not isinstance(info, TensorStructInfo) or info.dtype.is_void:
            c.refuse(
                "RLX0232",
                f"a result is described as {format_info(info)}, which is not enough to allocate it",
                help='give its extents and dtype, as in out_sinfo=R.Tensor((2, n), "float32")',
            )
        found.append(info)
    return tuple(found)


def result_of(c: OpContext) -> StructInfo:
    """Return what the call returns: what is described, a tuple unless that is one."""
    infos = c.call.sinfo_args
    return infos[0] if len(infos) == 1 else TupleStructInfo(infos)


def check_kernel(c: OpContext, inplace: tuple[int, ...]) -> None:
    """Check that a call fits its kernel.

    ``inplace`` gives for each result the argument that becomes it, -1 for a new tensor. Errors:
    RLX0230 to RLX0235; warns with RLX0237.
    """
    func = kernel_of(c)
    args, outputs = arguments_of(c), outputs_of(c)
    if args is not None:
        _check_inplace(c, args, outputs, inplace)
    if func is None or func.params is None or args is None:
        return
    fresh = [info for info, index in zip(outputs, inplace) if index < 0]
    ints = _integers(c)
    if ints is None:
        return
    count = len(args.infos) + len(ints) + len(fresh)
    if count != len(func.params):
        parts = [with_count(len(args.infos), "argument")]
        parts += [with_count(len(ints), "integer")] if ints else []
        c.refuse(
            "RLX0233",
            f"{_name(c)} takes {with_count(len(func.params), 'parameter')}, but the call gives it "
            f"{', '.join(parts)} and {with_count(len(fresh), 'result')}",
            help="the parameters of a kernel are its inputs, then integers, then its results",
        )
    _check_parameters(c, func.params, args, ints, fresh)
    _check_writes(c, len(args.infos), len(ints), inplace)


def kernel_of(c: OpContext) -> FuncStructInfo | None:
    """Return what is known of the kernel. Errors: RLX0230 if it is not one."""
    callee, info = c.call.args[0], c.args[0]
    found = c.definition(callee) if isinstance(callee, GlobalVar) else None
    is_kernel = isinstance(callee, GlobalVar) and (found is None or isinstance(found, PrimFunc))
    if not is_kernel or not isinstance(info, (FuncStructInfo, ObjectStructInfo)):
        name = repr(callee.name_hint) if isinstance(callee, GlobalVar) else "the first argument"
        c.refuse(
            "RLX0230",
            f"{name} is not a PrimFunc of the module",
            help="call functions of Relax directly; packed ones with R.call_dps_packed",
            arg=0,
        )
    return info if isinstance(info, FuncStructInfo) else None


def _name(c: OpContext) -> str:
    return repr(getattr(c.call.args[0], "name_hint", "the kernel"))


def _integers(c: OpContext) -> tuple[Any, ...] | None:
    """Return the integers passed besides tensors, None if their number is not known."""
    if not c.has(2):
        return ()
    info = c.shape(2)
    if info.values is not None:
        return info.values
    return None if info.ndim < 0 else (None,) * info.ndim


def _check_parameters(
    c: OpContext,
    params: tuple[StructInfo, ...],
    args: Arguments,
    ints: tuple[Any, ...],
    fresh: list[TensorStructInfo],
) -> None:
    first, last = len(args.infos), len(args.infos) + len(ints)
    given = [*args.infos]
    for param, value in zip(params[first:last], ints):
        fits = isinstance(param, PrimStructInfo) and param.dtype.is_integer
        if not fits or not isinstance(param, PrimStructInfo):
            ends = all(isinstance(last, PrimStructInfo) for last in params[-len(ints) :])
            c.refuse(
                "RLX0234",
                f"{_name(c)} is given an integer where it takes {format_info(param)}",
                help=f"write the integers of {_name(c)} before its results: kernels take inputs, "
                "integers, results"
                if ends
                else "the parameters of a kernel are its inputs, then integers, then its results",
                arg=2,
            )
        same = value is not None and value.dtype is param.dtype
        given.append(PrimStructInfo(param.dtype, value if same else None))
    given += fresh
    mapping = get_shape_var_mapping(TupleStructInfo(params), TupleStructInfo(tuple(given)))
    for index, (info, param) in enumerate(zip(given, params)):
        wanted = substitute_shape_vars(param, mapping)
        if first <= index < last or isinstance(info, ObjectStructInfo):
            continue
        fits = check_compatibility(info, wanted, c.analyzer)
        open_ = fits is Match.MAYBE and not mapping.keys() >= set(shape_vars_in(param))
        if fits is not Match.YES and not open_:  # the kernel itself holds its integers to shapes
            expr = args.exprs[index] if index < first else c.call
            _mismatch(c, fits, index - last, info, wanted, expr, index if index < first else -1)


def _mismatch(
    c: OpContext,
    fits: Match,
    output: int,
    info: StructInfo,
    wanted: StructInfo,
    expr: Any,
    index: int,
) -> None:
    what = f"result {output + 1}" if index < 0 else f"argument {index + 1}"
    only = "" if fits is Match.NO else "only known to be "
    message = (
        f"{what} of {_name(c)} is {only}{format_info(info)}, but"
        f" its parameter is {format_info(wanted)}"
    )
    place = error_spans_of(expr, c.call)
    notes = differences(info, wanted, c.analyzer)
    if fits is Match.NO:
        help_ = (
            "describe the result as the kernel writes it"
            if index < 0
            else "give what the kernel takes, or make a kernel for what is given"
        )
        c.refuse("RLX0234", message, help=help_, place=place, notes=notes)
    c.warn(
        Diagnostic(
            "RLX0237",
            f"{c.shown}: {message}",
            place.span,
            secondary=place.secondary,
            notes=(*notes, "it is checked when the kernel is called"),
            help=f"check it first: R.match_cast(…, {format_info(wanted)})",
            severity="warning",
        )
    )


def _check_writes(c: OpContext, inputs: int, ints: int, inplace: tuple[int, ...]) -> None:
    """Refuse a kernel that writes a parameter which is no output (R34). Errors: RLX0235."""
    callee = c.call.args[0]
    found = c.definition(callee) if isinstance(callee, GlobalVar) else None
    if not isinstance(found, PrimFunc):
        return
    outputs = {index for index in inplace if index >= 0}
    outputs.update(range(inputs + ints, len(found.params)))
    for position, name in _list_written(c, found):
        if position not in outputs:
            c.refuse(
                "RLX0235",
                f"{_name(c)} writes its parameter {name!r}, which is no output",
                help="write outputs only; to write over an argument, use R.call_tir_inplace",
                arg=0,
                notes=("kernels are called as pure functions: they change nothing else",),
            )


def _list_written(c: OpContext, func: PrimFunc) -> list[tuple[int, str]]:
    """List the parameters that a kernel certainly writes, by place and name."""
    key = ("written", id(func))
    if key not in c.memory:
        module = IRModule(_collect_reached(c, func))
        data = {id(b.data) for b in written_buffers(func, module, escaping=False)}
        places = [
            (place, func.buffer_map[var].name)
            for place, var in enumerate(func.params)
            if var in func.buffer_map and id(func.buffer_map[var].data) in data
        ]
        c.memory[key] = (func, places)  # the function stays alive, and its number its own
    return c.memory[key][1]


def _collect_reached(c: OpContext, func: PrimFunc) -> dict[GlobalVar, BaseFunc]:
    """Collect the functions that a kernel calls, directly or not."""
    found: dict[GlobalVar, BaseFunc] = {}
    names: set[str] = set()
    pending = [func]
    while pending:
        for call in by_class(pending.pop()).get(PrimCall, ()):
            callee = call.op
            if isinstance(callee, GlobalVar) and callee.name_hint not in names:
                names.add(callee.name_hint)
                made = c.definition(callee)
                if made is not None:
                    found[callee] = made
                if isinstance(made, PrimFunc):
                    pending.append(made)
    return found


def _check_inplace(
    c: OpContext,
    args: Arguments,
    outputs: tuple[TensorStructInfo, ...],
    inplace: tuple[int, ...],
) -> None:
    """Check results that overwrite arguments: each must be like its argument. Errors: RLX0236."""
    if len(inplace) != len(outputs):
        _refuse_inplace(
            c,
            f"{with_count(len(inplace), 'index', 'indices')} for "
            f"{with_count(len(outputs), 'result')}",
            "give for each result the number of the argument that becomes it, or -1",
        )
    named = [index for index in inplace if index >= 0]
    for number, index in enumerate(inplace):
        if index < -1 or index >= len(args.infos):
            _refuse_inplace(
                c,
                f"there is no argument {index} to write result {number} to",
                f"give a number from 0 to {len(args.infos) - 1}, or -1 for a new tensor",
            )
        if index < 0:
            continue
        if named.count(index) > 1:
            _refuse_inplace(c, f"two results are written to argument {index}", "give each its own")
        info, wanted = args.infos[index], outputs[number]
        if check_compatibility(info, wanted, c.analyzer) is Match.NO and not isinstance(
            info, ObjectStructInfo
        ):
            _refuse_inplace(
                c,
                f"argument {index} is {format_info(info)}, and result"
                f" {number}, {format_info(wanted)}, is to "
                "be written to it",
                "write a result over an argument of the same extents and dtype",
                args.exprs[index],
            )
        target = args.exprs[index]
        uses = [e for e in args.exprs if e is target]
        if len(uses) > 1 and isinstance(c.call.args[1], Tuple):
            _refuse_inplace(
                c,
                f"argument {index} is written, and is another argument as well",
                "pass what is written once only",
                target,
            )


def _refuse_inplace(c: OpContext, message: str, help_: str, expr: Any = None) -> None:
    c.refuse("RLX0236", message, help=help_, place=error_spans_of(expr, c.call))
