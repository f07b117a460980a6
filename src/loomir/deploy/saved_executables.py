"""Save executables in files, and load them: ``exe.save(path)`` and ``loomir.load(path)``.

Loading trusts nothing. Before anything is used as code, the whole file is read, every byte is
compared with its hash, the machine and the conventions with those for which the code was made, and
its author with the current user.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, NoReturn

from loomir.codegen.llvm.generated_module import Part
from loomir.codegen.llvm.jit.engine import TargetMachine
from loomir.codegen.llvm.native_module import NativeModule
from loomir.deploy.callables import callables
from loomir.deploy.compatibility import abi_stamp, check_machine
from loomir.deploy.tables import Tables, read_tables, write_tables
from loomir.runtime.executable import Executable
from loomir.runtime.storage.container import (
    Container,
    append_seal,
    pack,
    read_file,
    refuse,
    unpack,
    write_file,
)
from loomir.runtime.storage.signing import is_own, seal
from loomir.support.argument_errors import explain_arguments
from loomir.support.config import SETTINGS
from loomir.support.diagnostics import LoomirError

__all__ = ["from_bytes", "load", "save", "to_bytes"]

_PARTS: Final = ("object", "tables", "script", "llvm_ir", "constants", "ir_parts")
_WHAT_ELSE: Final = (KeyError, IndexError, TypeError, ValueError, AttributeError, RecursionError)


def save(
    path: str | os.PathLike[str],
    tables: Tables,
    native: NativeModule,
    script: Callable[[], str],
    version: str,
) -> None:
    """Write an executable to a file; ``version`` is Loomir's. Errors: RUN0467, TIR0003."""
    write_file(Path(path), to_bytes(tables, native, script, version))


def to_bytes(
    tables: Tables, native: NativeModule, script: Callable[[], str], version: str
) -> bytes:
    """Return the bytes that ``save`` writes. Errors: TIR0003."""
    known, constants = write_tables(tables)
    machine = native.machine
    header = {
        "kind": "executable",
        "loomir": version,
        "target": {
            "triple": machine.triple,
            "cpu": machine.cpu,
            "features": machine.features,
        },
        "abi": abi_stamp(),
    }
    parts = {
        "object": native.object(),
        "tables": json.dumps(known).encode(),
        "script": script().encode("utf-8", "surrogatepass"),
        "llvm_ir": native.llvm_ir().encode("utf-8", "surrogatepass"),
        "constants": constants,
        "ir_parts": json.dumps(tables.generated.parts).encode(),
    }
    data, digest = pack(header, parts)
    return append_seal(data, digest, seal(digest))


def from_bytes(data: bytes) -> Executable:
    """Read an executable from a pickle, which is trusted, since unpickling runs code anyway.

    Errors: those of ``load``.
    """
    return _read(data, "the pickled executable", trusted=True)


@explain_arguments
def load(path: str | os.PathLike[str], *, trusted: bool = False) -> Executable:
    """Load an executable that ``exe.save(path)`` wrote.

    The file's machine code will be run. A file that this user saved is recognised by its seal; pass
    ``trusted`` for other files whose origin you trust as much as that of a program that you run.

    Errors: RUN0460 if the file cannot be read; RUN0461 to RUN0463 for a file of another kind, a
    damaged or a newer one; RUN0464 for code of another machine; RUN0465 for code of a Loomir with
    other conventions; RUN0466 for a file of somebody else.
    """
    place = Path(path)
    return _read(read_file(place), repr(str(place)), trusted)


def _read(data: bytes, name: str, trusted: bool) -> Executable:
    container = unpack(data, name)
    try:
        target = dict(container.header["target"])
        stamp, version = str(container.header["abi"]), str(container.header["loomir"])
        parts = [container.parts.get(part, b"") for part in _PARTS]
        check_machine(target, name)
    except _WHAT_ELSE as error:
        if isinstance(error, LoomirError):
            raise
        _refuse_unreadable(name, error)
    if stamp != abi_stamp():
        refuse(
            "RUN0465",
            f"{name} was saved by Loomir {version}, whose compiled code has other conventions",
            "compile the program with this version and save it again",
        )
    if not trusted and not is_own(container.digest, container.seal):
        _refuse_untrusted(name)
    return _make_executable(name, container, parts, target)


def _refuse_untrusted(name: str) -> NoReturn:
    note = (
        "there is no directory for your key: LOOMIR_CACHE_DIR is empty"
        if SETTINGS.cache_dir is None
        else f"it does not carry the seal of your key in {SETTINGS.cache_dir}"
    )
    refuse(
        "RUN0466",
        f"{name} was not saved by you on this machine, and loading it runs its machine code",
        "if you trust who made it, say so: loomir.load(path, trusted=True)",
        note,
    )


def _refuse_unreadable(name: str, error: BaseException) -> NoReturn:
    refuse(
        "RUN0462",
        f"{name} is damaged: the description of its code cannot be read",
        "get the file again from its source, or save the executable again",
        f"{type(error).__name__}: {error}",
    )


def _make_executable(
    name: str, container: Container, parts: list[bytes], target: dict[str, Any]
) -> Executable:
    code, known, script, llvm_ir, constants, ir_parts = parts
    try:
        machine = TargetMachine.of(target["cpu"], target["features"], target["triple"])
        tables = read_tables(json.loads(known), constants, llvm_ir.decode("utf-8", "surrogatepass"))
        each = tuple([Part(str(text), bool(shaped)) for text, shaped in json.loads(ir_parts)])
        native = NativeModule(replace(tables.generated, parts=each), machine, compiled=code)
        functions = callables(tables, native)
        text = script.decode("utf-8", "surrogatepass")
    except (*_WHAT_ELSE, LoomirError) as error:
        _refuse_unreadable(name, error)

    def seal_container() -> bytes:
        digest = container.digest
        return append_seal(container.unsealed, digest, seal(digest))

    return Executable(
        functions,
        script=lambda: text,
        llvm_ir=native.llvm_ir,
        assembly=native.assembly,
        save=lambda path: write_file(Path(path), seal_container()),
        reduce=lambda: (from_bytes, (seal_container(),)),
    )
