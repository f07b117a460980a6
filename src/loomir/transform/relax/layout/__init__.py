"""Layouts: how tensors lie in memory, and reshapes that cost nothing."""
