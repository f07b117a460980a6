"""Draw a roofline plot as SVG: speed over arithmetic intensity, both logarithmic."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape
from typing import Final, NamedTuple

__all__ = ["Point", "roofline"]

_WIDTH: Final = 760
_HEIGHT: Final = 480
_LEFT, _RIGHT, _TOP, _BOTTOM = 70, 20, 40, 50
_STYLE: Final = (
    "text{font:12px sans-serif;fill:#333}.roof{stroke:#c33;stroke-width:2;fill:none}"
    ".grid{stroke:#ddd}.kernel{fill:#36c;fill-opacity:.6}"
)


class Point(NamedTuple):
    """A kernel: operations per byte, operations per second, and its share of the time."""

    name: str
    intensity: float
    speed: float
    share: float


def roofline(points: Sequence[Point], bandwidth: float, flops: float) -> str:
    """Draw kernels as circles, which are larger for a larger share of the time."""
    ridge = flops / bandwidth
    xs = [ridge / 64, ridge * 16, *(p.intensity for p in points)]
    ys = [flops * 2, flops / 1e3, *(p.speed for p in points)]
    low_x, high_x = math.floor(math.log10(min(xs))), math.ceil(math.log10(max(xs)))
    low_y, high_y = math.floor(math.log10(min(ys))), math.ceil(math.log10(max(ys)))

    def x(value: float) -> float:
        part = (math.log10(value) - low_x) / (high_x - low_x)
        return _LEFT + part * (_WIDTH - _LEFT - _RIGHT)

    def y(value: float) -> float:
        part = (math.log10(value) - low_y) / (high_y - low_y)
        return _HEIGHT - _BOTTOM - part * (_HEIGHT - _TOP - _BOTTOM)

    bottom, right = _HEIGHT - _BOTTOM, _WIDTH - _RIGHT
    size = f'width="{_WIDTH}" height="{_HEIGHT}"'
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} viewBox="0 0 {_WIDTH} {_HEIGHT}">',
        f"<style>{_STYLE}</style>",
        f'<rect {size} fill="#fff"/>',
    ]
    for power in range(low_x, high_x + 1):
        at = x(10.0**power)
        lines.append(f'<line class="grid" x1="{at:.1f}" y1="{_TOP}" x2="{at:.1f}" y2="{bottom}"/>')
        lines.append(_text(at, bottom + 16, f"{10.0**power:g}", "middle"))
    for power in range(low_y, high_y + 1):
        at = y(10.0**power)
        lines.append(f'<line class="grid" x1="{_LEFT}" y1="{at:.1f}" x2="{right}" y2="{at:.1f}"/>')
        lines.append(_text(_LEFT - 6, at + 4, f"{10.0 ** (power - 9):g}", "end"))
    start = 10.0**low_x
    # The slope starts at the lower edge of the picture at the earliest.
    start = max(start, 10.0**low_y / bandwidth)
    roof = [(start, start * bandwidth), (ridge, flops), (10.0**high_x, flops)]
    path = " ".join(f"{x(a):.1f},{y(b):.1f}" for a, b in roof)
    lines.append(f'<polyline class="roof" points="{path}"/>')
    title = f"{bandwidth / 1e9:.1f} GB/s, {flops / 1e9:.1f} GFLOP/s"
    lines.append(_text(right, y(flops) - 6, title, "end"))
    for p in points:
        radius = 4 + 12 * math.sqrt(max(0.0, min(1.0, p.share)))
        at_x, at_y = x(p.intensity), y(p.speed)
        label = escape(f"{p.name}: {p.speed / 1e9:.2f} GFLOP/s, {p.share:.1%} of the time")
        lines.append(
            f'<circle class="kernel" cx="{at_x:.1f}" cy="{at_y:.1f}" r="{radius:.1f}">'
            f"<title>{label}</title></circle>"
        )
        lines.append(_text(at_x + radius + 3, at_y + 4, p.name, "start"))
    lines.append(_text((_LEFT + right) / 2, _HEIGHT - 12, "operations per byte", "middle"))
    lines.append(_text(_LEFT, 24, "GFLOP/s", "middle"))
    return "\n".join([*lines, "</svg>", ""])


def _text(x: float, y: float, text: str, anchor: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'
