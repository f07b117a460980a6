"""Tuning: a search among the candidates of the default schedule, and records of what it found."""

from loomir.autoschedule.ir.decision import Decision
from loomir.tuning.choices import list_choices
from loomir.tuning.database import Database
from loomir.tuning.record import Record
from loomir.tuning.result import TaskResult, Trial, TuningResult

__all__ = ["Database", "Decision", "Record", "TaskResult", "Trial", "TuningResult", "list_choices"]
