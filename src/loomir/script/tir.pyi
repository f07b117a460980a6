# Written by `python -m tools.tir_stub` from the names of loops: do not edit.
"""``T``: the language of loops, for annotations, decorators, and building programs in Python."""

import builtins as _b
from typing import TypeVar as _TypeVar

from loomir.script.builder.attribute_values import index_map as index_map
from loomir.script.builder.attribute_values import target as target
from loomir.script.builder.buffer_spec import BufferSpec as Buffer
from loomir.script.builder.buffer_spec import BufferSpec as buffer
from loomir.script.builder.dtypes import DTypeFunction as _DTypeFunction
from loomir.script.builder.dtypes import DTypeLike as _DTypeLike
from loomir.script.builder.dtypes import infinity as infinity
from loomir.script.builder.dtypes import max_value as max_value
from loomir.script.builder.dtypes import min_value as min_value
from loomir.script.builder.expressions import broadcast as Broadcast
from loomir.script.builder.expressions import broadcast as broadcast
from loomir.script.builder.expressions import cast as cast
from loomir.script.builder.expressions import cast_node as Cast
from loomir.script.builder.expressions import ceildiv as ceildiv
from loomir.script.builder.expressions import declare_var as Var
from loomir.script.builder.expressions import float_imm as FloatImm
from loomir.script.builder.expressions import if_then_else as if_then_else
from loomir.script.builder.expressions import int_imm as IntImm
from loomir.script.builder.expressions import ldexp as ldexp
from loomir.script.builder.expressions import let as Let
from loomir.script.builder.expressions import raise_to as pow
from loomir.script.builder.expressions import raise_to as power
from loomir.script.builder.expressions import ramp as Ramp
from loomir.script.builder.expressions import ramp as ramp
from loomir.script.builder.expressions import reinterpret as reinterpret
from loomir.script.builder.expressions import remainder as Mod
from loomir.script.builder.expressions import remainder as truncmod
from loomir.script.builder.expressions import select as Select
from loomir.script.builder.expressions import shuffle as Shuffle
from loomir.script.builder.expressions import span_range as Range
from loomir.script.builder.expressions import string as StringImm
from loomir.script.builder.expressions import truth_not as Not
from loomir.script.builder.expressions import var as var
from loomir.script.builder.frame import IRBuilder as IRBuilder
from loomir.script.builder.function import arg as arg
from loomir.script.builder.function import func_attr as func_attr
from loomir.script.builder.function import func_name as func_name
from loomir.script.builder.function import func_ret as func_ret
from loomir.script.builder.tir.blocks import axis as axis
from loomir.script.builder.tir.blocks import block_attr as block_attr
from loomir.script.builder.tir.blocks import block_attr as sblock_attr
from loomir.script.builder.tir.blocks import init as init
from loomir.script.builder.tir.blocks import reads as reads
from loomir.script.builder.tir.blocks import sblock as block
from loomir.script.builder.tir.blocks import sblock as sblock
from loomir.script.builder.tir.blocks import where as where
from loomir.script.builder.tir.blocks import writes as writes
from loomir.script.builder.tir.buffers import alloc_buffer as alloc_buffer
from loomir.script.builder.tir.buffers import alloc_buffer as sblock_alloc_buffer
from loomir.script.builder.tir.buffers import alloc_local as alloc_local
from loomir.script.builder.tir.buffers import alloc_shared as alloc_shared
from loomir.script.builder.tir.buffers import decl_buffer as decl_buffer
from loomir.script.builder.tir.buffers import match_buffer as match_buffer
from loomir.script.builder.tir.builtin_calls import address_of as address_of
from loomir.script.builder.tir.builtin_calls import all as all
from loomir.script.builder.tir.builtin_calls import any as any
from loomir.script.builder.tir.builtin_calls import assume as assume
from loomir.script.builder.tir.builtin_calls import dot_tiles as dot_tiles
from loomir.script.builder.tir.builtin_calls import dp2a as dp2a
from loomir.script.builder.tir.builtin_calls import dp4a as dp4a
from loomir.script.builder.tir.builtin_calls import get_active_lane_mask as get_active_lane_mask
from loomir.script.builder.tir.builtin_calls import handle_add_byte_offset as handle_add_byte_offset
from loomir.script.builder.tir.builtin_calls import ignore_loop_partition as ignore_loop_partition
from loomir.script.builder.tir.builtin_calls import isnullptr as isnullptr
from loomir.script.builder.tir.builtin_calls import logaddexp as logaddexp
from loomir.script.builder.tir.builtin_calls import prefetch as prefetch
from loomir.script.builder.tir.builtin_calls import ptr_byte_offset as ptr_byte_offset
from loomir.script.builder.tir.builtin_calls import q_multiply_shift as q_multiply_shift
from loomir.script.builder.tir.builtin_calls import q_multiply_shift_per_axis as q_multiply_shift_per_axis
from loomir.script.builder.tir.builtin_calls import tvm_access_ptr as tvm_access_ptr
from loomir.script.builder.tir.builtin_calls import tvm_tuple as tvm_tuple
from loomir.script.builder.tir.builtin_calls import type_annotation as type_annotation
from loomir.script.builder.tir.builtin_calls import undef as undef
from loomir.script.builder.tir.builtin_calls import vectorcombine as vectorcombine
from loomir.script.builder.tir.builtin_calls import vectorhigh as vectorhigh
from loomir.script.builder.tir.builtin_calls import vectorlow as vectorlow
from loomir.script.builder.tir.calls_out import call_cpacked as call_cpacked
from loomir.script.builder.tir.calls_out import call_cpacked as call_cpacked_lowered
from loomir.script.builder.tir.calls_out import call_cpacked as tvm_call_cpacked
from loomir.script.builder.tir.calls_out import call_cpacked as tvm_call_cpacked_lowered
from loomir.script.builder.tir.calls_out import call_extern as call_extern
from loomir.script.builder.tir.calls_out import call_intrin as call_intrin
from loomir.script.builder.tir.calls_out import call_llvm_intrin as call_llvm_intrin
from loomir.script.builder.tir.calls_out import call_llvm_pure_intrin as call_llvm_pure_intrin
from loomir.script.builder.tir.calls_out import call_packed as call_packed
from loomir.script.builder.tir.calls_out import call_packed as call_packed_lowered
from loomir.script.builder.tir.calls_out import call_packed as tvm_call_packed
from loomir.script.builder.tir.calls_out import call_packed as tvm_call_packed_lowered
from loomir.script.builder.tir.calls_out import call_pure_extern as call_pure_extern
from loomir.script.builder.tir.calls_out import llvm_lookup_intrinsic_id as llvm_lookup_intrinsic_id
from loomir.script.builder.tir.loops import WhileFrame as While
from loomir.script.builder.tir.loops import break_loop as break_loop
from loomir.script.builder.tir.loops import call as Call
from loomir.script.builder.tir.loops import continue_loop as continue_loop
from loomir.script.builder.tir.loops import grid as grid
from loomir.script.builder.tir.loops import parallel as parallel
from loomir.script.builder.tir.loops import ret as ret
from loomir.script.builder.tir.loops import serial as serial
from loomir.script.builder.tir.loops import thread_binding as thread_binding
from loomir.script.builder.tir.loops import unroll as unroll
from loomir.script.builder.tir.loops import vectorized as vectorized
from loomir.script.builder.tir.scopes import ElseFrame as Else
from loomir.script.builder.tir.scopes import IfFrame as If
from loomir.script.builder.tir.scopes import LET as let
from loomir.script.builder.tir.scopes import ThenFrame as Then
from loomir.script.builder.tir.scopes import allocate as allocate
from loomir.script.builder.tir.scopes import attr as attr
from loomir.script.builder.tir.scopes import bind as Bind
from loomir.script.builder.tir.scopes import bind as bind
from loomir.script.builder.tir.scopes import buffer_load as BufferLoad
from loomir.script.builder.tir.scopes import buffer_load as buffer_load
from loomir.script.builder.tir.scopes import buffer_store as buffer_store
from loomir.script.builder.tir.scopes import check as Assert
from loomir.script.builder.tir.scopes import env_thread as env_thread
from loomir.script.builder.tir.scopes import evaluate as evaluate
from loomir.script.builder.tir.scopes import iter_var as iter_var
from loomir.script.builder.tir.scopes import launch_thread as launch_thread
from loomir.script.builder.tir.scopes import let_stmt as LetStmt
from loomir.script.builder.tir.table import dtype_named as dtype
from loomir.tir.expr import ExprLike as _ExprLike
from loomir.tir.expr import PrimExpr as _PrimExpr
from loomir.tir.expr import Var as _Var

