"""Lay out a graph in layers: boxes below the boxes that they use, with few crossings.

Boxes are given in topological order. A line that passes through layers gets a point in each of
them, so that it avoids the boxes there.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Final, NamedTuple

__all__ = ["Box", "Line", "PlacedBox", "Placement", "place"]

_CHARACTER: Final = 7.0
_MARGIN: Final = 10.0
_GAP: Final = 22.0
_BETWEEN: Final = 34.0
"""Points between two layers."""
_SWEEPS: Final = 6


class Box(NamedTuple):
    """A box: its name, its value, its kind, and operands without boxes."""

    name: str
    type: str
    kind: str
    uses: tuple[str, ...] = ()

    def texts(self) -> list[str]:
        """List the lines of text in it."""
        shown = list(self.uses[:3])
        more = [f"and {len(self.uses) - 3} more"] if len(self.uses) > 3 else []
        return [self.name, *shown, *more, *([self.type] if self.type else [])]


class Line(NamedTuple):
    """A line from one box to another, by number."""

    source: int
    target: int


class PlacedBox(NamedTuple):
    """The centre and the size of a box."""

    x: float
    y: float
    width: float
    height: float


class Placement(NamedTuple):
    """The layout: boxes, the points of lines, and the total size."""

    boxes: list[PlacedBox]
    curves: list[list[tuple[float, float]]]
    width: float
    height: float


class _Points:
    """Boxes and intermediate points of lines, which are placed in the same way."""

    def __init__(self, boxes: Sequence[Box], lines: Sequence[Line]) -> None:
        depth = [0] * len(boxes)
        for line in sorted(lines, key=lambda line: line.target):
            depth[line.target] = max(depth[line.target], depth[line.source] + 1)
        # An input is placed right above its first user.
        first: dict[int, int] = {}
        for line in lines:
            first[line.source] = min(depth[line.target], first.get(line.source, len(boxes)))
        for number, user in first.items():
            if boxes[number].kind == "input":
                depth[number] = user - 1
        texts = [box.texts() for box in boxes]
        self.width = [max(map(len, t)) * _CHARACTER + 18 for t in texts]
        self.height = [16.0 * len(t) + 10 for t in texts]
        self.layers: list[list[int]] = [[] for _ in range(max(depth, default=0) + 1)]
        for number, layer in enumerate(depth):
            self.layers[layer].append(number)
        self.above: list[list[int]] = [[] for _ in boxes]
        self.below: list[list[int]] = [[] for _ in boxes]
        self.routes = [self._route(line, depth) for line in lines]
        self.x = [0.0] * len(self.width)

    def _route(self, line: Line, depth: Sequence[int]) -> list[int]:
        route = [line.source]
        for layer in range(depth[line.source] + 1, depth[line.target]):
            self.layers[layer].append(len(self.width))
            route.append(len(self.width))
            self.width.append(8.0)
            self.height.append(0.0)
            self.above.append([])
            self.below.append([])
        route.append(line.target)
        for upper, lower in pairwise(route):
            self.below[upper].append(lower)
            self.above[lower].append(upper)
        return route

    def order(self) -> None:
        """Sort each layer by the positions of neighbours, down and up, several times."""
        rank = [0.0] * len(self.width)
        for layer in self.layers:
            for index, point in enumerate(layer):
                rank[point] = float(index)
        for sweep in range(_SWEEPS):
            down = sweep % 2 == 0
            neighbours = self.above if down else self.below
            for layer in self.layers if down else reversed(self.layers):
                layer.sort(key=lambda p, n=neighbours: _mean([rank[q] for q in n[p]], rank[p]))
                for index, point in enumerate(layer):
                    rank[point] = float(index)

    def balance(self) -> None:
        """Move each point near the middle of its neighbours, without overlaps in its layer."""
        for layer in self.layers:
            at = 0.0
            for point in layer:
                self.x[point] = at + self.width[point] / 2
                at += self.width[point] + _GAP
        for sweep in range(2 * _SWEEPS):
            down = sweep % 2 == 0
            neighbours = self.above if down else self.below
            for layer in self.layers if down else reversed(self.layers):
                wanted = [_mean([self.x[q] for q in neighbours[p]], self.x[p]) for p in layer]
                self._settle(layer, wanted)
        left = min(self.x[p] - self.width[p] / 2 for p in range(len(self.x))) if self.x else 0.0
        self.x = [x - left + _MARGIN for x in self.x]

    def _settle(self, layer: Sequence[int], wanted: Sequence[float]) -> None:
        """Move the points of a layer as near to their wanted positions as their order allows."""
        # The sum of wanted positions, width, points.
        groups: list[tuple[float, float, list[int]]] = []
        for point, wish in zip(layer, wanted, strict=True):
            groups.append((wish, self.width[point], [point]))
            while len(groups) > 1:
                (w1, s1, p1), (w2, s2, p2) = groups[-2:]
                m1, m2 = w1 / len(p1), w2 / len(p2)
                if m2 - m1 >= (s1 + s2) / 2 + _GAP:
                    break
                groups[-2:] = [(w1 + w2, s1 + s2 + _GAP, p1 + p2)]
        for wish, size, points in groups:
            at = wish / len(points) - size / 2
            for point in points:
                self.x[point] = at + self.width[point] / 2
                at += self.width[point] + _GAP


def _mean(values: Sequence[float], otherwise: float) -> float:
    return sum(values) / len(values) if values else otherwise


def place(boxes: Sequence[Box], lines: Sequence[Line]) -> Placement:
    """Place boxes in layers, from top to bottom, and route the lines between them."""
    points = _Points(boxes, lines)
    points.order()
    points.balance()
    y = [0.0] * len(points.width)
    top = _MARGIN
    for layer in points.layers:
        height = max((points.height[p] for p in layer), default=0.0)
        for point in layer:
            y[point] = top + height / 2
        top += height + _BETWEEN
    placed = [
        PlacedBox(points.x[n], y[n], points.width[n], points.height[n]) for n in range(len(boxes))
    ]
    curves: list[list[tuple[float, float]]] = []
    for route in points.routes:
        first, last = route[0], route[-1]
        inner = [(points.x[p], y[p]) for p in route[1:-1]]
        start = (points.x[first], y[first] + points.height[first] / 2)
        end = (points.x[last], y[last] - points.height[last] / 2)
        curves.append([start, *inner, end])
    width = max((p.x + p.width / 2 for p in placed), default=0.0)
    width = max([width, *(x for curve in curves for x, _ in curve)]) + _MARGIN
    return Placement(placed, curves, width, top - _BETWEEN + _MARGIN)
