"""Mixed precision: what may be computed in floats of 16 bits."""
