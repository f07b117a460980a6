"""A notebook with a real kernel: each value shows once."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import nbformat
import numpy as np
import pytest
from nbclient import NotebookClient

from tests.display.screen import PROGRAM, look, page_of

CELLS = {
    "set up": """
import loomir
from loomir.script import ir as I, relax as R, tir as T

@T.prim_func
def scale(x: T.Buffer((8,), "float32"), y: T.Buffer((8,), "float32")):
    for i in range(8):
        with T.sblock("B"):
            v = T.axis.spatial(8, i)
            y[v] = x[v] * 2.0

@I.ir_module
class Net:
    @R.function
    def main(x: R.Tensor((2, 8), "float32")):
        y = R.nn.relu(x)
        return y

schedule = loomir.Schedule(scale)
""",
    "function": "scale",
    "function.show": "scale.show()",
    "module": "Net",
    "module.show": "Net.show()",
    "graph": 'Net["main"]',
    "schedule": "schedule",
    "schedule.show": "schedule.show()",
    "loops": 'schedule.get_loops("B")',
    "trace": "schedule.trace",
    "trace.show": "schedule.trace.show()",
    "executable": "loomir.compile(scale)",
    "a wrong call": """
import numpy as np
def work():
    return loomir.compile(scale)(np.ones(7, "float32"), np.ones(8, "float32"))
work()
""",
    "a wrong program": """
@T.prim_func
def wrong(x: T.Buffer((8,), "float32")):
    x[0] = missing
""",
    "a wrong name": 'loomir.compile(scale)["scal"]',
    "profile": 'loomir.compile(scale).profile(np.ones(8, "float32"), np.ones(8, "float32"))',
    "a wrong formula": """
from loomir import te
def formula(i):
    return [][i]
te.compute((8,), formula)
""",
    "a bug": """
import tempfile
tempfile.tempdir = "."
from loomir.support.diagnostics import InternalError
def broken():
    raise InternalError("two and two are five")
broken()
""",
}


@pytest.fixture(scope="module")
def outputs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Any]]:
    """Run the cells in a kernel, once; return what each shows."""
    cells = [nbformat.v4.new_code_cell(source) for source in CELLS.values()]
    notebook = nbformat.v4.new_notebook(cells=cells)
    folder = str(tmp_path_factory.mktemp("notebook"))
    client = NotebookClient(
        notebook,
        timeout=120,
        kernel_name="python3",
        allow_errors=True,
        resources={"metadata": {"path": folder}},
    )
    client.execute()
    return dict(zip(CELLS, (cell.outputs for cell in notebook.cells), strict=True))


def text_of_error(outputs: list[Any]) -> str:
    (shown,) = outputs
    assert shown.output_type == "error"
    return re.sub(r"\x1b\[[\d;]*m", "", "\n".join(shown.traceback))


def test_a_wrong_call_shows_the_diagnostic_and_the_cells(outputs: dict[str, list[Any]]):
    text = text_of_error(outputs["a wrong call"])
    assert text.startswith("error[RUN0005]: the extent of axis 0 of x must be 8, not 7")
    assert "--> Cell In[13]:3:12" in text
    assert text.endswith("called from:\n  Cell In[13]:4, in module")
    assert "loomir/" not in text
    assert "ipykernel" not in text


def test_a_wrong_program_shows_the_diagnostic(outputs: dict[str, list[Any]]):
    text = text_of_error(outputs["a wrong program"])
    assert text.startswith("error[SCR0003]: 'missing' is not defined")
    assert "--> Cell In[14]:3:12" in text
    assert "called from" not in text
    assert "ipykernel" not in text


def test_an_error_without_a_place_has_that_of_the_cell(outputs: dict[str, list[Any]]):
    text = text_of_error(outputs["a wrong name"])
    assert text.startswith("error[RUN0121]")
    assert "--> Cell In[15]:1:1" in text


def test_an_error_of_the_users_own_formula_shows_his_frames_only(outputs: dict[str, list[Any]]):
    text = text_of_error(outputs["a wrong formula"])
    assert "return [][i]" in text
    assert "te.compute((8,), formula)" in text
    assert "loomir/" not in text
    assert "hidden" not in text


def test_a_bug_of_loomir_shows_where_its_traceback_is(outputs: dict[str, list[Any]]):
    text = text_of_error(outputs["a bug"])
    assert text.startswith("internal error: two and two are five\nThis is a bug in Loomir")
    found = re.search(r"The traceback is in (\S+\.txt), which belongs in the report", text)
    assert found is not None
    assert "two and two are five" in Path(found[1]).read_text(encoding="utf-8")


PAGES = ("function", "module", "graph", "schedule", "trace", "executable", "profile")


@pytest.mark.skipif(PROGRAM is None, reason="needs Chromium or Chrome")
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_pages_can_be_seen_in_a_browser(theme: str, outputs: dict[str, list[Any]], tmp_path: Path):
    shown = {name: outputs[name][0].data["text/html"] for name in PAGES}
    parts, picture = look(page_of(shown, theme), tmp_path, theme)
    paper = {"light": 255, "dark": 17}[theme]
    assert set(parts) == set(PAGES)
    for name, part in parts.items():
        assert part["text"], name
        assert part["wide"] == [], name
        assert part["outside"] == [], name
        top, left = round(part["y"]), round(part["x"])
        area = picture[top : top + round(part["height"]), left : left + round(part["width"])]
        assert area.shape[0] > 20, name
        is_ink = np.abs(area.astype(int) - paper).max(axis=2) > 40
        assert 0.002 < is_ink.mean() < 0.6, name
        strongest = np.abs(area.astype(int).mean(axis=2) - paper).max()
        assert strongest > 120, f"{name} is too faint on {theme}"
    for name in ("graph", "module"):
        assert parts[name]["drawings"] >= 1
    profile = parts["profile"]
    top, left = round(profile["y"]), round(profile["x"])
    area = picture[top : top + round(profile["height"]), left : left + round(profile["width"])]
    colourful = area.max(axis=2).astype(int) - area.min(axis=2)
    assert (colourful > 40).sum() > 50, "the bars have a colour"


@pytest.mark.parametrize(
    ("cell", "holds"),
    [
        ("function", '<table class="loomir-table">'),
        ("function.show", "loomir-d"),
        ("module", "<svg"),
        ("module.show", "loomir-d"),
        ("graph", "<svg"),
        ("schedule", "loomir-row"),
        ("schedule.show", "loomir-d"),
        ("trace", "apply_func"),
        ("trace.show", "apply_func"),
        ("executable", "float32 buffer"),
    ],
)
def test_a_value_shows_once_as_a_page(cell: str, holds: str, outputs: dict[str, list[Any]]):
    (shown,) = outputs[cell]
    assert shown.output_type in ("display_data", "execute_result")
    assert holds in shown.data["text/html"]
    assert shown.data["text/plain"]


def test_random_variables_show_what_they_name(outputs: dict[str, list[Any]]):
    (shown,) = outputs["loops"]
    assert shown.data["text/plain"] == "[<loop i, 8 times>]"
