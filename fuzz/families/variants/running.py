"""Greatest and least elements by comparison, which skip NaN and keep the signs of zeros."""

from __future__ import annotations

from typing import Any

import numpy as np

from fuzz.choices import Choices
from fuzz.families.variants.text import Draft

__all__ = ["draw"]

_SPECIAL = (0.0, -0.0, float("nan"), float("inf"), float("-inf"), 1.0, -1.0)
_TESTS = {
    ">": lambda v, top: v > top,
    ">=": lambda v, top: v >= top,
    "<": lambda v, top: v < top,
    "<=": lambda v, top: v <= top,
}
_MIRRORED = {">": "<", ">=": "<=", "<": ">", "<=": ">="}


def draw(c: Choices, numbers: np.random.Generator) -> Draft:
    """Draw a search along an axis, for each element of the other one, and what uses its result."""
    dtype = c.pick(["float32", "float32", "float64", "int32", "uint8", "float16"])
    rows, columns = c.integer(1, 40), c.pick([1, 3, 16, 17, 33, 70])
    if dtype.startswith("float"):
        share = c.pick([0.0, 0.2, 1.0])
        x: Any = numbers.integers(-3, 3, (rows, columns)).astype(dtype)
        special = numbers.choice(np.array(_SPECIAL, dtype), (rows, columns))
        x = np.where(numbers.random((rows, columns)) < share, special, x).astype(dtype)
    else:
        x = numbers.integers(0, 9, (rows, columns)).astype(dtype)
    sign = c.pick(sorted(_TESTS))
    start = c.pick(["first", "limit", "given"])
    across = c.chance(0.4)  # along the outer axis
    many, steps = (columns, rows) if across else (rows, columns)
    lines_of = x.T if across else x
    limit = "T.min_value" if sign in (">", ">=") else "T.max_value"
    given = numbers.choice(lines_of.reshape(-1), many).astype(dtype)
    limits: Any = np.finfo(dtype) if dtype.startswith("float") else np.iinfo(dtype)
    least = limits.min if sign in (">", ">=") else limits.max
    tops = {"first": lines_of[:, 0], "limit": np.full(many, least, dtype), "given": given}[start]
    tops = tops.copy()
    with np.errstate(invalid="ignore"):
        for k in range(steps):
            taken = _TESTS[sign](lines_of[:, k], tops)
            tops = np.where(taken, lines_of[:, k], tops)
    at = "x[k, i]" if across else "x[i, k]"
    first = {"first": at.replace("k", "0"), "limit": f'{limit}("{dtype}")', "given": "s[i]"}[start]
    test = f"{{v}} {sign} {{top}}" if c.chance(0.6) else f"{{top}} {_MIRRORED[sign]} {{v}}"
    where = "o[i]" if c.chance(0.3) else "top"
    value = "v" if c.chance(0.5) else at
    named = [f"v = {at}"] if value == "v" else []
    asked = test.format(v=value, top=where)
    form = c.pick(["if", "if", "Select", "if_then_else"])
    body = [f"if {asked}:", f"    {where} = {value}"]
    if form != "if":
        body = [f"{where} = T.{form}({asked}, {value}, {where})"]
    inner = "\n        ".join([*named, *body])
    lines = f"""
for i in range({many}):
    {where} = {first}
    for k in range({steps}):
        {inner}
"""
    arrays: dict[str, Any] = {"x": x, "s": given, "o": np.zeros(many, dtype)}
    expected = {"o": tops}
    if where == "top":
        lines += "    o[i] = top\n"
    if dtype in ("float32", "float64"):  # the sign of a zero
        arrays["u"] = np.zeros(many, dtype)
        with np.errstate(divide="ignore"):
            expected["u"] = (1 / tops).astype(dtype)
        one = f"T.{dtype}(1)"
        lines += f"for i in range({many}):\n    u[i] = {one} / o[i]\n"
    return Draft(lines, arrays, expected)
