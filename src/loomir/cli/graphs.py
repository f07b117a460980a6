"""Make inputs for graphs, and compare the results of engines and NumPy."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from types import ModuleType
from typing import Any, NamedTuple, cast

import numpy as np

from loomir.cli.compare import difference, random_array, random_scalar
from loomir.cli.files.sizes import require_whole, size_of
from loomir.cli.files.user_traceback import ask
from loomir.ir.module import IRModule
from loomir.ir.visit import Step, pre_order, trampoline
from loomir.relax.expr import Function, Var
from loomir.relax.node import StructInfo
from loomir.relax.struct_info import (
    PrimStructInfo,
    ShapeStructInfo,
    TensorStructInfo,
    TupleStructInfo,
)
from loomir.runtime.shape import Shape
from loomir.support.diagnostics import CompileError, Diagnostic
from loomir.support.dtype import dtype_of_numpy, numpy_of
from loomir.tir.expr import Var as SizeVar

__all__ = [
    "GraphOutcome",
    "call_graph_reference",
    "compare_graphs",
    "compare_values",
    "graph_inputs",
    "graph_names",
    "graph_sizes",
    "graphs_of",
    "run_graph",
]


class GraphOutcome(NamedTuple):
    """The results of a call: its arguments, which it may have written, and the returned value."""

    arguments: dict[str, Any]
    returned: Any


def graphs_of(program: object) -> dict[str, Function]:
    """List the graphs that can be called from outside, by name."""
    if isinstance(program, Function):
        return {program.name: program}
    if not isinstance(program, IRModule):
        return {}
    return {
        var.name_hint: f
        for var, f in program.functions.items()
        if isinstance(f, Function) and "global_symbol" in f.attrs
    }


def graph_names(func: Function) -> set[str]:
    """List the names that a graph's sizes and scalar arguments have."""
    scalars = {p.name_hint for p in func.params if isinstance(p.struct_info, PrimStructInfo)}
    return scalars | {v.name_hint for v in _variables(func)}


def _variables(func: Function) -> Iterator[SizeVar]:
    for param in func.params:
        for part in pre_order(param.struct_info):
            if isinstance(part, SizeVar):
                yield part


def graph_sizes(func: Function, given: Mapping[str, int | float]) -> dict[str, int]:
    """Return a size for each shape variable of a graph's parameters: the given one, or 64.

    Errors: CLI0003 for a value that is no integer.
    """
    return {
        v.name_hint: require_whole(v.name_hint, given.get(v.name_hint, 64))
        for v in _variables(func)
    }


def graph_inputs(
    func: Function, sizes: Mapping[str, int], given: Mapping[str, object], seed: int
) -> list[object]:
    """Return arguments: those given by name, and others drawn at random.

    Errors: CLI0003 if there is not enough memory, CLI0008 for a value that cannot be drawn.
    """
    rng = np.random.default_rng(seed)
    env = {v: sizes[v.name_hint] for v in _variables(func)}
    made: dict[Var, object] = {}
    for param in func.params:
        name = param.name_hint
        if name in given:
            made[param] = given[name]
        else:
            made[param] = trampoline(_input(param.struct_info, name, env, made, rng))
    return list(made.values())


def _input(
    info: StructInfo,
    name: str,
    env: Mapping[SizeVar, int],
    before: Mapping[Var, object],
    rng: np.random.Generator,
) -> Step[object]:
    if isinstance(info, TupleStructInfo):
        fields: list[object] = []
        for index, field in enumerate(info.fields):
            fields.append((yield _input(field, f"{name}[{index}]", env, before, rng)))
        return tuple(fields)
    if isinstance(info, PrimStructInfo):
        number = None if info.value is None else size_of(info.value, env)
        if number is None:
            number = random_scalar(info.dtype, rng)
        return numpy_of(info.dtype).type(number)
    dims = info.values if isinstance(info, ShapeStructInfo) else None
    if isinstance(info, TensorStructInfo):
        shape = before.get(info.shape) if isinstance(info.shape, Var) else None
        if isinstance(shape, Shape) and info.dtype.is_scalar:
            return random_array(name, info.dtype, shape, rng)
        dims = info.dims
    if dims is None or (isinstance(info, TensorStructInfo) and not info.dtype.is_scalar):
        raise _unknown(name)
    shape = [size_of(dim, env) or 0 for dim in dims]
    if isinstance(info, ShapeStructInfo):
        return Shape(shape)
    return random_array(name, cast("TensorStructInfo", info).dtype, shape, rng)


