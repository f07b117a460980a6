"""Sliding windows over images: sizes, strides, dilation and padding."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

from loomir.relax.operator.context import OpContext
from loomir.relax.shape import Dim, as_dim
from loomir.support.diagnostics import with_count
from loomir.tir.expr import Add, FloorDiv, Min, Mul, PrimExpr, Sub

__all__ = ["numbers", "read_padding", "steps", "with_axes"]


def with_axes(count: int, **defaults: Any) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """Make what writes one number for all axes as a number for each.

    ``padding`` gets one for each end: first those before the axes, then those after.
    ``out_layout``: what the option that it names here is, where it is left out. An ``out_dtype`` of
    ``void`` is none.
    """

    def adapt(given: dict[str, Any]) -> dict[str, Any]:
        made = dict(given)
        for name, default in defaults.items():
            value: Any = made.get(name, default)
            if name == "out_layout":
                source, layout = default
                if made.get(name) is None or (isinstance(made[name], str) and not made[name]):
                    made[name] = made.get(source, layout)
                continue
            times = 2 * count if name == "padding" else count
            if isinstance(value, int) and not isinstance(value, bool):
                value = (value,) * times
            elif isinstance(value, (list, tuple)):
                items = tuple(cast("Sequence[Any]", value))
                whole = len(items) == 1 or (name == "padding" and len(items) == count)
                value = items * (times // len(items)) if whole else items
            made[name] = value
        if str(made.get("out_dtype", "")) == "void":
            made["out_dtype"] = None
        return made

    return adapt


def numbers(c: OpContext, option: str, count: int, least: int = 1) -> tuple[int, ...]:
    """Return the numbers of an option, one for each axis. Errors: OPS0039, OPS0061."""
    made: tuple[int, ...] = c[option]
    if len(made) != count:
        c.refuse(
            "OPS0061",
            f"{option} has {with_count(len(made), 'number')}, not {count}",
            help=f"give {with_count(count, 'number')}, or one for all",
        )
    if any(v < least for v in made):
        c.refuse(
            "OPS0039",
            f"{option} is {made}",
            help=f"give numbers of {least} or more",
        )
    return made


def read_padding(c: OpContext, count: int) -> list[tuple[int, int]]:
    """Return what is added before and after each axis. Errors: OPS0039, OPS0061."""
    made = numbers(c, "padding", 2 * count, least=0)
    return list(zip(made[:count], made[count:], strict=True))


def steps(
    c: OpContext,
    extent: Dim,
    size: Dim,
    stride: int,
    dilation: int,
    pads: tuple[int, int],
    ceil_mode: bool = False,
) -> PrimExpr:
    """Count the windows that fit an axis; ``ceil_mode`` adds one that only starts inside.

    Errors: OPS0062 where certainly none does.
    """
    before, after = pads
    whole = Add(as_dim(extent), as_dim(before + after))
    reach = Add(Mul(Sub(as_dim(size), as_dim(1)), as_dim(dilation)), as_dim(1))
    room = c.analyzer.simplify(Sub(whole, reach))
    c.require_order(
        "OPS0062",
        reach,
        whole,
        "a window of {0} does not fit an axis of {1}, padding included",
        help="make the window smaller, or the padding larger",
        arg=0,
    )
    step, one = as_dim(stride), as_dim(1)
    if not ceil_mode or stride == 1:
        return c.analyzer.simplify(Add(FloorDiv(room, step), one))
    more = Add(FloorDiv(Add(room, as_dim(stride - 1)), step), one)
    # A window that starts in the padding after the end is none.
    starts = FloorDiv(Add(as_dim(extent), as_dim(before + stride - 1)), step)
    return c.analyzer.simplify(Min(more, starts))
