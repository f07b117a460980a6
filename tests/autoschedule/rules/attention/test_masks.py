"""Keys that a mask hides from a block of rows are left out, where that shows nowhere."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import loomir
from loomir import te
from loomir.script import tir as T
from loomir.te import topi
from loomir.tir.expr import PrimExpr
from loomir.tir.function import PrimFunc
from tests.autoschedule.agreement import interpret_both, scheduled

RANDOM = np.random.default_rng(11)
INF = float("inf")

Arrays = list[Any]


def hides(func: PrimFunc, target: str = "native") -> bool:
    (plan,) = scheduled(func, target=target).plans
    assert plan.kind == "attention"
    return any("are left out" in text for text in plan.choices)


def agree(func: PrimFunc, given: Arrays, shape: tuple[int, ...], *targets: str) -> Any:
    """Compare native code with the interpreted function; return the interpreter's result."""
    wanted = np.full(shape, 7, "float32")
    loomir.interpret(func, func.name, *given, wanted)
    for target in targets or ("native",):
        got = np.full(shape, 7, "float32")
        loomir.compile(func, target, cache=False, opt_level=2)(*given, got)
        np.testing.assert_allclose(got, wanted, 1e-4, 1e-5)
    return wanted


def draw(*shapes: tuple[int, ...]) -> Arrays:
    return [RANDOM.standard_normal(shape).astype("float32") for shape in shapes]


def test_special_values_of_hidden_keys_show_as_before() -> None:
    """Heads: a NaN among the values, an infinity; keys of NaN; a query of NaN, scores of -inf."""
    shapes = ((1, 4, 67, 2), (1, 4, 131, 2), (1, 4, 131, 2))
    x = [te.placeholder(shape, name=name) for shape, name in zip(shapes, "qkv", strict=True)]
    func = te.create_prim_func([*x, topi.attention(*x, causal="top_left")])
    assert hides(func)
    q, k, v = draw(*shapes)
    v[0, 0, 130, 1], v[0, 1, 70, 0] = np.nan, INF
    k[0, 2, 100:], k[0, 2, 5] = np.nan, np.nan
    q[0, 3, 3], q[0, 3, 66] = np.nan, np.nan
    q[0, 3, :3], k[0, 3, :3] = 1, -INF
    got = agree(func, [q, k, v], shapes[0], "native", "haswell")
    assert np.isnan(got[0, 0, :, 1]).all()  # 0 times NaN
    assert not np.isnan(got[0, 0, :, 0]).any()
    assert not np.isnan(got[0, 2, :5]).any()
    assert np.isnan(got[0, 3, [3, 66]]).all()
    assert (got[0, 3, :3] == 0).all()


@pytest.mark.parametrize(
    ("target", "causal"), [("native", "bottom_right"), ("haswell", "top_left")]
)
def test_sizes_that_are_known_late(target: str, causal: Any) -> None:
    s, t = (te.size_var(n, "int64") for n in "st")
    shapes = ((1, s, 4, 3), (1, t, 2, 3), (1, t, 2, 3))
    x = [te.placeholder(shape, name=name) for shape, name in zip(shapes, "qkv", strict=True)]
    func = te.create_prim_func([*x, topi.attention(*x, layout="BSHD", causal=causal)])
    assert hides(func, target)
    made = scheduled(func, target=target)
    assert not loomir.verify(made.func)
    run = loomir.compile(made.func, target, cache=False)
    plain = loomir.compile(func, target, cache=False, schedule=False)
    for rows, keys in [(1, 1), (65, 64), (130, 300), (300, 130), (64, 0), (0, 9), (200, 1)]:
        given = draw((1, rows, 4, 3), (1, keys, 2, 3), (1, keys, 2, 3))
        if keys > 100:
            given[2][0, -1, 1, 0] = np.nan
        outs = [np.full((1, rows, 4, 3), 7, "float32") for _ in range(2)]
        run(*given, outs[0])
        plain(*given, outs[1])
        np.testing.assert_allclose(outs[0], outs[1], 1e-4, 1e-5)


Formula = Callable[..., PrimExpr]


