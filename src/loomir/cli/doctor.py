"""``loomir doctor``: versions, the machine as the compiler sees it, and the cache."""

from __future__ import annotations

import importlib.metadata
import platform
import sys
import time
from pathlib import Path
from typing import Annotated, Final

import llvmlite.binding as llvm
import numpy as np
import typer

import loomir
from loomir.cli.report import Report
from loomir.runtime.storage.object_cache import ObjectCache
from loomir.script import from_source
from loomir.support.config import SETTINGS
from loomir.support.diagnostics import LoomirError, with_count
from loomir.target import Target

__all__ = ["doctor"]

_PACKAGES = ("numpy", "ml_dtypes", "llvmlite", "apache-tvm-ffi", "rich", "typer", "torch", "onnx")


def doctor(
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    clear_cache: Annotated[
        bool, typer.Option("--clear-cache", help="Delete the compiled code kept on disk.")
    ] = False,
) -> None:
    """Show versions, the CPU, and the cache, and try to compile and run a kernel.

    Leaves with status 1 where that fails.
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
    rows["caches"] = ", ".join(f"L{i + 1} {_size(n)}" for i, n in enumerate(target.caches) if n)
    if SETTINGS.cache_dir is None:
        rows["cache"] = "off"
    else:
        cache = ObjectCache(SETTINGS.cache_dir)
        if clear_cache:
            rows["cleared"] = f"{cache.clear()} entries"
        size = cache.size()
        rows["cache"] = f"{SETTINGS.cache_dir} ({size.entries} entries, {_size(size.bytes)})"
    rows["compiles"], is_well = _try_to_compile(target)
    for key, value in rows.items():
        report.fact(key, value)
        report.line(f"{key:<15} {value}")
    report.finish()
    if not is_well:
        raise typer.Exit(1)


def _model() -> str:
    """Return what the maker calls the CPU; empty where the system does not say."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    names = (line.partition(":")[2].strip() for line in text.splitlines() if "model name" in line)
    return next(names, "")


_PROGRAM: Final = """
@T.prim_func
def double(x: T.Buffer((4096,), "float32"), y: T.Buffer((4096,), "float32")):
    for i in T.parallel(4096):
        y[i] = x[i] + x[i]
"""


def _try_to_compile(target: Target) -> tuple[str, bool]:
    """Compile a loop on threads, run it, and return what came out and whether it is right."""
    x = np.arange(4096, dtype="float32")
    y = np.zeros_like(x)
    start = time.perf_counter()
    try:
        loomir.compile(from_source(_PROGRAM), cache=False, schedule=False)(x, y)
    except (LoomirError, OSError) as error:
        return f"no: {error}", False
    spent = (time.perf_counter() - start) * 1000
    if not np.array_equal(y, x + x):
        return "yes, and the results are wrong", False
    return f"yes, in {spent:.0f} ms, and runs on {with_count(target.cores, 'core')}", True


def _size(count: int) -> str:
    for unit in ("B", "KiB", "MiB"):
        if count < 1024:
            return f"{count:.0f} {unit}" if count == int(count) else f"{count:.1f} {unit}"
        count /= 1024  # type: ignore[assignment]
    return f"{count:.1f} GiB"
