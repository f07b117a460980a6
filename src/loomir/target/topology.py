"""Read how the CPUs of a Linux machine are arranged: cores, NUMA nodes, kinds, and what is offline.

Nothing of it decides how code is compiled or run: ``loomir doctor`` shows it, so that a user sees
why threads do not scale.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from loomir.target.cpus import cpu_quota

__all__ = ["Topology", "describe_topology", "read_topology"]

_CPUS: Final = "sys/devices/system/cpu"
_NODES: Final = "sys/devices/system/node"
_INTEL_KINDS: Final = ("sys/devices/cpu_core/cpus", "sys/devices/cpu_atom/cpus")
"""The CPUs of Intel's performance and efficiency cores."""
_SIBLINGS: Final = ("core_cpus_list", "thread_siblings_list")
"""The CPUs of a core, by its name since Linux 5.3 and before."""
_MOST: Final = 1 << 16
"""The greatest number of a CPU that is believed; Linux allows 8192."""


class Topology(NamedTuple):
    """How the CPUs of a machine are arranged."""

    online: frozenset[int]
    offline: frozenset[int]
    cores: int
    """Physical cores of the CPUs that are online."""
    nodes: tuple[frozenset[int], ...]
    """The CPUs of each NUMA node that has any."""
    kinds: tuple[frozenset[int], ...]
    """The CPUs of each kind of core, the fastest first; one kind unless cores are hybrid."""


def read_topology(root: Path = Path("/")) -> Topology | None:
    """Read the arrangement of CPUs below ``root``; None if the system does not tell."""
    online = _read_list(root / _CPUS / "online")
    if not online:
        return None
    offline = _read_list(root / _CPUS / "present") - online
    cores = {_siblings(root, cpu) for cpu in online}
    nodes = [_read_list(file) & online for file in _list_by_number(root / _NODES, "node*/cpulist")]
    return Topology(
        online,
        offline,
        len(cores),
        tuple(node for node in nodes if node) or (online,),
        tuple(_kinds(root, online)),
    )


def describe_topology(topology: Topology, root: Path = Path("/")) -> str:
    """Return one line about a machine's CPUs, and what this process may use of them."""
    nodes = len(topology.nodes)
    said = [
        f"{_count(len(topology.online), 'CPU')} on {_count(topology.cores, 'core')}",
        _count(nodes, "NUMA node"),
    ]
    if len(topology.kinds) > 1:
        said.append(" and ".join(str(len(kind)) for kind in topology.kinds) + " of different speed")
    if topology.offline:
        said.append(f"{len(topology.offline)} offline")
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 0
    if 0 < allowed < len(topology.online):
        said.append(f"this process may use {allowed}")
    quota = cpu_quota(root)
    if quota is not None:
        said.append(f"a quota of {_count(quota, 'CPU')}")
    return ", ".join(said)


def _count(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what}s"


def _siblings(root: Path, cpu: int) -> frozenset[int]:
    """Return the CPUs that share a core with a CPU, that one among them."""
    folder = root / _CPUS / f"cpu{cpu}" / "topology"
    for name in _SIBLINGS:
        found = _read_list(folder / name)
        if found:
            return found
    return frozenset({cpu})


def _kinds(root: Path, online: frozenset[int]) -> Iterator[frozenset[int]]:
    """Yield the CPUs of each kind: by Intel's two lists, or by the capacities of ARM's cores."""
    listed = [_read_list(root / file) & online for file in _INTEL_KINDS]
    if all(listed):
        yield from listed
        return
    speeds: dict[int, set[int]] = {}
    for cpu in online:
        text = _read(root / _CPUS / f"cpu{cpu}" / "cpu_capacity")
        speeds.setdefault(int(text) if text.isdecimal() else 0, set()).add(cpu)
    for _, cpus in sorted(speeds.items(), reverse=True):
        yield frozenset(cpus)


def _list_by_number(folder: Path, pattern: str) -> list[Path]:
    """List files by the number in the name of their folder."""
    found = [f for f in folder.glob(pattern) if re.fullmatch(r"\D+\d+", f.parent.name)]
    return sorted(found, key=lambda file: int(re.sub(r"\D", "", file.parent.name)))


def _read_list(file: Path) -> frozenset[int]:
    """Read a list of CPUs such as ``0-3,8``; no CPU of what is not such a list."""
    cpus: set[int] = set()
    for part in filter(None, _read(file).split(",")):
        hit = re.fullmatch(r"(\d+)(?:-(\d+))?", part)
        if hit is None or int(hit[2] or hit[1]) > _MOST:
            return frozenset()
        cpus.update(range(int(hit[1]), int(hit[2] or hit[1]) + 1))
    return frozenset(cpus)


def _read(file: Path) -> str:
    try:
        return file.read_text(encoding="ascii", errors="replace").strip()
    except OSError:
        return ""
