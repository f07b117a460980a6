"""Buffers become memory: where it is allocated, how much of it, and where elements are."""
