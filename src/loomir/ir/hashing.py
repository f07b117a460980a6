"""A hash that equal programs share, the same in every process."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import cast

from loomir.ir.node import Node, Role

__all__ = ["structural_digest", "structural_hash"]


def structural_digest(root: Node) -> bytes:
    """Give 32 bytes that depend on the program's structure only, not on names or identity.

    Order: fields as the class declares them, definitions before what they scope over.
    """
    digest = hashlib.sha256()
    numbers: dict[int, int] = {}
    stack: list[tuple[object, Role]] = [(root, Role.CHILD)]
    pieces: list[str] = []
    while stack:
        value, role = stack.pop()
        if isinstance(value, Node):
            if value.is_definition:
                number = numbers.get(id(value))
                if number is not None:
                    pieces.append(f"#{number};")
                    continue
                numbers[id(value)] = len(numbers)
            pieces.append(f"{value.node_kind}(")
            stack.extend(_parts(value, role))
        elif isinstance(value, tuple):
            items = cast("tuple[object, ...]", value)
            pieces.append(f"{len(items)}[")
            stack.extend((item, role) for item in reversed(items))
        elif isinstance(value, Mapping):
            table = cast("Mapping[object, object]", value)
            pieces.append(f"{len(table)}{{")
            if all(isinstance(key, Node) for key in table):
                for key, item in reversed(list(table.items())):
                    stack += ((item, role), (key, Role.USES))
            else:
                for key in sorted(table, key=str, reverse=True):
                    stack += ((table[key], role), (key, Role.ATTR))
        else:
            pieces.append(f"{type(value).__name__}:{value!r};")
        if len(pieces) > 512:
            digest.update("".join(pieces).encode("utf-8", "surrogatepass"))
            pieces.clear()
    digest.update("".join(pieces).encode("utf-8", "surrogatepass"))
    return digest.digest()


def _parts(value: Node, role: Role) -> list[tuple[object, Role]]:
    parts = [(getattr(value, f.name), f.role) for f in value.node_fields if f.role is Role.ATTR]
    parts += [
        (getattr(value, f.name), Role.BINDS if role is Role.BINDS else f.role) for f in value.scan
    ]
    parts.reverse()
    return parts


def structural_hash(root: Node) -> int:
    """Give a 64-bit hash that structurally equal programs share."""
    return int.from_bytes(structural_digest(root)[:8], "little")
