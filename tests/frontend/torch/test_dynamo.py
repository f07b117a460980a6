"""Loomir as a backend of ``torch.compile``: inference, training, sizes, chance and fall-back."""

from __future__ import annotations

import copy
import re
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import loomir
from loomir.frontend.torch import dynamo
from loomir.support.compile_warning import CompileWarning

ROOT = Path(__file__).parents[3]


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    torch._dynamo.reset()
    dynamo._reported.clear()
    torch.manual_seed(0)
    yield
    torch._dynamo.reset()


@pytest.fixture
def runners(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Collect what Loomir compiled."""
    made: list[Any] = []
    plain = dynamo._Runner

    def runner(*args: Any) -> Any:
        made.append(plain(*args))
        return made[-1]

    monkeypatch.setattr(dynamo, "_Runner", runner)
    return made


def small() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(2, 4, 3, stride=2, padding=1),
        nn.BatchNorm2d(4),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(16, 3),
    )


def test_sizes_that_change_need_one_program_more(runners: list[Any]):
    model = nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.Linear(8, 2)).eval()
    compiled = loomir.torch.compile(model)
    with torch.no_grad():
        for batch in (3, 5, 7, 11):
            x = torch.randn(batch, 4)
            torch.testing.assert_close(compiled(x), model(x), rtol=1e-4, atol=1e-5)
    assert len(runners) == 2


def test_symbolic_sizes_from_the_start_need_one_program(runners: list[Any]):
    def scaled(x: torch.Tensor, n: int) -> torch.Tensor:
        return (x * n).reshape(n, -1).sum(1)

    compiled = loomir.torch.compile(scaled, dynamic=True)
    for n in (2, 3, 6):
        x = torch.randn(12, 5)
        torch.testing.assert_close(compiled(x, n), scaled(x, n))
    assert len(runners) == 1


def trained(model: nn.Module, run: Any) -> list[float]:
    torch.manual_seed(1)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    losses: list[float] = []
    for _ in range(3):
        x, y = torch.randn(6, 2, 8, 8), torch.randint(0, 3, (6,))
        loss = nn.functional.cross_entropy(run(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def test_training_compiles_forward_and_backward_and_agrees(runners: list[Any]):
    model = small().train()
    other = copy.deepcopy(model)
    want = trained(model, model)
    assert trained(other, loomir.torch.compile(other)) == pytest.approx(want, rel=1e-4)
    assert len(runners) == 2
    for (name, a), b in zip(model.state_dict().items(), other.state_dict().values()):
        torch.testing.assert_close(b, a, rtol=1e-3, atol=1e-5, msg=name)


def test_attention_is_trained_and_agrees(runners: list[Any]):
    def attend(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)

    given = [torch.randn(2, 2, 5, 4, requires_grad=True) for _ in range(3)]
    results: list[Any] = []
    for run in (attend, loomir.torch.compile(attend)):
        y = run(*given)
        results.append((y.detach(), *torch.autograd.grad(y.square().sum(), given)))
    torch.testing.assert_close(results[1], results[0], rtol=1e-4, atol=1e-5)
    assert len(runners) == 2


def test_dropout_draws_as_without_a_compiler(runners: list[Any]):
    model = nn.Sequential(nn.Linear(8, 8), nn.Dropout(0.4), nn.Linear(8, 4)).train()
    compiled = loomir.torch.compile(model)
    x = torch.randn(16, 8, requires_grad=True)
    results: list[tuple[Any, Any]] = []
    for run in (model, compiled):
        torch.manual_seed(3)
        y = run(x)
        (grad,) = torch.autograd.grad(y.square().sum(), x)
        results.append((y, grad))
    torch.testing.assert_close(results[1], results[0])
    assert len(runners) == 2


def test_random_numbers_are_drawn_in_the_order_of_the_program(runners: list[Any]):
    def noisy(x: torch.Tensor) -> torch.Tensor:
        return x + torch.randn(3) * torch.rand(x.shape[0], 1) + torch.randn_like(x)

    x = torch.randn(4, 3)
    torch.manual_seed(5)
    want = noisy(x)
    torch.manual_seed(5)
    torch.testing.assert_close(loomir.torch.compile(noisy)(x), want)
    assert len(runners) == 1


def test_graph_without_a_converter_runs_by_pytorch_and_is_reported_once(runners: list[Any]):
    def bessel(x: torch.Tensor) -> torch.Tensor:
        return torch.special.bessel_j0(x) + torch.special.bessel_j1(x)

    x = torch.randn(3)
    with pytest.warns(CompileWarning, match=r"(?s)bessel_j0.*bessel_j1"):
        made = loomir.torch.compile(bessel)(x)
    torch.testing.assert_close(made, bessel(x))
    torch._dynamo.reset()
    with warnings.catch_warnings():
        warnings.simplefilter("error", CompileWarning)
        loomir.torch.compile(bessel)(x)
    assert not runners


def _gradients(model: nn.Module, run: Any, x: torch.Tensor) -> list[torch.Tensor]:
    model.zero_grad()
    run(x).sum().backward()
    return [p.grad for p in model.parameters() if p.grad is not None]


class _Tokens(nn.Module):
    """Keeps a transposed image for its gradient, which a view of it needs as it lies."""

    def __init__(self) -> None:
        super().__init__()
        self.mix, self.up = nn.Linear(4, 4), nn.ConvTranspose2d(4, 3, 4, 2, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        tokens = self.mix(x.flatten(2).transpose(1, 2)).tanh()
        return self.up(tokens.transpose(1, 2).view(x.shape) + x).relu()


def test_pytorch_runs_gradients_of_a_compiled_graph(monkeypatch: pytest.MonkeyPatch):
    compile_graph: Any = dynamo._runner

    def only_forward(graph: Any, options: Any, constants: Any, laid_out: int) -> Any:
        return compile_graph(graph, options, constants, laid_out) if laid_out else None

    monkeypatch.setattr(dynamo, "_runner", only_forward)
    model, x = _Tokens(), torch.randn(2, 4, 3, 5)
    for got, want in zip(
        _gradients(model, loomir.torch.compile(model), x), _gradients(model, model, x), strict=True
    ):
        torch.testing.assert_close(got, want)


@pytest.mark.parametrize("dynamic", [False, True])
def test_convolutions_of_any_size_are_trained(runners: list[Any], dynamic: bool):
    model = nn.Sequential(nn.Conv2d(3, 4, 3, 2, 1), nn.Tanh(), nn.ConvTranspose2d(4, 3, 3, 2, 1))
    compiled = loomir.torch.compile(model, dynamic=dynamic)
    for size in ((2, 3, 8, 8), (2, 3, 9, 7), (3, 3, 6, 11)):
        x = torch.randn(size)
        for got, want in zip(
            _gradients(model, compiled, x), _gradients(model, model, x), strict=True
        ):
            torch.testing.assert_close(got, want)
    assert len(runners) >= 2  # PyTorch ran none of the graphs


def test_views_and_changed_inputs_keep_their_meaning():
    def change(x: torch.Tensor, out: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        out.copy_(x.t() * 2)
        return out.view(-1), x

    results: list[Any] = []
    for run in (change, loomir.torch.compile(change)):
        x, out = torch.arange(6.0).reshape(2, 3), torch.zeros(3, 2)
        results.append((*run(x, out), out))
    torch.testing.assert_close(results[1], results[0])


def _pick(x: torch.Tensor) -> Any:
    return x.flatten()[10], x.t()


def _pick_of_result(x: torch.Tensor) -> Any:
    y = x * 2
    return y, y.flatten()[10], y.t()[1:]


def _change(x: torch.Tensor) -> Any:
    x.mul_(2)
    return x.t(), x.flatten()[3:9:2]


def _repeat(x: torch.Tensor) -> Any:
    y = x + 1
    return y[:, None].expand(3, 2, 7), y.flatten().unfold(0, 4, 1), y[1:1]


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("model", [_pick, _pick_of_result, _change, _repeat])
def test_outputs_have_the_layout_that_pytorch_gives_them(
    model: Callable[[torch.Tensor], Any], dynamic: bool | None
):
    results: list[Any] = []
    for run in (model, loomir.torch.compile(model, dynamic=dynamic)):
        x = torch.arange(42.0)[21:].reshape(3, 7)
        results.append((x, *run(x)))
    for ours, theirs in zip(*reversed(results), strict=True):
        torch.testing.assert_close(ours, theirs, check_stride=True)
        shares = [r._is_view() and r._base is not None for r in (ours, theirs)]
        assert shares[0] == shares[1] or model is _repeat


def test_layouts_may_depend_on_values():
    def places(x: torch.Tensor) -> Any:
        return x.nonzero(), (x * 2).nonzero()[:, 0]

    x = torch.tensor([[0.0, 1.0, 2.0], [0.0, 0.0, 3.0]])
    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        torch.testing.assert_close(loomir.torch.compile(places)(x), places(x))


def test_tensors_may_be_made_in_the_model():
    def pick(x: torch.Tensor) -> torch.Tensor:
        return x[torch.tensor([1, 0])] * torch.tensor([[0.5], [2.0]])

    x = torch.arange(6.0).reshape(3, 2)
    with warnings.catch_warnings():
        warnings.simplefilter("error", CompileWarning)
        for dynamic in (None, True):
            run = loomir.torch.compile(pick, dynamic=dynamic)
            torch.testing.assert_close(run(x), pick(x))
        a, b = x.clone().requires_grad_(), x.clone().requires_grad_()
        loomir.torch.compile(pick)(a).sum().backward()
        pick(b).sum().backward()
        torch.testing.assert_close(a.grad, b.grad)


def test_backend_is_found_by_its_name(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    part = project.split("[project.entry-points.torch_dynamo_backends]")[1].split("\n\n")[0]
    named = dict(re.findall(r'^(\w+) = "(.+)"$', part, re.MULTILINE))
    folder = tmp_path / "backends_of_a_test-1.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Name: backends-of-a-test\nVersion: 1\n")
    lines = [f"{name} = {target}" for name, target in named.items()]
    (folder / "entry_points.txt").write_text("[torch_dynamo_backends]\n" + "\n".join(lines))
    monkeypatch.syspath_prepend(tmp_path)
    registry = torch._dynamo.backends.registry
    before = registry._BACKENDS.get("loomir")
    discover = registry._discover_entrypoint_backends
    getattr(discover, "__wrapped__", discover)()
    try:
        assert registry.lookup_backend("loomir") is dynamo.backend
        run = torch.compile(torch.relu, backend="loomir", options={"opt_level": 1})
        torch.testing.assert_close(run(torch.tensor([-1.0, 2.0])), torch.tensor([0.0, 2.0]))
    finally:
        registry._BACKENDS.pop("loomir", None)
        registry._COMPILER_FNS.pop("loomir", None)
        if before is not None:
            registry._BACKENDS["loomir"] = before


def test_nothing_is_warned_of_where_all_is_compiled():
    with warnings.catch_warnings():
        warnings.simplefilter("error", CompileWarning)
        loomir.torch.compile(torch.tanh)(torch.zeros(2))


# -- parameters that are constants -----------------------------------------------------------------
@pytest.fixture
def compiles(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Collect how many inputs were constants in each program that was compiled."""
    made: list[int] = []
    plain = dynamo._runner

    def runner(graph: Any, options: Any, constants: Any, laid_out: int) -> Any:
        made.append(len(constants))
        return plain(graph, options, constants, laid_out)

    monkeypatch.setattr(dynamo, "_runner", runner)
    return made


def _normed() -> nn.Module:
    return nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Linear(8, 2)).eval()


