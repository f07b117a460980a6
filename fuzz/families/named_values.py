"""Programs of other families, rewritten with names for values and with other loop kinds.

Lines of a drawn program are rewritten without changing their meaning: stored or loaded values get a
name first, which may be assigned again; loops are unrolled, vectorised, or parallel if each
iteration writes elements of its own.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from fuzz.choices import Choices, SeedChoices
from fuzz.families import elements, reductions, windows
from fuzz.families.algorithms import algorithms
from fuzz.families.cases import Case
from fuzz.families.drafts import rewriting

__all__ = ["VERSION", "draw", "vary"]

VERSION: Final = 1

_FAMILIES: Final[Mapping[str, Callable[[int], Case]]] = {
    "algorithms": algorithms.draw,
    "elements": elements.draw,
    "reductions": reductions.draw,
    "windows": windows.draw,
}
_STORE: Final = re.compile(r"^(?P<to>\w+\[[^=]*\]) (?P<op>[+*-]?)= (?P<value>.+)$")
_LOAD: Final = re.compile(r"\b(?!T\b)[A-Za-z_]\w*\[[\w, +*-]+\]")
_NOT_ALWAYS: Final = re.compile(r"if_then_else|Select| if | and | or |lambda|while|Let|//|%")
_VECTORS: Final = re.compile(r"\[[^\]]*:|Ramp|Broadcast|vload|x\d+\"")
_LOOP: Final = re.compile(r"^for (?P<var>\w+) in (?:range|T\.serial)\((?P<extent>\d+)\):$")
_UNROLLED: Final = 8
"""Most iterations of a loop that is unrolled."""


def draw(seed: int) -> Case:
    """Draw the case of a seed."""
    c = SeedChoices(f"named {VERSION} {seed}")
    family = c.pick(sorted(_FAMILIES))
    with rewriting(lambda lines: vary(c, lines)):
        return _FAMILIES[family](seed)


def vary(c: Choices, lines: Sequence[str]) -> list[str]:
    """Write lines with names for values, and loops of other kinds."""
    share = c.pick([0.3, 0.6, 1.0])
    made = _name_values(c, lines, share)
    return _change_loops(c, made, share / 2)


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _name_values(c: Choices, lines: Sequence[str], share: float) -> list[str]:
    made: list[str] = []
    init: int | None = None
    for line in lines:
        depth, text = _indent(line), line.strip()
        if init is not None and depth <= init:
            init = None
        if text.startswith("with T.init"):
            init = depth
        found = _STORE.match(text)
        if found is None or init is not None or _VECTORS.search(text) or not c.chance(share):
            made.append(line)
            continue
        made += [" " * depth + part for part in _named(c, found, len(made))]
    return made


def _named(c: Choices, found: re.Match[str], number: int) -> list[str]:
    to, op, value = found["to"], found["op"], found["value"]
    made: list[str] = []
    loads = [load.group() for load in _LOAD.finditer(value)]
    if not loads:
        return [found.group()]
    if not _NOT_ALWAYS.search(value):
        for k, load in enumerate(dict.fromkeys(loads)):
            if c.chance(0.6):
                name = f"val{number}_{k}"
                made.append(f"{name} = {load}")
                value = value.replace(load, name)
    if c.chance(0.6):
        name = f"res{number}"
        made.append(f"{name} = {value}")
        if c.chance(0.3):
            made.append(f"{name} = {name}")
        value = name
    return [*made, f"{to} {op}= {value}"]


def _change_loops(c: Choices, lines: Sequence[str], share: float) -> list[str]:
    made = list(lines)
    views = any("decl_buffer" in line for line in lines)
    for place, line in enumerate(lines):
        depth, found = _indent(line), _LOOP.match(line.strip())
        if found is None or not c.chance(share):
            continue
        body: list[str] = []
        for below in lines[place + 1 :]:
            if _indent(below) <= depth:
                break
            body.append(below.strip())
        kinds = ["T.unroll"] if int(found["extent"]) <= _UNROLLED else []
        if all(_is_simple(part) for part in body):
            kinds.append("T.vectorized")
        if not views and _is_independent(body, found["var"]):
            kinds.append("T.parallel")
        if kinds:
            text = f"for {found['var']} in {c.pick(kinds)}({found['extent']}):"
            made[place] = " " * depth + text
    return made


def _is_simple(line: str) -> bool:
    """Whether a line stores a scalar or names a value."""
    if _VECTORS.search(line) or line.startswith(("for ", "while ", "with ", "if ", "else")):
        return False
    return bool(_STORE.match(line)) or bool(re.match(r"^(val|res)\d+\w* = ", line))


def _is_independent(body: Sequence[str], var: str) -> bool:
    """Whether each iteration writes elements of its own, which no other one reads."""
    if not all(map(_is_simple, body)):
        return False
    for line in body:
        found = _STORE.match(line)
        if found is None:
            continue
        name, _, places = found["to"].partition("[")
        uses = " ".join(body).count(f"{name}[")
        if var not in [place.strip() for place in places.rstrip("]").split(",")]:
            return False
        if uses != 1:
            return False
    return True
