"""Complex tensors, which are pairs along a last axis in Loomir, compared with PyTorch."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import loomir
import loomir.torch
from loomir.frontend.torch.node import Node
from loomir.support.compile_warning import CompileWarning
from loomir.support.diagnostics import CompileError
from tests.frontend.torch.functions import Function, floats, join, pairs, split

INF, NAN = math.inf, math.nan


def import_and_run(model: nn.Module, *inputs: torch.Tensor) -> torch.Tensor:
    program = torch.export.export(model, inputs)
    run = loomir.compile(loomir.torch.from_exported(program))["main"]
    return torch.from_numpy(np.array(run(*[x.numpy() for x in inputs])))


def compare(function: Callable[..., Any], *inputs: torch.Tensor, exact: bool = False) -> None:
    model = function if isinstance(function, nn.Module) else Function(function)
    wanted = model(*inputs)
    made = import_and_run(model, *inputs)
    if exact:
        torch.testing.assert_close(made, wanted, rtol=0, atol=0, equal_nan=True)
    else:
        torch.testing.assert_close(made, wanted, equal_nan=True)


def compare_pairs(function: Callable[..., Any], *inputs: torch.Tensor, exact: bool = False) -> None:
    """Compare a function of complex tensors, which are given as pairs."""
    compare(lambda *given: split(function(*map(join, given))), *inputs, exact=exact)


DTYPES = [torch.float32, torch.float64]
ARITHMETIC: dict[str, Callable[..., Any]] = {
    "add": lambda a, b: a + b,
    "add scaled": lambda a, b: torch.add(a, b, alpha=1 - 2j),
    "sub": lambda a, b: a - b,
    "rsub": lambda a, b: 3 - a + (2j - b),
    "mul": lambda a, b: a * b,
    "mul number": lambda a, b: a * 2.5 + b * 1j,
    "div": lambda a, b: a / b,
    "div number": lambda a, b: a / 2 + b / (1 - 1j) + 1j / a,
    "neg": lambda a, b: -a,
    "exp": lambda a, b: a.exp(),
    "log": lambda a, b: a.log(),
    "sqrt": lambda a, b: a.sqrt() + b.sqrt(),
    "reciprocal": lambda a, b: a.reciprocal(),
    "square": lambda a, b: a.square() + b**2,
    "pow": lambda a, b: a**b + a**1.7 + b**-1,
    "sgn": lambda a, b: torch.sgn(a),
    "conj": lambda a, b: (a.conj() * b).conj(),
}


@pytest.mark.parametrize("name", ARITHMETIC)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_arithmetic(name: str, dtype: torch.dtype):
    compare_pairs(ARITHMETIC[name], pairs(3, 4, dtype=dtype), pairs(3, 1, dtype=dtype))


MOVEMENT: dict[str, Callable[..., Any]] = {
    "view": lambda a: a.reshape(-1, 2).unsqueeze(1).squeeze(1).view(4, 6),
    "permute": lambda a: a.permute(2, 0, 1),
    "transpose": lambda a: a.transpose(-1, 0).mT,
    "t": lambda a: a[0].t(),
    "expand": lambda a: a[:, :1].expand(2, 5, 4),
    "slice": lambda a: a[:, 1:, ::2],
    "select": lambda a: a[-1, :, 1],
    "cat": lambda a: torch.cat([a, a[:, :1], a.real], 1),
    "stack": lambda a: torch.stack([a, a.conj()], -1),
    "split": lambda a: a.split([1, 3], -1)[1] + a.chunk(4, -1)[0] + a.unbind(1)[2][:, None, :1],
    "index": lambda a: a[:, torch.tensor([2, 0])] + a.index_select(1, torch.tensor([1, 1])),
    "gather": lambda a: a.gather(2, torch.tensor([[[3, 0]], [[1, 2]]])),
    "flip": lambda a: a.flip(-1).roll(1, -2),
    "repeat": lambda a: a.repeat(2, 1, 1, 2),
    "diagonal": lambda a: torch.diagonal(a, 1, 1, 2) + torch.tril(a)[0, 0, :1],
    "pad": lambda a: nn.functional.pad(a, (1, 2, -1, 0), value=1.5),
    "sum": lambda a: a.sum(-1) + a.mean(-1) + a.sum((0, 2))[None] + a.sum(),
    "cumsum": lambda a: a.cumsum(-1),
}  # fmt: skip


@pytest.mark.parametrize("name", MOVEMENT)
def test_movement(name: str):
    compare_pairs(MOVEMENT[name], pairs(2, 3, 4))


PRODUCTS: dict[str, tuple[Callable[..., Any], list[tuple[int, ...]]]] = {
    "mm": (torch.mm, [(3, 4), (4, 5)]),
    "bmm": (torch.bmm, [(2, 3, 4), (2, 4, 5)]),
    "matmul": (torch.matmul, [(2, 3, 4), (4, 5)]),
    "mv": (torch.mv, [(3, 4), (4,)]),
    "dot": (torch.dot, [(4,), (4,)]),
    "addmm": (torch.addmm, [(5,), (3, 4), (4, 5)]),
    "linear": (nn.functional.linear, [(2, 3, 4), (5, 4), (5,)]),
    "einsum": (lambda a, b: torch.einsum("bixy,ioxy->boxy", a, b), [(2, 3, 4, 5), (3, 6, 4, 5)]),
}


@pytest.mark.parametrize("name", PRODUCTS)
def test_products(name: str):
    function, shapes = PRODUCTS[name]
    compare_pairs(function, *[pairs(*shape) for shape in shapes])


def test_parts_and_sizes():
    def measure(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        x = torch.complex(a, b)
        return x.abs() + x.angle() * x.real - x.conj().imag + torch.polar(a.abs(), b).imag

    compare(measure, floats(3, 4), floats(3, 4))
    compare(torch.angle, torch.tensor([-1.0, 0.0, -0.0, 2.0, INF, -INF, NAN]))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_sizes_do_not_overflow(dtype: torch.dtype):
    large = float(torch.finfo(dtype).max) / 4
    values = torch.tensor([[large, large], [1 / large, 0], [0, 0], [3, -4], [-INF, NAN], [NAN, 1]],
                          dtype=dtype)  # fmt: skip
    compare(lambda x: join(x).abs(), values)
    compare_pairs(lambda a, b: a / b, values[:2], values[:1].expand(2, 2).contiguous())


def test_comparisons_and_choices():
    a, b = pairs(3, 4), pairs(3, 4)
    b[0] = 1
    compare(lambda x, y: (join(x) == join(y)) | (join(x) != 1 + 1j), a, b)
    compare(lambda x, y: split(torch.where(y > 0, join(x), y)), a, floats(3, 4))
    compare(lambda x, y: split(join(x).masked_fill(y > 0, 1.5)), a, floats(3, 4))


def test_numbers_of_real_tensors_become_complex():
    compare(lambda x: split(x * 1j + 2), floats(3))
    compare(lambda x: split(x + torch.tensor([1 + 1j, 2, 3j])), floats(3))
    compare(lambda x: split(x.to(torch.complex128)), floats(3))
    compare(lambda x: join(x).to(torch.complex128).abs(), pairs(3))


def test_tensors_that_are_made():
    def make(x: torch.Tensor) -> torch.Tensor:
        a = torch.zeros(2, 3, dtype=torch.complex64)
        a[:, 1:] = join(x)
        a[0, :1] = torch.full((1,), 2j)
        return split(a + torch.full((3,), 1 - 2j) + torch.ones_like(a))

    compare(make, pairs(2, 2))


def test_no_elements():
    compare_pairs(lambda a, b: (a * b).sum(-1), pairs(3, 0), pairs(3, 0))


class Rotary(nn.Module):
    """The rotary embedding of Llama, as it was first published."""

    frequencies: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        angles = torch.outer(torch.arange(16.0), 10000.0 ** -(torch.arange(0, 8, 2) / 8))
        self.register_buffer("frequencies", torch.polar(torch.ones_like(angles), angles))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        made = join(x.reshape(*x.shape[:-1], -1, 2)) * self.frequencies[: x.shape[1], None]
        return split(made).flatten(3)


def test_rotary_embedding():
    compare(Rotary(), floats(2, 6, 3, 8))


def test_rotary_embedding_of_any_length():
    model, x = Rotary(), floats(2, 6, 3, 8)
    sizes = {"x": {0: torch.export.Dim("batch"), 1: torch.export.Dim("length", max=16)}}
    program = torch.export.export(model, (x,), dynamic_shapes=sizes)
    run = loomir.compile(loomir.torch.from_exported(program))["main"]
    for shape in [(2, 6, 3, 8), (1, 11, 3, 8)]:
        given = floats(*shape)
        made = torch.from_numpy(np.array(run(given.numpy())))
        torch.testing.assert_close(made, model(given))


# -- torch.compile -------------------------------------------------------------------------------
def compile_strictly(function: Callable[..., Any]) -> Callable[..., Any]:
    torch.compiler.reset()
    return torch.compile(function, backend="loomir", fullgraph=True)


def test_compiled_functions_take_and_return_complex_tensors():
    def function(a: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return a * b.T + 1j, (a @ b).abs()

    a, b = join(pairs(3, 4)), join(pairs(4, 3))
    with warnings.catch_warnings():
        warnings.simplefilter("error", CompileWarning)
        made = compile_strictly(function)(a.conj(), b)
    torch.testing.assert_close(made, function(a.conj(), b))


def test_compiled_model_with_a_complex_buffer():
    model, x = Rotary(), floats(2, 6, 3, 8)
    with warnings.catch_warnings():
        warnings.simplefilter("error", CompileWarning)
        torch.testing.assert_close(compile_strictly(model)(x), model(x))


def test_gradients_of_complex_tensors():
    def loss(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return (torch.view_as_complex(x) * w).abs().square().sum()

    grads: list[Any] = []
    for way in (loss, compile_strictly(loss)):
        x, w = pairs(3, 4).requires_grad_(), join(pairs(4)).clone().requires_grad_()
        with warnings.catch_warnings():
            warnings.simplefilter("error", CompileWarning)
            way(x, w).backward()
        grads.append((x.grad, w.grad))
    torch.testing.assert_close(grads[1], grads[0])


# -- errors --------------------------------------------------------------------------------------
def refusal(function: Callable[..., Any], *inputs: torch.Tensor) -> str:
    program = torch.export.export(Function(function), inputs)
    with pytest.raises(CompileError) as caught:
        loomir.torch.from_exported(program)
    return str(caught.value)


def test_converters_that_know_no_complex_numbers_are_refused():
    text = refusal(lambda x: split(torch.cumprod(join(x), 0)), pairs(3))
    assert "PTC0011" in text
    assert "aten.cumprod.default: its converter takes no complex numbers" in text
    assert "torch.view_as_real(x)" in text


def test_complex_outputs_are_refused():
    text = refusal(lambda x: join(x) * 2, pairs(3))
    assert "PTC0013" in text
    assert "it is complex" in text
    assert "torch.view_as_real(x)" in text


@pytest.mark.filterwarnings("ignore:ComplexHalf support is experimental")
def test_complex_numbers_of_16_bits_are_refused():
    text = refusal(lambda x: split(join(x) + 0), pairs(3).half())
    assert "PTC0013" in text


def test_own_converters_of_complex_numbers():
    def convert(node: Node) -> Any:
        assert node.is_complex(0)
        return loomir.op.negative(node.tensor(0))

    loomir.torch.register_converter("aten.atanh.default", convert, complex=True)
    x = pairs(3)
    made = import_and_run(Function(lambda a: split(torch.atanh(join(a)))), x)
    torch.testing.assert_close(made, -x)
    compare(lambda a: torch.atanh(a / 4), floats(3).clamp(-1, 1))
