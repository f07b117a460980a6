"""A trial of a search: what was decided for which program on which machine, and how fast it was."""

from __future__ import annotations

import math
from collections.abc import Mapping, Set
from typing import Any, Final, NamedTuple, cast

from loomir.autoschedule.ir.decision import Choice, choice_to_plain
from loomir.ir.hashing import structural_digest
from loomir.ir.visit import rebuild
from loomir.support.diagnostics import CompileError, Diagnostic
from loomir.target import Target
from loomir.tir.analysis.written_buffers import written_buffers
from loomir.tir.expr import Var
from loomir.tir.function import PrimFunc

__all__ = ["STATUSES", "Record", "key_of_program", "key_of_target", "label_of", "record_from_plain"]

STATUSES: Final = ("ok", "best", "wrong", "failed")
"""How a trial ended. ``best`` was confirmed at the end of a search, and compiling uses it."""

_MOST_CHOICES: Final = 1_000
_LONGEST: Final = 200


class Record(NamedTuple):
    """A trial; ``choices`` lists the differences from the default schedule.

    ``seconds`` and ``default_seconds`` are the times of a call, measured in turns; None if the
    trial failed, or its results differ from those of the default schedule (``wrong``).
    """

    program: str
    target: str
    name: str
    version: str
    choices: Mapping[str, Choice]
    status: str
    seconds: float | None
    default_seconds: float | None

    @property
    def speedup(self) -> float:
        """Return the speed-up over the default schedule; 0 if the trial failed."""
        if not self.seconds or not self.default_seconds or self.status not in ("ok", "best"):
            return 0.0
        return self.default_seconds / self.seconds

    def to_plain(self) -> dict[str, Any]:
        """Return the record as plain data for JSON."""
        made = self._asdict()
        made["choices"] = {key: choice_to_plain(c) for key, c in self.choices.items()}
        return made


def key_of_program(func: PrimFunc, constants: Set[Var] = frozenset()) -> str:
    """Return a key of what a function computes, without names, but with which arguments vary."""
    bare = rebuild(func, {"attrs": {}})
    places = [
        place
        for place, param in enumerate(func.params)
        if param in func.buffer_map and func.buffer_map[param].data in constants
    ]
    marks = "".join(f"-{place}" for place in places)
    return structural_digest(bare).hex()[:40] + marks


def label_of(func: PrimFunc) -> str:
    """Return a name of a function for people: its own, or that of its output."""
    if "global_symbol" in func.attrs:
        return func.name
    written = {id(buffer.data) for buffer in written_buffers(func)}
    names = [b.name for b in func.buffer_map.values() if id(b.data) in written]
    return "+".join(names) or func.name


def key_of_target(target: Target) -> str:
    """Return a key of a machine, with everything that the default schedule depends on."""
    extensions = " ".join(sorted(target.extensions))
    caches = "/".join(map(str, target.caches))
    return (
        f"{target.cpu} {target.triple} {target.vector_bits} {target.registers} {target.fma:d} "
        f"{caches} {target.cores} {extensions}"
    )


def record_from_plain(plain: Any) -> Record:
    """Read a record that ``Record.to_plain`` wrote. Errors: TUN0003."""
    fields = cast("dict[str, Any]", plain) if isinstance(plain, dict) else {}
    missing = [name for name in Record._fields if name not in fields]
    if missing:
        raise _refuse(f"it has no {', '.join(missing)}" if fields else "it is not an object")
    texts = {name: fields[name] for name in ("program", "target", "name", "version", "status")}
    for name, text in texts.items():
        if not isinstance(text, str) or len(text) > _LONGEST * 4:
            raise _refuse(f"its {name} is no text")
    if texts["status"] not in STATUSES:
        raise _refuse(f"its status is not one of {', '.join(STATUSES)}")
    times = [fields["seconds"], fields["default_seconds"]]
    for seconds in times:
        if seconds is not None and not _is_time(seconds):
            raise _refuse("its seconds are not positive numbers")
    return Record(
        texts["program"],
        texts["target"],
        texts["name"],
        texts["version"],
        _read_choices(fields["choices"]),
        texts["status"],
        times[0],
        times[1],
    )


def _is_time(value: Any) -> bool:
    return type(value) in (int, float) and math.isfinite(value) and value > 0


def _read_choices(plain: Any) -> dict[str, Choice]:
    if not isinstance(plain, dict) or len(cast("dict[Any, Any]", plain)) > _MOST_CHOICES:
        raise _refuse("its choices are not an object")
    made: dict[str, Choice] = {}
    for key, value in cast("dict[Any, Any]", plain).items():
        if not isinstance(key, str) or len(key) > _LONGEST:
            raise _refuse("a key of its choices is not a short string")
        made[key] = _read_choice(value)
    return made


def _read_choice(value: Any) -> Choice:
    if isinstance(value, list):
        items = cast("list[Any]", value)
        if len(items) <= _LONGEST and all(type(item) is int for item in items):
            return tuple(items)
    elif type(value) in (bool, int) or (isinstance(value, str) and len(value) <= _LONGEST):
        return cast("Choice", value)
    raise _refuse("a choice is not a number, a string, a truth value or a list of integers")


def _refuse(why: str) -> CompileError:
    return CompileError(
        Diagnostic(
            "TUN0003",
            f"a tuning record cannot be read: {why}",
            help="read a record that Database.export_json wrote",
        )
    )
