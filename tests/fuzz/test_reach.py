"""What a campaign reached of the rules of schedules: lines, branches, and runs added up."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import pytest

from fuzz.default_schedule import random_decisions
from fuzz.default_schedule.random_decisions import DrawnSource, new_candidates
from fuzz.reach import VERIFIERS, Recorder, functions_of, written
from loomir.autoschedule.driver import schedule_function
from loomir.autoschedule.ir.decision import decisions_from
from loomir.script import tir as T
from loomir.target import Target

TEXT = """
def sign(x):
    if x < 0:
        return -1
    while x > 9:
        x //= 10
    return [y for y in (x,)]


class Rule:
    def unused(self):
        return 1


def last(x):
    if (
        x
        > 1
    ):
        x += 1
"""


def loaded(recorder: Recorder) -> ModuleType:
    path = recorder.folder / "rules.py"
    path.write_text(TEXT)
    module = ModuleType("rules")
    recorder.run(module, path)
    return module


def test_lines_and_branches_are_told(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path)
    module = loaded(recorder)
    assert recorder.new() == []
    module.sign(5)
    module.last(0)
    ran = recorder.new()
    assert recorder.new() == []
    found = {f.name: f for f in functions_of("rules.py", TEXT, [place[1:] for place in ran])}
    assert set(found) == {"sign", "Rule.unused", "last"}
    sign = found["sign"]
    assert sign.lines - sign.reached == {4, 6}
    assert (sign.branches, sign.missed) == (4, ((3, True), (5, True)))
    assert not found["Rule.unused"].reached
    assert found["last"].missed == ((16, True),)
    assert module.sign(-2) == -1
    assert ("rules.py", 4, 0) in recorder.new()


def test_notes_change_no_result(tmp_path: Path) -> None:
    text = '''
def count(items, most):
    """Count."""
    found, seen = 0, []

    def inner(x):
        nonlocal found
        if x in seen:
            return False
        elif x > most:
            found += 100
        else:
            seen.append(x)
            found += 1
        return True

    while items:
        try:
            if not inner(items.pop()):
                break
        except TypeError:
            found = -1
        finally:
            found += 1000
    else:
        found += 10000
    while True:
        for x in ():
            found = x
        break
    with_default = lambda y=found: y
    return with_default(), inner.__doc__, count.__doc__
'''
    path = tmp_path / "rules.py"
    path.write_text(text)
    recorder = Recorder(tmp_path)
    changed, plain = ModuleType("rules"), ModuleType("rules")
    recorder.run(changed, path)
    exec(text, vars(plain))  # noqa: S102 - the text above
    for items in ([1, 2, 3], [1, 1, 2], [9, 1], [None, 1], []):
        assert changed.count(list(items), 5) == plain.count(list(items), 5)
    found = {f.name: f for f in functions_of("rules.py", text, [p[1:] for p in recorder.new()])}
    assert set(found) == {"count", "count.inner"}
    assert not found["count.inner"].missed
    assert not found["count"].missed
    assert found["count"].lines - found["count"].reached == {29}


def test_runs_are_added_up_until_a_module_changes(tmp_path: Path) -> None:
    folder = tmp_path / "rules"
    folder.mkdir()
    report = tmp_path / "reach.txt"
    said = ""
    for x, total in (
        (5, "1 of 3 functions, 3 of 8 lines, 2 of 6 branches"),
        (12, None),
        (-2, None),
    ):
        recorder = Recorder(folder)
        loaded(recorder).sign(x)
        said = written(report, recorder.new(), folder)
        assert total is None or said == total
    assert said == "1 of 3 functions, 5 of 8 lines, 4 of 6 branches"
    text = report.read_text()
    assert text.startswith(f"{said}\n")
    assert "rules.py Rule.unused: not reached" in text
    assert f"\nrules.py: {said}\n" in text
    assert "sign" not in text
    (folder / "rules.py").write_text(TEXT + "\n")
    assert written(report, [], folder) == "0 of 3 functions, 0 of 8 lines, 0 of 6 branches"


def test_modules_that_only_look_for_mistakes_are_left_out(tmp_path: Path) -> None:
    folder = tmp_path / "rules"
    folder.mkdir()
    loaded(Recorder(folder))
    (folder / f"{VERIFIERS}rules.py").write_text(TEXT)
    said = written(tmp_path / "reach.txt", [(f"{VERIFIERS}rules.py", 3, 0)], folder)
    assert said == "0 of 3 functions, 0 of 8 lines, 0 of 6 branches"


def test_candidates_are_named_that_were_never_chosen(tmp_path: Path) -> None:
    folder = tmp_path / "rules"
    folder.mkdir()
    loaded(Recorder(folder))
    report = tmp_path / "reach.txt"
    offered = [("rules.py", "tile", each, False) for each in ("[1, 2]", "[2, 2]", "[4, 1]")]
    written(report, [], folder, [*offered, ("rules.py", "tile", "[1, 2]", True)])
    said = written(report, [], folder, [("rules.py", "tile", "[4, 1]", True)])
    assert said.endswith(", 2 of 3 candidates")
    assert "\nrules.py tile: candidates never chosen: [2, 2]\n" in report.read_text()


@T.prim_func
def doubled(x: T.Buffer((4096,), "float32"), y: T.Buffer((4096,), "float32")):
    for i in range(4096):
        y[i] = x[i] * T.float32(2)


def test_candidates_are_noted_where_rules_decide(monkeypatch: pytest.MonkeyPatch) -> None:
    # What other tests had drawn is new here.
    for name in ("_new", "_known"):
        monkeypatch.setattr(random_decisions, name, set())
    target = Target("haswell")
    found: set[tuple[str, str, str, bool]] = set()
    for draws in (False, True, True, True):
        with decisions_from(DrawnSource(len(found), draws=draws)):
            schedule_function(doubled, target)
        found |= set(new_candidates())
    places = {(module, name) for module, name, _, _ in found}
    assert ("builders/thread_partition.py", "tasks") in places
    assert ("rules/elementwise/elementwise.py", "vector") in places
    assert ("rule_table.py", "rule", '"element-wise"', True) in found
    assert ("rule_table.py", "rule", '"loops"', False) in found
