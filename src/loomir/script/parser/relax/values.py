"""Relax values in expressions: operators, calls, fields; nested expressions are bound at once.

A nested expression is bound to a variable where it occurs. So the program's order is that of the
text, and the structural information of each value is available to its users.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Final, cast

from loomir.ir.module import BaseFunc, GlobalVar
from loomir.relax.expr import Call, Constant, ExternFunc, PrimValue, Tuple, TupleGetItem, Var
from loomir.relax.node import Expr, RelaxExpr, StructInfo
from loomir.relax.operator.definition import find_op
from loomir.relax.shape import ShapeExpr
from loomir.relax.struct_info import (
    FuncStructInfo,
    ObjectStructInfo,
    PrimStructInfo,
    ShapeStructInfo,
    TensorStructInfo,
    TupleStructInfo,
)
from loomir.script.builder.arguments import as_int, as_stored
from loomir.script.builder.frame import IRBuilder
from loomir.script.builder.mistakes import mistake, with_span, wrong_argument
from loomir.script.builder.relax.calls import call_pure_packed
from loomir.script.builder.relax.frames import FunctionFrame, SequenceFrame, sequence
from loomir.script.builder.relax.functions import emit, emit_match_cast
from loomir.script.builder.relax.info import as_struct_info, as_struct_infos
from loomir.script.builder.relax.table import match_cast
from loomir.script.builder.relax.values import as_value, extern_func, is_array, number_like
from loomir.script.parser import doc
from loomir.script.parser.evaluate.captured_names import MISSING, ForeignValue
from loomir.script.parser.evaluate.namespaces import ModuleFunction
from loomir.script.parser.evaluate.numpy_calls import (
    NUMPY,
    NumpyFunction,
    NumpyType,
    array_attribute,
    is_numpy,
)
from loomir.script.parser.evaluate.numpy_calls import is_array as is_number_array
from loomir.script.parser.evaluate.operators import binary, kind
from loomir.support.diagnostics import CompileError, Diagnostic
from loomir.support.span import Span
from loomir.tir.expr import PrimExpr

__all__ = [
    "AnnotatedValue",
    "Cast",
    "RelaxValues",
    "at_uses",
    "emit_at",
    "info_of",
    "kind_of_value",
    "unwrap",
]

_BINARY: Final = {
    "+": "add",
    "-": "subtract",
    "*": "multiply",
    "/": "divide",
    "//": "floor_divide",
    "%": "mod",
    "**": "power",
    "@": "matmul",
    "<": "less",
    "<=": "less_equal",
    ">": "greater",
    ">=": "greater_equal",
    "==": "equal",
    "!=": "not_equal",
    "&": "bitwise_and",
    "|": "bitwise_or",
    "^": "bitwise_xor",
    "<<": "left_shift",
    ">>": "right_shift",
}
_UNARY: Final = {"-": "negative", "~": "bitwise_not"}


class Cast:
    """``R.match_cast(value, struct_info)``, before it is known what it is bound to."""

    def __init__(self, value: RelaxExpr, info: StructInfo) -> None:
        self.value, self.info = value, info


def info_of(value: object) -> StructInfo | None:
    """Return what is known of a simple value, or None."""
    if isinstance(value, Var):
        return value.struct_info_annotation
    if isinstance(value, Constant):
        return value.struct_info
    if isinstance(value, ShapeExpr):
        return ShapeStructInfo(value.values)
    if isinstance(value, PrimValue):
        return PrimStructInfo(value.value.dtype, value.value)
    return None


def kind_of_value(value: object) -> str:
    """Name a value's kind for an error message."""
    if isinstance(value, ModuleFunction):
        return f"the function {value.node.name!r}"
    return kind(value)


