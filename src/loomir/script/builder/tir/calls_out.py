"""Functions of ``T`` that call code outside of the program."""

from __future__ import annotations

from typing import Any

from loomir.ir.op import Op
from loomir.script.builder.arguments import (
    as_dtype,
    as_expr,
    as_exprs,
    as_stored,
    as_text,
)
from loomir.script.builder.dtypes import DTypeLike
from loomir.script.builder.mistakes import mistake, wrong_argument
from loomir.support.diagnostics import CompileError, nearest
from loomir.support.dtype import DataType
from loomir.tir.buffer import Buffer
from loomir.tir.builtins.calls import (
    CALL_CPACKED,
    CALL_EXTERN,
    CALL_PACKED,
    CALL_PURE_EXTERN,
    OUTSIDE,
    call_outside,
)
from loomir.tir.builtins.llvm_intrinsics import (
    CALL_LLVM_INTRIN,
    CALL_LLVM_PURE_INTRIN,
    LLVM,
    call_llvm,
)
from loomir.tir.builtins.table import BUILTINS, call_builtin
from loomir.tir.expr import Call, ExprLike, IntImm, PrimExpr, StringImm, const

__all__ = [
    "call_cpacked",
    "call_cpacked_lowered",
    "call_extern",
    "call_intrin",
    "call_llvm_intrin",
    "call_llvm_pure_intrin",
    "call_packed",
    "call_packed_lowered",
    "call_pure_extern",
    "llvm_lookup_intrinsic_id",
    "tvm_call_cpacked",
    "tvm_call_cpacked_lowered",
    "tvm_call_packed",
    "tvm_call_packed_lowered",
]


def call_packed(
    name: str, *args: ExprLike | Buffer | str | None, dtype: DTypeLike = "int32"
) -> PrimExpr:
    """Call the function registered as ``name``; a buffer is passed whole.

    As a statement, what it returns is dropped; else it must fit ``dtype``.
    """
    return _call_packed(CALL_PACKED, name, args, dtype)


def call_cpacked(
    name: str, *args: ExprLike | Buffer | str | None, dtype: DTypeLike = "int32"
) -> PrimExpr:
    """Call the C function ``name``, which follows the calling convention of packed functions."""
    return _call_packed(CALL_CPACKED, name, args, dtype)


def call_extern(*given: Any, dtype: DTypeLike | None = None) -> PrimExpr:
    """Call a C function, as in ``T.call_extern("float64", "cbrt", x)``.

    Without a dtype it gives an int32. A buffer is passed as the address of its data.
    """
    return _extern(CALL_EXTERN, given, dtype)


def call_pure_extern(*given: Any, dtype: DTypeLike | None = None) -> PrimExpr:
    """Call a C function that does nothing but give a value; forms as ``T.call_extern``."""
    return _extern(CALL_PURE_EXTERN, given, dtype)


def _extern(op: Op, given: tuple[Any, ...], dtype: DTypeLike | None) -> Call:
    """Read ``dtype, name, *args``, or ``name, *args``."""
    if dtype is None and given and _is_dtype(given[0]) and len(given) > 1:
        dtype, given = given[0], given[1:]
    name = given[0] if given else ""
    if isinstance(name, PrimExpr) and not isinstance(name, StringImm):
        name = ""
    made = as_dtype("int32" if dtype is None else dtype or "void")
    passed = tuple([_argument(a) for a in given[1:]])
    text = as_text(name, "the function's name")
    if text == "__dp4a":  # a function of GPUs, of which T has a builtin
        return call_builtin("dp4a", *passed)
    return call_outside(op, text, passed, made)


def _is_dtype(value: object) -> bool:
    """Whether this names a dtype, so that a function's name comes next."""
    if isinstance(value, (str, StringImm)):
        try:
            DataType(as_text(value, "a dtype"))
        except CompileError:
            return False
        return True
    return not isinstance(value, PrimExpr)


