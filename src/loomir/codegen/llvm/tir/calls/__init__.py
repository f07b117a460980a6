"""Calls: of functions of the program, packed functions and C functions."""
