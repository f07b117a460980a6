"""Store compiled objects on disk, under a key of everything on which they depend."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import llvmlite.binding as llvm

from loomir.codegen.llvm.jit import engine
from loomir.runtime.storage.digests import key_of, source_stamp
from loomir.runtime.storage.object_cache import ObjectCache

__all__ = ["compile_kept", "load_own"]

_LLVM: Final = ".".join(map(str, llvm.llvm_version_info))
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


def load_own(name: str, text: Callable[[], str], symbols: Mapping[str, int]) -> engine.Library:
    """Load code of Loomir's own, the same for all programs of a process; it stays to the end.

    ``text`` makes the IR of a name, where nobody has compiled it before.
    """
    host = engine.TargetMachine.host()
    cache = ObjectCache()
    stamp = source_stamp()
    key = None
    if stamp is not None and cache.directory is not None:
        key = key_of(_CACHE_FORMAT, "own", name, stamp, _LLVM, host.triple, host.features)
    found = None if key is None else cache.get(key)
    if found is None:
        # Baseline instructions will do, and the object is the same on every machine of the family.
        plain = engine.TargetMachine.of("", triple=host.triple)
        found = compile_kept(text(), plain, 2, passes=engine.Passes.USUAL, cache=cache)
        if key is not None:
            cache.put(key, found)
    return engine.load(found, symbols)


def _key(text: str, machine: engine.TargetMachine, level: int, passes: engine.Passes) -> str:
    return key_of(
        _CACHE_FORMAT,
        _LLVM,
        machine.triple,
        machine.cpu,
        machine.features,
        str(level),
        passes.value,
        text,
    )
