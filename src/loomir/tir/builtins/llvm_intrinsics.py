"""LLVM intrinsics, called by name: each is defined by an equivalent expression.

A program that calls an intrinsic means that expression, in the interpreter and in native code, on
every machine; LLVM selects the instruction for it again. So no program can name an intrinsic that
LLVM lacks or that the target does not support, which would end the process, and results are always
defined.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from loomir.ir.op import Effect, Op
from loomir.support.diagnostics import CompileError, Diagnostic, nearest
from loomir.support.dtype import DataType
from loomir.support.span import Span
from loomir.tir.builtins.calls import name_of
from loomir.tir.builtins.table import call_builtin
from loomir.tir.expr import (
    LT,
    Add,
    Call,
    Cast,
    Eq,
    FloatImm,
    IntImm,
    Let,
    Max,
    Min,
    PrimExpr,
    Select,
    StringImm,
    Sub,
    Var,
    const,
)

__all__ = [
    "CALL_LLVM_INTRIN",
    "CALL_LLVM_PURE_INTRIN",
    "INTRINSICS",
    "LLVM",
    "call_llvm",
    "expand_llvm",
    "mistake_of_llvm",
    "mistake_of_machine_intrinsic",
]

CALL_LLVM_INTRIN: Final = Op.register("tir.call_llvm_intrin", Effect.PURE)
CALL_LLVM_PURE_INTRIN: Final = Op.register("tir.call_llvm_pure_intrin", Effect.PURE)
LLVM: Final[dict[Op, str]] = {
    CALL_LLVM_INTRIN: "call_llvm_intrin",
    CALL_LLVM_PURE_INTRIN: "call_llvm_pure_intrin",
}
"""The two operators that call an intrinsic, with their names in ``T``; they mean the same."""


class Intrinsic(NamedTuple):
    """A row: ``kind`` is ``float`` or ``int``, the dtype of all arguments and of the result.

    With ``flag``, a constant follows that says whether some value is undefined; here none is.
    ``widths`` are the bits that the dtype may have, if not every width is valid.
    """

    kind: str
    arity: int
    expand: Callable[..., PrimExpr]
    flag: bool = False
    widths: tuple[int, ...] = ()


# -- floats ------------------------------------------------------------------------------------
def _builtin(name: str) -> Callable[..., PrimExpr]:
    return lambda *args: call_builtin(name, *args)


def _round_away(x: PrimExpr) -> PrimExpr:
    """Round to nearest, halves away from zero."""
    whole = call_builtin("trunc", x)
    far = call_builtin("abs", Sub(x, whole)) >= const(0.5, x.dtype)
    one = call_builtin("copysign", const(1.0, x.dtype), x)
    # The sign of a zero is that of x.
    return call_builtin("copysign", Select(far, Add(whole, one), whole), x)


def _make_ieee_extreme(pick: type[Min] | type[Max]) -> Callable[..., PrimExpr]:
    """Make minimum or maximum, for which -0 is less than +0; a NaN wins against a number."""

    def choose(x: PrimExpr, y: PrimExpr) -> PrimExpr:
        negative = _negative(call_builtin("copysign", const(1.0, x.dtype), x))
        equal = Select(negative, x, y) if pick is Min else Select(negative, y, x)
        return Select(Eq(x, y), equal, pick(x, y))

    return choose


def _make_number_extreme(pick: type[Min] | type[Max]) -> Callable[..., PrimExpr]:
    """Make minnum or maxnum: a NaN loses against a number."""

    def choose(x: PrimExpr, y: PrimExpr) -> PrimExpr:
        second = Select(call_builtin("isnan", y), x, pick(x, y))
        return Select(call_builtin("isnan", x), y, second)

    return choose


# -- integers ----------------------------------------------------------------------------------
def _reinterpret(x: PrimExpr, kind: str) -> PrimExpr:
    """Read the bits as signed or unsigned."""
    wanted = DataType(f"{kind}{x.dtype.bits}").with_lanes(x.dtype.lanes)
    return x if x.dtype is wanted else call_builtin("reinterpret", x, dtype=wanted)


def _compute_as(kind: str, inner: Callable[..., PrimExpr]) -> Callable[..., PrimExpr]:
    """Compute with the bits read as signed or unsigned; the result has the argument's dtype."""

    def outer(*args: PrimExpr) -> PrimExpr:
        made = inner(*[_reinterpret(a, kind) for a in args])
        return _reinterpret(made, "int" if args[0].dtype.is_int else "uint")

    return outer


