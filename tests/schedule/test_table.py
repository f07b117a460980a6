"""What is derived from the table of primitives is complete."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest

from loomir.schedule import PRIMITIVES, Schedule
from loomir.schedule.table import Kind

TESTS = Path(__file__).parent
# What a schedule has besides primitives.
OTHERS = {
    "can_decompose_padding", "copy", "fork_seed", "func_working_on", "get", "get_block", "get_sref", "mod", "perform",
    "remove_rv", "seed", "show", "state", "trace", "work_on",
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(PRIMITIVES))
def test_a_primitive_has_a_method_with_its_parameters(name: str):
    row = PRIMITIVES[name]
    method = inspect.signature(getattr(Schedule, name))
    taken = {p.name: p for p in list(method.parameters.values())[1:]}
    assert list(taken) == list(row.params)
    for param in row.params.values():
        if param.kind is Kind.LOOPS:
            assert taken[param.name].kind is inspect.Parameter.VAR_POSITIONAL
        else:
            assert taken[param.name].default == param.default, param.name
    written = inspect.getsource(getattr(Schedule, name)).split('"""')[1]
    assert row.doc.splitlines()[0] == written.strip().splitlines()[0]


def test_a_schedule_has_no_other_methods():
    public = {name for name in vars(Schedule) if not name.startswith("_")}
    assert public - OTHERS == set(PRIMITIVES)


@pytest.mark.parametrize("name", sorted(PRIMITIVES))
def test_a_primitive_is_tested_and_refuses_something(name: str):
    """Each is called in the tests of its family, and what edits has a golden text there."""
    family = PRIMITIVES[name].function.__module__.rsplit(".", 1)[1]
    text = (TESTS / "primitive" / f"test_{family}.py").read_text(encoding="utf-8")
    called = re.search(rf'\.{name}\(|"{name}"', text)
    assert called
    assert "pytest.raises(ScheduleError" in text
    if not PRIMITIVES[name].is_query:
        assert "golden(" in text
