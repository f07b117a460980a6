"""Loop nests, split and wrapped."""

from __future__ import annotations

from loomir.ir.equality import structural_equal
from loomir.loops.nests import (
    innermost_body,
    is_rectangular,
    is_serial,
    nest_over,
    split_nest,
    wrap_in_loops,
)
from loomir.script import tir as T
from loomir.tir.expr import IntImm, Var, const
from loomir.tir.stmt import BufferStore, For


@T.prim_func
def triangle(a: T.Buffer((8, 8), "int32")):
    for i in range(8):
        for j in range(i):
            a[i, j] = 1


@T.prim_func
def marked(a: T.Buffer((8, 8), "int32")):
    for i in range(8):
        for j in T.parallel(8):
            a[i, j] = 1


def test_a_nest_is_its_loops_around_its_body():
    loops, body = split_nest(triangle.body)
    assert [loop.loop_var.name_hint for loop in loops] == ["i", "j"]
    assert isinstance(body, BufferStore)
    assert structural_equal(wrap_in_loops(loops, body), triangle.body)


def test_a_nest_ends_at_a_loop_that_is_marked():
    loops, rest = split_nest(marked.body)
    assert [loop.loop_var.name_hint for loop in loops] == ["i"]
    assert isinstance(rest, For)
    assert not is_serial(rest)
    assert isinstance(innermost_body(marked.body), BufferStore)


def test_bounds_that_depend_on_an_outer_loop_are_not_rectangular():
    assert not is_rectangular(split_nest(triangle.body)[0])
    assert is_rectangular(split_nest(triangle.body)[0][:1])


def test_loops_over_extents_count_from_zero_outermost_first():
    store = innermost_body(triangle.body)
    i, j = (Var(name, "int32") for name in "ij")
    made = nest_over([i, j], [const(3, "int32"), const(4, "int32")], store)
    loops, body = split_nest(made)
    assert body is store
    assert [str(loop.extent) for loop in loops] == ["3", "4"]
    assert [loop.loop_var for loop in loops] == [i, j]
    assert all(isinstance(loop.min, IntImm) and not loop.min.value for loop in loops)
