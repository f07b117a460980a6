"""Operators that read or write elements at indices, by slices or by tensors."""
