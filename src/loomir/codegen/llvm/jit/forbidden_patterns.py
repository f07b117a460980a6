"""Rewrite code patterns that LLVM's x86 back end miscompiles, or on which it ends the process.

Sums of lanes by halves, of products or distances of bytes:
    ``combineBasicSADPattern`` and ``combineVPDPBUSDPattern`` look through ``low half + high half``
    for the widest vector, but count the partial sums of ``psadbw`` and ``vpdpbusd`` by the
    narrowest one, and drop the others. A horizontal sum of such a sum is rewritten to one of the
    wider vector, which LLVM counts correctly; other sums of halves are hidden from instruction
    selection.

Sums of distances of bytes that are read as signed, ``sext(umax(a, b) - umin(a, b))``:
    ``combineBasicSADPattern`` treats any extension as a zero extension, which is only right for
    differences in 16 bits or more; ``psadbw`` then adds distances above 127 that should be
    negative. Such distances are hidden too.

Products of 16 bits that are computed and shifted in 64 bits: see ``shifted_products``.

Comparisons whose result is read as a half: see ``reinterpreted_bools``.

Patterns that LLVM miscompiles before instruction selection are emitted in another form from the
start: see ``neighbours`` and ``saturating`` for clips of floats (``foldSPFofSPF``).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from loomir.codegen.llvm.jit.reinterpreted_bools import (
    find_reinterpreted_bools,
    may_reinterpret_bools,
)
from loomir.codegen.llvm.jit.shifted_products import find_shifted_products, may_shift_products

__all__ = ["avoid_forbidden_patterns", "may_hold_forbidden_patterns"]

_BYTES: Final = re.compile(r"<\d+ x i8>")
_HALF: Final = re.compile(
    r"^  (%\S+) = shufflevector <(\d+) x i(\d+)> (%\S+), <\d+ x i\d+> (?:poison|undef), "
    r"<(\d+) x i32> <([^>]*)>$"
)
_SUM: Final = re.compile(r"^  (%\S+) = add (?:nuw |nsw )*<(\d+) x i(\d+)> (%\S+), (%\S+)$")
_ALL: Final = re.compile(
    r"^  (%\S+) = (?:tail )?call i(\d+) @llvm\.vector\.reduce\.add\.v(\d+)i\d+\("
    r"<\d+ x i\d+> (?:\w+ )*(%\S+)\)(.*)$"
)
_LARGER: Final = re.compile(
    r"^  (%\S+) = (?:(?:tail )?call <\d+ x i8> @llvm\.u(?:max|min)\.|"
    r"select <\d+ x i1> .*, <\d+ x i8> )"
)
"""The maximum or minimum of bytes, or a form that instruction selection turns into one."""
_DISTANCE: Final = re.compile(r"^  (%\S+) = sub (?:nuw |nsw )*<(\d+) x i8> (%\S+), (%\S+)$")
_SIGNED: Final = re.compile(r"^  %\S+ = sext <(\d+) x i8> (%\S+) to ")
_DEBUG: Final = re.compile(r"(?:, !\w+ !\d+)+$")


class _Vector(NamedTuple):
    """A named vector of integers."""

    name: str
    lanes: int
    bits: int

    @property
    def type(self) -> str:
        return f"<{self.lanes} x i{self.bits}>"

    @property
    def typed(self) -> str:
        return f"{self.type} {self.name}"


def may_hold_forbidden_patterns(text: str) -> bool:
    """Tell whether IR may have such patterns, by its types and operations."""
    has_bytes = _BYTES.search(text) is not None
    return has_bytes or may_shift_products(text) or may_reinterpret_bools(text)


def avoid_forbidden_patterns(text: str, register: int = 128) -> str | None:
    """Return IR for x86 without such forms; None if there are none.

    ``register`` is the number of bits of the largest vector registers that the code may use.
    """
    lines = text.split("\n")
    halves: dict[str, tuple[_Vector, bool]] = {}
    sums: dict[str, _Vector] = {}
    extremes: set[str] = set()
    distances: set[str] = set()
    declared: set[str] = set()
    changed = find_shifted_products(lines)
    if may_reinterpret_bools(text):
        changed |= find_reinterpreted_bools(lines)
    for at, whole in enumerate(lines):
        if whole.startswith("define"):
            halves.clear()
            sums.clear()
            extremes.clear()
            distances.clear()
            continue
        line = _DEBUG.sub("", whole)
        if half := _HALF.match(line):
            found = _read_half(half)
            if found is not None:
                halves[half[1]] = found
        elif added := _SUM.match(line):
            source = _match_summed_halves(halves.get(added[4]), halves.get(added[5]))
            if source is not None:
                sums[added[1]] = source
                hidden, name = _hide(_Vector(added[5], int(added[2]), int(added[3])), at, register)
                head, _, tail = whole.rpartition(f", {added[5]}")
                changed[at] = [*hidden, f"{head}, {name}{tail}"]
        elif (every := _ALL.match(line)) and every[4] in sums:
            wide = sums[every[4]]
            while wide.name in sums:
                wide = sums[wide.name]
            name = f"llvm.vector.reduce.add.v{wide.lanes}i{wide.bits}"
            declared.add(f"declare i{wide.bits} @{name}({wide.type})")
            changed[at] = [f"  {every[1]} = call i{wide.bits} @{name}({wide.type} {wide.name})"]
        elif extreme := _LARGER.match(line):
            extremes.add(extreme[1])
        elif distance := _DISTANCE.match(line):
            lanes = int(distance[2])
            if distance[3] in extremes and distance[4] in extremes and not lanes & (lanes - 1):
                distances.add(distance[1])
        elif (signed := _SIGNED.match(line)) and signed[2] in distances:
            hidden, name = _hide(_Vector(signed[2], int(signed[1]), 8), at, register)
            changed[at] = [*hidden, whole.replace(f" {signed[2]} to ", f" {name} to ")]
    if not changed:
        return None
    made = [part for at, line in enumerate(lines) for part in changed.get(at, (line,))]
    known = set(_declarations(lines))
    made += [line for line in sorted(declared) if _name_of(line) not in known]
    return "\n".join(made)


def _declarations(lines: list[str]) -> Iterator[str]:
    return (_name_of(line) for line in lines if line.startswith("declare"))


def _name_of(declaration: str) -> str:
    return declaration[declaration.index("@") : declaration.index("(", declaration.index("@"))]


def _read_half(match: re.Match[str]) -> tuple[_Vector, bool] | None:
    """Read a shuffle as the low (False) or high (True) half of a vector."""
    lanes, taken = int(match[2]), int(match[5])
    if 2 * taken != lanes:
        return None
    try:
        mask = [int(lane.rsplit(" ", 1)[1]) for lane in match[6].split(", ")]
    except ValueError:
        return None
    for high in (False, True):
        if mask == list(range(taken * high, taken * high + taken)):
            return _Vector(match[4], lanes, int(match[3])), high
    return None


def _match_summed_halves(
    one: tuple[_Vector, bool] | None, other: tuple[_Vector, bool] | None
) -> _Vector | None:
    if one is None or other is None or one[0] != other[0] or one[1] == other[1]:
        return None
    return one[0]


def _hide(value: _Vector, at: int, register: int) -> tuple[list[str], str]:
    """Pass a value through empty inline assembly; return the lines and its new name.

    It costs no instruction, and instruction selection does not look through it.
    """
    size, bits = value.lanes * value.bits, value.bits
    hidden = f"%hidden.{at}"
    kind = "v" if register > 256 else "x"  # any of 32 registers, or of 16
    if 128 <= size <= register:
        return [f'  {hidden} = call {value.type} asm "", "={kind},0"({value.typed})'], hidden
    made: list[str] = []
    if size > 128:
        per = register // bits
        part = f"<{per} x i{bits}>"
        names: list[tuple[str, int]] = []
        for k in range(size // register):
            mask = ", ".join(f"i32 {k * per + lane}" for lane in range(per))
            taken = f"shufflevector {value.typed}, {value.type} poison, <{per} x i32> <{mask}>"
            made += [
                f"  {hidden}.{k} = {taken}",
                f'  {hidden}.{k}.x = call {part} asm "", "={kind},0"({part} {hidden}.{k})',
            ]
            names.append((f"{hidden}.{k}.x", per))
        level = 0
        while len(names) > 1:
            level += 1
            wider: list[tuple[str, int]] = []
            for k in range(0, len(names), 2):
                (low, lanes), (high, _) = names[k], names[k + 1]
                mask = ", ".join(f"i32 {lane}" for lane in range(2 * lanes))
                half = f"<{lanes} x i{bits}>"
                name = f"{hidden}.{level}.{k}.j"
                made.append(
                    f"  {name} = shufflevector {half} {low}, {half} {high}, "
                    f"<{2 * lanes} x i32> <{mask}>"
                )
                wider.append((name, 2 * lanes))
            names = wider
        return made, names[0][0]
    word, kept = f"i{size}", f"i{max(size, 32)}"
    made.append(f"  {hidden}.b = bitcast {value.typed} to {word}")
    wide = f"{hidden}.b"
    if word != kept:
        made.append(f"  {hidden}.w = zext {word} {wide} to {kept}")
        wide = f"{hidden}.w"
    made.append(f'  {hidden}.x = call {kept} asm "", "=x,0"({kept} {wide})')
    wide = f"{hidden}.x"
    if word != kept:
        made.append(f"  {hidden}.t = trunc {kept} {wide} to {word}")
        wide = f"{hidden}.t"
    made.append(f"  {hidden} = bitcast {word} {wide} to {value.type}")
    return made, hidden
