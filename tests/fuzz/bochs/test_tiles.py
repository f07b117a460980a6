"""The unit for matrices: instructions as LLVM encodes them, and what the manual says they do."""

from __future__ import annotations

import ctypes
import re

import ml_dtypes
import numpy as np
import pytest

from fuzz.bochs.tiles import Operands, TileError, Tiles, decoded
from loomir.codegen.llvm.jit import engine
from loomir.interp import interpret
from loomir.ir.module import IRModule
from loomir.script import from_source

REGISTERS = tuple(range(1000, 17000, 1000))


def config(*shapes: tuple[int, int]) -> np.ndarray:
    """Make what gives tiles these rows and bytes of a row."""
    text = np.zeros(64, "uint8")
    text[0] = 1
    for tile, (rows, width) in enumerate(shapes):
        text[16 + 2 * tile], text[48 + tile] = width, rows
    return text


def shaped(*shapes: tuple[int, int]) -> Tiles:
    tiles = Tiles()
    text = config(*shapes)
    run(tiles, Operands("load_config", 0, address=text.ctypes.data))
    return tiles


def run(tiles: Tiles, operands: Operands) -> None:
    getattr(tiles, f"_{operands.name}")(operands)


def load(tiles: Tiles, tile: int, array: np.ndarray) -> None:
    run(tiles, Operands("load", 0, tile, address=array.ctypes.data, stride=array.strides[0]))


def stored(tiles: Tiles, tile: int, shape: tuple[int, int], dtype: str) -> np.ndarray:
    array = np.zeros(shape, dtype)
    run(tiles, Operands("store", 0, tile, address=array.ctypes.data, stride=array.strides[0]))
    return array


@pytest.mark.parametrize(
    ("code", "wanted"),
    [
        # tilezero tmm5, tilerelease, tdpbssd tmm1, tmm2, tmm3, tdpbsud, tdpbusd, tdpbuud, tdpbf16ps
        ("c4e27b49e8", Operands("zero", 5, 5)),
        ("c4e27849c0", Operands("release", 5)),
        ("c4e2635eca", Operands("dot_ss", 5, 1, 2, 3)),
        ("c4e2625eca", Operands("dot_su", 5, 1, 2, 3)),
        ("c4e2615eca", Operands("dot_us", 5, 1, 2, 3)),
        ("c4e2605eca", Operands("dot_uu", 5, 1, 2, 3)),
        ("c4e2625cca", Operands("dot_bf16", 5, 1, 2, 3)),
        # tileloadd (%rdi,%rsi), %tmm4; 64(%rdi,%rsi); 1024(%r9,%r10); tilestored %tmm6, -4(%r9,%rbx,2)
        ("c4e27b4b2437", Operands("load", 6, 4, address=8000, stride=7000)),
        ("c4e27b4b643740", Operands("load", 7, 4, address=8064, stride=7000)),
        ("c4827b4ba41100040000", Operands("load", 10, 4, address=11024, stride=11000)),
        ("c4c27a4b7459fc", Operands("store", 7, 6, address=9996, stride=8000)),
        # ldtilecfg -64(%rsp), ldtilecfg 16(%rip), sttilecfg (%rax)
        ("c4e278494424c0", Operands("load_config", 7, 0, address=4936)),
        ("c4e278490510000000", Operands("load_config", 9, 0, address=1 << 20 | 25)),
        ("c4e2794900", Operands("store_config", 5, 0, address=1000)),
        # not of the unit: vpdpbusd, and short of bytes
        ("c4e27150c2", None),
        ("c4e2", None),
    ],
)
def test_instructions_are_decoded(code: str, wanted: Operands | None) -> None:
    assert decoded(bytes.fromhex(code), 1 << 20, REGISTERS) == wanted