def mixed(
    hidden: float = -INF,
    top: float = 0.5,
    seen: Formula = lambda i, j: j <= i,
    weight: Formula = lambda score, most: te.exp(score - most),
    share: Formula = lambda weight, total: weight,
    masked: Formula | None = None,
) -> PrimFunc:
    """Write out an attention of which parts may be otherwise."""
    q, k, v = (
        te.placeholder((n, m), name=x) for n, m, x in ((20, 2, "q"), (130, 2, "k"), (130, 3, "v"))
    )
    d, t, u, w = (te.reduce_axis((0, n)) for n in (2, 130, 130, 130))
    products = te.compute((20, 130), lambda i, j: te.sum(q[i, d] * k[j, d], d))

    def score(i: Any, j: Any, scale: float) -> Any:
        if masked is not None:
            return masked(products, i, j)
        made = products[i, j] * te.const(scale, "float32")
        return te.select(seen(i, j), made, te.const(hidden, "float32"))

    tops = te.compute((20,), lambda i: te.max(score(i, t, top), t))
    weights = te.compute((20, 130), lambda i, j: weight(score(i, j, 0.5), tops[i]))
    total = te.compute((20,), lambda i: te.sum(weights[i, u], u))
    shares = te.compute((20, 130), lambda i, j: share(weights[i, j], total[i]))
    sums = te.compute((20, 3), lambda i, e: te.sum(shares[i, w] * v[w, e], w))
    return te.create_prim_func([q, k, v, sums])


PROVED = {
    "causal": mixed(),
    "softmax": mixed(share=lambda weight, total: weight / total),
    "the other way": mixed(seen=lambda i, j: i + 1 > j - 2),
    "window": mixed(seen=lambda i, j: te.all_of(j > i - 4, j <= i)),
    "the same for all": mixed(seen=lambda i, j: j < 9),
    "guarded": mixed(
        weight=lambda score, most: te.exp(
            score - te.select(most.equal(te.const(-INF, "float32")), te.const(0.0, "float32"), most)
        )
    ),
}


@pytest.mark.parametrize("name", PROVED)
def test_masks_are_known_by_what_they_do(name: str) -> None:
    assert hides(PROVED[name])
    q, k, v = draw((20, 2), (130, 2), (130, 3))
    q[4], k[:5] = 1, -INF  # the fifth row sees nothing but minus infinity
    agree(PROVED[name], [q, k, v], (20, 3))
    v[129, 0] = np.nan
    assert np.isnan(agree(PROVED[name], [q, k, v], (20, 3))[:, 0]).all()


def guarded(asked: Formula) -> PrimFunc:
    """Take 0 for the top of a row where something holds of it."""
    zero = te.const(0.0, "float32")
    return mixed(weight=lambda score, most: te.exp(score - te.select(asked(most), zero, most)))


def lower(condition: Any, score: Any) -> Any:
    return te.select(condition, score, te.const(-INF, "float32"))


def written_out(form: str) -> PrimFunc:
    """Write out an attention of which a stage is otherwise than in ``mixed``."""
    q, k, v = (
        te.placeholder(s, name=n) for s, n in (((20, 2), "q"), ((130, 2), "k"), ((130, 3), "v"))
    )
    near = te.placeholder((20, 130, 3), name="near")
    scales = te.placeholder((3,), name="scales")
    d, t, u, w, c = (te.reduce_axis((0, n)) for n in (2, 130, 130, 130, 3))
    products = te.compute((20, 130), lambda i, j: te.sum(q[i, d] * k[j, d], d))
    scores: Any = products
    if form == "capped":
        scores = te.compute(
            (20, 130), lambda i, j: lower(j <= i, te.tanh(products[i, j] / 4.0) * 4.0)
        )
    elif form == "differences":
        scores = te.compute((20, 130), lambda i, j: te.max(products[i, j] - products[i, c], c))
    elif form == "scales":
        scores = te.compute((20, 130), lambda i, j: te.max(products[i, j] * scales[c], c))

    def score(i: Any, j: Any) -> Any:
        return scores[i, j] if form == "capped" else lower(j <= i, scores[i, j])

    if form == "first score":
        tops = te.compute((20,), lambda i: te.max(score(i, t), t, init=products[i, 0]))
    else:
        tops = te.compute((20,), lambda i: te.max(score(i, t), t))
    weights = te.compute((20, 130), lambda i, j: te.exp(score(i, j) - tops[i]))
    one = te.const(1.0, "float32") if form == "sum from one" else None
    total = te.compute((20,), lambda i: te.sum(weights[i, u], u, init=one))
    inverse = te.compute((20,), lambda i: te.const(1.0, "float32") / te.sqrt(total[i]))
    given = [q, k, v]
    if form == "sink":
        w = te.reduce_axis((0, 129))
        sums = te.compute((20, 3), lambda i, e: te.sum(weights[i, w + 1] * v[w + 1, e], w))
    elif form == "near":
        given.append(near)
        sums = te.compute((20, 3), lambda i, e: te.sum(weights[i, w] * near[i, w, e], w))
    else:
        sums = te.compute((20, 3), lambda i, e: te.sum(weights[i, w] * v[w, e], w))
    given += [scales] if form == "scales" else []
    made = te.compute((20, 3), lambda i, e: inverse[i] * sums[i, e])
    return te.create_prim_func([*given, made])


