"""Run programs twice, by the interpreter and as native code, and hold the two to be equal.

A program is TVMScript text, or nodes. In a text that is refused, or that fails when it runs, the
comment ``# <--`` stands on the line that the error must point to.
"""

from __future__ import annotations

import ctypes
import re
import textwrap
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, partial
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np
import pytest

import loomir
from loomir.check.tir.verify import verify
from loomir.interp import interpret
from loomir.ir.module import IRModule
from loomir.script import from_source
from loomir.support.diagnostics import CompileError, Diagnostic, RunError
from loomir.support.dtype import DataType, dtype_of_numpy
from loomir.tir.function import PrimFunc
from tests.codegen.llvm.tir.compare_engines import same

Program = str | PrimFunc | IRModule
Array = np.ndarray[Any, Any]


def read(program: Program) -> PrimFunc | IRModule:
    """Read a text; nodes stay what they are."""
    if not isinstance(program, str):
        return program
    made = from_source(textwrap.dedent(program).lstrip("\n"))
    assert isinstance(made, (PrimFunc, IRModule))
    return made


def marked_line(program: Program) -> int | None:
    """Return the number of the line that carries ``# <--``."""
    if not isinstance(program, str):
        return None
    lines = textwrap.dedent(program).lstrip("\n").splitlines()
    found = [n for n, line in enumerate(lines, start=1) if "# <--" in line]
    return found[0] if found else None


# -- programs that run ---------------------------------------------------------------------------
class Ran(NamedTuple):
    """What a call gave, and what its arrays hold afterwards."""

    value: Any
    arrays: list[Array]


def copies(args: Sequence[object]) -> list[Any]:
    """Copy arrays with the memory around them: strides, offsets and overlaps stay."""
    memories: dict[int, tuple[int, Any]] = {}
    made: list[Any] = []
    for arg in args:
        if not isinstance(arg, np.ndarray):
            made.append(arg)
            continue
        root: Array = arg
        while isinstance(root.base, np.ndarray):
            root = root.base
        if id(root) not in memories:
            low, high = np.lib.array_utils.byte_bounds(root)
            copied = bytearray(ctypes.string_at(low, high - low))
            memories[id(root)] = low, np.frombuffer(copied, np.uint8)
        low, memory = memories[id(root)]
        start = arg.ctypes.data - low if arg.size else 0
        made.append(np.ndarray(arg.shape, arg.dtype, memory, start, arg.strides))
    return made


def prepared(
    program: Program, options: Mapping[str, Any]
) -> tuple[PrimFunc | IRModule, loomir.Executable]:
    """Read and compile a program; a text that comes again is compiled once."""
    if isinstance(program, str):
        return _prepared_text(program, tuple(sorted(options.items())))
    return program, loomir.compile(program, cache=False, **options)


@lru_cache(maxsize=64)
def _prepared_text(
    text: str, options: tuple[tuple[str, Any], ...]
) -> tuple[PrimFunc | IRModule, loomir.Executable]:
    made = read(text)
    return made, loomir.compile(made, cache=False, **dict(options))


def entry_of(program: PrimFunc | IRModule, name: str | None) -> str:
    if isinstance(program, PrimFunc):
        return program.name
    names = list(program)
    return name or ("main" if "main" in names else names[0])


def run_both(
    program: Program,
    *args: object,
    name: str | None = None,
    allow_alias: bool = False,
    **options: Any,
) -> Ran:
    """Run a program both ways on copies of the arguments; return what both agree on."""
    made, compiled = prepared(program, {"allow_alias": allow_alias, **options})
    entry = entry_of(made, name)
    ours, theirs = copies(args), copies(args)
    wanted: Any = interpret(made, entry, *ours, allow_alias=allow_alias)
    given: Any = compiled[entry](*theirs)
    if wanted is None:
        assert given is None
    else:
        assert type(given) is type(wanted)
        assert same(given, wanted), f"native gives {given}, the interpreter {wanted}"
    arrays = [a for a in ours if isinstance(a, np.ndarray)]
    for position, (a, b) in enumerate(zip(ours, theirs, strict=True)):
        if isinstance(a, np.ndarray):
            assert same(a, b), f"argument {position}: native {b}, interpreter {a}"
    return Ran(wanted, arrays)


def both_ways(program: Program, **options: Any) -> list[Callable[..., Any]]:
    """Return a function as the interpreter and as native code run it."""
    made, compiled = prepared(program, options)
    entry = entry_of(made, None)
    return [partial(interpret, made, entry), compiled[entry]]


def both(program: Program, *args: object, **options: Any) -> Any:
    """Run a program both ways; return what it returned, else what its last array holds."""
    value, arrays = run_both(program, *args, **options)
    return value if value is not None or not arrays else arrays[-1]


