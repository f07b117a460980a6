"""Contents of constants: what references to them say, and files that are not as they were."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from loomir.script.builder.relax.constants import (
    inline_reference,
    read_constant,
    reference_of,
    store_constant,
)
from loomir.support.array import Array
from loomir.support.config import SETTINGS
from loomir.support.diagnostics import CompileError

ARRAYS: dict[str, Any] = {
    "float32": np.arange(100, dtype="float32").reshape(4, 25),
    "bfloat16": np.arange(64).astype(ml_dtypes.bfloat16),
    "float16": np.array([np.nan, -0.0, np.inf], "float16"),
    "int64": np.array([-(2**63), 2**63 - 1], "int64"),
    "bool": np.array([[True, False]]),
    "none": np.zeros((0, 3), "float64"),
    "scalar": np.array(2.5),
    "payload": np.array([0x7FC00001, 0xFF800123], "uint32").view("float32"),
}


@pytest.fixture(autouse=True)
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(SETTINGS, "cache_dir", tmp_path)
    return tmp_path / "constants"


@pytest.mark.parametrize("name", ARRAYS)
def test_what_is_stored_is_read_back(name: str, store: Path):
    array = Array(ARRAYS[name])
    assert store_constant(array)
    again = read_constant(reference_of(array), array.shape, array.dtype)
    assert again == array
    assert [file.suffix for file in store.iterdir()] == [".npy"]


@pytest.mark.parametrize("name", ARRAYS)
def test_bytes_in_the_text_are_read_back(name: str, store: Path):
    array = Array(ARRAYS[name])
    assert read_constant(inline_reference(array), array.shape, array.dtype) == array
    assert not store.exists()


def test_a_constant_is_stored_once(store: Path):
    array = Array(np.ones(100))
    store_constant(array)
    (file,) = store.iterdir()
    before = file.stat().st_mtime_ns
    store_constant(Array(np.ones(100)))
    assert [f.stat().st_mtime_ns for f in store.iterdir()] == [before]


def test_nothing_is_stored_without_a_directory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setattr(SETTINGS, "cache_dir", None)
    assert not store_constant(Array(np.ones(100)))
    (tmp_path / "file").write_text("")
    monkeypatch.setattr(SETTINGS, "cache_dir", tmp_path / "file")
    assert not store_constant(Array(np.ones(100)))


def refused(reference: str, shape: tuple[int, ...] = (100,), dtype: str = "float64") -> str:
    with pytest.raises(CompileError) as raised:
        read_constant(reference, shape, dtype)
    (found,) = raised.value.diagnostics
    assert found.help
    return found.code


def test_a_missing_file_is_named(monkeypatch: pytest.MonkeyPatch):
    array = Array(np.ones(100))
    assert refused(reference_of(array)) == "SCR0050"
    monkeypatch.setattr(SETTINGS, "cache_dir", None)
    assert refused(reference_of(array)) == "SCR0050"


@pytest.mark.parametrize("size", [0, 10, 128, 300, 900])
def test_a_file_cut_short_is_refused_and_mended(size: int, store: Path):
    array = Array(np.ones(100))
    store_constant(array)
    (file,) = store.iterdir()
    file.write_bytes(file.read_bytes()[:size])
    assert refused(reference_of(array)) == "SCR0051"


def test_a_changed_file_is_refused(store: Path):
    array = Array(np.ones(100))
    store_constant(array)
    (file,) = store.iterdir()
    content = bytearray(file.read_bytes())
    for place in range(0, len(content), 97):
        changed = bytearray(content)
        changed[place] ^= 1
        file.write_bytes(changed)
        assert refused(reference_of(array)) == "SCR0051"


def test_the_text_cannot_give_another_shape_or_dtype():
    array = Array(np.ones(100))
    store_constant(array)
    assert refused(reference_of(array), (10, 10)) == "SCR0051"
    assert refused(reference_of(array), (100,), "int64") == "SCR0051"
    assert refused(reference_of(array), (200,), "float32") == "SCR0051"


@pytest.mark.parametrize(
    "reference",
    [
        "",
        "sha256:",
        "sha256:../../x",
        "sha256:" + "A" * 64,
        "sha256:" + "0" * 65,
        "md5:00",
        "base64:",
        "base64:AAA",
        "base64:AAAA",
        "base64:é",
    ],
)
def test_other_references_are_refused(reference: str):
    assert refused(reference) == "SCR0052"
