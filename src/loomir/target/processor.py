"""Name processors as their makers do, from what Linux says of them in ``/proc/cpuinfo``.

Clouds replace the name of the product by one like ``AMD EPYC``. Vendor, family and model say which
core it is, and the implementer and the part do on Arm.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final

__all__ = ["describe_processor"]

_AMD: Final[Mapping[int, tuple[tuple[int, int, str], ...]]] = {
    0x14: ((0x00, 0x0F, "Bobcat"),),
    0x15: (
        (0x02, 0x02, "Piledriver"),
        (0x00, 0x0F, "Bulldozer"),
        (0x10, 0x1F, "Piledriver"),
        (0x30, 0x3F, "Steamroller"),
        (0x60, 0x7F, "Excavator"),
    ),
    0x16: ((0x00, 0x0F, "Jaguar"), (0x30, 0x3F, "Puma")),
    0x17: (
        (0x08, 0x08, "Zen+"),
        (0x18, 0x18, "Zen+"),
        (0x00, 0x2F, "Zen"),
        (0x50, 0x5F, "Zen"),
        (0x30, 0x4F, "Zen 2"),
        (0x60, 0xAF, "Zen 2"),
    ),
    0x18: ((0x00, 0x0F, "Dhyana"),),  # of Hygon
    0x19: (
        (0x00, 0x0F, "Zen 3"),
        (0x10, 0x1F, "Zen 4"),
        (0x40, 0x4F, "Zen 3+"),
        (0x20, 0x5F, "Zen 3"),
        (0xA0, 0xAF, "Zen 4c"),
        (0x60, 0x9F, "Zen 4"),
    ),
    0x1A: (
        (0x00, 0x2F, "Zen 5"),
        (0x40, 0x4F, "Zen 5"),
        (0x60, 0x7F, "Zen 5"),
        (0x50, 0x5F, "Zen 6"),
        (0x80, 0xCF, "Zen 6"),
    ),
}
"""Ranges of models in each family; the first that holds a model names it."""
_INTEL: Final = {
    model: name
    for name, models in {
        "Alder Lake": (0x97, 0x9A),
        "Arrow Lake": (0xB5, 0xC5, 0xC6),
        "Broadwell": (0x3D, 0x47, 0x4F, 0x56),
        "Cannon Lake": (0x66,),
        "Clearwater Forest": (0xDD,),
        "Comet Lake": (0xA5, 0xA6),
        "Core": (0x0F, 0x16),
        "Emerald Rapids": (0xCF,),
        "Goldmont": (0x5C, 0x5F),
        "Goldmont Plus": (0x7A,),
        "Gracemont": (0xBE,),
        "Grand Ridge": (0xB6,),
        "Granite Rapids": (0xAD, 0xAE),
        "Haswell": (0x3C, 0x3F, 0x45, 0x46),
        "Ice Lake": (0x6A, 0x6C, 0x7D, 0x7E),
        "Ivy Bridge": (0x3A, 0x3E),
        "Kaby Lake": (0x8E, 0x9E),
        "Knights Landing": (0x57,),
        "Knights Mill": (0x85,),
        "Lunar Lake": (0xBD,),
        "Meteor Lake": (0xAA, 0xAC),
        "Nehalem": (0x1A, 0x1E, 0x1F, 0x2E),
        "Panther Lake": (0xCC,),
        "Penryn": (0x17, 0x1D),
        "Raptor Lake": (0xB7, 0xBA, 0xBF),
        "Rocket Lake": (0xA7,),
        "Sandy Bridge": (0x2A, 0x2D),
        "Sapphire Rapids": (0x8F,),
        "Sierra Forest": (0xAF,),
        "Silvermont": (0x37, 0x4A, 0x4D, 0x5A, 0x5D),
        "Airmont": (0x4C,),
        "Skylake": (0x4E, 0x55, 0x5E),
        "Tiger Lake": (0x8C, 0x8D),
        "Tremont": (0x86, 0x96, 0x9C),
        "Westmere": (0x25, 0x2C, 0x2F),
    }.items()
    for model in models
}
"""Names of the models of family 6."""
_SERVER_OF_SKYLAKE: Final = 0x55
_IMPLEMENTERS: Final = {
    0x41: "Arm",
    0x43: "Cavium",
    0x46: "Fujitsu",
    0x48: "HiSilicon",
    0x4E: "NVIDIA",
    0x50: "Applied Micro",
    0x51: "Qualcomm",
    0x61: "Apple",
    0x6D: "Microsoft",
    0xC0: "Ampere",
}
_PARTS: Final = {
    (0x41, 0xD03): "Cortex-A53",
    (0x41, 0xD04): "Cortex-A35",
    (0x41, 0xD05): "Cortex-A55",
    (0x41, 0xD07): "Cortex-A57",
    (0x41, 0xD08): "Cortex-A72",
    (0x41, 0xD09): "Cortex-A73",
    (0x41, 0xD0A): "Cortex-A75",
    (0x41, 0xD0B): "Cortex-A76",
    (0x41, 0xD0C): "Neoverse N1",
    (0x41, 0xD0D): "Cortex-A77",
    (0x41, 0xD40): "Neoverse V1",
    (0x41, 0xD41): "Cortex-A78",
    (0x41, 0xD44): "Cortex-X1",
    (0x41, 0xD46): "Cortex-A510",
    (0x41, 0xD47): "Cortex-A710",
    (0x41, 0xD48): "Cortex-X2",
    (0x41, 0xD49): "Neoverse N2",
    (0x41, 0xD4A): "Neoverse E1",
    (0x41, 0xD4D): "Cortex-A715",
    (0x41, 0xD4E): "Cortex-X3",
    (0x41, 0xD4F): "Neoverse V2",
    (0x41, 0xD80): "Cortex-A520",
    (0x41, 0xD81): "Cortex-A720",
    (0x41, 0xD82): "Cortex-X4",
    (0x41, 0xD84): "Neoverse V3",
    (0x41, 0xD85): "Cortex-X925",
    (0x41, 0xD87): "Cortex-A725",
    (0x41, 0xD8E): "Neoverse N3",
    (0x43, 0x0A1): "ThunderX",
    (0x43, 0x0AF): "ThunderX2",
    (0x46, 0x001): "A64FX",
    (0x48, 0xD01): "TaiShan v110",
    (0x4E, 0x004): "Carmel",
    (0x50, 0x000): "X-Gene",
    (0x51, 0x001): "Oryon",
    (0x51, 0xC00): "Falkor",
    (0x61, 0x022): "M1 (Icestorm)",
    (0x61, 0x023): "M1 (Firestorm)",
    (0x61, 0x032): "M2 (Blizzard)",
    (0x61, 0x033): "M2 (Avalanche)",
    (0x6D, 0xD49): "Cobalt 100",
    (0xC0, 0xAC3): "Ampere-1",
    (0xC0, 0xAC4): "Ampere-1A",
}
"""Cores by implementer and part number, the fields of ``MIDR_EL1``."""


_ARM: Final = ("aarch64", "arm64")


def describe_processor(cpuinfo: str, machine: str = "") -> str:
    """Name the processor; empty where the text does not say.

    ``machine`` is the architecture: an emulator shows the text of the computer on which it runs.
    """
    rows = list(_rows(cpuinfo))
    if machine in _ARM and any("vendor_id" in row for row in rows):
        return f"emulated on {describe_processor(cpuinfo)}"
    named = next((r[key] for key in _NAMES for r in rows if r.get(key)), "")
    cores = dict.fromkeys(core for core in map(_core, rows) if core)
    detail = " and ".join(cores)
    return f"{named} ({detail})" if named and detail else named or detail


_NAMES: Final = ("model name", "Model", "Hardware", "cpu model", "uarch")


def _rows(text: str) -> Iterator[dict[str, str]]:
    """Read the fields of each processor of the text; those of the board come last."""
    for block in re.split(r"\n\s*\n", text):
        pairs = (line.partition(":") for line in block.splitlines() if ":" in line)
        found = {key.strip(): value.strip() for key, _, value in pairs}
        if found:
            yield found


def _core(row: Mapping[str, str]) -> str:
    if "CPU part" in row:
        return _core_of_arm(_number(row.get("CPU implementer")), _number(row["CPU part"]))
    family, model = _number(row.get("cpu family")), _number(row.get("model"))
    if family < 0 or model < 0:
        return ""
    vendor = row.get("vendor_id", "")
    name = ""
    if vendor in ("AuthenticAMD", "HygonGenuine"):
        ranges = _AMD.get(family, ())
        name = next((n for low, high, n in ranges if low <= model <= high), "")
    elif vendor == "GenuineIntel" and family == 6:
        name = _INTEL.get(model, "")
        if model == _SERVER_OF_SKYLAKE:
            name = _server_of_skylake(_number(row.get("stepping")))
    known = f"family {family} model {model}"
    return f"{name}, {known}" if name else known


def _server_of_skylake(stepping: int) -> str:
    """Distinguish what Intel made under one number of a model."""
    if stepping in (10, 11):
        return "Cooper Lake"
    return "Cascade Lake" if 5 <= stepping <= 7 else "Skylake"


def _core_of_arm(implementer: int, part: int) -> str:
    maker = _IMPLEMENTERS.get(implementer, f"implementer {implementer:#x}")
    name = _PARTS.get((implementer, part))
    return f"{name}, {maker}" if name else f"{maker}, part {part:#x}"


def _number(text: str | None) -> int:
    try:
        return int(text or "", 0)
    except ValueError:
        return -1
