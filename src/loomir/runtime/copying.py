"""Copy arguments whose strides do not fit, if the program was compiled to allow it."""

from __future__ import annotations

from typing import Any, Final, cast

import numpy as np

from loomir.runtime.dlpack import is_array
from loomir.runtime.function import Function
from loomir.runtime.graph.function import GraphFunction
from loomir.runtime.torch_tensor import is_torch_tensor

__all__ = ["CopyingFunction", "CopyingGraphFunction", "row_major"]

_MOST_TUPLES: Final = 100


def row_major(value: Any) -> Any:
    """Return an array or tensor in row-major order: the same object, or a copy."""
    if is_array(value):
        if value.flags.c_contiguous or _is_masked(value):
            return value
        return np.ascontiguousarray(value)
    if is_torch_tensor(value) and str(value.layout) == "torch.strided" and value.is_cpu:
        return value if value.is_contiguous() else value.contiguous()
    return value


def _is_masked(value: object) -> bool:
    return isinstance(value, np.ma.MaskedArray)


def _row_major_parts(value: Any, depth: int = 0) -> Any:
    if type(value) is not tuple or depth > _MOST_TUPLES:
        return row_major(value)
    given = cast("tuple[Any, ...]", value)
    made = tuple([_row_major_parts(part, depth + 1) for part in given])
    return given if all(a is b for a, b in zip(made, given, strict=True)) else made


class CopyingGraphFunction(GraphFunction):
    """A graph function that takes arrays of any strides; it copies those that are not row-major."""

    __slots__ = ()

    def __call__(self, /, *args: object, **kwargs: object) -> Any:
        """Copy arrays that are not row-major, and call the function."""
        named = {name: _row_major_parts(value) for name, value in kwargs.items()}
        return super().__call__(*map(_row_major_parts, args), **named)


class CopyingFunction(Function):
    """A loop-level function that takes arrays of any strides, unless it declares strides.

    Arrays that it writes are copied back.
    """

    __slots__ = ("copied",)

    copied: frozenset[str]
    """The parameters whose buffers declare no strides."""

    def __call__(self, /, *args: object, **kwargs: object) -> object:
        """Copy arrays that are not row-major, call the function, and copy written ones back."""
        written = {p.name for p in self.parameters if p.is_written}
        back: list[tuple[Any, Any]] = []

        def fit(name: str, value: Any) -> Any:
            if name not in self.copied:
                return value
            made = row_major(value)
            if made is not value and name in written:
                if is_array(value) and not value.flags.writeable:
                    return value  # the call will refuse it
                back.append((value, made))
            return made

        names = [p.name for p in self.parameters]
        listed = list(zip(names, args))
        given = [fit(name, value) for name, value in listed]
        named = {name: fit(name, value) for name, value in kwargs.items()}
        try:
            return super().__call__(*given, *args[len(listed) :], **named)
        finally:
            for original, copy in back:
                original[...] = copy
