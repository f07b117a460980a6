"""Idioms as programs: plain loops, blocks, scalar sums, loops that a user split."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from fuzz.choices import Choices
from fuzz.families.idioms.values import Value

__all__ = ["Result", "Row", "written"]


@dataclass(frozen=True)
class Row:
    """What loops go over: a row, or several."""

    length: int
    rows: int
    symbolic: bool

    @property
    def deep(self) -> bool:
        """Whether there are several rows."""
        return self.rows > 1

    @property
    def extent(self) -> str:
        """Write the length."""
        return "n" if self.symbolic else str(self.length)

    @property
    def place(self) -> str:
        """Write the indices of the loops."""
        return "@r, @i" if self.deep else "@i"

    def shape(self) -> tuple[str, ...]:
        """Write the shape."""
        return (str(self.rows), self.extent) if self.deep else (self.extent,)

    def sizes(self) -> tuple[int, ...]:
        """Return the shape."""
        return (self.rows, self.length) if self.deep else (self.length,)


@dataclass(eq=False)
class Result:
    """An element that is stored, or to which something is added."""

    target: str
    value: Value
    lets: list[tuple[str, Value]] = field(default_factory=list[tuple[str, Value]])
    op: str = ""
    columns: bool = False
    """Whether rows are summed up, and not what is in one row."""
    own_loop: bool = False


def written(c: Choices, row: Row, results: Sequence[Result]) -> list[str]:
    """Write the loops of results."""
    writer = _Writer(c, row)
    together = len(results) > 1 and not any(r.own_loop for r in results) and c.chance(0.5)
    groups = [list(results)] if together else [[one] for one in results]
    return [line for group in groups for line in writer.group(group)]


def _deeper(lines: Sequence[str], by: int = 1) -> list[str]:
    return ["    " * by + line for line in lines]


def _added(op: str, total: str, term: str) -> str:
    if op in ("max", "min"):
        return f"T.{op}({total}, {term})"
    return f"{total} {op} {term}"


class _Writer:
    def __init__(self, c: Choices, row: Row) -> None:
        self.c, self.row = c, row
        self.copies = 0

    def group(self, results: list[Result]) -> list[str]:
        """Write results that share their loops."""
        c = self.c
        sums = any(r.op for r in results)
        forms = [(4, self.plain), (3, self.block), (2, self.cut), (1.5, self.guarded)]
        if not self.row.symbolic and 0 < self.row.length <= 64 and not sums:
            forms.append((1, self.whole))
        if sums and not any(r.columns for r in results):
            forms += [(2.5, self.scalar), (2, self.lanes)]
        if any(r.op in ("or", "and") for r in results):
            forms = [(1, self.plain), (1, self.scalar)]
            if any(r.columns for r in results):
                forms.pop()
        if any(r.op for r in results) and any(not r.op for r in results):
            forms = [(1, self.plain)]
        return c.weighted(forms)(results)

    # -- parts ---------------------------------------------------------------------------------
    def body(self, results: Sequence[Result], i: str, r: str = "r") -> list[str]:
        """Write what is done at one place."""
        self.copies += 1
        made: list[str] = []
        for result in results:
            made += self.lets(result)
            target = result.target
            if not result.op:
                made.append(f"{target} = {result.value.text}")
            elif result.op in ("+", "^", "|", "&") and self.c.chance(0.4):
                made.append(f"{target} {result.op}= {result.value.text}")
            else:
                made.append(f"{target} = {_added(result.op, target, result.value.text)}")
        return [self.placed(line, i, r) for line in made]

    def lets(self, result: Result) -> Iterator[str]:
        """Write names that a value needs."""
        text = "\n".join([result.value.text, *(value.text for _, value in result.lets)])
        for name, value in result.lets:
            if f"{name}@@" in text:
                yield f"{name}@@: T.{value.dtype} = {value.text}"

    def placed(self, line: str, i: str, r: str = "r") -> str:
        """Put names into a line."""
        made = line.replace("@@", f"_{self.copies}")
        return made.replace("@i", i if i.isidentifier() else f"({i})").replace("@r", r)

    def rows(self, body: Sequence[str]) -> list[str]:
        """Put a loop over rows around, where there are several."""
        if not self.row.deep:
            return list(body)
        kind = self.c.weighted([(5, "range"), (1, "T.serial"), (0.5, "T.parallel")])
        return [f"for r in {kind}({self.row.rows}):", *_deeper(body)]

    def safe_rows(self, results: Sequence[Result], body: Sequence[str]) -> list[str]:
        """Put a loop over rows around, in order where rows are summed up."""
        if any(r.columns for r in results) and self.row.deep:
            return [f"for r in range({self.row.rows}):", *_deeper(body)]
        return self.rows(body)

    # -- forms ---------------------------------------------------------------------------------
    def plain(self, results: list[Result]) -> list[str]:
        """Write plain loops."""
        row, c = self.row, self.c
        body = self.body(results, "i")
        inner = f"for i in range({row.extent}):"
        if row.deep and c.chance(0.3):
            if c.chance(0.5):
                return [f"for r, i in T.grid({row.rows}, {row.extent}):", *_deeper(body)]
            return [inner, f"    for r in range({row.rows}):", *_deeper(body, 2)]
        return self.safe_rows(results, [inner, *_deeper(body)])

    def block(self, results: list[Result]) -> list[str]:
        """Write a block for each result."""
        made: list[str] = []
        for result in results:
            self.copies += 1
            row = self.row
            kinds = {"i": "S", "r": "S"}
            if result.op:
                kinds["r" if result.columns else "i"] = "R"
            axes = ["r", "i"] if row.deep else ["i"]
            extents = [str(row.rows), row.extent] if row.deep else [row.extent]
            lines = [f'with T.block("B{self.copies}"):']
            for name, extent in zip(axes, extents, strict=True):
                kind = "reduce" if kinds[name] == "R" else "spatial"
                lines.append(f"    v{name} = T.axis.{kind}({extent}, {name})")
            body = [*self.lets(result)]
            if result.op:
                text = _added(result.op, result.target, result.value.text)
                body.append(f"{result.target} = {text}")
            else:
                body.append(f"{result.target} = {result.value.text}")
            lines += _deeper([self.placed(line, "vi", "vr") for line in body])
            if len(axes) == 2 and self.c.chance(0.5):
                made += [f"for r, i in T.grid({', '.join(extents)}):", *_deeper(lines)]
                continue
            for name, extent in zip(reversed(axes), reversed(extents), strict=True):
                lines = [f"for {name} in range({extent}):", *_deeper(lines)]
            made += lines
        return made

    def inner(self, results: Sequence[Result]) -> tuple[int, str]:
        """Draw how many elements an inner loop takes, and its kind."""
        c = self.c
        lanes = c.pick([4, 8, 16, 16, 32, 64])
        across = any(r.op and not r.columns for r in results)
        kinds = [(2, "T.unroll"), (1, "range")]
        if not across:
            kinds.append((4, "T.vectorized"))
        kind = c.weighted(kinds)
        if kind == "T.unroll" and lanes > 16:
            lanes = c.pick([2, 3, 4, 8])
        return lanes, kind

    def cut(self, results: list[Result]) -> list[str]:
        """Write a loop in steps of several, and another for the rest."""
        lanes, kind = self.inner(results)
        row = self.row
        steps = f"n // {lanes}" if row.symbolic else str(row.length // lanes)
        lines = [
            f"for io in range({steps}):",
            f"    for ii in {kind}({lanes}):",
            *_deeper(self.body(results, f"io * {lanes} + ii"), 2),
        ]
        if row.symbolic or row.length % lanes:
            left = f"n % {lanes}" if row.symbolic else str(row.length % lanes)
            done = f"n // {lanes} * {lanes}" if row.symbolic else str(row.length - int(left))
            rest = self.body(results, f"{done} + it")
            lines += [f"for it in range({left}):", *_deeper(rest)]
        return self.safe_rows(results, lines)

    def guarded(self, results: list[Result]) -> list[str]:
        """Write a loop in steps of several, with a condition at the end."""
        lanes, kind = self.inner(results)
        row = self.row
        steps = f"(n + {lanes - 1}) // {lanes}" if row.symbolic else str(-(-row.length // lanes))
        body = self.body(results, f"io * {lanes} + ii")
        lines = [
            f"for io in range({steps}):",
            f"    for ii in {kind}({lanes}):",
            f"        if io * {lanes} + ii < {row.extent}:",
            *_deeper(body, 3),
        ]
        return self.safe_rows(results, lines)

    def whole(self, results: list[Result]) -> list[str]:
        """Write one vectorised or unrolled loop."""
        length = self.row.length
        kind = "T.vectorized" if self.c.chance(0.7) or length > 24 else "T.unroll"
        body = self.body(results, "i")
        return self.safe_rows(results, [f"for i in {kind}({length}):", *_deeper(body)])

    def scalar(self, results: list[Result]) -> list[str]:
        """Write sums in scalars."""
        self.copies += 1
        before: list[str] = []
        body: list[str] = []
        after: list[str] = []
        for at, result in enumerate(results):
            dtype = result.value.dtype
            accumulator = f"s{at}_{self.copies}"
            if self.c.chance(0.4):
                before.append(f'{accumulator} = T.alloc_buffer((1,), "{dtype}", scope="local")')
                accumulator = f"{accumulator}[0]"
            last = self.c.chance(0.5) and result.op in ("+", "^", "|")
            zero = f"T.{dtype}(0)" if last else result.target
            before.append(f"{accumulator} = {zero}")
            body += self.lets(result)
            body.append(f"{accumulator} = {_added(result.op, accumulator, result.value.text)}")
            total = _added(result.op, result.target, accumulator) if last else accumulator
            after.append(f"{result.target} = {total}")
        lines = [
            *before,
            f"for i in range({self.row.extent}):",
            *_deeper(body),
            *after,
        ]
        return self.rows([self.placed(line, "i") for line in lines])

    def lanes(self, results: list[Result]) -> list[str]:
        """Write sums of lanes, which are summed up at last."""
        c, row = self.c, self.row
        lanes = c.pick([4, 8, 16, 16, 32, 64])
        kind = "T.vectorized" if c.chance(0.7) else "T.unroll" if lanes <= 16 else "range"
        made: list[str] = []
        for result in results:
            self.copies += 1
            dtype, op = result.value.dtype, result.op
            accumulator = f"acc_{self.copies}"
            idle = {"+": "0", "^": "0", "|": "0"}.get(op)
            start = f"T.{dtype}({idle})" if idle else result.target
            step = _added(op, f"{accumulator}[ii]", result.value.text)
            body = [*self.lets(result), f"{accumulator}[ii] = {step}"]
            steps = f"n // {lanes}" if row.symbolic else str(row.length // lanes)
            lines = [
                f'{accumulator} = T.alloc_buffer(({lanes},), "{dtype}", scope="local")',
                f"for ii in {kind}({lanes}):",
                f"    {accumulator}[ii] = {start}",
                f"for io in range({steps}):",
                f"    for ii in {kind}({lanes}):",
                *_deeper([self.placed(line, f"io * {lanes} + ii") for line in body], 2),
            ]
            if row.symbolic or row.length % lanes:
                self.copies += 1
                left = f"n % {lanes}" if row.symbolic else str(row.length % lanes)
                done = f"n // {lanes} * {lanes}" if row.symbolic else str(row.length - int(left))
                rest = [
                    *self.lets(result),
                    f"{accumulator}[0] = {_added(op, f'{accumulator}[0]', '@v')}",
                ]
                rest = [line.replace("@v", result.value.text) for line in rest]
                lines.append(f"for it in range({left}):")
                lines += _deeper([self.placed(line, f"{done} + it") for line in rest])
            if c.chance(0.5):
                half = lanes // 2
                while half >= 1:
                    lines.append(f"for ii in {kind if half > 1 else 'range'}({half}):")
                    join = _added(op, f"{accumulator}[ii]", f"{accumulator}[ii + {half}]")
                    lines.append(f"    {accumulator}[ii] = {join}")
                    half //= 2
                lines.append(f"{result.target} = {_added(op, result.target, f'{accumulator}[0]')}")
            else:
                lines.append(f"for ii in {'T.unroll' if lanes < 32 else 'range'}({lanes}):")
                join = _added(op, result.target, f"{accumulator}[ii]")
                lines.append(f"    {result.target} = {join}")
            made += self.rows([self.placed(line, "0") for line in lines])
        return made
