"""What is not an operator: branches, functions, closures, recursion, kernels, tuples."""

from __future__ import annotations

from typing import Any

from fuzz.rxgrow import DTYPES, Entry, Grower, op
from fuzz.rxops import OPERATOR_STEPS, field_of
from loomir.interp.relax_values import Frame
from loomir.relax import (
    Call,
    Constant,
    FuncStructInfo,
    Function,
    If,
    TensorStructInfo,
    Tuple,
    Var,
)
from loomir.tir import Var as ShapeVar

__all__ = ["CONSTRUCT_STEPS", "define_functions"]


def tuples(g: Grower, functions: list[Any]) -> Entry | None:
    """Make a tuple, perhaps of tuples, and take a field."""
    del functions
    fields = [g.choices.pick(g.entries) for _ in range(g.choices.integer(1, 3))]
    made = g.bind(Tuple(tuple(f.leaf for f in fields)), [f.tolerance for f in fields], "Tuple")
    return field_of(g, made) if made is not None and g.choices.chance(0.7) else made


def condition(g: Grower) -> Entry | None:
    """Find or make a boolean of rank 0."""
    found = g.tensor(lambda e: e.dtype.is_bool and e.value.ndim == 0)
    if found is not None and g.choices.chance(0.5):
        return found
    entry = g.tensor(lambda e: not e.dtype.is_bool and e.value.size > 0)
    if entry is None:
        return g.constant((), "bool")
    small = g.call("max", entry)
    if small is None:
        return g.constant((), "bool")
    return g.call("greater", small, g.constant((), str(entry.dtype), 0, 3))


def branch(g: Grower, functions: list[Any]) -> Entry | None:
    """Bind one of two results, by a condition."""
    del functions
    cond = condition(g)
    if cond is None:
        return None
    seqs, results = [], []
    outer = list(g.entries)
    wanted: Entry | None = None
    for _ in range(2):
        g.builder.begin_scope()
        for _ in range(g.choices.integer(0, 3)):
            g.choices.weighted(OPERATOR_STEPS)(g)
        result = _like(g, wanted) if wanted is not None else g.tensor()
        if result is None:
            result = g.constant((2,), "int32")
        leaf = result.leaf
        results.append(result)
        seqs.append(g.builder.end_scope(leaf))
        wanted = result
        g.entries = list(outer)
    return g.bind(If(cond.leaf, seqs[0], seqs[1]), what="If")


def _like(g: Grower, wanted: Entry) -> Entry:
    """Give a tensor of the same shape and dtype."""
    shape, dtype = wanted.value.shape, wanted.dtype
    found = g.tensor(lambda e: e.value.shape == shape and e.dtype is dtype)
    return found if found is not None else g.constant(shape, str(dtype))


def call_function(g: Grower, functions: list[Any]) -> Entry | None:
    """Call a private function of the module."""
    if not functions:
        return None
    var, infos = g.choices.pick(functions)
    args = arguments(g, infos)
    return g.bind(Call(var, tuple(a.leaf for a in args)), what="call function")


def arguments(g: Grower, infos: list[TensorStructInfo]) -> list[Entry]:
    """Find or make tensors for parameters, with one value for each size."""
    sizes: dict[Any, int] = {}
    made = []
    for info in infos:
        dims = list(info.dims or ())
        wanted = [None if isinstance(d, ShapeVar) else int(d.value) for d in dims]

        def fits(e: Entry, info: Any = info, dims: Any = dims, wanted: Any = wanted) -> bool:
            if e.dtype is not info.dtype or e.value.ndim != len(dims):
                return False
            seen = dict(sizes)
            return all(
                n == (seen.setdefault(d, n) if w is None else w)
                for d, w, n in zip(dims, wanted, e.value.shape)
            )

        found = g.tensor(fits)
        if found is None or g.choices.chance(0.1):
            shape = [
                sizes.setdefault(d, g.choices.integer(0, 3)) if w is None else w
                for d, w in zip(dims, wanted)
            ]
            found = g.constant(shape, str(info.dtype))
        sizes.update({d: n for d, n in zip(dims, found.value.shape) if isinstance(d, ShapeVar)})
        made.append(found)
    return made


