"""Functions of ``T`` for GPU instructions, which keep their arguments as they are."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final, cast

from loomir.script.builder.arguments import as_dtype, as_expr, as_items, as_text
from loomir.script.builder.dtypes import DTypeLike
from loomir.script.builder.mistakes import wrong_argument
from loomir.support.dtype import VOID
from loomir.tir.buffer import Buffer
from loomir.tir.builtins.device import COMM_REDUCER, DEVICE, Device, dtype_given
from loomir.tir.expr import Call, PrimExpr, StringImm

__all__ = ["DEVICE_NAMES", "comm_reducer"]


def _function(row: Device) -> Callable[..., PrimExpr]:
    def apply(*args: Any, dtype: DTypeLike | None = None) -> PrimExpr:
        passed = tuple([_argument(part) for arg in args for part in _parts(arg)])
        if dtype is None:
            made = dtype_given(row, passed)
        else:
            made = VOID if dtype == "" else as_dtype(dtype)
        return Call(made, row.op, passed)

    apply.__doc__ = f"Keep an instruction of a GPU, which compilers for a CPU refuse: {row.why}."
    return apply


def _parts(arg: object) -> list[Any]:
    return as_items(cast("object", arg), "an argument") if isinstance(arg, (list, tuple)) else [arg]


def _argument(value: object) -> PrimExpr:
    if isinstance(value, Buffer):
        return value.data
    return StringImm(value) if isinstance(value, str) else as_expr(value, "an argument")


def comm_reducer(combiner: str, identity: Any) -> PrimExpr:
    """Say how a reduction over threads combines values, as in ``lambda x, y: x + y``.

    The function is kept as a text, and nothing calls it; ``identity`` lists its neutral values.
    """
    text = as_text(combiner, "the function")
    if not text.startswith("lambda "):
        raise wrong_argument(
            combiner, f"{text!r} is not a lambda", help="write lambda x, y: x + y, or its text"
        )
    values = [as_expr(value, "a neutral value") for value in as_items(identity, "identity")]
    return Call(dtype_given(DEVICE[COMM_REDUCER], ()), COMM_REDUCER, (StringImm(text), *values))


def _list_named() -> Iterator[tuple[str, Callable[..., PrimExpr]]]:
    for op, row in DEVICE.items():
        yield row.name, comm_reducer if op is COMM_REDUCER else _function(row)


DEVICE_NAMES: Final[dict[str, Callable[..., PrimExpr]]] = dict(_list_named())
"""The functions by what follows ``T.`` in their names, which may hold a dot."""
