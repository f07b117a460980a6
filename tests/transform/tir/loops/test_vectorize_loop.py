"""Vectorised loops become vectors where that changes nothing, else serial loops."""

from __future__ import annotations

import pytest

import loomir
from loomir.arith.bounds.expression_bounds import Bounds
from loomir.ir.visit import pre_order
from loomir.tir import BufferStore, For, ForKind
from loomir.transform.tir.loops.speculative_reads import SafeReads
from loomir.transform.tir.loops.vector_safety import cannot_vectorize, study
from loomir.transform.tir.loops.vectorize_loop import vectorize_loop
from tests.clause import clauses
from tests.transform.meaning import assert_becomes, assert_stays, check, only, parse

HEAD = """
@T.prim_func
def main(A: T.Buffer((4096,), "int32"), B: T.Buffer((4096,), "int32"), n: T.int32):
"""


def body(text: str) -> str:
    return HEAD + "\n".join("    " + line for line in text.strip().splitlines()) + "\n"


def is_serial(text: str) -> bool:
    """Lower a program, hold that it means the same, and tell whether its loop was left serial."""
    made = only(check(body(text), {"n": 6}))
    stores = [p for p in pre_order(made.body) if isinstance(p, BufferStore)]
    assert stores
    return all(s.indices[0].dtype.lanes == 1 for s in stores)


def has_vectors(text: str) -> bool:
    """Compile a program, and tell whether its code has vectors of 16 lanes before LLVM's passes."""
    return "<16 x i" in loomir.compile(only(parse(text)), schedule=False, cache=False).llvm_ir()


@clauses("TIR-STMT-14")
def test_one_vector_of_the_whole_loop():
    assert_becomes(
        vectorize_loop,
        body("""
for j in T.vectorized(T.int64(16)):
    A[j] = B[j + T.int64(3)] * T.Cast("int32", j) + n
"""),
        body("""
A[T.Ramp(T.int64(0), T.int64(1), 16)] = B[T.Ramp(T.int64(3), T.int64(1), 16)] * T.Ramp(
    0, 1, 16
) + T.Broadcast(n, 16)
"""),
    )


def test_chunks_where_the_loop_is_longer():
    assert_becomes(
        vectorize_loop,
        body("""
for j in T.vectorized(T.int64(256)):
    A[j * T.int64(2)] = n
"""),
        body(
            """
for j_v in range(T.int64(4)):
    A[T.Ramp(j_v * T.int64(64) * T.int64(2), T.int64(2), 64)] = T.Broadcast(n, 64)
""".replace("j_v * T.int64(64) * T.int64(2)", "j_v * T.int64(128)")
        ),
    )


def test_a_remainder_takes_shorter_vectors_and_then_runs_serially():
    assert_becomes(
        vectorize_loop,
        body("""
for j in T.vectorized(T.int64(46)):
    A[j] = n
"""),
        body("""
for j_v in range(T.int64(2)):
    A[T.Ramp(j_v * T.int64(16), T.int64(1), 16)] = T.Broadcast(n, 16)
A[T.Ramp(T.int64(32), T.int64(1), 8)] = T.Broadcast(n, 8)
A[T.Ramp(T.int64(40), T.int64(1), 4)] = T.Broadcast(n, 4)
for j in T.serial(T.int64(44), extent=T.int64(2)):
    A[j] = n
"""),
    )


@pytest.mark.parametrize("extent", [1, 2, 3, 4, 5, 7, 8, 12, 24, 31, 64, 65, 100, 128, 200])
def test_every_extent_runs_every_iteration_once(extent: int):
    check(body(f"for j in T.vectorized({extent}):\n    A[j] = A[j] * 3 + B[j + 1] - j"))


def test_lets_become_vectors():
    assert_becomes(
        vectorize_loop,
        body("""
for j in T.vectorized(T.int64(8)):
    x: T.int32 = B[j] * 2
    y: T.int32 = n * 2
    A[j] = x * y + T.Let(x + n, where={y2: x})
""").replace("T.Let(x + n, where={y2: x})", "x"),
        body("""
x: T.int32x8 = B[T.Ramp(T.int64(0), T.int64(1), 8)] * T.Broadcast(2, 8)
y: T.int32 = n * 2
A[T.Ramp(T.int64(0), T.int64(1), 8)] = x * T.Broadcast(y, 8) + x
"""),
    )


def test_let_expressions_become_vectors():
    check(
        body("""
for j in T.vectorized(8):
    x = T.int32()
    y = T.int32()
    A[j] = T.Let(x * x + T.Let(y + n, where={y: n * 2}), where={x: B[j] + 1})
""")
    )