def call_llvm_intrin(*given: Any, dtype: DTypeLike | None = None) -> PrimExpr:
    """Call an intrinsic of LLVM, as in ``T.call_llvm_intrin("float32", "llvm.fma", x, y, z)``."""
    return _llvm(CALL_LLVM_INTRIN, dtype, given)


def call_llvm_pure_intrin(*given: Any, dtype: DTypeLike | None = None) -> PrimExpr:
    """Call an intrinsic of LLVM; forms as ``T.call_llvm_intrin``."""
    return _llvm(CALL_LLVM_PURE_INTRIN, dtype, given)


def llvm_lookup_intrinsic_id(name: str) -> str:
    """Name an intrinsic of LLVM: its name stands for it, and no number."""
    return as_text(name, "the name of the intrinsic")


def _llvm(op: Op, dtype: DTypeLike | None, given: tuple[Any, ...]) -> Call:
    """Read ``dtype, name, *args``, or ``name, *args`` and the dtype by its name."""
    if dtype is None and given:
        dtype, given = given[0], given[1:]
    if dtype is None or not given:
        raise mistake(
            "SCR0005",
            "the call of an intrinsic lacks its dtype or its name",
            help='write T.call_llvm_pure_intrin("float32", "llvm.fma", x, y, z)',
        )
    name, args = given[0], given[1:]
    wanted = as_dtype(dtype)
    passed = tuple(
        [a if isinstance(a, PrimExpr) else as_stored(a, _choose_dtype(a, wanted)) for a in args]
    )
    if isinstance(name, (int, IntImm)):
        raise wrong_argument(
            name,
            "the numbers of intrinsics differ between versions of LLVM",
            help='give the name as a string, as in "llvm.fma"',
        )
    return call_llvm(op, as_text(name, "the name of the intrinsic"), passed, wanted)


def _choose_dtype(value: object, dtype: DataType) -> DataType:
    return DataType("bool") if isinstance(value, bool) else dtype


def call_intrin(dtype: DTypeLike, name: str, *args: ExprLike) -> PrimExpr:
    """Call a builtin by its name, such as ``tir.exp``; ``dtype`` is that of the result.

    Errors: SCR0005 for a name that no builtin has, TIR0114 for a dtype that it does not give.
    """
    wanted, full = as_dtype(dtype), as_text(name, "the name of the builtin")
    short = full.removeprefix("tirx.").removeprefix("tir.")
    op = Op.get(f"tir.{short}")
    if op in LLVM or op in OUTSIDE:
        target = args[0] if args else ""
        rest = tuple([_argument(a) for a in args[1:]])
        text = as_text(target, "the name of what is called")
        if op in LLVM:
            return call_llvm(op, text, rest, wanted)
        return call_outside(op, text, rest, wanted)
    if short not in BUILTINS:
        near = nearest(short, BUILTINS)
        raise wrong_argument(
            name,
            f"there is no builtin {full!r}",
            help=f"did you mean 'tir.{near}'?" if near else 'name one, as in "tir.exp"',
        )
    passed = as_exprs(args) if args else []
    made = call_builtin(short, *passed, dtype=wanted)
    if made.dtype is not wanted:
        raise mistake(
            "TIR0114",
            f"T.{short} of these arguments gives {made.dtype}, not {wanted}",
            help="convert the arguments or the result with T.cast",
        )
    return made


def _call_packed(op: Op, name: object, args: tuple[object, ...], dtype: DTypeLike) -> Call:
    passed = tuple([_argument(a) for a in args])
    return call_outside(op, as_text(name, "the function's name"), passed, as_dtype(dtype))


def _argument(value: object) -> PrimExpr:
    if isinstance(value, Buffer):
        return value.data
    if value is None:
        return call_builtin("reinterpret", const(0, DataType("uint64")), dtype=DataType("handle"))
    return as_expr(value, "an argument")


# What older texts and lowered programs write is read as the same.
tvm_call_packed = call_packed
call_packed_lowered = call_packed
tvm_call_packed_lowered = call_packed
tvm_call_cpacked = call_cpacked
call_cpacked_lowered = call_cpacked
tvm_call_cpacked_lowered = call_cpacked
