"""Detect the host: its CPU, caches and cores, from LLVM and the system."""

from __future__ import annotations

import ctypes
import functools
import os
import re
import sys
import sysconfig
from pathlib import Path
from typing import Final, NamedTuple

import llvmlite.binding as llvm

from loomir.support.diagnostics import CompileError, Diagnostic
from loomir.target.cpus import usable_cpus
from loomir.target.hwcap import read_features
from loomir.target.table import CPUS, EXTENSIONS
from loomir.target.triples import SUPPORTED, architecture_of, is_supported

__all__ = ["Host", "features_here", "host"]

_CACHES: Final = Path("/sys/devices/system/cpu")
_FALLBACK: Final = (32 * 1024, 512 * 1024, 0)
_TILES: Final = ("amx-int8", "amx-bf16")
_ARCH_PRCTL: Final = 158
_REQUEST: Final = 0x1023
"""``ARCH_REQ_XCOMP_PERM``."""
_TILE_DATA: Final = 18
"""The number of the registers among those that a process asks for."""
_UNITS: Final = {"": 1, "K": 1024, "M": 1024**2, "G": 1024**3}


class Host(NamedTuple):
    """The machine that this process runs on."""

    triple: str
    cpu: str
    features: str
    vector_bits: int
    registers: int
    caches: tuple[int, int, int]
    cores: int
    extensions: frozenset[str]
    fma: bool


@functools.lru_cache(maxsize=1)
def host() -> Host:
    """Ask for the machine, once. Errors: TGT0002 if Loomir does not support it."""
    triple = llvm.get_process_triple()
    if not is_supported(triple):
        raise CompileError(
            Diagnostic(
                "TGT0002",
                f"Loomir does not compile for this machine, {triple}",
                notes=(f"it compiles for {SUPPORTED}",),
                help="run Loomir on one of those; loomir.interpret runs programs without compiling",
            )
        )
    cpu = llvm.get_host_cpu_name()
    flags = features_here()
    listed = ",".join(f"{'+' if on else '-'}{name}" for name, on in sorted(flags.items()))
    arm = architecture_of(triple) == "aarch64"
    bits, registers = _vectors(flags, arm)
    row = CPUS.get(cpu)
    return Host(
        triple,
        cpu,
        listed,
        bits,
        registers,
        _caches(row.caches if row else _FALLBACK),
        usable_cpus(),
        _extensions(flags, row.extensions if row and arm else frozenset()),
        bool(flags.get("fma")) or not triple.startswith("x86_64"),
    )


@functools.lru_cache(maxsize=1)
def features_here() -> dict[str, bool]:
    """Return LLVM's features of this CPU that this process may use.

    Errors: TGT0002 for a free-threaded Python, whose objects have another layout in memory than
    compiled functions read.
    """
    if sysconfig.get_config_var("Py_GIL_DISABLED"):
        raise CompileError(
            Diagnostic(
                "TGT0002",
                "Loomir does not compile for free-threaded builds of Python",
                notes=("compiled functions read objects as builds with the GIL have them",),
                help="run it by a usual build, such as python3.14 in place of python3.14t; "
                "loomir.interpret runs programs without compiling",
            )
        )
    flags: dict[str, bool] = dict(llvm.get_host_cpu_features())
    linux = sys.platform.startswith("linux")
    if linux and architecture_of(llvm.get_process_triple()) == "aarch64":
        flags.update(read_features())
    if any(flags.get(name) for name in _TILES) and not _may_use_tiles():
        flags.update(dict.fromkeys((name for name in flags if name.startswith("amx-")), False))
    return flags


def _may_use_tiles() -> bool:
    """Ask Linux, once for the whole process, for room to save the registers of the matrix unit.

    It refuses where it is too old, or where a thread's stack for signals has no room for them.
    """
    if not sys.platform.startswith("linux"):
        return False
    request = ctypes.CDLL(None, use_errno=True).syscall
    return request(*map(ctypes.c_long, (_ARCH_PRCTL, _REQUEST, _TILE_DATA))) == 0


def _extensions(flags: dict[str, bool], known: frozenset[str]) -> frozenset[str]:
    """Return the names of extensions; ``known`` are those of the CPU where no flag says."""
    return frozenset(name for name, flag in EXTENSIONS.items() if flags.get(flag, name in known))


def _vectors(flags: dict[str, bool], arm: bool) -> tuple[int, int]:
    if flags.get("avx512f") and flags.get("avx512vl"):
        return 512, 32
    if flags.get("avx"):
        return 256, 16
    return 128, 32 if arm else 16


def _caches(known: tuple[int, int, int]) -> tuple[int, int, int]:
    """Read what Linux says of the caches of one CPU that may be used; else what is known."""
    first = min(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 0
    found: dict[int, int] = {}
    try:
        for index in (_CACHES / f"cpu{first}" / "cache").glob("index*"):
            if _read(index / "type") != "Instruction":
                found[int(_read(index / "level"))] = _bytes(_read(index / "size"))
    except (OSError, ValueError):
        return known
    if 1 not in found:
        return known
    return found[1], found.get(2, 0), found.get(3, 0)


def _read(path: Path) -> str:
    return path.read_text(encoding="ascii").strip()


def _bytes(text: str) -> int:
    hit = re.fullmatch(r"(\d+)([KMG]?)", text)
    if hit is None:
        raise ValueError(text)
    return int(hit[1]) * _UNITS[hit[2]]
