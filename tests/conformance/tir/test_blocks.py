"""Statement semantics, fourth part: blocks."""

from __future__ import annotations

import numpy as np
import pytest

from loomir.tir import Evaluate, SeqStmt, Var, convert, decl_buffer
from tests.conformance.compare_engines import both, fails, i32, mistakes, refused, zeros
from tests.tir.programs import block, func, iterator, loop, store, use

# -- scopes and allocations ----------------------------------------------------------------------


def test_TIR_STMT_18_scope():
    """A block has a scope of its own: what it binds ends with it."""
    v, i, buffer = Var("v", "int32"), Var("i", "int32"), decl_buffer((4,), "int32", "A")
    made = block([(iterator(v, 4), i)], store(buffer, v * 3, v))
    assert both(func(loop(i, 4, made), buffer), zeros(4)).tolist() == [0, 3, 6, 9]
    after = SeqStmt((block([(iterator(v, 4), 0)], Evaluate(convert(0))), use(v)))
    assert mistakes(func(after)) == ["TIR0401"]


def test_TIR_STMT_18a_allocations_in_order():
    """A block allocates its buffers in order, before init and body, with extents known there (T50)."""
    source = """
        @T.prim_func
        def main(x: T.int32, A: T.Buffer((4,), "int32")):
            for i in range(4):
                with T.sblock("b"):
                    v = T.axis.spatial(4, i)
                    B = T.alloc_buffer(({}, v + 1), "int32")
                    C = T.alloc_buffer(({},), "int32")
                    for j, k in T.grid(x, v + 1):
                        B[j, k] = j + k
                    C[0] = B[x - 1, v]
                    A[v] = C[0]
    """
    assert both(source.format("x", "1"), 2, zeros(4)).tolist() == [1, 2, 3, 4]
    first, second = "8 // x", "8 % x"
    assert "FloorDiv" in fails("RUN0201", source.format(first, second), 0, zeros(4)).message
    assert "FloorMod" in fails("RUN0201", source.format(second, first), 0, zeros(4)).message


# -- views ---------------------------------------------------------------------------------------
def view(region: str, shape: str, *body: str, params: str = "") -> str:
    """Write a program with a view of a region of a 4 by 8 array."""
    lines = "".join(f"\n                {line}" for line in body)
    return f"""
        @T.prim_func
        def main({params}A: T.Buffer((4, 8), "int32")):
            with T.sblock("b"):
                V = T.match_buffer(A[{region}], {shape}, "int32"){lines}
    """


def grid() -> np.ndarray:
    return np.arange(32, dtype=np.int32).reshape(4, 8)


def changed(source: str, *args: object) -> dict[tuple[int, int], int]:
    """Run on 0 to 31, and give what differs afterwards, by place."""
    before, after = grid(), both(source, *args, grid())
    return {(int(i), int(j)): int(after[i, j]) for i, j in np.argwhere(before != after)}


def test_TIR_STMT_18b_views():
    """An access to a view is one to its source, moved by the start of the region, both ways."""
    source = view(
        "1:3, 2:5", "(2, 3)", "V[1, 2] = V[0, 0] + 1000", "A[2, 3] = 77", "A[0, 0] = V[1, 1]"
    )
    assert changed(source) == {(2, 4): 1010, (2, 3): 77, (0, 0): 77}
    moved = view("x:x + 2, x:x + 3", "(2, 3)", "V[1, 2] = 500", params="x: T.int32, ")
    assert changed(moved, 2) == {(3, 4): 500}


def test_TIR_STMT_18b_views_of_views():
    """A view may be of a view; the starts add up."""
    source = view(
        "1:4, 2:6",
        "(3, 4)",
        "with T.sblock('inner'):",
        "    W = T.match_buffer(V[1, 1:3], (2,), 'int32')",
        "    W[1] = 500",
    )
    assert changed(source) == {(2, 4): 500}


