"""Quantised graphs: small integers that represent floats."""
