from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from loomir.check.tir.affine import Affine, Atom, Sum
from loomir.support.dtype import DataType
from loomir.tir import (
    Add,
    Cast,
    Div,
    FloorDiv,
    FloorMod,
    Let,
    Max,
    Min,
    Mod,
    Mul,
    PrimExpr,
    Sub,
    Var,
    call_builtin,
    cast,
    const,
    convert,
    decl_buffer,
)

I, J, N = (Var(name, "int32") for name in "ijn")  # noqa: E741, the loops of the examples


def reader(high_i: int = 7, high_j: int = 3) -> tuple[Affine, Atom, Atom]:
    made = Affine()
    i, j = Atom("i", 0, high_i), Atom("j", 0, high_j)
    made.values = {id(I): Sum({i: 1}, 0), id(J): Sum({j: 1}, 0)}
    made.around = frozenset((i, j))
    return made, i, j


def test_sums_are_read_with_their_factors():
    read, i, j = reader()
    assert read.read((I * 4 + J - 1) * 2 - J) == Sum({i: 8, j: 1}, -2)
    assert read.read(I - I) == Sum({}, 0)
    assert read.read(cast(I, "int64") + 1) == Sum({i: 1}, 1)
    assert read.read(call_builtin("likely", I)) == Sum({i: 1}, 0)
    x = Var("x", "int32")
    assert read.read(Let(x, I + 1, x * 2)) == Sum({i: 2}, 2)


def test_quotients_are_split_where_ranges_allow():
    read, i, j = reader()
    fused = I * 4 + J
    assert read.read(fused // 4) == Sum({i: 1}, 0)
    assert read.read(fused % 4) == Sum({j: 1}, 0)
    assert read.read(Div(fused, convert(4))) == Sum({i: 1}, 0)
    assert read.read(Mod(fused + 8, convert(4))) == Sum({j: 1}, 0)
    assert read.read((fused + 9) // 4) != Sum({i: 1}, 2)
    # What may be negative truncates otherwise than it floors.
    assert read.read(Div(fused - 4, convert(4))) != read.read((fused - 4) // 4)


def test_the_smaller_is_known_by_range():
    read, i, _ = reader()
    assert read.read(Min(I, convert(7))) == Sum({i: 1}, 0)
    assert read.read(Min(convert(9), I)) == Sum({i: 1}, 0)
    assert read.read(Max(I, convert(0))) == Sum({i: 1}, 0)
    assert read.read(Max(I, convert(8))) == Sum({}, 8)
    assert len(read.read(Min(I, convert(3))).terms) == 1


def test_what_is_not_understood_knows_its_loops():
    read, i, j = reader()
    assert read.read(I * J).loops == {i, j}
    assert read.read(I // J).loops == {i, j}
    assert read.read(I * N).loops == {i}
    assert read.read(N * N).loops == frozenset()
    buffer = decl_buffer((8,), "int32")
    load = buffer[0]
    assert isinstance(load, PrimExpr)
    assert read.read(load).loops == {i, j}
    assert read.read(Cast(I + 1, DataType("int8"))).loops == {i}


def test_what_may_wrap_is_not_understood():
    read = Affine()
    small = Var("s", "int8")
    atom = Atom("s", 0, 100)
    read.values[id(small)] = Sum({atom: 1}, 0)
    assert read.read(small + const(1, "int8")) == Sum({atom: 1}, 1)
    assert atom not in read.read(small * const(2, "int8")).terms


@st.composite
def index(draw: st.DrawFn, depth: int = 3) -> PrimExpr:
    kind = draw(st.integers(0, 9)) if depth else draw(st.integers(0, 2))
    if kind < 2:
        return (I, J)[kind]
    if kind == 2:
        return convert(draw(st.integers(-5, 9)))
    a = draw(index(depth - 1))
    if kind in (3, 4, 5, 6):
        op = (Add, Sub, Min, Max)[kind - 3]
        return op(a, draw(index(depth - 1)))
    factor = convert(draw(st.integers(1, 6)))
    return (Mul, FloorDiv, FloorMod)[kind - 7](a, factor)


def value_of(expr: PrimExpr, i: int, j: int) -> int:
    if isinstance(expr, Var):
        return i if expr is I else j
    value = getattr(expr, "value", None)
    if isinstance(value, int):
        return value
    assert isinstance(expr, (Add, Sub, Min, Max, Mul, FloorDiv, FloorMod))
    a, b = value_of(expr.a, i, j), value_of(expr.b, i, j)
    if isinstance(expr, Add):
        return a + b
    if isinstance(expr, Sub):
        return a - b
    if isinstance(expr, Mul):
        return a * b
    if isinstance(expr, FloorDiv):
        return a // b
    if isinstance(expr, FloorMod):
        return a % b
    return min(a, b) if isinstance(expr, Min) else max(a, b)


@given(index())
def test_a_sum_has_the_value_of_its_expression(expr: PrimExpr):
    read, i, j = reader()
    made = read.read(expr)
    low, high = made.range()
    for x in range(8):
        for y in range(4):
            value = value_of(expr, x, y)
            assert low is None or low <= value
            assert high is None or value <= high
            if made.terms.keys() <= {i, j}:
                total = made.constant + made.terms.get(i, 0) * x + made.terms.get(j, 0) * y
                assert total == value
