"""Mixed precision: which operators may compute in 16-bit floats."""
