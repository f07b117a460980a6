"""Extents that turn out not to fit are refused where a kernel runs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import loomir
from loomir import op, te
from loomir.relax.expr import Constant, PrimValue, Tuple, Var
from loomir.relax.operator.definition import TensorSample, find_op, op_def
from loomir.relax.shape import ShapeExpr
from loomir.relax.struct_info import TensorStructInfo
from loomir.te import topi
from loomir.tir import expr as tir
from tests.op.running import Made, takes_out

T = TensorSample


class Kernel:
    """A call that is lowered by what is known of its arguments."""

    def __init__(self, made: Made) -> None:
        self.tensors: dict[Var, Any] = {}
        definition = made.op
        info = made.infer()
        options = dict(made.call.attrs)
        if takes_out(definition):
            options["out"] = info
        assert definition.lower is not None
        given = [self.argument(a) for a in made.call.args]
        result = definition.lower(*given, **options)
        outputs = list(result) if isinstance(result, (tuple, list)) else [result]
        inputs = list(self.tensors.values())
        seen: list[Any] = list(inputs)
        for k, output in enumerate(outputs):
            outputs[k] = topi.identity(output) if any(output is s for s in seen) else output
            seen.append(output)
        self.func = te.create_prim_func([*inputs, *outputs])
        assert loomir.verify(self.func) == ()

    def argument(self, arg: Any) -> Any:
        if isinstance(arg, Var):
            info = arg.struct_info
            assert isinstance(info, TensorStructInfo)
            assert info.dims is not None
            return self.tensors.setdefault(
                arg, te.placeholder(info.dims, info.dtype, name=f"A{len(self.tensors)}")
            )
        if isinstance(arg, Tuple):
            return [self.argument(f) for f in arg.fields]
        if isinstance(arg, ShapeExpr):
            return tuple(arg.values)
        assert not isinstance(arg, Constant)
        assert isinstance(arg, PrimValue)
        return arg.value

    def runs(self) -> list[Any]:
        """List the ways to run it."""
        compiled = loomir.compile(self.func, opt_level=1, cache=False)
        return [compiled, lambda *a: loomir.interpret(self.func, *a)]


def variable(name: str) -> tir.Var:
    return tir.Var(name, "int64")


def tensor(*dims: Any, dtype: str = "float32") -> Var:
    return Var("x", TensorStructInfo(dims, dtype))


n, m = variable("n"), variable("m")


@pytest.mark.parametrize(
    ("call", "shapes", "out"),
    [
        (op.reshape(tensor(n), (2, m)), [(5,)], (2, 3)),
        (op.reshape(tensor(n), (2, -1)), [(5,)], (2, 2)),
        (op.split(tensor(n), 2), [(5,)], (2,)),
        (op.broadcast_to(tensor(n), (m, 4)), [(3,)], (2, 4)),
        (op.squeeze(tensor(n, m), 0), [(2, 3)], (3,)),
    ],
    ids=lambda v: None,
)
def test_extents_that_do_not_fit_are_refused(call: Any, shapes: Any, out: Any):
    definition = op_def(call.op)
    variables = [a for a in call.args if isinstance(a, Var)]
    made = Made(definition, call, {v: np.zeros(s) for v, s in zip(variables, shapes)})
    kernel = Kernel(made)
    outputs = [out] * (2 if definition is find_op("relax.split") else 1)
    for run in kernel.runs():
        arrays = [np.zeros(s, "float32") for s in (*shapes, *outputs)]
        with pytest.raises(ValueError, match="RUN0212"):
            run(*arrays)
