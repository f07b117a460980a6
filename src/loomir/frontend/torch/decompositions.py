"""Choose which operators torch decomposes before import, and which stay whole."""

from __future__ import annotations

from typing import Any

from loomir.frontend.torch.package import torch_package
from loomir.frontend.torch.registry import known_operators

__all__ = ["aot_decompositions", "export_decompositions", "overload_of"]


def overload_of(name: str) -> Any:
    """Return the overload that a name such as ``aten.add.Tensor`` means; None if there is none."""
    parts = name.split(".")
    if len(parts) != 3:
        return None
    namespace, operator, overload = parts
    packet = getattr(getattr(torch_package().ops, namespace), operator, None)
    return getattr(packet, overload, None)


def export_decompositions() -> Any:
    """Return torch's table for exported programs, without operators that have converters."""
    table = torch_package("export").default_decompositions()
    for name in known_operators():
        overload = overload_of(name)
        if overload is not None:
            table.pop(overload, None)
    return table


def aot_decompositions() -> dict[Any, Any]:
    """Return torch's table for graphs that it traces, without operators that have converters."""
    table: dict[Any, Any] = dict(torch_package("_decomp").core_aten_decompositions())
    for name in known_operators():
        overload = overload_of(name)
        if overload is not None:
            table.pop(overload, None)
    return table
