"""The page of operators of Relax, written from their definitions."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Iterator
from types import ModuleType

import loomir.op
from loomir.relax.operator.definition import OpDef, find_op
from loomir.relax.operator.params import REQUIRED

INTRODUCTION = """# Operators of Relax

Graphs consist of calls of these operators. Their names start with `R.` in TVMScript; in Python they are
functions of `loomir.op`. This page is generated from the definitions of the operators.

- No dtype promotion: tensors that an operator combines have one dtype. A plain number beside a tensor
  takes its dtype, if that can represent it ([OPS0006](../errors/OPS0006.md)).
- Shapes broadcast as in NumPy. Shapes that cannot fit are refused when the program is checked
  ([OPS0008](../errors/OPS0008.md)); shapes that may fit are compared at run time.
- Integers wrap in their dtype. An integer division by zero raises `ZeroDivisionError`.
- 16-bit floats are computed in `float32`, and rounded once.
- Negative axes count from the end ([OPS0005](../errors/OPS0005.md)); `axis=None` stands for all axes.
- A rank or dtype may be unknown before the program runs. The structural information of the result then
  says less, but nothing untrue."""


def families() -> list[tuple[ModuleType, list[OpDef]]]:
    """Return the modules of ``loomir.op`` with the operators that each defines."""
    found: list[tuple[ModuleType, list[OpDef]]] = []
    for module in pkgutil.walk_packages(loomir.op.__path__, "loomir.op."):
        if module.ispkg:
            continue
        loaded = importlib.import_module(module.name)
        named = [getattr(loaded, n) for n in loaded.__all__]
        ops = [op for f in named if (op := find_op(f"relax.{f.__qualname__}")) is not None]
        if ops:
            found.append((loaded, sorted(ops, key=lambda o: o.name)))
    return sorted(found, key=lambda f: (".nn." in f[0].__name__, f[0].__name__))


def call(op: OpDef) -> str:
    """Write how an operator is called."""
    params = [
        p.name if p.default is REQUIRED else f"{p.name}={shown(p.default)}" for p in op.params
    ]
    return f"R.{op.name.removeprefix('relax.')}({', '.join(params)})"


def shown(default: object) -> str:
    """Write a default as it is typed."""
    return repr(default if isinstance(default, (int, float, tuple)) else default and str(default))


def cell(text: str) -> str:
    """Return text in one line of a table."""
    return " ".join(text.split()).replace("``", "`").replace("|", "\\|")


def lines() -> Iterator[str]:
    yield INTRODUCTION
    for module, operators in families():
        title, _, rest = (inspect.getdoc(module) or "").partition("\n\n")
        yield f"\n## {' '.join(title.split()).rstrip('.')}\n"
        if rest:
            yield rest.replace("``", "`") + "\n"
        yield "| operator | does |"
        yield "| --- | --- |"
        for op in operators:
            yield f"| `{call(op)}` | {cell(op.doc)} |"


def page() -> str:
    """Write the page."""
    return "\n".join(lines()) + "\n"
