"""Check arguments against a function's signature, and bind its variables.

Refused calls of native code are explained by the same functions, so they accept exactly what native
code accepts, and list every mistake at once. ``runtime.arguments`` classifies objects (an array, a
number) for both engines.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from loomir.interp.machine import Code, Environment
from loomir.interp.memory import Axis, Memory, Tracker, View, row_major
from loomir.interp.rational import exact_of
from loomir.interp.scope import Scope
from loomir.interp.tir.expr import compile_expr
from loomir.interp.values import Value, rounder
from loomir.ir.module import IRModule
from loomir.ir.substitution import free_definitions
from loomir.runtime.arguments import adapt, diagnose
from loomir.runtime.errors import RunOverflowError, RunTypeError, RunValueError
from loomir.runtime.parameter import Parameter as Boundary
from loomir.runtime.torch_tensor import is_torch_tensor
from loomir.runtime.view import Views, view_arguments
from loomir.support.diagnostics import (
    CompileError,
    Diagnostic,
    RunError,
    nearest,
    with_article,
    with_count,
)
from loomir.support.dtype import DataType, dtype_of_numpy
from loomir.support.span import Span
from loomir.tir.expr import Var
from loomir.tir.function import PrimFunc
from loomir.tir.signature import Field, Parameter, Signature, find_passed_vectors, signature_of

__all__ = ["Binder", "explain"]

_ABSENT: Final = object()


class Array(NamedTuple):
    """An array argument: strides count elements; its bytes are from ``low`` to ``high``.

    Only arrays in the same ``space`` can overlap. ``is_tensor``: it is a PyTorch tensor.
    """

    dtype: DataType
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    space: int
    low: int
    high: int
    view: Callable[[str, tuple[int, ...], list[Tracker] | None], View]
    is_tensor: bool = False


class _Mistakes:
    """The mistakes found in one call; the class of the first is that of the error."""

    def __init__(self) -> None:
        self.found: list[tuple[type[RunError], Diagnostic]] = []

    def add(
        self, kind: type[RunError], code: str, message: str, remedy: str, span: Span | None
    ) -> None:
        """Record a mistake."""
        label = "declared here" if span is not None else ""
        self.found.append((kind, Diagnostic(code, message, span, label, help=remedy)))

    def absorb(self, error: RunError) -> None:
        """Record the error of another check."""
        self.found += [(type(error), d) for d in error.diagnostics]

    def raise_all(self) -> None:
        """Raise one error with all mistakes, if there are any."""
        if self.found:
            raise self.found[0][0](*(d for _, d in self.found))


# -- arrays --------------------------------------------------------------------------------------
class _Bytes:
    """Memory at an address, exported to NumPy."""

    def __init__(self, address: int, size: int, writable: bool) -> None:
        self.__array_interface__: dict[str, object] = {
            "version": 3,
            "shape": (size,),
            "typestr": "|u1",
            "data": (address, not writable),
        }


def _array_of(array: Any, lanes: int) -> Array:
    """Describe a NumPy array; for a vector dtype, the last axis has the lanes."""
    item: int = array.itemsize
    shape = tuple(int(e) for e in array.shape)
    steps = tuple(int(s) // item for s in array.strides)
    if lanes > 1:
        shape, steps = shape[:-1], tuple(s // lanes for s in steps[:-1])
    element = dtype_of_numpy(array.dtype)
    assert element is not None  # `adapt` refuses others
    dtype = element.with_lanes(lanes)
    address: int = array.__array_interface__["data"][0]
    low = high = address
    if array.size:
        moves = [(e - 1) * int(s) for e, s in zip(array.shape, array.strides, strict=True)]
        low += sum(m for m in moves if m < 0)
        high += sum(m for m in moves if m > 0) + item

    def view(name: str, strides: tuple[int, ...], trackers: list[Tracker] | None) -> View:
        if not array.size:
            data = memoryview(bytearray())
        else:
            whole: Any = np.asarray(_Bytes(low, high - low, array.flags.writeable))
            data = memoryview(whole)
        axes = tuple(Axis(0, e, s, e) for e, s in zip(shape, strides, strict=True))
        return View(Memory(data, array), address - low, dtype, axes, name, trackers)

    return Array(dtype, shape, steps, 0, low, high, view)


def _array_of_view(given: View) -> Array:
    """Describe a buffer that another function passes."""
    first = last = given.pointer.offset
    if all(given.shape):
        size = given.dtype.itemsize
        moves = [(a.extent - 1) * a.stride * size for a in given.axes]
        first += sum(m for m in moves if m < 0)
        last += sum(m for m in moves if m > 0) + size

    def view(name: str, strides: tuple[int, ...], trackers: list[Tracker] | None) -> View:
        axes = tuple(
            Axis(a.low, a.high, s, a.extent) for a, s in zip(given.axes, strides, strict=True)
        )
        pointer = given.pointer
        return View(pointer.memory, pointer.offset, given.dtype, axes, name, trackers)

    return Array(given.dtype, given.shape, given.strides, id(given.memory), first, last, view)


# -- one function's arguments --------------------------------------------------------------------
class _Check(NamedTuple):
    """A number of an array that must equal an expression."""

    source: Field
    value: Code
    needs: tuple[int, ...]
    is_name: bool


class Binder:
    """Checks and binds the arguments of one function; created once, used for each call."""

    def __init__(self, func: PrimFunc, scope: Scope, module: IRModule | None = None) -> None:
        self.signature: Signature = signature_of(func, module)
        self._vectors = find_passed_vectors(func)
        self._scope = scope
        self._slots = [scope.bind(p.var) for p in self.signature.parameters]
        self._bound = [(scope.bind(b.var), b) for b in self.signature.bindings]
        self._checks: list[_Check] = []
        for requirement in self.signature.requirements:
            needs = tuple(
                scope.slot(name)
                for name in free_definitions(requirement.value)
                if isinstance(name, Var)
            )
            code = compile_expr(requirement.value, scope)
            lone = isinstance(requirement.value, Var)
            self._checks.append(_Check(requirement.source, code, needs, lone))
        self.tensors: frozenset[str] = frozenset()
        """The parameters whose arguments are PyTorch tensors; ``args`` has views of them."""
        self._buffers: list[tuple[int, int] | None] = []
        for p in self.signature.parameters:
            if p.buffer is None:
                self._buffers.append(None)
            else:
                self._buffers.append((scope.bind(p.buffer), scope.bind(p.buffer.data)))
        self._boundary = [
            Boundary(p.name, p.dtype, p.buffer is not None, p.written, p.span)
            for p in self.signature.parameters
        ]

    def from_python(
        self, args: Sequence[object], kwargs: Mapping[str, object], size: int, allow_alias: bool
    ) -> Environment:
        """Bind arguments from Python.

        Errors: RUN0001, RUN0003 to RUN0011, RUN0101 to RUN0111; all mistakes in one error. TIR0423
        for vectors, which Python cannot pass.
        """
        if self._vectors:
            raise CompileError(*self._vectors)
        given = _arrange_by_position(self.signature, args, kwargs)
        mistakes = _Mistakes()
        values = [
            self._take(p, value, mistakes) for p, value in zip(self._boundary, given, strict=True)
        ]
        if self._scope.numbers.exact:
            values = [exact_of(v) if isinstance(v, float) else v for v in values]
        return self._bind(values, size, allow_alias, mistakes)

    def from_call(self, args: Sequence[Value], size: int, allow_alias: bool) -> Environment:
        """Bind arguments from another function of the module. Errors: those of ``from_python``."""
        mistakes = _Mistakes()
        values: list[object] = []
        parameters = self.signature.parameters
        if len(args) != len(parameters):
            _wrong_count(self.signature, len(args))
        for p, given in zip(parameters, args, strict=True):
            value: object = _array_of_view(given) if isinstance(given, View) else given
            if (p.buffer is not None) != isinstance(value, Array):
                wanted = "an array" if p.buffer is not None else with_article(p.dtype)
                mistakes.add(
                    RunTypeError,
                    "RUN0002",
                    f"{p.name} must be {wanted}",
                    "pass a buffer for a buffer, and a value for a scalar",
                    p.span,
                )
                values.append(_ABSENT)
            else:
                values.append(value)
        return self._bind(values, size, allow_alias, mistakes)

    def views(self, env: Environment) -> list[View | None]:
        """Return the arrays of a call by position, None for scalars."""
        return [None if slots is None else env[slots[0]] for slots in self._buffers]

    # -- steps ---------------------------------------------------------------------------------
    def _take(self, parameter: Boundary, value: object, mistakes: _Mistakes) -> object:
        """Check one argument by itself; return an ``Array``, a scalar, or the mark of absence."""
        try:
            if parameter.is_buffer and _is_common(parameter, value):
                array: Any = value
            else:
                (adapted,) = adapt((parameter,), (value,))
                diagnose((parameter,), (value,))
                (array,) = view_arguments((parameter,), (value,), (adapted,))
        except RunError as error:
            mistakes.absorb(error)
            return _ABSENT
        if not parameter.is_buffer:
            return _scalar(parameter, array, mistakes)
        lanes = parameter.dtype.lanes
        if lanes > 1 and (array.ndim == 0 or array.shape[-1] != lanes):
            lanes = 1
        found = _array_of(array, lanes)
        is_tensor = parameter.name in self.tensors or is_torch_tensor(value)
        return found._replace(is_tensor=True) if is_tensor else found

    def _bind(
        self, values: Sequence[object], size: int, allow_alias: bool, mistakes: _Mistakes
    ) -> Environment:
        env: Environment = [_ABSENT] * size
        arrays: list[Array | None] = []
        for parameter, slot, value in zip(
            self.signature.parameters, self._slots, values, strict=True
        ):
            array = value if isinstance(value, Array) else None
            if array is not None:
                array = _check_kind(parameter, array, mistakes)
            else:
                env[slot] = value
            arrays.append(array)
        origin: dict[int, Field] = {}
        for slot, binding in self._bound:
            found = _number(arrays, binding.source)
            if found is None:
                continue
            origin[slot] = binding.source
            if binding.var.dtype.min_value <= found <= binding.var.dtype.max_value:
                env[slot] = found
            else:
                self._note_overflow(binding.var, binding.source, found, mistakes)
        self._require(arrays, env, origin, mistakes)
        self._layout(arrays, mistakes)
        if not allow_alias:
            self._overlap(arrays, mistakes)
        mistakes.raise_all()
        self._views(arrays, env)
        return env

    def _require(
        self,
        arrays: Sequence[Array | None],
        env: Environment,
        origin: Mapping[int, Field],
        mistakes: _Mistakes,
    ) -> None:
        for check in self._checks:
            found = _number(arrays, check.source)
            if found is None or any(env[slot] is _ABSENT for slot in check.needs):
                continue
            try:
                wanted = check.value.run(env)
            except RunError as error:
                mistakes.absorb(error)
                continue
            if found != wanted:
                self._differs(check, found, wanted, origin, mistakes)

    def _differs(
        self,
        check: _Check,
        found: int,
        wanted: int,
        origin: Mapping[int, Field],
        mistakes: _Mistakes,
    ) -> None:
        parameter = self.signature.parameters[check.source.parameter]
        what = self._describe(check.source)
        other = origin.get(check.needs[0]) if check.is_name else None
        if other is not None:
            message = f"{what} is {found}, but {self._describe(other)} is {wanted}"
            mistakes.add(RunValueError, "RUN0010", message, "make the two equal", parameter.span)
            return
        code = {"shape": "RUN0005", "strides": "RUN0006"}.get(check.source.what, "RUN0011")
        if check.is_name:
            code = "RUN0010"
        message = f"{what} must be {wanted}, not {found}"
        remedy = f"pass an array for {parameter.name} that fits"
        mistakes.add(RunValueError, code, message, remedy, parameter.span)

    def _describe(self, source: Field) -> str:
        name = self.signature.parameters[source.parameter].name
        if source.what == "shape":
            return f"the extent of axis {source.axis} of {name}"
        if source.what == "strides":
            return f"the stride of axis {source.axis} of {name}"
        return f"the offset of {name}"

    def _note_overflow(self, var: Var, source: Field, found: int, mistakes: _Mistakes) -> None:
        parameter = self.signature.parameters[source.parameter]
        mistakes.add(
            RunOverflowError,
            "RUN0009",
            f"{self._describe(source)} is {found}, which does not fit {var.name_hint}: "
            f"it is {var.dtype}",
            "declare the variable as T.int64",
            parameter.span,
        )

    def _layout(self, arrays: Sequence[Array | None], mistakes: _Mistakes) -> None:
        """Check that arrays for buffers without strides are row-major."""
        for parameter, array in zip(self.signature.parameters, arrays, strict=True):
            buffer = parameter.buffer
            if array is None or buffer is None or buffer.strides or not all(array.shape):
                continue
            wanted = row_major(array.shape)
            if any(
                e != 1 and s != w
                for e, s, w in zip(array.shape, array.strides, wanted, strict=True)
            ):
                name = parameter.name
                copy = f"{name}.contiguous()" if array.is_tensor else ""
                remedy = f"pass {copy or f'numpy.ascontiguousarray({name})'}"
                if parameter.written:  # results written to a copy must be copied back
                    remedy = f"pass a row-major array for {name}, and copy it to this one after"
                remedy += ", or compile with copy_arguments=True"
                mistakes.add(
                    RunValueError,
                    "RUN0006",
                    f"{name} must be row-major, with strides {wanted}, not {array.strides}",
                    remedy,
                    parameter.span,
                )

    def _overlap(self, arrays: Sequence[Array | None], mistakes: _Mistakes) -> None:
        parameters = self.signature.parameters
        for j, second in enumerate(arrays):
            for i, first in enumerate(arrays[:j]):
                if first is None or second is None or first.space != second.space:
                    continue
                if not (parameters[i].written or parameters[j].written):
                    continue
                if max(first.low, second.low) < min(first.high, second.high):
                    mistakes.add(
                        RunValueError,
                        "RUN0008",
                        f"{parameters[i].name} and {parameters[j].name} overlap in memory",
                        f"pass a copy for {parameters[j].name}, or compile with allow_alias",
                        parameters[j].span,
                    )

    def _views(self, arrays: Sequence[Array | None], env: Environment) -> None:
        for parameter, array, slots in zip(
            self.signature.parameters, arrays, self._buffers, strict=True
        ):
            if array is None or slots is None:
                continue
            strided = parameter.buffer is not None and parameter.buffer.strides
            strides = array.strides if strided else row_major(array.shape)
            view = array.view(parameter.name, strides, self._scope.trackers)
            env[slots[0]] = view
            env[slots[1]] = view.pointer


def explain(
    func: PrimFunc,
    args: Sequence[object],
    allow_alias: bool = False,
    module: IRModule | None = None,
) -> None:
    """Raise the error of a refused call; return if the arguments are valid."""
    scope = Scope()
    binder = Binder(func, scope, module)
    if isinstance(args, Views):
        binder.tensors = args.tensors
    binder.from_python(args, {}, scope.size, allow_alias)


# -- single arguments ----------------------------------------------------------------------------
def _is_common(parameter: Boundary, value: object) -> bool:
    """Tell whether this is an array that needs no further checks."""
    if type(value) is not np.ndarray or parameter.dtype.is_vector:
        return False
    array: Any = value
    if dtype_of_numpy(array.dtype) is None or (parameter.is_written and not array.flags.writeable):
        return False
    return bool(array.flags.c_contiguous) or all(s % array.itemsize == 0 for s in array.strides)


def _number(arrays: Sequence[Array | None], source: Field) -> int | None:
    array = arrays[source.parameter]
    if array is None:
        return None
    if source.what == "shape":
        return array.shape[source.axis]
    # The byte offset is added to the address before the function sees it.
    return array.strides[source.axis] if source.what == "strides" else 0


def _with_dtype(parameter: Parameter, array: Array, dtype: str) -> str:
    """Say how to convert an array to the dtype, in terms of its library."""
    name = parameter.name
    if not parameter.written:
        return (
            f"pass {name}.to(torch.{dtype})"
            if array.is_tensor
            else f"pass {name}.astype({dtype!r})"
        )
    made = f"numpy.zeros({name}.shape, {dtype!r})"
    if array.is_tensor:
        made = f"torch.zeros({name}.shape, dtype=torch.{dtype})"
    return f"the function writes it: pass an array made by {made}"


def _check_kind(parameter: Parameter, array: Array, mistakes: _Mistakes) -> Array | None:
    """Check dtype and rank; return None, which skips later checks, if the rank is wrong."""
    buffer = parameter.buffer
    assert buffer is not None
    if array.dtype is not buffer.dtype:
        mistakes.add(
            RunTypeError,
            "RUN0003",
            f"{parameter.name} must hold {buffer.dtype}, not {array.dtype}",
            _with_dtype(parameter, array, str(buffer.dtype.element)),
            parameter.span,
        )
    if len(array.shape) != len(buffer.shape):
        mistakes.add(
            RunValueError,
            "RUN0004",
            f"{parameter.name} must have {with_count(len(buffer.shape), 'axis', 'axes')}, not "
            f"{len(array.shape)}: its shape is {array.shape}",
            "reshape it",
            parameter.span,
        )
        return None
    return array


def _scalar(parameter: Boundary, value: Any, mistakes: _Mistakes) -> object:
    """Convert a Python number to a scalar of the parameter's dtype."""
    dtype = parameter.dtype

    def wrong(kind: type[RunError], why: str, remedy: str) -> object:
        message = f"{parameter.name} {why}"
        mistakes.add(kind, "RUN0009", message, remedy, parameter.span)
        return _ABSENT

    if dtype.is_handle:
        return value or 0
    if dtype.is_float:
        made = rounder(dtype)(float(value))
        if math.isinf(made) and not math.isinf(value):
            return wrong(
                RunOverflowError,
                f"is {value}, which does not fit {dtype}",
                f"pass a number up to {dtype.max_finite:g}, or an infinity if that is meant",
            )
        return made
    if isinstance(value, float):
        return wrong(
            RunTypeError,
            f"must be a whole number ({dtype}), not the float {value!r}",
            "pass int(...) if that is meant",
        )
    if not dtype.min_value <= value <= dtype.max_value:
        return wrong(
            RunOverflowError,
            f"is {value}, which does not fit {dtype}",
            f"pass a number from {dtype.min_value} to {dtype.max_value}",
        )
    return bool(value) if dtype.is_bool else int(value)