# mypy takes the first branch: it knows `no_type_check` by its name. pyright takes the
# last one, and knows it in a stub of that name: see loomir/checkers/__init__.py.
MYPY = False
if MYPY:
    from typing import no_type_check as prim_func
    from typing import no_type_check as macro
    from typing import no_type_check as inline
else:
    from loomir.checkers.prim_func.typing_extensions import no_type_check as prim_func
    from loomir.checkers.macro.typing_extensions import no_type_check as macro
    from loomir.checkers.macro.typing_extensions import no_type_check as inline

__all__ = [
    "Add",
    "And",
    "Assert",
    "Bind",
    "BitwiseAnd",
    "BitwiseNot",
    "BitwiseOr",
    "BitwiseXor",
    "Broadcast",
    "Buffer",
    "BufferLoad",
    "Call",
    "Cast",
    "Div",
    "EQ",
    "Else",
    "FloatImm",
    "FloorDiv",
    "FloorMod",
    "GE",
    "GT",
    "IRBuilder",
    "If",
    "IntImm",
    "LE",
    "LShift",
    "LT",
    "Let",
    "LetStmt",
    "Max",
    "Min",
    "Mod",
    "Mul",
    "NE",
    "Not",
    "Or",
    "RShift",
    "Ramp",
    "Range",
    "Select",
    "Shuffle",
    "StringImm",
    "Sub",
    "Then",
    "Var",
    "While",
    "abs",
    "acos",
    "acosh",
    "address_of",
    "all",
    "alloc_buffer",
    "alloc_local",
    "alloc_shared",
    "allocate",
    "any",
    "arg",
    "asin",
    "asinh",
    "assume",
    "atan",
    "atan2",
    "atanh",
    "attr",
    "axis",
    "bf16",
    "bfloat16",
    "bfloat16x16",
    "bfloat16x2",
    "bfloat16x3",
    "bfloat16x32",
    "bfloat16x4",
    "bfloat16x64",
    "bfloat16x8",
    "bind",
    "bitwise_and",
    "bitwise_not",
    "bitwise_or",
    "bitwise_xor",
    "block",
    "block_attr",
    "bool",
    "boolean",
    "boolx16",
    "boolx2",
    "boolx3",
    "boolx32",
    "boolx4",
    "boolx64",
    "boolx8",
    "break_loop",
    "broadcast",
    "buffer",
    "buffer_load",
    "buffer_store",
    "call_cpacked",
    "call_cpacked_lowered",
    "call_extern",
    "call_intrin",
    "call_llvm_intrin",
    "call_llvm_pure_intrin",
    "call_packed",
    "call_packed_lowered",
    "call_pure_extern",
    "cast",
    "ceil",
    "ceildiv",
    "check",
    "checked_index",
    "clz",
    "continue_loop",
    "copysign",
    "cos",
    "cosh",
    "decl_buffer",
    "div",
    "dot_tiles",
    "dp2a",
    "dp4a",
    "dtype",
    "env_thread",
    "erf",
    "evaluate",
    "exp",
    "exp10",
    "exp2",
    "f16",
    "f32",
    "f64",
    "fabs",
    "float16",
    "float16x16",
    "float16x2",
    "float16x3",
    "float16x32",
    "float16x4",
    "float16x64",
    "float16x8",
    "float32",
    "float32x16",
    "float32x2",
    "float32x3",
    "float32x32",
    "float32x4",
    "float32x64",
    "float32x8",
    "float64",
    "float64x16",
    "float64x2",
    "float64x3",
    "float64x32",
    "float64x4",
    "float64x64",
    "float64x8",
    "floor",
    "floordiv",
    "floormod",
    "fma",
    "fmod",
    "func_attr",
    "func_name",
    "func_ret",
    "get_active_lane_mask",
    "grid",
    "handle",
    "handle_add_byte_offset",
    "hypot",
    "i16",
    "i32",
    "i64",
    "i8",
    "if_then_else",
    "ignore_loop_partition",
    "index_map",
    "indexdiv",
    "indexmod",
    "infinity",
    "init",
    "inline",
    "int16",
    "int16x16",
    "int16x2",
    "int16x3",
    "int16x32",
    "int16x4",
    "int16x64",
    "int16x8",
    "int32",
    "int32x16",
    "int32x2",
    "int32x3",
    "int32x32",
    "int32x4",
    "int32x64",
    "int32x8",
    "int64",
    "int64x16",
    "int64x2",
    "int64x3",
    "int64x32",
    "int64x4",
    "int64x64",
    "int64x8",
    "int8",
    "int8x16",
    "int8x2",
    "int8x3",
    "int8x32",
    "int8x4",
    "int8x64",
    "int8x8",
    "isfinite",
    "isinf",
    "isnan",
    "isnullptr",
    "iter_var",
    "launch_thread",
    "ldexp",
    "let",
    "likely",
    "llvm_lookup_intrinsic_id",
    "log",
    "log10",
    "log1p",
    "log2",
    "logaddexp",
    "macro",
    "match_buffer",
    "max",
    "max_value",
    "meta_var",
    "min",
    "min_value",
    "nearbyint",
    "nextafter",
    "parallel",
    "popcount",
    "pow",
    "power",
    "prefetch",
    "prim_func",
    "ptr_byte_offset",
    "q_multiply_shift",
    "q_multiply_shift_per_axis",
    "ramp",
    "reads",
    "reinterpret",
    "ret",
    "round",
    "rsqrt",
    "sblock",
    "sblock_alloc_buffer",
    "sblock_attr",
    "serial",
    "shift_left",
    "shift_right",
    "sigmoid",
    "sin",
    "sinh",
    "sqrt",
    "tan",
    "tanh",
    "target",
    "thread_binding",
    "trunc",
    "truncdiv",
    "truncmod",
    "tvm_access_ptr",
    "tvm_call_cpacked",
    "tvm_call_cpacked_lowered",
    "tvm_call_packed",
    "tvm_call_packed_lowered",
    "tvm_stack_make_array",
    "tvm_stack_make_shape",
    "tvm_tuple",
    "type_annotation",
    "u16",
    "u32",
    "u64",
    "u8",
    "uint1",
    "uint16",
    "uint16x16",
    "uint16x2",
    "uint16x3",
    "uint16x32",
    "uint16x4",
    "uint16x64",
    "uint16x8",
    "uint32",
    "uint32x16",
    "uint32x2",
    "uint32x3",
    "uint32x32",
    "uint32x4",
    "uint32x64",
    "uint32x8",
    "uint64",
    "uint64x16",
    "uint64x2",
    "uint64x3",
    "uint64x32",
    "uint64x4",
    "uint64x64",
    "uint64x8",
    "uint8",
    "uint8x16",
    "uint8x2",
    "uint8x3",
    "uint8x32",
    "uint8x4",
    "uint8x64",
    "uint8x8",
    "undef",
    "unroll",
    "var",
    "vectorcombine",
    "vectorhigh",
    "vectorized",
    "vectorlow",
    "void",
    "watch_escape",
    "watch_iteration",
    "watch_loop",
    "watch_memory",
    "watch_read",
    "watch_start",
    "watch_write",
    "where",
    "writes",
]

