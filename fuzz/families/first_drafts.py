"""First drafts of programs, in loops whose form decides which rule takes them.

There are branches that store to one element, short rows stored element by element, bits and digits
of an index, rows of sparse matrices, scatters to repeated indices, filters, epilogues of sums,
clamps of indices that a condition guards, and rows that are reduced twice.
Sizes are 0, 1, prime, or known only at run time; Python loops are the reference.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Mapping
from itertools import product
from typing import Any, Final

import numpy as np

from fuzz.choices import Choices, SeedChoices
from fuzz.families.cases import Case
from loomir.ir.module import GlobalVar, IRModule
from loomir.script import from_source
from loomir.tir.function import PrimFunc

__all__ = ["VERSION", "draw"]

VERSION: Final = 3

_SIZES: Final = (0, 1, 2, 3, 5, 7, 8, 13, 16, 17, 31, 32, 33, 48, 67)
_FLOATS: Final = ("float32", "float32", "float64")
_INTEGERS: Final = ("int8", "uint8", "int16", "int32", "int64")
_ROWS_OF_MANY: Final = (
    """
for j in range(WIDTH):
    y[r, j] = T.DTYPE(0)
for p in range(indptr[r], indptr[r + 1]):
    for j in range(WIDTH):
        y[r, j] += val[p] * x[col[p], j]
""",
    """
for j in range(WIDTH):
    acc = T.DTYPE(0)
    for p in range(indptr[r], indptr[r + 1]):
        acc += val[p] * x[col[p], j]
    y[r, j] = acc
""",
    """
for p in range(indptr[r], indptr[r + 1]):
    for j in range(WIDTH):
        y[r, j] += val[p] * x[col[p], j]
""",
)
_ROWS_OF_ONE: Final = (
    """
y[r] = T.DTYPE(0)
for p in range(indptr[r], indptr[r + 1]):
    y[r] += val[p] * x[col[p]]
""",
    """
acc = T.DTYPE(0)
for k in range(indptr[r + 1] - indptr[r]):
    acc += val[indptr[r] + k] * x[col[indptr[r] + k]]
y[r] = acc
""",
    """
for p in range(indptr[r], indptr[r + 1]):
    y[r] += val[p] * x[col[p]]
