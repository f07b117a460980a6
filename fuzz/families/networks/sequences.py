"""Layers of sequence networks: attention, gates, normalisation and surrounding layers."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from fuzz.families.contractions.terms import dtype_of, float_like
from fuzz.families.networks.graph import Array, Net, Value, plus

__all__ = ["Sequences", "attended", "recurrent"]


def softmax(scores: Array) -> Array:
    """Make exponentials that add up to 1 along the last axis; 0 where nothing is seen."""
    top = scores.max(-1, keepdims=True, initial=-np.inf)
    raised = np.exp(scores - np.where(np.isfinite(top), top, 0))
    sums = raised.sum(-1, keepdims=True)
    return np.divide(raised, sums, out=np.zeros_like(raised), where=sums > 0)


def attended(q: Array, k: Array, v: Array, bias: Array, scale: float, seen: Array) -> Array:
    """Mix values; tensors are (B, S, H, D), (B, T, G, D) and (B, T, G, E)."""
    shared = q.shape[2] // k.shape[2]
    k, v = np.repeat(k, shared, 2), np.repeat(v, shared, 2)
    scores = np.einsum("bshd,bthd->bhst", q, k) * scale + bias
    scores = np.where(seen, scores, -np.inf)
    return np.einsum("bhst,bthe->bshe", softmax(scores), v)


class Sequences:
    """Layers on one tensor of (B, T, D)."""

    def __init__(self, net: Net, dtype: str) -> None:
        c = self.c = net.c
        self.net, self.dtype = net, dtype
        self.heads = c.pick([1, 2, 2, 4])
        self.width = self.heads * c.pick([16, 32, 64] if net.large else [2, 4, 4, 8])
        self.b, self.t = net.open_size("b", 3), net.open_size("t", 8)
        if c.chance(0.4):
            rows = c.integer(3, 20)
            index = c.pick(["int32", "int64"])
            table = net.weight([rows, self.width], dtype)
            ids = net.param([self.b, self.t], index, low=0, high=rows - 1, stem="ids")
            made = table.array[ids.array]
            self.x = net.emit(f"R.take({table.name}, {ids.name}, axis=0)", made, self.dims())
        else:
            self.x = net.param([self.b, self.t, self.width], dtype)

    def dims(self, *more: str) -> tuple[str, ...]:
        """Return the extents of the tensor, or others behind batch and time."""
        return (self.b[0], self.t[0], *(more or (str(self.width),)))

    # -- products ------------------------------------------------------------------------------
    def linear(self, x: Value, width: int) -> Value | None:
        """Apply a linear layer, in one of the ways it is written."""
        c, net = self.c, self.net
        x = net.small(x)
        if not float_like(x.dtype):
            return None
        ways: list[Any] = ["matmul", "linear", "transposed", "einsum"]
        way = c.pick(ways)
        transposed = way in ("linear", "transposed")
        shape = (width, x.shape[-1]) if transposed else (x.shape[-1], width)
        weights = net.numbers(shape, x.dtype, -2, 2)

        def compute(a: Array, w: Array) -> Array:
            return a @ (w.T if transposed else w)

        made = net.summed_exactly(compute, x.dtype, x, Value("", weights, ()))
        if made is None:
            weights = np.where(net.random.random(shape) < 0.15, np.sign(weights), 0).astype(
                weights.dtype
            )
            made = net.summed_exactly(compute, x.dtype, x, Value("", weights, ()))
        if made is None:
            return None
        w = net.param(list(shape), x.dtype, array=weights, weight=True)
        dims = (*x.dims[:-1], str(width))
        bias = net.weight([width], x.dtype) if c.chance(0.5) else None
        if way == "linear" and bias is not None:
            made = (made + bias.array).astype(made.dtype)
            return net.emit(f"R.linear({x.name}, {w.name}, {bias.name})", made, dims)
        if way == "linear":
            return net.emit(f"R.linear({x.name}, {w.name})", made, dims)
        if way == "transposed":
            wt = net.emit(f"R.permute_dims({w.name}, [1, 0])", weights.T)
            y = net.emit(f"R.matmul({x.name}, {wt.name})", made, dims)
        elif way == "einsum" and len(x.dims) == 3:
            y = net.emit(f'R.einsum(({x.name}, {w.name}), "btd,de->bte")', made, dims)
        else:
            y = net.emit(f"R.matmul({x.name}, {w.name})", made, dims)
        if bias is None:
            return y
        return net.emit(
            f"R.add({y.name}, {bias.name})", (made + bias.array).astype(made.dtype), dims
        )

    # -- attention -----------------------------------------------------------------------------
    def split_heads(self, x: Value, heads: int) -> Value:
        """Return each head its features."""
        size = int(x.shape[-1]) // heads
        dims = (*x.dims[:-1], str(heads), str(size))
        shape = ", ".join(dims)
        return self.net.emit(
            f"R.reshape({x.name}, ({shape}))", x.array.reshape(*x.shape[:-1], heads, size), dims
        )

    def attention(self, x: Value) -> Value:
        """Attend to the sequence, and to a cache before it."""
        c, net = self.c, self.net
        groups = c.pick([g for g in (self.heads, 1, 2) if self.heads % g == 0])
        size = self.width // self.heads
        found = [self.linear(x, size * n) for n in (self.heads, groups, groups)]
        if any(f is None for f in found):
            return x
        q, k, v = (
            self.split_heads(net.small(f, 2), n)
            for f, n in zip(found, (self.heads, groups, groups))
            if f is not None
        )
        if c.chance(0.3):
            q, k = self.rotated(q), self.rotated(k)
        if c.chance(0.4):
            past = net.open_size("p", 7)
            k, v = (self.cached(value, past) for value in (k, v))
        causal = c.pick([None, None, "TopLeft", "BottomRight"])
        s, t = q.shape[1], k.shape[1]
        rows, columns = np.arange(s)[:, None], np.arange(t)[None, :]
        seen = np.ones((s, t), bool)
        if causal is not None:
            seen = columns <= rows + (t - s if causal == "BottomRight" else 0)
        scale = c.pick([None, 0.5, 0.25])
        factor = 1 / math.sqrt(size) if scale is None else scale
        bias: Array = np.zeros(())
        biased = ""
        if c.chance(0.4):
            one = (
                net.param([self.b, self.heads, (q.dims[1], s), (k.dims[1], t)], self.dtype)
                if k.dims[1].isdigit() or k.dims[1].isidentifier()
                else None
            )
            if one is not None:
                bias, biased = one.wide(), f", {one.name}"
        y = attended(q.wide(), k.wide(), v.wide(), bias, factor, seen)
        if c.chance(0.5):
            options = "" if scale is None else f", scale={scale}"
            options += "" if causal is None else f', causal_mask="{causal}"'
            text = f"R.nn.attention({q.name}, {k.name}, {v.name}{biased}{options})"
            made = net.settle(text, y, self.dtype, q.dims)
        else:
            made = self.by_hand(q, k, v, bias, biased[2:], factor, causal, y)
        if made is None:
            return x
        flat = net.emit(
            f"R.reshape({made.name}, ({', '.join(self.dims())}))",
            made.array.reshape(x.shape),
            self.dims(),
        )
        return self.linear(flat, self.width) or flat

    def by_hand(
        self,
        q: Value,
        k: Value,
        v: Value,
        bias: Array,
        biased: str,
        scale: float,
        causal: str | None,
        wanted: Array,
    ) -> Value | None:
        """Write attention of its parts."""
        net, dtype = self.net, self.dtype
        shared = q.shape[2] // k.shape[2]
        if shared > 1:
            k, v = (
                net.emit(
                    f"R.repeat({x.name}, {shared}, axis=2)",
                    np.repeat(x.array, shared, 2),
                    (*x.dims[:2], q.dims[2], x.dims[3]),
                )
                for x in (k, v)
            )
        q, k, v = (
            net.emit(
                f"R.permute_dims({x.name}, [0, 2, {order}])",
                x.array.transpose(0, 2, *last),
                (x.dims[0], x.dims[2], *(x.dims[a] for a in last)),
            )
            for x, order, last in ((q, "1, 3", (1, 3)), (k, "3, 1", (3, 1)), (v, "1, 3", (1, 3)))
        )
        scores = net.summed_exactly(np.matmul, dtype, q, k)
        if scores is None:
            return None
        dims = (*q.dims[:3], k.dims[3])
        a = net.emit(f"R.matmul({q.name}, {k.name})", scores, dims)
        a = net.emit(
            f"R.multiply({a.name}, {net.const(scale, dtype)})",
            (scores * dtype_of(dtype).type(scale)).astype(scores.dtype),
            dims,
        )
        if biased:
            a = net.emit(
                f"R.add({a.name}, {biased})",
                (a.array + bias.astype(a.array.dtype)).astype(a.array.dtype),
                dims,
            )
        if causal is not None:
            low = -30000.0
            s, t = q.dims[2], k.dims[3]
            ones = net.emit(
                f'R.ones(({s}, {t}), "bool")', np.ones((q.shape[2], k.shape[3]), bool), (s, t)
            )
            offset = 0 if causal == "TopLeft" else k.shape[3] - q.shape[2]
            if causal != "TopLeft" and not (s.isdigit() and t.isdigit()):
                return None
            mask = np.tril(ones.array, offset)
            m = net.emit(f"R.tril({ones.name}, {offset})", mask, (s, t))
            a = net.emit(
                f"R.where({m.name}, {a.name}, {net.const(low, dtype)})",
                np.where(mask, a.array, a.array.dtype.type(low)),
                dims,
            )
            if not mask.any(-1).all():
                return None
        p = softmax(a.wide())
        b = net.emit(f"R.nn.softmax({a.name}, axis=-1)", p.astype(a.array.dtype), dims)
        y = wanted.transpose(0, 2, 1, 3)
        made = net.settle(f"R.matmul({b.name}, {v.name})", y, dtype, (*q.dims[:3], v.dims[3]))
        if made is None:
            return None
        last = (made.dims[0], made.dims[2], made.dims[1], made.dims[3])
        return net.emit(
            f"R.permute_dims({made.name}, [0, 2, 1, 3])", made.array.transpose(0, 2, 1, 3), last
        )

    def rotated(self, x: Value) -> Value:
        """Turn pairs of features by angles that follow the place."""
        net, half = self.net, x.shape[-1] // 2
        if half < 1 or x.shape[-1] % 2 or not x.dims[1].isdigit():
            return x
        table = [net.weight([x.shape[1], 1, x.shape[-1]], x.dtype, -1, 1) for _ in range(2)]
        parts = np.split(x.array, 2, -1)
        rotated = np.concatenate([-parts[1], parts[0]], -1)
        dims = (*x.dims[:-1], str(half))
        name = net.fresh("s")
        net.frame.lines.append(f"{name} = R.split({x.name}, 2, axis=-1)")
        one = net.emit(f"{name}[0]", parts[0], dims)
        two = net.emit(f"R.negative({name}[1])", -parts[1], dims)
        both = net.emit(f"R.concat(({two.name}, {one.name}), axis=-1)", rotated, x.dims)
        left = net.emit(f"R.multiply({x.name}, {table[0].name})", x.array * table[0].array, x.dims)
        right = net.emit(
            f"R.multiply({both.name}, {table[1].name})", rotated * table[1].array, x.dims
        )
        return net.emit(f"R.add({left.name}, {right.name})", left.array + right.array, x.dims)

    def cached(self, x: Value, past: tuple[str, int]) -> Value:
        """Put what came before in front."""
        net = self.net
        cache = net.param([self.b, past, *x.shape[2:]], x.dtype, low=-2, high=2, stem="cache")
        made = np.concatenate([cache.array, x.array], 1)
        dims = (x.dims[0], plus(past[0], x.dims[1]), *x.dims[2:])
        return net.emit(f"R.concat(({cache.name}, {x.name}), axis=1)", made, dims)

    # -- what stands around it -----------------------------------------------------------------
    def norm(self, x: Value) -> Value:
        """Scale each element of the sequence."""
        net = self.net
        x = net.small(x)
        width = x.shape[-1]
        wide = x.wide()
        g = net.weight([width], x.dtype)
        if self.c.chance(0.5):
            made = wide / np.sqrt((wide * wide).mean(-1, keepdims=True) + 1e-5) * g.wide()
            text = f"R.nn.rms_norm({x.name}, {g.name}, axes=[-1], epsilon=1e-5)"
            return net.settle(text, made, x.dtype, x.dims) or x
        b = net.weight([width], x.dtype)
        mean, var = wide.mean(-1, keepdims=True), wide.var(-1, keepdims=True)
        made = (wide - mean) / np.sqrt(var + 1e-5) * g.wide() + b.wide()
        text = f"R.nn.layer_norm({x.name}, {g.name}, {b.name}, axes=[-1], epsilon=1e-5)"
        return net.settle(text, made, x.dtype, x.dims) or x

    def activation(self, x: Value) -> Value:
        """Apply a function to each element."""
        net = self.net
        wide = x.wide()
        if not float_like(x.dtype) or abs(wide).max(initial=0) > 20:
            return net.emit(
                f"R.nn.relu({x.name})", np.maximum(x.array, x.array.dtype.type(0)), x.dims
            )
        logistic = 1 / (1 + np.exp(-wide))
        normal = 0.5 * (1 + np.vectorize(math.erf, otypes=[float])(wide / math.sqrt(2)))
        name, made = self.c.pick(
            [
                ("nn.relu", np.maximum(wide, 0)),
                ("nn.gelu", wide * normal),
                ("nn.silu", wide * logistic),
                ("sigmoid", logistic),
                ("tanh", np.tanh(wide)),
                ("nn.softplus", np.log1p(np.exp(-abs(wide))) + np.maximum(wide, 0)),
                ("exp", np.exp(np.minimum(wide, 4))),
                ("abs", abs(wide)),
            ]
        )
        if name == "exp" and wide.max(initial=0) > 4:
            return x
        return net.settle(f"R.{name}({x.name})", made, x.dtype, x.dims) or x

    def feed(self, x: Value) -> Value:
        """Apply two layers with a function between them, maybe gated."""
        net = self.net
        inner = self.c.pick([64, 130, 256] if net.large else [3, 8, 16, 33])
        up = self.linear(x, inner)
        if up is None:
            return x
        up = self.activation(up)
        if self.c.chance(0.4):
            gate = self.linear(x, inner)
            if gate is not None:
                made = (up.array * gate.array).astype(up.array.dtype)
                up = net.emit(f"R.multiply({up.name}, {gate.name})", made, up.dims)
        return self.linear(up, self.width) or x

    def run(self) -> list[Value]:
        """Apply a few layers, most of them beside what goes by."""
        net, x = self.net, self.x
        for _ in range(self.c.integer(1, 3)):
            given = self.norm(x) if self.c.chance(0.6) else x
            layer = self.c.weighted([(4, self.attention), (3, self.feed), (1, self.activation)])
            y = layer(given)
            if y.shape == x.shape and y.dims == x.dims and self.c.chance(0.8) and y is not x:
                y = net.emit(
                    f"R.add({x.name}, {y.name})", (x.array + y.array).astype(x.array.dtype), x.dims
                )
            x = y
        return [x]


def recurrent(net: Net, dtype: str) -> list[Value]:
    """Unroll a cell with gates over a short sequence; its weights are shared by all steps."""
    c = net.c
    steps, size, width = c.integer(1, 4), c.pick([1, 3, 4, 8]), c.pick([2, 4, 5])
    b = net.open_size("b", 4)
    x = net.param([b, steps, width], dtype, low=-2, high=2)
    kind = c.pick(["simple", "lstm", "gru"])
    gates = {"simple": 1, "lstm": 4, "gru": 3}[kind]
    w = net.weight([width, gates * size], dtype, -1, 1)
    u = net.weight([size, gates * size], dtype, -1, 1)
    h = net.param([b, size], dtype, low=-1, high=1, stem="h")
    cell = net.param([b, size], dtype, low=-1, high=1, stem="c")
    outs: list[Value] = []
    for step in range(steps):
        part = x.array[:, step]
        if c.chance(0.5):
            now = net.emit(
                f"R.take({x.name}, R.prim_value({step}), axis=1)", part, (b[0], str(width))
            )
        else:
            cut = net.emit(
                f"R.strided_slice({x.name}, axes=[1], begin=[{step}], end=[{step + 1}])",
                x.array[:, step : step + 1],
                (b[0], "1", str(width)),
            )
            now = net.emit(f"R.squeeze({cut.name}, axis=[1])", part, (b[0], str(width)))
        made = _cell(net, kind, now, h, cell, w, u, size, b[0], dtype)
        if made is None:
            break
        h, cell = made
        outs.append(h)
    if len(outs) > 1 and c.chance(0.6):
        names = ", ".join(o.name for o in outs)
        stacked = np.stack([o.array for o in outs], 1)
        return [
            net.emit(f"R.stack(({names}), axis=1)", stacked, (b[0], str(len(outs)), str(size))),
            cell,
        ]
    return [h, cell]


def _cell(
    net: Net,
    kind: str,
    x: Value,
    h: Value,
    cell: Value,
    w: Value,
    u: Value,
    size: int,
    b: str,
    dtype: str,
) -> tuple[Value, Value] | None:
    def gated(one: Value, other: Value) -> Value | None:
        made = net.summed_exactly(np.matmul, dtype, one, other)
        dims = (b, str(other.shape[1]))
        return None if made is None else net.emit(f"R.matmul({one.name}, {other.name})", made, dims)

    left, right = gated(x, w), gated(h, u)
    if left is None or right is None:
        return None
    dims = (b, str(size))

    def applied(name: str, text: str, wide: Array) -> Value | None:
        function = np.tanh if name == "tanh" else lambda v: 1 / (1 + np.exp(-v))
        return net.settle(f"R.{name}({text})", function(wide), dtype, dims)

    if kind == "simple":
        s = net.emit(f"R.add({left.name}, {right.name})", left.array + right.array, left.dims)
        made = applied("tanh", s.name, s.wide())
        return None if made is None else (made, made)
    names = net.fresh("g")
    if kind == "lstm":
        s = net.emit(f"R.add({left.name}, {right.name})", left.array + right.array, left.dims)
        net.frame.lines.append(f"{names} = R.split({s.name}, 4, axis=1)")
        parts = np.split(s.wide(), 4, 1)
        kinds = ["sigmoid", "sigmoid", "tanh", "sigmoid"]
        found = [applied(n, f"{names}[{i}]", p) for i, (n, p) in enumerate(zip(kinds, parts))]
        if any(f is None for f in found):
            return None
        i, f, g, o = (v for v in found if v is not None)
        kept = net.emit(f"R.multiply({f.name}, {cell.name})", f.array * cell.array, dims)
        new = net.emit(f"R.multiply({i.name}, {g.name})", i.array * g.array, dims)
        cell = net.small(
            net.emit(f"R.add({kept.name}, {new.name})", kept.array + new.array, dims), 2
        )
        squashed = applied("tanh", cell.name, cell.wide())
        if squashed is None:
            return None
        made = net.emit(f"R.multiply({o.name}, {squashed.name})", o.array * squashed.array, dims)
        return net.small(made, 2), cell
    other = net.fresh("g")
    net.frame.lines.append(f"{names} = R.split({left.name}, [{size}, {2 * size}], axis=1)")
    net.frame.lines.append(f"{other} = R.split({right.name}, [{size}, {2 * size}], axis=1)")
    a, d = np.split(left.array, 3, 1), np.split(right.array, 3, 1)
    sums = [net.emit(f"R.add({names}[{k}], {other}[{k}])", a[k] + d[k], dims) for k in range(2)]
    r, z = (applied("sigmoid", s.name, s.wide()) for s in sums)
    if r is None or z is None:
        return None
    scaled = net.emit(f"R.multiply({r.name}, {other}[2])", r.array * d[2], dims)
    total = net.emit(f"R.add({names}[2], {scaled.name})", a[2] + scaled.array, dims)
    n = applied("tanh", total.name, total.wide())
    if n is None:
        return None
    change = net.emit(f"R.subtract({h.name}, {n.name})", h.array - n.array, dims)
    scaled = net.emit(f"R.multiply({z.name}, {change.name})", z.array * change.array, dims)
    made = net.emit(f"R.add({n.name}, {scaled.name})", n.array + scaled.array, dims)
    return net.small(made, 2), cell
