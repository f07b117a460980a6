"""How functions of graphs are read."""