_V = _TypeVar("_V")

def meta_var(value: _V) -> _V:
    """Return the value; in a program, a name assigned so stands for it during parsing."""

class _DType(  # pyright: ignore[reportGeneralTypeIssues]
    _b.type, _DTypeFunction
):
    """What dtypes are: types, for annotations, and functions that convert."""

def Add(a: _ExprLike, b: _ExprLike) -> _PrimExpr:
    """``a + b``."""

def And(a: _ExprLike, b: _ExprLike) -> _PrimExpr:
    """``a and b``; for scalars ``b`` is evaluated only where ``a`` holds."""

def BitwiseAnd(x: _ExprLike, y: _ExprLike) -> _PrimExpr:
    """Bits set in both."""

def BitwiseNot(x: _ExprLike) -> _PrimExpr:
    """Bits not set."""

def BitwiseOr(x: _ExprLike, y: _ExprLike) -> _PrimExpr:
    """Bits set in either."""

def BitwiseXor(x: _ExprLike, y: _ExprLike) -> _PrimExpr:
    """Bits set in exactly one."""

def Div(a: _ExprLike, b: _ExprLike) -> _PrimExpr:
    """``a / b``; truncates towards zero for integers."""

def EQ(a: _ExprLike, b: _ExprLike) -> _PrimExpr:
    """``a == b``; false where one is NaN."""

def FloorDiv(a: _ExprLike, b: _ExprLike) -> _PrimExpr:
    """``a / b`` rounded towards minus infinity."""

def FloorMod(a: _ExprLike, b: _ExprLike) -> _PrimExpr:
    """The remainder of ``FloorDiv``; takes the sign of ``b``."""

def GE(a: _ExprLike, b: _ExprLike) -> _PrimExpr:
    """``a >= b``."""

def GT(a: _ExprLike, b: _ExprLike) -> _PrimExpr:
    """``a > b``."""

def LE(a: _ExprLike, b: _ExprLike) -> _PrimExpr:
    """``a <= b``."""

def LShift(x: _ExprLike, y: _ExprLike) -> _PrimExpr:
    """X shifted up by y modulo its width."""

def LT(a: _ExprLike, b: _ExprLike) -> _PrimExpr:
    """``a < b``."""

def Max(a: _ExprLike, b: _ExprLike) -> _PrimExpr:
    """The larger operand; NaN where one is NaN."""

def Min(a: _ExprLike, b: _ExprLike) -> _PrimExpr:
    """The smaller operand; NaN where one is NaN."""

def Mul(a: _ExprLike, b: _ExprLike) -> _PrimExpr:
    """``a * b``."""

def NE(a: _ExprLike, b: _ExprLike) -> _PrimExpr:
    """``a != b``; true where one is NaN."""

def Or(a: _ExprLike, b: _ExprLike) -> _PrimExpr:
    """``a or b``; for scalars ``b`` is evaluated only where ``a`` does not hold."""

def RShift(x: _ExprLike, y: _ExprLike) -> _PrimExpr:
    """X shifted down by y modulo its width; keeps the sign."""

def Sub(a: _ExprLike, b: _ExprLike) -> _PrimExpr:
    """``a - b``."""

def abs(x: _ExprLike) -> _PrimExpr:
    """Magnitude; the smallest integer stays itself."""

def acos(x: _ExprLike) -> _PrimExpr:
    """Inverse cosine."""

def acosh(x: _ExprLike) -> _PrimExpr:
    """Inverse hyperbolic cosine."""

def asin(x: _ExprLike) -> _PrimExpr:
    """Inverse sine."""

def asinh(x: _ExprLike) -> _PrimExpr:
    """Inverse hyperbolic sine."""

def atan(x: _ExprLike) -> _PrimExpr:
    """Inverse tangent."""

def atan2(y: _ExprLike, x: _ExprLike) -> _PrimExpr:
    """Angle of the point (y, x)."""

def atanh(x: _ExprLike) -> _PrimExpr:
    """Inverse hyperbolic tangent."""

class bf16(_PrimExpr, metaclass=_DType):
    """The dtype bfloat16: as a function it makes a constant, casts, or declares a variable."""

    def __new__(
        cls, value: _ExprLike | _b.str | None = None, is_size_var: _b.bool = False
    ) -> bf16: ...

class bfloat16(_PrimExpr, metaclass=_DType):
    """The dtype bfloat16: as a function it makes a constant, casts, or declares a variable."""

    def __new__(
        cls, value: _ExprLike | _b.str | None = None, is_size_var: _b.bool = False
    ) -> bfloat16: ...

class bfloat16x16(_PrimExpr, metaclass=_DType):
    """The dtype bfloat16x16: as a function it makes a constant, casts, or declares a variable."""

    def __new__(
        cls, value: _ExprLike | _b.str | None = None, is_size_var: _b.bool = False
    ) -> bfloat16x16: ...

class bfloat16x2(_PrimExpr, metaclass=_DType):
    """The dtype bfloat16x2: as a function it makes a constant, casts, or declares a variable."""

    def __new__(
        cls, value: _ExprLike | _b.str | None = None, is_size_var: _b.bool = False
    ) -> bfloat16x2: ...

class bfloat16x3(_PrimExpr, metaclass=_DType):
    """The dtype bfloat16x3: as a function it makes a constant, casts, or declares a variable."""

    def __new__(
        cls, value: _ExprLike | _b.str | None = None, is_size_var: _b.bool = False
    ) -> bfloat16x3: ...

class bfloat16x32(_PrimExpr, metaclass=_DType):
    """The dtype bfloat16x32: as a function it makes a constant, casts, or declares a variable."""

    def __new__(
        cls, value: _ExprLike | _b.str | None = None, is_size_var: _b.bool = False
    ) -> bfloat16x32: ...

class bfloat16x4(_PrimExpr, metaclass=_DType):
    """The dtype bfloat16x4: as a function it makes a constant, casts, or declares a variable."""

    def __new__(
        cls, value: _ExprLike | _b.str | None = None, is_size_var: _b.bool = False
    ) -> bfloat16x4: ...

class bfloat16x64(_PrimExpr, metaclass=_DType):
    """The dtype bfloat16x64: as a function it makes a constant, casts, or declares a variable."""

    def __new__(
        cls, value: _ExprLike | _b.str | None = None, is_size_var: _b.bool = False
    ) -> bfloat16x64: ...

class bfloat16x8(_PrimExpr, metaclass=_DType):
    """The dtype bfloat16x8: as a function it makes a constant, casts, or declares a variable."""

    def __new__(
        cls, value: _ExprLike | _b.str | None = None, is_size_var: _b.bool = False
    ) -> bfloat16x8: ...

def bitwise_and(x: _ExprLike, y: _ExprLike) -> _PrimExpr:
    """Bits set in both."""

def bitwise_not(x: _ExprLike) -> _PrimExpr:
    """Bits not set."""

def bitwise_or(x: _ExprLike, y: _ExprLike) -> _PrimExpr:
    """Bits set in either."""