""",
)
_MIRROR: Final = str.maketrans("<>", "><")
_Run = Callable[[Mapping[str, Any]], None]


class _Program:
    """The text of a program and its arguments, as far as they are drawn."""

    def __init__(self, c: Choices) -> None:
        self.c = c
        self.head: list[str] = []
        self.body: list[str] = []
        self.arrays: dict[str, Any] = {}
        self.sizes: dict[str, int] = {}

    def size(self, *among: int) -> str:
        """Draw an extent: a number, or a name for one."""
        value = self.c.pick(among or _SIZES)
        if self.c.chance(0.6):
            return str(value)
        name = f"n{len(self.sizes)}"
        self.sizes[name] = value
        return name

    def value(self, size: str) -> int:
        """Return what an extent is: a number or a name, or a sum or product of two."""
        for sign, of in ((" + ", int.__add__), (" * ", int.__mul__)):
            if sign in size:
                return of(*map(self.value, size.split(sign)))
        return self.sizes[size] if size in self.sizes else int(size)

    def array(self, name: str, dtype: str, shape: list[str], most: int = 4, low: int = -4) -> None:
        """Add an argument of whole numbers."""
        known = [self.value(extent) for extent in shape]
        low = 0 if dtype.startswith("u") else low
        count = int(np.prod(known))
        drawn = [self.c.integer(low, most) for _ in range(min(count, 251))]
        made = np.resize(np.array(drawn or [0]), known) if count else np.zeros(known)
        self.arrays[name] = made.astype(dtype)
        self.head.append(f'{name} = T.match_buffer(h_{name}, ({", ".join(shape)},), "{dtype}")')

    def write(self, text: str) -> None:
        self.body += textwrap.dedent(text).strip("\n").splitlines()

    def case(self, seed: int, run: _Run) -> Case:
        """Compute what is expected by the reference."""
        params = ", ".join(f"h_{name}: T.handle" for name in self.arrays)
        lines = ["from loomir.script import tir as T", "@T.prim_func", f"def main({params}):"]
        lines += [f"    {name} = T.int64()" for name in self.sizes]
        lines += [f"    {line}" for line in (*self.head, *self.body)]
        func = from_source("\n".join(lines) + "\n")
        given = tuple(array.copy() for array in self.arrays.values())
        after = {name: array.copy() for name, array in self.arrays.items()}
        with np.errstate(all="ignore"):
            run(after)
        assert isinstance(func, PrimFunc)
        module = IRModule({GlobalVar("main"): func})
        return Case("firsts", seed, module, "main", given, tuple(after.values()))


def draw(seed: int) -> Case:
    """Draw the case of a seed."""
    c = SeedChoices(f"firsts {VERSION} {seed}")
    kinds = (
        _branches,
        _interleaved,
        _digits,
        _sparse,
        _scatter,
        _filtered,
        _made_of_sums,
        _search,
        _search,
        _bytes,
        _bytes,
        _clamped,
        _repeated,
    )
    return c.pick(kinds)(_Program(c), seed)


def _branches(p: _Program, seed: int) -> Case:
    c, n, m = p.c, p.size(), p.size()
    dtype = c.pick((*_FLOATS, *_INTEGERS))
    p.array("a", dtype, [n, m])
    p.array("b", dtype, [n, m])
    p.array("o", dtype, [n, m])
    texts = {
        "j <= i": lambda v, i, j: j <= i,
        "i > 0 and j > 1": lambda v, i, j: i > 0 and j > 1,
        "a[i, j] > b[i, j]": lambda v, i, j: v["a"][i, j] > v["b"][i, j],
        "(i + j) % 3 == 0": lambda v, i, j: (i + j) % 3 == 0,
        f"a[i, j] != T.{dtype}(0)": lambda v, i, j: v["a"][i, j] != 0,
    }
    first, second = c.pick(sorted(texts)), c.pick(sorted(texts))
    own = c.chance(0.3)
    last = "o[i, j]" if own else f"T.{dtype}(2)"
    order = c.pick(["i, j in T.grid({n}, {m})", "j, i in T.grid({m}, {n})"])
    p.write(f"""
for {order.format(n=n, m=m)}:
    if {first}:
        o[i, j] = a[i, j]
    else:
        if {second}:
            o[i, j] = b[i, j]
        else:
            o[i, j] = {last}
""")

    def run(v: Mapping[str, Any]) -> None:
        for i, j in product(*map(range, v["o"].shape)):
            if texts[first](v, i, j):
                v["o"][i, j] = v["a"][i, j]
            elif texts[second](v, i, j):
                v["o"][i, j] = v["b"][i, j]
            elif not own:
                v["o"][i, j] = 2

    return p.case(seed, run)


def _interleaved(p: _Program, seed: int) -> Case:
    c, n, m = p.c, p.size(), p.size()
    dtype, places = c.pick((*_FLOATS, *_INTEGERS)), c.pick([2, 3, 4])
    two = c.chance(0.5)
    shape = [n, m, str(places)] if two else [n, str(places)]
    for name in "abo":
        p.array(name, dtype, shape)
    at = "i, j" if two else "i"
    order = [c.integer(0, places - 1) for _ in range(places)]
    signs = [c.pick("+-*") for _ in range(places)]
    named = c.chance(0.4)
    own = c.chance(0.25)
    lines = [f"x = a[{at}, 0]"] if named else []
    one = "x" if named else f"a[{at}, 0]"
    other = "o" if own else "b"
    for k in range(places):
        lines.append(f"o[{at}, {k}] = {one} {signs[k]} {other}[{at}, {order[k]}]")
    loops = f"for i, j in T.grid({n}, {m}):" if two else f"for i in range({n}):"
    p.write("\n".join([loops, *(f"    {line}" for line in lines)]))
    ops = {"+": np.add, "-": np.subtract, "*": np.multiply}

    def run(v: Mapping[str, Any]) -> None:
        for at in product(*map(range, v["o"].shape[:-1])):
            for k in range(places):
                v["o"][(*at, k)] = ops[signs[k]](v["a"][(*at, 0)], v[other][(*at, order[k])])

    return p.case(seed, run)


def _digits(p: _Program, seed: int) -> Case:
    c, n, m = p.c, p.size(), p.size(0, 1, 2, 5, 8, 16, 33, 64)
    parts, dtype = c.pick([2, 3, 4, 8]), c.pick(["uint8", "uint16", "int32", "float32"])
    p.array("x", dtype, [n, m], 99)
    p.array("o", dtype, [n, f"{m} * {parts}"])
    bits = dtype != "float32" and c.chance(0.7)
    k = f"T.cast(j % {parts}, '{dtype}')"
    value = f"(x[i, j // {parts}] >> {k}) & T.{dtype}(1)" if bits else f"x[i, j // {parts}] + {k}"
    p.write(f"""
