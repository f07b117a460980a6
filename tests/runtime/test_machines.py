"""Which saved code fits which machine."""

from __future__ import annotations

from typing import Any

import pytest

from loomir.codegen.llvm.jit.engine import TargetMachine
from loomir.deploy import compatibility
from loomir.runtime.errors import RunError
from loomir.target import Target
from loomir.target.hwcap import features_of

ARM = "aarch64-unknown-linux-gnu"
OLD = features_of(0x119FFF, 0)
"""A Neoverse N1."""


def machine(features: dict[str, bool], cpu: str = "generic") -> Any:
    listed = ",".join(f"{'+' if on else '-'}{name}" for name, on in sorted(features.items()))
    return TargetMachine.of(cpu, listed, ARM)


def header_of(name: str) -> dict[str, str]:
    target = Target(name)
    return {"triple": ARM, "cpu": target.cpu, "features": target.features}


@pytest.mark.parametrize(
    ("code", "features", "lacking"),
    [
        ("aarch64", {}, ""),
        ("aarch64", OLD, ""),
        ("cortex-a72", OLD, ""),
        ("neoverse-n1", OLD, ""),
        ("neoverse-n1", OLD | {"dotprod": False}, "dotprod"),
        ("neoverse-n2", OLD, "bf16, complxnum, fp16fml, i8mm, jsconv, sve, sve2"),
        ("neoverse-v1", dict.fromkeys(features_of(0, 0), True), ""),
    ],
)
def test_code_for_arm(
    code: str, features: dict[str, bool], lacking: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(compatibility.TargetMachine, "host", lambda: machine(features))
    if not lacking:
        compatibility.check_machine(header_of(code), "'f.loom'")
        return
    with pytest.raises(RunError) as caught:
        compatibility.check_machine(header_of(code), "'f.loom'")
    diagnostic = caught.value.diagnostic
    assert diagnostic.code == "RUN0464"
    assert diagnostic.message.endswith(f"lacks: {lacking}")
    assert 'target="aarch64"' in (diagnostic.help or "")


def test_code_for_an_arm_that_no_table_knows(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(compatibility.TargetMachine, "host", lambda: machine(OLD))
    with pytest.raises(RunError) as caught:
        compatibility.check_machine(header_of("aarch64") | {"cpu": "a64fx"}, "'f.loom'")
    assert "holds code for a64fx" in caught.value.diagnostic.message