REFUSED = {
    "hidden keys count": mixed(hidden=-20.0),
    "no top": mixed(weight=lambda score, most: te.exp(score)),
    "another top": mixed(top=0.25),
    "not 0": mixed(weight=lambda score, most: te.exp(score - most) + te.const(1.0, "float32")),
    "not 0 later": mixed(share=lambda weight, total: total - weight),
    "0 by 0": mixed(share=lambda weight, total: weight / (total - total)),
    "later keys": mixed(seen=lambda i, j: j >= i),
    "fewer for later rows": mixed(seen=lambda i, j: j + i < 100),
    "some more": mixed(seen=lambda i, j: te.any_of(j <= i, j > 128)),
}


@pytest.mark.parametrize("name", REFUSED)
def test_all_keys_stay_where_they_may_matter(name: str) -> None:
    assert not hides(REFUSED[name])


def test_keys_that_count_a_little_are_not_left_out() -> None:
    q, k, v = draw((20, 2), (130, 2), (130, 3))
    v[100] = 1e30
    assert (agree(REFUSED["hidden keys count"], [q, k, v], (20, 3)) > 1e10).all()


@T.prim_func
def keys_moved(
    q: T.Buffer((20, 2), "float32"),
    k: T.Buffer((130, 2), "float32"),
    v: T.Buffer((130, 3), "float32"),
    out: T.Buffer((20, 3), "float32"),
):
    """Store the weights behind a column that nothing reads."""
    products = T.alloc_buffer((20, 130))
    tops = T.alloc_buffer((20,))
    weights = T.alloc_buffer((20, 131))
    for i, j, d in T.grid(20, 130, 2):
        with T.sblock("products"):
            vi, vj, vd = T.axis.remap("SSR", [i, j, d])
            with T.init():
                products[vi, vj] = T.float32(0)
            products[vi, vj] += q[vi, vd] * k[vj, vd]
    for i, j in T.grid(20, 130):
        with T.sblock("tops"):
            vi, vj = T.axis.remap("SR", [i, j])
            with T.init():
                tops[vi] = T.float32("-inf")
            tops[vi] = T.max(tops[vi], T.Select(vj <= vi, products[vi, vj], T.float32("-inf")))
    for i, j in T.grid(20, 130):
        with T.sblock("weights"):
            vi, vj = T.axis.remap("SS", [i, j])
            weights[vi, vj + 1] = T.exp(
                T.Select(vj <= vi, products[vi, vj], T.float32("-inf")) - tops[vi]
            )
    for i, e, j in T.grid(20, 3, 130):
        with T.sblock("out"):
            vi, ve, vj = T.axis.remap("SSR", [i, e, j])
            with T.init():
                out[vi, ve] = T.float32(0)
            out[vi, ve] += weights[vi, vj + 1] * v[vj, ve]


JUDGED = {
    "inverse": (written_out("inverse"), True),
    "capped": (written_out("capped"), True),  # masked scores are computed once, and kept
    "sum from one": (written_out("sum from one"), True),
    "differences": (written_out("differences"), False),
    "scales": (written_out("scales"), False),
    "first score": (written_out("first score"), False),
    "sink": (written_out("sink"), False),  # the first key has a weight, but no value
    "near": (written_out("near"), False),  # values of its own for each row
    "keys moved": (keys_moved, False),
    "blocks of keys": (mixed(seen=lambda i, j: j // 4 <= i // 4), False),
    "scores decide": (mixed(masked=lambda p, i, j: lower(p[i, j] > 0.0, p[i, j])), False),
    "keys reversed": (mixed(masked=lambda p, i, j: lower(j <= i, p[i, 129 - j])), False),
    "guarded by a bound": (guarded(lambda most: most < -1e30), False),
    "guarded by a sum": (
        guarded(lambda most: (most + most).equal(te.const(-INF, "float32"))),
        False,
    ),
}


@pytest.mark.parametrize("name", JUDGED)
def test_results_are_the_same_whether_keys_are_left_out_or_not(name: str) -> None:
    func, hidden = JUDGED[name]
    shapes = [tuple(e.value for e in b.shape) for b in func.buffer_map.values()]  # type: ignore[attr-defined]
    (plan,) = interpret_both(func, draw(*shapes), rtol=1e-4)
    assert plan.kind == "attention"
    assert any("are left out" in text for text in plan.choices) == hidden
