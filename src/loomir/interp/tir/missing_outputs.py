"""Allocate outputs that a call omits, if the other arguments determine their sizes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from loomir.interp.scope import Scope
from loomir.interp.tir.expr import compile_expr
from loomir.ir.module import IRModule
from loomir.ir.substitution import free_definitions
from loomir.runtime.arguments import adapt, diagnose
from loomir.runtime.errors import RunMemoryError
from loomir.runtime.parameter import Parameter as Boundary
from loomir.runtime.torch_tensor import is_torch_tensor, zeros_of
from loomir.runtime.view import view_arguments
from loomir.support.diagnostics import Diagnostic
from loomir.support.dtype import numpy_of
from loomir.tir.analysis.fresh_outputs import fresh_outputs
from loomir.tir.expr import IntImm, PrimExpr, Var
from loomir.tir.function import PrimFunc
from loomir.tir.signature import Field, Parameter, signature_of

__all__ = ["CompletedCall", "OutputAllocator"]


class CompletedCall(NamedTuple):
    """All arguments of a call, and which of them it returns."""

    args: tuple[object, ...]
    outputs: tuple[object, ...]

    @property
    def result(self) -> object:
        """The result of the call: one array, or a tuple of several."""
        return self.outputs[0] if len(self.outputs) == 1 else self.outputs


class OutputAllocator:
    """The outputs of one function: the last parameters, which it writes before it reads them."""

    def __init__(self, func: PrimFunc, module: IRModule | None = None) -> None:
        self._signature = signature_of(func, module)
        fresh = {id(b.data) for b in fresh_outputs(func, module)}
        self._fresh = [
            p.buffer is not None and id(p.buffer.data) in fresh for p in self._signature.parameters
        ]

    def complete(self, args: Sequence[object], kwargs: Mapping[str, object]) -> CompletedCall | str:
        """Add the arguments that are missing, or say why that cannot be done.

        These are filled with zeros: PyTorch tensors if all other buffers are, else NumPy arrays.
        Errors: RUN0103 to RUN0111 for the given arguments, RUN0207.
        """
        parameters = self._signature.parameters
        names = [p.name for p in parameters]
        named = dict(zip(names, args)) | dict(kwargs)
        if len(named) != len(args) + len(kwargs) or not named.keys() <= set(names):
            return "give one argument for each parameter"
        given = [named[name] for name in names[: len(named)] if name in named]
        missing = parameters[len(given) :]
        if len(given) != len(named):
            return "only the last parameters can be left out"
        if self._signature.returns is not None:
            return "a function that returns a number allocates no outputs"
        for p, is_fresh in zip(missing, self._fresh[len(given) :], strict=True):
            if not is_fresh:
                return (
                    f"{p.name} can be left out only where the function surely does not read its "
                    "earlier contents"
                )
        return self._allocate(given, missing)

    def _allocate(self, given: list[object], missing: Sequence[Parameter]) -> CompletedCall | str:
        boundary = [
            Boundary(p.name, p.dtype, p.buffer is not None, p.written, p.span)
            for p in self._signature.parameters[: len(given)]
        ]
        values = view_arguments(boundary, given, _adapt(boundary, given))
        buffers = [g for p, g in zip(boundary, given, strict=True) if p.is_buffer]
        use_torch = bool(buffers) and all(map(is_torch_tensor, buffers))
        sizes = _Sizes(self._signature.parameters, values)
        for binding in self._signature.bindings:
            if binding.source.parameter < len(given):
                problem = sizes.bind(binding.var, binding.source)
                if problem:
                    return problem
        outputs: list[object] = []
        for p in missing:
            shape = sizes.shape_of(p)
            if isinstance(shape, str):
                return shape
            try:
                made = _zeros(p, shape, use_torch)
            except (MemoryError, ValueError, RuntimeError):
                raise RunMemoryError(
                    Diagnostic("RUN0207", f"there is no memory for {p.name}", help="free memory")
                ) from None
            if made is None:
                return f"PyTorch has no dtype {p.dtype}: pass {p.name}"
            outputs.append(made)
        return CompletedCall((*given, *outputs), tuple(outputs))


def _adapt(boundary: Sequence[Boundary], given: Sequence[object]) -> tuple[object, ...]:
    adapted = adapt(boundary, given)
    diagnose(boundary, given)
    return adapted


def _zeros(parameter: Parameter, shape: tuple[int, ...], use_torch: bool) -> object | None:
    if use_torch:
        return zeros_of(shape, str(parameter.dtype))
    return np.zeros(shape, numpy_of(parameter.dtype))


class _Sizes:
    """The numbers that the passed arguments bind."""

    def __init__(self, parameters: Sequence[Parameter], values: Sequence[Any]) -> None:
        self._parameters = parameters
        self._values = values
        self._scope = Scope()
        self._known: dict[int, int] = {}
        for p, value in zip(parameters, values, strict=False):
            if p.buffer is None and isinstance(value, int):
                self._known[self._scope.bind(p.var)] = int(value)

    def bind(self, var: Var, source: Field) -> str:
        """Bind a name to a number of an array; return what is wrong, or nothing."""
        p, array = self._parameters[source.parameter], self._values[source.parameter]
        assert p.buffer is not None
        rank = len(p.buffer.shape)
        if len(array.shape) != rank:
            return f"{p.name} must have {rank} axes, not {len(array.shape)}"
        if source.what == "shape":
            found = int(array.shape[source.axis])
        elif source.what == "strides":
            found = int(array.strides[source.axis]) // array.itemsize
        else:
            found = 0
        self._known[self._scope.bind(var)] = found
        return ""

    def shape_of(self, parameter: Parameter) -> tuple[int, ...] | str:
        """Return the shape of an output, or why it is unknown."""
        buffer = parameter.buffer
        assert buffer is not None
        name = parameter.name
        offset = buffer.elem_offset
        starts = offset is None or (isinstance(offset, IntImm) and offset.value == 0)
        if buffer.strides or not starts or parameter.dtype.is_vector:
            return f"{name} has a layout of its own: pass it"
        shape: list[int] = []
        for extent in buffer.shape:
            unknown = [v for v in free_definitions(extent) if not self._is_known(v)]
            if unknown:
                word = getattr(unknown[0], "name_hint", "its extent")
                return f"no other argument says what {word} is: pass {name}"
            shape.append(self._value_of(extent))
        if any(extent < 0 for extent in shape):
            return f"the shape of {name} would be {tuple(shape)}: pass other arguments"
        return tuple(shape)

    def _is_known(self, name: Any) -> bool:
        return self._scope.knows(name) and self._scope.slot(name) in self._known

    def _value_of(self, extent: PrimExpr) -> int:
        code = compile_expr(extent, self._scope)
        env: list[Any] = [None] * self._scope.size
        for slot, value in self._known.items():
            env[slot] = value
        return int(code.run(env))
