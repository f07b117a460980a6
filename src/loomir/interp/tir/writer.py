"""Write the instructions of a function: a flat list with jumps, from nested statements."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from loomir.interp.machine import Code, Environment, Instruction, instruction
from loomir.interp.scope import Scope
from loomir.interp.tir.expr import compile_expr
from loomir.interp.values import Value
from loomir.tir.buffer import Buffer
from loomir.tir.expr import PrimExpr, Var
from loomir.tir.stmt import Stmt

__all__ = ["Label", "Maker", "Task", "Writer"]

Task: TypeAlias = Stmt | Callable[[], object]
Maker: TypeAlias = Callable[[int], Callable[..., int]]


class Label:
    """A position among the instructions; its number is known when all are written."""

    __slots__ = ("number",)

    def __init__(self) -> None:
        self.number = -1


class Writer:
    """The instructions of one function while they are written."""

    def __init__(self, scope: Scope, table: Mapping[type, Callable[[Any, Writer], None]]) -> None:
        self.scope = scope
        self._table = table
        self.loops: list[tuple[Label, Label]] = []
        """The targets of ``break`` and ``continue``, innermost last."""
        self._makers: list[tuple[Sequence[Code], Maker]] = []
        self._tasks: list[Task] = []

    def schedule(self, *tasks: Task) -> None:
        """Schedule statements and small steps to be processed next, in this order."""
        self._tasks.extend(reversed(tasks))

    def add(self, operands: Sequence[Code], maker: Maker) -> None:
        """Add an instruction; ``maker`` gets the number of the next one."""
        self._makers.append((operands, maker))

    def jump(self, label: Label) -> None:
        """Add a jump."""

        def go(env: Environment) -> int:
            return label.number

        self.add((), lambda after: go)

    def place(self, label: Label) -> Callable[[], None]:
        """Return the task that places a label."""

        def put() -> None:
            label.number = len(self._makers)

        return put

    def expr(self, value: PrimExpr) -> Code:
        """Compile an expression."""
        return compile_expr(value, self.scope)

    def exprs(self, values: Sequence[PrimExpr]) -> list[Code]:
        """Compile expressions."""
        return [compile_expr(v, self.scope) for v in values]

    def unbind(self, name: Var | Buffer) -> Callable[[], None]:
        """Return the task that ends the scope of a name."""
        return lambda: self.scope.unbind(name)

    def set(self, slot: int, value: Code) -> None:
        """Add an instruction that stores a value in a slot."""

        def maker(after: int) -> Callable[..., int]:
            def put(env: Environment, v: Value) -> int:
                env[slot] = v
                return after

            return put

        self.add((value,), maker)

    def branch(self, condition: Code, otherwise: Label) -> None:
        """Go on if the condition holds, else jump to the label."""

        def maker(after: int) -> Callable[..., int]:
            def choose(env: Environment, holds: Value) -> int:
                return after if holds else otherwise.number

            return choose

        self.add((condition,), maker)

    def write(self, root: Stmt) -> None:
        """Write the instructions of a statement."""
        self.schedule(root)
        while self._tasks:
            task = self._tasks.pop()
            if isinstance(task, Stmt):
                self._table[type(task)](task, self)
            else:
                task()

    def finish(self) -> tuple[Instruction, ...]:
        """Resolve the jumps, and return the instructions."""
        return tuple(
            instruction(operands, maker(number + 1))
            for number, (operands, maker) in enumerate(self._makers)
        )
