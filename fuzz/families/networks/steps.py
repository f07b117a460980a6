"""Operations on tensors of any shape, between layers and at the ends of networks."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from fuzz.families.contractions.terms import dtype_of, float_like
from fuzz.families.networks.calls import Calls
from fuzz.families.networks.graph import Net, Value, plus, times

__all__ = ["Steps"]


class Steps:
    """Applies steps that fit a value."""

    def __init__(self, net: Net) -> None:
        self.net, self.c = net, net.c
        kept = [self.arithmetic, self.compared, self.masked, self.flipped]
        self.calls = Calls(net, kept)

    def run(self, x: Value, most: int = 3) -> list[Value]:
        """Apply some steps; return all that they end with."""
        done: list[Value] = []
        for _ in range(self.c.integer(0, most)):
            step = self.c.pick([*self.all(), *self.calls.all()])
            if not x.dims or not x.array.size or x.array.size > 6000 or x.dtype == "bool":
                break
            made = step(x)
            if made is None:
                continue
            done += [x] if self.c.chance(0.15) else []
            x = made
        return [*done, x]

    def all(self) -> list[Callable[[Value], Value | None]]:
        """List the steps."""
        return [
            self.arithmetic,
            self.arithmetic,
            self.compared,
            self.reduced,
            self.reduced,
            self.placed,
            self.ordered,
            self.chosen,
            self.scan,
            self.taken,
            self.gathered,
            self.sliced,
            self.parts,
            self.concatenate,
            self.transpose,
            self.flipped,
            self.repeated,
            self.padded,
            self.scattered,
            self.one_hot,
            self.converted,
            self.quantised,
            self.product,
            self.masked,
            self.viewed,
        ]

    def axis(self, x: Value) -> int:
        """Draw an axis."""
        return self.c.integer(0, len(x.dims) - 1)

    def without(self, x: Value, axes: Sequence[int], keep: bool = False) -> list[str]:
        """Return the extents without some axes, or with 1 there."""
        return [("1" if a in axes else d) for a, d in enumerate(x.dims) if keep or a not in axes]

    def number(self, x: Value, low: int = 1, high: int = 5) -> int:
        """Draw a number that an element can be."""
        return self.c.integer(max(low, 0) if x.dtype.startswith("u") else low, high)

    # -- elements ------------------------------------------------------------------------------
    def arithmetic(self, x: Value) -> Value | None:
        """Combine with a number, with itself, or with a tensor that broadcasts."""
        c, net = self.c, self.net
        name, function = c.pick(
            [
                ("add", np.add),
                ("subtract", np.subtract),
                ("multiply", np.multiply),
                ("maximum", np.maximum),
                ("minimum", np.minimum),
            ]
        )
        if c.chance(0.4):
            number = self.number(x)
            with np.errstate(all="ignore"):
                made = function(x.array, x.array.dtype.type(number)).astype(x.array.dtype)
            return net.emit(f"R.{name}({x.name}, {net.const(number, x.dtype)})", made, x.dims)
        other = x
        if c.chance(0.7):
            keep = [a for a in range(len(x.dims)) if c.chance(0.6)]
            pairs = [
                (d, n) if a in keep else ("1", 1) for a, (d, n) in enumerate(zip(x.dims, x.shape))
            ]
            if all(d.isdigit() or d.isidentifier() for d, _ in pairs):
                other = net.param(pairs, x.dtype)
        with np.errstate(all="ignore"):
            made = function(x.array, other.array).astype(x.array.dtype)
        names = [x.name, other.name]
        return net.emit(f"R.{name}({', '.join(names)})", made, x.dims)

    def compared(self, x: Value) -> Value:
        """Choose by a comparison."""
        net = self.net
        number = x.array.dtype.type(self.number(x, 0, 2))
        name, function = self.c.pick(
            [("greater", np.greater), ("less_equal", np.less_equal), ("equal", np.equal)]
        )
        chosen = function(x.array, number)
        test = net.emit(f"R.{name}({x.name}, {net.const(number.item(), x.dtype)})", chosen, x.dims)
        with np.errstate(all="ignore"):
            other = (x.array + x.array).astype(x.array.dtype)
        twice = net.emit(f"R.add({x.name}, {x.name})", other, x.dims)
        return net.emit(
            f"R.where({test.name}, {x.name}, {twice.name})",
            np.where(chosen, x.array, other),
            x.dims,
        )

    def masked(self, x: Value) -> Value:
        """Replace what a mask names."""
        net = self.net
        mask = net.emit(f"R.less({x.name}, {net.const(1, x.dtype)})", x.array < 1, x.dims)
        made = np.where(mask.array, x.array.dtype.type(7), x.array)
        return net.emit(f"R.masked_fill({x.name}, {mask.name}, 7)", made, x.dims)

    def converted(self, x: Value) -> Value | None:
        """Convert the elements."""
        dtype = self.c.pick(["int8", "int32", "int64", "float32", "float64", "float16", "bfloat16"])
        wide = x.wide()
        if float_like(x.dtype) and not float_like(dtype) and (abs(wide) > 120).any():
            return None
        if float_like(x.dtype):
            made = (np.trunc(wide) if "int" in dtype else wide).astype(dtype_of(dtype))
        else:
            made = x.array.astype("float64" if "float" in dtype else dtype).astype(dtype_of(dtype))
            if "float" in dtype and (abs(wide) > 120).any():
                return None
        return self.net.emit(f'R.astype({x.name}, "{dtype}")', made, x.dims)

    def quantised(self, x: Value) -> Value | None:
        """Quantise floats and back."""
        net, dtype = self.net, self.c.pick(["int8", "uint8"])
        if x.dtype != "float32" or not np.isfinite(x.wide()).all():
            return None
        scale, zero = self.c.pick([0.5, 1.0, 2.0]), self.c.integer(0, 3)
        info = np.iinfo(dtype)
        made = np.clip(np.round(x.wide() / scale) + zero, info.min, info.max).astype(dtype)
        pair = f"{net.const(scale, 'float32')}, {net.const(zero, dtype)}"
        q = net.emit(f'R.quantize({x.name}, {pair}, out_dtype="{dtype}")', made, x.dims)
        if self.c.chance(0.4):
            return q
        back = ((made.astype("int64") - zero) * scale).astype("float32")
        return net.emit(f"R.dequantize({q.name}, {pair})", back, x.dims)

    # -- along axes ----------------------------------------------------------------------------
    def reduced(self, x: Value) -> Value | None:
        """Reduce some axes."""
        c, net = self.c, self.net
        axes = sorted({self.axis(x) for _ in range(c.integer(1, 2))})
        keep = c.chance(0.4)
        name = c.pick(["sum", "max", "min", "mean"])
        options = f"axis={axes}, keepdims={keep}"
        dims = self.without(x, axes, keep)
        if name in ("max", "min"):
            function = np.max if name == "max" else np.min
            made = function(x.array, tuple(axes), keepdims=keep)
            return net.emit(f"R.{name}({x.name}, {options})", made, dims)
        x = net.small(x)
        sums = net.summed_exactly(lambda a: a.sum(tuple(axes), keepdims=keep), x.dtype, x)
        if sums is None:
            return None
        if name == "sum":
            return net.emit(f"R.sum({x.name}, {options})", sums, dims)
        if not float_like(x.dtype):
            return None
        wide = x.wide().mean(tuple(axes), keepdims=keep)
        return net.settle(f"R.mean({x.name}, {options})", wide, x.dtype, dims)

    def placed(self, x: Value) -> Value:
        """Find the place of the greatest or the least."""
        axis, name = self.axis(x), self.c.pick(["argmax", "argmin"])
        wide = x.wide()
        made = (wide.argmax(axis) if name == "argmax" else wide.argmin(axis)).astype("int64")
        return self.net.emit(f"R.{name}({x.name}, axis={axis})", made, self.without(x, [axis]))

    def ordered(self, x: Value) -> Value:
        """Sort along an axis, or give the places that would."""
        net, axis, down = self.net, self.axis(x), self.c.chance(0.5)
        wide = -x.wide() if down else x.wide()
        places = np.argsort(wide, axis, kind="stable")
        if self.c.chance(0.4):
            text = f'R.argsort({x.name}, axis={axis}, descending={down}, dtype="int64")'
            return net.emit(text, places.astype("int64"), x.dims)
        made = np.take_along_axis(x.array, places, axis)
        return net.emit(f"R.sort({x.name}, axis={axis}, descending={down})", made, x.dims)

    def chosen(self, x: Value) -> Value | None:
        """Return the greatest elements along an axis, or the least."""
        net, axis, largest = self.net, self.axis(x), self.c.chance(0.6)
        if not x.dims[axis].isdigit():
            return None
        k = self.c.integer(1, x.shape[axis])
        wide = -x.wide() if largest else x.wide()
        places = np.take(np.argsort(wide, axis, kind="stable"), range(k), axis)
        name = net.fresh("t")
        net.frame.lines.append(f"{name} = R.topk({x.name}, {k}, axis={axis}, largest={largest})")
        dims = [str(k) if a == axis else d for a, d in enumerate(x.dims)]
        if self.c.chance(0.4):
            return net.emit(f"{name}[1]", places.astype("int32"), dims)
        return net.emit(f"{name}[0]", np.take_along_axis(x.array, places, axis), dims)

    def scan(self, x: Value) -> Value | None:
        """Sum or multiply up to each element; products may meet infinity and zero."""
        net, axis, exclusive = self.net, self.axis(x), self.c.chance(0.3)
        if x.dtype[-2:] == "16":
            return None
        name, function = self.c.pick([("cumsum", np.cumsum), ("cumprod", np.cumprod)])
        if name == "cumsum" and float_like(x.dtype):
            x = net.small(x)
        with np.errstate(all="ignore"):
            made = function(x.array, axis, dtype=x.array.dtype)
        if exclusive:
            first = np.full_like(np.take(made, [0], axis), name == "cumprod")
            made = np.concatenate([first, np.take(made, range(made.shape[axis] - 1), axis)], axis)
        return net.emit(f"R.{name}({x.name}, axis={axis}, exclusive={exclusive})", made, x.dims)

    # -- places --------------------------------------------------------------------------------
    def taken(self, x: Value) -> Value:
        """Take what stands at places along an axis."""
        net, axis = self.net, self.axis(x)
        extent = x.shape[axis]
        mode = self.c.pick(["fast", "wrap", "clip"])
        low, high = (-extent, extent - 1) if mode == "fast" else (-2 * extent, 2 * extent)
        count = self.c.integer(1, 5)
        index = net.param([count], self.c.pick(["int32", "int64"]), low=low, high=high, stem="i")
        places = index.array.astype("int64")
        places = np.clip(places, 0, extent - 1) if mode == "clip" else places % extent
        dims = [str(count) if a == axis else d for a, d in enumerate(x.dims)]
        text = f'R.take({x.name}, {index.name}, axis={axis}, mode="{mode}")'
        return net.emit(text, np.take(x.array, places, axis), dims)

    def gathered(self, x: Value) -> Value | None:
        """Take one element for each place along an axis."""
        net, axis = self.net, self.axis(x)
        if not all(d.isdigit() for d in x.dims):
            return None
        shape = [
            self.c.integer(1, n) if a != axis else self.c.integer(1, 6)
            for a, n in enumerate(x.shape)
        ]
        extent = x.shape[axis]
        index = net.param(shape, "int64", low=-extent, high=extent - 1, stem="i")
        part = x.array[tuple(slice(None) if a == axis else slice(n) for a, n in enumerate(shape))]
        made = np.take_along_axis(part, index.array % extent, axis)
        return net.emit(f"R.gather_elements({x.name}, {index.name}, axis={axis})", made)

    def scattered(self, x: Value) -> Value | None:
        """Write updates at places along an axis."""
        net, axis = self.net, self.axis(x)
        if not all(d.isdigit() for d in x.dims) or x.array.size > 2000:
            return None
        shape = [self.c.integer(1, min(n, 4)) for n in x.shape]
        extent = x.shape[axis]
        index = net.param(shape, "int64", low=-extent, high=extent - 1, stem="i")
        updates = net.param(shape, x.dtype)
        mode = self.c.pick(["update", "add", "max"])
        made = x.array.copy()
        for place in np.ndindex(*shape):
            at = tuple(
                int(index.array[place]) % extent if a == axis else n for a, n in enumerate(place)
            )
            new = updates.array[place]
            with np.errstate(all="ignore"):
                made[at] = (
                    new
                    if mode == "update"
                    else made[at] + new
                    if mode == "add"
                    else max(made[at], new)
                )
        names = f"{x.name}, {index.name}, {updates.name}"
        text = f'R.scatter_elements({names}, axis={axis}, reduction="{mode}")'
        return net.emit(text, made)

    def one_hot(self, x: Value) -> Value | None:
        """Write ones at given indices."""
        net = self.net
        if float_like(x.dtype) or x.dtype.startswith("u") or x.array.size > 500:
            return None
        depth = self.c.integer(1, 6)
        wide = x.wide()
        places = np.where(wide < 0, wide + depth, wide)
        made = (places[..., None] == np.arange(depth)).astype("float32")
        pair = "R.prim_value(T.float32(1)), R.prim_value(T.float32(0))"
        return net.emit(f"R.one_hot({x.name}, {pair}, {depth})", made, [*x.dims, str(depth)])

    # -- layout --------------------------------------------------------------------------------
    def sliced(self, x: Value) -> Value:
        """Take a slice, forwards or backwards."""
        net, axis = self.net, self.axis(x)
        extent = x.shape[axis]
        if not x.dims[axis].isdigit():
            made = np.take(x.array, range(1), axis)
            dims = ["1" if a == axis else d for a, d in enumerate(x.dims)]
            return net.emit(
                f"R.strided_slice({x.name}, axes=[{axis}], begin=[0], end=[1])", made, dims
            )
        begin, end = sorted(self.c.integer(0, extent) for _ in range(2))
        end, step = max(end, begin + 1), self.c.pick([1, 1, 2, 3])
        part: slice = slice(begin, end, step)
        if self.c.chance(0.3):
            begin, end, step = extent - 1, -extent - 1, -step
            part = slice(None, None, step)
        made = x.array[(*[slice(None)] * axis, part)]
        places = f"axes=[{axis}], begin=[{begin}], end=[{end}], strides=[{step}]"
        text = f"R.strided_slice({x.name}, {places})"
        dims = [str(made.shape[axis]) if a == axis else d for a, d in enumerate(x.dims)]
        return net.emit(text, made, dims)

    def parts(self, x: Value) -> Value | None:
        """Split, and join the parts in another order."""
        net, axis = self.net, self.axis(x)
        extent = x.shape[axis]
        counts = [k for k in (2, 3, 4) if extent % k == 0]
        if not x.dims[axis].isdigit() or not counts:
            return None
        count = self.c.pick(counts)
        name = net.fresh("s")
        net.frame.lines.append(f"{name} = R.split({x.name}, {count}, axis={axis})")
        found = np.split(x.array, count, axis)
        dims = [str(extent // count) if a == axis else d for a, d in enumerate(x.dims)]
        if self.c.chance(0.3):
            return net.emit(f"{name}[{count - 1}]", found[-1], dims)
        if self.c.chance(0.4):
            with np.errstate(all="ignore"):
                made = (found[0] * found[1]).astype(x.array.dtype)
            return net.emit(f"R.multiply({name}[0], {name}[1])", made, dims)
        names = ", ".join(f"{name}[{k}]" for k in reversed(range(count)))
        made = np.concatenate(found[::-1], axis)
        return net.emit(f"R.concat(({names}), axis={axis})", made, x.dims)

    def concatenate(self, x: Value) -> Value:
        """Join with itself, changed."""
        net, axis = self.net, self.axis(x)
        other = self.arithmetic(x) if self.c.chance(0.6) else None
        if other is None or other.shape != x.shape or other.dims != x.dims:
            other = x
        if self.c.chance(0.4):
            made = np.stack([x.array, other.array], axis)
            dims = [*x.dims[:axis], "2", *x.dims[axis:]]
            return net.emit(f"R.stack(({x.name}, {other.name}), axis={axis})", made, dims)
        made = np.concatenate([x.array, other.array], axis)
        dims = [plus(d, d) if a == axis else d for a, d in enumerate(x.dims)]
        return net.emit(f"R.concat(({x.name}, {other.name}), axis={axis})", made, dims)

    def transpose(self, x: Value) -> Value:
        """Order the axes anew."""
        order = list(range(len(x.dims)))
        for k in range(len(order) - 1):
            other = self.c.integer(k, len(order) - 1)
            order[k], order[other] = order[other], order[k]
        made = x.array.transpose(order)
        return self.net.emit(f"R.permute_dims({x.name}, {order})", made, [x.dims[a] for a in order])

    def flipped(self, x: Value) -> Value:
        """Turn an axis round."""
        axis = self.axis(x)
        return self.net.emit(f"R.flip({x.name}, {axis})", np.flip(x.array, axis), x.dims)

    def repeated(self, x: Value) -> Value | None:
        """Repeat elements, or the whole."""
        net, axis, count = self.net, self.axis(x), self.c.integer(2, 3)
        if x.array.size > 2000:
            return None
        dims = [times(d, str(count)) if a == axis else d for a, d in enumerate(x.dims)]
        if self.c.chance(0.5):
            return net.emit(
                f"R.repeat({x.name}, {count}, axis={axis})", np.repeat(x.array, count, axis), dims
            )
        counts = [count if a == axis else 1 for a in range(len(x.dims))]
        return net.emit(f"R.tile({x.name}, {counts})", np.tile(x.array, counts), dims)

    def padded(self, x: Value) -> Value:
        """Put elements around."""
        net = self.net
        widths = [(self.c.integer(0, 2), self.c.integer(0, 2)) for _ in x.dims]
        flat = [n for pair in widths for n in pair]
        dims = [plus(d, str(lo + hi)) if lo + hi else d for d, (lo, hi) in zip(x.dims, widths)]
        mode, name = self.c.pick(
            [("constant", "constant"), ("edge", "replicate"), ("wrap", "circular")]
        )
        if mode == "wrap" and any(max(pair) > n for pair, n in zip(widths, x.shape)):
            mode, name = "constant", "constant"
        made = np.pad(x.array, widths, mode=mode)  # pyright: ignore[reportArgumentType, reportCallIssue]
        return net.emit(f'R.nn.pad({x.name}, {flat}, pad_mode="{name}")', made, dims)

    def viewed(self, x: Value) -> Value:
        """Return another shape to the same elements."""
        net = self.net
        if self.c.chance(0.3):
            dims = [times(*x.dims)]
            return net.emit(f"R.flatten({x.name})", x.array.reshape(-1), dims)
        if self.c.chance(0.3):
            axis = self.c.integer(0, len(x.dims))
            dims = [*x.dims[:axis], "1", *x.dims[axis:]]
            return net.emit(f"R.expand_dims({x.name}, {axis})", np.expand_dims(x.array, axis), dims)
        if len(x.dims) < 2:
            return net.emit(f"R.reshape({x.name}, (-1, 1))", x.array.reshape(-1, 1), (*x.dims, "1"))
        at = self.c.integer(0, len(x.dims) - 2)
        dims = [*x.dims[:at], times(x.dims[at], x.dims[at + 1]), *x.dims[at + 2 :]]
        shape = [*x.shape[:at], x.shape[at] * x.shape[at + 1], *x.shape[at + 2 :]]
        wanted = ", ".join(
            "-1" if a == at and self.c.chance(0.5) else d for a, d in enumerate(dims)
        )
        return net.emit(f"R.reshape({x.name}, ({wanted},))", x.array.reshape(shape), dims)

    def product(self, x: Value) -> Value | None:
        """Multiply with weights, or with itself."""
        net = self.net
        x = net.small(x)
        if len(x.dims) < 2 or x.array.size > 3000:
            return None
        if self.c.chance(0.3):
            transposed = np.swapaxes(x.array, -1, -2)
            order = [*range(len(x.dims) - 2), len(x.dims) - 1, len(x.dims) - 2]
            dims = [x.dims[a] for a in order]
            made = net.summed_exactly(np.matmul, x.dtype, x, Value("", transposed, ()))
            if made is None:
                return None
            other = net.emit(f"R.permute_dims({x.name}, {order})", transposed, dims)
            return net.emit(f"R.matmul({x.name}, {other.name})", made, (*x.dims[:-1], x.dims[-2]))
        if not x.dims[-1].isdigit():
            return None
        width = self.c.pick([1, 2, 5, 8, 16, 17])
        weights = net.numbers((x.shape[-1], width), x.dtype, -1, 1)
        made = net.summed_exactly(np.matmul, x.dtype, x, Value("", weights, ()))
        if made is None:
            return None
        w = net.param([x.shape[-1], width], x.dtype, array=weights, weight=True)
        return net.emit(f"R.matmul({x.name}, {w.name})", made, (*x.dims[:-1], str(width)))
