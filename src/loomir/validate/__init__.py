"""Compare schedules for any machine with the programs that they come from, interpreted."""

from loomir.validate.report import FunctionReport, ScheduleDifference, ScheduleReport
from loomir.validate.schedules import validate_schedule

__all__ = ["FunctionReport", "ScheduleDifference", "ScheduleReport", "validate_schedule"]
