"""JAX on CPUs: functions as users write them, compiled by XLA."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import jax
import jax.numpy as jnp

from benchmarks.peers import PreparedRun
from benchmarks.rows import Row

__all__ = ["FUNCTIONS", "Peer"]


def _conv(x: Any, w: Any, stride: int, padding: int, groups: int) -> Any:
    return jax.lax.conv_general_dilated(
        x,
        w,
        (stride, stride),
        ((padding, padding),) * 2,
        feature_group_count=groups,
        dimension_numbers=("NCHW", "OIHW", "NCHW"),
    )


def _layer_norm(x: Any, g: Any, b: Any) -> Any:
    d = x - jnp.mean(x, -1, keepdims=True)
    return d * jax.lax.rsqrt(jnp.mean(d * d, -1, keepdims=True) + 1e-5) * g + b


def _attention(q: Any, k: Any, v: Any) -> Any:
    scores = jnp.einsum("bhqd,bhkd->bhqk", q, k) / jnp.sqrt(jnp.float32(q.shape[-1]))
    return jnp.einsum("bhqk,bhkd->bhqd", jax.nn.softmax(scores, -1), v)


FUNCTIONS: Final[dict[str, Callable[..., Any]]] = {
    "matmul": jnp.matmul,
    "linear": lambda x, w: jnp.matmul(x, w.T),
    "conv": _conv,
    "softmax": jax.nn.softmax,
    "layer_norm": _layer_norm,
    "rms_norm": lambda x, g: x * jax.lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-5) * g,
    "gelu": lambda x: jax.nn.gelu(x, approximate=False),
    "sum": lambda x, axis: jnp.sum(x, axis),
    "transpose": lambda x: x.T,
    "attention": _attention,
}


class Peer:
    """``jax.jit``."""

    def __init__(self, threads: int) -> None:
        jax.config.update("jax_platforms", "cpu")  # its threads follow the CPUs it may use

    def prepare(self, row: Row, inputs: list[Any]) -> PreparedRun | None:
        """Compile a row."""
        return self.called(row, FUNCTIONS[row.kind], [jnp.asarray(x) for x in inputs])

    def called(self, row: Row, function: Callable[..., Any], given: list[Any]) -> PreparedRun:
        """Return a call of a function."""
        wide = {"preferred_element_type": jnp.int32} if row.dtype == "int8" else {}
        jitted = jax.jit(lambda *xs: function(*xs, **row.settings, **wide))
        compiled = jitted.lower(*given).compile()
        result: list[Any] = [None]

        def run() -> None:
            result[0] = compiled(*given)
            result[0].block_until_ready()

        return PreparedRun(run, lambda: result[0])
