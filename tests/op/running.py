"""Calls of operators, made of samples: their inference, lowering and reference."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import loomir
from fuzz.native import quick_codegen
from loomir import te
from loomir.arith.analyzer import Analyzer
from loomir.autoschedule.driver import schedule_function
from loomir.interp.tir.scalar import value_of
from loomir.ir.module import IRModule
from loomir.ir.visit import pre_order
from loomir.relax.expr import Call, Constant, DataTypeImm, PrimValue, StringImm, Tuple, Var
from loomir.relax.node import StructInfo
from loomir.relax.normal.block_builder import BlockBuilder
from loomir.relax.operator.context import OpContext
from loomir.relax.operator.definition import OpDef, Sample, TensorSample
from loomir.relax.shape import ShapeExpr
from loomir.relax.struct_info import (
    OBJECT,
    ObjectStructInfo,
    PrimStructInfo,
    ShapeStructInfo,
    TensorStructInfo,
    TupleStructInfo,
)
from loomir.support.dtype import DataType, dtype_of_numpy, numpy_of
from loomir.target import Target
from loomir.te import topi
from loomir.tir import expr as tir

Array = np.ndarray[Any, Any]
Describe = Callable[[tuple[int, ...], str], StructInfo]


def concrete(shape: tuple[int, ...], dtype: str) -> StructInfo:
    """Describe a tensor as it is."""
    return TensorStructInfo(shape, dtype)


class Symbolic:
    """Describes tensors by variables: the same one for the same extent, or each its own.

    Extents of 1 stay, since they may broadcast. ``values`` are those of the variables.
    """

    def __init__(self, shared: bool) -> None:
        self.shared = shared
        self.values: dict[tir.Var, int] = {}
        self.known: dict[int, tir.Var] = {}

    def __call__(self, shape: tuple[int, ...], dtype: str) -> StructInfo:
        return TensorStructInfo(tuple([self.extent(e) for e in shape]), dtype)

    def extent(self, extent: int) -> Any:
        if extent == 1:
            return 1
        if self.shared and extent in self.known:
            return self.known[extent]
        made = self.known[extent] = tir.Var(f"n{len(self.values)}", "int64")
        self.values[made] = extent
        return made


# Less and less is known of the tensors.
VAGUE: dict[str, Describe] = {
    "rank": lambda shape, dtype: TensorStructInfo(None, dtype, ndim=len(shape)),
    "dtype": lambda shape, dtype: TensorStructInfo(None, dtype),
    "shape": lambda shape, dtype: TensorStructInfo(shape),
    "variable": lambda shape, dtype: TensorStructInfo(
        Var("s", ShapeStructInfo(ndim=len(shape))), dtype
    ),
    "tensor": lambda shape, dtype: TensorStructInfo(),
    "nothing": lambda shape, dtype: OBJECT,
}


@dataclass
class Made:
    """A call, the contents of its variables, and what is known of those."""

    op: OpDef
    call: Call
    values: dict[Var, Array]

    def infer(self) -> StructInfo:
        infos = [info_of(arg) for arg in self.call.args]
        context = OpContext(
            self.call, infos, Analyzer(), lookup=info_of, warn=lambda diagnostic: None
        )
        return self.op.infer(context)

    def value(self, arg: Any) -> Any:
        """Return an argument as the reference takes it."""
        if isinstance(arg, Var):
            return self.values[arg].copy()
        if isinstance(arg, Constant):
            return np.array(arg.data.data)
        if isinstance(arg, PrimValue):
            assert isinstance(arg.value, (tir.IntImm, tir.FloatImm))
            return numpy_of(arg.value.dtype).type(arg.value.value)
        if isinstance(arg, ShapeExpr):
            return tuple(e.value for e in arg.values)
        if isinstance(arg, Tuple):
            return tuple(self.value(f) for f in arg.fields)
        if isinstance(arg, (StringImm, DataTypeImm)):
            return arg.value
        raise AssertionError(f"a sample has an argument {arg}")

    def reference(self) -> Any:
        assert self.op.reference is not None
        return self.op.reference(*[self.value(a) for a in self.call.args], **self.call.attrs)


def info_of(expr: Any) -> StructInfo:
    """Describe a leaf expression."""
    if isinstance(expr, (Var, Constant)):
        return expr.struct_info
    if isinstance(expr, PrimValue):
        return PrimStructInfo(expr.value.dtype, expr.value)
    if isinstance(expr, ShapeExpr):
        return ShapeStructInfo(expr.values)
    if isinstance(expr, Tuple):
        return TupleStructInfo(tuple([info_of(f) for f in expr.fields]))
    return OBJECT


def contents(sample: TensorSample, seed: int) -> Array:
    """Return the values of a tensor: those of the sample, or random ones in its bounds."""
    dtype = numpy_of(DataType(sample.dtype))
    if sample.values is not None:
        made = np.array(sample.values, dtype=dtype)
        assert made.shape == tuple(sample.shape), "a sample's values have another shape"
        return made
    made: Any
    random = np.random.default_rng(seed)
    if sample.dtype == "bool":
        return np.asarray(random.random(sample.shape) < 0.5)
    if DataType(sample.dtype).is_integer:
        low = max(int(sample.low), DataType(sample.dtype).min_value)
        return np.asarray(
            random.integers(low, int(sample.high), sample.shape, endpoint=True), dtype
        )
    # One decimal or so: equal elements and ties are as likely as they are among small integers.
    made = np.round(random.uniform(sample.low, sample.high, sample.shape), 2)
    return np.asarray(made, dtype)


def made_of(
    op: OpDef, args: Sequence[Any], attrs: Mapping[str, Any], describe: Describe = concrete
) -> Made:
    """Make a call of arguments, in which tensors are samples."""
    values: dict[Var, Array] = {}

    def convert(arg: Any) -> Any:
        if isinstance(arg, TensorSample):
            made = contents(arg, len(values) + 1)
            var = Var(f"x{len(values)}", describe(made.shape, arg.dtype))
            values[var] = made
            return var
        if isinstance(arg, (tuple, list)):
            return type(arg)([convert(a) for a in arg])
        return arg

    call = op.call(*[convert(a) for a in args], **{n: convert(v) for n, v in attrs.items()})
    return Made(op, call, values)


def call_of(op: OpDef, sample: Sample, describe: Describe = concrete) -> Made:
    """Make the call of a sample."""
    return made_of(op, sample.args, sample.attrs, describe)


# -- does the description hold? ------------------------------------------------------------------
def assert_describes(info: StructInfo, value: Any, values: Mapping[tir.Var, int]) -> None:
    """Check that structural information is true of a value."""
    if isinstance(info, ObjectStructInfo):
        return
    if isinstance(info, TensorStructInfo):
        assert isinstance(value, np.ndarray), f"{type(value)} is not a tensor"
        assert info.ndim in (-1, value.ndim), f"rank {info.ndim}, not {value.ndim}"
        dtype = dtype_of_numpy(value.dtype)
        assert info.dtype.is_void or info.dtype is dtype, f"{info.dtype}, not {dtype}"
        if info.dims is not None:
            assert tuple(value_of(d, values) for d in info.dims) == value.shape, str(info)
        return
    if isinstance(info, TupleStructInfo):
        assert isinstance(value, tuple), f"{type(value)} is not a tuple"
        assert len(info.fields) == len(value)
        for field, item in zip(info.fields, value, strict=True):
            assert_describes(field, item, values)
        return
    if isinstance(info, ShapeStructInfo):
        assert isinstance(value, tuple)
        assert info.ndim in (-1, len(value))
        if info.values is not None:
            assert tuple(value_of(d, values) for d in info.values) == value
        return
    if isinstance(info, PrimStructInfo):
        assert numpy_of(info.dtype) == np.asarray(value).dtype
        if info.value is not None:
            assert value_of(info.value, values) == value
        return
    raise AssertionError(f"no test knows {info}")


def precise(info: StructInfo) -> bool:
    """Tell whether all extents and dtypes of the tensors are known."""
    if isinstance(info, TupleStructInfo):
        return all(precise(f) for f in info.fields)
    if isinstance(info, TensorStructInfo):
        return info.dims is not None and not info.dtype.is_void
    return not isinstance(info, ObjectStructInfo)


# -- lowering ------------------------------------------------------------------------------------
def flat(value: Any) -> list[Array]:
    """List the tensors of a result."""
    if isinstance(value, (tuple, list)):
        return [a for item in value for a in flat(item)]
    assert isinstance(value, np.ndarray), f"a reference gives {type(value)}"
    return [value]


class LoweredModule:
    """Many calls in one function, since it takes longer to compile two.

    With ``symbols`` the calls are of tensors that these describe.
    """

    def __init__(self, symbols: Symbolic | None = None) -> None:
        self.symbols = symbols
        self.inputs: list[Any] = []
        self.outputs: list[Any] = []
        self.given: list[Array] = []
        self.expected: list[tuple[str, Array, float, float]] = []

    def add(self, made: Made, what: str, ulps: float = 0, absolute: float = 0.0) -> None:
        """Add a call, and what its reference gives."""
        expected = flat(made.reference())
        options = dict(made.call.attrs)
        op = made.op
        assert op.lower is not None
        if takes_out(op):
            options["out"] = made.infer()
        result = op.lower(*[self.argument(made, a) for a in made.call.args], **options)
        outputs = list(result) if isinstance(result, (tuple, list)) else [result]
        assert len(outputs) == len(expected), what
        # An output may be an input as it is: a function writes only what it computes.
        for output, wanted in zip(outputs, expected, strict=True):
            seen = any(output is other for other in (*self.inputs, *self.outputs))
            self.outputs.append(topi.identity(output) if seen else output)
            self.expected.append((what, wanted, ulps, absolute))

    def argument(self, made: Made, arg: Any) -> Any:
        if isinstance(arg, (Var, Constant)):
            value = made.value(arg)
            dtype = dtype_of_numpy(value.dtype)
            shape: Any = value.shape
            if self.symbols is not None:
                shape = info_of(arg).dims
            tensor = te.placeholder(shape, str(dtype), name=f"A{len(self.inputs)}")
            self.inputs.append(tensor)
            self.given.append(value)
            return tensor
        if isinstance(arg, Tuple):
            return [self.argument(made, f) for f in arg.fields]
        if isinstance(arg, ShapeExpr):
            return tuple(arg.values)
        if isinstance(arg, (PrimValue, StringImm, DataTypeImm)):
            return arg.value
        raise AssertionError(f"a sample has an argument {arg}")

    def check(self) -> None:
        """Interpret, and compare with the references.

        What is of known extents is compiled as well: loops of symbolic extents are compiled by
        ``test_whole_programs``, as part of whole graphs.
        """
        if not self.outputs:
            return
        func = te.create_prim_func([*self.inputs, *self.outputs])
        assert loomir.verify(func) == ()
        ways: list[Any] = [("interpreted", lambda *a: loomir.interpret(func, *a))]
        if self.symbols is None:
            made = schedule_function(func, Target("native")).func
            ways.append(("compiled", loomir.compile(made, opt_level=0, cache=False)))
        for way, run in ways:
            results = [np.full(e.shape, 77).astype(e.dtype) for _, e, _, _ in self.expected]
            with quick_codegen():  # lowerings are tested, and schedules of them; not LLVM
                run(*[g.copy() for g in self.given], *results)
            for result, (what, wanted, ulps, absolute) in zip(results, self.expected, strict=True):
                assert_same(result, wanted, f"{what}, {way}", ulps, absolute)


def legalized(made: Made) -> IRModule:
    """Make a module whose ``main`` computes the call by what its operator replaces it with."""
    assert made.op.legalize is not None
    builder = BlockBuilder()
    with builder.function("main", list(made.values)):
        with builder.dataflow():
            result = builder.emit_output(made.op.legalize(builder, made.call))
        builder.emit_func_output(result)
    mod = builder.finalize()
    called = [c for f in mod.functions.values() for c in pre_order(f) if isinstance(c, Call)]
    assert all(c.op is not made.call.op for c in called), "the call is still there"
    return mod


def takes_out(op: OpDef) -> bool:
    """Tell whether the lowering asks for the inferred result."""
    code = getattr(op.lower, "__code__", None)
    return (
        code is not None and "out" in code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    )


# -- comparing -----------------------------------------------------------------------------------
def ordered(x: Array) -> Array:
    """Return floats' places among all floats, so that a difference counts units in the last place."""
    bits = x.view(f"int{8 * x.itemsize}").astype(object)
    return np.where(bits < 0, -(bits & ((1 << (8 * x.itemsize - 1)) - 1)), bits)


