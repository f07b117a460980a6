"""Chains of tensor expressions as people write them: operators on tensors, formulas of elements.

A few tensors are combined by elements, moved, reduced, multiplied, padded and scanned; some of what
is made on the way is a result, too. NumPy judges. Floats are whole numbers, and operators that
would make others, or such as a dtype does not hold, are not drawn: every sum is exact in any order.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from fuzz.as_python import dtype_of, float_like
from fuzz.cases import Case
from fuzz.choices import Choices, SeedChoices
from fuzz.drafts import Draft
from loomir import te
from loomir.ir.module import GlobalVar, IRModule
from loomir.te import topi

__all__ = ["VERSION", "draw"]

VERSION: Final = 1

_EXACT: Final = {"bfloat16": 2.0**8, "float16": 2.0**11, "float32": 2.0**24, "float64": 2.0**53}
_DTYPES: Final = (
    *(["float32"] * 8),
    *(["int32"] * 3),
    *("float64", "float64", "float16", "bfloat16", "int8", "uint8", "int16", "int64", "uint32"),
)
_WORK: Final = ((4, 2_000), (3, 20_000), (1, 200_000))
_TRIES: Final = 12


def draw(seed: int) -> Case:
    """Draw the case of a seed."""
    return _Tensors(SeedChoices(f"tensors {VERSION} {seed}")).case(seed)


@dataclass(eq=False)
class _Made:
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


class _Tensors:
    def __init__(self, c: Choices) -> None:
        self.c = c
        self.d = Draft(c)
        self.dtype = c.pick(_DTYPES)
        self.budget = c.weighted(_WORK)
        self.symbolic = c.weighted([(5, 0.0), (2, 0.5), (1, 1.0)])
        self.sizes: dict[int, Any] = {}
        self.inputs: list[_Made] = []
        self.pool: list[_Made] = []
        self.names = 0

    def case(self, seed: int) -> Case:
        """Draw a program and its arguments."""
        c = self.c
        rank = c.weighted([(2, 1), (5, 2), (4, 3), (4, 4)])
        shape = self.d.extents(rank, self.budget)
        self.given([max(1, n) for n in shape], self.dtype)
        for _ in range(c.weighted([(2, 1), (4, 2), (4, 3), (3, 5), (1, 8)])):
            made = self.step()
            if made is not None:
                self.pool.append(made)
        results = [m for m in self.pool if m not in self.inputs and c.chance(0.15)]
        if self.pool[-1] not in results and self.pool[-1] not in self.inputs:
            results.append(self.pool[-1])
        if not results:
            one = self.inputs[0]
            results = [_Made(topi.identity(one.tensor), one.value)]
        tensors = [m.tensor for m in (*self.inputs, *results)]
        func = te.create_prim_func(tensors)
        module = IRModule({GlobalVar("main"): func})
        arguments: list[Any] = [m.value.copy() for m in self.inputs]
        arguments += [np.full(m.shape, 55, m.value.dtype) for m in results]
        expected = tuple(m.value.copy() for m in (*self.inputs, *results))
        return Case("tensors", seed, module, "main", tuple(arguments), expected)

    # -- tensors ---------------------------------------------------------------------------------
    def given(
        self, shape: Sequence[int], dtype: str, below: int = 0, extents: Sequence[Any] = ()
    ) -> _Made:
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
        made = _Made(tensor, value)
        self.inputs.append(made)
        self.pool.append(made)
        return made

    def fixed(self, x: _Made) -> bool:
        """Whether all extents are numbers."""
        return all(str(n).isdigit() for n in x.tensor.shape)

    def made(self, tensor: Any, value: Any, dtype: str) -> _Made | None:
        """Take what an operator makes, where it is exact."""
        if float_like(dtype):
            wide = np.asarray(value, "float64")
            whole = np.isfinite(wide).all() and (wide == np.round(wide)).all()
            if not whole or (wide.size and abs(wide).max() > _EXACT[dtype]):
                return None
        return _Made(tensor(), np.asarray(value).astype(dtype_of(dtype)))

    def sums(self, value: Any, axes: Any, dtype: str) -> bool:
        """Whether sums of numbers are exact in any order."""
        if not float_like(dtype):
            return True
        most = abs(np.asarray(value, "float64")).sum(axis=axes)
        return bool(np.max(most, initial=0) <= _EXACT[dtype])

    def step(self) -> _Made | None:
        """Draw an operator."""
        c = self.c
        for _ in range(_TRIES):
            x = self.pool[-1] if c.chance(0.75) else c.pick(self.pool)
            how: Callable[[_Made], _Made | None] = c.weighted(
                [
                    (5, self.binary),
                    (4, self.unary),
                    (3, self.formula),
                    (4, self.reduction),
                    (2, self.transpose),
                    (2, self.reshape),
                    (2, self.padded),
                    (2, self.sliced),
                    (2, self.joined),
                    (2, self.moved),
                    (3, self.product),
                    (3, self.window),
                    (1, self.scanned),
                    (1, self.looked_up),
                    (1, self.converted),
                    (1, self.extreme),
                ]
            )
            with np.errstate(all="ignore"):
                found = how(x)
            if found is not None and math.prod(found.shape) <= 4 * self.budget:
                return found
        return None

    # -- by elements -----------------------------------------------------------------------------
    def beside(self, x: _Made) -> _Made:
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

    def alike(self, x: _Made) -> list[_Made]:
        """List the tensors whose shape surely is that of another."""
        shape = [str(n) for n in x.tensor.shape]
        return [
            m for m in self.pool if m.dtype == x.dtype and [str(n) for n in m.tensor.shape] == shape
        ]

    def binary(self, x: _Made) -> _Made | None:
        """Combine two tensors."""
        c = self.c
        names = ["add", "add", "subtract", "multiply", "maximum", "minimum"]
        if not float_like(x.dtype) and x.dtype != "bool":
            names += ["bitwise_and", "bitwise_xor"]
        if x.dtype == "bool":
            names = ["logical_and", "logical_or", "logical_xor"]
        name = c.pick(names)
        if c.chance(0.25) and x.dtype != "bool":
            number = c.integer(0, 3)
            other = np.asarray(number).astype(x.value.dtype)
            value = getattr(np, name)(x.value, other)
            return self.made(lambda: getattr(topi, name)(x.tensor, number), value, x.dtype)
        y = self.beside(x)
        value = getattr(np, name)(x.value, y.value)
        if c.chance(0.2):
            return self.made(
                lambda: getattr(topi, name)(y.tensor, x.tensor),
                getattr(np, name)(y.value, x.value),
                x.dtype,
            )
        return self.made(lambda: getattr(topi, name)(x.tensor, y.tensor), value, x.dtype)

    def unary(self, x: _Made) -> _Made | None:
        """Change each element."""
        c, v, dtype = self.c, x.value, x.dtype
        if dtype == "bool":
            return self.made(lambda: topi.logical_not(x.tensor), ~v, dtype)
        zero = v.dtype.type(0)
        ways: list[tuple[Callable[[], Any], Any]] = [
            (lambda: topi.relu(x.tensor), np.maximum(v, zero)),
            (lambda: topi.clip(x.tensor, 0, 6), np.clip(v, zero, v.dtype.type(6))),
            (lambda: topi.negative(x.tensor), zero - v),
            (lambda: topi.square(x.tensor), v * v),
            (lambda: topi.identity(x.tensor), v),
        ]
        if not dtype.startswith("u"):
            ways.append((lambda: topi.abs(x.tensor), abs(v)))
            ways.append(
                (
                    lambda: topi.sign(x.tensor),
                    np.sign(v.astype("float64")) if float_like(dtype) else np.sign(v),
                )
            )
        if dtype in ("float32", "float64"):
            ways.append((lambda: topi.floor(topi.multiply(x.tensor, 0.5)), np.floor(v * 0.5)))
        if not float_like(dtype):
            ways.append((lambda: topi.floor_divide(x.tensor, 3), v // v.dtype.type(3)))
            ways.append((lambda: topi.right_shift(x.tensor, 2), v >> v.dtype.type(2)))
        tensor, value = c.pick(ways)
        return self.made(tensor, value, dtype)

    def formula(self, x: _Made) -> _Made | None:
        """Write elements by a formula of their own, with neighbours."""
        c, v = self.c, x.value
        if x.dtype == "bool" or not x.shape:
            return None
        axis = c.integer(0, len(x.shape) - 1)
        size, by = x.tensor.shape[axis], c.integer(1, 2)
        if x.shape[axis] <= by:
            return None

        def near(at: Sequence[Any], place: Any) -> Any:
            return x.tensor(*at[:axis], place, *at[axis + 1 :])

        way = c.pick(["guarded", "clamped", "wrapped", "mirror", "branch"])
        index = np.arange(x.shape[axis])
        zero = te.const(0, x.dtype)
        wide: list[Any] = [None] * len(x.shape)
        wide[axis] = slice(None)
        inside = (index + by < x.shape[axis])[tuple(wide)]
        after = np.take(v, np.minimum(index + by, x.shape[axis] - 1), axis)
        if way == "guarded":
            value = v + np.where(inside, after, v.dtype.type(0))
            return self.made(
                lambda: te.compute(
                    x.tensor.shape,
                    lambda *at: (
                        x.tensor(*at)
                        + te.if_then_else(at[axis] + by < size, near(at, at[axis] + by), zero)
                    ),
                ),
                value,
                x.dtype,
            )
        if way == "clamped":
            return self.made(
                lambda: te.compute(
                    x.tensor.shape,
                    lambda *at: (
                        x.tensor(*at)
                        - near(at, te.select(at[axis] + by < size, at[axis] + by, size - 1))
                    ),
                ),
                v - after,
                x.dtype,
            )
        if way == "wrapped":
            value = np.maximum(v, np.take(v, (index + by) % x.shape[axis], axis))
            return self.made(
                lambda: te.compute(
                    x.tensor.shape,
                    lambda *at: te.select(
                        x.tensor(*at) > near(at, (at[axis] + by) % size),
                        x.tensor(*at),
                        near(at, (at[axis] + by) % size),
                    ),
                ),
                value,
                x.dtype,
            )
        if way == "mirror":
            return self.made(
                lambda: te.compute(
                    x.tensor.shape, lambda *at: x.tensor(*at) + near(at, size - 1 - at[axis])
                ),
                v + np.flip(v, axis),
                x.dtype,
            )
        odd = (index % 2 == 1)[tuple(wide)]
        value = np.where(odd, v, v.dtype.type(0) - v)
        return self.made(
            lambda: te.compute(
                x.tensor.shape,
                lambda *at: te.if_then_else(at[axis] % 2 == 1, x.tensor(*at), zero - x.tensor(*at)),
            ),
            value,
            x.dtype,
        )

    def converted(self, x: _Made) -> _Made | None:
        """Convert to another dtype."""
        dtype = self.c.pick(["float32", "int32", "int8", "float64", "float16", "uint8", "int64"])
        if dtype == x.dtype:
            return None
        if x.dtype == "bool" or not (float_like(x.dtype) and not float_like(dtype)):
            value = x.value.astype("float64") if float_like(x.dtype) else x.value
            return self.made(lambda: topi.cast(x.tensor, dtype), value.astype(dtype), dtype)
        info = np.iinfo(dtype)
        value = np.clip(x.value.astype("float64"), info.min, info.max)
        if dtype == "int64":
            value = x.value
        return self.made(lambda: topi.cast(x.tensor, dtype), value.astype(dtype), dtype)

    # -- reductions ------------------------------------------------------------------------------
    def axes(self, x: _Made) -> tuple[int, ...]:
        """Draw some axes, one at least."""
        found = tuple(at for at in range(len(x.shape)) if self.c.chance(0.5))
        return found or (self.c.integer(0, len(x.shape) - 1),)

    def reduction(self, x: _Made) -> _Made | None:
        """Reduce some axes."""
        c = self.c
        if not x.shape:
            return None
        axes, keep = self.axes(x), c.chance(0.3)
        if x.dtype == "bool":
            name = c.pick(["any", "all"])
            value = getattr(np, name)(x.value, axis=axes, keepdims=keep)
            return self.made(lambda: getattr(topi, name)(x.tensor, axes, keep), value, "bool")
        name = c.pick(["sum", "sum", "max", "min"])
        if name == "sum":
            dtype = x.dtype
            if dtype in ("int8", "uint8", "int16") and c.chance(0.7):
                dtype = "int32"
            elif dtype in ("float16", "bfloat16") and c.chance(0.5):
                dtype = "float32"
            if not self.sums(x.value, axes, dtype):
                return None
            wide = "float64" if float_like(dtype) else dtype
            value = x.value.astype(wide).sum(axis=axes, keepdims=keep, dtype=wide)
            if c.chance(0.35) and not keep:
                return self.own_sum(x, axes, value, dtype)
            return self.made(lambda: topi.sum(x.tensor, axes, keep, dtype=dtype), value, dtype)
        value = getattr(np, name)(x.value, axis=axes, keepdims=keep)
        return self.made(lambda: getattr(topi, name)(x.tensor, axes, keep), value, x.dtype)

    def own_sum(self, x: _Made, axes: Sequence[int], value: Any, dtype: str) -> _Made | None:
        """Sum up by a compute."""
        kept = [at for at in range(len(x.shape)) if at not in axes]

        def tensor() -> Any:
            extents = x.tensor.shape
            ks = {at: te.reduce_axis((0, extents[at]), name=f"k{at}") for at in axes}

            def element(*at: Any) -> Any:
                place = dict(zip(kept, at, strict=True))
                load = x.tensor(*(ks[i].var if i in ks else place[i] for i in range(len(x.shape))))
                return te.sum(load.astype(dtype), axis=list(ks.values()))

            return te.compute(tuple(extents[at] for at in kept), element)

        return self.made(tensor, value, dtype)

    def extreme(self, x: _Made) -> _Made | None:
        """Find where the greatest or the least element is."""
        c = self.c
        if not x.shape or x.dtype == "bool":
            return None
        axis, name = c.integer(0, len(x.shape) - 1), c.pick(["argmax", "argmin"])
        value = getattr(np, name)(
            x.value.astype("float64") if float_like(x.dtype) else x.value, axis=axis
        )
        return self.made(lambda: getattr(topi, name)(x.tensor, axis), value, "int64")

    def scanned(self, x: _Made) -> _Made | None:
        """Sum up what is before each element."""
        c = self.c
        if not x.shape or x.dtype == "bool":
            return None
        axis = c.integer(0, len(x.shape) - 1)
        if not self.sums(x.value, axis, x.dtype):
            return None
        back, wide = c.chance(0.3), "float64" if float_like(x.dtype) else x.dtype
        v = np.flip(x.value, axis) if back else x.value
        value = np.cumsum(v.astype(wide), axis, dtype=wide)
        value = np.flip(value, axis) if back else value
        return self.made(
            lambda: topi.cumsum(x.tensor, axis, dtype=x.dtype, reverse=back), value, x.dtype
        )

    # -- movements -------------------------------------------------------------------------------
    def transpose(self, x: _Made) -> _Made | None:
        """Turn axes."""
        order = list(range(len(x.shape)))
        order = [order.pop(self.c.integer(0, len(order) - 1)) for _ in range(len(order))]
        return self.made(lambda: topi.transpose(x.tensor, order), x.value.transpose(order), x.dtype)

    def reshape(self, x: _Made) -> _Made | None:
        """Give another shape."""
        c = self.c
        if not self.fixed(x) or not x.shape:
            return None
        way = c.pick(["flat", "join", "cut"])
        shape = list(x.shape)
        if way == "flat":
            shape = [math.prod(shape)]
        elif way == "join" and len(shape) > 1:
            at = c.integer(0, len(shape) - 2)
            shape[at : at + 2] = [shape[at] * shape[at + 1]]
        else:
            at = c.integer(0, len(shape) - 1)
            by = c.pick([n for n in range(1, min(shape[at], 32) + 1) if shape[at] % n == 0] or [1])
            shape[at : at + 1] = [shape[at] // by, by]
        return self.made(
            lambda: topi.reshape(x.tensor, tuple(shape)), x.value.reshape(shape), x.dtype
        )

    def padded(self, x: _Made) -> _Made | None:
        """Add a border."""
        widths = [(self.c.integer(0, 2), self.c.integer(0, 2)) for _ in x.shape]
        value = np.pad(x.value, widths) if widths else x.value
        return self.made(lambda: topi.pad(x.tensor, widths), value, x.dtype)

    def sliced(self, x: _Made) -> _Made | None:
        """Take a part, with steps."""
        c = self.c
        if not x.shape or not self.fixed(x):
            return None
        begin = [c.integer(0, max(0, n - 1)) // 2 for n in x.shape]
        steps = [c.weighted([(4, 1), (2, 2), (1, 3)]) for _ in x.shape]
        end = [n - c.integer(0, (n - b) // 3) for n, b in zip(x.shape, begin, strict=True)]
        spans = tuple(map(slice, begin, end, steps))
        return self.made(
            lambda: topi.strided_slice(x.tensor, begin, end, steps), x.value[spans], x.dtype
        )

    def joined(self, x: _Made) -> _Made | None:
        """Put tensors behind each other, or side by side."""
        c = self.c
        if not x.shape:
            return None
        axis = c.integer(0, len(x.shape) - 1)
        same = self.alike(x)
        some = [c.pick(same) for _ in range(c.integer(1, 2))]
        values, tensors = [m.value for m in (x, *some)], [m.tensor for m in (x, *some)]
        if c.chance(0.3):
            return self.made(lambda: topi.stack(tensors, axis), np.stack(values, axis), x.dtype)
        value = np.concatenate(values, axis)
        return self.made(lambda: topi.concatenate(tensors, axis), value, x.dtype)

    def moved(self, x: _Made) -> _Made | None:
        """Turn round, repeat, or cut in halves."""
        c, v = self.c, x.value
        if not x.shape:
            return None
        axis = c.integer(0, len(x.shape) - 1)
        way = c.pick(["flip", "roll", "repeat", "tile", "tril", "expand", "split"])
        if way == "flip":
            return self.made(lambda: topi.flip(x.tensor, axis), np.flip(v, axis), x.dtype)
        if way == "roll":
            by = c.integer(1, 3)
            return self.made(lambda: topi.roll(x.tensor, by, axis), np.roll(v, by, axis), x.dtype)
        if way == "repeat":
            return self.made(lambda: topi.repeat(x.tensor, 2, axis), np.repeat(v, 2, axis), x.dtype)
        if way == "tile":
            reps = [2 if at == axis else 1 for at in range(len(x.shape))]
            return self.made(lambda: topi.tile(x.tensor, reps), np.tile(v, reps), x.dtype)
        if way == "tril" and len(x.shape) > 1:
            k = c.integer(-2, 2)
            name = c.pick(["tril", "triu"])
            return self.made(
                lambda: getattr(topi, name)(x.tensor, k), getattr(np, name)(v, k), x.dtype
            )
        if way == "split" and self.fixed(x) and x.shape[axis] % 2 == 0:
            half = c.integer(0, 1)
            value = np.split(v, 2, axis)[half]
            return self.made(lambda: topi.split(x.tensor, 2, axis)[half], value, x.dtype)
        return self.made(lambda: topi.expand_dims(x.tensor, axis), np.expand_dims(v, axis), x.dtype)

    def looked_up(self, x: _Made) -> _Made | None:
        """Take the rows that indices name."""
        c = self.c
        if not x.shape or 0 in x.shape:
            return None
        axis = c.integer(0, len(x.shape) - 1)
        before = self.pool[:]
        shape = [c.integer(1, 9) for _ in range(c.integer(1, 2))]
        index = self.given(shape, c.pick(["int32", "int64"]), below=x.shape[axis])
        self.pool = before
        value = np.take(x.value, index.value, axis)
        return self.made(lambda: topi.take(x.tensor, index.tensor, axis), value, x.dtype)

    # -- products --------------------------------------------------------------------------------
    def product(self, x: _Made) -> _Made | None:
        """Multiply matrices."""
        c = self.c
        if len(x.shape) < 2 or x.dtype == "bool" or math.prod(x.shape) > 20_000:
            return None
        k, m = x.shape[-1], c.pick([1, 3, 8, 16, 17, 33])
        turned = c.chance(0.4)
        batch = x.shape[:-2] if c.chance(0.5) else ()
        dtype = x.dtype
        if dtype in ("int8", "uint8", "int16"):
            dtype = "int32"
        elif dtype in ("float16", "bfloat16") and c.chance(0.6):
            dtype = "float32"
        before = self.pool[:]
        depth = x.tensor.shape[-1]
        extents = [*x.tensor.shape[: len(batch)], *((m, depth) if turned else (depth, m))]
        y = self.given([*batch, *((m, k) if turned else (k, m))], x.dtype, extents=extents)
        self.pool = before
        wide = "float64" if float_like(dtype) else dtype
        a, b = x.value.astype(wide), y.value.astype(wide)
        b = np.swapaxes(b, -1, -2) if turned else b
        if float_like(dtype) and np.max(abs(a) @ abs(b), initial=0) > _EXACT[dtype]:
            self.inputs.remove(y)
            return None
        return self.made(
            lambda: topi.matmul(x.tensor, y.tensor, dtype, transpose_b=turned), a @ b, dtype
        )

    def window(self, x: _Made) -> _Made | None:
        """Slide windows over the last axes: a convolution, or a pool."""
        c = self.c
        if not 3 <= len(x.shape) <= 5 or x.dtype == "bool" or not self.fixed(x):
            return None
        rank = len(x.shape) - 2
        taps = [c.integer(1, min(3, n)) for n in x.shape[2:]]
        stride, gap = c.pick([1, 1, 2]), c.pick([1, 1, 2])
        pad = c.integer(0, min(taps) - 1) if min(taps) > 1 else 0
        reach = [gap * (t - 1) + 1 for t in taps]
        if any(n + 2 * pad < r for n, r in zip(x.shape[2:], reach, strict=True)):
            return None
        if (c.chance(0.4) and not float_like(x.dtype)) or c.chance(0.3):
            low = -np.inf if float_like(x.dtype) else np.iinfo(x.value.dtype).min
            seen = self.seen(x.value, taps, stride, gap, pad, low)
            return self.made(
                lambda: topi.max_pool(x.tensor, taps, stride, pad, gap),
                seen.max(axis=tuple(range(-rank, 0))),
                x.dtype,
            )
        dtype = "int32" if x.dtype in ("int8", "uint8", "int16") else x.dtype
        groups = c.pick([g for g in range(1, min(x.shape[1], 8) + 1) if x.shape[1] % g == 0])
        outs = groups * c.pick([1, 2, 3, 4, 8])
        before, passed = self.pool[:], len(self.inputs)
        kernel_shape = [outs, x.shape[1] // groups, *taps]
        w = self.given(kernel_shape, x.dtype, extents=kernel_shape)
        self.pool = before
        wide = "float64" if float_like(dtype) else dtype
        seen = self.seen(x.value.astype(wide), taps, stride, gap, pad, 0)

        def convolved(seen: Any, kernel: Any) -> Any:
            each = x.shape[1] // groups
            parts = [
                np.einsum(
                    seen[:, g * each : (g + 1) * each],
                    [0, 1, *range(10, 10 + 2 * rank)],
                    kernel[g * (outs // groups) : (g + 1) * (outs // groups)],
                    [2, 1, *range(10 + rank, 10 + 2 * rank)],
                    [0, 2, *range(10, 10 + rank)],
                )
                for g in range(groups)
            ]
            return np.concatenate(parts, 1)

        kernel = w.value.astype(wide)
        if float_like(dtype) and np.max(convolved(abs(seen), abs(kernel)), initial=0) > min(
            _EXACT[dtype], 2.0**24
        ):
            del self.inputs[passed:]
            return None
        return self.made(
            lambda: topi.conv(x.tensor, w.tensor, stride, pad, gap, groups, dtype=dtype),
            convolved(seen, kernel),
            dtype,
        )

    def seen(
        self, value: Any, taps: Sequence[int], stride: int, gap: int, pad: int, border: Any
    ) -> Any:
        """Give what each window sees, as axes at the end."""
        rank = len(taps)
        value = value.astype("float64") if value.dtype.kind not in "iu" else value
        wide = np.pad(value, [(0, 0), (0, 0), *[(pad, pad)] * rank], constant_values=border)
        reach = [gap * (t - 1) + 1 for t in taps]
        view = np.lib.stride_tricks.sliding_window_view(wide, reach, tuple(range(2, 2 + rank)))
        steps = (slice(None), slice(None), *[slice(None, None, stride)] * rank)
        return view[(*steps, *[slice(None, None, gap)] * rank)]