for i, j in T.grid({n}, {m} * {parts}):
    o[i, j] = {value}
""")

    def run(v: Mapping[str, Any]) -> None:
        for i, j in product(*map(range, v["o"].shape)):
            x, k = v["x"][i, j // parts], v["o"].dtype.type(j % parts)
            v["o"][i, j] = (x >> k) & 1 if bits else x + k

    return p.case(seed, run)


def _sparse(p: _Program, seed: int) -> Case:
    c, rows, width = p.c, p.size(), p.size(1, 3, 8, 17, 32)
    dtype, count = c.pick((*_FLOATS, "int32")), c.pick([1, 5, 40, 120])
    p.array("indptr", "int32", [f"{rows} + 1"], count, 0)
    if c.chance(0.8):
        p.arrays["indptr"].sort()  # else rows overlap, or have no elements
    p.array("col", "int32", [str(count)], 6, 0)
    p.array("val", dtype, [str(count)])
    many = c.chance(0.6)
    p.array("x", dtype, ["7", width] if many else ["7"])
    p.array("y", dtype, [rows, width] if many else [rows])
    form = c.integer(0, 2)
    if many:
        bodies = _ROWS_OF_MANY
    else:
        bodies = _ROWS_OF_ONE
    body = bodies[form].replace("DTYPE", dtype).replace("WIDTH", width)
    p.write(f"for r in range({rows}):\n{textwrap.indent(body.strip(chr(10)), '    ')}")

    def run(v: Mapping[str, Any]) -> None:
        for r in range(len(v["y"])):
            if form != 2:
                v["y"][r] = 0
            for k in range(v["indptr"][r], v["indptr"][r + 1]):
                v["y"][r] += v["val"][k] * v["x"][v["col"][k]]

    return p.case(seed, run)


def _scatter(p: _Program, seed: int) -> Case:
    c, n, m, places = p.c, p.size(), p.size(), p.size(1, 3, 8, 17)
    dtype = c.pick((*_FLOATS, *_INTEGERS))
    p.array("idx", c.pick(["int32", "int64"]), [n], p.value(places) - 1, 0)
    p.array("x", dtype, [n, m])
    p.array("o", dtype, [places, m])
    kind = c.pick(["+=", "max", "="])
    loops = c.pick([f"for i, j in T.grid({n}, {m}):", f"for j, i in T.grid({m}, {n}):"])
    value = "T.max(o[idx[i], j], x[i, j])" if kind == "max" else "x[i, j]"
    p.write(f"{loops}\n    o[idx[i], j] {'+=' if kind == '+=' else '='} {value}")

    def run(v: Mapping[str, Any]) -> None:
        for i in range(len(v["idx"])):
            at = v["idx"][i]
            new = {"+=": np.add, "max": np.maximum, "=": lambda _, x: x}[kind]
            v["o"][at] = new(v["o"][at], v["x"][i])

    return p.case(seed, run)


def _filtered(p: _Program, seed: int) -> Case:
    c, n, m, steps = p.c, p.size(), p.size(), c_size(p)
    dtype = c.pick((*_FLOATS, "int32"))
    back = c.chance(0.4)
    p.array("x", dtype, [n, f"{m} + {steps}"])
    p.array("h", dtype, [steps])
    p.array("o", dtype, [n, m])
    at = f"j + ({steps} - 1 - k)" if back else "j + k"
    weight = f"x[i, {at}] * h[k]" if c.chance(0.7) else f"x[i, j] * h[k] + x[i, {at}]"
    local = c.chance(0.6)
    start = f"T.{dtype}({c.integer(0, 2)})"
    first = int(start.split("(")[1][:-1])
    if local:
        p.write(f"""
