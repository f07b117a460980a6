"""Convert graph values between Python and the interpreter.

A tensor may be a NumPy array, a PyTorch tensor or anything with ``__dlpack__``, and is never
copied: the caller sees in-place writes of the program. Results are PyTorch tensors if an argument
was one, else NumPy arrays. Results are writable, so constants are returned as copies.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, cast

import numpy as np

from loomir.interp.relax.values import Array, Value, compact, is_tensor, is_tuple
from loomir.ir.visit import Step, trampoline
from loomir.runtime.arguments import adapt, diagnose
from loomir.runtime.dlpack import tensor_of_array
from loomir.runtime.errors import RunTypeError, not_row_major
from loomir.runtime.parameter import Parameter
from loomir.runtime.torch_tensor import is_torch_tensor
from loomir.runtime.view import view_arguments
from loomir.support.diagnostics import Diagnostic, nearest, with_count
from loomir.support.dtype import DataType

__all__ = [
    "ConvertedArgument",
    "arrange_by_position",
    "from_packed_result",
    "from_python",
    "to_python",
]


class ConvertedArgument(NamedTuple):
    """An argument as a value; ``tensors`` maps its arrays' identities to the original tensors."""

    value: Value
    tensors: dict[int, tuple[Array, object]]


def from_python(value: object, name: str) -> ConvertedArgument:
    """Convert an argument to a value that shares its memory.

    Errors: RUN0006, RUN0105 to RUN0110.
    """
    tensors: dict[int, tuple[Array, object]] = {}
    return ConvertedArgument(
        trampoline(_from_python(value, Parameter(name, DataType("float32"), True), tensors)),
        tensors,
    )


def _from_python(
    value: Any, parameter: Parameter, tensors: dict[int, tuple[Array, object]]
) -> Step[Value]:
    if is_tuple(value):
        fields: list[Value] = []
        given = value
        for index, field in enumerate(given):
            inner = Parameter(f"{parameter.name}[{index}]", parameter.dtype, True)
            fields.append((yield _from_python(field, inner, tensors)))
        same = all(a is b for a, b in zip(fields, given, strict=True))
        return given if same else tuple(fields)
    if not _is_array(value):
        return value
    array = _array(value, parameter)
    if array is not value:
        tensors[id(array)] = array, value
    return array


def _array(value: Any, parameter: Parameter) -> Array:
    """View an array of any library as a NumPy array."""
    (adapted,) = adapt((parameter,), (value,))
    diagnose((parameter,), (value,))
    (viewed,) = view_arguments((parameter,), (value,), (adapted,))
    array: Array = cast("Any", viewed)
    if not array.flags.c_contiguous:
        raise not_row_major(parameter.name, array, is_torch_tensor(value))
    return array


def from_packed_result(value: object) -> Value:
    """Convert the result of a packed function; arrays that are not row-major are copied."""
    return trampoline(_from_packed_result(value))


def _from_packed_result(value: object) -> Step[Value]:
    if is_tuple(value):
        fields: list[Value] = []
        given = value
        for field in given:
            fields.append((yield _from_packed_result(field)))
        same = all(a is b for a, b in zip(fields, given, strict=True))
        return given if same else tuple(fields)
    if is_tensor(value):
        return value if value.flags.c_contiguous else compact(value)
    if _is_array(value) and not _is_numpy(value):
        return from_python(value, "the result").value
    return value


def _is_array(value: object) -> bool:
    """Tell whether a value is a tensor of some library; NumPy scalars are not."""
    return hasattr(value.__class__, "__dlpack__") and not isinstance(value, np.generic)


def _is_numpy(value: object) -> bool:
    return isinstance(value, np.ndarray)


def to_python(
    value: Value, taken: Sequence[ConvertedArgument], is_constant: Callable[[object], bool]
) -> Value:
    """Convert a value to the Python value that is returned."""
    known = {key: pair for t in taken for key, pair in t.tensors.items()}
    torch = any(is_torch_tensor(origin) for _, origin in known.values())
    return trampoline(_to_python(value, known, is_constant, torch, {}))


def _to_python(
    value: Value,
    known: Mapping[int, tuple[Array, object]],
    is_constant: Callable[[object], bool],
    torch: bool,
    copies: dict[int, tuple[Value, Value]],
) -> Step[Value]:
    if is_tuple(value):
        fields: list[Value] = []
        given = value
        for field in given:
            fields.append((yield _to_python(field, known, is_constant, torch, copies)))
        same = all(a is b for a, b in zip(fields, given, strict=True))
        return given if same else tuple(fields)
    if not is_tensor(value):
        return value
    if id(value) in known:
        return known[id(value)][1]
    if id(value) not in copies:
        made = np.array(value) if is_constant(value) else value
        copies[id(value)] = value, _to_torch(made) if torch else made
    return copies[id(value)][1]


def _to_torch(array: Any) -> object:
    """Return an array as a tensor of PyTorch, which has been imported."""
    torch: Any = sys.modules["torch"]
    writable: Any = array if array.flags.writeable else array.copy()
    return torch.from_dlpack(tensor_of_array(writable))


def arrange_by_position(
    function: str, names: Sequence[str], args: Sequence[object], kwargs: Mapping[str, object]
) -> list[object]:
    """Return all arguments by position, also those passed by name.

    Errors: RUN0101 for too few or too many, RUN0102 for an unknown or repeated name.
    """
    for name in kwargs:
        if name in names[len(args) :]:
            continue
        guess = nearest(name, names)
        repeated = name in names
        raise RunTypeError(
            Diagnostic(
                "RUN0102",
                f"{function} got {name!r} both by position and by name"
                if repeated
                else f"{function} has no parameter {name!r}",
                help="pass it once" if repeated or not guess else f"did you mean {guess!r}?",
            )
        )
    rest = names[len(args) :]
    missing = [name for name in rest if name not in kwargs]
    if len(args) > len(names) or missing:
        count = len(args) + len(kwargs)
        verb = "was" if count == 1 else "were"
        lacks = f"; missing: {', '.join(missing)}" if missing else ""
        raise RunTypeError(
            Diagnostic(
                "RUN0101",
                f"{function} takes {with_count(len(names), 'argument')}, {count} {verb} given"
                f"{lacks}",
                help="give one argument for each parameter",
            )
        )
    return [*args, *(kwargs[name] for name in rest)]
