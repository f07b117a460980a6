"""JAX's convolutions with channels last."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from benchmarks.peers import PreparedRun, jax_jit
from benchmarks.rows import Row

__all__ = ["Peer"]


def _conv(x: Any, w: Any, stride: int, padding: int, groups: int) -> Any:
    return jax.lax.conv_general_dilated(
        x,
        w,
        (stride, stride),
        ((padding, padding),) * 2,
        feature_group_count=groups,
        dimension_numbers=("NHWC", "HWIO", "NHWC"),
    )


class Peer(jax_jit.Peer):
    """Only where the layout makes a difference."""

    def prepare(self, row: Row, inputs: list[Any]) -> PreparedRun | None:
        """Compile a row."""
        if row.kind != "conv":
            return None
        x, w = (jnp.asarray(array) for array in inputs)
        given = [jnp.array(x.transpose(0, 2, 3, 1)), jnp.array(w.transpose(2, 3, 1, 0))]
        run, result = self.called(row, _conv, given)
        return PreparedRun(run, lambda: result().transpose(0, 3, 1, 2))
