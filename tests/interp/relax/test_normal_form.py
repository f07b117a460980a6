"""A program in normal form does what it did before, in the same order."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from loomir.relax import Function, If, PrimValue, SeqExpr, ShapeExpr, Tuple, TupleGetItem, Var
from loomir.relax.normal.normalize import normalize
from loomir.relax.struct_info import OBJECT
from loomir.runtime.packed.registry import register_func, remove_func
from tests.clause import clauses
from tests.interp.relax.build import (
    bind,
    cast,
    func,
    op,
    packed,
    prim,
    run,
    seq,
    size,
    tensor,
    var,
)

NOTE = "test.normal_form.note"
SEEN: list[int] = []


@pytest.fixture(autouse=True, scope="module")
def _note() -> Any:
    def note(number: Any, *values: Any) -> tuple[Any, ...]:
        SEEN.append(int(number))
        return (int(number), *values)

    register_func(NOTE, note)
    yield
    remove_func(NOTE)


class Maker:
    """Draws expressions that are not in normal form; each call of ``note`` has a number."""

    def __init__(self, draw: Any) -> None:
        self.draw = draw
        self.calls = 0
        self.n = size("n")
        self.x = var("x", tensor(self.n))
        self.c = var("c", prim("bool"))

    def function(self) -> Function:
        body = self.expr([self.x], 4)
        return Function(
            (self.x, self.c), body, OBJECT, is_pure=False, attrs={"global_symbol": "main"}
        )

    def expr(self, names: list[Var], depth: int) -> Any:
        kinds = ["name", "size", "shape"]
        if depth:
            kinds += ["note", "tuple", "field", "if", "sequence", "operator"] * 2
        return getattr(self, f"_{self.draw(st.sampled_from(kinds))}")(names, depth - 1)

    def _name(self, names: list[Var], depth: int) -> Any:
        return self.draw(st.sampled_from(names))

    def _size(self, names: list[Var], depth: int) -> Any:
        return PrimValue(self.n + self.draw(st.integers(0, 3)))

    def _shape(self, names: list[Var], depth: int) -> Any:
        return ShapeExpr((self.n, self.n * 2))

    def _note(self, names: list[Var], depth: int) -> Any:
        self.calls += 1
        number = PrimValue(self.calls)
        count = self.draw(st.integers(0, 2))
        return packed(NOTE, number, *[self.expr(names, depth) for _ in range(count)])

    def _tuple(self, names: list[Var], depth: int) -> Any:
        return Tuple(tuple(self.expr(names, depth) for _ in range(self.draw(st.integers(0, 3)))))

    def _field(self, names: list[Var], depth: int) -> Any:
        fields = [self.expr(names, depth) for _ in range(self.draw(st.integers(1, 3)))]
        return TupleGetItem(Tuple(tuple(fields)), self.draw(st.integers(0, len(fields) - 1)))

    def _if(self, names: list[Var], depth: int) -> Any:
        return If(self.c, self.expr(names, depth), self.expr(names, depth))

    def _operator(self, names: list[Var], depth: int) -> Any:
        noted = self.draw(st.booleans())
        inner = op("negative", self.x)
        return op("add", self._marked(inner) if noted else inner, self._marked(self.x))

    def _marked(self, value: Any) -> Any:
        """Return a tensor after a call of ``note``."""
        self.calls += 1
        u = var("u", OBJECT)
        return seq(value, bind(u, packed(NOTE, PrimValue(self.calls))))

    def _sequence(self, names: list[Var], depth: int) -> Any:
        y, z = var("y", OBJECT), var("z", OBJECT)
        first = bind(y, packed(NOTE, PrimValue(0), self.expr(names, depth)))
        second = cast(z, self.expr([*names, y], depth), OBJECT)
        made = seq(self.expr([*names, y, z], depth), first, second)
        assert isinstance(made, SeqExpr)
        return made


@clauses("RX-SEM-24", "RX-SEM-27")
@given(st.data(), st.booleans())
def test_normal_form_keeps_results_and_the_order_of_effects(data: Any, condition: bool):
    program = Maker(data.draw).function()
    x = np.arange(3, dtype="float32")
    before = _outcome(program, x, condition)
    after = _outcome(normalize(program), x, condition)
    assert after[1] == before[1]
    _same(after[0], before[0])


def _outcome(program: Function, x: Any, condition: bool) -> tuple[Any, list[int]]:
    SEEN.clear()
    made = run(func(program.params, program.body, OBJECT), x, condition)
    return made, list(SEEN)


def _same(a: Any, b: Any) -> None:
    if isinstance(b, tuple):
        assert type(a) is type(b)
        assert len(a) == len(b)
        for one, two in zip(a, b, strict=True):
            _same(one, two)
    elif isinstance(b, np.ndarray):
        np.testing.assert_array_equal(a, b)
    else:
        assert a == b
        assert type(a) is type(b)
