"""Structural information: what it says, its relations, proofs about extents, and derivation."""