def test_memory_of_one_iteration_holds_all_lanes():
    made = check(
        body("""
for j in T.vectorized(8):
    t = T.alloc_buffer((3,), "int32", scope="local")
    for k in range(3):
        t[k] = B[j * 3 + k]
    A[j] = t[0] * t[1] + t[2]
""")
    )
    assert "T.allocate([T.int64(24)]" in made.script()


def test_elements_of_own_memory_by_lane():
    check(
        body("""
for j in T.vectorized(8):
    t = T.alloc_buffer((4,), "int32", scope="local")
    for k in range(4):
        t[k] = j + k
    A[j] = t[j % 4]
""")
    )


def test_choices_by_lane():
    check(
        body("""
for j in T.vectorized(8):
    x: T.int32 = T.if_then_else(j < 3, j, n) + T.if_then_else(n < 3, B[j], j)
    A[j] = T.Select(j % 2 == 0, B[j], n) + x
""")
    )


def test_casts_comparisons_and_logic():
    check(
        """
@T.prim_func
def main(A: T.Buffer((16,), "bool"), B: T.Buffer((16,), "float32"), C: T.Buffer((16,), "int8")):
    for j in T.vectorized(16):
        A[j] = B[j] < T.cast(j, "float32") and not (C[j] == T.int8(3)) or j == 5
        C[j] = T.cast(j * 20, "int8") + T.cast(B[j], "int8")
"""
    )


def test_an_inner_loop_runs_for_all_lanes():
    check(
        body("""
for i in range(3):
    for j in T.vectorized(8):
        A[i * 8 + j] = 0
        for k in range(5):
            A[i * 8 + j] = A[i * 8 + j] + B[k * 8 + j] * B[i * 5 + k + 100]
""")
    )


@clauses("TIR-STMT-14a")
@pytest.mark.parametrize(
    "text",
    [
        "for j in T.vectorized(8):\n    A[j] = B[j] // (B[j + 8] - 5)",
        "for j in T.vectorized(8):\n    assert B[j] < 30, 'big'\n    A[j] = 1",
        "for j in T.vectorized(8):\n    if B[j] > 0:\n        A[j] = 1",
        "for j in T.vectorized(n):\n    A[j] = 1",
        "for j in T.vectorized(8):\n    A[0] = A[0] + B[j]",
        "for j in T.vectorized(8):\n    A[0] = B[j]",
        "for j in T.vectorized(8):\n    for k in range(j):\n        A[j] = A[j] + k",
        "for j in T.vectorized(8):\n    A[j + 1] = A[j] + 1",
        "for j in T.vectorized(8):\n    A[j] = 1\n    B[j] = A[7 - j]",
        "for j in T.vectorized(8):\n    for k in range(4):\n        A[j + k] = A[j + k] * 2 + j",
        "for j in T.vectorized(8):\n    A[j // 2] = A[j // 2] + j",
        "for j in T.vectorized(1):\n    A[j] = 1",
        "for j in T.vectorized(8):\n    A[j] = T.if_then_else(j < n, B[j * 1000], 0)",
        "for j in T.vectorized(8):\n    A[j] = T.Select(j < n and B[j * 1000] > 0, 1, 0)",
    ],
)
def test_what_could_change_stays_serial(text: str):
    assert is_serial(text)


@pytest.mark.parametrize(
    "text",
    [
        # rows that are provably disjoint
        "for i in range(4):\n    for j in T.vectorized(8):\n        A[i*8 + j + 8] = A[i*8 + j]",
        # one store of scattered elements keeps the order of lanes
        "for j in T.vectorized(8):\n    A[j // 2] = j",
        "for j in T.vectorized(8):\n    for k in range(4):\n        A[k * 8 + j] = A[k * 8 + j]",
        "for j in T.vectorized(8):\n    A[j * 4 + 1] = 1\n    A[j * 4 + 2] = 2",
    ],
)
def test_what_cannot_change_becomes_vectors(text: str):
    assert not is_serial(text)


@pytest.mark.parametrize(
    "text",
    [
        "for j in T.vectorized(8):\n    A[j] = T.Select(j < n and B[j * 512] > 0, 1, 0)",
        "for j in T.vectorized(8):\n    A[j] = T.if_then_else(B[j] > 0 or A[j] < n, B[j + 1], A[j])",
        "for j in T.vectorized(8):\n    A[j + n] = T.if_then_else(B[j] > 0, B[j + n], 3)",
    ],
)
def test_reads_that_exist_need_no_condition(text: str):
    """The index is in range for all lanes, or is that of an element that the lanes store."""
    assert not is_serial(text)
    check(body(text))


