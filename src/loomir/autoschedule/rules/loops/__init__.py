"""Loops that cannot be lifted: parallelised or vectorised where that is proved right."""