def _make_count(inner: Callable[[PrimExpr], PrimExpr]) -> Callable[..., PrimExpr]:
    """Make a function whose result, a count, has the dtype of its argument."""

    def count(x: PrimExpr) -> PrimExpr:
        return Cast(inner(x), x.dtype)

    return count


def _count_trailing_zeros(x: PrimExpr) -> PrimExpr:
    below = call_builtin("bitwise_and", call_builtin("bitwise_not", x), x - 1)
    return call_builtin("popcount", below)


def _or(x: PrimExpr, y: PrimExpr) -> PrimExpr:
    return call_builtin("bitwise_or", x, y)


def _and(x: PrimExpr, mask: int) -> PrimExpr:
    return call_builtin("bitwise_and", x, const(mask, x.dtype))


def _shift_up(x: PrimExpr, count: PrimExpr | int) -> PrimExpr:
    return call_builtin("shift_left", x, _amount(x, count))


def _down(x: PrimExpr, count: PrimExpr | int) -> PrimExpr:
    return call_builtin("shift_right", x, _amount(x, count))


def _amount(x: PrimExpr, count: PrimExpr | int) -> PrimExpr:
    return const(count, x.dtype) if isinstance(count, int) else count


def _swap_neighbours(x: PrimExpr, size: int) -> PrimExpr:
    """Swap neighbours of ``size`` bits."""
    bits = x.dtype.bits
    low = sum(((1 << size) - 1) << at for at in range(0, bits, 2 * size))
    return _or(_shift_up(_and(x, low), size), _and(_down(x, size), low))


def _make_reversal(least: int) -> Callable[..., PrimExpr]:
    """Make the reversal of pieces of ``least`` bits."""

    def reverse(x: PrimExpr) -> PrimExpr:
        size = x.dtype.bits // 2
        while size >= least:
            x, size = _swap_neighbours(x, size), size // 2
        return x

    return reverse


def _negative(x: PrimExpr) -> PrimExpr:
    return LT(x, const(0, x.dtype))


def _limit(a: PrimExpr) -> PrimExpr:
    """Return the end of the range that lies on the side of ``a``."""
    low, high = a.dtype.element.min_value, a.dtype.element.max_value
    return Select(_negative(a), const(low, a.dtype), const(high, a.dtype))


def _xor(x: PrimExpr, y: PrimExpr) -> PrimExpr:
    return call_builtin("bitwise_xor", x, y)


def _add_signed(a: PrimExpr, b: PrimExpr) -> PrimExpr:
    total = Add(a, b)
    wrong = call_builtin("bitwise_and", _xor(a, total), _xor(b, total))
    return Select(_negative(wrong), _limit(a), total)


def _sub_signed(a: PrimExpr, b: PrimExpr) -> PrimExpr:
    total = Sub(a, b)
    wrong = call_builtin("bitwise_and", _xor(a, b), _xor(a, total))
    return Select(_negative(wrong), _limit(a), total)


def _add_unsigned(a: PrimExpr, b: PrimExpr) -> PrimExpr:
    total = Add(a, b)
    return Select(LT(total, a), const(a.dtype.element.max_value, a.dtype), total)


def _sub_unsigned(a: PrimExpr, b: PrimExpr) -> PrimExpr:
    return Select(LT(a, b), const(0, a.dtype), Sub(a, b))


def _funnel_left(a: PrimExpr, b: PrimExpr, count: PrimExpr) -> PrimExpr:
    last = a.dtype.bits - 1
    c = _and(count, last)
    return _or(_shift_up(a, c), _down(_down(b, 1), const(last, a.dtype) - c))


def _funnel_right(a: PrimExpr, b: PrimExpr, count: PrimExpr) -> PrimExpr:
    last = a.dtype.bits - 1
    c = _and(count, last)
    return _or(_shift_up(_shift_up(a, 1), const(last, a.dtype) - c), _down(b, c))


