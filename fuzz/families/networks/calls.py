"""Calls in graphs: of kernels with scalars, of other functions, and in branches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np

from fuzz.families.networks.functions import Function, draw_function
from fuzz.families.networks.graph import Net, Value, annotated

__all__ = ["Calls"]

_KERNEL = """    @T.prim_func(private=True)
    def NAME(PARAMS):
        x = T.match_buffer(xp, (SHAPE), "DTYPE")
        y = T.match_buffer(yp, (SHAPE), "DTYPE")
        for LOOPS in T.grid(SHAPE):
            with T.sblock("scale"):
                AXES = T.axis.remap("KINDS", [LOOPS])
                y[AXES] = x[AXES] * T.DTYPE(2) + T.cast(k, "DTYPE")
"""
_PAIR = """    @T.prim_func(private=True)
    def NAME(PARAMS):
        x = T.match_buffer(xp, (SHAPE), "DTYPE")
        y = T.match_buffer(yp, (SHAPE), "DTYPE")
        z = T.match_buffer(zp, (SHAPE), "DTYPE")
        for LOOPS in T.grid(SHAPE):
            with T.sblock("pair"):
                AXES = T.axis.remap("KINDS", [LOOPS])
                y[AXES] = x[AXES] * x[AXES]
                z[AXES] = x[AXES] - T.DTYPE(1)
"""
_INPLACE = """    @T.prim_func(private=True)
    def NAME(PARAMS):
        x = T.match_buffer(xp, (SHAPE), "DTYPE")
        for LOOPS in T.grid(SHAPE):
            with T.sblock("move"):
                AXES = T.axis.remap("KINDS", [LOOPS])
                x[AXES] = x[AXES] + T.cast(k, "DTYPE")
