"""The section of metadata that other implementations print above a program."""

from __future__ import annotations

import base64
import json
import struct
from typing import Any

import numpy as np
import pytest

import loomir
from loomir.script import from_source, parse_file

GRAPH = """
@R.function
def main(x: R.Tensor((2,), "float32")) -> R.Tensor((2,), "float32"):
    return R.add(x, metadata["{kind}"][0])
"""
KERNEL = """
@T.prim_func
def f():
    T.func_attr({"words": metadata["ffi.String"][0]})
    T.evaluate(0)
"""


def section(*nodes: tuple[str, Any], root: int = -1) -> str:
    listed = [{"type": kind, "data": data} for kind, data in nodes]
    text = json.dumps({"root_index": len(nodes) + root, "nodes": listed})
    return 'metadata = tvm.ir.load_json("""' + text.replace("\\", "\\\\") + '""")\n'


def tensor(array: Any, code: int = 2, lanes: int = 1, cut: int = 0) -> str:
    head = struct.pack("<QQiiiBBH", 0xDD5E40F096B4A13F, 0, 1, 0, array.ndim, code, 32, lanes)
    shape = struct.pack(f"<{array.ndim}q", *array.shape)
    content = head + shape + struct.pack("<q", array.nbytes) + array.tobytes()
    return base64.b64encode(content[: len(content) - cut]).decode()


def constant(kind: str, field: str, data: str) -> str:
    return section(
        ("ffi.String", kind),
        ("ffi.Tensor", data),
        (kind, {field: 1}),
        ("ffi.Array", [2]),
        ("ffi.Map", [0, 3]),
    )


@pytest.mark.parametrize(
    ("kind", "field"), [("relax.expr.Constant", "data"), ("ir.GenericConst", "value")]
)
def test_constants_of_both_generations(kind: str, field: str) -> None:
    text = constant(kind, field, tensor(np.array([1.5, -2.0], "float32")))
    program = from_source(text + GRAPH.format(kind=kind))
    assert 'R.add(x, R.const([1.5, -2.0], "float32"))' in program.script()


def test_strings_of_several_lines_in_a_text_and_in_a_file() -> None:
    text = section(
        ("ffi.String", "ffi.String"),
        ("ffi.String", "a\n\"b'\n"),
        ("ffi.Array", [1]),
        ("ffi.Map", [0, 2]),
    )
    assert from_source(text + KERNEL).attrs["words"] == "a\n\"b'\n"
    assert parse_file(text + KERNEL)["f"].attrs["words"] == "a\n\"b'\n"


GOOD = tensor(np.array([1.5, -2.0], "float32"))


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('metadata = tvm.ir.load_json("""{""")\n', "JSONDecodeError"),
        ('metadata = tvm.ir.load_json("""[]""")\n', "TypeError"),
        ('metadata = tvm.ir.load_json("""' + "[" * 100000 + '""")\n', "RecursionError"),
        (section(("ffi.Map", [0, 0])), "place of no node"),
        (section(("ffi.Array", [0])), "place of no node"),
        (section(("ffi.Map", [1]), ("ffi.String", "a"), root=-2), "ValueError"),
        (section(("ffi.Map", [5, 6])), "place of no node"),
        (section(("ffi.Map", [True, -1])), "place of no node"),
        (section(("node.of.others", {})), "'node.of.others' is not a kind of value"),
        (section((["ffi.Map"], {})), "TypeError"),  # type: ignore[arg-type]
        (section(("ir.IntImm", {"value": 300, "dtype": "int8"})), "TIR0103"),
        (constant("ir.GenericConst", "value", GOOD[:20]), "end too early"),
        (constant("ir.GenericConst", "value", "?" + GOOD), "end too early"),
        (constant("ir.GenericConst", "value", tensor(np.zeros(2, "f4"), code=3)), "no head"),
        (constant("ir.GenericConst", "value", tensor(np.zeros(2, "f4"), lanes=4)), "no head"),
        (constant("ir.GenericConst", "value", tensor(np.zeros(2, "f4"), cut=1)), "disagree"),
        (section(("ir.IntImm", {"value": 3, "dtype": ["int8"]})), "cannot be read"),
        (section(("ffi.String", [1]), ("ffi.Map", [0, 0, 0])), "ValueError"),
        (constant("ir.GenericConst", "other", GOOD), "KeyError"),
    ],
)
def test_a_section_that_cannot_be_read(text: str, why: str) -> None:
    with pytest.raises(loomir.CompileError) as caught:
        from_source(text + GRAPH.format(kind="ir.GenericConst"))
    found = caught.value.diagnostic
    assert found.span is not None
    assert found.help
    assert why in str(caught.value)


def test_a_text_whose_metadata_were_left_out() -> None:
    with pytest.raises(loomir.CompileError, match=r"SCR0003.*(\n.*)*show_meta=True"):
        from_source(KERNEL)
