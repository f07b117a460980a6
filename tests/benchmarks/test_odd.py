"""Every way of writing a kernel is recognised as what it is."""

from __future__ import annotations

import pytest

from benchmarks.odd import read
from benchmarks.odd_forms import FORMS
from benchmarks.odd_kernels import KINDS as PLAIN_KINDS
from loomir.autoschedule.driver import schedule_function
from loomir.target import Target
from loomir.tir.function import PrimFunc

KINDS = {**PLAIN_KINDS, **FORMS}


def plans(func: PrimFunc) -> list[str]:
    return [plan.kind for plan in schedule_function(func, Target("native")).plans]


@pytest.mark.parametrize("name", KINDS)
def test_no_way_of_writing_a_kernel_loses_its_schedule(name: str):
    kind = KINDS[name]
    assert "loops as written" not in plans(read(kind, kind.plain))
    for way, body in kind.ways.items():
        found = plans(read(kind, body))
        assert found, way
        assert "loops as written" not in found, way
