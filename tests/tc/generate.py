"""Random texts: any that the grammar derives, and programs whose meaning can be tested."""

from __future__ import annotations

import random
from typing import NamedTuple

NAMES = ("A", "B", "i", "j", "x9", "_t", "min", "max", "exp", "half_", "inn", "defs", "wherever")
NUMBERS = ("0", "7", "42u", "0x1F", "017", "3ll", "1.5", ".5f", "2.", "1e3", "2E-3f", "0x1p4")
TYPES = ("float", "double", "half", "int32", "byte", "bool", "uint64", "bfloat16")
BINARY = ("||", "&&", "==", "!=", "<", "<=", ">", ">=", "+", "-", "*", "/", "%")
OPERATORS = ("=", "+=", "*=", "min=", "max=", "+=!", "*=!", "min=!", "max=!")


class Text:
    """Derives texts from the grammar, meaningful or not."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)

    def program(self) -> str:
        parts = [self._function() for _ in range(self.rng.randint(1, 3))]
        return self._gap() + self._gap().join(parts) + self._gap()

    def _gap(self) -> str:
        """Whitespace, and perhaps a comment."""
        rng = self.rng
        gap = rng.choice((" ", "  ", "\n", "\t", "\n\n  "))
        if rng.random() < 0.1:
            gap += rng.choice(("#", "//", "# def", "#x ")) + rng.choice(("", " ^", " α β")) + "\n"
        return gap

    def _name(self) -> str:
        return self.rng.choice(NAMES)

    def _list(self, make: object, least: int = 0) -> str:
        count = self.rng.randint(least, 3)
        return (self._maybe() + "," + self._maybe()).join(make() for _ in range(count))  # type: ignore[operator]

    def _maybe(self) -> str:
        return self._gap() if self.rng.random() < 0.2 else ""

    def _function(self) -> str:
        returns = f"({self._list(self._name)})" if self.rng.random() < 0.8 else self._name()
        body = self._gap().join(self._statement() for _ in range(self.rng.randint(0, 4)))
        params = self._list(self._param)
        return (
            f"def{self._gap()}{self._name()}{self._maybe()}({params}){self._maybe()}->"
            f"{self._maybe()}{returns}{self._maybe()}{{{self._gap()}{body}{self._gap()}}}"
        )

    def _param(self) -> str:
        sizes = f"({self._list(self._name)})" if self.rng.random() < 0.7 else ""
        return f"{self.rng.choice(TYPES)}{sizes}{self._gap()}{self._name()}"

    def _statement(self) -> str:
        if self.rng.random() < 0.2:
            return f"{self._list(self._name, 1)} = {self._name()}({self._list(self._name)})"
        where = ""
        if self.rng.random() < 0.3:
            where = f"{self._gap()}where{self._gap()}{self._list(self._constraint, 1)}"
        left = f"{self._name()}{self._maybe()}({self._list(self._name)})"
        return f"{left}{self._maybe()}{self.rng.choice(OPERATORS)} {self._exp(4)}{where}"

    def _constraint(self) -> str:
        if self.rng.random() < 0.3:
            args = self._list(lambda: self._exp(1))
            return f"exists{self._gap()}{self._name()}({args})"
        return f"{self._name()} in {self._exp(2)}:{self._exp(2)}"

    def _exp(self, depth: int) -> str:
        rng = self.rng
        kind = rng.randrange(9) if depth else rng.randrange(3)
        if kind == 0:
            return rng.choice(NUMBERS)
        if kind == 1:
            return self._name()
        if kind == 2:
            return f"{self._name()}.{rng.randrange(3)}"
        if kind == 3:
            return f"{self._name()}({self._list(lambda: self._exp(depth - 1))})"
        if kind == 4:
            return f"{rng.choice('-!')}{self._maybe()}{self._exp(depth - 1)}"
        if kind == 5:
            return f"({self._exp(depth - 1)})"
        if kind == 6:
            parts = [self._exp(depth - 1) for _ in range(3)]
            return f"{parts[0]} ? {parts[1]} : {parts[2]}"
        return f"{self._exp(depth - 1)} {rng.choice(BINARY)} {self._exp(depth - 1)}"


class Made(NamedTuple):
    """A program, and the dtype and sizes of each of its parameters."""

    text: str
    params: tuple[tuple[str, tuple[str, ...]], ...]


class Programs:
    """Makes programs of a few statements on tensors of integers and floats."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)

    def make(self) -> Made:
        rng = self.rng
        sizes = ["N", "M", "K"][: rng.randint(1, 3)]
        params: list[tuple[str, tuple[str, ...]]] = []
        tensors: dict[str, int] = {}
        for number in range(rng.randint(1, 3)):
            axes = tuple(rng.choice(sizes) for _ in range(rng.randint(1, 2)))
            params.append((rng.choice(("float", "int32", "double", "int8")), axes))
            tensors[f"P{number}"] = len(axes)
        taken = ", ".join(
            f"{kind}({', '.join(axes)}) P{number}" for number, (kind, axes) in enumerate(params)
        )
        sizes = sorted({axis for _, axes in params for axis in axes})
        body: list[str] = []
        made: list[str] = []
        for number in range(rng.randint(1, 3)):
            name = f"R{number}"
            if made and rng.random() < 0.25:
                name = rng.choice(made)
                body.append(self._again(name, tensors))
                continue
            rank = rng.randint(0, 2)
            body.append(self._statement(name, rank, tensors, sizes))
            tensors[name] = rank
            made.append(name)
        return Made(
            f"def f({taken}) -> ({', '.join(made)}) {{\n  " + "\n  ".join(body) + "\n}",
            tuple(params),
        )

    def _again(self, name: str, tensors: dict[str, int]) -> str:
        indices = ", ".join(("i", "j")[: tensors[name]])
        op = self.rng.choice(("=", "+=", "max="))
        own = f"{name}({indices})"
        if op != "=" and self.rng.random() < 0.5:
            own += f" * {self._read('P0', tensors, ['i', 'j', 'r'])}"
        return f"{name}({indices}) {op} {own} + 1"

    def _statement(self, name: str, rank: int, tensors: dict[str, int], sizes: list[str]) -> str:
        rng = self.rng
        left = ["i", "j"][:rank]
        reduced = ["r", "s"][: rng.randint(0 if rank else 1, 2)]
        indices = left + reduced
        value = " + ".join(f"{self._read_one(v, tensors)}" for v in indices)
        for _ in range(rng.randint(0, 2)):
            other = self._read(rng.choice(list(tensors)), tensors, indices)
            guard = rng.random()
            if guard < 0.15:
                variable = rng.choice(indices)
                other = f"({variable} < {rng.choice(sizes)} ? {other} : {variable})"
            value += rng.choice((" + ", " - ", " * ")) + other
        op = rng.choice(("+=!", "max=!", "min=!", "*=!")) if reduced or rng.random() < 0.2 else "="
        where: list[str] = []
        for variable in indices:
            if rng.random() < 0.2:
                stop = rng.choice((*sizes, "2", f"{rng.choice(sizes)} - 1", "P0.0 / 2"))
                where.append(f"{variable} in 0:{stop}")
        text = f"{name}({', '.join(left)}) {op} {value}"
        return text + (f" where {', '.join(where)}" if where else "")

    def _read_one(self, variable: str, tensors: dict[str, int]) -> str:
        """Read a tensor so that it tells the range of a variable."""
        name = self.rng.choice([n for n, rank in tensors.items() if rank])
        indices = ["0"] * tensors[name]
        place = self.rng.randrange(len(indices))
        indices[place] = self.rng.choice((variable, variable, f"2 * {variable}", f"{variable} + 1"))
        return f"{name}({', '.join(indices)})"

    def _read(self, name: str, tensors: dict[str, int], indices: list[str]) -> str:
        return f"{name}({', '.join(self._index(indices) for _ in range(tensors[name]))})"

    def _index(self, indices: list[str]) -> str:
        rng = self.rng
        first, second = rng.choice(indices), rng.choice(indices)
        return rng.choice(
            (
                *(first, first, first, f"{first} + {second}", f"{first} + 2 * {second}"),
                *(f"{first} - {second}", f"2 * {first} + 1", f"{first} / 2", f"{first} % 2", "0"),
                *(f"3 - {first}", f"P0.0 - 1 - {first}", f"{first} * {second}"),
            )
        )
