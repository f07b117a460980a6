"""Store large constants in files named by their digest, and refer to them in text.

``R.const(R.data(reference, shape, dtype))`` is a constant whose elements are not in the text. A
reference is ``sha256:`` and the array's digest, for a file of the store, or ``base64:`` and its
bytes. The store is ``constants/`` in the cache directory; its files are in NumPy's format, with
bfloat16 as uint16.
"""

from __future__ import annotations

import base64
import binascii
import os
import re
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from loomir.script.builder.arguments import as_dtype, as_int, as_items, as_text
from loomir.script.builder.dtypes import DTypeLike
from loomir.script.builder.mistakes import mistake, wrong_argument
from loomir.support.array import Array
from loomir.support.config import SETTINGS
from loomir.support.diagnostics import CompileError
from loomir.support.dtype import DataType, numpy_of

__all__ = ["data", "inline_reference", "read_constant", "reference_of", "store_constant"]

_DIGEST: Final = "[0-9a-f]{64}"
_STORED: Final = "sha256:"
_INLINE: Final = "base64:"


def reference_of(array: Array) -> str:
    """Return the reference to an array's file, which need not exist."""
    return _STORED + array.digest()


def inline_reference(array: Array) -> str:
    """Return a reference that holds the array's bytes."""
    return _INLINE + base64.b64encode(array.to_bytes()).decode()


def _file_of(digest: str) -> Path | None:
    """Return where an array is stored, None if no cache is."""
    directory = SETTINGS.cache_dir
    return None if directory is None else directory / "constants" / f"{digest}.npy"


def store_constant(array: Array) -> bool:
    """Put an array in the store, unless it is there; False where that cannot be written to."""
    file = _file_of(array.digest())
    if file is None:
        return False
    try:
        if file.exists() and file.stat().st_size > array.data.nbytes:
            return True
        file.parent.mkdir(parents=True, exist_ok=True)
        # Other processes see no file, or a whole one.
        handle, name = tempfile.mkstemp(dir=file.parent, prefix=".", suffix=".npy")
        try:
            with os.fdopen(handle, "wb") as out:
                np.save(out, _plain(array), allow_pickle=False)
            Path(name).replace(file)
        except OSError:
            Path(name).unlink(missing_ok=True)
            raise
    except OSError:
        return False
    return True


def _plain(array: Array) -> Any:
    """Return an array of a dtype that NumPy itself knows."""
    data: Any = array.data
    return data if data.dtype.kind in "biuf" else data.view(f"u{data.itemsize}")


def data(reference: str, shape: Sequence[int], dtype: DTypeLike) -> Array:
    """Name the contents of a constant, for ``R.const``: elements that the text does not list.

    Errors: SCR0005, SCR0050, SCR0051, SCR0052.
    """
    extents = tuple([as_int(item, "an extent") for item in as_items(shape, "the shape")])
    return read_constant(as_text(reference, "the reference"), extents, as_dtype(dtype))


def read_constant(reference: str, shape: Sequence[int], dtype: DataType | str) -> Array:
    """Return the array that a reference stands for.

    Errors: SCR0050 for a file that the store lacks, SCR0051 for one whose contents are others,
    SCR0052 for a reference that is none.
    """
    kind = DataType(str(dtype))
    if re.fullmatch(_STORED + _DIGEST, reference):
        return _load(reference.removeprefix(_STORED), shape, kind)
    if reference.startswith(_INLINE):
        try:
            content = base64.b64decode(reference.removeprefix(_INLINE), validate=True)
            return Array.from_bytes(content, kind, shape)
        except (binascii.Error, ValueError) as error:
            raise wrong_argument(
                reference,
                "these bytes are no elements of such an array",
                label=str(error),
                help="print the program again: the text was changed",
                code="SCR0052",
            ) from error
    raise wrong_argument(
        reference,
        f"no constant is named {reference[:40]!r}",
        help='a name is "sha256:" and 64 digits, or "base64:" and bytes, as printed programs '
        "have them",
        code="SCR0052",
    )


def _load(digest: str, shape: Sequence[int], dtype: DataType) -> Array:
    file = _file_of(digest)
    try:
        if file is None:
            raise FileNotFoundError
        found: Any = np.load(file, allow_pickle=False)
        array = Array(found.view(numpy_of(dtype)).reshape(tuple(shape)))
    except FileNotFoundError:
        raise _missing(digest, file) from None
    except (OSError, ValueError, TypeError, EOFError) as error:
        raise _damaged_error(digest, str(error)) from error
    if array.digest() != digest:
        raise _damaged_error(digest, "its elements are not those that the name stands for")
    return array


def _missing(digest: str, file: Path | None) -> CompileError:
    where = "there is no cache directory" if file is None else f"looked for {file.name}"
    return mistake(
        "SCR0050",
        f"the contents of constant {digest[:12]}… are not stored on this machine",
        notes=(f"{where} in constants/ of Loomir's cache directory",),
        help='print the program with script(constants="inline") to take it elsewhere, or copy the '
        "file",
    )


def _damaged_error(digest: str, why: str) -> CompileError:
    return mistake(
        "SCR0051",
        f"the stored contents of constant {digest[:12]}… are not what was stored",
        notes=(why,),
        help="delete the file, then print the program again",
    )
