"""The source of schedules other than the default: records of tuning, or choices by hand."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from loomir.autoschedule.ir.decision import Choice, DecisionSource, current_source
from loomir.support.compile_warning import caution
from loomir.support.diagnostics import CompileError
from loomir.support.fork_safe import import_module

if TYPE_CHECKING:
    from loomir.tuning.choices import ChoiceSource
    from loomir.tuning.record_source import RecordSource

__all__ = ["ScheduleSource"]


class ScheduleSource:
    """The source of schedules other than the default: records, or choices by hand."""

    def __init__(
        self, database: object, choices: Mapping[str, Mapping[str, Choice]] | None
    ) -> None:
        self._database, self._choices = database, choices
        self._table: ChoiceSource | None = None
        self._records: RecordSource | None = None

    def open(self) -> DecisionSource | None:
        """Return the source of decisions. Errors: TUN0001, TUN0002, TUN0004, RUN0012."""
        if self._choices is not None:
            by_hand: Any = import_module("loomir.tuning.choices")
            by_hand.check_choices(self._choices)
            self._table = by_hand.ChoiceSource(self._choices)
            return self._table
        if self._database is None or isinstance(self._database, DecisionSource):
            return self._database or current_source()
        records: Any = import_module("loomir.tuning.record_source")  # with SQLite
        self._records = records.open_records(self._database)
        return self._records

    def describe(self) -> Mapping[str, str]:
        """Return each kernel's schedule; warn of records that do not fit. Errors: TUN0006."""
        if self._table is not None and (mistakes := self._table.list_mistakes()):
            raise CompileError.of(mistakes)
        if self._records is None:
            return {}
        caution(self._records.list_warnings())
        return self._records.describe()
