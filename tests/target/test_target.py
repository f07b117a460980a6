"""What a target says, and what it says of a wrong name."""

from __future__ import annotations

import os

import llvmlite.binding as llvm
import pytest

from loomir.codegen.llvm.engine import TargetMachine, compile_ir
from loomir.support.diagnostics import CompileError
from loomir.target import Target
from loomir.target.table import CPUS


def test_native_is_this_machine() -> None:
    target = Target("native")
    assert target.is_native
    assert target.cpu == llvm.get_host_cpu_name()
    assert target.triple == llvm.get_process_triple()
    assert target.cores == len(os.sched_getaffinity(0))
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
