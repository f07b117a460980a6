"""Loops: partitioned, vectorised, unrolled, and freed of what does not change in them."""
