# ruff: noqa: A001  (``T.min`` and its like are called as in the language)
"""Names of ``T`` for operators and builtins, each with its type."""

from __future__ import annotations

from typing import Final

from loomir.script.builder.expressions import (
    Binary,
    Unary,
    Variadic,
    builtin,
    logical,
    operator,
    raise_to,
    remainder,
    truth_not,
)
from loomir.tir import expr as nodes

__all__ = [
    "EQ",
    "GE",
    "GT",
    "LE",
    "LT",
    "NE",
    "Add",
    "And",
    "BitwiseAnd",
    "BitwiseNot",
    "BitwiseOr",
    "BitwiseXor",
    "Div",
    "FloorDiv",
    "FloorMod",
    "LShift",
    "Max",
    "Min",
    "Mod",
    "Mul",
    "Not",
    "Or",
    "RShift",
    "Sub",
    "abs",
    "acos",
    "acosh",
    "asin",
    "asinh",
    "atan",
    "atan2",
    "atanh",
    "bitwise_and",
    "bitwise_not",
    "bitwise_or",
    "bitwise_xor",
    "ceil",
    "check",
    "checked_index",
    "clz",
    "copysign",
    "cos",
    "cosh",
    "div",
    "erf",
    "exp",
    "exp2",
    "exp10",
    "fabs",
    "floor",
    "floordiv",
    "floormod",
    "fma",
    "fmod",
    "hypot",
    "indexdiv",
    "indexmod",
    "isfinite",
    "isinf",
    "isnan",
    "likely",
    "log",
    "log1p",
    "log2",
    "log10",
    "max",
    "min",
    "nearbyint",
    "nextafter",
    "popcount",
    "pow",
    "power",
    "round",
    "rsqrt",
    "shift_left",
    "shift_right",
    "sigmoid",
    "sin",
    "sinh",
    "sqrt",
    "tan",
    "tanh",
    "trunc",
    "truncdiv",
    "truncmod",
    "tvm_stack_make_array",
    "tvm_stack_make_shape",
    "watch_escape",
    "watch_iteration",
    "watch_loop",
    "watch_memory",
    "watch_read",
    "watch_start",
    "watch_write",
]

exp: Final[Unary] = builtin("exp")
exp2: Final[Unary] = builtin("exp2")
exp10: Final[Unary] = builtin("exp10")
log: Final[Unary] = builtin("log")
log2: Final[Unary] = builtin("log2")
log10: Final[Unary] = builtin("log10")
log1p: Final[Unary] = builtin("log1p")
sqrt: Final[Unary] = builtin("sqrt")
rsqrt: Final[Unary] = builtin("rsqrt")
tanh: Final[Unary] = builtin("tanh")
sigmoid: Final[Unary] = builtin("sigmoid")
erf: Final[Unary] = builtin("erf")
sin: Final[Unary] = builtin("sin")
cos: Final[Unary] = builtin("cos")
tan: Final[Unary] = builtin("tan")
sinh: Final[Unary] = builtin("sinh")
cosh: Final[Unary] = builtin("cosh")
asin: Final[Unary] = builtin("asin")
acos: Final[Unary] = builtin("acos")
atan: Final[Unary] = builtin("atan")
asinh: Final[Unary] = builtin("asinh")
acosh: Final[Unary] = builtin("acosh")
atanh: Final[Unary] = builtin("atanh")
floor: Final[Unary] = builtin("floor")
ceil: Final[Unary] = builtin("ceil")
trunc: Final[Unary] = builtin("trunc")
round: Final[Unary] = builtin("round")
nearbyint: Final[Unary] = builtin("nearbyint")
atan2: Final[Binary] = builtin("atan2")
fmod: Final[Binary] = builtin("fmod")
hypot: Final[Binary] = builtin("hypot")
copysign: Final[Binary] = builtin("copysign")
nextafter: Final[Binary] = builtin("nextafter")
fma: Final[Variadic] = builtin("fma")
abs: Final[Unary] = builtin("abs")
fabs: Final[Unary] = abs
isnan: Final[Unary] = builtin("isnan")
isinf: Final[Unary] = builtin("isinf")
isfinite: Final[Unary] = builtin("isfinite")
bitwise_and: Final[Binary] = builtin("bitwise_and")
bitwise_or: Final[Binary] = builtin("bitwise_or")
bitwise_xor: Final[Binary] = builtin("bitwise_xor")
bitwise_not: Final[Unary] = builtin("bitwise_not")
shift_left: Final[Binary] = builtin("shift_left")
shift_right: Final[Binary] = builtin("shift_right")
popcount: Final[Unary] = builtin("popcount")
clz: Final[Unary] = builtin("clz")
likely: Final[Unary] = builtin("likely")
tvm_stack_make_shape: Final[Variadic] = builtin("tvm_stack_make_shape")
tvm_stack_make_array: Final[Variadic] = builtin("tvm_stack_make_array")
check: Final[Variadic] = builtin("check")
watch_escape: Final[Variadic] = builtin("watch_escape")
watch_iteration: Final[Variadic] = builtin("watch_iteration")
watch_loop: Final[Variadic] = builtin("watch_loop")
watch_memory: Final[Variadic] = builtin("watch_memory")
watch_read: Final[Variadic] = builtin("watch_read")
watch_start: Final[Variadic] = builtin("watch_start")
watch_write: Final[Variadic] = builtin("watch_write")
checked_index: Final[Variadic] = builtin("checked_index")

pow: Final[Binary] = raise_to
power: Final[Binary] = pow
Add: Final[Binary] = operator(nodes.Add)
Sub: Final[Binary] = operator(nodes.Sub)
Mul: Final[Binary] = operator(nodes.Mul)
Div: Final[Binary] = operator(nodes.Div)
Mod: Final[Binary] = remainder
FloorDiv: Final[Binary] = operator(nodes.FloorDiv)
FloorMod: Final[Binary] = operator(nodes.FloorMod)
Min: Final[Binary] = operator(nodes.Min)
Max: Final[Binary] = operator(nodes.Max)
EQ: Final[Binary] = operator(nodes.Eq)
NE: Final[Binary] = operator(nodes.NE)
LT: Final[Binary] = operator(nodes.LT)
LE: Final[Binary] = operator(nodes.LE)
GT: Final[Binary] = operator(nodes.GT)
GE: Final[Binary] = operator(nodes.GE)
And: Final[Binary] = logical(nodes.And)
Or: Final[Binary] = logical(nodes.Or)
Not: Final[Unary] = truth_not
min: Final[Binary] = Min
max: Final[Binary] = Max
div: Final[Binary] = Div
truncdiv: Final[Binary] = Div
truncmod: Final[Binary] = Mod
floordiv: Final[Binary] = FloorDiv
floormod: Final[Binary] = FloorMod
indexdiv: Final[Binary] = FloorDiv
indexmod: Final[Binary] = FloorMod
BitwiseAnd: Final[Binary] = bitwise_and
BitwiseOr: Final[Binary] = bitwise_or
BitwiseXor: Final[Binary] = bitwise_xor
BitwiseNot: Final[Unary] = bitwise_not
LShift: Final[Binary] = shift_left
RShift: Final[Binary] = shift_right
