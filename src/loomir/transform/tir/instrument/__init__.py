"""Passes that insert run-time checks: bounds, uninitialised reads, races."""
