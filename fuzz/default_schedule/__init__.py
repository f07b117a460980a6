"""Test default schedules for any machine: schedule, interpret, run."""
