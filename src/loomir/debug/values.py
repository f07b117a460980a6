"""Compare the values that two programs compute, and find the first that differs.

Both run in the interpreter on the same inputs. Values are matched by the names of the variables to
which they are bound, and by how often the name was bound before.
"""

from __future__ import annotations

import copy
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np

from loomir.driver import Program, as_module
from loomir.interp import interpret
from loomir.interp.relax.machine import Machine
from loomir.interp.relax.ops import operate
from loomir.ir.module import BaseFunc, GlobalVar, IRModule
from loomir.ir.op import Op
from loomir.relax.expr import Binding, Call, Function, MatchCast, Var, VarBinding
from loomir.runtime.shape import Shape
from loomir.support.argument_errors import explain_arguments
from loomir.support.diagnostics import CompileError, Diagnostic
from loomir.support.dtype import dtype_of_numpy
from loomir.support.span import Span
from loomir.tir.function import PrimFunc
from loomir.tir.signature import signature_of

__all__ = [
    "Trace",
    "ValueDifference",
    "compare_stages",
    "compare_traces",
    "entry_of",
    "trace",
    "values_after",
]

_ALLOCATE: Final = frozenset(
    {"relax.memory.alloc_tensor", "relax.vm.alloc_tensor", "relax.builtin.alloc_tensor"}
)
_TOLERANCE: Final = {8: 1e-10, 4: 1e-4, 2: 2e-2, 1: 0.3}
"""The tolerance for floats of so many bytes, as a fraction of the largest value."""


@dataclass(frozen=True, slots=True)
class ValueDifference:
    """A value that two programs compute differently.

    ``name`` is the variable, with the field of a tuple; ``index`` the element with the largest
    difference, None if shapes or dtypes differ; ``ulps`` counts representable numbers in between.
    """

    name: str
    left: Any
    right: Any
    index: tuple[int, ...] | None
    error: float
    ulps: int | None
    count: int
    span: Span | None

    def __str__(self) -> str:
        if self.index is None:
            return f"{self.name} is {self.left}, then {self.right}"
        at = f"{self.name}[{', '.join(map(str, self.index))}]"
        far = "" if self.ulps is None else f", {self.ulps:,} ulps"
        total = "" if self.count == 1 else f"; {self.count:,} elements differ"
        return f"{at} is {self.left}, then {self.right} (error {self.error:.3g}{far}){total}"


class _Value(NamedTuple):
    name: str
    value: Any
    span: Span | None


class Trace(NamedTuple):
    """The values bound in a run, in order, and the result and arguments after it."""

    bound: tuple[_Value, ...]
    left: tuple[_Value, ...]


@explain_arguments
def compare_stages(
    left: Program,
    right: Program,
    inputs: Sequence[object],
    *,
    name: str | None = None,
    tolerance: float | None = None,
) -> ValueDifference | None:
    """Run two stages of a program and find the first value that differs, or None.

    ``name`` is the function, by default ``main`` or the only one. ``tolerance`` is the tolerated
    error of floats, as a fraction of the largest value; the default allows for reordered sums.

    Errors: those of both runs; RUN0121 for a missing function.
    """
    a, b = as_module(left), as_module(right)
    name = entry_of(a, name)
    return compare_traces(trace(a, name, inputs), trace(b, name, inputs), tolerance)


def compare_traces(
    left: Trace, right: Trace, tolerance: float | None = None
) -> ValueDifference | None:
    """Find the first difference among values that both have, then among results and arguments."""
    known = dict(_number_names(right.bound))
    for key, value in _number_names(left.bound):
        other = known.get(key)
        if other is not None:
            found = _difference(value, other.value, tolerance)
            if found is not None:
                return found
    for value, other in zip(left.left, right.left, strict=True):
        found = _difference(value, other.value, tolerance)
        if found is not None:
            return found
    return None


def _number_names(values: Sequence[_Value]) -> Iterator[tuple[tuple[str, int], _Value]]:
    times: Counter[str] = Counter()
    for value in values:
        yield (value.name, times[value.name]), value
        times[value.name] += 1


def entry_of(mod: IRModule, name: str | None) -> str:
    """Return the name of the function to run: the given one, ``main``, or the only public one.

    Errors: RUN0122.
    """
    if name is not None:
        return name
    functions = {v.name_hint: f for v, f in mod.functions.items()}
    public = [
        n
        for n, f in functions.items()
        if isinstance(f, (Function, PrimFunc)) and "global_symbol" in f.attrs
    ]
    graphs = [n for n in public if isinstance(functions[n], Function)]
    names = graphs or public
    if "main" in names:
        return "main"
    if len(names) == 1:
        return names[0]
    raise CompileError(
        Diagnostic(
            "RUN0122",
            "which function is meant? there is no main",
            notes=(f"its functions are: {', '.join(names) or '(none)'}",),
            help="name it",
        )
    )