for i, j in T.grid({n}, {m}):
    acc = {start}
    for k in range({steps}):
        acc += {weight}
    o[i, j] = acc
""")
    else:
        p.write(f"""
for i, j in T.grid({n}, {m}):
    o[i, j] = {start}
    for k in range({steps}):
        o[i, j] += {weight}
""")
    both = "+ x" in weight

    def run(v: Mapping[str, Any]) -> None:
        count = len(v["h"])
        for i, j in product(*map(range, v["o"].shape)):
            acc = v["o"].dtype.type(first)
            for k in range(count):
                x = v["x"][i, j + (count - 1 - k if back else k)]
                acc += v["x"][i, j] * v["h"][k] + x if both else x * v["h"][k]
            v["o"][i, j] = acc

    return p.case(seed, run)


def c_size(p: _Program) -> str:
    """Draw how many steps a sum has."""
    return p.size(0, 1, 2, 3, 5, 9, 16, 33)


def _made_of_sums(p: _Program, seed: int) -> Case:
    c, n, m, steps = p.c, p.size(), p.size(), c_size(p)
    dtype = c.pick((*_FLOATS, "int32"))
    to = c.pick([dtype, dtype, "float64", "int32"])
    p.array("x", dtype, [n, steps])
    p.array("y", dtype, [m, steps] if c.chance(0.6) else [steps, m])
    across = p.head[-1].split("(h_y, (")[1].startswith(f"{m}, {steps}")
    p.array("b", to, [m])
    swapped = c.chance(0.25)
    p.array("o", to, [m, n] if swapped else [n, m])
    y = "y[j, k]" if across else "y[k, j]"
    term = c.pick(["(x[i, k] - {y}) * (x[i, k] - {y})", "x[i, k] * {y}", "T.abs(x[i, k] - {y})"])
    ends = {
        "acc": lambda a, b: a,
        "T.max(acc, 1)": lambda a, b: max(a, 1),
        f"T.cast(acc, '{to}') + b[j]": lambda a, b: np.dtype(to).type(a) + b,
        "acc * acc": lambda a, b: a * a,
    }
    names = sorted(ends) if to == dtype else [f"T.cast(acc, '{to}') + b[j]"]
    end = c.pick(names)
    text = end.replace("T.max(acc, 1)", f"T.max(acc, T.{dtype}(1))")
    p.write(f"""
for i, j in T.grid({n}, {m}):
    acc = T.{dtype}(0)
    for k in range({steps}):
        acc += {term.format(y=y)}
    o[{"j, i" if swapped else "i, j"}] = {text}