def test_what_llvm_encodes_is_understood() -> None:
    ir = """
    declare x86_amx @llvm.x86.tileloadd64.internal(i16, i16, ptr, i64)
    declare x86_amx @llvm.x86.tdpbusd.internal(i16, i16, i16, x86_amx, x86_amx, x86_amx)
    declare void @llvm.x86.tilestored64.internal(i16, i16, ptr, i64, x86_amx)
    define void @f(ptr %a, ptr %b, ptr %c, i64 %s) {
      %x = call x86_amx @llvm.x86.tileloadd64.internal(i16 16, i16 64, ptr %a, i64 %s)
      %y = call x86_amx @llvm.x86.tileloadd64.internal(i16 16, i16 64, ptr %b, i64 64)
      %z = call x86_amx @llvm.x86.tileloadd64.internal(i16 16, i16 64, ptr %c, i64 64)
      %d = call x86_amx @llvm.x86.tdpbusd.internal(i16 16, i16 64, i16 64, x86_amx %z, x86_amx %x, x86_amx %y)
      call void @llvm.x86.tilestored64.internal(i16 16, i16 64, ptr %c, i64 64, x86_amx %d)
      ret void
    }
    """
    machine = engine.TargetMachine.of("sapphirerapids", triple="x86_64-unknown-linux-gnu")
    written = re.findall(r"\t(\w*tile\w+|tdp\w+)", engine.assembly(ir, machine))
    code = engine.compile_ir(ir, machine)
    found = [
        operands.name
        for at in range(len(code) - 12)
        if (operands := decoded(code[at : at + 12], 0, REGISTERS)) is not None
    ]
    names = {"ldtilecfg": "load_config", "tileloadd": "load", "tdpbusd": "dot_us"}
    names |= {"tilestored": "store", "tilerelease": "release"}
    assert found == [names[name] for name in written]


@pytest.mark.parametrize("signs", ["ss", "su", "us", "uu"])
def test_products_of_bytes_are_summed(signs: str) -> None:
    random = np.random.default_rng(0)
    dtypes = [{"s": "int8", "u": "uint8"}[sign] for sign in signs]
    a = random.integers(0, 256, (5, 12), "uint8").view(dtypes[0])
    b = random.integers(0, 256, (12, 7), "uint8").view(dtypes[1])
    packed = b.reshape(3, 4, 7).transpose(0, 2, 1).reshape(3, 28).copy()
    before = random.integers(-9, 9, (5, 7), "int32")
    tiles = shaped((5, 28), (5, 12), (3, 28))
    for tile, array in enumerate((before, a, packed)):
        load(tiles, tile, array)
    run(tiles, Operands(f"dot_{signs}", 0, 0, 1, 2))
    found = stored(tiles, 0, (5, 7), "int32")
    np.testing.assert_array_equal(found, before + a.astype("int32") @ b.astype("int32"))
    assert tiles.took_part()
    assert not tiles.took_part()


def test_products_of_bfloat16_are_summed_in_the_order_of_the_manual() -> None:
    tiles = shaped((1, 4), (1, 8), (2, 4))

    def dot(left: list[float], right: list[float], start: float) -> np.float32:
        load(tiles, 0, np.array([[start]], "float32"))
        load(tiles, 1, np.array([left], ml_dtypes.bfloat16).view("uint8"))
        # A row of the right tile is a pair for each column.
        load(tiles, 2, np.array(right, ml_dtypes.bfloat16).reshape(2, 2).view("uint8"))
        run(tiles, Operands("dot_bf16", 0, 0, 1, 2))
        return stored(tiles, 0, (1, 1), "float32")[0, 0]

    assert dot([1, 2, 3, 4], [5, 6, 7, 8], 9) == 79
    # Even and odd places have sums of their own, to which the old value comes last.
    assert dot([2.0**24, 1, -(2.0**24), 1], [1, 1, 1, 1], 0.5) == 2.5
    assert dot([2.0**24, 1, 1, 1], [1, 1, 1, 1], 0) == 2.0**24 + 2
    # A product is added before it is rounded.
    assert dot([1 + 2.0**-7, 0, -1, 0], [1 + 2.0**-7, 0, 1, 0], 0) == 2.0**-6 + 2.0**-14
    # Denormals count as zero, as arguments and as results.
    assert dot([2.0**-127, 0, 0, 0], [2.0**100, 0, 0, 0], 0) == 0
    assert dot([2.0**-100, 0, 0, 0], [2.0**-30, 0, 0, 0], 0) == 0
    assert dot([0, 0, 0, 0], [0, 0, 0, 0], 2.0**-127) == 0
    assert np.isnan(dot([np.inf, 0, 0, 0], [0, 0, 0, 0], 0))


