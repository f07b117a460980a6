"""Python operators on graph values: ``y * 2.0``, ``-y``, ``y @ w``, ``y[0]``, ``y.shape``.

They build calls of operators, which are bound when emitted. A number beside a tensor takes its
dtype, so the structural information of a call is derived as soon as it is built.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any, Final, NoReturn, cast

from loomir.ir.module import GlobalVar
from loomir.relax.constants import const, constant_beside
from loomir.relax.expr import Call, Constant, PrimValue, Tuple, TupleGetItem, Var
from loomir.relax.node import Expr, RelaxExpr, StructInfo
from loomir.relax.normal.derive import Deriver
from loomir.relax.operator.definition import find_op
from loomir.relax.operator.other_libraries import OF_TENSORS, find_operator
from loomir.relax.python_values import PythonMeaning, set_meaning
from loomir.relax.shape import ShapeExpr
from loomir.relax.struct_info import (
    ObjectStructInfo,
    PrimStructInfo,
    ShapeStructInfo,
    TensorStructInfo,
    TupleStructInfo,
)
from loomir.support.caller_span import located, read_call, user_span
from loomir.support.diagnostics import CompileError, Diagnostic, InternalError
from loomir.tir.expr import IntImm, PrimExpr
from loomir.tir.numpy_operands import as_number, is_numpy_value
from loomir.tir.rules import refuse

__all__ = ["define_python_operators", "info_of"]

_END: Final = 2**31 - 1
_MOST: Final = 1024
_derived: Final[OrderedDict[int, tuple[Call, StructInfo]]] = OrderedDict()
"""What is known of the latest calls, among them those that are not emitted yet."""


def info_of(value: object) -> StructInfo | None:
    """Return what is known of a value, or None; nothing is known of calls of functions."""
    if isinstance(value, Var):
        return value.struct_info_annotation
    if isinstance(value, Constant):
        return value.struct_info
    if isinstance(value, PrimValue):
        return PrimStructInfo(value.value.dtype, value.value)
    if isinstance(value, ShapeExpr):
        return ShapeStructInfo(value.values)
    if isinstance(value, Tuple):
        return TupleStructInfo(tuple([info_of(f) or ObjectStructInfo() for f in value.fields]))
    if isinstance(value, TupleGetItem):
        around = info_of(value.tuple_value)
        fields = around.fields if isinstance(around, TupleStructInfo) else ()
        return fields[value.index] if value.index < len(fields) else None
    if isinstance(value, Call):
        if id(value) not in _derived:
            _remember(value)
        known_call = _derived.get(id(value))
        return None if known_call is None else known_call[1]
    return None


def _remember(call: Call) -> None:
    """Derive what is known of a call from what is known of its operands."""
    args: list[RelaxExpr] = []
    for arg in call.args:
        known = _derived.get(id(arg))
        args.append(arg if known is None else Var("operand", known[1]))
    try:
        deriver = Deriver(_describe_function, lambda warning: None)
        for arg in args:
            if isinstance(arg, Var):
                deriver.scope.declare(arg, arg.struct_info_annotation)
        made = Call(call.op, tuple(args), call.sinfo_args, call.attrs)
        _derived[id(call)] = call, deriver.derive(made)
    except CompileError:
        return  # reported, with its place, when the call is emitted
    while len(_derived) > _MOST:
        _derived.popitem(last=False)


def _describe_function(name: GlobalVar) -> StructInfo:
    del name
    return ObjectStructInfo()


def _call(name: str, *operands: Any, **options: Any) -> Call:
    found = find_op(f"relax.{name}")
    if found is None:
        raise InternalError(f"there is no operator {name}")
    made = found.call(*operands, **options)
    _remember(made)
    return made


def _apply(name: str, operands: Sequence[object]) -> object:
    """Call an operator; numbers and arrays become constants, other objects are not supported."""
    infos = [info_of(operand) for operand in operands]
    beside = next((i for i in infos if isinstance(i, TensorStructInfo)), None)
    given: list[object] = []
    for operand in operands:
        if isinstance(operand, (Expr, GlobalVar)):
            given.append(operand)
        elif isinstance(operand, (bool, int, float)) or is_numpy_value(operand):
            given.append(constant_beside(operand, beside))
        elif type(operand).__module__.partition(".")[0] == "torch":
            refuse(
                "RLX0006",
                f"a torch.{type(operand).__name__} is no value of a graph",
                help="give its array: relax.const(tensor.numpy())",
            )
        else:
            return NotImplemented
    return _call(name, *given)


# -- items ---------------------------------------------------------------------------------------
def _item(value: Expr, index: Any) -> Expr:
    """Return a field of a tuple, or a part of a tensor, indexed as in NumPy.

    Errors: RLX0006 for an index that is not a number, slice, None or ``...``, or one too many.
    """
    info = info_of(value)
    if isinstance(info, TupleStructInfo) or isinstance(value, Tuple):
        at = as_number(index)
        count = len(info.fields) if isinstance(info, TupleStructInfo) else 0
        if not isinstance(at, int) or not -count <= at < count:
            refuse(
                "RLX0006",
                f"a tuple of {count} has no field {index!r}",
                help="give the number of a field, counted from 0",
            )
        return TupleGetItem(value, at % count)
    if not isinstance(info, TensorStructInfo) or info.ndim < 0:
        refuse(
            "RLX0006",
            "only tensors of known rank and tuples have items",
            help="bind the value with bb.emit first, or use R.match_cast to say its rank",
        )
    return _part(value, info.ndim, index)


def _part(value: Expr, rank: int, index: Any) -> Expr:
    items = list(cast("tuple[Any, ...]", index)) if isinstance(index, tuple) else [index]
    used = sum(item is not None and item is not Ellipsis for item in items)
    if used > rank or items.count(Ellipsis) > 1:
        refuse(
            "RLX0006",
            f"{used} indices are given for a tensor with {rank} axes",
            help="give at most one index for each axis, and at most one `...`",
        )
    if Ellipsis not in items:
        items.append(Ellipsis)
    at = items.index(Ellipsis)
    items[at : at + 1] = [slice(None)] * (rank - used)
    axes: list[int] = []
    bounds: list[tuple[Any, Any, Any]] = []
    dropped: list[int] = []
    added: list[int] = []
    axis = place = 0
    for item in items:
        if item is None:
            added.append(place)
            place += 1
            continue
        cut = _slice_of(item)
        if cut is not None:
            axes.append(axis)
            bounds.append(cut)
        if isinstance(item, slice):
            place += 1
        else:
            dropped.append(axis)
        axis += 1
    made = value
    if axes:
        begin, end, step = (tuple(column) for column in zip(*bounds, strict=True))
        made = _call("strided_slice", made, tuple(axes), begin, end, step)
    if dropped:
        made = _call("squeeze", made, tuple(dropped))
    if added:
        made = _call("expand_dims", made, tuple(added))
    return made


def _slice_of(item: Any) -> tuple[Any, Any, Any] | None:
    """Return begin, end and step of an index; None if it takes the whole axis."""
    cut: Any = item
    if isinstance(item, slice):
        given = [as_number(part) for part in (cut.start, cut.stop, cut.step)]
        if given == [None, None, None]:
            return None
        begin, end, step = given
        step = 1 if step is None else step
        if not all(p is None or isinstance(p, (int, PrimExpr)) for p in (begin, end, step)):
            _refuse_index(cut)
        back = isinstance(step, int) and step < 0
        first, last = (_END, -_END) if back else (0, _END)
        return first if begin is None else begin, last if end is None else end, step
    at = as_number(item)
    if isinstance(at, bool) or not isinstance(at, (int, PrimExpr)):
        _refuse_index(item)
    if isinstance(at, PrimExpr) and not isinstance(at, IntImm):
        return at, at + 1, 1
    number = at.value if isinstance(at, IntImm) else at
    return number, number + 1 if number != -1 else _END, 1


def _refuse_index(item: object) -> None:
    refuse(
        "RLX0006",
        f"a tensor cannot be indexed by {item!r}",
        help="use numbers, slices, None and `...`; R.take looks elements up by a tensor",
    )


def _suggest_fields(value: Expr) -> str:
    shown = value.name_hint if isinstance(value, Var) else "x"
    called = read_call(user_span())
    if called is not None and called.name == "len":
        return f"write {shown}.shape[0]"
    if called is not None and called.name in ("sum", "max", "min", "any", "all"):
        return f"write op.{called.name}({shown})"
    return f"take its parts: {shown}[0], {shown}[1], or op.split({shown}, 2, axis=0)"


# -- what is known --------------------------------------------------------------------------------
def _shape(value: Expr) -> tuple[int | PrimExpr, ...]:
    info = info_of(value)
    dims = info.dims if isinstance(info, TensorStructInfo) else None
    if dims is None:
        refuse(
            "RLX0006",
            "the shape of this value is not known before the program runs",
            help="use R.shape_of(x), or R.match_cast to say what it is",
        )
    return tuple([d.value if isinstance(d, IntImm) else d for d in dims])


def _dtype(value: Expr) -> str:
    info = info_of(value)
    if not isinstance(info, (TensorStructInfo, PrimStructInfo)) or info.dtype.is_void:
        refuse(
            "RLX0006",
            "the dtype of this value is not known before the program runs",
            help="say it with R.match_cast",
        )
    return str(info.dtype)


def _fields(value: Expr) -> list[Expr]:
    info = info_of(value)
    if not isinstance(info, TupleStructInfo):
        refuse(
            "RLX0006",
            "a tensor has no fields: only tuples are unpacked and have a length",
            help=_suggest_fields(value),
        )
    return [_item(value, number) for number in range(len(info.fields))]


class ValueAttributeError(CompileError, AttributeError):
    """A value of a graph has no such attribute."""


_AFTER_A_RUN: Final = frozenset(("cpu", "detach", "item", "numpy", "tobytes", "tolist"))
"""Attributes of arrays that have numbers."""


def _refuse_attribute(value: Expr, name: str) -> NoReturn:
    """Name the operator that an attribute of arrays stands for."""
    shown = value.name_hint if isinstance(value, Var) else "x"
    form = OF_TENSORS.get(name)
    found = find_operator(name)
    info = info_of(value)
    if isinstance(info, TupleStructInfo):
        help_ = f"it is a tuple: use its fields, {shown}[0] to {shown}[{len(info.fields) - 1}]"
    elif name == "ndim":
        help_ = f"write len({shown}.shape)"
    elif name in _AFTER_A_RUN:
        help_ = "compile the program, call it, and use what it returns"
    elif form is not None:
        help_ = f"write op.{form.format(shown)}"
    elif found is not None:
        help_ = f"write op.{found}({shown}, ...)"
    else:
        help_ = f"it has {shown}.shape and {shown}.dtype; operators are functions of loomir.op"
    message = f"a value of a graph has no attribute {name!r}"
    raise ValueAttributeError(Diagnostic("RLX0006", message, user_span(), help=help_))


def define_python_operators() -> None:
    """Define Python's operators, items and attributes for values of graphs."""
    functions = (_apply, _item, _fields, _shape, _dtype, const, _refuse_attribute)
    set_meaning(PythonMeaning(*[_place_mistakes(function) for function in functions]))


def _place_mistakes(function: Callable[..., Any]) -> Callable[..., Any]:
    """Place mistakes at the user's line that made them."""

    def call(*args: Any) -> Any:
        with located():
            return function(*args)

    return call
