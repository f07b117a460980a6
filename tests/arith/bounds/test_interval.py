"""No result of an operator lies outside the interval that its transfer function gives."""

from __future__ import annotations

from typing import Any

import pytest
import z3

from loomir.arith.bounds import interval
from loomir.arith.bounds.expression_bounds import Bounds
from loomir.arith.bounds.interval import TRANSFER, Interval, fits, full, wrap
from loomir.support.dtype import DataType
from loomir.tir import Var
from tests.arith.symbols import WIDE, Paths, Symbol, floor_divide, term


def truncated(a: Any, b: Any) -> Any:
    """Divide towards zero by a constant."""
    return z3.If(a >= 0, a / b, -(-a / b))


EXACT: dict[str, Any] = {
    "Add": lambda a, b: a + b,
    "Sub": lambda a, b: a - b,
    "Mul": lambda a, b: a * b,
    "Min": lambda a, b: z3.If(a < b, a, b),
    "Max": lambda a, b: z3.If(a < b, b, a),
    "FloorDiv": floor_divide,
    "FloorMod": lambda a, b: a - b * floor_divide(a, b),
    "Div": truncated,
    "Mod": lambda a, b: a - b * truncated(a, b),
}
PYTHON: dict[str, Any] = {
    "FloorDiv": lambda a, b: a // b,
    "FloorMod": lambda a, b: a % b,
    "Div": lambda a, b: abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1),
    "Mod": lambda a, b: abs(a) % abs(b) * (-1 if a < 0 else 1),
    "Mul": lambda a, b: a * b,
}
LINEAR = [kind for kind in TRANSFER if kind.__name__ not in PYTHON]
OTHERS = [kind for kind in TRANSFER if kind.__name__ in PYTHON]
"""Linear where one operand is constant; for two symbols small intervals are tried instead."""


def prove_inside(name: str, transfer: Any, divisor: int | None = None) -> int:
    """Prove that results lie in the interval, for all operands in all intervals; counts paths."""
    x, y, *ends = z3.Ints("x y a b c d")
    given = [ends[0] <= x, x <= ends[1], ends[2] <= y, y <= ends[3]]
    paths = Paths(given)
    a, b, c, d = (Symbol(e, paths) for e in ends)
    other: Any = Interval(c, d)  # type: ignore[arg-type]
    if divisor is not None:
        other, y = Interval(divisor, divisor), z3.IntVal(divisor)
    count = 0
    for made in paths.run(lambda: transfer(Interval(a, b), other)):  # type: ignore[arg-type]
        count += 1
        found = EXACT[name](x, y)
        claim = z3.And(term(made.low, x) <= found, found <= term(made.high, x))
        assert paths.solver.check(z3.Not(claim)) == z3.unsat, paths.solver
    return count


@pytest.mark.parametrize("kind", LINEAR, ids=lambda k: k.__name__)
def test_results_are_inside(kind: type):
    assert prove_inside(kind.__name__, TRANSFER[kind]) >= 1


@pytest.mark.parametrize("kind", OTHERS, ids=lambda k: k.__name__)
@pytest.mark.parametrize("divisor", [-128, -7, -2, -1, 1, 2, 3, 8, 127])
def test_results_with_a_constant_are_inside(kind: type, divisor: int):
    assert prove_inside(kind.__name__, TRANSFER[kind], divisor) >= 1


def check_exhaustively(name: str, transfer: Any) -> None:
    """Try all operands of all intervals from -5 to 5."""
    cells = range(-5, 6)
    intervals = [Interval(low, high) for low in cells for high in range(low, 6)]
    for b in intervals:
        divisors = [d for d in range(b.low, b.high + 1) if d or name == "Mul"]
        if not divisors:
            continue
        columns = [[PYTHON[name](v, d) for d in divisors] for v in cells]
        lows, highs = [min(c) for c in columns], [max(c) for c in columns]
        for a in intervals:
            low, high = transfer(a, b)
            rows = slice(a.low + 5, a.high + 6)
            assert low <= min(lows[rows]), (a, b)
            assert max(highs[rows]) <= high, (a, b)


