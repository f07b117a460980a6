"""Expressions of Relax: the values with which models compute.

- Values are tensors, tuples, shapes, scalars, strings, dtypes, closures, packed functions, and
  objects that only packed functions understand.
- A ``Call`` is evaluated after its arguments, from left to right; no other expression has effects.
- Values are passed by reference; only ``Constant``, operators and packed functions create tensors.
- ``Op`` and ``GlobalVar`` are those of ``loomir.ir``. They are allowed as callees, a ``GlobalVar``
  also as an argument.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, NoReturn, cast

from loomir.ir.module import BaseFunc
from loomir.ir.node import attr, binds, child, meta, node, replace_lists, reset, uses
from loomir.relax.node import Callee, Expr, RelaxExpr, StructInfo
from loomir.relax.struct_info import TensorStructInfo
from loomir.support.array import Array
from loomir.support.caller_span import user_span
from loomir.support.dtype import DataType, dtype_text, to_dtype
from loomir.support.printing import to_text
from loomir.support.runtime_types import show_value
from loomir.support.span import Span
from loomir.tir.expr import PrimExpr, const
from loomir.tir.rules import refuse

__all__ = [
    "Binding",
    "BindingBlock",
    "Call",
    "Constant",
    "DataTypeImm",
    "DataflowBlock",
    "DataflowVar",
    "ExternFunc",
    "Function",
    "If",
    "MatchCast",
    "PrimValue",
    "SeqExpr",
    "StringImm",
    "Tuple",
    "TupleGetItem",
    "Var",
    "VarBinding",
]


@node
class Constant(Expr):
    """A tensor with fixed contents; each evaluation returns a copy that nothing else may write.

    Errors: RLX0001 for elements of a dtype that the language lacks.
    """

    data: Array = attr(converter=Array)
    span: Span | None = meta(default=None, kw_only=True)

    def __post_init__(self) -> None:
        given = cast("Any", self.data)
        if not isinstance(given, Array):
            reset(self, "data", Array(given))

    @property
    def struct_info(self) -> TensorStructInfo:
        """What is known of the value: everything but its device."""
        return TensorStructInfo(cast("Any", self.data.shape), self.data.dtype)


@node
class Var(Expr):
    """A variable, which is bound exactly once. Variables are compared by identity; names are hints.

    ``struct_info_annotation`` is what is known of its value; in a normalised program every variable
    has it.
    """

    in_words: ClassVar[str] = "a variable of a graph"
    is_definition: ClassVar[bool] = True

    name_hint: str = meta()
    struct_info_annotation: StructInfo | None = uses(default=None)
    span: Span | None = meta(default=None, kw_only=True)

    @staticmethod
    def refuse_others(  # pyright: ignore[reportIncompatibleVariableOverride]
        name: object, *parts: Any, **named: Any
    ) -> NoReturn:
        """Refuse a shape and a dtype in place of structural information. Errors: RLX0003."""
        shape: object = next(
            (p for p in parts if type(p) in (tuple, list)), named.get("shape", (4,))
        )
        dtype = next((p for p in parts if isinstance(p, str)), named.get("dtype", "float32"))
        info = f"relax.TensorStructInfo({show_value(shape)}, {dtype_text(dtype)})"
        refuse(
            "RLX0003",
            "a variable of a graph takes a name and structural information",
            help=f"write relax.Var({json.dumps(name, default=str)}, {info})",
            span=user_span(),
        )

    @property
    def struct_info(self) -> StructInfo:
        """What is known of the value. Errors: RLX0003 for a variable without annotation."""
        found = self.struct_info_annotation
        if found is None:
            refuse(
                "RLX0003",
                f"nothing is known of the variable {self.name_hint!r} yet",
                help="annotate it, or normalize the program first",
                span=self.span,
            )
        return found


@node
class DataflowVar(Var):
    """A variable of a dataflow block, which ends with the block."""


@node
class Tuple(Expr):
    """A tuple of values."""

    fields: tuple[RelaxExpr, ...]
    span: Span | None = meta(default=None, kw_only=True)

    def __post_init__(self) -> None:
        if type(self.fields) is not tuple:
            reset(self, "fields", tuple(cast("Sequence[RelaxExpr]", self.fields)))


@node
class TupleGetItem(Expr):
    """The field of a tuple at an index, counted from 0.

    Errors: RLX0004 for a negative index.
    """

    tuple_value: RelaxExpr
    index: int = attr()
    span: Span | None = meta(default=None, kw_only=True)

    def __post_init__(self) -> None:
        if self.index < 0:
            refuse(
                "RLX0004",
                f"a tuple has no field {self.index}",
                help="fields are counted from 0",
                span=self.span,
            )


def _to_scalar(value: PrimExpr | float) -> PrimExpr:
    if isinstance(value, PrimExpr):
        return value
    kind = "bool" if isinstance(value, bool) else "int64"
    return const(value, "float32" if isinstance(value, float) else kind)


@node
class PrimValue(Expr):
    """An immutable scalar: a literal, or an expression of shape variables.

    A Python number becomes int64, float32 or bool.
    """

    value: PrimExpr = child(converter=_to_scalar)
    span: Span | None = meta(default=None, kw_only=True)

    def __post_init__(self) -> None:
        made = _to_scalar(self.value)
        if made is not self.value:
            reset(self, "value", made)


@node
class StringImm(Expr):
    """A string, for packed functions and operators."""

    value: str = attr()
    span: Span | None = meta(default=None, kw_only=True)


@node
class DataTypeImm(Expr):
    """A dtype as a value, for packed functions and operators."""

    value: DataType = attr(converter=to_dtype)
    span: Span | None = meta(default=None, kw_only=True)

    def __post_init__(self) -> None:
        reset(self, "value", to_dtype(self.value))


@node
class ExternFunc(Expr):
    """A packed function, by the name under which it is registered."""

    global_symbol: str = attr()
    span: Span | None = meta(default=None, kw_only=True)


@node
class Call(Expr):
    """A call of an operator, a function of the module, a packed function or a closure.

    ``sinfo_args`` describe the results, if an operator or a packed function needs that; ``attrs``
    are an operator's options, by name.
    """

    op: Callee
    args: tuple[RelaxExpr, ...]
    sinfo_args: tuple[StructInfo, ...] = child(default=())
    attrs: Mapping[str, Any] = attr(default_factory=dict)
    span: Span | None = meta(default=None, kw_only=True)

    def __post_init__(self) -> None:
        if type(self.args) is not tuple:
            reset(self, "args", tuple(cast("Sequence[RelaxExpr]", self.args)))
        if type(self.sinfo_args) is not tuple:
            reset(self, "sinfo_args", tuple(cast("Sequence[StructInfo]", self.sinfo_args)))
        if self.attrs:
            replace_lists(self, "attrs")


@node
class If(Expr):
    """A branch: the condition is a bool tensor of rank 0, or a bool scalar."""

    cond: RelaxExpr
    true_branch: Expr
    false_branch: Expr
    span: Span | None = meta(default=None, kw_only=True)


class Binding(Expr):
    """The base class of bindings."""

    __slots__ = ()


@node
class VarBinding(Binding):
    """``var = value``; a function as the value may refer to ``var``."""

    lends_scope: ClassVar[bool] = True

    var: Var = binds()
    value: RelaxExpr
    span: Span | None = meta(default=None, kw_only=True)


@node
class MatchCast(Binding):
    """A run-time check of ``value`` against ``struct_info``, bound to ``var`` if any.

    A shape variable that is an extent by itself in ``struct_info``, and not bound yet, is bound.
    """

    lends_scope: ClassVar[bool] = True
    scan_first: ClassVar[tuple[str, ...]] = ("value",)
    defines_in: ClassVar[tuple[str, ...]] = ("struct_info",)

    var: Var | None = binds()
    value: RelaxExpr
    struct_info: StructInfo
    span: Span | None = meta(default=None, kw_only=True)


@node
class BindingBlock(Expr):
    """Bindings in their order."""

    lends_scope: ClassVar[bool] = True

    bindings: tuple[Binding, ...]
    span: Span | None = meta(default=None, kw_only=True)

    def __post_init__(self) -> None:
        if type(self.bindings) is not tuple:
            reset(self, "bindings", tuple(cast("Sequence[Binding]", self.bindings)))


@node
class DataflowBlock(BindingBlock):
    """Bindings without effects or control flow: a graph.

    The scope of its ``DataflowVar`` ends with it; what is used outside is bound to a ``Var``.
    """


@node
class SeqExpr(Expr):
    """Blocks of bindings, then a value; the bindings are local to it."""

    blocks: tuple[BindingBlock, ...]
    body: RelaxExpr
    span: Span | None = meta(default=None, kw_only=True)

    def __post_init__(self) -> None:
        if type(self.blocks) is not tuple:
            reset(self, "blocks", tuple(cast("Sequence[BindingBlock]", self.blocks)))


@node
class Function(BaseFunc, Expr):
    """A function on Relax values; evaluates to a closure.

    Annotations of parameters are checked when it is called, and bind the shape variables that are
    extents by themselves in them; ``ret_struct_info`` is checked before it returns. ``is_pure``: it
    has no effect but its result. The attribute ``global_symbol`` makes a function of a module
    callable from outside; ``relax.force_pure`` vouches for impure calls in it.
    """

    params: tuple[Var, ...] = binds()
    body: Expr
    ret_struct_info: StructInfo | None = child(default=None)
    is_pure: bool = attr(default=True)
    attrs: Mapping[str, Any] = attr(default_factory=dict)
    span: Span | None = meta(default=None, kw_only=True)

    def __post_init__(self) -> None:
        if type(self.params) is not tuple:
            reset(self, "params", tuple(cast("Sequence[Var]", self.params)))
        if self.attrs:
            replace_lists(self, "attrs")

    @property
    def name(self) -> str:
        """The ``global_symbol``, or ``main`` where there is none."""
        return str(self.attrs.get("global_symbol", "main"))

    def script(self, *, constants: str = "stored") -> str:
        """Write the function as TVMScript, which parses back to an equal function.

        Large constants are ``"stored"`` in files of the cache that the text names by their digest,
        or written out ``"inline"``, for text that goes to another machine.

        Errors: SCR0005 for another choice.
        """
        return to_text(self, constants=constants)
