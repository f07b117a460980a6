"""Random programs that are well-formed and far from normal form, and what they mean."""

from __future__ import annotations

import random
from typing import Any

import numpy as np

from loomir.relax import (
    Call,
    Constant,
    DataflowVar,
    Expr,
    Function,
    If,
    MatchCast,
    SeqExpr,
    TensorStructInfo,
    Tuple,
    TupleGetItem,
    Var,
    VarBinding,
)
from tests.relax.programs import BOOL, block, flow, func, op, tensor

DTYPE = "int32"
SHAPE = (2, 3)


class Nested:
    """Makes one function of ``x``, ``y`` and a condition ``c``."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.count = 0

    def function(self) -> Function:
        params = [self.var("x"), self.var("y")]
        cond = Var("c", TensorStructInfo((), BOOL))
        body = self.value([*params], cond, 5, in_flow=False)
        ret = tensor(*SHAPE, dtype=DTYPE) if self.rng.random() < 0.5 else None
        return func([*params, cond], body, ret)

    def var(self, name: str, kind: type[Var] = Var, annotated: bool = True) -> Var:
        self.count += 1
        info = tensor(*SHAPE, dtype=DTYPE) if annotated else None
        return kind(f"{name}{self.count}", info)

    def value(self, names: list[Var], cond: Var, depth: int, *, in_flow: bool) -> Expr:
        """Make an expression of a tensor."""
        rng = self.rng
        if depth <= 0 or rng.random() < 0.15:
            if rng.random() < 0.2:
                return Constant(np.full(SHAPE, rng.randrange(-3, 4), DTYPE))
            return rng.choice(names)
        below = lambda: self.value(names, cond, depth - 1, in_flow=in_flow)  # noqa: E731
        kinds = ["negative", "add", "multiply", "field", "sequence", "closure"]
        if not in_flow:
            kinds.append("branch")
        kind = rng.choice(kinds)
        if kind == "negative":
            return Call(op("negative"), (below(),))
        if kind == "field":
            fields = tuple(below() for _ in range(rng.randrange(1, 4)))
            index = rng.randrange(len(fields))
            if rng.random() < 0.3:
                return TupleGetItem(TupleGetItem(Tuple((Tuple(fields),)), 0), index)
            return TupleGetItem(Tuple(fields), index)
        if kind == "branch":
            return If(cond, below(), below())
        if kind == "sequence":
            return self.sequence(names, cond, depth - 1, in_flow=in_flow)
        if kind == "closure":
            return self.closure(names, cond, depth - 1, in_flow=in_flow)
        return Call(op(kind), (below(), below()))

    def sequence(self, names: list[Var], cond: Var, depth: int, *, in_flow: bool) -> Expr:
        rng = self.rng
        names = list(names)
        blocks = []
        for _ in range(rng.randrange(3)):
            flowing = in_flow or rng.random() < 0.5
            seen, bindings = list(names), []
            for _ in range(rng.randrange(3)):
                kind = DataflowVar if flowing and rng.random() < 0.5 else Var
                given = self.value(seen, cond, depth - 1, in_flow=flowing)
                made = self.var("v", kind, rng.random() < 0.7)
                if made.struct_info_annotation is not None and rng.random() < 0.2:
                    bindings.append(MatchCast(made, given, made.struct_info))
                else:
                    bindings.append(VarBinding(made, given))
                seen.append(made)
                if kind is Var:
                    names.append(made)
            blocks.append(flow(*bindings) if flowing else block(*bindings))
        return SeqExpr(tuple(blocks), self.value(names, cond, depth - 1, in_flow=in_flow))

    def closure(self, names: list[Var], cond: Var, depth: int, *, in_flow: bool) -> Expr:
        # What ends with a dataflow block is not captured.
        seen = [n for n in names if not isinstance(n, DataflowVar)]
        param = self.var("p")
        body = self.value([*seen, param], cond, depth - 1, in_flow=False)
        given = self.value(names, cond, depth - 1, in_flow=in_flow)
        return Call(Function((param,), body), (given,))


def meaning(expr: Any, names: dict[Var, Any]) -> Any:
    """Evaluate an expression as the specification says, whatever its form."""
    if isinstance(expr, Var):
        return names[expr]
    if isinstance(expr, Constant):
        data = expr.data
        return np.frombuffer(data.to_bytes(), DTYPE).reshape(data.shape)
    if isinstance(expr, Tuple):
        return tuple(meaning(field, names) for field in expr.fields)
    if isinstance(expr, TupleGetItem):
        return meaning(expr.tuple_value, names)[expr.index]
    if isinstance(expr, If):
        branch = expr.true_branch if meaning(expr.cond, names) else expr.false_branch
        return meaning(branch, names)
    if isinstance(expr, SeqExpr):
        names = dict(names)
        for part in expr.blocks:
            for binding in part.bindings:
                names[binding.var] = meaning(binding.value, names)
        return meaning(expr.body, names)
    assert isinstance(expr, Call)
    args = [meaning(arg, names) for arg in expr.args]
    if isinstance(expr.op, Function):
        return meaning(expr.op.body, {**names, **dict(zip(expr.op.params, args))})
    known = {"negative": np.negative, "add": np.add, "multiply": np.multiply}
    return known[expr.op.name.removeprefix("relax.")](*args)
