"""What ``loomir cost`` counts, of loops and of graphs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.test_commands import EXAMPLES, invoke

GRAPH = """\
from loomir.script import ir as I, relax as R, tir as T

ROWS = 4

@I.ir_module
class M:
    @T.prim_func
    def double(a: T.handle, b: T.handle):
        n = T.int64()
        A = T.match_buffer(a, (n, 8), "float32")
        B = T.match_buffer(b, (n, 8), "float32")
        for i, j in T.grid(n, 8):
            B[i, j] = A[i, j] + A[i, j]

    @R.function(private=True)
    def twice(x: R.Tensor((ROWS, 8), "float32")):
        with R.dataflow():
            y = R.call_tir(M.double, (x,), R.Tensor((ROWS, 8), "float32"))
            z = R.call_tir(M.double, (y,), R.Tensor((ROWS, 8), "float32"))
            R.output(z)
        return z

    @R.function
    def main(x: R.Tensor((ROWS, 8), "float32"), up: R.Tensor((), "bool")):
        if up:
            y = M.twice(x)
        else:
            y = x
        z = M.twice(y)
        return z
"""


def facts(*words: object) -> dict[str, Any]:
    status, output = invoke("cost", *map(str, words), "--json")
    assert status == 0, output
    return json.loads(output)


@pytest.mark.parametrize("rows", [4, 7])
def test_a_graph_costs_what_it_calls(tmp_path: Path, rows: int):
    path = tmp_path / "graph.py"
    path.write_text(GRAPH)
    found = facts(path, "--size", f"ROWS={rows}")
    (kernel,) = found["M.main kernels"]
    assert (kernel["name"], kernel["calls"], kernel["flops"]) == ("double", 4, rows * 8)
    total = found["M.main"]
    assert (total["flops"], total["exact"]) == (4 * rows * 8, False)
    assert total["bytes_touched"] == 4 * 2 * rows * 8 * 4
    assert total["bytes_allocated"] >= rows * 8 * 4


def test_kernels_of_hand_written_loops_take_sizes_from_their_arguments():
    found = facts(EXAMPLES / "relax" / "mlp.py", "--size", "batch=3")
    assert [k["flops"] for k in found["MLP.main kernels"]] == [3 * 384, 48, 3 * 128]
    assert found["MLP.main"]["exact"]


def test_sizes_that_a_graph_needs_are_asked_for():
    status, output = invoke("cost", str(EXAMPLES / "relax" / "cnn.py"))
    assert status == 1
    assert "error[TIR0601]: the size 'batch' of 'main' is not given" in output
    assert "--size batch=64" in output


def test_constants_of_the_file_are_sizes_too():
    (small, large) = (facts(EXAMPLES / "matmul.py", "--size", f"N={n}") for n in (8, 16))
    assert [f["matmul"]["flops"] for f in (small, large)] == [2 * 8**3, 2 * 16**3]
    status, output = invoke("cost", str(EXAMPLES / "matmul.py"), "--size", "Q=3")
    assert status == 1
    assert "error[CLI0006]: --size Q" in output


def test_functions_of_other_sizes_stand_in_one_file(tmp_path: Path):
    path = tmp_path / "two.py"
    body = "    x = T.match_buffer(a, ({0},), 'float32')\n    x[0] = x[0] + x[0]\n"
    one = "@T.prim_func\ndef f{0}(a: T.handle, {0}: T.int32):\n" + body
    path.write_text("from loomir.script import tir as T\n" + one.format("n") + one.format("m"))
    found = facts(path, "--size", "n=5", "--size", "m=6")
    assert (found["fn"]["flops"], found["fm"]["flops"]) == (1, 1)


@pytest.mark.parametrize("option", ["--size", "--arg"])
@pytest.mark.parametrize("command", ["run", "explain", "bisect", "cost", "build"])
def test_sizes_have_one_name_in_every_command(tmp_path: Path, command: str, option: str):
    more = ["-o", str(tmp_path / "out.loom")] if command == "build" else []
    words = [f"{EXAMPLES / 'matmul.py'}:matmul", option, "N=8", *more]
    assert invoke(command, *words)[0] == 0
    status, output = invoke(command, *words[:1], option, "Q=8", *more)
    assert (status, "CLI0006" in output) == (1, True)
