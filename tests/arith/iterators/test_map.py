"""Iterator maps: what is found, what is refused and why, and all values of random maps."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import loomir.script  # noqa: F401 - prints expressions
import loomir.tir as tir
from fuzz import iter_maps as fuzz
from loomir.arith import (
    Analyzer,
    IterMark,
    IterSplitExpr,
    IterSumExpr,
    detect_iter_map,
    inverse_affine_iter_map,
    iter_map_simplify,
    normalize_iter_map_to_expr,
    normalize_to_iter_sum,
    subspace_divide,
)
from loomir.ir import structural_equal
from loomir.support.diagnostics import InternalError
from loomir.tir import (
    Broadcast,
    Cast,
    PrimExpr,
    Range,
    Var,
    const,
    decl_buffer,
)
from tests.growth import assert_grows

i, j, k = Var("i", "int64"), Var("j", "int64"), Var("k", "int64")
n, m = Var("n", "int64"), Var("m", "int64")


def num(value: int, dtype: str = "int64") -> PrimExpr:
    return const(value, dtype)


def loops(**extents: Any) -> dict[Var, Range]:
    names = {"i": i, "j": j, "k": k}
    return {
        names[name]: Range(num(0), extent if isinstance(extent, PrimExpr) else num(extent))
        for name, extent in extents.items()
    }


def sizes() -> Analyzer:
    analyzer = Analyzer()
    analyzer.assume_size(n)
    analyzer.assume_size(m)
    return analyzer


def plain(value: object) -> str:
    """Show an expression with its numbers without their dtype."""
    return re.sub(r"T\.int\d+\((-?\d+)\)", r"\1", str(value))


def shown(index: IterSumExpr) -> str:
    """Show an index with its extent."""
    return plain(f"{index} < {index.args[0].extent if index.args else 1}")


FOUND = [
    ("i*4 + j", "ij", "i * 4 + j < 32"),
    ("i // 4, i % 4", "i", "i // 4 < 2; i % 4 < 4"),
    ("j, i", "ij", "j < 4; i < 8"),
    ("(i*4 + j) // 8, (i*4 + j) % 8", "ij", "i // 2 < 4; i % 2 * 4 + j < 8"),
    ("i//2 + 0, i - i//2*2", "i", "i // 2 < 4; i % 2 < 2"),
    ("(i*3 + k) // 2, (i*3 + k) % 2", "ik", "(i * 3 + k) // 2 < 12; (i * 3 + k) % 2 < 2"),
    ("i//4*8 + i%4*2 + 3", "i", "i * 2 + 3 < 8"),
    ("(i*4 + 3 - j)//4, j", "ij", "i < 8; j < 4"),
    ("Min(i, num(9)), Max(j, num(0) - i)", "ij", "i < 8; j < 4"),
    ("Select(i < 9, i, j), j", "ij", "i < 8; j < 4"),
    ("Div(i, num(4)), Mod(i, num(4))", "i", "i // 4 < 2; i % 4 < 4"),
]


@pytest.mark.parametrize(("text", "names", "wanted"), FOUND)
def test_a_map_is_found(text: str, names: str, wanted: str):
    iters = {key: r for key, r in loops(i=8, j=4, k=3).items() if key.name_hint in names}
    indices = eval(f"({text},)", {**vars(tir), **globals()})  # noqa: S307 - the table above
    found = detect_iter_map(indices, iters, check_level="bijective")
    assert [str(error) for error in found.errors] == []
    assert "; ".join(shown(index) for index in found.indices) == wanted


REFUSED = [
    ("i * j", "a product of two iterators: i * j"),
    ("i // j", "a divisor that changes with an iterator: i // j"),
    ("i + j", "two iterators step by the same amount, so that values coincide: i + j"),
    ("i*3 + j", "iterators overlap, or leave gaps: i * 3 + j"),
    ("i*8 + j", "iterators overlap, or leave gaps: i * 8 + j"),
    ("i*4 - j", "an iterator runs backwards, or its step may be negative: i * 4 - j"),
    ("j*8 + i + i%2, j", "two iterators step by the same amount"),
    ("i, i", "digits of an iterator are used twice, or overlap: i"),
    ("i // 3, j", "a digit of an iterator is not used: i"),
    ("i // 3, i % 3", "the extent of an iterator is not a multiple of its digits: i"),
    ("i // 2, i % 4", "digits of an iterator are used twice, or overlap: i"),
    ("j", "an iterator is not used, or only some of its digits: i"),
    ("i % 4, j", "an iterator is not used, or only some of its digits: i"),
    ("i // 2 % 2, j", "a digit of an iterator is not used: i"),
    ("(i + 3) // 4, j", "an offset moves the values across multiples of the divisor: (i + 3) // 4"),
    ("i // n, j", "a divisor that is not known to be positive: i // n"),
    ("i // (num(0) - 2), j", "a divisor that is not known to be positive"),
    ("Min(i, num(3)), j", "a minimum or maximum that changes sides: T.min(i, 3)"),
    ("Select(i < j, i, j)", "a choice that is not the same for all values"),
    ("Div(i - 4, num(4)), j", "a division that rounds towards 0, of what may be negative"),
    ("i // num(0), j", "a divisor that is not known to be positive"),
    ("num((1 << 63) - 5) + i, j", "the value may not fit int64"),
    ("Broadcast(i, 4), j", "an index is a scalar integer, not int64x4"),
    ("Cast(i, 'uint64'), j", "an index is a signed integer, not uint64"),
    ("Cast(i, 'float32'), j", "an index is a scalar integer, not float32"),
    ("Let(k, i, k), j", "not understood as arithmetic of iterators"),
    ("BufferLoad(table, (num(0),)) + i, j", "its value may change, or it may fail"),
    ("i + j // n * 0, i", "a divisor that is not known to be positive"),
]


@pytest.mark.parametrize(("text", "wanted"), REFUSED)
def test_what_is_no_map_is_refused_by_its_part(text: str, wanted: str):
    names = {**vars(tir), **globals()}
    names["table"] = decl_buffer((4,), "int64", name="table")
    names["Cast"] = lambda value, dtype: Cast(value, fuzz_dtype(dtype))
    indices = eval(f"({text},)", names)  # noqa: S307 - the table above
    found = detect_iter_map(indices, loops(i=8, j=4), check_level="bijective")
    assert found.indices == ()
    (error,) = found.errors
    assert plain(error).startswith(wanted)
    assert len(iter_map_simplify(indices[1:], loops(i=8, j=4))) == len(indices) - 1


def fuzz_dtype(name: str) -> Any:
    return const(0, name).dtype


def test_levels_ask_for_more_and_more():
    def ok(level: Any, *indices: PrimExpr) -> bool:
        return detect_iter_map(indices, loops(i=10, j=4), check_level=level).ok

    assert [ok(level, i // 4, i % 4, j) for level in LEVELS] == [True, True, False, False]
    assert [ok(level, i // 4, j) for level in LEVELS] == [True, False, True, False]
    assert [ok(level, i % 5, i // 5, j) for level in LEVELS] == [True, True, True, True]
    # Digits with a gap between them: 9 is the only value with both at the end.
    assert [ok(level, i // 8, i % 2) for level in LEVELS] == [True, False, True, False]
    assert [ok(level, i // 8, i % 4) for level in LEVELS] == [True, False, False, False]
    (error,) = detect_iter_map([i], loops(i=4), check_level="all").errors  # type: ignore[arg-type]
    assert str(error) == "check_level is one of none, injective, surjective, bijective, not 'all'"


LEVELS: tuple[Any, ...] = ("none", "injective", "surjective", "bijective")


def test_padding_is_where_digits_reach_beyond_an_iterator():
    found = detect_iter_map([i // 4, i % 4], loops(i=10), check_level="none")
    assert structural_equal(found.padding_predicate, num(10) <= i)
    exact = detect_iter_map([i // 5, i % 5], loops(i=10), check_level="none")
    assert str(exact.padding_predicate) == "T.bool(False)"


LIMITED = [
    ("i*4 + j", "i*4 + j < 14", "i * 4 + j < 14"),
    ("(i*4 + j)//2, (i*4 + j)%2", "i*4 + j < 14", "(i * 4 + j) // 2 < 7; (i * 4 + j) % 2 < 2"),
    ("i, j", "i*4 + j < 12", "i < 3; j < 4"),
    ("i, j", "And(i < 3, num(2) >= j)", "i < 3; j < 3"),
    ("i*4 + j", "And(i*4 + j < 14, i < 2)", "i * 4 + j < 8"),
    ("i*4 + j", "And(i*4 + j <= 9, num(3) <= i*4 + j)", "i * 4 + j - 3 + 3 < 7"),
    ("i*4 + j", "call_builtin('likely', i*4 + j < 14)", "i * 4 + j < 14"),
    ("i*4 + j", "i*8 + j*2 < 13", "i * 4 + j < 7"),
    ("i, j", "n > 3", "i < 8; j < 4"),
    ("i, j", "i*4 + j < 32", "i < 8; j < 4"),
    ("i*4 + j", "i//2 < 3", "i * 4 + j < 24"),
    ("j", "Eq(i, num(5))", "j < 4"),
    ("i*4 + j", "Not(i*4 + j > 13)", "i * 4 + j < 14"),
]


@pytest.mark.parametrize(("text", "predicate", "wanted"), LIMITED)
def test_a_predicate_limits_fused_iterators(text: str, predicate: str, wanted: str):
    names = {**vars(tir), **globals()}
    indices = eval(f"({text},)", names)  # noqa: S307 - the table above
    condition = eval(predicate, names)  # noqa: S307
    found = detect_iter_map(indices, loops(i=8, j=4), condition, check_level="bijective")
    assert [str(error) for error in found.errors] == []
    assert "; ".join(shown(index) for index in found.indices) == wanted


@pytest.mark.parametrize(
    ("predicate", "wanted"),
    [
        ("i*4 + j < 14", "the extent of an iterator is not a multiple of its digits: i"),
        ("i + j < 5", "two iterators step by the same amount, so that values coincide: i + j < 5"),
        ("i < j", "an iterator runs backwards, or its step may be negative: i < j"),
        ("i < n", "it is not known whether a condition limits an iterator: i < n"),
        ("i < 0", "a condition may leave no values: i < 0"),
        ("False", "the predicate never holds: T.bool(False)"),
        ("Or(i < 1, i > 5)", "not understood as a limit of iterators: i < 1 or i > 5"),
        ("i.not_equal(3)", "not understood as a limit of iterators: i != 3"),
        ("i * j < 4", "a product of two iterators: i * j"),
        ("Eq(i % 4, num(3))", "a condition leaves one value of a digit: i % 4 == 3"),
        ("And(i % 4 > 0, i % 4 < 2)", "a condition leaves one value of a digit: i % 4 < 2"),
    ],
)
def test_a_predicate_that_no_fused_iterator_has_is_refused(predicate: str, wanted: str):
    condition = eval(predicate, {**vars(tir), **globals()})  # noqa: S307 - the table above
    found = detect_iter_map([i, j], loops(i=8, j=4), condition)
    assert [plain(error) for error in found.errors] == [wanted]


SYMBOLIC = [
    ("i*m + j", {"i": "n", "j": "m"}, "True", "i * m + j < n * m"),
    ("i // m, i % m", {"i": "n*m"}, "True", "i // m < n; i % m < m"),
    ("i // 4, i % 4", {"i": "n*4"}, "True", "i // 4 < n; i % 4 < 4"),
    ("i*4 + j", {"i": "(n + 3)//4", "j": "4"}, "i*4 + j < n", "i * 4 + j < n"),
    ("(i*m + j)//m, (i*m + j)%m", {"i": "n", "j": "m"}, "True", "i < n; j < m"),
    ("i*4 + j", {"i": "n//4", "j": "4"}, "True", "i * 4 + j < n // 4 * 4"),
]


@pytest.mark.parametrize(("text", "extents", "predicate", "wanted"), SYMBOLIC)
def test_extents_may_be_symbolic(text: str, extents: dict[str, str], predicate: str, wanted: str):
    names = {**vars(tir), **globals()}
    iters = loops(**{name: eval(e, names) for name, e in extents.items()})  # noqa: S307
    indices = eval(f"({text},)", names)  # noqa: S307
    condition = eval(predicate, names)  # noqa: S307
    found = detect_iter_map(indices, iters, condition, check_level="bijective", analyzer=sizes())
    assert [str(error) for error in found.errors] == []
    assert "; ".join(shown(index) for index in found.indices) == wanted


def test_what_the_analyzer_knows_of_sizes_decides():
    analyzer = sizes()
    split = [i // 16, i // 4 % 4, i % 4]
    assert not detect_iter_map(split, loops(i=n), analyzer=analyzer).ok
    with analyzer.assume((n % 16).equal(0)):
        assert detect_iter_map(split, loops(i=n), check_level="bijective", analyzer=analyzer).ok
    assert not detect_iter_map(split, loops(i=n), analyzer=analyzer).ok
    assert not analyzer.is_bound(i)
    # Nothing is known of n here, not even that it is not negative.
    (error,) = detect_iter_map([i], loops(i=n)).errors
    assert str(error) == "the extent may be negative: n"
    # An iterator that is left out might have no values.
    assert not detect_iter_map([j], loops(i=n, j=4), analyzer=analyzer).ok


@pytest.mark.parametrize(
    ("dtype", "extents", "wanted"),
    [
        ("int8", (16, 8), "128 does not fit int8"),
        ("int8", (16, 9), "the value may not fit int8: i * 9 + j"),
        ("int8", (100, 1), None),
        ("int16", (200, 200), "the value may not fit int16"),
        ("uint8", (4, 4), "an iterator is a signed integer, not uint8: i"),
        ("int32", (65536, 32768), "2147483648 does not fit int32"),
        ("int8", (0, 4), "the extent is 0, so that there are no values: i"),
        ("int8", (-3, 4), "the extent is -3, so that there are no values: i"),
    ],
)
def test_narrow_dtypes(dtype: str, extents: tuple[int, int], wanted: str | None):
    a, b = Var("i", dtype), Var("j", dtype)
    zero = num(0, dtype)
    if dtype.startswith("u"):
        iters = {a: Range(zero, num(4, dtype)), b: Range(zero, num(4, dtype))}
    else:
        iters = {var: Range(zero, num(e, dtype)) for var, e in zip((a, b), extents)}
    found = detect_iter_map([a * num(extents[1], dtype) + b], iters)
    text = "; ".join(plain(error) for error in found.errors)
    assert text.startswith(wanted) if wanted is not None else text == ""


def test_odd_input_is_refused_and_never_raises():
    v = Var("v", "int32x4")
    f = Var("f", "float32")
    b = Var("b", "bool")
    h = Var("h", "handle")
    p = Var("p", "int32")
    zero = num(0)
    four = Broadcast(num(1, "int32"), 4)
    for iters in (
        {v: Range(four, four)},
        {p: Range(num(0, "int32"), f)},
        {p: Range(f, num(4, "int32"))},
        {i: Range(zero, j), j: Range(zero, num(3))},
        {i: Range(num((1 << 63) - 2), num(5))},
        {f: Range(f, None)},
    ):
        assert not detect_iter_map([p], iters).ok
        assert normalize_to_iter_sum(p, iters).base is p
    for index in (v, f, b, h, p + num(1, "int32"), v + v, f + i, Cast(b, i.dtype) + i):
        found = detect_iter_map([index, i], loops(i=3))
        assert found.ok or found.errors[0].message
        assert not subspace_divide([index, index], loops(i=3), [i]).ok
    assert detect_iter_map([], {}).ok
    assert detect_iter_map([num(3), n], {}).ok
    assert not detect_iter_map([i], loops(i=4), v + v).ok
    assert not detect_iter_map([i], loops(i=4), v < v).ok
    assert not detect_iter_map([i], loops(i=4), f).ok


def test_an_iterator_may_start_anywhere_and_have_one_value():
    iters = {i: Range(num(5), num(8)), j: Range(num(7), None), k: Range(n, num(4))}
    found = detect_iter_map(
        [(i - 5) // 4, (i - 5) % 4 + j, k - n], iters, check_level="bijective", analyzer=sizes()
    )
    assert found.ok, found.errors
    assert [int(index.base.value) for index in found.indices] == [0, 7, 0]  # type: ignore[attr-defined]


def test_dtypes_may_be_mixed():
    p = Var("p", "int32")
    iters = {p: Range(num(0, "int32"), num(8, "int32")), **loops(j=4)}
    index = Cast(p, i.dtype) * 4 + j
    found = detect_iter_map([index, num(1, "int32")], iters, check_level="bijective")
    assert found.ok, found.errors
    back = inverse_affine_iter_map(found.indices, [k, num(1, "int32")])
    assert back[p].dtype is p.dtype
    assert back[j].dtype is j.dtype
    (simple, _) = iter_map_simplify([Cast(p, i.dtype) * 4 + j // 4 * 4 + j % 4, p], iters)
    assert structural_equal(simple, index)


# -- written by hand -------------------------------------------------------------------------------
def test_maps_can_be_written_by_hand():
    outer, inner = IterMark(i, num(8)), IterMark(j, num(3))
    fused = IterMark(
        IterSumExpr(
            (
                IterSplitExpr(outer, num(1), num(8), num(3)),
                IterSplitExpr(inner, num(1), num(3), num(1)),
            ),
            num(0),
        ),
        num(24),
    )
    high = IterSumExpr((IterSplitExpr(fused, num(4), num(6), num(2)),), num(1))
    low = IterSumExpr((IterSplitExpr(fused, num(1), num(4), num(1)),), num(-2))
    assert shown(high) == "(i * 3 + j) // 4 * 2 + 1 < 6"
    assert shown(low) == "(i * 3 + j) % 4 - 2 < 4"
    assert plain(fused.source.args[0]) == "i * 3"  # type: ignore[union-attr]
    assert plain(inner) == "IterMark(j, extent=3)"
    back = inverse_affine_iter_map([high, low], [num(7), num(-1)], analyzer=Analyzer())
    assert {v.name_hint: int(e.value) for v, e in back.items()} == {"i": 4, "j": 1}  # type: ignore[attr-defined]
    assert normalize_iter_map_to_expr(i) is i
    with pytest.raises(InternalError, match="2 indices have no 1 values"):
        inverse_affine_iter_map([high, low], [num(7)])


def test_sums_that_are_no_map_are_written_too():
    made = normalize_to_iter_sum(i // 4 * 4 + i % 4 + j + n, loops(i=8, j=8), analyzer=sizes())
    assert [str(split) for split in made.args] == ["i", "j"]
    assert made.base is n
    left = i * j
    assert normalize_to_iter_sum(left, loops(i=8, j=8)).base is left


# -- division --------------------------------------------------------------------------------------
def test_bindings_are_divided_into_outer_and_inner_parts():
    io, ii = i, j
    found = subspace_divide([io * 4 + ii, k], loops(i=8, j=4, k=3), [ii])
    assert found.ok, found.errors
    first, second = found.parts
    assert [plain(part.source) for part in (first.outer, first.inner)] == ["i", "j"]
    assert [plain(part.source) for part in (second.outer, second.inner)] == ["k", "0"]
    assert plain(first.value()) == "i * 4 + j"
    assert second.value() is k


@pytest.mark.parametrize(
    ("inner", "predicate", "wanted"),
    [
        ("j", "i*4 + j < 30", "a condition ties outer to inner iterators: i * 4 + j"),
        ("i", "True", "an inner iterator stands above an outer one: i * 4 + j"),
    ],
)
def test_what_cannot_be_divided_is_refused(inner: str, predicate: str, wanted: str):
    names = {**vars(tir), **globals()}
    condition = eval(predicate, names)  # noqa: S307 - the table above
    found = subspace_divide([i * 4 + j], loops(i=8, j=4), [names[inner]], condition)
    assert [plain(error) for error in found.errors] == [wanted]


def test_conditions_are_divided_too():
    found = subspace_divide([i * 4 + j], loops(i=8, j=4), [j], i * 4 + j < 20)
    assert [plain(found.outer_predicate), plain(found.inner_predicate)] == [
        "i < 5",
        "T.bool(True)",
    ]
    fused = (i * 3 + j) // 2
    (error,) = subspace_divide([fused], loops(i=4, j=3), [j]).errors
    assert error.message == "an iterator fuses outer and inner ones"


# -- all values ------------------------------------------------------------------------------------
@pytest.mark.parametrize("start", range(0, 2000, 400))
def test_random_maps(start: int):
    missed = 0
    for seed in range(start, start + 400):
        case = fuzz.make(seed)
        wrong = fuzz.problem(case, everything=seed % 8 == 0)
        if wrong is not None and wrong.startswith(fuzz.REFUSED):
            missed += 1
            continue
        assert wrong is None, f"seed {seed}: {wrong}\n{case}"
    # Where quotients do not nest, the order of indices can hide a bijection.
    assert missed <= 1


@given(st.integers(min_value=2000))
def test_random_maps_beyond(seed: int):
    wrong = fuzz.problem(fuzz.make(seed))
    assert wrong is None or wrong.startswith(fuzz.REFUSED)


def test_random_symbolic_maps():
    found = 0
    for seed in range(150):
        case, first, second = fuzz.make_symbolic(seed)
        wrong, bijective = fuzz.symbolic_problem(case, first, second)
        assert wrong is None, f"seed {seed}: {wrong}\n{case}"
        found += bijective
    assert found > 40


# -- cost ------------------------------------------------------------------------------------------
def chain(length: int) -> tuple[list[PrimExpr], PrimExpr]:
    """Split a loop again and again, and fuse the digits."""
    rest: PrimExpr = i
    digits: list[PrimExpr] = []
    for _ in range(length):
        digits.append(rest % 2)
        rest = rest // 2
    whole = digits[0]
    for place, digit in enumerate(digits[1:], 1):
        whole = whole + digit * (1 << place)
    return digits, whole


def test_long_chains_cost_in_proportion():
    def detect(length: int) -> Callable[[], None]:
        digits, whole = chain(length)
        iters = loops(i=1 << length)

        def run() -> None:
            assert detect_iter_map([whole], iters, check_level="bijective").ok
            assert detect_iter_map(digits, iters, check_level="bijective").ok

        return run

    # 16 times as long where a part is read again for each index.
    assert_grows(10, detect, 12, 48)


def test_deep_expressions_are_no_danger():
    deep: PrimExpr = i
    for _ in range(3000):
        deep = (deep + 1) - 1
    assert detect_iter_map([deep], loops(i=4), check_level="bijective").ok
    doubled: PrimExpr = i
    for _ in range(40):
        doubled = doubled + doubled
    found = detect_iter_map([doubled], loops(i=4), check_level="bijective")
    assert found.ok, found.errors
    assert str(found.indices[0]) == f"i * T.int64({1 << 40})"
