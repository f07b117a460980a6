"""The page of operators on tensors, written from their signatures and docstrings."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Iterator
from types import ModuleType
from typing import Any

from loomir.te import topi

INTRODUCTION = """# Operators on tensors

`loomir.te.topi` builds [tensor expressions](te.md) of whole tensors, with the semantics of NumPy and the
Array API. This page is generated from signatures and docstrings.

```python
import numpy as np
import loomir
from loomir import te
from loomir.te import topi

n = te.size_var("n")
x = te.placeholder((n, 4), name="x")
values, indices = topi.topk(x, 2)
find = loomir.compile(te.create_prim_func([x, values, indices]))

a = np.array([[3, 1, 2, 9], [5, 5, 8, 0]], "float32")
v, i = np.empty((2, 2), "float32"), np.empty((2, 2), "int64")
find(a, v, i)
print(v)
print(i)
```

```output
[[9. 3.]
 [8. 5.]]
[[3 0]
 [2 0]]
```

Sizes may be symbolic, and negative axes count from the end. Errors are reported at the line that calls
the operator: for shapes ([TE0101](../errors/TE0101.md)), axes ([TE0102](../errors/TE0102.md)), dtypes
([TE0103](../errors/TE0103.md)) and other parameters ([TE0104](../errors/TE0104.md)).

## Differences from NumPy

- No dtype promotion: all operands of an operator have one dtype, and plain numbers take it.
- Extents broadcast if they are provably equal, or the number 1. Two symbolic sizes that may differ are
  refused.
- An integer division by zero raises ([RUN0201](../errors/RUN0201.md)).
- 16-bit floats are computed in `float32`, and rounded once.
- Indices from tensors are checked only under `loomir.compile(..., check_bounds=True)`.
- The maximum over a symbolic extent that is 0 at run time is the least value of the dtype, the minimum the
  greatest."""


def families() -> list[ModuleType]:
    """List the modules of operators: those whose names `topi` has."""
    found = [
        importlib.import_module(m.name)
        for m in pkgutil.walk_packages(topi.__path__, f"{topi.__name__}.")
        if not m.ispkg
    ]
    return [m for m in found if all(_given(vars(topi).get(n)) is vars(m)[n] for n in m.__all__)]


def _given(operator: Any) -> Any:
    """Return the operator itself of one whose arguments are checked first."""
    return getattr(operator, "__wrapped__", operator)


def signature(operator: Any) -> str:
    """Write how an operator is called, without types."""
    made: list[str] = []
    for p in inspect.signature(operator).parameters.values():
        star = "*" if p.kind is p.VAR_POSITIONAL else ""
        if p.kind is p.KEYWORD_ONLY and not any(m.startswith("*") for m in made):
            made.append("*")
        made.append(star + p.name + ("" if p.default is p.empty else f"={p.default!r}"))
    return ", ".join(made)


def prose(documented: object) -> str:
    """Return a docstring in one line of Markdown."""
    return " ".join((inspect.getdoc(documented) or "").split()).replace("``", "`")


def lines() -> Iterator[str]:
    yield INTRODUCTION
    for family in families():
        title, _, rest = (inspect.getdoc(family) or "").partition("\n\n")
        yield f"\n## {' '.join(title.split()).rstrip('.')}\n"
        if rest:
            yield rest.replace("``", "`") + "\n"
        yield "| operator | does |"
        yield "| --- | --- |"
        for name in sorted(family.__all__):
            operator = getattr(family, name)
            cells = f"`topi.{name}({signature(operator)})`", prose(operator)
            yield "| " + " | ".join(c.replace("|", "\\|") for c in cells) + " |"


def page() -> str:
    """Write the page."""
    return "\n".join(lines()) + "\n"
