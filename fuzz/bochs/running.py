"""Run executables of this process on an emulated CPU, as if it were this one."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from typing import Any, Final

from fuzz.bochs.cpu import Cpu
from fuzz.bochs.host_calls import is_pure
from fuzz.bochs.library import EmulatorError
from loomir.codegen.llvm.jit import engine
from loomir.codegen.llvm.jit.symbols import symbols_of
from loomir.codegen.llvm.native_module import NativeModule
from loomir.runtime.packed.externs import address_in_process

__all__ = ["Machine"]

_ENTRY: Final = ctypes.CFUNCTYPE(ctypes.c_int32, *[ctypes.c_uint64] * 6)
_ADDRESS: Final = ctypes.CFUNCTYPE(ctypes.c_uint64, *[ctypes.c_uint64] * 6)
_GIVES_ADDRESS: Final = frozenset({"loomir_function"})


class Machine:
    """An emulated CPU that runs everything that is compiled from now on in this process.

    Make it before anything is compiled; a process has one.
    """

    def __init__(self, model: str) -> None:
        self.cpu = Cpu(model)
        self.calls = 0
        self._ours: set[int] = set()
        self._doors: list[Any] = []
        self._failure = ""
        self._busy = False
        self._load = engine.load
        self._symbol = NativeModule.symbol
        engine.load = self._loaded
        machine = self

        def symbol(native: NativeModule, name: str) -> int:
            return machine._door(name, machine._symbol(native, name))

        NativeModule.symbol = symbol  # type: ignore[method-assign]

    def failure(self) -> str:
        """Say why the last call did not come to its end, once; '' where it did."""
        said, self._failure = self._failure, ""
        return said

    def _loaded(
        self,
        data: bytes,
        symbols: Mapping[str, int] | None = None,
        exports: Sequence[str] | None = None,
    ) -> engine.Library:
        """Load an object whose calls of what is outside leave the emulated CPU."""
        given = dict(symbols or {})
        for name in symbols_of(data).undefined:
            address = given.get(name) or address_in_process(name)
            if address and address not in self._ours and not is_pure(name, address):
                given[name] = self.cpu.outside.address(address, name)
        library = self._load(data, given, exports)
        self._ours.update(library.address(name) for name in library.symbols)
        return library

    def _door(self, name: str, address: int) -> int:
        """Return what the real CPU calls for a function: a callback that emulates it."""
        kind = _ADDRESS if name in _GIVES_ADDRESS else _ENTRY
        # A graph's result would be read; what an entry gives is read when its fault is known.
        failed = int(name == "loomir_enter")

        def enter(*arguments: int) -> int:
            if self._busy:
                self._failure = "emulated code called Python, which called compiled code"
            if self._failure:
                return failed
            self._busy = True
            self.calls += 1
            try:
                made = self.cpu.call(address, *arguments)
            except EmulatorError as error:
                self._failure = str(error)
                made = failed
            except Exception as error:  # noqa: BLE001 - a callback cannot raise
                self._failure = f"{type(error).__name__} in the emulator: {error}"
                made = failed
            finally:
                self._busy = False
            return made if kind is _ADDRESS else ctypes.c_int32(made & 0xFFFFFFFF).value

        door = kind(enter)
        self._doors.append(door)
        return ctypes.cast(door, ctypes.c_void_p).value or 0
