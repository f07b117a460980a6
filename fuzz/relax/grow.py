"""Grow a graph binding by binding, each of which is computed as soon as it is made.

The value decides what may be done with it, so that a program means the same on every engine:
results that engines may round differently are *tainted*, and only moved; others are exact.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from fuzz.choices import Choices
from fuzz.relax.program import EXACT, Record, Tolerance
from loomir.interp.relax.machine import Machine
from loomir.interp.relax.ops import operate
from loomir.interp.relax.values import Environment
from loomir.ir.visit import trampoline
from loomir.relax import (
    BlockBuilder,
    Call,
    Constant,
    DataflowVar,
    TensorStructInfo,
    Var,
)
from loomir.relax.operator.definition import OpDef, TensorSample, find_op
from loomir.support.diagnostics import CompileError, RunError
from loomir.support.dtype import DataType, dtype_of_numpy, numpy_of
from loomir.tir import Var as ShapeVar

__all__ = ["DTYPES", "LARGEST", "Entry", "Fails", "Grower", "op"]

DTYPES = [
    (6.0, "float32"),
    (2.0, "int32"),
    (2.0, "int64"),
    (1.0, "bool"),
    (1.0, "float64"),
    (1.0, "float16"),
    (0.5, "bfloat16"),
    (0.7, "int8"),
    (0.7, "uint8"),
    (0.4, "int16"),
    (0.4, "uint16"),
    (0.4, "uint32"),
    (0.4, "uint64"),
]
LARGEST = 160
"""Elements of a tensor: the reference interpreter of loops takes them one by one."""


class Fails(Exception):
    """The program has come to an error, which ends it; it is part of what the program means."""


@dataclass(frozen=True)
class Entry:
    """A leaf expression that is in scope, its value, and how exact that is."""

    leaf: Any
    value: Any
    tolerance: Any = EXACT

    @property
    def is_tensor(self) -> bool:
        """Whether the value is a tensor."""
        return isinstance(self.value, np.ndarray)

    @property
    def dtype(self) -> DataType:
        """The dtype of a tensor."""
        found = dtype_of_numpy(self.value.dtype)
        assert found is not None, self.value.dtype
        return found

    @property
    def exact(self) -> bool:
        """Whether all engines compute the very same."""
        return self.tolerance == EXACT

    @property
    def info(self) -> Any:
        """What is derived of it."""
        return self.leaf.struct_info

    @property
    def known(self) -> bool:
        """Whether its extents are numbers in the program."""
        dims = getattr(self.info, "dims", None)
        return dims is not None and not any(
            isinstance(d, ShapeVar) or hasattr(d, "a") for d in dims
        )


def op(name: str) -> OpDef:
    """Find an operator by its short name."""
    found = find_op(f"relax.{name}")
    assert found is not None, name
    return found


def near(definition: OpDef) -> Tolerance:
    """Say how far a compiled result may be from the reference's."""
    samples = definition.samples
    return (
        max((s.ulps for s in samples), default=0.0),
        max((s.absolute for s in samples), default=0.0),
    )


