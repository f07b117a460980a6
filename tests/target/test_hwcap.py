"""Features of AArch64 CPUs, from the words that Linux gives a process."""

from __future__ import annotations

import sys

import llvmlite.binding as llvm
import pytest

from loomir.codegen.llvm.jit.engine import TargetMachine, assembly
from loomir.target import host
from loomir.target.hwcap import features_of, read_features

NEOVERSE_N1 = 0x119FFF, 0x0
"""What Linux says on a Neoverse N1 of version r3p1: FP to DCPOP, ASIMDDP, and no more."""
NEOVERSE_V1 = 0x7FFFFFFF & ~(1 << 18 | 1 << 19), 0x0000_E09B & ~0x3E | 1 << 13 | 1 << 14 | 1 << 16


def test_features_of_known_machines():
    old = features_of(*NEOVERSE_N1)
    assert {name for name, there in old.items() if there} == {
        "aes", "crc", "dotprod", "fp-armv8", "fullfp16", "lse", "neon", "rcpc", "rdm", "sha2",
    }  # fmt: skip
    new = features_of(*NEOVERSE_V1)
    assert all(new[name] for name in ("sve", "i8mm", "bf16", "rand"))
    assert not new["sm4"]
    assert not any(features_of(0, 0).values())


def test_a_feature_needs_all_of_its_bits():
    assert not features_of(1 << 9, 0)["fullfp16"]
    assert features_of(1 << 9 | 1 << 10, 0)["fullfp16"]


def test_llvm_knows_every_feature(capfd: pytest.CaptureFixture[str]):
    listed = ",".join(f"+{name}" for name in features_of(0, 0))
    machine = TargetMachine.of("generic", listed, "aarch64-unknown-linux-gnu")
    assert "fmla" in assembly(
        "declare <4 x float> @llvm.fma.v4f32(<4 x float>, <4 x float>, <4 x float>)\n"
        "define <4 x float> @f(<4 x float> %x, <4 x float> %y) {\n"
        "  %z = call <4 x float> @llvm.fma.v4f32(<4 x float> %x, <4 x float> %y, <4 x float> %y)\n"
        "  ret <4 x float> %z\n}\n",
        machine,
        2,
    )
    assert "not a recognized feature" not in capfd.readouterr().err


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux has these words")
def test_the_words_of_this_process_can_be_read():
    assert set(read_features()) == set(features_of(0, 0))


def test_an_arm_host_has_what_linux_says(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(llvm, "get_process_triple", lambda: "aarch64-unknown-linux-gnu")
    monkeypatch.setattr(llvm, "get_host_cpu_name", lambda: "generic")
    monkeypatch.setattr(llvm, "get_host_cpu_features", dict[str, bool])
    monkeypatch.setattr(host, "read_features", lambda: features_of(*NEOVERSE_N1))
    features = host.features_here.__wrapped__
    monkeypatch.setattr(host, "features_here", features)
    here = host.host.__wrapped__()
    assert here.registers == 32
    assert here.extensions == {"asimddp"}
    assert "+dotprod" in here.features
    assert here.fma


def test_a_mac_has_what_its_cpu_is_known_for(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.setattr(llvm, "get_process_triple", lambda: "arm64-apple-darwin24.0.0")
    monkeypatch.setattr(llvm, "get_host_cpu_name", lambda: "apple-m2")
    monkeypatch.setattr(llvm, "get_host_cpu_features", dict[str, bool])
    monkeypatch.setattr(host, "features_here", host.features_here.__wrapped__)
    assert host.host.__wrapped__().extensions == {"asimddp", "i8mm"}
