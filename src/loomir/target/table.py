"""The CPUs that targets can name, and their features.

Names are those of LLVM; ``x86-64``, its levels ``-v2`` to ``-v4``, and ``aarch64`` are every CPU of
a kind. ``vector_bits`` is the width worth using, ``registers`` the number of
vector registers, ``caches`` the bytes of data that one core can use in L1, L2 and L3 (0 for none),
and ``extensions`` its instruction sets among ``EXTENSIONS``.
"""

from __future__ import annotations

from typing import Final, NamedTuple

__all__ = ["CPUS", "EXTENSIONS", "Cpu"]

_X86: Final = "x86_64-unknown-linux-gnu"
_ARM: Final = "aarch64-unknown-linux-gnu"
_APPLE: Final = "arm64-apple-macosx11.0.0"


class Cpu(NamedTuple):
    """A row of the table."""

    triple: str
    vector_bits: int
    registers: int
    caches: tuple[int, int, int]
    extensions: frozenset[str] = frozenset()
    fma: bool = True
    """Whether products are added in one instruction, rounded once."""
    cpu: str = ""
    """LLVM's name, where it is another."""


_VNNI: Final = frozenset({"avx512_vnni"})
_ICE: Final = frozenset({"avx512_vbmi", "avx512_vnni"})
_BF16: Final = _ICE | {"avx512_bf16"}
_BOTH: Final = _BF16 | {"avx_vnni"}
_TILES: Final = _BOTH | {"amx_bf16", "amx_int8"}
_DOT: Final = frozenset({"asimddp"})
_I8MM: Final = _DOT | {"i8mm"}

EXTENSIONS: Final = {
    "avx512_vbmi": "avx512vbmi",
    "avx512_vnni": "avx512vnni",
    "avx512_bf16": "avx512bf16",
    "avx_vnni": "avxvnni",
    "amx_bf16": "amx-bf16",
    "amx_int8": "amx-int8",
    "asimddp": "dotprod",
    "i8mm": "i8mm",
}
"""The extensions that ``Target.has`` knows, by their names in Linux, with LLVM's names."""


def _kib(first: int, second: int, third: int) -> tuple[int, int, int]:
    return first * 1024, second * 1024, third * 1024


CPUS: Final[dict[str, Cpu]] = {
    "x86-64": Cpu(_X86, 128, 16, _kib(32, 256, 2048), fma=False),
    "x86-64-v2": Cpu(_X86, 128, 16, _kib(32, 256, 2048), fma=False),
    "x86-64-v3": Cpu(_X86, 256, 16, _kib(32, 256, 2048)),
    "x86-64-v4": Cpu(_X86, 512, 32, _kib(32, 1024, 2048)),
    "nehalem": Cpu(_X86, 128, 16, _kib(32, 256, 8192), fma=False),
    "sandybridge": Cpu(_X86, 256, 16, _kib(32, 256, 8192), fma=False),
    "ivybridge": Cpu(_X86, 256, 16, _kib(32, 256, 8192), fma=False),
    "haswell": Cpu(_X86, 256, 16, _kib(32, 256, 8192)),
    "broadwell": Cpu(_X86, 256, 16, _kib(32, 256, 8192)),
    "skylake": Cpu(_X86, 256, 16, _kib(32, 256, 8192)),
    "skylake-avx512": Cpu(_X86, 512, 32, _kib(32, 1024, 16384)),
    "cascadelake": Cpu(_X86, 512, 32, _kib(32, 1024, 32768), _VNNI),
    "icelake-client": Cpu(_X86, 512, 32, _kib(48, 512, 8192), _ICE),
    "icelake-server": Cpu(_X86, 512, 32, _kib(48, 1280, 49152), _ICE),
    "tigerlake": Cpu(_X86, 512, 32, _kib(48, 1280, 12288), _ICE),
    "alderlake": Cpu(_X86, 256, 16, _kib(48, 1280, 30720), frozenset({"avx_vnni"})),
    "sapphirerapids": Cpu(_X86, 512, 32, _kib(48, 2048, 61440), _TILES),
    "graniterapids": Cpu(_X86, 512, 32, _kib(48, 2048, 61440), _TILES),
    "znver1": Cpu(_X86, 128, 16, _kib(32, 512, 8192)),
    "znver2": Cpu(_X86, 256, 16, _kib(32, 512, 16384)),
    "znver3": Cpu(_X86, 256, 16, _kib(32, 512, 32768)),
    "znver4": Cpu(_X86, 512, 32, _kib(32, 1024, 32768), _BF16),
    "znver5": Cpu(_X86, 512, 32, _kib(48, 1024, 32768), _BOTH),
    "aarch64": Cpu(_ARM, 128, 32, _kib(32, 512, 0), cpu="generic"),
    "cortex-a72": Cpu(_ARM, 128, 32, _kib(32, 1024, 0)),
    "cortex-a76": Cpu(_ARM, 128, 32, _kib(64, 512, 2048), _DOT),
    "neoverse-n1": Cpu(_ARM, 128, 32, _kib(64, 1024, 32768), _DOT),
    "neoverse-n2": Cpu(_ARM, 128, 32, _kib(64, 1024, 32768), _I8MM),
    "neoverse-v1": Cpu(_ARM, 128, 32, _kib(64, 1024, 32768), _I8MM),
    "neoverse-v2": Cpu(_ARM, 128, 32, _kib(64, 2048, 32768), _I8MM),
    "apple-m1": Cpu(_APPLE, 128, 32, _kib(128, 3072, 0), _DOT),
    "apple-m2": Cpu(_APPLE, 128, 32, _kib(128, 4096, 0), _I8MM),
    "apple-m3": Cpu(_APPLE, 128, 32, _kib(128, 4096, 0), _I8MM),
    "apple-m4": Cpu(_APPLE, 128, 32, _kib(128, 4096, 0), _I8MM),
}
