"""Write the stub of ``R``: signatures of operators for editors and type checkers.

Operators are rows of a table, which ``R`` looks up dynamically. The stub spells out their
parameters, defaults and first lines, for tools that do not run the program. ``python -m
tools.operator_stubs`` writes the stub, and so does ``pytest --update-golden``.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from loomir.relax.operator.definition import OpDef, find_op
from loomir.relax.operator.params import Kind
from loomir.script import relax as R
from loomir.script.builder.relax import any_call, calls, constants, functions, info, values
from loomir.script.builder.relax.table import ALIASES, BUILDER_NAMES, NAMES, Operators
from loomir.support.dtype import DataType
from tools.tir_stub import checked_decorators

__all__ = ["PATH", "stub_text"]

PATH: Final = Path(R.__file__).with_suffix(".pyi")

_HEAD = '''\
# Written by `python -m tools.operator_stubs` from the definitions of operators: do not edit.
"""``R``: the language of graphs, for annotations, decorators, and building programs in Python."""

import builtins as _b
from collections.abc import Callable as _AnyCallable
from collections.abc import Mapping as _Mapping
from collections.abc import Sequence as _Sequence
from typing import Any as _Any
from typing import Literal as _Literal
from typing import SupportsIndex as _SupportsIndex
from typing import TypeAlias as _TypeAlias

import numpy as _np

from loomir.ir.module import GlobalVar as _GlobalVar
from loomir.ir.module import IRModule as _IRModule
from loomir.ir.module import VDevice as _VDevice
from loomir.relax.expr import Call as _Call
from loomir.relax.expr import Function as _Function
from loomir.relax.node import Expr as _Expr
from loomir.script.builder.dtypes import DTypeLike as _DTypeLike
from loomir.script.builder.frame import IRBuilder as IRBuilder
from loomir.script.builder.function import vdevice as vdevice
from loomir.script.builder.relax import any_call as _any_call
from loomir.script.builder.relax import calls as _calls
from loomir.script.builder.relax import constants as _constants
from loomir.script.builder.relax import functions as _functions
from loomir.script.builder.relax import info as _info
from loomir.script.builder.relax import values as _values
from loomir.script.builder.relax.frames import FunctionFrame as _FunctionFrame
from loomir.script.builder.relax.table import match_cast as match_cast
from loomir.support.array import Array as _Array
from loomir.tir.expr import PrimExpr as _PrimExpr
'''

# What a parameter of each kind takes, beside what is known when the program is written only.
_KINDS: Final[dict[Kind, tuple[str, str]]] = {
    Kind.TENSOR: ("_TensorLike", "_Scalar | _Array | _np.ndarray[_Any, _Any]"),
    Kind.TENSORS: ("_TensorsLike", "_Expr | _Sequence[_TensorLike]"),
    Kind.SHAPE: ("_ShapeLike", "_Expr | _PrimExpr | _b.int | _Sequence[_info.Extent]"),
    Kind.PRIM: ("_ScalarLike", "_Scalar | _b.str"),
    Kind.SCALAR: ("_NumberLike", "_TensorLike"),
    Kind.FUNCTION: ("_FunctionLike", "_Expr | _GlobalVar | _b.str"),
    Kind.TUPLE: ("_TupleLike", "_Expr | _Sequence[_Any]"),
    Kind.EXPR: ("_ValueLike", "_TensorLike | _GlobalVar | _DTypeLike | _Sequence[_Any]"),
    Kind.ARGS: ("_ArgsLike", "_ValueLike"),
    Kind.INFO: ("_InfoLike", "_info.StructInfoLike | _Sequence[_info.StructInfoLike]"),
    Kind.INTEGER: ("_IntLike", "_SupportsIndex | _Expr | _PrimExpr"),
    Kind.NUMBER: ("_RealLike", "_b.float | _SupportsIndex | _Expr | _PrimExpr"),
    Kind.FLAG: ("_FlagLike", "_b.bool | _b.int | _Expr | _PrimExpr"),
    Kind.TEXT: ("_TextLike", "_b.str | _Expr"),
    Kind.INTS: ("_IntsLike", "_Expr | _Sequence[_IntLike]"),
    Kind.NUMBERS: ("_RealsLike", "_Expr | _Sequence[_RealLike]"),
    Kind.AXES: ("_AxesLike", "_IntLike | _Sequence[_IntLike]"),
    Kind.SECTIONS: ("_SectionsLike", "_IntLike | _Sequence[_IntLike]"),
    Kind.DTYPE: ("_DTypeOption", "_DTypeLike | _Expr"),
    Kind.INDEX_MAP: ("_IndexMapLike", "_AnyCallable[..., _Any] | _b.str | _Expr"),
    Kind.DEVICE: ("_DeviceLike", "_VDevice | _b.str | _b.int"),
    Kind.DATA: ("_DataLike", "_Mapping[_b.str, _Any]"),
}
_SCALAR: Final = "_Expr | _PrimExpr | _b.bool | _b.int | _b.float | _np.generic"

# What `R` itself defines, and `R.output`: a name that a text binds to a call is a variable of the
# program, and the call itself to a type checker.
_DECORATORS = '''\
class FunctionDecorator(_FunctionFrame):
    """``R.function(private=True)``: a decorator, and a frame of the builder."""

    def __call__(self, func: _AnyCallable[..., _Any]) -> _Function:
        """Read a function."""

def rewriter(cls: type) -> _IRModule:
    """Read a class of two functions, ``pattern`` and ``replacement``, as a module of them."""

def output(*variables: _Expr) -> None:
    """Say which variables of the dataflow block are seen after it."""
'''
_WRITTEN: Final = frozenset(
    {"FunctionDecorator", "IRBuilder", "function", "inline", "macro", "match_cast", "output"}
    | {"rewriter", "vdevice"}
)
_MODULES: Final = {m.__name__ for m in (any_call, calls, constants, functions, info, values)}


def stub_text() -> str:
    """Write the stub."""
    kinds = "\n".join(f"{name}: _TypeAlias = {what}" for name, what in _KINDS.values())
    scalar = f"_Scalar: _TypeAlias = {_SCALAR}"
    decorators = checked_decorators({"function": "function", "macro": "macro", "inline": "macro"})
    names = "".join(f'    "{name}",\n' for name in sorted(vars(R)["__all__"]))
    exports = f"__all__ = [\n{names}]\n"
    parts = [
        _HEAD,
        decorators,
        exports,
        f"{scalar}\n{kinds}\n",
        _DECORATORS,
        "\n".join(_language()) + "\n",
    ]
    return "\n".join([*parts, *_operators(Operators("", {}), "")])


def names_of_language() -> dict[str, Any]:
    """Return the names of ``R`` that are no operators, those of texts too."""
    public: list[str] = vars(R)["__all__"]
    own = {name: getattr(R, name) for name in (*public, "Any", "str", "tuple")}
    return {**BUILDER_NAMES, **NAMES, **own}


def _language() -> Iterator[str]:
    """Yield each name the type that it has where it is defined."""
    for name, value in sorted(names_of_language().items()):
        if name in _WRITTEN:
            continue
        module: str = value.__module__
        if module not in _MODULES:
            raise TypeError(f"R.{name} is defined in {module}, which the stub does not import")
        yield f"{name} = _{module.rpartition('.')[2]}.{value.__name__}"


def _operators(table: Operators, indent: str) -> Iterator[str]:
    language = names_of_language() if not indent else {}
    aliases: Mapping[str, str] = {} if indent else ALIASES
    for name in sorted({*table, *aliases}):
        found = find_op(f"relax.{table.prefix}{aliases.get(name, name)}")
        if found is not None and name not in language:
            yield _operator(name, found, indent)
    for part in sorted(table.parts()):
        inner = Operators(f"{table.prefix}{part}.", {})
        yield f"{indent}class _{part}:"
        yield f'{indent}    """The operators ``R.{table.prefix}{part}``."""\n'
        yield from _operators(inner, indent + "    ")
        yield f"{indent}{part}: _{part}\n"


def _operator(name: str, found: OpDef, indent: str) -> str:
    lines = [f"{indent}@_b.staticmethod"] if indent else []
    shown = list(_parameters(found))
    head = f"{indent}def {name}({', '.join(shown)}) -> _Call:"
    if len(head) > 100:
        inner = "".join(f"{indent}    {p},\n" for p in shown)
        head = f"{indent}def {name}(\n{inner}{indent}) -> _Call:"
    doc = found.doc.partition("\n")[0].replace("\\", "\\\\")
    return "\n".join([*lines, head, f'{indent}    """{doc}"""\n'])


def _parameters(found: OpDef) -> Iterator[str]:
    by_name = {name: p for p in found.params for name in (p.name, *p.aliases)}
    starred = False
    for name, one in found.signature.parameters.items():
        param = by_name[name]
        takes = _KINDS[param.kind][0]
        if param.choices:
            takes = f"_Literal[{', '.join(map(json.dumps, param.choices))}] | _Expr"
        if one.kind is one.VAR_POSITIONAL:
            starred = True
            yield f"*{name}: {takes}"
            continue
        if one.kind is one.KEYWORD_ONLY and not starred:
            starred = True
            yield "*"
        if one.default is one.empty:
            yield f"{name}: {takes}"
            continue
        # What has a default may be given as None where the default is None.
        takes = f"{takes} | None" if None in (one.default, param.default) else takes
        yield f"{name}: {takes} = {_default(one.default)}"


def _default(value: Any) -> str:
    if value is ...:
        return "..."
    if isinstance(value, str):
        return json.dumps(value)
    return f'"{value}"' if isinstance(value, DataType) else repr(value)


if __name__ == "__main__":
    PATH.write_text(stub_text(), encoding="utf-8")
