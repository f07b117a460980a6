"""Modules of generated code: symbols, caching, other machines, and how good the code is."""

from __future__ import annotations

import re
import threading
from pathlib import Path

import numpy as np
import pytest

from loomir import build
from loomir.codegen.llvm.generated_module import GeneratedModule
from loomir.codegen.llvm.jit.engine import Passes
from loomir.codegen.llvm.jit.symbols import symbols_of
from loomir.codegen.llvm.module import Options, generate
from loomir.codegen.llvm.native_module import NativeModule
from loomir.codegen.llvm.support.ir.checks import CHECK_FUNCTIONS
from loomir.ir.module import IRModule
from loomir.runtime.errors import RunValueError
from loomir.runtime.storage.object_cache import ObjectCache
from loomir.support.diagnostics import InternalError
from loomir.support.dtype import BOOL, DataType
from loomir.target import Target
from loomir.tir import expr as e
from loomir.tir.buffer import BufferLoad, decl_buffer
from loomir.tir.builtins.table import BUILTINS, AcceptedDTypes, call_builtin
from loomir.tir.expr import FloatImm, IntImm, Var
from loomir.tir.function import PrimFunc
from loomir.tir.signature import signature_of
from loomir.tir.stmt import Allocate, BufferStore, DeclBuffer, For, ForKind, SeqStmt
from loomir.transform import lower
from tests.codegen.llvm.tir.compare_engines import (
    PLAIN,
    compiled,
    flat,
    func,
    get,
    i64,
    loop,
    module,
    put,
)
from tests.codegen.llvm.tir.test_statements import ret

F32 = DataType("float32")


def generated(
    program: PrimFunc | IRModule, target: str = "native", options: Options = PLAIN
) -> GeneratedModule:
    mod = module(("main", program)) if isinstance(program, PrimFunc) else program
    functions = {v.name_hint: f for v, f in mod.functions.items() if isinstance(f, PrimFunc)}
    signatures = {name: signature_of(f) for name, f in functions.items()}
    return generate(lower(mod), Target(target), options, signatures=signatures)


def vector_add(dtype: str = "float32", kind: ForKind = ForKind.SERIAL) -> PrimFunc:
    n = Var("n", "int64")
    a, b, c = (flat(x, n, dtype) for x in "ABC")
    return func("main", [a, b, c], loop(n, lambda i: put(c, i, get(a, i) + get(b, i)), kind=kind))


# -- what is made ------------------------------------------------------------------------------
def test_equal_programs_give_equal_text() -> None:
    assert generated(vector_add()).text == generated(vector_add()).text


def test_symbols_of_an_object() -> None:
    n = Var("n", "int32")
    program = module(
        ("one", func("one", [n], ret(n))),
        ("two", func("two", [m := Var("m", "int32")], ret(m), private=True)),
    )
    made = generated(program)
    assert dict(made.entries) == {"one": "__tvm_ffi_one"}
    assert not made.needs_pool
    native = NativeModule(made, Target())
    table = symbols_of(native.object())
    assert set(table.defined) == {"__tvm_ffi_one"}
    assert set(table.undefined) <= set(CHECK_FUNCTIONS)


def test_the_pool_is_asked_for_where_it_is_needed() -> None:
    assert generated(vector_add(kind=ForKind.PARALLEL)).needs_pool


def test_a_lowered_program_only() -> None:
    a = decl_buffer((i64(4), i64(4)), F32, "A")
    body = BufferStore(a, e.const(0.0, F32), (i64(0), i64(0)))
    f = func("main", [a], body)
    with pytest.raises(InternalError, match="has 2 axes"):
        generate(module(("main", f)), Target(), signatures={"main": signature_of(f)})
    with pytest.raises(InternalError, match="no signature"):
        generate(module(("main", f)), Target(), signatures={})
    for kind in (ForKind.VECTORIZED, ForKind.UNROLLED):
        g = vector_add(kind=kind)
        with pytest.raises(InternalError, match="in lowered code"):
            generate(module(("main", g)), Target(), signatures={"main": signature_of(g)})


def test_objects_are_cached(tmp_path: Path) -> None:
    cache = ObjectCache(tmp_path)
    first = NativeModule(generated(vector_add()), Target(), cache=cache)
    code = first.object()
    assert cache.size().entries == 1
    again = NativeModule(generated(vector_add()), Target(), cache=cache)
    assert again.object() == code
    assert cache.size().entries == 1
    for other in (
        NativeModule(generated(vector_add("int32")), Target(), cache=cache),
        NativeModule(generated(vector_add()), Target(), 3, cache=cache),
        NativeModule(generated(vector_add()), Target(), passes=Passes.FEW, cache=cache),
        NativeModule(generated(vector_add(), "haswell"), Target("haswell"), cache=cache),
    ):
        before = cache.size().entries
        other.object()
        assert cache.size().entries == before + 1


