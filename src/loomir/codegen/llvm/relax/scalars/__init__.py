"""Scalars of graphs: their representation in 64 bits, and extents computed from shape variables."""
