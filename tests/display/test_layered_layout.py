"""The layout of graphs: boxes below what they use, none over another, lines clear of boxes."""

from __future__ import annotations

import random

import pytest

from loomir.display.layered_layout import Box, Line, Placement, place


def random_graph(seed: int, count: int) -> tuple[list[Box], list[Line]]:
    rng = random.Random(seed)
    boxes = [
        Box("b" * rng.randint(1, 20), "(1, 2)" * rng.randint(0, 1), "op" if n else "input")
        for n in range(count)
    ]
    lines = [
        Line(source, target)
        for target in range(1, count)
        for source in sorted({rng.randrange(target) for _ in range(rng.randint(1, 3))})
    ]
    return boxes, lines


def overlaps(made: Placement) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    for i, a in enumerate(made.boxes):
        for j, b in enumerate(made.boxes[:i]):
            beside = abs(a.x - b.x) >= (a.width + b.width) / 2
            below = abs(a.y - b.y) >= (a.height + b.height) / 2
            if not beside and not below:
                found.append((i, j))
    return found


@pytest.mark.parametrize("seed", range(12))
def test_boxes_stand_clear_below_what_they_use(seed: int):
    boxes, lines = random_graph(seed, 5 + 3 * seed)
    made = place(boxes, lines)
    assert overlaps(made) == []
    for line, curve in zip(lines, made.curves, strict=True):
        upper, lower = made.boxes[line.source], made.boxes[line.target]
        assert upper.y + upper.height / 2 < lower.y - lower.height / 2
        ys = [y for _, y in curve]
        assert ys == sorted(ys)
        assert all(0 <= x <= made.width and 0 <= y <= made.height for x, y in curve)
    for at in made.boxes:
        assert at.width / 2 <= at.x <= made.width - at.width / 2


@pytest.mark.parametrize("seed", range(6))
def test_lines_that_pass_a_layer_keep_clear_of_its_boxes(seed: int):
    boxes, lines = random_graph(seed, 20)
    made = place(boxes, lines)
    for curve in made.curves:
        for x, y in curve[1:-1]:
            for at in made.boxes:
                inside = abs(x - at.x) < at.width / 2 and abs(y - at.y) < at.height / 2
                assert not inside


def test_two_branches_stand_beside_each_other_and_meet_in_the_middle():
    boxes = [Box("x", "", "input"), Box("lefty", "", "op"), Box("right", "", "op")]
    boxes += [Box("join", "", "op")]
    lines = [Line(0, 1), Line(0, 2), Line(1, 3), Line(2, 3)]
    x, left, right, join = place(boxes, lines).boxes
    assert left.y == right.y
    assert left.x < x.x < right.x
    assert abs(join.x - x.x) < 1


def test_nothing_is_placed_where_there_is_nothing():
    made = place([], [])
    assert made.boxes == made.curves == []