_ONE_FLOAT: Final = {
    **{n: n for n in ("sqrt", "floor", "ceil", "trunc", "nearbyint", "exp", "exp2", "exp10")},
    **{n: n for n in ("log", "log2", "log10", "sin", "cos", "tan", "asin", "acos", "atan")},
    **{n: n for n in ("sinh", "cosh", "tanh")},
    "rint": "nearbyint",
    "roundeven": "nearbyint",
    "fabs": "abs",
}

INTRINSICS: Final[dict[str, Intrinsic]] = {
    **{f"llvm.{n}": Intrinsic("float", 1, _builtin(b)) for n, b in _ONE_FLOAT.items()},
    "llvm.round": Intrinsic("float", 1, _round_away),
    "llvm.pow": Intrinsic("float", 2, _builtin("pow")),
    "llvm.atan2": Intrinsic("float", 2, _builtin("atan2")),
    "llvm.copysign": Intrinsic("float", 2, _builtin("copysign")),
    "llvm.minimum": Intrinsic("float", 2, _make_ieee_extreme(Min)),
    "llvm.maximum": Intrinsic("float", 2, _make_ieee_extreme(Max)),
    "llvm.minnum": Intrinsic("float", 2, _make_number_extreme(Min)),
    "llvm.maxnum": Intrinsic("float", 2, _make_number_extreme(Max)),
    "llvm.fma": Intrinsic("float", 3, _builtin("fma")),
    "llvm.fmuladd": Intrinsic("float", 3, _builtin("fma")),
    "llvm.ctpop": Intrinsic("int", 1, _make_count(_builtin("popcount"))),
    "llvm.ctlz": Intrinsic("int", 1, _make_count(_builtin("clz")), flag=True),
    "llvm.cttz": Intrinsic("int", 1, _make_count(_count_trailing_zeros), flag=True),
    "llvm.abs": Intrinsic("int", 1, _compute_as("int", _builtin("abs")), flag=True),
    "llvm.bswap": Intrinsic("int", 1, _compute_as("uint", _make_reversal(8)), widths=(16, 32, 64)),
    "llvm.bitreverse": Intrinsic("int", 1, _compute_as("uint", _make_reversal(1))),
    "llvm.smin": Intrinsic("int", 2, _compute_as("int", Min)),
    "llvm.smax": Intrinsic("int", 2, _compute_as("int", Max)),
    "llvm.umin": Intrinsic("int", 2, _compute_as("uint", Min)),
    "llvm.umax": Intrinsic("int", 2, _compute_as("uint", Max)),
    "llvm.sadd.sat": Intrinsic("int", 2, _compute_as("int", _add_signed)),
    "llvm.ssub.sat": Intrinsic("int", 2, _compute_as("int", _sub_signed)),
    "llvm.uadd.sat": Intrinsic("int", 2, _compute_as("uint", _add_unsigned)),
    "llvm.usub.sat": Intrinsic("int", 2, _compute_as("uint", _sub_unsigned)),
    "llvm.fshl": Intrinsic("int", 3, _compute_as("uint", _funnel_left)),
    "llvm.fshr": Intrinsic("int", 3, _compute_as("uint", _funnel_right)),
}
"""Every intrinsic that programs may call."""


# -- calls -------------------------------------------------------------------------------------
def call_llvm(
    op: Op, name: str, args: tuple[PrimExpr, ...], dtype: DataType, span: Span | None = None
) -> Call:
    """Call an intrinsic by its name, with or without its types after it.

    A count of arguments before the others, as older texts have it, is left out.
    Errors: TIR0123 for the name, TIR0124 for the arguments.
    """
    row = _row(name, dtype)
    if row is not None and len(args) == row.arity + row.flag + 1:
        first = args[0]
        if isinstance(first, IntImm) and first.dtype is DataType("uint32"):
            args = args[1:]
    made = Call(dtype, op, (StringImm(name), *args), span=span)
    mistake = mistake_of_llvm(made)
    if mistake is not None:
        raise CompileError(mistake)
    return made


def _row(name: str, dtype: DataType) -> Intrinsic | None:
    for known in (name, name.removesuffix(f".{_code(dtype)}")):
        if known in INTRINSICS:
            return INTRINSICS[known]
    return None


