"""Programs with one defect each, to test that checked mode finds and names it.

    python -m fuzz.defects --count 500

Every program is generated twice: correct, which both engines must run without a report, and with
one defect, for which both must raise the same error: its code, buffer, index and line are known.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import loomir
from loomir.script import from_source
from loomir.support.diagnostics import RunError

__all__ = ["KINDS", "Defect", "defect_of_seed", "main", "trouble"]

HERE = "# here"
"""Marks the line that an error must name."""


@dataclass(frozen=True)
class Defect:
    """A program that takes ``good`` arguments well and has a defect with ``bad`` ones.

    Its last parameter is 2 in either case.
    """

    kind: str
    text: str
    good: Callable[[], list[Any]]
    bad: Callable[[], list[Any]]
    code: str
    words: tuple[str, ...]

    @property
    def line(self) -> int:
        """The line that the error must name, 0 where it is that of a parameter."""
        lines = self.text.splitlines()
        return next((n for n, line in enumerate(lines, 1) if HERE in line), 0)


class _Writer:
    """Writes the text of a program, with surroundings drawn at random."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.dtype = rng.choice(["int32", "float32", "int8", "int64", "float64", "uint16"])
        self.names = iter(f"t{i}" for i in range(100))

    def array(self, shape: tuple[int, ...]) -> Any:
        """Make an array that has no zero in it."""
        return np.arange(1, 1 + int(np.prod(shape))).reshape(shape).astype(self.dtype)

    def zeros(self, shape: tuple[int, ...]) -> Any:
        return np.zeros(shape, self.dtype)

    def value(self, number: int) -> str:
        return f"T.{self.dtype}({number})"

    def around(self, lines: list[str], depth: int = 2) -> list[str]:
        """Put statements into loops, conditions and blocks that change nothing."""
        for _ in range(self.rng.randrange(depth + 1)):
            name = next(self.names)
            form = self.rng.randrange(4)
            if form == 0:
                head = f"for {name} in range({self.rng.randint(1, 3)}):"
            elif form == 1:
                head = f"for {name} in T.unroll({self.rng.randint(1, 2)}):"
            elif form == 2:
                head = "if n < 1000000:"
            else:
                head = f'with T.sblock("{name}"):'
            lines = [head, *indented(lines)]
        return lines

    def noise(self) -> list[str]:
        """Write a few harmless statements on a buffer of their own."""
        if self.rng.random() < 0.4:
            return []
        name, i, size = next(self.names), next(self.names), self.rng.randint(1, 9)
        return [
            f'{name} = T.alloc_buffer(({size},), "int32")',
            f"for {i} in {self.rng.choice(['range', 'T.parallel', 'T.vectorized'])}({size}):",
            f"    {name}[{i}] = {i} * n",
        ]

    def function(self, arrays: dict[str, tuple[int, ...]], body: list[str]) -> str:
        """Write the function ``f(arrays…, n, m)``, where m is 2."""
        params = [f"{a}: T.Buffer({s}, {self.dtype!r})" for a, s in arrays.items()]
        head = f"def f({', '.join([*params, 'n: T.int32', 'm: T.int32'])}):"
        body = [*self.noise(), *body, *self.noise()]
        return "\n".join(["@T.prim_func", head, *indented(body)]) + "\n"


def indented(lines: list[str]) -> list[str]:
    return ["    " + line for line in lines]


def shape_of(rng: random.Random, least: int = 2) -> tuple[int, ...]:
    return tuple(rng.randint(least, 5) for _ in range(rng.randint(1, 3)))


def listed(places: tuple[Any, ...]) -> str:
    return ", ".join(map(str, places))


