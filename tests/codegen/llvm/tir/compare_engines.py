"""Run a lowered program natively and by the interpreter, and hold the two together.

Programs here are built by hand in lowered form, so that code generation is tested by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from loomir.codegen.llvm.jit.engine import Passes
from loomir.codegen.llvm.module import Options, generate
from loomir.codegen.llvm.native_module import NativeModule
from loomir.interp import explain, interpret
from loomir.ir.module import GlobalVar, IRModule
from loomir.runtime import Function, Parameter
from loomir.support.diagnostics import RunError
from loomir.support.dtype import DataType, numpy_of
from loomir.target import Target
from loomir.tir.buffer import Buffer, BufferLoad, decl_buffer
from loomir.tir.expr import IntImm, PrimExpr, Var
from loomir.tir.function import PrimFunc
from loomir.tir.signature import signature_of
from loomir.tir.stmt import BufferStore, For, ForKind, Stmt

I64 = DataType("int64")
PLAIN = Options()


def i64(value: int) -> IntImm:
    return IntImm(value, I64)


def flat(name: str, count: int | PrimExpr, dtype: str | DataType = "float32") -> Buffer:
    """Declare a buffer of one axis."""
    extent = i64(count) if isinstance(count, int) else count
    return decl_buffer((extent,), DataType(str(dtype)), name)


def func(
    name: str, params: Sequence[Buffer | Var], body: Stmt, *, private: bool = False, **attrs: Any
) -> PrimFunc:
    """Make a function whose parameters are buffers and scalars."""
    handles: list[Var] = []
    buffers: dict[Var, Buffer] = {}
    for param in params:
        if isinstance(param, Buffer):
            handle = Var(param.name, "handle")
            buffers[handle] = param
            handles.append(handle)
        else:
            handles.append(param)
    if not private:
        attrs["global_symbol"] = name
    return PrimFunc(tuple(handles), body, None, buffers, attrs)


def module(*functions: tuple[str, PrimFunc]) -> IRModule:
    return IRModule({GlobalVar(name): f for name, f in functions})


def loop(
    count: int | PrimExpr,
    body: Callable[[Var], Stmt],
    *,
    kind: ForKind = ForKind.SERIAL,
    start: int | PrimExpr = 0,
    dtype: str = "int64",
) -> For:
    """Make a loop; ``body`` is given its variable."""
    var = Var("i", dtype)
    low = IntImm(start, var.dtype) if isinstance(start, int) else start
    extent = IntImm(count, var.dtype) if isinstance(count, int) else count
    return For(var, low, extent, kind, body(var))


def put(buffer: Buffer, index: PrimExpr | int, value: PrimExpr) -> BufferStore:
    at = i64(index) if isinstance(index, int) else index
    return BufferStore(buffer, value, (at,))


def get(buffer: Buffer, index: PrimExpr | int) -> BufferLoad:
    at = i64(index) if isinstance(index, int) else index
    return BufferLoad(buffer, (at,))


def compiled(
    program: IRModule | PrimFunc,
    options: Options = PLAIN,
    *,
    target: str = "native",
    level: int = 2,
    passes: Passes = Passes.USUAL,
) -> dict[str, Function]:
    """Compile every public function.

    Few passes take half of the time.
    """
    mod = module(("main", program)) if isinstance(program, PrimFunc) else program
    made = {v.name_hint: f for v, f in mod.functions.items() if isinstance(f, PrimFunc)}
    signatures = {name: signature_of(f) for name, f in made.items()}
    generated = generate(mod, Target(target), options, signatures=signatures)
    native = NativeModule(generated, Target(target), level, passes=passes)
    functions: dict[str, Function] = {}
    for name in generated.entries:
        signature, f = signatures[name], made[name]

        def why(args: tuple[object, ...], f: PrimFunc = f) -> None:
            explain(f, args, options.allow_alias)

        functions[name] = Function(
            name,
            [
                Parameter(p.name, p.dtype, p.buffer is not None, p.written)
                for p in signature.parameters
            ],
            lambda name=name: native.address(name),
            generated.faults,
            why,
            native,
            signature.returns,
        )
    return functions


def outcome(call: Callable[..., object], args: Sequence[object]) -> tuple[object, list[object]]:
    """Call with copies of the arrays; return the result or the error, and the arrays afterwards."""
    given = [a.copy() if isinstance(a, np.ndarray) else a for a in args]
    try:
        result: object = call(*given)
    except RunError as error:
        # What arrays hold after an error is open.
        found = [(type(error).__name__, d.code, d.message) for d in error.diagnostics]
        return found, []
    return result, given


def same(left: object, right: object) -> bool:
    """Compare bit for bit, all NaN alike."""
    x, y = np.asarray(left), np.asarray(right)
    if x.dtype != y.dtype or x.shape != y.shape:
        return False
    if x.dtype.kind not in "fV" and x.dtype.name != "bfloat16":
        return bool(np.array_equal(x, y))
    nan = np.isnan(x) & np.isnan(y)
    bits = f"u{x.dtype.itemsize}"
    return bool(np.all(nan | (np.atleast_1d(x).view(bits) == np.atleast_1d(y).view(bits))))


def check(
    program: IRModule | PrimFunc,
    *args: object,
    name: str = "main",
    options: Options = PLAIN,
    level: int = 2,
    passes: Passes = Passes.USUAL,
) -> object:
    """Compile and interpret, check that results, arrays and errors are equal; return the outcome."""
    native = compiled(program, options, level=level, passes=passes)[name]
    got = outcome(native, args)

    def oracle(*given: object) -> object:
        return interpret(program, name, *given, allow_alias=options.allow_alias)

    wanted = outcome(oracle, args)
    if isinstance(wanted[0], list) or isinstance(got[0], list):
        assert got[0] == wanted[0]
        return wanted[0]
    assert same(got[0], wanted[0]) if wanted[0] is not None else got[0] is None, (got, wanted)
    for i, (x, y) in enumerate(zip(got[1], wanted[1], strict=True)):
        assert same(x, y), f"argument {i}: native {x}, interpreter {y}"
    return wanted[0] if wanted[0] is not None else got[1]


def values_of(dtype: str | DataType, count: int, seed: int = 0) -> np.ndarray[Any, Any]:
    """Return an array of values, the edges of the dtype first."""
    kind = DataType(str(dtype)).element
    rng = np.random.default_rng(seed)
    numpy = numpy_of(kind)
    if kind.is_bool:
        return rng.integers(0, 2, count).astype(bool)
    if kind.is_float:
        top = kind.max_finite
        edges = [0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, top, -top, 0.5, 1.5, 2.5, 3.0, 1e-8]
        body = rng.standard_normal(max(0, count - len(edges))) * 10.0 ** rng.integers(
            -6, 6, max(0, count - len(edges))
        )
        with np.errstate(all="ignore"):
            out = np.array([*edges, *body])[:count].astype(numpy)
    else:
        low, high = kind.min_value, kind.max_value
        edges = [
            0,
            1,
            high,
            low,
            high - 1,
            low + 1,
            2,
            3,
            7,
            max(low, -1),
            max(low, -2),
            max(low, -7),
        ]
        bits = rng.integers(0, 256, count * kind.itemsize, dtype=np.uint8).view(numpy)
        out = np.concatenate([np.array(edges, dtype=numpy), bits])[:count]
    rng.shuffle(out)
    return out
