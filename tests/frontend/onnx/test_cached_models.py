"""Models that were compiled before come from the cache: the same results, and nothing else."""

from __future__ import annotations

import copy
import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import loomir
from loomir.frontend.onnx import registry
from loomir.ir.module import IRModule
from loomir.runtime.errors import RunError
from loomir.runtime.storage.program_cache import ProgramCache
from loomir.support.config import SETTINGS
from loomir.support.diagnostics import CompileError
from tests.frontend.onnx.models import model, onnx

TEXT = """
main (float[N, 160] x) => (float[N, 128] z) {
  y = MatMul(x, w)
  s = Add(y, b)
  z = Relu(s)
}
"""
RNG = np.random.default_rng(0)
W = RNG.standard_normal((160, 128)).astype("float32")
B = RNG.standard_normal(128).astype("float32")
X = RNG.standard_normal((3, 160)).astype("float32")


@pytest.fixture(autouse=True)
def _keep_programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SETTINGS, "cache_dir", tmp_path / "cache")
    monkeypatch.setattr(SETTINGS, "program_bytes", 1 << 30)
    # Nothing is kept where users registered converters, as pages of the documentation do.
    monkeypatch.setattr(registry, "_registered", [])


@pytest.fixture
def imports(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What is imported anew."""
    from loomir.frontend.onnx import importer

    found: list[Any] = []
    load = importer.load_anew

    def noting(path: Any, **options: Any) -> IRModule:
        found.append(path)
        return load(path, **options)

    monkeypatch.setattr(importer, "load_anew", noting)
    return found


def save(folder: Path, w: Any = W, *, external: bool = False) -> Path:
    path = folder / "model.onnx"
    (folder / "weights").unlink(missing_ok=True)
    options: dict[str, Any] = {"save_as_external_data": True, "location": "weights"}
    onnx.save(model(TEXT, {"w": w, "b": B}), path, **options if external else {})
    return path


def run(path: Path, **options: Any) -> Any:
    return loomir.compile(loomir.onnx.load(path), **options)(X)


def test_the_second_process_imports_and_compiles_nothing(tmp_path: Path):
    path = save(tmp_path)
    program = (
        "import sys, numpy, loomir\n"
        "x = numpy.arange(480, dtype='float32').reshape(3, 160) / 480\n"
        "y = loomir.compile(loomir.onnx.load(sys.argv[1]))(x)\n"
        "print(y.tobytes().hex()[:4000])\n"
        "names = ('onnx', 'loomir.driver', 'loomir.op', 'loomir.tir.expr', 'tvm_ffi')\n"
        "print([name for name in names if name in sys.modules])\n"
    )
    settings = {"LOOMIR_CACHE_DIR": str(tmp_path / "cache"), "LOOMIR_CACHE_SIZE": "1G"}

    def child() -> list[str]:
        made = subprocess.run(
            [sys.executable, "-c", program, str(path)],
            env={**os.environ, **settings},
            capture_output=True,
            text=True,
            check=True,
            timeout=300,
        )
        return made.stdout.splitlines()

    (cold, loaded), (warm, few) = child(), child()
    assert cold == warm
    assert "loomir.driver" in loaded
    assert few == "[]"


@pytest.mark.parametrize("external", [False, True])
def test_results_come_from_the_cache_and_are_the_same(
    tmp_path: Path, imports: list[Any], external: bool
):
    path = save(tmp_path, external=external)
    anew = run(path, cache=False)
    assert not ProgramCache().size().entries
    first, second = run(path), run(path)
    assert ProgramCache().size().entries == 1
    assert first.tobytes() == second.tobytes() == anew.tobytes()
    assert len(imports) == 2  # the third call was the first to find it


@pytest.mark.parametrize("external", [False, True])
def test_another_weight_gives_another_result(tmp_path: Path, external: bool):
    path = save(tmp_path, external=external)
    first = run(path)
    other = W.copy()
    other[0, 0] += 1
    save(tmp_path, other, external=external)
    second = run(path)
    np.testing.assert_allclose(second, np.maximum(X @ other + B, 0), rtol=1e-4, atol=1e-4)
    assert first.tobytes() != second.tobytes()


def test_options_and_sizes_are_told_from_each_other(tmp_path: Path):
    path = save(tmp_path)
    for options in ({}, {"opt_level": 0}, {"target": "x86-64-v2"}, {"check_bounds": True}):
        run(path, **options)
    fixed = loomir.onnx.load(path, dims={"N": 3})
    loomir.compile(fixed)(X)
    assert ProgramCache().size().entries == 5


def test_a_damaged_entry_is_compiled_anew(tmp_path: Path):
    path = save(tmp_path)
    right = run(path)
    (entry,) = (tmp_path / "cache" / "programs").iterdir()
    whole = entry.read_bytes()
    for place in (0, 20, 50, 60, len(whole) // 3, len(whole) - 5000):
        entry.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        entry.chmod(0o600)
        assert run(path).tobytes() == right.tobytes()
        assert entry.read_bytes()[64:128] == whole[64:128]  # written again
    entry.write_bytes(whole[:40])
    assert run(path).tobytes() == right.tobytes()


def test_programs_take_no_more_than_their_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = save(tmp_path)
    run(path)
    one = ProgramCache().size().bytes
    monkeypatch.setattr(SETTINGS, "program_bytes", int(2.5 * one))
    for level in (0, 1, 3):
        run(path, opt_level=level)
        assert ProgramCache().size().bytes <= SETTINGS.program_bytes
    assert ProgramCache().size().entries == 2
    monkeypatch.setattr(SETTINGS, "program_bytes", one)
    run(path, winograd=True)  # too large
    assert ProgramCache().size().entries == 2
    assert ProgramCache().clear() == 2


def test_what_is_refused_is_explained_as_ever(tmp_path: Path):
    path = save(tmp_path)
    run(path)
    messages: list[str] = []
    for cache in (False, True):
        exe = loomir.compile(loomir.onnx.load(path), cache=cache)
        for wrong in (X[:, :7].copy(), X.astype("float64"), 5):
            with pytest.raises(RunError) as caught:
                exe(wrong)
            messages.append(str(caught.value))
    assert messages[:3] == messages[3:]


def test_an_executable_of_the_cache_can_do_what_others_can(tmp_path: Path):
    path = save(tmp_path)
    right = run(path)
    module = loomir.onnx.load(path)
    exe = loomir.compile(module, eager=True)
    assert exe.compile_time is not None
    assert "R.function" in exe.script()
    assert "define" in exe.llvm_ir()
    anew: Any = loomir.compile(module, cache=False)["main"]
    known: Any = exe["main"]
    assert str(known.info) == str(anew.info)
    exe.save(tmp_path / "saved.loom")
    assert loomir.load(tmp_path / "saved.loom", trusted=True)(X).tobytes() == right.tobytes()
    assert pickle.loads(pickle.dumps(exe))(X).tobytes() == right.tobytes()


def test_a_module_that_was_not_made_yet_is_like_any_other(tmp_path: Path, imports: list[Any]):
    path = save(tmp_path)
    run(path)
    module = loomir.onnx.load(path)
    assert len(imports) == 1
    assert list(module) == ["main"]
    assert len(imports) == 2
    for other in (module, loomir.onnx.load(path)):
        assert list(copy.deepcopy(other)) == list(pickle.loads(pickle.dumps(other))) == ["main"]
    assert module.with_functions(module.functions).origin is None
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = getattr(module, "nothing")  # noqa: B009 - no type allows it


def test_a_file_that_changes_before_it_is_imported_is_refused(tmp_path: Path):
    path = save(tmp_path)
    right = run(path)
    module = loomir.onnx.load(path)
    save(tmp_path, W + 1)
    # What was loaded is what the file contained then.
    assert loomir.compile(module)(X).tobytes() == right.tobytes()
    with pytest.raises(CompileError, match="was changed since it was loaded"):
        module.script()


def test_a_file_that_changes_before_its_code_is_kept_is_not(tmp_path: Path):
    path = save(tmp_path)
    exe = loomir.compile(loomir.onnx.load(path))
    save(tmp_path, W + 1)
    exe(X)
    assert not ProgramCache().size().entries
    np.testing.assert_allclose(run(path), np.maximum(X @ (W + 1) + B, 0), rtol=1e-4, atol=1e-4)


def test_converters_of_the_user_are_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = save(tmp_path)
    run(path)
    monkeypatch.setattr(registry, "_registered", [])
    # All tables, so that later tests find what is shipped; loading a model has filled them.
    monkeypatch.setattr(registry, "_rows", {k: list(v) for k, v in registry._rows.items()})
    loomir.onnx.register_converter("Relu", lambda node: node[0], since=14)
    np.testing.assert_allclose(run(path), X @ W + B, rtol=1e-4, atol=1e-4)
    assert ProgramCache().size().entries == 1


def test_without_a_cache_nothing_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = save(tmp_path)
    monkeypatch.setattr(SETTINGS, "program_bytes", 0)
    run(path)
    monkeypatch.setattr(SETTINGS, "cache_dir", None)
    run(path)
    assert not (tmp_path / "cache" / "programs").exists()
