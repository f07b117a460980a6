"""The tool that tests the packages on several interpreters: what it pins, and which it finds."""

from __future__ import annotations

import os
import sys
from importlib.metadata import metadata
from pathlib import Path

import pytest

from tools.interpreters import find_interpreters, lowest_versions


def test_dependencies_are_pinned_to_their_lower_bounds() -> None:
    text = (
        "Metadata-Version: 2.4\nName: loomir\nRequires-Dist: numpy>=2.1\n"
        "Requires-Dist: apache-tvm-ffi>=0.1.14.post0\n"
        "Requires-Dist: onnx>=1.18; extra == 'onnx'\n"
    )
    assert lowest_versions(text) == ["numpy==2.1", "apache-tvm-ffi==0.1.14.post0"]


def test_every_dependency_of_the_package_has_a_lower_bound() -> None:
    required = metadata("loomir").get_all("Requires-Dist") or []
    core = [line for line in required if "extra ==" not in line]
    text = "".join(f"Requires-Dist: {line}\n" for line in core)
    assert len(lowest_versions(text)) == len(core) > 5


@pytest.mark.skipif(os.name != "posix", reason="the interpreters here are links and scripts")
def test_only_interpreters_that_run_are_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "python3.12").symlink_to(sys.executable)
    shim = tmp_path / "python3.13"
    shim.write_text("#!/bin/sh\necho 'no such version' >&2\nexit 127\n")
    shim.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert find_interpreters() == [str(tmp_path / "python3.12")]
