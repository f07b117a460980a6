"""Transposed convolutions, split by the phases of their stride."""
