"""Checks that run with the program: bounds, uninitialised reads, races."""
