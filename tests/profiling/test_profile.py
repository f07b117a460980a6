"""Profiles tell what ran, with which sizes and for how long, and write files that tools read."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import numpy as np
import pytest

import loomir
from loomir.codegen.llvm import timing
from loomir.profiling import roof
from loomir.profiling.roof import find_roof
from loomir.runtime.report.profile import KernelCall, Profile, Roof, Work
from loomir.script import from_source
from loomir.support.announcing import listen
from loomir.support.config import SETTINGS
from loomir.support.diagnostics import CompileError, RunError
from tests.cli.test_commands import EXAMPLES, invoke

HEADER = "from loomir.script import ir as I, relax as R, tir as T\n"
GRAPH = """
@I.ir_module
class M:
    @T.prim_func(private=True)
    def scale(a: T.handle, k: T.int64, b: T.handle):
        n = T.int64()
        A = T.match_buffer(a, (n, 8), "float32")
        B = T.match_buffer(b, (n, 8), "float32")
        for i, j in T.grid(n, 8):
            B[i, j] = A[i, j] * T.float32(2)

    @R.function
    def main(x: R.Tensor(("n", 8), "float32")):
        n = T.int64()
        a = R.call_tir(cls.scale, (x,), R.Tensor((n, 8), "float32"), tir_vars=R.shape([7]))
        b = R.call_tir(cls.scale, (a,), R.Tensor((n, 8), "float32"), tir_vars=R.shape([9]))
        return b
"""
LOOPS = """
@T.prim_func
def twice(a: T.handle):
    n = T.int64()
    A = T.match_buffer(a, (n,), "float32")
    for i in range(n):
        A[i] = A[i] * T.float32(2)
"""
ROOF = Roof(1e9, 1e10)


@pytest.fixture(autouse=True)
def _roof(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("loomir.profiling.roof.find_roof", lambda compile: ROOF)


def compiled(text: str) -> Any:
    return loomir.compile(from_source(HEADER + text))


def test_each_call_of_a_kernel_is_noted():
    exe = compiled(GRAPH)
    before = time.perf_counter_ns()
    profile = exe.profile(np.ones((5, 8), "float32"))
    assert [call.kernel for call in profile.calls] == ["scale", "scale"]
    assert [dict(call.sizes) for call in profile.calls] == [{"n": 5, "k": 7}, {"n": 5, "k": 9}]
    assert all(call.work == Work(2 * 5 * 8 * 4, 5 * 8, True) for call in profile.calls)
    first, second = profile.calls
    assert before < first.start < first.end <= second.start < second.end < time.perf_counter_ns()
    (row,) = profile.kernels
    assert (row.calls, row.bytes, row.flops) == (2, 640, 80)
    assert 0 < row.seconds < profile.seconds
    assert not profile.truncated


def test_what_compiling_gave_stays_as_it_is():
    exe = compiled(GRAPH)
    code = exe.llvm_ir()
    exe.profile(np.ones((5, 8), "float32"))
    assert exe.llvm_ir() == code
    assert "clock_gettime" not in code


def test_a_loop_level_function_is_its_own_kernel():
    exe = compiled(LOOPS)
    data = np.ones(6, "float32")
    profile = exe.profile(data)
    assert (data == 2).all()
    assert [(call.kernel, dict(call.sizes)) for call in profile.calls] == [("twice", {"n": 6})]
    assert profile.name == "twice"


def test_a_call_that_fails_leaves_nothing_behind():
    exe = compiled(GRAPH)
    with pytest.raises(RunError):
        exe.profile(np.ones((5, 7), "float32"))
    assert len(exe.profile(np.ones((1, 8), "float32")).calls) == 2


def test_calls_beyond_the_buffer_are_counted_not_written(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(timing, "_WORDS", 8)
    profile = compiled(GRAPH).profile(np.ones((5, 8), "float32"))
    assert len(profile.calls) == 1
    assert profile.truncated
    assert "more calls" in str(profile)


def made() -> Profile:
    work = Work(1000, 50_000, True)
    calls = (
        KernelCall("mat<mul", 1_000, 101_000, {"n": 3}, work),
        KernelCall("mat<mul", 101_000, 201_000, {"n": 3}, work),
        KernelCall("copy", 301_000, 302_000, {}, Work(100, 0, True)),
        KernelCall("odd", 302_000, 303_000, {}, None),
    )
    return Profile("main", calls, 0, 1_000_000, ROOF)


def test_rows_add_up():
    first, *rest = made().kernels
    assert first[:4] == ("mat<mul", 2, 2e-4, 0.2)
    assert (first.bytes, first.flops) == (2000, 100_000)
    assert first.roof == pytest.approx(2 * 5e-6 / 2e-4)  # 50,000 operations at 1e10 per second
    assert [row.kernel for row in rest] == ["copy", "odd"]
    assert rest[1].roof is None


def test_the_table_is_text():
    text = str(made())
    assert "main: 1.000 ms" in text
    row = next(line for line in text.splitlines() if "mat<mul" in line)
    for cell in ("2", "200.0 us", "20.0%", "0.002", "0.100", "0.01", "0.50", "5.0%"):
        assert cell in row
    assert "(outside of kernels)" in text


def test_traces_are_events_of_chrome(tmp_path: Path):
    made().save_trace(tmp_path / "trace.json")
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    assert [event["name"] for event in events] == ["main", "mat<mul", "mat<mul", "copy", "odd"]
    assert all(
        {"ph", "ts", "dur", "pid", "tid", "name", "args"} <= event.keys() for event in events
    )
    assert events[1]["ph"] == "X"
    assert (events[1]["ts"], events[1]["dur"]) == (1, 100)
    assert events[1]["args"] == {"n": 3, "bytes": 1000, "flops": 50_000}


def test_places_that_cannot_be_written_are_told(tmp_path: Path):
    profile = made()
    for write in (profile.save_trace, profile.save_roofline):
        for path in (tmp_path, tmp_path / "no" / "file"):
            with pytest.raises(RunError, match="RUN0467"):
                write(path)
        with pytest.raises(CompileError, match="not a string or a PathLike"):
            write(None)  # type: ignore[arg-type]


def test_rooflines_are_svg(tmp_path: Path):
    made().save_roofline(tmp_path / "roof.svg")
    root = ET.fromstring((tmp_path / "roof.svg").read_text())
    space = "{http://www.w3.org/2000/svg}"
    (circle,) = root.iter(f"{space}circle")
    (title,) = circle.iter(f"{space}title")
    assert title.text is not None
    assert title.text.startswith("mat<mul: 0.50 GFLOP/s, 20.0%")
    (line,) = root.iter(f"{space}polyline")
    ys = [float(pair.split(",")[1]) for pair in line.attrib["points"].split()]
    assert ys[1] == ys[2] < ys[0]
    assert float(circle.attrib["cy"]) > ys[1]


@pytest.fixture
def clock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Measure in an empty cache; the one element is the time."""
    now = [1e9]
    monkeypatch.setattr(SETTINGS, "cache_dir", tmp_path / "cache")
    monkeypatch.setattr(roof, "_known", {})
    monkeypatch.setattr(roof.time, "time", lambda: now[0])
    return now


