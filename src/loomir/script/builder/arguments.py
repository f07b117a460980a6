"""Convert arguments of builder functions: numbers to expressions, text to dtypes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, cast

from loomir.ir.equality import structural_equal
from loomir.ir.module import GlobalVar
from loomir.ir.node import Node
from loomir.script.builder.mistakes import ArgumentError, wrong_argument
from loomir.support.diagnostics import CompileError, with_article
from loomir.support.dtype import LANES, DataType, dtype_elsewhere
from loomir.tir.analysis.constant_index import outside
from loomir.tir.buffer import Buffer, BufferLoad, BufferRegion, IterVar, Range
from loomir.tir.equality_op import Equality
from loomir.tir.expr import (
    Add,
    Broadcast,
    ExprLike,
    IntImm,
    PrimExpr,
    Ramp,
    StringImm,
    Sub,
    Var,
    const,
    convert,
    match_dtypes,
)

__all__ = [
    "add_describer",
    "as_annotations",
    "as_buffer",
    "as_dtype",
    "as_expr",
    "as_exprs",
    "as_int",
    "as_items",
    "as_operand",
    "as_plain",
    "as_region",
    "as_stored",
    "as_text",
    "check_index",
    "describe",
    "difference",
    "index_buffer",
    "region_of",
    "vector_indices",
    "vector_load",
]

_WORDS: Final[dict[type, str]] = {
    bool: "a Python bool",
    int: "a Python int",
    float: "a Python float",
    str: "a string",
    tuple: "a tuple",
    list: "a list",
    dict: "a dict",
    type(None): "None",
    slice: "a slice",
    Range: "a range",
}


_describers: list[Callable[[object], str | None]] = []


def add_describer(describer: Callable[[object], str | None]) -> None:
    """Let a dialect name the kinds of its own values; None for other values."""
    _describers.append(describer)


def describe(value: object) -> str:
    """Name a value's kind for an error message."""
    for describer in _describers:
        found = describer(value)
        if found is not None:
            return found
    if isinstance(value, Buffer):
        return f"the buffer {value.name!r}" if value.name else "a buffer"
    if isinstance(value, BufferRegion):
        return f"a region of {value.buffer.called}"
    if isinstance(value, Var):
        return f"the {value.dtype} variable {value.name_hint!r}"
    if isinstance(value, PrimExpr):
        return f"an expression of dtype {value.dtype}"
    if isinstance(value, DataType):
        return f"the dtype {value}"
    if isinstance(value, GlobalVar):
        return f"the function {value.name_hint!r}"
    if type(value) in _WORDS:
        return _WORDS[type(value)]
    return with_article(type(value).__name__)


def as_expr(value: object, what: str = "this") -> PrimExpr:
    """Make an expression of a value; a region of a buffer becomes a vector load.

    Errors: SCR0025 for what is not a value of the program.
    """
    if isinstance(value, PrimExpr):
        return value
    if isinstance(value, (int, float, Equality)):
        return convert(value)
    if isinstance(value, BufferRegion):
        return vector_load(value)
    if isinstance(value, IterVar):
        return value.var
    if isinstance(value, str):
        return StringImm(value)
    if isinstance(value, Buffer):
        raise wrong_argument(
            value,
            f"{what} must be a value, not {describe(value)}",
            code="SCR0025",
            help=f"read an element, as in {value.name or 'A'}["
            f"{', '.join('ijklmn'[a % 6] for a in range(len(value.shape)))}]",
        )
    raise wrong_argument(
        value,
        f"{what} must be a value of the program, not {describe(value)}",
        code="SCR0025",
        help='write a name between quotes, as in ("n", 4): each call takes its value from the array'
        if value is None and what in _EXTENTS
        else "use a number, a variable, or an expression of them",
    )


_EXTENTS: Final = ("an extent", "the shape")


def as_exprs(values: Sequence[object]) -> list[PrimExpr]:
    """Make expressions; plain numbers take the dtype of the first expression among them."""
    first = next((v for v in values if isinstance(v, (PrimExpr, BufferRegion))), None)
    if first is None:
        return [as_expr(v, "an argument") for v in values]
    like = as_expr(first)
    made: list[PrimExpr] = []
    for value in values:
        if value is first:
            made.append(like)
        elif isinstance(value, (int, float)):
            made.append(match_dtypes(like, value)[1])
        else:
            made.append(as_expr(value, "an argument"))
    return made


def as_stored(value: object, dtype: DataType) -> PrimExpr:
    """Make the value that goes where ``dtype`` is kept: numbers adapt, a scalar fills a vector."""
    if isinstance(value, bool):
        made: PrimExpr = const(value, dtype) if dtype.is_bool else convert(value)
    elif isinstance(value, int):
        made = convert(value) if dtype.is_handle or dtype.is_void else const(value, dtype)
    elif isinstance(value, float):
        made = const(value, dtype) if dtype.is_float else convert(value)
    elif isinstance(value, str) and not dtype.is_handle:
        raise wrong_argument(
            value,
            f"a string is given where {dtype} is wanted",
            code="SCR0025",
            help="give a number, or an expression of the program",
        )
    else:
        made = as_expr(value, "what is stored")
    if made.dtype.lanes == 1 and dtype.lanes > 1 and made.dtype is dtype.element:
        return Broadcast(made, dtype.lanes)
    return made


