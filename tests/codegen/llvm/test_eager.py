"""``compile(..., eager=True)`` leaves no code generation to the first call."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import loomir
from loomir import te
from loomir.codegen.llvm import native

X = te.placeholder((4,), name="x")
PROGRAM = te.create_prim_func([X, te.compute((4,), lambda i: X[i] * 2.0)], name="double")


@pytest.fixture
def generated(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """List the texts of which code is generated."""
    texts: list[str] = []
    compile_kept = native.compile_kept

    def count(text: str, *args: Any, **kwargs: Any) -> bytes:
        texts.append(text)
        return compile_kept(text, *args, **kwargs)

    monkeypatch.setattr(native, "compile_kept", count)
    return texts


def test_code_is_generated_before_the_first_call(generated: list[str]):
    exe = loomir.compile(PROGRAM, cache=False, eager=True)
    assert len(generated) == 1
    y = np.zeros(4, "float32")
    exe(np.ones(4, "float32"), y)
    assert y.tolist() == [2.0] * 4
    assert len(generated) == 1


def test_code_is_left_to_the_first_call_by_default(generated: list[str]):
    exe = loomir.compile(PROGRAM, cache=False)
    assert generated == []
    exe(np.ones(4, "float32"), np.zeros(4, "float32"))
    assert len(generated) == 1


def test_code_for_another_machine_is_generated_but_not_loaded(generated: list[str]):
    other = "neoverse-n1" if "x86" in loomir.Target("native").triple else "x86-64-v3"
    loomir.compile(PROGRAM, other, cache=False, eager=True)
    assert len(generated) == 1
