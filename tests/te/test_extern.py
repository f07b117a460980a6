"""Tensors computed by statements, by calls and by functions of TIR."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import loomir
from loomir import te
from loomir.script import tir as T
from loomir.tir import BufferLoad, BufferStore, For, ForKind, IntImm, Range, Var, decl_buffer
from loomir.tir.builtins.table import call_builtin
from loomir.tir.stmt import Evaluate, SeqStmt, Stmt
from tests.te.running import checked, run_both
from tests.tir.refusal import refused


def doubled(ins: Any, outs: Any) -> Stmt:
    """Write twice the input to the output, by loops made of nodes."""
    (source,), (target,) = ins, outs
    i = Var("i", source.shape[0].dtype)
    store = BufferStore(target, BufferLoad(source, (i,)) * 2.0, (i,))
    return For(i, IntImm(0, i.dtype), source.shape[0], ForKind.SERIAL, store)


@T.prim_func
def scaled(x: T.Buffer(("n", 3), "float32"), y: T.Buffer(("n", 3), "float32")):
    for i, j in T.grid(n, 3):  # noqa: F821 - a size
        with T.sblock("scaled"):
            vi, vj = T.axis.remap("SS", [i, j])
            y[vi, vj] = x[vi, vj] * T.float32(3)


@T.prim_func
def with_room(x: T.Buffer((4,), "float32"), y: T.Buffer((4,), "float32")):
    with T.sblock("root"):
        room = T.alloc_buffer((4,), "float32")
        for i in range(4):
            room[i] = x[i] + T.float32(1)
        for i in range(4):
            y[i] = room[3 - i]


@pytest.mark.parametrize("size", [4, 1, 0])
def test_a_statement_twice_in_one_graph(size: int):
    a = te.placeholder((size,), name="A")
    b = te.extern((size,), [a], doubled, name="B")
    c = te.extern((size,), [b], doubled, name="C")
    x = np.arange(size, dtype="float32")
    run_both([a, c], [x], [x * 4])


def test_a_statement_of_symbolic_sizes_and_its_own_buffers():
    n, m = te.size_var("n", "int64"), Var("m", "int64")
    a = te.placeholder((n,), name="A")
    mine = [decl_buffer((m,), "float32", "mine")], [decl_buffer((m,), "float32", "made")]
    b = te.extern((n,), [a], doubled, "B", in_buffers=mine[0], out_buffers=mine[1])
    x = np.arange(5, dtype="float32")
    run_both([a, b], [x], [x * 2])


def test_several_outputs_and_hints_that_mean_nothing():
    a = te.placeholder((3,), "int32", "A")

    def body(ins: Any, outs: Any):
        hint = te.prefetch(ins[0], (Range(te.const(0), te.const(3)),))
        up = BufferStore(outs[0], BufferLoad(ins[0], (te.const(0),)), (te.const(0),))
        down = BufferStore(outs[1], BufferLoad(ins[0], (te.const(2),)) + 1, (te.const(0),))
        return SeqStmt((hint, up, down))

    b, c = te.extern([(1,), (1,)], [a], body, name="B", dtype=["int32", "int32"])
    x = np.arange(3, dtype="int32") + 5
    func = run_both([a, b, c], [x], [x[:1], x[2:] + 1])
    assert "refetch" not in func.script()


def test_a_call_of_python():
    seen = []

    def double_of(x: Any, y: Any):
        seen.append(x.shape)
        np.asarray(y)[:] = np.asarray(x) * 2

    loomir.register_func("tests.te.double_of", double_of, override=True)
    a = te.placeholder((4,), name="A")

    def body(ins: Any, outs: Any):
        return T.call_packed("tests.te.double_of", ins[0], outs[0])

    b = te.extern((4,), [a], body, name="B")
    x = np.arange(4, dtype="float32")
    run_both([a, b], [x], [x * 2])
    assert len(seen) == 2


def test_a_builtin_is_a_statement():
    a = te.placeholder((4,), name="A")
    b = te.extern((4,), [a], doubled, name="B", attrs={"kind": "twice"})
    c = te.extern((4,), [b], lambda i, o: call_builtin("likely", te.const(1)), name="C")
    text = checked([a, b, c]).script()
    assert '"kind": "twice"' in text
    assert "T.likely(T.int32(1))" in text


def test_a_function_twice_in_one_graph():
    n = te.size_var("n", "int64")
    a = te.placeholder((n, 3), name="A")
    c = te.extern_primfunc([te.extern_primfunc([a], scaled)], scaled, name="again")
    for rows in (2, 0):
        x = np.arange(rows * 3, dtype="float32").reshape(rows, 3)
        run_both([a, c], [x], [x * 9])
    fixed = te.placeholder((2, 3), name="A")
    b = te.extern_primfunc([fixed], scaled)
    assert [int(str(e).split("(")[-1].strip(")")) for e in b.shape] == [2, 3]


def test_a_function_with_room_of_its_own_twice():
    a = te.placeholder((4,), name="A")
    b = te.extern_primfunc([a], with_room)
    c = te.extern_primfunc([b], with_room)
    x = np.arange(4, dtype="float32")
    func = run_both([a, c], [x], [x + 2])
    assert func.script().count("alloc_buffer") == 3


@T.prim_func
def returning(x: T.Buffer((4,), "float32"), y: T.Buffer((4,), "float32")) -> T.int32:
    y[0] = x[0]
    return 1


@T.prim_func
def of_scalar(x: T.Buffer((4,), "float32"), s: T.float32, y: T.Buffer((4,), "float32")):
    y[0] = x[0] * s


@T.prim_func
def strided(x: T.Buffer((4,), "float32", strides=(2,)), y: T.Buffer((4,), "float32")):
    y[0] = x[0]


@T.prim_func
def reading(x: T.Buffer((4,), "float32")):
    T.evaluate(x[0])


@T.prim_func
def growing(x: T.Buffer((4,), "float32"), y: T.Buffer(("m",), "float32")):
    y[0] = x[0]


@T.prim_func
def added(
    x: T.Buffer(("n",), "float32"), y: T.Buffer(("n",), "float32"), z: T.Buffer(("n",), "float32")
):
    for i in range(n):  # noqa: F821 - a size
        z[i] = x[i] + y[i]


def test_mistakes_about_functions():
    a = te.placeholder((4,), name="A")
    with refused("TE0008", "does not take these inputs", "x: float32 of 2 axes"):
        te.extern_primfunc([a], scaled)
    with refused("TE0008", "takes arguments that are no arrays"):
        te.extern_primfunc([a], of_scalar)
    with refused("TE0008", "strides or an offset"):
        te.extern_primfunc([a], strided)
    with refused("TE0008", "returns before its end"):
        te.extern_primfunc([a], returning)
    with refused("TE0008", "writes no array"):
        te.extern_primfunc([a], reading)
    with refused("TE0008", "no input of 'growing' tells its size m"):
        te.extern_primfunc([a], growing)
    with refused("TE0008", "axis 0 of 'y' in 'added' has extent 4, but the tensor 5"):
        te.extern_primfunc([a, te.placeholder((5,), name="B")], added)
    n = te.size_var("n")
    with refused("TE0008", "axis 1 of 'x' in 'scaled' has extent 3, but the tensor n"):
        te.extern_primfunc([te.placeholder((n, n), name="B")], scaled)


def test_mistakes_about_statements():
    a = te.placeholder((4,), name="A")
    with refused("TE0008", "an input of 'B' is a list"):
        te.extern((4,), [[1.0]], doubled, name="B", dtype="float32")
    with refused("TE0008", "1 output, but no dtype"):
        te.extern((4,), [], doubled, name="B")
    with refused("TE0008", "2 outputs, but 1 dtype"):
        te.extern([(4,), (4,)], [a], doubled, name="B", dtype=["float32"])
    with refused("TE0008", "the body of 'B' is a int"):
        te.extern((4,), [a], lambda i, o: 3, name="B")
    with refused("TE0008", "the buffers given to 'B'", "A: float32 of 1 axis"):
        te.extern((4,), [a], doubled, name="B", in_buffers=[])
    with refused("TE0008", "has extent 5, but the tensor 4"):
        te.extern((4,), [a], doubled, name="B", in_buffers=[decl_buffer((5,))])
    with refused("TE0001", "1 axis", "0 ranges"):
        te.extern((4,), [a], lambda i, o: te.prefetch(i[0], ()), name="B")


def test_a_statement_that_leaves_a_mistake_is_found():
    a = te.placeholder((4,), name="A")
    b = te.extern((4,), [a], lambda i, o: Evaluate(Var("lost", "int32")), name="B")
    assert [d.code for d in loomir.verify(te.create_prim_func([a, b]))] == ["TIR0401"]
