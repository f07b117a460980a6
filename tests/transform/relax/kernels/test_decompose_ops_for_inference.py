"""Operators of training become what they do in a model that only runs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from loomir import op
from tests.transform.relax.modules import applied
from tests.transform.relax.test_lowering import calls, described, program, random


@pytest.mark.parametrize("options", [{}, {"center": False}, {"scale": False}])
def test_batch_norm_is_arithmetic(options: Any):
    def build(b: Any, x: Any, *rest: Any) -> Any:
        return b.emit(op.nn.batch_norm(x, *rest, axis=1, training=False, **options))

    infos = [described((2, 3, 4, 4)), *[described((3,))] * 4]
    x, gamma, beta, mean, var = random(2, 3, 4, 4), *(random(3) for _ in range(3)), random(3)
    made = applied(
        "DecomposeOpsForInference", program(build, infos), x, gamma, beta, mean, np.abs(var)
    )
    assert "nn.batch_norm" not in calls(made)


def test_dropout_goes():
    def build(b: Any, x: Any) -> Any:
        return b.emit(op.nn.dropout(x, 0.5))

    made = applied("DecomposeOpsForInference", program(build, [described((3,))]), random(3))
    assert calls(made) == ["ones_like"]
