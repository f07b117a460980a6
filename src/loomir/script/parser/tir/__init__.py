"""How functions of loops are read."""
