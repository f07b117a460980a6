"""Passes on constants and parameters: bind, fold, prepack and lift them."""
