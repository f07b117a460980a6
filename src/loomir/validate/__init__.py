"""Schedules held to the programs that they come from, for any machine, without one."""

from loomir.validate.report import FunctionReport, ScheduleDifference, ScheduleReport
from loomir.validate.schedules import validate_schedule

__all__ = ["FunctionReport", "ScheduleDifference", "ScheduleReport", "validate_schedule"]
