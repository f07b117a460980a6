"""Attributes and subscripts: an explicit list of those allowed for each kind of value."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, cast

from loomir.ir.node import Node
from loomir.script.builder.arguments import as_dtype, as_expr, as_items, index_buffer
from loomir.script.builder.buffer_spec import BufferSpec
from loomir.script.builder.mistakes import mistake, wrong_argument
from loomir.script.builder.relax import refused_names as relax_names
from loomir.script.builder.tir import refused_names as tir_names
from loomir.script.builder.tir.builtin_calls import address_of, pointer_to
from loomir.script.builder.tir.scopes import LetAnnotation, buffer_store
from loomir.script.builder.tir.views import offset_of_view, view_of
from loomir.script.parser.evaluate.captured_names import (
    MISSING,
    ForeignValue,
    attribute_of,
    items_of,
    literal,
)
from loomir.script.parser.evaluate.namespaces import ModuleNames, Namespace
from loomir.script.parser.evaluate.operators import kind
from loomir.script.parser.evaluate.unknown_names import suggest_for_attribute, suggest_for_name
from loomir.script.parser.evaluate.var_table import POISON
from loomir.support.diagnostics import nearest, with_count
from loomir.support.dtype import DataType, dtype_text
from loomir.support.runtime_types import show_value
from loomir.tir.buffer import Buffer, IterVar
from loomir.tir.expr import IntImm, PrimExpr, Ramp

__all__ = ["Method", "attribute", "guess", "item"]


def _is_known_array(value: object) -> bool:
    """Whether a value is an array of NumPy or PyTorch: reading its shape runs nobody's code."""
    numpy, torch = sys.modules.get("numpy"), sys.modules.get("torch")
    known = [numpy and numpy.ndarray, torch and torch.Tensor]
    return any(type(value) is cls for cls in known)


@dataclass(frozen=True, eq=False)
class Method:
    """A method of a value of the program."""

    name: str
    call: Callable[..., object]


def guess(name: str, known: list[str], otherwise: str) -> str:
    """Suggest the nearest known name, or say something else."""
    hit = nearest(name, known)
    return f"did you mean {hit!r}?" if hit else otherwise


def _scope(buffer: Buffer) -> Method:
    def scope() -> str:
        return buffer.scope

    return Method("scope", scope)


def _elem_offset(buffer: Buffer) -> PrimExpr:
    """Return where the first element is, counted from the data."""
    if buffer.elem_offset is not None:
        return buffer.elem_offset
    found = offset_of_view(buffer)
    return IntImm(0, DataType("int32")) if found is None else found


def _vload(buffer: Buffer) -> Method:
    def vload(begin: Any, dtype: Any = None, predicate: Any = None) -> PrimExpr:
        _check_lanes(predicate)
        return as_expr(index_buffer(buffer, _vector(buffer, begin, dtype)))

    return Method("vload", vload)


def _vstore(buffer: Buffer) -> Method:
    def vstore(begin: Any, value: Any, predicate: Any = None) -> None:
        _check_lanes(predicate)
        made = as_expr(value, "the value")
        buffer_store(buffer, made, _vector(buffer, begin, made.dtype))

    return Method("vstore", vstore)


def _check_lanes(predicate: object) -> None:
    """Refuse an access of only some lanes. Errors: SCR0005."""
    if predicate is not None:
        raise wrong_argument(
            predicate,
            "a vector is read and written whole: no lane is left out",
            help="write a loop over T.vectorized(n) with `if` around the access",
        )


def _vector(buffer: Buffer, begin: object, dtype: object) -> list[Any]:
    indices = as_items(begin, "the indices")
    wanted = buffer.dtype if dtype is None else as_dtype(dtype)
    if wanted.lanes > buffer.dtype.lanes and indices:
        base = as_expr(indices[-1], "an index")
        lanes = wanted.lanes // buffer.dtype.lanes
        indices[-1] = Ramp(base, IntImm(1, base.dtype), lanes)
    return indices


def _access_ptr(buffer: Buffer) -> Method:
    def access_ptr(
        access_mask: Any,
        ptr_type: Any = "handle",
        content_lanes: Any = 1,
        offset: Any = 0,
        extent: Any = None,
    ) -> PrimExpr:
        return pointer_to(buffer, access_mask, ptr_type, content_lanes, offset, extent)

    return Method("access_ptr", access_ptr)


def _ptr_to(buffer: Buffer) -> Method:
    def ptr_to(indices: Any) -> PrimExpr:
        return address_of(as_expr(index_buffer(buffer, as_items(indices, "the indices"))))

    return Method("ptr_to", ptr_to)


def _view(buffer: Buffer) -> Method:
    def view(*shape: Any) -> Any:
        return view_of(buffer, shape)

    return Method("view", view)


def _astype(expr: PrimExpr) -> Method:
    def astype(dtype: Any) -> PrimExpr:
        return expr.astype(as_dtype(dtype))

    return Method("astype", astype)


def _field(name: str) -> Callable[[Any], object]:
    return lambda value: getattr(value, name)


_ATTRIBUTES: Final[tuple[tuple[type[Any], dict[str, Callable[[Any], object]]], ...]] = (
    (
        Buffer,
        {
            **{n: _field(n) for n in ("data", "shape", "dtype", "strides", "name")},
            "elem_offset": _elem_offset,
            "scope": _scope,
            "ty": lambda buffer: buffer,
            "access_ptr": _access_ptr,
            "ptr_to": _ptr_to,
            "view": _view,
            "vload": _vload,
            "vstore": _vstore,
        },
    ),
    (PrimExpr, {"dtype": _field("dtype"), "ty": _field("dtype"), "astype": _astype}),
    (IterVar, {"var": _field("var"), "dom": _field("dom")}),
    (DataType, {n: _field(n) for n in ("bits", "lanes", "itemsize")}),
)


