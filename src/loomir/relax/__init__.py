"""Graph-level programs: models as functions on tensors, with structural information."""

from __future__ import annotations

from typing import Any

from loomir.ir.module import BaseFunc, GlobalVar, IRModule, VDevice
from loomir.ir.op import Op
from loomir.relax.constants import const
from loomir.relax.expr import (
    Binding,
    BindingBlock,
    Call,
    Constant,
    DataflowBlock,
    DataflowVar,
    DataTypeImm,
    ExternFunc,
    Function,
    If,
    MatchCast,
    PrimValue,
    SeqExpr,
    StringImm,
    Tuple,
    TupleGetItem,
    Var,
    VarBinding,
)
from loomir.relax.node import Expr, StructInfo
from loomir.relax.normal.block_builder import BlockBuilder
from loomir.relax.normal.normalize import normalize
from loomir.relax.normal.python_operators import define_python_operators as _define
from loomir.relax.shape import ShapeExpr
from loomir.relax.struct_info import (
    FuncStructInfo,
    ObjectStructInfo,
    PrimStructInfo,
    ShapeStructInfo,
    TensorStructInfo,
    TupleStructInfo,
)
from loomir.support.argument_errors import explain_exported as _explain_exported
from loomir.support.argument_errors import refuse_missing as _refuse_missing
from loomir.support.diagnostics import Diagnostic
from loomir.support.fork_safe import import_module

__all__ = [
    "Binding",
    "BindingBlock",
    "BlockBuilder",
    "Call",
    "Constant",
    "DataTypeImm",
    "DataflowBlock",
    "DataflowVar",
    "Expr",
    "ExternFunc",
    "FuncStructInfo",
    "Function",
    "GlobalVar",
    "IRModule",
    "If",
    "MatchCast",
    "ObjectStructInfo",
    "Op",
    "PrimStructInfo",
    "PrimValue",
    "SeqExpr",
    "ShapeExpr",
    "ShapeStructInfo",
    "StringImm",
    "StructInfo",
    "TensorStructInfo",
    "Tuple",
    "TupleGetItem",
    "TupleStructInfo",
    "VDevice",
    "Var",
    "VarBinding",
    "const",
    "normalize",
    "well_formed",
]


# The checks are of a higher layer than this package: loaded when asked for.
def well_formed(program: IRModule | BaseFunc) -> tuple[Diagnostic, ...]:
    """List violations of rules, in program order; empty if the program is well-formed."""
    return import_module("loomir.check.relax.well_formed").well_formed(program)


_define()
globals().update(_explain_exported(globals(), __all__))


_refuse = _refuse_missing(
    "relax",
    __all__,
    {
        **dict.fromkeys(("VirtualMachine", "vm"), "loomir.compile(mod), and call what it returns"),
        "build": "loomir.compile(mod)",
        "nn": "the operators that a layer is made of, as in op.nn.relu(op.linear(x, w, b))",
        "transform": "loomir.transform.relax",
        "TensorType": 'relax.TensorStructInfo((4,), "float32")',
        "array": "relax.const(values)",
        "tensor": "relax.const(values)",
    },
)


def __getattr__(name: str) -> Any:
    if name == "op":  # the operators are made of what is in this package: loaded when asked for
        return import_module("loomir.op")
    return _refuse(name)
