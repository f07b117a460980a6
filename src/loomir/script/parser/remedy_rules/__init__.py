"""Rules that write remedies: syntax, loops, calls and values."""
