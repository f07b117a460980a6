"""What a command shows while it works, how it stops, and what terminals without Unicode get."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import loomir
from loomir.cli.report import Report, fail, showable
from loomir.cli.work.progress import Progress
from loomir.runtime.report.profile import Profile, Roof
from loomir.script import from_source
from loomir.support.announcing import announce
from loomir.support.diagnostics import CompileError, Diagnostic


class Terminal(io.StringIO):
    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


def test_a_terminal_shows_files_stages_and_kernels(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    shown = Terminal()
    monkeypatch.setattr(sys, "stderr", shown)
    report = Report(False)
    program = from_source(
        "@T.prim_func\n"
        'def double(x: T.Buffer((64,), "float32"), y: T.Buffer((64,), "float32")):\n'
        "    for i in range(64):\n"
        "        y[i] = x[i] + x[i]\n"
    )
    told: list[str] = []
    progress = Progress(report)
    with progress:
        monkeypatch.setattr(progress, "_show", told.append)
        progress.step("[double]")
        loomir.compile(program, cache=False, eager=True)
    assert told[0] == "[double]"
    for stage in ("schedule of double", "tir.FlattenBuffer", "machine code"):
        assert f"[double]: {stage}" in told
    monkeypatch.undo()
    told.clear()
    announce("nothing listens now")
    assert told == []


def test_the_line_disappears_before_output(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("TERM", "xterm")
    shown = Terminal()
    monkeypatch.setattr(sys, "stderr", shown)
    report = Report(False)
    with Progress(report) as progress:
        progress.step("checking [a].py")
        assert shown.getvalue().endswith("\x1b[?25l"), "the cursor is hidden"
        report.line("done")
        assert "checking [a].py" in shown.getvalue()
        assert "\x1b[?25h" in shown.getvalue(), "the cursor is back"
    assert report.before_line is None


@pytest.mark.parametrize("as_json", [False, True])
def test_what_is_no_terminal_shows_nothing(monkeypatch: pytest.MonkeyPatch, as_json: bool):
    shown = Terminal() if as_json else io.StringIO()
    monkeypatch.setattr(sys, "stderr", shown)
    with Progress(Report(as_json)) as progress:
        progress.step("checking")
        announce("a stage")
    assert shown.getvalue() == ""


def test_ascii_terminals_get_ascii(monkeypatch: pytest.MonkeyPatch):
    out = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr(sys, "stdout", out)
    profile = Profile("main", (), 0, 1000, Roof(1e9, 1e9), False)
    assert not str(profile).isascii()
    Report(False).line(str(profile))
    out.flush()
    text = out.buffer.getvalue().decode("ascii")
    assert "+-" in text
    assert "\\u" not in text
    assert showable("größe ┃ 3 × 4…", "ascii") == "gr\\xf6\\xdfe | 3 x 4..."
    assert showable("größe ┃", "utf-8") == "größe ┃"
    monkeypatch.setattr(sys, "stderr", io.TextIOWrapper(io.BytesIO(), encoding="ascii"))
    import typer

    with pytest.raises(typer.Exit):
        fail(CompileError(Diagnostic("CLI0001", "größe", help="ö")), False, "größer")


def test_control_c_stops_a_command(tmp_path: Path):
    path = tmp_path / "waits.py"
    path.write_text("import time\nprint('ready', flush=True)\ntime.sleep(60)\n")
    listen = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"
    start = "import runpy; runpy.run_module('loomir', run_name='__main__')"
    # A shell that starts tests in the background has them ignore the signal.
    command = [sys.executable, "-c", f"{listen}; {start}", "run", str(path)]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ}
    ) as running:
        assert running.stdout is not None
        assert running.stdout.readline() == "ready\n"
        running.send_signal(signal.SIGINT)
        _, errors = running.communicate(timeout=30)
    assert running.returncode == 130
    assert "Traceback" not in errors
