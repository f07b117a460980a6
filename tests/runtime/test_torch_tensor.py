"""PyTorch's tensors as arguments: with torch where it is installed, else with a stand-in."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import loomir
from loomir import te
from loomir.runtime import ffi, torch_tensor
from loomir.support.diagnostics import RunError
from tests.runtime import fake_torch
from tests.runtime.native import ID_FLOAT, Explainer, add_f32, buffer, function, scalar

INSTALLED = importlib.util.find_spec("torch") is not None


def real_torch() -> SimpleNamespace:
    """Torch, with the stand-in's ways to make odd tensors."""
    import torch

    def negated(values: list[float]) -> object:
        # The imaginary part of a conjugate is the original's, negated lazily.
        return torch.complex(torch.zeros(len(values)), torch.tensor(values)).conj().imag

    return SimpleNamespace(
        Tensor=torch.Tensor,
        nn=torch.nn,
        no_grad=torch.no_grad,
        tensor=lambda values, requires_grad=False: torch.tensor(
            values, dtype=torch.float32, requires_grad=requires_grad
        ),
        negated=negated,
        conjugated=lambda values: torch.tensor(values, dtype=torch.complex64).conj(),
        sparse=lambda values: torch.tensor(values).to_sparse(),
        elsewhere=lambda values: torch.tensor(values, device="meta"),
    )


@pytest.fixture
def torch(monkeypatch: pytest.MonkeyPatch):
    ffi.native_symbols()  # tvm-ffi would ask a torch that is there for more than the stand-in has
    monkeypatch.setattr(torch_tensor, "_found", [])
    if INSTALLED:
        return real_torch()
    monkeypatch.setitem(sys.modules, "torch", fake_torch.module())
    return fake_torch


def refused(code: str, call: Any) -> str:
    with pytest.raises(RunError) as caught:
        call()
    assert isinstance(caught.value, ValueError)
    assert caught.value.diagnostic.code == code
    return str(caught.value)


def test_tensors_are_read_and_written_in_place(torch: Any):
    add = add_f32()
    out = torch.tensor([0.0, 0.0])
    add(torch.tensor([1.0, 2.0]), np.array([3, 4], np.float32), out)
    assert out.tolist() == [4, 6]
    add(A=out, B=out.detach(), C=torch.tensor([0.0, 0.0]))


def test_an_output_that_is_left_out_is_a_tensor_where_the_inputs_are(torch: Any):
    x, y = te.placeholder((2,), name="x"), te.placeholder((2,), name="y")
    add = loomir.compile(te.create_prim_func([x, y, te.compute((2,), lambda i: x[i] + y[i])]))
    made = add(torch.tensor([1.0, 2.0]), torch.tensor([3.0, 4.0]))
    assert isinstance(made, torch.Tensor)
    assert made.tolist() == [4, 6]
    assert isinstance(add(torch.tensor([1.0, 2.0]), np.array([3, 4], np.float32)), np.ndarray)


def test_a_lazy_negation_is_refused(torch: Any):
    add = add_f32()
    one = torch.tensor([1.0])
    for args in ((torch.negated([1.0]), one, one), (one, one, torch.negated([1.0]))):
        text = refused("RUN0106", lambda a=args: add(*a))
        assert "negates lazily" in text
        assert ".resolve_neg()" in text


def test_a_lazy_conjugation_is_refused(torch: Any):
    one = torch.tensor([1.0])
    text = refused("RUN0106", lambda: add_f32()(torch.conjugated([1.0]), one, one))
    assert "A is a view that conjugates lazily" in text


def test_gradients_are_not_lost_silently(torch: Any):
    add = add_f32()
    weight = torch.tensor([2.0], requires_grad=True)
    out = torch.tensor([0.0])
    text = refused("RUN0106", lambda: add(weight, torch.tensor([1.0]), out))
    assert "A requires a gradient" in text
    assert "A.detach(), or call under torch.no_grad()" in text
    assert out.tolist() == [0]
    with torch.no_grad():
        add(weight, torch.nn.Parameter(torch.tensor([1.0])), out)
    assert out.tolist() == [3]


def test_sparse_tensors_are_refused(torch: Any):
    one = torch.tensor([1.0])
    text = refused("RUN0106", lambda: add_f32()(one, torch.sparse([1.0]), one))
    assert "B is sparse" in text


def test_tensors_without_cpu_memory_are_refused(torch: Any):
    one = torch.tensor([1.0])
    text = refused("RUN0107", lambda: add_f32()(one, one, torch.elsewhere([1.0])))
    assert "C is on device meta, this function runs on the CPU" in text


def test_subclasses_have_rules_of_their_own(torch: Any):
    class Tracked(torch.Tensor):
        pass

    plain = torch.tensor([1.0])
    tracked = plain.as_subclass(Tracked) if INSTALLED else Tracked([1.0])
    text = refused("RUN0106", lambda: add_f32()(plain, plain, tracked))
    assert "C is a Tracked, a subclass of torch.Tensor" in text


def test_misfits_are_explained_with_views(torch: Any):
    asked = Explainer()
    add = add_f32(asked)
    wide = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    with pytest.raises(RunError) as caught:
        add(wide, torch.tensor([1.0]), torch.tensor([1.0]))
    assert caught.value.diagnostic.code == "RUN0001"
    seen = asked.asked[0][0]
    assert isinstance(seen, np.ndarray)
    assert (seen.dtype, seen.tolist()) == (np.float32, [[1, 2], [3, 4]])


def test_a_tensor_without_axes_is_a_number(torch: Any):
    f = function(ID_FLOAT, scalar("x", "float32"))
    assert f(torch.tensor(0.5)) == 0.5
    with pytest.raises(RunError) as caught:
        f(torch.tensor([0.5]))
    assert caught.value.diagnostic.code == "RUN0104"


def test_a_fault_passes_through(torch: Any):
    add = add_f32()
    with pytest.raises(AssertionError, match="n is 13"):
        add(*(torch.tensor([0.0] * 13) for _ in range(3)))


def test_half_imported_torch_has_no_tensors(monkeypatch: pytest.MonkeyPatch):
    ffi.native_symbols()
    monkeypatch.setattr(torch_tensor, "_found", [])
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace())
    assert not torch_tensor.is_torch_tensor(3)
    with pytest.raises(RunError):
        add_f32()(3, 4, 5)


def test_calls_do_not_import_torch():
    code = """
import sys
import numpy as np
from tests.runtime.native import add_f32
x = np.ones(2, np.float32)
add_f32()(x, x.copy(), x.copy())
print("torch" in sys.modules)
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120
    )
    assert done.stdout == "False\n"


def test_buffer_parameters_of_bfloat16(torch: Any):
    if INSTALLED:
        import torch as t

        source, out = t.ones(2, dtype=t.bfloat16), t.zeros(2, dtype=t.bfloat16)
    else:
        import ml_dtypes

        source, out = np.ones(2, ml_dtypes.bfloat16), np.zeros(2, ml_dtypes.bfloat16)
    from tests.runtime.native import COPY_BF16

    copy = function(COPY_BF16, buffer("A", "bfloat16"), buffer("B", "bfloat16", written=True))
    copy(source, out)
    assert out.tolist() == [1, 1]
