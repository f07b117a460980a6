"""The interpreter's machine: one loop over instructions, whatever the depth of the program.

- An expression becomes a ``Code``: a closure over the environment. One that is deep, or calls a
  function of the module, stays a ``Deep`` node instead, which ``evaluate`` treats with an explicit
  stack.
- A statement becomes instructions: closures over the environment that return the number of the next
  instruction.
- A call of a function suspends the caller; ``run`` keeps the suspended callers in a list.

An environment is a list: two slots for the machine, then the function's variables.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import Any, Final, NamedTuple, Protocol, TypeAlias

from loomir.interp.values import Value
from loomir.support.diagnostics import InternalError
from loomir.support.span import Span
from loomir.tir.faults import fault

__all__ = [
    "FINISHED",
    "FIRST_SLOT",
    "RESULT",
    "STEPS",
    "SUSPENDED",
    "CallRequest",
    "Code",
    "Compiled",
    "Deep",
    "Environment",
    "Instruction",
    "Linker",
    "NumbersTooLargeError",
    "OutOfStepsError",
    "Returned",
    "call_function",
    "choose_branch",
    "evaluate",
    "instruction",
    "is_shallow",
    "read_then",
    "run",
    "strict",
]

Environment: TypeAlias = list[Any]
Instruction: TypeAlias = Callable[[Environment], int]

STEPS: Final = 0
RESULT: Final = 1
FIRST_SLOT: Final = 2
FINISHED: Final = -1
"""The next instruction of a function that returned; its value is in the slot ``RESULT``."""
SUSPENDED: Final = -2
"""The next instruction of one that needs a call first; its steps are in the slot ``STEPS``."""

_HEIGHT: Final = 60
"""Expressions higher than this are evaluated with a stack; Python's own is kept for the others."""


class CallRequest(NamedTuple):
    """A call of a function of the module that an expression asks for."""

    name: str
    args: tuple[Value, ...]
    span: Span | None


Steps: TypeAlias = Generator[CallRequest, Value, Any]


class Code:
    """A compiled expression: ``run`` evaluates it, unless it is ``deep``.

    A name knows its ``slot``, an integer that stands there is the ``constant``.
    """

    __slots__ = ("constant", "deep", "height", "run", "slot")

    def __init__(
        self,
        run: Callable[[Environment], Value],
        height: int = 0,
        deep: Deep | None = None,
        *,
        slot: int | None = None,
        constant: int | None = None,
    ) -> None:
        self.run = run
        self.height = height
        self.deep = deep
        self.slot = slot
        self.constant = constant


class Deep(NamedTuple):
    """An expression evaluated step by step: first its operands, then ``finish(env, *values)``.

    ``then`` says what that gives: ``value``, the ``code`` to evaluate next, or the ``call`` to
    make.
    """

    operands: tuple[Code, ...]
    finish: Callable[..., Any]
    then: str


class Compiled(NamedTuple):
    """A function ready to run."""

    name: str
    code: tuple[Instruction, ...]
    slots: int


class Linker(Protocol):
    """What the machine needs of a program: its functions, entered with arguments."""

    def enter(self, request: CallRequest) -> tuple[Compiled, Environment]:
        """Check and bind the arguments of a call."""
        ...


class OutOfStepsError(Exception):
    """A run took more instructions than it was given."""


class NumbersTooLargeError(OutOfStepsError):
    """A run without rounding made numbers of so many digits that it might never end."""


class Returned(Exception):
    """``T.ret`` inside an expression; the value is in the environment."""


# -- expressions -------------------------------------------------------------------------------
def _never(env: Environment) -> Value:
    raise InternalError("a deep expression was run as a shallow one")


def is_shallow(*operands: Code) -> bool:
    """Tell whether an expression of these operands runs on Python's own stack."""
    return not any(c.deep for c in operands) and max(c.height for c in operands) < _HEIGHT


def strict(operands: Sequence[Code], function: Callable[..., Value]) -> Code:
    """Evaluate all operands in order, then ``function(*values)``."""
    height = 1 + max((c.height for c in operands), default=0)
    if height > _HEIGHT or any(c.deep for c in operands):

        def finish(env: Environment, *values: Value) -> Value:
            return function(*values)

        return Code(_never, 0, Deep(tuple(operands), finish, "value"))
    if len(operands) == 1:
        a = operands[0].run
        return Code(lambda env: function(a(env)), height)
    if len(operands) == 2:
        a, b = operands[0].run, operands[1].run
        return Code(lambda env: function(a(env), b(env)), height)
    if len(operands) == 3:
        a, b, c = operands[0].run, operands[1].run, operands[2].run
        return Code(lambda env: function(a(env), b(env), c(env)), height)
    runs = [c.run for c in operands]
    return Code(lambda env: function(*[r(env) for r in runs]), height)


