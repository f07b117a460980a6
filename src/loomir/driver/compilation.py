"""A compilation under way: what was asked for, and what the stages have made so far."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

from loomir.check.relax.verify import Verdict
from loomir.codegen.llvm.generated_module import GeneratedModule
from loomir.codegen.llvm.native_module import NativeModule
from loomir.deploy.library import LibrarySource
from loomir.deploy.tables import Tables
from loomir.driver.program import Program
from loomir.ir.module import IRModule
from loomir.ir.passes import OnStage
from loomir.ir.stage_files import StageFiles
from loomir.ir.trust import is_untrusted
from loomir.runtime.compile_options import CompileOptions
from loomir.target import Target
from loomir.tir.signature import Signature

__all__ = ["Compilation", "OnCompiled"]

OnCompiled: TypeAlias = "Callable[[Tables, bytes], object]"
"""A callback that gets what a process needs to call a program: its tables and object file."""


class Compilation:
    """What stages read and write. Each attribute below the options is made by a stage.

    ``on_stage`` gets the program after each pass. ``files`` gets that and the generated code.
    ``keep`` is called with the object file. ``timed``: kernels read the clock, for the profiler.
    """

    module: IRModule
    """The program as it was given, with its constants."""
    verdict: Verdict
    machine: Target
    strided: Mapping[str, tuple[str, ...]]
    """The parameters whose arrays calls have to copy, by function."""
    graph: IRModule | None
    """The graph with its kernels, after the latest stage; None for programs of loops only."""
    loops: IRModule
    """The kernels, before they are scheduled."""
    signatures: dict[str, Signature]
    scheduled: IRModule
    lowered: IRModule
    generated: GeneratedModule
    tables: Tables
    library: LibrarySource
    native: NativeModule

    def __init__(
        self,
        program: Program,
        target: str | Target,
        options: CompileOptions,
        *,
        on_stage: OnStage | None = None,
        files: StageFiles | None = None,
        keep: OnCompiled | None = None,
        timed: bool = False,
    ) -> None:
        self.program = program
        self.target = target
        self.options = options
        self.on_stage: OnStage | None = on_stage if files is None else files.write
        self.files = files
        self.keep = keep
        self.timed = timed
        self.times: dict[str, float] = {}
        """How many seconds each stage took."""

    @property
    def check_bounds(self) -> bool:
        """Whether an index out of bounds is an error."""
        asked = self.options.check_bounds
        return is_untrusted(self.module) if asked is None else asked

    @property
    def has_default_schedule(self) -> bool:
        """Whether loops are scheduled by default."""
        options = self.options
        unchanged = options.checked or options.allow_alias
        return options.schedule and options.opt_level > 0 and not unchanged

    def show(self, name: str, module: IRModule) -> None:
        """Report the program after something that is not a pass."""
        if self.on_stage is not None:
            self.on_stage(name, module)
