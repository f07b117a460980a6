"""Compile generated code to machine code on first use, and load it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from loomir.codegen.llvm.generated_module import ENTER, FUNCTION, PACKED_CODE, GeneratedModule
from loomir.codegen.llvm.jit import engine
from loomir.codegen.llvm.jit.bundle import pack_objects
from loomir.codegen.llvm.jit.object_store import compile_all_kept
from loomir.codegen.llvm.support.checks import check_symbols
from loomir.codegen.llvm.support.objects import object_symbols
from loomir.codegen.llvm.support.pool import pool_symbols
from loomir.codegen.llvm.support.process import process_symbols
from loomir.runtime.compile_options import HARDEST
from loomir.runtime.ffi import native_symbols
from loomir.runtime.graph.callback import graph_symbols
from loomir.runtime.packed.callback import callback_symbols
from loomir.runtime.packed.externs import find_extern
from loomir.runtime.storage.container import refuse
from loomir.runtime.storage.object_cache import ObjectCache
from loomir.support.diagnostics import CompileError
from loomir.support.fork_safe import ForkSafeLock, import_module
from loomir.target import Target
from loomir.target.triples import family

if TYPE_CHECKING:
    from loomir.support.array import Array

__all__ = ["NativeModule", "load_library_early"]


def _data(arrays: Mapping[str, Array]) -> dict[str, int]:
    """Return the addresses of constants, which must live as long as the code."""
    return {symbol: array.data.__array_interface__["data"][0] for symbol, array in arrays.items()}


def load_library_early() -> None:
    """Load the native run-time library in another thread, while passes run in this one.

    If the cache does not have it, LLVM takes half a second to compile it.
    """
    # No daemon: Python must wait for it, since LLVM must not run while the process is torn down.
    threading.Thread(target=_load_library).start()


def _load_library() -> None:
    for symbols in (check_symbols, process_symbols, pool_symbols, object_symbols):
        # The first use of the library reports the error.
        with suppress(Exception):
            symbols()


class NativeModule:
    """Machine code of a module; every step happens once, in any thread.

    - ``level`` 0 runs none of LLVM's passes, 1 to 3 its usual ones, ``engine.QUICKEST`` even less.
      Up to 2, ``passes`` may be fewer; they are by default if the loops are shaped.
    - C functions that the program calls are looked up when the code is loaded.
    - For a target other than this machine there are text and objects, but no addresses.
    - ``compiled`` is the object file, if it exists already; ``on_loaded`` is called with it.
    """

    __slots__ = (
        "_cache",
        "_generated",
        "_level",
        "_library",
        "_lock",
        "_machine",
        "_object",
        "_on_loaded",
        "_texts",
        "_timing",
        "records",
    )

    def __init__(
        self,
        generated: GeneratedModule,
        target: Target | engine.TargetMachine,
        level: int = 2,
        *,
        passes: engine.Passes | None = None,
        cache: ObjectCache | None = None,
        compiled: bytes | None = None,
        on_loaded: Callable[[bytes], object] | None = None,
    ) -> None:
        self._generated = generated
        self._machine = engine.machine_of(target) if isinstance(target, Target) else target
        self._level = level
        shaped = generated.shaped and level < HARDEST
        few, usual = engine.Passes.FEW, engine.Passes.USUAL
        self._texts = [(generated.text, passes or (few if shaped else usual))]
        if generated.parts and 0 < level < HARDEST:
            parts = generated.parts
            self._texts = [(part.text, passes or (few if part.shaped else usual)) for part in parts]
        self._cache = cache
        self._lock = ForkSafeLock()
        self._object = compiled
        self._on_loaded = on_loaded
        self._library: engine.Library | None = None
        # Imported only for timed code, since it imports the code generator.
        self._timing: Any = import_module("loomir.codegen.llvm.timing") if generated.timed else None
        self.records = self._timing.new_buffer() if generated.timed else None

    @property
    def machine(self) -> engine.TargetMachine:
        """The machine that the code is for."""
        return self._machine

    def address(self, name: str) -> int:
        """Return the address of the entry of a public function.

        Errors: RUN0464 if the code is for another machine, TIR0511 for a C function that no longer
        exists.
        """
        return self.symbol(self._generated.entries[name])

    def symbol(self, symbol: str) -> int:
        """Return the address of an exported symbol. Errors: as for ``address``."""
        with self._lock:
            return self._load().address(symbol)

    def prepare(self) -> None:
        """Generate the code, and load it if it is for this machine. Errors: TIR0511."""
        with self._lock:
            if self._is_for_this_machine():
                self._load()
            else:
                self._compile()

    def _load(self) -> engine.Library:
        if self._library is None:
            self._check_machine()
            generated = self._generated
            symbols = {**native_symbols(), **check_symbols(), **process_symbols()}
            if generated.needs_pool:
                symbols.update(pool_symbols())
            if generated.needs_callback:
                symbols.update(callback_symbols())
            if self.records is not None:
                symbols.update(self._timing.make_timing_symbols(self.records))
            symbols.update(self._externs())
            exports = sorted(generated.entries.values())
            if generated.graph is not None:
                symbols.update(object_symbols())
                symbols.update(graph_symbols())
                symbols.update(_data(generated.graph.data))
                exports += [ENTER, FUNCTION, PACKED_CODE]
            code = self._compile()
            self._library = engine.load(code, symbols, exports)
            if self._on_loaded is not None:
                self._on_loaded(code)
        return self._library

    def _is_for_this_machine(self) -> bool:
        here, there = engine.TargetMachine.host().triple, self._machine.triple
        return family(here) == family(there)

    def _check_machine(self) -> None:
        if not self._is_for_this_machine():
            here, there = engine.TargetMachine.host().triple, self._machine.triple
            refuse(
                "RUN0464",
                f"the program is compiled for {there}, and this machine is {here}",
                "compile it without a target to call it; exe.assembly() gives its code as text",
            )

    def _externs(self) -> dict[str, int]:
        found = {symbol: find_extern(n) for symbol, n in self._generated.externs.items()}
        missing = [n for symbol, n in self._generated.externs.items() if not found[symbol]]
        if missing:
            unknown_extern: Any = import_module("loomir.tir.builtins.calls").unknown_extern
            raise CompileError.of([unknown_extern(n, None) for n in missing])
        return found

    def object(self) -> bytes:
        """Return the object file."""
        with self._lock:
            return self._compile()

    def llvm_ir(self) -> str:
        """Return the generated IR, before LLVM's passes."""
        return self._generated.text

    def assembly(self) -> str:
        """Return the assembly, that of one part after the other."""
        return "".join(
            [
                engine.assembly(text, self._machine, self._level, passes=passes)
                for text, passes in self._texts
            ]
        )

    def _compile(self) -> bytes:
        if self._object is None:
            made = compile_all_kept(self._texts, self._machine, self._level, cache=self._cache)
            self._object = pack_objects(made)
        return self._object
