"""Tensors that live at the same time never share memory, whatever the shape variables are."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from loomir.arith import Analyzer
from loomir.ir import substitute
from loomir.tir import IntImm, PrimExpr, Var
from loomir.tir.expr import const
from loomir.transform.relax.memory.memory_plan import ALIGNMENT, MemoryRequest, plan_arena

N, M = Var("n", "int64"), Var("m", "int64")


def value_of(e: PrimExpr, given: dict[Var, int]) -> int:
    mapping = {var: const(value, "int64") for var, value in given.items()}
    made = Analyzer().simplify(substitute(e, mapping))
    assert isinstance(made, IntImm)
    return made.value


def sizes() -> st.SearchStrategy[PrimExpr]:
    fixed = st.integers(0, 500).map(lambda v: const(v, "int64"))
    symbolic = st.tuples(st.sampled_from([N, M, N * M]), st.integers(1, 9)).map(
        lambda p: p[0] * const(p[1], "int64")
    )
    return st.one_of(fixed, symbolic)


@st.composite
def requests(draw: st.DrawFn) -> list[MemoryRequest]:
    made: list[MemoryRequest] = []
    for first in range(draw(st.integers(1, 30))):
        last = first + draw(st.integers(0, 8))
        made.append(MemoryRequest(draw(sizes()), first, last))
    return made


@given(requests(), st.integers(0, 50), st.integers(0, 50))
def test_what_lives_at_once_does_not_overlap(wanted: list[MemoryRequest], n: int, m: int):
    analyzer = Analyzer()
    for var in (N, M):
        analyzer.assume_size(var)
    plan = plan_arena(wanted, analyzer)
    given_ = {N: n, M: m}
    places = [
        (value_of(at, given_), value_of(w.size, given_)) for at, w in zip(plan.offsets, wanted)
    ]
    total = value_of(plan.size, given_)
    for (start, size), w in zip(places, wanted):
        assert start % ALIGNMENT == 0
        assert 0 <= start <= start + size <= total
        for (other, length), v in zip(places, wanted):
            at_once = w is not v and w.first <= v.last and v.first <= w.last
            if at_once and size and length:
                assert start + size <= other or other + length <= start


def test_memory_is_used_again():
    chain = [MemoryRequest(const(256, "int64"), i, i + 1) for i in range(100)]
    plan = plan_arena(chain, Analyzer())
    assert isinstance(plan.size, IntImm)
    assert plan.size.value == 512
    analyzer = Analyzer()
    analyzer.assume_size(N)
    symbolic = [MemoryRequest(N * 4, i, i + 1) for i in range(100)]
    assert value_of(plan_arena(symbolic, analyzer).size, {N: 64}) == 512


def test_a_smaller_tensor_takes_a_larger_slot():
    analyzer = Analyzer()
    analyzer.assume_size(N)
    plan = plan_arena([MemoryRequest(N * 8, 0, 0), MemoryRequest(N * 4, 1, 1)], analyzer)
    assert value_of(plan.size, {N: 64}) == 512
