"""Files of ``torch.export.save``: what they hold runs, and nothing in them can act."""

from __future__ import annotations

import contextlib
import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import loomir
from loomir.support.diagnostics import CompileError


class Model(torch.nn.Module):
    """Weights that share memory, a buffer, a constant, a branch, and a size in a shape."""

    def __init__(self) -> None:
        super().__init__()
        self.first = torch.nn.Linear(4, 4)
        self.second = torch.nn.Linear(4, 4)
        self.second.weight = self.first.weight
        self.register_buffer("scale", torch.arange(4.0))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y = self.second(torch.relu(self.first(x)))
        z = torch.cond(x.sum() > 0, lambda a: a + 1, lambda a: a - 1, (y,))
        return (z * self.scale).view(x.shape[0] * 4), x + torch.tensor([1.0, 2, 3, 4])


Parts = dict[str, bytes]


@pytest.fixture(scope="module")
def program() -> Any:
    torch.manual_seed(0)
    rows = torch.export.Dim("rows", min=2, max=100)
    return torch.export.export(
        Model().eval().requires_grad_(False), (torch.ones(5, 4),), dynamic_shapes=({0: rows},)
    )


@pytest.fixture(scope="module")
def parts(program: Any, tmp_path_factory: pytest.TempPathFactory) -> Parts:
    path = tmp_path_factory.mktemp("saved") / "model.pt2"
    torch.export.save(program, path)
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def write(parts: Parts, path: Path, how: int = zipfile.ZIP_STORED) -> Path:
    with zipfile.ZipFile(path, "w", how) as archive:
        for name, data in parts.items():
            archive.writestr(name, data)
    return path


def changed(parts: Parts, name: str, change: Callable[[Any], Any]) -> Parts:
    """Return the parts with one of JSON changed."""
    made = dict(parts)
    (key,) = [k for k in parts if k.endswith(name)]
    text = json.loads(parts[key])
    change(text)
    made[key] = json.dumps(text).encode()
    return made


def test_a_saved_program_computes_what_it_computed(program: Any, parts: Parts, tmp_path: Path):
    run = loomir.compile(loomir.torch.load(write(parts, tmp_path / "model.pt2")))
    for rows in (2, 7):
        x = torch.randn(rows, 4, generator=torch.Generator().manual_seed(rows))
        wanted = program.module()(x)
        for got, want in zip(run(x.numpy()), wanted, strict=True):
            np.testing.assert_allclose(got, want.detach().numpy(), rtol=1e-5, atol=1e-5)


def first_node(text: Any) -> Any:
    return text["graph_module"]["graph"]["nodes"][0]


@pytest.mark.parametrize(
    "target",
    [
        "torch.ops.load_library",
        "torch.ops.aten.from_file.default",
        "torch.ops.aten.__class__.mro",
        "torch.ops.aten.add.overloads",
        "torch.ops.other.op.default",
        "torch.hub.load",
        "torch.ops.higher_order.triton_kernel_wrapper_mutation",
        "_operator.attrgetter",
        "os.system",
        "#own.op",
        7,
    ],
)
def test_only_operators_on_tensors_are_called(parts: Parts, tmp_path: Path, target: Any):
    def change(text: Any) -> None:
        first_node(text)["target"] = target

    path = write(changed(parts, "model.json", change), tmp_path / "model.pt2")
    with pytest.raises(CompileError, match=r"[oO]perator|has no name") as found:
        loomir.torch.load(path)
    assert found.value.diagnostics[0].code == "PTC0003"


@pytest.mark.parametrize(
    "size",
    [
        "__import__('os').system('true')",
        "Symbol('s0').__class__",
        "Integer(2) ** Integer(9999999999)",
        "Pow(Integer(10), Integer(9999999999))",
        "Symbol('lambda')",
        "[s0 for s0 in (1,)]",
        "f(s0)",
        "Integer(99999999999999999999999)",
        "1" * 30_000,
        "-" * 9_000 + "1",
        None,
    ],
)
def test_sizes_are_checked_before_they_are_evaluated(parts: Parts, tmp_path: Path, size: Any):
    def change(text: Any) -> None:
        tensors = text["graph_module"]["graph"]["tensor_values"]
        tensors["x"]["sizes"][0]["as_expr"]["expr_str"] = size

    path = write(changed(parts, "model.json", change), tmp_path / "model.pt2")
    with pytest.raises(CompileError, match="a size is"):
        loomir.torch.load(path)


def test_modules_that_a_file_names_are_not_imported(parts: Parts, tmp_path: Path):
    def nested(kind: str, context: Any) -> Callable[[Any], None]:
        spec = {"type": kind, "context": context, "children_spec": []}

        def change(text: Any) -> None:
            calls = text["graph_module"]["module_call_graph"]
            calls[0]["signature"]["in_spec"] = json.dumps([1, spec])

        return change

    factory = json.dumps({"default_factory_module": "antigravity"})
    for kind, context in [
        ("collections.defaultdict", factory),
        ("builtins.dict", json.dumps({"__enum__": True, "fqn": "antigravity:X"})),
    ]:
        path = write(changed(parts, "model.json", nested(kind, context)), tmp_path / "model.pt2")
        with pytest.raises(CompileError, match="PTC0003"):
            loomir.torch.load(path)


def payload(text: Any, **changes: Any) -> None:
    text["config"]["first.bias"].update(changes)


def meta(text: Any, **changes: Any) -> None:
    text["config"]["first.bias"]["tensor_meta"].update(changes)


@pytest.mark.parametrize(
    ("change", "found"),
    [
        (lambda t: payload(t, use_pickle=True), "'first.bias' is pickled"),
        (lambda t: payload(t, path_name="../../weight"), "it has no data/weights/"),
        (lambda t: meta(t, sizes=[{"as_int": 5}]), "larger than its part"),
        (lambda t: meta(t, storage_offset={"as_int": 1}), "larger than its part"),
        (lambda t: meta(t, strides=[{"as_int": 2**50}]), "extent that is no number"),
        (lambda t: meta(t, strides=[]), "1 extents and 0 strides"),
        (lambda t: meta(t, dtype=99), "damaged"),
    ],
)
def test_weights_are_bytes_of_their_parts(
    parts: Parts, tmp_path: Path, change: Callable[[Any], None], found: str
):
    config = changed(parts, "model_weights_config.json", change)
    path = write(config, tmp_path / "model.pt2")
    with pytest.raises(CompileError, match="PTC0003") as error:
        loomir.torch.load(path)
    assert found in str(error.value)


def test_damaged_files_are_refused(parts: Parts, tmp_path: Path):
    whole = write(parts, tmp_path / "model.pt2").read_bytes()
    rng = np.random.default_rng(0)
    path = tmp_path / "damaged.pt2"
    for data in [b"", b"PK\x03\x04", whole[:900], whole[900:]]:
        path.write_bytes(data)
        with pytest.raises(CompileError, match="PTC0003"):
            loomir.torch.load(path)
    for _ in range(20):
        data = bytearray(whole)
        for place in rng.integers(0, len(data), 30):
            data[place] = rng.integers(256)
        path.write_bytes(data)
        with contextlib.suppress(CompileError):
            loomir.torch.load(path)
    with pytest.raises(CompileError, match="No such file"):
        loomir.torch.load(tmp_path / "missing.pt2")


def test_compressed_parts_are_refused(parts: Parts, tmp_path: Path):
    path = write(parts, tmp_path / "model.pt2", zipfile.ZIP_DEFLATED)
    with pytest.raises(CompileError, match="compressed"):
        loomir.torch.load(path)