def closure(g: Grower, functions: list[Any]) -> Entry | None:
    """Bind a function that uses what is around it, and call it."""
    del functions
    model = g.tensor()
    if model is None or not model.known:
        return None
    param = Var("p", TensorStructInfo(model.value.shape, model.dtype))
    outer = list(g.entries)
    exact, g.exact_only = g.exact_only, True
    failing, g.failing = g.failing, 0.0
    g.builder.begin_scope([param])
    g.frame.values[param] = model.value
    g.entries = [*outer, Entry(param, model.value)]
    for _ in range(g.choices.integer(1, 3)):
        g.choices.weighted(OPERATOR_STEPS)(g)
    result = g.choices.pick(g.tensors()[-3:])
    body = g.builder.end_scope(result.leaf)
    g.entries = outer
    g.exact_only, g.failing = exact, failing
    made = g.bind(Function((param,), body), what="closure")
    if made is None:
        return None
    g.entries.remove(made)
    args = arguments(g, [param.struct_info])  # type: ignore[list-item]
    return g.bind(Call(made.leaf, tuple(a.leaf for a in args)), what="call closure")


# -- functions of the module -------------------------------------------------------------------
def define_functions(g: Grower) -> list[Any]:
    """Make private functions, some of which call themselves."""
    made = []
    for number in range(g.choices.integer(0, 2)):
        maker = recursive if g.choices.chance(0.4) else straight
        made.append(maker(g, f"f{number}"))
    g.refresh()
    g.entries, g.frame, g.records = [], Frame("main"), []
    return made


def _signature(g: Grower) -> list[tuple[Var, Entry]]:
    dims = [ShapeVar(n, "int64") for n in "ab"]
    sizes = {d: g.choices.integer(1, 3) for d in dims}
    params = []
    for number in range(g.choices.integer(1, 2)):
        shape: list[Any] = [
            g.choices.pick(dims) if g.choices.chance(0.4) else g.choices.integer(1, 3)
            for _ in range(g.choices.integer(0, 2))
        ]
        dtype = g.choices.weighted(DTYPES)
        value = g.array([sizes[d] if isinstance(d, ShapeVar) else d for d in shape], dtype, 1, 3)
        params.append(g.parameter(f"p{number}", TensorStructInfo(tuple(shape), dtype), value))
    return params


def straight(g: Grower, name: str) -> tuple[Any, list[Any]]:
    """Make a function of some bindings."""
    g.entries, g.frame = [], Frame(name)
    exact, g.exact_only = g.exact_only, True
    failing, g.failing = g.failing, 0.0
    params = [p for p, _ in _signature(g)]
    with g.builder.function(name, params, private=True):
        flow = g.choices.chance(0.5)
        if flow:
            g.builder.begin_dataflow_block()
        for _ in range(g.choices.integer(1, 4)):
            g.choices.weighted(OPERATOR_STEPS)(g)
        if flow:
            g.end_block()
        result = g.entries[-1]
        var = g.builder.emit_func_output(result.leaf)
    g.exact_only, g.failing = exact, failing
    return var, [p.struct_info for p in params]


def recursive(g: Grower, name: str) -> tuple[Any, list[Any]]:
    """Make a function that applies a step as often as its first argument says."""
    dtype = g.choices.pick(["int32", "float32", "int64"])
    info = TensorStructInfo((g.choices.integer(1, 3), ShapeVar("a", "int64")), dtype)
    count = TensorStructInfo((), "int8")
    x, i = Var("x", info), Var("i", count)
    var = g.builder.declare(name, FuncStructInfo((count, info), info))
    b = g.builder
    b.begin_scope([i, x])
    cond = b.emit(op("greater").call(i, Constant(g.array((), "int8", 0, 0))))
    b.begin_scope()
    less = b.emit(op("subtract").call(i, Constant(g.array((), "int8", 2, 2))))
    step = g.choices.pick(["add", "multiply", "maximum", "subtract"])
    other = x if g.choices.chance(0.3) else Constant(g.array((1,), dtype, -2, 2))
    y = b.emit(op(step).call(x, other))
    again = b.emit(Call(var, (less, y)))
    yes = b.end_scope(again)
    b.begin_scope()
    no = b.end_scope(x)
    result = b.emit(If(cond, yes, no))
    body = b.end_scope(result)
    b.update_func(var, Function((i, x), body, info))
    g.made.append("recursion")
    return var, [count, info]


CONSTRUCT_STEPS = [
    (1.0, tuples),
    (1.5, branch),
    (1.5, call_function),
    (1.0, closure),
]
"""Ways to go on with something else."""
