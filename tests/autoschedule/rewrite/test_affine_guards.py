"""Guards of windows are ranges of each axis, whatever else a value computes."""

from __future__ import annotations

import pytest

from tests.autoschedule.agreement import draw, interpret_kinds, read_function

INSIDE = "i + r >= 1 and i + r <= 8 and j + s >= 1 and j + s <= 40"


@pytest.mark.parametrize(
    ("term", "guard", "kind"),
    [
        ("x[i + r - 1, j + s - 1]", INSIDE, "windows"),
        ("T.exp(x[i + r - 1, j + s - 1])", INSIDE, "windows"),
        ("x[i + r - 1, j + s - 1]", f"{INSIDE} and i + j > 3", "element-wise"),
    ],
)
def test_borders_of_windows(term: str, guard: str, kind: str) -> None:
    func = read_function(
        'x: T.Buffer((8, 40), "float32"), o: T.Buffer((8, 40), "float32")',
        f"""
for i, j in T.grid(8, 40):
    o[i, j] = T.float32(0)
    for r, s in T.grid(3, 3):
        if {guard}:
            o[i, j] += {term}
""",
    )
    assert interpret_kinds(func, draw(func)) == [kind]
