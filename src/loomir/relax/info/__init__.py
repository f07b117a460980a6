"""Structural information: its relations, proofs about extents, and derivation."""
