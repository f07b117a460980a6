"""Load Bochs' CPU from the package ``bochscpu-python``, as a CPU of the desired model.

A small C library, compiled here and loaded before the package's own symbols, fixes two problems:

- The package is built for a newer C library, whose ``sscanf`` and ``strtoull`` have new names.
- It always creates a CPU of 2017, without VNNI, although it contains later ones.
"""

from __future__ import annotations

import ctypes
import importlib
import importlib.util
import os
import shutil
import struct
import subprocess
import tempfile
from pathlib import Path
from typing import Any, Final

__all__ = ["MODELS", "EmulatorError", "NotInstalledError", "found", "load", "model_of"]


class EmulatorError(Exception):
    """What the emulated CPU could not go on with."""


class NotInstalledError(EmulatorError):
    """There is no emulator here; the text says what to install."""


_SKYLAKE: Final = "corei7_skylake_x"
_ICELAKE: Final = "corei7_icelake_u"
_SAPPHIRE: Final = "sapphire_rapids"
_AMD: Final = "sapphire_rapids sse4a"

MODELS: Final = {
    "x86-64": _SKYLAKE,
    "x86-64-v2": _SKYLAKE,
    "x86-64-v3": _SKYLAKE,
    "x86-64-v4": _SKYLAKE,
    "nehalem": _SKYLAKE,
    "sandybridge": _SKYLAKE,
    "ivybridge": _SKYLAKE,
    "haswell": _SKYLAKE,
    "broadwell": _SKYLAKE,
    "skylake": _SKYLAKE,
    "skylake-avx512": _SKYLAKE,
    "cascadelake": _ICELAKE,
    "icelake-client": _ICELAKE,
    "icelake-server": _ICELAKE,
    "tigerlake": "tigerlake",
    "alderlake": "arrow_lake",
    "sapphirerapids": _SAPPHIRE,
    "graniterapids": _SAPPHIRE,
    "znver1": _SKYLAKE,
    "znver2": _SKYLAKE,
    "znver3": "arrow_lake",
    "znver4": _AMD,
    "znver5": _AMD,
}
"""For each target the smallest of Bochs' CPUs that has its instructions: others end the run.

A second word is what it has besides.
"""

_MISSING: Final = (
    "the emulator is not installed: pip install 'loomir[emulator]' (Linux on x86-64), and a C "
    "compiler such as gcc"
)

_ROW: Final = struct.Struct("<QQ4s4s")
_ROWS: Final = 3598
_WORD, _BYTE = 0x23, 0x13

_SHIM: Final = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

char loomir_model[128];
char loomir_features[128];

int __isoc23_sscanf(const char *text, const char *format, ...) {
  va_list rest;
  va_start(rest, format);
  int found = vsscanf(text, format, rest);
  va_end(rest);
  return found;
}

unsigned long long __isoc23_strtoull(const char *text, char **end, int base) {
  return strtoull(text, end, base);
}

void *_Z23create_corei3_cnl_cpuidP8BX_CPU_C(void *cpu) {
  Dl_info here;
  dladdr(__builtin_return_address(0), &here);
  void *(*make)(void *) = dlsym(dlopen(here.dli_fname, RTLD_NOLOAD | RTLD_LAZY), loomir_model);
  return make ? make(cpu) : NULL;
}

/* A model gets more features, then fewer. */
void _ZN8BX_CPU_C25add_remove_cpuid_featuresEPKcb(void *cpu, const char *features, int more) {
  Dl_info here;
  dladdr(__builtin_return_address(0), &here);
  void (*change)(void *, const char *, int) =
      dlsym(dlopen(here.dli_fname, RTLD_NOLOAD | RTLD_LAZY),
            "_ZN8BX_CPU_C25add_remove_cpuid_featuresEPKcb");
  if (change) change(cpu, more ? loomir_features : features, more);
}

void *loomir_stack(void) { return __builtin_frame_address(0); }
"""


def model_of(target: str) -> str:
    """Return model that code for a target runs on. Errors: EmulatorError where there is none."""
    if target not in MODELS:
        raise EmulatorError(f"Bochs has no CPU for {target}: it emulates x86-64")
    return MODELS[target]


def found() -> str:
    """Return the C compiler. Errors: NotInstalledError where it or the emulator is missing."""
    compiler = next(filter(None, map(shutil.which, ("cc", "gcc", "clang"))), None)
    if compiler is None or importlib.util.find_spec("bochscpu") is None:
        raise NotInstalledError(_MISSING)
    return compiler


def load(model: str) -> tuple[Any, Any, Any]:
    """Return the package, its C++ library and the library in between, for a model of CPU.

    A process has one model. Errors: NotInstalledError.
    """
    shim = _between(found())
    model, _, features = model.partition(" ")
    symbol = f"create_{model}_cpuid"
    name = f"_Z{len(symbol)}{symbol}P8BX_CPU_C".encode()
    for place, text in (("loomir_model", name), ("loomir_features", features.encode())):
        ctypes.memmove(ctypes.addressof(ctypes.c_char.in_dll(shim, place)), text, len(text) + 1)
    package = importlib.import_module("bochscpu._bochscpu")
    own = ctypes.CDLL(package.__file__)
    if not hasattr(own, name.decode()):
        raise NotInstalledError(f"this version of bochscpu-python has no CPU {model}")
    _mend(own)
    return package, own, shim


def _mend(own: Any) -> None:
    """Let ``vpinsrb`` with an EVEX prefix count its short offsets in bytes.

    Bochs counts them in words, as those of ``vpinsrw``. A row of its table is two functions, what
    each of four operands is, and flags; the operand in memory is one of 16 bits there, for both.
    """
    table = ctypes.c_char.in_dll(own, "BxOpcodesTable")
    start = ctypes.addressof(table)
    name = "_ZN8BX_CPU_C19VPINSRB_VdqHdqEbIbMEP15bxInstruction_c"
    wanted = ctypes.cast(getattr(own, name), ctypes.c_void_p).value
    for at in range(start, start + _ROWS * _ROW.size, _ROW.size):
        of_memory, _, operands, _ = _ROW.unpack(ctypes.string_at(at, _ROW.size))
        if of_memory == wanted and operands[2] == _WORD:
            ctypes.memset(at + 16 + 2, _BYTE, 1)


def _between(compiler: str) -> Any:
    """Compile and load the library in between."""
    with tempfile.TemporaryDirectory() as folder:
        source, made = Path(folder, "between.c"), Path(folder, "between.so")
        source.write_text(_SHIM, encoding="utf-8")
        command = [compiler, "-shared", "-fPIC", "-O1", "-o", str(made), str(source), "-ldl"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise NotInstalledError(f"{_MISSING}; {compiler} says: {done.stderr.strip()[-300:]}")
        return ctypes.CDLL(os.fspath(made), ctypes.RTLD_GLOBAL)
