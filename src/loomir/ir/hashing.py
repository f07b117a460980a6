"""Hash programs by structure: equal programs share a hash, the same in every process."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from typing import Any, Final, cast

from loomir.ir.node import Node
from loomir.ir.visit import plan_of
from loomir.support.dtype import DataType

__all__ = ["structural_digest", "structural_hash"]


def structural_digest(root: Node) -> bytes:
    """Return 32 bytes that depend on the program's structure only, not on names or identity.

    Fields are hashed in the order of declaration, definitions before the parts in their scope.
    """
    digest = hashlib.sha256()
    numbers: dict[int, int] = {}
    stack: list[Any] = [root]
    pieces: list[str] = []
    while stack:
        value = stack.pop()
        if isinstance(value, Node):
            if value.is_definition:
                number = numbers.get(id(value))
                if number is not None:
                    pieces.append(f"#{number};")
                    continue
                numbers[id(value)] = len(numbers)
            plan = plan_of(value.__class__)
            pieces.append(f"{value.node_kind}(")
            scanned = plan.get_scan(value)
            stack += scanned[::-1]
            for item in plan.get_attrs(value):
                text = _TEXT.get(item.__class__)
                if text is None:
                    pieces.append("?;")
                    stack.append(item)
                else:
                    pieces.append(text(item))
        elif isinstance(value, tuple):
            items = cast("tuple[object, ...]", value)
            pieces.append(f"{len(items)}[")
            stack += reversed(items)
        elif isinstance(value, Mapping):
            table = cast("Mapping[object, object]", value)
            pieces.append(f"{len(table)}{{")
            defined = all(isinstance(key, Node) for key in table)
            keys = reversed(list(table)) if defined else sorted(table, key=str, reverse=True)
            for key in keys:
                stack += (table[key], key)
        else:
            pieces.append(f"{type(value).__name__}:{value!r};")
        if len(pieces) > 512:
            digest.update("".join(pieces).encode("utf-8", "surrogatepass"))
            pieces.clear()
    digest.update("".join(pieces).encode("utf-8", "surrogatepass"))
    return digest.digest()


_TEXT: Final[dict[type, Callable[[Any], str]]] = {
    int: "i%d;".__mod__,
    bool: "b%d;".__mod__,
    str: "s%r;".__mod__,
    DataType: "d%s;".__mod__,
}


def structural_hash(root: Node) -> int:
    """Return a 64-bit hash that structurally equal programs share."""
    return int.from_bytes(structural_digest(root)[:8], "little")
