"""The section ``metadata = tvm.ir.load_json(\"\"\"…\"\"\")`` that other implementations print.

It defines what their texts refer to by ``metadata["ffi.String"][0]``: strings of several lines,
tensors, numbers. It is read as data, a list of nodes that refer to each other by index.
"""

from __future__ import annotations

import base64
import binascii
import json
import math
import struct
from collections.abc import Callable
from typing import Any, Final, cast

from loomir.relax.expr import Constant
from loomir.script.builder.mistakes import mistake
from loomir.script.parser import doc
from loomir.support.array import Array
from loomir.support.diagnostics import CompileError
from loomir.support.dtype import DataType
from loomir.tir.expr import FloatImm, IntImm

__all__ = ["read_metadata"]

_DEPTH: Final = 50
_MAGIC: Final = 0xDD5E40F096B4A13F
_UNREADABLE: Final = (
    *(ValueError, LookupError, TypeError, AttributeError),
    *(RecursionError, OverflowError, ArithmeticError),
)
_KINDS: Final = {0: "int", 1: "uint", 2: "float", 4: "bfloat", 6: "bool"}


def read_metadata(node: doc.Assign) -> object:
    """Return the values of the section, lists of them by the kind of their nodes.

    Errors: SCR0053.
    """
    text = cast("str", cast("doc.Constant", cast("doc.Call", node.value).args[0]).value)
    try:
        graph = json.loads(text)
        return _Nodes(graph["nodes"]).value(graph["root_index"], 0)
    except CompileError:
        raise
    except _UNREADABLE as error:
        raise _refusal(f"{type(error).__name__}: {error}") from error


def _refusal(why: str) -> CompileError:
    return mistake(
        "SCR0053",
        "the metadata of the text cannot be read",
        notes=(why,),
        help="print the program again with script(show_meta=True)",
    )


class _Nodes:
    """The nodes of a section, each made once."""

    def __init__(self, nodes: list[dict[str, Any]]) -> None:
        self.nodes = nodes
        self.made: dict[int, object] = {}

    def value(self, index: object, depth: int) -> object:
        """Make the value of a node."""
        if type(index) is not int or not 0 <= index < len(self.nodes) or depth > _DEPTH:
            raise _refusal(f"{str(index)[:40]!r} is the place of no node")
        if index not in self.made:
            node = self.nodes[index]
            read = _READERS.get(node["type"])
            if read is None:
                raise _refusal(
                    f"{str(node['type'])[:80]!r} is not a kind of value that programs have"
                )
            self.made[index] = read(self, node.get("data"), depth + 1)
        return self.made[index]

    def items(self, data: Any, depth: int) -> list[object]:
        """Make the items of a list."""
        return [self.value(index, depth) for index in data]

    def table(self, data: Any, depth: int) -> dict[object, object]:
        """Make a dict of its keys and values in turn."""
        made = self.items(data, depth)
        return dict(zip(made[::2], made[1::2], strict=True))

    def dtype(self, data: Any, depth: int) -> DataType:
        """Return the dtype of a number, which one generation writes into the node's type."""
        if "dtype" in data:
            return DataType(data["dtype"])
        return DataType(cast("str", self.value(data["ty"], depth)))

    def constant(self, data: Any, depth: int) -> Constant:
        """Make a constant of a graph."""
        found = self.value(data["data" if "data" in data else "value"], depth)
        if not isinstance(found, Array):
            raise _refusal("a constant holds no tensor")
        return Constant(found)


def _tensor(nodes: _Nodes, data: Any, depth: int) -> Array:
    """Read a tensor: a mark, its device, rank, dtype, extents, the number of bytes, the bytes."""
    try:
        content = base64.b64decode(data, validate=True)
        magic, _, _, _, rank, code, bits, lanes = struct.unpack_from("<QQiiiBBH", content)
        if magic != _MAGIC or code not in _KINDS or lanes != 1 or not 0 <= rank <= 64:
            raise _refusal("a tensor has no head, or one of a dtype that programs lack")
        start = struct.calcsize("<QQiiiBBH")
        shape = struct.unpack_from(f"<{rank}q", content, start)
        (size,) = struct.unpack_from("<q", content, start + 8 * rank)
    except (binascii.Error, struct.error) as error:
        raise _refusal(f"the bytes of a tensor end too early: {error}") from error
    rest = content[start + 8 * rank + 8 :]
    dtype = DataType("bool" if code == 6 else f"{_KINDS[code]}{bits}")
    wanted = math.prod(shape) * dtype.itemsize
    if any(extent < 0 for extent in shape) or not len(rest) == size == wanted:
        raise _refusal("the shape of a tensor and the number of its bytes disagree")
    return Array.from_bytes(rest, dtype, shape)


_READERS: Final[dict[str, Callable[[_Nodes, Any, int], object]]] = {
    "None": lambda nodes, data, depth: None,
    "bool": lambda nodes, data, depth: bool(data),
    "int": lambda nodes, data, depth: int(data),
    "float": lambda nodes, data, depth: float(data),
    "ffi.String": lambda nodes, data, depth: str(data),
    "ffi.Array": lambda nodes, data, depth: nodes.items(data, depth),
    "ffi.Map": lambda nodes, data, depth: nodes.table(data, depth),
    "ffi.Tensor": _tensor,
    "ir.PrimType": lambda nodes, data, depth: str(data["dtype"]),
    "ir.IntImm": lambda nodes, data, depth: IntImm(data["value"], nodes.dtype(data, depth)),
    "ir.FloatImm": lambda nodes, data, depth: FloatImm(data["value"], nodes.dtype(data, depth)),
    "ir.GenericConst": lambda nodes, data, depth: nodes.constant(data, depth),
    "relax.expr.Constant": lambda nodes, data, depth: nodes.constant(data, depth),
}
"""The kinds of nodes, by their names there."""
