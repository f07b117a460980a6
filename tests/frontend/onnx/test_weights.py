"""Weights stay in the file of a model until they are needed, and are read right."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import loomir
from loomir.frontend.onnx.weights import WeightFile, separate_weights
from loomir.ir.visit import by_class
from loomir.relax.expr import Constant
from loomir.support.diagnostics import CompileError
from tests.frontend.onnx.models import model, onnx

TEXT = """
main (float[N, 64] x) => (float[N, 32] z, float[64, 96] u) {
  y = MatMul(x, w)
  z = Add(y, b)
  u = Cast <to = 1> (v)
}
"""
RNG = np.random.default_rng(0)
WEIGHTS: dict[str, Any] = {
    "w": RNG.standard_normal((64, 32)).astype("float32"),
    "b": RNG.standard_normal(32).astype("float32"),
    "v": RNG.standard_normal((64, 96)).astype(ml_dtypes.bfloat16),
}
X = RNG.standard_normal((3, 64)).astype("float32")


def saved(folder: Path, *, external: bool = False) -> Path:
    path = folder / "model.onnx"
    options: dict[str, Any] = {"save_as_external_data": True, "location": "weights"}
    onnx.save(model(TEXT, WEIGHTS), path, **options if external else {})
    return path


@pytest.mark.parametrize("external", [False, True])
def test_weights_are_read_when_the_model_is_compiled(tmp_path: Path, external: bool):
    module = loomir.onnx.load(saved(tmp_path, external=external))
    constants = {c.data.shape: c.data for c in by_class(module["main"])[Constant]}
    late = constants[64, 32]
    assert late.read_once() is not late.read_once()  # nothing keeps them
    z, u = loomir.compile(module)(X)
    np.testing.assert_allclose(z, X @ WEIGHTS["w"] + WEIGHTS["b"], rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(u, WEIGHTS["v"].astype("float32"))


@pytest.mark.parametrize("external", [False, True])
def test_a_file_that_changes_before_it_is_read_is_refused(tmp_path: Path, external: bool):
    path = saved(tmp_path, external=external)
    module = loomir.onnx.load(path)
    place = tmp_path / "weights" if external else path
    with place.open("r+b") as file:
        file.truncate(100)
    with pytest.raises(CompileError, match="was changed while its weights were read") as caught:
        loomir.compile(module)(X)
    assert caught.value.diagnostics[0].code == "ONX0003"


def test_a_file_that_is_replaced_gives_the_weights_that_it_had(tmp_path: Path):
    path = saved(tmp_path)
    module = loomir.onnx.load(path)
    path.rename(tmp_path / "old.onnx")
    onnx.save(model(TEXT, {**WEIGHTS, "w": WEIGHTS["w"] * 0}), path)
    z, _ = loomir.compile(module)(X)
    np.testing.assert_allclose(z, X @ WEIGHTS["w"] + WEIGHTS["b"], rtol=1e-4, atol=1e-5)


def test_the_data_of_large_initializers_is_found_and_the_rest_is_the_model():
    made = model(TEXT, WEIGHTS)
    data = np.frombuffer(made.SerializeToString(), "uint8")
    separate = separate_weights(data)
    assert separate is not None
    rest, places = separate
    assert len(rest) < 2000
    for number, (start, size) in places.items():
        weight = made.graph.initializer[number]
        assert data[start : start + size].tobytes() == weight.raw_data
        weight.raw_data = b""
    assert [made.graph.initializer[i].name for i in places] == ["w", "v"]
    assert onnx.ModelProto.FromString(rest) == made


def test_what_is_cut_off_or_changed_is_refused_or_read(tmp_path: Path):
    path = saved(tmp_path)
    whole = path.read_bytes()
    for length in (*range(0, 400, 23), *range(400, len(whole), 1997)):
        path.write_bytes(whole[:length])
        with pytest.raises(CompileError) as caught:
            loomir.onnx.load(path)
        assert caught.value.diagnostics[0].code == "ONX0002"
    for place in range(300):
        changed = bytearray(whole)
        changed[place] ^= 1 << place % 8
        path.write_bytes(changed)
        try:
            loomir.onnx.load(path)
        except CompileError as error:
            assert error.diagnostics[0].code.startswith("ONX")


def test_data_of_another_size_than_the_shape_is_refused(tmp_path: Path):
    made = model(TEXT, WEIGHTS)
    made.graph.initializer[0].dims[0] = 65
    path = tmp_path / "model.onnx"
    onnx.save(made, path)
    with pytest.raises(CompileError, match="holds data of another shape"):
        loomir.onnx.load(path)


def test_loading_reads_no_large_weight(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    text = """
    main (float[1, 64, 8, 8] x, int64[3] i) => (float[1, 32, 6, 6] y, float[3, 64] z) {
      y = Conv(x, w)
      z = Gather(table, i)
    }
    """
    weights: dict[str, Any] = {
        "w": RNG.standard_normal((32, 64, 3, 3)).astype("float32"),
        "table": RNG.standard_normal((200, 64)).astype("float32"),
    }
    path = tmp_path / "model.onnx"
    onnx.save(model(text, weights), path)
    reads: list[int] = []
    plain = WeightFile.read_into

    def read_into(self: WeightFile, memory: Any, offset: int) -> None:
        reads.append(offset)
        plain(self, memory, offset)

    monkeypatch.setattr(WeightFile, "read_into", read_into)
    module = loomir.onnx.load(path)
    assert not reads
    x, i = RNG.standard_normal((1, 64, 8, 8)).astype("float32"), np.array([5, 0, 199])
    _, z = loomir.compile(module)(x, i)
    np.testing.assert_array_equal(z, weights["table"][i])
    assert reads
