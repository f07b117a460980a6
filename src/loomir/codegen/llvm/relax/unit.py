"""State that all graph functions of a module share: constant objects, and declared functions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple, TypeAlias

from loomir.codegen.llvm.assembler.text import Callee, Function, Module
from loomir.codegen.llvm.assembler.types import I32, I64, PTR, Type, array, function, struct
from loomir.codegen.llvm.assembler.values import NULL, Value, aggregate, const
from loomir.codegen.llvm.generated_module import FunctionCheck, FunctionInfo
from loomir.codegen.llvm.support.ir.objects import OBJECT_FUNCTIONS
from loomir.codegen.llvm.tir.frame import LinkedFunction, Unit
from loomir.codegen.llvm.tir.tensor import header_word
from loomir.relax import expr as relax
from loomir.relax.struct_info import FuncStructInfo
from loomir.runtime import layout as dl
from loomir.runtime.graph import object_layout as at
from loomir.support.array import Array
from loomir.support.dtype import DataType
from loomir.tir.expr import Var as ShapeVar
from loomir.tir.function import PrimFunc

__all__ = [
    "CODE",
    "CallableFunction",
    "CapturedVar",
    "GraphUnit",
    "PendingFunction",
    "dtype_word",
    "word_of",
]

CODE: Final = function(I32, [PTR, PTR, PTR, I64, PTR])
"""The signature of every function on objects: context, itself, arguments, their number, result.

