"""Decide which devices a program may use: the CPU only."""

from __future__ import annotations

from typing import Final

from loomir.ir.module import VDevice

__all__ = ["is_cpu"]

_CPU: Final = ("", "llvm", "cpu", "c", "native")


def is_cpu(device: VDevice) -> bool:
    """Tell whether a device is the CPU, the only one that programs run on."""
    target = device.target
    kind = target if isinstance(target, str) else str(target.get("kind", ""))
    return kind.split(" ")[0].split(":")[0] in _CPU
