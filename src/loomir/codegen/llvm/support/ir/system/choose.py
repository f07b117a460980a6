"""Choose the functions of a system by the triple of a machine."""

from __future__ import annotations

from loomir.codegen.llvm.assembler.text import Module
from loomir.codegen.llvm.support.ir.system.interface import System
from loomir.codegen.llvm.support.ir.system.linux import FUTEX_NUMBERS, LinuxSystem
from loomir.codegen.llvm.support.ir.system.posix import NUMBERS, PosixSystem
from loomir.codegen.llvm.support.ir.system.windows import WindowsSystem
from loomir.support.diagnostics import InternalError
from loomir.target.triples import architecture_of, is_supported, system_name

__all__ = ["system_for"]


def system_for(module: Module, triple: str, *, portable: bool = False) -> System:
    """Return the functions of a machine's system; ``portable``: those of POSIX only, on a Unix.

    Errors: InternalError for a system or machine that is unknown.
    """
    arch, name = architecture_of(triple), system_name(triple)
    if name is None or not is_supported(triple):
        raise InternalError(f"no thread pool is written for {triple}")
    if name == "windows":
        return WindowsSystem(module)
    if name == "linux" and not portable and arch in FUTEX_NUMBERS:
        return LinuxSystem(module, arch)
    return PosixSystem(module, NUMBERS[name])
