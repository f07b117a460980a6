"""``R``: the language of graphs, for annotations, decorators, and building programs in Python.

``from loomir.script import relax as R`` is the usual import. In a function under ``@R.function``
the parser reads these names. Elsewhere they are ordinary functions; those that create bindings need
a builder: ``with IRBuilder() as ib: with R.function(): …``, then ``ib.get()``. Every operator is a
name of this module, such as ``R.add`` and ``R.nn.relu``.
"""

from __future__ import annotations

import sys
import typing
from collections.abc import Callable as AnyCallable
from typing import cast, overload

from loomir.ir.module import IRModule
from loomir.relax.expr import Function
from loomir.script.builder.frame import IRBuilder
from loomir.script.builder.function import vdevice
from loomir.script.builder.relax import any_call, calls, functions, info
from loomir.script.builder.relax import values as _values
from loomir.script.builder.relax.calls import *  # noqa: F403
from loomir.script.builder.relax.frames import FunctionFrame
from loomir.script.builder.relax.functions import *  # noqa: F403
from loomir.script.builder.relax.table import Operators, Part, match_cast
from loomir.script.parser.decorators import Options
from loomir.script.parser.entry import inline, macro, read_decorated, read_rewriter
from loomir.script.parser.evaluate.namespaces import FUNCTION, REWRITER, mark
from loomir.script.parser.evaluate.unknown_names import operator_named
from loomir.script.parser.relax.extents import read_extent
from loomir.support.argument_errors import refuse_missing, refuse_options

__all__ = [
    "Call",
    "Callable",
    "Else",
    "ExternFunc",
    "IRBuilder",
    "If",
    "Object",
    "Prim",
    "Shape",
    "Tensor",
    "Then",
    "Tuple",
    "const",
    "constant",
    "dtype",
    "function",
    "inline",
    "macro",
    "match_cast",
    "prim_value",
    "rewriter",
    "shape",
    "vdevice",
]
__all__ += calls.__all__
__all__ += functions.__all__

info.set_extent_reader(read_extent)

# Names of the language that Python writes otherwise, and other names of the same.
Call = any_call.any_call
Callable = info.function_info
Else = functions.else_case
ExternFunc = _values.extern_func
If = functions.branch
Object = info.any_value
Prim = info.prim
Shape = info.shape
Tensor = info.tensor
Then = functions.then_case
Tuple = info.tuple_info
const = _values.const
constant = _values.const
dtype = _values.dtype
func_ret_ty = functions.func_ret_struct_info
prim_value = _values.prim_value
shape = _values.shape


class FunctionDecorator(FunctionFrame):
    """``R.function(private=True)``: a decorator, and a frame of the builder."""

    def __call__(self, func: AnyCallable[..., typing.Any]) -> Function:
        """Read a function."""
        frame = sys._getframe(1)  # pyright: ignore[reportPrivateUsage]
        options = Options(self.private, self.name or None, pure=self.pure)
        return cast("Function", read_decorated(func, frame, options, FUNCTION))


@overload
def function(func: AnyCallable[..., typing.Any]) -> Function: ...
@overload
def function(
    func: None = None,
    *,
    private: bool = False,
    pure: bool = True,
    name: object = None,
    check_well_formed: bool = True,
    s_tir: bool = False,
) -> FunctionDecorator: ...
def function(
    func: AnyCallable[..., typing.Any] | None = None,
    *,
    private: bool = False,
    pure: bool = True,
    name: object = None,
    check_well_formed: bool = True,
    s_tir: bool = False,
    **others: typing.Any,
) -> Function | FunctionDecorator:
    """Read a function as a program of Relax; its body is not run by Python.

    In a class under ``@I.ir_module`` the function is read with the class. Called without a
    function this is the frame that builds one: ``with R.function(): …``. A function that is not
    ``private`` can be called from outside by its name; one that is not ``pure`` may do more than
    give its result. ``check_well_formed`` and ``s_tir`` are read and mean nothing here.

    Errors: those of ``from_source``, SCR0011 where Python does not keep the source, and RUN0012 for
    an option that is none.
    """
    refuse_options(others, ("private", "pure", "name"), "R.function")
    given = None if name is None else f"{name}"
    if func is None:
        return FunctionDecorator(private, pure, given)
    frame = sys._getframe(1)  # pyright: ignore[reportPrivateUsage]
    return cast(
        "Function", read_decorated(func, frame, Options(private, given, pure=pure), FUNCTION)
    )


mark(function, FUNCTION)


def rewriter(cls: type) -> IRModule:
    """Read a class of two functions, ``pattern`` and ``replacement``, as a module of them.

    It says what others replace by what; nothing here applies it. Errors: those of
    ``from_source``, SCR0014 for other functions, SCR0011 where Python does not keep the source.
    """
    return read_rewriter(cls, sys._getframe(1))  # pyright: ignore[reportPrivateUsage]


mark(rewriter, REWRITER)


_DECORATORS = {
    **dict.fromkeys(("func", "fn", "module", "graph"), "@R.function"),
    "prim_func": "@T.prim_func, for a kernel, or @R.function",
    "ir_module": "@I.ir_module",
}


def _find_named(operators: Operators, name: str) -> typing.Any:
    try:
        return operators[name]
    except KeyError:
        if name in operators.parts():
            return Part(Operators(f"{operators.prefix}{name}.", {}), _find_named)
    known = [*__all__, *_ALL] if operators is _ALL else list(operators)
    found = operator_named(name)
    if name in _DECORATORS:
        found = _DECORATORS[name]
    instead = {} if found is None else {name: found}
    return refuse_missing(f"R.{operators.prefix}"[:-1], known, instead)(name)


_ALL = Operators("", {})


_BUILTINS = {"Any": info.any_value, "str": _values.string, "tuple": _values.tuple_of}


def __getattr__(name: str) -> typing.Any:
    """Find an operator, and the names that Python has too."""
    if name in _BUILTINS:
        return _BUILTINS[name]
    if name.startswith("__"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return _find_named(_ALL, name)


def __dir__() -> list[str]:
    """Return the names of the language and of all operators."""
    return sorted({*__all__, *_BUILTINS, *_ALL, *_ALL.parts()})
