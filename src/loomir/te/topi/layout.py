"""Layouts of images, and sliding windows over them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from loomir.te.tensor import Tensor
from loomir.te.topi.loops import greater_size, lesser_size
from loomir.te.topi.shape import Size, bad, dims, write_shape

__all__ = [
    "PerAxis",
    "Window",
    "default_layout",
    "expand_per_axis",
    "pads_of",
    "places",
    "spatial_axes",
]

PerAxis: TypeAlias = int | Sequence[int]
_SPATIAL = "DHW"


def default_layout(ndim: int) -> str:
    """Name the axes of a batch of images of so many spatial axes, channels first."""
    return "NC" + _SPATIAL[len(_SPATIAL) - ndim :]


def places(name: str, layout: str, axes: str) -> list[int]:
    """Return where each of ``axes`` stands in a layout. Errors: TE0104."""
    if sorted(layout) != sorted(axes):
        bad(name, f"{layout!r} is not a layout here", f"order the letters {', '.join(axes)}")
    return [layout.index(letter) for letter in axes]


def spatial_axes(name: str, x: Tensor, layout: str | None, count: int) -> tuple[str, list[int]]:
    """Return the layout of a tensor and its spatial axes. Errors: TE0104."""
    wanted = default_layout(count)
    made = wanted if layout is None else layout
    at = places(name, made, wanted)
    if x.ndim != len(made):
        bad(
            name,
            f"the tensor has shape {write_shape(dims(x))} in layout {made}",
            f"give {len(made)} axes",
        )
    return made, at[2:]


def expand_per_axis(name: str, what: str, value: PerAxis, count: int, least: int = 1) -> list[int]:
    """Return a number for each spatial axis, of one number or as many. Errors: TE0104."""
    made = [value] * count if isinstance(value, int) else list(value)
    if len(made) != count or any(v < least for v in made):
        bad(name, f"{what} is {value}", f"give {count} numbers of {least} or more, or one for all")
    return made


def pads_of(name: str, padding: PerAxis, count: int) -> list[tuple[int, int]]:
    """Return what each axis gets before and after, of 1, ``count`` or twice ``count`` numbers."""
    made = [padding] * count if isinstance(padding, int) else list(padding)
    if len(made) == count:
        made = made * 2
    if len(made) != 2 * count or any(v < 0 for v in made):
        bad(
            name,
            f"padding is {padding}",
            f"give one number, one for each of {count} axes, or those before the axes and then "
            "those after",
        )
    return list(zip(made[:count], made[count:], strict=True))


class Window:
    """How a window slides along one axis: its size, steps, gaps, and what is added at the ends."""

    def __init__(
        self, size: Size, stride: int = 1, dilation: int = 1, pads: tuple[int, int] = (0, 0)
    ) -> None:
        self.size, self.stride, self.dilation = size, stride, dilation
        self.before, self.after = pads

    def reach(self) -> Size:
        """Return how many elements lie from the window's first to its last."""
        return (self.size - 1) * self.dilation + 1

    def steps(self, name: str, extent: Size, ceil_mode: bool = False) -> Size:
        """Return how many windows fit; ``ceil_mode`` counts a last one that only starts inside.

        Errors: TE0104 where not one does.
        """
        whole = extent + (self.before + self.after)
        room = whole - self.reach()
        if isinstance(room, int) and room < 0:
            bad(
                name,
                f"a window of {self.reach()} does not fit an axis of {whole}, padding included",
                "make the window smaller, or the padding larger",
            )
        fits = greater_size(room // self.stride + 1, 0)
        if not ceil_mode or self.stride == 1:
            return fits
        more = (room + (self.stride - 1)) // self.stride + 1
        # A window that starts in the padding after the end is none.
        starts = (extent + (self.before + self.stride - 1)) // self.stride
        return greater_size(lesser_size(more, starts), 0)
