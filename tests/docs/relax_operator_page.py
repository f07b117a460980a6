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

Graphs are made of calls of these operators; in TVMScript their names start with `R.`, and in Python they
are functions of `loomir.op`. This page is a copy of what the source says of each.

- Nothing is promoted: tensors that an operator combines have one dtype. A plain number beside a tensor
  takes its dtype, if that holds it ([OPS0006](../errors/OPS0006.md)).
- Shapes broadcast as in NumPy. What is certain not to fit is refused when the program is checked
  ([OPS0008](../errors/OPS0008.md)); what may fit is compared when it runs.
- Integers wrap in their dtype. A division of integers by zero raises `ZeroDivisionError`.
- Floats of 16 bits are computed in `float32`, and rounded once.
- Negative axes count from the end ([OPS0005](../errors/OPS0005.md)); `axis=None` stands for all axes.
- What is not known before the program runs, such as a rank or a dtype, is left open: the structural
  information of the result then says less, and never something untrue."""


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
