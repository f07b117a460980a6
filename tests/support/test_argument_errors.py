"""Whatever is given to constructors, functions and methods, users are told by a diagnostic."""

from __future__ import annotations

import inspect
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import Enum
from typing import Any

import numpy as np
import pytest

import loomir
from loomir import interp, relax, tc, te, tir, transform
from loomir.ir.node import DECLARED, Node
from loomir.relax.operator.definition import find_op, op_names
from loomir.relax.operator.params import REQUIRED
from loomir.support.argument_errors import explain_arguments, explain_parts
from loomir.support.diagnostics import CompileError, LoomirError
from loomir.support.runtime_types import read_declared
from loomir.transform import relax as passes
from tests.tir.refusal import refused


def nested(depth: int) -> list[Any]:
    """Put lists in lists."""
    made: list[Any] = []
    for _ in range(depth):
        made = [made]
    return made


def circle() -> list[Any]:
    """Put a list in itself."""
    made: list[Any] = [1]
    made.append(made)
    return made


N = tir.Var("n", "int64")
X = relax.Var("x", relax.TensorStructInfo((4, 6), "float32"))
Y = relax.Var("y", relax.TensorStructInfo((N, 6), "int32"))
A = te.placeholder((4, 6), name="A")
BUFFER = tir.decl_buffer((4, 4), "float32")
KERNEL = te.create_prim_func([A, te.compute((4, 6), lambda i, j: A[i, j] * 2.0)])
USUAL: list[Any] = [
    *(X, Y, A, N, BUFFER, KERNEL, relax.ShapeExpr((2, 3)), tir.Evaluate(N), tir.Range(0, 4)),
    *(0, 1, -1, [0], [1, 2], (X, Y), "float32", "NCHW", 1.5, True, None, tir.const(3, "int32")),
    relax.TensorStructInfo((4, 6), "float32"),
]
ODD: list[Any] = [
    *(10**30, float("nan"), "", "bogus", b"x", [], [None], {}, {"a": 1}, {3: 4}, lambda *a: a),
    *(object(), np.int64(3), np.zeros(3), tir.Var("h", "handle"), int, [A, 3], [[1]], "float99"),
    *(slice(1, 2), ..., set[int](), relax.Var("bare"), [X, None], tir.Stmt(), tir.Var(3, "int32")),
    *(10**5000, nested(10_000)),
]


def callables() -> Iterator[tuple[str, Callable[..., Any]]]:
    """List what users call."""
    for package in (tir, te, tc, relax, transform, passes, interp):
        for name in package.__all__:
            made = getattr(package, name)
            if callable(made) and not (inspect.isclass(made) and issubclass(made, Enum)):
                yield f"{package.__name__}.{name}", made
    for name in dir(relax.BlockBuilder):
        if name[0] != "_" and inspect.isfunction(getattr(relax.BlockBuilder, name)):
            yield f"bb.{name}", lambda *a, _name=name, **k: method(_name, *a, **k)
    for name in ("compile", "verify", "warnings_of", "interpret"):
        yield name, getattr(loomir, name)


def method(name: str, *args: Any, **kwargs: Any) -> None:
    """Call a method of a builder, and enter what it gives."""
    made = getattr(relax.BlockBuilder(), name)(*args, **kwargs)
    if hasattr(made, "__enter__"):
        with made:
            pass


CALLABLES = dict(callables())


def signature(name: str) -> inspect.Signature:
    owner = getattr(relax.BlockBuilder, name[3:]) if name[:3] == "bb." else CALLABLES[name]
    found = inspect.signature(owner)
    params = list(found.parameters.values())
    return found.replace(parameters=params[1:] if name[:3] == "bb." else params)


def use(made: Any) -> None:
    """Print a node, and compile a program of it."""
    if not isinstance(made, Node):
        return
    str(made)
    if isinstance(made, tir.PrimExpr):
        made = tir.Evaluate(made)
    if isinstance(made, tir.Stmt):
        made = tir.PrimFunc((), made, None, {}, {})
    if isinstance(made, relax.Expr):
        bb = relax.BlockBuilder()
        with bb.function("main", [X, Y]):
            bb.emit_func_output(bb.emit(made))
        bb.get()
    elif isinstance(made, (tir.PrimFunc, relax.IRModule)):
        loomir.verify(made)


def told(call: Callable[[], Any]) -> None:
    """Call, and use what is made; mistakes are told by diagnostics."""
    try:
        use(call())
    except LoomirError as error:
        found: Any = error
        assert all(d.code and d.message and d.help for d in found.diagnostics)
        assert all(len(d.message) < 1000 for d in found.diagnostics)


@pytest.mark.parametrize("name", sorted(CALLABLES))
def test_odd_arguments_are_refused(name: str):
    try:
        takes = signature(name).parameters.values()
    except ValueError:
        pytest.skip("Python does not say what it takes")
    chance = random.Random(name)

    def value() -> Any:
        return chance.choice(USUAL if chance.random() < 0.7 else ODD)

    for _ in range(6):
        given: list[Any] = []
        named: dict[str, Any] = {}
        for param in takes:
            if param.kind is param.VAR_POSITIONAL:
                given += [value() for _ in range(chance.randrange(3))]
            elif param.kind is param.VAR_KEYWORD:
                continue
            elif param.kind is not param.KEYWORD_ONLY and param.default is param.empty:
                given.append(value())
            elif param.default is param.empty or chance.random() < 0.3:
                named[param.name] = value()
        told(lambda given=given, named=named: CALLABLES[name](*given, **named))


