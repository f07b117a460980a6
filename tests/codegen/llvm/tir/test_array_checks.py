# ruff: noqa: N803, N806  (programs of TVMScript, whose names are its own)
"""The checks of arrays in front of a function: which fault is told, where several things are wrong.

Entries for C report the fault itself; those for Python explain a refused call by the signature.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from loomir.codegen.llvm.generated_module import GeneratedModule
from loomir.codegen.llvm.module import Options, generate
from loomir.codegen.llvm.native_module import NativeModule
from loomir.ir.module import IRModule
from loomir.script import tir as T
from loomir.target import Target
from loomir.tir.function import PrimFunc
from loomir.tir.signature import signature_of
from loomir.transform import lower
from tests.codegen.llvm.tir.compare_engines import module


class DLTensor(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


class Report(ctypes.Structure):
    _fields_ = (
        ("site", ctypes.c_int32),
        ("status", ctypes.c_int32),
        ("root", ctypes.c_int64),
        ("values", ctypes.c_int64 * 3),
    )


@T.prim_func
def fixed(
    A: T.Buffer((2, 3), "float32"), B: T.Buffer((2, 3), "float32"), C: T.Buffer((2, 3), "float32")
):
    for i, j in T.grid(2, 3):
        C[i, j] = A[i, j] + B[i, j]


@T.prim_func
def free(a: T.handle, b: T.handle, c: T.handle):
    n = T.int64()
    A = T.match_buffer(a, (n, 3), "float32")
    B = T.match_buffer(b, (n, 3), "float32")
    C = T.match_buffer(c, (n, 3), "float32")
    for i, j in T.grid(n, 3):
        C[i, j] = A[i, j] + B[i, j]


@T.prim_func
def strided(a: T.handle, b: T.handle):
    s = T.int64()
    A = T.match_buffer(a, (4,), "float32", strides=(s,))
    B = T.match_buffer(b, (4,), "float32")
    for i in range(4):
        B[i] = A[i]


@T.prim_func
def many(
    A: T.Buffer((2,), "float32"),
    B: T.Buffer((2,), "float32"),
    C: T.Buffer((2,), "float32"),
    D: T.Buffer((2,), "float32"),
    E: T.Buffer((2,), "float32"),
    F: T.Buffer((2,), "float32"),
):
    for i in range(2):
        F[i] = A[i] + B[i] + C[i] + D[i] + E[i]


@T.prim_func
def empty(A: T.Buffer((2, 0), "float32"), B: T.Buffer((2, 0), "float32")):
    for i, j in T.grid(2, 0):
        B[i, j] = A[i, j]


_made: dict[int, tuple[GeneratedModule, NativeModule]] = {}


def compiled(program: PrimFunc) -> tuple[GeneratedModule, NativeModule]:
    if id(program) not in _made:
        mod: IRModule = module(("main", program))
        signatures = {"main": signature_of(program)}
        options = Options(for_c=True)
        made = generate(lower(mod), Target("native"), options, signatures=signatures)
        _made[id(program)] = made, NativeModule(made, Target("native"))
    return _made[id(program)]


def told(program: PrimFunc, arrays: list[DLTensor]) -> str | None:
    """Call; return the words of the fault, None where there is none."""
    made, native = compiled(program)
    report = Report()
    kinds = [ctypes.c_void_p] * (len(arrays) + 2)
    call = ctypes.CFUNCTYPE(ctypes.c_int32, *kinds)(native.address("main"))
    status = call(*[ctypes.addressof(a) for a in arrays], None, ctypes.addressof(report))
    if status == 0:
        return None
    assert status == report.status == 2
    words = ""
    for part in made.faults[report.site].message:
        if isinstance(part, str):
            words += part
        elif isinstance(part, int):
            words += str(report.values[part])
        else:
            words += part.names[report.values[part.index]]
    return words


def tensor(array: Any, *, compact: bool = False, **changed: Any) -> DLTensor:
    shape = (ctypes.c_int64 * max(array.ndim, 1))(*array.shape)
    strides = (ctypes.c_int64 * max(array.ndim, 1))(*[s // array.itemsize for s in array.strides])
    code = {"f": 2, "i": 0}[array.dtype.kind]
    made = DLTensor(
        array.ctypes.data, 1, 0, array.ndim, code, array.itemsize * 8, 1, shape, strides, 0
    )
    if compact:
        made.strides = None
    for name, value in changed.items():
        setattr(made, name, value)
    made.kept = array, shape, strides
    return made


def good(compact: bool = False) -> list[DLTensor]:
    return [tensor(np.ones((2, 3), "float32"), compact=compact) for _ in range(3)]


def wide() -> DLTensor:
    return tensor(np.ones((2, 3), "float64"))


def reverse_strides() -> DLTensor:
    return tensor(np.asfortranarray(np.ones((2, 3), "float32")))


KIND = "{} must be an array of float32 with 2 axes on the CPU"
OFFSET = "{} starts at a byte offset that is not a multiple of 4"
SIZE = "{} has extents that are missing, negative or too large"
EXTENT = "the extent of axis 1 of {} must be 3, not 4"
LAYOUT = "{} must be row-major"
OVERLAP = "{} and {} overlap in memory"

Change = Callable[[list[DLTensor]], None]


def put(place: int, make: Callable[[], DLTensor]) -> Change:
    def change(arrays: list[DLTensor]) -> None:
        arrays[place] = make()

    return change


def alter(place: int, **changed: Any) -> Change:
    def change(arrays: list[DLTensor]) -> None:
        for name, value in changed.items():
            setattr(arrays[place], name, value)

    return change


def same(place: int, other: int, by: int = 0) -> Change:
    def change(arrays: list[DLTensor]) -> None:
        arrays[place].data = arrays[other].data + by

    return change


def four() -> DLTensor:
    return tensor(np.ones((2, 4), "float32"))


def huge() -> DLTensor:
    extents = (ctypes.c_int64 * 2)(1 << 62, 3)
    made = tensor(np.ones((2, 3), "float32"))
    made.shape = extents
    return made


CASES: list[tuple[list[Change], str]] = [
    ([put(0, wide)], KIND.format("A")),
    ([put(2, wide)], KIND.format("C")),
    ([put(1, lambda: tensor(np.ones(6, "float32")))], KIND.format("B")),
    ([alter(1, device=2)], KIND.format("B")),
    ([alter(1, lanes=2)], KIND.format("B")),
    ([alter(0, byte_offset=2)], OFFSET.format("A")),
    ([alter(2, data=None)], SIZE.format("C")),
    ([put(1, four)], EXTENT.format("B")),
    ([put(0, reverse_strides)], LAYOUT.format("A")),
    ([put(2, reverse_strides)], LAYOUT.format("C")),
    ([same(2, 0, 20)], OVERLAP.format("A", "C")),
    ([same(2, 1, -20)], OVERLAP.format("B", "C")),
    # What is told first, where several things are wrong.
    ([put(0, reverse_strides), put(1, wide)], KIND.format("B")),
    ([put(1, four), alter(2, data=None)], SIZE.format("C")),
    ([put(0, reverse_strides), put(2, four)], EXTENT.format("C")),
    ([put(0, four), alter(0, byte_offset=1)], OFFSET.format("A")),
    ([put(1, four), put(2, four)], EXTENT.format("B")),
    ([same(2, 0), put(1, reverse_strides)], LAYOUT.format("B")),
    ([same(1, 0), same(2, 0)], OVERLAP.format("A", "C")),
    ([same(2, 0), same(1, 2)], OVERLAP.format("A", "C")),
]


@pytest.mark.parametrize("program", [fixed, free], ids=["fixed", "free"])
@pytest.mark.parametrize("compact", [False, True])
def test_what_fits_is_taken(program: PrimFunc, compact: bool) -> None:
    arrays = good(compact)
    assert told(program, arrays) is None
    assert arrays[2].kept[0].tolist() == [[2.0] * 3] * 2


@pytest.mark.parametrize("program", [fixed, free], ids=["fixed", "free"])
@pytest.mark.parametrize("case", range(len(CASES)))
def test_the_first_fault_is_told(program: PrimFunc, case: int) -> None:
    changes, wanted = CASES[case]
    arrays = good()
    for change in changes:
        change(arrays)
    before = [a.kept[0].copy() for a in arrays]
    assert told(program, arrays) == wanted
    assert all((a.kept[0] == b).all() for a, b in zip(arrays, before, strict=True))


def test_extents_that_no_memory_has() -> None:
    arrays = good()
    arrays[1] = huge()
    # A constant extent is compared with what is declared, which says more.
    assert told(fixed, arrays) == f"the extent of axis 0 of B must be 2, not {1 << 62}"
    assert told(free, arrays) == SIZE.format("B")


def test_neighbours_and_offsets() -> None:
    whole = np.ones((6, 3), "float32")
    arrays = [tensor(whole[2 * i : 2 * i + 2]) for i in range(3)]
    assert told(fixed, arrays) is told(free, arrays) is None
    start = tensor(whole[:2], byte_offset=24)
    assert told(fixed, [arrays[0], start, arrays[2]]) is None
    assert told(fixed, [arrays[1], arrays[2], start]) == OVERLAP.format("A", "C")


def test_arrays_without_elements_may_be_anywhere() -> None:
    nothing = tensor(np.ones((2, 0), "float32"), data=None)
    assert told(empty, [nothing, nothing]) is None
    assert told(empty, [nothing, four()]) == "the extent of axis 1 of B must be 0, not 4"
    rows = [tensor(np.ones((0, 3), "float32"), data=None) for _ in range(3)]
    assert told(free, rows) is None
    assert told(fixed, rows) == "the extent of axis 0 of A must be 2, not 0"


def test_strides_that_run_backwards() -> None:
    memory = np.arange(12, dtype="float32")
    out = tensor(memory[8:])
    assert told(strided, [tensor(memory[7::-2]), out]) is None
    assert memory[8:].tolist() == [7, 5, 3, 1]
    assert told(strided, [tensor(memory[8:1:-2]), out]) == OVERLAP.format("A", "B")
    assert told(strided, [tensor(memory[1:8:2]), out]) is None


@pytest.mark.parametrize("program", [fixed, free], ids=["fixed", "free"])
def test_arrays_that_are_only_read_may_overlap(program: PrimFunc) -> None:
    arrays = good()
    arrays[1].data = arrays[0].data
    assert told(program, arrays) is None
    assert arrays[2].kept[0].tolist() == [[2.0] * 3] * 2


@pytest.mark.parametrize("pair", [(0, 1), (1, 4)])
def test_pairs_of_many_arrays_that_are_only_read(pair: tuple[int, int]) -> None:
    arrays = [tensor(np.ones(2, "float32")) for _ in range(6)]
    first, second = pair
    arrays[second].data = arrays[first].data
    assert told(many, arrays) is None


@pytest.mark.parametrize("pair", [(1, 5), (4, 5), (0, 5)])
def test_pairs_of_many_arrays(pair: tuple[int, int]) -> None:
    arrays = [tensor(np.ones(2, "float32")) for _ in range(6)]
    assert told(many, arrays) is None
    first, second = pair
    arrays[second].data = arrays[first].data + 4
    assert told(many, arrays) == OVERLAP.format("ABCDEF"[first], "ABCDEF"[second])


def test_checks_are_not_written_out() -> None:
    """What a function has for itself grows neither with axes nor with what there is to check."""
    lines: list[int] = []
    for program in (fixed, many):
        text = compiled(program)[0].text
        found = re.search(r"define [^\n]*\.checked\((.*?)\n}", text, re.DOTALL)
        assert found is not None
        assert "loomir_check" in found[0]
        assert found[0].count("br i1") == 1
        lines.append(found[0].count("\n"))
    assert lines[1] - lines[0] <= 15  # three arrays more
