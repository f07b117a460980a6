"""Blocks become loops and statements."""
