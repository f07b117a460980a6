"""The tool that runs Python on an emulated CPU; the emulator here only says how it was called."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from tools.emulate import ROOT, main

pytestmark = pytest.mark.skipif(os.name != "posix", reason="the wrapper is a script of a shell")


@pytest.fixture(autouse=True)
def _no_cache(monkeypatch: Any) -> None:
    monkeypatch.delenv("LOOMIR_CACHE_DIR", raising=False)


def put_emulator(folder: Path, architecture: str) -> None:
    program = folder / "host" / "usr" / "bin" / f"qemu-{architecture}-static"
    program.parent.mkdir(parents=True)
    program.write_text(
        '#!/bin/sh\necho "$PYTHONPATH"\necho "$LOOMIR_CACHE_DIR"\necho "$@"\nexit 7\n'
    )
    program.chmod(0o755)


def test_python_runs_on_the_emulated_cpu_with_this_checkout(tmp_path: Path, capfd: Any) -> None:
    put_emulator(tmp_path, "x86_64")
    assert main(["run", str(tmp_path), "--cpu", "Nehalem", "--", "-c", "--help"]) == 7
    path, cache, called = capfd.readouterr().out.splitlines()
    assert path.split(os.pathsep)[:2] == [str(ROOT / "src"), str(ROOT)]
    assert cache == str(tmp_path / "cache-Nehalem")
    wrapper, *rest = called.removeprefix("-0 ").split()
    assert wrapper == str(tmp_path / "python-Nehalem")  # which `sys.executable` names
    assert rest[:2] == ["-cpu", "Nehalem"]
    assert rest[-2:] == ["-c", "--help"]


def test_a_cache_that_is_named_already_is_used(
    tmp_path: Path, capfd: Any, monkeypatch: Any
) -> None:
    put_emulator(tmp_path, "x86_64")
    monkeypatch.setenv("LOOMIR_CACHE_DIR", "")
    assert main(["run", str(tmp_path), "--", "-V"]) == 7
    assert capfd.readouterr().out.splitlines()[1] == ""


def test_other_architectures_run_a_python_of_their_own(tmp_path: Path, capfd: Any) -> None:
    put_emulator(tmp_path, "aarch64")
    (tmp_path / "root").mkdir()
    assert main(["run", str(tmp_path), "--", "-V"]) == 7
    path, _, called = capfd.readouterr().out.splitlines()
    assert path.endswith(str(tmp_path / "site"))
    assert f"-L {tmp_path / 'root'} {tmp_path / 'root' / 'usr' / 'bin' / 'python3.11'} -V" in called


def test_a_folder_that_was_not_set_up_is_refused(tmp_path: Path, capfd: Any) -> None:
    assert main(["run", str(tmp_path), "--", "-V"]) == 2
    assert "is not set up" in capfd.readouterr().err


def test_what_the_host_lacks_is_named(tmp_path: Path, capfd: Any, monkeypatch: Any) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert main(["set-up", str(tmp_path / "new"), "x86_64"]) == 2
    assert "apt-get is missing" in capfd.readouterr().err