def unwrap(value: object) -> object:
    """Return a value as builder functions take it: functions by their names, arrays as they are."""
    if isinstance(value, ModuleFunction):
        return value.var
    if isinstance(value, ForeignValue):
        return value.value if is_array(value.value) else value
    if isinstance(value, AnnotatedValue) and isinstance(value.value, ExternFunc):
        return value.value
    if isinstance(value, (tuple, list)):
        items = cast("Sequence[object]", value)
        made = [unwrap(item) for item in items]
        if all(a is b for a, b in zip(made, items)):
            return cast("object", value)
        return made if isinstance(value, list) else tuple(made)
    return value


class RelaxValues:
    """What Relax makes of its values; ``tops`` are what the statement itself binds."""

    def __init__(self) -> None:
        self.tops: tuple[doc.ExprNode, ...] = ()
        self.in_annotation = False
        self.result: tuple[object, doc.ExprNode] | None = None
        self.origin: tuple[object, Sequence[object], Sequence[doc.ExprNode]] | None = None

    def at_result(self, error: CompileError) -> CompileError:
        """Place what is said at the definition of what is returned where it is returned."""
        if self.result is None:
            return error
        return at_uses(error, self.result[:1], self.result[1:])

    def holds(self, value: object) -> bool:
        """Whether a value is one of Relax."""
        return isinstance(value, (Expr, GlobalVar, Cast, AnnotatedValue)) or (
            isinstance(value, ForeignValue) and is_array(value.value)
        )

    # -- NumPy -----------------------------------------------------------------------------------
    def module(self, name: str) -> object:
        """Return what the name of a module of Python's stands for, or MISSING."""
        return NUMPY if name in ("np", "numpy") else MISSING

    def attribute(self, value: object, name: str) -> object:
        """Return an attribute of NumPy, or of an array, or MISSING."""
        if is_numpy(value):
            return NUMPY.table.get(name, MISSING)
        return array_attribute(value, name) if is_number_array(value) else MISSING

    def plain(self, func: object) -> Callable[..., object] | None:
        """Return a function of NumPy's."""
        return func.call if isinstance(func, (NumpyFunction, NumpyType)) else None

    # -- operators -------------------------------------------------------------------------------
    def operator(self, op: str, operands: Sequence[object]) -> object:
        """Apply an operator: a call of the operator of Relax, or arithmetic on known scalars.

        Errors: SCR0009 where it has no meaning.
        """
        scalars = [_find_known_scalar(value) for value in operands]
        known = all(s is not None for s in scalars) and any(isinstance(v, Var) for v in operands)
        if known and len(scalars) == 2 and op in _BINARY and op != "@":
            return binary(op, *scalars)
        names = _BINARY if len(operands) == 2 else _UNARY
        if op == "+" and len(operands) == 1:
            return operands[0]
        found = find_op(f"relax.{names[op]}") if op in names else None
        if found is None:
            culprit = next(v for v in operands if self.holds(v))
            words = " and ".join(kind_of_value(v) for v in operands)
            raise wrong_argument(
                culprit,
                f"`{op}` has no meaning for {words}",
                code="SCR0009",
                help="write R.logical_not(x)" if op == "not" else "use an operator of R",
            )
        return found.call(*_alike(op, [unwrap(v) for v in operands]))

    def item(self, value: object, index: object) -> object:
        """Return the field of a tuple.

        Errors: SCR0008 for what is not a tuple, and an index that is not known or too large.
        """
        info = info_of(value)
        if isinstance(value, Tuple):
            info = TupleStructInfo(tuple([_object(f) for f in value.fields]))
        if not isinstance(info, (TupleStructInfo, ObjectStructInfo)) or isinstance(index, slice):
            what = kind_of_value(value)
            help_ = "index tuples only"
            if isinstance(info, TensorStructInfo):
                help_ = "use R.strided_slice for a part of a tensor, R.take for elements"
            raise wrong_argument(value, f"{what} cannot be indexed", code="SCR0008", help=help_)
        at = as_int(index, "the index of a tuple")
        if isinstance(info, TupleStructInfo):
            count = len(info.fields)
            if not -count <= at < count:
                raise wrong_argument(
                    value,
                    f"{kind_of_value(value)} has no field {at}",
                    code="SCR0008",
                    help=f"it has {count} field{'' if count == 1 else 's'}, counted from 0",
                )
            at %= count
        return TupleGetItem(cast("RelaxExpr", value), at)

    # -- calls -----------------------------------------------------------------------------------
    def call(self, func: object, args: list[object], keywords: dict[str, object]) -> object:
        """Call a function of the module, a closure, or a function of the language.

        Errors: SCR0007, SCR0023, and those of the function.
        """
        given = [unwrap(value) for value in args]
        named = {name: unwrap(value) for name, value in keywords.items()}
        if func is emit:
            return _emit(*cast("Any", given), **cast("Any", named))
        if func is match_cast or func is emit_match_cast:
            return _cast(*given, **named)
        if isinstance(func, ModuleFunction) and not func.is_relax and not _is_lowered():
            raise mistake(
                "SCR0023",
                f"{func.node.name!r} is a kernel, and is not called by itself",
                help=f"write R.call_tir(cls.{func.node.name}, (x,), out_sinfo=R.Tensor(…))",
            )
        if func is extern_func and len(args) + len(keywords) > 1:
            return _describe_extern(*cast("Any", given), **cast("Any", named))
        if isinstance(func, ModuleFunction) or self.holds(func):
            callee: Any = func.var if isinstance(func, ModuleFunction) else func
            said: Any = ()
            is_pure = False
            if isinstance(callee, AnnotatedValue):
                is_pure, said = _is_pure(callee.info), _result_of(callee.info)
                callee = callee.value
            infos: Any = named.pop("sinfo_args", named.pop("ty_args", said))
            if named:
                raise mistake(
                    "SCR0023",
                    "functions take their arguments by position",
                    help="leave out the names",
                )
            if not isinstance(callee, (Var, GlobalVar)) and type(callee).__name__ != "ExternFunc":
                raise wrong_argument(
                    callee,
                    f"{kind_of_value(callee)} cannot be called",
                    code="SCR0007",
                    help="put both into one class under @I.ir_module, and call cls.name(...)"
                    if isinstance(callee, BaseFunc)
                    else "call operators, functions of the module, and closures",
                )
            if is_pure:
                return call_pure_packed(callee, *given, sinfo_args=as_struct_infos(infos))
            taken = _as_taken(callee, given)
            return Call(callee, tuple([as_value(v) for v in taken]), as_struct_infos(infos))
        target = cast("Any", func)
        return target(*given, **named)

    def make_value(
        self,
        value: object,
        node: doc.ExprNode,
        values: Sequence[object],
        parts: Sequence[doc.ExprNode],
    ) -> object:
        """Bind a new value unless it is what the statement itself binds, or simple."""
        if isinstance(value, Cast):
            if node in self.tops:
                return value
            self._check_place(node)
            return sequence("R.match_cast").match_cast(value.value, value.info, "", node.span)
        if not isinstance(value, (Call, TupleGetItem)):
            return value
        if node in self.tops:
            self.origin = (value, values, parts)
            return value
        self._check_place(node)
        return emit_at(value, "", node.span, values, parts)

    def _check_place(self, node: doc.ExprNode) -> None:
        if self.in_annotation:
            raise mistake(
                "SCR0033",
                "a description of a value holds a call",
                help="bind the result to a name before, and use that name",
                span=node.span,
            )


