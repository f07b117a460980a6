"""Families of programs as users write them, each judged by NumPy or Python."""