def _wrong_count(signature: Signature, count: int, missing: Sequence[str] = ()) -> None:
    verb = "was" if count == 1 else "were"
    rest = f"; missing: {', '.join(missing)}" if missing else ""
    raise RunTypeError(
        Diagnostic(
            "RUN0101",
            f"{signature.name} takes {_count(len(signature.parameters))}, "
            f"{count} {verb} given{rest}",
            notes=tuple(f"{p.name}: {p.dtype}" for p in signature.parameters),
            help="give one argument for each parameter",
        )
    )


def _count(number: int) -> str:
    return "1 argument" if number == 1 else f"{number} arguments"


def _arrange_by_position(
    signature: Signature, args: Sequence[object], kwargs: Mapping[str, object]
) -> list[object]:
    """Return all arguments by position, also those passed by name.

    Errors: RUN0101 for too few or too many, RUN0102 for an unknown or repeated name.
    """
    names = [p.name for p in signature.parameters]
    for name in kwargs:
        if name not in names:
            guess = nearest(name, names)
            message, remedy = f"has no parameter {name!r}", f"did you mean {guess!r}?"
        elif name in names[: len(args)]:
            message, remedy, guess = f"got {name!r} both by position and by name", "", None
        else:
            continue
        raise RunTypeError(
            Diagnostic(
                "RUN0102", f"{signature.name} {message}", help=remedy if guess else "pass it once"
            )
        )
    rest = names[len(args) :]
    missing = [name for name in rest if name not in kwargs]
    if len(args) > len(names) or missing:
        _wrong_count(signature, len(args) + len(kwargs), missing)
    return [*args, *(kwargs[name] for name in rest)]