def _unknown(name: str) -> CompileError:
    return CompileError(
        Diagnostic(
            "CLI0008",
            f"no value can be drawn for {name}: its annotation leaves too much open",
            help="define inputs(rng, **sizes) in the file, which returns arguments by name",
        )
    )


def run_graph(
    func: Function, call: Callable[..., object], arguments: Sequence[object]
) -> GraphOutcome:
    """Call with copies of the arguments."""
    copies = [_copy_value(a) for a in arguments]
    returned = call(*copies)
    names = [p.name_hint for p in func.params]
    return GraphOutcome(dict(zip(names, copies, strict=True)), returned)


def _copy_value(value: object) -> object:
    return trampoline(_copy(value))


def _copy(value: Any) -> Step[Any]:
    if isinstance(value, np.ndarray):
        return np.array(cast("Any", value))
    if not isinstance(value, tuple) or isinstance(value, Shape):
        return value
    fields: list[object] = []
    for field in cast("tuple[object, ...]", value):
        fields.append((yield _copy(field)))
    return tuple(fields)


def call_graph_reference(module: ModuleType, name: str, arguments: Sequence[object]) -> Any:
    """Call the file's NumPy reference, ``NAME_reference`` or ``reference``, for the result.

    Returns a tuple with the result; an empty one if the file has no reference.
    """
    reference = getattr(module, f"{name}_reference", None) or getattr(module, "reference", None)
    return (
        () if reference is None else (ask(module, reference, *[_copy_value(a) for a in arguments]),)
    )


def compare_graphs(got: GraphOutcome, wanted: GraphOutcome) -> str | None:
    """Describe where two outcomes differ; None if they agree up to the order of sums."""
    found = compare_values(got.returned, wanted.returned, "the result")
    for name, value in got.arguments.items():
        found = found or compare_values(value, wanted.arguments[name], name)
    return found


def compare_values(got: Any, wanted: Any, name: str) -> str | None:
    """Describe where two values differ; NaNs are equal, floats may differ in the last places."""
    return trampoline(_compare(got, wanted, name))


def _is_tuple(value: object) -> bool:
    return isinstance(value, tuple) and not isinstance(value, Shape)


def _is_numeric(value: object) -> bool:
    return isinstance(value, (np.ndarray, np.generic))


def _compare(got: Any, wanted: Any, name: str) -> Step[str | None]:
    if _is_tuple(got) and _is_tuple(wanted):
        if len(got) != len(wanted):
            return f"{name} is {got}, expected {wanted}"
        for index, (a, b) in enumerate(zip(got, wanted, strict=True)):
            found = yield _compare(a, b, f"{name}[{index}]")
            if found is not None:
                return found
        return None
    if not _is_numeric(got):
        same = got is wanted or (type(got) is type(wanted) and got == wanted)
        return None if same or callable(got) else f"{name} is {got}, expected {wanted}"
    a: Any = np.asarray(got)
    b: Any = np.asarray(wanted)
    if a.shape != b.shape:
        return f"{name} has shape {a.shape}, expected {b.shape}"
    dtype = dtype_of_numpy(a.dtype)
    assert dtype is not None
    where = difference(np.atleast_1d(a), np.atleast_1d(b), dtype, exact=False, math=False)
    if where is None:
        return None
    index = tuple(int(i) for i in where)[: a.ndim]
    return f"{name}[{', '.join(map(str, index))}] is {a[index]}, expected {b[index]}"
