"""Files and options that fit nothing: a command says what is wrong, and neither hangs nor breaks."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from loomir.cli import app
from loomir.cli.compare import difference
from loomir.ir.stage_files import UNCHANGED
from loomir.support.dtype import DataType

SIZED = """\
from loomir.script import tir as T

@T.prim_func
def f(a: T.handle, alpha: T.float32):
    n = T.int32()
    x = T.match_buffer(a, (n,), "float32")
    for i in range(n):
        x[i] = x[i] * alpha

"""
SUM = "def twice(float(N) x) -> (y) { y(i) = x(i) + x(i) }\n"


def invoke(*words: object) -> tuple[int, str]:
    result = CliRunner().invoke(app, [str(word) for word in words])
    assert isinstance(result.exception, SystemExit | None), result.exception
    return result.exit_code, result.output


@pytest.mark.parametrize(
    "number", ["nan", "inf", "1e400", "9" * 400, "9" * 5000, "1.5", str(1 << 64)]
)
@pytest.mark.parametrize(
    ("command", "option"),
    [("run", "--size"), ("explain", "--size"), ("cost", "--size"), ("bisect", "--size")],
)
def test_a_size_is_a_whole_number(tmp_path: Path, command: str, option: str, number: str):
    path = tmp_path / "sized.py"
    path.write_text(SIZED)
    status, output = invoke(command, path, option, f"n={number}")
    assert status == 1
    assert "error[CLI0003]: n is " in output


def test_a_scalar_may_be_no_number(tmp_path: Path):
    path = tmp_path / "sized.py"
    path.write_text(SIZED)
    assert invoke("run", path, "--size", "alpha=nan") == invoke("run", path, "--size", "alpha=inf")
    assert invoke("run", path, "--size", "alpha=inf")[0] == 0


@pytest.mark.parametrize("command", ["run", "explain", "bisect"])
def test_a_seed_is_not_negative(tmp_path: Path, command: str):
    path = tmp_path / "sized.py"
    path.write_text(SIZED)
    status, output = invoke(command, path, "--seed", "-1")
    assert status == 2
    assert "--seed" in output


@pytest.mark.parametrize(
    ("more", "what"),
    [
        ("SIZES = 5\n", "SIZES is 5"),
        ("SIZES = {3: 4}\n", "a key of SIZES is 3"),
        ("SIZES = {'n': 'x'}\n", "SIZES['n'] is 'x'"),
        ("INTERPRET = 5\nSIZES = {'n': 10_000_000}\n", "INTERPRET is 5"),
        ("def inputs(rng, n):\n    return 5\n", "what inputs gives is 5"),
    ],
)
def test_what_a_file_offers_has_a_kind(tmp_path: Path, more: str, what: str):
    path = tmp_path / "offers.py"
    path.write_text(SIZED + more)
    status, output = invoke("run", path)
    assert status == 1
    assert f"error[CLI0012]: {what}, which is no " in output


@pytest.mark.parametrize(
    "line", ["raise SystemExit(3)", "raise GeneratorExit", "raise type('B', (BaseException,), {})"]
)
def test_a_file_does_not_end_the_command(tmp_path: Path, line: str):
    path = tmp_path / "ends.py"
    path.write_text(f"\n{line}\n")
    status, output = invoke("run", path)
    assert status == 1
    assert "error[CLI0011]" in output
    assert f"--> {path}:2:" in output


@pytest.mark.parametrize("command", ["check", "fmt", "cost", "run", "explain", "bisect"])
def test_what_never_ends_is_not_read(tmp_path: Path, command: str):
    pipe = tmp_path / "pipe.py"
    os.mkfifo(pipe)
    endless = tmp_path / "endless.py"
    endless.symlink_to("/dev/zero")
    for path in (pipe, endless):
        status, output = invoke(command, path)
        assert status == 1
        assert "error[CLI0001]" in output
        assert "a pipe or a device" in output


def test_a_mark_of_byte_order_is_no_text(tmp_path: Path):
    for name, text in (("f.py", SIZED), ("twice.tc", SUM)):
        path = tmp_path / name
        path.write_text(text, encoding="utf-8-sig")
        status, output = invoke("check", path)
        assert (status, "no mistakes" in output) == (0, True), output


def test_a_cost_is_told_of_tensor_comprehensions(tmp_path: Path):
    path = tmp_path / "twice.tc"
    path.write_text(SUM)
    status, output = invoke("cost", path, "--size", "N=8")
    assert status == 0
    assert "float operations" in output


def test_a_stage_that_names_itself_is_no_program(tmp_path: Path):
    path = tmp_path / "03-loop.py"
    path.write_text(f"{UNCHANGED}{path.name}\n")
    status, output = invoke("diff", path, path)
    assert status == 1
    assert "error[CLI0002]" in output


@pytest.mark.parametrize("exact", [True, False])
def test_nothing_is_near_to_an_infinity(exact: bool):
    infinite, finite = np.array([1.0, np.inf]), np.array([1.0, 2.0])
    for x, y in ((infinite, finite), (finite, infinite), (infinite, -infinite)):
        assert difference(x, y, DataType("float64"), exact, math=True) is not None
    assert difference(infinite, infinite, DataType("float64"), exact, math=True) is None


WORDS = [("fmt",), ("fmt", "--json"), ("check",), ("fmt", "--help"), ("--help",)]


@pytest.mark.parametrize("words", WORDS)
def test_a_full_disk_under_the_output_is_told(tmp_path: Path, words: tuple[str, ...]):
    path = tmp_path / "sized.py"
    path.write_text(SIZED)
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "loomir", *words, *([] if "--help" in words else [path])],
            check=False,
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
        )
    assert done.returncode != 0
    assert "error[CLI0009]: cannot write what is to be printed" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.skipif(os.name == "nt", reason="a shell of POSIX closes it")
def test_a_closed_output_is_told(tmp_path: Path):
    path = tmp_path / "sized.py"
    path.write_text(SIZED)
    done = subprocess.run(
        ["sh", "-c", '"$0" -m loomir cost "$1" >&-', sys.executable, str(path)],
        check=False,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert done.returncode == 1
    assert "error[CLI0009]: cannot write what is to be printed: it is closed" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_name_after_the_file_is_told_where_it_goes():
    status, output = invoke("run", "file.py", "scale")
    assert status == 2
    assert "Write FILE.py:NAME for one program of a file." in output


@pytest.mark.parametrize("command", ["run", "explain", "bisect"])
def test_a_file_that_cannot_be_read_has_a_remedy_of_its_own(tmp_path: Path, command: str):
    good = tmp_path / "good.py"
    good.write_text(SIZED, encoding="utf-8")
    latin = tmp_path / "latin.py"
    latin.write_bytes(b"# -*- coding: latin-1 -*-\n# caf\xe9\n" + SIZED.encode())
    (tmp_path / "first.py").symlink_to(tmp_path / "second.py")
    (tmp_path / "second.py").symlink_to(tmp_path / "first.py")
    (tmp_path / "gone.py").symlink_to("nowhere.py")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "inside.py").write_text(SIZED, encoding="utf-8")
    for name, help_ in (
        ("latin.py", "save the file as UTF-8"),
        ("first.py", "its links lead to each other"),
        ("gone.py", "it is a link to nowhere.py, which does not exist"),
        ("folder", f"as in {tmp_path / 'folder' / 'inside.py'}"),
        ("godo.py", f"did you mean {good}?"),
        ("zzzzzz.py", "give the path of a Python file"),
    ):
        status, output = invoke(command, tmp_path / name)
        assert status == 1
        assert "error[CLI0001]" in output
        assert help_ in output.replace("\n", " ") or help_ in "".join(output.split("\n")), output
