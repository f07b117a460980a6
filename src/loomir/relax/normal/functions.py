"""Functions of a module under construction, and their structural information."""

from __future__ import annotations

from typing import Final, NoReturn

from loomir.ir.equality import structural_equal
from loomir.ir.hashing import structural_hash
from loomir.ir.module import BaseFunc, GlobalVar, IRModule
from loomir.relax.expr import Function
from loomir.relax.normal.derive import func_struct_info
from loomir.relax.struct_info import FuncStructInfo
from loomir.support.diagnostics import nearest
from loomir.tir.function import PrimFunc
from loomir.tir.rules import refuse

__all__ = ["Functions"]

_EMPTY: Final = IRModule({})


class Functions:
    """Functions by name, defined or only declared."""

    def __init__(self, mod: IRModule | None = None) -> None:
        self._mod = _EMPTY if mod is None else mod
        self._vars: dict[str, GlobalVar] = {}
        self._made: dict[str, BaseFunc] = {}
        self._declared: dict[str, FuncStructInfo] = {}
        self._infos: dict[str, FuncStructInfo] = {}
        self._private: dict[tuple[object, ...], list[str]] = {}
        """Names of private functions by ``_outline``, which is cheaper than a full hash."""
        self._hashes: dict[str, int] = {}
        for var, func in self._mod.functions.items():
            self._vars[var.name_hint] = var
            self._put(var.name_hint, func)

    def _put(self, name: str, func: BaseFunc) -> None:
        self._made[name] = func
        self._infos.pop(name, None)
        self._hashes.pop(name, None)
        if _is_private(func):
            self._private.setdefault(_outline(func), []).append(name)

    def _alike(self, func: BaseFunc) -> list[str]:
        """List private functions that may be equal to one."""
        listed = self._private.get(_outline(func))
        if not listed:
            return []
        wanted = structural_hash(func)
        return [name for name in listed if self._hash_of(name) == wanted]

    def _hash_of(self, name: str) -> int:
        found = self._hashes.get(name)
        if found is None:
            found = self._hashes[name] = structural_hash(self._made[name])
        return found

    def declare(self, name: str, info: FuncStructInfo) -> GlobalVar:
        """Declare a function. Errors: RLX0308 if there is one of that name."""
        if name in self._made or name in self._declared:
            self._refuse_taken(name)
        self._declared[name] = info
        return self._vars.setdefault(name, GlobalVar(name))

    def define(self, name: str, func: BaseFunc) -> GlobalVar:
        """Define a function, which may have been declared. Errors: RLX0308."""
        if name in self._made:
            self._refuse_taken(name)
        var = self._vars.setdefault(name, GlobalVar(name))
        self._put(name, func)
        return var

    def _refuse_taken(self, name: str) -> NoReturn:
        refuse(
            "RLX0308",
            f"there is a function named {name!r} already",
            help="choose another name, or replace it with bb.update_func(gv, func)",
        )

    def add(self, func: BaseFunc, name: str) -> GlobalVar:
        """Add a function under a free name, or find a private one that is equal."""
        if _is_private(func):
            for known in self._alike(func):
                if structural_equal(self._made[known], func):
                    return self._vars[known]
        return self.define(self.free_name(name), func)

    def update(self, gv: GlobalVar, func: BaseFunc) -> None:
        """Replace a function. Errors: RLX0307 where there is none."""
        name = gv.name_hint
        if name not in self._vars:
            self._unknown(gv)
        self._declared.pop(name, None)
        self._put(name, func)

    def free_name(self, name: str) -> str:
        """Return the name, with a number if it is taken."""
        made, count = name, 0
        while made in self._vars:
            count += 1
            made = f"{name}{count}" if name[-1:].isalpha() else f"{name}_{count}"
        return made

    def info_of(self, gv: GlobalVar) -> FuncStructInfo:
        """Return what is known of a function. Errors: RLX0307 where there is none."""
        name = gv.name_hint
        found = self._infos.get(name)
        if found is None:
            func = self._made.get(name)
            if isinstance(func, (Function, PrimFunc)):
                found = func_struct_info(func)
            elif name in self._declared:
                found = self._declared[name]
            else:
                self._unknown(gv)
            self._infos[name] = found
        return found

    def definition(self, gv: GlobalVar) -> BaseFunc | None:
        """Return a function, None if it is not defined yet."""
        return self._made.get(gv.name_hint)

    def _unknown(self, gv: GlobalVar) -> NoReturn:
        guess = nearest(gv.name_hint, self._vars)
        refuse(
            "RLX0307",
            f"the module has no function named {gv.name_hint!r}",
            help=f"did you mean {guess!r}?" if guess else "add it first, or declare it",
            span=gv.span,
        )

    def module(self) -> IRModule:
        """Return the module. Errors: RLX0307 for a function that is only declared."""
        for name in self._declared:
            if name not in self._made:
                refuse(
                    "RLX0307",
                    f"the function {name!r} was declared but never made",
                    help=f"build it with bb.function({name!r}, params)",
                )
        return self._mod.with_functions(
            {self._vars[name]: func for name, func in self._made.items()}
        )


def _outline(func: BaseFunc) -> tuple[object, ...]:
    """Return a key that equal functions share and that is cheap to compute."""
    if not isinstance(func, PrimFunc):
        return ()
    buffers = tuple((b.dtype, len(b.shape)) for b in func.buffer_map.values())
    return (tuple(param.dtype for param in func.params), buffers)


def _is_private(func: BaseFunc) -> bool:
    return isinstance(func, PrimFunc) and "global_symbol" not in func.attrs