def bitwise_xor(x: _ExprLike, y: _ExprLike) -> _PrimExpr:
    """Bits set in exactly one."""

class bool(_PrimExpr, metaclass=_DType):
    """The dtype bool: as a function it makes a constant, casts, or declares a variable."""

    def __new__(
        cls, value: _ExprLike | _b.str | None = None, is_size_var: _b.bool = False
    ) -> bool: ...

class boolean(_PrimExpr, metaclass=_DType):
    """The dtype bool: as a function it makes a constant, casts, or declares a variable."""

    def __new__(
        cls, value: _ExprLike | _b.str | None = None, is_size_var: _b.bool = False
    ) -> boolean: ...

class boolx16(_PrimExpr, metaclass=_DType):
    """The dtype boolx16: as a function it makes a constant, casts, or declares a variable."""

    def __new__(
        cls, value: _ExprLike | _b.str | None = None, is_size_var: _b.bool = False
    ) -> boolx16: ...

class boolx2(_PrimExpr, metaclass=_DType):
    """The dtype boolx2: as a function it makes a constant, casts, or declares a variable."""

    def __new__(
        cls, value: _ExprLike | _b.str | None = None, is_size_var: _b.bool = False
    ) -> boolx2: ...

class boolx3(_PrimExpr, metaclass=_DType):
    """The dtype boolx3: as a function it makes a constant, casts, or declares a variable."""

    def __new__(
        cls, value: _ExprLike | _b.str | None = None, is_size_var: _b.bool = False
    ) -> boolx3: ...

class boolx32(_PrimExpr, metaclass=_DType):
    """The dtype boolx32: as a function it makes a constant, casts, or declares a variable."""

    def __new__(
        cls, value: _ExprLike | _b.str | None = None, is_size_var: _b.bool = False
    ) -> boolx32: ...

class boolx4(_PrimExpr, metaclass=_DType):
    """The dtype boolx4: as a function it makes a constant, casts, or declares a variable."""

    def __new__(
        cls, value: _ExprLike | _b.str | None = None, is_size_var: _b.bool = False
    ) -> boolx4: ...

class boolx64(_PrimExpr, metaclass=_DType):
    """The dtype boolx64: as a function it makes a constant, casts, or declares a variable."""

    def __new__(
        cls, value: _ExprLike | _b.str | None = None, is_size_var: _b.bool = False
    ) -> boolx64: ...

class boolx8(_PrimExpr, metaclass=_DType):
    """The dtype boolx8: as a function it makes a constant, casts, or declares a variable."""

    def __new__(
        cls, value: _ExprLike | _b.str | None = None, is_size_var: _b.bool = False
    ) -> boolx8: ...

def ceil(x: _ExprLike) -> _PrimExpr:
    """Round towards plus infinity."""

def check(*args: _ExprLike | _b.str) -> _PrimExpr:
    """The condition, or the error of a row of the fault table if it is false."""

def checked_index(index: _ExprLike, extent: _ExprLike, buffer: _ExprLike, axis: _ExprLike) -> _PrimExpr:
    """The index, or an error unless it is at least 0 and below the extent."""

def clz(x: _ExprLike) -> _PrimExpr:
    """Number of zero bits above the highest set bit."""

def copysign(x: _ExprLike, y: _ExprLike) -> _PrimExpr:
    """Magnitude of x with the sign of y."""

def cos(x: _ExprLike) -> _PrimExpr:
    """Cosine."""

def cosh(x: _ExprLike) -> _PrimExpr:
    """Hyperbolic cosine."""

def div(a: _ExprLike, b: _ExprLike) -> _PrimExpr:
    """``a / b``; truncates towards zero for integers."""

def erf(x: _ExprLike) -> _PrimExpr:
    """Error function."""

def exp(x: _ExprLike) -> _PrimExpr:
    """E to the power x."""

def exp10(x: _ExprLike) -> _PrimExpr:
    """10 to the power x."""

def exp2(x: _ExprLike) -> _PrimExpr:
    """2 to the power x."""

class f16(_PrimExpr, metaclass=_DType):
    """The dtype float16: as a function it makes a constant, casts, or declares a variable."""

    def __new__(
        cls, value: _ExprLike | _b.str | None = None, is_size_var: _b.bool = False
    ) -> f16: ...

class f32(_PrimExpr, metaclass=_DType):
    """The dtype float32: as a function it makes a constant, casts, or declares a variable."""

    def __new__(
        cls, value: _ExprLike | _b.str | None = None, is_size_var: _b.bool = False
    ) -> f32: ...

class f64(_PrimExpr, metaclass=_DType):
    """The dtype float64: as a function it makes a constant, casts, or declares a variable."""

    def __new__(
        cls, value: _ExprLike | _b.str | None = None, is_size_var: _b.bool = False
    ) -> f64: ...

def fabs(x: _ExprLike) -> _PrimExpr:
    """Magnitude; the smallest integer stays itself."""

class float16(_PrimExpr, metaclass=_DType):
    """The dtype float16: as a function it makes a constant, casts, or declares a variable."""

    def __new__(
        cls, value: _ExprLike | _b.str | None = None, is_size_var: _b.bool = False
    ) -> float16: ...

class float16x16(_PrimExpr, metaclass=_DType):
    """The dtype float16x16: as a function it makes a constant, casts, or declares a variable."""

    def __new__(
        cls, value: _ExprLike | _b.str | None = None, is_size_var: _b.bool = False
    ) -> float16x16: ...

class float16x2(_PrimExpr, metaclass=_DType):
    """The dtype float16x2: as a function it makes a constant, casts, or declares a variable."""

    def __new__(
        cls, value: _ExprLike | _b.str | None = None, is_size_var: _b.bool = False
    ) -> float16x2: ...

class float16x3(_PrimExpr, metaclass=_DType):
    """The dtype float16x3: as a function it makes a constant, casts, or declares a variable."""

    def __new__(
        cls, value: _ExprLike | _b.str | None = None, is_size_var: _b.bool = False
    ) -> float16x3: ...

class float16x32(_PrimExpr, metaclass=_DType):
    """The dtype float16x32: as a function it makes a constant, casts, or declares a variable."""

    def __new__(
        cls, value: _ExprLike | _b.str | None = None, is_size_var: _b.bool = False
    ) -> float16x32: ...

class float16x4(_PrimExpr, metaclass=_DType):
    """The dtype float16x4: as a function it makes a constant, casts, or declares a variable."""

    def __new__(
        cls, value: _ExprLike | _b.str | None = None, is_size_var: _b.bool = False
    ) -> float16x4: ...

class float16x64(_PrimExpr, metaclass=_DType):
    """The dtype float16x64: as a function it makes a constant, casts, or declares a variable."""

    def __new__(
        cls, value: _ExprLike | _b.str | None = None, is_size_var: _b.bool = False
    ) -> float16x64: ...

class float16x8(_PrimExpr, metaclass=_DType):
    """The dtype float16x8: as a function it makes a constant, casts, or declares a variable."""

    def __new__(
        cls, value: _ExprLike | _b.str | None = None, is_size_var: _b.bool = False
    ) -> float16x8: ...

class float32(_PrimExpr, metaclass=_DType):
    """The dtype float32: as a function it makes a constant, casts, or declares a variable."""

    def __new__(
        cls, value: _ExprLike | _b.str | None = None, is_size_var: _b.bool = False
    ) -> float32: ...

class float32x16(_PrimExpr, metaclass=_DType):
    """The dtype float32x16: as a function it makes a constant, casts, or declares a variable."""

    def __new__(
        cls, value: _ExprLike | _b.str | None = None, is_size_var: _b.bool = False
    ) -> float32x16: ...

