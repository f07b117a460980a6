"""Parse loop-level functions."""
