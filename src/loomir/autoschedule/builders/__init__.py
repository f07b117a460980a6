"""Write scheduled loops: the pieces that all rules are made of."""
