"""Factors of matrices, equations and determinants, compared with PyTorch."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import linalg, nn

import loomir
import loomir.torch
from loomir.frontend.torch.converters import load_converters
from loomir.support.compile_warning import CompileWarning
from loomir.support.diagnostics import CompileError
from tests.frontend.torch.functions import Function, floats
from tools.opinfo_table import check

load_converters()
DTYPES = [torch.float32, torch.float64]


def matrices(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Return matrices that are far from singular, but need their rows exchanged."""
    unit = torch.eye(shape[-1], dtype=dtype)
    return (floats(*shape, dtype=dtype) + 3 * unit).roll(1, -2)


def square(a: torch.Tensor) -> torch.Tensor:
    """Return a matrix that is symmetric and positive definite."""
    return a @ a.mT + torch.eye(a.shape[-1], dtype=a.dtype)


def import_and_run(model: nn.Module, *inputs: torch.Tensor) -> list[torch.Tensor]:
    program = torch.export.export(model, inputs)
    run = loomir.compile(loomir.torch.from_exported(program))["main"]
    made = run(*[x.numpy() for x in inputs])
    listed = made if isinstance(made, (list, tuple)) else [made]
    return [torch.from_numpy(np.array(m)) for m in listed]


def compare(function: Callable[..., Any], *inputs: torch.Tensor) -> None:
    wanted = function(*inputs)
    listed = [*wanted] if isinstance(wanted, (list, tuple)) else [wanted]
    made = import_and_run(Function(function), *inputs)
    exact = inputs[0].dtype == torch.float64
    for m, w in zip(made, listed, strict=True):
        torch.testing.assert_close(
            m, w, rtol=1e-10 if exact else 1e-4, atol=1e-10 if exact else 1e-5
        )