def _as_taken(callee: Var | GlobalVar, given: Sequence[object]) -> list[object]:
    """Return plain numbers the dtypes of the scalars that a function takes."""
    if not any(isinstance(value, (bool, int, float)) for value in given):
        return list(given)
    info = sequence("a call").scope().struct_info_of(callee)
    params = info.params if isinstance(info, FuncStructInfo) else None
    if params is None or len(params) != len(given):
        return list(given)
    return [
        as_stored(value, param.dtype)
        if isinstance(value, (bool, int, float)) and isinstance(param, PrimStructInfo)
        else value
        for value, param in zip(given, params)
    ]


def _is_lowered() -> bool:
    """Whether the function calls kernels by themselves, as functions do whose memory is planned."""
    frame = IRBuilder.current().find(FunctionFrame)
    return frame is not None and (not frame.pure or bool(frame.attrs.get("relax.force_pure")))


def emit_at(
    value: RelaxExpr,
    name: str,
    span: Span,
    values: Sequence[object] = (),
    parts: Sequence[doc.ExprNode] = (),
    info: StructInfo | None = None,
    at: Span | None = None,
) -> Var:
    """Bind a value; mistakes are placed at the argument that they blame, or at the expression.

    ``at`` is the place of the name.
    """
    builder = IRBuilder.current()
    frame = builder.need(SequenceFrame, "a value of Relax", "write it under @R.function")
    try:
        return frame.emit(value, name, info, at or span)
    except CompileError as error:
        found = CompileError(
            *[
                replace(d, span=span) if d.span is not None and d.span is at else d
                for d in error.diagnostics
            ]
        )
        raise with_span(at_uses(found, values, parts), span) from error


