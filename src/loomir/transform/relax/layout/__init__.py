"""Layouts: the order of tensors in memory, and reshapes that need no copy."""
