"""A row of the builtin table: its declaration, and the checks of a call against it.

The rows are in the files beside this one, one per family; ``table`` collects them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum
from typing import Final, NamedTuple, TypeAlias

from loomir.ir.op import Effect, Op
from loomir.support.dtype import BOOL, DataType
from loomir.support.span import Span
from loomir.tir.expr import Call, PrimExpr
from loomir.tir.rules import refuse

__all__ = [
    "BUILTINS",
    "AcceptedDTypes",
    "Args",
    "Builtin",
    "Kind",
    "Param",
    "call_builtin",
    "effect_of",
    "read_first_dtype",
    "row",
]

Args: TypeAlias = tuple[PrimExpr, ...]


class AcceptedDTypes(Enum):
    """The arguments that a builtin takes; all of one dtype unless said otherwise."""

    FLOAT = "floats"
    INTEGER = "integers"
    NUMBER = "integers or floats"
    BITS = "integers or bools"
    INT32 = "int32"
    FLOAT_INT32 = "a float and an int32"
    CHOICE = "a bool and two values of one dtype"
    TRUTH = "a bool"
    ANY = "any values"
    EACH = "what its parameters say"


class Kind(NamedTuple):
    """The kind of value that one parameter takes."""

    text: str
    fits: Callable[[PrimExpr], bool]


class Param(NamedTuple):
    """A parameter of a builtin; ``kind`` is None if ``AcceptedDTypes`` says what it takes."""

    name: str
    kind: Kind | None = None


class Builtin(NamedTuple):
    """A row of the table.

    - ``arity`` is None if any number of arguments is allowed.
    - ``corners`` describes results for special values, in the reference.
    - ``takes_dtype`` marks those whose result has the dtype that the caller names as well.
    - ``inside`` names the operators that take the result, for those of ``SPECIAL_CALL_ARG``.
    """

    op: Op
    arity: int | None
    accepts: AcceptedDTypes
    result_dtype: Callable[[Args], DataType]
    summary: str
    family: str
    params: tuple[Param, ...]
    corners: str = ""
    takes_dtype: bool = False
    inside: frozenset[str] = frozenset()
    check: Callable[[Args, DataType], str | None] | None = None
    """A rule about several arguments: returns what is wrong, None if nothing is."""

    @property
    def signature(self) -> str:
        """The parameters as a program writes them."""
        names = [p.name for p in self.params]
        return ", ".join(["dtype", *names] if self.takes_dtype else names)


BUILTINS: Final[dict[str, Builtin]] = {}
"""Every builtin by its short name, such as ``exp``."""


def row(
    name: str,
    params: str | tuple[Param, ...],
    accepts: AcceptedDTypes,
    result_dtype: Callable[[Args], DataType],
    summary: str,
    *,
    family: str,
    effect: Effect = Effect.PURE,
    corners: str = "",
    takes_dtype: bool = False,
    inside: frozenset[str] = frozenset(),
    check: Callable[[Args, DataType], str | None] | None = None,
) -> Op:
    """Add a builtin; ``params`` are names, the last one with ``*`` if any number may follow."""
    made = tuple(map(Param, params.split())) if isinstance(params, str) else params
    variadic = bool(made) and made[-1].name.startswith("*")
    op = Op.register(f"tir.{name}", effect)
    BUILTINS[name] = Builtin(
        op,
        None if variadic else len(made),
        accepts,
        result_dtype,
        summary,
        family,
        made,
        corners,
        takes_dtype,
        inside,
        check,
    )
    return op


def read_first_dtype(args: Args) -> DataType:
    """Return the dtype of the first argument."""
    return args[0].dtype


# -- checks ------------------------------------------------------------------------------------
def call_builtin(
    name: str, *args: PrimExpr, span: Span | None = None, dtype: DataType | None = None
) -> Call:
    """Make a call of a builtin; ``dtype`` is for those whose rows say that the caller names it.

    Errors: TIR0113 for a wrong number of arguments, TIR0114 for arguments of a wrong dtype.
    """
    found = BUILTINS.get(name)
    if found is None:
        refuse("TIR0113", f"there is no builtin T.{name}", help="use one of dir(T)", span=span)
    if found.arity is not None and len(args) != found.arity:
        refuse(
            "TIR0113",
            f"T.{name} takes {found.arity} argument{'s' * (found.arity != 1)}, not {len(args)}",
            help=f"T.{name}({found.signature}): {found.summary}",
            span=span,
        )
    _check_args(name, found, args, span)
    if found.takes_dtype and dtype is not None:
        result = dtype
    else:
        try:
            result = found.result_dtype(args)
        except IndexError:
            refuse(
                "TIR0113",
                f"T.{name} takes more than {len(args)} arguments",
                help=f"T.{name}({found.signature}): {found.summary}",
                span=span,
            )
    wrong = None if found.check is None else found.check(args, result)
    if wrong is not None:
        help_ = f"T.{name}({found.signature}): {found.summary}"
        refuse("TIR0114", f"T.{name} {wrong}", help=help_, span=span)
    return Call(result, found.op, args, span=span)


def _check_args(name: str, found: Builtin, args: Args, span: Span | None) -> None:
    for param, arg in zip(found.params, args):
        if param.kind is not None and not param.kind.fits(arg):
            refuse(
                "TIR0114",
                f"argument {param.name!r} of T.{name} must be {param.kind.text}, not {arg.dtype}",
                help=f"T.{name}({found.signature}): {found.summary}",
                span=span,
            )
    if not _CHECKS[found.accepts](args):
        several = len(found.params) > 1
        alike = " of one dtype" if several and found.accepts in _ALIKE else ""
        given = ", ".join(
            f"{arg.dtype} for {p.name}" if several else str(arg.dtype)
            for p, arg in zip(found.params, args)
        )
        refuse(
            "TIR0114",
            f"T.{name} takes {found.accepts.value}{alike}, not {given}",
            help=_remedy(name, args),
            span=span,
        )


_ALIKE: Final = (
    AcceptedDTypes.FLOAT,
    AcceptedDTypes.INTEGER,
    AcceptedDTypes.NUMBER,
    AcceptedDTypes.BITS,
    AcceptedDTypes.INT32,
)


def _have_same_dtype(args: Args) -> bool:
    return all(a.dtype is args[0].dtype for a in args)


_CHECKS: Final[dict[AcceptedDTypes, Callable[[Args], bool]]] = {
    AcceptedDTypes.FLOAT: lambda args: _have_same_dtype(args) and args[0].dtype.is_float,
    AcceptedDTypes.INTEGER: lambda args: _have_same_dtype(args) and args[0].dtype.is_integer,
    AcceptedDTypes.NUMBER: lambda args: (
        _have_same_dtype(args) and (args[0].dtype.is_integer or args[0].dtype.is_float)
    ),
    AcceptedDTypes.BITS: lambda args: (
        _have_same_dtype(args) and (args[0].dtype.is_integer or args[0].dtype.is_bool)
    ),
    AcceptedDTypes.INT32: lambda args: _have_same_dtype(args) and args[0].dtype.element == "int32",
    AcceptedDTypes.FLOAT_INT32: lambda args: (
        args[0].dtype.is_float
        and args[1].dtype is DataType("int32").with_lanes(args[0].dtype.lanes)
    ),
    AcceptedDTypes.CHOICE: lambda args: args[0].dtype is BOOL and args[1].dtype is args[2].dtype,
    AcceptedDTypes.TRUTH: lambda args: args[0].dtype.is_bool,
    AcceptedDTypes.ANY: lambda args: True,
    AcceptedDTypes.EACH: lambda args: True,
}


def effect_of(expr: PrimExpr) -> Effect:
    """Return the effects of evaluating a node, without those of its operands."""
    if isinstance(expr, Call):
        return expr.op.effect if isinstance(expr.op, Op) else Effect.OPAQUE
    return Effect.PURE


def _remedy(name: str, args: Sequence[PrimExpr]) -> str:
    if name == "bitwise_xor" and any(arg.dtype.is_float for arg in args):
        return "a power is written x ** y, or T.pow(x, y); ^ is exclusive or"
    return "convert the arguments with T.cast"