# -- out of bounds -----------------------------------------------------------------------------
def _outside(rng: random.Random, store: bool) -> Defect:
    w, shape = _Writer(rng), shape_of(rng)
    axis = rng.randrange(len(shape))
    places: list[Any] = [rng.randrange(e) for e in shape]
    factor, shift = rng.choice([(1, 0), (2, 0), (1, 1), (-1, 1), (3, -2)])
    fits = [n for n in range(-20, 20) if 0 <= n * factor + shift < shape[axis]]
    out = [n for n in range(-20, 20) if n not in fits]
    good, bad = rng.choice(fits), rng.choice(out)
    places[axis] = f"n * {factor} + {shift}"
    name = rng.choice("XA")
    body = []
    if name == "A":
        body = [f"A = T.alloc_buffer({shape}, {w.dtype!r})", *filled("A", shape, w)]
    view = rng.random() < 0.3
    target, extent = name, shape[axis]
    lines = []
    if view:
        target = "V"
        whole = listed(tuple(f"0:{e}" for e in shape))
        lines.append(f"V = T.match_buffer({name}[{whole}], {shape}, {w.dtype!r})")
    access = f"{target}[{listed(tuple(places))}]"
    lines.append(f"{access} = {w.value(1)}  {HERE}" if store else f"Y[0] = {access}  {HERE}")
    body += ['with T.sblock("view"):', *indented(lines)] if view else w.around(lines)
    text = w.function({"X": shape, "Y": (1,)}, body)
    return Defect(
        "store" if store else "load",
        text,
        lambda: [w.array(shape), w.zeros((1,)), good],
        lambda: [w.array(shape), w.zeros((1,)), bad],
        "RUN0203",
        (f"index {bad * factor + shift} ", f"axis {axis} of {target}", str(extent)),
    )


def filled(name: str, shape: tuple[int, ...], w: _Writer, unless: str = "") -> list[str]:
    """Write loops that set every element, but where a condition holds."""
    rng, loops = w.rng, [next(w.names) for _ in shape]
    kinds = ["range"] * (len(shape) - 1) + [rng.choice(["range", "T.vectorized", "T.parallel"])]
    lines: list[str] = []
    for depth, (loop, kind, extent) in enumerate(zip(loops, kinds, shape, strict=True)):
        lines.append("    " * depth + f"for {loop} in {kind}({extent}):")
    pad = "    " * len(shape)
    if unless:
        lines.append(pad + f"if not ({unless.format(*loops)}):")
        pad += "    "
    return [*lines, pad + f"{name}[{listed(tuple(loops))}] = {w.value(2)}"]


# -- unwritten elements --------------------------------------------------------------------------
def _unwritten(rng: random.Random) -> Defect:
    w, shape = _Writer(rng), shape_of(rng)
    hole = tuple(rng.randrange(e) for e in shape)
    unless = " and ".join([f"{{{a}}} == {p}" for a, p in enumerate(hole)] + ["n == 1"])
    body = [f"A = T.alloc_buffer({shape}, {w.dtype!r})", *filled("A", shape, w, unless)]
    loops = [next(w.names) for _ in shape]
    target = "A"
    reads = [f"for {v} in range({e}):" for v, e in zip(loops, shape, strict=True)]
    inner = f"Y[{listed(tuple(loops))}] = {{}}[{listed(tuple(loops))}]  {HERE}"
    lines = ["    " * d + line for d, line in enumerate(reads)] + ["    " * len(shape) + inner]
    if rng.random() < 0.4:
        target = "V"
        ranges = listed(tuple(f"0:{e}" for e in shape))
        view = f"V = T.match_buffer(A[{ranges}], {shape}, {w.dtype!r})"
        body += ['with T.sblock("view"):', *indented([view, *lines])]
    else:
        body += lines
    text = w.function({"Y": shape}, [line.replace("= {}[", f"= {target}[") for line in body])
    return Defect(
        "unwritten",
        text,
        lambda: [w.zeros(shape), 0],
        lambda: [w.zeros(shape), 1],
        "RUN0209",
        (f"{target}[{listed(hole)}] is read",),
    )


