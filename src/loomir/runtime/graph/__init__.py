"""Calls of compiled graphs: their functions, values and the quick way in."""
