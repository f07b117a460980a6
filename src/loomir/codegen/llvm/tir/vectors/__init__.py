"""Whole vectors and tiles: dot products, AMX, and builtins on vectors."""
