"""A graph under construction: its lines, its values by NumPy, and their tolerances."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np

from fuzz.choices import Choices
from fuzz.families.contractions.terms import dtype_of, exact_up_to, float_like

__all__ = ["Array", "Net", "Value", "annotated", "plus", "times"]

Array: TypeAlias = Any
SIZES: Final = (0, 1, 1, 2, 3, 4, 5, 7, 8, 12, 16, 17, 24, 32, 33)
_LOOSE: Final = {"float64": 1e-9, "float32": 2e-5, "float16": 8e-3, "bfloat16": 6e-2}
"""How far, relative to its magnitude, what a function gives may be from the reference."""


def times(*extents: str) -> str:
    """Multiply extents that are written as text."""
    known = [int(e) for e in extents if e.isdigit()]
    named = [e if e.isidentifier() else f"({e})" for e in extents if not e.isdigit()]
    number = int(np.prod(known, dtype=np.int64))
    return str(number) if not named else " * ".join([*named, *([str(number)] if known else [])])


def plus(*extents: str) -> str:
    """Add extents that are written as text."""
    known = sum(int(e) for e in extents if e.isdigit())
    named = [e for e in extents if not e.isdigit()]
    return str(known) if not named else " + ".join([*named, *([str(known)] if known else [])])


@dataclass(eq=False)
class Value:
    """A value of the graph: its name, what it is, and its extents as text."""

    name: str
    array: Array
    dims: tuple[str, ...]

    @property
    def dtype(self) -> str:
        """The dtype of its elements."""
        return str(self.array.dtype)

    @property
    def shape(self) -> tuple[int, ...]:
        """The extents of the call."""
        return tuple(self.array.shape)

    def wide(self) -> Array:
        """Convert it to where sums are exact."""
        return self.array.astype("float64" if float_like(self.dtype) else "int64")


def annotated(dims: Sequence[str], dtype: str, quoted: bool = True) -> str:
    """Write what is known of a tensor; in a parameter, names of extents are strings."""
    parts = [d if d.isdigit() or not quoted else f'"{d}"' for d in dims]
    return f'R.Tensor(({", ".join(parts)}{"," if len(parts) == 1 else ""}), "{dtype}")'


@dataclass
class Frame:
    """The lines of main, and its parameters: tensors, and scalars with their dtypes."""

    params: list[Value | tuple[str, str]]
    lines: list[str]


class Net:
    """Writes a graph line by line, and computes what each line gives."""

    def __init__(self, choices: Choices) -> None:
        self.c = choices
        self.random = np.random.default_rng(choices.integer(0, 1 << 30))
        self.sizes: dict[str, int] = {}
        self.frame = Frame([], [])
        self.weights: dict[str, Array] = {}
        """Parameters that may be bound when the graph is compiled."""
        self.constants: dict[str, Array] = {}
        """Arrays that the text names."""
        self.functions: list[str] = []
        self.inputs: list[Any] = []
        self.large = choices.chance(0.05)
        """Whether sizes are those of real models, which fill tiles and caches."""
        self.branches = False
        self.depth = 0
        self.counter = 0

    # -- values --------------------------------------------------------------------------------
    def fresh(self, stem: str) -> str:
        """Return a name that nothing has."""
        self.counter += 1
        return f"{stem}{self.counter}"

    def open_size(self, name: str, most: int = 9) -> tuple[str, int]:
        """Draw an extent that is open in the program, or is known there."""
        if name in self.sizes:
            return name, self.sizes[name]
        size = self.c.pick([s for s in SIZES if s <= most])
        size *= self.c.pick([1, 8, 13]) if self.large else 1
        if self.c.chance(0.5):
            return str(size), size
        self.sizes[name] = size
        return name, size

    def numbers(self, shape: Sequence[int], dtype: str, low: int = -3, high: int = 3) -> Array:
        """Draw whole numbers; integers of any size where they are narrow."""
        low = max(low, 0) if dtype.startswith("u") else low
        if dtype == "bool":
            return self.random.random(tuple(shape)) < 0.6
        if dtype in ("int8", "uint8") and self.c.chance(0.5):
            info = np.iinfo(dtype)
            low, high = int(info.min), int(info.max)
        return self.random.integers(low, high, tuple(shape), endpoint=True).astype(dtype_of(dtype))

    def param(
        self,
        extents: Sequence[tuple[str, int] | int],
        dtype: str,
        *,
        low: int = -3,
        high: int = 3,
        array: Array = None,
        stem: str = "x",
        weight: bool = False,
    ) -> Value:
        """Add a parameter of main."""
        pairs = [(str(e), e) if isinstance(e, int) else e for e in extents]
        made = self.numbers([n for _, n in pairs], dtype, low, high) if array is None else array
        if weight and self.c.chance(0.25):
            name = self.fresh("c")
            self.constants[name] = made
            return self.emit(f"R.const({name})", made, [d for d, _ in pairs])
        value = Value(self.fresh("w" if weight else stem), made, tuple(d for d, _ in pairs))
        self.frame.params.append(value)
        self.inputs.append(made)
        if weight:
            self.weights[value.name] = made
        return value

    def scalar(self, name: str, dtype: str, number: int) -> None:
        """Add a parameter that is a scalar."""
        self.frame.params.append((name, dtype))
        self.inputs.append(number)

    def weight(self, shape: Sequence[int], dtype: str, low: int = -2, high: int = 2) -> Value:
        """Add a parameter that a model has learnt, which may be a constant."""
        return self.param(list(shape), dtype, low=low, high=high, weight=True)

    def emit(
        self, text: str, array: Array, dims: Sequence[str] | None = None, stem: str = "v"
    ) -> Value:
        """Add a line."""
        made = np.asarray(array)
        known = tuple(str(n) for n in made.shape) if dims is None else tuple(dims)
        assert len(known) == made.ndim, f"{text}: {known} for {made.shape}"
        value = Value(self.fresh(stem), made, known)
        self.frame.lines.append(f"{value.name} = {text}")
        return value

    def const(self, number: float, dtype: str) -> str:
        """Write a scalar."""
        return f'R.const({number!r}, "{dtype}")'

    # -- exactness -----------------------------------------------------------------------------
    def is_exact(self, sums: Array, unit: float, dtype: str) -> bool:
        """Whether sums of magnitudes fit the mantissa of a dtype, in units of their last bit."""
        return not sums.size or float(np.max(sums)) / unit <= min(exact_up_to(dtype), 2.0**50)

    def summed_exactly(
        self, compute: Callable[..., Array], dtype: str, *values: Value
    ) -> Array | None:
        """Compute sums of products; None where rounding would depend on their order."""
        wide = [v.wide() for v in values]
        if float_like(dtype):
            if not all(np.isfinite(w).all() for w in wide):
                return None
            unit = float(np.prod([_unit(w) for w in wide]))
            with np.errstate(all="ignore"):
                if not self.is_exact(np.asarray(compute(*[abs(w) for w in wide])), unit, dtype):
                    return None
        with np.errstate(all="ignore"):
            return np.asarray(compute(*wide)).astype(dtype_of(dtype))

    def small(self, value: Value, most: int = 3) -> Value:
        """Bring a value back to small whole numbers, as who quantises would."""
        if not float_like(value.dtype):
            return value
        wide = value.wide()
        if not wide.size or (abs(wide).max() <= most and (wide == np.round(wide)).all()):
            return value
        clipped = self.emit(
            f"R.clip({value.name}, {-most}, {most})",
            np.clip(wide, -most, most).astype(value.array.dtype),
            value.dims,
        )
        rounded = np.round(clipped.wide()).astype(value.array.dtype)
        return self.emit(f"R.round({clipped.name})", rounded, value.dims)

    def settle(self, text: str, wide: Array, dtype: str, dims: Sequence[str]) -> Value | None:
        """Add a line whose results are rounded, where none is near the middle between two.

        ``wide`` is what it gives in float64. None where no scale does, and nothing is added.
        """
        if not np.isfinite(wide).all():
            return None
        loose = _LOOSE[dtype]
        for scale in self.scales():
            scaled = wide * scale
            near = abs(abs(scaled - np.floor(scaled)) - 0.5)
            if scaled.size and (near <= loose * (abs(scaled) + scale)).any():
                continue
            if scaled.size and abs(scaled).max() > 200:
                continue
            raw = self.emit(text, wide.astype(dtype_of(dtype)), dims)
            if scale != 1:
                number = self.const(float(scale), dtype)
                raw = self.emit(f"R.multiply({raw.name}, {number})", raw.array, dims)
            made = np.round(scaled).astype(dtype_of(dtype))
            return self.emit(f"R.round({raw.name})", made + dtype_of(dtype).type(0), dims)
        return None

    def scales(self) -> list[float]:
        """Return factors in an order of their own."""
        found = [4.0, 8.0, 2.0, 1.0, 0.5]
        start = self.c.integer(0, len(found) - 1)
        return [*found[start:], *found[:start]]

    # -- functions -----------------------------------------------------------------------------
    def kernel(self, name: str, text: str) -> str:
        """Add a function of loops, whose text has ``NAME`` for its name."""
        made = self.fresh(name)
        self.functions.append(text.replace("NAME", made))
        return made

    def names(self) -> Mapping[str, int]:
        """Return the open extents that parameters name."""
        found = {d for p in self.frame.params if isinstance(p, Value) for d in p.dims}
        return {name: size for name, size in self.sizes.items() if name in found}


def _unit(array: Array) -> float:
    """Return a power of two that all elements are multiples of."""
    found = array[array != 0]
    if array.dtype.kind != "f" or not found.size:
        return 1.0
    mantissas, exponents = np.frexp(found)
    bits = (abs(mantissas) * 2.0**53).astype(np.int64)
    lowest = np.log2((bits & -bits).astype(np.float64)) - 53 + exponents
    return float(2.0 ** lowest.min())
