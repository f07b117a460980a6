"""Compiled programs of families, run by another Python than the one that compiled them."""
