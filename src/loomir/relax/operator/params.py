"""Parameters of operators: what each accepts, and how users' values are converted.

A parameter is an *input*, which is an argument of the call, or an *option*, which is plain data
among its attributes.
"""

from __future__ import annotations

import inspect
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final, NamedTuple, NoReturn, cast

from loomir.ir.module import GlobalVar, VDevice
from loomir.relax.expr import (
    Call,
    Constant,
    DataTypeImm,
    ExternFunc,
    PrimValue,
    StringImm,
    Tuple,
)
from loomir.relax.node import Expr, StructInfo
from loomir.relax.operator.index_text import index_text
from loomir.relax.operator.refused_arguments import refuse_loose_tensors, show_given
from loomir.relax.shape import ShapeExpr
from loomir.relax.struct_info import TensorStructInfo, TupleStructInfo
from loomir.support.array import Array
from loomir.support.diagnostics import with_count
from loomir.support.dtype import DataType
from loomir.tir.expr import FloatImm, IntImm, PrimExpr, const
from loomir.tir.rules import refuse

__all__ = [
    "REQUIRED",
    "BoundCall",
    "Kind",
    "Param",
    "arguments",
    "axes",
    "check_bound",
    "data",
    "device",
    "expr",
    "flag",
    "function",
    "index_map",
    "info",
    "integer",
    "ints",
    "kind_dtype",
    "number",
    "numbers",
    "prim",
    "scalar",
    "sections",
    "several",
    "shape",
    "signature_of",
    "tensor",
    "tensors",
    "text",
    "tuple_of",
]


class Kind(Enum):
    """The kind of value that a parameter takes."""

    TENSOR = "a tensor"
    TENSORS = "a tuple of tensors"
    SHAPE = "a shape"
    PRIM = "a scalar"
    SCALAR = "a number"
    FUNCTION = "a function"
    TUPLE = "a tuple"
    EXPR = "a value"
    ARGS = "a tuple of arguments"
    INFO = "structural information"
    # options
    INTEGER = "an integer"
    NUMBER = "a number that is known"
    FLAG = "True or False"
    TEXT = "a string"
    INTS = "a list of integers"
    NUMBERS = "a list of numbers"
    AXES = "an integer or a list of integers"
    SECTIONS = "a number of parts or a list of places"
    DTYPE = "a dtype"
    INDEX_MAP = "a function of indices"
    DEVICE = "a device"
    DATA = "a dictionary of plain data"


_OPTIONS: Final = frozenset(
    {
        Kind.INTEGER,
        Kind.NUMBER,
        Kind.FLAG,
        Kind.TEXT,
        Kind.INTS,
        Kind.NUMBERS,
        Kind.AXES,
        Kind.SECTIONS,
        Kind.DTYPE,
        Kind.INDEX_MAP,
        Kind.DEVICE,
        Kind.DATA,
    }
)


_TUPLES: Final = frozenset({Kind.TENSORS, Kind.TUPLE, Kind.EXPR, Kind.ARGS})
"""The kinds for which a tuple of Python's becomes a tuple of the program."""


class _RequiredMarker:
    def __repr__(self) -> str:
        return "REQUIRED"


REQUIRED: Final[Any] = _RequiredMarker()
"""The default of a parameter that must be passed."""


@dataclass(frozen=True, slots=True)
class Param:
    """A parameter: its name, the kind of value that it takes, and its default.

    ``choices`` are the texts that an option takes. An input with the default None may be left out
    of the call; only the last inputs can be. ``variadic``: it takes all positional arguments, and
    the parameters after it are keywords. ``aliases`` are other names of it.
    """

    name: str
    kind: Kind
    default: Any = REQUIRED
    choices: tuple[str, ...] = ()
    variadic: bool = False
    aliases: tuple[str, ...] = ()

    @property
    def is_option(self) -> bool:
        """Whether it is an attribute of the call, not an argument."""
        return self.kind in _OPTIONS

    @property
    def is_input(self) -> bool:
        """Whether it is an argument of the call."""
        return not self.is_option and self.kind is not Kind.INFO

    def __str__(self) -> str:
        if self.variadic:
            return f"*{self.name}"
        return self.name if self.default is REQUIRED else f"{self.name}={self.default!r}"