class float32x2(_PrimExpr, metaclass=_DType):
    """The dtype float32x2: as a function it makes a constant, casts, or declares a variable."""

    def __new__(
        cls, value: _ExprLike | _b.str | None = None, is_size_var: _b.bool = False
    ) -> float32x2: ...

class float32x3(_PrimExpr, metaclass=_DType):
    """The dtype float32x3: as a function it makes a constant, casts, or declares a variable."""

    def __new__(
        cls, value: _ExprLike | _b.str | None = None, is_size_var: _b.bool = False
    ) -> float32x3: ...

class float32x32(_PrimExpr, metaclass=_DType):
    """The dtype float32x32: as a function it makes a constant, casts, or declares a variable."""

    def __new__(
        cls, value: _ExprLike | _b.str | None = None, is_size_var: _b.bool = False
    ) -> float32x32: ...

class float32x4(_PrimExpr, metaclass=_DType):
    """The dtype float32x4: as a function it makes a constant, casts, or declares a variable."""

    def __new__(
        cls, value: _ExprLike | _b.str | None = None, is_size_var: _b.bool = False
    ) -> float32x4: ...

class float32x64(_PrimExpr, metaclass=_DType):
    """The dtype float32x64: as a function it makes a constant, casts, or declares a variable."""

    def __new__(
        cls, value: _ExprLike | _b.str | None = None, is_size_var: _b.bool = False
    ) -> float32x64: ...

class float32x8(_PrimExpr, metaclass=_DType):
    """The dtype float32x8: as a function it makes a constant, casts, or declares a variable."""

    def __new__(
        cls, value: _ExprLike | _b.str | None = None, is_size_var: _b.bool = False
    ) -> float32x8: ...

class float64(_PrimExpr, metaclass=_DType):
    """The dtype float64: as a function it makes a constant, casts, or declares a variable."""

    def __new__(
        cls, value: _ExprLike | _b.str | None = None, is_size_var: _b.bool = False
    ) -> float64: ...

class float64x16(_PrimExpr, metaclass=_DType):
    """The dtype float64x16: as a function it makes a constant, casts, or declares a variable."""

    def __new__(
        cls, value: _ExprLike | _b.str | None = None, is_size_var: _b.bool = False
    ) -> float64x16: ...

class float64x2(_PrimExpr, metaclass=_DType):
    """The dtype float64x2: as a function it makes a constant, casts, or declares a variable."""

    def __new__(
        cls, value: _ExprLike | _b.str | None = None, is_size_var: _b.bool = False
    ) -> float64x2: ...

class float64x3(_PrimExpr, metaclass=_DType):
    """The dtype float64x3: as a function it makes a constant, casts, or declares a variable."""

    def __new__(
        cls, value: _ExprLike | _b.str | None = None, is_size_var: _b.bool = False
    ) -> float64x3: ...

class float64x32(_PrimExpr, metaclass=_DType):
    """The dtype float64x32: as a function it makes a constant, casts, or declares a variable."""

    def __new__(
        cls, value: _ExprLike | _b.str | None = None, is_size_var: _b.bool = False
    ) -> float64x32: ...

class float64x4(_PrimExpr, metaclass=_DType):
    """The dtype float64x4: as a function it makes a constant, casts, or declares a variable."""

    def __new__(
        cls, value: _ExprLike | _b.str | None = None, is_size_var: _b.bool = False
    ) -> float64x4: ...

class float64x64(_PrimExpr, metaclass=_DType):
    """The dtype float64x64: as a function it makes a constant, casts, or declares a variable."""

    def __new__(
        cls, value: _ExprLike | _b.str | None = None, is_size_var: _b.bool = False
    ) -> float64x64: ...

class float64x8(_PrimExpr, metaclass=_DType):
    """The dtype float64x8: as a function it makes a constant, casts, or declares a variable."""

    def __new__(
        cls, value: _ExprLike | _b.str | None = None, is_size_var: _b.bool = False
    ) -> float64x8: ...

def floor(x: _ExprLike) -> _PrimExpr:
    """Round towards minus infinity."""

def floordiv(a: _ExprLike, b: _ExprLike) -> _PrimExpr:
    """``a / b`` rounded towards minus infinity."""

def floormod(a: _ExprLike, b: _ExprLike) -> _PrimExpr:
    """The remainder of ``FloorDiv``; takes the sign of ``b``."""

def fma(a: _ExprLike, b: _ExprLike, c: _ExprLike) -> _PrimExpr:
    """A * b + c, rounded once."""

def fmod(x: _ExprLike, y: _ExprLike) -> _PrimExpr:
    """Remainder of x / y truncated, with the sign of x."""

class handle(_Var, metaclass=_DType):
    """A pointer; ``T.handle("float32", "global")`` one to elements of a dtype."""

    def __new__(
        cls, dtype: _DTypeLike | _PrimExpr | None = None, storage_scope: _b.str = "global"
    ) -> handle: ...
    def __init__(
        self, dtype: _DTypeLike | _PrimExpr | None = None, storage_scope: _b.str = "global"
    ) -> None: ...

def hypot(x: _ExprLike, y: _ExprLike) -> _PrimExpr:
    """Square root of x*x + y*y, without overflow."""

class i16(_PrimExpr, metaclass=_DType):
    """The dtype int16: as a function it makes a constant, casts, or declares a variable."""

    def __new__(
        cls, value: _ExprLike | _b.str | None = None, is_size_var: _b.bool = False
    ) -> i16: ...

class i32(_PrimExpr, metaclass=_DType):
    """The dtype int32: as a function it makes a constant, casts, or declares a variable."""

    def __new__(
        cls, value: _ExprLike | _b.str | None = None, is_size_var: _b.bool = False
    ) -> i32: ...

class i64(_PrimExpr, metaclass=_DType):
    """The dtype int64: as a function it makes a constant, casts, or declares a variable."""

    def __new__(
        cls, value: _ExprLike | _b.str | None = None, is_size_var: _b.bool = False
    ) -> i64: ...

class i8(_PrimExpr, metaclass=_DType):
    """The dtype int8: as a function it makes a constant, casts, or declares a variable."""

    def __new__(
        cls, value: _ExprLike | _b.str | None = None, is_size_var: _b.bool = False
    ) -> i8: ...

def indexdiv(a: _ExprLike, b: _ExprLike) -> _PrimExpr:
    """``a / b`` rounded towards minus infinity."""

def indexmod(a: _ExprLike, b: _ExprLike) -> _PrimExpr:
    """The remainder of ``FloorDiv``; takes the sign of ``b``."""

class int16(_PrimExpr, metaclass=_DType):
    """The dtype int16: as a function it makes a constant, casts, or declares a variable."""

    def __new__(
        cls, value: _ExprLike | _b.str | None = None, is_size_var: _b.bool = False
    ) -> int16: ...

class int16x16(_PrimExpr, metaclass=_DType):
    """The dtype int16x16: as a function it makes a constant, casts, or declares a variable."""

    def __new__(
        cls, value: _ExprLike | _b.str | None = None, is_size_var: _b.bool = False
    ) -> int16x16: ...

class int16x2(_PrimExpr, metaclass=_DType):
    """The dtype int16x2: as a function it makes a constant, casts, or declares a variable."""

    def __new__(
        cls, value: _ExprLike | _b.str | None = None, is_size_var: _b.bool = False
    ) -> int16x2: ...

class int16x3(_PrimExpr, metaclass=_DType):
    """The dtype int16x3: as a function it makes a constant, casts, or declares a variable."""

    def __new__(
        cls, value: _ExprLike | _b.str | None = None, is_size_var: _b.bool = False
    ) -> int16x3: ...

