"""Parse functions of graphs."""
