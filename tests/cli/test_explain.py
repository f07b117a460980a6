"""``loomir explain``: choices, work, and measured times."""

from __future__ import annotations

import importlib
import json
from pathlib import Path

import pytest

from loomir.runtime.report.profile import Roof
from tests.cli.test_commands import EXAMPLES, invoke

CHAIN = """\
from loomir.script import ir as I, relax as R, tir as T

@T.prim_func
def double(a: T.handle, b: T.handle):
    n = T.int64()
    A = T.match_buffer(a, (n, 8), "float32")
    B = T.match_buffer(b, (8,), "float32")
    for j, i in T.grid(8, n):
        with T.sblock("total"):
            vj, vi = T.axis.remap("SR", [j, i])
            with T.init():
                B[vj] = T.float32(0.0)
            B[vj] = B[vj] + T.exp(A[vi, vj]) * T.float32(2.0)

@T.prim_func
def by_hand(A: T.Buffer((64,), "float32")):
    for i in T.parallel(8):
        for j in T.vectorized(8):
            A[i * 8 + j] = A[i * 8 + j] + T.float32(1.0)

@T.prim_func
def asked(A: T.Buffer((64,), "float32")):
    for i in T.parallel(64):
        A[i] = A[i] + T.float32(1.0)
    for i in T.parallel(8):
        n = T.float32(0)
        while n < A[i]:
            n = n + T.float32(1)
        A[i] = n

@I.ir_module
class Graph:
    @R.function
    def main(x: R.Tensor(("n", 16), "float32")):
        with R.dataflow():
            y = R.nn.softmax(x, axis=-1)
            R.output(y)
        return y
"""


@pytest.fixture
def chain(tmp_path: Path) -> Path:
    path = tmp_path / "chain.py"
    path.write_text(CHAIN)
    return path


def facts(*words: str) -> dict[str, dict[str, dict[str, object]]]:
    status, output = invoke("explain", "--json", *words)
    assert status == 0, output
    return json.loads(output)


def test_a_product_is_explained_and_measured():
    where = f"{EXAMPLES / 'matmul.py'}:matmul"
    status, output = invoke("explain", where, "--size", "N=128")
    assert status == 0, output
    assert "1. matrix product: C" in output
    assert "work: 4,194,304 operations, 196,608 bytes; at best" in output
    assert "% of the roof" in output
    found = facts(where, "--size", "N=128")["matmul"]["matmul"]
    seconds, predicted, roof = (found[k] for k in ("seconds", "predicted", "roof"))
    assert isinstance(seconds, float)
    assert isinstance(predicted, float)
    assert predicted > 0
    assert roof == predicted / seconds


def test_symbolic_sizes_give_work_once_they_are_known(chain: Path):
    where = f"{chain}:double"
    status, output = invoke("explain", where, "--no-measure")
    assert status == 0
    assert "work: depends on sizes; give them with --size" in output
    assert "measured" not in output
    (group,) = facts(where, "--no-measure", "--size", "n=100")["double"]["double"]["groups"]
    # An exponential, a product and a sum for each element; A and B, once each.
    assert (group["flops"], group["bytes"]) == (3 * 800, 4 * 808)
    found = facts(where, "--size", "n=100")["double"]["double"]
    assert found["sizes"] == {"n": 100}
    assert "predicted" in found


def test_every_kernel_of_a_graph_is_explained(chain: Path):
    found = facts(f"{chain}:Graph", "--size", "n=32")["Graph"]
    assert all("seconds" in kernel and kernel["groups"] for kernel in found.values())
    stages = [s for k in found.values() for group in k["groups"] for s in group["stages"]]
    assert len(stages) >= 1


def test_loops_of_a_program_that_says_how_they_run_are_not_arranged(chain: Path):
    status, output = invoke("explain", f"{chain}:by_hand", "--no-measure")
    assert status == 0
    assert "runs as written, since somebody arranged it" in output
    assert "loops make a place of A together" in output


def test_it_says_which_loop_kinds_were_kept(chain: Path):
    status, output = invoke("explain", f"{chain}:asked", "--no-measure")
    assert status == 0
    assert "kept because the program asks: T.parallel on i" in output
    assert "decided by the rules instead: T.parallel on i" in output


def test_other_machines_are_explained_but_not_measured():
    where = f"{EXAMPLES / 'matmul.py'}:matmul"
    status, output = invoke("explain", where, "--target", "neoverse-n1", "--size", "N=64")
    assert status == 0, output
    assert "vectors of 128 bits" in output
    assert "not measured: this is another machine" in output
    assert "% of the roof" not in output


def test_the_scheduled_program_is_printed():
    where = f"{EXAMPLES / 'matmul.py'}:matmul"
    status, output = invoke("explain", where, "--no-measure", "--script", "--size", "N=64")
    assert status == 0
    assert '"tir.is_scheduled": True' in output


