"""Constructs other than operators: branches, functions, closures, recursion, kernels, tuples."""

from __future__ import annotations

from typing import Any

from fuzz.relax.grow import DTYPES, Entry, Grower, op
from fuzz.relax.kernels import KERNEL_STEPS
from fuzz.relax.ops import OPERATOR_STEPS, field_of
from loomir.interp.relax.values import Environment
from loomir.relax import (
    Call,
    Constant,
    FuncStructInfo,
    Function,
    If,
    ObjectStructInfo,
    SeqExpr,
    TensorStructInfo,
    Tuple,
    Var,
    VarBinding,
)
from loomir.tir import IntImm
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
    seqs = []
    wanted: Entry | None = None
    failing, g.failing = g.failing, 0.0
    for _ in range(2):
        with g.scope():
            g.builder.begin_scope()
            for _ in range(g.choices.integer(0, 3)):
                if g.choices.chance(0.2):
                    g.choices.weighted(KERNEL_STEPS)(g, [])
                else:
                    g.choices.weighted(OPERATOR_STEPS)(g)
            vague = wanted is not None and g.choices.chance(0.3)
            result = _like(g, wanted) if wanted is not None and not vague else g.tensor()
            wanted = result if result is not None else g.constant((2,), "int32")
            seqs.append(g.builder.end_scope(wanted.leaf))
    g.failing = failing
    return g.bind(If(cond.leaf, seqs[0], seqs[1]), what="If")


def _like(g: Grower, wanted: Entry) -> Entry:
    """Return a tensor of the same shape and dtype."""
    shape, dtype = wanted.value.shape, wanted.dtype
    found = g.tensor(lambda e: e.value.shape == shape and e.dtype is dtype)
    return found if found is not None else g.constant(shape, str(dtype))


def call_function(g: Grower, functions: list[Any]) -> Entry | None:
    """Call a private function of the module."""
    if not functions:
        return None
    var, infos = g.choices.pick(functions)
    args = arguments(g, infos)
    call = Call(var, tuple(a.leaf for a in args))
    return g.bind(call, what="call function", may_fail=False)


def arguments(g: Grower, infos: list[TensorStructInfo]) -> list[Entry]:
    """Find or make tensors for parameters, with one value for each size."""
    sizes: dict[Any, int] = {}
    made = []
    for info in infos:
        dims = list(info.dims or ())
        wanted = [d.value if isinstance(d, IntImm) else None for d in dims]

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
    with g.scope(), g.strictly():
        g.builder.begin_scope([param])
        g.frame.values[param] = model.value
        g.entries.append(Entry(param, model.value))
        for _ in range(g.choices.integer(1, 3)):
            g.choices.weighted(OPERATOR_STEPS)(g)
        result = g.choices.pick(g.tensors()[-3:])
        body = g.builder.end_scope(result.leaf)
    made = g.bind(Function((param,), body), what="closure")
    if made is None:
        return None
    return called(g, made, [param.struct_info])


def called(g: Grower, made: Entry, infos: list[Any]) -> Entry | None:
    """Call a closure, and keep it for the result of the program."""
    g.entries.remove(made)
    args = arguments(g, infos)
    g.closures.append((made, tuple(a.value for a in args)))
    if g.choices.chance(0.2):
        return None
    return g.bind(Call(made.leaf, tuple(a.leaf for a in args)), what="call closure", may_fail=False)


def partial(g: Grower, functions: list[Any]) -> Entry | None:
    """Bind a function of the module with its last arguments given."""
    if not functions:
        return None
    var, infos = g.choices.pick(functions)
    args = arguments(g, infos)
    first = g.choices.integer(0, len(args))
    fixed = Tuple(tuple(a.leaf for a in args[first:]))
    made = g.bind(op("make_closure").call(var, fixed), what="make_closure")
    if made is None:
        return None
    g.entries.remove(made)
    rest = Tuple(tuple(a.leaf for a in args[:first]))
    claim = ObjectStructInfo()
    name = "invoke_closure" if g.impure and g.choices.chance(0.5) else "invoke_pure_closure"
    result = g.bind(op(name).call(made.leaf, rest, sinfo_args=claim), what=name, may_fail=False)
    if result is None or not result.is_tensor:
        return result
    return g.cast(result, result.value.shape)


def recursive_closure(g: Grower, functions: list[Any]) -> Entry | None:
    """Bind a function that calls itself by its own variable, and call it."""
    del functions
    dtype = g.choices.pick(["int32", "float32", "int64"])
    info = TensorStructInfo((g.choices.integer(1, 3),), dtype)
    count = TensorStructInfo((), "int8")
    kind = FuncStructInfo((count, info), info)
    f, i, x = Var("f", kind), Var("i", count), Var("x", info)
    outer = g.tensor(lambda e: e.info == info or (e.known and _same(e, info)))
    other = outer.leaf if outer is not None else Constant(g.array((1,), dtype, -2, 2))
    again = Call(f, (_minus(g, i), op(g.choices.pick(_STEPS)).call(x, other)))
    positive = op("greater").call(i, Constant(g.array((), "int8", 0, 0)))
    func = Function((i, x), SeqExpr((), If(positive, SeqExpr((), again), SeqExpr((), x))), info)
    g.builder.emit_binding(VarBinding(f, func))
    made = g.builder.lookup_binding(f)
    if not isinstance(made, Function):
        g.refused.append("recursive closure")
        return None
    g.made.append("recursive closure")
    entry = Entry(f, g.machine.closure(made, g.frame, f))
    g.frame.values[f] = entry.value
    g.entries.append(entry)
    return called(g, entry, [count, info])


_STEPS = ["add", "multiply", "maximum", "subtract"]


def _minus(g: Grower, i: Var) -> Call:
    return op("subtract").call(i, Constant(g.array((), "int8", 2, 2)))


def _same(entry: Entry, info: TensorStructInfo) -> bool:
    dims = tuple(int(getattr(d, "value", -1)) for d in info.dims or ())
    return entry.value.shape == dims and entry.dtype is info.dtype


# -- functions of the module -------------------------------------------------------------------
def define_functions(g: Grower) -> list[Any]:
    """Make private functions, some of which call themselves."""
    made = []
    for number in range(g.choices.integer(0, 2)):
        maker = recursive if g.choices.chance(0.4) else straight
        made.append(maker(g, f"f{number}"))
    g.refresh()
    g.entries, g.frame, g.records, g.dims = [], Environment("main"), [], []
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
    g.entries, g.frame = [], Environment(name)
    g.dims = []
    params = [p for p, _ in _signature(g)]
    with g.strictly(), g.builder.function(name, params, private=True):
        flow = g.choices.chance(0.5)
        if flow:
            g.builder.begin_dataflow_block()
        for _ in range(g.choices.integer(1, 4)):
            g.choices.weighted(OPERATOR_STEPS)(g)
        if flow:
            g.end_block()
        result = g.entries[-1]
        var = g.builder.emit_func_output(result.leaf)
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
    less = b.emit(_minus(g, i))
    step = g.choices.pick(_STEPS)
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
    (0.5, recursive_closure),
    (0.5, partial),
    (3.0, lambda g, functions: g.choices.weighted(KERNEL_STEPS)(g, functions)),
]
"""Ways to go on with something else."""