def test_a_cached_object_runs(tmp_path: Path) -> None:
    for _ in range(2):
        native = NativeModule(generated(vector_add()), Target(), cache=ObjectCache(tmp_path))
        assert native.address("main") == native.address("main")


def test_many_threads_ask_at_once() -> None:
    native = NativeModule(generated(vector_add()), Target())
    found: list[int] = []
    threads = [
        threading.Thread(target=lambda: found.append(native.address("main"))) for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(found)) == 1
    assert len(found) == 8


# -- other machines ----------------------------------------------------------------------------
DTYPES = {
    AcceptedDTypes.FLOAT: ("float16", "bfloat16", "float32", "float64"),
    AcceptedDTypes.FLOAT_INT32: ("float16", "float32", "float64"),
    AcceptedDTypes.INTEGER: ("int8", "uint16", "int64"),
    AcceptedDTypes.NUMBER: ("int32", "float16", "bfloat16"),
    AcceptedDTypes.BITS: ("uint8", "bool"),
}


def everything() -> IRModule:
    """Use every builtin on every kind of number that it takes, as scalars and as vectors."""
    functions: list[tuple[str, PrimFunc]] = []
    for name, row in sorted(BUILTINS.items()):
        for dtype in DTYPES.get(row.accepts, ()):
            a, powers = flat("A", 64, dtype), flat("E", 64, "int32")
            stores = []
            for lanes in (1, 8):
                index = i64(3) if lanes == 1 else e.Ramp(i64(8), i64(1), lanes)
                args: list[e.PrimExpr] = [get(a, index)] * (row.arity or 1)
                if row.accepts is AcceptedDTypes.FLOAT_INT32:
                    args[1] = get(powers, index)
                value = call_builtin(name, *args)
                stores.append(put(a, index, e.Cast(value, args[0].dtype)))
            made = func(f"{name}_{dtype}", [a, powers], SeqStmt(tuple(stores)))
            functions.append((f"{name}_{dtype}", made))
    assert len(functions) > 150
    return module(*functions)


@pytest.mark.parametrize("name", ["native", "x86-64", "skylake-avx512"])
def test_every_builtin_compiles(name: str) -> None:
    # Helpers are called by what selects instructions, which is the same without LLVM's passes.
    native = NativeModule(generated(everything(), name), Target(name), 0)
    table = symbols_of(native.object())
    # What the C library of any Linux has; above all no helpers of compilers (`__extendhfsf2`).
    assert not [n for n in table.undefined if n.startswith("__")]
    if name == "native":
        assert native.address("sin_float32")


def test_code_for_the_plainest_machine_runs_here() -> None:
    """Without SSE4.1, FMA and F16C: what lacks instructions calls the C library."""
    n = Var("n", "int64")
    for dtype in ("float32", "float64", "float16", "bfloat16"):
        a, b = flat("A", n, dtype), flat("B", n, dtype)

        def make(x: e.PrimExpr) -> e.PrimExpr:
            rounded = call_builtin("floor", x) + call_builtin("round", x * x)
            return call_builtin("fma", rounded, x, call_builtin("sqrt", x))

        f = func("main", [a, b], loop(n, lambda i: put(b, i, make(get(a, i)))))  # noqa: B023
        results = []
        for name in ("x86-64", "native"):
            numpy = np.float32 if dtype == "bfloat16" else np.dtype(dtype)
            data = (np.arange(40) / 3).astype(numpy)
            if dtype == "bfloat16":
                import ml_dtypes

                data = data.astype(ml_dtypes.bfloat16)
            out = np.zeros_like(data)
            compiled(f, target=name)["main"](data, out)
            results.append(out)
        assert (results[0] == results[1]).all()


def test_code_for_another_family_is_text_and_objects() -> None:
    native = NativeModule(generated(vector_add(), "neoverse-n1"), Target("neoverse-n1"))
    assert "fadd\tv" in native.assembly()
    assert native.object()[:4] == b"\x7fELF"
    with pytest.raises(RunValueError, match="this machine is x86_64"):
        native.address("main")


