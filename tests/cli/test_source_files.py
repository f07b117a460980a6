"""Files that commands are given: what is no source is told by what it is."""

from __future__ import annotations

from pathlib import Path

import pytest

from loomir.cli.files.source import load_file
from loomir.support.diagnostics import CompileError


@pytest.mark.parametrize("name", ["model.pt", "model.pth"])
def test_pickled_files_of_pytorch_are_not_loaded(tmp_path: Path, name: str):
    path = tmp_path / name
    path.write_bytes(b"PK\x03\x04")
    with pytest.raises(CompileError, match="may run code") as found:
        load_file(path)
    assert "torch.export.save" in str(found.value)
