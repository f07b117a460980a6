"""``compile(..., eager=True)`` leaves no code generation to the first call."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import loomir
from loomir import te
from loomir.codegen.llvm import native_module
from loomir.runtime import function
from loomir.runtime.executable import show_seconds
from loomir.runtime.report.profile import Roof

X = te.placeholder((4,), name="x")
PROGRAM = te.create_prim_func([X, te.compute((4,), lambda i: X[i] * 2.0)], name="double")


@pytest.fixture
def generated(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """List the texts of which code is generated."""
    texts: list[str] = []
    compile_all_kept = native_module.compile_all_kept

    def count(given: Any, *args: Any, **kwargs: Any) -> list[bytes]:
        texts.extend(text for text, _ in given)
        return compile_all_kept(given, *args, **kwargs)

    monkeypatch.setattr(native_module, "compile_all_kept", count)
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


def test_executables_say_how_long_it_took():
    exe = loomir.compile(PROGRAM, cache=False, eager=True)
    assert exe.compile_time is not None
    assert 0 < exe.compile_time < 60
    assert repr(exe).startswith("<executable of double, compiled in ")
    assert loomir.compile(PROGRAM).compile_time is None


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.0123, "12.3 ms"), (0.9, "900.0 ms"), (2.345, "2.35 s"), (3.5, "3.50 s")],
)
def test_times_are_written_so(seconds: float, text: str):
    assert show_seconds(seconds) == text


def test_the_first_profile_counts_no_code_generation(generated: list[str]):
    exe = loomir.compile(PROGRAM, cache=False)
    seen: list[int] = []
    run = function.Function.__call__

    def noted(self: Any, *args: Any, **kwargs: Any) -> object:
        seen.append(len(generated))
        return run(self, *args, **kwargs)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("loomir.profiling.roof.find_roof", lambda compile: Roof(1e9, 1e10))
        patch.setattr(function.Function, "__call__", noted)
        exe.profile(np.ones(4, "float32"), np.zeros(4, "float32"))
    assert (seen, len(generated)) == ([1], 1)
