"""Settings of the process, set by code or the command line, and read only at entry points."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import platformdirs

__all__ = ["SETTINGS", "Settings"]


@dataclass
class Settings:
    """What a process may store on disk.

    ``cache_dir``: the directory of compiled objects, None for no cache on disk. ``program_bytes``:
    the most bytes of whole programs there, with their weights.
    """

    cache_dir: Path | None
    program_bytes: int = 4 << 30

    @property
    def keeps_programs(self) -> bool:
        """Whether whole programs are cached."""
        return self.cache_dir is not None and self.program_bytes > 0


def _initial() -> Settings:
    named = os.environ.get("LOOMIR_CACHE_DIR")
    if named == "":
        return Settings(cache_dir=None)
    folder = Path(named or platformdirs.user_cache_dir("loomir", appauthor=False))
    size = _read_size(os.environ.get("LOOMIR_CACHE_SIZE", ""))
    return Settings(folder) if size is None else Settings(folder, size)


_UNITS: Final = {"": 0, "K": 10, "M": 20, "G": 30, "T": 40}


def _read_size(text: str) -> int | None:
    """Read a number of bytes such as ``500M``; None for any other text."""
    found = re.fullmatch(r"\s*(\d{1,15})\s*([KMGT]?)(?:i?B)?\s*", text, re.IGNORECASE)
    return None if found is None else int(found[1]) << _UNITS[found[2].upper()]


SETTINGS = _initial()
