"""Store compiled objects on disk, under a key of everything on which they depend."""

from __future__ import annotations

import hashlib
from typing import Final

import llvmlite.binding as llvm

from loomir.codegen.llvm.jit import engine
from loomir.runtime.storage.object_cache import ObjectCache

__all__ = ["compile_kept", "load_own"]

_CACHE_FORMAT: Final = "2"
"""Part of the cache's keys: changes when equal IR may give other objects."""


def compile_kept(
    text: str,
    machine: engine.TargetMachine,
    level: int,
    *,
    passes: engine.Passes,
    cache: ObjectCache | None,
) -> bytes:
    """Compile IR, or find the object in the cache."""
    if cache is None:
        return engine.compile_ir(text, machine, level, passes=passes)
    key = _key(text, machine, level, passes)
    found = cache.get(key)
    if found is None:
        found = engine.compile_ir(text, machine, level, passes=passes)
        cache.put(key, found)
    return found


def load_own(text: str, symbols: dict[str, int]) -> engine.Library:
    """Load code of Loomir's own, the same for all programs of a process; it stays to the end.

    Baseline instructions will do, and the object is the same on every machine of the family.
    """
    plain = engine.TargetMachine.of("", triple=engine.TargetMachine.host().triple)
    data = compile_kept(text, plain, 2, passes=engine.Passes.USUAL, cache=ObjectCache())
    return engine.load(data, symbols)


def _key(text: str, machine: engine.TargetMachine, level: int, passes: engine.Passes) -> str:
    parts = (
        _CACHE_FORMAT,
        ".".join(map(str, llvm.llvm_version_info)),
        machine.triple,
        machine.cpu,
        machine.features,
        str(level),
        passes.value,
        text,
    )
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode("utf-8", "surrogatepass")
        digest.update(len(data).to_bytes(8, "little") + data)
    return digest.hexdigest()