def as_dtype(value: object) -> DataType:
    """Read a dtype from its name or from what names it, such as ``T.int32``."""
    if isinstance(value, DataType):
        return value
    if isinstance(value, str):
        try:
            return DataType(value)
        except CompileError as error:
            refused = ArgumentError(error.diagnostic)
            refused.culprit = value
            raise refused from error
    named = getattr(value, "dtype", None) if not isinstance(value, Node) else None
    if isinstance(named, DataType):
        return named
    within: Any = getattr(value, "function", getattr(value, "value", value))
    meant = dtype_elsewhere(within)
    help_ = 'name one, as in "float32"' if meant is None else f'write "{meant}"'
    if type(value) in (tuple, list):
        help_ = 'the shape comes before the dtype, as in (8,), "float32"'
    raise wrong_argument(value, f"a dtype is wanted, not {describe(value)}", help=help_)


def as_int(value: object, what: str) -> int:
    """Read a Python integer, or a constant."""
    if isinstance(value, IntImm):
        return value.value
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    raise wrong_argument(
        value,
        f"{what} must be a constant integer, not {describe(value)}",
        help="write a number that is known when the program is read",
    )


def as_text(value: object, what: str) -> str:
    """Read a string."""
    if isinstance(value, StringImm):
        return value.value
    if isinstance(value, str):
        return value
    raise wrong_argument(value, f"{what} must be a string, not {describe(value)}", help="quote it")


def as_buffer(value: object, what: str) -> Buffer:
    """Read a buffer."""
    if isinstance(value, Buffer):
        return value
    raise wrong_argument(
        value, f"{what} must be a buffer, not {describe(value)}", help="name a buffer"
    )


def as_items(value: object, what: str) -> list[object]:
    """Read a tuple or list; a single value stands for a list of one."""
    if isinstance(value, (tuple, list)):
        return list(cast("Sequence[object]", value))
    if isinstance(value, (PrimExpr, int, str)):
        return [value]
    raise wrong_argument(
        value, f"{what} must be a tuple, not {describe(value)}", help="write (a, b)"
    )


def as_annotations(value: object, what: str) -> dict[str, Any]:
    """Read a dict of attributes."""
    if not isinstance(value, Mapping):
        raise wrong_argument(
            value, f"{what} must be a dict, not {describe(value)}", help='write {"key": value}'
        )
    made: dict[str, Any] = {}
    for key, item in cast("Mapping[object, object]", value).items():
        made[as_text(key, f"a key of {what}")] = as_plain(item, what)
    return made


def as_plain(value: object, what: str) -> object:
    """Read data that the compiler only passes on: numbers, strings, nodes, and tuples of them."""
    if isinstance(value, (tuple, list)):
        items = [as_plain(item, what) for item in cast("Sequence[object]", value)]
        return items if isinstance(value, list) else tuple(items)
    if isinstance(value, Mapping):
        return as_annotations(cast("object", value), what)
    if value is None or isinstance(value, (bool, int, float, str, DataType, Node)):
        return value
    raise wrong_argument(
        value,
        f"{what} cannot hold {describe(value)}",
        help="use numbers, strings, tuples and dicts of them",
    )


# -- buffers -----------------------------------------------------------------------------------
def difference(stop: PrimExpr, start: PrimExpr) -> PrimExpr:
    """Return ``stop - start``, simplified where ``stop`` is written as ``start`` plus something."""
    if isinstance(start, IntImm) and start.value == 0:
        return stop
    if isinstance(start, IntImm) and isinstance(stop, IntImm):
        return IntImm(stop.value - start.value, match_dtypes(stop, start)[0].dtype)
    if isinstance(stop, Add) and _is_same(stop.a, start):
        return stop.b
    base, above = _offset(stop)
    from_base, below = _offset(start)
    if _is_same(base, from_base):
        return IntImm(above - below, stop.dtype)
    return stop - start


def _offset(expr: PrimExpr) -> tuple[PrimExpr, int]:
    if isinstance(expr, Add) and isinstance(expr.b, IntImm):
        return expr.a, expr.b.value
    if isinstance(expr, Sub) and isinstance(expr.b, IntImm):
        return expr.a, -expr.b.value
    return expr, 0


def _is_same(a: PrimExpr, b: PrimExpr) -> bool:
    return a is b or structural_equal(a, b)


_MAYBE_CONSTANT: Final = frozenset((int, bool, IntImm, Ramp))
_INSIDE: Final = Var("inside", DataType("int64"))


def check_index(buffer: Buffer, axis: int, index: object, is_last: bool = True) -> None:
    """Refuse what is no index, and a constant one outside of a constant extent (S15).

    Errors: SCR0019, SCR0025, TIR0107.
    """
    if type(index) is not int:
        expr = as_expr(index, "an index")
        if not expr.dtype.is_integer:
            raise wrong_argument(
                index,
                f"index {axis} of {buffer.called} is "
                f"{describe(index) if isinstance(index, str) else expr.dtype}",
                code="TIR0107",
                help="index with integers; T.cast converts",
            )
        if expr.dtype.lanes != 1 and not is_last:
            raise wrong_argument(
                index,
                f"index {axis} of {buffer.called} is a vector",
                code="TIR0107",
                help="only the last index may be a vector",
            )
    _check_constant_index(buffer, axis, index)


