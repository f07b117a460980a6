"""What stands around the emulated CPU, none of which needs the emulator."""

from __future__ import annotations

import ctypes
import platform
import struct
import sys
from pathlib import Path

import pytest

import fuzz.bochs.library as library
import fuzz.emulator
from fuzz.bochs.boot import CODE, GIB, PAGE, Layout, gate, slot_address
from fuzz.bochs.gathers import lowered
from fuzz.bochs.host_calls import HostFunctions, is_pure
from fuzz.bochs.library import MODELS, EmulatorError, NotInstalledError, model_of
from fuzz.emulator import EmulatorCampaign
from loomir.codegen.llvm.jit import engine
from loomir.runtime.packed.externs import address_in_process
from loomir.target.table import CPUS


def test_there_is_a_model_for_each_x86() -> None:
    assert set(MODELS) == {name for name, cpu in CPUS.items() if cpu.triple.startswith("x86_64")}
    assert model_of("znver4") == "sapphire_rapids sse4a"
    with pytest.raises(EmulatorError, match="no CPU for apple-m1"):
        model_of("apple-m1")


def test_a_missing_emulator_is_told_in_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(library.shutil, "which", lambda name: None)
    with pytest.raises(NotInstalledError, match=r"pip install 'loomir\[emulator\]'"):
        library.found()


def test_the_library_in_between_is_compiled() -> None:
    compiler = library.shutil.which("cc") or library.shutil.which("gcc")
    if compiler is None:
        with pytest.raises(NotInstalledError):
            library.found()
        return
    made = library._between(compiler)
    made.loomir_stack.restype = ctypes.c_void_p
    assert made.loomir_stack()


def test_a_gate_holds_its_parts() -> None:
    low, code, stack, kind, middle, high, none = struct.unpack(
        "<HHBBHII", gate(0x123456789ABCDEF0, 1)
    )
    assert (high << 32 | middle << 16 | low) == 0x123456789ABCDEF0
    assert (code, stack, kind, none) == (CODE, 1, 0x8E, 0)


def walked(layout: Layout, pages: dict[int, int], address: int) -> int | None:
    """Walk the tables as a CPU does, through physical addresses."""

    def entry(table: int, number: int) -> int:
        return struct.unpack("<Q", ctypes.string_at(pages[table] + 8 * number, 8))[0]

    top = entry(layout.top, address >> 39 & 511)
    assert top & 1
    row = entry(top & ~0xFFF, address >> 30 & 511)
    return (row & ~0xFFF) + address % GIB if row & 1 else None


def test_addresses_are_the_same_on_both_sides() -> None:
    pages: dict[int, int] = {}
    layout = Layout(pages.__setitem__)
    assert all(physical % PAGE == 0 for physical in pages)
    for address in (0x55C0_0001_2345, 0x7F12_3456_7890, 0x7FFF_FFFF_F123):
        assert walked(layout, pages, address) is None
        assert layout.add(address)
        assert not layout.add(address ^ 0x1000)
        physical = walked(layout, pages, address)
        assert physical is not None
        assert physical < 1 << 40
        assert layout.host_address(physical) == address
    assert not layout.add(1 << 47)
    assert slot_address(3, GIB + 5) == 3 * GIB + 5
    # What exceptions need is known from the first.
    for place in (layout.segments, layout.task, layout.gates, layout.stubs):
        assert walked(layout, pages, place) is not None
    offset, code = struct.unpack_from("<HH", ctypes.string_at(layout.gates + 16 * 14, 16))
    assert (offset, code) == (layout.stub(14) & 0xFFFF, CODE)
    assert ctypes.string_at(layout.stub(14), 1) == b"\xf4"
    assert len({layout.stub(31), layout.returned, layout.system_call}) == 3


GATHERS = [
    # vgatherqps (%rax,%zmm17,4), %ymm1 {%k1}
    ("62f27d41930c88", 17, 1 ^ 8),
    ("62f27d41931488", 17, 1),
    # vscatterqps %xmm17, (,%ymm19) {%k1}
    ("62e27d21a30c1d00000000", 19, 3),
    # vpgatherdd 4(%rax,%zmm30), %zmm3 {%k2}
    ("62b27d4290 5c3001", 30, 14),
]


@pytest.mark.parametrize(("code", "upper", "lower"), GATHERS)
def test_gathers_by_upper_registers_get_lower_ones(code: str, upper: int, lower: int) -> None:
    text = bytes.fromhex(code)
    found = lowered(text.ljust(12, b"\x90"))
    assert found is not None
    assert (len(found.code), found.upper, found.lower) == (len(text), upper, lower)
    assert found.code[3] & 8
    # Only the register of indices is another.
    changed = [i for i, (a, b) in enumerate(zip(found.code, text)) if a != b]
    assert changed in ([3], [1, 3])
    assert lowered(found.code.ljust(12, b"\x90")) is None
    assert lowered(bytes.fromhex("62f27d48 50c0").ljust(12, b"\0")) is None


def test_functions_of_mathematics_run_as_they_are() -> None:
    assert is_pure("exp", address_in_process("exp"))
    assert is_pure("memcpy", address_in_process("memcpy"))
    assert not is_pure("malloc", address_in_process("malloc"))
    assert not is_pure("PyGILState_Ensure", address_in_process("PyGILState_Ensure"))


def test_what_is_outside_is_called_on_a_real_cpu_too() -> None:
    outside = HostFunctions()
    function = address_in_process("labs")
    stub = outside.address(function)
    assert stub == outside.address(function)
    assert stub != outside.address(address_in_process("abs"))
    halts = [at for at in range(stub, stub + 32) if ctypes.string_at(at, 1) == b"\xf4"]
    assert outside.at(halts[0])((1 << 64) - 5, *[0] * 5) == 5
    assert outside.at(halts[0] + 1) is None
    assert outside.at(0) is None
    if platform.machine() == "x86_64":
        assert ctypes.CFUNCTYPE(ctypes.c_long, ctypes.c_long)(stub)(-7) == 7
    kept = outside.keep(b"\x90\xf4")
    assert ctypes.string_at(kept, 2) == b"\x90\xf4"
    assert outside.at(kept + 1) is None


def test_a_failure_is_kept_with_its_command(tmp_path: Path) -> None:
    campaign = EmulatorCampaign(range(1), ["idioms", "icelake-server"])
    path = campaign.keep({"seed": 3, "found": {"icelake-server": "wrong"}}, tmp_path)
    first, second, *_ = path.read_text().splitlines()
    assert (
        first
        == "# python -m fuzz.emulator --family idioms --target icelake-server --seed 3 --count 1"
    )
    assert second == "# icelake-server: wrong"
    assert path.name == "idioms-icelake-server-3.txt"


def test_objects_for_other_machines_load_here() -> None:
    if platform.machine() != "x86_64":
        return
    ir = """
    define i32 @f(<16 x i32> %x) {
      %s = call i32 @llvm.vector.reduce.add.v16i32(<16 x i32> %x)
      ret i32 %s
    }
    declare i32 @llvm.vector.reduce.add.v16i32(<16 x i32>)
    """
    machine = engine.TargetMachine.of("sapphirerapids")
    assert "zmm" in engine.assembly(ir, machine)
    library = engine.load(engine.compile_ir(ir, machine))
    assert library.address("f")


def test_the_command_says_what_is_missing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["emulator", "--family", "idioms", "--target", "znver4"])
    monkeypatch.setattr(library.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(SystemExit):
        fuzz.emulator.main()
    last = capsys.readouterr().err.splitlines()[-1]
    assert "error: the emulator is not installed: pip install 'loomir[emulator]'" in last
