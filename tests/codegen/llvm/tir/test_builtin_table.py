"""Every row of the table of builtins: it prints and is read, and both engines agree on it.

A row that nothing here covers fails, so that a builtin comes with all that it needs.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

import loomir
from loomir.codegen.llvm.jit.engine import Passes
from loomir.codegen.llvm.tir.builtins import OPS
from loomir.interp import TOLERANCE, interpret
from loomir.interp.builtins import CONTROL, builtin_function
from loomir.interp.tir.vector_builtins import SPECIAL
from loomir.ir.equality import structural_equal
from loomir.ir.module import IRModule
from loomir.ir.op import Effect
from loomir.ir.visit import pre_order
from loomir.script import from_source
from loomir.support.diagnostics import RunError
from loomir.support.dtype import DataType, numpy_of
from loomir.tir.builtins.table import BUILTINS, FAMILIES, AcceptedDTypes, call_builtin
from loomir.tir.expr import Call, IntImm, PrimExpr, Ramp
from loomir.tir.function import PrimFunc
from loomir.transform import LowerOptions, lower
from tests.clause import clauses
from tests.codegen.llvm.tir.compare_engines import compiled, flat, func, get, i64, loop, module, put
from tests.codegen.llvm.tir.test_operators import FLOATS, INTEGERS, NUMBERS

Array = np.ndarray[Any, Any]


class Case(NamedTuple):
    """A call on elements of these dtypes; ``make`` gives it from them."""

    ins: tuple[str, ...]
    make: Callable[..., PrimExpr]


# -- functions of scalars and vectors ----------------------------------------------------------
BY_RULE = {
    AcceptedDTypes.FLOAT: FLOATS,
    AcceptedDTypes.INTEGER: INTEGERS,
    AcceptedDTypes.NUMBER: NUMBERS,
    AcceptedDTypes.BITS: [*INTEGERS, "bool"],
    AcceptedDTypes.INT32: ["int32"],
    AcceptedDTypes.TRUTH: ["bool"],
    AcceptedDTypes.ANY: [*NUMBERS, "bool"],
}


def named(name: str, dtype: str | None = None) -> Callable[..., PrimExpr]:
    given = None if dtype is None else DataType(dtype)
    return lambda *args: call_builtin(name, *args, dtype=given)


def uniform(name: str) -> list[Case]:
    """List calls on every dtype that the rule on arguments admits, as scalars and as vectors."""
    row = BUILTINS[name]
    assert row.arity is not None
    cases: list[Case] = []
    for dtype, lanes in itertools.product(BY_RULE.get(row.accepts, FLOATS), ("", "x4")):
        ins = [f"{dtype}{lanes}"] * row.arity
        if row.accepts is AcceptedDTypes.FLOAT_INT32:
            ins[1] = f"int32{lanes}"
        cases.append(Case(tuple(ins), named(name)))
    return cases


def halves(name: str) -> list[Case]:
    dtypes = [*NUMBERS, "bool"]
    return [Case((f"{d}x{n}",), named(name)) for d in dtypes for n in (2, 8)]


def doubles() -> list[Case]:
    dtypes = [*NUMBERS, "bool"]
    return [Case((f"{d}{n}",) * 2, named("vectorcombine")) for d in dtypes for n in ("", "x4")]


def reinterpretations() -> list[Case]:
    pairs = [(a, b) for a in NUMBERS for b in NUMBERS if DataType(a).bits == DataType(b).bits]
    cases = [Case((a,), named("reinterpret", b)) for a, b in pairs]
    cases += [Case((f"{a}x4",), named("reinterpret", f"{b}x4")) for a, b in pairs]
    cases += [Case(("int32",), named("reinterpret", d)) for d in ("int8x4", "float16x2")]
    return [*cases, Case(("bfloat16x4",), named("reinterpret", "uint64"))]


def masks() -> list[Case]:
    name = "get_active_lane_mask"
    cases = [Case((d, d), named(name, f"boolx{n}")) for d in INTEGERS for n in (3, 8)]
    return [*cases, Case(("int32", "int32"), named(name, "bool"))]


def choices() -> list[Case]:
    def choose(truth: PrimExpr, yes: PrimExpr, no: PrimExpr) -> PrimExpr:
        return call_builtin("if_then_else", truth, yes, no)

    dtypes = [f"{d}{n}" for d in (*NUMBERS, "bool") for n in ("", "x4")]
    return [Case(("bool", d, d), choose) for d in dtypes]


def unknown_values() -> list[Case]:
    dtypes = [f"{d}{n}" for d in (*NUMBERS, "bool") for n in ("", "x4")]
    return [Case((), named("undef", d)) for d in dtypes]


def per_axis() -> list[Case]:
    ins = ("int32", "int32", "int32", "int32", "int32", "bool", "bool")
    name = "q_multiply_shift_per_axis"
    return [Case(ins, named(name)), Case(tuple(f"{d}x4" for d in ins), named(name))]


OWN: dict[str, Callable[[], list[Case]]] = {
    "vectorlow": lambda: halves("vectorlow"),
    "vectorhigh": lambda: halves("vectorhigh"),
    "vectorcombine": doubles,
    "reinterpret": reinterpretations,
    "get_active_lane_mask": masks,
    "if_then_else": choices,
    "undef": unknown_values,
    "q_multiply_shift_per_axis": per_axis,
    "dp4a": lambda: [
        *[Case((a, b, "int32"), named("dp4a")) for a in BYTES for b in BYTES],
        Case(("uint8x4", "uint8x4", "uint32"), named("dp4a")),
        *[Case((f"{a}x16", f"{b}x16", "int32x4"), named("dp4a")) for a, b in SIGNS],
    ],
    "dp2a": lambda: [
        Case(("bfloat16x2", "bfloat16x2", "float32"), named("dp2a")),
        Case(("bfloat16x16", "bfloat16x16", "float32x8"), named("dp2a")),
    ],
}
BYTES = ("int8x4", "uint8x4")
SIGNS = list(itertools.product(("int8", "uint8"), repeat=2))

# -- whole programs ----------------------------------------------------------------------------
HEAD = "from loomir.script import ir as I\nfrom loomir.script import tir as T\n"
ONE = """
@T.prim_func
def main(x: T.Buffer((8,), "int32"), y: T.Buffer((8,), "float32")):
"""


def one(*lines: str) -> str:
    return HEAD + ONE + "".join(f"    {line}\n" for line in lines)


POINTED = ("D = T.decl_buffer((2,), 'float32', data=p)", "D[0] = D[1] + T.float32(1)")
PROGRAMS = {
    "ret": [
        HEAD + "@T.prim_func\ndef main(x: T.Buffer((8,), 'int32'), y: T.Buffer((8,), 'float32'))"
        " -> T.int32:\n    for i in range(8):\n        if x[i] > 2:\n            return i\n"
        "    return -1\n"
    ],
    "break_loop": [one("for i in range(8):", "    if x[i] > 2:", "        break", "    x[i] = 9")],
    "continue_loop": [
        one("for i in range(8):", "    if x[i] > 2:", "        continue", "    x[i] = 9")
    ],
    "checked_index": [
        one(f"y[T.checked_index(T.int64({i}), T.int64(8), 'y', 0)] = 2.0") for i in (3, 7, 8)
    ],
    "check": [
        one(f"T.check(x[0] > {n}, 'match', 'A', 'the offset', x[0], x[1])", "y[0] = 2.0")
        for n in (2, 3)
    ],
    "tvm_stack_make_array": [
        HEAD + "@I.ir_module\nclass M:\n"
        "    @T.prim_func(private=True)\n"
        "    def f(A: T.Buffer((8,), 'float32')):\n"
        "        A[1] = A[2] + T.float32(1)\n"
        "    @T.prim_func\n"
        "    def main(x: T.Buffer((8,), 'int32'), y: T.Buffer((8,), 'float32')):\n"
        "        cls.f(y)\n"
    ],
    "address_of": [
        one("p = T.address_of(y[x[1]])", *POINTED),
        one("p = T.address_of(y)", *POINTED),
        one(
            "V = T.decl_buffer((2, 3), 'float32', data=y.data, strides=(4, 1), elem_offset=1)",
            "p = T.address_of(V[1, x[2]])",
            *POINTED,
        ),
    ],
    "handle_add_byte_offset": [
        one("p = T.handle_add_byte_offset(y, 4 * x[1])", *POINTED),
        one("p = T.handle_add_byte_offset(T.address_of(y[5]), T.int8(-8))", *POINTED),
        one(
            "p = T.handle_add_byte_offset(T.tvm_access_ptr('int32', y, x[1], 1, 3), 4)", *POINTED
        ).replace("p = ", "p: T.handle('float32') = "),
    ],
    "ptr_byte_offset": [
        one("p = T.ptr_byte_offset(x, 8, 'float32')", *POINTED),
        one("p = T.ptr_byte_offset(y, x[1], 'int16')", "D = T.decl_buffer((2,), 'int16', data=p)")
        + "    x[0] = T.cast(D[0], 'int32')\n",
    ],
    "dot_tiles": [
        one(
            f"C = T.alloc_buffer(({16 * columns},), '{total}')",
            f"L = T.alloc_buffer(({2 * 16 * 64 // size},), '{left}')",
            f"R = T.alloc_buffer(({2 * columns * 64 // size},), '{right}')",
            f"for i in range({16 * columns}):",
            f"    C[i] = T.cast(i, '{total}')",
            f"for i in range({2 * 16 * 64 // size}):",
            f"    L[i] = T.cast(i * i % 23 - 11, '{left}')",
            f"for i in range({2 * columns * 64 // size}):",
            f"    R[i] = T.cast(i * i % 29 + 100, '{right}')",
            f"T.dot_tiles(C, L.data, R.data, x[2], 16, {columns}, '{left}', '{right}', {fresh})",
            "for i in range(8):",
            "    y[i] = T.cast(C[i * 31], 'float32')",
        )
        for left, right, total, size, columns, fresh in [
            ("int8", "uint8", "int32", 1, 16, False),
            ("bfloat16", "bfloat16", "float32", 2, 32, True),
        ]
    ],
    "isnullptr": [
        one(
            "x[0] = T.cast(T.isnullptr(y), 'int32')",
            "x[1] = T.cast(T.isnullptr(T.reinterpret('handle', T.int64(0))), 'int32')",
            "x[2] = T.cast(T.isnullptr(T.address_of(y[3])), 'int32')",
        )
    ],
    "prefetch": [
        one("T.prefetch(T.address_of(y[x[0] % 8]), 1)", "T.prefetch(y, 0, 2)", "y[0] = 1.0"),
        one("for i in T.unroll(8):", "    T.prefetch(T.address_of(y[i]))", "    y[i] = y[i] + 1.0"),
    ],
    "assume": [
        one("T.assume(x[0] // (x[1] - x[1]) == 3)", "y[0] = 1.0"),
        one("for i in T.vectorized(8):", "    T.assume(i // 0 < x[i])", "    y[i] = y[i] + 1.0"),
    ],
    "tvm_tuple": [one("T.attr(x.data, 'note', T.tvm_tuple(x[0] // (x[1] - x[1]), 2))", "x[0] = 1")],
}
WATCHED = (
    HEAD
    + """
