"""Operators, casts and builtins, on all dtypes, as scalars and as vectors."""

from __future__ import annotations

import itertools
import sys

import numpy as np
import pytest

from loomir.codegen.llvm.jit.engine import Passes
from loomir.support.dtype import BOOL, DataType
from loomir.tir import expr as e
from loomir.tir.buffer import Buffer
from loomir.tir.builtins.table import BUILTINS, AcceptedDTypes, call_builtin
from loomir.tir.expr import Broadcast, Cast, FloatImm, IntImm, PrimExpr, Ramp, Var
from loomir.tir.stmt import Evaluate, SeqStmt, Stmt
from tests.clause import clauses
from tests.codegen.llvm.tir.compare_engines import check, flat, func, get, i64, loop, put, values_of

INTEGERS = [f"{s}int{b}" for s in ("", "u") for b in (8, 16, 32, 64)]
FLOATS = ["float16", "bfloat16", "float32", "float64"]
NUMBERS = [*INTEGERS, *FLOATS]
COUNT = 96

DIVISIONS = (e.Div, e.Mod, e.FloorDiv, e.FloorMod)
SAFE = (e.Add, e.Sub, e.Mul, e.Min, e.Max)
COMPARISONS = (e.Eq, e.NE, e.LT, e.LE, e.GT, e.GE)