class int16x32(_PrimExpr, metaclass=_DType):
    """The dtype int16x32: as a function it makes a constant, casts, or declares a variable."""

    def __new__(
        cls, value: _ExprLike | _b.str | None = None, is_size_var: _b.bool = False
    ) -> int16x32: ...

class int16x4(_PrimExpr, metaclass=_DType):
    """The dtype int16x4: as a function it makes a constant, casts, or declares a variable."""

    def __new__(
        cls, value: _ExprLike | _b.str | None = None, is_size_var: _b.bool = False
    ) -> int16x4: ...

class int16x64(_PrimExpr, metaclass=_DType):
    """The dtype int16x64: as a function it makes a constant, casts, or declares a variable."""

    def __new__(
        cls, value: _ExprLike | _b.str | None = None, is_size_var: _b.bool = False
    ) -> int16x64: ...

class int16x8(_PrimExpr, metaclass=_DType):
    """The dtype int16x8: as a function it makes a constant, casts, or declares a variable."""

    def __new__(
        cls, value: _ExprLike | _b.str | None = None, is_size_var: _b.bool = False
    ) -> int16x8: ...

class int32(_PrimExpr, metaclass=_DType):
    """The dtype int32: as a function it makes a constant, casts, or declares a variable."""

    def __new__(
        cls, value: _ExprLike | _b.str | None = None, is_size_var: _b.bool = False
    ) -> int32: ...

class int32x16(_PrimExpr, metaclass=_DType):
    """The dtype int32x16: as a function it makes a constant, casts, or declares a variable."""

    def __new__(
        cls, value: _ExprLike | _b.str | None = None, is_size_var: _b.bool = False
    ) -> int32x16: ...

class int32x2(_PrimExpr, metaclass=_DType):
    """The dtype int32x2: as a function it makes a constant, casts, or declares a variable."""

    def __new__(
        cls, value: _ExprLike | _b.str | None = None, is_size_var: _b.bool = False
    ) -> int32x2: ...

class int32x3(_PrimExpr, metaclass=_DType):
    """The dtype int32x3: as a function it makes a constant, casts, or declares a variable."""

    def __new__(
        cls, value: _ExprLike | _b.str | None = None, is_size_var: _b.bool = False
    ) -> int32x3: ...

class int32x32(_PrimExpr, metaclass=_DType):
    """The dtype int32x32: as a function it makes a constant, casts, or declares a variable."""

    def __new__(
        cls, value: _ExprLike | _b.str | None = None, is_size_var: _b.bool = False
    ) -> int32x32: ...

class int32x4(_PrimExpr, metaclass=_DType):
    """The dtype int32x4: as a function it makes a constant, casts, or declares a variable."""

    def __new__(
        cls, value: _ExprLike | _b.str | None = None, is_size_var: _b.bool = False
    ) -> int32x4: ...

class int32x64(_PrimExpr, metaclass=_DType):
    """The dtype int32x64: as a function it makes a constant, casts, or declares a variable."""

    def __new__(
        cls, value: _ExprLike | _b.str | None = None, is_size_var: _b.bool = False
    ) -> int32x64: ...

class int32x8(_PrimExpr, metaclass=_DType):
    """The dtype int32x8: as a function it makes a constant, casts, or declares a variable."""

    def __new__(
        cls, value: _ExprLike | _b.str | None = None, is_size_var: _b.bool = False
    ) -> int32x8: ...

class int64(_PrimExpr, metaclass=_DType):
    """The dtype int64: as a function it makes a constant, casts, or declares a variable."""

    def __new__(
        cls, value: _ExprLike | _b.str | None = None, is_size_var: _b.bool = False
    ) -> int64: ...

class int64x16(_PrimExpr, metaclass=_DType):
    """The dtype int64x16: as a function it makes a constant, casts, or declares a variable."""

    def __new__(
        cls, value: _ExprLike | _b.str | None = None, is_size_var: _b.bool = False
    ) -> int64x16: ...

class int64x2(_PrimExpr, metaclass=_DType):
    """The dtype int64x2: as a function it makes a constant, casts, or declares a variable."""

    def __new__(
        cls, value: _ExprLike | _b.str | None = None, is_size_var: _b.bool = False
    ) -> int64x2: ...

class int64x3(_PrimExpr, metaclass=_DType):
    """The dtype int64x3: as a function it makes a constant, casts, or declares a variable."""

    def __new__(
        cls, value: _ExprLike | _b.str | None = None, is_size_var: _b.bool = False
    ) -> int64x3: ...

class int64x32(_PrimExpr, metaclass=_DType):
    """The dtype int64x32: as a function it makes a constant, casts, or declares a variable."""

    def __new__(
        cls, value: _ExprLike | _b.str | None = None, is_size_var: _b.bool = False
    ) -> int64x32: ...

class int64x4(_PrimExpr, metaclass=_DType):
    """The dtype int64x4: as a function it makes a constant, casts, or declares a variable."""

    def __new__(
        cls, value: _ExprLike | _b.str | None = None, is_size_var: _b.bool = False
    ) -> int64x4: ...

class int64x64(_PrimExpr, metaclass=_DType):
    """The dtype int64x64: as a function it makes a constant, casts, or declares a variable."""

    def __new__(
        cls, value: _ExprLike | _b.str | None = None, is_size_var: _b.bool = False
    ) -> int64x64: ...

class int64x8(_PrimExpr, metaclass=_DType):
    """The dtype int64x8: as a function it makes a constant, casts, or declares a variable."""

    def __new__(
        cls, value: _ExprLike | _b.str | None = None, is_size_var: _b.bool = False
    ) -> int64x8: ...

class int8(_PrimExpr, metaclass=_DType):
    """The dtype int8: as a function it makes a constant, casts, or declares a variable."""

    def __new__(
        cls, value: _ExprLike | _b.str | None = None, is_size_var: _b.bool = False
    ) -> int8: ...

class int8x16(_PrimExpr, metaclass=_DType):
    """The dtype int8x16: as a function it makes a constant, casts, or declares a variable."""

    def __new__(
        cls, value: _ExprLike | _b.str | None = None, is_size_var: _b.bool = False
    ) -> int8x16: ...

class int8x2(_PrimExpr, metaclass=_DType):
    """The dtype int8x2: as a function it makes a constant, casts, or declares a variable."""

    def __new__(
        cls, value: _ExprLike | _b.str | None = None, is_size_var: _b.bool = False
    ) -> int8x2: ...

class int8x3(_PrimExpr, metaclass=_DType):
    """The dtype int8x3: as a function it makes a constant, casts, or declares a variable."""

    def __new__(
        cls, value: _ExprLike | _b.str | None = None, is_size_var: _b.bool = False
    ) -> int8x3: ...

class int8x32(_PrimExpr, metaclass=_DType):
    """The dtype int8x32: as a function it makes a constant, casts, or declares a variable."""

    def __new__(
        cls, value: _ExprLike | _b.str | None = None, is_size_var: _b.bool = False
    ) -> int8x32: ...

class int8x4(_PrimExpr, metaclass=_DType):
    """The dtype int8x4: as a function it makes a constant, casts, or declares a variable."""

    def __new__(
        cls, value: _ExprLike | _b.str | None = None, is_size_var: _b.bool = False
    ) -> int8x4: ...

class int8x64(_PrimExpr, metaclass=_DType):
    """The dtype int8x64: as a function it makes a constant, casts, or declares a variable."""

    def __new__(
        cls, value: _ExprLike | _b.str | None = None, is_size_var: _b.bool = False
    ) -> int8x64: ...

