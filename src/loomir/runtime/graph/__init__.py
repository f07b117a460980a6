"""Calls of compiled graphs: functions, values and the fast entry."""
