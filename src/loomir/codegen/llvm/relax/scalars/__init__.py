"""Scalars of graphs: as 64 bits, and extents computed from shape variables."""
