"""``loomir doctor``: show versions, the machine as the compiler sees it, and the cache."""

from __future__ import annotations

import importlib
import importlib.metadata
import platform
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import llvmlite.binding as llvm
import typer

import loomir
from loomir.cli.report import Report
from loomir.cli.work.self_tests import SELF_TESTS, TestOutcome
from loomir.profiling.roof import renew_roof
from loomir.runtime.storage.object_cache import ObjectCache
from loomir.runtime.storage.program_cache import ProgramCache
from loomir.support.config import SETTINGS
from loomir.support.diagnostics import LoomirError
from loomir.target import Target
from loomir.target.processor import describe_processor
from loomir.target.topology import describe_topology, read_topology

__all__ = ["doctor"]

_PACKAGES = (
    "numpy",
    "ml_dtypes",
    "llvmlite",
    "apache-tvm-ffi",
    "rich",
    "ruff",
    "typer",
    "torch",
    "onnx",
)


def doctor(
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    clear_cache: Annotated[
        bool, typer.Option("--clear-cache", help="Delete the compiled code kept on disk.")
    ] = False,
    measure: Annotated[
        bool, typer.Option("--measure", help="Measure the machine's peak speed again.")
    ] = False,
) -> None:
    """Show versions, the CPU, and the cache, and test that they work.

    It compiles and runs kernels on one thread and on all, writes and reads a cache entry, and
    multiplies matrices of small dtypes, with AMX if the CPU has it. The status is 1 if a test
    fails.
    """
    report = Report(json)
    version = sys.version_info
    rows: dict[str, str] = {
        "loomir": loomir.__version__,
        "python": f"{version.major}.{version.minor}.{version.micro}",
        "system": f"{platform.system()} {platform.machine()}",
        "llvm": ".".join(str(part) for part in llvm.llvm_version_info),
    }
    for package in _PACKAGES:
        try:
            rows[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            rows[package] = "not installed"
    target = Target("native")
    rows["processor"] = _model() or platform.processor() or "unknown"
    rows["cpu"] = target.cpu
    rows["vectors"] = f"{target.vector_bits} bits"
    rows["cores"] = str(target.cores)
    topology = read_topology()
    if topology is not None:
        rows["topology"] = describe_topology(topology)
    rows["caches"] = ", ".join(f"L{i + 1} {_size(n)}" for i, n in enumerate(target.caches) if n)
    if SETTINGS.cache_dir is None:
        rows["cache"] = "off"
    else:
        cache = ObjectCache(SETTINGS.cache_dir)
        if clear_cache:
            rows["cleared"] = f"{cache.clear() + ProgramCache().clear()} entries"
        entries, size = map(sum, zip(cache.size(), ProgramCache().size(), strict=True))
        rows["cache"] = f"{SETTINGS.cache_dir} ({entries} entries, {_size(size)})"
    is_well = True
    for name, test in SELF_TESTS.items():
        rows[name], works = _test(test)
        is_well &= works
    if measure:
        roof = renew_roof(loomir.compile)
        rows["roof"] = f"{roof.flops / 1e9:.1f} GFLOP/s, {roof.bandwidth / 1e9:.1f} GB/s"
    for key, value in rows.items():
        report.fact(key, value)
        report.line(f"{key:<15} {value}")
    report.finish()
    if not is_well:
        raise typer.Exit(1)


def _model() -> str:
    """Return the CPU's model name and its core; empty if the system does not tell."""
    try:
        if sys.platform == "darwin":
            command = ["/usr/sbin/sysctl", "-n", "machdep.cpu.brand_string"]
            return subprocess.run(
                command, capture_output=True, text=True, check=True
            ).stdout.strip()
        if sys.platform == "win32":
            return _model_of_windows()
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except (OSError, subprocess.SubprocessError):
        return ""
    return describe_processor(text, platform.machine())


def _model_of_windows() -> str:
    registry: Any = importlib.import_module("winreg")
    place = r"HARDWARE\DESCRIPTION\System\CentralProcessor\0"
    with registry.OpenKey(registry.HKEY_LOCAL_MACHINE, place) as key:
        return str(registry.QueryValueEx(key, "ProcessorNameString")[0]).strip()


def _test(test: Callable[[], TestOutcome]) -> TestOutcome:
    try:
        return test()
    except (LoomirError, OSError) as error:
        return TestOutcome(f"no: {error}", False)


def _size(count: int) -> str:
    for unit in ("B", "KiB", "MiB"):
        if count < 1024:
            return f"{count:.0f} {unit}" if count == int(count) else f"{count:.1f} {unit}"
        count /= 1024  # type: ignore[assignment]
    return f"{count:.1f} GiB"
