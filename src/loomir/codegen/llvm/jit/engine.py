"""Compile IR text to object code with LLVM, and load object code into this process.

- Equal text, target and level give equal bytes, so that one object serves the disk cache, the
  process and exported libraries. It is position independent.
- Every function here is thread-safe; LLVM works for one thread at a time.
- Errors that LLVM reports become ``InternalError``. Errors that are fatal to LLVM (an operation
  that the target cannot do) end the process, so callers must emit only code that the target
  supports.
"""

from __future__ import annotations

import functools
import itertools
import platform
import sys
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from enum import Enum
from typing import Any, Final, TypeVar, cast

import llvmlite.binding as llvm
from llvmlite.binding.ffi import ObjectRef, lib
from llvmlite.binding.newpassmanagers import NewPassManager

from loomir.codegen.llvm.jit.bundle import unpack_objects
from loomir.codegen.llvm.jit.forbidden_patterns import (
    avoid_forbidden_patterns,
    may_hold_forbidden_patterns,
)
from loomir.codegen.llvm.jit.memory_and_stack import with_memory_and_stack
from loomir.codegen.llvm.jit.narrowed_triples import widen_narrowed_triples
from loomir.codegen.llvm.jit.symbols import symbols_of
from loomir.runtime.packed.externs import address_in_process
from loomir.support.announcing import announce
from loomir.support.diagnostics import InternalError
from loomir.support.fork_safe import ForkSafeLock, register_at_fork
from loomir.target import Target
from loomir.target.host import features_here
from loomir.target.triples import architecture_of

__all__ = [
    "QUICKEST",
    "Library",
    "MissingSymbolError",
    "Passes",
    "TargetMachine",
    "assembly",
    "compile_ir",
    "compile_linked",
    "load",
    "machine_of",
    "optimise_ir",
]


QUICKEST: Final = -1
"""The level for code that runs once and is bound by memory: it compiles in a fifth of the time."""


class Passes(Enum):
    """Which of LLVM's passes run before instruction selection, at a level of 1 or more."""

    USUAL = "usual"
    """LLVM's pipeline of that level: it vectorises, unrolls and hoists."""
    FEW = "few"
    """Promotion of memory to values, and combining of instructions: a tenth of the time. Loops
    stay unchanged."""


class MissingSymbolError(InternalError):
    """Object code refers to symbols that are not defined; ``names`` are those."""

    def __init__(self, names: Sequence[str]) -> None:
        super().__init__(f"no address is known for {', '.join(map(repr, names))}")
        self.names = tuple(names)


# A child forked while another thread runs LLVM would wait for llvmlite's lock for ever, with LLVM's
# state half changed. So a fork waits until LLVM is idle.
register_at_fork(before=lib._lock.__enter__, after=lib._lock.__exit__)
_start_lock: Final = ForkSafeLock()
_started: Final[set[str]] = set()


def _start(all_targets: bool) -> None:
    """Register the host's part of LLVM, or all of it, once."""
    wanted = "all" if all_targets else "native"
    with _start_lock:
        if wanted in _started:
            return
        if all_targets:
            llvm.initialize_all_targets()
            llvm.initialize_all_asmprinters()
        else:
            llvm.initialize_native_target()
            llvm.initialize_native_asmprinter()
            cast("Any", llvm).initialize_native_asmparser()
        _started.add(wanted)