def test_TIR_STMT_18b_views_of_strided_arguments():
    """A view of an array with strides has them too."""
    source = """
        @T.prim_func
        def main(a: T.handle):
            A = T.match_buffer(a, (4, 8), "int32", strides=(s, t))
            with T.sblock("b"):
                V = T.match_buffer(A[1:3, 2:5], (2, 3), "int32", strides=(p, q))
                V[1, 2] = T.cast(p * 100 + q, "int32")
    """
    given = np.zeros((8, 16), np.int32)[::2, ::2]
    out = both(source, given)
    assert out[2, 4] == 32 * 100 + 2
    assert np.count_nonzero(out) == 1


def test_TIR_STMT_18c_names_of_layout():
    """Names in a view's strides and offset are bound; what to is not specified (here: the layout)."""
    source = """
        @T.prim_func
        def main(A: T.Buffer((4, 8), "int32")):
            with T.sblock("b"):
                V = T.match_buffer(A[1:3, 2:5], (2, 3), "int32", strides=(s, t), elem_offset=o)
                V[0, 0] = T.cast(s * 10 + t, "int32")
                V[0, 1] = T.cast(o - o, "int32")
    """
    assert changed(source) == {(1, 2): 81, (1, 3): 0}


def test_TIR_STMT_18d_names_of_extents():
    """A name in a view's shape is bound to the extent; where it is bound, it must agree (T7)."""
    bound = """
        @T.prim_func
        def main(x: T.int32, A: T.Buffer((4, 8), "int32")):
            with T.sblock("b"):
                n = T.int32()
                V = T.match_buffer(A[0:x, 0:{}], (n, n), "int32")
                V[0, 0] = n + 100
    """
    assert changed(bound.format("x"), 3) == {(0, 0): 103}
    fails("RUN0211", bound.format("x + 1"), 3, grid())
    refused("TIR0412", view("1:3, 2:5", "(2, 4)", "V[0, 0] = 1"))


def test_TIR_STMT_18e_fewer_axes():
    """A view may leave out leading axes of extent 1; their starts are used as they are."""
    assert changed(view("2, 4:7", "(3,)", "V[2] = 500")) == {(2, 6): 500}
    assert changed(view("3, 5", "()", "V[()] = 500")) == {(3, 5): 500}
    moved = view("x:x + 1, 4:7", "(3,)", "V[0] = 500", params="x: T.int32, ")
    assert changed(moved, 1) == {(1, 4): 500}


@pytest.mark.parametrize("step", [1, -1])
def test_TIR_STMT_18f_vector_indices(step: int):
    """A vector index into a view is moved in every lane."""
    start = 0 if step > 0 else 3
    source = view("1, 2:6", "(4,)", f"V[T.Ramp({start}, {step}, 4)] = T.Ramp(500, 1, 4)")
    lanes = [(1, 2 + start + step * k) for k in range(4)]
    assert changed(source) == {place: 500 + k for k, place in enumerate(lanes)}
    load = view("1, 2:6", "(4,)", f"A[0, 0:4] = V[T.Ramp({start}, {step}, 4)] * 100")
    assert changed(load) == {(0, k): (10 + start + step * k) * 100 for k in range(4)}


def test_TIR_STMT_18g_beyond_the_region():
    """Nothing is promised beyond the region, though the source goes on; with checks it is an error (T8)."""
    source = view("1, 2:5", "(3,)", "V[x] = 1  # <--", params="x: T.int32, ")
    for index in (-1, 3, 100):
        fails("RUN0203", source, index, grid(), check_bounds=True)
    refused("SCR0019", view("1, 2:5", "(3,)", "V[3] = 1  # <--"))


