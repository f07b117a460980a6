"""Export libraries for C programs: ``exe.export_library(path)``.

One object file contains all that a program needs: its code, the checks of arrays, the thread pool,
and the functions on values. A linker on this machine turns it into a shared library on request.
"""

from __future__ import annotations

import importlib.util
import os
import secrets
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from loomir.codegen.llvm.generated_module import GeneratedModule
from loomir.codegen.llvm.jit import engine
from loomir.codegen.llvm.support.ir.checks import checks_ir
from loomir.codegen.llvm.support.ir.faults import FEW, MANY
from loomir.codegen.llvm.support.ir.names import GIVE_SCRATCH, TAKE_SCRATCH
from loomir.codegen.llvm.support.ir.objects import objects_module
from loomir.codegen.llvm.support.ir.pool import pool_module
from loomir.codegen.llvm.support.ir.process import library_ir
from loomir.deploy.c_api import API_NAMES, CFunction, functions_for_c, header
from loomir.deploy.c_code import START_IR, functions_ir
from loomir.deploy.values_ir import values_ir
from loomir.runtime.storage.container import read_file, refuse, write_file
from loomir.tir.signature import Signature

__all__ = ["LibrarySource", "export_library"]

_NEVER: Final = "loomir.number"
"""A builtin that values of C programs never reach."""
_OF_PYTHON: Final = {
    "loomir.match_function": "R.Callable",
    "loomir.print": "R.print",
    "loomir.assert": "R.assert_op",
    "loomir.copy": "a copy of a value",
    "loomir.partial": "R.make_closure",
}
_POOL: Final = (
    "loomir_parallel_for",
    "loomir_set_threads",
    "loomir_pool_after_fork",
    TAKE_SCRATCH,
    GIVE_SCRATCH,
)
_TIMEOUT: Final = 120


@dataclass(frozen=True, slots=True)
class LibrarySource:
    """The source of a library; ``called`` are the Python functions that loops call."""

    generate: Callable[[], GeneratedModule]
    signatures: dict[str, Signature]
    called: tuple[str, ...]
    machine: engine.TargetMachine
    level: int
    watched: bool


def export_library(path: str | os.PathLike[str], source: LibrarySource) -> None:
    """Write a library and its header; the docstring of ``Executable.export_library`` says more."""
    place = Path(path)
    if place.suffix not in (".o", ".so"):
        refuse(
            "RUN0470",
            f"what {place.name!r} should be is not clear from its name",
            "end the path in .o for an object file, or in .so for a shared library",
        )
    if "linux" not in source.machine.triple:
        refuse(
            "RUN0475",
            f"a library has its own threads, which are not implemented for {source.machine.triple}",
            "export it for a machine that runs Linux; exe.assembly() gives the code as text",
        )
    linker = _linker() if place.suffix == ".so" else []
    generated = source.generate()
    graph = generated.graph
    called = [*source.called]
    if graph is not None:
        called += [_OF_PYTHON.get(n, n) for n in graph.packed if n != _NEVER]
    if called:
        refuse(
            "RUN0471",
            f"the program calls functions that Python runs: {', '.join(map(repr, called))}",
            "remove the calls, or call C functions with T.call_extern; exe.save(path) keeps a "
            "program that calls Python",
        )
    functions = functions_for_c(generated, source.signatures)
    data = _compile_object(generated, functions, source)
    text = header(place.stem, functions, generated.externs.values())
    if linker:
        _link(place, data, linker)
    else:
        write_file(place, data)
    write_file(place.with_suffix(".h"), text.encode())


def _compile_object(
    generated: GeneratedModule, functions: list[CFunction], source: LibrarySource
) -> bytes:
    machine = source.machine
    values = generated.graph.values if generated.graph else MANY if source.watched else FEW
    texts = [generated.text, objects_module().render(), values_ir()]
    texts.append(functions_ir(generated, functions, values))
    texts += [checks_ir(raises=False), pool_module(machine.triple).render()]
    texts += [START_IR, library_ir(machine.triple)]
    exports = {f"loomir_{name}": "weak_odr" for name in (*API_NAMES, "error_text")}
    # If a program has several libraries, all share the pool of one, so it must not be inlined.
    exports.update(dict.fromkeys(_POOL, "weak_any"))
    exports.update({f.symbol: "external" for f in functions})
    try:
        return engine.compile_linked(texts, exports, generated.externs, machine, source.level)
    except engine.MissingSymbolError as error:
        refuse(
            "RUN0471",
            "the program calls C functions that the library itself uses with other types: "
            + ", ".join(map(repr, error.names)),
            "call it through a C function of your own",
        )


# -- linking -----------------------------------------------------------------------------------
def _linker() -> list[str]:
    """Find a command that links. Errors: RUN0472 if there is none."""
    named = os.environ.get("CC", "")
    if named and shutil.which(shlex.split(named)[0]):
        return shlex.split(named)
    for name in ("cc", "gcc", "clang"):
        found = shutil.which(name)
        if found:
            return [found]
    if importlib.util.find_spec("ziglang") is not None:
        return [sys.executable, "-m", "ziglang", "cc"]
    refuse(
        "RUN0472",
        "a shared library needs a linker, and no C compiler is on the PATH",
        "install one (a package such as gcc, or `pip install ziglang`), or export a .o, which "
        "needs none",
    )


def _link(place: Path, data: bytes, linker: list[str]) -> None:
    """Link an object to a shared library. Errors: RUN0467, RUN0473."""
    token = secrets.token_hex(8)
    before = place.with_name(f".{place.stem[:64]}.{token}.o")
    after = place.with_name(f".{place.stem[:64]}.{token}.so")
    write_file(before, data, wanted=place)
    # Never unloaded, since its threads run its code until the process ends.
    flags = ["-shared", "-fPIC", "-Wl,-z,nodelete", "-lpthread"]
    soname = f"-Wl,-soname,{place.name}"
    try:
        try:
            done = subprocess.run(
                [*linker, "-o", str(after), str(before), soname, *flags],
                capture_output=True,
                text=True,
                errors="replace",
                timeout=_TIMEOUT,
                check=False,
            )
            failure = done.stderr.strip() if done.returncode else ""
        except (OSError, subprocess.TimeoutExpired) as error:
            failure = str(error)
        if failure or not after.exists():
            refuse(
                "RUN0473",
                f"{linker[0]} failed to link the library",
                "export a .o, and link it with your program",
                *failure.splitlines()[-8:],
            )
        write_file(place, read_file(after), 0o777)
    finally:
        before.unlink(missing_ok=True)
        after.unlink(missing_ok=True)
