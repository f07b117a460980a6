"""Identity operators that mark values for passes that compute gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from loomir.relax.node import StructInfo
from loomir.relax.operator.context import OpContext
from loomir.relax.operator.definition import Mistake, Sample, TensorSample, define_op
from loomir.relax.operator.params import tensor
from loomir.relax.operator.reference import NPArray, xp
from loomir.te import topi

__all__ = ["end_checkpoint", "no_grad", "start_checkpoint"]


def _infer_same(c: OpContext) -> StructInfo:
    return c.tensor(0)


def _copy(x: NPArray) -> NPArray:
    made: NPArray = xp.array(x)
    return made


def _mark(name: str, doc: str) -> Callable[..., Any]:
    return define_op(
        f"grad.{name}",
        tensor("input"),
        infer=_infer_same,
        doc=f"{doc}\n\nReturns its argument.",
        family="grad/grad",
        lower=topi.identity,
        reference=_copy,
        samples=(
            Sample((TensorSample((2, 3)),)),
            Sample((TensorSample((), "bool"),)),
            Sample((TensorSample((0, 2), "bfloat16"),)),
        ),
        mistakes=(Mistake((1,), {}, "OPS0004"), Mistake((), {}, "OPS0001")),
    )


no_grad = _mark("no_grad", "Mark a tensor through which no gradient flows.")
start_checkpoint = _mark("start_checkpoint", "Mark the start of a part that gradients recompute.")
end_checkpoint = _mark("end_checkpoint", "Mark the end of a part that gradients recompute.")
