"""Arguments of calls: which are shapes, whether they fit, and where ``dtype=`` goes."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from types import FunctionType
from typing import Final, NamedTuple

from loomir.ir.module import BaseFunc, IRModule
from loomir.script.builder.buffer_spec import BufferSpec
from loomir.script.builder.mistakes import mistake
from loomir.script.builder.tir.buffers import (
    alloc_buffer,
    alloc_local,
    alloc_shared,
    decl_buffer,
    match_buffer,
)
from loomir.script.builder.tir.table import DTYPE_FIRST, makes_expression
from loomir.script.parser import doc
from loomir.script.parser.evaluate.captured_names import ForeignValue
from loomir.script.parser.evaluate.namespaces import (
    Namespace,
    is_exported,
)
from loomir.script.parser.evaluate.operators import (
    kind,
)
from loomir.support.diagnostics import CompileError, Diagnostic
from loomir.support.dtype import DataType
from loomir.support.span import Span
from loomir.tir.buffer import Buffer

__all__ = [
    "DECLARING",
    "SCOPED",
    "SHAPED",
    "SHAPE_PARAMETERS",
    "SIZE",
    "ShapeArgument",
    "check_arguments",
    "choose_declared_dtype",
    "explain_in_kernel",
    "explain_not_callable",
    "is_data",
    "place_dtype",
]


class ShapeArgument(NamedTuple):
    """Which argument of a function is a shape.

    Names in it may be new if it ``declares``; None stands for what holds around. A string is an
    extent, unless it is the whole argument and not among ``texts``. New names are of the dtype that
    is given before it if it is ``typed``, else int64.
    """

    argument: int
    declares: bool | None
    texts: bool = True
    typed: bool = False


SIZE: Final[DataType] = DataType("int64")
SHAPE_PARAMETERS: Final = frozenset({"shape", "strides", "elem_offset", "values", "value"})
SHAPED: Final[dict[int, ShapeArgument]] = {
    id(BufferSpec): ShapeArgument(0, True),
    id(match_buffer): ShapeArgument(1, True),
    id(alloc_buffer): ShapeArgument(0, False),
    id(alloc_local): ShapeArgument(0, False),
    id(alloc_shared): ShapeArgument(0, False),
    id(decl_buffer): ShapeArgument(0, False),
}
"""Which argument is a shape, by the ``id`` of the function."""
DECLARING: Final[dict[int, int]] = {}
"""From which argument on a description declares names in shapes, by the ``id`` of the function."""
SCOPED: Final[set[int]] = set()
"""Functions whose arguments declare names in shapes that nothing else sees, by ``id``."""
_SIGNATURES: dict[int, inspect.Signature] = {}


def choose_declared_dtype(
    shaped: ShapeArgument | None, args: Sequence[object], keywords: Mapping[str, object]
) -> DataType:
    """Return the dtype of the names that an argument declares, by what stands before it."""
    if shaped is None or not shaped.typed:
        return SIZE
    given = args[0] if args else keywords.get("dtype")
    try:
        return DataType(given) if isinstance(given, str) else SIZE
    except CompileError:
        return SIZE  # the function that takes it reports what is not a dtype


def is_data(node: doc.AST) -> bool:
    """Whether an expression holds nothing but constants."""
    stack: list[doc.AST | None] = [node]
    while stack:
        part = stack.pop()
        if isinstance(part, (doc.Tuple, doc.List)):
            stack += part.elts
        elif isinstance(part, doc.Dict):
            stack += [*part.keys, *part.values]
        elif isinstance(part, doc.UnaryOp):
            stack.append(part.operand)
        elif not isinstance(part, doc.Constant):
            return False
    return True


def explain_in_kernel(name: str, span: Span) -> CompileError:
    """Explain that a part of Relax has no meaning in a kernel. Errors: SCR0010."""
    return mistake(
        "SCR0010",
        f"{name} is part of Relax, and this function is a kernel",
        help="use what T has, or write the function under @R.function",
        span=span,
    )


def explain_not_callable(func: object, span: Span) -> CompileError:
    """Explain why something is not called. Errors: SCR0007."""
    if isinstance(func, (BaseFunc, IRModule)):
        return mistake(
            "SCR0007",
            "this function belongs to another program",
            help="put both into one class under @I.ir_module, and call cls.name(…)",
            span=span,
        )
    if isinstance(func, Namespace):
        return mistake(
            "SCR0007", f"{func.name} cannot be called", help="name what is in it", span=span
        )
    if isinstance(func, Buffer):
        return mistake(
            "SCR0007",
            f"{kind(func)} cannot be called",
            help=f"index it with square brackets, as in {func.name or 'A'}[i]",
            span=span,
        )
    help_ = "call T.* functions, or functions of the module"
    if isinstance(func, ForeignValue):
        help_ = (
            "Python code is not run: write its expression here, its statements under @T.macro, or "
            "compute the value before, around the function"
        )
    return mistake("SCR0007", f"{kind(func)} cannot be called", help=help_, span=span)


def _signature(target: Callable[..., object]) -> inspect.Signature:
    signature = _SIGNATURES.get(id(target))
    if signature is None:
        signature = inspect.signature(target)
        if is_exported(target):
            _SIGNATURES[id(target)] = signature
    return signature


def check_arguments(
    target: Callable[..., object],
    node: doc.Call,
    args: list[object],
    keywords: Mapping[str, object],
) -> None:
    """Check the number and names of arguments. Errors: SCR0005."""
    if getattr(target, "checks_arguments", False):
        return
    if getattr(target, "counts_arguments", False) and not keywords:
        return  # builtins say what they compute
    signature = _signature(target)
    try:
        signature.bind(*args, **keywords)
    except TypeError as error:
        names = ", ".join(str(p.replace(annotation=p.empty)) for p in signature.parameters.values())
        called = _text_of(node.func)
        help_ = f"its arguments are {called}({names})"
        raise CompileError(
            Diagnostic("SCR0005", f"{called}: {error}", node.span, help=help_)
        ) from error


def place_dtype(
    target: FunctionType, args: list[object], keywords: dict[str, object]
) -> tuple[list[object], dict[str, object], object]:
    """Place ``dtype=`` of a builtin: first among the arguments, or beside them as a claim.

    Gives the dtype that the result must have, None if the function takes the dtype itself.
    """
    names = list(_signature(target).parameters)
    if names[:1] == ["dtype"] or target in DTYPE_FIRST:
        rest = {name: value for name, value in keywords.items() if name != "dtype"}
        return ([keywords["dtype"], *args], rest, None) if args else (args, keywords, None)
    if "dtype" in names or not makes_expression(target):
        return args, keywords, None
    rest = {name: value for name, value in keywords.items() if name != "dtype"}
    return args, rest, keywords["dtype"]


def _text_of(node: doc.AST) -> str:
    words: list[str] = []
    while isinstance(node, doc.Attribute):
        words.append(node.attr)
        node = node.value
    words.append(node.id if isinstance(node, doc.Name) else "…")
    return ".".join(reversed(words))