def pairs(dtype: str) -> tuple[np.ndarray, np.ndarray]:
    """Return operands among which the edges meet one another."""
    edges = values_of(dtype, 14, seed=1)
    crossed = list(itertools.product(edges, edges))
    more = zip(values_of(dtype, COUNT, seed=2), values_of(dtype, COUNT, seed=3), strict=True)
    both = [*crossed, *more]
    both = both[: len(both) // 16 * 16]
    return np.array([a for a, _ in both], edges.dtype), np.array([b for _, b in both], edges.dtype)


def elementwise(
    count: int, ins: list[Buffer], outs: list[tuple[Buffer, object]], lanes: int
) -> Stmt:
    """Store ``make(*elements)`` for each output, lane by lane or in vectors."""

    def body(i: Var) -> Stmt:
        index: PrimExpr = i if lanes == 1 else Ramp(i * i64(lanes), i64(1), lanes)
        values = [get(b, index) for b in ins]
        stores = [put(b, index, make(*values)) for b, make in outs]  # type: ignore[operator]
        return stores[0] if len(stores) == 1 else SeqStmt(tuple(stores))

    return loop(count // lanes, body)


@pytest.mark.parametrize("lanes", [1, 8])
@pytest.mark.parametrize("dtype", NUMBERS)
@clauses("TIR-EVAL-13")
def test_arithmetic_and_comparisons(dtype: str, lanes: int) -> None:
    a, b = pairs(dtype)
    n = len(a)
    ins = [flat("A", n, dtype), flat("B", n, dtype)]
    kinds = [*SAFE, *([e.Div, e.FloorDiv, e.FloorMod] if DataType(dtype).is_float else [])]
    outs = [(flat(f"C{i}", n, dtype), k) for i, k in enumerate(kinds)]
    truths = [(flat(f"D{i}", n, "bool"), k) for i, k in enumerate(COMPARISONS)]
    body = elementwise(n, ins, [*outs, *truths], lanes)
    blank = [np.zeros(n, a.dtype) for _ in outs] + [np.zeros(n, bool) for _ in truths]
    check(func("main", [*ins, *[b for b, _ in (*outs, *truths)]], body), a, b, *blank)


@pytest.mark.parametrize("lanes", [1, 4])
@pytest.mark.parametrize("dtype", [*INTEGERS, "bool"])
def test_division_of_integers(dtype: str, lanes: int) -> None:
    a, b = pairs(dtype)
    b[b == 0] = 1
    n = len(a)
    ins = [flat("A", n, dtype), flat("B", n, dtype)]
    outs = [(flat(f"C{i}", n, dtype), k) for i, k in enumerate(DIVISIONS)]
    f = func("main", [*ins, *[b for b, _ in outs]], elementwise(n, ins, outs, lanes))
    check(f, a, b, *[np.zeros(n, a.dtype) for _ in outs])


@pytest.mark.parametrize("lanes", [1, 4])
@pytest.mark.parametrize("dtype", ["int8", "int64", "uint32"])
def test_division_by_constants(dtype: str, lanes: int) -> None:
    kind = DataType(dtype)
    a, _ = pairs(dtype)
    n = len(a)
    ins = [flat("A", n, dtype)]
    divisors = [1, 2, 3, 8, 10, 64, kind.max_value]
    divisors += [-1, -2, -3, -16, kind.min_value] if kind.is_int else []
    outs = []
    for i, (k, d) in enumerate(itertools.product(DIVISIONS, divisors)):

        def make(x: PrimExpr, k: type = k, d: int = d) -> PrimExpr:
            return k(x, e.const(d, x.dtype))

        outs.append((flat(f"C{i}", n, dtype), make))
    f = func("main", [*ins, *[b for b, _ in outs]], elementwise(n, ins, outs, lanes))
    check(f, a, *[np.zeros(n, a.dtype) for _ in outs])


@pytest.mark.parametrize("lanes", [1, 4])
@pytest.mark.parametrize("kind", DIVISIONS)
@pytest.mark.parametrize("dtype", ["int8", "uint32", "int64", "bool"])
def test_division_by_zero_is_an_error(kind: type, dtype: str, lanes: int) -> None:
    a, b = np.ones(8, DataType(dtype) and _numpy(dtype)), np.ones(8, _numpy(dtype))
    b[6] = 0
    ins = [flat("A", 8, dtype), flat("B", 8, dtype)]
    out = (flat("C", 8, dtype), kind)
    f = func("main", [*ins, out[0]], elementwise(8, ins, [out], lanes))
    found = check(f, a, b, np.zeros(8, a.dtype))
    assert isinstance(found, list)
    assert found[0][0] == "RunZeroDivisionError"


def _numpy(dtype: str) -> type:
    return bool if dtype == "bool" else getattr(np, dtype)


@pytest.mark.parametrize("lanes", [1, 8])
@pytest.mark.parametrize("source", [*NUMBERS, "bool"])
def test_casts(source: str, lanes: int) -> None:
    a = values_of(source, 128, seed=5)
    ins = [flat("A", 128, source)]
    outs = []
    for target in (*NUMBERS, "bool"):

        def make(x: PrimExpr, target: str = target) -> PrimExpr:
            return Cast(x, DataType(target).with_lanes(x.dtype.lanes))

        outs.append((flat(f"to_{target}", 128, target), make))
    f = func("main", [*ins, *[b for b, _ in outs]], elementwise(128, ins, outs, lanes))
    check(f, a, *[np.zeros(128, values_of(str(b.dtype), 1).dtype) for b, _ in outs])


EXACT = [
    *("sqrt", "floor", "ceil", "trunc", "round", "nearbyint", "fma", "copysign", "abs"),
    *("isnan", "isinf", "isfinite", "bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_not"),
    *("shift_left", "shift_right", "popcount", "clz", "likely"),
]


def dtypes_of(name: str) -> list[str]:
    accepts = BUILTINS[name].accepts
    if accepts is AcceptedDTypes.FLOAT:
        return FLOATS
    if accepts is AcceptedDTypes.INTEGER:
        return INTEGERS
    if accepts is AcceptedDTypes.BITS:
        return [*INTEGERS, "bool"]
    return ["bool"] if accepts is AcceptedDTypes.TRUTH else NUMBERS


@pytest.mark.parametrize("lanes", [1, 8])
@pytest.mark.parametrize("name", EXACT)
def test_builtins_that_are_exact(name: str, lanes: int) -> None:
    arity = BUILTINS[name].arity or 1
    for dtype in dtypes_of(name):
        arrays = [values_of(dtype, 128, seed=s) for s in range(arity)]
        ins = [flat(f"A{i}", 128, dtype) for i in range(arity)]
        element = call_builtin(name, *[get(b, 0) for b in ins]).dtype
        out = (flat("C", 128, element), lambda *x, name=name: call_builtin(name, *x))
        f = func("main", [*ins, out[0]], elementwise(128, ins, [out], lanes))
        check(f, *arrays, np.zeros(128, values_of(str(element), 1).dtype), passes=Passes.FEW)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_fma_of_short_floats_rounds_once(dtype: str) -> None:
    kind = values_of(dtype, 1).dtype
    # A product that is a tie of the result, and an addend too small to be seen but for rounding.
    tie = {"float16": (1.0 + 2**-10, 1.0 + 2**-10), "bfloat16": (1.0 + 2**-7, 1.0 + 2**-7)}[dtype]
    rng = np.random.default_rng(7)
    a = np.concatenate([[tie[0]] * 4, rng.standard_normal(508)]).astype(kind)
    b = np.concatenate([[tie[1]] * 4, rng.standard_normal(508) * 100]).astype(kind)
    small = 2.0**-24 if dtype == "float16" else 2.0**-100
    c = np.concatenate([[small, -small, 0, 1], rng.standard_normal(508) * 1e-3]).astype(kind)
    ins = [flat(x, 512, dtype) for x in "ABC"]
    out = (flat("D", 512, dtype), lambda *x: call_builtin("fma", *x))
    f = func("main", [*ins, out[0]], elementwise(512, ins, [out], 1))
    check(f, a, b, c, np.zeros(512, kind))


@pytest.mark.parametrize(
    ("source", "target"),
    [("float32", "int32"), ("int32", "float32"), ("uint64", "float64"), ("float16", "int16")]
    + [("bfloat16", "uint16"), ("uint16", "bfloat16"), ("float16", "bfloat16"), ("int8", "uint8")],
)
def test_reinterpret(source: str, target: str) -> None:
    a = values_of(source, 32)
    ins, out = [flat("A", 32, source)], flat("B", 32, target)
    make = lambda x: call_builtin("reinterpret", x, dtype=DataType(target))  # noqa: E731
    f = func("main", [*ins, out], elementwise(32, ins, [(out, make)], 1))
    check(f, a, np.zeros(32, values_of(target, 1).dtype))


@pytest.mark.parametrize("lanes", [2, 3, 4, 8, 16, 32, 64])
def test_every_number_of_lanes(lanes: int) -> None:
    for dtype in ("int8", "float16", "bfloat16", "float32", "int64", "bool"):
        n = lanes * 3
        a, b = values_of(dtype, n, 1), values_of(dtype, n, 2)
        ins, out = [flat("A", n, dtype), flat("B", n, dtype)], flat("C", n, dtype)

        def make(x: PrimExpr, y: PrimExpr) -> PrimExpr:
            chosen = e.Select(e.LT(x, y), x, y)
            return e.Shuffle((chosen, y), tuple(i64(i * 2) for i in range(x.dtype.lanes)))

        f = func("main", [*ins, out], elementwise(n, ins, [(out, make)], lanes))
        check(f, a, b, np.zeros(n, a.dtype))


@pytest.mark.parametrize("dtype", FLOATS)
def test_float_constants(dtype: str) -> None:
    kind = DataType(dtype)
    values = [0.1, -0.0, 1 / 3, kind.max_finite, float("inf"), float("nan"), 1e-7, 6e-8, 1e-40]
    values += [1 + 2**-8, 1 + 3 * 2**-8, 1 + 2**-8 + 2**-40, 1 + 2**-11, 2.0**-133, 2.0**-134 * 1.1]
    out = flat("A", len(values), dtype)
    body = SeqStmt(tuple(put(out, i, FloatImm(v, kind)) for i, v in enumerate(values)))
    check(func("main", [out], body), np.zeros(len(values), values_of(dtype, 1).dtype))


def test_integer_constants() -> None:
    for dtype in INTEGERS:
        kind = DataType(dtype)
        values = [kind.min_value, kind.max_value, 0, 1]
        out = flat("A", 4, dtype)
        body = SeqStmt(tuple(put(out, i, IntImm(v, kind)) for i, v in enumerate(values)))
        check(func("main", [out], body), np.zeros(4, values_of(dtype, 1).dtype))


def test_let_and_broadcast() -> None:
    a, out = flat("A", 4), flat("B", 8)
    x = Var("x", "float32")
    value = e.Let(x, get(a, 2), Broadcast(x * x, 8))
    body = put(out, Ramp(i64(0), i64(1), 8), value)
    check(func("main", [a, out], body), values_of("float32", 4), np.zeros(8, np.float32))


def test_deep_expressions_do_not_exhaust_the_stack() -> None:
    a = flat("A", 1, "int32")
    value: PrimExpr = get(a, 0)
    for i in range(5 * sys.getrecursionlimit()):
        value = value + i if i % 3 else e.Max(value, IntImm(i, DataType("int32")))
    check(func("main", [a], put(a, 0, value)), np.array([3], np.int32))


def test_bool_memory_takes_any_nonzero_byte_for_true() -> None:
    a, out = flat("A", 8, "bool"), flat("B", 8, "bool")
    f = func("main", [a, out], loop(8, lambda i: put(out, i, e.Not(e.Not(get(a, i))))))
    raw = np.array([0, 1, 2, 128, 255, 0, 7, 64], np.uint8).view(bool)
    _, got = check(f, raw, np.zeros(8, bool))  # type: ignore[misc]
    assert got.view(np.uint8).tolist() == [0, 1, 1, 1, 1, 0, 1, 1]


def test_evaluate_drops_the_value() -> None:
    check(func("main", [], Evaluate(i64(1) + i64(2))))


def test_strings_are_addresses() -> None:
    # A handle cannot be looked at, but passing one must compile.
    check(func("main", [], Evaluate(e.StringImm('a "quoted" \\ text\n'))))


def test_scalar_results_of_every_dtype() -> None:
    for dtype in (*NUMBERS, "bool"):
        a = values_of(dtype, 16)
        buffer, index = flat("A", 16, dtype), Var("k", "int64")
        body = Evaluate(call_builtin("ret", get(buffer, index)))
        for k in range(16):
            check(func("main", [buffer, index], body), a, k)


def test_bool_operators() -> None:
    a, b = np.array([0, 0, 1, 1], bool), np.array([0, 1, 0, 1], bool)
    for lanes, kind in itertools.product((1, 4), (e.And, e.Or, *SAFE, *COMPARISONS)):
        ins, out = [flat("A", 4, BOOL), flat("B", 4, BOOL)], (flat("C", 4, BOOL), kind)
        f = func("main", [*ins, out[0]], elementwise(4, ins, [out], lanes))
        check(f, a, b, np.zeros(4, bool))
