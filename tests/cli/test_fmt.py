"""Layout of files: what stands in them stays, and a second time changes nothing."""

from __future__ import annotations

import io
import json
import random
import tokenize
from pathlib import Path

import pytest

from fuzz.tir.generate import program_of_seed
from loomir.cli.files.layout import format_text
from loomir.ir.equality import structural_equal
from loomir.script import parse_file
from tests.cli.test_commands import EXAMPLES, invoke

KERNEL = """\
from loomir.script import tir as T
N=4 # four
@T.prim_func
def scale(x:T.Buffer((N,),'float32')):
  # why
  for i in range(N):
    x[i]=x[i]*2.0 # twice
    # last
"""
LAID_OUT = """\
from loomir.script import tir as T

N = 4  # four


@T.prim_func
def scale(x: T.Buffer((N,), "float32")):
    # why
    for i in range(N):
        x[i] = x[i] * 2.0  # twice
        # last
"""


def comments(text: str) -> list[str]:
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    return [token.string for token in tokens if token.type == tokenize.COMMENT]


def with_comments(text: str, rng: random.Random) -> str:
    """Put comments of their own lines and at ends of lines into a program, and spoil its layout."""
    lines: list[str] = []
    inside = 0
    for number, line in enumerate(text.splitlines()):
        indent = line[: len(line) - len(line.lstrip())]
        if rng.random() < 0.2:
            lines.append(f"{indent}# above {number}")
        inside += sum(map(line.count, "([{")) - sum(map(line.count, ")]}"))
        spoiled = line.replace(" = ", "=" if rng.random() < 0.5 else "  =  ")
        beside = rng.random() < 0.2 and not line.rstrip().endswith("\\")
        lines.append(spoiled + (f" # beside {number}" if beside else ""))
        if rng.random() < 0.1:
            lines.append("")
    assert inside == 0
    return "\n".join(lines) + "\n"


# Not 3: it has a statement that TVMScript has no syntax for.
@pytest.mark.parametrize("seed", [0, 1, 2, *range(4, 13)])
def test_comments_stay_programs_stay_and_a_second_time_changes_nothing(seed: int):
    rng = random.Random(seed)
    module = program_of_seed(seed).module
    text = with_comments(module.script(), rng)
    once = format_text(text, Path("program.py"))
    assert format_text(once, Path("program.py")) == once
    assert comments(once) == comments(text)
    (before,) = parse_file(text).values()
    (after,) = parse_file(once).values()
    assert structural_equal(before, after)
    assert list(parse_file(once)) == list(parse_file(text))


@pytest.mark.parametrize("path", sorted(EXAMPLES.rglob("*.tc")), ids=lambda path: path.stem)
def test_comprehensions_are_laid_out_within_the_width_of_a_line(path: Path):
    text = path.read_text()
    long = text.replace("\n      where", " where").replace("\n    ->", " ->")
    assert format_text(long, path) == text
    assert max(map(len, text.splitlines())) <= 100


def test_one_file_is_printed_and_stays(tmp_path: Path):
    path = tmp_path / "kernel.py"
    path.write_text(KERNEL)
    assert invoke("fmt", str(path)) == (0, LAID_OUT)
    assert path.read_text() == KERNEL
    status, output = invoke("fmt", str(path), "--canonical")
    assert status == 0
    assert "T.float32(2.0)" in output
    assert "#" not in output


def test_files_are_named_that_would_change_and_changed_where_asked(tmp_path: Path):
    (tmp_path / "kernel.py").write_text(KERNEL)
    (tmp_path / "right.py").write_text(LAID_OUT)
    (tmp_path / "other.py").write_text("x=1\n")
    (tmp_path / "hidden").mkdir()
    (tmp_path / "hidden" / "sum.tc").write_text("def f(float(N) x) -> (y) { y(i)=x(i) }\n")
    kernel, total = tmp_path / "kernel.py", tmp_path / "hidden" / "sum.tc"
    status, output = invoke("fmt", str(tmp_path))
    assert status == 1
    assert output.splitlines() == [
        f"{total} would change" if line == 1 else f"{kernel} would change" for line in (0, 1)
    ] + ["2 of 3 files would change; --write changes them"]
    assert invoke("fmt", "--check", str(tmp_path))[0] == 1
    assert kernel.read_text() == KERNEL
    status, output = invoke("fmt", "--write", str(tmp_path), "--json")
    assert (status, json.loads(output)["changed"]) == (0, [str(kernel), str(total)])
    assert kernel.read_text() == LAID_OUT
    assert (tmp_path / "other.py").read_text() == "x=1\n"
    assert invoke("fmt", "--check", str(tmp_path)) == (0, "0 of 3 files would change\n")


def test_all_mistakes_of_all_files_are_listed_by_check(tmp_path: Path):
    (tmp_path / "right.py").write_text(LAID_OUT)
    for name in ("a", "b"):
        (tmp_path / f"{name}.py").write_text(KERNEL.replace("range(N)", "range(M)"))
    (tmp_path / "broken.py").write_text(KERNEL.replace("def scale(", "def scale"))
    status, output = invoke("check", str(tmp_path))
    assert status == 1
    for name in ("a", "b", "broken"):
        assert f"{tmp_path / name}.py:" in output
    assert f"{tmp_path / 'right.py'}: 1 program, no mistakes" in output
    assert "3 mistakes in 3 of 4 files: " in output
    status, output = invoke("check", str(tmp_path), "--json")
    assert len(json.loads(output)["diagnostics"]) == 3
    two = [str(tmp_path / "right.py")] * 2 + [str(EXAMPLES / "matmul.py")]
    status, output = invoke("check", *two)
    assert (status, output.splitlines()[-1]) == (0, "2 files, 2 programs, no mistakes")
    facts = json.loads(invoke("check", *two, "--json")[1])
    assert facts["files"][str(EXAMPLES / "matmul.py")] == ["matmul"]


@pytest.mark.parametrize("command", ["check", "fmt"])
def test_a_folder_without_programs_is_refused(tmp_path: Path, command: str):
    (tmp_path / "other.py").write_text("x = 1\n")
    status, output = invoke(command, str(tmp_path))
    assert status == 1
    assert "error[CLI0002]: no file below" in output


def test_settings_of_the_project_hold(tmp_path: Path):
    (tmp_path / "ruff.toml").write_text("indent-width = 2\n")
    path = tmp_path / "kernel.py"
    path.write_text(KERNEL)
    assert "\n  for i in range(N):\n    x[i]" in invoke("fmt", str(path))[1]
