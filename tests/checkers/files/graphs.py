"""What users write of graphs: modules, symbolic shapes, kernels, control flow, the builder."""

from __future__ import annotations

import numpy as np

import loomir
from loomir import op, relax
from loomir.script import ir as I
from loomir.script import relax as R
from loomir.script import tir as T

WIDTH = 8


@I.ir_module
class Model:
    @T.prim_func(private=True)
    def shift(x: T.handle, y: T.handle):
        n = T.int64()
        X = T.match_buffer(x, (n, WIDTH), "float32")
        Y = T.match_buffer(y, (n, WIDTH), "float32")
        for i, j in T.grid(n, WIDTH):
            with T.sblock("shift"):
                vi, vj = T.axis.remap("SS", [i, j])
                Y[vi, vj] = X[vi, vj] + T.float32(1)

    @R.function(private=True)
    def layer(x: R.Tensor(("n", WIDTH), "float32"), w: R.Tensor((WIDTH, WIDTH), "float32")):
        return R.nn.relu(R.matmul(x, w))

    @R.function
    def main(
        x: R.Tensor(("n", WIDTH), "float32"),
        w: R.Tensor((WIDTH, WIDTH), "float32"),
        flag: R.Tensor((), "bool"),
    ) -> R.Tensor(("n", WIDTH), "float32"):
        n = T.int64()
        with R.dataflow():
            h = cls.layer(x, w)
            s = R.call_tir(cls.shift, (h,), R.Tensor((n, WIDTH), "float32"))
            y = R.nn.softmax(s * R.const(0.5, "float32"), axis=-1)
            R.output(y)
        if flag:
            z = R.add(y, x)
        else:
            z = y
        return z


@R.function
def pair(x: R.Tensor((2, 3), "float32")) -> R.Tuple(R.Tensor((2, 3)), R.Tensor((3, 2))):
    lv: R.Tensor((3, 2), "float32") = R.permute_dims(x)
    sizes = R.shape_of(x)
    R.print(sizes, format="{}")
    return (x, lv)


x_var = relax.Var("x", relax.TensorStructInfo((4, "n"), "float32"))
call: relax.Call = op.nn.relu(op.add(x_var, relax.const(1.0, "float32")))
made: loomir.IRModule = Model
print(Model.script(), Model["main"].script(), pair.script(), made.functions)
exe = loomir.compile(Model)
values = np.ones((4, WIDTH), "float32")
result = exe["main"](values, np.ones((WIDTH, WIDTH), "float32"), np.array(True))
print(result, loomir.interpret(Model, "main", values, values, np.array(False)))
pair.show()
Model.show()