# -- how good the code is ----------------------------------------------------------------------
def test_a_plain_loop_is_vectorised() -> None:
    text = NativeModule(generated(vector_add(), "znver3"), Target("znver3")).assembly()
    assert re.search(r"vaddps\s.*%ymm", text)
    wide = NativeModule(
        generated(vector_add(), "skylake-avx512"), Target("skylake-avx512")
    ).assembly()
    assert re.search(r"vaddps\s.*%zmm", wide)


def test_loops_over_narrow_variables_are_vectorised() -> None:
    a, b = decl_buffer((i64(64), i64(48)), F32, "A"), decl_buffer((i64(64), i64(48)), F32, "B")
    i, j = Var("i", "int32"), Var("j", "int32")
    store = BufferStore(b, BufferLoad(a, (i, j)) * e.const(2.0, F32), (i, j))
    kind = DataType("int32")
    inner = For(j, IntImm(0, kind), IntImm(48, kind), ForKind.SERIAL, store)
    outer = For(i, IntImm(0, kind), IntImm(64, kind), ForKind.SERIAL, inner)
    text = NativeModule(
        generated(func("main", [a, b], outer), "znver3"), Target("znver3")
    ).assembly()
    assert re.search(r"v(add|mul)ps\s.*%ymm", text)


def test_parallel_loops_are_vectorised_inside() -> None:
    n = Var("n", "int64")
    a, b = flat("A", n), flat("B", n)
    rows = loop(
        64, lambda i: loop(n, lambda j: put(b, j, get(a, j) + get(b, j))), kind=ForKind.PARALLEL
    )
    text = NativeModule(
        generated(func("main", [a, b], rows), "znver3"), Target("znver3")
    ).assembly()
    assert re.search(r"vaddps\s.*%ymm", text)


def micro_kernel() -> PrimFunc:
    """C[6, 16] += A[K, 6] * B[K, 16], scheduled by hand for sixteen registers of 256 bits."""
    depth = Var("K", "int64")
    a, b = decl_buffer((depth, i64(6)), F32, "A"), decl_buffer((depth, i64(16)), F32, "B")
    c, acc = (decl_buffer((i64(6), i64(16)), F32, name) for name in ("C", "acc"))

    def tile(store: object) -> For:
        i, j = Var("i", "int64"), Var("j", "int64")
        lanes = For(j, i64(0), i64(16), ForKind.VECTORIZED, store(i, j))  # type: ignore[operator]
        return For(i, i64(0), i64(6), ForKind.UNROLLED, lanes)

    k = Var("k", "int64")

    def step(i: Var, j: Var) -> BufferStore:
        factors = BufferLoad(a, (k, i)), BufferLoad(b, (k, j)), BufferLoad(acc, (i, j))
        return BufferStore(acc, call_builtin("fma", *factors), (i, j))

    def finish(i: Var, j: Var) -> BufferStore:
        return BufferStore(c, BufferLoad(c, (i, j)) + BufferLoad(acc, (i, j)), (i, j))

    body = SeqStmt(
        (
            tile(lambda i, j: BufferStore(acc, FloatImm(0.0, F32), (i, j))),
            For(k, i64(0), depth, ForKind.SERIAL, tile(step)),
            tile(
                lambda i, j: BufferStore(c, BufferLoad(c, (i, j)) + BufferLoad(acc, (i, j)), (i, j))
            ),
        )
    )
    made = Allocate(acc.data, F32, acc.shape, IntImm(1, BOOL), DeclBuffer(acc, body))
    return func("main", [a, b, c], made)


def test_accumulators_stay_in_registers() -> None:
    text = NativeModule(generated(micro_kernel(), "znver3"), Target("znver3")).assembly()
    blocks = re.split(r"^\.LBB\w+:", text, flags=re.MULTILINE)
    hot = [block for block in blocks if block.count("vfmadd") >= 12]
    assert hot
    for block in hot:
        accumulators = set(re.findall(r"vfmadd\w+\s+.*, (%ymm\d+)$", block, re.MULTILINE))
        assert len(accumulators) == 12
        assert "%rsp" not in block
        assert "%rbp" not in block
        assert "vmulps" not in block


def test_the_micro_kernel_multiplies() -> None:
    f = micro_kernel()
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal((64, n)).astype(np.float32) for n in (6, 16))
    c = np.zeros((6, 16), np.float32)
    build.compile(f, cache=False)(a, b, c)
    assert np.allclose(c, a.T @ b, atol=1e-4)
