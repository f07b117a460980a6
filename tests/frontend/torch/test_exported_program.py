"""Exported programs become modules: what they compute, what stays symbolic, and what is refused."""

from __future__ import annotations

import copy
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import loomir
from loomir import op
from loomir.frontend.torch import registry
from loomir.ir.visit import pre_order
from loomir.relax.expr import Constant, Function
from loomir.support.diagnostics import CompileError, RunError
from loomir.te import topi
from tests.frontend.torch import functions

BATCH = torch.export.Dim("batch", min=1, max=64)


def seeded(make: Any) -> Any:
    torch.manual_seed(0)
    return make()


def perceptron() -> nn.Module:
    return nn.Sequential(nn.Linear(20, 32), nn.ReLU(), nn.Linear(32, 5), nn.Softmax(-1))


def convolutional() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1),
        nn.BatchNorm2d(8),
        nn.SiLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(8, 8, 3, groups=8, padding=1),
        nn.GELU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(8, 10),
    )


def encoder() -> nn.Module:
    layer = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True, activation="gelu")
    return nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)


def agree(model: nn.Module, *inputs: torch.Tensor, dynamic: Any = None, others: Any = ()) -> None:
    """Compare what is compiled with the model in float64, on the inputs and on others."""
    model = model.eval()
    exported = torch.export.export(model, inputs, dynamic_shapes=dynamic)
    run = loomir.compile(loomir.torch.from_exported(exported))
    wide = copy.deepcopy(model).double()
    for given in [inputs, *others]:
        with torch.no_grad():
            want = wide(*[x.double() if x.is_floating_point() else x for x in given])
        made = run(*given)
        assert isinstance(made, torch.Tensor)
        torch.testing.assert_close(made.double(), want, rtol=1e-4, atol=1e-5)


def test_perceptron_agrees_for_any_batch():
    others = [(torch.randn(n, 20),) for n in (1, 7)]
    agree(seeded(perceptron), torch.randn(3, 20), dynamic=({0: BATCH},), others=others)


def test_convolutional_network_agrees_for_any_batch():
    others = [(torch.randn(n, 3, 12, 12),) for n in (1, 3)]
    agree(seeded(convolutional), torch.randn(2, 3, 12, 12), dynamic=({0: BATCH},), others=others)


def test_transformer_encoder_agrees_for_any_length():
    length = torch.export.Dim("length", min=2, max=128)
    others = [(torch.randn(1, n, 32),) for n in (4, 9)]
    agree(
        seeded(encoder),
        torch.randn(2, 6, 32),
        dynamic=({0: BATCH, 1: length},),
        others=others,
    )


def function_of(exported: Any) -> Function:
    found = loomir.torch.from_exported(exported)["main"]
    assert isinstance(found, Function)
    return found


def constants_in(func: Function) -> list[np.ndarray[Any, Any]]:
    return [n.data.data for n in pre_order(func) if isinstance(n, Constant)]