"""


_KINDS: Final = {
    "scale": (_KERNEL, "k: T.int64, xp: T.handle, yp: T.handle"),
    "move": (_INPLACE, "k: T.int64, xp: T.handle"),
    "pair": (_PAIR, "xp: T.handle, yp: T.handle, zp: T.handle"),
}
"""Kernels and their parameters."""


class Calls:
    """Applies calls that fit a value; ``steps`` are those that keep its shape."""

    def __init__(self, net: Net, steps: list[Callable[[Value], Value | None]]) -> None:
        self.net, self.c, self.steps = net, net.c, steps
        self.functions: dict[tuple[tuple[str, ...], str], list[Function]] = {}

    def all(self) -> list[Callable[[Value], Value | None]]:
        """List the calls."""
        return [
            self.kernel,
            self.kernel,
            self.pair,
            self.inplace,
            self.branch,
            self.branch,
            self.called,
        ]

    def loops(self, x: Value, template: str, params: str) -> str | None:
        """Write a kernel on tensors of the shape of a value."""
        if x.dtype == "bfloat16" or not all(d.isdigit() or d.isidentifier() for d in x.dims):
            return None
        names = sorted({d for d in x.dims if not d.isdigit()})
        loops = ", ".join(f"i{a}" for a in range(len(x.dims)))
        axes = ", ".join(f"v{a}" for a in range(len(x.dims)))
        text = template.replace("PARAMS", params).replace("LOOPS", loops).replace("AXES", axes)
        shape = ", ".join(x.dims) + ("," if len(x.dims) == 1 else "")
        text = (
            text.replace("SHAPE", shape)
            .replace("KINDS", "S" * len(x.dims))
            .replace("DTYPE", x.dtype)
        )
        if len(x.dims) == 1:
            text = text.replace(
                f"for {loops} in T.grid({shape})", f"for {loops} in range({x.dims[0]})"
            )
            text = text.replace(
                f'{axes} = T.axis.remap("S", [{loops}])',
                f"{axes} = T.axis.spatial({x.dims[0]}, {loops})",
            )
        lines = text.split("\n")
        lines[2:2] = [f"        {name} = T.int64()" for name in names]
        return self.net.kernel("kernel", "\n".join(lines))

    def scalar(self, x: Value) -> tuple[str, int, str]:
        """Draw a scalar for a kernel: a number, an extent, or a parameter of the graph."""
        net = self.net
        number = self.c.integer(0, 3)
        names = [d for d in net.names() if d.isidentifier()]
        if names and self.c.chance(0.3):
            name = self.c.pick(names)
            return name, net.sizes[name], "int64"
        if self.c.chance(0.5):
            name = net.fresh("k")
            kind = self.c.pick(["int64", "int32"])
            net.scalar(name, kind, number)
            return name, number, kind
        return f"R.prim_value({number})", number, "int64"

    def kernel(self, x: Value) -> Value | None:
        """Call loops of the user's own with a scalar."""
        net = self.net
        if x.dtype == "bfloat16" or not all(d.isdigit() or d.isidentifier() for d in x.dims):
            return None
        text, number, kind = self.scalar(x)
        name = self.loops(x, _KERNEL, f"k: T.{kind}, xp: T.handle, yp: T.handle")
        with np.errstate(all="ignore"):
            two, more = x.array.dtype.type(2), x.array.dtype.type(number)
            made = (x.array * two + more).astype(x.array.dtype)
        info = annotated(x.dims, x.dtype, quoted=False)
        return net.emit(
            f"R.call_tir(cls.{name}, ({text}, {x.name}), out_sinfo={info})", made, x.dims
        )

    def pair(self, x: Value) -> Value | None:
        """Call loops that give two tensors, one of which may be for nothing."""
        net = self.net
        if x.dtype == "bfloat16" or not all(d.isdigit() or d.isidentifier() for d in x.dims):
            return None
        name = self.loops(x, _PAIR, "xp: T.handle, yp: T.handle, zp: T.handle")
        info = annotated(x.dims, x.dtype, quoted=False)
        with np.errstate(all="ignore"):
            one = (x.array * x.array).astype(x.array.dtype)
            two = (x.array - x.array.dtype.type(1)).astype(x.array.dtype)
        both = net.fresh("t")
        net.frame.lines.append(
            f"{both} = R.call_tir(cls.{name}, ({x.name},), out_sinfo=[{info}, {info}])"
        )
        if self.c.chance(0.3):
            return net.emit(f"{both}[{1}]", two, x.dims)
        with np.errstate(all="ignore"):
            made = (one + two).astype(x.array.dtype)
        return net.emit(f"R.add({both}[0], {both}[1])", made, x.dims)

    def inplace(self, x: Value) -> Value | None:
        """Call loops that write over a value that nothing else needs."""
        net = self.net
        if x.dtype == "bfloat16" or not all(d.isdigit() or d.isidentifier() for d in x.dims):
            return None
        with np.errstate(all="ignore"):
            copy = net.emit(
                f"R.add({x.name}, {x.name})", (x.array + x.array).astype(x.array.dtype), x.dims
            )
        text, number, kind = self.scalar(x)
        info = annotated(x.dims, x.dtype, quoted=False)
        name = self.loops(x, _INPLACE, f"k: T.{kind}, xp: T.handle")
        with np.errstate(all="ignore"):
            made = (copy.array + x.array.dtype.type(number)).astype(x.array.dtype)
        return net.emit(
            f"R.call_tir_inplace(cls.{name}, ({text}, {copy.name}), [1], {info})", made, x.dims
        )

    def branch(self, x: Value) -> Value | None:
        """Do one of two things, by a condition that is known when it runs."""
        net, c = self.net, self.c
        if net.depth:
            return None
        condition = c.chance(0.5)
        cond = net.param([], "bool", array=np.array(condition), stem="b")
        net.depth += 1
        outer, net.frame.lines = net.frame.lines, []
        sides: list[tuple[list[str], Value]] = []
        for _ in range(2):
            value = x
            for _ in range(c.integer(1, 2)):
                step = c.pick([*self.steps, self.kernel])
                value = step(value) or value
            sides.append((net.frame.lines, value))
            net.frame.lines = []
        net.depth -= 1
        net.frame.lines = outer
        if any(value.shape != x.shape or value.dims != x.dims for _, value in sides):
            return None
        net.branches = True
        name = net.fresh("r")
        for word, (lines, value) in zip((f"if {cond.name}:", "else:"), sides):
            net.frame.lines += [
                word,
                *(f"    {line}" for line in lines),
                f"    {name} = {value.name}",
            ]
        return net.emit(name, sides[0 if condition else 1][1].array, x.dims)

    def called(self, x: Value) -> Value | None:
        """Call a function of the graph, twice if it gives one tensor."""
        net, c = self.net, self.c
        if net.depth or x.dtype == "bfloat16":
            return None
        if not all(d.isdigit() or d.isidentifier() for d in x.dims):
            return None
        known = self.functions.setdefault((x.dims, x.dtype), [])

        def loops(kind: str) -> str:
            template, params = _KINDS[kind]
            name = self.loops(x, template, params)
            assert name is not None
            return name

        function = draw_function(net, x, loops, known)
        known.append(function)
        value = x
        for _ in range(2 if len(function.results) == 1 and c.chance(0.5) else 1):
            scalar, number = "", 0
            if function.takes_scalar:
                number = c.integer(0, 3)
                scalar = f", R.prim_value({number})"
                if c.chance(0.5):
                    scalar = f", {net.fresh('k')}"
                    net.scalar(scalar[2:], "int64", number)
            found = function.apply(value.array, number)
            if len(found) == 1:
                value = net.emit(f"cls.{function.name}({value.name}{scalar})", found[0][1], x.dims)
                continue
            whole = net.fresh("t")
            net.frame.lines.append(f"{whole} = cls.{function.name}({value.name}{scalar})")
            path, array = c.pick(found)
            value = net.emit(f"{whole}{path}", array, x.dims)
        return value
