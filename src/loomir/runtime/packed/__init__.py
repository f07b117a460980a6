"""Calls out of compiled code: packed functions, callbacks and C functions by name."""
