"""A notebook with a real kernel: each value shows once."""

from __future__ import annotations

from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

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
}


@pytest.fixture(scope="module")
def outputs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Any]]:
    """Run the cells in a kernel, once; return what each shows."""
    cells = [nbformat.v4.new_code_cell(source) for source in CELLS.values()]
    notebook = nbformat.v4.new_notebook(cells=cells)
    folder = str(tmp_path_factory.mktemp("notebook"))
    client = NotebookClient(
        notebook, timeout=120, kernel_name="python3", resources={"metadata": {"path": folder}}
    )
    client.execute()
    return dict(zip(CELLS, (cell.outputs for cell in notebook.cells), strict=True))


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