def read_then(operands: Sequence[Code], function: Callable[..., Value]) -> Code:
    """Evaluate all operands in order, then ``function(env, *values)``."""
    height = 1 + max((c.height for c in operands), default=0)
    if height > _HEIGHT or any(c.deep for c in operands):
        return Code(_never, 0, Deep(tuple(operands), function, "value"))
    if len(operands) == 1:
        a = operands[0].run
        return Code(lambda env: function(env, a(env)), height)
    if len(operands) == 2:
        a, b = operands[0].run, operands[1].run
        return Code(lambda env: function(env, a(env), b(env)), height)
    if len(operands) == 3:
        a, b, c = operands[0].run, operands[1].run, operands[2].run
        return Code(lambda env: function(env, a(env), b(env), c(env)), height)
    runs = [c.run for c in operands]
    return Code(lambda env: function(env, *[r(env) for r in runs]), height)


def choose_branch(
    first: Code, choose: Callable[[Environment, Value], Code], rest: Sequence[Code]
) -> Code:
    """Evaluate ``first``, then what ``choose(env, value)`` gives, one of ``rest``."""
    height = 1 + max(first.height, *(c.height for c in rest))
    if height > _HEIGHT or first.deep or any(c.deep for c in rest):
        return Code(_never, 0, Deep((first,), choose, "code"))
    head = first.run
    return Code(lambda env: choose(env, head(env)).run(env), height)


def call_function(operands: Sequence[Code], name: str, span: Span | None) -> Code:
    """Evaluate the arguments in order, then call a function of the module."""

    def request(env: Environment, *args: Value) -> CallRequest:
        return CallRequest(name, args, span)

    return Code(_never, 0, Deep(tuple(operands), request, "call"))


def evaluate(code: Code, env: Environment) -> Steps:
    """Evaluate an expression of any depth; yields the calls it needs, returns its value."""
    pending: list[tuple[Deep, list[Value]]] = []
    current = code
    while True:
        deep = current.deep
        if deep is None:
            value = current.run(env)
        elif deep.operands:
            pending.append((deep, []))
            current = deep.operands[0]
            continue
        else:
            value = deep.finish(env)
            if deep.then == "call":
                value = yield value
        while True:  # hand the value to who asked for it
            if not pending:
                return value
            node, values = pending[-1]
            values.append(value)
            if len(values) < len(node.operands):
                current = node.operands[len(values)]
                break
            pending.pop()
            value = node.finish(env, *values)
            if node.then == "code":
                current = value
                break
            if node.then == "call":
                value = yield value


# -- instructions ------------------------------------------------------------------------------
Action: TypeAlias = Callable[..., int]


def instruction(operands: Sequence[Code], action: Action) -> Instruction:
    """Evaluate all operands in order, then ``action(env, *values)``, which gives what is next."""
    if any(c.deep for c in operands):
        return _suspend(tuple(operands), action)
    if not operands:
        return action
    if len(operands) == 1:
        a = operands[0].run
        return lambda env: action(env, a(env))
    if len(operands) == 2:
        a, b = operands[0].run, operands[1].run
        return lambda env: action(env, a(env), b(env))
    if len(operands) == 3:
        a, b, c = operands[0].run, operands[1].run, operands[2].run
        return lambda env: action(env, a(env), b(env), c(env))
    runs = [c.run for c in operands]
    return lambda env: action(env, *[r(env) for r in runs])


def _suspend(operands: tuple[Code, ...], action: Action) -> Instruction:
    def steps(env: Environment) -> Steps:
        values: list[Value] = []
        for code in operands:
            values.append((yield from evaluate(code, env)))
        return action(env, *values)

    def suspend(env: Environment) -> int:
        env[STEPS] = steps(env)
        return SUSPENDED

    return suspend


# -- functions ---------------------------------------------------------------------------------
RECURSION_LIMIT: Final = 1000


def _run_counted(
    code: Sequence[Instruction], number: int, env: Environment, left: int
) -> tuple[int, int]:
    """Run instructions, so many at most; gives the number of the next, and what is left."""
    while number >= 0:
        number = code[number](env)
        left -= 1
        if left < 0:
            raise OutOfStepsError
    return number, left


def run(
    linker: Linker, function: Compiled, env: Environment, steps_at_most: int | None = None
) -> Value:
    """Run a function to its end, and give what it returned.

    Errors: OutOfStepsError.
    """
    left = steps_at_most
    suspended: list[tuple[Compiled, Environment, Steps]] = []
    number = 0
    while True:
        code = function.code
        try:
            if left is not None:
                number, left = _run_counted(code, number, env, left)
            while number >= 0:
                number = code[number](env)
        except Returned:
            number = FINISHED
        if number == FINISHED:
            if not suspended:
                return env[RESULT]
            value = env[RESULT]
            function, env, steps = suspended.pop()
        else:
            value, steps = None, env[STEPS]
        try:
            request = steps.send(value)
        except StopIteration as stop:
            number = stop.value
            continue
        except Returned:
            number = FINISHED
            continue
        if len(suspended) >= RECURSION_LIMIT:
            raise fault(
                "recursion", request.span, function=request.name, limit=RECURSION_LIMIT
            ).error()
        suspended.append((function, env, steps))
        function, env = linker.enter(request)
        number = 0