def assert_same(
    actual: Array, wanted: Array, what: str, ulps: float = 0, absolute: float = 0.0
) -> None:
    """Compare bit for bit, but for the bits of NaN; with ``ulps`` or ``absolute``, nearly so."""
    assert actual.shape == wanted.shape, what
    assert actual.dtype == wanted.dtype, f"{what}: {actual.dtype} for {wanted.dtype}"
    if wanted.dtype.kind in "iub":
        np.testing.assert_array_equal(actual, wanted, err_msg=what)
        return
    a, b = actual.astype("float64"), wanted.astype("float64")
    lost = np.isnan(b)
    np.testing.assert_array_equal(np.isnan(a), lost, err_msg=what)
    distance = np.abs(ordered(actual) - ordered(wanted))
    near = (distance <= ulps) | lost
    if absolute:
        with np.errstate(all="ignore"):
            near |= np.abs(a - b) <= absolute
    if not ulps and not absolute:
        near &= (np.signbit(a) == np.signbit(b)) | lost
    if not near.all():
        at = tuple(np.argwhere(~near)[0])
        raise AssertionError(
            f"{what}: {actual[at]!r} for {wanted[at]!r} at {at}, {distance[at]} units off;"
            f" {int((~near).sum())} of {near.size} differ"
        )
