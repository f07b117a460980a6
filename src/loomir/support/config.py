"""Settings of the process, set by code or the command line and read at the boundary only."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import platformdirs

__all__ = ["SETTINGS", "Settings"]


@dataclass
class Settings:
    """``cache_dir``: where compiled objects are kept, None for no cache on disk."""

    cache_dir: Path | None


def _initial() -> Settings:
    named = os.environ.get("LOOMIR_CACHE_DIR")
    if named == "":
        return Settings(cache_dir=None)
    return Settings(cache_dir=Path(named or platformdirs.user_cache_dir("loomir", appauthor=False)))


SETTINGS = _initial()
