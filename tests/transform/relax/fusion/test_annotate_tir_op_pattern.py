"""Kernels are classified by how their blocks index buffers."""

from __future__ import annotations

from typing import Any

import pytest

from loomir import op, relax
from loomir.ir.module import IRModule
from loomir.ir.passes import PASSES, apply
from loomir.script import from_source
from loomir.tir import PrimFunc
from loomir.tir import Var as ShapeVar
from loomir.transform.relax.fusion.op_pattern import OpPattern
from tests.transform.relax.test_lowering import described, program

N = ShapeVar("n", "int64")
HEADER = "from loomir.script import tir as T\n"


def kind_of(build: Any, *params: Any) -> OpPattern:
    """Return the kind of the only kernel of a graph."""
    mod = program(build, [described(p) if isinstance(p, tuple) else p for p in params])
    for name in ("relax.LegalizeOps", "relax.AnnotateTIROpPattern"):
        mod = apply(PASSES[name], mod)
    (kernel,) = [f for f in mod.functions.values() if isinstance(f, PrimFunc)]
    return OpPattern(kernel.attrs["op_pattern"])


@pytest.mark.parametrize(
    ("build", "params", "kind"),
    [
        (lambda b, x: op.exp(x), [(N, 4)], OpPattern.ELEMENT_WISE),
        (lambda b, x, y: op.add(x, y), [(N, 4), (N, 4)], OpPattern.ELEMENT_WISE),
        (lambda b, x, y: op.add(x, y), [(N, 4), (4,)], OpPattern.BROADCAST),
        (lambda b, x, y: op.add(x, y), [(2, 4), (2, 1)], OpPattern.BROADCAST),
        (lambda b, x: op.permute_dims(x), [(N, 4)], OpPattern.INJECTIVE),
        (lambda b, x: op.reshape(x, (N * 4,)), [(N, 4)], OpPattern.INJECTIVE),
        (lambda b, x: op.flip(x, 0), [(N, 4)], OpPattern.INJECTIVE),
        (lambda b, x: op.sum(x, [1]), [(N, 4)], OpPattern.REDUCTION),
        (lambda b, x: op.max(x, [0]), [(4, 4)], OpPattern.REDUCTION),
        (lambda b, x, y: op.matmul(x, y), [(N, 4), (4, 8)], OpPattern.OUTPUT_FUSABLE),
        (lambda b, x: op.nn.softmax(x), [(N, 4)], OpPattern.OUTPUT_FUSABLE),
        (lambda b, x: op.sort(x), [(4,)], OpPattern.OPAQUE),
    ],
)
def test_kernels_of_operators(build: Any, params: Any, kind: OpPattern):
    assert kind_of(build, *params) is kind


def test_a_kernel_of_integers_that_may_fail_is_opaque():
    info = described((4,), "int32")
    assert kind_of(lambda b, x, y: op.floor_divide(x, y), info, info) is OpPattern.OPAQUE


@pytest.mark.parametrize(
    "body",
    [
        "for i in T.parallel(4):\n  with T.block('b'):\n   v = T.axis.spatial(4, i)\n   B[v] = A[v]",
        "for i in range(3):\n  with T.block('b'):\n   v = T.axis.spatial(3, i)\n   B[v] = A[v]",
        "for i in range(4):\n  with T.block('b'):\n   v = T.axis.spatial(4, i)\n   A[v] = B[v]",
        "for i in range(4):\n  with T.block('b'):\n   v = T.axis.spatial(4, i)\n   B[v] = B[v]",
        "for i in range(4):\n  with T.block('b'):\n   v = T.axis.spatial(4, i)\n   T.where(i < 3)\n   B[v] = A[v]",
        "for i in range(4):\n  B[i] = T.call_extern('float32', 'sinf', A[i])",
    ],
)
def test_what_is_not_understood_is_opaque(body: str):
    source = f"{HEADER}@T.prim_func\ndef f(A: T.Buffer((4,)), B: T.Buffer((4,))):\n {body}\n"
    func = from_source(source)
    mod = apply(PASSES["relax.AnnotateTIROpPattern"], IRModule({relax.GlobalVar("f"): func}))  # type: ignore[attr-defined]
    assert mod["f"].attrs["op_pattern"] == OpPattern.OPAQUE


def test_a_kind_that_is_given_stays():
    func = from_source(
        f"{HEADER}@T.prim_func\ndef f(A: T.Buffer((4,)), B: T.Buffer((4,))):\n"
        " T.func_attr({'op_pattern': 8})\n for i in range(4):\n  B[i] = A[i]\n"
    )
    mod = IRModule({relax.GlobalVar("f"): func})  # type: ignore[attr-defined]
    assert apply(PASSES["relax.AnnotateTIROpPattern"], mod) is mod
