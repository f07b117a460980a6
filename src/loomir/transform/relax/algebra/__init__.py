"""Algebra on operators: products reordered, merged and folded into others."""
