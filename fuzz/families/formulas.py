"""Element-wise formulas as people write them: of any dtype, with conversions and choices."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

from fuzz.choices import Choices
from fuzz.families.as_python import float_like

__all__ = ["DTYPES", "Formulas", "Read"]

Read: TypeAlias = tuple[str, str]
"""What can be read: how it is written, and its dtype."""

DTYPES: Final = (
    *("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"),
    *("float16", "bfloat16", "float32", "float64", "bool"),
)


def _bits(dtype: str) -> int:
    return int("".join(ch for ch in dtype if ch.isdigit()))


class Formulas:
    """Draws formulas; ``smooth`` are functions whose results are not exact."""

    def __init__(self, c: Choices, smooth: bool = False) -> None:
        self.c, self.smooth = c, smooth
        self.used = False
        """Whether a function was called whose result is not exact."""

    def of(self, dtype: str, reads: Sequence[Read], depth: int) -> str:
        """Draw a formula of a dtype."""
        c = self.c
        same = [text for text, kind in reads if kind == dtype]
        if depth <= 0 or c.chance(0.1):
            if same and c.chance(0.9):
                return c.pick(same)
            if reads and c.chance(0.8):
                return self.converted(dtype, reads)
            return self.number(dtype)
        if reads and c.chance(0.15):
            return self.cast(dtype, reads, depth)
        if c.chance(0.1):
            test = self.of("bool", reads, depth - 1)
            one, other = self.of(dtype, reads, depth - 1), self.of(dtype, reads, depth - 2)
            return f"{c.pick(['T.Select', 'T.if_then_else'])}({test}, {one}, {other})"
        if dtype == "bool":
            return self.truth(reads, depth)
        a = self.of(dtype, reads, depth - 1)
        if float_like(dtype):
            return self.of_floats(dtype, a, reads, depth)
        return self.of_integers(dtype, a, reads, depth)

    def converted(self, dtype: str, reads: Sequence[Read]) -> str:
        """Read anything, and convert it."""
        text, kind = self.c.pick(reads)
        return text if kind == dtype else f'T.Cast("{dtype}", {text})'

    def cast(self, dtype: str, reads: Sequence[Read], depth: int) -> str:
        """Compute in another dtype, and convert the result."""
        c = self.c
        kinds = [kind for _, kind in reads if kind != dtype]
        if c.chance(0.4) or not kinds:
            kinds = [kind for kind in DTYPES if kind != dtype]
        kind = c.pick(kinds)
        return f'T.Cast("{dtype}", {self.of(kind, reads, depth - 1)})'

    def number(self, dtype: str) -> str:
        """Draw a number."""
        c = self.c
        if dtype == "bool":
            return f"T.bool({c.chance(0.5)})"
        if float_like(dtype):
            return f"T.{dtype}({c.pick(['0.0', '1.0', '0.5', '-2.0', '3.0', '-0.25', '100.0'])})"
        low = 0 if dtype.startswith("u") else -7
        most = (1 << _bits(dtype) - (low < 0)) - 1
        value = c.weighted([(6, c.integer(low, 9)), (1, most), (1, -most - 1 if low else 0)])
        return f"T.{dtype}({value})"

    def truth(self, reads: Sequence[Read], depth: int) -> str:
        """Draw something that holds or not."""
        c = self.c
        if c.chance(0.25):
            a, b = self.of("bool", reads, depth - 1), self.of("bool", reads, depth - 1)
            return f"({a} {c.pick(['and', 'or'])} {b})"
        if c.chance(0.1):
            return f"(not {self.of('bool', reads, depth - 1)})"
        kinds = [kind for _, kind in reads if kind != "bool"] or ["int32"]
        kind = c.pick(kinds)
        if float_like(kind) and c.chance(0.1):
            which = c.pick(["isnan", "isinf", "isfinite"])
            return f"T.{which}({self.of(kind, reads, depth - 1)})"
        a, b = self.of(kind, reads, depth - 1), self.of(kind, reads, depth - 2)
        return f"({a} {c.pick(['<', '<=', '>', '>=', '==', '!='])} {b})"

    def of_floats(self, dtype: str, a: str, reads: Sequence[Read], depth: int) -> str:
        """Combine floats."""
        c = self.c

        def other() -> str:
            return self.of(dtype, reads, depth - 1)

        if self.smooth and c.chance(0.2):
            self.used = True
            name = c.pick(["exp", "tanh", "sigmoid", "erf", "sqrt"])
            near = f"T.min(T.max({a}, T.{dtype}(-4.0)), T.{dtype}(4.0))"
            return f"T.{name}({near})"
        ways: list[tuple[float, Callable[[], str]]] = [
            (4, lambda: f"({a} + {other()})"),
            (3, lambda: f"({a} - {other()})"),
            (4, lambda: f"({a} * {other()})"),
            (2, lambda: f"T.max({a}, {other()})"),
            (2, lambda: f"T.min({a}, {other()})"),
            (1, lambda: f"T.max(T.min({a}, T.{dtype}(6.0)), T.{dtype}(0.0))"),
            (1, lambda: f"({a} / {self.divisor(dtype, reads, depth)})"),
            (1, lambda: f"T.abs({a})"),
            (0.5, lambda: f"(-{a})"),
            (0.5, lambda: f"T.sqrt(T.abs({a}))"),
            (1, lambda: f"T.{c.pick(['floor', 'ceil', 'trunc', 'round'])}({a})"),
        ]
        return c.weighted(ways)()

    def divisor(self, dtype: str, reads: Sequence[Read], depth: int) -> str:
        """Draw something to divide by, which is not zero."""
        if self.c.chance(0.5):
            return f"T.{dtype}({self.c.pick(['2.0', '3.0', '-7.0', '0.1'])})"
        return f"(T.abs({self.of(dtype, reads, depth - 2)}) + T.{dtype}(1.0))"

    def of_integers(self, dtype: str, a: str, reads: Sequence[Read], depth: int) -> str:
        """Combine integers."""
        c = self.c
        signed = not dtype.startswith("u")

        def other() -> str:
            return self.of(dtype, reads, depth - 1)

        def divided() -> str:
            by = c.pick([1, 2, 3, 4, 5, 7, 8, 10, 16, 100, *([-1, -2, -3, -8] if signed else [])])
            divisor = f"T.{dtype}({by})"
            if c.chance(0.25):
                divisor = f"({self.of(dtype, reads, depth - 2)} | T.{dtype}(1))"
            if c.chance(0.5):
                return f"({a} {c.pick(['//', '%'])} {divisor})"
            return f"T.{c.pick(['div', 'truncmod'])}({a}, {divisor})"

        def shifted() -> str:
            by = f"T.{dtype}({c.integer(0, _bits(dtype) - 1)})"
            if c.chance(0.3):
                by = f"({other()} & T.{dtype}({_bits(dtype) - 1}))"
            way = c.pick(["<<", ">>"])
            if c.chance(0.4):
                return f"T.shift_{'left' if way == '<<' else 'right'}({a}, {by})"
            return f"({a} {way} {by})"

        ways: list[tuple[float, Callable[[], str]]] = [
            (4, lambda: f"({a} + {other()})"),
            (3, lambda: f"({a} - {other()})"),
            (3, lambda: f"({a} * {other()})"),
            (2, lambda: f"T.max({a}, {other()})"),
            (2, lambda: f"T.min({a}, {other()})"),
            (2, lambda: f"({a} {c.pick('&|^')} {other()})"),
            (2, divided),
            (2, shifted),
            (0.5, lambda: f"(~{a})"),
            (0.5, lambda: f"T.abs({a})"),
            (0.4, lambda: f'T.Cast("{dtype}", T.{c.pick(["popcount", "clz"])}({a}))'),
        ]
        if dtype == "int32":
            ways.append(
                (0.5, lambda: f"T.q_multiply_shift({a}, {other()}, 31, {c.integer(-8, 3)})")
            )
        return c.weighted(ways)()
