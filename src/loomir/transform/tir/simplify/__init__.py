"""Simplification: constants folded, statements without effect removed, indices widened."""
