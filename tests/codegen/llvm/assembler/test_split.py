"""Modules in parts: what each part holds, and the same results as in one."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

import loomir
from loomir.codegen.llvm import module as generation
from loomir.codegen.llvm.assembler.builder import Builder
from loomir.codegen.llvm.assembler.split import split_module
from loomir.codegen.llvm.assembler.text import Function, Module
from loomir.codegen.llvm.assembler.types import I32, I64
from loomir.codegen.llvm.assembler.values import const
from loomir.codegen.llvm.jit.bundle import pack_objects, unpack_objects
from loomir.codegen.llvm.jit.engine import compile_ir, load
from loomir.support.diagnostics import InternalError

GRAPH = """
from loomir.script import ir as I, relax as R

@I.ir_module
class Model:
    @R.function
    def main(x: R.Tensor((37, 80), "float32"), w: R.Tensor((80, 50), "float32")):
        with R.dataflow():
            a = R.matmul(x, w)
            b = R.nn.softmax(a)
            c = R.tanh(R.sum(b, axis=0))
            d = R.nn.gelu(R.add(a, c))
            R.output(d)
        return d
"""


def _sample() -> Module:
    """Make two functions that count their calls together, by a helper, and by a constant of both."""
    module = Module("sample")
    calls = module.define_global("calls", const(I64, 0))
    ten = module.data("ten", bytes([10, 0, 0, 0, 0, 0, 0, 0]))
    helper = module.define("helper", I64, [("x", I64)], linkage="internal")
    b = Builder(helper)
    b.ret(b.mul(helper.params[0], b.load(I64, ten)))
    made: list[Function] = []
    for name, add in (("one.body", 1), ("two.body", 2)):
        body = module.define(name, I64, [("x", I64)], linkage="internal")
        b = Builder(body)
        b.store(b.add(b.load(I64, calls), const(I64, 1)), calls)
        b.ret(b.add(b.call(helper, [body.params[0]]), const(I64, add)))
        made.append(body)
    run = module.define("run", I64, [("x", I64)])
    b = Builder(run)
    both = b.add(b.call(made[0], [run.params[0]]), b.call(made[1], [run.params[0]]))
    b.ret(b.add(both, b.mul(b.load(I64, calls), const(I64, 1000))))
    return module


@pytest.mark.parametrize("parts", [[{"one.body"}, {"two.body"}], [{"one.body", "two.body"}], []])
def test_parts_do_together_what_the_module_does(parts: list[set[str]]):
    module = _sample()
    texts = split_module(module, parts)
    assert texts is not None
    assert len(texts) == len(parts) + 1
    found: list[int] = []
    for objects in ([module.render()], texts):
        library = load(pack_objects([compile_ir(text) for text in objects]), exports=["run"])
        call = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(library.address("run"))
        found += [call(4), call(5)]
    assert found == [2083, 4103, 2083, 4103]


def test_parts_have_helpers_of_their_own_and_share_what_is_written():
    first, one, two = split_module(_sample(), [{"one.body"}, {"two.body"}]) or ["", "", ""]
    assert "define i64 @run" in first
    assert "declare i64 @one.body(i64) nounwind" in first
    assert "@calls = global i64 0" in first
    for part in (one, two):
        assert "define internal i64 @helper" in part
        assert "constant [8 x i8]" in part
        assert "@calls = external global i64" in part
        assert "@run" not in part
    assert "two.body" not in one


def test_variables_of_threads_stay_in_one_module():
    module = _sample()
    module.define_global("own", const(I32, 0), thread_local=True)
    assert split_module(module, [{"one.body"}]) is None


def test_graphs_in_parts_give_the_same_bits(monkeypatch: pytest.MonkeyPatch):
    mod = loomir.script.from_source(GRAPH)
    rng = np.random.default_rng(0)
    x, w = rng.random((37, 80), dtype="float32"), rng.random((80, 50), dtype="float32")
    whole = loomir.compile(mod, cache=False)
    wanted = whole(x, w)
    monkeypatch.setattr(generation, "_SPLIT", 0)
    monkeypatch.setattr(generation, "_LINES", 1)
    exe = loomir.compile(mod, cache=False)
    assert exe(x, w).tobytes() == wanted.tobytes()
    assert exe.llvm_ir() == whole.llvm_ir()
    assert exe.assembly().count("loomir_enter:") == 1
    assert loomir.compile(mod, cache=False, opt_level=3)(x, w).tobytes() == wanted.tobytes()


def test_bundles_are_whole():
    bundle = pack_objects([b"one", b"", b"three"])
    assert unpack_objects(bundle) == [b"one", b"", b"three"]
    assert unpack_objects(pack_objects([b"one"])) == [b"one"]
    assert pack_objects([b"one"]) == b"one"
    for size in range(len(bundle) - 24, len(bundle)):
        with pytest.raises(InternalError, match="damaged bundle"):
            unpack_objects(bundle[:size])
    with pytest.raises(InternalError, match="damaged bundle"):
        unpack_objects(bundle + b"x")