@pytest.mark.parametrize("kind", OTHERS, ids=lambda k: k.__name__)
def test_results_of_small_operands_are_inside(kind: type):
    check_exhaustively(kind.__name__, TRANSFER[kind])


@pytest.mark.parametrize("kind", list(TRANSFER), ids=lambda k: k.__name__)
def test_a_narrower_interval_is_refused(kind: type):
    """The proofs can fail: an end moved by one is found."""

    def narrower(a: Interval, b: Interval) -> Interval:
        made = TRANSFER[kind](a, b)
        return Interval(made.low + 1, made.high)

    name = kind.__name__
    prove = prove_inside if kind in LINEAR else check_exhaustively
    with pytest.raises(AssertionError):
        prove(name, narrower)


@pytest.mark.parametrize("name", ["int8", "uint8"])
def test_wrapping(name: str):
    """For every interval of exact results, what the dtype makes of each value is inside."""
    dtype = DataType(name)
    x, low, high = z3.BitVecs("x low high", WIDE)
    far = 1 << 12
    paths = Paths([-far <= low, low <= x, x <= high, high <= far])
    ends = Interval(Symbol(low, paths), Symbol(high, paths))  # type: ignore[arg-type]
    value = z3.Extract(7, 0, x)
    value = (z3.SignExt if dtype.is_int else z3.ZeroExt)(WIDE - 8, value)
    seen = 0
    for made in paths.run(lambda: wrap(ends, dtype)):
        seen += 1
        claim = z3.And(term(made.low, x) <= value, value <= term(made.high, x))
        assert paths.solver.check(z3.Not(claim)) == z3.unsat
    assert seen > 3


def test_ramps_and_builtins():
    for low, high, stride in ((-5, 7, -3), (0, 9, 4), (-9, -2, 0)):
        made = interval.span(Interval(low, high), Interval(stride, stride), 3)
        values = [b + t * stride for b in range(low, high + 1) for t in range(4)]
        assert made == Interval(min(values), max(values))
    cells = range(-9, 10)
    for low in cells:
        for high in range(low, 10):
            a = Interval(low, high)
            inside = range(low, high + 1)
            for by in range(4):
                shifted = interval.call("shift_right", [a, Interval(by, by)], 8)
                assert shifted == Interval(low >> by, high >> by)
            assert interval.call("abs", [a], 8) == Interval(
                min(map(abs, inside)), max(map(abs, inside))
            )
            for other in (Interval(0, 5), Interval(-3, 4), Interval(2, 2)):
                made = interval.call("bitwise_and", [a, other], 8)
                found = {v & w for v in inside for w in range(other.low, other.high + 1)}
                assert made is None or made.low <= min(found) <= max(found) <= made.high
    assert interval.call("exp", [Interval(0, 1)], 8) is None
    assert interval.call("shift_right", [Interval(0, 8), Interval(0, 1)], 8) is None
    far = [Interval(64, 64), Interval(8, 8)]
    assert interval.call("shift_right", far, 8) is None, "by the amount modulo the width"


def test_fitting():
    assert fits(Interval(-128, 127), DataType("int8"))
    assert not fits(Interval(-129, 0), DataType("int8"))
    assert not fits(Interval(0, 128), DataType("int8"))
    assert full(DataType("uint8")) == Interval(0, 255)
    assert wrap(Interval(256, 300), DataType("uint8")) == Interval(0, 44)
    assert wrap(Interval(200, 300), DataType("uint8")) == Interval(0, 255)


def test_bounds_learnt_late_are_asked_for_again():
    x = Var("x", "int32")
    total = x + 1
    bounds = Bounds()
    assert bounds.wraps(total)
    bounds.set(x, Interval(0, 9))
    assert not bounds.wraps(total)
    assert bounds.of(x) == Interval(0, 9)
