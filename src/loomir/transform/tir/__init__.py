"""Passes over loop-level programs, one file each."""