def test_parameters_are_constants_for_inference(runners: list[Any], compiles: list[int]):
    model = _normed()
    compiled = loomir.torch.compile(model, freeze=True)
    x = torch.randn(3, 4)
    with torch.no_grad():
        for _ in range(3):
            torch.testing.assert_close(compiled(x), model(x))
    assert compiles == [8]
    assert [len(r._passed) for r in runners] == [1]  # nothing but the input


def test_what_is_written_to_a_parameter_counts(compiles: list[int]):
    model: Any = _normed()
    compiled = loomir.torch.compile(model, freeze=True)
    x = torch.randn(3, 4)
    with torch.no_grad():
        torch.testing.assert_close(compiled(x), model(x))
        model.load_state_dict(_normed().state_dict())
        torch.testing.assert_close(compiled(x), model(x))
        for _ in range(4):  # what changes often is an argument
            model[0].weight.mul_(1.5)
            torch.testing.assert_close(compiled(x), model(x))
        model[2].bias.data = torch.randn(2)
        torch.testing.assert_close(compiled(x), model(x))
    first, second, *others = compiles
    assert first == 8
    assert second == 6  # buffers that are written stay arguments
    assert len(others) == 3
    assert others == sorted(others, reverse=True)


def test_modules_that_share_code_keep_their_parameters():
    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.Linear(4, 4)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.relu(self.inner(x))

    model = nn.Sequential(*[Block() for _ in range(3)]).eval()
    x = torch.randn(3, 4)
    wanted = model(x)
    for block in model:
        block.compile(backend="loomir", options={"freeze": True})
    with torch.no_grad():
        for _ in range(2):
            torch.testing.assert_close(model(x), wanted)


def test_a_cache_that_the_model_writes_is_no_constant():
    class Counting(nn.Module):
        seen: torch.Tensor

        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("seen", torch.zeros(4))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.seen.add_(x)
            return self.seen * 2

    model: Any = Counting().eval()
    compiled = loomir.torch.compile(model, freeze=True)
    with torch.no_grad():
        for k in range(1, 5):
            torch.testing.assert_close(compiled(torch.ones(4)), torch.full((4,), 2.0 * k))


def test_nothing_is_constant_unless_asked():
    model: Any = _normed()
    compiled = torch.compile(model, backend="loomir")
    x = torch.randn(3, 4)
    with torch.no_grad():
        torch.testing.assert_close(compiled(x), model(x))
        model[0].weight.data.mul_(2)  # which PyTorch does not count
        torch.testing.assert_close(compiled(x), model(x))
        model[2].bias.detach().numpy()[:] = 3
        torch.testing.assert_close(compiled(x), model(x))