# -- init ----------------------------------------------------------------------------------------
def sums(loops: str, value: str = "k", dom: str = "8", init: str = "100") -> str:
    """Write a program that sums the rows of A into B, from ``init``, by loops of a certain order."""
    heads = loops.split("; ")
    lines = "".join(f"\n        {'    ' * depth}for {head}:" for depth, head in enumerate(heads))
    pad = "    " * len(heads)
    return f"""
@T.prim_func
def main(A: T.Buffer((4, 8), "int32"), B: T.Buffer((4,), "int32")):
    {lines.strip().replace(chr(10) + "        ", chr(10) + "    ")}
    {pad}with T.sblock("b"):
    {pad}    vi = T.axis.spatial(4, i)
    {pad}    vk = T.axis.reduce({dom}, {value})
    {pad}    with T.init():
    {pad}        B[vi] = {init}
    {pad}    B[vi] = B[vi] + A[vi, vk]
"""


WANTED = [100 + int(row.sum()) for row in grid()]


@pytest.mark.parametrize(
    ("loops", "value"),
    [
        ("i in range(4); k in range(8)", "k"),
        ("k in range(8); i in range(4)", "k"),
        ("i in range(4); ko in range(2); ki in range(4)", "ko * 4 + ki"),
        ("ko in range(2); i in range(4); ki in range(4)", "ko * 4 + ki"),
        ("i in T.parallel(4); k in range(8)", "k"),
        ("i in range(4); k in T.unroll(8)", "k"),
        ("k in range(8); i in T.vectorized(4)", "k"),
    ],
)
def test_TIR_STMT_18h_reductions(loops: str, value: str):
    """In a reduction, init runs once for each point, when the reduced axes are at their start (T1)."""
    out = both(sums(loops, value), grid(), i32(-7, -7, -7, -7))
    assert out.tolist() == WANTED


def test_TIR_STMT_18h_several_reduced_axes():
    """With several reduced axes, init runs where all of them are at their start, and only there (T1)."""
    source = """
        @T.prim_func
        def main(A: T.Buffer((2, 3, 4), "int32"), B: T.Buffer((2,), "int32")):
            for i, j, k in T.grid(2, 3, 4):
                with T.sblock("b"):
                    v, p, q = T.axis.remap("SRR", [i, j, k])
                    with T.init():
                        B[v] = 1000
                    B[v] = B[v] + A[v, p, q]
    """
    data = np.arange(24, dtype=np.int32).reshape(2, 3, 4)
    wanted = (data.sum((1, 2)) + 1000).tolist()
    assert both(source, data, i32(-7, -7)).tolist() == wanted
    swapped = source.replace("i, j, k in T.grid(2, 3, 4)", "k, j, i in T.grid(4, 3, 2)")
    assert both(swapped, data, i32(-7, -7)).tolist() == wanted


def test_TIR_STMT_18h_other_starts():
    """A reduced axis starts where its domain does (T1)."""
    source = sums("i in range(4); k in range(2, 8)", "k", "(2, 8)")
    wanted = [100 + int(row[2:].sum()) for row in grid()]
    assert both(source, grid(), i32(-7, -7, -7, -7)).tolist() == wanted
    # A loop that does not begin there never runs init, and is refused.
    refused("TIR0413", sums("i in range(4); k in range(3, 8)", "k", "8"))


def test_TIR_STMT_18i_no_reduction():
    """Without a reduced axis, init runs each time."""
    source = """
        @T.prim_func
        def main(A: T.Buffer((4,), "int32")):
            for j in range(3):
                for i in range(4):
                    with T.sblock("b"):
                        v = T.axis.spatial(4, i)
                        with T.init():
                            A[v] = v * 10
                        A[v] = A[v] + 1
    """
    assert both(source, zeros(4)).tolist() == [1, 11, 21, 31]
    once = """
        @T.prim_func
        def main(A: T.Buffer((1,), "int32")):
            with T.sblock("b"):
                k = T.axis.reduce(1, 0)
                with T.init():
                    A[0] = 50
                A[0] = A[0] + 1
    """
    assert both(once, zeros(1)).tolist() == [51]