DOT_TILES = """
from loomir.script import ir as I, tir as T

@I.ir_module
class Module:
    @T.prim_func
    def main(x: T.Buffer((16, 32), "bfloat16"), y: T.Buffer((16, 32), "bfloat16"),
             c: T.Buffer((16, 16), "float32")):
        a = T.alloc_buffer((1, 16, 32), "bfloat16")
        b = T.alloc_buffer((1, 16, 16, 2), "bfloat16")
        for i, k in T.grid(16, 32):
            a[0, i, k] = x[i, k]
            b[0, i, k // 2, k % 2] = y[i, k]
        T.dot_tiles(c, a, b, 1, 16, 16, "bfloat16", "bfloat16", False)
"""


@pytest.mark.parametrize("scale", [0, -64, 100])
def test_products_of_bfloat16_are_those_of_the_interpreter(scale: int) -> None:
    module = from_source(DOT_TILES)
    assert isinstance(module, IRModule)
    random = np.random.default_rng(abs(scale))
    x, y = (
        (random.standard_normal((16, 32)) * 2.0 ** random.integers(-9, 9, (16, 32)) * 2.0**scale)
        for _ in "xy"
    )
    left, right = x.astype(ml_dtypes.bfloat16), y.astype(ml_dtypes.bfloat16)
    sums = (random.standard_normal((16, 16)) * 2.0**scale).astype("float32")
    tiles = shaped((16, 64), (16, 64), (16, 64))
    for tile, array in enumerate((sums, left, right)):
        load(tiles, tile, array)
    run(tiles, Operands("dot_bf16", 0, 0, 1, 2))
    interpret(module, "main", left, right, sums)
    np.testing.assert_array_equal(stored(tiles, 0, (16, 16), "float32"), sums)


def test_rows_and_bytes_beyond_a_shape_stay_as_they_are() -> None:
    tiles = shaped((2, 8))
    data = np.arange(64, dtype="uint8").reshape(4, 16)
    load(tiles, 0, data)
    out = np.full((4, 16), 255, "uint8")
    run(tiles, Operands("store", 0, 0, address=out.ctypes.data, stride=16))
    assert (out[:2, :8] == data[:2, :8]).all()
    assert (out[2:] == 255).all()
    assert (out[:, 8:] == 255).all()
    run(tiles, Operands("zero", 0, 0))
    assert not stored(tiles, 0, (2, 8), "uint8").any()


@pytest.mark.parametrize(
    ("tiles", "operands", "said"),
    [
        (Tiles(), Operands("zero", 0, 0), "before they have shapes"),
        (shaped((1, 4)), Operands("zero", 0, 1), "tile 1 is used without a shape"),
        (shaped((1, 4), (1, 8), (1, 4)), Operands("dot_ss", 0, 0, 1, 2), "1x8 and 1x4 bytes"),
        (shaped((1, 4), (1, 4)), Operands("dot_ss", 0, 0, 1, 1), "three"),
    ],
)
def test_what_the_unit_refuses_is_refused(tiles: Tiles, operands: Operands, said: str) -> None:
    with pytest.raises(TileError, match=said):
        run(tiles, operands)


def test_shapes_that_no_unit_has_are_refused() -> None:
    for shape in ((17, 4), (1, 65), (0, 4)):
        with pytest.raises(TileError, match=f"{shape[0]} rows of {shape[1]} bytes"):
            shaped(shape)
    tiles = shaped((1, 4))
    out = np.zeros(64, "uint8")
    run(tiles, Operands("store_config", 0, address=out.ctypes.data))
    assert (out == config((1, 4))).all()
    run(tiles, Operands("release", 0))
    with pytest.raises(TileError):
        run(tiles, Operands("zero", 0, 0))


def test_an_instruction_is_run_where_it_stands() -> None:
    tiles = shaped((1, 4))
    data = np.array([7], "int32")
    code = ctypes.create_string_buffer(bytes.fromhex("c4e27b4b0437"), 16)
    registers = [0] * 16
    registers[7] = data.ctypes.data
    assert tiles.run(ctypes.addressof(code), registers) == 6
    assert stored(tiles, 0, (1, 1), "int32")[0, 0] == 7
    other = ctypes.create_string_buffer(b"\x90" * 12)
    assert tiles.run(ctypes.addressof(other), registers) == 0
