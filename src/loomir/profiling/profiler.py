"""Profile a program: its kernels record when they run, and their work is estimated."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping

from loomir.codegen.llvm.native_module import NativeModule
from loomir.codegen.llvm.timing import read_records
from loomir.deploy.tables import Tables
from loomir.runtime.report.profile import KernelCall, Profile, Roof, Work
from loomir.support.diagnostics import CompileError
from loomir.tir.analysis.cost import estimate_cost
from loomir.tir.function import PrimFunc

__all__ = ["LazyProfiler", "Profiler"]


class Profiler:
    """Compiled functions of timed kernels."""

    def __init__(
        self, functions: Mapping[str, Callable[..., object]], native: NativeModule, tables: Tables
    ) -> None:
        self._functions = functions
        self._native = native
        self._timed = tables.generated.timed
        self._kernels = {v.name_hint: f for v, f in tables.loops.functions.items()}
        self._work: dict[tuple[int, tuple[int, ...]], Work | None] = {}

    def run(self, name: str, args: tuple[object, ...], roof: Roof) -> Profile:
        """Call a function and read the records of its kernels."""
        buffer = self._native.records
        assert buffer is not None
        function = self._functions[name]
        self._native.prepare()  # else the first call would include code generation
        read_records(buffer, self._timed)  # drops records of an earlier, failed call
        start = time.perf_counter_ns()
        function(*args)
        end = time.perf_counter_ns()
        records, dropped = read_records(buffer, self._timed)
        calls: list[KernelCall] = []
        for record in records:
            kernel = self._timed[record.kernel]
            sizes = dict(zip(kernel.sizes, record.sizes, strict=True))
            key = (record.kernel, record.sizes)
            if key not in self._work:
                self._work[key] = self._estimate(kernel.name, sizes)
            calls.append(KernelCall(kernel.name, record.start, record.end, sizes, self._work[key]))
        return Profile(name, tuple(calls), start, end, roof, dropped > 0)

    def _estimate(self, name: str, sizes: Mapping[str, int]) -> Work | None:
        """Estimate the work of a call with these sizes; None if that is not possible."""
        func = self._kernels[name]
        assert isinstance(func, PrimFunc)
        try:
            cost = estimate_cost(func, sizes)
        except CompileError:
            return None
        return Work(cost.bytes_touched, cost.flops + cost.math_calls, cost.exact)


class LazyProfiler:
    """Compiles for profiling on first use; one call at a time."""

    def __init__(self, make: Callable[[], Profiler], roof: Callable[[], Roof]) -> None:
        self._make = make
        self._roof = roof
        self._lock = threading.Lock()
        self._made: Profiler | None = None

    def run(self, name: str, args: tuple[object, ...]) -> Profile:
        """Call a function; see ``Executable.profile``."""
        with self._lock:
            if self._made is None:
                self._made = self._make()
            return self._made.run(name, args, self._roof())
