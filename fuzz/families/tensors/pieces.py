"""Building blocks of tensor-expression chains: tensors, and their elements."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from fuzz.choices import Choices
from fuzz.families.as_python import dtype_of, float_like
from fuzz.families.drafts import Draft
from loomir import te

__all__ = ["EXACT", "KnownTensor", "Pieces"]

EXACT: Final = {"bfloat16": 2.0**8, "float16": 2.0**11, "float32": 2.0**24, "float64": 2.0**53}
_DTYPES: Final = (
    *(["float32"] * 8),
    *(["int32"] * 3),
    *("float64", "float64", "float16", "bfloat16", "int8", "uint8", "int16", "int64", "uint32"),
)
_WORK: Final = ((5, 1_000), (3, 5_000), (0.2, 50_000))


@dataclass(eq=False)
class KnownTensor:
    """A tensor, and its elements."""

    tensor: Any
    value: Any

    @property
    def dtype(self) -> str:
        """Return the dtype's name."""
        name: str = self.value.dtype.name
        return name

    @property
    def shape(self) -> tuple[int, ...]:
        """Return the extents."""
        shape: tuple[int, ...] = self.value.shape
        return shape


class Pieces:
    """Draws tensors, and keeps those that there are."""

    def __init__(self, c: Choices) -> None:
        self.c = c
        self.d = Draft(c)
        self.dtype = c.pick(_DTYPES)
        self.budget = c.weighted(_WORK)
        self.symbolic = c.weighted([(5, 0.0), (2, 0.5), (1, 1.0)])
        self.sizes: dict[int, Any] = {}
        self.inputs: list[KnownTensor] = []
        self.pool: list[KnownTensor] = []
        self.names = 0

    def given(
        self, shape: Sequence[int], dtype: str, below: int = 0, extents: Sequence[Any] = ()
    ) -> KnownTensor:
        """Add a tensor that is passed; ``extents`` are those that are known to be equal."""
        self.names += 1
        extents = list(extents)
        for n in shape[len(extents) :]:
            if n not in self.sizes:
                symbolic = n > 1 and self.c.chance(self.symbolic)
                self.sizes[n] = te.var(f"n{len(self.sizes)}", "int64") if symbolic else n
            extents.append(self.sizes[n])
        random = self.d.random()
        if below:
            value = random.integers(0, below, tuple(shape)).astype(dtype)
        elif float_like(dtype):
            most = 3 if dtype in ("bfloat16", "float16") else 7
            value = random.integers(-most, most, tuple(shape), endpoint=True)
            value = value.astype(dtype_of(dtype))
        else:
            value = self.d.content(dtype, shape, self.c.pick(["any", "small"]))
        tensor = te.placeholder(tuple(extents), dtype, name=f"x{self.names}")
        made = KnownTensor(tensor, value)
        self.inputs.append(made)
        self.pool.append(made)
        return made

    def fixed(self, x: KnownTensor) -> bool:
        """Whether all extents are numbers."""
        return all(str(n).isdigit() for n in x.tensor.shape)

    def made(self, tensor: Any, value: Any, dtype: str) -> KnownTensor | None:
        """Take what an operator makes, where it is exact."""
        if float_like(dtype):
            wide = np.asarray(value, "float64")
            whole = np.isfinite(wide).all() and (wide == np.round(wide)).all()
            if not whole or (wide.size and abs(wide).max() > EXACT[dtype]):
                return None
        return KnownTensor(tensor(), np.asarray(value).astype(dtype_of(dtype)))

    def sums(self, value: Any, axes: Any, dtype: str) -> bool:
        """Whether sums of numbers are exact in any order."""
        if not float_like(dtype):
            return True
        most = abs(np.asarray(value, "float64")).sum(axis=axes)
        return bool(np.max(most, initial=0) <= EXACT[dtype])

    def beside(self, x: KnownTensor) -> KnownTensor:
        """Find, or pass, a tensor that broadcasts to another."""
        c = self.c
        if c.chance(0.6):
            return c.pick(self.alike(x))
        shape = list(zip(x.shape, x.tensor.shape, strict=True))
        if c.chance(0.5):
            shape = [n if c.chance(0.5) else (1, 1) for n in shape]
            if c.chance(0.5):
                shape = shape[c.integer(0, len(shape)) :] or [(1, 1)]
        before = self.pool[:]
        made = self.given([n for n, _ in shape], x.dtype, extents=[e for _, e in shape])
        self.pool = before
        return made

    def alike(self, x: KnownTensor) -> list[KnownTensor]:
        """List the tensors whose shape surely is that of another."""
        shape = [str(n) for n in x.tensor.shape]
        return [
            m for m in self.pool if m.dtype == x.dtype and [str(n) for n in m.tensor.shape] == shape
        ]
