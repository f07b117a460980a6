"""The rules of loops."""
