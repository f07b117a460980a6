"""Random graphs as text, with arguments: tensors, tuples, shapes, branches, functions, casts."""

from __future__ import annotations

import random
from typing import Any, NamedTuple

import numpy as np

from loomir.runtime.shape import Shape

__all__ = ["Case", "random_case"]


class Case(NamedTuple):
    """A program, and the arguments to call its main with."""

    text: str
    args: tuple[Any, ...]


class _Maker:
    """Writes one program; ``known`` are names of tensors (n, m) that can be used."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.lines: list[str] = []
        self.serial = 0
        self.indent = 2

    def name(self, hint: str = "v") -> str:
        self.serial += 1
        return f"{hint}{self.serial}"

    def add(self, line: str) -> None:
        self.lines.append("    " * self.indent + line)

    def pick(self, known: list[str]) -> str:
        return self.rng.choice(known)

    def step(self, known: list[str], depth: int) -> None:
        """Add a binding, or several; what they make goes to ``known``."""
        kinds = [
            self.binary,
            self.binary,
            self.unary,
            self.in_tuple,
            self.through_shape,
            self.casted,
            self.called,
            self.closure,
            self.packed,
            self.constant,
        ]
        if depth < 2:
            kinds.append(self.branch)
        self.rng.choice(kinds)(known, depth)

    def binary(self, known: list[str], depth: int) -> None:
        made = self.name()
        op = self.rng.choice(["add", "subtract", "multiply", "maximum", "minimum"])
        self.add(f"{made} = R.{op}({self.pick(known)}, {self.pick(known)})")
        known.append(made)

    def unary(self, known: list[str], depth: int) -> None:
        made = self.name()
        op = self.rng.choice(["negative", "abs", "nn.relu", "sign"])
        self.add(f"{made} = R.{op}({self.pick(known)})")
        known.append(made)

    def in_tuple(self, known: list[str], depth: int) -> None:
        made, got = self.name("t"), self.name()
        a, b = self.pick(known), self.pick(known)
        self.add(f"{made} = ({a}, ({b}, {a}))")
        inner = self.name("t")
        if self.rng.random() < 0.5:
            self.add(f"{got} = {made}[0]")
        else:
            self.add(f"{inner} = {made}[1]")
            self.add(f"{got} = {inner}[{self.rng.randrange(2)}]")
        known.append(got)

    def through_shape(self, known: list[str], depth: int) -> None:
        made, got = self.name(), self.name()
        self.add(f"{made} = R.reshape({self.pick(known)}, R.shape([n * m]))")
        self.add(f"{got} = R.reshape({made}, R.shape([n, m]))")
        known.append(got)

    def casted(self, known: list[str], depth: int) -> None:
        made, got = self.name("o"), self.name()
        claim = self.rng.choice(
            ['R.Tensor((n, m), "float32")'] * 3 + ['R.Tensor((n, m + 1), "float32")']
        )
        self.add(
            f'{made}: R.Object = R.call_pure_packed("random.same", {self.pick(known)}, sinfo_args=R.Object)'
        )
        self.add(f"{got} = R.match_cast({made}, {claim})")
        if "+" not in claim:
            known.append(got)

    def called(self, known: list[str], depth: int) -> None:
        made = self.name()
        self.add(f"{made} = Module.helper({self.pick(known)}, {self.pick(known)})")
        known.append(made)

    def closure(self, known: list[str], depth: int) -> None:
        inner, made, x = self.name("f"), self.name(), self.name("x")
        captured = self.pick(known)
        info = 'R.Tensor((n, m), "float32")'
        self.add("@R.function")
        self.add(f"def {inner}({x}: {info}) -> {info}:")
        self.indent += 1
        got = self.name()
        self.add(f"{got} = R.add({x}, {captured})")
        self.add(f"return {got}")
        self.indent -= 1
        self.add(f"{made} = {inner}({self.pick(known)})")
        known.append(made)

    def packed(self, known: list[str], depth: int) -> None:
        made = self.name()
        info = 'R.Tensor((n, m), "float32")'
        kind = self.rng.randrange(3)
        if kind == 0:
            self.add(
                f'{made} = R.call_dps_packed("random.put", ({self.pick(known)},), out_sinfo={info})'
            )
        elif kind == 1:
            self.add(
                f'{made} = R.call_pure_packed("random.twice", {self.pick(known)}, sinfo_args={info})'
            )
        else:
            self.add(
                f'{made} = R.call_pure_packed("random.odd", {self.pick(known)}, sinfo_args={info})'
            )
        known.append(made)

    def constant(self, known: list[str], depth: int) -> None:
        made = self.name()
        self.add(
            f'{made} = R.add({self.pick(known)}, R.const({self.rng.randrange(-3, 4)}.0, "float32"))'
        )
        known.append(made)

    def branch(self, known: list[str], depth: int) -> None:
        made = self.name()
        self.add("if flag:" if self.rng.random() < 0.5 else "if other:")
        for word in ("", "else:"):
            if word:
                self.add(word)
            self.indent += 1
            inner = list(known)
            for _ in range(self.rng.randrange(4)):
                self.step(inner, depth + 1)
            self.add(f"{made} = R.add({self.pick(inner)}, {self.pick(inner)})")
            self.indent -= 1
        known.append(made)


def random_case(seed: int) -> Case:
    """Make a program and arguments; one in some calls fails."""
    maker = _Maker(seed)
    rng = maker.rng
    known = ["a", "b"]
    for _ in range(rng.randrange(1, 14)):
        maker.step(known, 0)
    body = "\n".join(maker.lines)
    last = ", ".join(rng.sample(known, min(3, len(known))))
    text = f"""
@I.ir_module
class Module:
    @R.function(private=True)
    def helper(x: R.Tensor(("p", "q"), "float32"), y: R.Tensor(("p", "q"), "float32")) -> R.Tensor(("p", "q"), "float32"):
        p = T.int64()
        q = T.int64()
        z = R.subtract(x, y)
        return z

    @R.function(pure=False)
    def main(
        a: R.Tensor(("n", "m"), "float32"),
        b: R.Tensor(("n", "m"), "float32"),
        flag: R.Tensor((), "bool"),
        other: R.Prim("bool"),
        o: R.Object,
    ):
        n = T.int64()
        m = T.int64()
{body}
        return ({last}, R.shape([n, m * 2, n - m]), o)
"""
    n, m = rng.randrange(4), rng.randrange(4)
    values = np.random.default_rng(seed)
    a = values.integers(-4, 5, (n, m)).astype("float32")
    b = values.integers(-4, 5, (n, m if rng.random() < 0.9 else m + 1)).astype("float32")
    args = (a, b, np.array(rng.random() < 0.5), rng.random() < 0.5, Shape([n]))
    return Case(text, args)
