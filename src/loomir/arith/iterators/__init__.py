"""Quasi-affine iterators: digits, iterator maps, their inverses and index maps."""
