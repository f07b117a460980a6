"""Make inputs for a program, and compare the results of engines and NumPy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import Any, NamedTuple, TypeAlias, cast

import numpy as np
import numpy.typing as npt

from loomir.cli.files.sizes import require_whole, size_of
from loomir.cli.files.user_traceback import ask
from loomir.ir.visit import pre_order
from loomir.support.diagnostics import CompileError, Diagnostic
from loomir.support.dtype import DataType, numpy_of
from loomir.tir.builtins.table import BUILTINS, AcceptedDTypes
from loomir.tir.expr import Call, Var
from loomir.tir.function import PrimFunc
from loomir.tir.signature import Parameter, Signature

__all__ = [
    "Argument",
    "Outcome",
    "choose_tolerance",
    "compare",
    "default_sizes",
    "difference",
    "inputs_for",
    "outcome",
    "random_array",
    "random_scalar",
    "uses_math",
]

Array: TypeAlias = npt.NDArray[Any]
Argument: TypeAlias = Array | int | float | bool


class Outcome(NamedTuple):
    """The results of a call: written arrays by parameter name, and the returned value."""

    arrays: dict[str, Array]
    returned: Argument | None


def default_sizes(signature: Signature, given: Mapping[str, int | float]) -> dict[str, int]:
    """Return a size for each shape variable: the given one, or 64; strides are those of arrays.

    Errors: CLI0003 for a value that is no integer.
    """
    return {
        b.var.name_hint: require_whole(b.var.name_hint, given.get(b.var.name_hint, 64))
        for b in signature.bindings
        if b.source.what == "shape"
    }


def inputs_for(
    signature: Signature, sizes: Mapping[str, int], given: Mapping[str, Argument], seed: int
) -> list[Argument]:
    """Return arguments: those given by name, and others drawn at random.

    Floats are normally distributed, integers small, and bools true with probability 1/2.
    Errors: CLI0003 if a size is negative, or an array does not fit in memory.
    """
    rng = np.random.default_rng(seed)
    env: dict[Var, int] = {
        b.var: sizes[b.var.name_hint] for b in signature.bindings if b.var.name_hint in sizes
    }
    arguments: list[Argument] = []
    for p in signature.parameters:
        if p.name in given:
            arguments.append(given[p.name])
        elif p.buffer is None:
            value = _scalar(p, sizes, rng)
            arguments.append(value)
            if not isinstance(value, float):
                env[p.var] = int(value)
        else:
            shape = [size_of(extent, env) or 0 for extent in p.buffer.shape]
            arguments.append(random_array(p.name, p.dtype, shape, rng))
    return arguments


def _scalar(p: Parameter, sizes: Mapping[str, int], rng: np.random.Generator) -> Argument:
    return sizes[p.name] if p.name in sizes else random_scalar(p.dtype, rng)


def random_scalar(dtype: DataType, rng: np.random.Generator) -> Argument:
    """Draw a number of a dtype."""
    if dtype.is_float:
        return float(np.float32(rng.standard_normal()))
    if dtype.is_bool:
        return bool(rng.integers(2))
    return int(rng.integers(1, 10))


def random_array(
    name: str, dtype: DataType, shape: Sequence[int], rng: np.random.Generator
) -> Array:
    """Draw an array of a shape and dtype. Errors: CLI0003 if it does not fit in memory."""
    kind = numpy_of(dtype)
    try:
        if dtype.is_bool:
            return rng.integers(0, 2, shape).astype(kind)
        if dtype.is_float:
            return rng.standard_normal(shape).astype(kind)
        low = 0 if dtype.is_uint else max(dtype.min_value, -100)
        return rng.integers(low, min(dtype.max_value, 100), shape, endpoint=True).astype(kind)
    except (ValueError, OverflowError, MemoryError) as error:
        raise CompileError(
            Diagnostic(
                "CLI0003",
                f"cannot make an array of shape {tuple(shape)} for {name!r}: {error}",
                help="give other sizes, as in --size n=1000",
            )
        ) from error


def outcome(signature: Signature, arguments: Sequence[Argument], returned: Any) -> Outcome:
    """Collect the arrays that a call wrote, and its returned value."""
    arrays = {
        p.name: a
        for p, a in zip(signature.parameters, arguments, strict=True)
        if p.written and isinstance(a, np.ndarray)
    }
    return Outcome(arrays, returned)


def call_reference(
    module: ModuleType, name: str, signature: Signature, arguments: Sequence[Argument]
) -> Outcome | None:
    """Call the file's NumPy reference, ``NAME_reference`` or ``reference``; None if it has none.

    It takes the arguments in order, and returns the written arrays in order, then the returned
    value.
    """
    reference = getattr(module, f"{name}_reference", None) or getattr(module, "reference", None)
    if reference is None:
        return None
    copies: list[Argument] = [np.array(a) if isinstance(a, np.ndarray) else a for a in arguments]
    made = ask(module, reference, *copies)
    listed: list[Any] = [made]
    if isinstance(made, tuple):
        listed = list(cast("tuple[Any, ...]", made))
    names = [p.name for p in signature.parameters if p.written]
    returned = listed[len(names)] if len(listed) > len(names) else None
    return Outcome({n: np.asarray(a) for n, a in zip(names, listed, strict=False)}, returned)


# The relative error allowed against NumPy, which sums in another order: about the square root of
# the number of terms, in units of the dtype's rounding, with a margin.
_TOLERANCE = {"float16": 2e-2, "bfloat16": 1e-1, "float32": 1e-4, "float64": 1e-10}
# The error between two implementations of functions such as exp, after a few more operations.
_MATH_TOLERANCE = {"float16": 2e-3, "bfloat16": 2e-2, "float32": 2e-6, "float64": 1e-14}


def choose_tolerance(dtype: DataType) -> float:
    """Return the tolerance for sums of a dtype, as a fraction of the largest; 0 for integers."""
    return _TOLERANCE.get(str(dtype), 0.0)


def compare(
    signature: Signature, got: Outcome, wanted: Outcome, *, exact: bool, math: bool = False
) -> str | None:
    """Describe where two outcomes differ; None if they agree. All NaNs are equal.

    ``exact``: bits must agree, except that functions such as exp may differ in the last places.
    """
    for p in signature.parameters:
        if not p.written:
            continue
        a, b = got.arrays[p.name], wanted.arrays[p.name]
        if a.shape != b.shape:
            return f"{p.name} has shape {a.shape}, expected {b.shape}"
        where = difference(a, b, p.dtype, exact, math)
        if where is not None:
            index = tuple(int(i) for i in where)
            return f"{p.name}[{', '.join(map(str, index))}] is {a[index]}, expected {b[index]}"
    a, b = got.returned, wanted.returned
    if (a is None) != (b is None):
        return f"returned {a}, expected {b}"
    if a is not None and signature.returns is not None:
        x: Array = np.atleast_1d(np.asarray(a))
        y: Array = np.atleast_1d(np.asarray(b))
        if difference(x, y, signature.returns, exact, math) is not None:
            return f"returned {a}, expected {b}"
    return None


def difference(
    a: Array, b: Array, dtype: DataType, exact: bool, math: bool
) -> npt.NDArray[np.intp] | None:
    """Return the index of the first element that differs, or None."""
    if not dtype.is_float:
        wrong = a != b
    else:
        x, y = a.astype(np.float64), b.astype(np.float64)
        if exact and not math:
            wrong = (x != y) | (np.signbit(x) != np.signbit(y))
        else:
            table = _MATH_TOLERANCE if exact else _TOLERANCE
            finite = np.abs(y[np.isfinite(y)])
            scale = float(finite.max()) if finite.size else 0.0
            share = table[str(dtype)]
            allowed = share * np.maximum(np.abs(y), scale * (0.1 if exact else 1.0))
            both = np.isfinite(x) & np.isfinite(y)  # no finite number is near an infinity
            near = np.abs(np.subtract(x, y, out=np.zeros_like(y), where=both)) <= allowed
            wrong = ~((near & both) | (x == y))
        wrong &= ~(np.isnan(x) & np.isnan(y))
    places = np.argwhere(wrong)
    return places[0] if len(places) else None


def uses_math(func: PrimFunc) -> bool:
    """Tell whether a function calls builtins that are not exact, such as exp."""
    exact = {"floor", "ceil", "trunc", "round", "nearbyint", "sqrt", "fma", "copysign", "fmod"}
    inexact = {
        id(row.op)
        for name, row in BUILTINS.items()
        if row.accepts in (AcceptedDTypes.FLOAT, AcceptedDTypes.FLOAT_INT32) and name not in exact
    }
    return any(isinstance(e, Call) and id(e.op) in inexact for e in pre_order(func.body))
