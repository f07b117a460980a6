"""Properties of normal form on random programs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import loomir
from loomir.check.relax.well_formed import well_formed
from loomir.ir.equality import structural_equal
from loomir.relax import Function
from loomir.relax.free_vars import free_relax_vars, free_shape_vars
from loomir.relax.normal.normalize import normal_form_violations, normalize
from loomir.relax.normal.rewriter import Rewriter, copy_with_fresh_vars
from tests.clause import clauses
from tests.relax.nested_programs import DTYPE, SHAPE, Nested, meaning

SEEDS = range(120)


def made(seed: int) -> tuple[Function, Function]:
    given = Nested(seed).function()
    assert well_formed(given) == ()
    return given, normalize(given)


@clauses("RX-NF-01", "RX-NF-02", "RX-NF-03", "RX-NF-04", "RX-NF-05", "RX-NF-07", "RX-NF-08")
@pytest.mark.parametrize("seed", SEEDS)
def test_normalising_is_idempotent_and_keeps_what_is_right(seed: Any):
    given, normal = made(seed)
    assert normal_form_violations(normal) == ()
    assert normalize(normal) is normal
    assert well_formed(normal) == ()
    assert loomir.verify(normal) == ()
    assert loomir.verify(given) == ()
    assert free_relax_vars(given) == free_relax_vars(normal) == []
    assert free_shape_vars(normal) == []


@pytest.mark.parametrize("seed", SEEDS)
def test_normalising_keeps_the_meaning(seed: Any):
    given, normal = made(seed)
    rng = np.random.default_rng(seed)
    x, y = (rng.integers(-9, 9, SHAPE).astype(DTYPE) for _ in range(2))
    for cond in (False, True):
        args = (x, y, np.array(cond))
        wanted = meaning(given.body, dict(zip(given.params, args)))
        assert (loomir.interpret(normal, *args) == wanted).all()


@pytest.mark.parametrize("seed", SEEDS)
def test_copies_and_empty_rewriting(seed: Any):
    _, normal = made(seed)
    assert Rewriter().rewrite_function(normal) is normal
    copied = copy_with_fresh_vars(normal)
    assert structural_equal(copied, normal)
    assert set(copied.params).isdisjoint(normal.params)
    assert normalize(copied) is copied
    assert loomir.verify(copied) == ()
