"""Passes on loops: partition, vectorise, unroll, and hoist invariants."""
