"""Fused kernels: what is inlined, what is kept, and that every bit of the results stays."""

from __future__ import annotations

import random as rng
from typing import Any

import numpy as np
import pytest

import loomir
from loomir import op
from loomir.autoschedule.driver import schedule_function
from loomir.ir.module import IRModule
from loomir.ir.passes import PASSES, apply
from loomir.ir.visit import by_class
from loomir.script import from_source
from loomir.tir import PrimFunc
from loomir.tir import Var as ShapeVar
from loomir.tir.stmt import Block, LetStmt
from loomir.transform.pipelines import lower_relax
from tests.transform.relax.fusion.test_fuse_ops import diamond, fused, product
from tests.transform.relax.test_lowering import described, flat, program, random

Array = Any
N = ShapeVar("n", "int64")


def kernel(build: Any, *params: Any) -> PrimFunc:
    """Return the only fused kernel of a graph."""
    mod = apply(PASSES["relax.FuseTIR"], fused(build, *params))
    assert loomir.verify(mod) == ()
    (name,) = [name for name in mod if name.startswith("fused_")]
    func = mod[name]
    assert isinstance(func, PrimFunc)
    return func


def blocks(func: PrimFunc) -> list[str]:
    return sorted(b.name_hint for b in by_class(func.body)[Block] if b.name_hint != "root")


def allocated(func: PrimFunc) -> list[str]:
    return [b.name for block in by_class(func.body)[Block] for b in block.alloc_buffers]


def unfused(mod: IRModule) -> IRModule:
    """Return the kernels of a graph, none of which may be fused."""
    for name in ("relax.Normalize", "relax.CanonicalizeBindings", "relax.LegalizeOps"):
        mod = apply(PASSES[name], mod)
    functions = dict(mod.functions)
    for var, func in functions.items():
        if isinstance(func, PrimFunc):
            attrs = {**func.attrs, "op_pattern": 8}
            functions[var] = PrimFunc(func.params, func.body, func.ret_type, func.buffer_map, attrs)
    return mod.with_functions(functions)


def bits(array: Array) -> bytes:
    """Return the bits of an array; those of a NaN mean nothing."""
    return np.where(array != array, np.array(np.nan, array.dtype), array).tobytes()


def assert_same_bits(mod: IRModule, *args: Array, **options: Any) -> None:
    """Compare native results, and those of the interpreter, with and without fusion."""
    plain = unfused(mod)
    assert not any(name.startswith("fused_") for name in lower_relax(plain))
    made = lower_relax(mod, verify=True)
    assert any(name.startswith("fused_") for name in made)
    for wanted, found in (
        [loomir.compile(m, **options)["main"](*args) for m in (plain, mod)],
        [loomir.interpret(m, "main", *args) for m in (plain, made)],
    ):
        for a, b in zip(flat(wanted), flat(found), strict=True):
            assert a.dtype == b.dtype
            assert bits(a) == bits(b)


def test_a_chain_is_one_block():
    func = kernel(lambda b, x: op.exp(b.emit(op.negative(b.emit(op.sqrt(x))))), (N, 4))
    assert blocks(func) == ["exp"]
    assert allocated(func) == []


def test_what_is_used_twice_is_computed_once():
    func = kernel(diamond, (N, 4))
    assert blocks(func) == ["multiply"]
    assert len(by_class(func.body)[LetStmt]) == 1


def test_what_follows_a_product_is_written_in_its_place():
    func = kernel(product, (N, 4), (4, 8), (8,))
    assert blocks(func)[:1] == ["matmul"]
    assert "relu" in blocks(func)
    assert "add" not in blocks(func)
    assert allocated(func) == []


def test_a_product_of_another_dtype_keeps_its_own_memory():
    def build(b: Any, x: Any) -> Any:
        return op.astype(b.emit(op.matmul(x, x)), "float64")

    assert len(allocated(kernel(build, (4, 4)))) == 1


def test_costly_values_are_not_repeated():
    def build(b: Any, x: Any, y: Any) -> Any:
        return op.add(b.emit(op.exp(x)), y)

    assert blocks(kernel(build, (4,), (N, 4))) == ["add", "exp"]


def test_cheap_values_are():
    def build(b: Any, x: Any, y: Any) -> Any:
        return op.add(b.emit(op.negative(x)), y)

    assert blocks(kernel(build, (4,), (N, 4))) == ["add"]


