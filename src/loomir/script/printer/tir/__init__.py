"""Print loop-level functions."""
