"""Calls of compiled graphs: their functions, their values and the fast entry."""