def test_what_a_transposed_convolution_reads_is_computed_before():
    def build(b: Any, x: Any, w: Any) -> Any:
        return op.nn.conv2d_transpose(b.emit(op.nn.relu(x)), w, strides=(2, 2))

    func = kernel(build, (1, 8, 6, 6), (8, 16, 2, 2))
    assert blocks(func) == ["conv_transpose", "relu"]
    kinds = [plan.kind for plan in schedule_function(func, loomir.Target("haswell")).plans]
    assert kinds == ["element-wise", "transposed convolution"]


def test_what_a_depthwise_convolution_reads_is_padded_in_its_loops():
    def build(_: Any, x: Any, w: Any) -> Any:
        return op.nn.conv2d(x, w, padding=(1, 1), groups=8)

    func = fused(build, (1, 8, 12, 12), (8, 1, 3, 3))["conv2d"]
    assert isinstance(func, PrimFunc)
    (plan,) = schedule_function(func, loomir.Target("haswell")).plans
    assert plan.stages[0].name == "conv"


REUSED = """
from loomir.script import ir as I, relax as R, tir as T
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
        with R.dataflow():
            lv = R.call_tir(Module.twice, (x,), out_ty=R.Tensor((4,), "float32"))
            gv = R.call_tir(Module.minus, (lv,), out_ty=R.Tensor((4,), "float32"))
            R.output(gv)
        return gv
    @T.prim_func(private=True)
    def twice(A: T.Buffer((4,)), B: T.Buffer((4,))):
        S = T.alloc_buffer((4,))
        D = T.alloc_buffer((4,))
        for i in range(4):
            with T.sblock("first"):
                v = T.axis.spatial(4, i)
                S[v] = A[v] + T.float32(1)
        for i in range(4):
            with T.sblock("kept"):
                v = T.axis.spatial(4, i)
                D[v] = S[v]
        for i in range(4):
            with T.sblock("second"):
                v = T.axis.spatial(4, i)
                S[v] = A[v] * T.float32(3)
        for i in range(4):
            with T.sblock("sum"):
                v = T.axis.spatial(4, i)
                B[v] = S[v] - D[v]
    @T.prim_func(private=True)
    def minus(A: T.Buffer((4,)), B: T.Buffer((4,))):
        for i in range(4):
            with T.sblock("minus"):
                v = T.axis.spatial(4, i)
                B[v] = T.float32(0) - A[v]
"""


def test_memory_that_is_written_again_is_not_looked_through():
    mod = from_source(REUSED)
    assert isinstance(mod, IRModule)
    assert_same_bits(mod, random(4))
    x = random(4)
    wanted = (x + np.float32(1)) - x * np.float32(3)
    np.testing.assert_array_equal(loomir.compile(mod)["main"](x), wanted)


def chain(b: Any, x: Any, y: Any) -> Any:
    for _ in range(3):
        x = b.emit(op.nn.relu(b.emit(op.subtract(b.emit(op.multiply(x, x)), y))))
        x = b.emit(op.tanh(x))
    return x


def moved(b: Any, x: Any, y: Any) -> Any:
    x = b.emit(op.permute_dims(b.emit(op.exp(x))))
    x = b.emit(op.concat([x, b.emit(op.negative(x))], 0))
    return op.add(b.emit(op.reshape(x, (N * 2 * 8,))), b.emit(op.sum(y)))


def broadcast(b: Any, x: Any, y: Any) -> Any:
    x = b.emit(op.flip(b.emit(op.add(x, y)), 1))
    return op.strided_slice(b.emit(op.multiply(x, x)), [1], [1], [7], [2])


def normed(b: Any, x: Any, y: Any) -> Any:
    x = b.emit(op.nn.softmax(b.emit(op.add(x, y))))
    return op.multiply(b.emit(op.sqrt(x)), y)


def dense(b: Any, x: Any, y: Any) -> Any:
    x = b.emit(op.matmul(x, b.emit(op.reshape(y, (8, 1)))))
    return op.sigmoid(b.emit(op.add(x, x)))


def total(b: Any, x: Any, y: Any) -> Any:
    x = b.emit(op.multiply(b.emit(op.exp(x)), y))
    return op.sum(x, [1])


def rounded(b: Any, x: Any, y: Any) -> Any:
    x = b.emit(op.astype(b.emit(op.multiply(x, y)), "float32"))
    return op.add(x, b.emit(op.astype(y, "float32")))


def masked(b: Any, x: Any, y: Any) -> Any:
    mask = b.emit(op.greater(x, y))
    return op.where(mask, b.emit(op.subtract(x, y)), b.emit(op.negative(x)))


