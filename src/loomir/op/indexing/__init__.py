"""Operators that read or write elements at places, by slices or by other tensors."""
