"""The first module that readers of TVMScript's documentation meet, as far as it is TIR."""

from loomir.script import ir as I
from loomir.script import tir as T


@I.ir_module
class MyModule:
    @T.prim_func
    def add_kernel(
        A: T.Buffer((128,), "float32"),
        B: T.Buffer((128,), "float32"),
        C: T.Buffer((128,), "float32"),
    ):
        for i in range(128):
            with T.sblock("compute"):
                vi = T.axis.spatial(128, i)
                C[vi] = A[vi] + B[vi]


def reference(A, B, C):
    return A + B
