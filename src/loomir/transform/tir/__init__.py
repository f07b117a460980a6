"""Passes on loop-level programs, one file each."""