def measured(monkeypatch: pytest.MonkeyPatch, *given: Roof) -> Roof:
    """Ask a new process that would measure ``given``."""
    machine = iter(given)
    monkeypatch.setattr(roof, "_known", {})
    monkeypatch.setattr(roof, "measure_roof", lambda compile: next(machine))
    return find_roof(pytest.fail)


def test_the_machine_is_measured_once_an_hour(clock: list[float], monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(roof, "_TIMES", 1000)
    monkeypatch.setattr(roof, "_BYTES", 1 << 20)
    monkeypatch.setattr(roof, "_SECONDS", 0.0)
    found = find_roof(loomir.compile)
    assert 1e8 < found.bandwidth < 1e13
    assert 1e8 < found.flops < 1e15
    assert measured(monkeypatch) == found
    clock[0] += 3599
    assert measured(monkeypatch) == found
    assert find_roof(pytest.fail) == found


def test_a_busy_machine_is_measured_again(clock: list[float], monkeypatch: pytest.MonkeyPatch):
    assert measured(monkeypatch, Roof(3e9, 4e10)) == (3e9, 4e10)
    clock[0] += 3601
    assert measured(monkeypatch, Roof(9e9, 1e10)) == (9e9, 4e10)
    clock[0] += 3601
    assert measured(monkeypatch, Roof(1e9, 5e10)) == (9e9, 5e10)
    assert measured(monkeypatch) == (9e9, 5e10)


def test_old_measurements_are_forgotten(clock: list[float], monkeypatch: pytest.MonkeyPatch):
    assert measured(monkeypatch, Roof(9e9, 9e10)) == (9e9, 9e10)
    clock[0] += 31 * 24 * 3600
    assert measured(monkeypatch, Roof(1e9, 1e10)) == (1e9, 1e10)
    for _ in range(8):
        clock[0] += 3601
        assert measured(monkeypatch, Roof(1e9, 2e10)) == (1e9, 2e10)
    clock[0] -= 1e6  # a clock that was set back: what is dated ahead of it counts no longer
    assert measured(monkeypatch, Roof(5e8, 5e9)) == (5e8, 5e9)


@pytest.mark.parametrize("content", [b"", b"{", b"[1]", b'[{"when": 1e9}]', b"[]", b"\xff", b"1"])
def test_a_file_that_says_nothing_is_as_good_as_absent(
    clock: list[float], monkeypatch: pytest.MonkeyPatch, content: bytes
):
    measured(monkeypatch, Roof(9e9, 9e10))
    assert SETTINGS.cache_dir is not None
    (path,) = SETTINGS.cache_dir.iterdir()
    path.write_bytes(content)
    assert measured(monkeypatch, Roof(1e9, 1e10)) == (1e9, 1e10)
    rows = [{"when": clock[0], "bandwidth": b, "flops": 1e10} for b in (0.0, -1.0, float("nan"))]
    path.write_text(json.dumps(rows))
    assert measured(monkeypatch, Roof(1e9, 1e10)) == (1e9, 1e10)


def test_a_cache_that_cannot_be_written_costs_time_only(
    clock: list[float], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    (tmp_path / "cache").write_text("a file")
    assert measured(monkeypatch, Roof(9e9, 9e10)) == (9e9, 9e10)
    assert measured(monkeypatch, Roof(1e9, 1e10)) == (1e9, 1e10)


def test_profiles_on_the_command_line():
    path = str(EXAMPLES / "relax" / "mlp.py")
    status, output = invoke("run", path, "--profile", "--size", "batch=3")
    assert status == 0, output
    assert "(outside of kernels)" in output


def test_the_first_call_does_not_count_the_generation_of_code():
    program = from_source(
        "@T.prim_func\n"
        'def halve(x: T.Buffer((64,), "float32")):\n'
        "    for i in range(64):\n"
        "        x[i] = x[i] * T.float32(0.5)\n"
    )
    generated: list[int] = []
    exe = loomir.compile(program, cache=False)
    with listen(lambda what: generated.append(time.perf_counter_ns())):
        found = exe.profile(np.ones(64, "float32"))
    assert generated
    assert max(generated) < found._start
