"""Make the kernel of an operator call: a function of loops, built by the operator's ``lower``.

Equal calls share a kernel, so that a model of many equal layers has few kernels.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, cast

from loomir.ir.hashing import structural_digest
from loomir.ir.substitution import substitute
from loomir.ir.visit import pre_order
from loomir.relax.expr import (
    Call,
    Constant,
    DataTypeImm,
    PrimValue,
    StringImm,
    Tuple,
)
from loomir.relax.node import RelaxExpr, StructInfo
from loomir.relax.operator.definition import OpDef
from loomir.relax.shape import ShapeExpr
from loomir.relax.struct_info import (
    PrimStructInfo,
    ShapeStructInfo,
    TensorStructInfo,
    TupleStructInfo,
)
from loomir.support.diagnostics import CompileError
from loomir.te.create_prim_func import create_prim_func
from loomir.te.operation import placeholder
from loomir.te.tensor import Tensor
from loomir.tir.expr import IntImm, PrimExpr, Var
from loomir.tir.function import PrimFunc

__all__ = ["Kernel", "KernelMaker"]


@dataclass(frozen=True, slots=True)
class Kernel:
    """A kernel for a call: its tensor and scalar arguments, and whether its result is a tuple."""

    func: PrimFunc
    args: tuple[RelaxExpr, ...]
    ints: tuple[PrimExpr, ...]
    outputs: tuple[TensorStructInfo, ...]
    is_tuple: bool


@dataclass(frozen=True, slots=True)
class _MadeKernel:
    func: PrimFunc
    numbers: tuple[int, ...]
    """Which shape variables, in order of occurrence, are passed as scalars."""


class _UnknownValues(Exception):
    """Raised inside this module if too little is known of a call's values."""


class KernelMaker:
    """Makes kernels and caches them."""

    def __init__(self) -> None:
        self._made: dict[bytes, _MadeKernel | None] = {}

    def make(
        self,
        definition: OpDef,
        call: Call,
        args: Sequence[StructInfo],
        result: StructInfo,
        field: int | None = None,
    ) -> Kernel | None:
        """Make the kernel of a call, or None if too little is known of shapes and dtypes.

        ``field`` selects one of several results.
        """
        if definition.lower is None:
            return None
        outputs = _outputs(result)
        if outputs is None:
            return None
        key = _key(call, args, result) + (b"" if field is None else f" {field}".encode())
        described = TupleStructInfo((*args, result))
        variables = list(
            dict.fromkeys(part for part in pre_order(described) if isinstance(part, Var))
        )
        for arg in _scalars(call):
            variables += [p for p in pre_order(arg) if isinstance(p, Var) and p not in variables]
        if key not in self._made:
            try:
                self._made[key] = _build(definition, call, args, outputs, variables, field)
            except _UnknownValues:
                self._made[key] = None
            except CompileError as error:
                if not _is_refusal(error):
                    raise
                self._made[key] = None
        made = self._made[key]
        if made is None:
            return None
        tensors = [e for arg, info in zip(call.args, args) for e in _tensors(arg, info)]
        ints = tuple(variables[i] for i in made.numbers)
        if field is not None:
            return Kernel(made.func, tuple(tensors), ints, outputs[field : field + 1], False)
        return Kernel(made.func, tuple(tensors), ints, outputs, isinstance(result, TupleStructInfo))


def _is_refusal(error: CompileError) -> bool:
    """Tell whether an error is the operator's refusal of its arguments, and not a bug in it."""
    return all(found.code.startswith("OPS") for found in error.diagnostics)


def _outputs(result: StructInfo) -> tuple[TensorStructInfo, ...] | None:
    """Return the result tensors of a call, None if a kernel cannot write them."""
    fields = result.fields if isinstance(result, TupleStructInfo) else (result,)
    found: list[TensorStructInfo] = []
    for field in fields:
        if not isinstance(field, TensorStructInfo) or field.dims is None or field.dtype.is_void:
            return None
        found.append(field)
    return tuple(found)


def _scalars(call: Call) -> list[PrimExpr]:
    return [arg.value for arg in call.args if isinstance(arg, PrimValue)]


def _key(call: Call, args: Sequence[StructInfo], result: StructInfo) -> bytes:
    """Return a key of a call that does not depend on the names of variables."""
    literal = [
        PrimStructInfo(arg.value.dtype, arg.value) if isinstance(arg, PrimValue) else info
        for arg, info in zip(call.args, args)
    ]
    texts = [repr(arg.value) for arg in call.args if isinstance(arg, (StringImm, DataTypeImm))]
    options = sorted((name, repr(value)) for name, value in call.attrs.items())
    name = getattr(call.op, "name", "")
    described = _key_of_fixed(literal, result) or structural_digest(
        TupleStructInfo((*literal, result))
    )
    return described + f"{name}{options}{texts}".encode("utf-8", "surrogatepass")


