"""Fusion: kernels that become one, and what is computed where it is used."""
