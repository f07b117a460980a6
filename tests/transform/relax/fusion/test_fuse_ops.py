"""Groups of kernels: what is fused, what is not, and that the meaning stays."""

from __future__ import annotations

import itertools
import random as rng
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import loomir
from loomir import op, relax
from loomir.ir.equality import assert_structural_equal
from loomir.ir.module import IRModule
from loomir.ir.passes import PASSES, apply
from loomir.script import from_source
from loomir.tir import Var as ShapeVar
from loomir.transform.relax.fusion.fusion_groups import GraphNode, find_groups
from loomir.transform.relax.fusion.op_pattern import OpPattern
from tests.growth import assert_grows
from tests.transform.relax.test_lowering import described, program, random

N = ShapeVar("n", "int64")
STEPS = ("relax.LegalizeOps", "relax.AnnotateTIROpPattern", "relax.FuseOps")


def fused(build: Any, *params: Any) -> IRModule:
    mod = program(build, [described(p) for p in params])
    for name in STEPS:
        mod = apply(PASSES[name], mod)
    assert loomir.verify(mod) == ()
    return mod


def groups(mod: IRModule) -> list[str]:
    return sorted(v.name_hint for v, f in mod.functions.items() if f.attrs.get("Primitive"))


def test_a_chain_becomes_a_function():
    mod = fused(lambda b, x: op.exp(b.emit(op.negative(x))), (N, 4))
    expected = from_source("""
from loomir.script import ir as I, relax as R, tir as T
@I.ir_module
class Module:
    @R.function
    def main(x0: R.Tensor(("n", 4), "float32")) -> R.Tensor(("n", 4), "float32"):
        n = T.int64()
        with R.dataflow():
            gv: R.Tensor((n, 4), "float32") = Module.fused_negative_exp(x0)
            R.output(gv)
        return gv

    @R.function(private=True)
    def fused_negative_exp(x0: R.Tensor(("n", 4), "float32")) -> R.Tensor(("n", 4), "float32"):
        n = T.int64()
        R.func_attr({"Primitive": True})
        with R.dataflow():
            lv = R.call_tir(Module.negative, (x0,), out_ty=R.Tensor((n, 4), "float32"))
            gv = R.call_tir(Module.exp, (lv,), out_ty=R.Tensor((n, 4), "float32"))
            R.output(gv)
        return gv
    @T.prim_func(private=True)
    def negative(a: T.handle, b: T.handle):
        n = T.int64()
        A = T.match_buffer(a, (n, 4))
        B = T.match_buffer(b, (n, 4))
        B[0, 0] = A[0, 0]
    @T.prim_func(private=True)
    def exp(a: T.handle, b: T.handle):
        n = T.int64()
        A = T.match_buffer(a, (n, 4))
        B = T.match_buffer(b, (n, 4))
        B[0, 0] = A[0, 0]
""")
    for name in ("main", "fused_negative_exp"):
        assert_structural_equal(mod[name], expected[name])  # type: ignore[index]


def diamond(b: Any, x: Any) -> Any:
    x = b.emit(op.exp(x))
    return op.multiply(b.emit(op.negative(x)), b.emit(op.sqrt(x)))


def two_results(b: Any, x: Any) -> Any:
    y = b.emit(op.exp(x))
    return relax.Tuple((b.emit(op.negative(y)), b.emit(op.sqrt(y))))


def product(b: Any, x: Any, w: Any, c: Any) -> Any:
    y = b.emit(op.add(b.emit(op.matmul(x, w)), c))
    return op.nn.relu(y)


def two_products(b: Any, x: Any, w: Any) -> Any:
    return op.add(b.emit(op.matmul(x, w)), b.emit(op.matmul(w, x)))


@pytest.mark.parametrize(
    ("build", "params", "names"),
    [
        (diamond, [(N, 4)], ["fused_exp_negative_sqrt_multiply"]),
        (two_results, [(4,)], []),
        (product, [(N, 4), (4, 8), (8,)], ["fused_matmul_add_relu"]),
        (two_products, [(4, 4), (4, 4)], ["fused_matmul_add"]),
        (lambda b, x: op.sum(b.emit(op.exp(x))), [(N, 4)], ["fused_exp_sum"]),
        (lambda b, x: op.exp(b.emit(op.sum(x, [1]))), [(N, 4)], []),
        (lambda b, x, w: op.matmul(b.emit(op.exp(x)), w), [(4, 4), (4, 4)], []),
        (
            lambda b, x: op.reshape(b.emit(op.permute_dims(x)), (N * 4,)),
            [(N, 4)],
            ["fused_permute_dims_reshape"],
        ),
        (lambda b, x: op.exp(b.emit(op.nn.softmax(x))), [(N, 4)], ["fused_softmax_exp"]),
    ],
)
def test_groups(build: Any, params: Any, names: list[str]):
    assert groups(fused(build, *params)) == names


