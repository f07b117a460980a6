"""The native run-time library, as Python loads it: pool, objects, checks, process services."""
