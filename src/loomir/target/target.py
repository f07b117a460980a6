"""The target: the machine to compile for, as the compiler sees it."""

from __future__ import annotations

from typing import cast

from loomir.support.diagnostics import CompileError, Diagnostic, InternalError, nearest
from loomir.support.runtime_types import quote_name
from loomir.target.host import host
from loomir.target.table import CPUS, EXTENSIONS

__all__ = ["Target"]


def _explain_other_words(name: object) -> tuple[str, ...]:
    """Say what is known of targets that other compilers have."""
    word = name.split()[0] if isinstance(name, str) and name.split() else ""
    if word in ("cuda", "rocm", "metal", "vulkan", "opencl", "webgpu", "gpu", "nvptx", "hip"):
        return ("code is generated for CPUs only",)
    if word in ("llvm", "c", "cpu", "host"):
        return ("a target is the name of a CPU, without options",)
    return ()


class Target:
    """A machine by name: ``native`` for the one at hand, or a CPU such as ``znver3``.

    - ``triple``, ``cpu`` and ``features`` are passed to LLVM.
    - ``vector_bits`` is the width of vectors worth using, ``registers`` how many such there are.
    - ``fma``: products are added in one instruction, rounded once.
    - ``extensions`` are the instructions of ``has`` that it has.
    - ``caches`` are bytes of L1 (data), L2 and L3, 0 for none; ``cores`` the CPUs that may be used.

    Equal targets compile to equal code. Errors: TGT0001 for a name that is not known.
    """

    __slots__ = (
        "caches",
        "cores",
        "cpu",
        "extensions",
        "features",
        "fma",
        "name",
        "registers",
        "triple",
        "vector_bits",
    )

    name: str
    triple: str
    cpu: str
    features: str
    extensions: frozenset[str]
    fma: bool
    vector_bits: int
    registers: int
    caches: tuple[int, int, int]
    cores: int

    def __init__(self, name: str | Target = "native") -> None:
        if isinstance(name, Target):
            name = name.name
        here = host()
        self.name = name
        self.cores = here.cores
        if not isinstance(cast("object", name), str):
            row = None
        elif name == "native":
            self.triple, self.cpu, self.features = here.triple, here.cpu, here.features
            self.vector_bits, self.registers = here.vector_bits, here.registers
            self.caches = here.caches
            self.extensions, self.fma = here.extensions, here.fma
            return
        else:
            row = CPUS.get(name)
        if row is None:
            guess = nearest(name, ["native", *CPUS])
            raise CompileError(
                Diagnostic(
                    "TGT0001",
                    f"there is no target {quote_name(name)}",
                    notes=(
                        f"the targets are native, {', '.join(CPUS)}",
                        *_explain_other_words(name),
                    ),
                    help=f"did you mean {guess!r}?" if guess else "use 'native' for this machine",
                )
            )
        same_kind = row.triple.split("-")[0] == here.triple.split("-")[0]
        self.triple = here.triple if same_kind else row.triple
        self.cpu, self.features = row.cpu or name, ""
        self.vector_bits, self.registers = row.vector_bits, row.registers
        self.extensions = row.extensions & here.extensions if name == here.cpu else row.extensions
        self.fma = row.fma
        self.caches = here.caches if name == here.cpu else row.caches

    @property
    def is_native(self) -> bool:
        """Whether this is the machine at hand, under the name ``native``."""
        return self.name == "native"

    def has(self, extension: str) -> bool:
        """Whether the machine has instructions, named as in the table: ``avx512_vnni``.

        Errors: InternalError for another name.
        """
        if extension not in EXTENSIONS:
            raise InternalError(f"no table says which CPUs have {extension!r}")
        return extension in self.extensions

    def lanes(self, bits: int) -> int:
        """Return how many elements of so many bits one vector register holds."""
        return max(1, self.vector_bits // bits)

    def identity(self) -> tuple[object, ...]:
        """Return all that the code for a target depends on, as plain data."""
        return (
            self.name,
            *self._key(),
            self.vector_bits,
            self.registers,
            self.caches,
            self.fma,
            tuple(sorted(self.extensions)),
        )

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Target):
            return NotImplemented
        return self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def _key(self) -> tuple[object, ...]:
        return self.triple, self.cpu, self.features, self.cores

    def __repr__(self) -> str:
        return f"Target({self.name!r})"