# -- races ---------------------------------------------------------------------------------------
def _race(rng: random.Random) -> Defect:
    w, size = _Writer(rng), rng.randint(2, 6)
    kind = rng.choice(["T.parallel", "T.parallel", "T.vectorized"])
    form = rng.randrange(4)
    shape: tuple[int, ...] = (2 * size,)
    good, bad = 1, 0
    if form == 0:
        line, words = f"Y[i * n] = {w.value(1)}", ("iteration 1", "writes Y[0]")
    elif form == 1:
        line, words = f"Y[i * n] = Y[i * n] + {w.value(1)}", ("iteration 1", "reads Y[0]")
    elif form == 2:
        good, bad = size, 1
        line, words = "Y[i] = Y[i + n]", ("iteration 1", "writes Y[1]")
    else:
        shape, row = (size, 3), rng.randrange(3)
        line, words = f"Y[i * n, {row}] = {w.value(1)}", ("iteration 1", f"writes Y[0, {row}]")
    body = w.around([f"for i in {kind}({size}):", f"    {line}  {HERE}"], 1)
    if rng.random() < 0.3:  # the element of an allocation, not of an array
        flat = [f"A = T.alloc_buffer({shape}, {w.dtype!r})", *filled("A", shape, w)]
        body = [*flat, *[b.replace("Y[", "A[") for b in body]]
        words = tuple(word.replace("Y[", "A[") for word in words)
    return Defect(
        "race",
        w.function({"Y": shape}, body),
        lambda: [w.array(shape), good],
        lambda: [w.array(shape), bad],
        "RUN0210",
        words,
    )


# -- arguments and sizes -------------------------------------------------------------------------
def _alias(rng: random.Random) -> Defect:
    w, size = _Writer(rng), rng.randint(2, 6)
    names = ["X", "Y", "Z"][: rng.randint(2, 3)]
    first, second = rng.randrange(len(names) - 1), len(names) - 1  # the last one is written
    shift = rng.randrange(size)
    body = [f"for i in range({size}):", f"    {names[-1]}[i] = {names[0]}[i]"]

    def bad() -> list[Any]:
        data = w.array((2 * size,))
        arrays = [w.array((size,)) for _ in names]
        arrays[first], arrays[second] = data[:size], data[shift : shift + size]
        return [*arrays, 0]

    return Defect(
        "alias",
        w.function(dict.fromkeys(names, (size,)), body),
        lambda: [*[w.array((size,)) for _ in names], 0],
        bad,
        "RUN0008",
        (f"{names[first]} and {names[second]} overlap",),
    )


def _size(rng: random.Random) -> Defect:
    w = _Writer(rng)
    wide = "T.int64(n)"
    shape, zeros, bad = rng.choice(
        [
            ("(n,)", "0", -rng.randint(1, 9)),
            ("(4, n)", "0, 0", -rng.randint(1, 9)),
            (f"({wide}, 2, {wide}, {wide})", "0, 0, 0, 0", rng.randint(2**30, 2**31 - 1)),
        ]
    )
    lines = [
        f"A = T.alloc_buffer({shape}, {w.dtype!r})  {HERE}",
        f"A[{zeros}] = {w.value(1)}",
        f"Y[0] = A[{zeros}]",
    ]
    body = ['with T.sblock("b"):', *indented(lines)]
    return Defect(
        "size",
        w.function({"Y": (1,)}, body),
        lambda: [w.zeros((1,)), rng.randint(1, 3)],
        lambda: [w.zeros((1,)), bad],
        "RUN0206",
        ("A cannot be allocated",),
    )


def _division(rng: random.Random) -> Defect:
    w, size = _Writer(rng), rng.randint(2, 6)
    w.dtype = rng.choice(["int32", "int8", "int64", "uint16"])
    operator, name = rng.choice(
        [("X[i] // {}", "FloorDiv"), ("X[i] % {}", "FloorMod"), ("T.div(X[i], {})", "Div"),
         ("T.truncmod(X[i], {})", "Mod")]
    )  # fmt: skip
    kind = rng.choice(["range", "T.parallel", "T.vectorized"])
    hole = rng.randrange(size)
    divisor = rng.choice(["D[i]", f"(D[i] + {w.value(0)})", "T.max(D[i], D[i])"])
    line = f"Y[i] = {operator.format(divisor)}  {HERE}"
    body = w.around([f"for i in {kind}({size}):", "    " + line], 1)

    def bad() -> list[Any]:
        divisors = w.array((size,))
        divisors[hole] = 0
        return [w.array((size,)), divisors, w.zeros((size,)), 0]

    return Defect(
        "division",
        w.function(dict.fromkeys("XDY", (size,)), body),
        lambda: [w.array((size,)), w.array((size,)), w.zeros((size,)), 0],
        bad,
        "RUN0201",
        (f"{name} divides by zero",),
    )


