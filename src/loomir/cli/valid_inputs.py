"""Make inputs with valid indices, if a file does not define inputs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from types import ModuleType
from typing import Any, Final, cast

import numpy as np

from loomir.cli.checked_run import compile_checked
from loomir.cli.compare import default_sizes
from loomir.cli.files.file_options import ask_for_inputs, constants
from loomir.cli.files.sizes import size_of
from loomir.cli.inputs import make_inputs
from loomir.ir.module import IRModule
from loomir.support.diagnostics import RunError
from loomir.tir.analysis.index_inputs import index_inputs
from loomir.tir.function import PrimFunc
from loomir.tir.signature import signature_of

__all__ = ["make_valid_inputs"]

_OUTSIDE: Final = "RUN0203"
_MOST: Final = 4

Change = Callable[[list[Any]], list[Any]]


def make_valid_inputs(
    mod: IRModule,
    name: str,
    settings: Mapping[str, int | float],
    seed: int,
    file: ModuleType | None = None,
) -> list[Any]:
    """Return arguments like ``make_inputs``, with indices in bounds.

    If random integers are not, they are drawn below the extents of the axes that they index, then
    below the extents of arrays, the largest first; at last they are 0.

    Errors: RUN0203 if none of these are in bounds, and those of ``make_inputs``.
    """
    make = partial(make_inputs, mod, name, settings, seed, file)
    failure: RunError | None = None
    check = compile_checked(mod, name)
    for change in _changes(mod, name, settings, seed, file):
        try:
            if check is not None:
                check(*change(make()))
        except RunError as error:
            if error.diagnostics[0].code != _OUTSIDE:
                raise
            failure = failure or error
            continue
        return change(make())
    assert failure is not None
    raise failure


def _changes(
    mod: IRModule,
    name: str,
    settings: Mapping[str, int | float],
    seed: int,
    file: ModuleType | None,
) -> Iterator[Change]:
    yield lambda arguments: arguments
    func = mod[name]
    given = {**constants(file, "SIZES"), **settings}
    if isinstance(func, PrimFunc):
        signature = signature_of(func, mod)
        sizes = default_sizes(signature, given)
        fixed = ask_for_inputs(file, seed, sizes)
        names = [p.name for p in signature.parameters]
        variables = {b.var: sizes[b.var.name_hint] for b in signature.bindings}
        limits = _limits(func, variables, fixed)
        if limits:
            yield lambda arguments: [
                _draw(value, *limits[name], seed) if name in limits else value
                for name, value in zip(names, arguments, strict=True)
            ]
        free = [name not in fixed for name in names]
    else:
        fixed = ask_for_inputs(file, seed, {k: int(v) for k, v in given.items()})
        free = [p.name_hint not in fixed for p in getattr(func, "params", ())]
    extents = sorted(_extents(make_inputs(mod, name, settings, seed, file)), reverse=True)
    for limit in (*extents[:_MOST], 1):
        yield partial(_reduce, limit=limit, free=free)


def _limits(
    func: PrimFunc, sizes: Mapping[Any, int], fixed: Mapping[str, object]
) -> dict[str, tuple[int, bool]]:
    """Return a limit for the elements of each parameter, and whether they are ascending."""
    found: dict[str, tuple[int, bool]] = {}
    for use in index_inputs(func):
        name, extent = use.buffer.name, size_of(use.extent, sizes)
        if extent is None or name in fixed:
            continue
        limit = max(extent // use.factor, 1) + use.is_bound
        old, rises = found.get(name, (limit, False))
        found[name] = (min(limit, old), rises or use.is_bound)
    return found


def _draw(value: Any, limit: int, rises: bool, seed: int) -> Any:
    if not _is_array(value):
        return value
    made = cast("Any", np.random.default_rng(seed).integers(0, limit, value.shape))
    if rises:
        made.sort(axis=-1)
    return made.astype(value.dtype)


def _is_array(value: object) -> bool:
    return isinstance(value, np.ndarray)


def _extents(values: Sequence[Any]) -> set[int]:
    """List the extents of arrays, also in tuples."""
    found: set[int] = set()
    pending: list[Any] = list(values)
    while pending:
        value = pending.pop()
        if isinstance(value, tuple):
            pending += value
        else:
            found |= set(getattr(value, "shape", ()))
    return found - {0, 1}


def _reduce(arguments: list[Any], *, limit: int, free: Sequence[bool]) -> list[Any]:
    """Reduce all integers of arrays below a limit."""
    return [
        np.remainder(value, limit).astype(value.dtype)
        if is_free and _is_array(value) and value.dtype.kind in "iu"
        else value
        for value, is_free in zip(arguments, free, strict=True)
    ]
