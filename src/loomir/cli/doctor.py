"""``loomir doctor``: versions, the machine as the compiler sees it, and the cache."""

from __future__ import annotations

import importlib.metadata
import platform
import sys
from typing import Annotated

import llvmlite.binding as llvm
import typer

import loomir
from loomir.cli.report import Report
from loomir.runtime.storage.object_cache import ObjectCache
from loomir.support.config import SETTINGS
from loomir.target import Target

__all__ = ["doctor"]

_PACKAGES = ("numpy", "ml_dtypes", "llvmlite", "apache-tvm-ffi", "rich", "typer", "torch", "onnx")


def doctor(
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    clear_cache: Annotated[
        bool, typer.Option("--clear-cache", help="Delete the compiled code kept on disk.")
    ] = False,
) -> None:
    """Show versions, the CPU that code is made for, and the cache of compiled code."""
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
    for key, value in rows.items():
        report.fact(key, value)
        report.line(f"{key:<15} {value}")
    report.finish()


def _size(count: int) -> str:
    for unit in ("B", "KiB", "MiB"):
        if count < 1024:
            return f"{count:.0f} {unit}" if count == int(count) else f"{count:.1f} {unit}"
        count /= 1024  # type: ignore[assignment]
    return f"{count:.1f} GiB"
