"""Programs with one mistake: a well-formed program with one change.

Each kind of mistake names the codes that may report it. A mistake that neither constructors nor the
verifier report with one of them is a hole, and so is any other exception.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import loomir
from fuzz.choices import Choices, SeedChoices
from fuzz.tir.replacing import replaced
from loomir.check.tir.verify import verify
from loomir.ir.module import GlobalVar, IRModule
from loomir.ir.visit import pre_order, rebuild
from loomir.support.diagnostics import CompileError
from loomir.support.dtype import BOOL, DataType
from loomir.tir import (
    Add,
    Allocate,
    And,
    BlockRealize,
    Broadcast,
    BufferLoad,
    BufferStore,
    Call,
    Cast,
    Evaluate,
    For,
    ForKind,
    IfThenElse,
    IntImm,
    Let,
    LetStmt,
    Max,
    Min,
    Mul,
    Or,
    PrimExpr,
    PrimFunc,
    PrimType,
    Ramp,
    Select,
    SeqStmt,
    Shuffle,
    Stmt,
    Sub,
    Var,
    While,
    call_builtin,
    const,
    decl_buffer,
    seq,
)

__all__ = ["MISTAKES", "Mistake", "accepted_mistake", "with_mistake"]

INT32, FLOAT32, INT64 = DataType("int32"), DataType("float32"), DataType("int64")
Node = Any


class Mistake(NamedTuple):
    """A kind of mistake: where it can be made, what it makes of a node, and what must be said."""

    fits: Callable[[Node], bool]
    make: Callable[[Node], Node]
    codes: tuple[str, ...]


def _other(dtype: DataType) -> DataType:
    """Return another dtype with as many lanes."""
    return (INT32 if dtype.is_float else FLOAT32).with_lanes(dtype.lanes)


def _cast(value: PrimExpr) -> PrimExpr:
    return Cast(value, _other(value.dtype))


def _lanes(node: PrimExpr) -> int:
    """Return another number of lanes."""
    return 4 if node.dtype.lanes == 2 else 2


def _scalar(node: PrimExpr) -> bool:
    return node.dtype.lanes == 1 and (node.dtype.is_integer or node.dtype.is_float)


def _is_builtin(node: Node, *names: str) -> bool:
    if not isinstance(node, Call) or isinstance(node.op, GlobalVar):
        return False
    return node.op.name.removeprefix("tir.") in names


def _returns(node: Node) -> bool:
    return isinstance(node, Evaluate) and _is_builtin(node.value, "ret")


def _calls_function(node: Node) -> bool:
    return isinstance(node, Call) and isinstance(node.op, GlobalVar)


def _indexed(node: Node) -> bool:
    return isinstance(node, (BufferLoad, BufferStore)) and bool(node.indices)


def _with(field: str, value: Callable[[Node], object]) -> Callable[[Node], Node]:
    return lambda node: rebuild(node, {field: value(node)})


def _of(*classes: type) -> Callable[[Node], bool]:
    return lambda node: isinstance(node, classes)


_ARITHMETIC = _of(Add, Sub, Mul, Min, Max)
_EXACT_FLOATS = ("floor", "ceil", "trunc", "sqrt", "fmod", "nextafter", "fma", "isnan")
BREAK = Evaluate(call_builtin("break_loop"))

MISTAKES: dict[str, Mistake] = {
    "operand of another dtype": Mistake(
        _ARITHMETIC, _with("b", lambda n: _cast(n.b)), ("TIR0101", "TIR0102")
    ),
    "operand with other lanes": Mistake(
        lambda n: isinstance(n, (Add, Sub, Mul, Min, Max)) and n.dtype.is_vector,
        _with("b", lambda n: Broadcast(const(1, n.dtype.element), _lanes(n))),
        ("TIR0101",),
    ),
    "truth of numbers": Mistake(
        _of(And, Or), _with("a", lambda n: _cast(n.a)), ("TIR0101", "TIR0102")
    ),
    "stored value of another dtype": Mistake(
        _of(BufferStore), _with("value", lambda n: _cast(n.value)), ("TIR0203",)
    ),
    "index too many": Mistake(
        _of(BufferLoad, BufferStore),
        _with("indices", lambda n: (IntImm(0, INT32), *n.indices)),
        ("TIR0107",),
    ),
    "index too few": Mistake(_indexed, _with("indices", lambda n: n.indices[1:]), ("TIR0107",)),
    "index that is a float": Mistake(
        _indexed,
        _with("indices", lambda n: (const(1.0, FLOAT32), *n.indices[1:])),
        ("TIR0107",),
    ),
    "condition that is a vector": Mistake(
        _of(IfThenElse, While),
        _with("condition", lambda n: Broadcast(n.condition, 2)),
        ("TIR0205", "TIR0207", "TIR0108"),
    ),
    "condition that is a float": Mistake(
        _of(Select), _with("condition", lambda n: _cast(n.condition)), ("TIR0106",)
    ),
    "choices of two dtypes": Mistake(
        _of(Select), _with("false_value", lambda n: _cast(n.false_value)), ("TIR0106",)
    ),
    "named value of another dtype": Mistake(
        lambda n: isinstance(n, (Let, LetStmt)) and _scalar(n.value),
        _with("value", lambda n: _cast(n.value)),
        ("TIR0109", "TIR0201"),
    ),
    "extent of another dtype": Mistake(
        _of(For), _with("extent", lambda n: _cast(n.extent)), ("TIR0206",)
    ),
    "builtin with an argument too many": Mistake(
        lambda n: _is_builtin(n, *_EXACT_FLOATS),
        lambda n: call_builtin(n.op.name.removeprefix("tir."), *n.args, n.args[0]),
        ("TIR0113",),
    ),
    "builtin of another dtype": Mistake(
        lambda n: _is_builtin(n, *_EXACT_FLOATS),
        lambda n: call_builtin(n.op.name.removeprefix("tir."), *map(_cast, n.args)),
        ("TIR0114",),
    ),
    "call with an argument too many": Mistake(
        _calls_function, _with("args", lambda n: (*n.args, const(0, INT32))), ("TIR0409",)
    ),
    "call of nothing": Mistake(
        _calls_function, _with("op", lambda n: GlobalVar("nowhere")), ("TIR0408",)
    ),
    "name that nothing binds": Mistake(
        lambda n: isinstance(n, (IntImm,)) and n.dtype in (INT32, INT64),
        lambda n: Var("nobody", n.dtype),
        ("TIR0401", "TIR0302", "TIR0307", "TIR0110"),
    ),
    "name bound twice": Mistake(
        lambda n: isinstance(n, LetStmt) and not _binds_inside(n.value),
        lambda n: LetStmt(n.var, n.value, n),
        ("TIR0402",),
    ),
    "loop variable bound twice": Mistake(
        lambda n: isinstance(n, For) and n.kind is ForKind.SERIAL,
        lambda n: For(n.loop_var, n.min, n.extent, ForKind.SERIAL, n),
        ("TIR0402",),
    ),
    "store to a buffer of nobody": Mistake(
        _of(BufferStore),
        lambda n: seq(
            [BufferStore(decl_buffer((2,), INT32, "N"), const(0, INT32), (IntImm(0, INT32),)), n]
        ),
        ("TIR0403", "TIR0401"),
    ),
    "memory that is not allocated": Mistake(
        _of(Allocate), lambda n: n.body, ("TIR0401", "TIR0403")
    ),
    "returned value of another dtype": Mistake(
        _returns,
        lambda n: Evaluate(call_builtin("ret", _cast(n.value.args[0]))),
        ("TIR0405",),
    ),
    "break outside of a loop": Mistake(_of(PrimFunc), lambda n: _append(n, BREAK), ("TIR0414",)),
    "break out of a parallel loop": Mistake(
        lambda n: isinstance(n, For) and n.kind in (ForKind.PARALLEL, ForKind.VECTORIZED),
        lambda n: rebuild(n, {"body": seq([n.body, IfThenElse(const(True, BOOL), BREAK)])}),
        ("TIR0407",),
    ),
    "while in a vectorized loop": Mistake(
        lambda n: isinstance(n, For) and n.kind is ForKind.VECTORIZED,
        lambda n: rebuild(
            n, {"body": seq([n.body, While(n.loop_var > const(3, n.loop_var.dtype), BREAK)])}
        ),
        ("TIR0411",),
    ),
    "thread loop without a thread": Mistake(
        _of(For),
        lambda n: rebuild(n, {"kind": ForKind.THREAD_BINDING, "thread_binding": None}),
        ("TIR0418",),
    ),
    "lane that is not there": Mistake(
        _of(Shuffle),
        _with("indices", lambda n: (IntImm(99, INT32), *n.indices[1:])),
        ("TIR0110",),
    ),
    "ramp of a ramp": Mistake(_of(Ramp), _with("base", lambda n: n), ("TIR0108",)),
    "vector of vectors": Mistake(_of(Broadcast), _with("value", lambda n: n), ("TIR0108",)),
    "constant that does not fit": Mistake(
        lambda n: isinstance(n, IntImm) and not n.dtype.is_bool,
        _with("value", lambda n: 1 << 70),
        ("TIR0103",),
    ),
    "cast to other lanes": Mistake(
        _of(Cast), lambda n: Cast(n.value, n.dtype.with_lanes(_lanes(n))), ("TIR0105",)
    ),
    "block with a binding too many": Mistake(
        _of(BlockRealize), _with("values", lambda n: (*n.values, IntImm(0, INT32))), ("TIR0209",)
    ),
    "result where none is returned": Mistake(
        lambda n: isinstance(n, PrimFunc) and not isinstance(n.ret_type, PrimType),
        lambda n: _append(n, Evaluate(call_builtin("ret", const(0, INT32)))),
        ("TIR0405", "TIR0406"),
    ),
}


def _binds_inside(root: Node) -> bool:
    return any(isinstance(part, Let) for part in pre_order(root))


def _append(func: PrimFunc, last: Stmt) -> PrimFunc:
    """Put a statement at the end, outside of every loop and block."""
    return rebuild(func, {"body": SeqStmt((func.body, last))})


def with_mistake(module: IRModule, choices: Choices) -> tuple[str, Callable[[], IRModule]] | None:
    """Draw a mistake that can be made in a module, and where; None where that kind cannot."""
    kind = choices.pick(list(MISTAKES))
    mistake = MISTAKES[kind]
    places: list[tuple[str, PrimFunc, Node]] = []
    for name in module:
        func = module[name]
        assert isinstance(func, PrimFunc)
        nodes: Iterable[Node] = (func, *pre_order(func.body))
        places += [(name, func, node) for node in nodes if mistake.fits(node)]
    if not places:
        return None
    name, func, node = choices.pick(places)

    def make() -> IRModule:
        new = mistake.make(node)
        changed = new if node is func else rebuild(func, {"body": replaced(func.body, node, new)})
        return module.with_function(name, changed)

    return kind, make


def accepted_mistake(module: IRModule, seed: int) -> str:
    """Make mistakes in a module; says which was not answered as it must be."""
    choices = SeedChoices(f"mistake {seed}")
    for _ in range(6):
        made = with_mistake(module, choices)
        if made is None:
            continue
        kind, make = made
        said = _answer(kind, make)
        if said:
            return f"{kind}: {said}"
    return ""


def _answer(kind: str, make: Callable[[], IRModule]) -> str:
    codes = MISTAKES[kind].codes
    try:
        wrong = make()
        found = verify(wrong)
    except CompileError as error:
        found = error.diagnostics
        wrong = None
    if not found:
        return f"accepted\n{wrong.script() if wrong is not None else ''}"
    if not any(d.code in codes for d in found):
        return f"answered by {found[0].code} {found[0].message}"
    if wrong is not None:
        try:
            loomir.compile(wrong, cache=False)
        except CompileError:
            return ""
        return "refused by verify, yet compiled"
    return ""