def _maker(kind: Kind) -> Callable[..., Param]:
    def make(name: str, default: Any = REQUIRED) -> Param:
        return Param(name, kind, default)

    make.__doc__ = f"Declare a parameter that takes {kind.value}."
    return make


tensor = _maker(Kind.TENSOR)
tensors = _maker(Kind.TENSORS)
shape = _maker(Kind.SHAPE)
prim = _maker(Kind.PRIM)
scalar = _maker(Kind.SCALAR)
"""A number, a scalar of the program, or a tensor; the operator makes a tensor or a scalar of it."""
function = _maker(Kind.FUNCTION)
tuple_of = _maker(Kind.TUPLE)
expr = _maker(Kind.EXPR)
integer = _maker(Kind.INTEGER)
number = _maker(Kind.NUMBER)
flag = _maker(Kind.FLAG)
ints = _maker(Kind.INTS)
numbers = _maker(Kind.NUMBERS)
axes = _maker(Kind.AXES)
sections = _maker(Kind.SECTIONS)
index_map = _maker(Kind.INDEX_MAP)
kind_dtype = _maker(Kind.DTYPE)
data = _maker(Kind.DATA)
"""A dictionary with names for keys."""
device = _maker(Kind.DEVICE)
"""A virtual device, given as one or as text: ``"llvm:0"``, ``"cuda:1:global"``."""
arguments = _maker(Kind.ARGS)
"""A tuple, or one value, which becomes a tuple of one field."""


def several(name: str) -> Param:
    """Declare a parameter that takes any number of values, each an argument of the call."""
    return Param(name, Kind.EXPR, (), variadic=True)


def info(name: str = "out_sinfo", default: Any = REQUIRED) -> Param:
    """Declare a parameter that describes the results: one structural information, or a list.

    It becomes the call's ``sinfo_args``, and has the names that users know (R42).
    """
    names = ("out_sinfo", "out_ty", "sinfo_args", "ty_args", "type_args")
    return Param(name, Kind.INFO, default, aliases=tuple(n for n in names if n != name))


def text(name: str, default: Any = REQUIRED, choices: Sequence[str] = ()) -> Param:
    """Declare an option that takes a string: one of ``choices``, if there are any."""
    return Param(name, Kind.TEXT, default, tuple(choices))


def signature_of(params: Sequence[Param]) -> inspect.Signature:
    """Return the signature of a function that takes these parameters.

    Other names of a parameter come last, as keywords. As one of them may be passed in its
    place, it and what follows can be left out then.
    """
    made: list[inspect.Parameter] = []
    kind, optional = inspect.Parameter.POSITIONAL_OR_KEYWORD, False
    for param in params:
        if param.variadic:
            made.append(inspect.Parameter(param.name, inspect.Parameter.VAR_POSITIONAL))
            kind = inspect.Parameter.KEYWORD_ONLY
            continue
        default = param.default
        needed = default is REQUIRED
        by_place = kind is inspect.Parameter.POSITIONAL_OR_KEYWORD
        optional = optional or bool(param.aliases) or (by_place and not needed)
        if needed:
            default = ... if optional else inspect.Parameter.empty
        made.append(inspect.Parameter(param.name, kind, default=default))
    named = inspect.Parameter.KEYWORD_ONLY
    others = [name for param in params for name in param.aliases]
    made += [inspect.Parameter(name, named, default=...) for name in others]
    return inspect.Signature(made)


# -- what users write ----------------------------------------------------------------------------
def convert_option(op: str, param: Param, value: Any) -> Any:
    """Return an option as plain data: numbers, strings, dtypes, tuples of integers, None.

    Errors: OPS0002.
    """
    if value is None and param.default is None:
        return None
    made = _CONVERT[param.kind](_plain(value))
    if param.kind is Kind.DTYPE and param.default is None and made is not None and made.is_void:
        return None  # other libraries write this for no dtype
    if made is None or (param.choices and made not in param.choices):
        wanted = (
            "one of " + ", ".join(map(repr, param.choices)) if param.choices else param.kind.value
        )
        refuse(
            "OPS0002",
            f"{op}: {param.name} is {wanted}, not {show_given(value)}",
            help=f"give {wanted} for {param.name}, known when the program is written",
            span=getattr(value, "span", None),
        )
    return made