def test_odd_operands_of_graphs_are_refused():
    chance = random.Random(5)

    def value() -> Any:
        return chance.choice(USUAL if chance.random() < 0.7 else ODD)

    for name in op_names():
        op = find_op(name)
        assert op is not None
        for _ in range(3):
            named = {
                p.name: value()
                for p in op.params
                if not p.variadic and (p.default is REQUIRED or chance.random() < 0.3)
            }
            told(lambda op=op, named=named: op.call(**named))


def test_the_argument_is_named():
    with refused("TIR0006", "tir.Add: a is 'x', not an expression"):
        tir.Add("x", 3)  # type: ignore[arg-type]
    with refused("TIR0006", "tir.For: loop_var is 'i', not a variable"):
        tir.For("i", 0, 4, tir.ForKind.SERIAL, tir.Evaluate(N))  # type: ignore[arg-type]
    with refused("TIR0006", "BlockBuilder: mod is 3, not an IRModule or None"):
        relax.BlockBuilder(3)  # type: ignore[arg-type]
    with refused("TIR0006", "function: name is 3, not a string"):
        relax.BlockBuilder().function(3)  # type: ignore[arg-type]
    with refused("TIR0006", "normalize: program is 3, not an IRModule, a Function or a PrimFunc"):
        relax.normalize(3)  # type: ignore[type-var]
    with refused("TIR0113", "there is no builtin T.bogus"):
        tir.call_builtin("bogus")
    with pytest.raises(TypeError, match=r"Add.__init__\(\) missing 1 required positional"):
        tir.Add(3)  # type: ignore[call-arg]


def test_a_finished_node_is_refused_where_it_is_used():
    i, count = tir.Var("i", "int32"), tir.const(4, "int32")
    bad = tir.Evaluate(tir.Var(3, "int32"))  # type: ignore[arg-type]
    loop = tir.For(i, tir.const(0, "int32"), count, tir.ForKind.SERIAL, bad)
    program = tir.PrimFunc((), loop, None, {}, {})
    with refused("TIR0006", "tir.Var: name_hint is 3, not a string"):
        str(program)
    bare = tir.PrimFunc((), tir.Evaluate(tir.PrimExpr()), None, {}, {})
    with refused("TIR0006", "a bare PrimExpr cannot be part of a program"):
        loomir.compile(bare)


def test_mistakes_of_functions_that_users_give_stay_theirs():
    def formula(x: Any) -> Any:
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        relax.BlockBuilder().call_te(formula, X)

    def several(first: int, *rest: int, last: str = "", **others: float) -> int:
        raise KeyError("mine")

    for given, named in (((None,), {}), ((1, "2"), {}), ((1,), {"last": 3}), ((1,), {"o": ""})):
        with pytest.raises(LoomirError, match=r"several: (first|rest|last|o) is"):
            explain_arguments(several)(*given, **named)
    with pytest.raises(KeyError, match="mine"):
        explain_arguments(several)(1, 2, last="x", o=2.5)


def test_what_programs_hold_is_what_nodes_declare():
    graph = relax.BlockBuilder()
    with graph.function("main", [X, Y]):
        graph.emit_func_output(graph.emit(relax.op.add(X, X)))
    explain_parts([KERNEL, graph.get()])
    assert len(DECLARED) > 80


def test_a_list_in_itself_is_looked_into_once():
    explain_parts([circle()])


@pytest.mark.parametrize("data", [circle(), nested(10_000), {"a": circle()}])
def test_attributes_that_have_no_end_are_refused(data: Any):
    with refused("TIR0006", "attrs contains itself, or is nested too deeply"):
        tir.PrimFunc((), tir.Evaluate(N), tir.PrimType("int32"), {}, {"a": data})
    with refused("TIR0006", "annotations contains itself"):
        tir.For(N, 0, 4, tir.ForKind.SERIAL, tir.Evaluate(N), annotations={"a": data})


@pytest.mark.parametrize(
    ("hint", "words"),
    [
        (Sequence[Any], "a list"),
        (Sequence[int], "a list of integers"),
        (Sequence[tuple[int, int]], "a list of which each item is a tuple of 2"),
        (Mapping[str, Any], "a dictionary of which each key is a string"),
        (Mapping[str, int], "a dictionary of which each key is a string and each value an integer"),
    ],
)
def test_what_lists_and_dictionaries_hold_is_told(hint: Any, words: str):
    assert read_declared(hint).wanted == words


def test_a_list_that_holds_itself_is_no_input():
    concat = find_op("relax.concat")
    assert concat is not None
    with refused("OPS0003", "R.concat: tensors holds a list that holds itself"):
        concat.call(tensors=circle())


def test_option_of_another_name_is_refused_with_the_nearest_one():
    x = te.placeholder((4,), name="x")
    program = te.create_prim_func([x, te.compute((4,), lambda i: x[i] * 2.0)])
    options: dict[str, Any] = {"optlevel": 3}
    with pytest.raises(
        CompileError, match=r"RUN0012.*optlevel is not an option of loomir.compile"
    ) as e:
        loomir.compile(program, **options)
    assert e.value.diagnostic.help == "did you mean opt_level?"
    with pytest.raises(CompileError, match=r"optlevel is not an option of loomir\.jit"):
        loomir.jit(**options)


class _StopError(Exception):
    """What a handler of a signal raises."""


def test_errors_that_no_argument_leads_to_stay_what_they_are(monkeypatch: pytest.MonkeyPatch):
    def stopped(*_: object) -> None:
        raise _StopError

    with pytest.raises(_StopError):
        explain_arguments(stopped)("no number")
    monkeypatch.setattr(relax.TensorStructInfo, "__post_init__", stopped)
    with pytest.raises(_StopError):  # before its fields are what is declared
        relax.TensorStructInfo((4, 6), "float32")
