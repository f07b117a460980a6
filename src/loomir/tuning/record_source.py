"""Take decisions for the functions of a program from a database, and say which were used."""

from __future__ import annotations

import os
from collections.abc import Set
from typing import cast

from loomir.autoschedule.ir.decision import Decisions
from loomir.support.diagnostics import CompileError, Diagnostic
from loomir.support.runtime_types import show_value
from loomir.target import Target
from loomir.tir.expr import Var
from loomir.tir.function import PrimFunc
from loomir.tuning.database import Database
from loomir.tuning.record import Record, key_of_program, key_of_target, label_of

__all__ = ["RecordSource", "open_records"]


class RecordSource:
    """Takes decisions from the best record of each function, or the default schedule."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._used: dict[str, tuple[str, tuple[Record, Decisions] | None]] = {}

    def find_decisions(
        self, func: PrimFunc, constants: Set[Var], target: Target
    ) -> Decisions | None:
        """Return the decisions of the best record."""
        key = key_of_program(func, constants)
        record = self._database.best(key, key_of_target(target))
        decisions = None if record is None else Decisions(record.choices)
        used = None if record is None or decisions is None else (record, decisions)
        self._used[key] = label_of(func), used
        return decisions

    def describe(self) -> dict[str, str]:
        """Return which schedule each function has; names that occur several times get numbers."""
        made: dict[str, str] = {}
        for label, used in self._used.values():
            name, number = label, 2
            while name in made:
                name, number = f"{label} ({number})", number + 1
            made[name] = "the default schedule: there is no record for it"
            if used is not None:
                fits = "" if not used[1].ignored else "the part that fits of "
                made[name] = f"{fits}a record: {_text(used[0])}"
        return made

    def list_warnings(self) -> list[Diagnostic]:
        """List warnings of records with choices that are no longer candidates."""
        return [
            Diagnostic(
                "TUN0005",
                f"a record for {label} does not fit: {', '.join(used[1].ignored)}",
                notes=(f"Loomir {used[0].version} wrote it",),
                help="tune again; until then, the default schedule decides what does not fit",
                severity="warning",
            )
            for label, used in self._used.values()
            if used is not None and used[1].ignored
        ]


def open_records(database: object) -> RecordSource:
    """Return decisions from a database, or from the file of one.

    Errors: TUN0001, TUN0002, TUN0004 for a file that cannot be read; RUN0012 for another value.
    """
    if isinstance(database, (str, os.PathLike)):
        path = cast("str | os.PathLike[str]", database)
        return RecordSource(Database(path, must_exist=True))
    if isinstance(database, Database):
        return RecordSource(database)
    raise CompileError(
        Diagnostic(
            "RUN0012",
            f"database is {show_value(database)}, not a file or a Database",
            help="give the path of what loomir.tune wrote, or leave it out",
        )
    )


def _text(record: Record) -> str:
    choices = ", ".join(f"{key} = {choice}" for key, choice in record.choices.items())
    return f"{choices or 'nothing else'} ({record.speedup:.2f} times the speed of the default)"
