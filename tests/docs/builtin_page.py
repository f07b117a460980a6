"""The page of builtins, written from the tables in the source."""

from __future__ import annotations

from collections.abc import Iterator

from loomir.ir.op import Effect
from loomir.script.builder.tir.refused_names import REFUSED
from loomir.script.builder.tir.table import NAMES
from loomir.tir.builtins.device import DEVICE
from loomir.tir.builtins.table import BUILTINS, FAMILIES, AcceptedDTypes, Builtin

INTRODUCTION = """# Builtins of TIR

Programs call a builtin by its name in `T`. This page is generated from the table of builtins in the
source; the [language reference](tirscript.md) describes the rest of the language.

Unless a row says otherwise, arguments are evaluated once, from left to right, and the result is NaN if
an argument is NaN. Functions of numbers also take vectors, lane by lane. Functions of floats are
computed in the precision of their dtype; 16-bit floats are computed in `float32` and rounded once.
"Floats" are `float16`, `bfloat16`, `float32` and `float64`, "integers" are the signed and unsigned ones
of 8 to 64 bits.

## Effects

| effect | what a call may do |
| --- | --- |"""

EFFECTS = {
    Effect.PURE: "compute a value from its arguments, without effects",
    Effect.EXPR_ANNOTATION: "nothing: it returns its argument, and is a hint for the compiler",
    Effect.EMBED_INFO: "nothing: its arguments are never evaluated, and it has no value",
    Effect.READ_STATE: "read state, so that another call may return another value",
    Effect.UPDATE_STATE: "raise, or change memory",
    Effect.SPECIAL_CALL_ARG: "build a special value, which may only be an argument of certain calls",
    Effect.CONTROL_JUMP: "jump to another place",
    Effect.OPAQUE: "anything; calls of functions have this effect",
}

FORMS = """
## Other names

These names are accepted too, and build operators or constants:

| name | means |
| --- | --- |"""

COMPOSED = {
    "any": "`a or b or …`",
    "all": "`a and b and …`",
    "logaddexp": "`log(exp(a) + exp(b))` without overflow, by `T.exp` and `T.log1p`",
    "power": "`T.pow`",
    "fabs": "`T.abs`",
    "div": "`a / b`",
    "truncdiv": "`a / b`",
    "truncmod": "its remainder, with the sign of a; for floats `T.fmod`",
    "BitwiseAnd": "`a & b`",
    "BitwiseOr": "`a \\| b`",
    "BitwiseXor": "`a ^ b`",
    "BitwiseNot": "`~a`",
    "LShift": "`a << b`",
    "RShift": "`a >> b`",
    "IntImm": "`T.IntImm(dtype, value)` is an integer constant",
    "FloatImm": "`T.FloatImm(dtype, value)` is a float constant",
    "Var": "`T.Var(name, dtype)` declares a variable, which takes the name that it is assigned to",
    "floordiv": "`a // b`",
    "floormod": "`a % b`",
    "indexdiv": "`a // b`",
    "indexmod": "`a % b`",
    "ceildiv": "`(a + b - 1) // b`: rounded up, for b above 0 and sums that do not wrap",
    "min": "the smaller one, NaN if either is",
    "max": "the larger one, NaN if either is",
    "min_value": "the least finite value of a dtype",
    "max_value": "the largest finite value of a dtype",
    "infinity": "plus infinity of a float dtype",
}

DEVICE_HEAD = """
## GPU instructions

Programs written for a GPU contain these. They are parsed, printed and compared with any arguments and
any `dtype=`, but a program that contains one is neither compiled nor interpreted
([TIR0512](../errors/TIR0512.md)).

| name | why not on a CPU | instead |
| --- | --- | --- |"""

MISSING = """
## Unsupported names

Other implementations have these names. The error for a program that uses one says this.

| name | why not | instead |
| --- | --- | --- |"""


def takes(row: Builtin) -> str:
    """Say what the arguments may be."""
    if row.accepts is AcceptedDTypes.EACH:
        return "; ".join(f"`{p.name}`: {p.kind.text}" for p in row.params if p.kind is not None)
    return row.accepts.value if row.arity != 0 else ""


def lines() -> Iterator[str]:
    yield INTRODUCTION
    assert set(EFFECTS) == set(Effect)
    yield from (f"| `{effect.value}` | {text} |" for effect, text in EFFECTS.items())
    for family in FAMILIES:
        yield ""
        yield f"## {family[:1].upper()}{family[1:]}"
        yield ""
        yield "| builtin | arguments | result | special cases | effect |"
        yield "| --- | --- | --- | --- | --- |"
        for name, row in BUILTINS.items():
            if row.family == family:
                cells = (row.summary, row.corners, f"`{row.op.effect.value}`")
                first = f"`T.{name}({row.signature})`"
                yield "| " + " | ".join([first, takes(row), *cells]).replace("|  |", "| |") + " |"
    yield FORMS
    assert set(COMPOSED) <= set(NAMES)
    yield from (f"| `T.{name}` | {text} |" for name, text in COMPOSED.items())
    yield DEVICE_HEAD
    yield from (f"| `T.{row.name}` | {row.why} | {row.instead} |" for row in DEVICE.values())
    yield MISSING
    yield from (f"| `T.{n}` | {r.why} | {r.instead} |" for n, r in REFUSED.items())


def page() -> str:
    """Write the page."""
    return "\n".join(lines()).replace("|  |", "| |") + "\n"
