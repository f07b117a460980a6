"""What Loomir says to a Python without the GIL."""

from __future__ import annotations

import sysconfig
from pathlib import Path

import numpy as np
import pytest

import loomir
from loomir.codegen.llvm.jit import engine
from loomir.runtime.errors import RunError
from loomir.script import tir as T
from loomir.support.diagnostics import CompileError
from loomir.target import host


@T.prim_func
def double(x: T.Buffer((4,), "float32")):
    for i in range(4):
        x[i] = x[i] * 2.0


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    path = tmp_path / "double.loom"
    loomir.compile(double).save(str(path))
    return path


@pytest.fixture
def free_threaded(saved: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    usual = sysconfig.get_config_var

    def config(name: str) -> object:
        return 1 if name == "Py_GIL_DISABLED" else usual(name)

    monkeypatch.setattr(sysconfig, "get_config_var", config)
    monkeypatch.setattr(host, "host", host.host.__wrapped__)
    monkeypatch.setattr("loomir.target.target.host", host.host)
    monkeypatch.setattr(engine, "features_here", host.features_here.__wrapped__)
    monkeypatch.setattr(host, "features_here", host.features_here.__wrapped__)
    monkeypatch.setattr(engine, "_host", engine._host.__wrapped__)
    return saved


def test_compiling_is_refused(free_threaded: Path):
    with pytest.raises(CompileError, match="free-threaded") as caught:
        loomir.compile(double, cache=False)
    assert caught.value.diagnostic.code == "TGT0002"


def test_loading_is_refused(free_threaded: Path):
    with pytest.raises((CompileError, RunError), match="free-threaded"):
        loomir.load(str(free_threaded))


def test_programs_are_checked_and_interpreted(free_threaded: Path):
    x = np.ones(4, "float32")
    assert not loomir.verify(double)
    loomir.interpret(double, "double", x)
    assert x.tolist() == [2.0] * 4