def fails(code: str, program: Program, *args: object, **options: Any) -> Diagnostic:
    """Check that a program fails at run time: compiled and interpreted, with one message and place."""
    name, alias = options.pop("name", None), options.get("allow_alias", False)
    options.setdefault("opt_level", 0)  # what is run to its end is compiled as users do
    made, compiled = prepared(program, options)
    entry = entry_of(made, name)
    with pytest.raises(RunError) as oracle:
        interpret(made, entry, *copies(args), allow_alias=alias)
    with pytest.raises(RunError) as native:
        compiled[entry](*copies(args))
    assert type(native.value) is type(oracle.value)
    found = [(d.code, d.message, d.span) for d in oracle.value.diagnostics]
    assert [(d.code, d.message, d.span) for d in native.value.diagnostics] == found
    first = oracle.value.diagnostic
    assert first.code == code
    line = marked_line(program)
    if line is not None:
        assert first.span is not None
        assert first.span.line == line
    return first


# -- programs that are refused -------------------------------------------------------------------
def refused(code: str, program: Program) -> Diagnostic:
    """Check that a program is refused before it runs, and where; return the first mistake."""
    with pytest.raises(CompileError) as caught:
        loomir.compile(read(program), cache=False)
    first = caught.value.diagnostic
    assert first.code == code, str(caught.value)
    assert first.help
    line = marked_line(program)
    if line is not None:
        assert first.span is not None, str(caught.value)
        assert first.span.line == line, str(caught.value)
    return first


def mistakes(program: Program) -> list[str]:
    """Return the codes of what ``loomir.verify`` finds."""
    return [d.code for d in verify(read(program))]


# -- expressions on many values ------------------------------------------------------------------
def literal(value: Any, dtype: str) -> str:
    """Write a number as a constant of the language."""
    if dtype == "bool":
        return f"T.bool({bool(value)})"
    if not dtype.startswith(("float", "bfloat")):
        return f"T.{dtype}({int(value)})"
    number = float(value)
    text = repr(number) if np.isfinite(number) else f'"{number}"'
    return f"T.{dtype}({text})"


def each(expression: str, gives: str | None = None, **operands: Array) -> Array:
    """Evaluate an expression for each row of operands, both ways, and also on constants.

    ``each("a // b", a=i8(-7, 7), b=i8(2, 2))`` gives the two quotients.
    """
    dtypes = {name: str(dtype_of_numpy(values.dtype)) for name, values in operands.items()}
    count = len(next(iter(operands.values())))
    result = gives or next(iter(dtypes.values()))
    buffers = [(f"{n}_", dtypes[n]) for n in operands] + [("folded", result), ("out", result)]
    params = ", ".join(f'{n}: T.Buffer(({count},), "{dtype}")' for n, dtype in buffers)
    lines = [
        "@T.prim_func",
        f"def main({params}):",
        f"    for i in range({count}):",
        *[f"        {n} = {n}_[i]" for n in operands],
        f"        out[i] = {expression}",
    ]
    rows = np.unique(np.linspace(0, count - 1, _FOLDED).astype(int)).tolist()
    for row in rows:
        constant = expression
        for n, values in operands.items():
            constant = re.sub(rf"\b{n}\b", literal(values[row], dtypes[n]), constant)
        lines.append(f"    folded[{row}] = {constant}")
    out = np.zeros(count, numpy_named(result))
    folded, found = run_both("\n".join(lines), *operands.values(), out, out.copy()).arrays[-2:]
    assert same(folded[rows], found[rows]), (
        f"variables give {found[rows]}, constants {folded[rows]}"
    )
    return found


_FOLDED = 8
"""So many rows are also computed from constants, which takes the compiler longer than all rows."""


def numpy_named(dtype: str) -> Any:
    return ml_dtypes.bfloat16 if dtype == "bfloat16" else np.dtype(dtype)


def values(dtype: str, *numbers: float) -> Array:
    """Make an array of a dtype."""
    return np.array(numbers, numpy_named(dtype))


def i8(*numbers: int) -> Array:
    return np.array(numbers, np.int8)


def i32(*numbers: int) -> Array:
    return np.array(numbers, np.int32)


def i64(*numbers: int) -> Array:
    return np.array(numbers, np.int64)


def u8(*numbers: int) -> Array:
    return np.array(numbers, np.uint8)


def u32(*numbers: int) -> Array:
    return np.array(numbers, np.uint32)


def u64(*numbers: int) -> Array:
    return np.array(numbers, np.uint64)


def f16(*numbers: float) -> Array:
    return np.array(numbers, np.float16)


def bf16(*numbers: float) -> Array:
    return np.array(numbers, ml_dtypes.bfloat16)


def f32(*numbers: float) -> Array:
    return np.array(numbers, np.float32)


def f64(*numbers: float) -> Array:
    return np.array(numbers, np.float64)


def truths(*flags: bool | int) -> Array:
    return np.array(flags, bool)


def zeros(*shape: int, dtype: str = "int32") -> Array:
    """Make an array for results."""
    return np.zeros(shape, numpy_named(dtype))


def dt(name: str) -> DataType:
    """Name a dtype."""
    return DataType(name)
