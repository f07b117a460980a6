"""Test default schedules for any machine: schedule, interpret, run."""

from __future__ import annotations

import os
from typing import Final

from fuzz.reach import REACH, Recorder

__all__ = ["RECORDER"]

RECORDER: Final = Recorder()
"""Notes what runs of the rules of schedules, where somebody asks for it."""
if REACH in os.environ:  # before any module of theirs is imported
    RECORDER.install()
