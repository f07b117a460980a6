"""Graphs on small integers that stand for floats."""
