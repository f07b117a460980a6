"""Serialise programs to JSON: a flat list of nodes, operands first, so that depth has no limit."""

from __future__ import annotations

import base64
import enum
import json
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar, cast

from loomir.ir.node import NODE_CLASSES, Node, Role
from loomir.ir.visit import nodes_in
from loomir.support.array import Array
from loomir.support.diagnostics import CompileError, Diagnostic
from loomir.support.dtype import DataType
from loomir.support.span import Span

__all__ = ["from_json", "from_rows", "serializable", "to_json", "to_rows"]

_FORMAT = 1


def to_json(root: Node) -> str:
    """Write a program as JSON text that ``from_json`` reads back; source spans are left out."""
    (number,), rows = to_rows([root])
    return json.dumps({"loomir": _FORMAT, "root": number, "nodes": rows})


def to_rows(
    roots: Sequence[Node], place: Callable[[Span], int] | None = None
) -> tuple[list[int], list[dict[str, object]]]:
    """Write nodes as plain data; return the rows of the roots, and all rows.

    Nodes that several roots share are written once. ``place`` numbers source spans; without it,
    spans are left out.
    """
    numbers: dict[int, int] = {}
    rows: list[dict[str, object]] = []
    stack: list[tuple[Node, bool]] = [(root, False) for root in reversed(roots)]
    while stack:
        node, ready = stack.pop()
        if id(node) in numbers:
            continue
        if not ready:
            stack.append((node, True))
            parts = [part for f in node.scan for part in _all_nodes(getattr(node, f.name))]
            parts += [
                p
                for f in node.node_fields
                if f.role is Role.ATTR
                for p in _all_nodes(getattr(node, f.name))
            ]
            stack.extend((part, False) for part in reversed(parts))
            continue
        row: dict[str, object] = {"": node.node_kind}
        for field in node.node_fields:
            if field.name != "span":
                row[field.name] = _encode(getattr(node, field.name), numbers)
        span: Span | None = getattr(node, "span", None)
        if place is not None and span is not None:
            row["span"] = place(span)
        numbers[id(node)] = len(rows)
        rows.append(row)
    return [numbers[id(root)] for root in roots], rows


def _all_nodes(value: object) -> list[Node]:
    found = list(nodes_in(value))
    if isinstance(value, Mapping):
        found += [key for key in cast("Mapping[object, object]", value) if isinstance(key, Node)]
    return found


def _encode(value: Any, numbers: Mapping[int, int]) -> object:
    if isinstance(value, Node):
        return {"node": numbers[id(value)]}
    if isinstance(value, tuple):
        return [_encode(item, numbers) for item in cast("tuple[object, ...]", value)]
    if isinstance(value, Mapping):
        items = cast("Mapping[object, object]", value).items()
        return {"map": [[_encode(k, numbers), _encode(v, numbers)] for k, v in items]}
    if isinstance(value, DataType):
        return {"dtype": str(value)}
    if isinstance(value, enum.Enum):
        return {"enum": [type(value).__name__, value.name]}
    if isinstance(value, Array):
        content = base64.b64encode(value.to_bytes()).decode()
        return {"array": [str(value.dtype), list(value.shape), content]}
    if isinstance(value, float) and not math.isfinite(value):
        return {"float": repr(value)}
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    raise CompileError(
        Diagnostic(
            "TIR0003",
            f"a value of type {type(value).__name__} cannot be written as JSON",
            help="attributes hold numbers, strings, dtypes, arrays, nodes, tuples, maps of these",
        )
    )


def from_json(text: str) -> Node:
    """Read a program that ``to_json`` wrote; every node is checked by its constructor again.

    Errors: TIR0003 for text that is not such a program.
    """
    try:
        data = json.loads(text)
        made = from_rows(data["nodes"])
        root: int = data["root"]
        return made[root]
    except (KeyError, IndexError, TypeError, ValueError, RecursionError, AttributeError) as error:
        raise CompileError(
            Diagnostic(
                "TIR0003",
                "this text is not a program in Loomir's JSON form",
                notes=(f"{type(error).__name__}: {error}",),
                help="write it with loomir.ir.to_json",
            )
        ) from error


def from_rows(rows: Sequence[Mapping[str, Any]], spans: Sequence[Span] = ()) -> list[Node]:
    """Read the rows of ``to_rows``, with spans by number.

    Errors: many; for untrusted data, catch the same ones as ``from_json``.
    """
    made: list[Node] = []
    for row in rows:
        fields = dict(row)
        cls = NODE_CLASSES[fields.pop("")]
        span = fields.pop("span", None)
        make: Any = getattr(cls, "restore", cls)  # operators are one object per name
        given = {name: _decode(value, made) for name, value in fields.items()}
        if span is not None:
            given["span"] = spans[span]
        made.append(make(**given))
    return made


def _decode(value: Any, made: list[Node]) -> object:
    if isinstance(value, list):
        return tuple(_decode(item, made) for item in cast("list[Any]", value))
    if not isinstance(value, dict):
        return cast("object", value)
    ((tag, content),) = cast("dict[str, Any]", value).items()
    if tag == "node":
        return made[cast("int", content)]
    if tag == "map":
        return {_decode(k, made): _decode(v, made) for k, v in content}
    if tag == "dtype":
        return DataType(content)
    if tag == "enum":
        return _ENUMS[content[0]][content[1]]
    if tag == "float":
        return float(content)
    if tag == "array":
        dtype, shape, data = content
        return Array.from_bytes(base64.b64decode(data, validate=True), dtype, shape)
    raise ValueError(f"unknown tag {tag!r}")


_E = TypeVar("_E", bound=type[enum.Enum])
_ENUMS: dict[str, type[enum.Enum]] = {}


def serializable(cls: _E) -> _E:
    """Let the members of an enumeration be written and read as JSON."""
    _ENUMS[cls.__name__] = cls
    return cls
