"""Attribute values with which programs do not compute: targets and index maps."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, cast

from loomir.script.builder.arguments import as_annotations, as_text, describe
from loomir.script.builder.mistakes import wrong_argument

__all__ = ["index_map", "set_index_reader", "target"]

_reader: list[Callable[[], Callable[[object], str | None]]] = []


def set_index_reader(load: Callable[[], Callable[[object], str | None]]) -> None:
    """Make ``load`` what gives the reader of index maps, which few kernels need."""
    _reader[:] = [load]


def target(
    target_config: str | Mapping[str, Any], host: str | Mapping[str, Any] | None = None
) -> str | dict[str, Any]:
    """Name a machine in an attribute, by a text or a dict: this is the text or the dict itself.

    ``host`` is the machine that calls it, as the key ``host`` of the dict.
    """
    made = _config(target_config, "the target")
    if host is None:
        return made
    whole = {"kind": made} if isinstance(made, str) else made
    if "host" in whole:
        raise wrong_argument(host, "the target names its host twice", help="leave out host=")
    return {**whole, "host": _config(host, "the host")}


def _config(value: object, what: str) -> str | dict[str, Any]:
    if isinstance(value, Mapping):
        return as_annotations(cast("Mapping[str, Any]", value), what)
    return as_text(value, what)


def index_map(
    mapping: str | Callable[..., Any],
    *,
    inverse_index_map: str | Callable[..., Any] | None = None,
    index_dtype: str = "int64",
) -> str:
    """Map the indices of one layout to those of another, as in ``lambda i, j: (j, i // 4)``.

    The map is kept as a text. Its inverse is derived where one is needed: ``inverse_index_map`` and
    ``index_dtype`` are read and mean nothing here.
    """
    index_text = _reader[0]()
    for value in (mapping, inverse_index_map):
        if value is not None and index_text(value) is None:
            raise wrong_argument(
                value,
                f"{describe(value)} is no index map",
                help="use indices, numbers, +, -, *, // and %, as in lambda i, j: (j, i // 4)",
            )
    return index_text(mapping) or ""