BUILDS = [chain, moved, broadcast, normed, dense, total, rounded, masked]


@pytest.mark.parametrize(
    ("build", "dtype"),
    [*((b, "float32") for b in BUILDS), *((b, "float16") for b in (chain, normed, rounded))],
)
def test_every_bit_stays(build: Any, dtype: str):
    mod = program(build, [described((N, 8), dtype), described((8,), dtype)])
    wide = np.dtype(loomir.support.dtype.numpy_of(loomir.support.dtype.DataType(dtype)))
    assert_same_bits(mod, random(5, 8).astype(wide), random(8).astype(wide))


def test_no_rows():
    mod = program(moved, [described((N, 8)), described((8,))])
    assert_same_bits(mod, random(0, 8), random(8))


UNARY = [op.exp, op.negative, op.sqrt, op.tanh, op.abs, op.nn.relu, op.floor, op.sigmoid]
BINARY = [op.add, op.subtract, op.multiply, op.maximum, op.divide]


def random_graph(seed: int) -> tuple[IRModule, tuple[Array, ...]]:
    """Make a graph of operators of all kinds on (n, 6) and (6,)."""
    source = rng.Random(seed)
    dtype = source.choice(["float32", "float16", "float64"])

    def build(b: Any, x: Any, y: Any, w: Any) -> Any:
        whole, rows = [x], [y]
        for _ in range(source.randint(3, 14)):
            kind = source.random()
            a = source.choice(whole[-4:])
            if kind < 0.3:
                whole.append(b.emit(source.choice(UNARY)(a)))
            elif kind < 0.6:
                whole.append(b.emit(source.choice(BINARY)(a, source.choice(whole[-4:] + rows))))
            elif kind < 0.7:
                rows.append(b.emit(source.choice(UNARY)(source.choice(rows))))
            elif kind < 0.8:
                permuted = b.emit(op.permute_dims(a))
                whole.append(b.emit(op.permute_dims(b.emit(op.flip(permuted, 0)))))
            elif kind < 0.88:
                whole.append(b.emit(op.matmul(a, w)))
            elif kind < 0.94:
                whole.append(b.emit(op.nn.softmax(a)))
            else:
                rows.append(b.emit(op.max(a, [0])))
        total = whole[-1]
        for row in rows[-2:]:
            total = b.emit(op.add(total, row))
        return total

    infos = [described((N, 6), dtype), described((6,), dtype), described((6, 6), dtype)]
    args = (random(3, 6), random(6), random(6, 6))
    return program(build, infos), tuple(a.astype(dtype) for a in args)


@pytest.mark.parametrize("seed", range(12))
def test_random_graphs(seed: int):
    mod, args = random_graph(seed)
    assert_same_bits(mod, *args, opt_level=0)


def test_what_no_kernel_of_a_group_writes_stays_memory():
    mod = from_source("""
@I.ir_module
class Module:
    @T.prim_func(private=True)
    def half(a: T.Buffer((16,), "float32"), b: T.Buffer((16,), "float16")):
        for i in range(16):
            b[i] = T.Cast("float16", a[i])

    @T.prim_func(private=True)
    def nothing(x: T.Buffer((16,), "float32"), o: T.Buffer((16,), "float32")):
        T.evaluate(0)

    @R.function(private=True)
    def group(x: R.Tensor((16,), "float32")) -> R.Tensor((16,), "float16"):
        R.func_attr({"Primitive": True})
        y = R.call_tir(Module.nothing, (x,), out_sinfo=R.Tensor((16,), "float32"))
        z = R.call_tir(Module.half, (y,), out_sinfo=R.Tensor((16,), "float16"))
        return z

    @R.function
    def main(x: R.Tensor((16,), "float32")) -> R.Tensor((16,), "float16"):
        return Module.group(x)
""")
    assert isinstance(mod, IRModule)
    made = loomir.compile(mod, cache=False)["main"](np.zeros(16, "float32"))
    assert made.shape == (16,)


def test_a_kernel_with_handles_that_match_no_buffer_tells_so():
    mod = from_source("""
@I.ir_module
class M:
    @T.prim_func(private=True)
    def nothing(a: T.handle, b: T.handle):
        T.evaluate(0)

    @R.function
    def main(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
        return R.call_tir(M.nothing, (x,), out_sinfo=R.Tensor((4,), "float32"))
""")
    assert isinstance(mod, IRModule)
    with pytest.raises(TypeError, match="RUN0401"):
        loomir.compile(mod, cache=False)["main"](np.zeros(4, "float32"))