def trace(mod: IRModule, name: str, inputs: Sequence[object]) -> Trace:
    """Run a function in the interpreter on copies of the inputs, and record all bindings."""
    args = [copy.deepcopy(value) for value in inputs]
    func = mod[name]
    if isinstance(func, PrimFunc):
        returned = interpret(mod, name, *args)
        return Trace((), values_after(func, returned, args))
    assert isinstance(func, Function)
    bound: list[_Value] = []
    fresh: set[Var] = set()

    def note(var: Var, value: object, span: Span | None) -> None:
        bound.append(_Value(var.name_hint, copy.deepcopy(value), var.span or span))

    values: dict[Var, object] = {}

    def watch(binding: Binding, value: object) -> None:
        assert isinstance(binding, (VarBinding, MatchCast))
        var = binding.var
        made = binding.value if isinstance(binding, VarBinding) else None
        if isinstance(made, Call) and isinstance(made.op, GlobalVar):
            # A kernel writes to tensors that were allocated before.
            for arg in made.args:
                if isinstance(arg, Var) and arg in fresh:
                    note(arg, values[arg], binding.span)
        if var is None:
            return
        values[var] = value
        if isinstance(made, Call) and isinstance(made.op, Op) and made.op.name in _ALLOCATE:
            fresh.add(var)
        else:
            note(var, value, binding.span)

    machine = Machine(mod, operate, watch=watch)
    returned = machine.call_from_python(machine.global_value(name), args, {})
    return Trace(tuple(bound), values_after(func, returned, args))


def values_after(func: BaseFunc, returned: object, args: Sequence[object]) -> tuple[_Value, ...]:
    """List the result of a call, and its arguments, which it may have written."""
    if isinstance(func, PrimFunc):
        names = [p.name for p in signature_of(func).parameters]
    else:
        assert isinstance(func, Function)
        names = [p.name_hint for p in func.params]
    pairs = zip(names, args, strict=True)
    span = func.span
    return (_Value("the result", returned, span), *(_Value(n, a, span) for n, a in pairs))


# -- values ----------------------------------------------------------------------------------------
def _difference(left: _Value, right: object, tolerance: float | None) -> ValueDifference | None:
    stack: list[tuple[str, Any, Any]] = [(left.name, left.value, right)]
    while stack:
        name, a, b = stack.pop()
        if _is_tuple(a) and _is_tuple(b) and len(a) == len(b):
            fields = [(f"{name}[{i}]", x, y) for i, (x, y) in enumerate(zip(a, b, strict=True))]
            stack += reversed(fields)
        elif _is_numeric(a) and _is_numeric(b):
            found = _numeric(name, np.asarray(a), np.asarray(b), left.span, tolerance)
            if found is not None:
                return found
        elif not callable(a) and not _is_storage(a) and (type(a) is not type(b) or a != b):
            return ValueDifference(name, a, b, None, np.inf, None, 1, left.span)
    return None


def _is_tuple(value: object) -> bool:
    return isinstance(value, tuple) and not isinstance(value, Shape)


def _is_numeric(value: object) -> bool:
    return isinstance(value, (np.ndarray, np.generic))


def _is_storage(value: object) -> bool:
    return type(value).__module__.startswith("loomir.interp")


def _numeric(
    name: str, a: Any, b: Any, span: Span | None, tolerance: float | None
) -> ValueDifference | None:
    if a.shape != b.shape or a.dtype != b.dtype:
        before, after = (f"{x.dtype}{list(x.shape)}" for x in (a, b))
        return ValueDifference(name, before, after, None, np.inf, None, 1, span)
    dtype = dtype_of_numpy(a.dtype)
    if dtype is None or not dtype.is_float:
        wrong = a != b
        x, y = a.astype(np.float64), b.astype(np.float64)
        off = np.abs(x - y)
    else:
        x, y = a.astype(np.float64), b.astype(np.float64)
        wrong, off = _floats(x, y, _TOLERANCE[a.dtype.itemsize] if tolerance is None else tolerance)
    if not wrong.any():
        return None
    ranked = np.where(wrong, np.where(np.isnan(off), np.inf, off), -1.0)
    index = tuple(int(i) for i in np.unravel_index(int(np.argmax(ranked)), a.shape))
    error = float(off[index])
    ulps = None
    if dtype is not None and dtype.is_float and np.isfinite(x[index]) and np.isfinite(y[index]):
        ulps = abs(_rank(a[index]) - _rank(b[index]))
    return ValueDifference(name, a[index], b[index], index, error, ulps, int(wrong.sum()), span)


def _floats(x: Any, y: Any, share: float) -> tuple[Any, Any]:
    """Return which floats differ too much, and by how much; all NaNs are equal."""
    finite = np.abs(x[np.isfinite(x)])
    scale = float(finite.max()) if finite.size else 0.0
    with np.errstate(all="ignore"):
        off = np.abs(x - y)
        near = (x == y) | (off <= share * scale) | (np.isnan(x) & np.isnan(y))
    return ~near, np.where(x == y, 0.0, off)


def _rank(value: Any) -> int:
    """Return the rank of a float among those of its dtype."""
    item: Any = np.asarray(value)
    size: int = item.dtype.itemsize
    bits = int.from_bytes(item.astype(item.dtype.newbyteorder("=")).tobytes(), sys.byteorder)
    top = 1 << (size * 8 - 1)
    return top - bits if bits & top else bits