@pytest.mark.parametrize("dtype", ["uint8", "float32"])
def test_reads_of_symbolic_rows_need_no_condition(dtype: str):
    text = f"""
@T.prim_func
def main(a: T.handle, b: T.handle, c: T.handle):
    n = T.int64()
    A = T.match_buffer(a, (n, 16), "{dtype}")
    B = T.match_buffer(b, (n, 16), "{dtype}")
    C = T.match_buffer(c, ({{size}}, 16), "{dtype}")
    for i in range(n):
        for j in T.vectorized(16):
            A[i, j] = T.if_then_else(B[i, j] > T.{dtype}(2), {{read}}, B[i, j])
"""
    assert has_vectors(text.format(size="n", read="C[i, j]"))
    assert not has_vectors(text.format(size="n + 1", read="C[i + 1, j]"))


def test_memory_that_the_program_declares_may_be_smaller():
    text = """
@T.prim_func
def main(A: T.Buffer((16,), "int32"), B: T.Buffer((4,), "int32"), n: T.int32):
    C = T.decl_buffer((16,), "int32", data=B.data)
    for j in T.vectorized(16):
        A[j] = T.if_then_else(j < n, C[j], 0)
"""
    assert not has_vectors(text)
    assert has_vectors(text.replace("C[j]", "B[j % 4]"))
    offset = text.replace("data=B.data)", "data=A.data, elem_offset=8)")
    assert not has_vectors(offset)


@pytest.mark.parametrize(("dtype", "vectors"), [("int32", True), ("int64", False)])
def test_memory_that_is_read_as_another_type(dtype: str, vectors: bool):
    text = f"""
@T.prim_func
def main(A: T.Buffer((16,), "int32"), B: T.Buffer((16,), "int32"), n: T.int32):
    C = T.decl_buffer((16,), "{dtype}", data=B.data)
    for j in T.vectorized(16):
        A[j] = T.Cast("int32", T.if_then_else(j < n, C[j], T.{dtype}(0)))
"""
    assert has_vectors(text) is vectors


def test_an_iteration_may_not_be_read_ahead():
    """Where the program promises nothing that can be checked, the promise is believed."""
    assert not is_serial("for j in T.vectorized(8):\n    A[j + T.cast(n, 'int64') * 16] = A[j] + 1")


def test_why_a_loop_cannot_be_vectorised():
    func = only(parse(body("for j in T.vectorized(8):\n    A[j] = B[j] // n")))
    (loop,) = (p for p in pre_order(func.body) if isinstance(p, For))
    assert str(cannot_vectorize(study(loop), SafeReads(func, Bounds()))) == "the body may fail"


def test_only_the_innermost_of_nested_vector_loops():
    made = check(
        body("for i in T.vectorized(4):\n    for j in T.vectorized(8):\n        A[i * 8 + j] = i")
    )
    func = only(made)
    kinds = [p.kind for p in pre_order(func.body) if isinstance(p, For)]
    assert kinds == [ForKind.SERIAL]


def test_doubles_take_fewer_lanes():
    made = check(
        """
@T.prim_func
def main(A: T.Buffer((128,), "float64")):
    for j in T.vectorized(128):
        A[j] = A[j] * T.float64(2)
"""
    )
    assert "T.Broadcast(T.float64(2.0), 32)" in made.script()


def test_without_vector_loops_nothing_changes():
    assert_stays(vectorize_loop, body("for j in range(T.int64(8)):\n    A[j] = 1"))


def test_a_scalar_picked_from_scalars():
    assert_becomes(
        vectorize_loop,
        body("for j in T.vectorized(T.int64(8)):\n    A[j] = T.Shuffle([n, B[j]], [1])"),
        body("A[T.int64(0) : T.int64(8)] = B[T.int64(0) : T.int64(8)]"),
    )


@pytest.mark.parametrize(
    ("element", "serial"),
    [
        ("A[n + 16]", True),  # nothing is known of n
        ("A[i * 64 + 20]", False),  # before the stores of its row
        ("A[i * 64 + 21]", True),
        ("A[i * 64 + 36]", True),
        ("A[i * 64 + 37]", False),  # behind them
        ("A[1000]", False),
        ("A[i + 25]", True),  # within those of the first row
    ],
)
def test_one_element_for_all_lanes_that_none_of_them_stores(element: str, serial: bool):
    text = f"""
for i in range(5):
    for j in T.vectorized(16):
        A[i * 64 + 21 + j] = A[i * 64 + 21 + j] * {element} + B[j]
"""
    assert is_serial(text) == serial