""")

    def run(v: Mapping[str, Any]) -> None:
        x, ys = v["x"], v["y"] if across else v["y"].T
        for i, j in product(range(len(x)), range(len(v["b"]))):
            a, b = x[i], ys[j]
            terms = a * b if "] * y" in term.format(y="y") and "-" not in term else np.abs(a - b)
            terms = (a - b) * (a - b) if term.startswith("(") else terms
            acc = terms.sum(dtype=x.dtype)
            v["o"][(j, i) if swapped else (i, j)] = ends[end](acc, v["b"][j])

    return p.case(seed, run)


def _search(p: _Program, seed: int) -> Case:
    c, n, m = p.c, p.size(), p.size(*_SIZES[1:])
    dtype, kind = c.pick((*_FLOATS, "int8", "uint8", "int32")), c.pick([">", ">=", "<", "<="])
    columns, start = c.chance(0.3), c.integer(0, 2)
    p.array("x", dtype, [m, n] if columns else [n, m])
    if p.arrays["x"].dtype.kind == "f" and p.arrays["x"].size and c.chance(0.6):
        flat = p.arrays["x"].reshape(-1)
        for _ in range(c.integer(1, 9)):
            flat[c.integer(0, len(flat) - 1)] = c.pick([np.nan, -0.0, 0.0, np.inf, -np.inf])
    p.array("top", dtype, [n])
    p.array("at", c.pick(["int32", "int64"]), [n])
    place = p.arrays["at"].dtype.name
    x, first = ("x[j, i]", "x[0, i]") if columns else ("x[i, j]", "x[i, 0]")
    into = c.chance(0.4)
    begin = {0: first, 1: f"T.{dtype}(1)", 2: f"T.{dtype}(100)"}[start]
    test = f"{x} {kind} best" if c.chance(0.7) else f"best {kind.translate(_MIRROR)} {x}"
    to = "at[i]" if into else "where"
    order = [f"best = {x}", f"{to} = T.cast(j, '{place}')"]
    if c.chance(0.5):
        order.reverse()
    low = c.integer(0, 1)
    keep = into and c.chance(0.3)
    lines = [
        f"for i in range({n}):",
        f"    best = {begin}",
        *([] if keep else [f"    {to} = T.{place}(7)"]),
        f"    for j in range({low}, {m}):",
        f"        if {test}:",
        *(f"            {line}" for line in order),
        "    top[i] = best",
        *([] if into else ["    at[i] = where"]),
    ]
    p.write("\n".join(lines))
    ops = {">": np.greater, ">=": np.greater_equal, "<": np.less, "<=": np.less_equal}

    def run(v: Mapping[str, Any]) -> None:
        rows = v["x"].T if columns else v["x"]
        for i, row in enumerate(rows):
            best = (row[0], row.dtype.type(1), row.dtype.type(100))[start]
            if not keep:
                v["at"][i] = 7
            for j in range(low, len(row)):
                if ops[kind](row[j], best):
                    best = row[j]
                    v["at"][i] = j
            v["top"][i] = best

    return p.case(seed, run)


def _bytes(p: _Program, seed: int) -> Case:
    """Sum bytes, to what fits 16 bits or just not, and compute something of the sums."""
    c, n, m = p.c, p.size(), p.size()
    dtype, rows, cols = c.pick(["uint8", "int8"]), c.integer(1, 4), c.integer(1, 5)
    low, high = (0, 255) if dtype == "uint8" else (-128, 127)
    p.array("x", dtype, [f"{n} + {rows}", f"{m} + {cols}"], high, low)
    p.array("b", "int8", [m])  # binds the extents
    p.array("d", "int8", [n])
    to = c.pick(["uint8", "int8", "int16", "int32", "float32"])
    p.array("o", to, [n, m])
    weights = [c.pick([1, 2, 3, 29, 77, 150, -1, -60]) for _ in range(3)]
    by, start = c.pick([1, 2, 3, 9, 255]), c.pick([0, 0, 1, 128, -7, 40000])
    end = c.pick(["acc // {by}", "acc >> {s}", "acc * 2 - 5", "T.min(T.max(acc, 0), 255)", "acc"])
    s = c.integer(1, 8)
    text = end.format(by=by, s=s)
    window = c.chance(0.6)
    if window:
        times = f" * {weights[0]}" if c.chance(0.5) else ""
        p.write(f"""
for i, j in T.grid({n}, {m}):
    acc = T.int32({start})
    for r, q in T.grid({rows}, {cols}):
        acc += T.cast(x[i + r, j + q], "int32"){times}
    o[i, j] = T.cast({text}, "{to}")
""")
    else:
        terms = " + ".join(
            f'T.cast(x[i + {k % (rows + 1)}, j + {k % (cols + 1)}], "int32") * {w}'
            for k, w in enumerate(weights)
        )
        p.write(f"""
for i, j in T.grid({n}, {m}):
    acc = {terms}
    o[i, j] = T.cast({text}, "{to}")