def attribute(value: object, name: str) -> object:
    """Return an attribute of a value.

    Errors: SCR0004 for a name that T, I or R lacks, SCR0006, SCR0023.
    """
    if isinstance(value, Namespace):
        return _find_in_namespace(value, name)
    if isinstance(value, ModuleNames):
        return _find_in_module(value, name)
    for cls, table in _ATTRIBUTES:
        if isinstance(value, cls):
            if name in table:
                return table[name](value)
            raise mistake(
                "SCR0006",
                f"{kind(value)} has no attribute {name!r}",
                help=_suggest_for_array(value, name)
                or guess(name, list(table), f"it has {', '.join(table)}"),
            )
    if isinstance(value, ForeignValue):
        found = attribute_of(value.value, name)
        if found is not MISSING:
            return found
        raise mistake(
            "SCR0006",
            f"{value.kind} has no plain attribute {name!r}",
            help="assign the value to a name around the function, and use that name",
        )
    if name in ("struct_info", "ty") and isinstance(value, Node):
        found = getattr(value, "struct_info", None)  # of an expression of Relax
        if found is not None:
            return found
    help_ = "use the value itself"
    if isinstance(value, Node) and hasattr(value, "struct_info"):
        help_ = suggest_for_attribute(name, getattr(value, "name_hint", None) or "x")
    raise mistake("SCR0006", f"{kind(value)} has no attributes in a program", help=help_)


_OF_ARRAYS: Final = {
    "size": "write {1}",
    "ndim": "write len({0}.shape)",
    "T": "swap the indices: {0}[j, i]",
    "sum": "add the elements in a loop: for i in range({0}.shape[0]): y[0] += {0}[i]",
    "mean": "add the elements in a loop, and divide by {0}.shape[0]",
    "max": "compare the elements in a loop: y[0] = T.max(y[0], {0}[i])",
    "min": "compare the elements in a loop: y[0] = T.min(y[0], {0}[i])",
    "astype": 'convert the elements one by one: T.cast({0}[i], "float32")',
    "copy": "copy the elements in a loop: y[i] = {0}[i]",
    "fill": "assign the elements in a loop: {0}[i] = 0",
    "reshape": "write {0}.view(shape)",
    "dot": "multiply and add in loops: c[i, j] += {0}[i, k] * b[k, j]",
}
"""What to write in place of what arrays of NumPy have."""


def _suggest_for_array(value: object, name: str) -> str:
    if not isinstance(value, Buffer) or name not in _OF_ARRAYS:
        return ""
    extents = [f"{value.name}.shape[{axis}]" for axis in range(len(value.shape))]
    return _OF_ARRAYS[name].format(value.name, " * ".join(extents) or "1")


_REFUSED_NAMES: Final = {"T": tir_names.REFUSED, "R": relax_names.REFUSED}


def _find_in_namespace(space: Namespace, name: str) -> object:
    if name in space.table:
        return space.table[name]
    refused = _REFUSED_NAMES.get(space.name, {}).get(name)
    if refused is not None:
        message = f"there is no {space.name}.{name}: {refused.why}"
        raise mistake("SCR0004", message, help=refused.instead)
    raise mistake("SCR0004", f"there is no {space.name}.{name}", help=suggest_for_name(space, name))


def _find_in_module(module: ModuleNames, name: str) -> object:
    if name in module.functions:
        found = module.functions[name]
        return POISON if found is None else found
    names = list(module.functions)
    raise mistake(
        "SCR0023",
        f"the module has no function {name!r}",
        help=guess(name, names, f"its functions: {', '.join(names)}"),
    )


def item(value: object, index: object) -> object:
    """Return an element of a tuple, list, string or dict.

    Errors: SCR0008.
    """
    if isinstance(index, IntImm):
        index = index.value
    if isinstance(value, ForeignValue):
        within: Any = value.value
        if isinstance(within, tuple):  # a named tuple
            value = items_of(cast("tuple[object, ...]", within))
    if isinstance(value, (tuple, list, str, range, dict)):
        container = cast("Any", value)
        if isinstance(index, Node):
            raise mistake(
                "SCR0008",
                f"the index of {kind(container)} is known only at run time",
                help="use a constant; to index at run time, use a buffer",
            )
        try:
            found: object = container[index]
            return literal(found) if type(found) is int else found
        except (LookupError, TypeError, ValueError) as error:
            raise mistake(
                "SCR0008",
                f"{kind(container)} has no element {index!r}",
                help=f"it has {with_count(len(container), 'element')}",
            ) from error
    if isinstance(value, LetAnnotation):
        return value[index]
    if value is BufferSpec:
        raise mistake(
            "SCR0008",
            "T.Buffer is called, not indexed",
            help='write T.Buffer((8, 8), "float32")',
        )
    help_ = "index buffers, tuples and lists"
    outside: Any = value.value if isinstance(value, ForeignValue) else None
    if _is_known_array(outside):
        shape, dtype = show_value(tuple(outside.shape)), dtype_text(outside.dtype)
        help_ = f"make it a parameter, and pass it in the call: …: T.Buffer({shape}, {dtype})"
    raise mistake("SCR0008", f"{kind(value)} cannot be indexed", help=help_)