class int8x8(_PrimExpr, metaclass=_DType):
    """The dtype int8x8: as a function it makes a constant, casts, or declares a variable."""

    def __new__(
        cls, value: _ExprLike | _b.str | None = None, is_size_var: _b.bool = False
    ) -> int8x8: ...

def isfinite(x: _ExprLike) -> _PrimExpr:
    """Whether x is neither infinite nor NaN."""

def isinf(x: _ExprLike) -> _PrimExpr:
    """Whether x is plus or minus infinity."""

def isnan(x: _ExprLike) -> _PrimExpr:
    """Whether x is NaN."""

def likely(x: _ExprLike) -> _PrimExpr:
    """X, expected to hold."""

def log(x: _ExprLike) -> _PrimExpr:
    """Natural logarithm."""

def log10(x: _ExprLike) -> _PrimExpr:
    """Logarithm to base 10."""

def log1p(x: _ExprLike) -> _PrimExpr:
    """Natural logarithm of 1 + x, exact near 0."""

def log2(x: _ExprLike) -> _PrimExpr:
    """Logarithm to base 2."""

def max(a: _ExprLike, b: _ExprLike) -> _PrimExpr:
    """The larger operand; NaN where one is NaN."""

def min(a: _ExprLike, b: _ExprLike) -> _PrimExpr:
    """The smaller operand; NaN where one is NaN."""

def nearbyint(x: _ExprLike) -> _PrimExpr:
    """Round to nearest, halves to even."""

def nextafter(x: _ExprLike, y: _ExprLike) -> _PrimExpr:
    """The next representable value from x towards y."""

def popcount(x: _ExprLike) -> _PrimExpr:
    """Number of bits set."""

def round(x: _ExprLike) -> _PrimExpr:
    """Round to nearest, halves to even."""

def rsqrt(x: _ExprLike) -> _PrimExpr:
    """Reciprocal of the square root."""

def shift_left(x: _ExprLike, y: _ExprLike) -> _PrimExpr:
    """X shifted up by y modulo its width."""

def shift_right(x: _ExprLike, y: _ExprLike) -> _PrimExpr:
    """X shifted down by y modulo its width; keeps the sign."""

def sigmoid(x: _ExprLike) -> _PrimExpr:
    """1 / (1 + exp(-x))."""

def sin(x: _ExprLike) -> _PrimExpr:
    """Sine."""

def sinh(x: _ExprLike) -> _PrimExpr:
    """Hyperbolic sine."""

def sqrt(x: _ExprLike) -> _PrimExpr:
    """Square root, correctly rounded."""

def tan(x: _ExprLike) -> _PrimExpr:
    """Tangent."""

def tanh(x: _ExprLike) -> _PrimExpr:
    """Hyperbolic tangent."""

def trunc(x: _ExprLike) -> _PrimExpr:
    """Round towards zero."""

def truncdiv(a: _ExprLike, b: _ExprLike) -> _PrimExpr:
    """``a / b``; truncates towards zero for integers."""

def tvm_stack_make_array(data: _ExprLike, shape: _ExprLike, strides: _ExprLike, ndim: _ExprLike, element: _ExprLike, elem_offset: _ExprLike) -> _PrimExpr:
    """An array argument for a call: data, shape, strides, rank, an element, offset."""

def tvm_stack_make_shape(*args: _ExprLike | _b.str) -> _PrimExpr:
    """A shape for a call."""

class u16(_PrimExpr, metaclass=_DType):
    """The dtype uint16: as a function it makes a constant, casts, or declares a variable."""

    def __new__(
        cls, value: _ExprLike | _b.str | None = None, is_size_var: _b.bool = False
    ) -> u16: ...

class u32(_PrimExpr, metaclass=_DType):
    """The dtype uint32: as a function it makes a constant, casts, or declares a variable."""

    def __new__(
        cls, value: _ExprLike | _b.str | None = None, is_size_var: _b.bool = False
    ) -> u32: ...

class u64(_PrimExpr, metaclass=_DType):
    """The dtype uint64: as a function it makes a constant, casts, or declares a variable."""

    def __new__(
        cls, value: _ExprLike | _b.str | None = None, is_size_var: _b.bool = False
    ) -> u64: ...

class u8(_PrimExpr, metaclass=_DType):
    """The dtype uint8: as a function it makes a constant, casts, or declares a variable."""

    def __new__(
        cls, value: _ExprLike | _b.str | None = None, is_size_var: _b.bool = False
    ) -> u8: ...

class uint1(_PrimExpr, metaclass=_DType):
    """The dtype bool: as a function it makes a constant, casts, or declares a variable."""

    def __new__(
        cls, value: _ExprLike | _b.str | None = None, is_size_var: _b.bool = False
    ) -> uint1: ...

class uint16(_PrimExpr, metaclass=_DType):
    """The dtype uint16: as a function it makes a constant, casts, or declares a variable."""

    def __new__(
        cls, value: _ExprLike | _b.str | None = None, is_size_var: _b.bool = False
    ) -> uint16: ...

class uint16x16(_PrimExpr, metaclass=_DType):
    """The dtype uint16x16: as a function it makes a constant, casts, or declares a variable."""

    def __new__(
        cls, value: _ExprLike | _b.str | None = None, is_size_var: _b.bool = False
    ) -> uint16x16: ...

class uint16x2(_PrimExpr, metaclass=_DType):
    """The dtype uint16x2: as a function it makes a constant, casts, or declares a variable."""

    def __new__(
        cls, value: _ExprLike | _b.str | None = None, is_size_var: _b.bool = False
    ) -> uint16x2: ...

class uint16x3(_PrimExpr, metaclass=_DType):
    """The dtype uint16x3: as a function it makes a constant, casts, or declares a variable."""

    def __new__(
        cls, value: _ExprLike | _b.str | None = None, is_size_var: _b.bool = False
    ) -> uint16x3: ...

class uint16x32(_PrimExpr, metaclass=_DType):
    """The dtype uint16x32: as a function it makes a constant, casts, or declares a variable."""

    def __new__(
        cls, value: _ExprLike | _b.str | None = None, is_size_var: _b.bool = False
    ) -> uint16x32: ...

class uint16x4(_PrimExpr, metaclass=_DType):
    """The dtype uint16x4: as a function it makes a constant, casts, or declares a variable."""

    def __new__(
        cls, value: _ExprLike | _b.str | None = None, is_size_var: _b.bool = False
    ) -> uint16x4: ...

class uint16x64(_PrimExpr, metaclass=_DType):
    """The dtype uint16x64: as a function it makes a constant, casts, or declares a variable."""

    def __new__(
        cls, value: _ExprLike | _b.str | None = None, is_size_var: _b.bool = False
    ) -> uint16x64: ...

class uint16x8(_PrimExpr, metaclass=_DType):
    """The dtype uint16x8: as a function it makes a constant, casts, or declares a variable."""

    def __new__(
        cls, value: _ExprLike | _b.str | None = None, is_size_var: _b.bool = False
    ) -> uint16x8: ...

class uint32(_PrimExpr, metaclass=_DType):
    """The dtype uint32: as a function it makes a constant, casts, or declares a variable."""

    def __new__(
        cls, value: _ExprLike | _b.str | None = None, is_size_var: _b.bool = False
    ) -> uint32: ...

class uint32x16(_PrimExpr, metaclass=_DType):
    """The dtype uint32x16: as a function it makes a constant, casts, or declares a variable."""

    def __new__(
        cls, value: _ExprLike | _b.str | None = None, is_size_var: _b.bool = False
    ) -> uint32x16: ...

