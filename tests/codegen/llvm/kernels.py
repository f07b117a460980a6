"""Kernels for the tests: a function of vectors, run over NumPy arrays."""

import ctypes
from collections.abc import Callable, Sequence

import numpy as np

from loomir.codegen.llvm.assembler.builder import Builder
from loomir.codegen.llvm.assembler.text import Module
from loomir.codegen.llvm.assembler.types import I1, I8, I64, PTR, VOID
from loomir.codegen.llvm.assembler.values import Value, const
from loomir.codegen.llvm.jit.engine import Library, Passes, TargetMachine, compile_ir, load
from loomir.codegen.llvm.math.floats import register_type
from loomir.support.dtype import DataType, numpy_of

Emit = Callable[[Builder, list[Value]], Value]


def host_attributes() -> dict[str, str]:
    host = TargetMachine.host()
    return {"target-cpu": host.cpu, "target-features": host.features}


def add_kernel(
    module: Module, name: str, emit: Emit, sources: Sequence[DataType], target: DataType
) -> None:
    """Define ``name(n, inputs..., output)``: ``n`` vectors through ``emit``."""
    params = [("n", I64), *((f"x{i}", PTR) for i in range(len(sources))), ("y", PTR)]
    f = module.define(name, VOID, params)
    b = Builder(f)
    n, *inputs, output = f.params
    head, body, done = b.append("head"), b.append("body"), b.append("done")
    b.br(head)
    b.position_at_end(head)
    i = b.phi(I64)
    i.add(const(I64, 0), f.entry)
    b.condbr(b.icmp("slt", i, n), body, done)
    b.position_at_end(body)
    values: list[Value] = []
    for address, dtype in zip(inputs, sources, strict=True):
        at = b.gep(I8, address, b.mul(i, const(I64, dtype.itemsize)))
        t = register_type(dtype)
        if dtype.is_bool:
            raw = b.load(I8.with_lanes(dtype.lanes), at)
            values.append(b.icmp("ne", raw, const(raw.type, 0)))
        else:
            values.append(b.load(t, at))
    result = emit(b, values)
    if result.type.element is I1:
        result = b.zext(result, I8.with_lanes(target.lanes))
    b.store(result, b.gep(I8, output, b.mul(i, const(I64, target.itemsize))))
    i.add(b.add(i, const(I64, 1)), b.block)
    b.br(head)
    b.position_at_end(done)
    b.ret()


def kernel(
    emit: Emit,
    sources: Sequence[DataType],
    target: DataType,
    *,
    features: Sequence[str] | None = None,
) -> Callable[..., np.ndarray]:
    """Compile ``emit`` for this machine; the result takes and gives arrays."""
    host = TargetMachine.host()
    module = Module(features=host.abilities if features is None else features)
    add_kernel(module, "run", emit, sources, target)
    return caller(load(compile_ir(module.render(), level=1, passes=Passes.FEW)), "run", target)


def caller(library: Library, name: str, target: DataType) -> Callable[..., np.ndarray]:
    address = library.address(name)

    def run(*arrays: np.ndarray) -> np.ndarray:
        count = len(arrays[0])
        padded = -(-count // target.lanes) * target.lanes
        inputs = [np.concatenate([a, np.ones(padded - count, a.dtype)]) for a in arrays]
        out = np.zeros(padded, numpy_of(target))
        kinds = [ctypes.c_int64, *[ctypes.c_void_p] * (len(arrays) + 1)]
        f = ctypes.CFUNCTYPE(None, *kinds)(address)
        f(padded // target.lanes, *[a.ctypes.data for a in inputs], out.ctypes.data)
        assert library.name  # the code is freed with the library
        return out[:count]

    return run