def test_groups_keep_the_meaning():
    mod = fused(product, (N, 4), (4, 8), (8,))
    args = random(3, 4), random(4, 8), random(8)
    x, w, c = args
    found = loomir.interpret(mod, "main", *args)
    np.testing.assert_allclose(found, np.maximum(x @ w + c, 0), rtol=1e-5)


def test_equal_groups_share_a_function():
    def build(b: Any, x: Any, w: Any, c: Any) -> Any:
        for _ in range(3):
            x = b.emit(op.nn.relu(b.emit(op.add(b.emit(op.matmul(x, w)), c))))
        return x

    assert groups(fused(build, (N, 4), (4, 4), (4,))) == ["fused_matmul_add_relu"]


def test_sizes_that_no_tensor_tells_are_passed():
    def build(b: Any, x: Any) -> Any:
        y = b.emit(op.exp(x))
        return op.reshape(b.emit(op.negative(y)), (N, 4))

    def outer(b: Any, s: Any, x: Any) -> Any:
        del s
        return build(b, x)

    mod = fused(outer, (N,), (N * 4,))
    assert len(groups(mod)) == 1
    made = apply(PASSES["relax.FuseTIR"], mod)
    args = random(3), random(12)
    wanted = loomir.interpret(mod, "main", *args)
    np.testing.assert_array_equal(loomir.interpret(made, "main", *args), wanted)
    np.testing.assert_array_equal(loomir.compile(made)["main"](*args), wanted)


def test_nothing_to_do_gives_the_module_back():
    mod = program(lambda b, x: op.exp(x), [described((3,))])
    assert apply(PASSES["relax.FuseOps"], mod) is mod
    assert apply(PASSES["relax.FuseTIR"], mod) is mod


# -- the rule ------------------------------------------------------------------------------------
def graph(kinds: list[OpPattern], edges: list[tuple[int, int]], kept: set[int]) -> list[GraphNode]:
    nodes = [GraphNode(kind) for kind in kinds]
    for source, target in edges:
        nodes[source].users.append((target, kinds[target]))
    for i in kept:
        nodes[i].is_kept = True
    return nodes


def has_cycle(groups: list[list[int]], edges: list[tuple[int, int]]) -> bool:
    of = {i: k for k, group in enumerate(groups) for i in group}
    left = {k: {of[a] for a, b in edges if of[b] == k and of[a] != k} for k in range(len(groups))}
    while left:
        ready = [k for k, needs in left.items() if not needs & left.keys()]
        if not ready:
            return True
        for k in ready:
            del left[k]
    return False


@pytest.mark.parametrize("seed", range(60))
def test_random_graphs_stay_graphs(seed: int):
    source = rng.Random(seed)
    count = source.randint(2, 24)
    kinds = [source.choice(list(OpPattern)) for _ in range(count)]
    pairs = itertools.combinations(range(count), 2)
    edges = [pair for pair in pairs if source.random() < 2.5 / count]
    kept = {i for i in range(count) if source.random() < 0.1}
    nodes = graph(kinds, edges, kept)
    found = find_groups(nodes)
    assert sorted(i for group in found for i in group) == list(range(count))
    assert not has_cycle(found, edges)
    for group in found:
        if len(group) == 1:
            continue
        assert all(kinds[i] is not OpPattern.OPAQUE for i in group)
        assert sum(kinds[i] is OpPattern.OUTPUT_FUSABLE for i in group) <= 1
        for i in group[:-1]:  # only the last is used outside
            assert i not in kept
            assert all(user in group for user, _ in nodes[i].users)


def test_the_time_is_linear():
    def build(count: int) -> list[GraphNode]:
        kinds = [
            OpPattern.ELEMENT_WISE if i % 9 else OpPattern.OUTPUT_FUSABLE for i in range(count)
        ]
        edges = [(i, i + 1) for i in range(count - 1)] + [
            (i, count - 1) for i in range(0, count, 7)
        ]
        return graph(kinds, edges, set())

    def find(count: int) -> Callable[[], object]:
        nodes = build(count)
        return lambda: find_groups(nodes)

    assert_grows(24, find, 4_000, 32_000)
