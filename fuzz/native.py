"""Compile with less work by LLVM, and control threads and object code of a run.

Most of the compile time of a small program is LLVM's instruction selection. FastISel is six times
as fast, and reads the same IR, which suits a campaign.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any

import llvmlite.binding as llvm

from loomir.codegen.llvm.jit import engine
from loomir.codegen.llvm.jit.forbidden_patterns import avoid_forbidden_patterns
from loomir.codegen.llvm.module import Options, generate
from loomir.codegen.llvm.native_module import NativeModule
from loomir.codegen.llvm.support.pool import pool_symbols
from loomir.ir.module import IRModule
from loomir.target import Target
from loomir.tir import PrimFunc
from loomir.tir.signature import signature_of
from loomir.transform.pipelines import lower

__all__ = ["object_digest", "quick_codegen", "set_threads", "with_quick_codegen"]

_compile_ir = engine.compile_ir


@functools.lru_cache(maxsize=4)
def _machine(target: engine.TargetMachine) -> Any:
    return llvm.Target.from_triple(target.triple).create_target_machine(
        cpu=target.cpu, features=target.features, opt=0, reloc="pic", codemodel="default"
    )


def _compile_quickly(
    text: str,
    target: engine.TargetMachine | None = None,
    level: int = 2,
    *,
    passes: engine.Passes = engine.Passes.USUAL,
) -> bytes:
    """Compile IR text to an object file as ``engine.compile_ir`` does, without optimising."""
    if level:
        return _compile_ir(text, target, level, passes=passes)
    target = target or engine.TargetMachine.host()
    context = llvm.create_context()
    try:
        module = llvm.parse_assembly(text, context)
        try:
            module.verify()
            safe = avoid_forbidden_patterns(str(module)) if target.is_x86 else None
            if safe is not None:
                module.close()
                module = llvm.parse_assembly(safe, context)
            data: bytes = _machine(target).emit_object(module)
            return data
        finally:
            module.close()
    finally:
        context.close()


def _compile_all_quickly(
    text: str,
    target: engine.TargetMachine | None = None,
    level: int = 2,
    *,
    passes: engine.Passes = engine.Passes.USUAL,
) -> bytes:
    return _compile_quickly(text, target, 0, passes=passes)


@contextmanager
def quick_codegen(any_level: bool = False) -> Generator[None, None, None]:
    """Let what is compiled within, at level 0, be compiled quickly; much is at its first call.

    With ``any_level`` all of it is, as a default schedule leaves it.
    """
    engine.compile_ir = _compile_all_quickly if any_level else _compile_quickly
    try:
        yield
    finally:
        engine.compile_ir = _compile_ir


def with_quick_codegen(prepare: Callable[[IRModule], dict[str, Any]]) -> Any:
    """Let an engine compile quickly; it compiles when it first runs."""

    def quickly(module: IRModule) -> dict[str, Any]:
        with quick_codegen():
            made = prepare(module)

        def wrapped(runner: Any) -> Any:
            def run(entry: str, args: list[Any]) -> Any:
                with quick_codegen():
                    return runner(entry, args)

            return run

        return {name: wrapped(runner) for name, runner in made.items()}

    return quickly


@functools.lru_cache(maxsize=1)
def _set_threads() -> Any:
    return ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_int32)(pool_symbols()["loomir_set_threads"])


def set_threads(count: int) -> None:
    """Cap the threads of parallel loops; 0 takes the cap away."""
    _set_threads()(count)


def object_digest(module: IRModule, level: int = 2) -> str:
    """Return a digest of the object file that a program becomes."""
    signatures = {
        var.name_hint: signature_of(func, module)
        for var, func in module.functions.items()
        if isinstance(func, PrimFunc)
    }
    target = Target("native")
    generated = generate(lower(module), target, Options(), signatures=signatures)
    return hashlib.sha256(NativeModule(generated, target, level=level).object()).hexdigest()
