"""Choose which operators torch decomposes before import, and which stay whole."""

from __future__ import annotations

from typing import Any, Final

from loomir.frontend.torch.node import is_complex_value
from loomir.frontend.torch.package import torch_package
from loomir.frontend.torch.registry import find_row, known_operators

__all__ = ["aot_decompositions", "export_decompositions", "is_decomposed", "overload_of"]

_STATEFUL: Final = ("aten.batch_norm.default", "aten.instance_norm.default")
"""Operators that change running means in place, though their schemas do not say so."""


def overload_of(name: str) -> Any:
    """Return the overload that a name such as ``aten.add.Tensor`` means; None if there is none."""
    parts = name.split(".")
    if len(parts) != 3:
        return None
    namespace, operator, overload = parts
    packet = getattr(getattr(torch_package().ops, namespace), operator, None)
    return getattr(packet, overload, None)


def is_decomposed(program: Any) -> bool:
    """Whether all that an exported program calls has a converter, and changes no tensor in place.

    PyTorch would return the same nodes, after tracing the whole program again.
    """
    overloads = torch_package("_ops").OpOverload
    for node in program.graph.nodes:
        if is_complex_value(node):
            return False  # composite operators on complex numbers are known by their parts only
        if node.op == "get_attr":
            return False  # a branch or the body of a loop has nodes of its own
        target = node.target
        if node.op != "call_function" or getattr(target, "__module__", "") == "_operator":
            continue  # Python's own functions are called on sizes and tuples
        if not isinstance(target, overloads) or target._schema.is_mutable:
            return False
        name = str(target)
        if name in _STATEFUL or find_row(name) is None:
            return False
    return True


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
