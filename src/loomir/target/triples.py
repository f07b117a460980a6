"""Read the system and the kind of machine from a triple of LLVM's, and tell which are known."""

from __future__ import annotations

from typing import Final

__all__ = ["SUPPORTED", "architecture_of", "family", "is_supported", "system_name"]

_NAMES: Final = {
    "linux": "linux",
    "darwin": "darwin",
    "macosx": "darwin",
    "windows": "windows",
    "freebsd": "freebsd",
}
"""Names of systems, by how triples begin to spell them."""
_SAME: Final = {"arm64": "aarch64", "amd64": "x86_64"}
_MACHINES: Final = ("x86_64", "aarch64", "riscv64", "powerpc64le", "loongarch64")
"""Machines of 64 bits whose low bytes come first, as words of the thread pool assume."""

SUPPORTED: Final = (
    "x86-64, AArch64 and other machines of 64 bits, on Linux, macOS, Windows, FreeBSD"
)
"""What ``is_supported`` accepts, in words."""


def architecture_of(triple: str) -> str:
    """Return the kind of machine, by the name that Linux gives it."""
    name = triple.split("-")[0]
    return _SAME.get(name, name)


def family(triple: str) -> tuple[str, str]:
    """Return the architecture and the system, which decide whether code can run."""
    _, *rest = triple.split("-")
    return architecture_of(triple), "-".join(rest[1:]) or "-".join(rest)


def system_name(triple: str) -> str | None:
    """Return the system of a machine, such as ``darwin``; None for an unknown one."""
    for part in triple.split("-")[1:]:
        for prefix, name in _NAMES.items():
            if part.startswith(prefix):
                return name
    return None


def is_supported(triple: str) -> bool:
    """Whether Loomir compiles for machines of a triple, and runs there."""
    return system_name(triple) is not None and architecture_of(triple) in _MACHINES
