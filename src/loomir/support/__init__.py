"""Shared by all layers: dtypes, source positions, diagnostics, configuration."""