def test_TIR_STMT_18j_descriptions():
    """What a block says that it reads and writes, and its notes, change nothing that runs."""
    source = """
        @T.prim_func
        def main(A: T.Buffer((4,), "int32"), B: T.Buffer((4,), "int32")):
            for i in range(4):
                with T.sblock("b"):
                    v = T.axis.spatial(4, i)
                    T.reads(A[0:1])
                    T.writes()
                    T.block_attr({"note": 1, "other": "x"})
                    B[v] = A[3 - v] + 1
    """
    assert both(source, i32(1, 2, 3, 4), zeros(4)).tolist() == [5, 4, 3, 2]


def test_TIR_STMT_18k_allocations_end():
    """What a block allocates ends with it: it is fresh each time, and out of scope after."""
    source = """
        @T.prim_func
        def main(A: T.Buffer((4,), "int32")):
            for i in range(4):
                with T.sblock("b"):
                    v = T.axis.spatial(4, i)
                    B = T.alloc_buffer((1,), "int32")
                    if v % 2 == 0:
                        B[0] = 7
                    else:
                        B[0] = 9
                    A[v] = B[0]
    """
    assert both(source, zeros(4)).tolist() == [7, 9, 7, 9]
    refused(
        "SCR0003",
        """
        @T.prim_func
        def main(A: T.Buffer((4,), "int32")):
            with T.sblock("b"):
                B = T.alloc_buffer((1,), "int32")
                B[0] = 7
            A[0] = B[0]  # <--
        """,
    )


# -- realization ---------------------------------------------------------------------------------
def test_TIR_STMT_19_values():
    """Realizing a block evaluates the values of its axes in order, and binds them (T48)."""
    source = """
        @T.prim_func
        def main(x: T.int32, A: T.Buffer((4, 4), "int32")):
            for i in range(4):
                with T.sblock("b"):
                    u = T.axis.spatial(4, {})
                    v = T.axis.spatial(4, {})
                    A[u, v] = i + 1
    """
    out = both(source.format("3 - i", "i // 2 * 2"), 0, zeros(4, 4))
    assert {(3 - i, i // 2 * 2): i + 1 for i in range(4)} == {
        (int(u), int(v)): int(out[u, v]) for u, v in np.argwhere(out)
    }
    quotient, remainder = "1 // x", "1 % x"
    for order, word in [((quotient, remainder), "FloorDiv"), ((remainder, quotient), "FloorMod")]:
        assert word in fails("RUN0201", source.format(*order), 0, zeros(4, 4)).message


def test_TIR_STMT_19a_predicates():
    """Where the predicate is false nothing of the block happens; it is evaluated outside of it (T2)."""
    source = """
        @T.prim_func
        def main(x: T.int32, A: T.Buffer((12,), "int32")):
            for i, j in T.grid(3, 4):
                with T.sblock("b"):
                    v = T.axis.spatial(12, i * 4 + j)
                    T.where({})
                    B = T.alloc_buffer((4 // x,), "int32")
                    with T.init():
                        A[v] = 50
                    A[v] = A[v] + 1
    """
    data = i32(*[-7] * 12)
    assert both(source.format("i * 4 + j < 10"), 1, data).tolist() == [51] * 10 + [-7, -7]
    assert both(source.format("i > 5"), 0, data).tolist() == [-7] * 12
    fails("RUN0201", source.format("i < 5"), 0, data)


def test_TIR_STMT_19b_end():
    """After a block its axes are gone: the next block may use the names again."""
    source = """
        @T.prim_func
        def main(A: T.Buffer((4,), "int32")):
            for i in range(4):
                with T.sblock("first"):
                    v = T.axis.spatial(4, i)
                    A[v] = v
                with T.sblock("second"):
                    v = T.axis.spatial(4, 3 - i)
                    A[v] = A[v] + 10
    """
    assert both(source, zeros(4)).tolist() == [10, 11, 2, 3]
    refused("SCR0003", source + "            A[0] = v  # <--\n")
