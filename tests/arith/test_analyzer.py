"""What the analyzer simplifies and proves: the index arithmetic of tiling, fusing and padding."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest

import loomir.script  # noqa: F401 - prints expressions
from fuzz import simplify as fuzz
from loomir.arith import Analyzer, ConstIntBound, IntSet, ModularSet
from loomir.ir import structural_equal
from loomir.ir.visit import pre_order
from loomir.support.diagnostics import InternalError
from loomir.support.dtype import BOOL
from loomir.tir import (
    NE,
    Add,
    And,
    BufferLoad,
    Cast,
    FloorDiv,
    IntImm,
    Let,
    Max,
    Min,
    Mul,
    Not,
    Or,
    PrimExpr,
    Range,
    Select,
    Var,
    call_builtin,
    const,
    decl_buffer,
)
from tests.growth import assert_grows


def num(value: int, dtype: str = "int64") -> PrimExpr:
    return const(value, dtype)


class Names:
    """An analyzer and variables: sizes n and m, and loops over known and unknown extents."""

    def __init__(self) -> None:
        self.a = Analyzer()
        for name in ("n", "m", "i", "j", "t", "k", "x", "y", "z", "io", "ii"):
            setattr(self, name, Var(name, "int64"))
        self.a.assume_size(self.n)
        self.a.assume_size(self.m)
        self.a.bind(self.i, Range(num(0), self.m))
        self.a.bind(self.j, Range(num(0), self.n))
        self.a.bind(self.t, Range(num(0), num(64)))
        self.a.bind(self.k, Range(num(0), num(4)))

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(name)


SIMPLER = {
    "n*m - m*n": "0",
    "(n + m)*2 - n - m": "n + m",
    "t//4*4 + t%4": "t",
    "t%4 + t//4*4": "t",
    "t//32*32 + t//4%8*4 + t%4": "t",
    "t - t//4*4": "t%4",
    "t - t%4 - t//4*4": "0",
    "(t*4 + k)//4": "t",
    "(t*4 + k)%4": "k",
    "(t*4 + k)//16": "t//4",
    "(t*4 + k)//2": "t*2 + k//2",
    "(t*4 + k)%16": "k + t%4*4",
    "(t*12 + k*3)//6": "t*2 + k//2",
    "t//4//8": "t//32",
    "t//64": "0",
    "t%64": "t",
    "(t + 64)%64": "t",
    "(t + 128)//64": "2",
    "x%4 + x//4*4": "x",
    "(x + 8)%4": "x%4",
    "(-x)%1": "0",
    "min(t + 1, t + 5)": "t + 1",
    "max(t, 0)": "t",
    "min(t, 63)": "t",
    "max(min(t, 100), -5)": "t",
    "min(x, y) - min(y, x)": "0",
    "t < 64": "true",
    "t*4 + k < 256": "true",
    "t*4 + k >= 256": "false",
    "k == 4": "false",
    "t*2 == 5": "false",
    "(t*2 + 1)%2": "1",
    "t*4 < 16": "t < 4",
    "t < 10 and t < 20": "t < 10",
    "t < 10 or t < 20": "t < 20",
    "t < 5 and t > 9": "false",
    "t < 5 or t > 3": "true",
    "not (t < 5)": "t >= 5",
    "select(t < 64, x, y)": "x",
    "select(x < y, t, t)": "t",
    "(n*4 + t%4)//4": "n",
    "(i*n + j)//n": "(i*n + j)//n",  # n may be 0
}


def read(text: str, names: Names) -> PrimExpr:
    table: dict[str, Any] = {k: v for k, v in vars(names).items() if isinstance(v, Var)}
    table |= {"min": Min2, "max": Max2, "select": Select, "true": const(True, BOOL)}
    table["false"] = const(False, BOOL)
    if " and " in text:
        a, b = text.split(" and ")
        return And(read(a, names), read(b, names))
    if " or " in text:
        a, b = text.split(" or ")
        return Or(read(a, names), read(b, names))
    if text.startswith("not "):
        return Not(read(text[4:], names))
    if " == " in text:
        a, b = text.split(" == ")
        return read(a, names).equal(read(b, names))
    made = eval(text, {}, table)  # noqa: S307 - a row of the table above
    return made if isinstance(made, PrimExpr) else num(made)


def Min2(a: Any, b: Any) -> PrimExpr:  # noqa: N802
    return Min(a, num(b) if isinstance(b, int) else b)


def Max2(a: Any, b: Any) -> PrimExpr:  # noqa: N802
    return Max(a, num(b) if isinstance(b, int) else b)


@pytest.mark.parametrize("text", list(SIMPLER))
def test_simplify(text: str):
    names = Names()
    made = names.a.simplify(read(text, names))
    wanted = read(SIMPLER[text], names)
    assert structural_equal(made, wanted), str(made)
    assert names.a.simplify(made) is made


def test_quotients_by_sizes():
    v = Names()
    fused = v.i * v.n + v.j
    with v.a.assume(v.n > 0):
        assert v.a.simplify(fused // v.n) is v.i
        assert v.a.simplify(fused % v.n) is v.j
        assert v.a.can_prove(fused < v.m * v.n)
        assert not v.a.can_prove(fused < v.m * v.n - 1)
        assert v.a.simplify(v.x // v.n * v.n + v.x % v.n) is v.x
        assert v.a.can_prove(v.x % v.n < v.n)
        assert not v.a.can_prove(v.x // v.n * v.n <= v.x), "the product may wrap"
        with v.a.assume(And(v.x >= 0, v.x < 1 << 31)):
            assert v.a.can_prove(v.x // v.n * v.n <= v.x)
        assert v.a.can_prove_equal((v.i * v.n * 2 + v.j * 2) // (v.n * 2), v.i)
        assert v.a.can_prove_equal((v.i * (v.n + 1) + v.j) // (v.n + 1), v.i)
    assert not v.a.can_prove_equal(fused // v.n, v.i)


def test_padding_and_tails():
    v = Names()
    assert v.a.can_prove((v.n + 3) // 4 * 4 >= v.n)
    assert v.a.can_prove((v.n + 3) // 4 * 4 - 3 <= v.n)
    assert not v.a.can_prove((v.n + 3) // 4 * 4 > v.n)
    v.a.bind(v.io, Range(num(0), (v.n + 3) // 4))
    v.a.bind(v.ii, Range(num(0), Min(num(4), v.n - v.io * 4)))
    assert v.a.can_prove(v.io * 4 + v.ii < v.n)
    assert not v.a.can_prove(v.io * 4 + v.ii < v.n - 1)


def test_conditions_are_transitive():
    v = Names()
    with v.a.assume(v.y <= v.z), v.a.assume(v.x <= v.y):
        assert v.a.can_prove(v.x <= v.z)
        assert v.a.can_prove(v.x < v.z + 1) is False, "z + 1 may wrap"
        assert not v.a.can_prove(v.x < v.z)
        assert v.a.can_prove(Max(v.x, v.y) <= v.z)
        assert v.a.can_prove(Min(v.z, v.x) <= v.y)
        assert v.a.simplify(Min(v.x, v.z)) is v.x
        assert v.a.can_prove(Select(v.t < 5, v.x, v.y) <= v.z)
    assert not v.a.can_prove(v.x <= v.z)
    with v.a.assume(And(v.x >= 3, Not(Or(v.x > 7, v.y.equal(2))))):
        assert v.a.const_int_bound(v.x) == ConstIntBound(3, 7)
        assert v.a.can_prove(NE(v.y, num(2)))
        assert v.a.can_prove(v.x // 4 <= 1)
    assert v.a.const_int_bound(v.x).max_value == 2**63 - 1


def test_wrapping_is_not_forgotten():
    q, u = Var("q", "int32"), Var("u", "uint8")
    a = Analyzer()
    one = const(1, "int32")
    assert not a.can_prove(q + one > q)
    assert a.simplify(q + one - q) == one or structural_equal(a.simplify(q + one - q), one)
    kept = (q * 2) // const(2, "int32")
    assert a.simplify(kept) is kept
    assert structural_equal(a.simplify(u - u), const(0, "uint8"))
    assert not a.can_prove(u - const(1, "uint8") < u)
    assert a.modular_set(q * 6 + 3) == ModularSet(2, 1), "multiples of 3 do not survive a wrap"
    with a.assume(And(q >= 0, q < 100)):
        assert a.can_prove(q + one > q)
        assert a.simplify(kept) is q
        assert a.modular_set(q * 6 + 3) == ModularSet(6, 3)
    assert a.can_prove_equal(u * 255, const(0, "uint8") - u)


def test_residues():
    v = Names()
    assert v.a.modular_set(v.x * 4 + 2) == ModularSet(4, 2)
    assert v.a.modular_set(num(7)) == ModularSet(0, 7)
    left = Min(num(96), num(1000) - v.x * 48)
    assert v.a.modular_set(left) == ModularSet(8, 0)
    assert v.a.modular_set(Max(left, num(3))) == ModularSet(1, 0)
    with v.a.assume((v.x % 8).equal(3)):
        assert v.a.modular_set(v.x) == ModularSet(8, 3)
        assert v.a.can_prove(((v.x + 1) % 4).equal(0))
        assert structural_equal(v.a.simplify(v.x % 4), num(3))
    assert v.a.modular_set(v.x) == ModularSet(1, 0)


def test_memory_is_not_a_fact():
    v = Names()
    cells = decl_buffer((8,), "int64", "A")
    load = BufferLoad(cells, (v.k,))
    with v.a.assume(load > 5):
        assert not v.a.can_prove(load > 5)
    bound = Var("b", "int64")
    v.a.bind(bound, Max(Min(load, num(9)), num(2)))
    assert v.a.const_int_bound(bound) == ConstIntBound(2, 9)
    assert v.a.simplify(bound) is bound
    assert structural_equal(v.a.simplify(load - load), num(0))


def test_what_fails_stays():
    v = Names()
    risky = v.x // v.y
    for e in (risky - risky, risky * 0, Min(risky, risky), Select(v.x < v.y, risky, risky)):
        assert structural_equal(v.a.simplify(e), e)
    assert not v.a.can_prove(risky.equal(risky))
    with v.a.assume(v.y > 0):
        assert structural_equal(v.a.simplify(risky - risky), num(0))
    call = call_builtin("ret", v.x)
    assert v.a.simplify(call) is call


def test_bound_values():
    a = Analyzer()
    x, y = Var("x", "int64"), Var("y", "int64")
    a.bind(x, y * 2 + 1)
    assert structural_equal(a.simplify(x - 1), y * 2)
    with pytest.raises(InternalError):
        a.bind(x, y)
    z = Var("z", "int64")
    a.know_equal(z, y)
    assert a.can_prove(z <= y)
    assert a.simplify(z) is z
    a.bind(y, Range(num(3)))
    assert a.const_int_bound(y) == ConstIntBound(3, 3)
    f = Var("f", "float32")
    assert a.const_int_bound(f) == ConstIntBound(-math.inf, math.inf)
    assert a.const_int_bound(y < 4) == ConstIntBound(1, 1)


def test_conversions():
    a = Analyzer()
    i = Var("i", "int32")
    a.bind(i, Range(const(0, "int32"), const(100, "int32")))
    wide = Cast(i * 4 + 3, wide_dtype := num(0).dtype)
    assert a.can_prove_equal(wide, Cast(i, wide_dtype) * 4 + 3)
    assert a.can_prove_equal(wide // 4, Cast(i, wide_dtype))
    free = Var("free", "int32")
    assert not a.can_prove_equal(Cast(free * 4, wide_dtype), Cast(free, wide_dtype) * 4), (
        "the product may wrap in 32 bits"
    )
    assert a.can_prove_equal(Cast(Cast(free, wide_dtype) * 4, free.dtype), free * 4)


def same_set(found: IntSet, low: PrimExpr, high: PrimExpr) -> bool:
    assert found.min_value is not None
    assert found.max_value is not None
    a = Analyzer()
    return a.can_prove_equal(found.min_value, low) and a.can_prove_equal(found.max_value, high)


def test_int_sets():
    v = Names()
    inner, outer = Var("inner", "int64"), Var("outer", "int64")
    v.a.bind(outer, Range(num(0), num(1000)))
    domain = {inner: Range(num(0), num(8))}
    assert same_set(v.a.int_set(outer * 8 + inner, domain), outer * 8, outer * 8 + 7)
    assert same_set(v.a.int_set(outer - inner * 2, domain), outer - 14, outer)
    assert same_set(v.a.int_set((outer * 8 + inner) // 4, domain), outer * 2, outer * 2 + 1)
    assert same_set(v.a.int_set(v.n + inner % 3, domain), v.n, v.n + 2)
    assert same_set(v.a.int_set(Min(outer, inner), domain), num(0), Min(outer, num(7)))
    assert v.a.int_set(outer, domain) == IntSet(outer, outer)
    assert v.a.int_set(v.x + inner, domain).is_everything, "x + inner may wrap"
    size = {inner: Range(v.n, v.m)}
    assert same_set(v.a.int_set(inner + 1, size), v.n + 1, v.n + v.m)


# -- random expressions --------------------------------------------------------------------------
@pytest.mark.parametrize("block", range(4))
def test_random_expressions(block: int):
    """8,000 in all: the value stays, bounds and residues hold, a second run changes nothing."""
    for seed in range(block * 2_000, (block + 1) * 2_000):
        fuzz.check(seed)


# -- size ----------------------------------------------------------------------------------------
def chain(count: int, step: Any) -> PrimExpr:
    made: PrimExpr = Var("x", "int64")
    for k in range(count):
        made = step(made, k)
    return made


VARIABLES = [Var(f"v{k}", "int64") for k in range(1000)]
STEPS = {
    "sum": lambda e, k: Add(e, VARIABLES[k % 1000]),
    "constants": lambda e, k: Add(e, num(k)),
    "double": lambda e, k: Add(e, e),
    "square": lambda e, k: Mul(e, e),
    "quotient": lambda e, k: FloorDiv(e, num(3)),
    "minimum": lambda e, k: Min(e, VARIABLES[k % 7]),
    "nested": lambda e, k: Max(e + VARIABLES[k % 5], VARIABLES[k % 3] * 2),
    "condition": lambda e, k: Select(VARIABLES[k % 5] < e, e, num(k)),
}


@pytest.mark.parametrize("name", ["sum", "constants", "minimum", "quotient", "nested"])
def test_deep_expressions(name: str):
    proves = name in ("minimum", "nested")
    depth = 100_000 if name == "sum" else 10_000
    Analyzer().canonical_simplify(chain(depth, STEPS[name]))
    Analyzer().simplify(chain(1_000 if proves else 2_000, STEPS[name]))


@pytest.mark.parametrize("name", list(STEPS))
def test_time_is_linear(name: str):
    def simplify(count: int) -> Callable[[], object]:
        e = chain(count, STEPS[name])
        return lambda: Analyzer().canonical_simplify(e)

    assert_grows(10, simplify, 500, 2_000)


def test_many_scopes():
    """Scopes within scopes cost what is learned in them."""
    a = Analyzer()
    x = Var("x", "int64")

    def learn(count: int) -> Callable[[], None]:
        def run() -> None:
            for k in range(count):
                a.enter(VARIABLES[k % 1000] > x)
                a.simplify(VARIABLES[k % 1000] + x > x)
            for _ in range(count):
                a.exit()

        return run

    assert_grows(9, learn, 75, 300)
    assert not a.can_prove(VARIABLES[0] > x)
    assert isinstance(a.simplify(num(1) + num(2)), IntImm)


def test_products_are_not_multiplied_out_where_that_repeats_a_binding():
    names = Names()
    bound = Let(names.z, names.y * 2, names.z + 1)
    product = (num(-1) - names.x) * bound
    quotient = FloorDiv(product, names.n + names.n + names.n)
    for e in (product, quotient):
        for made in (names.a.canonical_simplify(e), names.a.simplify(e)):
            assert sum(isinstance(part, Let) for part in pre_order(made)) == 1
