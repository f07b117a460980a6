"""Passes written by users: a function on functions or dataflow blocks becomes a module pass.

Such a pass returns the new function, and is called with a module:

    @function_pass
    def without_dropout(func, mod):
        return ...

    mod = without_dropout(mod)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn, TypeVar, overload

from loomir.ir.module import BaseFunc, GlobalVar, IRModule
from loomir.ir.visit import rewrite
from loomir.relax.expr import DataflowBlock, Function
from loomir.relax.normal.normalize import normalize
from loomir.tir.rules import refuse

__all__ = ["DataflowBlockPass", "FunctionPass", "dataflowblock_pass", "function_pass"]

_P = TypeVar("_P", "FunctionPass", "DataflowBlockPass")


class FunctionPass:
    """A pass that maps each graph of a module, by ``transform(func, mod)``.

    Its result is brought to normal form; a module in which nothing changed is returned unchanged.
    Errors: RLX0331 if it returns anything but a function.
    """

    def __init__(self, transform: Callable[[Function, IRModule], Any], name: str = "") -> None:
        self.transform = transform
        self.name = name or getattr(transform, "__name__", "pass")

    def __call__(self, mod: IRModule) -> IRModule:
        """Apply the pass."""
        functions: dict[GlobalVar, BaseFunc] = {}
        for var, func in mod.functions.items():
            functions[var] = self._map_blocks(func, mod) if isinstance(func, Function) else func
        if all(functions[var] is func for var, func in mod.functions.items()):
            return mod
        return normalize(mod.with_functions(functions))

    def _map_blocks(self, func: Function, mod: IRModule) -> Function:
        made = self.transform(func, mod)
        return made if isinstance(made, Function) else _refuse(self.name, made, "function")


class DataflowBlockPass:
    """A pass that maps each dataflow block of a module, by ``transform(block, mod)``.

    Errors: RLX0331 if it returns anything but a dataflow block.
    """

    def __init__(self, transform: Callable[[DataflowBlock, IRModule], Any], name: str = "") -> None:
        self.transform = transform
        self.name = name or getattr(transform, "__name__", "pass")

    def __call__(self, mod: IRModule) -> IRModule:
        """Apply the pass."""
        return FunctionPass(self._function, self.name)(mod)

    def _function(self, func: Function, mod: IRModule) -> Function:
        def block(old: DataflowBlock) -> DataflowBlock:
            made = self.transform(old, mod)
            return (
                made
                if isinstance(made, DataflowBlock)
                else _refuse(self.name, made, "dataflow block")
            )

        return rewrite(func, {DataflowBlock: block})


def _refuse(name: str, made: object, wanted: str) -> NoReturn:
    refuse(
        "RLX0331",
        f"the pass {name!r} gave a {type(made).__name__}, not a {wanted}",
        help=f"return the {wanted}, the same one where there is nothing to do",
        span=None,
    )


@overload
def function_pass(transform: Callable[[Function, IRModule], Any]) -> FunctionPass: ...
@overload
def function_pass(*, name: str = "") -> Callable[[Callable[..., Any]], FunctionPass]: ...
def function_pass(transform: Callable[..., Any] | None = None, *, name: str = "") -> Any:
    """Turn a function of a graph and its module into a pass on modules."""
    return _decorate(FunctionPass, transform, name)


@overload
def dataflowblock_pass(
    transform: Callable[[DataflowBlock, IRModule], Any],
) -> DataflowBlockPass: ...
@overload
def dataflowblock_pass(*, name: str = "") -> Callable[[Callable[..., Any]], DataflowBlockPass]: ...
def dataflowblock_pass(transform: Callable[..., Any] | None = None, *, name: str = "") -> Any:
    """Turn a function of a dataflow block and its module into a pass on modules."""
    return _decorate(DataflowBlockPass, transform, name)


def _decorate(
    cls: type[_P], transform: Callable[..., Any] | None, name: str
) -> _P | Callable[[Callable[..., Any]], _P]:
    if transform is not None:
        return cls(transform, name)
    return lambda given: cls(given, name)
