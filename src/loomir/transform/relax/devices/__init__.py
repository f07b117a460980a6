"""Devices: on which each tensor is."""