class Grower:
    """Makes bindings of a function, and knows their values."""

    def __init__(self, choices: Choices, builder: BlockBuilder) -> None:
        self.choices = choices
        self.builder = builder
        self.entries: list[Entry] = []
        self.frame = Environment("main")
        self.records: list[Record] = []
        self.made: list[str] = []
        self.refused: list[str] = []
        self.machine = Machine(builder.get(), operate)
        self.exact_only = False
        self.failing = 0.03
        """How often an error is made part of the program."""
        self.error = ""
        self.dims: list[ShapeVar] = []
        """The sizes in scope."""
        self.impure = False
        self.closures: list[tuple[Entry, tuple[Any, ...]]] = []
        """Closures in scope, and arguments for them."""

    def refresh(self) -> None:
        """See the functions that were added to the module."""
        self.machine = Machine(self.builder.get(), operate)

    # -- values --------------------------------------------------------------------------------
    def evaluate(self, expr: Any) -> Any:
        """Compute an expression. Errors: those of the program."""
        with np.errstate(all="ignore"):
            return trampoline(self.machine.evaluate(expr, self.frame))

    def parameter(self, name: str, info: Any, value: Any) -> tuple[Var, Entry]:
        """Make a parameter with a value."""
        var = Var(name, info)
        self.frame.values[var] = value
        dims: tuple[Any, ...] = getattr(info, "dims", None) or ()
        extents: tuple[int, ...] = getattr(value, "shape", ())
        self.frame.sizes.update({d: n for d, n in zip(dims, extents) if isinstance(d, ShapeVar)})
        self.dims += [d for d in dims if isinstance(d, ShapeVar) and d not in self.dims]
        entry = Entry(var, value)
        self.entries.append(entry)
        return var, entry

    @contextmanager
    def scope(self) -> Generator[None, None, None]:
        """Forget what comes into scope meanwhile."""
        before = list(self.entries), list(self.dims), list(self.closures)
        yield
        self.entries, self.dims, self.closures = before

    @contextmanager
    def strictly(self) -> Generator[None, None, None]:
        """Make only what is exact and does not fail: it will run on other values too."""
        before = self.exact_only, self.failing, self.impure
        self.exact_only, self.failing, self.impure = True, 0.0, False
        yield
        self.exact_only, self.failing, self.impure = before

    # -- bindings ------------------------------------------------------------------------------
    def bind(
        self, expr: Any, tolerance: Any = EXACT, what: str = "", *, may_fail: bool = True
    ) -> Entry | None:
        """Bind an expression, unless the language refuses it for these values."""
        what = what or _name(expr)
        try:
            value = self.evaluate(expr)
        except RunError as error:
            code = error.diagnostic.code
            fails = may_fail and code != "RUN0212" and self.choices.chance(self.failing)
            if not fails:
                self.refused.append(f"{what} {code}")
                return None
            self.error = code
            value = None
        if not self.error and _elements(value) > LARGEST:
            return None
        output = self.builder.in_dataflow and self.choices.chance(0.5)
        try:
            emit = self.builder.emit_output if output else self.builder.emit
            var = emit(expr)
        except CompileError as error:
            self.refused.append(f"{what} {error.diagnostic.code}")
            self.error = ""
            return None
        self.made.append(what)
        entry = Entry(var, value, tolerance)
        self.entries.append(entry)
        if self.error:
            raise Fails(self.error)
        self.frame.values[var] = value
        self.record(var, value)
        return entry

    def record(self, var: Var, value: Any) -> None:
        """Remember what was derived of a value."""
        self.records.append(Record(var.name_hint, var.struct_info, value, dict(self.frame.sizes)))

    def call(self, name: str, *args: Any, **options: Any) -> Entry | None:
        """Bind the call of an operator on entries and plain data."""
        definition = op(name)
        entries = list(_entries([args, tuple(options.values())]))
        plain = [_plain(a) for a in args]
        try:
            expr = definition.call(*plain, **{k: _plain(v) for k, v in options.items()})
        except CompileError as error:
            self.refused.append(f"{name} {error.diagnostic.code}")
            return None
        tolerance = self._tolerance(definition, entries)
        if tolerance is None:
            return None
        return self.bind(expr, tolerance, name)

    def _tolerance(self, definition: OpDef, entries: list[Entry]) -> Tolerance | None:
        own = near(definition)
        tainted = [e.tolerance for e in entries if not e.exact]
        if own != EXACT and any(e.is_tensor and e.dtype.is_float for e in entries):
            return None if self.exact_only or tainted else own
        if not tainted:
            return EXACT
        if definition.name.removeprefix("relax.") not in MOVES:
            return None
        return max(t[0] for t in tainted), max(t[1] for t in tainted)

    # -- what there is -------------------------------------------------------------------------
    def tensors(self, wanted: Callable[[Entry], bool] | None = None) -> list[Entry]:
        """List the exact tensors in scope that are as wanted."""
        return [e for e in self.entries if e.is_tensor and e.exact and (not wanted or wanted(e))]

    def tensor(self, wanted: Callable[[Entry], bool] | None = None) -> Entry | None:
        """Draw a tensor in scope, later ones more often."""
        found = self.tensors(wanted)
        if not found:
            return None
        if self.choices.chance(0.5):
            found = found[-6:]
        return self.choices.pick(found)

    def end_block(self) -> None:
        """End a dataflow block: what is inner to it is gone."""
        self.builder.end_block()
        self.entries = [e for e in self.entries if not isinstance(e.leaf, DataflowVar)]

    # -- constants -----------------------------------------------------------------------------
    def array(
        self, shape: Sequence[int], dtype: str, low: float = -4.0, high: float = 4.0
    ) -> np.ndarray[Any, Any]:
        """Draw an array; floats are multiples of 1/4, so that most sums and products are exact."""
        kind = DataType(dtype)
        count = int(np.prod(shape, dtype=np.int64))
        if kind.is_bool:
            made: Any = [self.choices.chance(0.5) for _ in range(count)]
        elif kind.is_integer:
            floor = int(max(np.ceil(low), kind.min_value))
            top = int(max(floor, min(np.floor(high), kind.max_value)))
            made = [self.choices.integer(floor, top) for _ in range(count)]
        else:
            floor, top = int(np.ceil(low * 4)), int(np.floor(high * 4))
            if floor > top:
                made = [(low + high) / 2] * count
            else:
                made = [self.choices.integer(floor, top) / 4 for _ in range(count)]
        return np.array(made, dtype=numpy_of(kind)).reshape(tuple(shape))

    def constant(self, shape: Sequence[int], dtype: str, low: float = -4, high: float = 4) -> Entry:
        """Draw a constant."""
        data = self.array(shape, dtype, low, high)
        return Entry(Constant(data), data)

    # -- fitting -------------------------------------------------------------------------------
    def fitted(self, sample: TensorSample) -> Entry:
        """Return a tensor as a sample asks for: one, one made of it, or a constant."""
        dtype, shape = str(DataType(sample.dtype)), tuple(sample.shape)
        if sample.values is not None:
            data = np.array(sample.values, dtype=numpy_of(DataType(dtype))).reshape(shape)
            return Entry(Constant(data), data)
        fits = self.tensors(
            lambda e: e.value.shape == shape and str(e.dtype) == dtype and self.within(e, sample)
        )
        if fits and self.choices.chance(0.8):
            return self.choices.pick(fits)
        if self.choices.chance(0.6):
            made = self._made_into(sample)
            if made is not None:
                return made
        return self.constant(shape, dtype, sample.low, sample.high)

    def within(self, entry: Entry, sample: TensorSample) -> bool:
        """Whether the elements are in the range of a sample."""
        if entry.dtype.is_bool or not entry.value.size:
            return True
        values = entry.value.astype("float64")
        return bool(np.all((values >= sample.low) & (values <= sample.high)))

    def _made_into(self, sample: TensorSample) -> Entry | None:
        """Make a tensor of a sample's shape, dtype and range of any other."""
        source = self.tensor(lambda e: bool(e.value.size) and bool(np.all(np.isfinite(e.value))))
        count = int(np.prod(sample.shape, dtype=np.int64))
        if source is None:
            return None
        made: Entry | None = source
        if str(source.dtype) != str(DataType(sample.dtype)):
            made = self.call("astype", made, sample.dtype)
        if made is not None and made.value.shape != tuple(sample.shape):
            if made.value.ndim != 1:
                made = self.call("flatten", made)
            if made is not None and made.value.size < count:
                made = self.call("tile", made, (-(-count // made.value.size),))
            if made is not None and made.value.size > count:
                made = self.call("strided_slice", made, [0], [0], [count])
            if made is not None and not made.known:
                made = self.cast(made, made.value.shape)
            if made is not None and made.value.shape != tuple(sample.shape):
                made = self.call("reshape", made, tuple(sample.shape))
        if made is not None and not self.within(made, sample):
            made = self.clipped(made, sample.low, sample.high)
        return made

    def clipped(self, entry: Entry, low: float, high: float) -> Entry | None:
        """Bring the elements into a range."""
        if entry.dtype.is_integer:
            low = int(max(low, entry.dtype.min_value))
            high = int(min(high, entry.dtype.max_value))
        return self.call("clip", entry, low, high)

    def cast(self, entry: Entry, shape: Sequence[Any]) -> Entry | None:
        """Say the extents of a tensor by ``match_cast``, which must hold or bind new sizes."""
        info = TensorStructInfo(tuple(shape), entry.dtype)
        sizes = {d: int(n) for d, n in zip(shape, entry.value.shape) if isinstance(d, ShapeVar)}
        output = self.builder.in_dataflow and self.choices.chance(0.5)
        try:
            var = self.builder.match_cast(entry.leaf, info, output=output)
        except CompileError as error:
            self.refused.append(f"match_cast {error.diagnostic.code}")
            return None
        self.frame.sizes.update(sizes)
        self.made.append("match_cast")
        made = Entry(var, entry.value, entry.tolerance)
        self.entries.append(made)
        self.frame.values[var] = entry.value
        self.record(var, entry.value)
        return made

    def renamed_sizes(self, entry: Entry) -> Entry | None:
        """Return names to some extents, which are sizes from here on."""
        shape: list[Any] = []
        fresh: list[ShapeVar] = []
        for extent in entry.value.shape:
            same = [d for d in fresh if self.frame.sizes.get(d) == extent]
            if self.choices.chance(0.3):
                shape.append(extent)
            elif same:
                shape.append(same[0])
            else:
                fresh.append(ShapeVar(f"s{len(self.frame.sizes)}", "int64"))
                self.frame.sizes[fresh[-1]] = extent
                shape.append(fresh[-1])
        made = self.cast(entry, shape)
        if made is not None and not self.builder.in_dataflow:
            self.dims += fresh
        return made

    # -- rounding ------------------------------------------------------------------------------
    def snapped(self, entry: Entry) -> Entry | None:
        """Round a tainted tensor where no element is near the border, so that it is exact again."""
        if not entry.is_tensor or not entry.dtype.is_float:
            return None
        values = entry.value.astype("float64") * 4
        if not values.size or not np.all(np.isfinite(values)) or np.abs(values).max() > 200:
            return None
        if np.abs(values - np.floor(values) - 0.5).min() < 0.06:
            return None
        scale = Constant(np.array(4, entry.value.dtype))
        scaled = op("multiply").call(entry.leaf, scale)
        ulps, absolute = entry.tolerance
        made = self.bind(scaled, (ulps, absolute * 4), "multiply")
        if made is None:
            return None
        signless = (0, 1e-30)  # what is about 0 may have had either sign
        rounded = self.bind(op("round").call(made.leaf), signless, "round")
        if rounded is None:
            return None
        quarter = Constant(np.array(0.25, entry.value.dtype))
        quarters = self.bind(op("multiply").call(rounded.leaf, quarter), signless, "multiply")
        if quarters is None:
            return None
        zero = Constant(np.array(0, entry.value.dtype))
        return self.bind(op("add").call(quarters.leaf, zero), EXACT, "add")


MOVES = {
    *("reshape", "flatten", "permute_dims", "expand_dims", "squeeze", "flip", "concat", "stack"),
    *("split", "repeat", "tile", "broadcast_to", "strided_slice"),
}
"""Operators that move elements and compute nothing of them."""


def _elements(value: Any) -> int:
    if isinstance(value, np.ndarray):
        return value.size
    return sum(map(_elements, value)) if isinstance(value, tuple) else 0


def _name(expr: Any) -> str:
    if isinstance(expr, Call):
        return str(getattr(expr.op, "name", "call")).removeprefix("relax.")
    return type(expr).__name__


def _entries(args: Any) -> Any:
    for arg in args:
        if isinstance(arg, Entry):
            yield arg
        elif isinstance(arg, (tuple, list)):
            yield from _entries(arg)


def _plain(arg: Any) -> Any:
    if isinstance(arg, Entry):
        return arg.leaf
    if isinstance(arg, (tuple, list)):
        return type(arg)([_plain(a) for a in arg])
    return arg