class Windows(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.unfold(0, 3, 2)


def test_windows_along_an_axis_of_any_length():
    length = torch.export.Dim("length", min=3, max=128)
    others = [(torch.randn(n, 4),) for n in (3, 11)]
    agree(Windows(), torch.randn(8, 4), dynamic=({0: length},), others=others)


def test_parameters_are_the_memory_of_their_tensors():
    model = seeded(perceptron).eval()
    func = function_of(torch.export.export(model, (torch.randn(3, 20),)))
    found = {c.ctypes.data for c in constants_in(func)}
    assert {p.data_ptr() for p in model.parameters()} <= found


def test_bfloat16_parameters_are_the_memory_of_their_tensors():
    model = seeded(perceptron).eval().bfloat16()
    x = torch.randn(3, 20, dtype=torch.bfloat16)
    exported = torch.export.export(model, (x,))
    found = {c.ctypes.data for c in constants_in(function_of(exported))}
    assert {p.data_ptr() for p in model.parameters()} <= found
    made = loomir.compile(loomir.torch.from_exported(exported))(x)
    with torch.no_grad():
        torch.testing.assert_close(made, model(x), rtol=2e-2, atol=2e-2)


def test_ranges_of_dynamic_dimensions_are_kept():
    model = seeded(perceptron).eval()
    func = function_of(
        torch.export.export(model, (torch.randn(3, 20),), dynamic_shapes=({0: BATCH},))
    )
    (bounds,) = func.attrs["torch_ranges"].values()
    assert tuple(bounds) == (1, 64)


class Counter(nn.Module):
    """A model that changes its buffers."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("total", torch.zeros(3))
        self.norm = nn.BatchNorm1d(3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.total.add_(x.sum(0))
        return self.norm(x) + self.total


def test_changed_buffers_are_parameters_and_outputs():
    model = Counter().train()
    x = torch.randn(4, 3)
    module = loomir.torch.from_exported(torch.export.export(model, (x,)))
    func = module["main"]
    assert isinstance(func, Function)
    names = list(func.attrs["torch_mutated"])
    assert names == ["total", "norm.running_mean", "norm.running_var", "norm.num_batches_tracked"]
    before = [model.get_buffer(name).clone() for name in names]
    made, *after = loomir.compile(module)(x, *before)
    torch.testing.assert_close(made, model(x))
    for name, value in zip(names, after, strict=True):
        torch.testing.assert_close(value, model.get_buffer(name))


def test_several_outputs_are_a_tuple():
    class Both(nn.Module):
        def forward(self, x: torch.Tensor) -> dict[str, Any]:
            return {"low": x.min(), "high": x.max(), "name": "both"}

    x = torch.randn(4, 3)
    run = loomir.compile(loomir.torch.from_exported(torch.export.export(Both(), (x,))))
    assert run(x) == (x.min(), x.max(), "both")


class Unknown(nn.Module):
    def forward(self, x: torch.Tensor) -> Any:
        first = torch.special.bessel_j0(x)
        return first + torch.special.bessel_j1(first), torch.special.bessel_j0(x)


def test_all_that_cannot_be_imported_is_told_at_once_with_the_lines_of_the_model():
    exported = torch.export.export(Unknown(), (torch.randn(3),))
    with pytest.raises(CompileError) as found:
        loomir.torch.from_exported(exported)
    first, second = found.value.diagnostics
    assert first.code == second.code == "PTC0010"
    assert "aten.special_bessel_j0.default, which 2 nodes use" in first.message
    assert "aten.special_bessel_j1.default, which 1 node uses" in second.message
    assert "test_exported_program.py:" in first.notes[0]
    assert "first = torch.special.bessel_j0(x)" in first.notes[0]


@pytest.fixture
def own_converters() -> Iterator[None]:
    before = dict(registry._rows)
    yield
    registry._rows.clear()
    registry._rows.update(before)


@pytest.mark.usefixtures("own_converters")
def test_converter_can_be_registered():
    loomir.torch.register_converter(
        torch.ops.aten.special_bessel_j0.default, lambda node: op.square(node.tensor(0))
    )
    loomir.torch.register_converter(
        "aten.special_bessel_j1.default", lambda node: node.compute(topi.exp, node[0])
    )
    x = torch.randn(3)
    run = loomir.compile(loomir.torch.from_exported(torch.export.export(Unknown(), (x,))))
    total, square = run(x)
    torch.testing.assert_close(square, x * x)
    torch.testing.assert_close(total, x * x + torch.exp(x * x))
    assert "aten.special_bessel_j0.default" in loomir.torch.supported()


def test_complex_numbers_are_refused_by_name():
    class Rotated(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x * 1j

    exported = torch.export.export(Rotated(), (torch.zeros(2, dtype=torch.complex64),))
    with pytest.raises(CompileError, match=r"PTC0013.*the input x: complex numbers"):
        loomir.torch.from_exported(exported)


def test_what_is_no_exported_program_is_refused():
    with pytest.raises(CompileError, match=r"PTC0002.*not a Sequential"):
        loomir.torch.from_exported(perceptron())


def test_torch_is_not_imported_before_it_is_used():
    code = "import sys, loomir; loomir.torch.register_converter; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


class Halves(nn.Module):
    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, int]:
        return x.reshape(-1, 2, x.shape[1]).sum(1), x.shape[0] // 2


class TwoInputs(nn.Module):
    def forward(self, short: torch.Tensor, long: torch.Tensor) -> torch.Tensor:
        return short.repeat_interleave(3, 0) + long.repeat_interleave(2, 0)


class Resampled(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.down = nn.Conv2d(3, 8, 3, padding=1, stride=2)
        self.deeper = nn.Conv2d(8, 8, 3, padding=1, stride=2)
        self.up = nn.ConvTranspose2d(8, 8, 2, 2)
        self.out = nn.ConvTranspose2d(16, 3, 2, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        wide = torch.relu(self.down(x))
        return x + self.out(torch.cat([self.up(torch.relu(self.deeper(wide))), wide], 1))


SIZE, OTHER = torch.export.Dim("size", min=2, max=50), torch.export.Dim("other", min=2, max=50)


def test_sizes_are_found_from_computed_dimensions():
    model = Halves()
    dims = ({0: 2 * SIZE},)
    program = torch.export.export(model, (torch.randn(8, 4),), dynamic_shapes=dims)
    run = loomir.compile(loomir.torch.from_exported(program))
    x = torch.randn(14, 4)
    found, half = run(x)
    assert torch.allclose(torch.as_tensor(found), model(x)[0])
    assert half == 7
    with pytest.raises(RunError, match=r"the value of x, axis 0: the extent must be 6 .*not 7"):
        run(torch.randn(7, 4))


@pytest.mark.parametrize("swapped", [False, True])
def test_one_computed_dimension_tells_another(swapped: bool):
    inputs, dims = [torch.randn(4, 3), torch.randn(6, 3)], [{0: 2 * SIZE}, {0: 3 * SIZE}]
    others = [torch.randn(10, 3), torch.randn(15, 3)]

    class Model(nn.Module):
        def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
            return TwoInputs()(b, a) if swapped else TwoInputs()(a, b)

    if swapped:
        inputs, dims, others = inputs[::-1], dims[::-1], others[::-1]
    agree(Model(), *inputs, dynamic=tuple(dims), others=[tuple(others)])


def test_images_whose_sizes_are_multiples():
    dims = ({2: 4 * SIZE, 3: 4 * OTHER + 4},)
    image = torch.randn(1, 3, 16, 24)
    agree(seeded(Resampled), image, dynamic=dims, others=[(torch.randn(1, 3, 8, 32),)])


class Returns(nn.Module):
    def __init__(self, returned: Any) -> None:
        super().__init__()
        self.returned = returned

    def forward(self, x: torch.Tensor) -> Any:
        return self.returned(x)


@pytest.mark.parametrize("dynamic", [False, True])
def test_sizes_and_constants_are_results(dynamic: bool):
    def returned(x: torch.Tensor) -> Any:
        sizes = {"rows": x.shape[0], "twice": 2 * x.shape[0], "many": x.shape[0] > 2}
        return x + 1, 3, None, "text", True, 0.1, sizes, x.shape

    dims = ({0: BATCH},) if dynamic else None
    program = torch.export.export(Returns(returned), (torch.randn(4, 2),), dynamic_shapes=dims)
    run = loomir.compile(loomir.torch.from_exported(program))
    x = torch.randn(6 if dynamic else 4, 2)
    found = run(x)
    assert torch.allclose(torch.as_tensor(found[0]), x + 1)
    assert found[1:] == (3, None, "text", True, 0.1, len(x), 2 * len(x), True, len(x), 2)


@pytest.mark.parametrize("value", [None, 7, 0.1, "text", False])
def test_one_constant_is_the_result(value: Any):
    program = torch.export.export(Returns(lambda _: value), (torch.randn(4),))
    assert loomir.compile(loomir.torch.from_exported(program))(torch.randn(4)) == value


def test_programs_of_known_operators_are_not_traced_again(monkeypatch: pytest.MonkeyPatch):
    def refuse(*_: Any) -> None:
        raise AssertionError("decomposed")

    known = torch.export.export(
        functions.Function(lambda x: torch.relu(x) * x + 1), (functions.floats(3, 4),)
    )
    inplace = torch.export.export(
        functions.Function(lambda x: x.clone().add_(1)), (functions.floats(3, 4),)
    )
    composite = torch.export.export(
        functions.Function(lambda x: torch.block_diag(x, x)), (functions.floats(3, 4),)
    )
    monkeypatch.setattr(torch.export.ExportedProgram, "run_decompositions", refuse)
    x = functions.floats(3, 4)
    found = loomir.compile(loomir.torch.from_exported(known))["main"](x.numpy())
    np.testing.assert_allclose(np.asarray(found), (torch.relu(x) * x + 1).numpy(), rtol=1e-5)
    for program in (inplace, composite):
        with pytest.raises(AssertionError, match="decomposed"):
            loomir.torch.from_exported(program)
