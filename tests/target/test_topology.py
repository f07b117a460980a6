"""How CPUs are arranged, on simulated trees of ``/sys``."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from loomir.target.topology import describe_topology, read_topology
from tests.target.test_cpus import tree

CPU = "sys/devices/system/cpu"
NODE = "sys/devices/system/node"


def cpus(online: str, present: str, siblings: dict[int, str], name: str = "core_cpus_list"):
    files = {f"{CPU}/online": f"{online}\n", f"{CPU}/present": f"{present}\n"}
    return files | {f"{CPU}/cpu{i}/topology/{name}": f"{s}\n" for i, s in siblings.items()}


SERVER = cpus("0-7", "0-7", {i: f"{i % 4},{i % 4 + 4}" for i in range(8)}) | {
    f"{NODE}/node0/cpulist": "0-1,4-5\n",
    f"{NODE}/node1/cpulist": "2-3,6-7\n",
    f"{NODE}/node2/cpulist": "\n",  # has memory, and no CPUs
    f"{NODE}/has_cpu": "0-1\n",
}
LAPTOP = cpus("0-11", "0-11", {i: f"{i & ~1}-{i | 1}" if i < 4 else f"{i}" for i in range(12)}) | {
    "sys/devices/cpu_core/cpus": "0-3\n",
    "sys/devices/cpu_atom/cpus": "4-11\n",
}
PHONE = cpus("0-7", "0-7", {i: f"{i}" for i in range(8)}) | {
    f"{CPU}/cpu{i}/cpu_capacity": f"{1024 if i == 7 else 800 if i > 3 else 250}\n" for i in range(8)
}
OFFLINE = cpus("0,2-3", "0-3", {0: "0", 2: "2-3", 3: "2-3"}, "thread_siblings_list")

TREES = {
    "two NUMA nodes": (SERVER, "8 CPUs on 4 cores, 2 NUMA nodes"),
    "Intel's hybrid cores": (
        LAPTOP,
        "12 CPUs on 10 cores, 1 NUMA node, 4 and 8 of different speed",
    ),
    "ARM's hybrid cores": (
        PHONE,
        "8 CPUs on 8 cores, 1 NUMA node, 1 and 3 and 4 of different speed",
    ),
    "a CPU that is offline": (OFFLINE, "3 CPUs on 2 cores, 1 NUMA node, 1 offline"),
    "a container without details": ({f"{CPU}/online": "0-3"}, "4 CPUs on 4 cores, 1 NUMA node"),
    "one CPU": ({f"{CPU}/online": "0"}, "1 CPU on 1 core, 1 NUMA node"),
    "a quota": (
        {f"{CPU}/online": "0-3", "proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "9 9\n"},
        "4 CPUs on 4 cores, 1 NUMA node, a quota of 1 CPU",
    ),
    "256 CPUs": (
        cpus("0-255", "0-255", {i: f"{i % 128},{i % 128 + 128}" for i in range(256)})
        | {f"{NODE}/node{n}/cpulist": f"{n * 16}-{n * 16 + 15}" for n in range(16)},
        "256 CPUs on 128 cores, 16 NUMA nodes",
    ),
}


@pytest.mark.parametrize("name", TREES)
def test_arrangements_are_described(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files, expected = TREES[name]
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(256)), raising=False)
    root = tree(tmp_path, files)
    topology = read_topology(root)
    assert topology is not None
    assert describe_topology(topology, root) == expected


def test_what_a_process_may_use_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {1, 2}, raising=False)
    topology = read_topology(tree(tmp_path, SERVER))
    assert topology is not None
    assert describe_topology(topology, tmp_path).endswith("2 NUMA nodes, this process may use 2")


@pytest.mark.parametrize("online", ["", "zero", "3-", "1-999999999999", "-1", "0-1;"])
def test_what_is_no_list_of_cpus_tells_nothing(online: str, tmp_path: Path) -> None:
    assert read_topology(tree(tmp_path, {f"{CPU}/online": online})) is None


def test_nothing_is_told_where_the_system_has_no_such_files(tmp_path: Path) -> None:
    assert read_topology(tmp_path) is None
