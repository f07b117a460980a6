"""Object code in memory: what it refers to can be reached from wherever it lies."""

import ctypes
import os
import struct
import subprocess
import sys
import weakref

import pytest

import loomir
from loomir.codegen.llvm.jit.engine import compile_ir, load, machine_of
from loomir.codegen.llvm.support.ir.checks import checks_ir
from loomir.codegen.llvm.support.ir.fast_call import fast_call_module
from loomir.codegen.llvm.support.ir.objects import objects_module
from loomir.codegen.llvm.support.ir.pool import pool_module
from loomir.script import tir as T
from loomir.target import Target

ARM = "aarch64-unknown-linux-gnu"
# ABS64, JUMP26 and CALL26 (a loader puts a stub near by), ADR_GOT_PAGE and LD64_GOT_LO12_NC (a
# table of 64-bit addresses near by).
REACHES_ANYTHING = {257, 282, 283, 311, 312}


def outside(data: bytes) -> dict[str, set[int]]:
    """Return the kinds of the relocations that refer to each symbol that an ELF object lacks."""
    (start,) = struct.unpack_from("<Q", data, 0x28)
    (count,) = struct.unpack_from("<H", data, 0x3C)
    sections = [struct.unpack_from("<IIQQQQIIQQ", data, start + 64 * i) for i in range(count)]
    found: dict[str, set[int]] = {}
    for _, kind, _, _, begin, size, link, _, _, each in sections:
        if kind != 4:  # SHT_RELA
            continue
        symbols, names = sections[link], sections[sections[link][6]]
        for at in range(begin, begin + size, each):
            _, info, _ = struct.unpack_from("<QQq", data, at)
            name, _, _, index, _, _ = struct.unpack_from(
                "<IBBHQQ", data, symbols[4] + 24 * (info >> 32)
            )
            if index == 0:
                text = data[names[4] + name : data.index(b"\0", names[4] + name)].decode()
                found.setdefault(text, set()).add(info & 0xFFFFFFFF)
    return found


@T.prim_func
def kernel(x: T.Buffer((64, 64), "float32"), y: T.Buffer((64, 64), "float32")):
    for i in T.parallel(64):
        for j in range(64):
            T.evaluate(T.call_extern("int32", "abs", T.int32(1)))
            assert x[i, j] > T.float32(0), "positive"
            y[i, j] = T.sin(x[i, j]) * T.float32(1.25)


@pytest.mark.parametrize("what", ["kernel", "pool", "objects", "fast_call", "checks"])
def test_what_arm_code_refers_to_may_lie_anywhere(what: str):
    texts = {
        "kernel": lambda: loomir.compile(kernel, target="neoverse-n1").llvm_ir(),
        "pool": lambda: pool_module(ARM).render(),
        "objects": lambda: objects_module().render(),
        "fast_call": lambda: fast_call_module().render(),
        "checks": checks_ir,
    }
    found = outside(compile_ir(texts[what](), machine_of(Target("neoverse-n1"))))
    assert found
    assert {name: kinds for name, kinds in found.items() if kinds - REACHES_ANYTHING} == {}


def test_code_and_data_of_an_object_lie_in_one_region():
    library = load(
        compile_ir(
            "@table = constant [4 x i64] [i64 1, i64 2, i64 3, i64 4]\n"
            "@count = global i64 5\n"
            "define i64 @third() {\n"
            "  %at = getelementptr i64, ptr @table, i64 2\n"
            "  %x = load i64, ptr %at\n"
            "  %n = load i64, ptr @count\n"
            "  %sum = add i64 %x, %n\n"
            "  store i64 %sum, ptr @count\n"
            "  ret i64 %sum\n"
            "}\n"
        )
    )
    addresses = [library.address(name) for name in ("table", "count", "third")]
    assert max(addresses) - min(addresses) < 1 << 20
    third = ctypes.CFUNCTYPE(ctypes.c_int64)(library.address("third"))
    assert (third(), third()) == (8, 11)


GROWTH = """
import gc
from loomir.codegen.llvm.jit.engine import Passes, compile_ir
text = '''
define float @sum(ptr %x, i64 %n) {
  br label %loop
loop:
  %i = phi i64 [ 0, %0 ], [ %j, %loop ]
  %s = phi float [ 0.0, %0 ], [ %t, %loop ]
  %at = getelementptr float, ptr %x, i64 %i
  %v = load float, ptr %at
  %t = fadd float %s, %v
  %j = add i64 %i, 1
  %more = icmp slt i64 %j, %n
  br i1 %more, label %loop, label %out
out:
  ret float %t
}
'''
def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096
for passes in Passes:
    for i in range(130):
        if i == 30:
            gc.collect()
            before = resident()
        compile_ir(text, passes=passes)
    gc.collect()
    print((resident() - before) // 100)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="memory is read from /proc")
def test_compiling_keeps_no_pass_manager():
    found = subprocess.run(
        [sys.executable, "-c", GROWTH], capture_output=True, text=True, check=True, timeout=120
    )
    # Bytes for each program: a pipeline by itself has 31 KB.
    assert all(int(line) < 4096 for line in found.stdout.split()), found.stdout


def test_what_loaded_code_goes_with_it():
    """LLVM's JIT keeps some kilobytes of each object, so that it must not stay itself."""
    data = compile_ir("define i32 @seven() {\n  ret i32 7\n}\n")
    begun = load(data)._jit  # maybe one that still holds what others loaded
    used: list[weakref.ref[object]] = []
    kept = None
    for number in range(200):
        library = load(data)
        used.append(weakref.ref(library._jit))
        if number == 150:
            kept = library
    assert kept is not None
    del library
    left = {id(jit) for ref in used if (jit := ref()) is not None and jit is not begun}
    # That of the one that is kept, and the one that takes the next.
    assert len(left) <= 2
    assert ctypes.CFUNCTYPE(ctypes.c_int32)(kept.address("seven"))() == 7


def test_the_library_is_loaded_early_and_a_process_may_end_meanwhile():
    program = (
        "from loomir.codegen.llvm.native_module import load_library_early\nload_library_early()\n"
    )
    found = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "LOOMIR_CACHE_DIR": ""},
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    assert found.stderr == ""
