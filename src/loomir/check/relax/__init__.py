"""The rules of graphs."""