def _code(dtype: DataType) -> str:
    """Write a dtype as LLVM's names do."""
    kind = "i"
    if dtype.is_float:
        kind = "bf" if dtype.is_bfloat else "f"
    return (f"v{dtype.lanes}" if dtype.is_vector else "") + f"{kind}{dtype.bits}"


_MACHINES: Final = ("x86", "aarch64", "arm", "riscv", "amdgcn", "nvvm", "hexagon")
"""What follows ``llvm.`` in the names of intrinsics that are instructions of one machine."""


def mistake_of_machine_intrinsic(call: Call) -> Diagnostic | None:
    """Return the error that an intrinsic is an instruction of one machine, which Loomir refuses."""
    name = name_of(call)
    parts = name.split(".")
    if call.op not in LLVM or len(parts) < 3 or parts[0] != "llvm" or parts[1] not in _MACHINES:
        return None
    return Diagnostic(
        "TIR0512",
        f"{name!r} is an instruction of one machine, and programs run on all",
        call.span,
        help="write what it computes; T.dp4a and T.vectorized use what a machine has",
    )


def mistake_of_llvm(call: Call) -> Diagnostic | None:
    """Say what is wrong with a call of an intrinsic, None if nothing is."""
    name, dtype, args = name_of(call), call.dtype, call.args[1:]
    row = _row(name, dtype)
    if row is None and mistake_of_machine_intrinsic(call) is not None:
        return None
    if row is None:
        return _unknown(call, name)
    if not (dtype.is_float if row.kind == "float" else dtype.is_integer):
        return _misfit(call, f"{name} gives {row.kind}s, not {dtype}")
    if row.widths and dtype.bits not in row.widths:
        return _misfit(call, f"{name} takes {_list_widths(row.widths)} bits, not {dtype.bits}")
    if len(args) != row.arity + row.flag:
        flag = " and a flag" if row.flag else ""
        return _misfit(
            call, f"{name} takes {row.arity} of {dtype}{flag}, not {len(args)} arguments"
        )
    for arg in args[: row.arity]:
        if _code(arg.dtype) != _code(dtype) or arg.dtype.is_bool:
            return _misfit(call, f"{name} takes {dtype} here, not {arg.dtype}")
    if row.flag and not (isinstance(args[-1], IntImm) and args[-1].value in (0, 1)):
        return _misfit(call, f"the last argument of {name} is a flag, a constant T.bool(False)")
    return None


def _list_widths(widths: tuple[int, ...]) -> str:
    return ", ".join(map(str, widths[:-1])) + f" or {widths[-1]}"


def _misfit(call: Call, message: str) -> Diagnostic:
    return Diagnostic(
        "TIR0124",
        message,
        call.span,
        help="all arguments have the dtype of the call; convert them with T.cast",
    )


def _unknown(call: Call, name: str) -> Diagnostic:
    base = name
    while "." in base and base not in INTRINSICS:
        base = base.rpartition(".")[0]
    if base in INTRINSICS:
        return _misfit(call, f"{name} is not {base} for {call.dtype}")
    near = nearest(name, INTRINSICS)
    return Diagnostic(
        "TIR0123",
        f"{name!r} is not an LLVM intrinsic that programs can call",
        call.span,
        help=f"did you mean {near!r}?" if near else "use a builtin of T, such as T.sqrt",
    )


def expand_llvm(call: Call) -> PrimExpr:
    """Return the expression that a call of an intrinsic means; a wrong call stays as it is."""
    row = _row(name_of(call), call.dtype)
    if row is None or mistake_of_llvm(call) is not None:
        return call
    bound: list[tuple[Var, PrimExpr]] = []
    used: list[PrimExpr] = []
    for arg in call.args[1 : row.arity + 1]:
        if isinstance(arg, (Var, IntImm, FloatImm)):
            used.append(arg)
        else:
            bound.append((Var("x", arg.dtype), arg))
            used.append(bound[-1][0])
    made = row.expand(*used)
    if made.dtype is not call.dtype:
        made = _reinterpret(made, "int" if call.dtype.is_int else "uint")
    for var, value in reversed(bound):
        made = Let(var, value, made, span=call.span)
    return made
