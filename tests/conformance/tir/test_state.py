"""State managed by a program: memory, errors, and what can be observed."""

from __future__ import annotations

import numpy as np
import pytest

import loomir
from tests.conformance.compare_engines import both, both_ways, fails, i32, read, run_both, zeros

SQUARES = """
    @T.prim_func
    def main(A: T.Buffer((4,), "int32"), B: T.Buffer((4,), "int32")):
        for i in range(4):
            B[i] = A[i] * A[i]
            A[i] = 0 - A[i]
"""


def test_TIR_STATE_01_the_caller_allocates_arguments():
    """An array that is passed is the caller's memory: what is around it stays untouched."""
    for run in both_ways(SQUARES):
        memory = np.full(12, 99, np.int32)
        run(i32(1, 2, 3, 4), memory[4:8])
        assert memory.tolist() == [99] * 4 + [1, 4, 9, 16] + [99] * 4


def test_TIR_STATE_02_any_element_of_arguments():
    """A program reads and writes any element of the arrays that it is given, in any order."""
    source = """
        @T.prim_func
        def main(A: T.Buffer((2, 3), "int32")):
            for i, j in T.grid(2, 3):
                A[i, j] = A[1 - i, 2 - j] + 1
    """
    assert both(source, np.arange(6, dtype=np.int32).reshape(2, 3)).tolist() == [
        [6, 5, 4],
        [5, 6, 7],
    ]


def test_TIR_STATE_03_allocations_end_with_their_scope():
    """What a program allocates is freed at the end of its scope: a loop may allocate for long."""
    source = """
        @T.prim_func
        def main(n: T.int64, A: T.Buffer((1,), "int32")):
            for i in range(n):
                with T.sblock("b"):
                    B = T.alloc_buffer((n * 4096,), "int32")
                    B[i] = T.cast(i, "int32")
                    A[0] = A[0] + B[i]
    """
    # 4000 times 64 MiB are 250 GiB: only freed memory lets this end.
    function = loomir.compile(read(source), cache=False)["main"]
    out = zeros(1)
    function(4000, out)
    assert out[0] == 4000 * 3999 // 2
    assert both(source, 5, zeros(1)).tolist() == [10]


def test_TIR_STATE_04_external_calls():
    """A call out of the program may change anything: what it wrote is read, nothing is kept back."""
    seen: list[list[int]] = []

    @loomir.register_func("conformance.touch", override=True)
    def touch(a: np.ndarray) -> int:
        seen.append(a.tolist())
        a[0] += 100
        return len(seen)

    source = """
        @T.prim_func
        def main(A: T.Buffer((2,), "int32")):
            A[0] = 1
            A[1] = T.call_packed("conformance.touch", A)
            A[1] = A[0] + A[1] * 1000
            T.call_packed("conformance.touch", A)
            A[0] = A[0] + 1
    """
    for run in both_ways(source):
        seen.clear()
        data = zeros(2)
        run(data)
        assert seen == [[1, 0], [101, 1101]]
        assert data.tolist() == [202, 1101]


@pytest.mark.parametrize(
    ("code", "body"),
    [
        ("RUN0201", "A[0] = 1 // A[1]"),
        ("RUN0202", 'assert A[1] > 0, "positive"'),
    ],
)
def test_TIR_STATE_05_errors(code: str, body: str):
    """Expressions and assertions may raise errors, which end the program where they stand."""
    source = f"""
        @T.prim_func
        def main(A: T.Buffer((2,), "int32")):
            {body}  # <--
            A[0] = 7
    """
    fails(code, source, zeros(2))


def test_TIR_STATE_06_what_is_observable():
    """Writes to arguments, results and errors can be seen by the caller."""
    value, arrays = run_both(
        """
        @T.prim_func
        def main(A: T.Buffer((2,), "int32")) -> T.int32:
            A[1] = 8
            return A[0] + 1
        """,
        i32(4, 0),
    )
    assert value == 5
    assert arrays[0].tolist() == [4, 8]
    early = """
        @T.prim_func
        def main(A: T.Buffer((2,), "int32")):
            A[0] = 5
            assert A[1] > 0, "stop"
            A[1] = 6
    """
    for run in both_ways(early):
        data = zeros(2)
        with pytest.raises(loomir.RunError):
            run(data)
        assert data.tolist() == [5, 0]


NO_SPARE = """
    @T.prim_func
    def main(A: T.Buffer((4,), "int32"), B: T.Buffer((4,), "int32")):
        U = T.alloc_buffer((1000,), "int32")
        C = T.alloc_buffer((4,), "int32")
        for i in range(4):
            U[i] = A[i]
            C[i] = A[i] + 1
        for i in range(4):
            B[i] = C[i] * 2
"""


def test_TIR_STATE_07_allocations_are_not_observable():
    """The compiler may drop or move allocations: that one is not needed cannot be told from results."""
    assert both(NO_SPARE, i32(1, 2, 3, 4), zeros(4)).tolist() == [4, 6, 8, 10]
    # Two of the same size may become one, none may be kept: only what is in them when it matters.
    reused = """
        @T.prim_func
        def main(A: T.Buffer((4,), "int32"), B: T.Buffer((4,), "int32")):
            for i in range(4):
                with T.sblock("first"):
                    C = T.alloc_buffer((1,), "int32")
                    C[0] = A[i] + 1
                    B[i] = C[0]
                with T.sblock("second"):
                    D = T.alloc_buffer((1,), "int32")
                    D[0] = A[i] * 10
                    B[i] = B[i] + D[0]
    """
    assert both(reused, i32(1, 2, 3, 4), zeros(4)).tolist() == [12, 23, 34, 45]


@pytest.mark.parametrize("level", [0, 1, 2, 3])
def test_TIR_STATE_08_observable_behaviour_is_kept(level: int):
    """Whatever the compiler does at any level, what can be observed is the same."""
    out = both(NO_SPARE, i32(1, 2, 3, 4), zeros(4), opt_level=level)
    assert out.tolist() == [4, 6, 8, 10]
    fails(
        "RUN0202",
        """
        @T.prim_func
        def main(n: T.int32, A: T.Buffer((4,), "int32")):
            for i in range(4):
                assert i < n, "too far"  # <--
                A[i] = i
        """,
        2,
        zeros(4),
        opt_level=level,
    )
