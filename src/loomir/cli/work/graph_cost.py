"""Estimate the cost of a graph: the sum over its kernels, each by the number of its calls."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Final, NamedTuple

from loomir.cli.files.sizes import size_of
from loomir.ir.module import GlobalVar, IRModule
from loomir.ir.node import Node
from loomir.ir.op import Op
from loomir.ir.visit import pre_order
from loomir.relax.expr import Call, Function, If, PrimValue, Tuple
from loomir.relax.normal.normalize import normalize
from loomir.relax.shape import ShapeExpr
from loomir.relax.struct_info import TensorStructInfo, TupleStructInfo
from loomir.support.diagnostics import CompileError
from loomir.tir.analysis.cost import Cost, estimate_cost
from loomir.tir.expr import PrimExpr, Var
from loomir.tir.function import PrimFunc
from loomir.transform.pipelines import lower_relax, optimize_relax
from loomir.transform.relax import BindSymbolicVarsOptions, bind_symbolic_vars

__all__ = ["GraphCost", "KernelCost", "estimate_graph"]

_STORAGE: Final = "relax.memory.alloc_storage"


class KernelCost(NamedTuple):
    """A kernel, how often a call of the graph calls it, and the cost of each call."""

    name: str
    calls: int
    each: Cost

    @property
    def work(self) -> int:
        """The float operations of all calls."""
        return self.calls * (self.each.flops + self.each.math_calls)


class GraphCost(NamedTuple):
    """The cost of one call of a graph, and of each of its kernels."""

    total: Cost
    kernels: list[KernelCost]
    unknown: list[str]
    """Kernels that are not counted, since their sizes depend on data."""


class _Site(NamedTuple):
    """A kernel with the sizes of one call."""

    kernel: str
    sizes: tuple[tuple[str, int], ...]


class _Calls(NamedTuple):
    """The kernels that a call of a graph calls, and the bytes that the graph itself allocates."""

    sites: Counter[_Site]
    storage: int
    exact: bool


def estimate_graph(module: IRModule, name: str, sizes: Mapping[str, int]) -> GraphCost:
    """Estimate the cost of a call of a graph with given sizes.

    Both branches of an ``if`` count; a recursive function counts once.
    Errors: those of lowering.
    """
    bound = bind_symbolic_vars(normalize(module), BindSymbolicVarsOptions(sizes, name))
    low = lower_relax(optimize_relax(bound))
    calls = _count_calls(low, name)
    kernels: list[KernelCost] = []
    unknown: dict[str, None] = {}
    for site, times in calls.sites.items():
        func = low[site.kernel]
        assert isinstance(func, PrimFunc)
        try:
            kernels.append(KernelCost(site.kernel, times, estimate_cost(func, dict(site.sizes))))
        except CompileError:
            unknown[site.kernel] = None
    return GraphCost(_sum(kernels, calls), kernels, list(unknown))


def _count_calls(module: IRModule, name: str) -> _Calls:
    """Count the calls of kernels, through all graphs that the named one calls."""
    order, exact = _callers_first(module, name)
    times: Counter[str] = Counter({name: 1})
    sites: Counter[_Site] = Counter()
    storage = 0
    for caller in order:
        for part in pre_order(module[caller]):
            if isinstance(part, If):
                exact = False
            if not isinstance(part, Call):
                continue
            called = _find_callee(part)
            if called is None:
                if isinstance(part.op, Op) and part.op.name == _STORAGE:
                    storage += times[caller] * _bytes(part)
                continue
            func = module[called.name_hint]
            if isinstance(func, PrimFunc):
                sizes = tuple(_sizes(func, _arguments(part)).items())
                sites[_Site(called.name_hint, sizes)] += times[caller]
            else:
                times[called.name_hint] += times[caller]
    return _Calls(sites, storage, exact)


def _find_callee(call: Call) -> GlobalVar | None:
    """Return the called function of the module: directly, or by ``R.call_tir``."""
    callee = call.op if isinstance(call.op, GlobalVar) else call.args[0] if call.args else None
    return callee if isinstance(callee, GlobalVar) else None


def _arguments(call: Call) -> list[Node]:
    """List the arguments of a kernel, and the structural information of results that it writes."""
    if isinstance(call.op, GlobalVar):
        return [*call.args]
    found: list[Node] = []
    for part in (*call.args[1:], *call.sinfo_args):
        fields = part.fields if isinstance(part, (Tuple, TupleStructInfo)) else (part,)
        found += part.values if isinstance(part, ShapeExpr) else fields
    return found


def _sizes(func: PrimFunc, arguments: list[Node]) -> dict[str, int]:
    """Derive the sizes of a kernel from the shapes of its arguments, if these are numbers."""
    found: dict[str, int] = {}
    for param, argument in zip(func.params, arguments, strict=False):
        buffer = func.buffer_map.get(param)
        if buffer is None:
            value = argument.value if isinstance(argument, PrimValue) else argument
            known = size_of(value, {}) if isinstance(value, PrimExpr) else None
            if known is not None and param.dtype.is_integer:
                found[param.name_hint] = known
            continue
        info: object = getattr(argument, "struct_info", argument)
        dims = info.dims if isinstance(info, TensorStructInfo) else None
        for extent, dim in zip(buffer.shape, dims or (), strict=False):
            known = size_of(dim, {})
            if isinstance(extent, Var) and known is not None:
                found[extent.name_hint] = known
    return found


def _callers_first(module: IRModule, name: str) -> tuple[list[str], bool]:
    """Sort the graphs that a call runs, callers first; also tell whether none is recursive."""
    done: list[str] = []
    entered: set[str] = set()
    exact = True
    stack = [(name, False)]
    while stack:
        caller, left = stack.pop()
        if left:
            done.append(caller)
            continue
        if caller in entered:
            exact &= caller in done
            continue
        entered.add(caller)
        stack.append((caller, True))
        called = {part.name_hint for part in pre_order(module[caller]) if type(part) is GlobalVar}
        stack += [(each, False) for each in sorted(called) if isinstance(module[each], Function)]
    return done[::-1], exact


def _bytes(call: Call) -> int:
    shape = call.args[0]
    assert isinstance(shape, ShapeExpr)
    return size_of(shape.values[0], {}) or 0


def _sum(kernels: list[KernelCost], calls: _Calls) -> Cost:
    def total(field: str) -> int:
        return sum(kernel.calls * getattr(kernel.each, field) for kernel in kernels)

    most = max((kernel.each.bytes_allocated for kernel in kernels), default=0)
    return Cost(
        total("flops"),
        total("math_calls"),
        total("int_ops"),
        total("bytes_read"),
        total("bytes_written"),
        total("bytes_touched"),
        calls.storage + most,
        calls.exact and all(kernel.each.exact for kernel in kernels),
    )
