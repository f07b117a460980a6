"""Passes on graphs."""
