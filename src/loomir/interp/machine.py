"""The interpreter's machine: one loop over instructions, whatever the depth of the program.

- An expression becomes a ``Code``: a closure over the environment. One that is deep, or calls a
  function of the module, stays a ``DeepExpression`` node instead, which ``evaluate`` treats with
  an explicit stack.
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
    "CompiledFunction",
    "DeepExpression",
    "EarlyReturn",
    "Environment",
    "Instruction",
    "Linker",
    "NumbersTooLargeError",
    "OutOfStepsError",
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
"""The next instruction after a return; the result is in the slot ``RESULT``."""
SUSPENDED: Final = -2
"""The next instruction if a call is needed first; its steps are in the slot ``STEPS``."""

_HEIGHT: Final = 60
"""Expressions higher than this are evaluated with an explicit stack, others by recursion."""


class CallRequest(NamedTuple):
    """A call of a function of the module, requested by an expression."""

    name: str
    args: tuple[Value, ...]
    span: Span | None


Steps: TypeAlias = Generator[CallRequest, Value, Any]


class Code:
    """A compiled expression: ``run`` evaluates it, unless it is ``deep``.

    The code of a name has its ``slot``, that of an integer literal its value as ``constant``.
    """

    __slots__ = ("constant", "deep", "height", "run", "slot")

    def __init__(
        self,
        run: Callable[[Environment], Value],
        height: int = 0,
        deep: DeepExpression | None = None,
        *,
        slot: int | None = None,
        constant: int | None = None,
    ) -> None:
        self.run = run
        self.height = height
        self.deep = deep
        self.slot = slot
        self.constant = constant


class DeepExpression(NamedTuple):
    """An expression evaluated step by step: first its operands, then ``finish(env, *values)``.

    ``then`` says what the result of that is: the ``value``, the ``code`` to evaluate next, or the
    ``call`` to make.
    """

    operands: tuple[Code, ...]
    finish: Callable[..., Any]
    then: str


class CompiledFunction(NamedTuple):
    """A function ready to run."""

    name: str
    code: tuple[Instruction, ...]
    slots: int


class Linker(Protocol):
    """The interface of a program for the machine: it enters functions with arguments."""

    def enter(self, request: CallRequest) -> tuple[CompiledFunction, Environment]:
        """Check and bind the arguments of a call."""
        ...


class OutOfStepsError(Exception):
    """A run exceeded its limit of instructions."""


class NumbersTooLargeError(OutOfStepsError):
    """A run without rounding produced numbers with so many digits that it might never end."""


class EarlyReturn(Exception):
    """Raised by ``T.ret`` inside an expression; the value is in the environment."""


# -- expressions -------------------------------------------------------------------------------
def _never(env: Environment) -> Value:
    raise InternalError("a deep expression was run as a shallow one")


def is_shallow(*operands: Code) -> bool:
    """Tell whether an expression of these operands can be evaluated by recursion."""
    return not any(c.deep for c in operands) and max(c.height for c in operands) < _HEIGHT


def strict(operands: Sequence[Code], function: Callable[..., Value]) -> Code:
    """Evaluate all operands in order, then ``function(*values)``."""
    height = 1 + max((c.height for c in operands), default=0)
    if height > _HEIGHT or any(c.deep for c in operands):

        def finish(env: Environment, *values: Value) -> Value:
            return function(*values)

        return Code(_never, 0, DeepExpression(tuple(operands), finish, "value"))
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
        return Code(_never, 0, DeepExpression(tuple(operands), function, "value"))
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
    """Evaluate ``first``, then the one of ``rest`` that ``choose(env, value)`` returns."""
    height = 1 + max(first.height, *(c.height for c in rest))
    if height > _HEIGHT or first.deep or any(c.deep for c in rest):
        return Code(_never, 0, DeepExpression((first,), choose, "code"))
    head = first.run
    return Code(lambda env: choose(env, head(env)).run(env), height)


def call_function(operands: Sequence[Code], name: str, span: Span | None) -> Code:
    """Evaluate the arguments in order, then call a function of the module."""

    def request(env: Environment, *args: Value) -> CallRequest:
        return CallRequest(name, args, span)

    return Code(_never, 0, DeepExpression(tuple(operands), request, "call"))


def evaluate(code: Code, env: Environment) -> Steps:
    """Evaluate an expression of any depth; yields the calls it needs, returns its value."""
    pending: list[tuple[DeepExpression, list[Value]]] = []
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
        while True:  # pass the value to the waiting expression
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
    """Evaluate all operands in order, then ``action(env, *values)``, which returns what is next."""
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
    """Run a limited number of instructions; return the next one, and the remaining limit."""
    while number >= 0:
        number = code[number](env)
        left -= 1
        if left < 0:
            raise OutOfStepsError
    return number, left


def run(
    linker: Linker, function: CompiledFunction, env: Environment, steps_at_most: int | None = None
) -> Value:
    """Run a function to its end, and return its result.

    Errors: OutOfStepsError.
    """
    left = steps_at_most
    suspended: list[tuple[CompiledFunction, Environment, Steps]] = []
    number = 0
    while True:
        code = function.code
        try:
            if left is not None:
                number, left = _run_counted(code, number, env, left)
            while number >= 0:
                number = code[number](env)
        except EarlyReturn:
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
        except EarlyReturn:
            number = FINISHED
            continue
        if len(suspended) >= RECURSION_LIMIT:
            raise fault(
                "recursion", request.span, function=request.name, limit=RECURSION_LIMIT
            ).error()
        suspended.append((function, env, steps))
        function, env = linker.enter(request)
        number = 0