class TargetMachine:
    """A CPU to compile for: a triple, LLVM's name of a CPU, and features (``+fma,-avx512f``).

    Equal arguments return the same object.
    """

    __slots__ = ("_machines", "cpu", "data_layout", "features", "triple")

    triple: str
    cpu: str
    features: str
    data_layout: str
    _machines: dict[int, llvm.TargetMachine]

    def __init__(self, triple: str, cpu: str, features: str) -> None:
        self.triple = triple
        self.cpu = cpu
        self.features = features
        self._machines = {}
        self.data_layout = str(self.machine(2).target_data)

    @staticmethod
    def host() -> TargetMachine:
        """Return the machine that this process runs on."""
        return _host()

    @staticmethod
    def of(cpu: str, features: str = "", triple: str = "") -> TargetMachine:
        """Return a CPU by LLVM's name, with the host's triple unless one is given.

        Errors: InternalError for a triple that LLVM does not know, or a CPU that it refuses.
        """
        return _target_of(triple or llvm.get_process_triple(), cpu, features)

    @property
    def is_x86(self) -> bool:
        """Whether this is an x86-64 CPU."""
        return architecture_of(self.triple) == "x86_64"

    @property
    def is_aarch64(self) -> bool:
        """Whether this is a 64-bit ARM CPU."""
        return architecture_of(self.triple) == "aarch64"

    def has(self, feature: str) -> bool:
        """Tell whether the CPU has a feature, by LLVM's name: ``fma``, ``f16c``, ``avx512f``."""
        return _has(self, feature)

    @property
    def abilities(self) -> frozenset[str]:
        """The features of the CPU that emitted code may depend on; for ``Module.features``."""
        return frozenset(name for name in _PROBES if self.has(name))

    def machine(self, level: int) -> llvm.TargetMachine:
        """Return LLVM's target machine for code generation at a level from 0 to 3."""
        found = self._machines.get(level)
        if found is None:
            native = self.triple == llvm.get_process_triple()
            _start(all_targets=not native)
            with _report_errors("no code generator"):
                target = llvm.Target.from_triple(self.triple)
                found = target.create_target_machine(
                    cpu=self.cpu,
                    features=self.features,
                    opt=level,
                    reloc="pic",
                    codemodel="default",
                )
            found = self._machines.setdefault(level, found)
        return found

    def __repr__(self) -> str:
        return f"TargetMachine({self.triple!r}, {self.cpu!r}, {self.features!r})"


def machine_of(target: Target) -> TargetMachine:
    """Return the engine's view of a target."""
    return TargetMachine.of(target.cpu, target.features, target.triple)


@functools.lru_cache(maxsize=1)
def _host() -> TargetMachine:
    features = features_here()
    # For one CPU, LLVM always lists the same features in the same order.
    listed = ",".join(f"{'+' if on else '-'}{name}" for name, on in sorted(features.items()))
    return _target_of(llvm.get_process_triple(), llvm.get_host_cpu_name(), listed)


@functools.lru_cache(maxsize=64)
def _target_of(triple: str, cpu: str, features: str) -> TargetMachine:
    return TargetMachine(triple, cpu, features)


_WIDE: Final = '"prefer-vector-width"="512"'
"""The attribute that lets LLVM use 512-bit registers in a function."""

# llvmlite has no query for CPU features. So a function that profits from a feature is compiled: if
# the CPU lacks it, the code calls a library.
_PROBES: Final = {
    "avx512f": (
        "declare <16 x float> @llvm.ldexp.v16f32.v16i32(<16 x float>, <16 x i32>)\n"
        "define <16 x float> @probe(<16 x float> %x, <16 x i32> %n) {\n"
        "  %y = call <16 x float> @llvm.ldexp.v16f32.v16i32(<16 x float> %x, <16 x i32> %n)\n"
        "  ret <16 x float> %y\n}\n"
    ),
    "fma": (
        "declare double @llvm.fma.f64(double, double, double)\n"
        "define double @probe(double %x) {\n"
        "  %y = call double @llvm.fma.f64(double %x, double %x, double %x)\n"
        "  ret double %y\n}\n"
    ),
    "f16c": "define float @probe(half %x) {\n  %y = fpext half %x to float\n  ret float %y\n}\n",
    "sse4.1": (
        "declare double @llvm.floor.f64(double)\n"
        "define double @probe(double %x) {\n"
        "  %y = call double @llvm.floor.f64(double %x)\n"
        "  ret double %y\n}\n"
    ),
}


@functools.lru_cache(maxsize=256)
def _has(target: TargetMachine, feature: str) -> bool:
    words = target.features.split(",")
    if f"+{feature}" in words or f"-{feature}" in words:
        return f"+{feature}" in words
    if feature not in _PROBES:
        raise InternalError(f"cannot tell whether {target.cpu} has {feature!r}")
    if feature.startswith("avx") and not target.is_x86:
        return False
    return not symbols_of(compile_ir(_PROBES[feature], target, 1)).undefined


@contextmanager
def _report_errors(what: str) -> Generator[None, None, None]:
    try:
        yield
    except RuntimeError as error:
        raise InternalError(f"{what}: {error}") from error


