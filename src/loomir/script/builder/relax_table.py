"""Every name of ``R`` that a program may use: one explicit table, and the table of operators."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from loomir.relax.expr import Var
from loomir.relax.operator.definition import find_op, op_names
from loomir.script.builder import (
    relax_any_call,
    relax_calls,
    relax_constants,
    relax_functions,
    relax_info,
    relax_values,
)
from loomir.script.builder.function import vdevice
from loomir.script.builder.relax_values import Operator

__all__ = ["BUILDER_NAMES", "NAMES", "Operators", "Part", "match_cast", "operator_named"]


def match_cast(
    value: object,
    struct_info: relax_info.StructInfoLike | None = None,
    *,
    ty: relax_info.StructInfoLike | None = None,
) -> Var:
    """Bind a value that is checked to be what is said of it while the program runs."""
    return relax_functions.emit_match_cast(value, struct_info, ty=ty)


NAMES: Final[dict[str, object]] = {
    # what is known of values
    "Tensor": relax_info.tensor,
    "Shape": relax_info.shape,
    "Prim": relax_info.prim,
    "Object": relax_info.any_value,
    "Any": relax_info.any_value,
    "Tuple": relax_info.tuple_info,
    "Callable": relax_info.function_info,
    "vdevice": vdevice,
    # values
    "const": relax_values.const,
    "constant": relax_values.const,
    "data": relax_constants.data,
    "tuple": relax_values.tuple_of,
    "shape": relax_values.shape,
    "ShapeExpr": relax_values.shape,
    "TupleGetItem": relax_values.tuple_get_item,
    "device": relax_info.device,
    "cpu": relax_info.cpu,
    "cuda": relax_info.cuda,
    "prim_value": relax_values.prim_value,
    "str": relax_values.string,
    "dtype": relax_values.dtype,
    "ExternFunc": relax_values.extern_func,
    # calls
    "Call": relax_any_call.any_call,
    "call_dps_packed": relax_calls.call_dps_packed,
    "call_inplace_packed": relax_calls.call_inplace_packed,
    "call_packed": relax_calls.call_packed,
    "call_pure_packed": relax_calls.call_pure_packed,
    "call_tir": relax_calls.call_tir,
    "call_tir_inplace": relax_calls.call_tir_inplace,
    "invoke_closure": relax_calls.invoke_closure,
    "invoke_pure_closure": relax_calls.invoke_pure_closure,
    # statements
    "emit": relax_functions.emit,
    "emit_match_cast": relax_functions.emit_match_cast,
    "match_cast": match_cast,
    "dataflow": relax_functions.dataflow,
    "output": relax_functions.output,
    "func_attr": relax_functions.func_attr,
    "is_pure": relax_functions.is_pure,
    "is_impure": relax_functions.is_impure,
}
"""The names of ``R``, operators and decorators aside."""

BUILDER_NAMES: Final[dict[str, object]] = {
    "func_name": relax_functions.func_name,
    "func_ret_struct_info": relax_functions.func_ret_struct_info,
    "func_ret_ty": relax_functions.func_ret_struct_info,
    "func_ret_value": relax_functions.func_ret_value,
    "arg": relax_functions.arg,
    "If": relax_functions.branch,
    "Then": relax_functions.then_case,
    "Else": relax_functions.else_case,
}
"""The names of ``R`` for building a program in Python, where a text has syntax of its own."""


_OPERATORS: Final[dict[str, Operator]] = {}

ALIASES: Final[Mapping[str, str]] = {
    "relax_assert_op": "assert_op",
    "relax_print": "print",
    "relax_shape_to_tensor": "shape_to_tensor",
}
"""Other names of operators, which are printed by their own."""


def operator_named(name: str) -> Operator | None:
    """Give the function of an operator by its name in ``R``, such as ``nn.relu``, or None."""
    found = _OPERATORS.get(name)
    if found is None:
        made = find_op(f"relax.{ALIASES.get(name, name)}")
        if made is None:
            return None
        _OPERATORS[name] = found = Operator(made.op, made.doc)
    return found


class Operators(Mapping[str, object]):
    """The names of ``R``, or of a part of it such as ``R.nn``; looked up when asked for."""

    def __init__(self, prefix: str, names: Mapping[str, object]) -> None:
        self.prefix, self.names = prefix, names

    def __getitem__(self, name: str) -> object:
        found = self.names.get(name) or operator_named(self.prefix + name)
        if found is None:
            raise KeyError(name)
        return found

    def __iter__(self) -> Iterator[str]:
        yield from self.names
        start = f"relax.{self.prefix}"
        for name in op_names():
            if name.startswith(start) and name[len(start) :].isidentifier():
                yield name[len(start) :]

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def parts(self) -> Iterator[str]:
        """List the families of operators that have a name of their own, such as ``nn``."""
        seen: set[str] = set()
        start = f"relax.{self.prefix}"
        for name in op_names():
            part, dot, _ = name[len(start) :].partition(".")
            if name.startswith(start) and dot and part not in seen:
                seen.add(part)
                yield part


class Part:
    """A family of operators that has a name of its own, such as ``R.nn``, as Python sees it."""

    def __init__(self, operators: Operators, named: Callable[[Operators, str], Any]) -> None:
        self._operators, self._named = operators, named

    def __getattr__(self, name: str) -> Any:
        return self._named(self._operators, name)

    def __dir__(self) -> list[str]:
        return [*self._operators, *self._operators.parts()]

    @property
    def operators(self) -> Operators:
        """The operators of the family."""
        return self._operators