@T.prim_func
def main(x: T.Buffer((8,), "int32"), y: T.Buffer((8,), "float32")):
    for i in T.parallel(4):
        for j in T.parallel(2):
            y[i * 2 + j] = y[i * 2 + j] + 1.0
    p = T.address_of(y[x[2]])
    D = T.decl_buffer((2,), "float32", data=p)
    D[0] = D[1]
    x[0] = 7
    C = T.alloc_buffer((4,), "float32")
    T.call_extern("handle", "memcpy", T.address_of(C[1]), y.data, T.uint64(8))
    y[7] = C[2]
"""
)
for _name in BUILTINS:
    if _name.startswith("watch_"):
        PROGRAMS[_name] = [WATCHED]
PROGRAMS["tvm_stack_make_shape"] = PROGRAMS["tvm_stack_make_array"]
PROGRAMS["tvm_access_ptr"] = [PROGRAMS["handle_add_byte_offset"][2]]
PROGRAMS["type_annotation"] = PROGRAMS["ptr_byte_offset"]

SINGLE = sorted(set(BUILTINS) - set(PROGRAMS))


def cases_of(name: str) -> list[Case]:
    if name in OWN:
        return OWN[name]()
    assert BUILTINS[name].accepts in (*BY_RULE, AcceptedDTypes.FLOAT_INT32), f"add {name} to OWN"
    assert not BUILTINS[name].takes_dtype, f"add {name} to OWN or PROGRAMS"
    return uniform(name)


# -- values ------------------------------------------------------------------------------------
def edges(dtype: DataType) -> Array:
    """Return values at which an implementation may go wrong."""
    if dtype.is_bool:
        return np.array([False, True])
    if dtype.is_float:
        top, least = dtype.max_finite, smallest(dtype)
        values = [0.0, -0.0, np.nan, np.inf, -np.inf, top, -top, least, -3 * least, 1.0, -1.0]
        with np.errstate(all="ignore"):
            return np.array([*values, 0.5, 2.5, -3.5, 1e-3, 710.0]).astype(numpy_of(dtype))
    low, high = dtype.min_value, dtype.max_value
    values = {0, 1, 2, 5, 31, 64, high, low, high - 1, low + 1, max(low, -1), max(low, -33)}
    return np.array(sorted(v for v in values if low <= v <= high), numpy_of(dtype))


def smallest(dtype: DataType) -> float:
    """Return the smallest positive number, a subnormal."""
    least = {"float16": -24, "bfloat16": -133, "float32": -149, "float64": -1074}
    return 2.0 ** least[str(dtype.element)]


def crossed(dtypes: list[DataType]) -> list[Array]:
    """Return an array per dtype, in which the edges of each meet those of the others."""
    if not dtypes:
        return []
    rng = np.random.default_rng(5)
    each = [edges(d) for d in dtypes]
    rows = np.array(list(itertools.product(*[range(len(e)) for e in each])), int).reshape(
        -1, len(each)
    )
    if len(rows) > 256:
        rows = rows[rng.choice(len(rows), 256, replace=False)]
    picked = [e[rows[:, i]] for i, e in enumerate(each)]
    more = [noise(d, 64, rng) for d in dtypes]
    both = [np.concatenate([a, b.astype(a.dtype)]) for a, b in zip(picked, more, strict=True)]
    length = len(both[0]) // 8 * 8
    return [b[:length] for b in both]


def noise(dtype: DataType, count: int, rng: np.random.Generator) -> Array:
    if dtype.is_float:
        return rng.standard_normal(count) * 2.0 ** rng.integers(-6, 6, count)
    if dtype.is_bool:
        return rng.integers(0, 2, count).astype(bool)
    return rng.integers(0, 256, count * dtype.itemsize, np.uint8).view(numpy_of(dtype))


def function_of(case: Case, count: int) -> PrimFunc:
    """Make a function that stores the call's value for each of ``count`` elements."""
    dtypes = [DataType(d) for d in case.ins]
    ins = [flat(f"A{i}", count * d.lanes, d.element) for i, d in enumerate(dtypes)]

    def elements(i: PrimExpr) -> list[PrimExpr]:
        return [get(b, at(i, d)) for b, d in zip(ins, dtypes, strict=True)]

    result = case.make(*elements(i64(0))).dtype
    out = flat("B", count * result.lanes, result.element)
    body = loop(count, lambda i: put(out, at(i, result), case.make(*elements(i))))
    return func("main", [*ins, out], body)


