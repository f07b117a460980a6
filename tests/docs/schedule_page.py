"""The page of schedule primitives, written from their table."""

from __future__ import annotations

import inspect

from loomir.schedule import PRIMITIVES, Primitive, Schedule

__all__ = ["page"]

INTRODUCTION = """# Schedules

A schedule changes how a program runs, but not its results. `loomir.Schedule(mod)` takes a module or a function. Each primitive
checks that it preserves the meaning of the program before it changes anything; if this cannot be proved, it raises a `ScheduleError`
that underlines the loop or block, says why, and what would be legal.

```python
import loomir
from loomir import te

A = te.placeholder((64, 32), name="A")
B = te.placeholder((32, 48), name="B")
k = te.reduce_axis((0, 32), "k")
C = te.compute((64, 48), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="C")

sch = loomir.Schedule(te.create_prim_func([A, B, C]))
i, j, k = sch.get_loops("C")
i0, i1 = sch.split(i, [None, 4])
j0, j1 = sch.split(j, [None, 8])
sch.reorder(i0, j0, k, i1, j1)
sch.parallel(i0)
sch.vectorize(j1)
print(sch.mod["main"].script())
print(sch.trace)
```

```output
...
```

Random variables (`BlockRV`, `LoopRV`, `ExprRV`) name blocks, loops and sampled numbers; they stay valid as long as what they name
exists. `sch.get(rv)` returns what one stands for. The primitives that were applied form a trace: `sch.trace.as_python()` writes it as
lines of Python, `sch.trace.as_json()` as data that `loomir.schedule.Trace.from_json` reads, and `trace.apply_to_schedule(sch)` applies
it to another schedule.

An edit of loops takes time linear in the size of the nest, a move of a block time linear in the size of the enclosing block. Symbolic
sizes are assumed to be below 2³¹ - 2¹⁶.
"""


def page() -> str:
    """Write the page."""
    parts = [INTRODUCTION, "## Primitives\n"]
    parts += [_entry(row) for row in sorted(PRIMITIVES.values(), key=lambda row: row.name)]
    return "\n".join(parts)


def _entry(row: Primitive) -> str:
    signature = inspect.signature(getattr(Schedule, row.name))
    shown = []
    for param in list(signature.parameters.values())[1:]:
        star = "*" if param.kind is param.VAR_POSITIONAL else ""
        default = "" if param.default is param.empty else f"={param.default!r}"
        shown.append(f"{star}{param.name}{default}")
    paragraphs: list[str] = []
    for part in row.doc.split("\n\n"):
        if part.startswith("Errors:"):
            continue
        is_picture = "-->" in part or "\n    " in part
        paragraphs.append(f"```text\n{part}\n```" if is_picture else part)
    text = "\n\n".join(paragraphs)
    return f"### {row.name}\n\n`sch.{row.name}({', '.join(shown)})`\n\n{text}\n"
