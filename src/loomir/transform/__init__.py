"""Passes, one file each, and the pipelines that they form."""

from loomir.support.argument_errors import explain_exported as _explain_exported
from loomir.transform.pipelines import LOWER_CPU, LowerOptions, lower
from loomir.transform.tir.schedule import ScheduleOptions, schedule

__all__ = ["LOWER_CPU", "LowerOptions", "ScheduleOptions", "lower", "schedule"]

globals().update(_explain_exported(globals(), ["lower"]))  # passes do so by themselves
