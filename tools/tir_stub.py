"""Write the stub of ``T``: the names of the loop language for editors and type checkers.

Functions that tables generate, and dtypes, are spelled out with their parameters and first lines;
the other names are imported from their modules. ``python -m tools.tir_stub`` writes the stub, and
so does ``pytest --update-golden``.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from loomir.script import tir as T
from loomir.script.builder.dtypes import DTypeFunction, HandleFunction
from loomir.script.builder.tir import blocks, scopes

__all__ = ["PATH", "checked_decorators", "stub_text"]

PATH: Final = Path(T.__file__).with_suffix(".pyi")

_HEAD = '''\
# Written by `python -m tools.tir_stub` from the names of loops: do not edit.
"""``T``: the language of loops, for annotations, decorators, and building programs in Python."""

import builtins as _b
from typing import TypeVar as _TypeVar
'''

_LANGUAGE = '''
_V = _TypeVar("_V")

def meta_var(value: _V) -> _V:
    """Return the value; in a program, a name assigned so stands for it during parsing."""

class _DType(  # pyright: ignore[reportGeneralTypeIssues]
    _b.type, _DTypeFunction
):
    """What dtypes are: types, for annotations, and functions that convert."""
'''

_DTYPE = '''
class {name}(_PrimExpr, metaclass=_DType):
    """The dtype {dtype}: as a function it makes a constant, casts, or declares a variable."""

    def __new__(
        cls, value: _ExprLike | _b.str | None = None, is_size_var: _b.bool = False
    ) -> {name}: ...
'''

_HANDLE = '''
class handle(_Var, metaclass=_DType):
    """A pointer; ``T.handle("float32", "global")`` one to elements of a dtype."""

    def __new__(
        cls, dtype: _DTypeLike | _PrimExpr | None = None, storage_scope: _b.str = "global"
    ) -> handle: ...
    def __init__(
        self, dtype: _DTypeLike | _PrimExpr | None = None, storage_scope: _b.str = "global"
    ) -> None: ...
'''

# Where values are defined that do not say so themselves, and what the stub uses.
_VALUES: Final = {"axis": (blocks, "axis"), "let": (scopes, "LET")}
_USED: Final = (
    "loomir.script.builder.dtypes.DTypeFunction",
    "loomir.script.builder.dtypes.DTypeLike",
    "loomir.tir.expr.ExprLike",
    "loomir.tir.expr.PrimExpr",
    "loomir.tir.expr.Var",
)
_DECORATORS: Final = {"prim_func": "prim_func", "macro": "macro", "inline": "macro"}


def stub_text() -> str:
    """Write the stub."""
    imports = {name: f"_{name.rpartition('.')[2]}" for name in _USED}
    lines: list[str] = [_from(name, shown) for name, shown in imports.items()]
    written: list[str] = []
    for name in sorted(T.__all__):
        value = getattr(T, name)
        if isinstance(value, HandleFunction):
            written.append(_HANDLE)
        elif isinstance(value, DTypeFunction):
            written.append(_DTYPE.format(name=name, dtype=value.dtype))
        elif name in _DECORATORS or name == "meta_var":
            continue
        elif (place := _place(name, value)) is not None:
            lines.append(_from(place, name))
        else:
            written.append(_function(name, value))
    names = "".join(f'    "{name}",\n' for name in sorted(T.__all__))
    exports = f"\n__all__ = [\n{names}]\n"
    decorators = checked_decorators(_DECORATORS)
    return "".join([_HEAD, "\n", *sorted(lines), "\n", decorators, exports, _LANGUAGE, *written])


def checked_decorators(decorators: dict[str, str]) -> str:
    """Write the imports of decorators, whose functions checkers must not read."""
    mypy = "".join(f"    from typing import no_type_check as {n}\n" for n in decorators)
    pyright = "".join(
        f"    from loomir.checkers.{folder}.typing_extensions import no_type_check as {name}\n"
        for name, folder in decorators.items()
    )
    return (
        "# mypy takes the first branch: it knows `no_type_check` by its name. pyright takes the\n"
        "# last one, and knows it in a stub of that name: see loomir/checkers/__init__.py.\n"
        f"MYPY = False\nif MYPY:\n{mypy}else:\n{pyright}"
    )


def _from(place: str, shown: str) -> str:
    module, _, name = place.rpartition(".")
    return f"from {module} import {name} as {shown}\n"


def _place(name: str, value: Any) -> str | None:
    """Return where a name is defined, by its own name there; None for what a table made."""
    if name in _VALUES:
        module, own = _VALUES[name]
        return f"{module.__name__}.{own}"
    own = getattr(value, "__name__", "")
    module: ModuleType = sys.modules[value.__module__]
    if getattr(module, own, None) is value:
        return f"{module.__name__}.{own}"
    return None


def _function(name: str, value: Any) -> str:
    shown = ", ".join(_parameters(value))
    doc = (inspect.getdoc(value) or "").partition("\n")[0]
    return f'\ndef {name}({shown}) -> _PrimExpr:\n    """{doc}"""\n'


def _parameters(value: Any) -> Iterator[str]:
    for one in inspect.signature(value).parameters.values():
        star = "*" if one.kind is one.VAR_POSITIONAL else ""
        text = " | _b.str" if "str" in str(one.annotation) else ""
        yield f"{star}{one.name}: _ExprLike{text}"


if __name__ == "__main__":
    PATH.write_text(stub_text(), encoding="utf-8")
