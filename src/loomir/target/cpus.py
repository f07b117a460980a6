"""Count the CPUs that this process may use: those of its affinity mask, within its cgroup quota.

A container with a quota (``docker run --cpus=2``, a limit of Kubernetes) sees all CPUs of its host
and may run on each of them. With a thread for each CPU, the quota would be used up quickly, and the
kernel would stop all threads until the next period: for some hundredths of a second, in the middle
of a parallel loop. So there are only as many threads as CPUs that the quota pays for, rounded up.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Final

__all__ = ["cpu_quota", "usable_cpus"]

_GROUPS: Final = "proc/self/cgroup"
_MOUNTS: Final = "sys/fs/cgroup"
_UNIFIED: Final = (".", "unified")
"""Where the second version of cgroups is: by itself, or beside the first."""
_CONTROLLER: Final = "cpu"


def usable_cpus(root: Path = Path("/")) -> int:
    """Return how many CPUs this process may keep busy, 1 or more."""
    if hasattr(os, "sched_getaffinity"):
        cpus = len(os.sched_getaffinity(0))
    else:
        cpus = os.cpu_count() or 1
    quota = cpu_quota(root)
    return cpus if quota is None else min(cpus, quota)


def cpu_quota(root: Path = Path("/")) -> int | None:
    """Return how many CPUs the quota of this process pays for, rounded up; None without one.

    The least quota counts of the process's cgroup and those that contain it, in both versions of
    cgroups. ``root`` is where ``proc`` and ``sys`` are.
    """
    quotas = [_round_up(*limit) for limit in _limits(root)]
    return min(quotas, default=None)


def _round_up(quota: int, period: int) -> int:
    return max(1, -(-quota // period))


def _limits(root: Path) -> Iterator[tuple[int, int]]:
    """Yield quotas and periods, in microseconds."""
    for controllers, group in _groups(root):
        if not controllers:
            for mount in _UNIFIED:
                for folder in _folders(root / _MOUNTS / mount, group):
                    yield from _limit(_words(folder / "cpu.max"))
        elif _CONTROLLER in controllers.split(","):
            for mount in dict.fromkeys((controllers, _CONTROLLER)):
                for folder in _folders(root / _MOUNTS / mount, group):
                    quota = _words(folder / "cpu.cfs_quota_us")
                    yield from _limit(quota + _words(folder / "cpu.cfs_period_us"))


def _groups(root: Path) -> Iterator[tuple[str, str]]:
    """Yield the controllers, none for the second version, and the path of each cgroup."""
    try:
        text = (root / _GROUPS).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return
    for line in text.splitlines():
        _, _, rest = line.partition(":")
        controllers, colon, group = rest.partition(":")
        if colon:
            yield controllers, group


def _folders(mount: Path, group: str) -> Iterator[Path]:
    """Yield the folders of a cgroup and of those that contain it.

    Within a container, ``group`` may be a path of the host, and the mount the container's own.
    """
    path = PurePosixPath(group.lstrip("/"))
    if ".." in path.parts:  # outside of what this namespace shows
        path = PurePosixPath()
    for part in (path, *path.parents):
        yield mount / part


def _words(file: Path) -> list[str]:
    try:
        return file.read_text(encoding="ascii", errors="replace").split()
    except OSError:
        return []


def _limit(words: list[str]) -> Iterator[tuple[int, int]]:
    """Yield a quota and its period, unless there is none: ``max``, -1, or no file."""
    if len(words) == 2 and all(word.isdigit() for word in words):
        quota, period = map(int, words)
        if quota and period:
            yield quota, period
