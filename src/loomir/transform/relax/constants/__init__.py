"""Constants and parameters: bound, folded, packed and lifted out of the function."""