def at_uses(
    error: CompileError, values: Sequence[object], parts: Sequence[doc.ExprNode]
) -> CompileError:
    """Place what is said of a variable where the variable is used.

    Such a mistake is at the variable's definition, or names it besides.
    """
    places: dict[int, Span] = {}
    for value, part in zip(values, parts):
        span = getattr(value, "span", None)
        if span is not None and isinstance(value, Var):
            places.setdefault(id(span), part.span)

    def move(problem: Diagnostic) -> Diagnostic:
        told = (problem.span, *(place for place, _ in problem.secondary))
        span = next((places[id(place)] for place in told if id(place) in places), None)
        return problem if span is None else replace(problem, span=span)

    return CompileError(*map(move, error.diagnostics))


# -- parts ---------------------------------------------------------------------------------------
def _find_known_scalar(value: object) -> object:
    """Return the value of a scalar where the program knows it as an expression, else None."""
    if isinstance(value, (PrimExpr, int, float)):
        return value
    if isinstance(value, PrimValue):
        return value.value
    info = info_of(value)
    return info.value if isinstance(info, PrimStructInfo) else None


def _alike(op: str, operands: list[object]) -> list[object]:
    """Return operands of which plain numbers became constants like the tensor beside them."""
    tensors = [i for i in map(info_of, operands) if isinstance(i, TensorStructInfo)]
    like = tensors[0] if tensors else None
    return [number_like(v, like) if isinstance(v, (bool, int, float)) else v for v in operands]


def _object(value: object) -> StructInfo:
    return info_of(value) or ObjectStructInfo()


def _emit(
    value: object,
    annotate_struct_info: object = None,
    name_hint: str = "",
    *,
    annotate_ty: object = None,
) -> object:
    """Read ``R.emit(value)``: the statement around binds it."""
    given = annotate_ty if annotate_struct_info is None else annotate_struct_info
    made = as_value(value)
    return made if given is None else AnnotatedValue(made, as_struct_info(given))


def _describe_extern(name: str, struct_info: object = None, *, ty: object = None) -> AnnotatedValue:
    given = ty if struct_info is None else struct_info
    return AnnotatedValue(extern_func(name), as_struct_info(given))


def _is_pure(info: StructInfo) -> bool:
    return isinstance(info, FuncStructInfo) and info.purity


def _result_of(info: StructInfo) -> tuple[StructInfo, ...]:
    """Return what a described function returns, as a call says it."""
    return (info.ret,) if isinstance(info, FuncStructInfo) else ()


class AnnotatedValue:
    """``R.emit(value, struct_info)``: a value and what is said of it."""

    def __init__(self, value: RelaxExpr, info: StructInfo) -> None:
        self.value, self.info = value, info


def _cast(value: object, struct_info: object = None, *, ty: object = None) -> Cast:
    given = ty if struct_info is None else struct_info
    if given is None:
        raise mistake(
            "SCR0005",
            "R.match_cast lacks struct_info",
            help='write R.match_cast(x, R.Tensor(("n",), "float32"))',
        )
    return Cast(as_value(value), as_struct_info(given))
