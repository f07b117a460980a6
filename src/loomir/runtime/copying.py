"""Copy arguments whose strides do not fit, if the program was compiled to allow it."""

from __future__ import annotations

from collections.abc import Container
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


class _Copies:
    """The row-major copies of a call's arguments; those that may be written are copied back."""

    def __init__(self) -> None:
        self._back: list[tuple[Any, Any]] = []

    def fit(self, value: Any, *, written: bool) -> Any:
        """Return an array in row-major order."""
        made = row_major(value)
        if made is not value and written:
            if is_array(value) and not value.flags.writeable:
                return value  # the call will refuse it
            self._back.append((value, made))
        return made

    def fit_parts(self, value: Any, *, written: bool, depth: int = 0) -> Any:
        """Return the arrays in tuples in row-major order."""
        if type(value) is not tuple or depth > _MOST_TUPLES:
            return self.fit(value, written=written)
        given = cast("tuple[Any, ...]", value)
        made = tuple([self.fit_parts(p, written=written, depth=depth + 1) for p in given])
        return given if all(a is b for a, b in zip(made, given, strict=True)) else made

    def write_back(self) -> None:
        """Copy what was written to where it belongs."""
        for original, copy in self._back:
            original[...] = copy


class CopyingGraphFunction(GraphFunction):
    """A graph function that takes arrays of any strides; it copies those that are not row-major.

    Arrays that it may write are copied back.
    """

    __slots__ = ("copied", "written")

    copied: Container[str] | None
    """The parameters whose arrays are copied; None for all of them."""
    written: Container[str]
    """The parameters whose arrays the function may write."""

    def __call__(self, /, *args: object, **kwargs: object) -> Any:
        """Copy arrays that are not row-major, call the function, and copy written ones back."""
        copies = _Copies()

        def fit(name: str, value: object) -> object:
            if self.copied is not None and name not in self.copied:
                return value
            return copies.fit_parts(value, written=name in self.written)

        given = [*map(fit, self.parameters, args), *args[len(self.parameters) :]]
        named = {name: fit(name, value) for name, value in kwargs.items()}
        try:
            return super().__call__(*given, **named)
        finally:
            copies.write_back()


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
        copies = _Copies()

        def fit(name: str, value: object) -> object:
            return copies.fit(value, written=name in written) if name in self.copied else value

        names = [p.name for p in self.parameters]
        given = [*map(fit, names, args), *args[len(names) :]]
        named = {name: fit(name, value) for name, value in kwargs.items()}
        try:
            return super().__call__(*given, **named)
        finally:
            copies.write_back()