def at(i: PrimExpr, dtype: DataType) -> PrimExpr:
    if dtype.lanes == 1:
        return i
    return Ramp(i * i64(dtype.lanes), i64(1), dtype.lanes)


def arguments(case: Case, count: int, f: PrimFunc) -> list[Array]:
    dtypes = [DataType(d) for d in case.ins]
    scalars = crossed([d.element for d in dtypes])
    made = [np.resize(s, count * d.lanes) for s, d in zip(scalars, dtypes, strict=True)]
    (out,) = list(f.buffer_map.values())[len(made) :]
    extent = out.shape[0]
    assert isinstance(extent, IntImm)
    return [*made, np.zeros(extent.value, numpy_of(out.dtype))]


def length_of(case: Case) -> int:
    scalars = crossed([DataType(d).element for d in case.ins])
    lanes = max((DataType(d).lanes for d in case.ins), default=1)
    return max(1, len(scalars[0]) // lanes) if scalars else 2


def distance(a: Array, b: Array) -> Array:
    """Count the representable numbers between floats; NaN is at NaN."""
    kind = np.dtype(f"i{a.dtype.itemsize}")
    places = []
    for x in (a, b):
        bits = np.ascontiguousarray(x).view(kind).astype(object)
        low = np.iinfo(kind).min
        places.append(np.array([n if n >= 0 else low - n for n in bits], object))
    gaps = np.abs(places[0] - places[1])
    nan = np.isnan(a.astype(np.float64)), np.isnan(b.astype(np.float64))
    gaps[nan[0] & nan[1]] = 0
    gaps[nan[0] ^ nan[1]] = 1 << 80
    return gaps


def assert_equal(name: str, got: Array, wanted: Array, args: list[Array]) -> None:
    if got.dtype.kind in "biu":
        wrong = got != wanted
    else:
        wrong = distance(got, wanted) > TOLERANCE.get(name, 0)
        if name not in TOLERANCE:
            zero = (got == 0) & (wanted == 0)
            wrong |= zero & (np.signbit(got) != np.signbit(wanted))
    places = np.flatnonzero(wrong)
    lanes = [len(a) // len(got) for a in args]
    first = [a[p * n : (p + 1) * n] for p in places[:4] for a, n in zip(args, lanes, strict=True)]
    assert not len(places), f"{first}: native {got[places[:4]]}, not {wanted[places[:4]]}"


# -- the tests ---------------------------------------------------------------------------------
@clauses("TIR-BLTN-01", "TIR-EVAL-10")
@pytest.mark.parametrize("name", sorted(BUILTINS))
def test_a_row_says_all_that_is_needed(name: str) -> None:
    row = BUILTINS[name]
    assert row.op.name == f"tir.{name}"
    assert isinstance(row.op.effect, Effect)
    assert row.summary
    assert not row.summary.endswith(".")
    assert row.family in FAMILIES
    assert row.op in OPS, "code generation has no rule"
    if name in CONTROL:
        assert name in SPECIAL or name in PROGRAMS or name in OWN
    else:
        assert all(callable(builtin_function(name, DataType(c.ins[0]))) for c in cases_of(name))
    assert bool(row.inside) == (row.op.effect is Effect.SPECIAL_CALL_ARG)


@pytest.mark.parametrize("name", SINGLE)
def test_calls_are_printed_and_read(name: str) -> None:
    for case in cases_of(name):
        made = function_of(case, 4)
        again = from_source(made.script())
        assert structural_equal(made, again), made.script()


@clauses("TIR-BLTN-02", "TIR-BLTN-03")
@pytest.mark.parametrize("name", SINGLE)
def test_both_engines_agree_on_every_dtype(name: str) -> None:
    cases = cases_of(name)
    made = [function_of(case, length_of(case)) for case in cases]
    renamed = [
        (f"f{i}", PrimFunc(f.params, f.body, f.ret_type, f.buffer_map, {"global_symbol": f"f{i}"}))
        for i, f in enumerate(made)
    ]
    natives = compiled(module(*renamed), passes=Passes.FEW)
    for i, (case, f) in enumerate(zip(cases, made, strict=True)):
        args = arguments(case, length_of(case), f)
        theirs = [a.copy() for a in args]
        natives[f"f{i}"](*args)
        interpret(f, "main", *theirs)
        assert_equal(f"{name}", args[-1], theirs[-1], args[:-1])


ALL = [(name, i) for name, texts in PROGRAMS.items() for i in range(len(texts))]


@clauses("TIR-BLTN-07", "TIR-BLTN-08", "TIR-BLTN-09", "TIR-BLTN-10")
@pytest.mark.parametrize(("name", "number"), ALL)
def test_programs_mean_the_same_in_both_engines(name: str, number: int) -> None:
    made = from_source(PROGRAMS[name][number])
    assert isinstance(made, (PrimFunc, IRModule))
    assert structural_equal(made, from_source(made.script())), made.script()
    mod = made if isinstance(made, IRModule) else module(("main", made))
    low = lower(mod, verify=True)
    watched = lower(mod, LowerOptions(checked=True, watched=True), verify=True)
    op = BUILTINS[name].op
    used = [
        part
        for m in (mod, low, watched)
        for f in m.functions.values()
        if isinstance(f, PrimFunc)
        for part in pre_order(f.body)
        if isinstance(part, Call) and part.op is op
    ]
    assert used, f"the program does not use {name}"
    assert structural_equal(low, from_source(low.script())), low.script()
    plain = loomir.compile(made, cache=False)
    checked = loomir.compile(made, checked=True, cache=False)
    outcomes = []
    for run in (plain["main"], checked["main"], lambda *a: interpret(mod, "main", *a)):
        x = np.array([3, 2, 1, 5, 0, -1, 7, 2], np.int32)
        y = np.arange(8, dtype=np.float32) / 3
        try:
            given: Any = run(x, y)
        except RunError as error:
            given = str(error)
        outcomes.append((given, x.tolist(), y.tolist()))
    assert outcomes[0] == outcomes[2]
    assert outcomes[1] == outcomes[2]
