"""Tensor expressions: tensors by formula, and PrimFuncs made of them.

``te.compute((n,), lambda i: A[i] + 1)`` returns a tensor, ``te.create_prim_func([A, B])`` a
function.
"""

from typing import TYPE_CHECKING

from loomir.support.argument_errors import refuse_missing as _refuse_missing
from loomir.te.arguments import explain_failures as _explain_failures
from loomir.te.create_prim_func import create_prim_func
from loomir.te.operation import (
    compute,
    extern,
    extern_primfunc,
    placeholder,
    scan,
    size_var,
    var,
)
from loomir.te.prefetch import Prefetch, prefetch
from loomir.te.reduction import (
    CommReducer,
    Reduce,
    ReduceAxis,
    all,
    any,
    comm_reducer,
    max,
    min,
    prod,
    reduce_axis,
    sum,
)
from loomir.te.scalar import (
    abs,
    all_of,
    any_of,
    ceil,
    const,
    cos,
    erf,
    exp,
    exp2,
    floor,
    if_then_else,
    isfinite,
    isinf,
    isnan,
    log,
    log2,
    max_value,
    min_value,
    power,
    round,
    rsqrt,
    select,
    sigmoid,
    sin,
    sqrt,
    tanh,
    trunc,
)
from loomir.te.tensor import Tensor, TensorLoad

__all__ = [
    "CommReducer",
    "Prefetch",
    "Reduce",
    "ReduceAxis",
    "Tensor",
    "TensorLoad",
    "abs",
    "all",
    "all_of",
    "any",
    "any_of",
    "ceil",
    "comm_reducer",
    "compute",
    "const",
    "cos",
    "create_prim_func",
    "erf",
    "exp",
    "exp2",
    "extern",
    "extern_primfunc",
    "floor",
    "if_then_else",
    "isfinite",
    "isinf",
    "isnan",
    "log",
    "log2",
    "max",
    "max_value",
    "min",
    "min_value",
    "placeholder",
    "power",
    "prefetch",
    "prod",
    "reduce_axis",
    "round",
    "rsqrt",
    "scan",
    "select",
    "sigmoid",
    "sin",
    "size_var",
    "sqrt",
    "sum",
    "tanh",
    "trunc",
    "var",
]

globals().update(_explain_failures(globals(), __all__))

if not TYPE_CHECKING:
    __getattr__ = _refuse_missing(
        "te",
        __all__,
        {
            "create_schedule": "loomir.Schedule(te.create_prim_func([A, B]))",
            "lower": "te.create_prim_func([A, B])",
            "build": "loomir.compile(te.create_prim_func([A, B]))",
            "if_else": "te.if_then_else(c, a, b)",
            "relu": "topi.nn.relu(x), of loomir.te.topi",
            "matmul": "topi.matmul(a, b), of loomir.te.topi",
            "input": "te.placeholder((8,), name='A')",
            "mean": "te.sum(...) as a tensor, and divide its elements by their number",
        },
    )
