"""Code of converters' tests is generated quickly: what LLVM optimises is not what they are about."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from typing import Final

import pytest

from fuzz.native import quick_codegen

_OPTIMISED: Final = frozenset(
    {"test_models", "test_dynamo", "test_cached_models", "test_contrib_attention"}
)
"""Modules whose programs are compiled as those of users are."""


@pytest.fixture(autouse=True)
def compile_quickly(request: pytest.FixtureRequest) -> Iterator[None]:
    """Leave LLVM's passes out, but for whole models."""
    with nullcontext() if request.path.stem in _OPTIMISED else quick_codegen(any_level=True):
        yield
