"""Parts of programs, made by hand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from loomir.ir.module import IRModule
from loomir.relax import (
    Binding,
    BindingBlock,
    Call,
    DataflowBlock,
    DataflowVar,
    Expr,
    Function,
    MatchCast,
    Op,
    SeqExpr,
    TensorStructInfo,
    Var,
    VarBinding,
)
from loomir.relax.operator.definition import find_op
from loomir.relax.struct_info import FuncStructInfo
from loomir.tir.expr import Var as ShapeVar

F32 = "float32"
BOOL = "bool"


def dim(name: str = "n") -> ShapeVar:
    """Make a shape variable."""
    return ShapeVar(name, "int64")


def tensor(*shape: Any, dtype: str = F32) -> TensorStructInfo:
    """Describe a tensor of known extents."""
    return TensorStructInfo(tuple(shape), dtype)


def var(name: str, *shape: Any, dtype: str = F32) -> Var:
    """Make a variable that holds a tensor."""
    return Var(name, tensor(*shape, dtype=dtype))


def lv(name: str, *shape: Any, dtype: str = F32) -> DataflowVar:
    """Make a variable of a dataflow block that holds a tensor."""
    return DataflowVar(name, tensor(*shape, dtype=dtype))


def op(name: str) -> Op:
    """Find an operator."""
    found = find_op(f"relax.{name}")
    assert found is not None
    return found.op


def neg(x: Any) -> Call:
    """Negate."""
    return Call(op("negative"), (x,))


def block(*bindings: Binding) -> BindingBlock:
    """Make an ordinary block."""
    return BindingBlock(bindings)


def flow(*bindings: Binding) -> DataflowBlock:
    """Make a dataflow block."""
    return DataflowBlock(bindings)


def let(name: Var, value: Any) -> VarBinding:
    """Bind a variable."""
    return VarBinding(name, value)


def seq(blocks: Sequence[BindingBlock], body: Any) -> SeqExpr:
    """Make a sequence."""
    return SeqExpr(tuple(blocks), body)


def func(params: Sequence[Var], body: Any, ret: Any = None, **options: Any) -> Function:
    """Make a function that is called from outside."""
    attrs = options.pop("attrs", {"global_symbol": "main"})
    return Function(tuple(params), body, ret, options.pop("is_pure", True), attrs)


def module(**functions: Any) -> IRModule:
    """Make a module."""
    from loomir.relax import GlobalVar

    return IRModule({GlobalVar(name): made for name, made in functions.items()})


def bindings_of(made: Function) -> list[VarBinding | MatchCast]:
    """List the bindings of a function's body."""
    assert isinstance(made.body, SeqExpr)
    return [b for part in made.body.blocks for b in part.bindings]  # type: ignore[misc]


def values_of(made: Function) -> list[Expr]:
    """List the values bound in a function's body."""
    return [b.value for b in bindings_of(made)]


def callable_of(params: Sequence[Any], ret: Any, purity: bool = True) -> FuncStructInfo:
    """Describe a function."""
    return FuncStructInfo(tuple(params), ret, purity)


def all_bindings(made: Any) -> list[Any]:
    """List all bindings, those of branches and closures too, in order."""
    from loomir.relax.normal.rewriter import all_bindings as listed

    return list(listed(made))