@contextmanager
def _parse(text: str, target: TargetMachine, *more: str) -> Generator[llvm.ModuleRef, None, None]:
    """Parse and verify in a new context: in a shared one, names of structs would accumulate.

    ``more`` texts are linked with it.
    """
    _start(all_targets=False)
    if any("\0" in t for t in (text, *more)):
        raise InternalError("IR text holds a zero byte")
    context = llvm.create_context()
    try:
        with _report_errors("LLVM refuses the IR"):
            module = llvm.parse_assembly(text, context)
        try:
            module.triple = target.triple
            module.data_layout = target.data_layout
            with _report_errors("LLVM refuses the IR"):
                for other in more:
                    linked = llvm.parse_assembly(other, context)
                    linked.triple, linked.data_layout = target.triple, target.data_layout
                    module.link_in(linked)
                module.verify()
            yield module
        finally:
            module.close()
    finally:
        context.close()


def _optimise(module: llvm.ModuleRef, target: TargetMachine, level: int, wanted: Passes) -> None:
    if level <= 0:
        return
    options = llvm.create_pipeline_tuning_options(speed_level=level)
    options.loop_vectorization = options.loop_interleaving = options.loop_unrolling = True
    # A new one for each module: it keeps the instrumentation of a run, and would call it again in
    # the next. With llvmlite 0.50, each leaks 1.5 KB.
    passes = llvm.create_pass_builder(target.machine(_codegen_level(level)), options)
    with _report_errors("LLVM's passes failed"):
        if wanted is Passes.USUAL:
            with _free_after(passes.getModulePassManager()) as usual:
                usual.run(module, passes)
            return
        with _free_after(llvm.create_new_function_pass_manager()) as few:
            few.add_sroa_pass()
            few.add_simplify_cfg_pass()
            few.add_instruction_combine_pass()
            few.add_dead_code_elimination_pass()
            for function in module.functions:
                if not function.is_declaration:
                    few.run(function, passes)


@contextmanager
def _optimise_parsed(
    parse: Callable[[], AbstractContextManager[llvm.ModuleRef]],
    target: TargetMachine,
    level: int,
    wanted: Passes,
) -> Generator[llvm.ModuleRef, None, None]:
    """Yield the parsed module after the passes; after few of them, if LLVM breaks the code.

    If vectors are stored to a small array, LLVM 22 may use one before its definition.
    """
    for passes in (wanted, Passes.FEW):
        with parse() as module:
            _optimise(module, target, level, passes)
            valid = passes is Passes.FEW
            with suppress(RuntimeError):
                module.verify()
                valid = True
            if valid:
                yield module
                return


@contextmanager
def _selectable(
    module: llvm.ModuleRef, target: TargetMachine
) -> Generator[llvm.ModuleRef, None, None]:
    """Yield the module for instruction selection, without the patterns that LLVM gets wrong."""
    text, safe = str(module) if target.is_x86 or target.is_aarch64 else "", None
    if target.is_aarch64:
        safe = widen_narrowed_triples(text)
    elif may_hold_forbidden_patterns(text):
        wide = target.has("avx512f") and _WIDE in text
        register = 512 if wide else 256 if target.has("fma") else 128
        safe = avoid_forbidden_patterns(text, register)
    if safe is None:
        yield module
        return
    with _parse(safe, target) as mended:
        yield mended


@contextmanager
def _emittable(
    text: str, target: TargetMachine, level: int, passes: Passes
) -> Generator[llvm.ModuleRef, None, None]:
    """Yield the module of a text after the passes, ready for instruction selection."""
    parse = functools.partial(_parse, text, target)
    with (
        _optimise_parsed(parse, target, level, passes) as module,
        _selectable(module, target) as safe,
    ):
        yield safe


_Manager = TypeVar("_Manager", llvm.ModulePassManager, llvm.FunctionPassManager)


@contextmanager
def _free_after(manager: _Manager) -> Generator[_Manager, None, None]:
    """Free a pass manager and its passes at the end.

    llvmlite 0.50 does not: its classes inherit a ``_dispose`` that does nothing from ``ObjectRef``,
    so that each program would leak 30 to 50 KB.
    """
    try:
        yield manager
    finally:
        if type(manager)._dispose is ObjectRef._dispose:
            NewPassManager._dispose(manager)
        manager.close()


