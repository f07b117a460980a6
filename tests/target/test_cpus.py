"""How many CPUs a process may keep busy, on simulated trees of ``/proc`` and ``/sys``."""

import ctypes
import os
from pathlib import Path

import pytest

from loomir.codegen.llvm.assembler.builder import Builder
from loomir.codegen.llvm.assembler.text import Module
from loomir.codegen.llvm.assembler.types import I32, PTR
from loomir.codegen.llvm.jit.engine import compile_ir, load
from loomir.codegen.llvm.support.ir.cpu_quota import define_cpu_quota
from loomir.target.cpus import cpu_quota, usable_cpus


def tree(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        file = root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return root


V1 = "4:memory:/a\n3:cpuset:/a\n2:cpu,cpuacct:/a/b\n1:name=systemd:/a/b\n"
TREES = {
    "no cgroups": ({}, None),
    "second version, of a container": (
        {"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "200000 100000\n"},
        2,
    ),
    "second version, no limit": (
        {"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "max 100000\n"},
        None,
    ),
    "second version, rounded up": (
        {"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "150000 100000\n"},
        2,
    ),
    "second version, less than one": (
        {"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "5000 100000\n"},
        1,
    ),
    "second version, the least on the way up": (
        {
            "proc/self/cgroup": "0::/user.slice/job.scope\n",
            "sys/fs/cgroup/user.slice/cpu.max": "300000 100000\n",
            "sys/fs/cgroup/user.slice/job.scope/cpu.max": "800000 100000\n",
        },
        3,
    ),
    "a path of the host within a container": (
        {"proc/self/cgroup": "0::/docker/0123\n", "sys/fs/cgroup/cpu.max": "400000 100000\n"},
        4,
    ),
    "a path outside of the namespace": (
        {"proc/self/cgroup": "0::/../other\n", "sys/fs/cgroup/cpu.max": "400000 100000\n"},
        4,
    ),
    "first version": (
        {
            "proc/self/cgroup": V1,
            "sys/fs/cgroup/cpu,cpuacct/a/b/cpu.cfs_quota_us": "250000\n",
            "sys/fs/cgroup/cpu,cpuacct/a/b/cpu.cfs_period_us": "50000\n",
        },
        5,
    ),
    "first version, linked by its controller's name": (
        {
            "proc/self/cgroup": V1,
            "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "100000\n",
            "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n",
        },
        1,
    ),
    "first version, no limit": (
        {
            "proc/self/cgroup": V1,
            "sys/fs/cgroup/cpu/a/b/cpu.cfs_quota_us": "-1\n",
            "sys/fs/cgroup/cpu/a/b/cpu.cfs_period_us": "100000\n",
        },
        None,
    ),
    "another controller's files": (
        {
            "proc/self/cgroup": "4:memory:/a\n",
            "sys/fs/cgroup/memory/a/cpu.cfs_quota_us": "100000\n",
            "sys/fs/cgroup/memory/a/cpu.cfs_period_us": "100000\n",
        },
        None,
    ),
    "both versions": (
        {
            "proc/self/cgroup": "1:cpu:/\n0::/\n",
            "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "900000\n",
            "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n",
            "sys/fs/cgroup/unified/cpu.max": "700000 100000\n",
        },
        7,
    ),
    "damaged": (
        {"proc/self/cgroup": "x\n::\n0::/\n", "sys/fs/cgroup/cpu.max": "12 -3 \x00\n"},
        None,
    ),
    "a period of nothing": (
        {"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "100000 0\n"},
        None,
    ),
}


@pytest.mark.parametrize("name", TREES)
def test_the_quota_is_the_least_that_applies(name: str, tmp_path: Path):
    files, quota = TREES[name]
    assert cpu_quota(tree(tmp_path, files)) == quota


def test_no_more_cpus_than_the_quota_pays_for(tmp_path: Path):
    def limited(quota: str) -> int:
        return usable_cpus(
            tree(tmp_path, {"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": quota})
        )

    all_of_them = len(os.sched_getaffinity(0))
    assert limited("max 100000") == all_of_them
    assert limited("100000 100000") == 1
    assert limited(f"{10**15} 1000") == all_of_them


@pytest.mark.parametrize(
    ("limit", "quota", "period", "cpus"),
    [
        ("200000 100000\n", None, None, 2),
        ("150000 100000\n", None, None, 2),
        ("1000 100000\n", None, None, 1),
        ("max 100000\n", None, None, 0),
        ("200000 0\n", None, None, 0),
        ("max 100000\n", "300000\n", "100000\n", 0),
        ("", "300000\n", "100000\n", 3),
        (None, "300000\n", "100000\n", 3),
        (None, "-1\n", "100000\n", 0),
        (None, "300000\n", None, 0),
        (None, None, None, 0),
        ("9" * 80, None, None, 0),
        (f"{2**62} 1", None, None, 2**31 - 1),
    ],
)
def test_libraries_read_what_a_container_shows(
    limit: str | None, quota: str | None, period: str | None, cpus: int, tmp_path: Path
):
    module = Module("quota")
    asked = module.define("asked", I32, [("limit", PTR), ("quota", PTR), ("period", PTR)])
    b = Builder(asked)
    b.ret(b.call(define_cpu_quota(module), list(asked.params)))
    library = load(compile_ir(module.render()), {})
    paths = [tmp_path / name for name in ("cpu.max", "quota", "period")]
    for path, text in zip(paths, (limit, quota, period), strict=True):
        if text is not None:
            path.write_text(text)
    kinds = [ctypes.c_char_p] * 3
    read = ctypes.CFUNCTYPE(ctypes.c_int32, *kinds)(library.address("asked"))
    assert read(*(str(path).encode() for path in paths)) == cpus