EQUATIONS: dict[str, Callable[..., Any]] = {
    "inv": lambda a, b: linalg.inv(a),
    "inv of the transposed": lambda a, b: linalg.inv(a.mT),
    "inv_ex": lambda a, b: linalg.inv_ex(a)[0],
    "solve": linalg.solve,
    "solve a vector": lambda a, b: linalg.solve(a, b[..., 0]),
    "solve from the right": lambda a, b: linalg.solve(a, b.mT, left=False),
    "lu_solve": lambda a, b: (
        linalg.lu_solve(*linalg.lu_factor(a), b)
        + linalg.lu_solve(*linalg.lu_factor(a), b, adjoint=True)
        + linalg.lu_solve(*linalg.lu_factor(a), b.mT, left=False).mT
    ),
    "solve_triangular": lambda a, b: (
        linalg.solve_triangular(a.roll(-1, -2), b, upper=True)
        + linalg.solve_triangular(a.roll(-1, -2), b, upper=False)
        + linalg.solve_triangular(a, b, upper=True, unitriangular=True)
        + linalg.solve_triangular(a.roll(-1, -2), b.mT, upper=False, left=False).mT
    ),
    "triangular_solve": lambda a, b: torch.triangular_solve(b, a.roll(-1, -2), transpose=True)[0],
    "cholesky_solve": lambda a, b: (
        torch.cholesky_solve(b, linalg.cholesky(square(a)))
        + torch.cholesky_solve(b, linalg.cholesky(square(a), upper=True), upper=True)
    ),
    "cholesky_inverse": lambda a, b: torch.cholesky_inverse(linalg.cholesky(square(a))),
    "matrix_power": lambda a, b: linalg.matrix_power(a, -2),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore:torch.triangular_solve is deprecated")
@pytest.mark.parametrize("name", EQUATIONS)
def test_equations(name: str):
    for dtype in DTYPES:
        compare(EQUATIONS[name], matrices(2, 5, 5, dtype=dtype), floats(2, 5, 3, dtype=dtype))


FACTORS: dict[str, Callable[..., Any]] = {
    "lu_factor": lambda a: tuple(linalg.lu_factor(a)),
    "lu": lambda a: tuple(linalg.lu(a)),
    "lu_unpack": lambda a: tuple(torch.lu_unpack(*linalg.lu_factor(a))),
    "qr": lambda a: tuple(linalg.qr(a)),
    "qr complete": lambda a: tuple(linalg.qr(a, mode="complete")),
    "qr r": lambda a: linalg.qr(a, mode="r")[1],
    "geqrf": lambda a: tuple(torch.geqrf(a)),
}


@pytest.mark.parametrize("name", FACTORS)
@pytest.mark.parametrize(("rows", "columns"), [(5, 5), (6, 3), (3, 6)])
def test_factors(name: str, rows: int, columns: int):
    compare(FACTORS[name], floats(2, rows, columns))


def test_factors_in_float64():
    a = floats(3, 20, 20, dtype=torch.float64)
    compare(lambda a: (*linalg.lu(a), *linalg.qr(a), linalg.cholesky(square(a))), a)


SQUARE: dict[str, Callable[..., Any]] = {
    "det": linalg.det,
    "slogdet": lambda a: tuple(linalg.slogdet(a)),
    "logdet": lambda a: torch.logdet(square(a)),
    "cholesky": lambda a: linalg.cholesky(square(a)),
    "cholesky upper": lambda a: linalg.cholesky(square(a), upper=True),
}


@pytest.mark.parametrize("name", SQUARE)
def test_square_matrices(name: str):
    for shape in [(1, 1), (2, 3, 7, 7)]:
        compare(SQUARE[name], floats(*shape))


def test_matrices_for_all_items_of_a_batch():
    compare(linalg.solve, matrices(4, 4), floats(3, 4, 2))
    compare(linalg.solve, matrices(3, 4, 4), floats(4, 1))
    compare(lambda a, b: torch.cholesky_solve(b, linalg.cholesky(square(a))),
            matrices(4, 4), floats(3, 4, 2))  # fmt: skip


def test_only_one_triangle_is_read():
    a = square(floats(4, 4))
    for upper in (True, False):
        given = a.triu() if upper else a.tril()
        assert check("aten.linalg_cholesky_ex.default", (given,), {"upper": upper}) == ""


def test_large_matrices():
    a = matrices(200, 200, dtype=torch.float64)
    compare(lambda a: (linalg.inv(a), linalg.cholesky(square(a)), *linalg.qr(a)), a)


def test_batches_of_any_size():
    model = Function(lambda a, b: linalg.solve(a, b) + linalg.det(a)[:, None, None])
    batch = torch.export.Dim("batch")
    given = (matrices(2, 4, 4), floats(2, 4, 3))
    program = torch.export.export(model, given, dynamic_shapes={"inputs": ({0: batch}, {0: batch})})
    run = loomir.compile(loomir.torch.from_exported(program))["main"]
    for size in (2, 5):
        a, b = matrices(size, 4, 4), floats(size, 4, 3)
        made = torch.from_numpy(np.array(run(a.numpy(), b.numpy())))
        torch.testing.assert_close(made, model(a, b), rtol=1e-4, atol=1e-5)


def test_no_matrices_and_matrices_of_no_rows():
    for shape in [(0, 3, 3), (2, 0, 0)]:
        compare(lambda a: (linalg.inv(a), linalg.det(a), linalg.cholesky(a)), floats(*shape))


def test_singular_matrices():
    a = torch.tensor([[1.0, 2], [2, 4]])
    compare(lambda a: (linalg.det(a), *linalg.slogdet(a)), a)
    compare(lambda a: (linalg.inv_ex(a)[1], linalg.cholesky_ex(a)[1]), a)
    (made,) = import_and_run(Function(linalg.inv), a)
    assert not made.isfinite().any()
    (made,) = import_and_run(Function(linalg.cholesky), -a)
    assert made[0, 0].isnan()


# -- spectra -------------------------------------------------------------------------------------
def of_eigenvectors(a: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Return the eigenvalues, and what does not depend on the signs of eigenvectors."""
    values, vectors = linalg.eigh(a + a.mT)
    return values, vectors @ torch.diag_embed(values) @ vectors.mT, vectors.mT @ vectors


def of_singular_vectors(a: torch.Tensor, full: bool) -> tuple[torch.Tensor, ...]:
    left, values, right = linalg.svd(a, full_matrices=full)
    count = values.shape[-1]
    product = (left[..., :count] * values[..., None, :]) @ right[..., :count, :]
    return values, product, left.mT @ left, right @ right.mT


LOW_RANK = floats(2, 6, 2) @ floats(2, 2, 4)


def test_eigenvalues():
    compare(of_eigenvectors, floats(2, 7, 7))
    compare(of_eigenvectors, floats(30, 30, dtype=torch.float64))
    compare(lambda a: linalg.eigvalsh(a, UPLO="U"), floats(2, 5, 5))


@pytest.mark.parametrize("full", [False, True])
def test_singular_values(full: bool):
    given = [floats(2, 5, 3), floats(2, 3, 5), LOW_RANK, LOW_RANK.mT.contiguous(),
             torch.zeros(2, 3), floats(20, 12, dtype=torch.float64), floats(2, 0, 3)]  # fmt: skip
    for a in given:
        compare(lambda a: of_singular_vectors(a, full), a)


def test_functions_of_spectra():
    compare(
        lambda a: (linalg.pinv(a), linalg.pinv(a, rtol=0.3), linalg.pinv(a, atol=0.5)), LOW_RANK
    )
    compare(lambda a: (linalg.svdvals(a), linalg.matrix_norm(a, ord=2), linalg.matrix_rank(a)),
            LOW_RANK)  # fmt: skip


def test_one_triangle_of_an_inverse_is_refused():
    program = torch.export.export(
        Function(lambda a: linalg.pinv(a, hermitian=True)), (floats(4, 4),)
    )
    with pytest.raises(CompileError, match="hermitian=True is not supported"):
        loomir.torch.from_exported(program)


def test_exponentials():
    compare(linalg.matrix_exp, floats(2, 5, 5))
    compare(linalg.matrix_exp, floats(2, 5, 5, dtype=torch.float64) * 4)
    compare(linalg.matrix_exp, torch.zeros(3, 3))


# -- torch.compile -------------------------------------------------------------------------------
def compile_strictly(function: Callable[..., Any]) -> Callable[..., Any]:
    torch.compiler.reset()
    return torch.compile(function, backend="loomir", fullgraph=True)


def test_compiled_functions():
    def function(a: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor, ...]:
        factor = linalg.cholesky(square(a))
        return linalg.solve(a, b), linalg.inv(a), linalg.det(a), factor, *linalg.qr(a)

    a, b = matrices(2, 5, 5), floats(2, 5, 3)
    with warnings.catch_warnings():
        warnings.simplefilter("error", CompileWarning)
        made = compile_strictly(function)(a, b)
    torch.testing.assert_close(made, function(a, b), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("transposed", [False, True])
def test_gradients(transposed: bool):
    def loss(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        a = a.mT if transposed else a
        return (linalg.solve(a, b).square().sum() + linalg.slogdet(a)[1].sum()
                + linalg.inv(a).sum() + linalg.cholesky(square(a)).sum())  # fmt: skip

    grads: list[Any] = []
    for way in (loss, compile_strictly(loss)):
        a, b = matrices(2, 4, 4).requires_grad_(), floats(2, 4, 3).requires_grad_()
        with warnings.catch_warnings():
            warnings.simplefilter("error", CompileWarning)
            way(a, b).backward()
        grads.append((a.grad, b.grad))
    torch.testing.assert_close(grads[1], grads[0], rtol=1e-3, atol=1e-4)