class uint32x2(_PrimExpr, metaclass=_DType):
    """The dtype uint32x2: as a function it makes a constant, casts, or declares a variable."""

    def __new__(
        cls, value: _ExprLike | _b.str | None = None, is_size_var: _b.bool = False
    ) -> uint32x2: ...

class uint32x3(_PrimExpr, metaclass=_DType):
    """The dtype uint32x3: as a function it makes a constant, casts, or declares a variable."""

    def __new__(
        cls, value: _ExprLike | _b.str | None = None, is_size_var: _b.bool = False
    ) -> uint32x3: ...

class uint32x32(_PrimExpr, metaclass=_DType):
    """The dtype uint32x32: as a function it makes a constant, casts, or declares a variable."""

    def __new__(
        cls, value: _ExprLike | _b.str | None = None, is_size_var: _b.bool = False
    ) -> uint32x32: ...

class uint32x4(_PrimExpr, metaclass=_DType):
    """The dtype uint32x4: as a function it makes a constant, casts, or declares a variable."""

    def __new__(
        cls, value: _ExprLike | _b.str | None = None, is_size_var: _b.bool = False
    ) -> uint32x4: ...

class uint32x64(_PrimExpr, metaclass=_DType):
    """The dtype uint32x64: as a function it makes a constant, casts, or declares a variable."""

    def __new__(
        cls, value: _ExprLike | _b.str | None = None, is_size_var: _b.bool = False
    ) -> uint32x64: ...

class uint32x8(_PrimExpr, metaclass=_DType):
    """The dtype uint32x8: as a function it makes a constant, casts, or declares a variable."""

    def __new__(
        cls, value: _ExprLike | _b.str | None = None, is_size_var: _b.bool = False
    ) -> uint32x8: ...

class uint64(_PrimExpr, metaclass=_DType):
    """The dtype uint64: as a function it makes a constant, casts, or declares a variable."""

    def __new__(
        cls, value: _ExprLike | _b.str | None = None, is_size_var: _b.bool = False
    ) -> uint64: ...

class uint64x16(_PrimExpr, metaclass=_DType):
    """The dtype uint64x16: as a function it makes a constant, casts, or declares a variable."""

    def __new__(
        cls, value: _ExprLike | _b.str | None = None, is_size_var: _b.bool = False
    ) -> uint64x16: ...

class uint64x2(_PrimExpr, metaclass=_DType):
    """The dtype uint64x2: as a function it makes a constant, casts, or declares a variable."""

    def __new__(
        cls, value: _ExprLike | _b.str | None = None, is_size_var: _b.bool = False
    ) -> uint64x2: ...

class uint64x3(_PrimExpr, metaclass=_DType):
    """The dtype uint64x3: as a function it makes a constant, casts, or declares a variable."""

    def __new__(
        cls, value: _ExprLike | _b.str | None = None, is_size_var: _b.bool = False
    ) -> uint64x3: ...

class uint64x32(_PrimExpr, metaclass=_DType):
    """The dtype uint64x32: as a function it makes a constant, casts, or declares a variable."""

    def __new__(
        cls, value: _ExprLike | _b.str | None = None, is_size_var: _b.bool = False
    ) -> uint64x32: ...

class uint64x4(_PrimExpr, metaclass=_DType):
    """The dtype uint64x4: as a function it makes a constant, casts, or declares a variable."""

    def __new__(
        cls, value: _ExprLike | _b.str | None = None, is_size_var: _b.bool = False
    ) -> uint64x4: ...

class uint64x64(_PrimExpr, metaclass=_DType):
    """The dtype uint64x64: as a function it makes a constant, casts, or declares a variable."""

    def __new__(
        cls, value: _ExprLike | _b.str | None = None, is_size_var: _b.bool = False
    ) -> uint64x64: ...

class uint64x8(_PrimExpr, metaclass=_DType):
    """The dtype uint64x8: as a function it makes a constant, casts, or declares a variable."""

    def __new__(
        cls, value: _ExprLike | _b.str | None = None, is_size_var: _b.bool = False
    ) -> uint64x8: ...

class uint8(_PrimExpr, metaclass=_DType):
    """The dtype uint8: as a function it makes a constant, casts, or declares a variable."""

    def __new__(
        cls, value: _ExprLike | _b.str | None = None, is_size_var: _b.bool = False
    ) -> uint8: ...

class uint8x16(_PrimExpr, metaclass=_DType):
    """The dtype uint8x16: as a function it makes a constant, casts, or declares a variable."""

    def __new__(
        cls, value: _ExprLike | _b.str | None = None, is_size_var: _b.bool = False
    ) -> uint8x16: ...

class uint8x2(_PrimExpr, metaclass=_DType):
    """The dtype uint8x2: as a function it makes a constant, casts, or declares a variable."""

    def __new__(
        cls, value: _ExprLike | _b.str | None = None, is_size_var: _b.bool = False
    ) -> uint8x2: ...

class uint8x3(_PrimExpr, metaclass=_DType):
    """The dtype uint8x3: as a function it makes a constant, casts, or declares a variable."""

    def __new__(
        cls, value: _ExprLike | _b.str | None = None, is_size_var: _b.bool = False
    ) -> uint8x3: ...

class uint8x32(_PrimExpr, metaclass=_DType):
    """The dtype uint8x32: as a function it makes a constant, casts, or declares a variable."""

    def __new__(
        cls, value: _ExprLike | _b.str | None = None, is_size_var: _b.bool = False
    ) -> uint8x32: ...

class uint8x4(_PrimExpr, metaclass=_DType):
    """The dtype uint8x4: as a function it makes a constant, casts, or declares a variable."""

    def __new__(
        cls, value: _ExprLike | _b.str | None = None, is_size_var: _b.bool = False
    ) -> uint8x4: ...

class uint8x64(_PrimExpr, metaclass=_DType):
    """The dtype uint8x64: as a function it makes a constant, casts, or declares a variable."""

    def __new__(
        cls, value: _ExprLike | _b.str | None = None, is_size_var: _b.bool = False
    ) -> uint8x64: ...

class uint8x8(_PrimExpr, metaclass=_DType):
    """The dtype uint8x8: as a function it makes a constant, casts, or declares a variable."""

    def __new__(
        cls, value: _ExprLike | _b.str | None = None, is_size_var: _b.bool = False
    ) -> uint8x8: ...

class void(_PrimExpr, metaclass=_DType):
    """The dtype void: as a function it makes a constant, casts, or declares a variable."""

    def __new__(
        cls, value: _ExprLike | _b.str | None = None, is_size_var: _b.bool = False
    ) -> void: ...

def watch_escape(memory: _ExprLike) -> _PrimExpr:
    """Marks memory that may now be written unwatched."""

def watch_iteration(loop: _ExprLike, number: _ExprLike) -> _PrimExpr:
    """Begin an iteration of a loop."""

def watch_loop(words: _ExprLike, around: _ExprLike) -> _PrimExpr:
    """The given words, initialised to describe a loop."""

def watch_memory(words: _ExprLike, data: _ExprLike, start: _ExprLike, bytes: _ExprLike, granule: _ExprLike, stamps: _ExprLike, marks: _ExprLike) -> _PrimExpr:
    """The given words, initialised to describe memory: data, start, bytes, granule, stamps, marks."""

def watch_read(*args: _ExprLike | _b.str) -> _PrimExpr:
    """A load's value, or an error: its memory, enclosing loop, buffer, indices."""

def watch_start(words: _ExprLike) -> _PrimExpr:
    """The given words, initialised to count iterations."""

def watch_write(*args: _ExprLike | _b.str) -> _PrimExpr:
    """Checks a store, or raises an error."""