def _key_of_fixed(args: Sequence[StructInfo], result: StructInfo) -> bytes:
    """Return a key of tensors of known extents, the common case; empty for others."""
    found: list[str] = []
    for info in (*args, result):
        if not isinstance(info, TensorStructInfo) or info.vdevice is not None:
            return b""
        dims = info.dims
        if dims is None or not isinstance(info.shape, ShapeExpr):
            return b""
        for extent in dims:
            if not isinstance(extent, IntImm):
                return b""
            found.append(str(extent.value))
        found.append(str(info.dtype))
    return " ".join(found).encode()


def _tensors(arg: RelaxExpr, info: StructInfo) -> list[RelaxExpr]:
    """List the tensors of an argument, also those in a tuple."""
    if isinstance(info, TensorStructInfo):
        return [arg]
    if isinstance(info, TupleStructInfo):
        if isinstance(arg, Tuple):
            return [e for f, i in zip(arg.fields, info.fields) for e in _tensors(f, i)]
        raise _UnknownValues
    return []


class _Inputs:
    """The inputs of a ``lower`` function, and their placeholders."""

    def __init__(self, renamed: Mapping[Any, Any]) -> None:
        self.renamed = renamed
        self.placeholders: list[Tensor] = []

    def convert(self, arg: RelaxExpr, info: StructInfo) -> Any:
        """Return an argument in the form that ``lower`` takes."""
        if isinstance(arg, PrimValue):
            return substitute(arg.value, self.renamed)
        if isinstance(arg, DataTypeImm | StringImm):
            return arg.value
        info = substitute(info, self.renamed)
        if isinstance(info, TensorStructInfo):
            if info.dims is None or info.dtype.is_void:
                raise _UnknownValues
            name = getattr(arg, "name_hint", "") or ("const" if isinstance(arg, Constant) else "x")
            made = placeholder(tuple(map(_size, info.dims)), info.dtype, _plain(name))
            self.placeholders.append(made)
            return made
        if isinstance(info, ShapeStructInfo) and info.values is not None:
            return tuple(map(_size, info.values))
        if isinstance(info, PrimStructInfo) and info.value is not None:
            return info.value
        if isinstance(info, TupleStructInfo) and isinstance(arg, Tuple):
            return [self.convert(f, i) for f, i in zip(arg.fields, info.fields)]
        raise _UnknownValues


def _size(extent: PrimExpr) -> Any:
    return extent.value if isinstance(extent, IntImm) else extent


def _plain(name: str) -> str:
    return name if name.isidentifier() else "x"


def _build(
    definition: OpDef,
    call: Call,
    args: Sequence[StructInfo],
    outputs: Sequence[TensorStructInfo],
    variables: Sequence[Var],
    field: int | None,
) -> _MadeKernel:
    fresh = [Var(v.name_hint, v.dtype) for v in variables]
    renamed: dict[Any, Any] = dict(zip(variables, fresh))
    inputs = _Inputs(renamed)
    given = [inputs.convert(arg, info) for arg, info in zip(call.args, args)]
    options = dict(call.attrs)
    assert definition.lower is not None
    if _wants_out(definition.lower):
        whole = tuple(substitute(o, renamed) for o in outputs)
        options["out"] = whole[0] if len(whole) == 1 else TupleStructInfo(whole)
    results = _as_tensors(definition.lower(*given, **options))
    if [(r.dtype, r.ndim) for r in results] != [(o.dtype, o.ndim) for o in outputs]:
        raise _UnknownValues
    results = results if field is None else results[field : field + 1]
    # If an output were an input, one array would have two names.
    if any(r is p for r in results for p in inputs.placeholders):
        raise _UnknownValues
    bound = {d for t in (*inputs.placeholders, *results) for d in t.shape if isinstance(d, Var)}
    numbers = tuple(i for i, v in enumerate(fresh) if v not in bound)
    scalars = [fresh[i] for i in numbers]
    name = definition.name.rpartition(".")[2]
    func = create_prim_func([*inputs.placeholders, *scalars, *results], name=name)
    attrs = {k: v for k, v in func.attrs.items() if k != "global_symbol"}
    attrs["op"] = definition.name
    return _MadeKernel(
        PrimFunc(func.params, func.body, func.ret_type, func.buffer_map, attrs, span=call.span),
        numbers,
    )


def _as_tensors(value: Any) -> list[Tensor]:
    found: list[Any] = (
        list(cast("Sequence[Any]", value)) if isinstance(value, (list, tuple)) else [value]
    )
    if not all(isinstance(t, Tensor) for t in found):
        raise _UnknownValues
    return found


@cache
def _wants_out(lower: Callable[..., Any]) -> bool:
    try:
        return "out" in inspect.signature(lower).parameters
    except (TypeError, ValueError):
        return False