def _match(rng: random.Random) -> Defect:
    w, rows, columns = _Writer(rng), rng.randint(3, 6), rng.randint(3, 6)
    form = rng.randrange(4)
    if form == 0:
        good, region, rest = 2, "X[0:n, 0:2]", "(m, 2), {}"
        words = ("extent of axis 0", "is 2", "is 3")
    elif form == 1:
        good, region, rest = 2, "X[0:2, 0:n]", "(2, m), {}"
        words = ("extent of axis 1", "is 2", "is 3")
    elif form == 2:
        good, region, rest = columns, "X[0:2, 0:2]", "(2, 2), {}, strides=(n, 1)"
        words = ("stride of axis 0", f"is {columns + 1}", f"is {columns}")
    else:
        good, region, rest = columns, "X[1:3, 0:2]", "(2, 2), {}, elem_offset=n + 0"
        words = ("offset", f"is {columns + 1}", f"is {columns}")
    bad = good + 1
    lines = [
        f"V = T.match_buffer({region}, {rest.format(repr(w.dtype))})  {HERE}",
        f"V[0, 0] = {w.value(1)}",
    ]
    return Defect(
        "match",
        w.function({"X": (rows, columns)}, ['with T.sblock("b"):', *indented(lines)]),
        lambda: [w.array((rows, columns)), good],
        lambda: [w.array((rows, columns)), bad],
        "RUN0211",
        ("V says", *words),
    )


KINDS: dict[str, Callable[[random.Random], Defect]] = {
    "load": lambda rng: _outside(rng, store=False),
    "store": lambda rng: _outside(rng, store=True),
    "unwritten": _unwritten,
    "race": _race,
    "alias": _alias,
    "size": _size,
    "division": _division,
    "match": _match,
}


def defect_of_seed(seed: int) -> Defect:
    """Make the program of a seed; kinds take turns."""
    kinds = list(KINDS.values())
    return kinds[seed % len(kinds)](random.Random(seed))


def trouble(defect: Defect) -> str:
    """Say what is wrong with how the engines treat a program; empty where they find its defect."""
    module = from_source(defect.text)
    exe = loomir.compile(module, checked=True, cache=False)
    engines: dict[str, Callable[..., Any]] = {
        "native": exe["f"],
        "interpreter": lambda *args: loomir.interpret(module, "f", *args, track=True),
    }
    found: dict[str, RunError | None] = {}
    for name, run in engines.items():
        try:
            run(*defect.good(), 2)
        except RunError as error:
            return f"{name} refuses the program without the defect: {error}"
        try:
            run(*defect.bad(), 2)
            return f"{name} finds nothing"
        except RunError as error:
            found[name] = error
            diagnostic = error.diagnostic
            missing = [word for word in defect.words if word not in diagnostic.message]
            if diagnostic.code != defect.code or missing:
                return f"{name} says something else: {error}"
            span = diagnostic.span
            if defect.line and (span is None or span.line != defect.line):
                return f"{name} names another line: {error}"
    native, judge = found["native"], found["interpreter"]
    assert native is not None
    assert judge is not None
    if type(native) is not type(judge) or native.diagnostic != judge.diagnostic:
        return f"the engines differ: {native} and {judge}"
    return ""


def main() -> int:
    """Try many programs; the status is 1 where fewer than 99 of 100 defects are found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=500)
    parser.add_argument("--start", type=int, default=0, help="the first seed")
    options = parser.parse_args()
    tried: Counter[str] = Counter()
    missed: Counter[str] = Counter()
    for seed in range(options.start, options.start + options.count):
        defect = defect_of_seed(seed)
        tried[defect.kind] += 1
        what = trouble(defect)
        if what:
            missed[defect.kind] += 1
            sys.stdout.write(f"seed {seed} ({defect.kind}): {what}\n{defect.text}\n")
    for kind, count in tried.items():
        sys.stdout.write(f"{kind}: {count - missed[kind]} of {count}\n")
    total = sum(tried.values())
    sys.stdout.write(f"all: {total - sum(missed.values())} of {total}\n")
    return 1 if sum(missed.values()) * 100 > total else 0


if __name__ == "__main__":
    sys.exit(main())