_LEVELS: Final = 8
"""How deeply nested lists are read: more deeply than those of any option."""


def _plain(value: Any, levels: int = _LEVELS) -> Any:
    if isinstance(value, (IntImm, FloatImm)):
        return bool(value.value) if value.dtype.is_bool else value.value
    if isinstance(value, (PrimValue, StringImm, DataTypeImm)):
        return _plain(value.value, levels)
    if isinstance(value, ShapeExpr):
        return _plain(tuple(value.values), levels)
    if isinstance(value, Tuple):
        return _plain(tuple(value.fields), levels)
    if isinstance(value, (list, tuple)) and levels:
        return tuple(_plain(v, levels - 1) for v in cast("Sequence[Any]", value))
    return cast("object", value)


def _integer(value: Any) -> int | None:
    if isinstance(value, bool):
        return None
    try:
        return operator.index(value)
    except TypeError:
        return None


def _number(value: Any) -> int | float | None:
    found = _integer(value)
    if found is None and isinstance(value, float):
        return float(value)
    return found


def _ints(value: Any) -> tuple[int, ...] | None:
    if not isinstance(value, tuple):
        return None
    found = [_integer(item) for item in cast("tuple[Any, ...]", value)]
    return None if None in found else cast("tuple[int, ...]", tuple(found))


def _numbers(value: Any) -> tuple[int | float, ...] | None:
    if not isinstance(value, tuple):
        return None
    found = [_number(item) for item in cast("tuple[Any, ...]", value)]
    return None if None in found else cast("tuple[int | float, ...]", tuple(found))


def _axes(value: Any) -> tuple[int, ...] | None:
    found = _integer(value)
    return _ints(value) if found is None else (found,)


def _sections(value: Any) -> int | tuple[int, ...] | None:
    found = _integer(value)
    return _ints(value) if found is None else found


def _dtype(value: Any) -> DataType | None:
    if isinstance(value, str):
        return DataType(value)
    return value if isinstance(value, DataType) else None


def _device(value: Any) -> VDevice | None:
    if isinstance(value, str):
        target, *rest = value.split(":")
        number = rest[0] if rest else "0"
        if not number.isdecimal() or len(rest) > 2:
            return None
        return VDevice(target, int(number), rest[1] if len(rest) > 1 else "global")
    found = _integer(value)
    if found is not None and found >= 0:
        return VDevice("", found)
    return value if isinstance(value, VDevice) else None


def _data(value: Any) -> dict[str, Any] | None:
    if not isinstance(value, dict):
        return None
    items = cast("dict[Any, Any]", value)
    if not all(isinstance(key, str) for key in items):
        return None
    return {key: _plain(items[key]) for key in items}


_CONVERT: Final[dict[Kind, Callable[[Any], Any]]] = {
    Kind.INTEGER: _integer,
    Kind.NUMBER: _number,
    Kind.FLAG: lambda v: bool(v) if isinstance(v, (bool, int)) and v in (0, 1) else None,
    Kind.TEXT: lambda v: v if isinstance(v, str) else None,
    Kind.INTS: _ints,
    Kind.NUMBERS: _numbers,
    Kind.AXES: _axes,
    Kind.SECTIONS: _sections,
    Kind.DTYPE: _dtype,
    Kind.INDEX_MAP: index_text,
    Kind.DEVICE: _device,
    Kind.DATA: _data,
}


