"""What statements and blocks read and write, in terms of the loops around them."""

from __future__ import annotations

from loomir.ir.equality import are_equal
from loomir.ir.visit import by_class
from loomir.loops.accesses import loads_and_stores, nest_of
from loomir.loops.regions import block_regions
from loomir.script import tir as T
from loomir.tir.function import PrimFunc
from loomir.tir.stmt import Block, For


def block_of(func: PrimFunc, name: str) -> Block:
    blocks: list[Block] = by_class(func.body)[Block]
    return next(block for block in blocks if block.name_hint == name)


@T.prim_func
def stencil(a: T.Buffer((18,), "int32"), b: T.Buffer((16,), "int32")):
    for i in range(16):
        with T.sblock("b"):
            v = T.axis.spatial(16, i)
            b[v] = a[v] + a[v + 2]


@T.prim_func
def tiled(a: T.Buffer((64,), "int32"), b: T.Buffer((64,), "int32")):
    for i in range(8):
        with T.sblock("tile"):
            v = T.axis.spatial(8, i)
            for j in range(8):
                b[v * 8 + j] = a[v * 8 + j]


@T.prim_func
def gathered(
    a: T.Buffer((16,), "int32"), at: T.Buffer((16,), "int32"), b: T.Buffer((16,), "int32")
):
    for i in range(16):
        b[i] = a[at[i]]


def test_the_elements_of_a_block_are_in_terms_of_loops():
    (loop,) = by_class(stencil.body)[For]
    nest = nest_of(loop)
    assert [var.name_hint for var in nest.loops] == ["i"]
    assert not nest.obstacle
    points = [access.point for access in nest.accesses]
    found = [(a.is_write, str(p[0])) for a, p in zip(nest.accesses, points) if p is not None]
    assert sorted(found) == [(False, "i"), (False, "i + 2"), (True, "i")]


def test_the_regions_of_a_block_are_the_tile_that_its_loops_reach():
    reads, writes = block_regions(block_of(tiled, "tile"))
    for region in (*reads, *writes):
        ((start, extent),) = ((r.min, r.extent) for r in region.region)
        assert (str(start), str(extent)) == ("v * 8", "8")


def test_an_index_that_is_looked_up_may_be_anywhere():
    nest = nest_of(gathered.body)
    (load,) = [a for a in nest.accesses if a.buffer.name == "a"]
    assert load.point is None
    assert are_equal(load.region, load.buffer.whole().region)


def test_loads_and_stores_are_all_accesses():
    names = [access.buffer.name for access in loads_and_stores(by_class(gathered.body))]
    assert sorted(names) == ["a", "at", "b"]
