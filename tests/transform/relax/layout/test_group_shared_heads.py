"""Heads that share a matrix are rows of one product with it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import loomir
from loomir import op, relax
from loomir.tir import Var as ShapeVar
from tests.transform.relax.modules import applied
from tests.transform.relax.test_lowering import calls, described, flat, program, random

N = ShapeVar("n", "int64")


class _Form:
    """Attention of six heads that share two heads of keys and values."""

    def __init__(self, form: str, rows: int = 1, scaled: bool = False) -> None:
        self.form, self.rows, self.scaled = form, rows, scaled

    def repeated(self, b: Any, x: Any, length: Any) -> Any:
        if self.form == "repeat":
            return b.emit(op.repeat(x, 3, 1))
        if self.form == "across":  # heads 0, 1, 0, 1, ...: none are neighbours
            return b.emit(op.tile(x, (1, 3, 1, 1)))
        x = b.emit(op.expand_dims(x, [2]))
        if self.form == "tile":
            x = b.emit(op.tile(x, (1, 1, 3, 1, 1)))
        else:
            x = b.emit(op.broadcast_to(x, (2, 2, 3, length, 4)))
        return b.emit(op.reshape(x, (2, 6, length, 4)))

    def build(self, b: Any, q: Any, k: Any, v: Any) -> Any:
        k, v = [b.emit(op.negative(x)) for x in (k, v)]
        k, v = [self.repeated(b, x, N) for x in (k, v)]
        if self.scaled:
            k = b.emit(op.multiply(k, relax.const([0.5], "float32")))
        y = b.emit(op.matmul(q, b.emit(op.permute_dims(k, [0, 1, 3, 2]))))
        return op.matmul(b.emit(op.nn.softmax(y, -1)), v)

    def made(self) -> list[str]:
        shapes = (2, 6, self.rows, 4), (2, 2, N, 4), (2, 2, N, 4)
        mod = program(self.build, [described(s) for s in shapes])
        args = random(2, 6, self.rows, 4), random(2, 2, 5, 4), random(2, 2, 5, 4)
        after = applied("GroupSharedHeads", mod, *args)
        wanted = flat(loomir.interpret(mod, "main", *args))
        for a, b in zip(wanted, flat(loomir.interpret(after, "main", *args)), strict=True):
            np.testing.assert_array_equal(a, b, strict=True)
        np.testing.assert_allclose(
            flat(loomir.compile(mod)["main"](*args))[0], wanted[0], rtol=1e-5, atol=1e-6
        )
        return calls(loomir.transform.relax.dead_code_elimination(after))


@pytest.mark.parametrize("scaled", [False, True])
@pytest.mark.parametrize("form", ["broadcast", "repeat", "tile"])
def test_shared_heads_are_not_copied(form: str, scaled: bool):
    made = _Form(form, 3, scaled).made()
    assert made.count("matmul") == 2
    assert not {"broadcast_to", "repeat", "tile"} & set(made)


def test_heads_that_are_no_neighbours_stay():
    assert _Form("across").made().count("tile") == 2


def test_many_rows_stay():
    assert _Form("broadcast", 9).made().count("broadcast_to") == 2
