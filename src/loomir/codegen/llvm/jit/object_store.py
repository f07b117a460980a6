"""Store compiled objects on disk, under a key of everything on which they depend."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

import llvmlite.binding as llvm

from loomir.codegen.llvm.jit import engine
from loomir.codegen.llvm.jit.parallel_compile import compile_all
from loomir.codegen.llvm.jit.worker import Job
from loomir.runtime.storage.digests import key_of, source_stamp
from loomir.runtime.storage.object_cache import ObjectCache

__all__ = ["compile_all_kept", "compile_kept", "load_own"]

_LLVM: Final = ".".join(map(str, llvm.llvm_version_info))
_CACHE_FORMAT: Final = "4"
"""Part of the cache's keys; increase it when equal IR may compile to other objects."""


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


def compile_all_kept(
    texts: Sequence[tuple[str, engine.Passes]],
    machine: engine.TargetMachine,
    level: int,
    *,
    cache: ObjectCache | None,
) -> list[bytes]:
    """Compile several texts, each with its passes, or find their objects in the cache."""
    keys = [_key(text, machine, level, passes) if cache else "" for text, passes in texts]
    made = [cache.get(key) if cache else None for key in keys]
    missing = [number for number, found in enumerate(made) if found is None]
    jobs = [Job(texts[number][0], machine, level, texts[number][1]) for number in missing]
    for number, data in zip(missing, compile_all(jobs), strict=True):
        made[number] = data
        if cache is not None:
            cache.put(keys[number], data)
    return [data for data in made if data is not None]


def load_own(name: str, text: Callable[[], str], symbols: Mapping[str, int]) -> engine.Library:
    """Load code of Loomir itself, which all programs of a process share; it is never unloaded.

    ``text`` makes the IR; it is called if the cache has no object of that name.
    """
    host = engine.TargetMachine.host()
    cache = ObjectCache()
    stamp = source_stamp()
    key = None
    if stamp is not None and cache.directory is not None:
        key = key_of(_CACHE_FORMAT, "own", name, stamp, _LLVM, host.triple, host.features)
    found = None if key is None else cache.get(key)
    if found is None:
        # Baseline instructions suffice, and make the object valid on every machine of the family.
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
