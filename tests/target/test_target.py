"""What a target says, and what it says of a wrong name."""

from __future__ import annotations

import llvmlite.binding as llvm
import pytest

from loomir.codegen.llvm.jit.engine import TargetMachine, compile_ir
from loomir.support.diagnostics import CompileError, InternalError
from loomir.target import Target
from loomir.target.cpus import usable_cpus
from loomir.target.table import CPUS


def test_native_is_this_machine() -> None:
    target = Target("native")
    assert target.is_native
    assert target.cpu == llvm.get_host_cpu_name()
    assert target.triple == llvm.get_process_triple()
    assert target.cores == usable_cpus()
    assert target.vector_bits in (128, 256, 512)
    assert 4096 <= target.caches[0] <= 1 << 20
    assert target.lanes(32) * 32 == target.vector_bits


def test_native_machine_is_the_engine_s() -> None:
    target = Target()
    machine = TargetMachine.of(target.cpu, target.features, target.triple)
    assert machine is TargetMachine.host()


def test_a_named_cpu() -> None:
    target = Target("znver3")
    assert (target.cpu, target.vector_bits, target.registers) == ("znver3", 256, 16)
    assert not target.is_native
    assert Target("skylake-avx512").vector_bits == 512


def test_extensions_are_of_the_cpu() -> None:
    both = {"avx512_vnni", "avx512_bf16"}
    for name, wanted in (("haswell", set()), ("sapphirerapids", both), ("znver5", both)):
        assert {e for e in both if Target(name).has(e)} == wanted
    assert Target("alderlake").has("avx_vnni")
    assert not Target("neoverse-n1").has("avx512_vnni")
    here = llvm.get_host_cpu_features()
    assert Target().has("avx512_vnni") == bool(here.get("avx512vnni"))
    with pytest.raises(InternalError, match="avx10"):
        Target().has("avx10")


def dot_product(name: str, lanes: int) -> str:
    words, bytes_ = f"<{lanes} x i32>", f"<{4 * lanes} x i8>"
    return (
        f"declare {words} @llvm.{name}({words}, {bytes_}, {bytes_})\n"
        f"define {words} @f({words} %a, {bytes_} %b, {bytes_} %c) {{\n"
        f"  %r = call {words} @llvm.{name}({words} %a, {bytes_} %b, {bytes_} %c)\n"
        f"  ret {words} %r\n}}\n"
    )


def test_llvm_has_the_instructions_that_the_table_gives_a_cpu() -> None:
    names = [name for name, row in CPUS.items() if row.extensions]
    assert names
    for name in names:  # LLVM would end the process where one lacks it
        target = Target(name)
        texts = [dot_product("x86.avx512.vpdpbusd.256", 8)]
        if target.has("asimddp"):
            texts = [dot_product("aarch64.neon.sdot.v4i32.v16i8", 4)]
        if target.has("i8mm"):
            texts += [dot_product("aarch64.neon.usdot.v4i32.v16i8", 4)]
        for text in texts:
            assert compile_ir(text, TargetMachine.of(target.cpu, "", target.triple), 0)


def test_any_arm() -> None:
    target = Target("aarch64")
    assert (target.name, target.cpu, target.registers) == ("aarch64", "generic", 32)
    assert not target.extensions


def test_equal_targets() -> None:
    assert Target("haswell") == Target("haswell")
    assert hash(Target("haswell")) == hash(Target("haswell"))
    assert Target("haswell") != Target("skylake")
    assert Target(Target("haswell")) == Target("haswell")
    assert repr(Target("haswell")) == "Target('haswell')"


def test_an_unknown_name_gives_the_nearest() -> None:
    with pytest.raises(CompileError) as caught:
        Target("znver33")
    assert caught.value.diagnostic.code == "TGT0001"
    assert "'znver33'" in caught.value.diagnostic.message
    assert caught.value.diagnostic.help == "did you mean 'znver3'?"
    with pytest.raises(CompileError) as caught:
        Target("qqqqqqq")
    assert "'native'" in caught.value.diagnostic.help


@pytest.mark.parametrize("name", sorted(CPUS))
def test_llvm_knows_every_cpu_of_the_table(name: str, capfd: pytest.CaptureFixture[str]) -> None:
    target = Target(name)
    machine = TargetMachine.of(target.cpu, target.features, target.triple)
    code = compile_ir("define void @f() {\n  ret void\n}\n", machine, 0)
    assert code
    # LLVM warns on the console and goes on with a generic CPU where it knows none of that name.
    assert "not a recognized processor" not in capfd.readouterr().err
