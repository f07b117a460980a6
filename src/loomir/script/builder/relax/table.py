"""Every name of ``R`` that a program may use: one explicit table, and the table of operators."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from loomir.relax.expr import Var
from loomir.relax.operator.definition import find_op, op_names
from loomir.script.builder.function import vdevice
from loomir.script.builder.relax import any_call, calls, constants, functions, info, values
from loomir.script.builder.relax.values import Operator

__all__ = ["BUILDER_NAMES", "NAMES", "Operators", "Part", "match_cast", "operator_named"]


def match_cast(
    value: object,
    struct_info: info.StructInfoLike | None = None,
    *,
    ty: info.StructInfoLike | None = None,
) -> Var:
    """Check a value against structural information at run time, and bind it."""
    return functions.emit_match_cast(value, struct_info, ty=ty)


NAMES: Final[dict[str, object]] = {
    # what is known of values
    "Tensor": info.tensor,
    "Shape": info.shape,
    "Prim": info.prim,
    "Object": info.any_value,
    "Any": info.any_value,
    "Tuple": info.tuple_info,
    "Callable": info.function_info,
    "vdevice": vdevice,
    # values
    "const": values.const,
    "constant": values.const,
    "data": constants.data,
    "tuple": values.tuple_of,
    "shape": values.shape,
    "ShapeExpr": values.shape,
    "TupleGetItem": values.tuple_get_item,
    "device": info.device,
    "cpu": info.cpu,
    "cuda": info.cuda,
    "prim_value": values.prim_value,
    "str": values.string,
    "dtype": values.dtype,
    "ExternFunc": values.extern_func,
    # calls
    "Call": any_call.any_call,
    "call_dps_packed": calls.call_dps_packed,
    "call_inplace_packed": calls.call_inplace_packed,
    "call_packed": calls.call_packed,
    "call_pure_packed": calls.call_pure_packed,
    "call_tir": calls.call_tir,
    "call_tir_inplace": calls.call_tir_inplace,
    "invoke_closure": calls.invoke_closure,
    "invoke_pure_closure": calls.invoke_pure_closure,
    # statements
    "emit": functions.emit,
    "emit_match_cast": functions.emit_match_cast,
    "match_cast": match_cast,
    "dataflow": functions.dataflow,
    "output": functions.output,
    "func_attr": functions.func_attr,
    "is_pure": functions.is_pure,
    "is_impure": functions.is_impure,
}
"""The names of ``R``, operators and decorators aside."""

BUILDER_NAMES: Final[dict[str, object]] = {
    "func_name": functions.func_name,
    "func_ret_struct_info": functions.func_ret_struct_info,
    "func_ret_ty": functions.func_ret_struct_info,
    "func_ret_value": functions.func_ret_value,
    "arg": functions.arg,
    "If": functions.branch,
    "Then": functions.then_case,
    "Else": functions.else_case,
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
    """Return the function of an operator by its name in ``R``, such as ``nn.relu``, or None."""
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
