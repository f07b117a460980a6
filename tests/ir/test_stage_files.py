"""What compiling writes for those who look inside: files that read back as the stages they are."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

import loomir
from loomir.cli.files.source import load_file, programs_of
from loomir.ir.stage_files import UNCHANGED
from loomir.script import parse_file
from loomir.support.diagnostics import CompileError
from loomir.transform.pipelines import (
    LOWER_CPU,
    LOWER_RELAX,
    OPTIMIZE_RELAX,
    SCHEDULE,
    WINOGRAD_UNASKED,
)
from tests.cli.test_commands import EXAMPLES, invoke

FILES = [*sorted((EXAMPLES / "relax").glob("*.py")), EXAMPLES / "softmax.py", EXAMPLES / "calls.py"]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_stage_reads_back(path: Path, tmp_path: Path):
    for name, program in programs_of(load_file(path)).items():
        folder = tmp_path / name
        loomir.compile(program, dump=folder)
        files = sorted(folder.glob("*.py"))
        texts = [file.read_text() for file in files]
        whole = [text for text in texts if not text.startswith(UNCHANGED)]
        assert 4 <= len(whole) < len(texts)
        for text in whole:
            (read,) = parse_file(text).values()
            assert read.script() == text
        for file, text in zip(files, texts, strict=True):
            if text.startswith(UNCHANGED):
                named = folder / text.removeprefix(UNCHANGED).strip()
                assert named.name < file.name
                assert not named.read_text().startswith(UNCHANGED)


def test_stages_are_numbered_through(tmp_path: Path):
    (program,) = programs_of(load_file(EXAMPLES / "relax" / "mlp.py")).values()
    loomir.compile(program, dump=tmp_path)
    names = [path.name for path in sorted(tmp_path.iterdir())]
    optimizing = [*OPTIMIZE_RELAX.steps, *WINOGRAD_UNASKED.steps]
    steps = [*optimizing, *LOWER_RELAX.steps, *SCHEDULE.steps, *LOWER_CPU.steps]
    assert len(names) == len(steps) + 4  # the input, kernels, and the two of LLVM
    assert [int(name[:2]) for name in names] == list(range(len(names)))
    assert names[0] == "00-input.py"
    assert names[-2].endswith("-code.ll")
    assert names[-1].endswith("-code.s")
    assert "define" in (tmp_path / names[-2]).read_text()


def test_the_command_writes_stages(tmp_path: Path):
    status, output = invoke("run", str(EXAMPLES / "vector_add.py"), "--dump", str(tmp_path / "out"))
    assert status == 0, output
    assert (tmp_path / "out" / "00-input.py").exists()
    status, output = invoke("run", str(EXAMPLES / "calls.py"), "--dump", str(tmp_path))
    assert status == 0, output


def test_a_file_is_no_directory_for_stages(tmp_path: Path):
    (tmp_path / "file").write_text("")
    given = str(tmp_path / "file")
    status, output = invoke("run", str(EXAMPLES / "vector_add.py"), "--dump", given)
    assert status == 1
    assert "error[RUN0467]" in output
    assert "file' cannot be written" in output


def test_a_place_that_takes_no_stages_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (program,) = parse_file((EXAMPLES / "vector_add.py").read_text()).values()
    (tmp_path / "file").write_text("")
    for place in (tmp_path / "file", tmp_path / "file" / "below", "a\0b"):
        with pytest.raises(CompileError) as caught:
            loomir.compile(program, dump=place)
        assert caught.value.diagnostic.code == "RUN0467"

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(CompileError, match=r"00-input.py' cannot be written: No space left"):
        loomir.compile(program, dump=tmp_path / "out")


def test_kernels_are_called_by_themselves_where_purity_is_vouched_for():
    (program,) = parse_file(LOWERED).values()
    assert program.script().count("cls.k(x, y)") == 1


LOWERED = """\
from loomir.script import ir as I, relax as R, tir as T

@I.ir_module
class M:
    @T.prim_func(private=True)
    def k(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32")):
        for i in range(4):
            B[i] = A[i]

    @R.function(pure=False)
    def f(x: R.Tensor((4,), "float32"), y: R.Tensor((4,), "float32")):
        cls.k(x, y)
        return y
"""
