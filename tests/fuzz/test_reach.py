"""What a campaign reached of the rules of schedules: lines, branches, and runs added up."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

from fuzz.reach import Recorder, functions_of, written

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


def loaded(folder: Path) -> ModuleType:
    path = folder / "rules.py"
    path.write_text(TEXT)
    spec = importlib.util.spec_from_file_location("rules", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_lines_and_branches_are_told(tmp_path: Path) -> None:
    module = loaded(tmp_path)
    recorder = Recorder(tmp_path)
    with recorder:
        module.sign(5)
        module.last(0)
    module.sign(-1)  # which nobody records
    arcs = recorder.new()
    assert recorder.new() == []
    found = {f.name: f for f in functions_of("rules.py", TEXT, [arc[1:] for arc in arcs])}
    assert set(found) == {"sign", "Rule.unused", "last"}
    sign = found["sign"]
    assert sign.lines - sign.reached == {4, 6}
    assert (sign.branches, sign.missed) == (4, ((3, True), (5, True)))
    assert not found["Rule.unused"].reached
    assert found["last"].missed == ((17, True),)


def test_runs_are_added_up_until_a_module_changes(tmp_path: Path) -> None:
    folder = tmp_path / "rules"
    folder.mkdir()
    module = loaded(folder)
    report = tmp_path / "reach.txt"
    for x, total in (
        (5, "1 of 3 functions, 3 of 9 lines, 2 of 6 branches"),
        (12, None),
        (-2, None),
    ):
        recorder = Recorder(folder)
        with recorder:
            module.sign(x)
        said = written(report, recorder.new(), folder)
        assert total is None or said == total
    assert said == "1 of 3 functions, 5 of 9 lines, 4 of 6 branches"
    text = report.read_text()
    assert text.startswith(f"{said}\n")
    assert "rules.py Rule.unused: not reached" in text
    assert f"\nrules.py: {said}\n" in text
    assert "sign" not in text
    (folder / "rules.py").write_text(TEXT + "\n")
    assert written(report, [], folder) == "0 of 3 functions, 0 of 9 lines, 0 of 6 branches"