def convert_input(op: str, param: Param, value: Any, like: DataType | None = None) -> Any:
    """Return an input as an expression; Python's tuples and numbers become those of the program.

    A number in place of a tensor takes the dtype ``like``, if that holds it.
    Errors: OPS0003 for what cannot be an input.
    """
    if like is not None and param.kind in (Kind.TENSOR, Kind.SCALAR) and _holds(like, value):
        return PrimValue(const(value, like))
    if isinstance(value, (Expr, GlobalVar)):
        return _as_arguments(value) if param.kind is Kind.ARGS else value
    if param.kind is Kind.FUNCTION and isinstance(value, str):
        return ExternFunc(value)
    if param.kind is Kind.SHAPE and isinstance(value, (list, tuple)):
        return ShapeExpr(cast("Any", tuple(cast("Sequence[Any]", value))))
    if param.kind in (Kind.TENSORS, Kind.TUPLE, Kind.EXPR, Kind.ARGS) and isinstance(
        value, (list, tuple)
    ):
        return _convert_items(op, Param(param.name, Kind.EXPR), cast("Sequence[Any]", value))
    if param.kind is Kind.SHAPE and isinstance(value, (int, PrimExpr)):
        return ShapeExpr(cast("Any", (value,)))
    if isinstance(value, (bool, int, float, PrimExpr)):
        return PrimValue(cast("Any", value))
    if isinstance(value, str):
        return StringImm(value)
    if isinstance(value, DataType):
        return DataTypeImm(value)
    if isinstance(value, Array) or type(value).__module__ == "numpy":
        return Constant(value)
    return refuse(
        "OPS0003",
        f"{op}: {param.name} is {param.kind.value}, not {show_given(value)}",
        help="give its .numpy(), as a name from around the program"
        if show_given(value).endswith("torch.Tensor")
        else "give a variable, a constant made with R.const, or an expression",
        span=getattr(value, "span", None),
    )


def _as_arguments(value: Expr | GlobalVar) -> Expr | GlobalVar:
    """Put one argument into a tuple, unless it is known to be one."""
    known = isinstance(getattr(value, "struct_info_annotation", None), TupleStructInfo)
    return value if known or isinstance(value, Tuple) else Tuple((value,))


def _as_infos(op: str, param: Param, value: Any) -> tuple[StructInfo, ...]:
    """Return the structural information of the results. Errors: OPS0003."""
    if isinstance(value, StructInfo):
        return (value,)
    if isinstance(value, (list, tuple)):
        items = tuple(cast("Sequence[Any]", value))
        if all(isinstance(item, StructInfo) for item in items):
            return items
    return refuse(
        "OPS0003",
        f"{op}: {param.name} is {param.kind.value}, not {show_given(value)}",
        help='describe the results, as in R.Tensor((2, n), "float32")',
        span=getattr(cast("object", value), "span", None),
    )


