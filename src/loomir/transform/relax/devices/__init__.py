"""Passes on devices: where each tensor lives."""
