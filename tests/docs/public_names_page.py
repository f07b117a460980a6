"""The page of public names, written from ``__all__`` and the docstrings of what they name."""

from __future__ import annotations

import importlib
import inspect
from typing import Any, Final

INTRODUCTION: Final = """# Public names

These are the names that programs import, by package. They keep working from one version to the next. A name
that is on no page of this documentation is internal, and may change. `pytest --update-golden` writes this page
from `__all__` of the packages and from docstrings; a test checks that every name is here and can be imported."""

PACKAGES: Final[dict[str, str]] = {
    "loomir": "Compile, run, check, save and load programs.",
    "loomir.script": "TVMScript: parse and print programs.",
    "loomir.script.ir": "`I` in TVMScript: modules. See [the reference](relaxscript.md).",
    "loomir.script.relax": "`R` in TVMScript: graphs. It also has every"
    " [operator](relax-operators.md); see [the reference](relaxscript.md).",
    "loomir.te": "Tensor expressions. See [the reference](te.md); operators on whole tensors are in"
    " [`loomir.te.topi`](topi.md).",
    "loomir.tc": "Tensor Comprehensions. See [the reference](tc.md).",
    "loomir.relax": "Graphs as data: expressions, structural information, the builder. Functions that"
    " make calls of [operators](relax-operators.md) are in `loomir.op`.",
    "loomir.tir": "Loops as data: expressions, buffers, statements, functions.",
    "loomir.ir": "What all IRs share: modules, nodes, traversal, equality.",
    "loomir.ir.passes": "Passes, pipelines and facts. See [Write a pass](../tutorials/write-a-pass.md).",
    "loomir.transform": "The default schedule as a pass, and the pipeline that lowers loops. Passes on graphs have"
    " [a page of their own](relax-passes.md).",
    "loomir.schedule": "Schedules. Their primitives have [a page of their own](schedule.md).",
    "loomir.arith": "Proofs about index expressions. See [the reference](arith.md).",
    "loomir.target": "Machines to compile for.",
    "loomir.runtime": "Compiled functions, packed functions, errors of calls, the cache.",
    "loomir.interp": "The interpreter, which defines what programs mean.",
    "loomir.validate": "Comparison of schedules with the functions that they schedule.",
    "loomir.tuning": "Tuning. See [Search for a faster schedule](../tutorials/tune.md).",
    "loomir.frontend.onnx": "Import of ONNX models, also as `loomir.onnx`.",
    "loomir.frontend.torch": "Import of programs of PyTorch, also as `loomir.torch`.",
}
"""The packages that users import from, and what is in each."""

LISTED: Final = {
    "loomir.script.tir": "`T` in TVMScript. See [the reference](tirscript.md) and"
    " [the builtins](builtins.md)."
}
"""Packages of very many names, which other pages describe; here they are only listed."""

SAID: Final[dict[str, str]] = {
    "loomir.ir.passes.FACTS": "The facts that passes require, establish and break, by name.",
    "loomir.interp.TOLERANCE": "By how many units in the last place engines may differ, by builtin.",
    "loomir.ir.passes.OnStage": "Called with the name of each pass, and the program after it.",
    "loomir.ir.passes.PASSES": "All passes, by name.",
    "loomir.schedule.PRIMITIVES": "All schedule primitives, by name.",
    "loomir.te.all": "Reduce by `and`.",
    "loomir.te.any": "Reduce by `or`.",
    "loomir.te.max": "Reduce to the largest value.",
    "loomir.te.min": "Reduce to the smallest value.",
    "loomir.te.prod": "Reduce to the product.",
    "loomir.te.sum": "Reduce to the sum.",
    "loomir.frontend.onnx.Converter": "A function from a `Node` to its outputs, as expressions of Relax.",
    "loomir.frontend.onnx.MICROSOFT": "The domain of Microsoft's operators, `com.microsoft`.",
    "loomir.frontend.torch.Converter": "A function from a `Node` to its outputs, as expressions of Relax.",
    "loomir.schedule.ExprRV": "An integer that a schedule sampled, or that is computed from such.",
    "loomir.tir.BUILTINS": "All builtins, by name.",
    "loomir.tir.ExprLike": "What converts to an expression: expressions, numbers, strings.",
    "loomir.tir.TRUE": "The condition that always holds.",
    "loomir.transform.LOWER_CPU": "The pipeline that lowers loops for CPUs.",
}
"""Lines for values, which have no docstrings of their own."""


def line_of(package: str, name: str) -> str:
    """Return what a name means, in one line."""
    value: Any = getattr(importlib.import_module(package), name)
    said = SAID.get(f"{package}.{name}") or (inspect.getdoc(value) or "").split("\n\n")[0]
    line = " ".join(said.split()).partition(" Errors:")[0]
    return line.replace("``", "`").replace("|", "\\|")


def page() -> str:
    """Write the page."""
    parts = [INTRODUCTION]
    for package, about in PACKAGES.items():
        names = sorted(importlib.import_module(package).__all__, key=str.lower)
        rows = [f"| `{name}` | {line_of(package, name)} |" for name in names]
        parts.append(
            f"## {package}\n\n{about}\n\n| name | what it is |\n| --- | --- |\n" + "\n".join(rows)
        )
    for package, about in LISTED.items():
        names = sorted(importlib.import_module(package).__all__, key=str.lower)
        parts.append(f"## {package}\n\n{about}\n\n" + " ".join(f"`{name}`" for name in names))
    return "\n\n".join(parts) + "\n"