def _check_constant_index(buffer: Buffer, axis: int, index: object) -> None:
    if type(index) not in _MAYBE_CONSTANT or axis >= len(buffer.shape):
        return
    found = outside(buffer, [*[_INSIDE] * axis, as_expr(index, "an index")], None, "SCR0019")
    if found is not None:
        raise wrong_argument(
            index, code="SCR0019", message=found.message, label=found.label, help=found.help
        )


def region_of(buffer: Buffer, items: Sequence[object]) -> BufferRegion:
    """Return the region that indices and slices cover; a slice's open end is the axis's."""
    ranges: list[Range] = []
    for axis, item in enumerate(items):
        if isinstance(item, Range):
            ranges.append(item)
            continue
        if not isinstance(item, slice):
            index = as_expr(item, "an index")
            ranges.append(Range(index, IntImm(1, index.dtype.element)))
            continue
        extent = buffer.shape[axis] if axis < len(buffer.shape) else convert(0)
        begin, end = _bounds(cast("slice[Any, Any, Any]", item), extent)
        ranges.append(Range(begin, difference(end, begin)))
    return BufferRegion(buffer, tuple(ranges))


def _bounds(item: slice, extent: PrimExpr) -> tuple[PrimExpr, PrimExpr]:
    start: Any = item.start
    stop: Any = item.stop
    if start is None and stop is None:
        return IntImm(0, extent.dtype), extent
    if stop is None:
        stop = extent
    if start is None:
        start = 0
    if isinstance(start, int) and isinstance(stop, int):
        return convert(start), convert(stop)
    low = start if isinstance(start, int) else as_expr(start, "a bound of a slice")
    high = stop if isinstance(stop, int) else as_expr(stop, "a bound of a slice")
    return match_dtypes(low, high)


def vector_load(region: BufferRegion) -> BufferLoad:
    """Load a region as a vector: its last axis becomes the lanes."""
    return BufferLoad(region.buffer, vector_indices(region), span=region.span)


def vector_indices(region: BufferRegion) -> tuple[PrimExpr, ...]:
    """Return the indices that access a region as a vector.

    Errors: SCR0008 where the region is not one row of a fixed number of elements, SCR0019.
    """
    made: list[PrimExpr] = []
    last = len(region.region) - 1
    for axis, part in enumerate(region.region):
        try:
            made.append(_vector_index(region.buffer, axis, part, axis == last))
        except ArgumentError as error:
            error.culprit, error.axis = region, axis
            raise
    return tuple(made)


def _vector_index(buffer: Buffer, axis: int, part: Range, is_last: bool) -> PrimExpr:
    extent = part.extent
    if isinstance(extent, IntImm) and extent.value == 1:
        index = part.min
    elif not is_last:
        raise wrong_argument(
            part,
            f"axis {axis} of {buffer.called} is sliced in an access",
            code="SCR0008",
            help="slice the last axis only; write a loop for the others",
        )
    elif not isinstance(extent, IntImm) or extent.value not in LANES:
        raise wrong_argument(
            part,
            f"the slice of {buffer.called} is not a vector of a fixed number of lanes",
            code="SCR0008",
            help=f"write A[i:i + n] with a constant n among {', '.join(map(str, LANES))}",
        )
    else:
        index = Ramp(part.min, IntImm(1, part.min.dtype), extent.value)
    check_index(buffer, axis, index)
    return index


def index_buffer(buffer: Buffer, items: Sequence[object]) -> BufferLoad | BufferRegion:
    """Read an element; with a slice among the indices, name a region."""
    if any(isinstance(item, (slice, Range)) for item in items):
        return region_of(buffer, items)
    for axis, item in enumerate(items):
        check_index(buffer, axis, item, axis == len(items) - 1)
    return BufferLoad(buffer, tuple([as_expr(item, "an index") for item in items]))


def as_region(value: object, what: str) -> BufferRegion:
    """Read a region: a buffer stands for all of it, an element for itself."""
    if isinstance(value, BufferRegion):
        return value
    if isinstance(value, Buffer):
        return value.whole()
    if isinstance(value, BufferLoad):
        ranges: list[Range] = []
        for index in value.indices:
            if isinstance(index, Ramp):
                ranges.append(Range(index.base, IntImm(index.lanes, index.base.dtype)))
            else:
                ranges.append(Range(index, IntImm(1, index.dtype)))
        return BufferRegion(value.buffer, tuple(ranges), span=value.span)
    raise wrong_argument(
        value,
        f"{what} takes regions of buffers, not {describe(value)}",
        help="write A[i, 0:4], or a buffer's name for all of it",
    )


def as_operand(value: object) -> ExprLike:
    """Return a number as it is, anything else as an expression."""
    return value if isinstance(value, (int, float)) else as_expr(value, "an operand")
