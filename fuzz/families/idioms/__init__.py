"""Idioms that code generators match and make single instructions of."""