The arguments stay the caller's; the result comes with a reference of its own.
"""
_LARGE: Final = 1 << 16
"""Constants of more bytes are not copied into the code, but linked."""

CapturedVar: TypeAlias = "relax.Var | ShapeVar"


class CallableFunction(NamedTuple):
    """A function of the module as graphs call it: its code, and its value as a constant."""

    code: Callee
    value: Value
    parameters: int


class PendingFunction(NamedTuple):
    """A function whose code is still to be emitted."""

    made: Function
    func: relax.Function
    name: str
    captured: tuple[CapturedVar, ...]
    itself: relax.Var | None
    number: int = -1
    """The index in ``GraphUnit.infos`` of a function of the module; -1 for others."""


@dataclass(slots=True)
class GraphUnit:
    """The state that graph functions share; ``unit`` is shared with kernels, too."""

    unit: Unit
    bodies: Mapping[str, Callee]
    """The kernels that graphs refer to."""
    prim_funcs: Mapping[str, PrimFunc]
    symbols: Mapping[str, str]
    """Loop-level functions that can be called as packed ones, by their symbols."""
    adapters: dict[tuple[str, bool], Callee] = field(default_factory=dict[tuple[str, bool], Callee])
    """The functions that pass tensors to kernels, by name and whether they skip the checks."""
    functions: dict[str, CallableFunction] = field(default_factory=dict[str, CallableFunction])
    signatures: dict[str, FuncStructInfo] = field(default_factory=dict[str, FuncStructInfo])
    """The structural information of the functions of the module."""
    infos: list[FunctionInfo] = field(default_factory=list[FunctionInfo])
    """Descriptions of the functions that can be values, by number."""
    entries: dict[int, range] = field(default_factory=dict[int, range])
    """The sites of the faults that arguments cause, by the number of the function."""
    checks: list[FunctionCheck] = field(default_factory=list[FunctionCheck])
    """Places where function values are compared with signatures, by number."""
    data: dict[str, Array] = field(default_factory=dict[str, Array])
    """Large constants, by symbol."""
    pending: list[PendingFunction] = field(default_factory=list[PendingFunction])
    adapt: Callable[[str], CallableFunction] | None = None
    """Wraps a kernel in a function on objects."""
    _constants: dict[object, Value] = field(default_factory=dict[object, Value])
    _packed: dict[str, None] = field(default_factory=dict[str, None])
    _serial: int = 0

    @property
    def module(self) -> Module:
        """The module."""
        return self.unit.module

    @property
    def context(self) -> Type:
        """The type of the context: the part that kernels use, then the number of the call."""
        return struct([*self.unit.faults.context.fields, I64])

    def add_check(self, check: FunctionCheck) -> int:
        """Add a place where function values are compared, and return its number."""
        self.checks.append(check)
        return len(self.checks) - 1

    def variable(self, name: str) -> Value:
        """Define a pointer variable of the module, initially NULL."""
        return self.module.define_global(f".{name}", NULL, linkage="internal", align=8)

    def object_function(self, name: str) -> Callee:
        """Declare a function on objects."""
        t = OBJECT_FUNCTIONS[name]
        return self.module.declare(name, t.result, t.fields)

    def find_function(self, name: str) -> CallableFunction | None:
        """Find a function of the module; the first request wraps a kernel as one on objects."""
        found = self.functions.get(name)
        if found is None and name in self.bodies:
            assert self.adapt is not None
            found = self.functions[name] = self.adapt(name)
        return found

    def find_linked(self, name: str) -> LinkedFunction | None:
        """Find a PrimFunc of the module."""
        return self.unit.functions.get(name)

    def fresh(self, name: str) -> str:
        """Return a unique symbol for the code of a function."""
        self._serial += 1
        return f"{name}.{self._serial}"

    @staticmethod
    def names_of(func: relax.Function) -> tuple[str, ...]:
        """List the names of a function's parameters."""
        return tuple(p.name_hint for p in func.params)

    # -- constants -------------------------------------------------------------------------------
    def _name(self, hint: str) -> str:
        self._serial += 1
        return f".{hint}.{self._serial}"

    def _object(
        self, key: object, kind: int, make: Callable[[], Sequence[Value]], flags: int = 0
    ) -> Value:
        """Return the constant object of a key; the first one defines it by ``make``."""
        found = self._constants.get(key)
        if found is None:
            header = [const(I64, at.IMMORTAL), const(I32, kind), const(I32, flags)]
            fields = [*header, *make()]
            init = aggregate(struct([f.type for f in fields]), fields)
            found = self.module.define_global(
                self._name("object"), init, constant=True, linkage="private", align=16
            )
            self._constants[key] = found
        return found

    def null(self) -> Value:
        """Return the null object."""
        return self._object("null", at.NULL_OBJECT, list[Value])

    def unit_value(self) -> Value:
        """Return the empty tuple."""
        return self._object("unit", at.TUPLE, lambda: [const(I64, 0)])

    def shape(self, extents: tuple[int, ...]) -> Value:
        """Return a shape."""
        listed = [const(I64, e) for e in extents]
        return self._object(
            ("shape", extents), at.SHAPE, lambda: [const(I64, len(extents)), *listed]
        )

    def prim(self, dtype: DataType, bits: int) -> Value:
        """Return a scalar by its dtype and 64 bits."""
        return self._object(
            ("prim", dtype, bits),
            at.PRIM,
            lambda: [const(I64, dtype_word(dtype)), const(I64, bits)],
        )

    def text(self, text: str) -> Value:
        """Return a string."""
        return self._object(("text", text), at.STRING, lambda: self._bytes(text))

    def dtype(self, dtype: DataType) -> Value:
        """Return a dtype."""
        return self._object(("dtype", dtype), at.DTYPE, lambda: [const(I64, dtype_word(dtype))])

    def _bytes(self, text: str) -> list[Value]:
        data = text.encode("utf-8", "surrogatepass")
        padded = data + bytes(8 - len(data) % 8)
        words = [
            const(I64, int.from_bytes(padded[i : i + 8], "little"))
            for i in range(0, len(padded), 8)
        ]
        return [const(I64, len(data)), *words]

    def find_packed(self, name: str, code: Callee) -> Value:
        """Return the packed function of a name."""

        def make() -> list[Value]:
            return [const(I64, 1), code, self.variadic(), self.text(name)]

        self._packed[name] = None
        return self._object(("packed", name), at.PACKED, make)

    @property
    def packed_names(self) -> tuple[str, ...]:
        """The names of the packed functions that are called."""
        return tuple(self._packed)

    def closure(self, key: object, code: Callee, info: Value) -> Value:
        """Return the closure of a function without captured values."""
        return self._object(("closure", key), at.CLOSURE, lambda: [const(I64, 0), code, info])

    def variadic(self) -> Value:
        """Return the description of a function of which nothing is known."""
        return self._info(-1, -1, 0)

    def info(self, known: FunctionInfo) -> Value:
        """Return the description of a function that its closures point to."""
        number = len(self.infos)
        self.infos.append(known)
        params = known.info.params
        return self._info(-1 if params is None else len(params), number, int(not known.captured))

    def _info(self, parameters: int, number: int, fixed: int) -> Value:
        key = ("info", parameters, number)
        found = self._constants.get(key)
        if found is None:
            fields = [const(I64, parameters), const(I64, number), const(I64, fixed)]
            init = aggregate(struct([I64, I64, I64]), fields)
            found = self._constants[key] = self.module.define_global(
                self._name("info"), init, constant=True, linkage="private", align=8
            )
        return found

    def numbers(self, values: tuple[int, ...]) -> Value:
        """Return the address of constant integers."""
        key = ("numbers", values)
        found = self._constants.get(key)
        if found is None:
            listed = [const(I64, v) for v in values] or [const(I64, 0)]
            init = aggregate(array(I64, len(listed)), listed)
            found = self._constants[key] = self.module.define_global(
                self._name("numbers"), init, constant=True, linkage="private", align=8
            )
        return found

    def tensor(self, content: Array) -> Value:
        """Return a tensor that must not be written."""

        def make() -> list[Value]:
            rank = len(content.shape)
            return [
                self._data(content),
                const(I32, dl.DEVICE_CPU),
                const(I32, 0),
                const(I64, word_of(content.dtype, rank)),
                self.numbers(content.shape),
                NULL,
                const(I64, 0),
                NULL,
                const(I64, content.data.nbytes),
            ]

        return self._object(("tensor", content), at.TENSOR, make, at.READ_ONLY)

    def _data(self, content: Array) -> Value:
        if content.data.nbytes <= _LARGE:
            return self.module.data("tensor", content.data.tobytes(), align=at.DATA_ALIGNMENT)
        # The text does not depend on the contents, so that with other weights the cache has the
        # code.
        symbol = f"loomir_data_{len(self.data)}"
        self.data[symbol] = content
        return self.module.declare_global(symbol, array(I64, 1))


def dtype_word(dtype: DataType) -> int:
    """Pack DLPack's code, bits and lanes of a dtype into one word."""
    return header_word(dtype, 0) >> 32


def word_of(dtype: DataType, rank: int) -> int:
    """Pack the rank and a dtype into one word, as in a DLTensor."""
    return header_word(dtype, rank)
