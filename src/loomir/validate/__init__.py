"""Validate schedules for any machine: interpret them, and compare with the original programs."""

from loomir.validate.report import FunctionReport, ScheduleDifference, ScheduleReport
from loomir.validate.schedules import validate_schedule

__all__ = ["FunctionReport", "ScheduleDifference", "ScheduleReport", "validate_schedule"]
