"""Discrete Fourier transforms along the last axis, as products with tables of cosines and sines.

A complex tensor is a real one with one more, last axis: the real and the imaginary part. A short
transform is one product of matrices. The length of a long one is split into two factors, whose
transforms follow one another (Cooley and Tukey); a long prime is a convolution with powers of a
root of unity, by transforms of a length with small factors (Bluestein).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Any, Final, Protocol

import numpy as np

from loomir import op
from loomir.relax.expr import Constant, Var
from loomir.relax.node import RelaxExpr
from loomir.support.array import Array
from loomir.te import Tensor, compute, select
from loomir.tir.expr import PrimExpr

__all__ = ["Emitter", "transform", "transform_from_half", "transform_real"]

_xp: Any = np
_LONGEST_PRODUCT: Final = 64
"""The greatest length, of complex numbers, that one product transforms."""
_LONGEST_REAL_PRODUCT: Final = 256
"""The same for real numbers or results, whose product is a half or a quarter of that."""
_LONGEST_PRIME: Final = 256
"""The greatest prime length that one product transforms."""


class Emitter(Protocol):
    """What builds the graph: the node of an importer."""

    def emit(self, expr: RelaxExpr) -> Var:
        """Bind an expression to a variable."""
        ...

    def dims_of(self, expr: RelaxExpr) -> list[Any]:
        """Return the extents of a tensor."""
        ...

    def compute(self, te_func: Callable[..., Any], *args: Any) -> Var:
        """Bind the result of a kernel that is made by a function of tensor expressions."""
        ...


def transform(
    emitter: Emitter, x: RelaxExpr, length: int, dtype: str, *, sign: int = -1, scale: float = 1.0
) -> RelaxExpr:
    """Transform complex numbers; ``sign`` is that of the exponent: -1 forward, 1 backward."""
    return _Transform(emitter, dtype, sign).apply(x, length, scale, real=False)


def transform_real(
    emitter: Emitter,
    x: RelaxExpr,
    length: int,
    dtype: str,
    *,
    onesided: bool,
    sign: int = -1,
    scale: float = 1.0,
) -> RelaxExpr:
    """Transform real numbers; ``onesided``: to the first half of the frequencies only."""
    return _Transform(emitter, dtype, sign).apply_to_real(x, length, scale, onesided)


def transform_from_half(
    emitter: Emitter, x: RelaxExpr, length: int, dtype: str, *, sign: int = 1, scale: float = 1.0
) -> RelaxExpr:
    """Transform the first half of a spectrum, of which the rest mirrors it, to real numbers."""
    return _Transform(emitter, dtype, sign).apply_to_half(x, length, scale)


class _Transform:
    """Emits the steps of a transform with one sign of the exponent."""

    def __init__(self, emitter: Emitter, dtype: str, sign: int) -> None:
        self._emitter = emitter
        self._dtype = dtype
        self._sign = sign

    # -- ways --------------------------------------------------------------------------------
    def apply(self, x: RelaxExpr, length: int, scale: float, *, real: bool) -> RelaxExpr:
        """Transform complex numbers; ``real``: to the real parts of the results."""
        limit = _LONGEST_REAL_PRODUCT if real else _LONGEST_PRODUCT
        first = 1 if length <= limit else _find_factor(length)
        if first > 1:
            return self._split(x, length, first, scale, real=real, from_real=False)
        if length > max(limit, _LONGEST_PRIME):
            return self._convolve(x, length, scale, real=real)
        return self._multiply(
            x, _make_pair_table(length, self._sign, scale, real), length, real=real
        )

    def apply_to_real(self, x: RelaxExpr, length: int, scale: float, onesided: bool) -> RelaxExpr:
        """Transform real numbers."""
        rows = length // 2 + 1 if onesided else length
        first = 1 if length <= _LONGEST_REAL_PRODUCT else _find_factor(length)
        if first > 1:
            made = self._split(x, length, first, scale, real=False, from_real=True)
        elif length > max(_LONGEST_REAL_PRODUCT, _LONGEST_PRIME):
            made = self._convolve(self._add_zeros(x), length, scale, real=False)
        else:
            table = _make_real_table(length, rows, self._sign, scale)
            front = self._front(x, 1)
            made = self._emit(op.matmul(x, self._constant(table)))
            return self._reshape(made, (*front, rows, 2))
        return made if rows == length else self._cut(made, rows)

    def apply_to_half(self, x: RelaxExpr, length: int, scale: float) -> RelaxExpr:
        """Transform the first half of a spectrum to real numbers."""
        half = length // 2 + 1
        if length <= _LONGEST_REAL_PRODUCT:
            table = _make_half_table(length, self._sign, scale)
            flat = self._reshape(x, (*self._front(x, 2), 2 * half))
            return self._emit(op.matmul(flat, self._constant(table)))
        whole = self._emitter.compute(_complete, x, length)
        return self.apply(whole, length, scale, real=True)

    # -- steps -------------------------------------------------------------------------------
    def _multiply(self, x: RelaxExpr, table: Any, length: int, *, real: bool) -> RelaxExpr:
        front = self._front(x, 2)
        flat = self._reshape(x, (*front, 2 * length))
        made = self._emit(op.matmul(flat, self._constant(table)))
        return made if real else self._reshape(made, (*front, length, 2))

    def _split(
        self, x: RelaxExpr, length: int, first: int, scale: float, *, real: bool, from_real: bool
    ) -> RelaxExpr:
        """Transform rows of ``first`` numbers, multiply, and transform the columns.

        Number j is at (j // second, j % second); frequency k becomes (k % first, k // first).
        """
        second = length // first
        front = self._front(x, 1 if from_real else 2)
        rank = len(front)
        if from_real:
            x = self._reshape(x, (*front, first, second))
            x = self._permute(x, [*range(rank), rank + 1, rank])
            x = self.apply_to_real(x, first, 1.0, False)
        else:
            x = self._reshape(x, (*front, first, second, 2))
            x = self._permute(x, [*range(rank), rank + 1, rank, rank + 2])
            x = self.apply(x, first, 1.0, real=False)
        turns = self._sign * _xp.outer(_xp.arange(second), _xp.arange(first))
        x = self._emitter.compute(_multiply_pairs, x, self._constant(_roots(turns, length)))
        x = self._permute(x, [*range(rank), rank + 1, rank, rank + 2])
        x = self.apply(x, second, scale, real=real)
        if real:
            x = self._permute(x, [*range(rank), rank + 1, rank])
            return self._reshape(x, (*front, length))
        x = self._permute(x, [*range(rank), rank + 1, rank, rank + 2])
        return self._reshape(x, (*front, length, 2))

    def _convolve(self, x: RelaxExpr, length: int, scale: float, *, real: bool) -> RelaxExpr:
        """Write jk as (j² + k² - (k - j)²) / 2: a convolution with powers of a root of unity."""
        padded = _round_up(2 * length - 1)
        squares = _xp.arange(length, dtype="int64") ** 2 % (2 * length)
        chirp = _roots(self._sign * squares, 2 * length)
        numbers = chirp[:, 0] - 1j * chirp[:, 1]
        kernel = _xp.zeros(padded, dtype="complex128")
        kernel[:length] = numbers
        kernel[padded - length + 1 :] = numbers[:0:-1]
        spectrum = _xp.fft.fft(kernel) * (scale / padded)
        x = self._emitter.compute(_multiply_pairs, x, self._constant(chirp))
        widths = [0] * (2 * len(self._emitter.dims_of(x)))
        widths[-3] = padded - length
        x = self._emit(op.nn.pad(x, widths))
        x = _Transform(self._emitter, self._dtype, -1).apply(x, padded, 1.0, real=False)
        table = _xp.stack([spectrum.real, spectrum.imag], axis=-1)
        x = self._emitter.compute(_multiply_pairs, x, self._constant(table))
        x = _Transform(self._emitter, self._dtype, 1).apply(x, padded, 1.0, real=False)
        x = self._cut(x, length)
        made = self._emitter.compute(_multiply_pairs, x, self._constant(chirp))
        if not real:
            return made
        last = len(self._emitter.dims_of(made)) - 1
        return self._emit(op.squeeze(self._emit(op.strided_slice(made, [last], [0], [1])), [last]))

    # -- shapes ------------------------------------------------------------------------------
    def _emit(self, expr: RelaxExpr) -> RelaxExpr:
        return self._emitter.emit(expr)

    def _constant(self, table: Any) -> Constant:
        return Constant(Array(_xp.ascontiguousarray(table.astype(self._dtype))))

    def _front(self, x: RelaxExpr, count: int) -> list[Any]:
        dims = self._emitter.dims_of(x)
        return dims[: len(dims) - count]

    def _reshape(self, x: RelaxExpr, dims: tuple[Any, ...]) -> RelaxExpr:
        return self._emit(op.reshape(x, dims))

    def _permute(self, x: RelaxExpr, order: list[int]) -> RelaxExpr:
        return self._emit(op.permute_dims(x, order))

    def _cut(self, x: RelaxExpr, rows: int) -> RelaxExpr:
        axis = len(self._emitter.dims_of(x)) - 2
        return self._emit(op.strided_slice(x, [axis], [0], [rows]))

    def _add_zeros(self, x: RelaxExpr) -> RelaxExpr:
        return self._emitter.compute(_make_pairs, x)


# -- kernels -------------------------------------------------------------------------------------
def _multiply_pairs(x: Tensor, table: Tensor) -> Tensor:
    """Multiply complex numbers by those of a table, which has the last axes."""

    def element(*place: PrimExpr) -> PrimExpr:
        *front, part = place
        own = front[len(front) - table.ndim + 1 :]
        a, b = x(*front, 0), x(*front, 1)
        c, d = table(*own, 0), table(*own, 1)
        return select(part == 0, a * c - b * d, a * d + b * c)

    return compute(x.shape, element, name="pair_product")


def _make_pairs(x: Tensor) -> Tensor:
    def element(*place: PrimExpr) -> PrimExpr:
        value = x(*place[:-1])
        return select(place[-1] == 0, value, value - value)

    return compute((*x.shape, 2), element, name="pairs")


def _complete(x: Tensor, length: int) -> Tensor:
    """Return a whole spectrum: what is missing is the conjugate of its mirror image."""
    half = length // 2 + 1

    def element(*place: PrimExpr) -> PrimExpr:
        *front, k, part = place
        own = k < half
        value = x(*front, select(own, k, length - k), part)
        return select(own, value, select(part == 0, value, -value))

    return compute((*x.shape[:-2], length, 2), element, name="spectrum")


# -- tables --------------------------------------------------------------------------------------
def _roots(turns: Any, length: int) -> Any:
    """Return cosines and sines of ``turns`` parts of a circle, of which it has ``length``."""
    angles = 2 * math.pi * (turns % length) / length
    return _xp.stack([_xp.cos(angles), _xp.sin(angles)], axis=-1)


@cache
def _make_real_table(length: int, rows: int, sign: int, scale: float) -> Any:
    turns = sign * _xp.outer(_xp.arange(length), _xp.arange(rows))
    return (scale * _roots(turns, length)).reshape(length, 2 * rows)


@cache
def _make_pair_table(length: int, sign: int, scale: float, real: bool) -> Any:
    """Return the matrix that transforms numbers whose parts are next to one another."""
    turns = sign * _xp.outer(_xp.arange(length), _xp.arange(length))
    roots = scale * _roots(turns, length)
    cosines, sines = roots[..., 0], roots[..., 1]
    to_real = _xp.stack([cosines, -sines], axis=1)
    if real:
        return to_real.reshape(2 * length, length)
    to_imag = _xp.stack([sines, cosines], axis=1)
    return _xp.stack([to_real, to_imag], axis=-1).reshape(2 * length, 2 * length)


@cache
def _make_half_table(length: int, sign: int, scale: float) -> Any:
    k = _xp.arange(length // 2 + 1)
    weights = scale * _xp.where((k == 0) | (2 * k == length), 1.0, 2.0)
    roots = _roots(sign * _xp.outer(k, _xp.arange(length)), length) * weights[:, None, None]
    return _xp.stack([roots[..., 0], -roots[..., 1]], axis=1).reshape(-1, length)


# -- lengths -------------------------------------------------------------------------------------
def _find_factor(length: int) -> int:
    """Return the greatest factor up to the square root; 1 of a prime."""
    return next(f for f in range(math.isqrt(length), 0, -1) if length % f == 0)


def _round_up(length: int) -> int:
    """Return a length of at least this one that is 2, 3, 5 or 7 times powers of 2."""
    return min(m << max(0, math.ceil(math.log2(length / m))) for m in (2, 3, 5, 7))
