"""Products with rows between: blocks of rows go through all stages, and give what the stages do."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import loomir
from fuzz.native import quick_codegen
from loomir import te
from loomir.ir.visit import by_class
from loomir.te import topi
from loomir.tir.function import PrimFunc
from loomir.tir.stmt import Block
from tests.autoschedule.agreement import interpret_both, scheduled

RANDOM = np.random.default_rng(5)


def arrays_of(func: PrimFunc) -> list[np.ndarray]:
    made: list[np.ndarray] = []
    for buffer in func.buffer_map.values():
        shape = [e.value for e in buffer.shape]  # type: ignore[attr-defined]
        dtype = str(buffer.dtype)
        if dtype == "bool":
            made.append(RANDOM.integers(0, 2, shape).astype("bool"))
        else:
            made.append(RANDOM.standard_normal(shape).astype(dtype))
    return made


def check(func: PrimFunc, *targets: str, tolerance: float = 1e-5) -> list[str]:
    """Compare the scheduled function with the one as written; return the kinds of its plans."""
    arrays = arrays_of(func)
    wanted = [array.copy() for array in arrays]
    loomir.interpret(func, func.name, *wanted)
    kinds: list[str] = []
    for target in targets or ("native",):
        made = scheduled(func, target=target)
        kinds = [plan.kind for plan in made.plans]
        assert not loomir.verify(made.func)
        interpreted, native = ([array.copy() for array in arrays] for _ in range(2))
        loomir.interpret(made.func, func.name, *interpreted)
        with quick_codegen():  # LLVM's passes once
            level = 0 if target in targets[1:] else 2
            loomir.compile(made.func, target, opt_level=level, cache=False)(*native)
        for a, b, c in zip(wanted, interpreted, native, strict=True):
            np.testing.assert_allclose(b.astype("float64"), a.astype("float64"), 1e-4, tolerance)
            np.testing.assert_allclose(c.astype("float64"), b.astype("float64"), 1e-4, tolerance)
    return kinds


def attention(
    queries: tuple[int, ...],
    keys: tuple[int, ...],
    values: tuple[int, ...] | None = None,
    dtype: str = "float32",
    mask: tuple[int, ...] | None = None,
    **options: Any,
) -> PrimFunc:
    shapes = (queries, keys, values or keys)
    given = [te.placeholder(s, dtype, name=n) for s, n in zip(shapes, "qkv", strict=True)]
    if mask is not None:
        given.append(te.placeholder(mask, "bool", name="mask"))
        options["mask"] = given[-1]
    return te.create_prim_func([*given, topi.attention(*given[:3], **options)])


@pytest.mark.parametrize(
    "func",
    [
        attention((1, 2, 40, 8), (1, 2, 33, 8)),  # a block of 32 rows, and one of 8
        attention((2, 1, 48, 5), (2, 1, 17, 5), (2, 1, 17, 9), causal="bottom_right"),
        attention((1, 4, 16, 16), (1, 2, 20, 16), mask=(1, 1, 16, 20)),  # heads share keys
        attention((1, 17, 2, 8), (1, 19, 2, 8), layout="BSHD", dtype="float16"),
        attention((1, 65, 4, 3), (1, 7, 2, 3), layout="BSHD", dtype="float16"),  # values copied
    ],
    ids=["rest", "causal", "mask", "half", "copied"],
)
def test_attention_goes_in_blocks(func: PrimFunc) -> None:
    half = any(str(b.dtype) == "float16" for b in func.buffer_map.values())
    assert check(func, tolerance=2e-3 if half else 1e-5) == ["attention"]


def test_heads_that_share_values_share_their_copy() -> None:
    def copied(heads: int, rows: int) -> dict[str, list[Any]]:
        made = scheduled(attention((1, rows, 6, 8), (1, 9, heads, 8), layout="BSHD"))
        buffers = [b for block in by_class(made.func.body)[Block] for b in block.alloc_buffers]
        shapes = {b.name: [getattr(e, "value", None) for e in b.shape[:-1]] for b in buffers}
        return {name: shape for name, shape in shapes.items() if name in ("transposed", "beside")}

    assert copied(6, 64) == {"transposed": [6, 8], "beside": [6, 9]}
    assert copied(2, 64) == {"transposed": [2, 8], "beside": [2, 9]}
    assert copied(2, 40) == {"transposed": [2, 8]}  # values for few rows are read where they are
    assert copied(1, 64) == {"transposed": [1, 8]}  # values of one head lie side by side


def test_softmax_between_products_goes_in_blocks() -> None:
    a, b, c = (te.placeholder(s, "float32") for s in ((50, 12), (12, 30), (30, 7)))
    mixed = topi.matmul(topi.softmax(topi.matmul(a, b)), c)
    func = te.create_prim_func([a, b, c, topi.relu(mixed)])
    assert check(func, "native", "haswell") == ["attention"]
    (plan,) = scheduled(func).plans
    assert "blocks of 48 rows" in plan.choices[0]


def test_what_is_read_afterwards_is_kept() -> None:
    a, b, c = (te.placeholder(s, "float32") for s in ((40, 12), (12, 30), (30, 7)))
    scores = topi.matmul(a, b)
    func = te.create_prim_func([a, b, c, scores, topi.matmul(topi.softmax(scores), c)])
    assert "attention" not in check(func)


def test_rows_of_other_blocks_are_not_read() -> None:
    """A sum over the rows needs all of them."""
    a, b, c = (te.placeholder(s, "float32") for s in ((40, 12), (12, 30), (30, 7)))
    scores = topi.matmul(a, b)
    mixed = topi.matmul(topi.softmax(scores, 0), c)
    func = te.create_prim_func([a, b, c, mixed])
    assert "attention" not in check(func)


SOFTMAX_BY_ROWS = """
@T.prim_func
def main(a: T.Buffer((20, 4), "float32"), b: T.Buffer((4, 9), "float32"),
         c: T.Buffer((9, 4), "float32"), out: T.Buffer((21, 4), "float32")):
    s = T.alloc_buffer((20, 9))
    top = T.alloc_buffer((21,))
    w = T.alloc_buffer((20, 9))
    p = T.alloc_buffer((20, 9))
    total = T.alloc_buffer((20,))
    for i, j, k in T.grid(20, 9, 4):
        with T.sblock("scores"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                s[vi, vj] = T.float32(0)
            s[vi, vj] += a[vi, vk] * b[vk, vj]
    for i, j in T.grid(20, 9):
        with T.sblock("top"):
            vi, vj = T.axis.remap("SR", [i, j])
            with T.init():
                top[{place}] = T.float32("-inf")
            top[{place}] = T.max(top[{place}], s[vi, vj])
    for i, j in T.grid(20, 9):
        with T.sblock("weights"):
            vi, vj = T.axis.remap("SS", [i, j])
            w[vi, vj] = T.exp(s[vi, vj] - top[{place}])
    for i, j in T.grid(20, 9):
        with T.sblock("total"):
            vi, vj = T.axis.remap("SR", [i, j])
            with T.init():
                total[vi] = T.float32(0)
            total[vi] += w[vi, vj]
    for i, j in T.grid(20, 9):
        with T.sblock("shares"):
            vi, vj = T.axis.remap("SS", [i, j])
            {shares}[vi, vj] = w[vi, vj] / total[vi]
    for i, j, k in T.grid(20, 4, 9):
        with T.sblock("out"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                {out} = T.float32(0)
            {out} += {shares}[vi, vk] * c[vk, vj]
"""


@pytest.mark.parametrize(
    ("place", "shares", "out", "chained"),
    [
        ("vi", "p", "out[vi, vj]", True),
        ("vi", "p", "out[vi + 1, vj]", True),
        ("vi", "w", "out[vi, vj]", False),  # in place
        ("vi + 1", "p", "out[vi, vj]", False),  # the row is not the index of its greatest score
        ("vi", "s", "out[vi, vj]", False),  # written again over the scores
        ("vi", "p", "a[vi, vj]", False),  # the result replaces what the scores are computed from
    ],
)
def test_where_rows_are_stored_decides(place: str, shares: str, out: str, chained: bool) -> None:
    text = SOFTMAX_BY_ROWS.format(place=place, shares=shares, out=out)
    func = loomir.script.from_source(text)
    assert isinstance(func, PrimFunc)
    plans = interpret_both(func, arrays_of(func), rtol=1e-4)
    assert ("attention" in [plan.kind for plan in plans]) == chained


def test_weights_are_stored_over_the_scores_only_where_they_fit() -> None:
    """Weights of half the size, and weights that are stored where another score was."""
    a, b, c = (te.placeholder(s, "float32") for s in ((20, 4), (4, 9), (9, 3)))
    scores = topi.matmul(a, b)
    t, u = te.reduce_axis((0, 9)), te.reduce_axis((0, 9))
    tops = te.compute((20,), lambda i: te.max(scores[i, t], t))
    half = te.compute((20, 9), lambda i, j: te.exp(scores[i, j] - tops[i]).astype("float16"))
    other = te.compute((20, 9), lambda i, j: te.exp(scores[i, 8 - j] - tops[i]))
    for weights in (half, other):
        mixed = te.compute(
            (20, 3), lambda i, e, w=weights: te.sum(w[i, u].astype("float32") * c[u, e], u)
        )
        func = te.create_prim_func([a, b, c, mixed])
        (plan,) = interpret_both(func, arrays_of(func), rtol=1e-4)
        assert plan.kind == "attention"


@pytest.mark.parametrize(
    ("after", "kinds"),
    [
        ("sums of rows", ["attention", "reduction"]),
        ("weights", ["matrix product", "rows", "matrix product", "element-wise"]),
    ],
)
def test_only_what_uses_the_result_one_by_one_ends_a_chain(after: str, kinds: list[str]) -> None:
    a, b, c = (te.placeholder(s, "float32") for s in ((20, 4), (4, 9), (9, 3)))
    weights = topi.softmax(topi.matmul(a, b))
    mixed = topi.matmul(weights, c)
    last = topi.sum(mixed, 1)
    if after == "weights":
        last = te.compute((20, 9), lambda i, j: weights[i, j] * te.const(2.0, "float32"))
    func = te.create_prim_func([a, b, c, mixed, last])
    assert [plan.kind for plan in interpret_both(func, arrays_of(func), rtol=1e-4)] == kinds


def test_all_heads_may_share_their_keys() -> None:
    """Keys and values have no dimension for heads, so that their copies have none either."""
    q, k, v = (te.placeholder(s, "float32") for s in ((2, 3, 20, 4), (2, 9, 4), (2, 9, 4)))
    d, t = te.reduce_axis((0, 4)), te.reduce_axis((0, 9))
    scores = te.compute((2, 3, 20, 9), lambda b, h, i, j: te.sum(q[b, h, i, d] * k[b, j, d], d))
    weights = topi.softmax(scores)
    mixed = te.compute(
        (2, 3, 20, 4), lambda b, h, i, e: te.sum(weights[b, h, i, t] * v[b, t, e], t)
    )
    func = te.create_prim_func([q, k, v, mixed])
    (plan,) = interpret_both(func, arrays_of(func), rtol=1e-4)
    assert plan.kind == "attention"
    made = by_class(plan.stmt)[Block]
    copies = [b for block in made for b in block.alloc_buffers if b.name == "transposed"]
    assert [str(b.shape[0]) for b in copies] == ["T.int64(2)"]


def reference(q: Any, k: Any, v: Any, causal: bool) -> Any:
    scores = np.einsum("bhsd,bhtd->bhst", q.astype("f8"), k.astype("f8")) * q.shape[3] ** -0.5
    if causal:
        s, t = (np.arange(n) for n in scores.shape[2:])
        scores = np.where(t <= s[:, None] + (len(t) - len(s)), scores, -np.inf)
    top = scores.max(-1, keepdims=True, initial=-np.inf)
    weights = np.exp(scores - np.where(np.isinf(top), 0, top))
    total = weights.sum(-1, keepdims=True)
    return weights @ v.astype("f8") / np.where(total == 0, 1, total)


@pytest.mark.parametrize(("target", "causal"), [("native", False), ("haswell", True)])
def test_symbolic_sizes_go_in_blocks(target: str, causal: bool) -> None:
    b, s, t = (te.size_var(n, "int64") for n in "bst")
    shapes = [(b, 2, s, 8), (b, 2, t, 8), (b, 2, t, 8)]
    given = [te.placeholder(shape, name=n) for shape, n in zip(shapes, "qkv", strict=True)]
    options: Any = {"causal": "bottom_right"} if causal else {}
    func = te.create_prim_func([*given, topi.attention(*given, **options)])
    made = scheduled(func, target=target)
    assert [plan.kind for plan in made.plans] == ["attention"]
    assert not loomir.verify(made.func)
    run = loomir.compile(made.func, target, cache=False, opt_level=1)
    sizes = [(2, 130, 67), (1, 64, 1), (3, 1, 50), (1, 7, 0), (0, 5, 5), (1, 0, 4), (1, 65, 130)]
    for m, n, keys in sizes:
        q, k, v = (RANDOM.standard_normal((m, 2, d, 8)).astype("float32") for d in (n, keys, keys))
        out = np.full(q.shape, 7, "float32")
        run(q, k, v, out)
        np.testing.assert_allclose(out, reference(q, k, v, causal), 1e-4, 1e-5)
    small = [RANDOM.standard_normal((1, 2, d, 8)).astype("float32") for d in (3, 5, 5, 3)]
    again = [array.copy() for array in small]
    run(*small)
    loomir.interpret(made.func, func.name, *again)
    np.testing.assert_allclose(small[3], again[3], 1e-5, 1e-6)


def test_many_keys_take_memory_for_few_rows() -> None:
    func = attention((1, 1, 100, 8), (1, 1, 600000, 8))
    (plan,) = scheduled(func).plans
    assert "blocks of 8 rows" in plan.choices[0]


def test_nothing_to_combine_is_part_of_the_stage() -> None:
    """What a sum of no terms is comes from the same loops, so that they can be fused."""
    n = te.size_var("n", "int64")
    x = te.placeholder((5, n), name="x")
    func = te.create_prim_func([x, topi.softmax(x), topi.sum(x, 1), topi.max(x, 0)])
    made = scheduled(func)
    assert [(plan.kind, len(plan.stages)) for plan in made.plans] == [("rows", 6), ("reduction", 1)]
    assert not loomir.verify(made.func)
    for size in (0, 1, 37):
        arrays = [
            RANDOM.standard_normal((5, size)).astype("float32"),
            *(np.full(s, 7, "float32") for s in ((5, size), (5,), (size,))),
        ]
        wanted = [array.copy() for array in arrays]
        loomir.interpret(func, func.name, *wanted)
        loomir.compile(func, cache=False, opt_level=1)(*arrays)
        for a, b in zip(arrays, wanted, strict=True):
            np.testing.assert_allclose(a, b, 1e-5, 1e-6)


def test_rows_that_the_second_product_reads_by_another_name_have_memory() -> None:
    def products(
        a: te.Tensor, b: te.Tensor, c: te.Tensor, rows: Any, batch: Any, keys: Any
    ) -> tuple[te.Tensor, ...]:
        k, j = te.reduce_axis((0, keys), "k"), te.reduce_axis((0, 33), "j")
        first = te.compute(
            (1, batch, rows, 33), lambda _, n, i, x: te.sum(a[0, n, i, k] * b[0, n, k, x], axis=k)
        )
        second = te.compute(
            (1, batch, rows, 33),
            lambda _, n, i, x: te.sum(first[0, n, i, j] * c[0, n, x, j], axis=j),
        )
        return (te.compute((rows, batch, 33), lambda i, n, x: second[0, n, i, x] * 2.0),)

    n1, n2, n3 = (te.var(name, "int64") for name in ("n1", "n2", "n3"))
    a = te.placeholder((1, n1, n2, n3), "float64", name="a")
    b = te.placeholder((1, n1, n3, 33), "float64", name="b")
    c = te.placeholder((1, n1, 33, 33), "float64", name="c")
    func = te.create_prim_func([a, b, c, *products(a, b, c, n2, n1, n3)])
    run = loomir.compile(func)
    for rows in (5, 64, 70, 128):
        x, y, z = (
            RANDOM.standard_normal(s) for s in ((1, 2, rows, 7), (1, 2, 7, 33), (1, 2, 33, 33))
        )
        made = np.zeros((rows, 2, 33))
        run(x, y, z, made)
        np.testing.assert_allclose(made, 2 * (x[0] @ y[0] @ z[0].mT).transpose(1, 0, 2))