def _holds(dtype: DataType, value: Any) -> bool:
    """Tell whether a value is a plain number that a dtype holds."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return False
    if isinstance(value, float) or not dtype.is_integer:
        return dtype.is_float
    return dtype.min_value <= value <= dtype.max_value


def _dtype_of_numbers(params: Sequence[Param], given: dict[str, Any]) -> DataType | None:
    """Return the dtype of numbers among the inputs: the requested one, or that of a tensor."""
    for param in params:
        if param.kind is Kind.DTYPE and given.get(param.name) is not None:
            return _dtype(given[param.name])
    for param in params:
        value = given.get(param.name)
        if isinstance(value, Constant):
            return value.data.dtype
        info = getattr(value, "struct_info_annotation", None)
        if isinstance(info, TensorStructInfo) and not info.dtype.is_void:
            return info.dtype
    return None


class BoundCall(NamedTuple):
    """The parts of a call: arguments, attributes, and structural information of the results."""

    inputs: list[Any]
    options: dict[str, Any]
    infos: tuple[StructInfo, ...]


def bind(
    op: str,
    params: Sequence[Param],
    args: Sequence[Any],
    keywords: dict[str, Any],
    adapt: Callable[[dict[str, Any]], dict[str, Any]] | None = None,
) -> BoundCall:
    """Sort the arguments of a call into inputs and options, and fill in defaults.

    ``adapt`` changes the arguments, by name, before they are converted.

    Errors: OPS0001 for arguments that do not fit the signature, OPS0002, OPS0003.
    """
    if len(args) > 1 and params and params[0].kind is Kind.TENSORS:
        refuse_loose_tensors(op, args)
    given = _sort_arguments(op, params, args, keywords)
    if adapt is not None:
        given = adapt(given)
    like = _dtype_of_numbers(params, given)
    bound = BoundCall([], {}, ())
    left_out = ""
    for param in params:
        value = given.get(param.name, param.default)
        if value is REQUIRED:
            _refuse_call(op, f"lacks {param.name}", params, None)
        if param.kind is Kind.INFO:
            bound = bound._replace(infos=_as_infos(op, param, () if value is None else value))
        elif param.is_option:
            bound.options[param.name] = convert_option(op, param, value)
        elif param.variadic:
            bound.inputs.extend(convert_input(op, param, item) for item in value)
        elif value is None and param.default is None:
            left_out = param.name
        elif left_out:
            _refuse_call(op, f"has {param.name} but not what comes before it", params, None)
        else:
            bound.inputs.append(convert_input(op, param, value, like))
    return bound


def _convert_items(op: str, param: Param, value: Sequence[Any]) -> Tuple:
    """Convert a tuple of Python's to one of the program, nested to any depth.

    Errors: OPS0003 for what cannot be an input, such as a list that holds itself.
    """
    opened: list[tuple[Sequence[Any], list[Any]]] = [(value, [])]
    around = {id(value)}
    while True:
        items, made = opened[-1]
        if len(made) < len(items):
            item = items[len(made)]
            if not isinstance(item, (list, tuple)):
                made.append(convert_input(op, param, item))
            elif id(cast("object", item)) in around:
                refuse(
                    "OPS0003",
                    f"{op}: {param.name} holds a list that holds itself",
                    help="give each list elements of its own",
                )
            else:
                opened.append((cast("Sequence[Any]", item), []))
                around.add(id(cast("object", item)))
            continue
        opened.pop()
        around.discard(id(items))
        done = Tuple(tuple(made))
        if not opened:
            return done
        opened[-1][1].append(done)


def check_bound(op: str, params: Sequence[Param], call: Call) -> None:
    """Refuse a call that ``bind`` could not have made.

    Errors: OPS0001 for another number of arguments or other options, OPS0002.
    """
    inputs = [p for p in params if p.is_input]
    given = [n for n, p in enumerate(inputs, 1) if not p.variadic and p.default is not None]
    needed = max(given, default=0)
    most = len(call.args) if any(p.variadic for p in inputs) else len(inputs)
    count = len(call.args)
    if not needed <= count <= most:
        wanted = with_count(needed, "argument")
        _refuse_call(op, f"takes {wanted}, not {count}", params, call.span)
    options = {p.name: p for p in params if p.is_option}
    for name in (*options, *call.attrs):
        if name not in options:
            _refuse_call(op, f"has no option {name!r}", params, call.span)
        if name not in call.attrs:
            _refuse_call(op, f"lacks the option {name}", params, call.span)
    for name, param in options.items():
        given = call.attrs[name]
        made = convert_option(op, param, given)
        if _form(made) != _form(given):
            refuse(
                "OPS0002",
                f"{op}: the option {name} of a call is {show_given(made)}, not {show_given(given)}",
                help=f"give {show_given(made)}, or make the call with {op}, "
                "which converts its options",
                span=call.span,
            )


def _form(option: Any) -> Any:
    """Return the Python type of plain data; for a tuple, with the types of its elements."""
    if isinstance(option, tuple):
        return tuple(map(_form, cast("tuple[Any, ...]", option)))
    return cast("type[object]", type(option))


def _sort_arguments(
    op: str, params: Sequence[Param], args: Sequence[Any], keywords: dict[str, Any]
) -> dict[str, Any]:
    """Sort arguments by the names of parameters. Errors: OPS0001."""
    given: dict[str, Any] = {}
    places = list(params)
    for index, param in enumerate(params):
        if param.variadic:
            given[param.name] = tuple(args[index:])
            args, places = args[:index], places[:index]
            break
    if len(args) > len(places):
        _refuse_call(
            op,
            f"takes {with_count(len(places), 'argument')}, not {len(args)}",
            params,
            getattr(args[len(places)], "span", None),
        )
    given.update((param.name, value) for param, value in zip(places, args))
    names = {name: param.name for param in params for name in (param.name, *param.aliases)}
    for name, value in keywords.items():
        if name not in names:
            _refuse_call(op, f"has no parameter {name!r}", params, getattr(value, "span", None))
        if names[name] in given:
            _refuse_call(op, f"got {name} twice", params, getattr(value, "span", None))
        given[names[name]] = value
    return given


def _refuse_call(op: str, why: str, params: Sequence[Param], span: Any) -> NoReturn:
    takes = ", ".join(map(str, params))
    refuse("OPS0001", f"{op} {why}", help=f"call it as {op}({takes})", span=span)
