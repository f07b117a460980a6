"""How graphs are written."""
