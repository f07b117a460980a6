"""Programs that one Python compiles and another one runs."""

from __future__ import annotations

import sys
from collections.abc import Generator
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from fuzz.cross import worker
from fuzz.cross.parcel import read_parcel, write_parcel
from fuzz.crosscompiled import CrossCompiledCampaign
from loomir.target.host import host


@pytest.fixture(autouse=True)
def others() -> Generator[None]:
    yield
    worker.stop_runners()


@pytest.mark.parametrize(
    "array",
    [
        np.arange(24, dtype="float64").reshape(4, 6)[::-1, 1::2],
        np.arange(6, dtype="int8").reshape(2, 3).T,
        np.zeros((0, 3), "uint16"),
        np.array(2.5, "float16"),
        np.arange(5).astype(ml_dtypes.bfloat16)[::-2],
        np.broadcast_to(np.array([1, 2], "int32"), (3, 2)),
        np.array([True, False]),
    ],
)
def test_arrays_keep_their_values_and_layout(array: Any, tmp_path: Path):
    write_parcel(tmp_path / "parcel", [array, 3, 0.5, None])
    found, *scalars = read_parcel(tmp_path / "parcel")
    assert scalars == [3, 0.5, None]
    assert found.dtype == array.dtype
    assert found.strides == array.strides
    np.testing.assert_array_equal(found, array)


@pytest.mark.skipif(not host().triple.startswith("x86_64"), reason="the target is an x86-64 CPU")
@pytest.mark.parametrize("family", ["idioms", "constructs", "networks"])
def test_a_python_runs_what_another_compiled(family: str):
    for seed in range(10, 14):
        reply = worker.answer(seed, [family, "x86-64", sys.executable])
        assert not reply["found"]


def test_a_python_that_dies_is_reported(tmp_path: Path):
    dying = tmp_path / "python"
    dying.write_text("#!/bin/sh\nread line\nexit 3\n")
    dying.chmod(0o755)
    found = worker.answer(0, ["idioms", "x86-64", str(dying)])["found"]
    assert "ended with status 3" in found["x86-64"]


def test_a_failure_is_kept_with_its_command(tmp_path: Path):
    campaign = CrossCompiledCampaign(range(1), ["idioms", "aarch64", "/arm/python-neoverse-n1"])
    path = campaign.keep({"seed": 3, "found": {"aarch64": "wrong"}}, tmp_path)
    first, second, *program = path.read_text().splitlines()
    wanted = "/arm --cpu neoverse-n1 --target aarch64 --family idioms --seed 3 --count 1"
    assert first == f"# python -m fuzz.crosscompiled {wanted}"
    assert second == "# aarch64: wrong"
    assert "class Module:" in program
    assert path.name == "idioms-aarch64-3.txt"
