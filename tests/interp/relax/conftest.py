"""Packed functions for the time of a test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from loomir.runtime.packed.registry import register_func, remove_func

Register = Callable[[str, Callable[..., Any]], None]


@pytest.fixture
def register() -> Iterator[Register]:
    """Register packed functions, which are forgotten afterwards."""
    names: list[str] = []

    def add(name: str, function: Callable[..., Any]) -> None:
        register_func(name, function)
        names.append(name)

    yield add
    for name in names:
        remove_func(name)
