"""The semantics of graphs."""