def _codegen_level(level: int) -> int:
    if level == QUICKEST:
        return 0
    if not 0 <= level <= 3:
        raise InternalError(f"no optimisation level {level}")
    # Level 0 is for code that is already optimised: no passes over the IR, but full code
    # generation.
    return max(level, 2)


@with_memory_and_stack
def compile_ir(
    text: str,
    target: TargetMachine | None = None,
    level: int = 2,
    *,
    passes: Passes = Passes.USUAL,
) -> bytes:
    """Compile IR text to an object file.

    ``level`` 0 runs no passes over the IR, 1 to 3 run ``passes``. ``QUICKEST`` runs none and uses
    LLVM's fast instruction selection.
    Errors: InternalError for IR that LLVM does not parse or verify.
    """
    announce("machine code")
    target = target or TargetMachine.host()
    machine = target.machine(_codegen_level(level))
    with _emittable(text, target, level, passes) as module, _report_errors("LLVM emits no object"):
        return machine.emit_object(module)


@with_memory_and_stack
def compile_linked(
    texts: Sequence[str],
    exports: Mapping[str, str],
    externs: Mapping[str, str],
    target: TargetMachine,
    level: int = 2,
) -> bytes:
    """Compile several texts to one object file, of which only ``exports`` are visible.

    ``exports`` maps each to its linkage: a ``weak_any`` symbol may be defined by other objects as
    well, and a program uses one of the definitions; so may a ``weak_odr`` one, whose definitions
    are all equal. ``externs`` maps undefined symbols to the names by which a linker finds them.
    Errors: InternalError for IR that LLVM rejects; MissingSymbolError for names of ``externs`` that
    the texts define themselves.
    """
    machine = target.machine(_codegen_level(level))

    @contextmanager
    def parse() -> Generator[llvm.ModuleRef, None, None]:
        with _parse(texts[0], target, *texts[1:]) as module:
            for value in (*module.functions, *module.global_variables):
                if not value.is_declaration and value.linkage.name in ("external", "weak_odr"):
                    value.linkage = exports.get(value.name, "internal")
            yield module

    with _optimise_parsed(parse, target, level, Passes.USUAL) as module:
        taken = {v.name for v in (*module.functions, *module.global_variables)}
        clashes = sorted({name for name in externs.values() if name in taken})
        if clashes:
            raise MissingSymbolError(clashes)
        for value in module.functions:
            if value.name in externs:
                value.name = externs[value.name]
        with _selectable(module, target) as safe, _report_errors("LLVM emits no object"):
            return machine.emit_object(safe)


@with_memory_and_stack
def optimise_ir(
    text: str,
    target: TargetMachine | None = None,
    level: int = 2,
    *,
    passes: Passes = Passes.USUAL,
) -> str:
    """Return the IR after LLVM's passes."""
    target = target or TargetMachine.host()
    _codegen_level(level)
    with _optimise_parsed(lambda: _parse(text, target), target, level, passes) as module:
        return str(module)


@with_memory_and_stack
def assembly(
    text: str,
    target: TargetMachine | None = None,
    level: int = 2,
    *,
    passes: Passes = Passes.USUAL,
) -> str:
    """Return the assembly of the code that ``compile_ir`` makes."""
    target = target or TargetMachine.host()
    machine = target.machine(_codegen_level(level))
    with (
        _emittable(text, target, level, passes) as module,
        _report_errors("LLVM emits no assembly"),
    ):
        return machine.emit_assembly(module)


