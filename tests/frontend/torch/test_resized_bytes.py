"""Images of bytes that are resized: PyTorch mixes them by weights that are integers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import loomir
from loomir.support.diagnostics import CompileError
from tests.frontend.torch.functions import Function

IMAGE = torch.randint(
    0, 256, (2, 3, 7, 9), dtype=torch.uint8, generator=torch.Generator().manual_seed(3)
)


def resize(**options: Any) -> Function:
    return Function(lambda x: nn.functional.interpolate(x, **options))


def results(model: Function, x: torch.Tensor) -> tuple[Any, Any]:
    exported = torch.export.export(model, (x,))
    run = loomir.compile(loomir.torch.from_exported(exported))["main"]
    return np.asarray(run(x.numpy())), model(x).numpy()


@pytest.mark.parametrize("antialias", [False, True])
@pytest.mark.parametrize("aligned", [False, True])
@pytest.mark.parametrize("size", [(14, 18), (5, 4), (13, 20), (7, 9), (1, 4), (7, 30)])
def test_linear_mixes_are_those_of_pytorch(size: tuple[int, int], aligned: bool, antialias: bool):
    model = resize(size=size, mode="bilinear", align_corners=aligned, antialias=antialias)
    found, wanted = results(model, IMAGE)
    assert found.dtype == wanted.dtype
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("factor", [0.4, 1.0, 1.7, (2.0, 0.5)])
@pytest.mark.parametrize("recomputes", [False, True])
def test_factors_are_followed(factor: Any, recomputes: bool):
    model = resize(scale_factor=factor, mode="bilinear", recompute_scale_factor=recomputes or None)
    np.testing.assert_array_equal(*results(model, IMAGE))


@pytest.mark.parametrize("aligned", [False, True])
@pytest.mark.parametrize("size", [(14, 18), (5, 4), (13, 20)])
def test_cubic_mixes_are_within_one_of_pytorch(size: tuple[int, int], aligned: bool):
    """PyTorch's own decomposition is imported, which rounds some weights otherwise."""
    found, wanted = results(resize(size=size, mode="bicubic", align_corners=aligned), IMAGE)
    assert np.abs(found.astype("int32") - wanted).max() <= 1
    assert (found != wanted).mean() < 0.01


def test_unknown_extents_are_refused_by_name():
    rows = torch.export.Dim("rows", min=4, max=90)
    model = resize(size=(14, 18), mode="bilinear")
    exported = torch.export.export(model, (IMAGE,), dynamic_shapes={"inputs": ({2: rows},)})
    with pytest.raises(CompileError) as caught:
        loomir.torch.from_exported(exported)
    assert caught.value.diagnostic.code == "PTC0011"
    assert "the spatial extents of its input are unknown" in str(caught.value)
    batch = torch.export.Dim("batch", min=1, max=90)
    exported = torch.export.export(model, (IMAGE,), dynamic_shapes={"inputs": ({0: batch},)})
    run = loomir.compile(loomir.torch.from_exported(exported))["main"]
    np.testing.assert_array_equal(np.asarray(run(IMAGE[:1].numpy())), model(IMAGE[:1]).numpy())
