"""Simplification: fold constants, remove statements without effect, widen indices."""
