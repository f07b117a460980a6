"""What each reader takes for a linear form, and that a form has the value of its expression."""

from __future__ import annotations

import random

import pytest

from loomir.arith.fold import fold_expr
from loomir.arith.linear_form import LinearForm, add_terms, read_linear_form, read_sums, split_sum
from loomir.ir.substitution import substitute
from loomir.tir import IntImm, PrimExpr, Var, cast, const, decl_buffer

I, J, N = (Var(name, "int64") for name in "ijn")  # noqa: E741, the variables of the examples
LOAD = decl_buffer((8,), "int64")[N]
assert isinstance(LOAD, PrimExpr)


def value(expr: PrimExpr, **at: int) -> int:
    values = {var: const(at[var.name_hint], "int64") for var in (I, J, N)}
    found = fold_expr(substitute(expr, values))
    assert isinstance(found, IntImm)
    return found.value


def shown(form: LinearForm[Var] | None) -> dict[str, int] | None:
    return None if form is None else {v.name_hint: n for v, n in form.terms.items()}


@pytest.mark.parametrize(
    ("expr", "terms"),
    [
        (I * 4 + J - N, {"i": 4, "j": 1}),
        ((I - J * 2) * -3 + N * N, {"i": -3, "j": 6}),
        (I - I + N, {}),
        (I * 0 + J, {"j": 1}),
        (I + LOAD, {"i": 1}),
        (I * J, None),
        (I * N, None),
        (I // 2, None),
        (cast(cast(I, "int32") + 1, "int64"), None),
        (cast(I, "int32") + 1, None),
    ],
    ids=str,
)
def test_a_form_of_variables(expr: PrimExpr, terms: dict[str, int] | None):
    assert shown(read_linear_form(expr, (I, J))) == terms
    assert shown(read_linear_form(expr, (I, J), literal=True)) == terms


@pytest.mark.parametrize(
    ("expr", "terms"), [(J * (I + 3 - I), {"j": 3}), (I // 1, {"i": 1})], ids=str
)
def test_literal_forms_are_written_as_such(expr: PrimExpr, terms: dict[str, int]):
    assert shown(read_linear_form(expr, (I, J))) == terms
    assert read_linear_form(expr, (I, J), literal=True) is None


def random_index(rng: random.Random, depth: int) -> PrimExpr:
    if depth == 0:
        return rng.choice((I, J, N, const(rng.randint(-4, 4), "int64")))
    a, b = random_index(rng, depth - 1), random_index(rng, rng.randrange(depth))
    return rng.choice((a + b, a - b, a * rng.randint(-3, 3)))


@pytest.mark.parametrize("seed", range(40))
def test_forms_have_the_value_of_their_expression(seed: int):
    rng = random.Random(seed)
    a, b = random_index(rng, 4), random_index(rng, 3)
    at = {"i": rng.randint(-9, 9), "j": rng.randint(-9, 9), "n": rng.randint(-9, 9)}
    one, other = read_linear_form(a, (I, J)), read_linear_form(b, (I, J))
    assert one is not None
    assert other is not None
    made = one.plus(other, -2)
    terms = sum(at[var.name_hint] * n for var, n in made.terms.items())
    assert terms + value(made.rest, **at) == value(a, **at) - 2 * value(b, **at)
    sums = read_sums(a, b)
    gap = sums[0].plus(sums[1], -1)
    assert gap.constant + sum(value(t, **at) * n for t, n in gap.terms.items()) == value(
        a, **at
    ) - value(b, **at)


def test_equal_terms_of_sums_are_one():
    one, other = read_sums(I * J + I // 2 * 4 + 3, I // 2 + J * I)
    gap = one.plus(other, -4)
    assert [str(term) for term in gap.terms] == ["i * j", "j * i"]
    assert list(gap.terms.values()) == [1, -4]
    assert gap.constant == 3


def test_sums_are_split_from_left_to_right():
    narrow = cast(I + J, "int32")
    assert list(split_sum(I - (J - N) * 2)) == [(I, 1), (J, -2), (N, 2)]
    assert [part for part, _ in split_sum(narrow * 3)] == [narrow]
    assert list(split_sum(narrow * 3, through_casts=True)) == [(I, 3), (J, 3)]


def test_terms_that_cancel_are_dropped():
    assert add_terms({I: 2, J: 1}, {I: 1, N: 1}, -2) == {J: 1, N: -2}
