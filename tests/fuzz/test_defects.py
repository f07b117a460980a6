"""Programs with one defect each: both engines find it, and say the same of it."""

from __future__ import annotations

import pytest

from fuzz.defects import KINDS, Defect, defect_of_seed, trouble


@pytest.mark.parametrize("kind", KINDS)
def test_defects_are_found(kind: str) -> None:
    first = list(KINDS).index(kind)
    found: list[str] = []
    for seed in range(1000 + first, 1104, len(KINDS)):
        defect = defect_of_seed(seed)
        assert defect.kind == kind
        what = trouble(defect)
        if what:
            found.append(f"seed {seed}: {what}\n{defect.text}")
    assert not found, "\n".join(found)


def test_what_is_not_found_is_told() -> None:
    defect = defect_of_seed(0)
    good = Defect(defect.kind, defect.text, defect.good, defect.good, defect.code, defect.words)
    assert trouble(good) == "native finds nothing"
    bad = Defect(defect.kind, defect.text, defect.bad, defect.bad, defect.code, defect.words)
    assert "without the defect" in trouble(bad)
    other = Defect(defect.kind, defect.text, defect.good, defect.bad, defect.code, ("nothing",))
    assert "something else" in trouble(other)


def test_a_seed_gives_one_program() -> None:
    for seed in range(40):
        assert defect_of_seed(seed).text == defect_of_seed(seed).text
