"""Ranges of expressions: intervals, symbolic intervals and residue classes."""