# -- loading ------------------------------------------------------------------------------------
class Library:
    """Object code loaded into this process; addresses are valid until ``close`` or deletion."""

    __slots__ = ("__weakref__", "_addresses", "_jit", "_tracker", "name")

    def __init__(
        self, name: str, tracker: llvm.ResourceTracker, addresses: Mapping[str, int], jit: _Jit
    ) -> None:
        self.name = name
        self._tracker: llvm.ResourceTracker | None = tracker
        self._addresses = dict(addresses)
        self._jit: _Jit | None = jit

    def __del__(self, is_ending: Callable[[], bool] = sys.is_finalizing) -> None:
        # The JIT must outlive the code that it loaded.
        tracker = self._tracker
        # When Python ends, it clears modules, this one too, before it deletes their objects.
        if tracker is not None and not is_ending():
            tracker.close()

    def address(self, name: str) -> int:
        """Return the address of a symbol of the object.

        Errors: InternalError if it defines no such symbol, or the library is closed.
        """
        if self._tracker is None:
            raise InternalError(f"library {self.name} is closed")
        found = self._addresses.get(name)
        if found is None:
            raise InternalError(f"the object defines no symbol {name!r}")
        return found

    @property
    def symbols(self) -> tuple[str, ...]:
        """The names it defines, sorted."""
        return tuple(sorted(self._addresses))

    def close(self) -> None:
        """Free the code, which must not run any more."""
        tracker, self._tracker = self._tracker, None
        if tracker is not None:
            with _report_errors("LLVM does not unload"):
                tracker.close()
            self._jit = None


_ELF_MACHINES: Final = {"x86_64": 62, "amd64": 62, "aarch64": 183, "arm64": 183, "riscv64": 243}
_serial: Final = itertools.count()


_LINKED: Final = 64
"""Objects after which a JIT is replaced, since each leaks some kilobytes in it."""


class _Jit:
    """One of LLVM's JITs. Each object that it loads leaks some kilobytes, even when freed.

    So a JIT loads a few objects, then another one takes over; it is deleted with its last object.
    """

    def __init__(self) -> None:
        machine = TargetMachine.host()
        _start(all_targets=False)
        # The JIT takes ownership of its target machine, so it gets a new one.
        own = llvm.Target.from_triple(machine.triple).create_target_machine(
            cpu=machine.cpu, features=machine.features, jit=True
        )
        # JITLink places an object in one region, and reaches what is outside by 64-bit addresses.
        # The other loader maps code and data separately; on AArch64, its relocations abort the
        # process if the two are more than 4 GiB from each other.
        with _report_errors("LLVM has no JIT here"):
            self.own = llvm.create_lljit_compiler(own, use_jit_link=True, suppress_errors=True)
        self.linked = 0


_jit_lock: Final = ForkSafeLock()
_jits: Final[list[_Jit]] = []


def _jit() -> _Jit:
    """Return the JIT for the next object; libraries keep it alive as long as their code may run."""
    with _jit_lock:
        if not _jits or _jits[0].linked == _LINKED:
            _jits[:] = [_Jit()]
        _jits[0].linked += 1
        return _jits[0]


@with_memory_and_stack
def load(
    data: bytes, symbols: Mapping[str, int] | None = None, exports: Sequence[str] | None = None
) -> Library:
    """Load an object file for this machine, or the several ones of a bundle.

    Undefined symbols are looked up in ``symbols`` (name to address), then in the process (libc and
    libm). ``exports`` limits the symbols whose addresses can be asked for.
    Errors: MissingSymbolError for symbols that are not found; InternalError for other data.
    """
    given = dict(symbols or {})
    objects = unpack_objects(data)
    builder = llvm.JITLibraryBuilder()
    defined: set[str] = set()
    needed: set[str] = set()
    for one in objects:
        table = symbols_of(one)
        # LLVM's loader aborts the process if the code is for another machine.
        if table.machine != _ELF_MACHINES.get(platform.machine().lower()):
            raise InternalError(f"object code for ELF machine {table.machine}, not for this one")
        defined.update(table.defined)
        needed.update(table.undefined)
        builder = builder.add_object_img(one)
    undefined = sorted(needed - defined)
    missing = [n for n in undefined if n not in given and not address_in_process(n)]
    if missing:
        raise MissingSymbolError(missing)
    wanted = tuple(sorted(defined) if exports is None else exports)
    builder = builder.add_current_process()
    for name in undefined:
        if name in given:
            builder.import_symbol(name, given[name])
        else:
            builder.import_symbol(name, address_in_process(name))
    for name in wanted:
        builder.export_symbol(name)
    label = f"loomir.{next(_serial)}"
    jit = _jit()
    with _report_errors("LLVM does not load the object"):
        tracker = builder.link(jit.own, label)
    return Library(label, tracker, {name: tracker[name] for name in wanted}, jit)
