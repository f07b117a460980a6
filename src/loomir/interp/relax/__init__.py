"""The meaning of graphs."""