@pytest.mark.parametrize(
    ("words", "code", "remedy"),
    [
        (("nowhere.py",), "CLI0001", "path of a Python file"),
        ((f"{EXAMPLES / 'matmul.py'}:matmull",), "CLI0002", "did you mean 'matmul'?"),
        ((str(EXAMPLES / "matmul.py"), "--size", "N"), "CLI0005", "--size N=1024"),
        ((str(EXAMPLES / "matmul.py"), "--size", "M=4"), "CLI0006", "--size M: nothing"),
        ((str(EXAMPLES / "matmul.py"), "--target", "z81"), "TGT0001", ""),
    ],
)
def test_a_mistake_on_the_command_line_is_explained(words: tuple[str, ...], code: str, remedy: str):
    status, output = invoke("explain", *words)
    assert status == 1
    assert f"error[{code}]" in output
    assert remedy in output


TWO = """\
from loomir.script import tir as T

@T.prim_func
def two(a: T.handle, b: T.Buffer((64, 64), "float32"), c: T.handle, e: T.handle):
    n = T.int64()
    A = T.match_buffer(a, (n, 64), "float32")
    C = T.match_buffer(c, (n, 64), "float32")
    E = T.match_buffer(e, (64, n), "float32")
    D = T.alloc_buffer((n, 64), "float32")
    for i, j, k in T.grid(n, 64, 64):
        with T.sblock("D"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                D[vi, vj] = T.float32(0)
            D[vi, vj] += A[vi, vk] * b[vk, vj]
    for i, j, k in T.grid(n, 64, 64):
        with T.sblock("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] += D[vi, vk] * b[vk, vj]
    for j, i in T.grid(64, n):
        with T.sblock("E"):
            vj, vi = T.axis.remap("SS", [j, i])
            E[vj, vi] = D[vi, vj]
"""


def test_each_of_several_groups_is_measured_by_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / "two.py").write_text(TWO)
    where = f"{tmp_path / 'two.py'}:two"
    found = facts(where, "--size", "n=96")["two"]["two"]
    groups = found["groups"]
    assert isinstance(groups, list)
    assert [g["stages"] for g in groups] == [["D"], ["C"], ["E"]]
    assert all(g["seconds"] > 0 for g in groups)
    assert all(g["roof"] == g["predicted"] / g["seconds"] for g in groups)
    times = iter(g["seconds"] for g in groups)  # those that were measured
    module = importlib.import_module("loomir.cli.explain")
    monkeypatch.setattr(module._Explainer, "_time_of_group", lambda *_: next(times))
    status, output = invoke("explain", where, "--size", "n=96")
    assert status == 0
    assert output.count("     by itself: ") == 3
    _, output = invoke("explain", where, "--no-measure", "--size", "n=96")
    assert "by itself" not in output


PRODUCTS = """\
from loomir import te

def product(dtype, out):
    x, w = te.placeholder((256, 256), dtype), te.placeholder((256, 256), dtype)
    k = te.reduce_axis((0, 256))
    total = te.compute(
        (256, 256), lambda i, j: te.sum(x[i, k].astype(out) * w[k, j].astype(out), axis=k)
    )
    return te.create_prim_func([x, w, total])

single, double = product("float32", "float32"), product("float64", "float64")
bytes, brain = product("int8", "int32"), product("bfloat16", "float32")
"""


def test_least_times_follow_how_much_one_instruction_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    # A machine that computes slowly, whatever this one does at the moment.
    module = importlib.import_module("loomir.cli.explain")
    monkeypatch.setattr(module, "find_roof", lambda compile: Roof(1e12, 1e9))
    path = tmp_path / "products.py"
    path.write_text(PRODUCTS)
    groups = {n: f["main"]["groups"][0] for n, f in facts(str(path)).items() if n != "ok"}  # type: ignore[index]
    least = {name: group["predicted"] for name, group in groups.items()}
    assert {group["limit"] for group in groups.values()} == {"arithmetic"}
    assert least["double"] == pytest.approx(2 * least["single"])
    for name, steps in (("bytes", 4), ("brain", 2)):
        at_once = any(f"{steps} steps at once" in choice for choice in groups[name]["choices"])
        assert least[name] == pytest.approx(least["single"] / (steps if at_once else 1))


def test_choices_are_listed_with_their_candidates():
    command = ["explain", f"{EXAMPLES / 'matmul.py'}:matmul", "--size", "N=64", "--no-measure"]
    status, told = invoke(*command, "--target", "haswell", "--choices")
    assert status == 0
    assert 'choices={"matmul": {...}}' in told
    assert "     0/tile: " in told
    facts = json.loads(invoke(*command, "--choices", "--json")[1])
    decision = facts["matmul"]["matmul"]["choices"]["0/tile"]
    assert decision["chosen"] in decision["candidates"]
    assert "choices=" not in invoke(*command, "--target", "haswell")[1]
