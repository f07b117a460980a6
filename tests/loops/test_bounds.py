"""The indices that ranges reach while loops run."""

from __future__ import annotations

from loomir.arith.fold import imm
from loomir.loops.bounds import Ends, find_ends, find_extreme, is_known_outside
from loomir.loops.ranges import analyzer_for
from loomir.support.dtype import DataType
from loomir.tir.buffer import Range
from loomir.tir.expr import IntImm, Max, Min, Var

INDEX = DataType("int64")
ROW, COLUMN, SIZE = (Var(name, INDEX) for name in "ijn")


def number(value: int) -> IntImm:
    return imm(value, INDEX)


def test_a_tile_reaches_from_its_first_to_its_last_element():
    analyzer = analyzer_for({ROW: Range(number(0), number(8))})
    ends = find_ends(
        Range(ROW * 4 + COLUMN, number(2)), {COLUMN: Range(number(0), number(4))}, analyzer
    )
    assert ends is not None
    assert analyzer.can_prove_equal(ends.low, ROW * 4)
    assert analyzer.can_prove_equal(ends.high, ROW * 4 + 4)


def test_an_element_is_a_range_of_one():
    analyzer = analyzer_for({})
    ends = find_ends(Range(COLUMN, None), {COLUMN: Range(number(3), number(4))}, analyzer)
    assert ends is not None
    assert analyzer.can_prove_equal(ends.low, 3)
    assert analyzer.can_prove_equal(ends.high, 6)


def test_what_is_defined_inside_is_not_known_outside():
    assert is_known_outside(Ends(number(0), ROW + 1), {id(COLUMN)})
    assert not is_known_outside(Ends(number(0), COLUMN + 1), {id(COLUMN)})


def test_extremes_are_proved_or_computed():
    analyzer = analyzer_for({ROW: Range(number(0), number(8))})
    assert find_extreme(Min, [ROW + 2, ROW, ROW + 1], analyzer) is ROW
    last = ROW + 2
    assert find_extreme(Max, [ROW, last, ROW + 1], analyzer) is last
    assert isinstance(find_extreme(Min, [ROW, SIZE], analyzer), Min)
    assert isinstance(find_extreme(Max, [ROW, SIZE], analyzer), Max)


def test_of_equal_extremes_the_first_is_taken_or_the_last():
    analyzer = analyzer_for({ROW: Range(number(0), number(1))})
    values = [number(0), ROW]
    for op in (Min, Max):
        assert find_extreme(op, values, analyzer) is values[0]
        assert find_extreme(op, values, analyzer, prefer_last=True) is ROW
