"""Say how to get a program from a value of another kind."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from types import FunctionType
from typing import Any, Final, cast

__all__ = ["advise_program"]

_MADE_FROM: Final = {
    "Schedule": "write loomir.compile(sch.mod)",
    "BlockBuilder": "write loomir.compile(bb.get())",
    "Executable": "it is compiled already: call it",
    "JitFunction": "it is compiled at its first call: call it",
    "Comprehension": "call its functions, which are compiled at their first call, or give to_tir()",
}
"""What holds a program, by its class."""
_READERS: Final = {
    ".onnx": "loomir.compile(loomir.onnx.load({}))",
    ".pt2": "loomir.compile(loomir.torch.load({}))",
    ".tc": "loomir.tc.define(pathlib.Path({}).read_text())",
    ".py": "import the function that is in it, and compile that; a shell runs: loomir run {}",
}
"""How to read a program, by the ending of its file."""


def advise_program(value: Any) -> str:
    """Return a remedy that says how to get a program from a value."""
    cls = cast("type[Any]", type(value))
    if isinstance(value, FunctionType):
        return (
            f"write @T.prim_func or @R.function above def {value.__name__}, "
            "or @loomir.jit, which compiles it at its first call"
        )
    name = cls.__name__
    if name in _MADE_FROM and cls.__module__.startswith("loomir."):
        return _MADE_FROM[name]
    if isinstance(value, type):
        return f"write @I.ir_module above class {value.__name__}, and compile that"
    if isinstance(value, Mapping) and not any(
        _is_part(v) for v in cast("Mapping[Any, Any]", value).values()
    ):
        return "parameters are no program: give the model, as to loomir.torch.compile(model)"
    several = isinstance(value, (list, tuple))
    items: list[object] = [*cast("Sequence[object]", value)] if several else [value]
    if any(type(item).__module__.startswith("loomir.te.") for item in items):
        return "make a program of tensors: te.create_prim_func([inputs..., output])"
    if any("torch" in base.__module__ for base in cls.__mro__):
        if hasattr(cast("object", value), "graph_signature"):
            return "bring it over: loomir.compile(loomir.torch.from_exported(program))"
        return "write loomir.torch.compile(model), and call what it returns"
    if cls.__module__.partition(".")[0] == "onnx":
        return "bring it over: loomir.compile(loomir.onnx.load(model))"
    if isinstance(value, (list, tuple, Mapping)):
        return (
            "write the functions in one class under @I.ir_module, "
            "or compile them one by one: [loomir.compile(f) for f in functions]"
        )
    if isinstance(value, (str, os.PathLike)):
        return _read_file(str(cast("object", value)))
    return (
        "give a function decorated with @T.prim_func or @R.function, or a module with @I.ir_module"
    )


def _is_part(value: object) -> bool:
    return hasattr(value, "node_fields")


def _read_file(given: str) -> str:
    form = _READERS.get(os.path.splitext(given)[1])
    if form is None:
        return "read it: loomir.script.from_source(text), or loomir.onnx.load(path) of a model"
    return f"write {form.format(repr(given))}" if "import" not in form else form.format(given)
