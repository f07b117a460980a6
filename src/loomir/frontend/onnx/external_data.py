"""Read tensors of a model from files beside it, and from nowhere else."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final
from weakref import WeakValueDictionary

import numpy as np

from loomir.frontend.onnx.mistakes import refuse_model
from loomir.frontend.onnx.weights import FileData, WeightFile
from loomir.runtime.storage.digests import file_state

__all__ = ["external_data", "note_files", "read_external"]

_noting: Final[list[dict[Path, tuple[int, ...]]]] = []


@contextmanager
def note_files() -> Generator[dict[Path, tuple[int, ...]], None, None]:
    """Yield a table that records the files read, with their states before reading."""
    noted: dict[Path, tuple[int, ...]] = {}
    _noting.append(noted)
    try:
        yield noted
    finally:
        _noting.remove(noted)


def external_data(said: Mapping[str, str], folder: Path | None, name: str, size: int) -> FileData:
    """Find ``size`` bytes of a file in the model's folder, to be read on demand.

    Errors: those of ``read_external``.
    """
    path, offset = _find(said, folder, name, size)
    try:
        return FileData(_open(path), offset, size)
    except OSError as error:
        raise _refusal(name, str(path), error.strerror or str(error)) from error


def read_external(
    said: Mapping[str, str], folder: Path | None, name: str, size: int
) -> np.ndarray[Any, Any]:
    """Map ``size`` bytes of a file in the model's folder, which must have them.

    Errors: ONX0003 for a file outside of the folder, or shorter than the tensor.
    """
    path, offset = _find(said, folder, name, size)
    return np.memmap(path, "uint8", "r", offset, (size,)) if size else np.empty(0, "uint8")


_open_files: Final[WeakValueDictionary[Path, WeightFile]] = WeakValueDictionary()


def _open(path: Path) -> WeightFile:
    """Open a file once for all its weights, and again if it was replaced meanwhile."""
    found = _open_files.get(path)
    if found is None or not found.is_current():
        found = _open_files[path] = WeightFile(path)
    return found


def _find(said: Mapping[str, str], folder: Path | None, name: str, size: int) -> tuple[Path, int]:
    location = said.get("location", "")
    if folder is None:
        raise _refusal(name, location, "the model was passed as bytes, so it has no folder")
    root = folder.resolve()
    try:
        path = (root / location).resolve()
        inside = bool(location) and path.is_relative_to(root) and path.is_file()
    except (OSError, ValueError, RuntimeError) as error:
        raise _refusal(name, location, str(error)) from error
    if not inside:
        raise _refusal(name, location, "that is not a file in the folder of the model")
    offset = _number(said.get("offset"), 0)
    length = _number(said.get("length"), size)
    if offset < 0 or length != size:
        raise _refusal(name, location, f"it has {length} bytes, but the tensor needs {size}")
    state = path.stat()
    if state.st_nlink > 1:  # such as one that an archive made of a file outside
        raise _refusal(name, location, "the file has other names too: copy it to have its own")
    if offset + size > state.st_size:
        raise _refusal(name, location, f"the file ends before byte {offset + size}")
    for noted in _noting:
        noted.setdefault(path, file_state(path))
    return path, offset


def _number(text: str | None, otherwise: int) -> int:
    if text is None or text == "":
        return otherwise
    return int(text) if text.isdecimal() and len(text) < 20 else -1


def _refusal(name: str, location: str, why: str) -> Exception:
    return refuse_model(
        "ONX0003",
        f"the data of the tensor {name!r} cannot be read from {location!r}: {why}",
        help="keep the files of a model together, as the exporter wrote them",
    )
