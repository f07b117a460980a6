"""Check that compiled code fits the process that loads it: the machine and the ABI."""

from __future__ import annotations

import hashlib
from typing import Any, Final

from loomir.codegen.llvm.jit.engine import TargetMachine
from loomir.codegen.llvm.support.ir.objects import OBJECT_FUNCTIONS
from loomir.runtime import layout
from loomir.runtime.graph import object_layout
from loomir.runtime.storage.container import refuse
from loomir.target.table import CPUS, EXTENSIONS
from loomir.target.triples import architecture_of, family

__all__ = ["abi_stamp", "check_machine"]

_CONVENTION: Final = 2
"""Increase it when a calling convention changes in a way that no offset or number shows."""


def abi_stamp() -> str:
    """Return a hash of the offsets, kinds and functions that compiled code relies on."""
    said = [f"convention {_CONVENTION}"]
    for module in (layout, object_layout):
        numbers = sorted(vars(module).items())
        said += [f"{n}={v}" for n, v in numbers if n.isupper() and type(v) in (int, str)]
    said += [f"{n}: {t.text}" for n, t in sorted(OBJECT_FUNCTIONS.items())]
    return hashlib.sha256("\n".join(said).encode()).hexdigest()[:16]


_V2: Final = frozenset({"cx16", "popcnt", "sahf", "sse3", "ssse3", "sse4.1", "sse4.2"})
_V3: Final = _V2 | {"avx", "avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe"}
_V4: Final = _V3 | {"avx512bw", "avx512cd", "avx512dq", "avx512f", "avx512vl"}
_ARM8_2: Final = frozenset({"crc", "dotprod", "fullfp16", "lse", "rcpc", "rdm"})
_ARM8_4: Final = _ARM8_2 | {"bf16", "complxnum", "fp16fml", "i8mm", "jsconv", "sve"}
_ARM9: Final = _ARM8_4 | {"sve2"}
_LEVELS: Final = {
    "": frozenset[str](),
    "generic": frozenset[str](),
    "x86-64": frozenset[str](),
    "x86-64-v2": _V2,
    "x86-64-v3": _V3,
    "x86-64-v4": _V4,
    "cortex-a72": frozenset({"crc"}),
    "cortex-a76": _ARM8_2,
    "neoverse-n1": _ARM8_2,
    "neoverse-v1": _ARM8_4,
    "neoverse-n2": _ARM9,
    "neoverse-v2": _ARM9,
}
"""What code for CPUs may use, by LLVM's name of the CPU."""


def _features_in_question(cpu: str) -> frozenset[str]:
    """Return features that code for this CPU uses, but a process may be refused."""
    row = CPUS.get(cpu)
    return frozenset() if row is None else frozenset(EXTENSIONS[name] for name in row.extensions)


def check_machine(target: Any, name: str) -> None:
    """Refuse code that this machine may not be able to run. Errors: RUN0464."""
    triple, cpu, features = (str(target[key]) for key in ("triple", "cpu", "features"))
    host = TargetMachine.host()
    both = "aarch64" if architecture_of(host.triple) == "aarch64" else "x86-64-v2"
    remedy = (
        "compile the program on this machine, or for a target that both machines are, such as "
        f'loomir.compile(program, target="{both}")'
    )
    if family(triple) != family(host.triple):
        refuse(
            "RUN0464",
            f"{name} holds code for {triple}, and this machine is {host.triple}",
            "compile the program on this machine, or for one of its kind, such as "
            f'loomir.compile(program, target="{both}")',
        )
    if cpu == host.cpu and features == host.features:
        return
    has = {word[1:] for word in host.features.split(",") if word.startswith("+")}
    wanted = {word[1:] for word in features.split(",") if word.startswith("+")}
    if not features:
        known = _features_in_question(cpu) if cpu == host.cpu else _LEVELS.get(cpu)
        if known is None:
            refuse(
                "RUN0464", f"{name} holds code for {cpu}, and this machine is {host.cpu}", remedy
            )
        wanted = set(known)
    lacking = sorted(wanted - has)
    if lacking:
        refuse(
            "RUN0464",
            f"{name} holds code for {cpu}, which uses what this machine ({host.cpu}) lacks: "
            + ", ".join(lacking[:8])
            + (", …" if len(lacking) > 8 else ""),
            remedy,
        )