""")
    scaled = window and " * " in p.body[3]

    def run(v: Mapping[str, Any]) -> None:
        x = v["x"].astype("int64")
        for i, j in product(*map(range, v["o"].shape)):
            if window:
                acc = start + int(x[i : i + rows, j : j + cols].sum()) * (
                    weights[0] if scaled else 1
                )
            else:
                places = [(k % (rows + 1), k % (cols + 1)) for k in range(3)]
                acc = sum(int(x[i + a, j + b]) * w for (a, b), w in zip(places, weights))
            made = {
                "acc // {by}": acc // by,
                "acc >> {s}": acc >> s,
                "acc * 2 - 5": acc * 2 - 5,
                "T.min(T.max(acc, 0), 255)": min(max(acc, 0), 255),
                "acc": acc,
            }[end]
            v["o"][i, j] = np.int64(made).astype(to)

    return p.case(seed, run)


def _clamped(p: _Program, seed: int) -> Case:
    """Read a neighbour whose index is clamped, although a condition guards it already."""
    c, n, m = p.c, p.size(), p.size(1, 5, 16, 17, 33)
    dtype = c.pick(["float32", "int32", "uint8", "float64"])
    p.array("x", dtype, [n, m])
    p.array("y", dtype, [n, m])
    dy, dx = c.integer(-2, 2), c.integer(-3, 3)
    row = f"T.min(T.max(i + {dy}, 0), {n} - 1)" if c.chance(0.7) else f"T.max(i + {dy}, 0) % {n}"
    column = f"T.max(T.min(j + {dx}, {m} - 1), 0)"
    inside = [f"i + {dy} >= 0", f"i + {dy} < {n}", f"0 <= j + {dx}", f"j + {dx} < {m}"]
    outside = [f"i + {dy} < 0", f"i + {dy} >= {n}", f"j + {dx} < 0", f"j + {dx} > {m} - 1"]
    lacks = c.weighted([(4.0, -1), (1.0, c.integer(0, 3))])
    negated = c.chance(0.4)
    tests = [test for k, test in enumerate(outside if negated else inside) if k != lacks]
    if c.chance(0.3):
        tests.reverse()
    condition = (" or " if negated else " and ").join(tests)
    element, border = f"x[{row}, {column}]", f"T.{dtype}({c.pick([0, 3])})"
    one, other = (border, element) if negated else (element, border)
    how = c.pick(["T.Select", "T.if_then_else"])
    p.write(f"""
for i, j in T.grid({n}, {m}):
    y[i, j] = {how}({condition}, {one}, {other})
""")

    def run(v: Mapping[str, Any]) -> None:
        high, wide = v["x"].shape
        for i, j in product(range(high), range(wide)):
            facts = [i + dy >= 0, i + dy < high, j + dx >= 0, j + dx < wide]
            down, across = max(i + dy, 0), max(min(j + dx, wide - 1), 0)
            down = down % high if "%" in row else min(down, high - 1)
            guarded = all(fact for k, fact in enumerate(facts) if k != lacks)
            v["y"][i, j] = v["x"][down, across] if guarded else int(border.split("(")[1][:-1])

    return p.case(seed, run)


def _repeated(p: _Program, seed: int) -> Case:
    """Compute something of rows twice, with what changes the row in between or not."""
    c, n, m = p.c, p.size(), p.size(1, 5, 16, 17, 33, 48)
    dtype = c.pick(["float32", "int32", "float64"])
    reducer = c.pick(["T.max({}, {})", "T.min({}, {})", "{} + {}"])
    p.array("x", dtype, [n, m])
    p.array("y", dtype, [n, m])
    p.array("z", dtype, [n, m])
    changes = c.chance(0.3)
    start = c.pick([-100, 0, 100])
    p.head += [f't{k} = T.alloc_buffer(({n},), "{dtype}")' for k in (0, 1)]
    for k, result in enumerate("yz"):
        p.write(f"""
for i, j in T.grid({n}, {m}):
    with T.block("row{k}"):
        vi, vj = T.axis.remap("SR", [i, j])
        with T.init():
            t{k}[vi] = T.{dtype}({start})
        t{k}[vi] = {reducer.format(f"t{k}[vi]", "x[vi, vj]")}
for i, j in T.grid({n}, {m}):
    with T.block("end{k}"):
        vi, vj = T.axis.remap("SS", [i, j])
        {result}[vi, vj] = x[vi, vj] * T.{dtype}({k + 2}) - t{k}[vi]
""")
        if changes and not k:
            p.write(f"""
for i, j in T.grid({n}, {m}):
    with T.block("change"):
        vi, vj = T.axis.remap("SS", [i, j])
        x[vi, vj] = x[vi, vj] - T.{dtype}(1)
""")

    def run(v: Mapping[str, Any]) -> None:
        take = {"T.max": np.maximum, "T.min": np.minimum}.get(reducer[:5], np.add)
        for k, result in enumerate("yz"):
            rows = take.reduce(v["x"], axis=1, initial=start) if v["x"].size else 0
            v[result][:] = v["x"] * (k + 2) - np.reshape(rows, (-1, 1))
            if changes and not k:
                v["x"][:] -= 1

    return p.case(seed, run)
