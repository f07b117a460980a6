"""How loops are written."""
